/* The mirror against a real Redis server: everything once, whatever is lost on the way. */
#include "server.h"

/* ---- following ---- */

static void what_is_durable_is_in_redis(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 40);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    scene_play(s, 20); /* and so it goes on */
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static void what_was_there_before_redis_is_written_from_a_replay(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    scene_play(s, 40);
    begin(s, r, "node-a");
    scene_play(s, 10);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static void the_next_start_goes_on_where_the_last_one_ended(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    /* a repair that is wanted still, and what came since, are finished at the end */
    scene_play(s, 20);
    scene_close(s);
    scene_open(s);
    uint64_t repaired = metrics_total(METRIC_REDIS_REPAIRS);
    begin(s, r, "node-a");
    scene_play(s, 20);
    await_mirror(s);
    assert_int_equal(metrics_total(METRIC_REDIS_REPAIRS), repaired);
    assert_redis_is_the_truth(s, r);
}

static void a_redis_that_is_away_at_first_is_written_when_it_comes(void **state)
{
    (void)state;
    struct server *r = redis();
    server_stop(r, SIGTERM);
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 10);
    struct state_follower_status status;
    state_follower_status(s->keep, &status);
    assert_true(status.redis_configured && !status.redis_reachable);
    server_start(r);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static void a_forgotten_script_is_sent_again(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 5);
    await_mirror(s);
    uint64_t failures = metrics_total(METRIC_REDIS_FAILURES),
             repaired = metrics_total(METRIC_REDIS_REPAIRS);
    ask(r, "SCRIPT", "FLUSH", NULL);
    scene_play(s, 5);
    await_mirror(s);
    assert_int_equal(metrics_total(METRIC_REDIS_FAILURES), failures);
    assert_int_equal(metrics_total(METRIC_REDIS_REPAIRS), repaired);
    assert_redis_is_the_truth(s, r);
}

/* ---- what Redis can lose ---- */

static void an_emptied_redis_is_written_anew(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 30);
    await_mirror(s);
    ask(r, "FLUSHALL", NULL, NULL);
    scene_play(s, 5);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    assert_int_equal(s->lost, 0);
}

static void a_redis_killed_again_and_again_counts_everything_once(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    for (unsigned i = 0; i < 6; i++) {
        scene_play(s, 15);
        if (i % 2 == 0) ask(r, "SAVE", NULL, NULL); /* else it comes back older than it was */
        scene_play(s, 15);
        server_stop(r, SIGKILL);
        scene_play(s, 5);
        server_start(r);
    }
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static void a_lost_connection_counts_nothing_twice(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    for (unsigned i = 0; i < 30; i++) {
        scene_play(s, 3);
        cut_all(r);
    }
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static void yesterdays_redis_is_not_believed(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    char dump[SCENE_PATH + 16], old[SCENE_PATH + 16];
    snprintf(dump, sizeof dump, "%s/dump.rdb", r->directory);
    snprintf(old, sizeof old, "%s/old.rdb", r->directory);
    begin(s, r, "node-a");
    scene_play(s, 20);
    await_mirror(s);
    ask(r, "SAVE", NULL, NULL);
    assert_int_equal(rename(dump, old), 0);
    struct id token = scene_mint(s, 3);
    scene_spend(s, token, 3);
    scene_play(s, 20);
    await_mirror(s);
    server_stop(r, SIGKILL);
    assert_int_equal(rename(old, dump), 0);
    server_start(r);
    scene_play(s, 2);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static void yesterdays_redis_at_a_start_is_not_believed(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    char dump[SCENE_PATH + 16], old[SCENE_PATH + 16];
    snprintf(dump, sizeof dump, "%s/dump.rdb", r->directory);
    snprintf(old, sizeof old, "%s/old.rdb", r->directory);
    begin(s, r, "node-a");
    scene_play(s, 20);
    await_mirror(s);
    ask(r, "SAVE", NULL, NULL);
    assert_int_equal(rename(dump, old), 0);
    scene_play(s, 20);
    scene_close(s);
    server_stop(r, SIGKILL);
    assert_int_equal(rename(old, dump), 0);
    server_start(r);
    scene_open(s);
    begin(s, r, "node-a");
    scene_play(s, 2);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static const char counters_key[] = "writ:{slot-5}:counters";

static void the_same_write_sent_twice_happens_once(void **state)
{
    (void)state;
    struct server *r = redis();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "", "n:1", "keep", NULL).word, "OK");
    ask(r, "SET", "writ:{slot-5}:position", "10");
    ask(r, "SET", "writ:{slot-5}:fields", "0");
    assert_string_equal(
        run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "I", "5", "k", "3", NULL).word, "OK");
    struct script_answer again =
        run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "I", "5", "k", "3", NULL);
    assert_string_equal(again.word, "POSITION");
    assert_string_equal(again.there, "11");
    assert_string_equal(ask(r, "HGET", counters_key, "k").text, "3");
}

