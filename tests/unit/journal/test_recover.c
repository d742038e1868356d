#include <errno.h>

#include "journal/frame.h"
#include "journal/recover.h"
#include "support.h"

static void a_new_directory_is_empty(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(r->report.last_seq, 0);
    assert_int_equal(r->report.records, 0);
    assert_int_equal(r->report.segments, 1);
    assert_memory_equal(r->report.epoch, test_epoch, JOURNAL_EPOCH_TEXT);
    assert_memory_equal(r->report.last_epoch, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", JOURNAL_EPOCH_TEXT);
    rig_destroy(r);
}

static void records_come_back_after_a_clean_close(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_put(r, "two");
    rig_close(r);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 2);
    assert_string_equal(r->last_public, "two");
    assert_int_equal(r->report.last_seq, 2);
    assert_int_equal(r->report.durable_seq_claimed, 2);
    assert_int_equal(r->report.cut_bytes, 0);
    assert_memory_equal(r->report.last_epoch, test_epoch, JOURNAL_EPOCH_TEXT);
    rig_destroy(r);
}

/* A life that wrote frames but no record is not the last record's epoch. */
static void the_last_epoch_is_that_of_the_last_record(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "one", false);
    rig_write(r);
    rig_die(r, false);
    assert_int_equal(journal_open_driven(&r->options, test_other_epoch, TEST_NOW + 50, NULL, NULL,
                                         &r->journal, &r->report, &r->fault),
                     ERR_OK);
    assert_int_equal(r->report.last_ms, TEST_NOW);
    rig_close(r);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->report.last_seq, 1);
    assert_memory_equal(r->report.last_epoch, test_epoch, JOURNAL_EPOCH_TEXT);
    assert_int_equal(r->report.last_ms, TEST_NOW + 50); /* the frame that told "one" durable */
    rig_destroy(r);
}

static void what_was_only_written_survives_a_kill(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "one", false);
    rig_write(r);
    rig_die(r, false);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 1);
    rig_destroy(r);
}

static bool is_cached(struct rig *r, const char *name, uint64_t offset)
{
    const struct disk *d = sim_disk_door(r->disk);
    uint64_t before = r->counts.pages_read;
    int file;
    char byte;
    assert_int_equal(d->open(d->state, name, false, &file), ERR_OK);
    assert_int_equal(d->read(d->state, file, &byte, 1, offset), ERR_OK);
    d->close(d->state, file);
    return r->counts.pages_read == before;
}

/* The kernel reads ahead into large folios, in which small writes are dear. */
static void nothing_that_was_read_stays_where_frames_will_be_written(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(r->counts.pages_read, 0);
    for (unsigned i = 0; i < 5; i++) rig_append_size(r, 50000);
    rig_write(r);
    rig_sync(r);
    assert_true(journal_writer_claim_step(&r->journal->journal_writer,
                                          TEST_NOW)); /* the next life need not */
    rig_sync(r);
    uint64_t tail = r->journal->journal_writer.tail.offset;
    rig_die(r, false);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 5);
    assert_int_equal(r->journal->journal_writer.tail.offset, tail);
    assert_false(is_cached(r, test_first_segment, tail + 8192));
    assert_false(is_cached(r, test_second_segment, 0)); /* the spare of the life before */
    rig_destroy(r);
}

/* A disk loses 4 KiB at once: what lies in them, and what tells that it was there. */
static bool is_seen(struct rig *r, const char *name, uint64_t block)
{
    static const char nothing[FRAME_BLOCK_BYTES];
    struct rig copy = {.options = r->options, .disk = sim_disk_copy(r->disk)};
    copy.options.disk = sim_disk_door(copy.disk);
    assert_true(
        sim_disk_damage(copy.disk, name, block * FRAME_BLOCK_BYTES, nothing, sizeof nothing));
    uint64_t promised = journal_durable_seq(r->journal);
    bool seen = rig_open(&copy) == ERR_CORRUPT || copy.replayed == promised;
    journal_abandon(copy.journal);
    sim_disk_destroy(copy.disk);
    return seen;
}

