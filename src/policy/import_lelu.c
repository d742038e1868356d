/* import_lelu.c - converts the auth.yaml of lelu ("the peer") into a document.
 *
 *   roles:         {NAME: {allow: [action], deny: [action]}}
 *   agent_scopes:  {AGENT: {inherits: ROLE, deny: [action], constraints: [{NAME: number}],
 *                           compute: [{action, safe_tool, safe_args}], can_delegate: [...]}}
 *   rules:         [{id, match, decision, reason, safe_tool, safe_args}]
 *
 * In lelu an agent may do the actions of its role, except those in its own `deny`. Then confidence
 * decides: below hard_deny… it is denied, below downgrade… denied with the hint to try reading,
 * below require_human_approval… a person is asked. lelu also has thresholds of its own, 0.9 for a
 * person and 0.7 for reading only, and the stricter value holds; a missing confidence counts as 0.
 * That becomes this gate:
 *
 *   allow_at = require_human_approval…, 0.9 at least
 *   review_at = the higher of the other two, 0.7 at least
 *   missing: deny
 *
 * If a part has no equal here, the document is stricter than the file, never looser. An unknown
 * restriction (of the agent or of its role) turns the agent's allow into a human_review and leaves
 * out its computes. An unclear permission is left out. Comments list all of this. Not taken:
 * delegation, an agent without a role (in lelu it may do everything), the members of roles (in
 * lelu everyone has all roles).
 *
 * Names come from outside. In comments they are written in plain ASCII on one line, elsewhere as
 * quoted YAML, so that they remain names. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/map.h"
#include "policy/document.h"

enum { NAMES_MAX = 2000, BASE_MAX = 48, SHOWN_MAX = 60, SHORT_LIST = 6 };

static const size_t import_bytes_max = (size_t)64 << 20;

/* A value of the file, and the line of the document where its result begins. */
struct origin {
    const struct node *node;
    size_t offset;
};

struct import {
    struct buf *out;
    struct policy_problems *problems;
    struct arena arena;
    const struct node *root;
    struct map ids; /* used already */
    struct origin *origins;
    size_t origins_count, rules, not_taken;
};

/* ---- input ---- */

static bool is_map(const struct node *n) { return n != NULL && n->json.type == JSON_OBJECT; }
static bool is_list(const struct node *n) { return n != NULL && n->json.type == JSON_ARRAY; }
static bool is_text(const struct node *n)
{
    return n != NULL && n->json.type == JSON_STRING && n->json.string.size > 0;
}
static bool is_nothing(const struct node *n) { return n == NULL || n->json.type == JSON_NULL; }

static void complain_of(struct import *im, const struct node *n, const char *what)
{
    check(n != NULL);
    struct place at = {.key = n->json.key};
    if (!n->bad)
        problem_add(im->problems, str_is_absent(at.key) ? NULL : &at, n->line, n->column, "%s",
                    what);
}

/* The member, which must be a map or a list, or absent. */
static const struct node *want(struct import *im, const struct node *map, const char *key,
                               enum json_type type)
{
    const struct node *n = node_get(map, key);
    if (is_nothing(n)) return NULL;
    if (n->json.type == type) return n;
    complain_of(im, n, type == JSON_OBJECT ? "has to be a map" : "has to be a list");
    return NULL;
}

/* A list of names; any other element is a problem. */
static const struct node *want_names(struct import *im, const struct node *map, const char *key)
{
    const struct node *list = want(im, map, key, JSON_ARRAY);
    for (const struct node *n = list == NULL ? NULL : node_first(list); n != NULL; n = node_next(n))
        if (!is_text(n)) complain_of(im, n, "has to be the name of an action");
    return list;
}

static const struct node *node_named(const struct node *map, struct str key)
{
    const struct node *n = is_map(map) ? node_first(map) : NULL;
    while (n != NULL && !str_equal(n->json.key, key)) n = node_next(n);
    return n;
}

static bool has_star(struct str text) { return memchr(text.bytes, '*', text.size) != NULL; }

/* ---- output ---- */

struct shown {
    char text[SHOWN_MAX + 4];
};

