/* sim_masks.c - whether any text carries what a mask covers, tried on random policies and requests.
 *
 *   sim_masks [--count N] [--seed S]
 *
 * Each round makes a tenant of one or two documents: masks, and rules whose conditions, safe
 * arguments and sums are random expressions over all of the language. Then it makes a request in
 * which every value that a mask covers holds a block, and no other value does. Which values those are
 * is found by a plain comparison of paths that shares no code with the evaluator. The request is
 * decided and explained, and no text that comes out may have a block: not the reason, not a line of
 * the explanation, not what is over a limit, not the recorded arguments, not the masked values.
 *
 * A failure prints the tenant, the request, and the seed that repeats them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/world.h"
#include "policy/policy.h"

/* ---- chance: splitmix64 (Steele, Lea, Flood 2014) ---- */

static uint64_t state;

static uint64_t roll(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static size_t below(size_t bound) { return (size_t)(roll() % bound); }
static bool percent(unsigned chance) { return below(100) < chance; }
#define PICK(list) list[below(sizeof(list) / sizeof *(list))]

/* ---- names, and which are one ---- */

enum { NONE, ANY, DEEP }; /* of a mask's segments; other numbers are a name's */

struct word {
    const char *text;
    unsigned number; /* the same for all spellings of a name */
};

/* The first few are asked for most, so that masks, requests and expressions meet. */
enum { COMMON = 5 };
static const struct word words[] = {
    {"card", 10},   {"limits", 11},   {"m", 13},      {"x", 14},       {"list", 12},
    {"Card", 10},   {"CARD", 10},     {"Limits", 11}, {"M", 13},       {"0", 15},
    {"00", 15},     {"1", 16},        {"text", 17},   {"Text", 17},    {"max", 18},
    {"straße", 19}, {"STRASSE", 19},  {"secret", 20}, {"ｓecret", 20}, {"sec\u200Bret", 20},
    {"a", 21},      {"a\u0301b", 22}, {"\u00E1B", 22}};
static const struct word resource_words[] = {
    {"type", 30}, {"id", 31}, {"ID", 31}, {"properties", 32}, {"Properties", 32}};

static size_t word_pick(void) { return below(percent(55) ? COMMON : sizeof words / sizeof *words); }

static unsigned number_of(const char *text)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].text, text) == 0) return words[i].number;
    return NONE;
}

/* ---- masks ---- */

enum { ARGS, CONTEXT, RESOURCE, ROOTS, SEGMENTS = 5, MASKS = 8, DEPTH = 5 };
static const char *const roots[] = {"args", "context", "resource"};

struct mask {
    unsigned root, count;
    unsigned segments[SEGMENTS];
};

static struct mask masks[MASKS];
static size_t mask_count;

static void put_mask(struct buf *out)
{
    struct mask *m = &masks[mask_count++];
    *m = (struct mask){.root = (unsigned)below(percent(60) ? 1 : ROOTS)};
    unsigned count = percent(4) ? 0 : 1 + (unsigned)below(3);
    buf_printf(out, "\"%s", roots[m->root]);
    while (m->count < count) {
        bool last = m->count + 1 == count,
             was_deep = m->count > 0 && m->segments[m->count - 1] == DEEP;
        unsigned number = ANY;
        if (percent(14)) {
            buf_put_literal(out, ".*");
        } else if (!last && !was_deep && percent(25)) {
            number = DEEP;
            buf_put_literal(out, ".**");
        } else {
            bool of_resource = m->root == RESOURCE && m->count == 0;
            struct word w = of_resource ? PICK(resource_words) : words[word_pick()];
            number = w.number;
            buf_printf(out, ".%s", w.text);
        }
        m->segments[m->count++] = number;
    }
    buf_put_byte(out, '"');
}

static bool matches(const unsigned *mask, size_t masks_left, const unsigned *path, size_t left)
{
    if (masks_left == 0) return left == 0;
    if (mask[0] == DEEP) {
        for (size_t i = 0; i <= left; i++)
            if (matches(mask + 1, masks_left - 1, path + i, left - i)) return true;
        return false;
    }
    if (left == 0 || (mask[0] != ANY && mask[0] != path[0])) return false;
    return matches(mask + 1, masks_left - 1, path + 1, left - 1);
}

/* Whether the value at this path is masked by itself. */
static bool is_covered(unsigned root, const unsigned *path, size_t count)
{
    for (size_t i = 0; i < mask_count; i++)
        if (masks[i].root == root && matches(masks[i].segments, masks[i].count, path, count))
            return true;
    return false;
}

