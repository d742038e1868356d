#include "engine/decision/terms.h"

#include "base/check.h"
#include "json/json.h"

static const char *const vote_kinds[VOTE_KINDS] = {
    [VOTE_RULE] = "review", [VOTE_GATE] = "gate", [VOTE_LIMIT] = "limit"};

/* ---- writing ---- */

_Static_assert(sizeof vote_kinds / sizeof *vote_kinds == VOTE_KINDS, "each kind has a name");

static size_t votes_most(const struct policy_review *r)
{
    size_t most = 2;
    for (size_t i = 0; i < r->vote_count; i++)
        most += 32 + r->votes[i].policy_name.size + r->votes[i].rule_id.size;
    return most;
}

struct str terms_votes(const struct policy_review *r, struct arena *a)
{
    size_t most = votes_most(r);
    char *bytes = arena_bytes(a, most);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, most);
    buf_put_byte(&b, '[');
    for (size_t i = 0; i < r->vote_count; i++) {
        buf_put(&b, i > 0 ? STR(",[") : STR("["));
        json_put_plain(&b, str_from(vote_kinds[r->votes[i].kind]));
        buf_put_byte(&b, ',');
        json_put_plain(&b, r->votes[i].policy_name);
        buf_put_byte(&b, ',');
        json_put_plain(&b, r->votes[i].rule_id);
        buf_put_byte(&b, ']');
    }
    buf_put_byte(&b, ']');
    check(!b.overflow);
    return buf_view(&b);
}

static size_t requirements_most(const struct policy_review *r)
{
    size_t most = 2;
    for (size_t i = 0; i < r->requirement_count; i++) {
        most += 96;
        for (size_t k = 0; k < r->requirements[i].by_count; k++)
            most += r->requirements[i].by[k].size + 3;
    }
    return most;
}

struct str terms_requirements(const struct policy_review *r, struct arena *a)
{
    size_t most = requirements_most(r);
    char *bytes = arena_bytes(a, most);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, most);
    buf_put_byte(&b, '[');
    for (size_t i = 0; i < r->requirement_count; i++) {
        const struct policy_requirement *one = &r->requirements[i];
        buf_put(&b, i > 0 ? STR(",{\"approvals\":") : STR("{\"approvals\":"));
        buf_put_u64(&b, one->approvals);
        for (size_t k = 0; k < one->by_count; k++) {
            buf_put(&b, k == 0 ? STR(",\"by\":[") : STR(","));
            json_put_plain(&b, one->by[k]);
        }
        if (one->by_count > 0) buf_put_byte(&b, ']');
        if (one->proof != POLICY_PROOF_ANY) {
            buf_put_literal(&b, ",\"proof\":");
            json_put_plain(&b, str_from(policy_proof_name(one->proof)));
        }
        if (one->vote > 0) {
            buf_put_literal(&b, ",\"vote\":");
            buf_put_u64(&b, one->vote);
        }
        buf_put_byte(&b, '}');
    }
    buf_put_byte(&b, ']');
    check(!b.overflow);
    return buf_view(&b);
}

/* ---- reading ---- */

/* An absent text is an empty list. */
static enum err read_list(struct str text, struct arena *a, const struct json **ret_first,
                          size_t *ret_count)
{
    static const struct json_options options = {0};
    struct json *list;
    *ret_first = NULL;
    *ret_count = 0;
    if (str_is_absent(text)) return ERR_OK;
    if (json_read(text, &options, a, &list, NULL) != ERR_OK)
        return a->overflow ? ERR_FULL : ERR_CORRUPT;
    if (list->type != JSON_ARRAY) return ERR_CORRUPT;
    check((list->child == NULL) == (list->count == 0));
    *ret_first = list->child;
    *ret_count = list->count;
    return ERR_OK;
}

static enum err read_requirement(const struct json *v, struct arena *a,
                                 struct policy_requirement *ret)
{
    const struct json *by = json_get(v, STR("by"));
    struct str proof = json_text(v, STR("proof"));
    /* never less than it asks for */
    if (json_get(v, STR("proof")) != NULL && !str_equal(proof, STR("oidc"))) return ERR_CORRUPT;
    struct str *roles = arena_array(a, struct str, (by == NULL ? 0 : by->count) + 1);
    if (roles == NULL) return ERR_FULL;
    size_t count = 0;
    for (const struct json *role = by == NULL ? NULL : by->child; role != NULL; role = role->next)
        roles[count++] = role->string;
    check(by == NULL || count == by->count);
    *ret = (struct policy_requirement){.approvals = (unsigned)json_u64(v, STR("approvals"), 1),
                                       .by = roles,
                                       .by_count = count,
                                       .proof = str_is_absent(proof) ? POLICY_PROOF_ANY
                                                                     : POLICY_PROOF_OIDC,
                                       .vote = (unsigned)json_u64(v, STR("vote"), 0)};
    return ERR_OK;
}

enum err terms_read_requirements(struct str text, struct arena *a,
                                 const struct policy_requirement **ret, size_t *ret_count)
{
    const struct json *v;
    size_t count, most;
    enum err err = read_list(text, a, &v, &most);
    if (err != ERR_OK) return err;
    struct policy_requirement *list = arena_array(a, struct policy_requirement, most + 1);
    if (list == NULL) return ERR_FULL;
    for (count = 0; v != NULL && err == ERR_OK; v = v->next)
        err = read_requirement(v, a, &list[count++]);
    if (count == 0) list[count++] = (struct policy_requirement){.approvals = 1};
    *ret = list;
    *ret_count = count;
    check(count > 0 && count <= most + 1);
    return err;
}

static bool read_vote(const struct json *v, struct policy_vote *ret)
{
    if (v->type != JSON_ARRAY || v->count != 3) return false;
    const struct json *kind = v->child, *policy = kind->next, *rule = policy->next;
    for (unsigned k = 0; k < VOTE_KINDS; k++) {
        if (!str_equal(kind->string, str_from(vote_kinds[k]))) continue;
        *ret = (struct policy_vote){.kind = (enum policy_vote_kind)k,
                                    .policy_name = policy->string,
                                    .rule_id = rule->string};
        return true;
    }
    return false;
}

enum err terms_read_votes(struct str text, struct arena *a, const struct policy_vote **ret,
                          size_t *ret_count)
{
    const struct json *v;
    size_t count, most;
    enum err err = read_list(text, a, &v, &most);
    if (err != ERR_OK) return err;
    struct policy_vote *list = arena_array(a, struct policy_vote, most + 1);
    if (list == NULL) return ERR_FULL;
    for (count = 0; v != NULL; v = v->next)
        if (!read_vote(v, &list[count++])) return ERR_CORRUPT;
    check(count == most);
    *ret = list;
    *ret_count = count;
    return ERR_OK;
}