/* A name for a comment: each byte that is not plain ASCII becomes a question mark. */
static struct shown show(struct str text)
{
    struct shown s;
    size_t size = text.size < SHOWN_MAX ? text.size : SHOWN_MAX;
    for (size_t i = 0; i < size; i++)
        s.text[i] = text.bytes[i] >= ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
    memcpy(s.text + size, text.size > SHOWN_MAX ? "..." : "", text.size > SHOWN_MAX ? 4 : 1);
    return s;
}

static void __attribute__((format(printf, 2, 3)))
comment(struct import *im, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buf_printf(im->out, "  # %s\n", text);
}

#define not_taken(im, ...) ((im)->not_taken++, comment((im), "NOT TAKEN: " __VA_ARGS__))

/* Words that YAML does not read as strings. */
static bool is_plain(struct str text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (str_equal_ignoring_case(text, str_from(words[i]))) return false;
    char first = text.size > 0 ? text.bytes[0] : '-';
    return str_is_name(text) && ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z'));
}

/* A double-quoted scalar. Bytes beyond ASCII are well-formed UTF-8; line ends of YAML and
 * unprintable characters are escaped. `dollars`: `${` is literal text. */
static void put_quoted(struct buf *out, struct str text, bool dollars)
{
    buf_put_byte(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        struct str rest = str_skip(text, i);
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            buf_printf(out, "\\x%02x", c);
        else if (c == 0xc2 && rest.size > 1 && (unsigned char)rest.bytes[1] < 0xa0)
            buf_printf(out, "\\x%02x", (unsigned char)text.bytes[++i]);
        else if (str_starts(rest, STR("\xe2\x80\xa8")) || str_starts(rest, STR("\xe2\x80\xa9"))) {
            buf_printf(out, "\\u20%02x", (unsigned)(unsigned char)rest.bytes[2] - 0x80);
            i += 2;
        } else if (str_starts(rest, STR("\xef\xbb\xbf"))) {
            buf_put_literal(out, "\\ufeff");
            i += 2;
        } else {
            if (dollars && str_starts(rest, STR("${"))) buf_put_byte(out, '$');
            buf_put_byte(out, text.bytes[i]);
        }
    }
    buf_put_byte(out, '"');
}

static void put_name(struct buf *out, struct str text)
{
    if (is_plain(text))
        buf_put(out, text);
    else
        put_quoted(out, text, false);
}

/* A value in flow form. */
static void put_value(struct buf *out, const struct json *v)
{
    if (v->type == JSON_STRING) {
        put_quoted(out, v->string, true);
        return;
    }
    if (v->type != JSON_ARRAY && v->type != JSON_OBJECT) {
        bool is_long =
            v->type == JSON_NUMBER && fabs(v->number) >= 0x1p64 && fabs(v->number) < 1e21;
        json_put_canonical(out, v);
        if (is_long) buf_put_literal(out, ".0"); /* an integer would exceed 64 bits */
        return;
    }
    buf_put_byte(out, v->type == JSON_ARRAY ? '[' : '{');
    for (const struct json *m = v->child; m != NULL; m = m->next) {
        if (v->type == JSON_OBJECT) {
            put_quoted(out, m->key, false);
            buf_put_literal(out, ": ");
        }
        put_value(out, m);
        if (m->next != NULL) buf_put_literal(out, ", ");
    }
    buf_put_byte(out, v->type == JSON_ARRAY ? ']' : '}');
}

/* The names of `list`, then those of `more`; each once. */
struct names {
    struct str list[NAMES_MAX];
    size_t count;
};

static void names_add(struct import *im, struct names *names, struct str name,
                      const struct node *at)
{
    check(names->count <= NAMES_MAX && name.size > 0);
    for (size_t i = 0; i < names->count; i++)
        if (str_equal(names->list[i], name)) return;
    if (names->count < NAMES_MAX)
        names->list[names->count++] = name;
    else if (im->problems->count == 0)
        complain_of(im, at, "these are too many names");
}

static void names_add_all(struct import *im, struct names *names, const struct node *list)
{
    for (const struct node *n = list == NULL ? NULL : node_first(list); n != NULL; n = node_next(n))
        if (is_text(n)) names_add(im, names, n->json.string, n);
}

