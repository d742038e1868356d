/* server.h - what the tests of the mirror share: a real Redis server that each starts, kills,
 * empties and restores, and an engine's worth of keeping on it. */
#ifndef TEST_KEEP_SERVER_H
#define TEST_KEEP_SERVER_H

#include "scene.h"

#include <sys/prctl.h>

#include "pipeline/mirror/mirror.h"
#include "pipeline/mirror/redis.h"
#include "pipeline/mirror/slots.h"

/* ---- a server ---- */

struct server {
    char directory[SCENE_PATH];
    char socket[REDIS_PATH_TEXT], url[REDIS_PATH_TEXT + 8];
    pid_t pid;
    struct loop *loop;
    struct redis_link *link;
};

static inline bool have_redis(void) { return access("/usr/bin/redis-server", X_OK) == 0; }

/* One turn of waiting for what another thread or process does; a wait that
 * is in vain ends the test. */
static inline void nap(uint64_t *begun_ns)
{
    struct timespec t = {.tv_nsec = 2000000};
    if (*begun_ns == 0) *begun_ns = world_monotonic_ns();
    assert_true(world_monotonic_ns() - *begun_ns < UINT64_C(120000000000));
    nanosleep(&t, NULL);
}

static inline void server_start(struct server *r)
{
    char *argv[] = {"redis-server", "--port", "0",          "--unixsocket",
                    r->socket,      "--dir",  r->directory, "--appendonly",
                    "no",           "--save", "",           "--logfile",
                    "log",          NULL};
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0) { /* it ends with this process, however that ends */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv("/usr/bin/redis-server", argv);
        _exit(127);
    }
    struct redis_link_options o = {
        .loop = r->loop, .user = "", .password_file = "", .ca_file = "", .timeout_ms = 5000};
    struct fault f;
    assert_int_equal(redis_address_read(str_from(r->url), &o.address, &f), ERR_OK);
    r->link = redis_link_create(&o);
    uint64_t begun_ns = 0;
    while (redis_link_open(r->link, &f) != ERR_OK) nap(&begun_ns); /* it is not there yet */
}

static inline void server_stop(struct server *r, int number)
{
    if (r->pid == 0) return;
    redis_link_destroy(r->link);
    r->link = NULL;
    kill(r->pid, number);
    assert_int_equal(waitpid(r->pid, NULL, 0), r->pid);
    r->pid = 0;
}

static inline struct server *server_create(void)
{
    struct server *r = calloc(1, sizeof *r);
    assert_non_null(r);
    scene_directory(r->directory);
    char *here = getcwd(NULL, 0);
    int size = snprintf(r->socket, sizeof r->socket, "%s/%s/sock", here, r->directory);
    free(here);
    /* a socket's path is short, or this checkout lies too deep */
    assert_true(size > 0 && (size_t)size < sizeof r->socket);
    snprintf(r->url, sizeof r->url, "unix:%s", r->socket);
    r->loop = loop_create();
    server_start(r);
    return r;
}

static inline void server_destroy(struct server *r)
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

static inline void keep_text(void *context, const struct redis_value *v)
{
    struct answer_text *a = context;
    assert_non_null(v);
    a->is_nothing = v->kind == REDIS_NOTHING;
    a->integer = v->integer;
    snprintf(a->text, sizeof a->text, "%.*s", STR_FORMAT(v->text));
}

static inline struct answer_text ask(struct server *r, const char *a, const char *b, const char *c)
{
    struct answer_text answer = {.is_nothing = true};
    struct str words[3] = {str_from(a), str_from(b), str_from(c)};
    redis_link_send(r->link, words, c != NULL ? 3 : b != NULL ? 2 : 1, keep_text, &answer);
    assert_true(redis_link_await(r->link, 0));
    return answer;
}

/* ---- an engine's worth of keeping ---- */

static inline struct mirror_redis redis_of(struct server *r, const char *adopt)
{
    return (struct mirror_redis){.url = r->url,
                                 .user = "",
                                 .password_file = "",
                                 .ca_file = "",
                                 .adopt = adopt,
                                 .timeout_ms = 3000};
}

