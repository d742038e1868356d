/* Replays and the state follower without Redis: snapshot and journal always amount to what happened. */
#include "scene.h"
#include "journal/inside.h"

static struct state_follower_options options_of(struct scene *s)
{
    return (struct state_follower_options){.journal = s->journal,
                                           .disk = s->snapshots,
                                           .node = "node-a",
                                           .past = &s->past,
                                           .snapshot_bytes = UINT64_MAX,
                                           .snapshot_ms = 3600000,
                                           .redis = {.url = "",
                                                     .user = "",
                                                     .password_file = "",
                                                     .ca_file = "",
                                                     .adopt = "",
                                                     .timeout_ms = 1000},
                                           .sheet = s->sheet,
                                           .lost_ownership = scene_lost,
                                           .context = s,
                                           .tick_ms = QUICK_TICK_MS};
}

static void keep_begin(struct scene *s, struct state_follower_options o)
{
    struct fault f;
    struct state_follower *keep;
    assert_int_equal(state_follower_start(&o, &keep, &f), ERR_OK);
    scene_set_keep(s, keep);
}

static uint64_t newest_snapshot(struct scene *s)
{
    struct state_follower_status status;
    state_follower_status(s->keep, &status);
    return status.snapshot_position;
}

/* One turn of waiting for the state follower; a wait that is in vain ends the test. */
static void nap(uint64_t *begun_ns)
{
    struct timespec t = {.tv_nsec = 5000000};
    if (*begun_ns == 0) *begun_ns = world_monotonic_ns();
    assert_true(world_monotonic_ns() - *begun_ns < UINT64_C(120000000000));
    nanosleep(&t, NULL);
}

/* Lets the state follower look at the clock at least once. */
static void a_tick(void)
{
    struct timespec t = {.tv_nsec = 3 * QUICK_TICK_MS * 1000000};
    nanosleep(&t, NULL);
}

static void a_replay_of_the_journal_is_what_happened(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    scene_play(s, 40);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(replay->past.position, s->seq);
    assert_same_state(replay->shard, s->truth);
    replay_destroy(replay);
    scene_destroy(s);
}

/* By them a later start knows what it finds in Redis for its own. */
static void a_replay_knows_the_epochs_that_it_went_through(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    char first[JOURNAL_EPOCH_TEXT];
    memcpy(first, journal_epoch(s->journal), sizeof first);
    scene_play(s, 5);
    scene_close(s);
    scene_open(s);
    scene_play(s, 5);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(replay->past.epoch_count, 2);
    assert_true(lineage_knows(&replay->past, str_of(first, sizeof first)));
    assert_true(
        lineage_knows(&replay->past, str_of(journal_epoch(s->journal), JOURNAL_EPOCH_TEXT)));
    replay_destroy(replay);
    scene_destroy(s);
}

static void a_snapshot_and_what_is_behind_it_are_what_happened(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct fault f;
    scene_play(s, 20);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(snapshot_make(s->snapshots, &replay->past, &replay->shard, 1, &f), ERR_OK);
    uint64_t position = replay->past.position;
    replay_destroy(replay);
    scene_play(s, 15);
    replay = replay_create();
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_OK);
    assert_int_equal(replay->past.position, position);
    assert_int_equal(replay_follow(replay, s->journal, s->seq, NULL, &f), ERR_OK);
    assert_same_state(replay->shard, s->truth);
    replay_destroy(replay);
    scene_destroy(s);
}

static void the_last_snapshot_is_made_at_the_end_and_begins_the_next_life(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    keep_begin(s, options_of(s));
    scene_play(s, 30);
    struct image before = image_of(s->truth);
    uint64_t seq = s->seq;
    scene_close(s);
    scene_open(s);
    assert_int_equal(s->past.position, seq);
    struct image after = image_of(s->truth);
    assert_int_equal(before.count, after.count);
    for (size_t i = 0; i < before.count; i++)
        assert_true(str_equal(before.entries[i], after.entries[i]));
    image_fini(&before);
    image_fini(&after);
    scene_destroy(s);
}