/* ---- requests ---- */

static const char *const plain_values[] = {"\"card\"",  "\"m\"",      "\"x\"",
                                           "\"list\"",  "\"0\"",      "\"5\"",
                                           "\"1h\"",    "\"/srv/a\"", "\"10.0.0.1\"",
                                           "\"\"",      "true",       "null",
                                           "0",         "1",          "2.5",
                                           "\"a,b c\"", "\"straße\"", "\"2026-01-02T03:04:05Z\""};
/* All have one of the blocks. */
static const char *const secret_values[] = {"\"ЖЖЖ\"",
                                            "\"Ж7777\"",
                                            "7777",
                                            "7777.25",
                                            "\"7777\"",
                                            "\"/srv/../Ж\"",
                                            "\"/etc/Ж\"",
                                            "-7777",
                                            "77770000",
                                            "\"10.0.0.7777\"",
                                            "\"7777Жh\"",
                                            "\"Ж(\"",
                                            "\"7777-01-02T03:04:05Z\"",
                                            "\"%Жd\""};
static const char *const blocks[] = {"Ж", "7777", "0JbQ", "\\xd0\\x96", "\\320\\226", "\\u0416"};

static void put_secret(struct buf *out, unsigned depth)
{
    if (depth == 0 || percent(70)) {
        buf_put(out, str_from(PICK(secret_values)));
    } else if (percent(50)) {
        buf_put_byte(out, '[');
        put_secret(out, depth - 1);
        buf_put_byte(out, ']');
    } else {
        buf_put_literal(out, "{\"Жkey\":");
        put_secret(out, depth - 1);
        buf_put_byte(out, '}');
    }
}

static uint64_t secrets_made;

/* The value at path[0..count). */
static void put_value(struct buf *out, unsigned root, unsigned *path, size_t count)
{
    if (is_covered(root, path, count)) {
        secrets_made++;
        put_secret(out, 2);
        return;
    }
    if (count + 1 >= DEPTH || percent(count == 0 ? 0 : 35)) {
        buf_put(out, str_from(PICK(plain_values)));
        return;
    }
    bool is_list = count > 0 && percent(25);
    size_t members = 1 + below(count == 0 ? 14 : 3);
    bool used[sizeof words / sizeof *words] = {false}, first = true;
    buf_put_byte(out, is_list ? '[' : '{');
    for (size_t i = 0; i < members; i++) {
        size_t w = word_pick();
        if (!is_list && used[w]) continue;
        used[w] = true;
        if (!first) buf_put_byte(out, ',');
        first = false;
        if (!is_list) buf_printf(out, "\"%s\":", words[w].text);
        char digits[2] = {(char)('0' + i), '\0'};
        path[count] = is_list ? number_of(digits) : words[w].number;
        put_value(out, root, path, count + 1);
    }
    buf_put_byte(out, is_list ? ']' : '}');
}

/* A text in the place of something that may be covered. */
static void put_text_at(struct buf *out, unsigned root, unsigned number, const char *plain)
{
    bool covered = is_covered(root, &number, 1);
    secrets_made += covered;
    buf_put(out, str_from(covered ? "Ж7777" : plain));
}

static void put_context(struct buf *out)
{
    unsigned path[DEPTH] = {0}, text = number_of("text");
    if (percent(70) || is_covered(CONTEXT, path, 0)) {
        if (is_covered(CONTEXT, path, 0))
            buf_put_literal(out, "{\"Жkey\":\"Ж\"}");
        else
            put_value(out, CONTEXT, path, 0);
        return;
    }
    buf_put_byte(out, '"');
    put_text_at(out, CONTEXT, text, "plain");
    buf_put_byte(out, '"');
}

static void put_resource(struct buf *out)
{
    unsigned path[DEPTH] = {32};
    bool whole = is_covered(RESOURCE, path, 0);
    if (whole) {
        buf_put_literal(out, "{\"type\":\"Ж\",\"id\":\"7777\",\"properties\":{\"Ж\":1}}");
        return;
    }
    buf_put_literal(out, "{\"type\":\"");
    put_text_at(out, RESOURCE, 30, "db");
    buf_put_literal(out, "\",\"id\":\"");
    put_text_at(out, RESOURCE, 31, "main");
    buf_put_literal(out, "\",\"properties\":");
    if (is_covered(RESOURCE, path, 1))
        buf_put_literal(out, "{\"Ж\":7777}");
    else
        put_value(out, RESOURCE, path, 1);
    buf_put_byte(out, '}');
}

