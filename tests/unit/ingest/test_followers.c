/* Which engines follow, as several platforms write it down. */
#include "rig.h"

#include "pipeline/ingest/follower_store.h"

static void note(struct rig *r, uint64_t revision, uint64_t seen_at)
{
    const struct follower_row row = {STR("node-1"), revision, seen_at};
    assert_int_equal(follower_store_note(r->store, &row, 1, seen_at, &r->fault), ERR_OK);
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
    assert_int_equal(rows[0].revision, revision);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_an_engine_said_last_is_kept),
        TEST(a_note_that_comes_late_changes_nothing),
        TEST(what_is_newer_is_noted_by_a_clock_that_is_behind),
    };
    return rig_run(tests);
}
