#include "engine/resources/needs.h"

#include "base/check.h"
#include "engine/decision/terms.h"
#include "json/json.h"

static void needs_check(const struct needs *n)
{
    check(n->count <= REVIEW_REQUIREMENTS_MAX && (n->list != NULL || n->count == 0));
}

static unsigned votes_toward(const struct review_facts *r, size_t number)
{
    check(number < REVIEW_REQUIREMENTS_MAX && r->approval_count <= REVIEW_VOTES_MAX);
    unsigned count = 0;
    for (size_t i = 0; i < r->approval_count; i++) count += r->approvals[i].meets >> number & 1;
    return count;
}

enum err needs_of(const struct review_facts *r, struct arena *arena, struct needs *ret)
{
    const struct policy_requirement *asked;
    const struct policy_vote *votes;
    size_t count, vote_count;
    *ret = (struct needs){0};
    enum err err = terms_read_requirements(r->requirements, arena, &asked, &count);
    if (err == ERR_OK) err = terms_read_votes(r->votes_approved, arena, &votes, &vote_count);
    if (err != ERR_OK) return err;
    if (count > REVIEW_REQUIREMENTS_MAX) return ERR_CORRUPT;
    struct need *list = arena_array(arena, struct need, count);
    if (list == NULL) return ERR_FULL;
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct need){.by = asked[i].by,
                                .by_count = asked[i].by_count,
                                .approvals = asked[i].approvals,
                                .proof = asked[i].proof,
                                .so_far = votes_toward(r, i)};
        if (asked[i].vote == 0 || asked[i].vote > vote_count) continue;
        list[i].policy_name = votes[asked[i].vote - 1].policy_name;
        list[i].rule_id = votes[asked[i].vote - 1].rule_id;
    }
    *ret = (struct needs){.list = list, .count = count};
    check(count > 0);
    needs_check(ret);
    return ERR_OK;
}

unsigned needs_approvals(const struct needs *n)
{
    needs_check(n);
    unsigned most = 1;
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].approvals > most) most = n->list[i].approvals;
    return most;
}

uint32_t needs_open(const struct needs *n)
{
    needs_check(n);
    uint32_t bits = 0;
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].so_far < n->list[i].approvals) bits |= UINT32_C(1) << i;
    return bits;
}

enum policy_proof needs_proof(const struct needs *n)
{
    needs_check(n);
    enum policy_proof strictest = POLICY_PROOF_ANY;
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].proof > strictest) strictest = n->list[i].proof;
    return strictest;
}

uint64_t needs_claims(const struct needs *n, const struct policy_set *policies,
                      const struct policy_person *person)
{
    needs_check(n);
    uint64_t bits = 0;
    for (size_t i = 0; i < n->count; i++)
        bits |= policy_claims_for(policies, person, n->list[i].by, n->list[i].by_count);
    return bits;
}

uint32_t needs_met_by(const struct needs *n, const struct policy_set *policies,
                      const struct policy_person *person, struct arena *arena)
{
    needs_check(n);
    uint32_t bits = 0;
    for (size_t i = 0; i < n->count; i++) {
        const struct need *one = &n->list[i];
        if (one->by_count == 0 || policy_has_role(policies, person, one->by, one->by_count, arena))
            bits |= UINT32_C(1) << i;
    }
    return bits;
}

struct str needs_roles(const struct needs *n, size_t most, struct arena *arena)
{
    needs_check(n);
    struct str text = {0};
    for (size_t i = 0; i < n->count; i++)
        for (size_t k = 0; k < n->list[i].by_count && text.size < most; k++)
            text = arena_printf(arena, "%.*s%s%.*s", STR_FORMAT(text), text.size > 0 ? ", " : "",
                                STR_FORMAT(n->list[i].by[k]));
    return str_cut(text, most);
}

static void put_member(struct buf *out, struct str name, struct str value)
{
    if (str_is_absent(value)) return;
    buf_put(out, name);
    json_put_string(out, value);
    buf_put_byte(out, ',');
}

static void put_voted(struct buf *out, const struct review_facts *r, size_t number)
{
    check(number < REVIEW_REQUIREMENTS_MAX);
    bool first = true;
    buf_put_literal(out, ",\"voted\":[");
    for (size_t i = 0; i < r->approval_count; i++) {
        if ((r->approvals[i].meets >> number & 1) == 0) continue;
        if (!first) buf_put_byte(out, ',');
        json_put_string(out, r->approvals[i].by);
        first = false;
    }
    buf_put_byte(out, ']');
}

static void put_need(struct buf *out, const struct need *n)
{
    put_member(out, STR("\"policy_name\":"), n->policy_name);
    put_member(out, STR("\"rule\":"), n->rule_id);
    for (size_t i = 0; i < n->by_count; i++) {
        buf_put(out, i == 0 ? STR("\"by\":[") : STR(","));
        json_put_string(out, n->by[i]);
    }
    if (n->by_count > 0) buf_put_literal(out, "],");
    if (n->proof != POLICY_PROOF_ANY)
        put_member(out, STR("\"proof\":"), str_from(policy_proof_name(n->proof)));
    buf_put_literal(out, "\"approvals\":");
    buf_put_u64(out, n->approvals);
    buf_put_literal(out, ",\"so_far\":");
    buf_put_u64(out, n->so_far);
}

void needs_put(struct buf *out, const struct needs *n, const struct review_facts *r,
               bool with_voted)
{
    needs_check(n);
    buf_put_byte(out, '[');
    for (size_t i = 0; i < n->count; i++) {
        buf_put(out, i == 0 ? STR("{") : STR(",{"));
        put_need(out, &n->list[i]);
        if (with_voted) put_voted(out, r, i);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
}
