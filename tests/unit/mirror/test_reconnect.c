/* What of Redis a mirror goes on with, and what it writes anew, at a start and when it is connected
 * again. */
#include "server.h"

/* ---- at a start ---- */

/* The journal keeps no longer what comes next for Redis; the replay has it. */
static struct replay *fall_behind(struct scene *s)
{
    static char large[40000];
    struct journal_totals totals;
    uint64_t begun_ns = 0, behind = s->seq;
    memset(large, 'x', sizeof large);
    for (unsigned i = 0; i < 80; i++) { /* three segments of a megabyte */
        scene_record(s, str_of(large, sizeof large), (struct str){0});
        if (i % 5 == 4) scene_sync(s);
    }
    scene_play(s, 5);
    struct replay *replay = scene_start_replay(s);
    journal_confirm(s->journal, UINT64_MAX);
    do {
        nap(&begun_ns);
        journal_totals(s->journal, &totals);
    } while (totals.oldest_seq <= behind + 50);
    return replay;
}

static void who_fell_behind_what_is_kept_writes_everything_anew(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    struct bare *b = bare_at_the_end(s, r);
    struct fault f;
    enum err err;
    struct replay *replay = fall_behind(s);
    while ((err = mirror_follow(b->mirror, &f)) == ERR_OK) {
    } /* what is open can be read still */
    assert_int_equal(err, ERR_CORRUPT);
    assert_int_equal(mirror_state(b->mirror), MIRROR_REPAIRING);
    assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
    follow_to_the_end(b->mirror);
    assert_redis_is_the_truth(s, r);
    replay_destroy(replay);
    bare_destroy(b);
}

static void assert_writes_anew(struct scene *s, struct server *r, struct bare *b,
                               struct replay *replay)
{
    struct fault f;
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_REPAIRING);
    assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
    replay_destroy(replay);
    follow_to_the_end(b->mirror);
    assert_redis_is_the_truth(s, r);
}

static void a_start_that_finds_redis_behind_what_is_kept_writes_it_anew(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    bare_destroy(bare_at_the_end(s, r));
    struct replay *replay = fall_behind(s);
    struct bare *b = bare_create(s, r, "node-a");
    assert_writes_anew(s, r, b, replay);
    bare_destroy(b);
}

static void a_start_with_a_newer_snapshot_than_redis_writes_it_anew(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    bare_destroy(bare_at_the_end(s, r));
    scene_play(s, 3);
    s->past.position = s->seq;
    struct bare *b = bare_create(s, r, "node-a");
    assert_writes_anew(s, r, b, scene_start_replay(s));
    bare_destroy(b);
}

/* ---- the same mirror, connected again ---- */

static void lose(struct server *r, struct bare *b)
{
    struct fault f;
    cut_all(r);
    assert_int_equal(mirror_probe(b->mirror, &f), ERR_STORE_UNAVAILABLE);
    assert_int_equal(mirror_state(b->mirror), MIRROR_AWAY);
}

static void what_was_to_be_written_anew_still_is_when_the_connection_was_lost(void **state)
{
    (void)state;
    static const uint32_t nothing_lives[LIMIT_SLOTS];
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    struct bare *b = bare_at_the_end(s, r);
    for (unsigned i = 0; i < 50; i++) scene_count(s, 1, s->now_ms + i * UINT64_C(60000), 0);
    scene_sync(s);
    follow_to_the_end(b->mirror);
    assert_true(mirror_wants_compaction(b->mirror, nothing_lives));
    cut_all(r);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_STORE_UNAVAILABLE);
    replay_destroy(replay);
    assert_writes_anew(s, r, b, scene_start_replay(s));
    bare_destroy(b);
}

static void a_slot_that_a_former_epoch_has_again_is_written_anew(void **state)
{
    (void)state;
    char key[REDIS_KEY_TEXT];
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    begin(s, r, "node-a");
    scene_play(s, 20);
    await_mirror(s);
    key_beside(r, SHARD_COUNTERS, "owner", key);
    struct answer_text former = ask(r, "GET", key, NULL);
    scene_close(s);
    scene_open(s);
    lineage_add_epoch(&s->past, journal_epoch(s->journal));
    struct bare *b = bare_create(s, r, "node-a");
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_FOLLOWING);
    follow_to_the_end(b->mirror);
    assert_string_not_equal(ask(r, "GET", key, NULL).text, former.text);
    ask(r, "SET", key, former.text);
    lose(r, b);
    assert_writes_anew(s, r, b, scene_start_replay(s));
    bare_destroy(b);
}

static void a_slot_that_went_back_to_the_beginning_is_written_anew(void **state)
{
    (void)state;
    char key[REDIS_KEY_TEXT];
    struct server *r = redis();
    struct scene *s = scene();
    struct bare *b = bare_at_the_end(s, r);
    ask(r, "SET", key_beside(r, SHARD_COUNTERS, "position", key), "0");
    lose(r, b);
    assert_writes_anew(s, r, b, scene_start_replay(s));
    bare_destroy(b);
}

/* The answer is lost, and the write is not: nothing is rewritten for that. */
static void what_was_written_and_not_answered_is_gone_on_with(void **state)
{
    (void)state;
    char key[REDIS_KEY_TEXT];
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    uint64_t begun_ns = 0;
    struct bare *b = bare_at_the_end(s, r);
    struct id token = scene_mint(s, 3);
    scene_sync(s);
    snprintf(key, sizeof key, "writ:{slot-%u}:position", slot_of_id(token));
    struct answer_text before = ask(r, "GET", key, NULL);
    kill(r->pid, SIGSTOP);
    assert_int_equal(mirror_follow(b->mirror, &f), ERR_STORE_UNAVAILABLE);
    kill(r->pid, SIGCONT);
    while (strcmp(ask(r, "GET", key, NULL).text, before.text) == 0) nap(&begun_ns);
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_FOLLOWING);
    follow_to_the_end(b->mirror);
    assert_redis_is_the_truth(s, r);
    bare_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_fell_behind_what_is_kept_writes_everything_anew),
        TEST(a_start_that_finds_redis_behind_what_is_kept_writes_it_anew),
        TEST(a_start_with_a_newer_snapshot_than_redis_writes_it_anew),
        TEST(what_was_to_be_written_anew_still_is_when_the_connection_was_lost),
        TEST(a_slot_that_a_former_epoch_has_again_is_written_anew),
        TEST(a_slot_that_went_back_to_the_beginning_is_written_anew),
        TEST(what_was_written_and_not_answered_is_gone_on_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