static void where_fields_are_missing_or_too_many_nothing_is_written(void **state)
{
    (void)state;
    static const char fields_key[] = "writ:{slot-5}:fields", tokens_key[] = "writ:{slot-5}:tokens";
    struct server *r = redis();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "", "n:1", "keep", NULL).word, "OK");
    assert_string_equal(
        run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "c", "1", "2", "t", "1", NULL).word, "OK");
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:1", "10", NULL).word, "OK");
    assert_string_equal(ask(r, "GET", fields_key, NULL).text, "2");
    assert_string_equal(
        run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "S", "3", "t", "2", "S", "4", "r", "1", NULL)
            .word,
        "OK"); /* one that is there already, and a new one */
    assert_string_equal(ask(r, "GET", fields_key, NULL).text, "3");
    assert_string_equal(
        run_script(r, SCRIPT_WRITE, "n:1", "11", "12", "D", "4", "r", "", NULL).word, "OK");
    assert_string_equal(ask(r, "GET", fields_key, NULL).text, "2");
    ask(r, "DEL", tokens_key, NULL); /* as an eviction does it */
    struct script_answer missing =
        run_script(r, SCRIPT_WRITE, "n:1", "12", "13", "I", "5", "k", "3", NULL);
    assert_string_equal(missing.word, "FIELDS");
    assert_string_equal(missing.there, "1");
    assert_true(ask(r, "HGET", counters_key, "k").is_nothing);
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "12");
    struct str two_more[] = {STR("HSET"), str_from(tokens_key), STR("x"), STR("1"), STR("y"),
                             STR("2")};
    struct answer_text more = {.is_nothing = true};
    redis_link_send(r->link, two_more, 6, keep_text, &more);
    assert_true(redis_link_await(r->link, 0));
    assert_string_equal(run_script(r, SCRIPT_WRITE, "n:1", "12", "13", NULL).there, "3");
    ask(r, "DEL", fields_key, NULL);
    assert_string_equal(run_script(r, SCRIPT_WRITE, "n:1", "12", "13", NULL).word, "FIELDS");
}

static void a_write_or_a_swap_by_another_than_the_owner_changes_nothing(void **state)
{
    (void)state;
    struct server *r = redis();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "", "n:1", "keep", NULL).word, "OK");
    /* not nobody's any more */
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "", "n:2", "keep", NULL).word, "OWNER");
    ask(r, "SET", "writ:{slot-5}:position", "10");
    assert_string_equal(
        run_script(r, SCRIPT_WRITE, "n:2", "10", "11", "S", "5", "k", "v", NULL).word, "OWNER");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:2", "first", "4", "k", "v", NULL).word,
                        "OWNER");
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:2", "99", NULL).word, "OWNER");
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "10");
    assert_true(ask(r, "HGET", counters_key, "k").is_nothing);
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "n:1", "10", "n:2", "forget", NULL).word, "OK");
    assert_true(ask(r, "GET", "writ:{slot-5}:position", NULL).is_nothing);
}

static void what_is_staged_takes_the_old_ones_place_at_once(void **state)
{
    (void)state;
    struct server *r = redis();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "", "n:1", "keep", NULL).word, "OK");
    assert_string_equal(
        run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "old", "1", "2", "t", "1", NULL).word,
        "OK");
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:1", "7", NULL).word, "OK");
    assert_string_equal(ask(r, "HGET", counters_key, "old").text, "1");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "lost", "1", NULL).word,
                        "OK");
    /* begins anew */
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "a", "1", NULL).word,
                        "OK");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "more", "4", "b", "2", NULL).word, "OK");
    assert_string_equal(ask(r, "HGET", counters_key, "old").text, "1"); /* not before the swap */
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:1", "9", NULL).word, "OK");
    assert_string_equal(ask(r, "HGET", counters_key, "a").text, "1");
    assert_string_equal(ask(r, "HGET", counters_key, "b").text, "2");
    assert_true(ask(r, "HGET", counters_key, "old").is_nothing);
    assert_true(ask(r, "HGET", counters_key, "lost").is_nothing);
    /* an object that is no more */
    assert_true(ask(r, "HGET", "writ:{slot-5}:tokens", "t").is_nothing);
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "9");
}