static void put_actions(struct import *im, const struct names *names)
{
    check(names->count > 0);
    struct buf *out = im->out;
    bool is_short = names->count <= SHORT_LIST;
    buf_put_literal(out, "    actions:");
    for (size_t i = 0; i < names->count; i++) {
        if (is_short)
            buf_put(out, i == 0 ? STR(" [") : STR(", "));
        else
            buf_put_literal(out, "\n      - ");
        put_name(out, names->list[i]);
    }
    buf_put(out, is_short ? STR("]\n") : STR("\n"));
}

/* An unused id, made of allowed characters. */
static struct str id_new(struct import *im, struct str base, const char *suffix)
{
    char clean[BASE_MAX];
    if (base.size == 0) base = STR("unnamed");
    size_t size = base.size < BASE_MAX ? base.size : BASE_MAX;
    check(size > 0 && size <= BASE_MAX);
    for (size_t i = 0; i < size; i++)
        clean[i] = str_is_name(str_skip(str_of(base.bytes, i + 1), i)) ? base.bytes[i] : '_';
    for (unsigned number = 1;; number++) {
        struct str id =
            number == 1 ? arena_printf(&im->arena, "%.*s%s", (int)size, clean, suffix)
                        : arena_printf(&im->arena, "%.*s%s-%u", (int)size, clean, suffix, number);
        if (str_is_absent(id)) return STR("full");
        if (rule_id_is_reserved(id) || map_get(&im->ids, id) != NULL) continue;
        return map_put(&im->ids, id, im) ? id : STR("full");
    }
}

static void open_rule(struct import *im, struct str id)
{
    check(id.size > 0);
    im->rules++;
    buf_put_literal(im->out, "  - id: ");
    put_name(im->out, id);
    buf_put_byte(im->out, '\n');
}

static void put_selector(struct import *im, const char *selector, struct str name)
{
    buf_printf(im->out, "    %s: [", selector);
    put_name(im->out, name);
    buf_put_literal(im->out, "]\n");
}

static void put_decision(struct import *im, const char *decision)
{
    buf_printf(im->out, "    decision: %s\n", decision);
}

static void note_stars(struct import *im, const struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (has_star(names->list[i])) {
            comment(im,
                    "CHECK: %s is a pattern here; not every version of the peer reads it as one.",
                    show(names->list[i]).text);
            return;
        }
}

/* Unknown members of a map. */
static bool is_known(struct str key, const char *const *known)
{
    for (; *known != NULL; known++)
        if (str_equal(key, str_from(*known))) return true;
    return false;
}

static bool note_unknown(struct import *im, const struct node *map, const char *what,
                         const char *const *known)
{
    bool found = false;
    for (const struct node *n = node_first(map); n != NULL; n = node_next(n)) {
        if (is_known(n->json.key, known)) continue;
        found = true;
        not_taken(im, "%s has a member %s, which is not known here.", what, show(n->json.key).text);
    }
    return found;
}

/* ---- constraints ---- */

struct threshold {
    bool given;
    double at;
};

struct constraints {
    struct threshold human, downgrade, deny, refund;
    bool unclear;
};

static bool read_threshold(const struct node *n, double most, double *ret)
{
    if (n->json.type != JSON_NUMBER || !(n->json.number >= 0 && n->json.number <= most))
        return false;
    *ret = n->json.number;
    return true;
}

static struct threshold *threshold_named(struct constraints *c, struct str key)
{
    if (str_equal(key, STR("require_human_approval_if_confidence_below"))) return &c->human;
    if (str_equal(key, STR("downgrade_to_read_only_if_confidence_below"))) return &c->downgrade;
    if (str_equal(key, STR("hard_deny_if_confidence_below"))) return &c->deny;
    return str_equal(key, STR("max_refund_amount")) ? &c->refund : NULL;
}