static void a_snapshot_is_made_after_so_much_journal(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct state_follower_options o = options_of(s);
    o.snapshot_bytes = 20000;
    keep_begin(s, o);
    scene_play(s, 40);
    uint64_t begun_ns = 0;
    while (newest_snapshot(s) == 0) nap(&begun_ns);
    assert_true(newest_snapshot(s) <= s->seq);
    scene_destroy(s);
}

/* The snapshots' disk, on which each sync takes a second. */
static enum err (*real_sync)(void *state, int file);

static enum err slow_sync(void *state, int file)
{
    struct timespec t = {.tv_sec = 1};
    nanosleep(&t, NULL);
    return real_sync(state, file);
}

/* Whether all of this lies within the rest of eight seconds at least. */
static bool a_snapshot_that_took_long_was_alone(void)
{
    struct scene *s = scene_create();
    struct state_follower_options o = options_of(s);
    struct disk slow = *s->snapshots;
    real_sync = slow.sync;
    slow.sync = slow_sync;
    o.disk = &slow;
    o.snapshot_bytes = 0;
    uint64_t before = metrics_total(METRIC_SNAPSHOTS), begun_ns = 0;
    scene_play(s, 10);
    keep_begin(s, o);
    while (newest_snapshot(s) == 0) nap(&begun_ns);
    uint64_t made_ns = world_monotonic_ns();
    for (unsigned i = 0; i < 4; i++) { /* each a tick of the thread, at least, with something new */
        scene_play(s, 10);
        a_tick();
    }
    uint64_t made = metrics_total(METRIC_SNAPSHOTS) - before;
    bool is_within = world_monotonic_ns() - made_ns < UINT64_C(7000000000);
    if (is_within) assert_int_equal(made, 1);
    scene_destroy(s); /* the last one does not rest */
    if (is_within) assert_int_equal(metrics_total(METRIC_SNAPSHOTS), before + 2);
    return is_within;
}

static void a_snapshot_that_took_long_is_not_followed_by_the_next_at_once(void **state)
{
    (void)state;
    while (!a_snapshot_that_took_long_was_alone()) continue;
}

static void no_snapshot_is_made_where_nothing_changed(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct state_follower_options o = options_of(s);
    scene_play(s, 3);
    o.snapshot_bytes = 0;
    o.snapshot_ms = 0;
    keep_begin(s, o);
    uint64_t begun_ns = 0;
    while (newest_snapshot(s) == 0) nap(&begun_ns);
    uint64_t made = metrics_total(METRIC_SNAPSHOTS);
    for (unsigned i = 0; i < 3; i++) { /* each a tick of the thread, at least */
        a_tick();
    }
    assert_int_equal(metrics_total(METRIC_SNAPSHOTS), made);
    scene_destroy(s);
}

static uint64_t held(struct scene *s) { return atomic_load(&s->journal->journal_writer.held_seq); }

/* From the first moment on. With one snapshot that is all there is; with two, the record that the older
 * one ends with, and what is behind it. */
static void the_journal_is_held_as_far_as_the_older_kept_snapshot(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    uint64_t ends[3];
    assert_int_equal(held(s), UINT64_MAX); /* nobody holds any */
    for (unsigned i = 0; i < 3; i++) {
        scene_play(s, 10);
        keep_begin(s, options_of(s));
        assert_int_equal(held(s), i < 2 ? 0 : ends[0] - 1);
        state_follower_stop(scene_set_keep(s, NULL), 20000); /* it makes one at its end */
        ends[i] = s->past.position = s->seq;
        assert_int_equal(held(s), i < 1 ? 0 : ends[i - 1] - 1);
    }
    scene_destroy(s);
}

/* ---- damaged snapshots ---- */

/* At its end: the state follower makes one more there. */
static void snapshot_made(struct scene *s)
{
    scene_play(s, 10);
    keep_begin(s, options_of(s));
    state_follower_stop(scene_set_keep(s, NULL), 20000);
}

static void snapshot_path(struct scene *s, uint64_t position, char to[SCENE_PATH + 64])
{
    char name[SNAPSHOT_NAME];
    snapshot_write_name(position, name);
    snprintf(to, SCENE_PATH + 64, "%s/snapshots/%s", s->directory, name);
}

static void snapshot_flip(struct scene *s, uint64_t position)
{
    char path[SCENE_PATH + 64], byte;
    snapshot_path(s, position, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 700), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 700), 1);
    close(fd);
}

