/* read_rule.c - reads one rule: its selectors, its decision and the members of the decision. */
#include "policy/reader.h"

#include "base/check.h"
#include "base/map.h"
#include "policy/condition.h"

static const char *const rule_keys[] = {"id",         "agents",   "users",  "roles",  "actions",
                                        "resources",  "decision", "reason", "review", "compute",
                                        "confidence", "when",     "limit"};

static const enum verdict word_verdicts[4] = {VERDICT_ALLOW, VERDICT_COMPUTE, VERDICT_HUMAN_REVIEW,
                                              VERDICT_DENY};

bool verdict_read(struct str name, enum verdict *ret)
{
    for (size_t i = 0; i < COUNT_OF(verdict_words); i++) {
        if (!str_equal(name, str_from(verdict_words[i]))) continue;
        *ret = word_verdicts[i];
        return true;
    }
    return false;
}

bool rule_id_is_reserved(struct str id)
{
    static const char *const words[] = {"pending",  "approved", "denied", "expired", "cancelled",
                                        "redeemed", "binding",  "record", "uses",    "scope"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_equal(id, str_from(words[i]))) return true;
    return false;
}

static void read_id(struct reader *r, const struct value *map, struct rule *rule)
{
    struct value v = value_member(map, "id");
    if (!reader_require(r, map, &v) || !want_name(r, &v, RULE_ID_MAX, &rule->id)) return;
    if (rule_id_is_reserved(rule->id))
        reader_complain(r, &v, "\"%s\" is a word of the service's own answers; choose another id",
                        rule->id.bytes);
}

static bool read_decision(struct reader *r, const struct value *map, struct rule *rule)
{
    struct value v = value_member(map, "decision");
    size_t word;
    if (!reader_require(r, map, &v) ||
        !want_word(r, &v, verdict_words, COUNT_OF(verdict_words), &word))
        return false;
    rule->decision = word_verdicts[word];
    rule->folds = rule->decision == VERDICT_DENY || rule->decision == VERDICT_HUMAN_REVIEW;
    check(rule->decision <= VERDICT_ALLOW);
    return true;
}

/* Names of roles; *ret_text (may be NULL) is the same names with commas between. */
static bool read_role_names(struct reader *r, const struct value *v, size_t most, struct str **ret,
                            size_t *ret_count)
{
    if (!want_list(r, v, most)) return false;
    if (v->node->json.count == 0) {
        reader_complain(r, v, "is empty; leave it out or name a role");
        return false;
    }
    struct str *names = reader_take(r, v->node->json.count * sizeof *names);
    size_t count = 0, index = 0;
    for (const struct node *n = node_first(v->node); n != NULL && names != NULL;
         n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        if (want_role(r, &item, &names[count])) count++;
    }
    check(count <= v->node->json.count);
    *ret = names;
    *ret_count = count;
    return names != NULL && count == v->node->json.count;
}

static void read_subjects(struct reader *r, const struct value *map, struct rule *rule,
                          bool decided)
{
    struct value agents = value_member(map, "agents"), users = value_member(map, "users"),
                 roles = value_member(map, "roles");
    if (agents.node != NULL) read_globs(r, &agents, rule->folds, &rule->agents);
    if (users.node != NULL) read_globs(r, &users, rule->folds, &rule->users);
    if (roles.node != NULL) read_role_names(r, &roles, ROLES_MAX, &rule->roles, &rule->role_count);
    rule->names_subject = agents.node != NULL || users.node != NULL || roles.node != NULL;
    if (decided && !rule->names_subject && !rule->folds) {
        reader_complain(r, &(struct value){.node = map->node, .place = map->place},
                        "%s: a rule that permits has to name a subject: agents, users or roles",
                        verdict_name(rule->decision));
    }
}

static void by_text(struct reader *r, struct review_terms *t)
{
    size_t size = 0;
    for (size_t i = 0; i < t->by_count; i++) size += t->by[i].size + 2;
    char *bytes = reader_take(r, size + 1);
    if (bytes == NULL) return;
    struct buf out = buf_over(bytes, size + 1);
    for (size_t i = 0; i < t->by_count; i++) {
        if (i > 0) buf_put_literal(&out, ", ");
        buf_put(&out, t->by[i]);
    }
    check(!out.overflow);
    t->by_text = buf_view(&out);
}

/* "finance-slack": a lowercase letter, and lowercase letters, digits and - behind it. */
static bool want_channel(struct reader *r, const struct value *v, struct str *ret)
{
    struct str name;
    if (!want_text(r, v, POLICY_CHANNEL_TEXT, &name)) return false;
    if (!str_is_label(name, POLICY_CHANNEL_TEXT)) {
        reader_complain(
            r, v,
            "\"%.64s\" is not the name of a channel: a lowercase letter, then lowercase "
            "letters, digits and -",
            name.bytes);
        return false;
    }
    *ret = name;
    return true;
}