static void read_constraint(struct import *im, const struct node *n, struct constraints *c)
{
    struct str key = n->json.key;
    struct threshold *t = threshold_named(c, key);
    bool is_amount = t == &c->refund;
    double number;
    if (t == NULL || !read_threshold(n, is_amount ? 1e12 : 1, &number)) {
        not_taken(im, "the constraint %s is %s; what the agent may do asks a person instead.",
                  show(key).text, t == NULL ? "not known here" : "no number that it can be");
        c->unclear = true;
        return;
    }
    /* If a constraint is given twice, the stricter one holds. */
    check(number >= 0);
    if (!t->given || (is_amount ? number < t->at : number > t->at)) t->at = number;
    t->given = true;
}

/* A list of maps, or one map. */
static struct constraints read_constraints(struct import *im, const struct node *scope)
{
    struct constraints c = {0};
    const struct node *all = node_get(scope, "constraints");
    if (is_nothing(all)) return c;
    if (!is_map(all) && !is_list(all)) {
        complain_of(im, all, "has to be a list of constraints");
        return c;
    }
    const struct node *first = is_map(all) ? all : node_first(all);
    for (const struct node *one = first; one != NULL; one = is_map(all) ? NULL : node_next(one)) {
        if (!is_map(one)) complain_of(im, one, "has to be a constraint and its value");
        for (const struct node *n = is_map(one) ? node_first(one) : NULL; n != NULL;
             n = node_next(n))
            read_constraint(im, n, &c);
    }
    return c;
}

/* The stricter of the file's and the peer's own thresholds holds: a person below 0.9, reading only
 * below 0.7, and a deny without a confidence. */
static void put_gate(struct import *im, const struct constraints *c)
{
    double allow_at = 0.9, review_at = 0.7, ask_below = 0, deny_below = 0; /* ours; the file's */
    if (c->human.given) ask_below = c->human.at;
    if (c->downgrade.given) deny_below = c->downgrade.at;
    if (c->deny.given && c->deny.at > deny_below) deny_below = c->deny.at;
    bool is_looser = ask_below < allow_at || deny_below < review_at;
    if (deny_below > review_at) review_at = deny_below;
    if (ask_below > allow_at) allow_at = ask_below;
    if (review_at > allow_at) allow_at = review_at;
    check(review_at <= allow_at && allow_at <= 1);
    buf_put_literal(im->out, "    confidence: {allow_at: ");
    json_put_number(im->out, allow_at);
    buf_put_literal(im->out, ", review_at: ");
    json_put_number(im->out, review_at);
    buf_put_literal(im->out, ", missing: deny}");
    if (is_looser)
        buf_put_literal(im->out, " # CHECK: the peer's defaults, where they are stricter");
    buf_put_byte(im->out, '\n');
}

/* ---- agents ---- */

static void put_refund_rule(struct import *im, struct str agent, const struct constraints *c)
{
    if (!c->refund.given) return;
    comment(im, "CHECK: the peer does not say which argument the amount is in, nor which actions "
                "are refunds.");
    open_rule(im, id_new(im, agent, "-large-refunds"));
    put_selector(im, "agents", agent);
    buf_put_literal(im->out, "    actions: [\"*refund*\"]\n    when: args.amount > ");
    json_put_number(im->out, c->refund.at);
    buf_put_byte(im->out, '\n');
    put_decision(im, "human_review");
}

static void put_safe_call(struct import *im, const struct node *from)
{
    check(is_text(node_get(from, "safe_tool")));
    const struct node *args = want(im, from, "safe_args", JSON_OBJECT);
    buf_put_literal(im->out, "    compute:\n      tool: ");
    put_name(im->out, node_get(from, "safe_tool")->json.string);
    buf_put_byte(im->out, '\n');
    if (args == NULL) return;
    buf_put_literal(im->out, "      args: ");
    put_value(im->out, &args->json);
    buf_put_byte(im->out, '\n');
}

static void put_agent_compute(struct import *im, struct str agent, const struct node *n,
                              const struct constraints *c)
{
    static const char *const known[] = {"action", "safe_tool", "safe_args", "reason", NULL};
    const struct node *action = node_get(n, "action"), *tool = node_get(n, "safe_tool");
    if (!is_map(n) || !is_text(action) || !is_text(tool)) {
        complain_of(im, n, "has to be a map with action and safe_tool");
        return;
    }
    if (note_unknown(im, n, "a compute", known) || c->unclear) {
        not_taken(im, "the compute of %s, because it may be narrower than it looks.",
                  show(action->json.string).text);
        return;
    }
    struct names names = {.count = 1};
    names.list[0] = action->json.string;
    note_stars(im, &names);
    open_rule(im, id_new(im, agent, "-compute"));
    put_selector(im, "agents", agent);
    put_actions(im, &names);
    put_gate(im, c);
    put_decision(im, "compute");
    put_safe_call(im, n);
}