static void a_lost_block_that_holds_the_last_records_is_seen(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        struct rig *r = rig_create();
        /* small frames side by side, and one that ends at, before or behind the end of a block */
        for (unsigned k = 0; k < i % 9; k++) rig_put(r, "small");
        rig_append_size(r, 100 + i * 450);
        rig_write(r);
        rig_sync(r);
        journal_writer_claim_step(&r->journal->journal_writer,
                                  TEST_NOW); /* as a second later, or at the end */
        journal_writer_sync_step(&r->journal->journal_writer);
        assert_false(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
        uint64_t blocks = r->journal->journal_writer.tail.offset / FRAME_BLOCK_BYTES + 1;
        for (uint64_t at = 0; at < blocks; at++) assert_true(is_seen(r, test_first_segment, at));
        rig_destroy(r);
    }
}

/* Nothing told of those that filled a segment to its last sector. */
static void records_at_the_very_end_of_a_segment_are_told_of_in_the_next(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    while (TEST_SEGMENT - r->journal->journal_writer.tail.offset > 60000) {
        rig_append_size(r, 40000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    uint64_t left = TEST_SEGMENT - r->journal->journal_writer.tail.offset;
    rig_append_size(r, (size_t)left - FRAME_HEADER_BYTES - FRAME_RECORD_HEADER_BYTES);
    rig_write(r);
    rig_sync(r);
    assert_int_equal(r->journal->journal_writer.tail.offset, TEST_SEGMENT);
    assert_true(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
    journal_writer_sync_step(&r->journal->journal_writer);
    assert_int_equal(r->journal->journal_writer.tail.segment, 2);
    assert_true(is_seen(r, test_first_segment, TEST_SEGMENT / FRAME_BLOCK_BYTES - 1));
    uint64_t written = journal_written_seq(r->journal);
    rig_die(r, false);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, written);
    rig_destroy(r);
}

static _Atomic bool stop_now;

static enum err take_and_stop(void *context, const struct journal_record *record)
{
    atomic_store(&stop_now, true);
    return rig_take(context, record);
}

static void an_opening_that_is_given_up_ends_between_two_frames(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    for (unsigned i = 0; i < 5; i++) rig_put(r, "one");
    rig_die(r, false);
    r->options.given_up = &stop_now;
    r->replayed = 0;
    atomic_store(&stop_now, false);
    assert_int_equal(journal_open_driven(&r->options, test_epoch, TEST_NOW, take_and_stop, r,
                                         &r->journal, &r->report, &r->fault),
                     ERR_CLOSED);
    assert_int_equal(r->replayed, 1);
    sim_disk_kill(r->disk);
    assert_int_equal(rig_open(r), ERR_CLOSED);
    assert_int_equal(r->replayed, 0);
    sim_disk_kill(r->disk);
    atomic_store(&stop_now, false);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 5);
    rig_destroy(r);
}

static uint64_t found_node, found_seq;

static enum err refuse_all(void *context, const struct journal_report *found, struct fault *f)
{
    (void)context;
    found_node = found->node;
    found_seq = found->last_seq;
    return fault_set(f, ERR_BAD_VALUE, "", "not this one");
}

static void who_opens_may_refuse_what_is_found_before_anything_is_written(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_die(r, false);
    r->options.node = 77;
    assert_int_equal(rig_open(r), ERR_OK);
    for (unsigned i = 0; i < 5; i++) rig_put(r, "one");
    uint64_t tail = r->journal->journal_writer.tail.offset;
    rig_die(r, false);
    r->options.accept = refuse_all;
    assert_int_equal(rig_open(r), ERR_BAD_VALUE);
    assert_string_equal(r->fault.text, "not this one");
    assert_int_equal(found_node, 77);
    assert_int_equal(found_seq, 5);
    assert_int_equal(r->replayed, 0);
    sim_disk_kill(r->disk);
    r->options.accept = NULL;
    r->options.node = 0; /* an earlier program tells none, and takes nothing back */
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->report.node, 77);
    assert_true(r->journal->journal_writer.tail.offset >= tail);
    rig_destroy(r);
}

/* A cut may take the padding and leave the frame, or the reverse. */
static void a_tail_that_was_padded_is_cut_behind_its_last_frame(void **state)
{
    (void)state;
    unsigned kept = 0, lost = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct rig *r = rig_create_seeded(seed);
        rig_put(r, "one"); /* padded, and the next is in its padding */
        rig_append(r, "two", false);
        rig_write(r);
        rig_append_size(r, 6000); /* padded again */
        rig_write(r);
        rig_die(r, true);
        assert_int_equal(rig_open(r), ERR_OK);
        uint64_t last = r->report.last_seq;
        assert_in_range(last, 1, 3);
        if (last == 3)
            kept++;
        else
            lost++;
        rig_put(r, "more");
        rig_append_size(r, 5000);
        rig_write(r);
        rig_die(r, false);
        assert_int_equal(rig_open(r), ERR_OK);
        assert_int_equal(r->report.last_seq, last + 2);
        assert_int_equal(r->replayed, last + 2);
        assert_int_equal(r->report.cut_bytes, 0);
        rig_destroy(r);
    }
    assert_true(kept > 0 && lost > 0);
}