static void slots_written_anew_from_an_older_replay_count_nothing_twice(void **state)
{
    (void)state;
    static const uint32_t nothing_lives[LIMIT_SLOTS];
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    scene_play(s, 5);
    struct bare *b = bare_create(s, r, "node-a");
    struct mirror *m = b->mirror;
    assert_int_equal(mirror_connect(m, &f), ERR_OK);
    assert_int_equal(mirror_state(m), MIRROR_REPAIRING);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(mirror_repair(m, replay, &f), ERR_OK);
    replay_destroy(replay);
    struct id busy = scene_mint(s, 2000), calm = scene_mint(s, 1000);
    for (unsigned i = 0; i < 1300; i++) scene_spend(s, busy, 1); /* more than one call takes */
    scene_sync(s);
    follow_to_the_end(m);

    replay = scene_start_replay(s); /* and then Redis goes on, beyond this replay */
    scene_play(s, 10);
    scene_spend(s, busy, 7);
    scene_spend(s, calm, 11);
    scene_sync(s);
    follow_to_the_end(m);
    assert_true(mirror_wants_compaction(m, nothing_lives));
    assert_int_equal(mirror_repair(m, replay, &f), ERR_OK);
    scene_spend(s, calm, 13); /* in one round with what its slot has already */
    scene_sync(s);
    follow_to_the_end(m);
    assert_redis_is_the_truth(s, r);
    assert_false(mirror_wants_compaction(m, nothing_lives));
    replay_destroy(replay);
    bare_destroy(b);
}

static void a_replay_that_cannot_be_told_whole_takes_nothings_place(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    scene_play(s, 5);
    struct bare *b = bare_create(s, r, "node-a");
    struct replay *replay = scene_start_replay(s), *overfull = scene_start_replay(s);
    scene_overfill(overfull->shard, s->now_ms);
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_repair(b->mirror, overfull, &f), ERR_STORE_UNAVAILABLE);
    assert_int_equal(mirror_state(b->mirror), MIRROR_AWAY);
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_REPAIRING);
    assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
    assert_redis_is_the_truth(s, r);
    replay_destroy(overfull);
    replay_destroy(replay);
    bare_destroy(b);
}

static void what_came_while_nobody_mirrored_is_written_by_who_goes_on(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    bare_destroy(bare_at_the_end(s, r));
    scene_spend(s, scene_mint(s, 1000), 7);
    scene_play(s, 5);
    scene_sync(s);
    struct bare *b = bare_create(s, r, "node-a");
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_FOLLOWING);
    follow_to_the_end(b->mirror);
    assert_redis_is_the_truth(s, r);
    bare_destroy(b);
}

/* A write that broke off took the position with it: what is there has half of a record. And a key
 * may be evicted alone. */
static void a_slot_without_one_of_its_keys_is_written_anew(void **state)
{
    (void)state;
    static const char *const names[] = {"position", "owner", "fields", "counters"};
    char key[REDIS_KEY_TEXT];
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    bare_destroy(bare_at_the_end(s, r));
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(ask(r, "DEL", key_beside(r, SHARD_COUNTERS, names[i], key), NULL).integer,
                         1);
        struct bare *b = bare_create(s, r, "node-a");
        assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
        assert_int_equal(mirror_state(b->mirror), MIRROR_REPAIRING);
        struct replay *replay = scene_start_replay(s);
        assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
        replay_destroy(replay);
        bare_destroy(b);
        assert_redis_is_the_truth(s, r);
    }
}

static enum err probe_all(struct mirror *m)
{
    struct fault f;
    enum err err = ERR_OK;
    for (unsigned i = 0; i < LIMIT_SLOTS && err == ERR_OK; i++) err = mirror_probe(m, &f);
    return err;
}

static void
what_another_changed_is_found_by_the_probes_and_what_is_right_is_left_alone(void **state)
{
    (void)state;
    static const char owner[] = "writ:{slot-5}:owner";
    struct server *r = redis();
    struct scene *s = scene();
    struct bare *b = bare_at_the_end(s, r);
    struct fault f;
    assert_int_equal(probe_all(b->mirror), ERR_OK);
    char was[256];
    snprintf(was, sizeof was, "%s", ask(r, "GET", owner, NULL).text);
    ask(r, "SET", owner, "node-b:0123456789abcdef");
    assert_int_equal(probe_all(b->mirror), ERR_STORE_UNAVAILABLE);
    assert_int_equal(mirror_state(b->mirror), MIRROR_AWAY);
    ask(r, "SET", owner, was);
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_FOLLOWING);
    static const char *const changes[][3] = {{"SET", "position", "1000000"},
                                             {"DEL", "counters", NULL},
                                             {"SET", "counters", "no hash"},
                                             {"SET", "fields", "77"},
                                             {"DEL", "fields", NULL}};
    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++) {
        char key[REDIS_KEY_TEXT];
        ask(r, changes[i][0], key_beside(r, SHARD_COUNTERS, changes[i][1], key), changes[i][2]);
        assert_int_equal(probe_all(b->mirror), ERR_CORRUPT);
        assert_int_equal(mirror_state(b->mirror), MIRROR_REPAIRING);
        struct replay *replay = scene_start_replay(s);
        assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
        replay_destroy(replay);
        assert_redis_is_the_truth(s, r);
        assert_int_equal(probe_all(b->mirror), ERR_OK);
    }
    bare_destroy(b);
}

