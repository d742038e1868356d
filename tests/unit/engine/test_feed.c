/* The feed's questions and what comes of each answer. The test is the platform: while a question
 * waits for its answer, all that the answer before it brought has been done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/world.h"
#include "engine/engine.h"

static const char allows[] = "rules: [{id: yes, agents: ['*'], actions: ['*'], decision: allow}]";
static const char broken[] = "rules: 7";

struct rig {
    struct engine engine;
    char folder[64], url[128], key_file[128];
    char key[CREDENTIAL_TEXT];
    int listener, client; /* client: who asked, -1: nobody */
    char question[4096];
};

static enum err feed_begin_as(struct rig *r, struct fault *f)
{
    struct engine *e = &r->engine;
    memset(e, 0, sizeof *e);
    sem_init(&e->bundle_seen, 0, 0);
    snprintf(e->node, sizeof e->node, "node-1");
    e->config.data = r->folder;
    e->config.platform_url = r->url;
    e->config.platform_key_file = r->key_file;
    enum err err = feed_create(e, f);
    return err == ERR_OK ? feed_load(e, f) : err;
}

static void feed_begin(struct rig *r)
{
    struct fault f;
    assert_int_equal(feed_begin_as(r, &f), ERR_OK);
}

static void feed_end(struct rig *r)
{
    feed_stop(&r->engine);
    feed_destroy(&r->engine);
    bundle_destroy(atomic_load(&r->engine.bundle));
    sem_destroy(&r->engine.bundle_seen);
    if (r->client >= 0) close(r->client);
    r->client = -1;
}

static void path_in(const struct rig *r, const char *name, char to[128])
{
    snprintf(to, 128, "%s/%s", r->folder, name);
}

static int set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct chance chance = {0};
    char path[128];
    assert_non_null(r);
    snprintf(r->folder, sizeof r->folder, "/tmp/writ-feed-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    path_in(r, "engine", path);
    assert_int_equal(mkdir(path, 0700), 0);
    path_in(r, "key", r->key_file);
    int fd = open(r->key_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    credential_make(id_make(world_now_ms(), &chance), r->key);
    assert_int_equal(write(fd, r->key, sizeof r->key), sizeof r->key);
    close(fd);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/platform", r->folder);
    snprintf(r->url, sizeof r->url, "unix:%s", at.sun_path);
    r->client = -1;
    r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 4), 0);
    feed_begin(r);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"engine/bundle.json", "key", "platform"};
    struct rig *r = *state;
    char path[128];
    feed_end(r);
    close(r->listener);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_in(r, names[i], path);
        unlink(path);
    }
    path_in(r, "engine", path);
    rmdir(path);
    assert_int_equal(rmdir(r->folder), 0);
    free(r);
    return 0;
}

/* ---- the platform ---- */

static void start(struct rig *r) { feed_start(&r->engine); }

/* The next question; its seconds of waiting. */
static unsigned hear(struct rig *r)
{
    static const char target[] = "GET /api/v1/bundle?wait=";
    size_t size = 0;
    r->client = accept(r->listener, NULL, NULL);
    assert_true(r->client >= 0);
    do {
        ssize_t got = read(r->client, r->question + size, sizeof r->question - 1 - size);
        assert_true(got > 0);
        size += (size_t)got;
        r->question[size] = '\0';
    } while (strstr(r->question, "\r\n\r\n") == NULL);
    assert_memory_equal(r->question, target, sizeof target - 1);
    return (unsigned)strtoul(r->question + sizeof target - 1, NULL, 10);
}

/* What the test read of the bundle it read before it answers, which the feed waits for: said as an
 * atomic, since ThreadSanitizer does not see it in a socket. */
static void say(struct rig *r, const char *status, const char *etag, const char *body)
{
    atomic_store(&r->engine.bundle, atomic_load(&r->engine.bundle));
    dprintf(r->client,
            "HTTP/1.1 %s\r\nConnection: close\r\nETag: %s\r\nContent-Length: %zu\r\n\r\n%s", status,
            etag, strlen(body), body);
    close(r->client);
    r->client = -1;
}