/* By a replay that begins with it alone. */
static void assert_snapshot_is_the_truth(struct scene *s)
{
    struct fault f;
    struct replay *replay = replay_create();
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_OK);
    assert_int_equal(replay->past.damage, SNAPSHOT_WHOLE);
    assert_int_equal(replay->past.position, s->seq);
    assert_same_state(replay->shard, s->truth);
    replay_destroy(replay);
}

static void a_snapshot_that_is_damaged_while_it_runs_is_made_again_of_the_older_one(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    char path[SCENE_PATH + 64];
    struct fault f;
    snapshot_made(s);
    uint64_t first = s->seq;
    snapshot_made(s);
    uint64_t second = s->seq;
    snapshot_flip(s, second);
    snapshot_made(s);
    assert_snapshot_is_the_truth(s);
    assert_int_equal(held(s), first - 1); /* the other one that is kept is whole, too */
    snapshot_path(s, second, path);
    assert_int_not_equal(access(path, F_OK), 0);
    snapshot_flip(s, s->seq);
    struct replay *replay = replay_create();
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_OK);
    assert_int_equal(replay->past.damage, SNAPSHOT_OLDER_SERVES);
    assert_int_equal(replay->past.damaged, s->seq);
    assert_int_equal(replay->past.position, first);
    assert_int_equal(replay_follow(replay, s->journal, s->seq, NULL, &f), ERR_OK);
    assert_same_state(replay->shard, s->truth);
    replay_destroy(replay);
    scene_destroy(s);
}

static void where_all_snapshots_are_damaged_one_is_made_of_a_journal_that_is_whole(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    snapshot_made(s);
    snapshot_flip(s, s->seq);
    snapshot_made(s);
    assert_snapshot_is_the_truth(s);
    scene_destroy(s);
}

static void but_not_where_the_state_began_with_what_was_adopted(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct fault f = {.err = ERR_OK};
    assert_int_equal(snapshot_mark_adopted(s->snapshots, &f), ERR_OK);
    assert_int_equal(snapshot_mark_adopted(s->snapshots, &f), ERR_OK);
    uint64_t failures = metrics_total(METRIC_SNAPSHOT_FAILURES);
    snapshot_made(s);
    assert_int_equal(metrics_total(METRIC_SNAPSHOT_FAILURES), failures + 1);
    struct replay *replay = replay_create();
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_CORRUPT);
    assert_int_equal(replay->past.damage, SNAPSHOT_WHOLE);
    assert_non_null(strstr(f.text, "adopted from another engine"));
    replay_destroy(replay);
    scene_destroy(s);
}

/* A replay that went on from it would mix two histories. */
static void a_snapshot_of_another_journal_is_refused(void **state)
{
    (void)state;
    struct scene *s = scene_create(), *other = scene_create();
    struct fault f = {.err = ERR_OK};
    scene_play(s, 20);
    scene_play(other, 10);
    assert_true(other->seq < s->seq);
    struct replay *replay = scene_start_replay(other);
    assert_int_equal(snapshot_make(s->snapshots, &replay->past, &replay->shard, 1, &f), ERR_OK);
    replay_destroy(replay);
    replay = replay_create();
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_OK);
    assert_int_equal(replay_follow(replay, s->journal, s->seq, NULL, &f), ERR_CORRUPT);
    assert_non_null(strstr(f.text, "different histories"));
    replay_destroy(replay);
    replay = replay_create(); /* and one that ends where no journal of ours does */
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_OK);
    assert_int_equal(replay_follow(replay, s->journal, replay->past.position - 1, NULL, &f),
                     ERR_CORRUPT);
    assert_non_null(strstr(f.text, "another data directory"));
    replay_destroy(replay);
    scene_destroy(other);
    scene_destroy(s);
}