/* ---- expressions: dyn everywhere, so that most of them compile ---- */

static const char *const locals[] = {"v", "w", "u"};
static size_t local_count;
static uint64_t has_written;

static void put_any(struct buf *out, unsigned depth);
static void put_bool(struct buf *out, unsigned depth);

static void put_step(struct buf *out, unsigned depth)
{
    static const char *const fields[] = {"card", "Card",   "limits", "m",    "x",
                                         "max",  "secret", "text",   "list", "a"};
    if (depth > 0 && percent(30)) {
        buf_put_byte(out, '[');
        put_any(out, depth - 1);
        buf_put_byte(out, ']');
    } else if (percent(15)) {
        buf_printf(out, "['%s']", words[word_pick()].text);
    } else if (depth > 0 && percent(15)) {
        buf_printf(out, percent(50) ? "[dyn(%zu)]" : ".list[%zu]", below(3));
    } else {
        buf_printf(out, ".%s", PICK(fields));
    }
}

static void put_path(struct buf *out, unsigned depth)
{
    static const char *const begins[] = {"args",
                                         "args",
                                         "args",
                                         "args",
                                         "args.card",
                                         "args.limits",
                                         "args.m",
                                         "context",
                                         "context.text",
                                         "resource",
                                         "resource.properties",
                                         "resource.id",
                                         "resource.type",
                                         "request",
                                         "request.args",
                                         "request.args.card",
                                         "request.context",
                                         "request.resource",
                                         "request['args']",
                                         "[args][0]",
                                         "{'k': args}.k",
                                         "(true ? args : context)",
                                         "args.list[0]"};
    if (local_count > 0 && percent(35))
        buf_put(out, str_from(locals[below(local_count)]));
    else
        buf_put(out, str_from(PICK(begins)));
    for (size_t i = percent(40) ? 0 : below(4); i > 0; i--) put_step(out, depth);
}

/* In a form `%` is an expression, `&` alone a condition, `$` a path; `@` is the name of the next variable,
 * which is in force from `~` on. */
static void put_form(struct buf *out, const char *form, unsigned depth)
{
    size_t before = local_count;
    for (const char *c = form; *c != '\0'; c++) {
        switch (*c) {
        case '%': put_any(out, depth); break;
        case '&':
            if (c[1] == '&')
                buf_put(out, str_of(c++, 2));
            else
                put_bool(out, depth);
            break;
        case '$': put_path(out, depth); break;
        case '@': buf_put(out, str_from(locals[local_count])); break;
        case '~': local_count++; break;
        default: buf_put_byte(out, *c);
        }
    }
    local_count = before;
}

static bool has_room_for(const char *form)
{
    return strchr(form, '@') == NULL || local_count + 2 <= sizeof locals / sizeof *locals;
}

static void put_any(struct buf *out, unsigned depth)
{
    static const char *const leaves[] = {"$",           "$",          "$",           "$",
                                         "dyn('card')", "dyn('a,b')", "dyn('/srv')", "dyn(1)",
                                         "dyn(2.5)",    "action"};
    static const char *const forms[] = {"dyn(int(%))",
                                        "dyn(uint(%))",
                                        "dyn(double(%))",
                                        "dyn(string(%))",
                                        "dyn(bool(%))",
                                        "dyn(bytes(%))",
                                        "dyn(duration(%))",
                                        "dyn(timestamp(%))",
                                        "dyn(size(%))",
                                        "dyn(type(%))",
                                        "(% + %)",
                                        "(% - %)",
                                        "(% * %)",
                                        "(% / %)",
                                        "-%",
                                        "dyn([%, %])",
                                        "dyn([%, %])[%]",
                                        "dyn({'card': %, 'k': %})[%]",
                                        "dyn({%: 1})",
                                        "dyn({'k': %}).k",
                                        "(& ? % : %)",
                                        "dyn(path_under('/srv', %))",
                                        "dyn(path_under(%, %))",
                                        "dyn(%.substring(1))",
                                        "dyn(%.charAt(%))",
                                        "dyn(%.charAt(0))",
                                        "dyn(%.split(','))",
                                        "dyn(%.join('-'))",
                                        "dyn(%.lowerAscii())",
                                        "dyn(%.replace(%, %))",
                                        "dyn('%d %s'.format([%, %]))",
                                        "dyn(%.format([%]))",
                                        "math.greatest(%, %)",
                                        "math.least(%, %)",
                                        "dyn(math.abs(%))",
                                        "dyn(math.bitAnd(%, 7))",
                                        "dyn(strings.quote(%))",
                                        "dyn(%.reverse())",
                                        "dyn(%.indexOf(%))",
                                        "dyn(%.getHours())",
                                        "dyn(timestamp(%).getFullYear(%))",
                                        "dyn(cidr(%))",
                                        "dyn(&)",
                                        "dyn($.map(@~, %))",
                                        "dyn($.filter(@~, &))",
                                        "dyn(%.map(@~, &, %))",
                                        "dyn($.transformList(@~, @~, %))",
                                        "dyn($.transformMap(@~, @~, %))",
                                        "cel.bind(@, %~, %)",
                                        "cel.bind(@, $~, %)"};
    const char *form = depth == 0 || percent(35) ? PICK(leaves) : PICK(forms);
    put_form(out, has_room_for(form) ? form : "$", depth == 0 ? 0 : depth - 1);
}

