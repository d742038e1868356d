/* Tests of reviews: who is asked for what, what an approval covers; scopes and roles beside it. */
#include "support.h"

static const char asking[] =
    "confidence: {allow_at: 0.9, review_at: 0.5}\n"
    "rules:\n"
    "  - {id: pay, agents: [bot], actions: [\"p*\"], decision: allow, review: {by: [finance], "
    "expires_in: 10m}}\n"
    "  - {id: ask, actions: [pay], decision: human_review, review: {by: [legal, cfo], approvals: "
    "2}, confidence: {allow_at: 0, review_at: 0}}\n"
    "  - {id: both, actions: [pay], decision: human_review, review: {good_for: 90s}}\n"
    "  - {id: no, actions: [pay], resources: [\"db:prod\"], decision: deny}\n"
    "  - {id: swap, agents: [bot], actions: [pswap], decision: compute, compute: {tool: safe}}\n";

static void assert_vote(const struct policy_vote *v, enum policy_vote_kind kind, const char *rule)
{
    assert_int_equal(v->kind, kind);
    assert_true(str_is(v->rule_id, rule));
    assert_true(str_is(v->policy_name, "doc"));
}

static struct policy_request pay_request(double confidence)
{
    struct policy_request q = agent_request("bot", "pay");
    q.resource = STR("db:test");
    q.has_confidence = true;
    q.confidence = confidence;
    return q;
}

static void every_rule_that_asks_states_a_requirement_and_its_votes(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, asking);
    struct policy_request q = pay_request(0.6);
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "gate:pay");
    const struct policy_review *r = &t.outcome.review;
    assert_int_equal(r->vote_count, 4);
    assert_vote(&r->votes[0], VOTE_GATE, "pay");
    assert_vote(&r->votes[1], VOTE_RULE, "ask");
    assert_vote(&r->votes[2], VOTE_RULE, "both");
    assert_vote(&r->votes[3], VOTE_GATE, "both");
    assert_int_equal(r->requirement_count, 3);
    assert_int_equal(r->requirements[0].approvals, 1);
    assert_int_equal(r->requirements[0].by_count, 1);
    assert_true(str_is(r->requirements[0].by[0], "finance"));
    assert_int_equal(r->requirements[1].approvals, 2);
    assert_int_equal(r->requirements[1].by_count, 2);
    assert_true(str_is(r->requirements[1].by[1], "cfo"));
    assert_int_equal(r->requirements[2].by_count, 0);
    assert_int_equal(r->approvals, 2);
    assert_int_equal(r->expires_in_ms, 10 * 60 * 1000);
    assert_int_equal(r->good_for_ms, 90 * 1000);
    assert_true(str_is(r->by, "finance; legal, cfo"));
    tenant_fini(&t);
}

static void one_rule_that_asks_is_one_requirement(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, asking);
    struct policy_request q = pay_request(0.6);
    q.action = STR("plain");
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_int_equal(t.outcome.review.requirement_count, 1);
    assert_int_equal(t.outcome.review.requirements[0].vote, 1);
    assert_int_equal(t.outcome.review.vote_count, 1);
    assert_vote(&t.outcome.review.votes[0], VOTE_GATE, "pay");
    assert_true(str_is(t.outcome.review.by, "finance"));
    tenant_fini(&t);
}

static void what_a_person_approved_counts_as_allow(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, asking);
    struct policy_request q = pay_request(0.6);
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    struct policy_vote votes[4];
    memcpy(votes, t.outcome.review.votes, sizeof votes); /* their strings are the set's */
    q.approved = votes;
    q.approved_count = 4;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_string_equal(t.outcome.rule, "allow:pay");
    assert_true(str_is(t.outcome.reason, "Rule pay of policy doc allows this."));
    q.approved_count = 3; /* the gate of `both` is not among them */
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "gate:both");
    /* and all is asked again, so that one approval is enough */
    assert_int_equal(t.outcome.review.vote_count, 4);
    assert_vote(&t.outcome.review.votes[0], VOTE_GATE, "pay");
    assert_vote(&t.outcome.review.votes[3], VOTE_GATE, "both");
    assert_int_equal(t.outcome.review.requirement_count, 3);
    assert_true(str_is(t.outcome.review.by, "finance; legal, cfo"));
    q.actor = STR("stranger"); /* then only those who asked have voted */
    q.approved_count = 4;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_string_equal(t.outcome.rule, "allow:ask");
    assert_true(
        str_is(t.outcome.reason, "A person has approved what rule ask of policy doc asks about."));
    tenant_fini(&t);
}