static void a_snapshot_fits_a_journal_by_epoch_alone(void **state)
{
    (void)state;
    static const struct {
        uint64_t position, seq;
        const char *epoch, *event;
        enum err err;
    } rows[] = {
        {0, 1, "bbbbbbbbbbbbbbbb", "{}", ERR_OK}, /* there is none */
        {7, 7, "aaaaaaaaaaaaaaaa", "{}", ERR_OK},
        {7, 7, "bbbbbbbbbbbbbbbb", "{}", ERR_CORRUPT},
        {7, 8, "aaaaaaaaaaaaaaaa", "{}", ERR_OK}, /* the first one that is kept */
        {7, 8, "bbbbbbbbbbbbbbbb", "{}", ERR_CORRUPT},
        {7, 8, "bbbbbbbbbbbbbbbb",
         "{\"previous\":{\"epoch\":\"aaaaaaaaaaaaaaaa\",\"seq\":7},\"x\":1}", ERR_OK},
        {7, 8, "bbbbbbbbbbbbbbbb", "{\"previous\":{\"epoch\":\"aaaaaaaaaaaaaaaa\",\"seq\":6}}",
         ERR_CORRUPT},
        {7, 8, "bbbbbbbbbbbbbbbb", "{\"previous\":{\"epoch\":\"cccccccccccccccc\",\"seq\":7}}",
         ERR_CORRUPT},
        {7, 7, "bbbbbbbbbbbbbbbb", "{\"previous\":{\"epoch\":\"aaaaaaaaaaaaaaaa\",\"seq\":7}}",
         ERR_CORRUPT},
    };
    static struct lineage past;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct journal_record record = {.seq = rows[i].seq,
                                        .public_bytes = str_from(rows[i].event)};
        struct fault f = {.err = ERR_OK};
        past = (struct lineage){.position = rows[i].position};
        lineage_add_epoch(&past, "aaaaaaaaaaaaaaaa");
        memcpy(record.epoch, rows[i].epoch, JOURNAL_EPOCH_TEXT);
        assert_int_equal(lineage_fits(&past, &record, &f), rows[i].err);
    }
}

/* ---- what may go ---- */

static void a_segment_stays_until_a_durable_snapshot_includes_it(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct journal_totals totals;
    static char large[40000];
    memset(large, 'x', sizeof large);
    journal_hold(s->journal, 0);
    journal_confirm(s->journal, UINT64_MAX);
    scene_play(s, 5);
    for (unsigned i = 0; i < 80; i++) { /* three segments of a megabyte */
        scene_record(s, str_of(large, sizeof large), (struct str){0});
        if (i % 5 == 4) scene_sync(s);
    }
    scene_sync(s);
    for (unsigned i = 0; i < 2; i++) {
        /* the keeper looks once a second */
        struct timespec t = {.tv_sec = 1, .tv_nsec = 200000000};
        nanosleep(&t, NULL);
    }
    journal_totals(s->journal, &totals);
    assert_int_equal(totals.oldest_seq, 1);

    struct state_follower_options o = options_of(s);
    o.snapshot_bytes = 0;
    keep_begin(s, o);
    uint64_t begun_ns = 0;
    do { /* keep is 0: what is confirmed and held no more goes; by the second one, which holds less */
        nap(&begun_ns);
        if (newest_snapshot(s) == s->seq) scene_play(s, 1);
        journal_totals(s->journal, &totals);
    } while (totals.oldest_seq == 1);
    struct replay *replay = scene_start_replay(s);
    assert_same_state(replay->shard, s->truth);
    replay_destroy(replay);
    scene_destroy(s);
}

/* The journal's disk, as if it had room for that many segments in all. */
enum { FEW_SEGMENTS = 24 };

static void count_segment(void *context, const char *name)
{
    (void)name;
    (*(uint64_t *)context)++;
}

static enum err few_segments(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    uint64_t count = 0;
    const struct disk *d = state; /* a real one's state begins with it */
    enum err err = d->list(state, count_segment, &count);
    *ret_total = (uint64_t)FEW_SEGMENTS * SCENE_SEGMENT;
    *ret_free = count < FEW_SEGMENTS ? *ret_total - count * SCENE_SEGMENT : 0;
    return err;
}