static void put_bool(struct buf *out, unsigned depth)
{
    static const char *const leaves[] = {"$ == 'card'",  "$ > 1",   "$ != null", "'r' in roles",
                                         "'s' in roles", "true",    "false",     "has($.max)",
                                         "has($.card)",  "has($.x)"};
    static const char *const forms[] = {"(% == %)",
                                        "(% != %)",
                                        "(% < %)",
                                        "(% >= %)",
                                        "% in %",
                                        "(& && &)",
                                        "(& || &)",
                                        "(& && & && &)",
                                        "(& || & || &)",
                                        "!(&)",
                                        "(& ? & : &)",
                                        "has($.max)",
                                        "has($.card)",
                                        "has($[%].max)",
                                        "has(args.limits[%].max)",
                                        "has(args[%].x)",
                                        "has(dyn({'card': %})[%].max)",
                                        "(has($[%].card) && &)",
                                        "(!has($.m) || &)",
                                        "(has($[%].x) == &)",
                                        "%.startsWith(%)",
                                        "%.contains('a')",
                                        "%.matches('^a+$')",
                                        "%.matches(%)",
                                        "%.glob(%)",
                                        "%.cidr('10.0.0.0/8')",
                                        "%.endsWith(%)",
                                        "cidr(%).containsIP(%)",
                                        "$.all(@~, &)",
                                        "$.exists(@~, &)",
                                        "$.exists_one(@~, &)",
                                        "$.all(@~, @~, &)",
                                        "$.exists(@~, @~, &)",
                                        "%.exists(@~, &)",
                                        "dyn([%]).exists(@~, &)",
                                        "cel.bind(@, %~, &)",
                                        "cel.bind(@, $~, &)",
                                        "bool(%)",
                                        "math.isNaN(%)"};
    const char *form = depth == 0 || percent(15) ? PICK(leaves) : PICK(forms);
    has_written += strstr(form, "has(") != NULL;
    put_form(out, has_room_for(form) ? form : "& && true", depth == 0 ? 0 : depth - 1);
}

/* ---- documents ---- */

static const char *const decisions[] = {"deny",    "human_review", "compute",
                                        "compute", "allow",        "allow"};

static void put_rule(struct buf *out, size_t number, bool is_safe)
{
    const char *decision = is_safe ? "deny" : PICK(decisions);
    buf_printf(out, "  - {id: r%zu, actions: [%s], decision: %s, agents: [bot], users: [bot]",
               number, is_safe ? "safe" : "do", decision);
    if (percent(20)) buf_printf(out, ", resources: [\"%s\"]", percent(50) ? "db:*" : "db:main");
    if (percent(80)) {
        buf_put_literal(out, ", when: \"");
        put_bool(out, 3);
        buf_put_byte(out, '"');
    }
    if (strcmp(decision, "compute") == 0) {
        unsigned depth = percent(50) ? 0 : 2;
        buf_put_literal(out, ", compute: {tool: safe, args: {a: \"${");
        put_any(out, depth);
        buf_put_literal(out, "}\", card: \"x ${");
        put_any(out, depth / 2);
        buf_put_literal(out, "}\", m: [1, \"${");
        put_bool(out, depth);
        buf_put_literal(out, "}\"]}}");
    }
    if (strcmp(decision, "deny") != 0 && percent(30)) {
        buf_printf(out, ", limit: {window: 1h, max: 5, over: %s, sum: \"",
                   percent(50) ? "deny" : "human_review");
        put_any(out, 2);
        buf_put_literal(out, "\"}");
    }
    if (percent(10)) buf_put_literal(out, ", confidence: {allow_at: 0.9, review_at: 0.5}");
    buf_put_literal(out, "}\n");
}

