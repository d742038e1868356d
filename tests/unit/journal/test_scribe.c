#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static void marks(struct rig *r, uint64_t written, uint64_t durable)
{
    uint64_t w, d;
    journal_progress(rig_producer(r), &w, &d);
    assert_int_equal(w, written);
    assert_int_equal(d, durable);
}

static void marks_move_with_write_and_sync(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "one", true);
    assert_int_equal(journal_block(rig_producer(r)), 1);
    journal_seal(rig_producer(r));
    marks(r, 0, 0);
    assert_true(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    marks(r, 1, 0);
    assert_int_equal(journal_written_seq(r->journal), 1);
    assert_int_equal(journal_durable_seq(r->journal), 0);
    rig_sync(r);
    marks(r, 1, 1);
    assert_int_equal(journal_durable_seq(r->journal), 1);
    assert_false(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    assert_false(journal_writer_sync_step(&r->journal->journal_writer));
    rig_destroy(r);
}

static void sealing_nothing_is_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    journal_seal(rig_producer(r));
    assert_false(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    enum err err;
    assert_non_null(journal_reserve(rig_producer(r), 100, &err)); /* and never committed */
    journal_seal(rig_producer(r));
    assert_false(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    /* each block has been in use now */
    for (unsigned i = 0; i < LIMIT_BLOCKS; i++) rig_put(r, "one");
    uint64_t mark = journal_block(rig_producer(r));
    int64_t room = atomic_load(&r->journal->journal_writer.room);
    journal_seal(rig_producer(r));
    assert_false(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    assert_int_equal(journal_block(rig_producer(r)), mark);
    assert_int_equal(atomic_load(&r->journal->journal_writer.room), room);
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
    assert_int_equal(journal_block(rig_producer(r)), 2);
    assert_true(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    marks(r, 1, 0);
    assert_int_equal(journal_written_seq(r->journal), 4);
    rig_destroy(r);
}

static void a_record_that_just_fits_is_the_last_of_its_block(void **state)
{
    (void)state;
    for (size_t beyond = 0; beyond < 2; beyond++) {
        struct rig *r = rig_create();
        size_t left =
            FRAME_BODY_BYTES - 2 * (100000 + FRAME_RECORD_HEADER_BYTES) - FRAME_RECORD_HEADER_BYTES;
        rig_append_size(r, 100000);
        rig_append_size(r, 100000);
        assert_int_equal(journal_block(rig_producer(r)), 1);
        rig_append_size(r, left + beyond);
        assert_int_equal(journal_block(rig_producer(r)), 1 + beyond);
        rig_append_size(r, 1);
        assert_int_equal(journal_block(rig_producer(r)), 2);
        rig_destroy(r);
    }
}

/* Room is given by frames: there is enough for one, or there is none. */
static void a_block_takes_a_whole_frame_of_room(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_writer *s = &r->journal->journal_writer;
    struct journal_producer *p = rig_producer(r);
    enum err err;
    rig_keep(r);
    atomic_store(&s->room, s->reserve_bytes + FRAME_BYTES - 1);
    assert_false(journal_has_room(p));
    assert_null(journal_reserve(p, 1, &err));
    assert_int_equal(err, ERR_FULL);
    atomic_store(&s->room, s->reserve_bytes + FRAME_BYTES);
    assert_true(journal_has_room(p));
    assert_non_null(journal_reserve(p, 1, &err));
    assert_int_equal(atomic_load(&s->room), s->reserve_bytes);
    journal_seal(p);
    atomic_store(&s->room, FRAME_BYTES - 1);
    assert_null(journal_reserve_closing(p, 1, &err));
    atomic_store(&s->room, FRAME_BYTES); /* the last of the reserve */
    assert_non_null(journal_reserve_closing(p, 1, &err));
    assert_int_equal(atomic_load(&s->room), 0);
    /* what nothing was written into is given back, and not taken */
    assert_null(journal_reserve(p, 1, &err));
    assert_int_equal(atomic_load(&s->room), FRAME_BYTES);
    atomic_store(&s->spare_fails, true);
    atomic_store(&s->room, s->reserve_bytes + FRAME_BYTES - 1);
    assert_true(journal_is_full(r->journal));
    atomic_store(&s->room, s->reserve_bytes + FRAME_BYTES);
    assert_false(journal_is_full(r->journal));
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
    r->journal->journal_writer.reserve_bytes = 0;
    atomic_store(&r->journal->journal_writer.room, INT64_C(1)
                                                       << 30); /* blocks are what runs out here */
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
    assert_true(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
    assert_int_equal(r->rings, 1);
    for (unsigned i = 1; i < LIMIT_BLOCKS; i++) {
        assert_true(journal_has_room(rig_producer(r)));
        rig_append(r, "one", true);
        journal_seal(rig_producer(r));
    }
    assert_non_null(journal_reserve(rig_producer(r), 10, &err));
    assert_false(journal_has_room(rig_producer(r))); /* beside the one that is open */
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

/* Else requests would wait for a disk that others have filled, and not hear of it. */
static void a_full_disk_is_told_and_not_waited_for(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_keep(r);
    while (journal_has_room(rig_producer(r))) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
    }
    atomic_store(&r->journal->journal_writer.disk_full, true);
    assert_true(journal_has_room(rig_producer(r)));
    enum err err;
    assert_null(journal_reserve(rig_producer(r), 10, &err));
    assert_int_equal(err, ERR_JOURNAL_FULL);
    rig_destroy(r);
}

/* Records of one request are reserved together and written one after the other. */
static void what_was_reserved_is_handed_out_up_to_its_size(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    enum err err;
    char *at = journal_reserve(rig_producer(r), 100, &err);
    assert_non_null(at);
    assert_ptr_equal(journal_reserved(rig_producer(r), 100), at);
    assert_null(journal_reserved(rig_producer(r), 101));
    journal_commit(rig_producer(r), 20, 10, true);
    size_t left = 100 - 30 - FRAME_RECORD_HEADER_BYTES;
    assert_ptr_equal(journal_reserved(rig_producer(r), left), at + 30 + FRAME_RECORD_HEADER_BYTES);
    assert_null(journal_reserved(rig_producer(r), left + 1));
    journal_commit(rig_producer(r), left, 0, true);
    assert_null(journal_reserved(rig_producer(r), 1)); /* no less than nothing is left */
    rig_write(r);
    rig_destroy(r);
}

static void a_block_without_a_record_leaves_its_room_to_others(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    enum err err;
    rig_keep(r);
    int64_t room = atomic_load(&r->journal->journal_writer.room);
    assert_non_null(journal_reserve(rig_producer(r), 10, &err));
    assert_true(atomic_load(&r->journal->journal_writer.room) < room);
    atomic_store(&rig_producer(r)->starved, true);
    uint64_t rings = r->rings;
    journal_seal(rig_producer(r));
    assert_int_equal(atomic_load(&r->journal->journal_writer.room), room);
    assert_true(r->rings > rings);
    assert_int_equal(journal_block(rig_producer(r)), 0);
    /* by another block, not by that one */
    assert_non_null(journal_reserve(rig_producer(r), 10, &err));
    assert_int_equal(atomic_load(&r->journal->journal_writer.room), room - FRAME_BYTES);
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
    r->journal->journal_writer.options.keep_ms = 0;
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
    /* none for a spare, and not full */
    sim_disk_set_capacity(r->disk, 3 * TEST_SEGMENT + TEST_SEGMENT / 2);
    assert_int_equal(fill_up(r), ERR_JOURNAL_FULL);
    assert_false(atomic_load(&r->journal->journal_writer.disk_full));
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
    assert_false(atomic_load(&r->journal->journal_writer.disk_full));
    struct disk slow = *r->options.disk;
    slow.fill = fill_nothing;
    filled = r->journal;
    filled->journal_writer.disk = &slow;
    rig_keep(r);
    assert_int_equal(said_while_filling, ERR_JOURNAL_FULL);
    filled->journal_writer.disk = r->options.disk;
    rig_destroy(r);
}

static void make_room_on(uint64_t capacity)
{
    struct rig *r = rig_create();
    sim_disk_set_capacity(r->disk, capacity);
    r->journal->journal_writer.options.keep_ms =
        UINT64_MAX; /* a disk that is getting full outweighs it */
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
    /* less than 95 % are used, and there is none for a spare */
    make_room_on(3 * TEST_SEGMENT + TEST_SEGMENT / 2);
}

static void no_more_confirmed_segments_are_kept_than_may_be(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->journal_writer.options.keep_ms = UINT64_MAX;
    r->journal->journal_writer.options.keep_bytes = 3 * TEST_SEGMENT;
    while (r->journal->journal_writer.tail.segment < 6) {
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
    assert_int_equal(t.segment_bytes, 3 * TEST_SEGMENT); /* and no fewer */
    rig_destroy(r);
}

/* Its last record's number is known from the next one alone, once it is gone. */
static void a_segment_stays_until_the_next_one_is_durable(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->journal_writer.options.keep_ms = 0;
    while (r->journal->journal_writer.tail.segment == 1) {
        rig_keep(r);
        rig_append_size(r, 60000);
        rig_write(r);
        if (r->journal->journal_writer.tail.segment == 1) rig_sync(r);
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

/* All of it is durable, and so is the beginning of the second. */
static void fill_first_segment(struct rig *r)
{
    while (r->journal->journal_writer.tail.segment == 1) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
    }
}

/* Its database was restored, say. */
static void what_the_platform_has_lost_again_is_not_removed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->journal_writer.options.keep_ms = 1000;
    fill_first_segment(r);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    journal_confirm(r->journal, 1);
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_true(t.oldest_seq > 1);
    rig_destroy(r);
}

/* What a recovery would start from; it only ever rises, whatever order two folds come in. */
static void what_no_snapshot_includes_is_not_removed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct segment oldest, next;
    struct journal_totals t;
    r->journal->journal_writer.options.keep_ms = 0;
    fill_first_segment(r);
    assert_true(shelf_oldest(&r->journal->journal_writer.shelf, &oldest, &next));
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    journal_hold(r->journal, 0);
    journal_hold(r->journal, next.first_seq - 2); /* all but its last record */
    journal_hold(r->journal, 1);
    assert_int_equal(atomic_load(&r->journal->journal_writer.held_seq), next.first_seq - 2);
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_hold(r->journal, next.first_seq - 1);
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, next.first_seq);
    rig_destroy(r);
}

static void a_segment_goes_only_when_confirmed_and_old_enough(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->journal->journal_writer.options.keep_ms = 1000;
    fill_first_segment(r);
    struct journal_totals t;
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_confirm(r->journal, journal_durable_seq(r->journal) - 2); /* not all of the first */
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW + 5000);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    journal_writer_keep_step(&r->journal->journal_writer,
                             TEST_NOW - 1); /* a clock that was set back */
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW + 999);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW + 1000);
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

static struct {
    enum err err;
    uint64_t free_bytes, total_bytes;
} seen;

static enum err see_space(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    (void)state;
    *ret_free = seen.free_bytes;
    *ret_total = seen.total_bytes;
    return seen.err;
}

static void what_the_disk_cannot_tell_is_as_it_was(void **state)
{
    (void)state;
    enum { TOTAL = 1000000 };
    static const struct {
        enum err err;
        uint64_t free_bytes, total_bytes;
        bool full;
    } looks[] = {
        {ERR_OK, 50001, TOTAL, false}, {ERR_IO, 0, TOTAL, false},    {ERR_OK, 0, 0, false},
        {ERR_OK, 50000, TOTAL, true},  {ERR_IO, TOTAL, TOTAL, true}, {ERR_OK, 9, 0, true},
        {ERR_OK, 50101, TOTAL, false},
    };
    struct rig *r = rig_create();
    struct disk door = *r->options.disk;
    door.free_bytes = see_space;
    r->journal->journal_writer.disk = &door;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        seen.err = looks[i].err;
        seen.free_bytes = looks[i].free_bytes;
        seen.total_bytes = looks[i].total_bytes;
        rig_keep(r);
        assert_int_equal(journal_is_full(r->journal), looks[i].full);
    }
    struct journal_totals t;
    journal_totals(r->journal, &t);
    assert_int_equal(t.free_bytes, 50101);
    assert_int_equal(t.total_bytes, TOTAL);
    assert_int_equal(t.left_bytes, 101);
    r->journal->journal_writer.disk = r->options.disk;
    rig_destroy(r);
}

static const struct disk *under;

static enum err remove_any_but_the_first(void *state, const char *name)
{
    return strcmp(name, "0000000000000001.journal") == 0 ? ERR_IO : under->remove(state, name);
}

static void a_segment_that_cannot_be_removed_is_still_there(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    r->journal->journal_writer.options.keep_ms = 0;
    fill_first_segment(r);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    struct disk door = *r->options.disk;
    under = r->options.disk;
    door.remove = remove_any_but_the_first;
    r->journal->journal_writer.disk = &door;
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_int_equal(t.oldest_seq, 1);
    r->journal->journal_writer.disk = r->options.disk;
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_true(t.oldest_seq > 1);
    rig_destroy(r);
}

static bool is_removal_unsynced;

static enum err remove_after_the_last(void *state, const char *name)
{
    assert_false(is_removal_unsynced);
    is_removal_unsynced = true;
    return under->remove(state, name);
}

static enum err note_synced(void *state)
{
    is_removal_unsynced = false;
    return under->sync_directory(state);
}

/* So a power cut leaves no gap among them. */
static void each_segment_is_gone_for_good_before_the_next_one_goes(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal_totals t;
    while (r->journal->journal_writer.tail.segment < 4) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    r->journal->journal_writer.options.keep_ms = 0;
    struct disk door = *r->options.disk;
    under = r->options.disk;
    door.remove = remove_after_the_last;
    door.sync_directory = note_synced;
    r->journal->journal_writer.disk = &door;
    rig_keep(r);
    assert_false(is_removal_unsynced);
    journal_totals(r->journal, &t);
    assert_int_equal(t.segments, 1);
    r->journal->journal_writer.disk = r->options.disk;
    rig_destroy(r);
}

static enum err fill_err;

static enum err fill_fails(void *state, int file, uint64_t size)
{
    return fill_err != ERR_OK ? fill_err : under->fill(state, file, size);
}

/* What a look says: one line of that event, or with NULL none. */
static void assert_look_says(struct rig *r, const char *event)
{
    char said[2048];
    int kept = dup(STDERR_FILENO), log = memfd_create("log", MFD_CLOEXEC);
    assert_true(kept >= 0 && dup2(log, STDERR_FILENO) >= 0);
    rig_keep(r);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    ssize_t size = pread(log, said, sizeof said - 1, 0);
    close(kept);
    close(log);
    said[size < 0 ? 0 : size] = '\0';
    if (event == NULL) assert_string_equal(said, "");
    if (event == NULL) return;
    assert_non_null(strstr(said, event));
    assert_ptr_equal(strchr(said, '\n'), said + size - 1);
}

static void a_disk_without_room_is_told_when_it_begins_and_when_it_ends(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct disk door = *r->options.disk;
    under = r->options.disk;
    door.free_bytes = see_space;
    door.fill = fill_fails;
    fill_first_segment(r); /* and took the spare */
    r->journal->journal_writer.disk = &door;
    seen.err = ERR_OK;
    seen.total_bytes = seen.free_bytes = 1000000;
    const enum err none_may_be_made[] = {ERR_NO_SPACE, ERR_NOT_PERMITTED};
    for (size_t i = 0; i < 2; i++) {
        fill_err = none_may_be_made[i];
        assert_look_says(r, i == 0 ? "journal_has_no_spare" : NULL); /* the same is told once */
        assert_look_says(r, NULL);
    }
    fill_err = ERR_OK;
    assert_look_says(r, "journal_has_spare");
    assert_look_says(r, NULL);
    seen.free_bytes = 0;
    assert_look_says(r, "journal_disk_full");
    assert_look_says(r, NULL);
    seen.free_bytes = seen.total_bytes;
    assert_look_says(r, "journal_disk_has_room");
    assert_look_says(r, NULL);
    r->journal->journal_writer.disk = r->options.disk;
    rig_destroy(r);
}

static uint64_t files_left;

static enum err see_files(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    (void)state;
    *ret_free = files_left;
    *ret_total = 100;
    return ERR_OK;
}

/* A journal that took it all would be full for good. */
static void what_the_next_snapshot_needs_is_left_to_it(void **state)
{
    (void)state;
    static const struct {
        uint64_t free_bytes, leave_bytes, files_left;
        bool made;
    } looks[] = {
        {TEST_SEGMENT + 999, 1000, 50, false},
        {TEST_SEGMENT + 999, 999, JOURNAL_LEAVE_FILES, false},
        {TEST_SEGMENT + 999, 999, JOURNAL_LEAVE_FILES + 1, true},
    };
    struct rig *r = rig_create();
    struct disk door = *r->options.disk;
    struct journal_totals t;
    door.free_bytes = see_space;
    door.free_files = see_files;
    fill_first_segment(r); /* and took the spare */
    r->journal->journal_writer.disk = &door;
    seen.err = ERR_OK;
    seen.total_bytes = 10 * (uint64_t)TEST_SEGMENT;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        seen.free_bytes = looks[i].free_bytes;
        files_left = looks[i].files_left;
        journal_leave(r->journal, looks[i].leave_bytes);
        rig_keep(r);
        assert_int_equal(r->journal->journal_writer.spare_ready, looks[i].made);
        assert_int_equal(r->journal->journal_writer.spare_fails, !looks[i].made);
    }
    seen.free_bytes = 5 * (uint64_t)TEST_SEGMENT;
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_int_equal(t.left_bytes, TEST_SEGMENT); /* one more file */
    files_left = 100;
    journal_leave(r->journal, 4 * (uint64_t)TEST_SEGMENT);
    rig_keep(r);
    journal_totals(r->journal, &t);
    assert_int_equal(t.left_bytes, TEST_SEGMENT);
    assert_int_equal(t.free_files, 100);
    assert_int_equal(t.total_files, 100);
    r->journal->journal_writer.disk = r->options.disk;
    rig_destroy(r);
}