/* Nothing but the next snapshot keeps these segments: decisions are not refused for their sake. */
static void assert_not_filled(struct scene *s)
{
    static char large[40000];
    memset(large, 'x', sizeof large);
    keep_begin(s, options_of(s));
    journal_confirm(s->journal, UINT64_MAX);
    struct journal_totals totals;
    uint64_t begun_ns = 0, most = (uint64_t)FEW_SEGMENTS * 16; /* two thirds, and then the rest */
    do {
        for (; s->seq < most; s->seq % 5 == 0 ? scene_sync(s) : (void)0)
            scene_record(s, str_of(large, sizeof large), (struct str){0});
        scene_sync(s);
        nap(&begun_ns);
        if (newest_snapshot(s) > 0) most = newest_snapshot(s) + (uint64_t)FEW_SEGMENTS * 7;
        journal_totals(s->journal, &totals);
        /* full, if ever, until the segment pool looks again */
    } while (totals.oldest_seq == 1 || journal_is_full(s->journal));
    scene_destroy(s);
}

static void a_disk_is_not_filled_by_what_waits_for_a_snapshot(void **state)
{
    (void)state;
    assert_not_filled(scene_create_on(few_segments, NULL));
}

static enum err few_files(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    enum err err = few_segments(state, ret_free, ret_total);
    *ret_free /= SCENE_SEGMENT;
    *ret_total /= SCENE_SEGMENT;
    return err;
}

static void nor_are_the_files_that_a_disk_takes(void **state)
{
    (void)state;
    assert_not_filled(scene_create_on(NULL, few_files));
}

static _Atomic bool has_no_room;

static enum err until_told(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    (void)state;
    *ret_total = UINT64_C(1) << 40;
    *ret_free = atomic_load(&has_no_room) ? 0 : *ret_total;
    return ERR_OK;
}

/* Nothing new can be recorded there, so no snapshot would ever let go what the older one holds. */
static void a_full_disk_is_held_from_the_newest_snapshot(void **state)
{
    (void)state;
    atomic_store(&has_no_room, false);
    struct scene *s = scene_create_on(until_told, NULL);
    uint64_t begun_ns = 0;
    snapshot_made(s);
    uint64_t first = s->past.position = s->seq;
    snapshot_made(s);
    s->past.position = s->seq;
    keep_begin(s, options_of(s));
    assert_int_equal(held(s), first - 1);
    atomic_store(&has_no_room, true);
    while (held(s) == first - 1) nap(&begun_ns);
    assert_int_equal(held(s), s->seq - 1);
    scene_destroy(s);
}

static void a_replay_whose_records_are_gone_says_so(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct fault f = {.err = ERR_OK};
    scene_play(s, 3);
    struct replay *replay = replay_create();
    assert_int_equal(replay_follow(replay, s->journal, s->seq + 5, NULL, &f), ERR_CORRUPT);
    replay_destroy(replay);
    scene_destroy(s);
}

/* Or the end of a drain waits until a large snapshot is read. */
static void a_replay_that_is_given_up_does_not_load_the_rest(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct fault f = {.err = ERR_OK};
    _Atomic bool given_up = true;
    scene_play(s, 20);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(snapshot_make(s->snapshots, &replay->past, &replay->shard, 1, &f), ERR_OK);
    replay_destroy(replay);
    replay = replay_create();
    assert_int_equal(replay_load(replay, s->snapshots, &given_up, &f), ERR_CLOSED);
    struct image loaded = image_of(replay->shard);
    assert_int_equal(loaded.count, 0);
    image_fini(&loaded);
    replay_destroy(replay);
    scene_destroy(s);
}

static bool closing_after;
static _Atomic bool closing;

static enum err load_one(void *context, unsigned slot, struct str entry)
{
    unsigned *count = context;
    (void)slot;
    (void)entry;
    (*count)++;
    atomic_store(&closing, closing_after);
    return ERR_OK;
}

static void giving_up_is_seen_between_entries_and_is_no_damage(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    struct fault f = {.err = ERR_OK};
    static struct lineage past;
    unsigned count = 0;
    scene_play(s, 20);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(snapshot_make(s->snapshots, &replay->past, &replay->shard, 1, &f), ERR_OK);
    replay_destroy(replay);
    closing_after = true;
    assert_int_equal(snapshot_read_until(s->snapshots, &closing, load_one, &count, &past, &f),
                     ERR_CLOSED);
    assert_int_equal(count, 1);
    closing_after = false;
    atomic_store(&closing, false);
    assert_int_equal(snapshot_read_until(s->snapshots, &closing, load_one, &count, &past, &f),
                     ERR_OK);
    assert_true(count > 50);
    scene_destroy(s);
}

