/* The mirror against a real Redis server, which each test starts, kills, empties and restores. */
#include "scene.h"

#include <sys/prctl.h>

#include "pipeline/keep/mirror.h"
#include "pipeline/keep/redis.h"
#include "pipeline/keep/slots.h"

/* ---- a server ---- */

struct server {
    char directory[SCENE_PATH];
    char socket[REDIS_PATH_TEXT], url[REDIS_PATH_TEXT + 8];
    pid_t pid;
    struct loop *loop;
    struct redis_link *link;
};

static bool have_redis(void) { return access("/usr/bin/redis-server", X_OK) == 0; }

/* One turn of waiting for what another thread or process does; a wait that is in vain ends the test. */
static void nap(uint64_t *begun_ns)
{
    struct timespec t = {.tv_nsec = 2000000};
    if (*begun_ns == 0) *begun_ns = world_monotonic_ns();
    assert_true(world_monotonic_ns() - *begun_ns < UINT64_C(60000000000));
    nanosleep(&t, NULL);
}

static void server_start(struct server *r)
{
    char *argv[] = {"redis-server", "--port", "0", "--unixsocket", r->socket, "--dir", r->directory, "--appendonly", "no",
                    "--save", "", "--logfile", "log", NULL};
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0) { /* it ends with this process, however that ends */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv("/usr/bin/redis-server", argv);
        _exit(127);
    }
    struct redis_link_options o = {.loop = r->loop, .user = "", .password_file = "", .ca_file = "", .timeout_ms = 5000};
    struct fault f;
    assert_int_equal(redis_address_read(str_from(r->url), &o.address, &f), ERR_OK);
    r->link = redis_link_create(&o);
    uint64_t begun_ns = 0;
    while (redis_link_open(r->link, &f) != ERR_OK) nap(&begun_ns); /* it is not there yet */
}

static void server_stop(struct server *r, int number)
{
    if (r->pid == 0) return;
    redis_link_destroy(r->link);
    r->link = NULL;
    kill(r->pid, number);
    assert_int_equal(waitpid(r->pid, NULL, 0), r->pid);
    r->pid = 0;
}

static struct server *server_create(void)
{
    struct server *r = calloc(1, sizeof *r);
    assert_non_null(r);
    scene_directory(r->directory);
    char *here = getcwd(NULL, 0);
    int size = snprintf(r->socket, sizeof r->socket, "%s/%s/sock", here, r->directory);
    free(here);
    assert_true(size > 0 && (size_t)size < sizeof r->socket); /* a socket's path is short, or this checkout lies too deep */
    snprintf(r->url, sizeof r->url, "unix:%s", r->socket);
    r->loop = loop_create();
    server_start(r);
    return r;
}

static void server_destroy(struct server *r)
{
    server_stop(r, SIGKILL);
    loop_destroy(r->loop);
    unlink(r->socket);
    scene_remove(r->directory);
    free(r);
}

struct answer_text {
    char text[256];
    int64_t integer;
    bool is_nothing;
};

static void keep_text(void *context, const struct redis_value *v)
{
    struct answer_text *a = context;
    assert_non_null(v);
    a->is_nothing = v->kind == REDIS_NOTHING;
    a->integer = v->integer;
    snprintf(a->text, sizeof a->text, "%.*s", STR_FORMAT(v->text));
}

static struct answer_text ask(struct server *r, const char *a, const char *b, const char *c)
{
    struct answer_text answer = {.is_nothing = true};
    struct str words[3] = {str_from(a), str_from(b), str_from(c)};
    redis_link_send(r->link, words, c != NULL ? 3 : b != NULL ? 2 : 1, keep_text, &answer);
    assert_true(redis_link_await(r->link, 0));
    return answer;
}

/* ---- an engine's worth of keeping ---- */

static struct keep_redis redis_of(struct server *r, const char *adopt)
{
    return (struct keep_redis){.url = r->url, .user = "", .password_file = "", .ca_file = "", .adopt = adopt, .timeout_ms = 3000};
}

