/* Which engines follow, as several platforms write it down. */
#include "rig.h"

#include "store/follower_store.h"

static int set_up(void **state)
{
    rig_set_up(state);
    rig_sql(*state,
            "INSERT INTO revisions (number, history_id) VALUES (5, 'a'), (6, 'a'), (7, 'a')");
    return 0;
}

static void note_of(struct rig *r, uint64_t number, const char *history_id, uint64_t seen_at)
{
    struct follower_row row = {
        .node = STR("node-1"), .revision.number = number, .seen_at = seen_at};
    memcpy(row.revision.history_id, history_id, strlen(history_id));
    assert_int_equal(follower_store_note(r->store, &row, 1, seen_at, &r->fault), ERR_OK);
}

static void note(struct rig *r, uint64_t revision, uint64_t seen_at)
{
    note_of(r, revision, revision == 0 ? "" : "a", seen_at);
}

static void assert_noted(struct rig *r, uint64_t revision, uint64_t seen_at)
{
    static struct follower_row rows[FOLLOWERS_MAX];
    struct arena arena;
    size_t count;
    arena_init(&arena, 1 << 10, 1 << 16);
    assert_int_equal(follower_store_list(r->store, 1000, &arena, rows, &count, &r->fault), ERR_OK);
    assert_int_equal(count, 1);
    assert_true(str_equal(rows[0].node, STR("node-1")));
    assert_int_equal(rows[0].revision.number, revision);
    assert_int_equal(rows[0].seen_at, seen_at);
    arena_fini(&arena);
}

static void what_an_engine_said_last_is_kept(void **state)
{
    struct rig *r = *state;
    note(r, 5, 1000);
    note(r, 7, 2000);
    assert_noted(r, 7, 2000);
    note(r, 0, 3000); /* it was started anew, with nothing */
    assert_noted(r, 0, 3000);
    note(r, 6, 3000);
    assert_noted(r, 6, 3000);
}

/* It has asked another platform since, and the writer of the first was busy. */
static void a_note_that_comes_late_changes_nothing(void **state)
{
    struct rig *r = *state;
    note(r, 7, 2000);
    note(r, 5, 1000);
    assert_noted(r, 7, 2000);
    note(r, 7, 1000);
    assert_noted(r, 7, 2000);
}

/* Of what it took up since, whatever the clocks of the platforms that it asked. */
static void what_is_newer_is_noted_by_a_clock_that_is_behind(void **state)
{
    struct rig *r = *state;
    note(r, 5, 2000);
    note(r, 7, 1000);
    assert_noted(r, 7, 1000);
}

/* The store went back, and has come to the same number by another change. */
static void a_revision_of_another_history_counts_for_nothing(void **state)
{
    struct rig *r = *state;
    note_of(r, 7, "b", 1000);
    assert_noted(r, 0, 1000);
    note_of(r, 8, "a", 2000);
    assert_noted(r, 0, 2000);
    note_of(r, 7, "a", 3000);
    assert_noted(r, 7, 3000);
}

int main(void)
{
#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_an_engine_said_last_is_kept),
        TEST(a_note_that_comes_late_changes_nothing),
        TEST(what_is_newer_is_noted_by_a_clock_that_is_behind),
        TEST(a_revision_of_another_history_counts_for_nothing),
    };
    return rig_run(tests);
}
