/* Revisions, and a store that goes back under connections that have seen more. */
#include "rig.h"

#include "store/history.h"
#include "store/set_inside.h"

struct scene {
    struct rig *rig;
    struct history history;
};

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    rig_set_up((void **)&s->rig);
    history_init(&s->history);
    store_share_history(s->rig->store, &s->history);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    rig_tear_down((void **)&s->rig);
    history_fini(&s->history);
    free(s);
    return 0;
}

static struct revision revision(struct scene *s)
{
    struct revision now;
    assert_int_equal(store_revision(s->rig->store, &now, &s->rig->fault), ERR_OK);
    return now;
}

/* The store's row after each change, so that it can go back. */
static void keep(struct scene *s)
{
    rig_sql(s->rig, "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM store;"
                    "DELETE FROM kept WHERE revision = (SELECT revision FROM store);"
                    "INSERT INTO kept SELECT * FROM store");
}

/* The process reads the set, which it takes as seen then. */
static enum err look(struct scene *s) { return set_compare(s->rig->store, &s->rig->fault); }

static uint64_t change_in(struct scene *s, struct store *store)
{
    struct fault *f = &s->rig->fault;
    uint64_t number = 0;
    assert_int_equal(store_begin(store, f), ERR_OK);
    assert_int_equal(store_end(store, store_raise_revision(store, &number, f), f), ERR_OK);
    keep(s);
    return number;
}

static uint64_t change(struct scene *s) { return change_in(s, s->rig->store); }

static struct store *open_other(struct scene *s)
{
    struct store *other;
    assert_int_equal(store_open(s->rig->path, true, &other, &s->rig->fault), ERR_OK);
    store_share_pepper(other, &rig_pepper);
    return other;
}

/* A change by a program that has not seen what the others have. */
static uint64_t change_by_another(struct scene *s)
{
    struct store *other = open_other(s);
    uint64_t number = change_in(s, other);
    store_close(other);
    return number;
}

/* The command. */
static void adopt(struct scene *s)
{
    const struct actor by = {.principal = STR("somebody"), .now_ms = world_now_ms()};
    struct store *other = open_other(s);
    buf_clear(&s->rig->out);
    assert_int_equal(set_adopt(other, &by, &s->rig->out, &s->rig->fault), ERR_OK);
    store_close(other);
    keep(s);
}

static uint64_t settle(struct scene *s)
{
    uint64_t lost;
    assert_int_equal(store_settle_history(s->rig->store, &lost, &s->rig->fault), ERR_OK);
    return lost;
}

/* As a failover does that loses the newest changes, or a program that has kept an older state. */
static void go_back_to(struct scene *s, uint64_t number)
{
    static const char *const columns[] = {"history_id", "adopted_at", "set_history", "set_mac",
                                          "revision"};
    char sql[256];
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        snprintf(sql, sizeof sql, "UPDATE store SET %s = (SELECT %s FROM kept WHERE revision = %u)",
                 columns[i], columns[i], (unsigned)number);
        rig_sql(s->rig, sql);
    }
    snprintf(sql, sizeof sql, "DELETE FROM revisions WHERE number > %u", (unsigned)number);
    rig_sql(s->rig, sql);
}

static void each_change_has_a_number_and_an_id_of_its_own(void **state)
{
    struct scene *s = *state;
    const struct revision first = revision(s);
    assert_int_equal(first.number, 1);
    assert_int_equal(change(s), 2);
    const struct revision second = revision(s);
    assert_int_equal(change_by_another(s), 3);
    const struct revision third = revision(s);
    assert_int_equal(strlen(second.history_id), HISTORY_ID_TEXT);
    assert_string_not_equal(second.history_id, third.history_id);
    assert_int_equal(settle(s), 0);
    assert_int_equal(look(s), ERR_OK);
    assert_int_equal(revision(s).number, 3);
}

static void a_store_that_has_less_than_was_seen_is_refused_until_it_is_adopted(void **state)
{
    struct scene *s = *state;
    uint64_t number;
    struct fault *f = &s->rig->fault;
    while (change(s) < 5) continue;
    go_back_to(s, 3);
    assert_int_equal(look(s), ERR_SET_REFUSED);
    assert_non_null(strstr(f->text, "revision 3, which does not follow revision 5"));
    assert_int_equal(store_begin(s->rig->store, f), ERR_OK);
    assert_int_equal(store_end(s->rig->store, store_raise_revision(s->rig->store, &number, f), f),
                     ERR_SET_REFUSED);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 3);
    adopt(s);
    assert_int_equal(settle(s), 5);
    assert_int_equal(revision(s).number, 6);
    assert_int_equal(look(s), ERR_OK);
    assert_int_equal(settle(s), 0);
    assert_int_equal(change(s), 7);
}