/* ---- what Redis does not do ---- */

static void a_sum_beyond_int64_is_cut_as_the_shard_cuts_it(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 2);
    await_mirror(s);
    uint64_t failures = metrics_total(METRIC_REDIS_FAILURES),
             repaired = metrics_total(METRIC_REDIS_REPAIRS);
    for (unsigned i = 0; i < 3; i++) {
        scene_count(s, 77, s->now_ms, INT64_C(9000000000000000000));
        scene_sync(s);
        await_mirror(s);
    }
    assert_redis_is_the_truth(s, r);
    assert_int_equal(metrics_total(METRIC_REDIS_FAILURES), failures);
    assert_int_equal(metrics_total(METRIC_REDIS_REPAIRS), repaired);
}

static void a_write_that_breaks_off_takes_its_position_with_it(void **state)
{
    (void)state;
    struct server *r = redis();
    ask(r, "SET", "writ:{slot-5}:owner", "n:1");
    ask(r, "SET", "writ:{slot-5}:position", "10");
    ask(r, "SET", "writ:{slot-5}:fields", "0");
    struct script_answer broken = run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "I", "5", "k", "3",
                                             "S", "3", "t", "v", "I", "3", "t", "1", NULL);
    assert_string_equal(broken.word, "BROKEN");
    assert_non_null(strstr(broken.there, "not an integer"));
    /* so nobody believes the half, or does it twice */
    assert_true(ask(r, "GET", "writ:{slot-5}:position", NULL).is_nothing);
    assert_string_equal(
        run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "I", "5", "k", "3", NULL).word, "POSITION");
    assert_string_equal(ask(r, "HGET", counters_key, "k").text, "3");
}

static void what_cannot_be_written_to_is_written_anew(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 2);
    await_mirror(s);
    struct id token = scene_mint(s, 1000);
    scene_sync(s);
    await_mirror(s);
    char key[REDIS_KEY_TEXT];
    unsigned slot = slot_of_id(token);
    const char *tokens = redis_key_put(slot, SLOT_HASH + SHARD_TOKENS, key).bytes;
    ask(r, "DEL", tokens, NULL);
    ask(r, "SET", tokens, "no hash");
    scene_spend(s, token, 5); /* the first operation fails: nothing was done, and never will be */
    scene_sync(s);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    ask(r, "DEL", tokens, NULL);
    ask(r, "SET", tokens, "no hash");
    struct happening h; /* two operations of one slot in one record: the second fails */
    struct limit_request asked = {
        .key = {{(uint8_t)(slot >> 8), (uint8_t)slot}}, .window_ms = 60000, .count_max = 100};
    struct limit_told told = {.counted = true, .stamp_ms = s->now_ms};
    delta_put_counted(happening_begin(&h), &asked, &told);
    delta_put_spent(&h.delta, token, 7);
    scene_record(s, scene_event, buf_view(&h.delta));
    scene_sync(s);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
}

static uint64_t connections(struct server *r)
{
    unsigned long long n = 0;
    struct answer_text told = ask(r, "INFO", "stats", NULL);
    assert_int_equal(sscanf(told.text, "# Stats total_connections_received:%llu", &n), 1);
    return n;
}

static void config_set(struct server *r, const char *name, const char *value)
{
    struct answer_text answer = {.is_nothing = true};
    struct str words[4] = {STR("CONFIG"), STR("SET"), str_from(name), str_from(value)};
    redis_link_send(r->link, words, 4, keep_text, &answer);
    assert_true(redis_link_await(r->link, 0));
    assert_string_equal(answer.text, "OK");
}

/* Redis answers, and writes nothing: it is asked less and less often, and from the first failure to
 * the first write that got through it is told why. */
