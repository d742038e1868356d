#include "support.h"

static void marks(struct rig *r, uint64_t written, uint64_t durable)
{
    uint64_t w, d;
    journal_marks(rig_producer(r), &w, &d);
    assert_int_equal(w, written);
    assert_int_equal(d, durable);
}

static void marks_move_with_write_and_sync(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "one", true);
    assert_int_equal(journal_mark(rig_producer(r)), 1);
    journal_seal(rig_producer(r));
    marks(r, 0, 0);
    assert_true(scribe_write_step(&r->journal->scribe, TEST_NOW));
    marks(r, 1, 0);
    assert_int_equal(journal_written_seq(r->journal), 1);
    assert_int_equal(journal_durable_seq(r->journal), 0);
    rig_sync(r);
    marks(r, 1, 1);
    assert_int_equal(journal_durable_seq(r->journal), 1);
    assert_false(scribe_write_step(&r->journal->scribe, TEST_NOW));
    assert_false(scribe_sync_step(&r->journal->scribe));
    rig_destroy(r);
}

static void sealing_nothing_is_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    journal_seal(rig_producer(r));
    assert_false(scribe_write_step(&r->journal->scribe, TEST_NOW));
    enum err err;
    assert_non_null(journal_reserve(rig_producer(r), 100, &err)); /* and never committed */
    journal_seal(rig_producer(r));
    assert_false(scribe_write_step(&r->journal->scribe, TEST_NOW));
    rig_destroy(r);
}

static void only_those_who_wait_for_written_are_rung_by_the_writer(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "synced", true);
    rig_write(r);
    assert_int_equal(r->rings, 0);
    rig_sync(r);
    assert_int_equal(r->rings, 1);
    assert_int_equal(r->durable_rings, 1);
    rig_append(r, "written", false);
    rig_write(r);
    assert_int_equal(r->rings, 2);
    rig_destroy(r);
}

static void a_full_block_is_sealed_by_the_next_reserve(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    for (int i = 0; i < 5; i++) rig_append_size(r, 60000);
    assert_int_equal(journal_mark(rig_producer(r)), 2);
    assert_true(scribe_write_step(&r->journal->scribe, TEST_NOW));
    marks(r, 1, 0);
    assert_int_equal(journal_written_seq(r->journal), 4);
    rig_destroy(r);
}

static void records_of_the_largest_size_fit(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    for (int i = 0; i < 40; i++) {
        rig_append_size(r, LIMIT_RECORD_BYTES);
        if (i % 3 == 1) rig_write(r);
        rig_keep(r);
    }
    rig_write(r);
    rig_die(r, false);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 40);
    rig_destroy(r);
}

static void without_a_free_block_there_is_a_refusal_and_later_a_ring(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_keep(r);
    r->journal->scribe.reserve_bytes = 0;
    atomic_store(&r->journal->scribe.room, INT64_C(1) << 30); /* blocks are what runs out here */
    for (unsigned i = 0; i < LIMIT_BLOCKS; i++) {
        assert_true(journal_has_room(rig_producer(r)));
        rig_append(r, "one", true);
        journal_seal(rig_producer(r));
    }
    enum err err;
    assert_false(journal_has_room(rig_producer(r)));
    assert_null(journal_reserve(rig_producer(r), 10, &err));
    assert_int_equal(err, ERR_FULL);
    assert_int_equal(r->rings, 0);
    assert_true(scribe_write_step(&r->journal->scribe, TEST_NOW));
    assert_int_equal(r->rings, 1);
    assert_non_null(journal_reserve(rig_producer(r), 10, &err));
    rig_destroy(r);
}

/* So that a segment that is slow to come makes requests wait, and refuses none. */
static void without_room_for_a_block_it_is_told_before_anything_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_keep(r);
    while (journal_has_room(rig_producer(r))) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
    }
    enum err err;
    assert_null(journal_reserve(rig_producer(r), 10, &err));
    assert_int_equal(err, ERR_FULL);
    uint64_t rings = r->rings;
    rig_keep(r);
    assert_true(r->rings > rings);
    assert_true(journal_has_room(rig_producer(r)));
    assert_non_null(journal_reserve(rig_producer(r), 10, &err));
    rig_destroy(r);
}

static void a_block_without_a_record_leaves_its_room_to_others(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    enum err err;
    rig_keep(r);
    int64_t room = atomic_load(&r->journal->scribe.room);
    assert_non_null(journal_reserve(rig_producer(r), 10, &err));
    assert_true(atomic_load(&r->journal->scribe.room) < room);
    atomic_store(&rig_producer(r)->starved, true);
    uint64_t rings = r->rings;
    journal_seal(rig_producer(r));
    assert_int_equal(atomic_load(&r->journal->scribe.room), room);
    assert_true(r->rings > rings);
    assert_int_equal(journal_mark(rig_producer(r)), 0);
    rig_destroy(r);
}