/* Recovery must not trust pages that read well: it writes them anew. */
static void what_a_kill_left_unsynced_is_durable_after_recovery(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    for (int i = 0; i < 20; i++) {
        rig_append(r, "only written", false);
        rig_write(r);
        rig_die(r, false);
        assert_int_equal(rig_open(r), ERR_OK);
        rig_die(r, true);
        assert_int_equal(rig_open(r), ERR_OK);
        assert_int_equal(r->replayed, i + 1);
    }
    rig_destroy(r);
}

static void a_torn_tail_is_cut_and_counted(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    uint64_t offset = r->journal->journal_writer.tail.offset;
    rig_append(r, "two", false);
    rig_write(r);
    rig_die(r, false);
    rig_flip(r, test_first_segment,
             offset + FRAME_HEADER_BYTES + 9); /* the body of the last frame */
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 1);
    assert_int_equal(r->report.cut_frames, 1);
    assert_int_equal(r->report.cut_bytes, 512);
    rig_put(r, "two again");
    rig_close(r);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 2);
    assert_string_equal(r->last_public, "two again");
    rig_destroy(r);
}

static void damage_below_the_durable_mark_is_refused_and_told(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    uint64_t offset = r->journal->journal_writer.tail.offset;
    rig_put(r, "one");
    rig_put(r, "two"); /* tells that "one" is durable */
    rig_die(r, false);
    rig_flip(r, test_first_segment, offset + FRAME_HEADER_BYTES + 9);
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    assert_non_null(strstr(r->fault.text, test_first_segment));
    assert_non_null(strstr(r->fault.text, "offset 0"));
    assert_non_null(strstr(r->fault.text, "seq 1"));
    rig_destroy(r);
}

static void a_refusal_changes_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_put(r, "two");
    rig_die(r, false);
    uint64_t size;
    rig_flip(r, test_first_segment, 200);
    char *before = malloc(TEST_SEGMENT);
    memcpy(before, sim_disk_bytes(r->disk, test_first_segment, &size), TEST_SEGMENT);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig_open(r), ERR_CORRUPT);
        sim_disk_kill(r->disk);
    }
    assert_memory_equal(before, sim_disk_bytes(r->disk, test_first_segment, &size), TEST_SEGMENT);
    free(before);
    rig_destroy(r);
}

static void the_last_record_is_guarded_after_a_clean_close(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_close(r);
    rig_flip(r, test_first_segment, FRAME_HEADER_BYTES);
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    rig_destroy(r);
}

static void the_last_record_is_guarded_once_recovery_promised_it(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, "one", false);
    rig_write(r);
    rig_die(r, false);
    assert_int_equal(rig_open(r), ERR_OK);
    rig_die(r, true);
    rig_flip(r, test_first_segment, FRAME_HEADER_BYTES);
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    rig_destroy(r);
}

/* The header's word counts, though the frame that says it is torn itself. */
static void a_torn_frame_still_tells_what_was_durable(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    uint64_t offset = r->journal->journal_writer.tail.offset;
    rig_put(r, "two");
    rig_die(r, false);
    rig_flip(r, test_first_segment, FRAME_HEADER_BYTES + 9);
    rig_flip(r, test_first_segment, offset + FRAME_HEADER_BYTES + 9);
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    rig_destroy(r);
}

static void fill_first_segment(struct rig *r)
{
    while (r->journal->journal_writer.tail.segment == 1) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
}

static void segments_follow_each_other(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill_first_segment(r);
    uint64_t written = journal_written_seq(r->journal);
    rig_die(r, true);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, written);
    assert_int_equal(r->report.segments, 2);
    rig_destroy(r);
}

/* A frame of no records at the end of a full segment, written and not synced, then a kill, and
 * only then a power cut: the chain needs that frame, though no record is in it. */