static void say_bundle(struct rig *r, const char *etag, const char *log_id, unsigned revision,
                       const char *content)
{
    char body[1024];
    struct buf b = buf_over(body, sizeof body - 1);
    buf_printf(
        &b,
        "{\"revision\":%u,\"log_id\":\"%s\",\"adopted_at_ms\":%u,\"history\":\"1:b %u:b\",\"keys\":[],"
        "\"policies\":[{\"tenant_id\":\"acme\",\"name\":\"main\",\"version\":%u,\"digest\":\"%u\","
        "\"content\":\"%s\"}]",
        revision, log_id, *log_id == 'a' ? 1 : 2, revision, revision, revision, content);
    set_mac_put(&b, 0, &r->engine.bundle_key);
    body[b.size] = '\0';
    say(r, "200 OK", etag, body);
}

static void say_same(struct rig *r) { say(r, "304 Not Modified", "\"any\"", ""); }

static const struct bundle_facts *facts_of(struct rig *r)
{
    return bundle_facts(atomic_load(&r->engine.bundle));
}

static void assert_decides(struct rig *r, const char *rule)
{
    struct arena arena;
    struct policy_outcome o;
    struct policy_request q = {
        .kind = SUBJECT_AGENT, .tenant = STR("acme"), .actor = STR("bot"), .action = STR("act")};
    arena_init(&arena, 4096, 1 << 20);
    policy_evaluate(bundle_policies(atomic_load(&r->engine.bundle), q.tenant), &q, &arena, NULL,
                    &o);
    assert_string_equal(o.rule, rule);
    arena_fini(&arena);
}

static struct feed_status status_of(struct rig *r)
{
    struct feed_status s = {.silent_ms = UINT64_MAX};
    feed_status(&r->engine, &s);
    assert_true(s.silent_ms < UINT64_C(86400000));
    return s;
}

/* ---- tests ---- */

static void a_bundle_is_asked_for_by_what_is_in_force(void **state)
{
    struct rig *r = *state;
    char authorization[128];
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %.*s\r\n", CREDENTIAL_TEXT,
             r->key);
    start(r);
    assert_int_equal(hear(r), 0);
    assert_non_null(strstr(r->question, authorization));
    assert_null(strstr(r->question, "If-None-Match"));
    assert_non_null(strstr(r->question, "Writ-Node: node-1\r\n"));
    assert_false(status_of(r).reachable);
    say_bundle(r, "\"one\"", "a", 1, allows);
    assert_int_equal(hear(r), 25);
    assert_non_null(strstr(r->question, "If-None-Match: \"one\"\r\n"));
    assert_int_equal(atomic_load(&r->engine.revision), 1);
    assert_decides(r, "allow:yes");
    assert_true(status_of(r).reachable);
    say_same(r);
    assert_int_equal(hear(r), 25);
    assert_non_null(strstr(r->question, "If-None-Match: \"one\"\r\n"));
    assert_decides(r, "allow:yes");
}

static void what_is_no_bundle_changes_nothing_and_is_told(void **state)
{
    struct rig *r = *state;
    start(r);
    hear(r);
    say_bundle(r, "\"one\"", "a", 5, allows);
    hear(r);
    say_bundle(r, "\"two\"", "a", 4, broken); /* an older one of the same database */
    assert_int_equal(hear(r), 0);
    assert_non_null(strstr(r->question, "If-None-Match: \"one\"\r\n"));
    assert_false(status_of(r).reachable);
    assert_non_null(strstr(status_of(r).trouble, "revision 4 is older than 5"));
    say(r, "200 OK", "\"three\"", "{}");
    assert_int_equal(hear(r), 0);
    say(r, "503 Service Unavailable", "\"four\"", "not now");
    hear(r);
    assert_non_null(strstr(status_of(r).trouble, "status 503: not now"));
    assert_int_equal(atomic_load(&r->engine.revision), 5);
    assert_decides(r, "allow:yes");
    say_bundle(r, "\"five\"", "b", 3, allows); /* another database */
    assert_int_equal(hear(r), 25);
    assert_int_equal(atomic_load(&r->engine.revision), 3);
    assert_string_equal(status_of(r).trouble, "");
    assert_true(status_of(r).reachable);
}