static void read_notify(struct reader *r, const struct value *review, struct review_terms *t)
{
    struct value v = value_member(review, "notify"), remind = value_member(review, "remind");
    if (v.node != NULL && want_list(r, &v, REVIEW_CHANNELS_MAX)) {
        if (v.node->json.count == 0)
            reader_complain(r, &v, "is empty; leave it out or name a channel");
        t->notify = reader_take(r, v.node->json.count * sizeof *t->notify);
        size_t index = 0;
        for (const struct node *n = node_first(v.node); n != NULL && t->notify != NULL;
             n = node_next(n), index++) {
            struct value item = value_element(&v, n, index);
            if (want_channel(r, &item, &t->notify[t->notify_count])) t->notify_count++;
            check(t->notify_count <= REVIEW_CHANNELS_MAX);
        }
    }
    if (remind.node == NULL || !want_duration(r, &remind, REVIEW_MS_MAX, "30d", &t->remind_ms))
        return;
    if (v.node == NULL)
        reader_complain_at_key(r, &remind,
                               "reminds the channels of notify, and there is no notify");
    else if (t->remind_ms >= t->expires_in_ms)
        reader_complain(r, &remind, "comes too late: the review has expired by then (expires_in)");
}

static void read_review(struct reader *r, const struct value *v, struct rule *rule, bool decided)
{
    static const char *const keys[] = {"by",       "approvals", "proof", "expires_in",
                                       "good_for", "notify",    "remind"};
    static const char *const proofs[] = {"oidc"};
    size_t proof;
    if (!want_map(r, v)) return;
    reader_check_keys(r, v, keys, COUNT_OF(keys));
    struct review_terms *t = &rule->review;
    rule->has_review = true;
    struct value m;
    if ((m = value_member(v, "by")).node != NULL &&
        read_role_names(r, &m, REVIEW_ROLES_MAX, &t->by, &t->by_count))
        by_text(r, t);
    if ((m = value_member(v, "approvals")).node != NULL)
        want_count(r, &m, 1, APPROVALS_MAX, &t->approvals);
    if ((m = value_member(v, "proof")).node != NULL &&
        want_word(r, &m, proofs, COUNT_OF(proofs), &proof))
        t->proof = POLICY_PROOF_OIDC;
    if ((m = value_member(v, "expires_in")).node != NULL)
        want_duration(r, &m, REVIEW_MS_MAX, "30d", &t->expires_in_ms);
    if ((m = value_member(v, "good_for")).node != NULL)
        want_duration(r, &m, APPROVAL_MS_MAX, "24h", &t->good_for_ms);
    read_notify(r, v, t);
    if (decided && rule->decision == VERDICT_DENY)
        reader_complain_at_key(r, v, "a deny asks no person, so it has no review");
}

static void read_compute(struct reader *r, const struct value *v, struct rule *rule)
{
    check(rule->decision == VERDICT_COMPUTE);
    static const char *const keys[] = {"tool", "args"};
    if (!want_map(r, v)) return;
    reader_check_keys(r, v, keys, COUNT_OF(keys));
    struct value tool = value_member(v, "tool"), args = value_member(v, "args");
    struct str name;
    if (reader_require(r, v, &tool) && want_text(r, &tool, LIMIT_TOOL_CHARACTERS, &name)) {
        if (memmem(name.bytes, name.size, "${", 2) != NULL)
            reader_complain(r, &tool, "a safe tool is a name: it takes no expressions (${…})");
        rule->safe_tool = name;
    }
    if (args.node == NULL) {
        struct json *none = reader_take(r, sizeof *none);
        if (none != NULL) none->type = JSON_OBJECT;
        rule->safe_args = none;
    } else if (want_map(r, &args)) {
        rule->safe_args = read_json(r, &args, &rule->templates);
    }
}

static void read_when(struct reader *r, const struct value *map, struct rule *rule)
{
    struct value when = value_member(map, "when");
    struct str text;
    if (when.node == NULL || !want_text(r, &when, CONDITION_CHARACTERS_MAX, &text)) return;
    rule->when = read_condition(r, &when, text, true);
}