static void an_unsynced_frame_of_no_records_is_not_forgotten(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct rig *r = rig_create_seeded(seed);
        while (r->journal->journal_writer.tail.offset < TEST_SEGMENT - 3 * 65536) {
            rig_append_size(r, 60000);
            rig_write(r);
            rig_sync(r);
            rig_keep(r);
        }
        assert_true(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
        for (int i = 0; i < 4; i++) rig_append_size(r, 60000);
        rig_write(r);
        assert_int_equal(r->journal->journal_writer.tail.segment, 2);
        uint64_t written = journal_written_seq(r->journal);
        rig_die(r, false);
        assert_int_equal(rig_open(r), ERR_OK);
        rig_die(r, true);
        assert_int_equal(rig_open(r), ERR_OK);
        assert_int_equal(r->replayed, written);
        rig_destroy(r);
    }
}

static void a_missing_segment_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill_first_segment(r);
    while (r->journal->journal_writer.tail.segment == 2) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
    rig_die(r, true);
    assert_true(sim_disk_forget(r->disk, test_second_segment));
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    assert_non_null(strstr(r->fault.text, test_second_segment));
    rig_destroy(r);
}

static void a_segment_cut_short_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill_first_segment(r);
    rig_die(r, true);
    assert_true(sim_disk_truncate(r->disk, test_first_segment, TEST_SEGMENT / 2));
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    rig_destroy(r);
}

static void a_frame_of_another_segment_or_engine_is_refused_with_its_place(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 3; which++) {
        struct rig *r = rig_create(), *other = rig_create();
        rig_die(other, false);
        other->options.node = 78;
        assert_int_equal(rig_open(other), ERR_OK);
        rig_put(other, "foreign");
        rig_die(r, false);
        r->options.node = 77;
        assert_int_equal(rig_open(r), ERR_OK);
        rig_put(r, "one");
        uint64_t size, offset = r->journal->journal_writer.tail.offset;
        rig_put(r, "two");
        fill_first_segment(r);
        rig_put(r, "last");
        uint64_t end = r->journal->journal_writer.tail.offset;
        rig_close(r);
        char frame[512];
        memcpy(frame, sim_disk_bytes(r->disk, test_first_segment, &size) + offset, sizeof frame);
        if (which == 1) frame[20] ^= 1; /* not even whole: it was being written, for all we know */
        const char *name = test_second_segment;
        uint64_t at = end + 8 * FRAME_BLOCK_BYTES;
        if (which == 2) { /* the first segment of the other one in the place of ours */
            name = test_first_segment;
            at = 0;
            memcpy(frame, sim_disk_bytes(other->disk, name, &size), sizeof frame);
            rig_destroy(r);
            r = rig_create();
            rig_die(r, false);
            r->options.node = 77;
            assert_int_equal(rig_open(r), ERR_OK);
            rig_put(r, "one");
            at = r->journal->journal_writer.tail.offset + 8 * FRAME_BLOCK_BYTES;
            rig_close(r);
        }
        assert_true(sim_disk_damage(r->disk, name, at, frame, sizeof frame));
        assert_int_equal(rig_open(r), which == 1 ? ERR_OK : ERR_CORRUPT);
        if (which == 0) assert_non_null(strstr(r->fault.text, "0000000000000001.journal is in"));
        if (which == 1) assert_int_equal(r->report.cut_bytes, 512);
        if (which == 2) assert_non_null(strstr(r->fault.text, "another engine's journal"));
        rig_destroy(other);
        rig_destroy(r);
    }
}

/* The same epoch, segment and seq, but not what was there: only the chain can know. */
static void a_frame_exchanged_for_a_well_summed_one_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_put(r, "two");
    rig_put(r, "three");
    rig_close(r);
    uint64_t size;
    char other[512];
    struct frame f;
    memcpy(other, sim_disk_bytes(r->disk, test_first_segment, &size), sizeof other);
    assert_int_equal(frame_read_header(other, 1, &f), ERR_OK);
    other[FRAME_HEADER_BYTES + 8] = 'O';
    frame_encode(&f, other);
    assert_true(sim_disk_damage(r->disk, test_first_segment, 0, other, sizeof other));
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    assert_non_null(strstr(r->fault.text, "does not follow"));
    rig_destroy(r);
}