static enum err check_redis(struct scene *s, struct server *r, const char *node, const char *adopt, bool *ret_reached, struct fault *f)
{
    struct keep_redis redis = redis_of(r, adopt);
    *f = (struct fault){.err = ERR_OK};
    return keep_redis_check(&redis, node, &s->past, s->seq, s->now_ms, scene_take, s, ret_reached, f);
}

static enum err try_begin(struct scene *s, struct server *r, const char *node, struct fault *f)
{
    bool reached;
    enum err err = check_redis(s, r, node, "", &reached, f);
    if (err != ERR_OK) return err;
    struct keep_options o = {.journal = s->journal, .disk = s->snapshots, .node = node, .past = &s->past, .snapshot_bytes = UINT64_MAX,
                             .snapshot_ms = 3600000, .redis = redis_of(r, ""), .redis_reached = reached, .sheet = s->sheet,
                             .lost_ownership = scene_lost, .context = s};
    struct keep *keep;
    err = keep_start(&o, &keep, f);
    if (err == ERR_OK) scene_set_keep(s, keep);
    return err;
}

static void begin(struct scene *s, struct server *r, const char *node)
{
    struct fault f;
    enum err err = try_begin(s, r, node, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
}

static void await_mirror(struct scene *s)
{
    struct keep_status status;
    uint64_t begun_ns = 0;
    do {
        nap(&begun_ns);
        keep_status(s->keep, &status);
    } while (status.mirror_position < s->seq || status.text[0] != '\0');
}

/* What Redis holds is, loaded by the shard itself, what happened. */
static void assert_redis_is_the_truth(struct scene *s, struct server *r)
{
    struct shard *copy = scene_shard();
    struct fault f = {.err = ERR_OK};
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        enum err err = slot_take(r->link, i, copy, &f);
        if (err != ERR_OK) print_error("%s\n", f.text);
        assert_int_equal(err, ERR_OK);
    }
    assert_same_state(copy, s->truth);
    shard_destroy(copy);
}

#define SKIP_WITHOUT_REDIS()                                                                      \
    do {                                                                                          \
        if (!have_redis()) {                                                                      \
            print_message("SKIP: redis-server is not installed\n");                               \
            skip();                                                                               \
        }                                                                                         \
    } while (0)

/* ---- following ---- */

static void what_is_durable_is_in_redis(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 40);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    scene_play(s, 20); /* and so it goes on */
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    scene_destroy(s);
    server_destroy(r);
}

static void what_was_there_before_redis_is_written_from_a_fold(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    scene_play(s, 40);
    begin(s, r, "node-a");
    scene_play(s, 10);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    scene_destroy(s);
    server_destroy(r);
}

static void the_next_start_goes_on_where_the_last_one_ended(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 20); /* a repair that is wanted still, and what came since, are finished at the end */
    scene_close(s);
    scene_open(s);
    uint64_t repaired = metrics_total(METRIC_REDIS_REPAIRS);
    begin(s, r, "node-a");
    scene_play(s, 20);
    await_mirror(s);
    assert_int_equal(metrics_total(METRIC_REDIS_REPAIRS), repaired);
    assert_redis_is_the_truth(s, r);
    scene_destroy(s);
    server_destroy(r);
}

static void a_redis_that_is_away_at_first_is_written_when_it_comes(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    server_stop(r, SIGTERM);
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 10);
    struct keep_status status;
    keep_status(s->keep, &status);
    assert_true(status.redis_configured && !status.redis_reachable);
    server_start(r);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    scene_destroy(s);
    server_destroy(r);
}

static void a_forgotten_script_is_sent_again(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 5);
    await_mirror(s);
    uint64_t failures = metrics_total(METRIC_REDIS_FAILURES), repaired = metrics_total(METRIC_REDIS_REPAIRS);
    ask(r, "SCRIPT", "FLUSH", NULL);
    scene_play(s, 5);
    await_mirror(s);
    assert_int_equal(metrics_total(METRIC_REDIS_FAILURES), failures);
    assert_int_equal(metrics_total(METRIC_REDIS_REPAIRS), repaired);
    assert_redis_is_the_truth(s, r);
    scene_destroy(s);
    server_destroy(r);
}