/* Of the rule `launch`, as it asks now: two of the board or of legal. */
static void a_rule_that_asks_for_more_than_was_met_asks_anew(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "roles: {board: [b], legal: [l], finance: [f]}\nrules:\n  - {id: launch, actions: [launch], decision: human_review, "
        "review: {by: [board, legal], approvals: 2}}\n");
    struct str board = STR("board"), finance[] = {STR("board"), STR("finance")};
    const struct {
        struct policy_requirement met[2];
        size_t count;
        enum verdict verdict;
    } cases[] = {
        {{{.approvals = 2, .by = &board, .by_count = 1}}, 1, VERDICT_ALLOW},
        {{{.approvals = 3, .by = &board, .by_count = 1}}, 1, VERDICT_ALLOW},
        {{{.approvals = 1, .by = &board, .by_count = 1}}, 1, VERDICT_HUMAN_REVIEW},
        {{{.approvals = 2}}, 1, VERDICT_HUMAN_REVIEW},
        {{{.approvals = 2, .by = finance, .by_count = 2}}, 1, VERDICT_HUMAN_REVIEW},
        {{{.approvals = 2}, {.approvals = 1, .by = &board, .by_count = 1}},
         2,
         VERDICT_HUMAN_REVIEW},
        {{{.approvals = 1}, {.approvals = 2, .by = &board, .by_count = 1}}, 2, VERDICT_ALLOW},
        {{{.approvals = 2}}, 0, VERDICT_HUMAN_REVIEW},
        {{{.approvals = 2, .by = &board, .by_count = 1, .proof = POLICY_PROOF_OIDC}},
         1,
         VERDICT_ALLOW},
    };
    struct policy_vote vote = {
        .kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("launch")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_request q = pay_request(1);
        q.action = STR("launch");
        q.approved = &vote;
        q.approved_count = 1;
        q.met = cases[i].met;
        q.met_count = cases[i].count;
        assert_int_equal(ask(&t, &q), cases[i].verdict);
    }
    tenant_fini(&t);
}

static void the_strictest_proof_is_asked_of_all(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "roles: {board: [b]}\nrules:\n"
                        "  - {id: any, actions: [\"*\"], decision: human_review}\n"
                        "  - {id: known, actions: [pay], decision: human_review, "
                        "review: {by: [board], proof: oidc}}\n");
    struct policy_request q = pay_request(1);
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_int_equal(t.outcome.review.proof, POLICY_PROOF_OIDC);
    assert_int_equal(t.outcome.review.requirements[0].proof, POLICY_PROOF_ANY);
    assert_int_equal(t.outcome.review.requirements[1].proof, POLICY_PROOF_OIDC);
    q.action = STR("plain");
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_int_equal(t.outcome.review.proof, POLICY_PROOF_ANY);
    tenant_fini(&t);
}

/* The rule asks for verified people now; those who approved were not, or were. */
static void a_rule_that_asks_for_proof_now_takes_no_earlier_approval_without(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules: [{id: ask, actions: [pay], decision: human_review, "
                        "review: {proof: oidc}}]");
    const struct policy_vote vote = {
        .kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("ask")};
    const struct policy_requirement met[] = {{.approvals = 2},
                                             {.approvals = 1, .proof = POLICY_PROOF_OIDC}};
    for (size_t i = 0; i < 2; i++) {
        struct policy_request q = pay_request(1);
        q.approved = &vote;
        q.approved_count = 1;
        q.met = &met[i];
        q.met_count = 1;
        assert_int_equal(ask(&t, &q), i == 0 ? VERDICT_HUMAN_REVIEW : VERDICT_ALLOW);
    }
    tenant_fini(&t);
}

/* One of the rule's people is as good as anybody where the rule names nobody. */
static void a_rule_that_asks_for_no_one_in_particular_is_met_by_whom_it_named_before(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules: [{id: ask, actions: [pay], decision: human_review}]");
    struct str board = STR("board");
    const struct policy_requirement met[] = {{.approvals = 1, .by = &board, .by_count = 1},
                                             {.approvals = 1}};
    struct policy_vote vote = {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("ask")};
    for (size_t i = 0; i < 2; i++) {
        struct policy_request q = pay_request(1);
        q.approved = &vote;
        q.approved_count = 1;
        q.met = &met[i];
        q.met_count = 1;
        assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    }
    tenant_fini(&t);
}

static void what_shadow_documents_ask_is_asked_of_nobody(void **state)
{
    (void)state;
    const char *const names[] = {"live", "next"};
    const char *const texts[] = {
        "rules: [{id: ask, actions: [pay], decision: human_review, review: {by: [finance], expires_in: 1h}}]\n"
        "roles: {finance: [f]}",
        "mode: shadow\nroles: {legal: [l]}\n"
        "rules: [{id: more, actions: [pay], decision: human_review, review: {by: [legal], approvals: 3, expires_in: 5m}}]"};
    struct tenant t;
    tenant_init(&t, 2, names, texts);
    struct policy_request q = pay_request(1);
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_true(str_is(t.outcome.review.by, "finance"));
    assert_int_equal(t.outcome.review.approvals, 1);
    assert_int_equal(t.outcome.review.expires_in_ms, 60 * 60 * 1000);
    assert_int_equal(t.outcome.review.requirement_count, 1);
    assert_int_equal(t.outcome.review.vote_count, 1);
    /* Approved when it was in force; it is in shadow now. */
    struct policy_vote votes[] = {
        {.kind = VOTE_RULE, .policy_name = STR("live"), .rule_id = STR("ask")},
        {.kind = VOTE_RULE, .policy_name = STR("next"), .rule_id = STR("more")}};
    q.approved = votes;
    q.approved_count = 2;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.review.vote_count, 1);
    assert_true(str_is(t.outcome.review.votes[0].rule_id, "ask"));
    tenant_fini(&t);
}

