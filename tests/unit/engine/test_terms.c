/* What a review asks for, written and read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/decision/terms.h"

static int set_up(void **state)
{
    static struct arena arena;
    arena_init(&arena, 4096, 1 << 20);
    *state = &arena;
    return 0;
}

static int tear_down(void **state)
{
    arena_fini(*state);
    return 0;
}

static void requirements_are_read_as_they_were_written(void **state)
{
    struct arena *a = *state;
    const struct str finance[] = {STR("finance"), STR("legal")};
    const struct policy_requirement asked[] = {
        {.approvals = 2, .by = finance, .by_count = 2, .vote = 3},
        {.approvals = 1, .proof = POLICY_PROOF_OIDC},
        {.approvals = 1}};
    const struct policy_review r = {.requirements = asked, .requirement_count = 3};
    const struct policy_requirement *list;
    size_t count;
    struct str text = terms_requirements(&r, a);
    assert_true(str_equal(
        text,
        STR("[{\"approvals\":2,\"by\":[\"finance\",\"legal\"],\"vote\":3},{\"approvals\":1,\"proof\":\"oidc\"},{\"approvals\":1}]")));
    assert_int_equal(terms_read_requirements(text, a, &list, &count), ERR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(list[0].proof, POLICY_PROOF_ANY);
    assert_int_equal(list[1].proof, POLICY_PROOF_OIDC);
    assert_int_equal(list[2].proof, POLICY_PROOF_ANY);
    assert_int_equal(list[0].approvals, 2);
    assert_int_equal(list[0].by_count, 2);
    assert_true(str_equal(list[0].by[1], STR("legal")));
    assert_int_equal(list[0].vote, 3);
    assert_int_equal(list[1].approvals, 1);
    assert_int_equal(list[1].by_count, 0);
    assert_int_equal(list[1].vote, 0);
}

static void without_requirements_one_approval_by_anybody_is_asked(void **state)
{
    struct arena *a = *state;
    const struct str none[] = {{0}, STR("[]")};
    for (size_t i = 0; i < 2; i++) {
        const struct policy_requirement *list;
        size_t count;
        assert_int_equal(terms_read_requirements(none[i], a, &list, &count), ERR_OK);
        assert_int_equal(count, 1);
        assert_int_equal(list[0].approvals, 1);
        assert_int_equal(list[0].by_count, 0);
    }
}

static void votes_are_read_as_they_were_written(void **state)
{
    struct arena *a = *state;
    const struct policy_vote asked[] = {
        {.kind = VOTE_RULE, .policy_name = STR("payments"), .rule_id = STR("large")},
        {.kind = VOTE_GATE, .policy_name = STR("p"), .rule_id = STR("")},
        {.kind = VOTE_LIMIT, .policy_name = STR("p"), .rule_id = STR("many")}};
    const struct policy_review r = {.votes = asked, .vote_count = 3};
    const struct policy_vote *list;
    size_t count;
    struct str text = terms_votes(&r, a);
    assert_true(str_equal(
        text,
        STR("[[\"review\",\"payments\",\"large\"],[\"gate\",\"p\",\"\"],[\"limit\",\"p\",\"many\"]]")));
    assert_int_equal(terms_read_votes(text, a, &list, &count), ERR_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(list[i].kind, asked[i].kind);
        assert_true(str_equal(list[i].policy_name, asked[i].policy_name));
        assert_true(str_equal(list[i].rule_id, asked[i].rule_id));
    }
    assert_int_equal(terms_read_votes((struct str){0}, a, &list, &count), ERR_OK);
    assert_int_equal(count, 0);
}

static void what_was_never_written_turns_no_vote(void **state)
{
    struct arena *a = *state;
    static const char *const wrong[] = {
        "", "{", "{}", "7", "[7]", "[[]]", "[[\"review\",\"p\"]]", "[[\"allow\",\"p\",\"r\"]]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct policy_vote *list;
        size_t count;
        assert_int_equal(terms_read_votes(str_from(wrong[i]), a, &list, &count), ERR_CORRUPT);
    }
    const struct policy_requirement *asked;
    size_t count;
    assert_int_equal(terms_read_requirements(STR("{\"approvals\":0}"), a, &asked, &count),
                     ERR_CORRUPT);
    /* a proof that is not known here never becomes none */
    assert_int_equal(terms_read_requirements(STR("[{\"approvals\":1,\"proof\":\"passkey\"}]"), a,
                                             &asked, &count),
                     ERR_CORRUPT);
    assert_int_equal(
        terms_read_requirements(STR("[{\"approvals\":1,\"proof\":1}]"), a, &asked, &count),
        ERR_CORRUPT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(requirements_are_read_as_they_were_written),
        TEST(without_requirements_one_approval_by_anybody_is_asked),
        TEST(votes_are_read_as_they_were_written),
        TEST(what_was_never_written_turns_no_vote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