static void put_agent_denies(struct import *im, struct str agent, const struct node *scope,
                             const struct node *role)
{
    check(agent.size > 0);
    struct names names = {.count = 0};
    names_add_all(im, &names, want_names(im, scope, "deny"));
    if (is_map(role)) names_add_all(im, &names, want_names(im, role, "deny"));
    if (names.count == 0) return;
    open_rule(im, id_new(im, agent, "-deny"));
    put_selector(im, "agents", agent);
    put_actions(im, &names);
    put_decision(im, "deny");
}

static void put_agent_allows(struct import *im, struct str agent, const struct node *scope,
                             const struct node *role, const struct constraints *c)
{
    const struct node *inherits = node_get(scope, "inherits");
    struct names names = {.count = 0};
    if (is_nothing(inherits) ||
        (inherits->json.type == JSON_STRING && inherits->json.string.size == 0)) {
        not_taken(im,
                  "%s inherits no role, and there it may do everything that is not denied; name "
                  "its actions.",
                  show(agent).text);
        return;
    }
    if (!is_text(inherits)) {
        complain_of(im, inherits, "has to be the name of a role");
        return;
    }
    if (!is_map(role)) {
        not_taken(im, "%s inherits %s, which is no role here, so there it may do nothing.",
                  show(agent).text, show(inherits->json.string).text);
        return;
    }
    names_add_all(im, &names, want_names(im, role, "allow"));
    if (names.count == 0) return;
    note_stars(im, &names);
    if (c->downgrade.given)
        not_taken(im, "below %g there is no downgrade to reading here: that is denied.",
                  c->downgrade.at);
    open_rule(im, id_new(im, agent, "-allow"));
    put_selector(im, "agents", agent);
    put_actions(im, &names);
    put_gate(im, c);
    put_decision(im, c->unclear ? "human_review" : "allow");
}

static const char *const role_members[] = {"allow", "deny", "description", NULL};

static void put_agent(struct import *im, const struct node *scope)
{
    static const char *const known[] = {"inherits", "constraints",  "deny",
                                        "compute",  "can_delegate", NULL};
    struct str agent = scope->json.key;
    buf_put_byte(im->out, '\n');
    comment(im, "The agent %s.", show(agent).text);
    if (is_nothing(scope)) {
        not_taken(im, "it says nothing.");
        return;
    }
    if (!is_map(scope)) {
        complain_of(im, scope, "has to be a map");
        return;
    }
    const struct node *inherits = node_get(scope, "inherits"), *roles = node_get(im->root, "roles");
    const struct node *role = is_text(inherits) ? node_named(roles, inherits->json.string) : NULL;
    if (has_star(agent) || agent.size == 0) {
        not_taken(im, "what it may do: here the name would be a pattern for other agents.");
        if (agent.size > 0) put_agent_denies(im, agent, scope, role);
        return;
    }
    struct constraints c = read_constraints(im, scope);
    if (note_unknown(im, scope, "the agent", known)) c.unclear = true;
    if (is_map(role) && note_unknown(im, role, "its role", role_members)) c.unclear = true;
    if (!is_nothing(node_get(scope, "can_delegate")))
        not_taken(im, "can_delegate; mint tokens with a scope for the other agents instead.");
    put_agent_denies(im, agent, scope, role);
    put_refund_rule(im, agent, &c);
    const struct node *computes = want(im, scope, "compute", JSON_ARRAY);
    for (const struct node *n = computes == NULL ? NULL : node_first(computes); n != NULL;
         n = node_next(n))
        put_agent_compute(im, agent, n, &c);
    put_agent_allows(im, agent, scope, role, &c);
}

/* ---- people ---- */