/* Appends until the journal refuses; gives the error. */
static enum err fill_up(struct rig *r)
{
    enum err err = ERR_OK;
    for (int i = 0; i < 200; i++) {
        char *to = journal_reserve(rig_producer(r), 60000, &err);
        if (to == NULL) return err;
        memset(to, 'y', 60000);
        journal_commit(rig_producer(r), 60000, 0, true);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    return ERR_OK;
}

static void a_disk_without_room_for_a_spare_fills_the_journal_and_recovers_by_itself(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    sim_disk_set_capacity(r->disk, 3 * TEST_SEGMENT);
    r->journal->scribe.options.keep_ms = 0;
    assert_int_equal(fill_up(r), ERR_JOURNAL_FULL);
    assert_true(journal_is_full(r->journal));
    assert_true(journal_has_room(rig_producer(r))); /* requests are not made to wait for it */

    /* The reserve still takes what closes something. */
    enum err err;
    char *to = journal_reserve_closing(rig_producer(r), 6, &err);
    assert_non_null(to);
    memcpy(to, "revoke", 6);
    journal_commit(rig_producer(r), 6, 0, true);
    assert_null(journal_reserve(rig_producer(r), 6, &err)); /* and no others beside it */
    rig_write(r);
    rig_sync(r);
    assert_null(journal_reserve(rig_producer(r), 6, &err));

    sim_disk_set_capacity(r->disk, 40 * TEST_SEGMENT);
    uint64_t rings = r->rings;
    rig_keep(r);
    assert_true(r->rings > rings);
    assert_false(journal_is_full(r->journal));
    assert_non_null(journal_reserve(rig_producer(r), 6, &err));
    rig_destroy(r);
}

static void nothing_else_goes_into_a_block_of_the_reserve(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    enum err err;
    sim_disk_set_capacity(r->disk, 3 * TEST_SEGMENT + TEST_SEGMENT / 2); /* none for a spare, and not full */
    assert_int_equal(fill_up(r), ERR_JOURNAL_FULL);
    assert_false(atomic_load(&r->journal->scribe.disk_full));
    char *to = journal_reserve_closing(rig_producer(r), 6, &err);
    assert_non_null(to);
    memcpy(to, "revoke", 6);
    journal_commit(rig_producer(r), 6, 0, true);
    assert_null(journal_reserve(rig_producer(r), 6, &err));
    assert_int_equal(err, ERR_JOURNAL_FULL);
    rig_destroy(r);
}

static struct journal *filled;
static enum err said_while_filling;

static enum err fill_nothing(void *state, int file, uint64_t size)
{
    (void)state, (void)file, (void)size;
    assert_true(journal_is_full(filled));
    assert_null(journal_reserve(journal_producer(filled, 0), 6, &said_while_filling));
    return ERR_NO_SPACE;
}

/* To find that there is still no room for a spare may take as long as writing most of one. */
static void while_a_spare_is_tried_again_the_journal_stays_full(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    sim_disk_set_capacity(r->disk, 3 * TEST_SEGMENT + TEST_SEGMENT / 2);
    assert_int_equal(fill_up(r), ERR_JOURNAL_FULL);
    assert_false(atomic_load(&r->journal->scribe.disk_full));
    struct disk slow = *r->options.disk;
    slow.fill = fill_nothing;
    filled = r->journal;
    filled->scribe.disk = &slow;
    rig_keep(r);
    assert_int_equal(said_while_filling, ERR_JOURNAL_FULL);
    filled->scribe.disk = r->options.disk;
    rig_destroy(r);
}

static void make_room_on(uint64_t capacity)
{
    struct rig *r = rig_create();
    sim_disk_set_capacity(r->disk, capacity);
    r->journal->scribe.options.keep_ms = UINT64_MAX; /* a disk that is getting full outweighs it */
    assert_int_equal(fill_up(r), ERR_JOURNAL_FULL);
    struct journal_totals before, after;
    journal_totals(r->journal, &before);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    rig_keep(r);
    journal_totals(r->journal, &after);
    assert_true(after.oldest_seq > before.oldest_seq);
    assert_false(journal_is_full(r->journal));
    rig_destroy(r);
}

static void confirmed_segments_make_room(void **state)
{
    (void)state;
    make_room_on(3 * TEST_SEGMENT);
    make_room_on(3 * TEST_SEGMENT + TEST_SEGMENT / 2); /* less than 95 % are used, and there is none for a spare */
}

static void no_more_confirmed_segments_are_kept_than_may_be(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->scribe.options.keep_ms = UINT64_MAX;
    r->journal->scribe.options.keep_bytes = 3 * TEST_SEGMENT;
    while (r->journal->scribe.tail.segment < 6) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1); /* not confirmed */
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_true(t.segment_bytes <= 3 * TEST_SEGMENT);
    assert_true(t.segments >= 2); /* and no fewer than that */
    rig_destroy(r);
}