static void assert_delta_refused(struct str delta, enum err expected, const char *why)
{
    struct scene *s = scene_create();
    struct fault f = {.err = ERR_OK};
    scene_play(s, 1);
    struct journal_producer *p = journal_producer(s->journal, 0);
    enum err err;
    char *to = journal_reserve(p, 2 + delta.size, &err);
    memcpy(to, "{}", 2);
    memcpy(to + 2, delta.bytes, delta.size);
    journal_commit(p, 2, delta.size, true);
    s->seq++;
    scene_sync(s);
    struct replay *replay = replay_create();
    assert_int_equal(replay_follow(replay, s->journal, s->seq, NULL, &f), expected);
    char seq[32];
    snprintf(seq, sizeof seq, "seq %llu", (unsigned long long)s->seq);
    assert_non_null(strstr(f.text, seq));
    assert_non_null(strstr(f.text, why));
    replay_destroy(replay);
    scene_destroy(s);
}

static void a_damaged_delta_is_refused_with_its_seq(void **state)
{
    (void)state;
    assert_delta_refused(STR("\xff\x01\x02\x03"), ERR_CORRUPT, "damaged");
}

static void a_change_that_only_a_newer_program_knows_is_refused_and_told_as_that(void **state)
{
    (void)state;
    assert_delta_refused(STR("\xff\x01\x02\x01\x00\x00\x00x"), ERR_BAD_VALUE,
                         "start the newer one again");
}

static void expired_tokens_are_in_no_later_snapshot(void **state)
{
    (void)state;
    struct scene *s = scene_create();
    s->now_ms -= 7200000; /* what is minted now expired an hour ago */
    for (unsigned i = 0; i < 50; i++) (void)scene_mint(s, 0);
    scene_sync(s);
    keep_begin(s, options_of(s));
    scene_close(s);
    scene_open(s);
    struct image left = image_of(s->truth);
    assert_int_equal(left.count, 0);
    image_fini(&left);
    scene_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_of_the_journal_is_what_happened),
        cmocka_unit_test(a_replay_knows_the_epochs_that_it_went_through),
        cmocka_unit_test(a_snapshot_and_what_is_behind_it_are_what_happened),
        cmocka_unit_test(the_last_snapshot_is_made_at_the_end_and_begins_the_next_life),
        cmocka_unit_test(a_snapshot_is_made_after_so_much_journal),
        cmocka_unit_test(a_snapshot_that_took_long_is_not_followed_by_the_next_at_once),
        cmocka_unit_test(no_snapshot_is_made_where_nothing_changed),
        cmocka_unit_test(the_journal_is_held_as_far_as_the_older_kept_snapshot),
        cmocka_unit_test(a_snapshot_that_is_damaged_while_it_runs_is_made_again_of_the_older_one),
        cmocka_unit_test(where_all_snapshots_are_damaged_one_is_made_of_a_journal_that_is_whole),
        cmocka_unit_test(but_not_where_the_state_began_with_what_was_adopted),
        cmocka_unit_test(a_snapshot_of_another_journal_is_refused),
        cmocka_unit_test(a_snapshot_fits_a_journal_by_epoch_alone),
        cmocka_unit_test(a_segment_stays_until_a_durable_snapshot_includes_it),
        cmocka_unit_test(a_disk_is_not_filled_by_what_waits_for_a_snapshot),
        cmocka_unit_test(nor_are_the_files_that_a_disk_takes),
        cmocka_unit_test(a_full_disk_is_held_from_the_newest_snapshot),
        cmocka_unit_test(a_replay_whose_records_are_gone_says_so),
        cmocka_unit_test(a_replay_that_is_given_up_does_not_load_the_rest),
        cmocka_unit_test(giving_up_is_seen_between_entries_and_is_no_damage),
        cmocka_unit_test(a_damaged_delta_is_refused_with_its_seq),
        cmocka_unit_test(a_change_that_only_a_newer_program_knows_is_refused_and_told_as_that),
        cmocka_unit_test(expired_tokens_are_in_no_later_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