static inline enum err check_redis(struct scene *s, struct server *r, const char *node,
                                   const char *adopt, bool *ret_reached, struct fault *f)
{
    struct mirror_redis redis = redis_of(r, adopt);
    *f = (struct fault){.err = ERR_OK};
    struct mirror_judge by = {.node = node,
                              .past = &s->past,
                              .last_seq = s->seq,
                              .now_ms = s->now_ms,
                              .each = scene_take,
                              .context = s};
    return mirror_check(&redis, &by, ret_reached, f);
}

/* The state follower, without the check before it. */
static inline enum err start_state_follower(struct scene *s, struct server *r, const char *node,
                                            bool reached, struct fault *f)
{
    struct state_follower_options o = {.journal = s->journal,
                                       .disk = s->snapshots,
                                       .node = node,
                                       .past = &s->past,
                                       .snapshot_bytes = UINT64_MAX,
                                       .snapshot_ms = 3600000,
                                       .redis = redis_of(r, ""),
                                       .redis_reached = reached,
                                       .sheet = s->sheet,
                                       .lost_ownership = scene_lost,
                                       .context = s,
                                       .tick_ms = QUICK_TICK_MS,
                                       .probe_ms = QUICK_PROBE_MS};
    struct state_follower *keep;
    enum err err = state_follower_start(&o, &keep, f);
    if (err == ERR_OK) scene_set_keep(s, keep);
    return err;
}

static inline enum err try_begin(struct scene *s, struct server *r, const char *node,
                                 struct fault *f)
{
    bool reached;
    enum err err = check_redis(s, r, node, "", &reached, f);
    return err == ERR_OK ? start_state_follower(s, r, node, reached, f) : err;
}

static inline void begin(struct scene *s, struct server *r, const char *node)
{
    struct fault f;
    enum err err = try_begin(s, r, node, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
}

static inline void await_mirror(struct scene *s)
{
    struct state_follower_status status;
    uint64_t begun_ns = 0;
    do {
        nap(&begun_ns);
        state_follower_status(s->keep, &status);
    } while (status.mirror_position < s->seq || status.text[0] != '\0');
}

/* What Redis holds is, loaded by the shard itself, what happened. */
static inline void assert_redis_is_the_truth(struct scene *s, struct server *r)
{
    struct shard *copy = scene_shard();
    struct fault f = {.err = ERR_OK};
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        uint64_t fields;
        enum err err = slot_take(r->link, i, copy, &fields, &f);
        if (err != ERR_OK) print_error("%s\n", f.text);
        assert_int_equal(err, ERR_OK);
    }
    assert_same_state(copy, s->truth);
    shard_destroy(copy);
}

/* A key of this name, of a slot that has objects of this kind. */
static inline const char *key_beside(struct server *r, enum shard_object object, const char *name,
                                     char to[REDIS_KEY_TEXT])
{
    unsigned slot = 0;
    while (ask(r, "HLEN", redis_key_put(slot, SLOT_HASH + object, to).bytes, NULL).integer == 0)
        slot++;
    snprintf(to, REDIS_KEY_TEXT, "writ:{slot-%u}:%s", slot, name);
    return to;
}

/* Every connection but the one that asks. */
static inline void cut_all(struct server *r)
{
    struct answer_text answer = {.is_nothing = true};
    struct str words[6] = {STR("CLIENT"), STR("KILL"),   STR("TYPE"),
                           STR("normal"), STR("SKIPME"), STR("yes")};
    redis_link_send(r->link, words, 6, keep_text, &answer);
    assert_true(redis_link_await(r->link, 0));
}

/* ---- what a test has made, which ends with it ---- */

static struct {
    struct server *server;
    struct scene *scenes[4];
} of_test;

static inline struct server *redis(void)
{
    if (!have_redis()) {
        print_message("SKIP: redis-server is not installed\n");
        skip();
    }
    assert_null(of_test.server);
    return of_test.server = server_create();
}