/* ---- what Redis can lose ---- */

static void an_emptied_redis_is_written_anew(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 30);
    await_mirror(s);
    ask(r, "FLUSHALL", NULL, NULL);
    scene_play(s, 5);
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    assert_int_equal(s->lost, 0);
    scene_destroy(s);
    server_destroy(r);
}

static void a_redis_killed_again_and_again_counts_everything_once(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
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
    scene_destroy(s);
    server_destroy(r);
}

static void a_lost_connection_counts_nothing_twice(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    for (unsigned i = 0; i < 30; i++) {
        scene_play(s, 3);
        ask(r, "CLIENT", "KILL", "TYPE normal") /* an error in this form: the next one cuts all others */;
        struct answer_text answer = {.is_nothing = true};
        struct str words[6] = {STR("CLIENT"), STR("KILL"), STR("TYPE"), STR("normal"), STR("SKIPME"), STR("yes")};
        redis_link_send(r->link, words, 6, keep_text, &answer);
        assert_true(redis_link_await(r->link, 0));
    }
    await_mirror(s);
    assert_redis_is_the_truth(s, r);
    scene_destroy(s);
    server_destroy(r);
}

static void yesterdays_redis_is_not_believed(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
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
    scene_destroy(s);
    server_destroy(r);
}

static void yesterdays_redis_at_a_start_is_not_believed(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
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
    scene_destroy(s);
    server_destroy(r);
}

struct script_answer {
    char word[32], there[64];
};

static void keep_script_answer(void *context, const struct redis_value *v)
{
    struct script_answer *a = context;
    assert_non_null(v);
    assert_int_equal(v->kind, REDIS_LIST);
    snprintf(a->word, sizeof a->word, "%.*s", STR_FORMAT(redis_value_at(v, 0).text));
    snprintf(a->there, sizeof a->there, "%.*s", STR_FORMAT(redis_value_at(v, 1).text));
}

/* One call of a script for slot 5, with arguments up to a NULL. */
static struct script_answer run_script(struct server *r, enum script script, ...)
{
    static struct script_call call;
    struct scripts scripts;
    struct fault f;
    struct script_answer answer = {.word = ""};
    va_list arguments;
    assert_int_equal(scripts_load(r->link, &scripts, &f), ERR_OK);
    script_call_begin(&call, script, 5);
    va_start(arguments, script);
    for (const char *a; (a = va_arg(arguments, const char *)) != NULL;) script_call_add(&call, str_from(a));
    va_end(arguments);
    script_call_send(&call, r->link, &scripts, false, keep_script_answer, &answer);
    assert_true(redis_link_await(r->link, 0));
    return answer;
}

static const char counters_key[] = "writ:{slot-5}:counters";

static void the_same_write_sent_twice_happens_once(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "n:1", "keep", NULL).word, "OK");
    ask(r, "SET", "writ:{slot-5}:position", "10");
    assert_string_equal(run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "I", "5", "k", "3", NULL).word, "OK");
    struct script_answer again = run_script(r, SCRIPT_WRITE, "n:1", "10", "11", "I", "5", "k", "3", NULL);
    assert_string_equal(again.word, "POSITION");
    assert_string_equal(again.there, "11");
    assert_string_equal(ask(r, "HGET", counters_key, "k").text, "3");
    server_destroy(r);
}

static void a_write_or_a_swap_by_another_than_the_owner_changes_nothing(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "n:1", "keep", NULL).word, "OK");
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "n:2", "keep", NULL).word, "OWNER"); /* not nobody's any more */
    ask(r, "SET", "writ:{slot-5}:position", "10");
    assert_string_equal(run_script(r, SCRIPT_WRITE, "n:2", "10", "11", "S", "5", "k", "v", NULL).word, "OWNER");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:2", "first", "4", "k", "v", NULL).word, "OWNER");
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:2", "99", NULL).word, "OWNER");
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "10");
    assert_true(ask(r, "HGET", counters_key, "k").is_nothing);
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "n:1", "n:2", "forget", NULL).word, "OK");
    assert_true(ask(r, "GET", "writ:{slot-5}:position", NULL).is_nothing);
    server_destroy(r);
}