/* Stores the author's reason, or a generated one, next to the rule's id. */
static void read_reason(struct reader *r, const struct value *map, struct rule *rule)
{
    static const char *const verbs[] = {" denies this.", " sends this to a person.",
                                        " replaces this.", " allows this."};
    struct value v = value_member(map, "reason");
    struct str given = {0}, id = str_is_absent(rule->id) ? STR("") : rule->id;
    struct str made[] = {STR("Rule "), id, STR(" of policy "), r->document->name,
                         str_from(verbs[rule->decision])};
    if (v.node != NULL) want_text(r, &v, TEXT_CHARACTERS_MAX, &given);
    const struct str *parts = str_is_absent(given) ? made : &given;
    size_t count = str_is_absent(given) ? COUNT_OF(made) : 1, size = 0;
    for (size_t i = 0; i < count; i++) size += parts[i].size;
    struct rule_told *told = reader_take(r, sizeof *told + id.size + 1 + size + 1);
    if (told == NULL) return;
    *told = (struct rule_told){.id_size = (uint32_t)id.size, .reason_size = (uint32_t)size};
    struct buf out = buf_over(told->bytes, id.size + 1 + size);
    buf_put(&out, id);
    buf_put_byte(&out, '\0');
    for (size_t i = 0; i < count; i++) buf_put(&out, parts[i]);
    check(!out.overflow && out.size == id.size + 1 + size);
    rule->told = told;
    rule->reason = told_reason(told);
    if (!str_is_absent(rule->id)) rule->id = told_id(told);
}

static void read_terms(struct reader *r, const struct value *map, struct rule *rule, bool decided)
{
    struct value v;
    rule->review = (struct review_terms){
        .approvals = 1, .expires_in_ms = 30 * 60 * 1000, .good_for_ms = 15 * 60 * 1000};
    if ((v = value_member(map, "review")).node != NULL) read_review(r, &v, rule, decided);
    rule->gate = r->document->gate;
    if ((v = value_member(map, "confidence")).node != NULL) {
        rule->gate = read_gate(r, &v);
        rule->has_own_gate = true;
    }
    if ((v = value_member(map, "limit")).node != NULL) {
        rule->limit = read_limit(r, &v);
        if (decided && rule->decision == VERDICT_DENY)
            reader_complain_at_key(r, &v, "a deny lets nothing through, so it has no limit");
    }
    v = value_member(map, "compute");
    if (decided && rule->decision == VERDICT_COMPUTE && v.node == NULL)
        reader_complain(
            r, &(struct value){.node = map->node, .place = v.place},
            "is missing: it says what is called instead, as in {tool: write_file, args: {}}");
    else if (decided && rule->decision == VERDICT_COMPUTE)
        read_compute(r, &v, rule);
    if (decided && rule->decision != VERDICT_COMPUTE && v.node != NULL)
        reader_complain_at_key(r, &v, "belongs to decision: compute only");
}

static void read_rule(struct reader *r, const struct value *v, struct rule *rule)
{
    rule->document = r->document;
    rule->line = v->node->line;
    rule->column = v->node->column;
    if (!want_map(r, v)) return;
    size_t problems = r->problems->count;
    const struct condition *before = r->document->conditions;
    reader_check_keys(r, v, rule_keys, COUNT_OF(rule_keys));
    bool keys_known =
        r->problems->count == problems; /* otherwise the rule may have a misspelt subject */
    read_id(r, v, rule);
    bool decided = read_decision(r, v, rule);
    read_when(r, v, rule);
    struct value actions = value_member(v, "actions"), resources = value_member(v, "resources");
    if (reader_require(r, v, &actions)) read_globs(r, &actions, rule->folds, &rule->actions);
    if (resources.node != NULL) read_resource_globs(r, &resources, rule->folds, &rule->resources);
    read_subjects(r, v, rule, decided && keys_known);
    read_terms(r, v, rule, decided);
    read_reason(r, v, rule);
    for (struct condition *c = r->document->conditions; c != before; c = c->next)
        c->folds = rule->folds;
}

static void check_unique(struct reader *r, struct map *ids, const struct value *v,
                         struct rule *rule)
{
    check(rule->document == r->document);
    if (str_is_absent(rule->id)) return;
    struct rule *other = map_get(ids, rule->id);
    if (other != NULL) {
        struct value id = value_member(v, "id");
        reader_complain(r, &id, "\"%.64s\" is the id of the rule on line %u already",
                        rule->id.bytes, other->line);
    } else if (!map_put(ids, rule->id, rule)) {
        r->full = true;
    }
}

void read_rules(struct reader *r, const struct value *v)
{
    if (!want_list(r, v, LIMIT_RULES_PER_DOCUMENT)) return;
    struct policy_document *d = r->document;
    if (v->node->json.count == 0 && d->role_count == 0 && d->mask_count == 0) {
        reader_complain(r, v, "is empty, so the document says nothing");
        return;
    }
    d->rules = reader_take(r, v->node->json.count * sizeof(struct rule));
    if (d->rules == NULL) return;
    struct map ids = {0};
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL && !r->full;
         n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        struct rule *rule = &d->rules[d->rule_count++];
        check(d->rule_count <= v->node->json.count);
        read_rule(r, &item, rule);
        check_unique(r, &ids, &item, rule);
    }
    map_fini(&ids);
}