static void a_tenant_that_must_be_closed_is_closed_in_time_though_nothing_new_comes(void **state)
{
    struct rig *r = *state;
    start(r);
    hear(r);
    say_bundle(r, "\"one\"", "a", 1, allows);
    hear(r);
    say_bundle(r, "\"two\"", "a", 2, broken);
    assert_int_equal(hear(r), 25);
    uint64_t close_at_ms = facts_of(r)->close_at_ms;
    assert_true(close_at_ms > world_now_ms());
    world_time_floor(close_at_ms - 3000);
    say_same(r);
    assert_in_range(hear(r), 0, 3); /* nor does waiting for news go beyond that time */
    world_time_floor(close_at_ms);
    say_same(r);
    assert_int_equal(hear(r), 25);
    assert_decides(r, "default:policy_unloadable");
    assert_int_equal(facts_of(r)->close_at_ms, 0);
    assert_int_equal(atomic_load(&r->engine.revision), 2);
    assert_non_null(strstr(r->question, "If-None-Match: \"two\"\r\n"));
}

/* A cache between, say, or a proxy that drops ?wait=. */
static void who_answers_at_once_that_nothing_is_new_is_asked_ever_more_slowly(void **state)
{
    struct rig *r = *state;
    start(r);
    hear(r);
    say_bundle(r, "\"one\"", "a", 1, allows);
    uint64_t begun_ns = world_monotonic_ns();
    unsigned answers = 0;
    for (hear(r); !status_of(r).is_cut_short && answers < 100; answers++, hear(r)) {
        assert_string_equal(status_of(r).trouble, "");
        if (answers % 2 == 0)
            say_same(r);
        else
            say_bundle(r, "\"one\"", "a", 1, allows);
    }
    assert_in_range(answers, 5, 99);
    assert_true(world_monotonic_ns() - begun_ns >= UINT64_C(775000000));
    assert_true(status_of(r).reachable);
    assert_non_null(
        strstr(status_of(r).trouble, "answers for it, or the limit of waiting engines is"));
    say_bundle(r, "\"two\"", "a", 2, allows);
    assert_int_equal(hear(r), 25);
    assert_int_equal(atomic_load(&r->engine.revision), 2);
    assert_false(status_of(r).is_cut_short);
    assert_string_equal(status_of(r).trouble, "");
}

static void the_next_start_has_the_copy_and_no_turned_bit_of_it(void **state)
{
    struct rig *r = *state;
    char path[128];
    start(r);
    hear(r);
    say_bundle(r, "\"one\"", "a", 7, allows);
    hear(r);
    feed_end(r);
    feed_begin(r);
    assert_int_equal(atomic_load(&r->engine.revision), 7);
    assert_decides(r, "allow:yes");
    feed_end(r);

    path_in(r, "engine/bundle.json", path);
    char copy[1024];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t size = read(fd, copy, sizeof copy);
    assert_in_range(size, 100, sizeof copy - 1);
    for (ssize_t i = 0; i < size; i++) {
        char turned = (char)(copy[i] ^ 1);
        assert_int_equal(pwrite(fd, &turned, 1, i), 1);
        feed_begin(r);
        assert_int_equal(atomic_load(&r->engine.revision), 0);
        assert_decides(r, "default:deny");
        feed_end(r);
        assert_int_equal(pwrite(fd, &copy[i], 1, i), 1);
    }
    close(fd);
    feed_begin(r);
    assert_int_equal(atomic_load(&r->engine.revision), 7);
}

static void who_has_no_key_for_the_platform_does_not_start(void **state)
{
    struct rig *r = *state;
    struct fault f;
    int fd = open(r->key_file, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    close(fd);
    feed_end(r);
    assert_int_equal(feed_begin_as(r, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "holds no API key"));
    feed_end(r);
    assert_int_equal(unlink(r->key_file), 0);
    assert_int_not_equal(feed_begin_as(r, &f), ERR_OK);
    assert_non_null(strstr(f.text, r->key_file));
    feed_end(r);
    snprintf(r->key_file, sizeof r->key_file, "%s", "");
    assert_int_equal(feed_begin_as(r, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "is needed beside platform.url"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bundle_is_asked_for_by_what_is_in_force),
        TEST(what_is_no_bundle_changes_nothing_and_is_told),
        TEST(a_tenant_that_must_be_closed_is_closed_in_time_though_nothing_new_comes),
        TEST(who_answers_at_once_that_nothing_is_new_is_asked_ever_more_slowly),
        TEST(the_next_start_has_the_copy_and_no_turned_bit_of_it),
        TEST(who_has_no_key_for_the_platform_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