static void a_store_that_has_other_changes_under_the_same_numbers_has_gone_back(void **state)
{
    struct scene *s = *state;
    while (change(s) < 5) continue;
    go_back_to(s, 3);
    assert_int_equal(change_by_another(s), 4);
    assert_int_equal(change_by_another(s), 5);
    assert_int_equal(change_by_another(s), 6);
    assert_int_equal(look(s), ERR_SET_REFUSED);
    adopt(s);
    assert_int_equal(settle(s), 5);
    assert_int_equal(revision(s).number, 8);
    assert_int_equal(look(s), ERR_OK);
}

/* The look of each moment comes too late: the change itself notices. */
static void the_first_change_after_it_has_a_number_above_all_that_was_seen(void **state)
{
    struct scene *s = *state;
    while (change(s) < 5) continue;
    go_back_to(s, 2);
    adopt(s);
    assert_int_equal(change(s), 6);
    assert_int_equal(settle(s), 5);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 6);
}

/* The state of before an adoption is older than that one, however high its number. */
static void what_was_adopted_does_not_go_back_behind_that(void **state)
{
    struct scene *s = *state;
    while (change(s) < 5) continue;
    adopt(s);
    assert_int_equal(look(s), ERR_OK);
    go_back_to(s, 5);
    while (change_by_another(s) < 9) continue;
    assert_int_equal(look(s), ERR_SET_REFUSED);
    assert_int_equal(settle(s), 0);
    assert_int_equal(revision(s).number, 9);
}

/* What another connection of this process saw counts, too. */
static void connections_share_what_they_saw(void **state)
{
    struct scene *s = *state;
    struct store *reader;
    assert_int_equal(store_open(s->rig->path, false, &reader, &s->rig->fault), ERR_OK);
    store_share_history(reader, &s->history);
    store_share_pepper(reader, &rig_pepper);
    keep(s);
    assert_int_equal(change_by_another(s), 2);
    assert_int_equal(set_compare(reader, &s->rig->fault), ERR_OK);
    store_close(reader);
    go_back_to(s, 1);
    assert_int_equal(look(s), ERR_SET_REFUSED);
}

static void a_change_that_is_not_committed_was_not_seen(void **state)
{
    struct scene *s = *state;
    uint64_t number;
    struct fault *f = &s->rig->fault;
    assert_int_equal(store_begin(s->rig->store, f), ERR_OK);
    assert_int_equal(store_raise_revision(s->rig->store, &number, f), ERR_OK);
    assert_int_equal(store_end(s->rig->store, ERR_IO, f), ERR_IO);
    assert_int_equal(settle(s), 0);
    assert_int_equal(look(s), ERR_OK);
    assert_int_equal(revision(s).number, 1);
}

static void no_more_revisions_are_kept_than_so_many(void **state)
{
    struct scene *s = *state;
    char sql[160];
    assert_int_equal(look(s), ERR_OK);
    snprintf(sql, sizeof sql, "UPDATE store SET revision = %d", REVISIONS_KEPT + 1);
    rig_sql(s->rig, sql);
    adopt(s);
    assert_int_equal(rig_number(s->rig, "SELECT min(number) FROM revisions"), REVISIONS_KEPT + 2);
    /* the one that was seen is too old to be compared */
    assert_int_equal(settle(s), 0);
    assert_int_equal(look(s), ERR_OK);
    assert_int_equal(revision(s).number, REVISIONS_KEPT + 2);
}

int main(void)
{
#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_change_has_a_number_and_an_id_of_its_own),
        TEST(a_store_that_has_less_than_was_seen_is_refused_until_it_is_adopted),
        TEST(a_store_that_has_other_changes_under_the_same_numbers_has_gone_back),
        TEST(the_first_change_after_it_has_a_number_above_all_that_was_seen),
        TEST(what_was_adopted_does_not_go_back_behind_that),
        TEST(connections_share_what_they_saw),
        TEST(a_change_that_is_not_committed_was_not_seen),
        TEST(no_more_revisions_are_kept_than_so_many),
    };
    return rig_run(tests);
}