/* As a later format would have it: another last digit, the checksum in its place. */
static void put_later_frame(struct rig *r, const char *name, uint64_t offset)
{
    uint64_t size;
    char frame[512];
    memcpy(frame, sim_disk_bytes(r->disk, name, &size) + offset, sizeof frame);
    frame[7] = '2';
    uint32_t crc = crc32c(crc32c(0, frame + 8, 24), frame, 124);
    for (int i = 0; i < 4; i++) frame[124 + i] = (char)(uint8_t)(crc >> (8 * i));
    assert_true(sim_disk_damage(r->disk, name, offset, frame, sizeof frame));
}

/* They are no torn tail: their records were answered for. */
static void what_a_newer_program_wrote_is_refused_and_kept(void **state)
{
    (void)state;
    for (int behind = 0; behind < 2; behind++) {
        struct rig *r = rig_create();
        if (behind) rig_put(r, "ours");
        uint64_t offset = r->journal->journal_writer.tail.offset, size;
        rig_append(r, "theirs", false);
        rig_write(r);
        rig_die(r, false);
        put_later_frame(r, test_first_segment, offset);
        char *before = malloc(TEST_SEGMENT);
        memcpy(before, sim_disk_bytes(r->disk, test_first_segment, &size), TEST_SEGMENT);
        assert_int_equal(rig_open(r), ERR_BAD_VALUE);
        assert_non_null(strstr(r->fault.text, "newer program"));
        assert_non_null(strstr(r->fault.text, behind ? "offset 512" : "offset 0"));
        assert_memory_equal(before, sim_disk_bytes(r->disk, test_first_segment, &size),
                            TEST_SEGMENT);
        free(before);
        rig_destroy(r);
    }
}

static void a_later_format_in_a_segment_of_its_own_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "ours");
    char frame[512];
    uint64_t size;
    memcpy(frame, sim_disk_bytes(r->disk, test_first_segment, &size), sizeof frame);
    frame[8] = 2; /* the segment's id */
    rig_keep(r);  /* makes the spare */
    rig_close(r);
    assert_true(sim_disk_damage(r->disk, test_second_segment, 0, frame, sizeof frame));
    put_later_frame(r, test_second_segment, 0);
    assert_int_equal(rig_open(r), ERR_BAD_VALUE);
    assert_non_null(strstr(r->fault.text, test_second_segment));
    rig_destroy(r);
}

/* Without its checksum it is damage like any other. */
static void a_flipped_digit_is_no_later_format(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_append(r, "torn", false);
    uint64_t offset = r->journal->journal_writer.tail.offset;
    rig_write(r);
    rig_die(r, false);
    rig_flip(r, test_first_segment, offset + 7);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 1);
    rig_destroy(r);
}

static void a_full_disk_does_not_keep_the_journal_shut(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    uint64_t offset = r->journal->journal_writer.tail.offset;
    rig_append(r, "torn", false);
    rig_write(r);
    rig_die(r, false);
    rig_flip(r, test_first_segment, offset + FRAME_HEADER_BYTES + 9);
    sim_disk_set_capacity(r->disk, 2 * TEST_SEGMENT); /* the segment and its spare */
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 1);
    assert_int_equal(r->report.cut_frames, 1);
    rig_die(r, true);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, 1);
    assert_int_equal(r->report.cut_bytes, 0);
    rig_destroy(r);
}

/* ---- files that lost their end ---- */

static void must_be_refused(struct rig *r, const char *segment, uint64_t bytes)
{
    assert_true(sim_disk_truncate(r->disk, segment, bytes));
    assert_int_equal(rig_open(r), ERR_CORRUPT);
    assert_non_null(strstr(r->fault.text, segment));
    assert_non_null(strstr(r->fault.text, "its end was cut off"));
    rig_destroy(r);
}

/* No later frame tells that those records were durable: the length alone can. */
static void a_last_segment_that_was_cut_is_refused(void **state)
{
    (void)state;
    static const uint64_t odd[] = {0,
                                   1,
                                   100,
                                   511,
                                   512,
                                   4096,
                                   20997,
                                   TEST_SEGMENT / 2,
                                   TEST_SEGMENT - 1,
                                   TEST_SEGMENT - 512,
                                   TEST_SEGMENT - 4096};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct rig *r = rig_create();
        rig_keep(r);
        rig_put(r, "one");
        rig_put(r, "token revoked");
        rig_die(r, true);
        must_be_refused(r, test_first_segment, odd[i]);
    }
}