/* Its last record's number is known from the next one alone, once it is gone. */
static void a_segment_stays_until_the_next_one_is_durable(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->scribe.options.keep_ms = 0;
    while (r->journal->scribe.tail.segment == 1) {
        rig_keep(r);
        rig_append_size(r, 60000);
        rig_write(r);
        if (r->journal->scribe.tail.segment == 1) rig_sync(r);
        journal_confirm(r->journal, journal_durable_seq(r->journal));
    }
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    rig_sync(r);
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_true(t.oldest_seq > 1);
    rig_destroy(r);
}

/* Its database was restored, say. */
static void what_the_platform_has_lost_again_is_not_removed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->scribe.options.keep_ms = 1000;
    while (r->journal->scribe.tail.segment == 1) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    journal_confirm(r->journal, 1);
    scribe_keep_step(&r->journal->scribe, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    scribe_keep_step(&r->journal->scribe, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_true(t.oldest_seq > 1);
    rig_destroy(r);
}

static void a_segment_goes_only_when_confirmed_and_old_enough(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->journal->scribe.options.keep_ms = 1000;
    while (r->journal->scribe.tail.segment == 1) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    struct journal_totals t;
    scribe_keep_step(&r->journal->scribe, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_confirm(r->journal, journal_durable_seq(r->journal) - 2); /* not all of the first */
    scribe_keep_step(&r->journal->scribe, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    scribe_keep_step(&r->journal->scribe, TEST_NOW - 1); /* a clock that was set back */
    scribe_keep_step(&r->journal->scribe, TEST_NOW + 999);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    scribe_keep_step(&r->journal->scribe, TEST_NOW + 1000);
    journal_totals(r->journal, &t);
    assert_true(t.oldest_seq > 1);
    assert_int_equal(t.segments, 1);

    /* The number of the next record outlives the segments that it was counted in. */
    uint64_t last = journal_durable_seq(r->journal);
    rig_die(r, true);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->report.last_seq, last);
    rig_destroy(r);
}

static void ninety_five_percent_used_is_full_for_ordinary_records(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    enum err err;
    sim_disk_set_capacity(r->disk, 2 * TEST_SEGMENT);
    rig_keep(r);
    assert_true(journal_is_full(r->journal));
    assert_null(journal_reserve(rig_producer(r), 6, &err));
    assert_int_equal(err, ERR_JOURNAL_FULL);
    assert_non_null(journal_reserve_closing(rig_producer(r), 6, &err));
    sim_disk_set_capacity(r->disk, 40 * TEST_SEGMENT);
    rig_keep(r);
    assert_int_equal(r->rings, 1);
    assert_non_null(journal_reserve(rig_producer(r), 6, &err));
    rig_destroy(r);
}

static void an_idle_journal_tells_once_what_is_durable(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_false(scribe_claim_step(&r->journal->scribe, TEST_NOW));
    rig_put(r, "one");
    assert_true(scribe_claim_step(&r->journal->scribe, TEST_NOW));
    assert_false(scribe_claim_step(&r->journal->scribe, TEST_NOW));
    rig_die(r, false);
    rig_flip(r, test_first_segment, 200);
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_move_with_write_and_sync),
        cmocka_unit_test(sealing_nothing_is_nothing),
        cmocka_unit_test(only_those_who_wait_for_written_are_rung_by_the_writer),
        cmocka_unit_test(a_full_block_is_sealed_by_the_next_reserve),
        cmocka_unit_test(records_of_the_largest_size_fit),
        cmocka_unit_test(without_a_free_block_there_is_a_refusal_and_later_a_ring),
        cmocka_unit_test(without_room_for_a_block_it_is_told_before_anything_is_refused),
        cmocka_unit_test(a_block_without_a_record_leaves_its_room_to_others),
        cmocka_unit_test(a_disk_without_room_for_a_spare_fills_the_journal_and_recovers_by_itself),
        cmocka_unit_test(nothing_else_goes_into_a_block_of_the_reserve),
        cmocka_unit_test(while_a_spare_is_tried_again_the_journal_stays_full),
        cmocka_unit_test(confirmed_segments_make_room),
        cmocka_unit_test(no_more_confirmed_segments_are_kept_than_may_be),
        cmocka_unit_test(a_segment_stays_until_the_next_one_is_durable),
        cmocka_unit_test(a_segment_goes_only_when_confirmed_and_old_enough),
        cmocka_unit_test(what_the_platform_has_lost_again_is_not_removed),
        cmocka_unit_test(ninety_five_percent_used_is_full_for_ordinary_records),
        cmocka_unit_test(an_idle_journal_tells_once_what_is_durable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