static void an_approval_moves_no_other_vote(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, asking);
    struct policy_vote votes[] = {
        {.kind = VOTE_GATE, .policy_name = STR("doc"), .rule_id = STR("pay")},
        {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("ask")},
        {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("both")},
        {.kind = VOTE_GATE, .policy_name = STR("doc"), .rule_id = STR("both")},
        {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("no")},
        {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("swap")},
        {.kind = VOTE_GATE, .policy_name = STR("doc"), .rule_id = STR("swap")},
    };
    struct policy_request q = pay_request(0.6);
    q.approved = votes;
    q.approved_count = 7;
    q.resource = STR("db:prod");
    assert_int_equal(ask(&t, &q), VERDICT_DENY); /* a deny is not asked about */
    assert_string_equal(t.outcome.rule, "deny:no");
    q = pay_request(0.4);
    q.approved = votes;
    q.approved_count = 7;
    assert_int_equal(ask(&t, &q), VERDICT_DENY); /* nor a gate's */
    assert_string_equal(t.outcome.rule, "gate:pay");
    q = pay_request(0.6);
    q.action = STR("pswap");
    q.approved = votes;
    q.approved_count = 7;
    assert_int_equal(ask(&t, &q), VERDICT_COMPUTE); /* what is replaced stays replaced */
    assert_string_equal(t.outcome.rule, "compute:swap");
    q = pay_request(0.6);
    q.approved = votes;
    q.approved_count = 7;
    for (size_t i = 0; i < 7; i++) votes[i].policy_name = STR("other");
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW); /* another policy's rule of that name */
    for (size_t i = 0; i < 7; i++) votes[i].policy_name = STR("doc"), votes[i].kind = VOTE_LIMIT;
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    tenant_fini(&t);
}

static void an_approval_is_not_of_the_safe_call(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: swap, agents: [bot], actions: [x], decision: compute, compute: {tool: y}}\n"
            "  - {id: ask, actions: [x, y], decision: human_review}\n");
    struct policy_vote vote = {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("ask")};
    struct policy_request q = agent_request("bot", "x");
    q.approved = &vote;
    q.approved_count = 1;
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:swap");
    tenant_fini(&t);
}

static void both_scopes_have_to_cover_the_action(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules: [{id: a, agents: [\"*\"], actions: [\"*\"], decision: allow}]");
    const struct str own[] = {STR("get_*")}, token[] = {STR("list_*"), STR("get_a*")};
    struct policy_request q = agent_request("bot", "get_a");
    q.has_token_scope = true;
    q.token_scope = token;
    q.token_scope_count = 2;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    q.has_scope = true;
    q.scope = own;
    q.scope_count = 1;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    q.action = STR("get_b");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "token:scope");
    q.action = STR("list_a");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "token:scope");
    q.has_scope = false;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    q.token_scope_count = 0;
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    tenant_fini(&t);
}

static bool has_role(struct tenant *t, struct str name, const struct str *roles, size_t count)
{
    const struct policy_person person = {.name = name};
    return policy_has_role(t->set, &person, roles, count, &t->arena);
}

static void a_person_has_the_roles_that_enforced_documents_give(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"a", "b", "c"};
    const char *const texts[] = {"roles: {finance: [carol, \"dan@*\"], legal: [erin]}",
                                 "roles: {finance: [frank]}",
                                 "mode: shadow\nroles: {finance: [mallory], ghosts: [mallory]}"};
    tenant_init(&t, 3, names, texts);
    const struct str finance[] = {STR("finance")}, both[] = {STR("cfo"), STR("legal")};
    const struct str other[] = {STR("Finance"), STR("ghosts")};
    assert_true(has_role(&t, STR("carol"), finance, 1));
    assert_true(has_role(&t, STR("frank"), finance, 1));
    assert_true(has_role(&t, STR("dan@home"), finance, 1));
    assert_true(has_role(&t, STR("erin"), both, 2));
    assert_false(has_role(&t, STR("erin"), finance, 1));
    assert_false(has_role(&t, STR("erin"), both, 1));
    assert_false(has_role(&t, STR("Carol"), finance, 1));
    assert_false(has_role(&t, STR("dan@my home"), finance, 1));
    assert_false(has_role(&t, STR("mallory"), finance, 1));
    assert_false(has_role(&t, STR("mallory"), other, 2));
    assert_false(has_role(&t, STR("carol"), other, 2));
    assert_false(has_role(&t, STR("carol"), NULL, 0));
    assert_false(has_role(&t, (struct str){0}, finance, 1));
    tenant_fini(&t);
}