/* Segments larger than the least: cut between two frames, and within one. */
static void a_large_segment_that_was_cut_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        struct rig *r = rig_create();
        journal_abandon(r->journal);
        sim_disk_destroy(r->disk);
        r->disk = sim_disk_create(7, UINT64_C(1) << 40, &r->counts);
        r->options.disk = sim_disk_door(r->disk);
        r->options.segment_bytes = 4 * TEST_SEGMENT;
        assert_int_equal(rig_open(r), ERR_OK);
        uint64_t begins = 0;
        for (size_t n = 0; n < 9 + i / 2; n++) {
            begins = r->journal->journal_writer.tail.offset;
            rig_append_size(r, 150000);
            rig_write(r);
            rig_sync(r);
        }
        rig_die(r, true);
        bool within = i % 2 == 1;
        assert_in_range(begins, TEST_SEGMENT, 3 * TEST_SEGMENT);
        must_be_refused(r, test_first_segment, begins + (within ? 51200 : 0));
    }
}

/* What was cut may have been its only frames. */
static void a_segment_that_was_cut_before_its_first_frame_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill_first_segment(r);
    rig_put(r, "in the second");
    rig_die(r, true);
    must_be_refused(r, test_second_segment, 0);
}

/* A segment keeps its length when another one is asked for from now on. */
static void another_size_of_segments_is_no_damage(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {4 * TEST_SEGMENT, TEST_SEGMENT, 2 * TEST_SEGMENT,
                                     TEST_SEGMENT};
    struct rig *r = rig_create();
    rig_close(r);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        r->options.segment_bytes = sizes[i];
        assert_int_equal(rig_open(r), ERR_OK);
        assert_int_equal(r->replayed, i);
        rig_put(r, "one more");
        rig_close(r);
    }
    assert_int_equal(rig_open(r), ERR_OK);
    rig_destroy(r);
}

static enum err refuse_record(void *context, const struct journal_record *record)
{
    (void)context;
    return record->seq == 2 ? ERR_BAD_VALUE : ERR_OK;
}

static void a_replay_that_fails_ends_the_opening(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_put(r, "two");
    rig_close(r);
    assert_int_equal(journal_open_driven(&r->options, test_epoch, TEST_NOW, refuse_record, NULL,
                                         &r->journal, &r->report, &r->fault),
                     ERR_BAD_VALUE);
    assert_non_null(strstr(r->fault.text, "seq 2"));
    rig_destroy(r);
}

static enum err read_nothing(void *state, int file, void *to, size_t size, uint64_t offset)
{
    (void)state, (void)file, (void)to, (void)size, (void)offset;
    return ERR_IO;
}

static enum err open_nothing(void *state, const char *name, bool create_new, int *ret_file)
{
    (void)state, (void)name, (void)create_new, (void)ret_file;
    errno = EACCES;
    return ERR_NOT_PERMITTED;
}

static enum err read_an_error(void *state, int file, void *to, size_t size, uint64_t offset)
{
    (void)state, (void)file, (void)to, (void)size, (void)offset;
    errno = EIO;
    return ERR_IO;
}

static void what_the_disk_refuses_is_told_with_the_reason_and_the_place(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill_first_segment(r);
    rig_close(r);
    struct disk *good = sim_disk_door(r->disk), closed = *good, bad = *good;
    closed.open = open_nothing;
    bad.read = read_an_error;
    closed.directory = bad.directory = "/some/where";
    struct shelf shelf;
    struct recovery found;
    shelf_init(&shelf);
    assert_int_equal(
        recover_run(&closed, TEST_SEGMENT, NULL, &shelf, &found, &r->report, &r->fault),
        ERR_NOT_PERMITTED);
    assert_string_equal(r->fault.text, "segment 0000000000000001.journal cannot be opened: "
                                       "Permission denied (/some/where)");
    assert_int_equal(recover_run(&bad, TEST_SEGMENT, NULL, &shelf, &found, &r->report, &r->fault),
                     ERR_IO);
    assert_string_equal(r->fault.text, "segment 0000000000000001.journal cannot be read at offset "
                                       "0: Input/output error (/some/where)");
    shelf_fini(&shelf);
    rig_destroy(r);
}

