#include "support.h"

struct reading {
    struct rig *rig;
    struct journal_cursor *cursor;
    struct journal_record record;
    struct fault fault;
};

static struct reading begin(struct rig *r, uint64_t seq)
{
    struct reading g = {.rig = r};
    assert_int_equal(journal_cursor_open(r->journal, seq, &g.cursor, &g.fault), ERR_OK);
    return g;
}

static enum err next(struct reading *g)
{
    return journal_cursor_next(g->cursor, &g->record, &g->fault);
}

static void a_cursor_gives_what_is_durable_and_no_more(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct reading g = begin(r, 1);
    assert_int_equal(next(&g), ERR_END);
    rig_append(r, "one", true);
    rig_append(r, "two", true);
    rig_write(r);
    assert_int_equal(next(&g), ERR_END);
    rig_sync(r);
    rig_append(r, "three", true);
    rig_write(r);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(g.record.seq, 1);
    assert_true(str_equal(g.record.public_bytes, STR("one")));
    assert_true(str_equal(g.record.private_bytes, STR("private")));
    assert_memory_equal(g.record.epoch, test_epoch, JOURNAL_EPOCH_TEXT);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(next(&g), ERR_END);
    assert_int_equal(next(&g), ERR_END);
    rig_sync(r);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(g.record.seq, 3);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static void a_cursor_begins_anywhere(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    for (int i = 0; i < 10; i++) {
        rig_append(r, "a", true);
        rig_append(r, "b", true);
        rig_append(r, "c", true);
        rig_write(r);
        rig_sync(r);
        if (i == 4) journal_writer_claim_step(&r->journal->journal_writer, TEST_NOW);
    }
    for (uint64_t seq = 1; seq <= 30; seq++) {
        struct reading g = begin(r, seq);
        for (uint64_t at = seq; at <= 30; at++) {
            assert_int_equal(next(&g), ERR_OK);
            assert_int_equal(g.record.seq, at);
            assert_int_equal(g.record.public_bytes.bytes[0], "abc"[(at - 1) % 3]);
        }
        assert_int_equal(next(&g), ERR_END);
        journal_cursor_close(g.cursor);
    }
    struct reading end = begin(r, 31);
    assert_int_equal(next(&end), ERR_END);
    rig_put(r, "later");
    assert_int_equal(next(&end), ERR_OK);
    assert_int_equal(end.record.seq, 31);
    journal_cursor_close(end.cursor);

    struct journal_cursor *c;
    assert_int_equal(journal_cursor_open(r->journal, 33, &c, &end.fault), ERR_NOT_FOUND);
    assert_int_equal(journal_cursor_open(r->journal, 0, &c, &end.fault), ERR_NOT_FOUND);
    rig_destroy(r);
}

static void fill(struct rig *r, uint64_t until_segment)
{
    while (r->journal->journal_writer.tail.segment < until_segment) {
        rig_append_size(r, 20000);
        rig_append_size(r, 60000);
        rig_write(r);
        rig_sync(r);
        rig_keep(r);
    }
}

static void a_cursor_follows_across_segments(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct reading early = begin(r, 1);
    fill(r, 4);
    uint64_t last = journal_durable_seq(r->journal);
    for (uint64_t seq = 1; seq <= last; seq++) {
        assert_int_equal(next(&early), ERR_OK);
        assert_int_equal(early.record.seq, seq);
        assert_int_equal(early.record.public_bytes.size, seq % 2 == 1 ? 20000 : 60000);
    }
    assert_int_equal(next(&early), ERR_END);
    fill(r, 5);
    assert_int_equal(next(&early), ERR_OK);
    assert_int_equal(early.record.seq, last + 1);
    journal_cursor_close(early.cursor);
    rig_destroy(r);
}

static void what_is_no_longer_kept_is_not_found(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct reading behind = begin(r, 1);
    fill(r, 3);
    journal_confirm(r->journal, journal_durable_seq(r->journal));
    rig_keep(r);
    struct journal_cursor *c;
    struct fault f;
    assert_int_equal(journal_cursor_open(r->journal, 1, &c, &f), ERR_NOT_FOUND);
    enum err err;
    while ((err = next(&behind)) == ERR_OK) {
    } /* its first segment is open still, the next is gone */
    assert_int_equal(err, ERR_NOT_FOUND);
    journal_cursor_close(behind.cursor);
    rig_destroy(r);
}

static void a_damaged_frame_is_not_given(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_put(r, "two");
    rig_flip(r, test_first_segment, 512 + 140);
    struct reading g = begin(r, 1);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(next(&g), ERR_CORRUPT);
    assert_non_null(strstr(g.fault.text, test_first_segment));
    assert_non_null(strstr(g.fault.text, "seq 2"));
    journal_cursor_close(g.cursor);

    rig_flip(r, test_first_segment, 512 + 140);
    rig_flip(r, test_first_segment, 512); /* its magic: looks like the end of the segment */
    g = begin(r, 1);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(next(&g), ERR_CORRUPT);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

/* What is missing is told, and not passed over for what comes behind it. */
static void a_lost_frame_in_an_earlier_segment_is_noticed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    fill(r, 2);
    rig_flip(r, test_first_segment, 512); /* the second frame's magic */
    struct reading g = begin(r, 1);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(next(&g), ERR_CORRUPT);
    assert_non_null(strstr(g.fault.text, "seq 2"));
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static void a_segments_first_frame_that_is_lost_is_noticed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct reading early = begin(r, 1); /* when the segment is still empty */
    fill(r, 3);
    rig_flip(r, test_first_segment, 0);
    struct reading late = begin(r, 1);
    assert_int_equal(next(&early), ERR_CORRUPT);
    assert_int_equal(next(&late), ERR_CORRUPT);
    assert_non_null(strstr(late.fault.text, "seq 1,"));
    journal_cursor_close(early.cursor);
    journal_cursor_close(late.cursor);

    rig_flip(r, test_first_segment, 0);
    rig_flip(r, test_second_segment, 0);
    late = begin(r, 1);
    enum err err;
    while ((err = next(&late)) == ERR_OK) {
    }
    assert_int_equal(err, ERR_CORRUPT);
    assert_non_null(strstr(late.fault.text, test_second_segment));
    journal_cursor_close(late.cursor);
    rig_destroy(r);
}

static void a_frame_in_anothers_place_is_noticed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_put(r, "one");
    rig_put(r, "two");
    rig_put(r, "three");
    char third[512];
    uint64_t size;
    memcpy(third, sim_disk_bytes(r->disk, test_first_segment, &size) + 1024, sizeof third);
    assert_true(sim_disk_damage(r->disk, test_first_segment, 512, third, sizeof third));
    struct reading g = begin(r, 1);
    assert_int_equal(next(&g), ERR_OK);
    assert_int_equal(next(&g), ERR_CORRUPT);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static void a_cursor_leaves_a_segment_that_is_full_to_its_last_byte(void **state)
{
    (void)state;
    enum {
        FRAMES = 16,
        RECORD = TEST_SEGMENT / FRAMES - FRAME_HEADER_BYTES - FRAME_RECORD_HEADER_BYTES
    };
    struct rig *r = rig_create();
    rig_keep(r);
    struct reading g = begin(r, 1);
    for (uint64_t seq = 1; seq <= FRAMES + 1; seq++) {
        assert_true(r->journal->journal_writer.tail.segment == 1);
        rig_append_size(r, RECORD);
        rig_write(r);
        rig_sync(r);
        assert_int_equal(next(&g), ERR_OK);
        assert_int_equal(g.record.seq, seq);
    }
    assert_true(r->journal->journal_writer.tail.segment == 2);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static enum err read_nothing(void *state, int file, void *to, size_t size, uint64_t offset)
{
    (void)state;
    (void)file;
    (void)to;
    (void)size;
    (void)offset;
    return ERR_IO;
}

static void a_disk_that_cannot_be_read_is_told_and_costs_no_record(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct disk *disk = sim_disk_door(r->disk);
    const struct disk well = *disk;
    struct reading g = begin(r, 1);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        rig_put(r, "any");
        disk->read = read_nothing;
        assert_int_equal(next(&g), ERR_IO);
        disk->read = well.read;
        assert_int_equal(next(&g), ERR_OK);
        assert_int_equal(g.record.seq, seq);
    }
    for (unsigned i = 0; i < 12; i++) { /* of some there is only a part in what was read before */
        rig_append_size(r, 60000 + i);
        rig_write(r);
        rig_sync(r);
    }
    unsigned failed = 0;
    for (unsigned i = 0; i < 12; i++) {
        disk->read = read_nothing;
        enum err err = next(&g);
        disk->read = well.read;
        if (err == ERR_OK) continue;
        assert_int_equal(err, ERR_IO);
        assert_int_equal(next(&g), ERR_OK);
        failed++;
    }
    assert_in_range(failed, 2, 11);
    assert_int_equal(g.record.seq, 15);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

enum { LARGE_SEGMENT = 16 << 20, ALONE = 60000 }; /* a record that fills its frame */

static uint64_t frame_of(uint64_t record)
{
    struct frame f = {.body_bytes = (uint32_t)(FRAME_RECORD_HEADER_BYTES + record)};
    return frame_size(&f);
}

static void put_alone(struct rig *r)
{
    rig_append_size(r, ALONE);
    rig_write(r);
    rig_sync(r);
    rig_keep(r);
}

/* To the end of what is durable. */
static uint64_t follow(struct reading *g)
{
    uint64_t before = g->rig->counts.pages_read;
    enum err err;
    while ((err = next(g)) == ERR_OK) {
    }
    assert_int_equal(err, ERR_END);
    return g->rig->counts.pages_read - before;
}

static void who_keeps_up_reads_nothing_from_the_disk(void **state)
{
    (void)state;
    struct rig *r = rig_create_with_segments(LARGE_SEGMENT);
    struct reading first = begin(r, 2), second = begin(r, 2);
    uint64_t apart = CURSOR_DISTANCE_BYTES / frame_of(ALONE) - 1;
    for (uint64_t i = 0; r->journal->journal_writer.tail.segment < 4; i++) {
        put_alone(r);
        assert_int_equal(follow(&first), 0);
        if (i % apart == 0) assert_int_equal(follow(&second), 0);
    }
    journal_cursor_close(first.cursor);
    journal_cursor_close(second.cursor);
    rig_destroy(r);
}

static struct drops {
    struct disk well;
    uint64_t count, last_until;
} drops;

static void note_drop(void *state, int file, uint64_t until)
{
    drops.count++;
    drops.last_until = until;
    drops.well.uncache(state, file, until);
}

static void note_drops_of(struct rig *r)
{
    struct disk *disk = sim_disk_door(r->disk);
    drops = (struct drops){.well = *disk};
    disk->uncache = note_drop;
}

static void what_is_let_go_lies_well_behind_the_cursor(void **state)
{
    (void)state;
    struct rig *r = rig_create_with_segments(LARGE_SEGMENT);
    uint64_t at = r->journal->journal_writer.tail.offset;
    while (r->journal->journal_writer.tail.offset + 2 * frame_of(ALONE) < LARGE_SEGMENT)
        put_alone(r);
    note_drops_of(r);
    struct reading g = begin(r, 2);
    while (next(&g) == ERR_OK) { /* the frame at `at`: what is before it was given */
        uint64_t gone = at < CURSOR_DISTANCE_BYTES ? 0 : at - CURSOR_DISTANCE_BYTES;
        assert_true(drops.last_until <= gone);
        assert_true(gone < drops.last_until + CURSOR_DROP_BYTES);
        at += frame_of(ALONE);
    }
    assert_int_equal(at, r->journal->journal_writer.tail.offset);
    assert_in_range(drops.count, 8, 16);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

/* The syncer lets go of what nobody read, and then those come who read it. */
static void who_lags_lets_go_of_whole_segments_too(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill(r, 4);
    note_drops_of(r);
    uint64_t used = shelf_used(&r->journal->journal_writer.shelf, 2);
    struct reading g = begin(r, 1);
    assert_true(follow(&g) > 0); /* it is all there, on the disk */
    assert_int_equal(drops.count, 2);
    assert_int_equal(drops.last_until, used); /* but for the two newest: the syncer will */
    assert_int_equal(g.record.seq, journal_durable_seq(r->journal));
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static void each_segment_is_let_go_while_it_is_followed(void **state)
{
    (void)state;
    struct rig *r = rig_create_with_segments(LARGE_SEGMENT);
    note_drops_of(r);
    struct reading g = begin(r, 2);
    for (uint64_t segment = 1; segment <= 3; segment++) {
        drops.count = 0;
        while (r->journal->journal_writer.tail.segment == segment) {
            put_alone(r);
            follow(&g);
        }
        assert_in_range(drops.count, 8, 16); /* with the syncer's of the one before */
    }
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static void what_was_recovered_can_be_followed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill(r, 4);
    uint64_t last = journal_durable_seq(r->journal);
    rig_close(r);
    assert_int_equal(rig_open(r), ERR_OK);
    struct reading g = begin(r, 1);
    follow(&g);
    assert_int_equal(g.record.seq, last);
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

static void a_segment_that_is_not_there_is_told(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    fill(r, 2);
    struct reading g = begin(r, 1);
    struct journal_cursor *c;
    assert_true(sim_disk_forget(r->disk, test_first_segment));
    assert_true(sim_disk_forget(r->disk, test_second_segment));
    assert_int_equal(journal_cursor_open(r->journal, 1, &c, &g.fault), ERR_NOT_FOUND);
    assert_non_null(strstr(g.fault.text, test_first_segment));
    enum err err;
    while ((err = next(&g)) == ERR_OK) {
    } /* what is open can be read still */
    assert_int_equal(err, ERR_NOT_FOUND);
    assert_non_null(strstr(g.fault.text, test_second_segment));
    journal_cursor_close(g.cursor);
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_gives_what_is_durable_and_no_more),
        cmocka_unit_test(a_cursor_begins_anywhere),
        cmocka_unit_test(a_cursor_follows_across_segments),
        cmocka_unit_test(what_is_no_longer_kept_is_not_found),
        cmocka_unit_test(a_damaged_frame_is_not_given),
        cmocka_unit_test(a_lost_frame_in_an_earlier_segment_is_noticed),
        cmocka_unit_test(a_segments_first_frame_that_is_lost_is_noticed),
        cmocka_unit_test(a_frame_in_anothers_place_is_noticed),
        cmocka_unit_test(a_cursor_leaves_a_segment_that_is_full_to_its_last_byte),
        cmocka_unit_test(a_disk_that_cannot_be_read_is_told_and_costs_no_record),
        cmocka_unit_test(who_keeps_up_reads_nothing_from_the_disk),
        cmocka_unit_test(what_is_let_go_lies_well_behind_the_cursor),
        cmocka_unit_test(who_lags_lets_go_of_whole_segments_too),
        cmocka_unit_test(each_segment_is_let_go_while_it_is_followed),
        cmocka_unit_test(what_was_recovered_can_be_followed),
        cmocka_unit_test(a_segment_that_is_not_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