static bool claims_give(struct tenant *t, const struct claim *claims, size_t count, struct str role)
{
    const struct policy_person person = {
        .name = STR("zoe"), .claims = claims, .claim_count = count};
    return policy_has_role(t->set, &person, &role, 1, &t->arena);
}

static void verified_claims_give_the_roles_that_ask_for_them(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"a", "b", "c"};
    const char *const texts[] = {
        "roles: {finance: {people: [carol], claims: {groups: [finance, fin-leads]}},\n"
        "        lead: {claims: {groups: [finance], level: [\"7\", \"8\"]}}}",
        "roles: {finance: {claims: {department: [Accounting]}}, plain: [zoe]}",
        "mode: shadow\nroles: {finance: {claims: {groups: [shadows]}}}"};
    tenant_init(&t, 3, names, texts);
    const struct claim claims[] = {{.name = STR("groups"), .value = STR("all")},
                                   {.name = STR("groups"), .value = STR("fin-leads")},
                                   {.name = STR("groups"), .value = STR("finance")},
                                   {.name = STR("level"), .value = STR("8")}};
    assert_true(claims_give(&t, claims, 2, STR("finance")));
    assert_false(claims_give(&t, claims, 1, STR("finance")));
    assert_false(claims_give(&t, claims, 3, STR("lead")));
    assert_true(claims_give(&t, claims, 4, STR("lead")));
    assert_true(claims_give(&t, NULL, 0, STR("plain")));
    assert_false(claims_give(&t, claims, 4, STR("plain.")));
    const struct claim others[] = {{.name = STR("department"), .value = STR("Accounting")},
                                   {.name = STR("department"), .value = STR("accounting")},
                                   {.name = STR("Groups"), .value = STR("finance")},
                                   {.name = STR("groups"), .value = STR("shadows")},
                                   {.name = STR("groups"), .value = STR("finance ")}};
    assert_true(claims_give(&t, others, 1, STR("finance")));
    assert_false(claims_give(&t, others + 1, 4, STR("finance")));

    const struct policy_person zoe = {.name = STR("zoe"), .claims = claims, .claim_count = 4};
    const struct str both[] = {STR("finance"), STR("lead")};
    assert_int_equal(policy_claims_for(t.set, &zoe, both, 1), 6);
    assert_int_equal(policy_claims_for(t.set, &zoe, both + 1, 1), 12);
    assert_int_equal(policy_claims_for(t.set, &zoe, both, 2), 14);
    tenant_fini(&t);
}

static void nobody_has_a_role_by_an_empty_name_or_in_a_closed_set(void **state)
{
    (void)state;
    struct tenant t;
    const struct str all[] = {STR("all")};
    tenant_init_one(&t, "roles: {all: [\"*\"]}");
    assert_true(has_role(&t, STR("x"), all, 1));
    assert_false(has_role(&t, STR(""), all, 1));
    tenant_fini(&t);
    assert_int_equal(policy_set_closed("default:policy_unloadable", "No.", &t.set), ERR_OK);
    arena_init(&t.arena, 4096, 8192);
    assert_false(has_role(&t, STR("x"), all, 1));
    tenant_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_that_asks_states_a_requirement_and_its_votes),
        cmocka_unit_test(one_rule_that_asks_is_one_requirement),
        cmocka_unit_test(what_a_person_approved_counts_as_allow),
        cmocka_unit_test(the_strictest_proof_is_asked_of_all),
        cmocka_unit_test(a_rule_that_asks_for_proof_now_takes_no_earlier_approval_without),
        cmocka_unit_test(a_rule_that_asks_for_no_one_in_particular_is_met_by_whom_it_named_before),
        cmocka_unit_test(what_shadow_documents_ask_is_asked_of_nobody),
        cmocka_unit_test(an_approval_moves_no_other_vote),
        cmocka_unit_test(a_rule_that_asks_for_more_than_was_met_asks_anew),
        cmocka_unit_test(an_approval_is_not_of_the_safe_call),
        cmocka_unit_test(both_scopes_have_to_cover_the_action),
        cmocka_unit_test(a_person_has_the_roles_that_enforced_documents_give),
        cmocka_unit_test(verified_claims_give_the_roles_that_ask_for_them),
        cmocka_unit_test(nobody_has_a_role_by_an_empty_name_or_in_a_closed_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