static void what_is_staged_takes_the_old_ones_place_at_once(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    assert_string_equal(run_script(r, SCRIPT_CLAIM, "", "n:1", "keep", NULL).word, "OK");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "old", "1", "2", "t", "1", NULL).word, "OK");
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:1", "7", NULL).word, "OK");
    assert_string_equal(ask(r, "HGET", counters_key, "old").text, "1");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "lost", "1", NULL).word, "OK");
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "first", "4", "a", "1", NULL).word, "OK"); /* begins anew */
    assert_string_equal(run_script(r, SCRIPT_STAGE, "n:1", "more", "4", "b", "2", NULL).word, "OK");
    assert_string_equal(ask(r, "HGET", counters_key, "old").text, "1"); /* not before the swap */
    assert_string_equal(run_script(r, SCRIPT_SWAP, "n:1", "9", NULL).word, "OK");
    assert_string_equal(ask(r, "HGET", counters_key, "a").text, "1");
    assert_string_equal(ask(r, "HGET", counters_key, "b").text, "2");
    assert_true(ask(r, "HGET", counters_key, "old").is_nothing);
    assert_true(ask(r, "HGET", counters_key, "lost").is_nothing);
    assert_true(ask(r, "HGET", "writ:{slot-5}:tokens", "t").is_nothing); /* an object that is no more */
    assert_string_equal(ask(r, "GET", "writ:{slot-5}:position", NULL).text, "9");
    server_destroy(r);
}

static void follow_to_the_end(struct mirror *m)
{
    struct fault f;
    enum err err;
    while ((err = mirror_follow(m, &f)) == ERR_OK) {
    }
    assert_int_equal(err, ERR_END);
}

static void slots_written_anew_from_an_older_fold_count_nothing_twice(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    static const uint32_t nothing_lives[LIMIT_SLOTS];
    struct server *r = server_create();
    struct scene *s = scene_create();
    _Atomic bool given_up = false;
    struct loop *loop = loop_create();
    struct mirror_options o = {.loop = loop, .journal = s->journal, .node = "node-a", .past = &s->past, .redis = redis_of(r, ""),
                               .sheet = s->sheet, .given_up = &given_up};
    struct mirror *m;
    struct fault f;
    scene_play(s, 5);
    assert_int_equal(mirror_create(&o, &m, &f), ERR_OK);
    assert_int_equal(mirror_connect(m, &f), ERR_OK);
    assert_int_equal(mirror_state(m), MIRROR_REPAIRING);
    struct fold *fold = scene_fold(s);
    assert_int_equal(mirror_repair(m, fold, &f), ERR_OK);
    fold_destroy(fold);
    struct id busy = scene_mint(s, 1000), calm = scene_mint(s, 1000);
    for (unsigned i = 0; i < 300; i++) scene_spend(s, busy, 1);
    scene_sync(s);
    follow_to_the_end(m);

    fold = scene_fold(s); /* and then Redis goes on, beyond this fold */
    scene_play(s, 10);
    scene_spend(s, busy, 7);
    scene_spend(s, calm, 11);
    scene_sync(s);
    follow_to_the_end(m);
    assert_true(mirror_wants_compaction(m, nothing_lives));
    assert_int_equal(mirror_repair(m, fold, &f), ERR_OK);
    scene_spend(s, calm, 13); /* in one round with what its slot has already */
    scene_sync(s);
    follow_to_the_end(m);
    assert_redis_is_the_truth(s, r);
    assert_false(mirror_wants_compaction(m, nothing_lives));
    fold_destroy(fold);
    mirror_destroy(m);
    loop_destroy(loop);
    scene_destroy(s);
    server_destroy(r);
}

/* ---- who owns it ---- */

static void another_nodes_redis_is_refused_with_a_sentence(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *first = scene_create(), *second = scene_create();
    struct fault f;
    begin(first, r, "node-a");
    scene_play(first, 3);
    await_mirror(first);
    assert_int_equal(try_begin(second, r, "node-b", &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "node-a"));
    assert_non_null(strstr(f.text, "--adopt node-a"));
    assert_int_equal(first->lost, 0);
    scene_destroy(first);
    scene_destroy(second);
    server_destroy(r);
}