static void put_document(struct buf *out)
{
    if (percent(20)) buf_put_literal(out, "mode: shadow\n");
    buf_put_literal(out, "roles: {r: [bot], s: [BOT]}\nmask: [");
    for (size_t i = 1 + below(MASKS / 2); i > 0; i--) {
        put_mask(out);
        if (i > 1) buf_put_literal(out, ", ");
    }
    buf_put_literal(out, "]\nrules:\n");
    for (size_t i = 0, rules = 1 + below(3); i < rules; i++) put_rule(out, i, i > 0 && percent(20));
}

/* ---- looking ---- */

static uint64_t round_seed, refused, texts_seen, masked_told, failures_told, keys_told, verdicts[4];
static struct arena arena;
static char document_texts[2][64 << 10];
static char request_text[32 << 10];

static void fail(const char *where, struct str text, const char *block)
{
    fprintf(stderr, "--- document a\n%s--- document b\n%s--- request\n%s\n", document_texts[0],
            document_texts[1], request_text);
    fprintf(stderr, "FAIL %s carries \"%s\": %.*s\nrepeat with --seed %llu --count 1\n", where,
            block, STR_FORMAT(text), (unsigned long long)round_seed);
    exit(1);
}

static bool has(struct str text, const char *word)
{
    return memmem(text.bytes, text.size, word, strlen(word)) != NULL;
}

static void look(const char *where, struct str text)
{
    if (str_is_absent(text)) return;
    texts_seen++;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (has(text, blocks[i])) fail(where, text, blocks[i]);
    masked_told += has(text, "[masked]");
    failures_told += has(text, "cannot be evaluated");
    keys_told += has(text, "no such key");
}

static void look_at_tree(const char *where, const struct json *tree)
{
    static char bytes[64 << 10];
    struct buf out = buf_over(bytes, sizeof bytes);
    if (tree == NULL) return;
    json_put_canonical(&out, tree);
    if (!out.overflow) look(where, buf_view(&out));
}

static void on_considered(void *context, const struct policy_considered *c)
{
    (void)context;
    look("an explanation", c->why);
}

static void on_nearest(void *context, const struct policy_nearest *n)
{
    (void)context;
    for (size_t i = 0; i < n->lack_count; i++) look("what is lacking", n->lacks[i]);
    for (size_t i = 0; i < n->against_count; i++) look("what is against it", n->against[i]);
}

static void look_at_outcome(const struct policy_set *set, const struct policy_outcome *o)
{
    look("a reason", o->reason);
    look("a rule", str_from(o->rule));
    look("what shadow documents would do", str_from(o->would_have_rule));
    if (o->told_args != NULL)
        look_at_tree("safe arguments", policy_masked_copy(set, STR("args"), o->told_args, &arena));
    for (size_t i = 0; i < o->limit_count; i++) {
        struct policy_outcome over = *o;
        policy_over_limit(&o->limits[i], &arena, &over);
        look("what is over a limit", over.reason);
    }
}

/* ---- rounds ---- */

/* False: an expression of it does not compile. */
static bool tenant_make(struct policy_set **ret)
{
    struct policy_set_entry entries[2] = {{0}};
    static const char *const names[] = {"a", "b"};
    size_t count = 1 + below(2), loaded = 0;
    mask_count = 0;
    document_texts[1][0] = '\0';
    for (size_t i = 0; i < count; i++) {
        struct buf out = buf_over(document_texts[i], sizeof document_texts[i] - 1);
        struct policy_problems problems;
        put_document(&out);
        document_texts[i][out.size] = '\0';
        if (out.overflow || policy_load(str_from(names[i]), buf_view(&out), &entries[i].document,
                                        &problems) != ERR_OK)
            break;
        entries[i].version = 1;
        loaded++;
    }
    bool good = loaded == count && policy_set_create(entries, count, ret, NULL) == ERR_OK;
    for (size_t i = 0; i < loaded; i++) policy_document_release(entries[i].document);
    return good;
}

