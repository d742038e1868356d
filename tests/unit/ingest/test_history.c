/* Revisions, and a store that goes back under connections that have seen more. */
#include "rig.h"

#include "store/history.h"
#include "store/store_inside.h"

struct seen {
    struct rig *rig;
    struct history history;
};

static int set_up(void **state)
{
    struct seen *s = calloc(1, sizeof *s);
    rig_set_up((void **)&s->rig);
    history_init(&s->history);
    store_share_history(s->rig->store, &s->history);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct seen *s = *state;
    rig_tear_down((void **)&s->rig);
    history_fini(&s->history);
    free(s);
    return 0;
}

static struct revision revision(struct seen *s)
{
    struct revision now;
    assert_int_equal(store_revision(s->rig->store, &now, &s->rig->fault), ERR_OK);
    return now;
}

static uint64_t change(struct store *store, struct fault *f)
{
    uint64_t number = 0;
    assert_int_equal(store_begin(store, f), ERR_OK);
    assert_int_equal(store_end(store, store_raise_revision(store, &number, f), f), ERR_OK);
    return number;
}

/* A change by a program that has not seen what the others have. */
static uint64_t change_by_another(struct seen *s)
{
    struct store *other;
    assert_int_equal(store_open(s->rig->path, true, &other, &s->rig->fault), ERR_OK);
    uint64_t number = change(other, &s->rig->fault);
    store_close(other);
    return number;
}

static uint64_t settle(struct seen *s)
{
    uint64_t lost;
    assert_int_equal(store_settle_history(s->rig->store, &lost, &s->rig->fault), ERR_OK);
    return lost;
}

/* As a failover does that loses the newest changes. */
static void go_back_to(struct seen *s, uint64_t number)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "UPDATE store SET revision = %u, history_id = (SELECT history_id FROM revisions WHERE "
             "number = %u); DELETE FROM revisions WHERE number > %u",
             (unsigned)number, (unsigned)number, (unsigned)number);
    rig_sql(s->rig, sql);
}

static void each_change_has_a_number_and_an_id_of_its_own(void **state)
{
    struct seen *s = *state;
    const struct revision first = revision(s);
    assert_int_equal(first.number, 1);
    assert_int_equal(change(s->rig->store, &s->rig->fault), 2);
    const struct revision second = revision(s);
    assert_int_equal(change_by_another(s), 3);
    const struct revision third = revision(s);
    assert_int_equal(strlen(second.history_id), HISTORY_ID_TEXT);
    assert_string_not_equal(second.history_id, third.history_id);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 3);
}

static void a_store_that_has_less_than_was_seen_is_given_a_number_above_that(void **state)
{
    struct seen *s = *state;
    while (change(s->rig->store, &s->rig->fault) < 5) continue;
    go_back_to(s, 3);
    assert_int_equal(revision(s).number, 3);
    assert_int_equal(settle(s), 5);
    assert_int_equal(revision(s).number, 6);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 6);
}

static void a_store_that_has_other_changes_under_the_same_numbers_has_gone_back(void **state)
{
    struct seen *s = *state;
    while (change(s->rig->store, &s->rig->fault) < 5) continue;
    go_back_to(s, 3);
    assert_int_equal(change_by_another(s), 4);
    assert_int_equal(change_by_another(s), 5);
    assert_int_equal(settle(s), 5);
    assert_int_equal(revision(s).number, 6);
    go_back_to(s, 5);
    for (unsigned i = 0; i < 4; i++) change_by_another(s);
    assert_int_equal(settle(s), 6);
    assert_int_equal(revision(s).number, 10);
}

/* The look of each moment comes too late: the change itself notices. */
static void the_first_change_after_it_has_a_number_above_all_that_was_seen(void **state)
{
    struct seen *s = *state;
    while (change(s->rig->store, &s->rig->fault) < 5) continue;
    go_back_to(s, 4);
    assert_int_equal(change(s->rig->store, &s->rig->fault), 6);
    assert_int_equal(settle(s), 5);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 6);
}

/* What another connection of this process saw counts, too. */
static void connections_share_what_they_saw(void **state)
{
    struct seen *s = *state;
    struct store *reader;
    struct revision now;
    assert_int_equal(store_open(s->rig->path, false, &reader, &s->rig->fault), ERR_OK);
    store_share_history(reader, &s->history);
    revision(s);
    assert_int_equal(change_by_another(s), 2);
    assert_int_equal(store_revision(reader, &now, &s->rig->fault), ERR_OK);
    store_close(reader);
    go_back_to(s, 1);
    assert_int_equal(change(s->rig->store, &s->rig->fault), 3);
    assert_int_equal(settle(s), 2);
}

static void a_change_that_is_not_committed_was_not_seen(void **state)
{
    struct seen *s = *state;
    uint64_t number;
    struct fault *f = &s->rig->fault;
    revision(s);
    assert_int_equal(store_begin(s->rig->store, f), ERR_OK);
    assert_int_equal(store_raise_revision(s->rig->store, &number, f), ERR_OK);
    assert_int_equal(store_end(s->rig->store, ERR_IO, f), ERR_IO);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 1);
}

static void no_more_revisions_are_kept_than_so_many(void **state)
{
    struct seen *s = *state;
    char sql[160];
    revision(s);
    snprintf(sql, sizeof sql, "UPDATE store SET revision = %d", REVISIONS_KEPT + 1);
    rig_sql(s->rig, sql);
    assert_int_equal(change_by_another(s), REVISIONS_KEPT + 2);
    assert_int_equal(rig_number(s->rig, "SELECT min(number) FROM revisions"), REVISIONS_KEPT + 2);
    /* the one that was seen is too old to be compared */
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, REVISIONS_KEPT + 2);
}

int main(void)
{
#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_change_has_a_number_and_an_id_of_its_own),
        TEST(a_store_that_has_less_than_was_seen_is_given_a_number_above_that),
        TEST(a_store_that_has_other_changes_under_the_same_numbers_has_gone_back),
        TEST(the_first_change_after_it_has_a_number_above_all_that_was_seen),
        TEST(connections_share_what_they_saw),
        TEST(a_change_that_is_not_committed_was_not_seen),
        TEST(no_more_revisions_are_kept_than_so_many),
    };
    return rig_run(tests);
}