static void a_new_directory_under_the_old_name_is_refused(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *first = scene_create(), *second = scene_create();
    struct fault f;
    begin(first, r, "node-a");
    scene_play(first, 3);
    scene_destroy(first);
    assert_int_equal(try_begin(second, r, "node-a", &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "--adopt node-a"));
    scene_play(second, 20); /* and not either when it has a history of its own */
    assert_int_equal(try_begin(second, r, "node-a", &f), ERR_EXISTS);
    scene_destroy(second);
    server_destroy(r);
}

static void a_disk_that_went_back_in_time_is_refused(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    struct fault f;
    bool reached;
    begin(s, r, "node-a");
    scene_play(s, 10);
    await_mirror(s);
    uint64_t seq = s->seq;
    scene_close(s);
    scene_open(s);
    s->seq = seq - 5; /* as if the journal ended there */
    assert_int_equal(check_redis(s, r, "node-a", "", &reached, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "went back in time"));
    s->seq = seq;
    scene_destroy(s);
    server_destroy(r);
}

static void the_one_that_was_taken_over_stops(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 3);
    await_mirror(s);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        char key[SLOT_KEY_TEXT];
        ask(r, "SET", slot_key_put(i, SLOT_OWNER, key).bytes, "node-b:0123456789abcdef");
    }
    scene_play(s, 3);
    uint64_t begun_ns = 0;
    while (s->lost == 0) nap(&begun_ns);
    struct keep_status status;
    keep_status(s->keep, &status);
    assert_true(status.redis_lost);
    assert_non_null(strstr(status.text, "node-b"));
    scene_destroy(s);
    server_destroy(r);
}

static void an_idle_engine_notices_too_that_it_was_taken_over(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *s = scene_create();
    begin(s, r, "node-a");
    scene_play(s, 1);
    await_mirror(s);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        char key[SLOT_KEY_TEXT];
        ask(r, "SET", slot_key_put(i, SLOT_OWNER, key).bytes, "node-b:0123456789abcdef");
    }
    uint64_t begun_ns = 0;
    while (s->lost == 0) nap(&begun_ns);
    scene_destroy(s);
    server_destroy(r);
}

/* ---- adopting ---- */

struct seen_states {
    uint64_t live, counted_alive, approved, revoked;
};

static void an_adopted_state_comes_back_closed_and_lives_on(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *first = scene_create(), *second = scene_create();
    struct fault f;
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 30);
    await_mirror(first);
    uint64_t tokens, reviews;
    shard_close_open(first->truth, second->now_ms, &tokens, &reviews); /* what has to come out */
    assert_true(tokens > 0 && reviews > 0);
    struct image expected = image_of(first->truth);
    scene_destroy(first);

    enum err err = check_redis(second, r, "node-b", "node-a", &reached, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
    assert_true(reached);
    assert_non_null(strstr(second->past.adopted, "node-a:"));
    struct image got = image_of(second->truth);
    assert_int_equal(got.count, expected.count);
    for (size_t i = 0; i < got.count; i++) assert_true(str_equal(got.entries[i], expected.entries[i]));
    image_fini(&got);
    image_fini(&expected);

    second->rounds = second->next = 1000; /* others than the first one's */

    /* It is a snapshot first, and a crash right behind it is no loss: the owner is claimed later. */
    assert_int_equal(keep_snapshot(second->snapshots, &second->past, &second->truth, 1, &f), ERR_OK);
    scene_close(second);
    scene_open(second);
    begin(second, r, "node-b");
    scene_play(second, 10);
    await_mirror(second);
    assert_redis_is_the_truth(second, r);
    assert_int_equal(second->lost, 0);
    char key[SLOT_KEY_TEXT];
    assert_non_null(strstr(ask(r, "GET", slot_key_put(7, SLOT_OWNER, key).bytes, NULL).text, "node-b:"));
    scene_destroy(second);
    server_destroy(r);
}