static void request_make(struct policy_request *q, struct json **ret_whole)
{
    struct fault f;
    unsigned path[DEPTH] = {0};
    struct buf out = buf_over(request_text, sizeof request_text - 1);
    buf_put_literal(&out, "{\"args\":");
    if (is_covered(ARGS, path, 0))
        buf_put_literal(&out, "{\"card\":\"Ж\",\"limits\":{\"Ж\":7777}}");
    else
        put_value(&out, ARGS, path, 0);
    buf_put_literal(&out, ",\"context\":");
    put_context(&out);
    buf_put_literal(&out, ",\"resource\":");
    put_resource(&out);
    buf_put_byte(&out, '}');
    request_text[out.size] = '\0';
    if (out.overflow ||
        json_read(buf_view(&out), &(struct json_options){0}, &arena, ret_whole, &f) != ERR_OK) {
        fprintf(stderr, "FAIL the request cannot be read: %s\n", request_text);
        exit(1);
    }
    bool person = percent(25);
    *q = (struct policy_request){.kind = person ? SUBJECT_USER : SUBJECT_AGENT,
                                 .tenant = STR("t"),
                                 .action = STR("do"),
                                 .args = json_get(*ret_whole, STR("args")),
                                 .context = json_get(*ret_whole, STR("context")),
                                 .now_ms = 1795000000000,
                                 .dry_run = percent(30)};
    *(person ? &q->user : &q->actor) = STR("bot");
    if (!policy_name_resource(q, json_get(*ret_whole, STR("resource")), &arena)) exit(1);
}

static void try_request(const struct policy_set *set)
{
    static const struct policy_explain explain = {.considered = on_considered,
                                                  .nearest = on_nearest};
    struct policy_request q;
    struct policy_outcome o;
    struct json *whole;
    request_make(&q, &whole);
    policy_evaluate(set, &q, &arena, NULL, &o);
    verdicts[o.verdict]++;
    look_at_outcome(set, &o);
    policy_evaluate(set, &q, &arena, &explain, &o);
    look_at_outcome(set, &o);
    for (size_t i = 0; i < ROOTS; i++) {
        struct str root = str_from(roots[i]);
        bool found = policy_masks_in(set, root, json_get(whole, root));
        struct json *tree = json_get(whole, root);
        policy_mask(set, root, tree);
        look_at_tree("a masked value", tree);
        if (!found && policy_masks_in(set, root, tree)) fail("looking alone", root, "nothing");
    }
}

int main(int argc, char **argv)
{
    enum { REQUESTS = 2 };
    uint64_t count = 1500, seed = world_now_ms();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("sim_masks: seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    arena_init(&arena, 256 << 10, 64 << 20);
    uint64_t done = 0;
    for (uint64_t round = 0; done < count; round++) {
        struct policy_set *set;
        round_seed = seed + round;
        state = round_seed * 0xD1342543DE82EF95u;
        arena_reset(&arena);
        if (!tenant_make(&set)) {
            refused++;
            if (count == 1) break;
            continue;
        }
        for (size_t i = 0; i < REQUESTS; i++) try_request(set);
        policy_set_destroy(set);
        done++;
    }
    arena_fini(&arena);
    printf(
        "%llu policies, %llu requests; refused %llu; deny %llu, human_review %llu, compute %llu, allow %llu; "
        "has() written %llu; values under a mask %llu; texts %llu, with [masked] %llu, of failures %llu, "
        "of keys that are not there %llu\n",
        (unsigned long long)done, (unsigned long long)done * REQUESTS, (unsigned long long)refused,
        (unsigned long long)verdicts[VERDICT_DENY],
        (unsigned long long)verdicts[VERDICT_HUMAN_REVIEW],
        (unsigned long long)verdicts[VERDICT_COMPUTE], (unsigned long long)verdicts[VERDICT_ALLOW],
        (unsigned long long)has_written, (unsigned long long)secrets_made,
        (unsigned long long)texts_seen, (unsigned long long)masked_told,
        (unsigned long long)failures_told, (unsigned long long)keys_told);
    bool all = verdicts[0] && verdicts[1] && verdicts[2] && verdicts[3] && has_written &&
               secrets_made && masked_told && failures_told && keys_told;
    if (count >= 1500 && (!all || refused > done * 3)) {
        printf("FAIL: something was hardly tried\n");
        return 1;
    }
    printf("%llu passed, 0 failed\n", (unsigned long long)done);
    return 0;
}