static void a_disk_that_fails_while_a_spare_is_made_ends_the_process(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct disk door = *r->options.disk;
    int status;
    door.fill = fill_fails;
    fill_first_segment(r);
    fill_err = ERR_IO;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        r->journal->journal_writer.disk = &door;
        rig_keep(r);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    rig_destroy(r);
}

static void what_was_committed_is_written_when_the_journal_closes(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "sealed", false);
    journal_seal(rig_producer(r));
    rig_append(r, "sealed too", true);
    journal_seal(rig_producer(r));
    rig_close(r);
    sim_disk_power(r->disk);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 2);
    assert_string_equal(r->last_public, "sealed too");
    assert_int_equal(r->report.durable_seq_claimed, 2);
    rig_destroy(r);
}

static void an_idle_journal_tells_once_what_is_durable(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_false(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
    rig_put(r, "one");
    assert_true(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
    assert_false(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
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
        cmocka_unit_test(a_record_that_just_fits_is_the_last_of_its_block),
        cmocka_unit_test(a_block_takes_a_whole_frame_of_room),
        cmocka_unit_test(records_of_the_largest_size_fit),
        cmocka_unit_test(without_a_free_block_there_is_a_refusal_and_later_a_ring),
        cmocka_unit_test(without_room_for_a_block_it_is_told_before_anything_is_refused),
        cmocka_unit_test(a_full_disk_is_told_and_not_waited_for),
        cmocka_unit_test(what_was_reserved_is_handed_out_up_to_its_size),
        cmocka_unit_test(a_block_without_a_record_leaves_its_room_to_others),
        cmocka_unit_test(a_disk_without_room_for_a_spare_fills_the_journal_and_recovers_by_itself),
        cmocka_unit_test(nothing_else_goes_into_a_block_of_the_reserve),
        cmocka_unit_test(while_a_spare_is_tried_again_the_journal_stays_full),
        cmocka_unit_test(confirmed_segments_make_room),
        cmocka_unit_test(no_more_confirmed_segments_are_kept_than_may_be),
        cmocka_unit_test(a_segment_that_cannot_be_removed_is_still_there),
        cmocka_unit_test(each_segment_is_gone_for_good_before_the_next_one_goes),
        cmocka_unit_test(a_disk_without_room_is_told_when_it_begins_and_when_it_ends),
        cmocka_unit_test(what_the_next_snapshot_needs_is_left_to_it),
        cmocka_unit_test(a_disk_that_fails_while_a_spare_is_made_ends_the_process),
        cmocka_unit_test(a_segment_stays_until_the_next_one_is_durable),
        cmocka_unit_test(a_segment_goes_only_when_confirmed_and_old_enough),
        cmocka_unit_test(what_the_platform_has_lost_again_is_not_removed),
        cmocka_unit_test(what_no_snapshot_includes_is_not_removed),
        cmocka_unit_test(ninety_five_percent_used_is_full_for_ordinary_records),
        cmocka_unit_test(what_was_committed_is_written_when_the_journal_closes),
        cmocka_unit_test(what_the_disk_cannot_tell_is_as_it_was),
        cmocka_unit_test(an_idle_journal_tells_once_what_is_durable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