/* Between claiming and writing anew, the old node's positions must mean nothing to the next start. */
static void a_crash_right_after_claiming_an_adopted_redis_is_no_loss(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *first = scene_create(), *second = scene_create();
    _Atomic bool given_up = false;
    struct fault f;
    bool reached;
    begin(first, r, "node-a");
    scene_play(first, 30);
    await_mirror(first);
    scene_destroy(first);
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_OK);
    assert_int_equal(keep_snapshot(second->snapshots, &second->past, &second->truth, 1, &f), ERR_OK);
    scene_record(second, scene_event, (struct str){0});
    scene_sync(second);
    keep_past_add_epoch(&second->past, journal_epoch(second->journal));

    struct loop *loop = loop_create();
    struct mirror_options o = {.loop = loop, .journal = second->journal, .node = "node-b", .past = &second->past, .redis = redis_of(r, ""),
                               .sheet = second->sheet, .given_up = &given_up};
    struct mirror *m;
    assert_int_equal(mirror_create(&o, &m, &f), ERR_OK);
    assert_int_equal(mirror_connect(m, &f), ERR_OK);
    mirror_destroy(m);
    loop_destroy(loop);
    scene_close(second);
    scene_open(second);
    second->rounds = second->next = 1000;
    begin(second, r, "node-b");
    scene_play(second, 2);
    await_mirror(second);
    assert_redis_is_the_truth(second, r);
    scene_destroy(second);
    server_destroy(r);
}

static void what_cannot_be_adopted_is_refused(void **state)
{
    (void)state;
    SKIP_WITHOUT_REDIS();
    struct server *r = server_create();
    struct scene *first = scene_create(), *second = scene_create();
    struct fault f;
    bool reached;
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_BAD_VALUE); /* it is empty */
    begin(first, r, "node-a");
    scene_play(first, 3);
    scene_destroy(first);
    assert_int_equal(check_redis(second, r, "node-b", "node-c", &reached, &f), ERR_EXISTS); /* another's */
    scene_play(second, 1);
    assert_int_equal(check_redis(second, r, "node-b", "node-a", &reached, &f), ERR_BAD_VALUE); /* not a new directory */
    server_stop(r, SIGKILL);
    struct scene *third = scene_create();
    assert_int_equal(check_redis(third, r, "node-d", "node-a", &reached, &f), ERR_STORE_UNAVAILABLE);
    scene_destroy(second);
    scene_destroy(third);
    server_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_durable_is_in_redis),
        cmocka_unit_test(what_was_there_before_redis_is_written_from_a_fold),
        cmocka_unit_test(the_next_start_goes_on_where_the_last_one_ended),
        cmocka_unit_test(a_redis_that_is_away_at_first_is_written_when_it_comes),
        cmocka_unit_test(a_forgotten_script_is_sent_again),
        cmocka_unit_test(an_emptied_redis_is_written_anew),
        cmocka_unit_test(a_redis_killed_again_and_again_counts_everything_once),
        cmocka_unit_test(a_lost_connection_counts_nothing_twice),
        cmocka_unit_test(yesterdays_redis_is_not_believed),
        cmocka_unit_test(yesterdays_redis_at_a_start_is_not_believed),
        cmocka_unit_test(slots_written_anew_from_an_older_fold_count_nothing_twice),
        cmocka_unit_test(the_same_write_sent_twice_happens_once),
        cmocka_unit_test(a_write_or_a_swap_by_another_than_the_owner_changes_nothing),
        cmocka_unit_test(what_is_staged_takes_the_old_ones_place_at_once),
        cmocka_unit_test(another_nodes_redis_is_refused_with_a_sentence),
        cmocka_unit_test(a_new_directory_under_the_old_name_is_refused),
        cmocka_unit_test(a_disk_that_went_back_in_time_is_refused),
        cmocka_unit_test(the_one_that_was_taken_over_stops),
        cmocka_unit_test(an_idle_engine_notices_too_that_it_was_taken_over),
        cmocka_unit_test(an_adopted_state_comes_back_closed_and_lives_on),
        cmocka_unit_test(a_crash_right_after_claiming_an_adopted_redis_is_no_loss),
        cmocka_unit_test(what_cannot_be_adopted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