static inline struct scene *scene(void)
{
    size_t i = 0;
    while (of_test.scenes[i] != NULL)
        assert_true(++i < sizeof of_test.scenes / sizeof *of_test.scenes);
    return of_test.scenes[i] = scene_create();
}

/* Before its test. */
static inline void scene_end(struct scene *s)
{
    for (size_t i = 0; i < sizeof of_test.scenes / sizeof *of_test.scenes; i++)
        if (of_test.scenes[i] == s) of_test.scenes[i] = NULL;
    scene_destroy(s);
}

static inline int all_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof of_test.scenes / sizeof *of_test.scenes; i++)
        if (of_test.scenes[i] != NULL) scene_end(of_test.scenes[i]);
    if (of_test.server != NULL) server_destroy(of_test.server);
    of_test.server = NULL;
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, all_end)

/* ---- scripts ---- */

struct script_answer {
    char word[32], there[64];
};

static inline void keep_script_answer(void *context, const struct redis_value *v)
{
    struct script_answer *a = context;
    assert_non_null(v);
    assert_int_equal(v->kind, REDIS_LIST);
    snprintf(a->word, sizeof a->word, "%.*s", STR_FORMAT(redis_value_at(v, 0).text));
    snprintf(a->there, sizeof a->there, "%.*s", STR_FORMAT(redis_value_at(v, 1).text));
}

/* One call of a script for slot 5, with arguments up to a NULL. */
static inline struct script_answer run_script(struct server *r, enum script script, ...)
{
    static struct script_call call;
    struct scripts scripts;
    struct fault f;
    struct script_answer answer = {.word = ""};
    va_list arguments;
    assert_int_equal(scripts_load(r->link, &scripts, &f), ERR_OK);
    script_call_begin(&call, script, 5);
    va_start(arguments, script);
    for (const char *a; (a = va_arg(arguments, const char *)) != NULL;)
        script_call_add(&call, str_from(a));
    va_end(arguments);
    script_call_send(&call, r->link, &scripts, false, keep_script_answer, &answer);
    assert_true(redis_link_await(r->link, 0));
    return answer;
}

/* ---- a mirror without its thread ---- */

struct bare {
    struct loop *loop;
    struct mirror *mirror;
    _Atomic bool given_up;
};

static inline struct bare *bare_create(struct scene *s, struct server *r, const char *node)
{
    struct bare *b = calloc(1, sizeof *b);
    struct fault f;
    assert_non_null(b);
    b->loop = loop_create();
    struct mirror_options o = {.loop = b->loop,
                               .journal = s->journal,
                               .node = node,
                               .past = &s->past,
                               .redis = redis_of(r, ""),
                               .sheet = s->sheet,
                               .given_up = &b->given_up};
    assert_int_equal(mirror_create(&o, &b->mirror, &f), ERR_OK);
    return b;
}

static inline void bare_destroy(struct bare *b)
{
    mirror_destroy(b->mirror);
    loop_destroy(b->loop);
    free(b);
}

/* An engine that claims what there is, and dies before it wrote anything. */
static inline void claim_and_die(struct scene *s, struct server *r, const char *node)
{
    struct fault f;
    lineage_add_epoch(&s->past, journal_epoch(s->journal));
    struct bare *b = bare_create(s, r, node);
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    bare_destroy(b);
}

static inline void follow_to_the_end(struct mirror *m)
{
    struct fault f;
    enum err err;
    while ((err = mirror_follow(m, &f)) == ERR_OK) {
    }
    assert_int_equal(err, ERR_END);
}

/* A mirror of a few records that is at the journal's end. */
static inline struct bare *bare_at_the_end(struct scene *s, struct server *r)
{
    struct fault f;
    scene_play(s, 5);
    struct bare *b = bare_create(s, r, "node-a");
    assert_int_equal(mirror_connect(b->mirror, &f), ERR_OK);
    struct replay *replay = scene_start_replay(s);
    assert_int_equal(mirror_repair(b->mirror, replay, &f), ERR_OK);
    replay_destroy(replay);
    follow_to_the_end(b->mirror);
    return b;
}

#endif
