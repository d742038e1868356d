/* The zeros that a frame is written with. */
#include "support.h"

static struct writes {
    struct disk well;
    size_t last;
} writes;

static enum err note_write(void *state, int file, const void *from, size_t size, uint64_t offset)
{
    writes.last = size;
    return writes.well.write(state, file, from, size, offset);
}

static void note_writes_of(struct rig *r)
{
    struct disk *disk = sim_disk_door(r->disk);
    writes = (struct writes){.well = *disk};
    disk->write = note_write;
}

static void to_second_segment(struct rig *r)
{
    rig_keep(r);
    while (r->journal->journal_writer.tail.segment == 1) {
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
    }
    rig_keep(r);
}

static void a_frame_is_padded_only_where_nothing_was_written(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    const uint64_t small = JOURNAL_WRITER_PAD_BYTES / 512;
    uint64_t *tail = &r->journal->journal_writer.tail.offset;
    note_writes_of(r);
    for (uint64_t i = 0; i < 2 * small + 1; i++) {
        rig_append(r, "of 512 bytes with its header", true);
        rig_write(r);
        assert_int_equal(writes.last, i % small == 0 ? JOURNAL_WRITER_PAD_BYTES : 512);
        rig_sync(r);
    }
    assert_int_equal(*tail, 2 * JOURNAL_WRITER_PAD_BYTES + 512);
    rig_append_size(r, JOURNAL_WRITER_PAD_BYTES - 512); /* into the next piece */
    rig_write(r);
    assert_int_equal(writes.last, 2 * JOURNAL_WRITER_PAD_BYTES - 512);
    rig_append_size(r, 4 * JOURNAL_WRITER_PAD_BYTES - *tail - 512); /* to the end of that */
    rig_write(r);
    assert_int_equal(*tail, 4 * JOURNAL_WRITER_PAD_BYTES);
    assert_true(writes.last < JOURNAL_WRITER_PAD_BYTES);
    rig_sync(r);
    assert_true(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
    assert_int_equal(writes.last, JOURNAL_WRITER_PAD_BYTES);
    for (unsigned i = 0; i < 4; i++) rig_append_size(r, 60000);
    rig_append_size(r, FRAME_BODY_BYTES - 4 * 60000 - 5 * FRAME_RECORD_HEADER_BYTES);
    rig_write(r); /* the largest frame there is, and padded all the same */
    assert_int_equal(*tail, 4 * JOURNAL_WRITER_PAD_BYTES + 512 + FRAME_BYTES);
    assert_int_equal(writes.last, FRAME_BYTES + JOURNAL_WRITER_PAD_BYTES - 512);
    rig_destroy(r);
}

static void no_write_waits_for_a_page_to_be_read(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    to_second_segment(r); /* nothing of it has been read */
    uint64_t before = r->counts.pages_read;
    for (size_t n = 0; r->journal->journal_writer.tail.segment < 4; n++) {
        rig_append_size(r, 1 + n * 7919 % 9000);
        if (n % 5 == 0) rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        if (n % 7 == 0)
            assert_true(journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW));
        rig_keep(r);
    }
    assert_int_equal(r->counts.pages_read, before);

    while (r->journal->journal_writer.tail.offset % JOURNAL_WRITER_PAD_BYTES >
           JOURNAL_WRITER_PAD_BYTES / 2)
        rig_put(r, "to where most of a piece is left");
    assert_true(journal_writer_claim_step(&r->journal->journal_writer,
                                          TEST_NOW)); /* the next life need not */
    rig_sync(r);
    rig_die(r, true);
    assert_int_equal(rig_open(r), ERR_OK);
    /* What recovery read to look at it is there by chance. */
    struct journal_writer_file *current = &r->journal->journal_writer.current;
    r->options.disk->uncache(r->options.disk->state, current->file, current->bytes);
    before = r->counts.pages_read;
    for (size_t n = 0; n < 200; n++) {
        rig_append_size(r, 1 + n * 7919 % 3000);
        rig_write(r);
    }
    assert_in_range(r->counts.pages_read - before, 0, 1); /* the tail's own */
    rig_destroy(r);
}

/* What a block held before is not written behind a frame, and no frame over another. */
static void behind_the_tail_are_zeros_and_before_it_whole_frames(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    static const char zeros[TEST_SEGMENT];
    uint64_t records = 0, size;
    for (size_t n = 0; r->journal->journal_writer.tail.offset < TEST_SEGMENT / 2; n++) {
        rig_append_size(r, n % LIMIT_BLOCKS == 0 ? 20000 : 1 + n * 7919 % 3000);
        rig_write(r);
        if (n % 3 == 0) rig_sync(r);
        if (n % 3 == 1) journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW);
        records++;
        uint64_t tail = r->journal->journal_writer.tail.offset;
        const char *bytes = sim_disk_bytes(r->disk, test_first_segment, &size);
        assert_memory_equal(bytes + tail, zeros, size - tail);
    }
    rig_die(r, false);
    assert_int_equal(rig_open(r), ERR_OK);
    assert_int_equal(r->replayed, records);
    assert_int_equal(r->report.cut_bytes, 0);
    rig_destroy(r);
}

/* A segment need not be a whole number of padded pieces. */
static void no_padding_goes_beyond_the_end_of_a_segment(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    journal_abandon(r->journal);
    sim_disk_destroy(r->disk);
    r->disk = sim_disk_create(7, UINT64_C(1) << 40, &r->counts);
    r->options.disk = sim_disk_door(r->disk);
    r->options.segment_bytes = TEST_SEGMENT + 4096;
    assert_int_equal(rig_open(r), ERR_OK);
    rig_keep(r);
    struct journal_writer *s = &r->journal->journal_writer;
    assert_int_equal(s->tail.segment_bytes, TEST_SEGMENT + 4096);
    note_writes_of(r);
    while (s->tail.offset + 60000 < s->tail.segment_bytes) {
        rig_append_size(r, 50000);
        rig_write(r);
    }
    uint64_t left = s->tail.segment_bytes - s->tail.offset;
    rig_append_size(r, left - 512 - FRAME_HEADER_BYTES - FRAME_RECORD_HEADER_BYTES);
    rig_write(r);
    assert_int_equal(s->tail.segment_bytes - s->tail.offset, 512);
    assert_int_equal(writes.last, left); /* the disk would not have taken more */
    rig_append(r, "the last", true);
    rig_write(r);
    assert_int_equal(s->tail.segment, 1);
    rig_put(r, "of the next");
    assert_int_equal(s->tail.segment, 2);
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_padded_only_where_nothing_was_written),
        cmocka_unit_test(no_write_waits_for_a_page_to_be_read),
        cmocka_unit_test(behind_the_tail_are_zeros_and_before_it_whole_frames),
        cmocka_unit_test(no_padding_goes_beyond_the_end_of_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