/* Between the survey and the replay the disk goes bad: what cannot be given is not left out. */
static void what_cannot_be_read_a_second_time_ends_the_opening(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill_first_segment(r);
    rig_close(r);
    struct disk *good = sim_disk_door(r->disk), bad = *good;
    bad.read = read_nothing;
    struct shelf shelf;
    struct recovery found;
    shelf_init(&shelf);
    assert_int_equal(recover_run(good, TEST_SEGMENT, NULL, &shelf, &found, &r->report, &r->fault),
                     ERR_OK);
    assert_int_equal(shelf.count, 2);
    assert_int_equal(recover_replay(good, &shelf, &found.tail, NULL, rig_take, r, &r->fault),
                     ERR_OK);
    assert_int_equal(recover_replay(&bad, &shelf, &found.tail, NULL, rig_take, r, &r->fault),
                     ERR_IO);
    assert_non_null(strstr(r->fault.text, "from seq 1 on"));

    rig_flip(r, test_first_segment, FRAME_HEADER_BYTES + 9);
    assert_int_equal(recover_replay(good, &shelf, &found.tail, NULL, rig_take, r, &r->fault),
                     ERR_CORRUPT);
    assert_true(sim_disk_forget(r->disk, test_first_segment));
    assert_int_equal(recover_replay(good, &shelf, &found.tail, NULL, rig_take, r, &r->fault),
                     ERR_NOT_FOUND);
    assert_non_null(strstr(r->fault.text, "from seq 1 on"));
    shelf_fini(&shelf);
    rig_destroy(r);
}

static void a_second_opening_of_the_same_directory_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct journal *first = r->journal;
    assert_int_equal(rig_open(r), ERR_EXISTS);
    r->journal = first;
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_directory_is_empty),
        cmocka_unit_test(records_come_back_after_a_clean_close),
        cmocka_unit_test(the_last_epoch_is_that_of_the_last_record),
        cmocka_unit_test(what_was_only_written_survives_a_kill),
        cmocka_unit_test(nothing_that_was_read_stays_where_frames_will_be_written),
        cmocka_unit_test(a_tail_that_was_padded_is_cut_behind_its_last_frame),
        cmocka_unit_test(what_a_kill_left_unsynced_is_durable_after_recovery),
        cmocka_unit_test(a_torn_tail_is_cut_and_counted),
        cmocka_unit_test(damage_below_the_durable_mark_is_refused_and_told),
        cmocka_unit_test(a_refusal_changes_nothing),
        cmocka_unit_test(the_last_record_is_guarded_after_a_clean_close),
        cmocka_unit_test(the_last_record_is_guarded_once_recovery_promised_it),
        cmocka_unit_test(a_torn_frame_still_tells_what_was_durable),
        cmocka_unit_test(segments_follow_each_other),
        cmocka_unit_test(an_unsynced_frame_of_no_records_is_not_forgotten),
        cmocka_unit_test(a_missing_segment_is_refused),
        cmocka_unit_test(a_segment_cut_short_is_refused),
        cmocka_unit_test(a_frame_of_another_segment_or_engine_is_refused_with_its_place),
        cmocka_unit_test(a_frame_exchanged_for_a_well_summed_one_is_refused),
        cmocka_unit_test(what_a_newer_program_wrote_is_refused_and_kept),
        cmocka_unit_test(a_later_format_in_a_segment_of_its_own_is_refused),
        cmocka_unit_test(a_flipped_digit_is_no_later_format),
        cmocka_unit_test(a_full_disk_does_not_keep_the_journal_shut),
        cmocka_unit_test(a_last_segment_that_was_cut_is_refused),
        cmocka_unit_test(a_large_segment_that_was_cut_is_refused),
        cmocka_unit_test(a_segment_that_was_cut_before_its_first_frame_is_refused),
        cmocka_unit_test(another_size_of_segments_is_no_damage),
        cmocka_unit_test(a_replay_that_fails_ends_the_opening),
        cmocka_unit_test(what_cannot_be_read_a_second_time_ends_the_opening),
        cmocka_unit_test(what_the_disk_refuses_is_told_with_the_reason_and_the_place),
        cmocka_unit_test(a_second_opening_of_the_same_directory_is_refused),
        cmocka_unit_test(a_lost_block_that_holds_the_last_records_is_seen),
        cmocka_unit_test(records_at_the_very_end_of_a_segment_are_told_of_in_the_next),
        cmocka_unit_test(an_opening_that_is_given_up_ends_between_two_frames),
        cmocka_unit_test(who_opens_may_refuse_what_is_found_before_anything_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