static void put_role_rule(struct import *im, const struct node *role, struct str name,
                          const char *key)
{
    check(is_map(role));
    struct names names = {.count = 0};
    char suffix[16];
    names_add_all(im, &names, want_names(im, role, key));
    if (names.count == 0) return;
    if (strcmp(key, "allow") == 0) note_stars(im, &names);
    snprintf(suffix, sizeof suffix, "-role-%s", key);
    open_rule(im, id_new(im, role->json.key, suffix));
    put_selector(im, "roles", name);
    put_actions(im, &names);
    put_decision(im, key);
}

static void put_role(struct import *im, const struct node *role)
{
    buf_put_byte(im->out, '\n');
    comment(im, "People who are %s.", show(role->json.key).text);
    if (is_nothing(role)) return;
    if (!is_map(role)) {
        complain_of(im, role, "has to be a map with allow and deny");
        return;
    }
    bool unknown = note_unknown(im, role, "the role", role_members);
    struct str name = id_new(im, role->json.key, "");
    if (!str_equal(name, role->json.key)) comment(im, "Here it is called %.*s.", STR_FORMAT(name));
    put_role_rule(im, role, name, "deny");
    if (unknown)
        not_taken(im, "what the role allows, because it may be narrower than it looks.");
    else
        put_role_rule(im, role, name, "allow");
}

/* ---- rules for all ---- */

static void put_rule(struct import *im, const struct node *rule)
{
    static const char *const known[] = {"id",        "match",     "decision", "reason",
                                        "safe_tool", "safe_args", NULL};
    const struct node *match = node_get(rule, "match"), *word = node_get(rule, "decision"),
                      *id = node_get(rule, "id"), *reason = node_get(rule, "reason");
    enum verdict verdict;
    buf_put_byte(im->out, '\n');
    if (!is_map(rule) || !is_text(match) || !is_text(word) ||
        !verdict_read(word->json.string, &verdict)) {
        complain_of(
            im, rule,
            "has to be a map with match and a decision (allow, compute, human_review, deny)");
        return;
    }
    bool permits = verdict == VERDICT_ALLOW || verdict == VERDICT_COMPUTE;
    if (note_unknown(im, rule, "the next rule", known) && permits) {
        not_taken(im, "the rule for %s, because it may be narrower than it looks.",
                  show(match->json.string).text);
        return;
    }
    if (verdict == VERDICT_COMPUTE && !is_text(node_get(rule, "safe_tool"))) {
        complain_of(im, rule, "is a compute without a safe_tool");
        return;
    }
    struct names names = {.count = 1};
    names.list[0] = match->json.string;
    if (permits) note_stars(im, &names);
    open_rule(im, id_new(im, is_text(id) ? id->json.string : match->json.string,
                         is_text(id) ? "" : "-rule"));
    if (permits) buf_put_literal(im->out, "    agents: [\"*\"]\n");
    put_actions(im, &names);
    if (permits) put_gate(im, &(struct constraints){0});
    put_decision(im, verdict_name(verdict));
    if (is_text(reason)) {
        buf_put_literal(im->out, "    reason: ");
        put_quoted(im->out, reason->json.string, false);
        buf_put_byte(im->out, '\n');
    }
    if (verdict == VERDICT_COMPUTE) put_safe_call(im, rule);
}

/* ---- the whole ---- */

static void put_head(struct import *im)
{
    buf_put_literal(im->out, "# Made from lelu's auth.yaml. Read the lines with NOT TAKEN and "
                             "CHECK, give it tests, and look at\n"
                             "# `writ policy check`. Here the strictest vote wins and what no rule "
                             "allows is denied, whatever the\n"
                             "# order. What the peer does beside the file (risk scores, rate "
                             "limits, its detectors) is not here.\n"
                             "description: Imported from lelu's auth.yaml\n");
}

static void put_role_hint(struct import *im, const struct node *roles)
{
    if (roles == NULL || roles->json.count == 0) return;
    im->not_taken++;
    buf_put_literal(
        im->out,
        "# NOT TAKEN: the members of roles; the file does not have them, and the "
        "peer gives everyone the\n"
        "# rights of all roles. Until they are named, the rules by role apply to no person:\n"
        "# roles: {some_role: [carol, \"*@finance.example\"]}\n");
}