static void refused_writes_are_told_and_tried_less_and_less(struct scene *s, struct server *r,
                                                            const char *why)
{
    struct state_follower_status status;
    uint64_t begun_ns = 0, failures = metrics_total(METRIC_REDIS_FAILURES), before = connections(r);
    scene_play(s, 3);
    do {
        nap(&begun_ns);
        state_follower_status(s->keep, &status);
    } while (status.text[0] == '\0');
    while (metrics_total(METRIC_REDIS_FAILURES) < failures + 5) {
        state_follower_status(s->keep, &status);
        assert_non_null(strstr(status.text, why));
        assert_false(status.redis_reachable);
        nap(&begun_ns);
    }
    /* one at once, then after 200, 400, 800 ms */
    uint64_t made = connections(r) - before,
             attempts = metrics_total(METRIC_REDIS_FAILURES) - failures;
    assert_in_range(made, 3, attempts + 1);
    assert_in_range(attempts, 5, 7 + (world_monotonic_ns() - begun_ns) / 1000000000);
}

static void a_redis_that_reads_and_does_not_write_is_asked_less_and_less(void **state)
{
    (void)state;
    struct server *r = redis();
    struct scene *s = scene();
    begin(s, r, "node-a");
    scene_play(s, 3);
    await_mirror(s);
    config_set(r, "maxmemory", "1");
    refused_writes_are_told_and_tried_less_and_less(s, r, "OOM");
    config_set(r, "maxmemory", "0");
    await_mirror(s);
    assert_redis_is_the_truth(s, r);

    ask(r, "REPLICAOF", "127.0.0.1", "1");
    refused_writes_are_told_and_tried_less_and_less(s, r, "READONLY");
    ask(r, "REPLICAOF", "NO", "ONE");
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    assert_int_equal(s->lost, 0);
}

/* ---- garbage ---- */

static void garbage_is_known_to_the_next_start_too(void **state)
{
    (void)state;
    static const uint32_t nothing_lives[LIMIT_SLOTS];
    struct server *r = redis();
    struct scene *s = scene();
    struct fault f;
    begin(s, r, "node-a");
    scene_play(s, 2);
    await_mirror(s);
    /* a field for each bucket */
    for (unsigned i = 0; i < 50; i++) scene_count(s, 1, s->now_ms + i * UINT64_C(60000), 0);
    scene_sync(s);
    await_mirror(s);
    scene_close(s);
    scene_open(s);
    lineage_add_epoch(&s->past, journal_epoch(s->journal));
    struct bare *b = bare_create(s, r, "node-a");
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    assert_int_equal(mirror_state(b->mirror), MIRROR_FOLLOWING);
    follow_to_the_end(b->mirror);
    assert_true(mirror_wants_compaction(b->mirror, nothing_lives));
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
    replay_destroy(replay);
    bare_destroy(b);
    b = bare_create(s, r, "node-a");
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    follow_to_the_end(b->mirror);
    assert_false(mirror_wants_compaction(b->mirror, nothing_lives));
    assert_redis_is_the_truth(s, r);
    bare_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_durable_is_in_redis),
        TEST(what_was_there_before_redis_is_written_from_a_replay),
        TEST(the_next_start_goes_on_where_the_last_one_ended),
        TEST(a_redis_that_is_away_at_first_is_written_when_it_comes),
        TEST(a_forgotten_script_is_sent_again),
        TEST(an_emptied_redis_is_written_anew),
        TEST(a_redis_killed_again_and_again_counts_everything_once),
        TEST(a_lost_connection_counts_nothing_twice),
        TEST(yesterdays_redis_is_not_believed),
        TEST(yesterdays_redis_at_a_start_is_not_believed),
        TEST(the_same_write_sent_twice_happens_once),
        TEST(where_fields_are_missing_or_too_many_nothing_is_written),
        TEST(a_write_or_a_swap_by_another_than_the_owner_changes_nothing),
        TEST(what_is_staged_takes_the_old_ones_place_at_once),
        TEST(slots_written_anew_from_an_older_replay_count_nothing_twice),
        TEST(a_replay_that_cannot_be_told_whole_takes_nothings_place),
        TEST(what_came_while_nobody_mirrored_is_written_by_who_goes_on),
        TEST(a_slot_without_one_of_its_keys_is_written_anew),
        TEST(what_another_changed_is_found_by_the_probes_and_what_is_right_is_left_alone),
        TEST(a_sum_beyond_int64_is_cut_as_the_shard_cuts_it),
        TEST(a_write_that_breaks_off_takes_its_position_with_it),
        TEST(what_cannot_be_written_to_is_written_anew),
        TEST(a_redis_that_reads_and_does_not_write_is_asked_less_and_less),
        TEST(garbage_is_known_to_the_next_start_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