static void put_each(struct import *im, const struct node *all,
                     void (*put)(struct import *im, const struct node *one))
{
    check(im->origins != NULL);
    for (const struct node *n = all == NULL ? NULL : node_first(all); n != NULL; n = node_next(n)) {
        im->origins[im->origins_count++] = (struct origin){.node = n, .offset = im->out->size};
        put(im, n);
    }
}

static size_t count_of(const struct node *all) { return all == NULL ? 0 : all->json.count; }

static void put_document(struct import *im)
{
    static const char *const known[] = {"version", "roles", "agent_scopes", "rules", NULL};
    const struct node *roles = want(im, im->root, "roles", JSON_OBJECT);
    const struct node *scopes = want(im, im->root, "agent_scopes", JSON_OBJECT);
    const struct node *rules = want(im, im->root, "rules", JSON_ARRAY);
    size_t count = count_of(roles) + count_of(scopes) + count_of(rules);
    im->origins = arena_array(&im->arena, struct origin, count + 1);
    if (im->origins == NULL) return;
    put_head(im);
    put_role_hint(im, roles);
    buf_put_literal(im->out, "rules:\n");
    note_unknown(im, im->root, "the file", known);
    put_each(im, rules, put_rule);
    put_each(im, scopes, put_agent);
    put_each(im, roles, put_role);
    check(im->origins_count == count);
    if (im->rules == 0 && im->problems->count == 0)
        problem_add(im->problems, NULL, 1, 1,
                    "there is nothing in it that could become a rule (roles, agent_scopes, rules)");
}

/* The value of the file that this line of the document was made of, or NULL. */
static const struct node *origin_of(const struct import *im, unsigned line)
{
    const struct node *found = NULL;
    struct str text = buf_view(im->out);
    size_t end = 0; /* of the line */
    for (unsigned at = 0; at < line && end < text.size; at++)
        while (end < text.size && text.bytes[end++] != '\n') continue;
    for (size_t i = 0; i < im->origins_count && im->origins[i].offset < end; i++)
        found = im->origins[i].node;
    return found;
}

/* The result must be a valid document: names may be too long, or too many. Problems have a
 * position in the file, because the invalid document is not printed. */
static enum err check_result(struct import *im)
{
    check(im->problems->count == 0);
    struct policy_problems wrong;
    struct policy_document *d = NULL;
    enum err e = policy_load(STR("imported"), buf_view(im->out), &d, &wrong);
    policy_document_release(d);
    for (size_t i = 0; e == ERR_INVALID_POLICY && i < wrong.count; i++) {
        const struct node *n = origin_of(im, wrong.list[i].line);
        bool has_key = n != NULL && n->key_line > 0;
        problem_add(im->problems, NULL,
                    n == NULL ? 0
                    : has_key ? n->key_line
                              : n->line,
                    n == NULL ? 0
                    : has_key ? n->key_column
                              : n->column,
                    "the converted document is not valid: %s", wrong.list[i].message);
    }
    return e;
}

static enum err import(struct import *im, struct str text)
{
    im->root = node_read(text, &im->arena, im->problems);
    if (im->root != NULL && !is_map(im->root))
        problem_add(im->problems, NULL, 1, 1, "has to be a map with roles and agent_scopes");
    if (im->arena.overflow) return ERR_FULL;
    if (im->problems->count > 0) return ERR_INVALID_POLICY;
    put_document(im);
    if (im->problems->count > 0) return ERR_INVALID_POLICY;
    if (im->out->overflow || im->arena.overflow) return ERR_FULL;
    return check_result(im);
}

enum err policy_import_lelu(struct str text, struct buf *out, struct policy_import *ret,
                            struct policy_problems *problems)
{
    struct import im = {.out = out, .problems = problems};
    *problems = (struct policy_problems){0};
    arena_init(&im.arena, 64 << 10, import_bytes_max);
    enum err e = import(&im, text);
    problems_sort(problems);
    if (e == ERR_OK) *ret = (struct policy_import){.rules = im.rules, .not_taken = im.not_taken};
    map_fini(&im.ids);
    arena_fini(&im.arena);
    return e;
}
