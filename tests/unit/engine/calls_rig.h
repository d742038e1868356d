/* calls_rig.h - an engine without a main thread's loop: four real reactors with the real
 * routes, shards and journal, spoken to through socket pairs, so that a test chooses the
 * reactor that a request comes to.
 *
 * The test's own thread plays the main thread: it starts, drains and stops
 * the reactors as main.c does. */
#ifndef TESTS_CALLS_RIG_H
#define TESTS_CALLS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/control/recovery.h"
#include "engine/runtime/signing.h"

enum { RIG_REACTORS = 4, RIG_ANSWER_BYTES = 256 << 10 };

enum rig_key { RIG_AGENT, RIG_REVIEWER, RIG_OTHER_REVIEWER, RIG_ADMIN, RIG_KEYS };

struct rig {
    struct engine engine;
    struct recovery recovery;
    char path[64];
    struct disk *disk;
    /* what the journal uses: the real one, that can be made to wait, or be full */
    struct disk slow;
    _Atomic bool sync_stopped, write_stopped, disk_full;
    char credentials[RIG_KEYS][CREDENTIAL_TEXT + 1];
    bool is_gone[RIG_KEYS]; /* from the bundles that are made from now on; never the first */
    char bundle_text[16 << 10];
    bool is_running;
};

/* ---- the disk: a sync, or a write, can be made to wait ---- */

static struct rig *rig_now; /* one at a time */

static inline enum err rig_sync(void *state, int file)
{
    while (atomic_load(&rig_now->sync_stopped)) sched_yield();
    return rig_now->disk->sync(state, file);
}

static inline enum err rig_write(void *state, int file, const void *from, size_t size,
                                 uint64_t offset)
{
    while (atomic_load(&rig_now->write_stopped)) sched_yield();
    return rig_now->disk->write(state, file, from, size, offset);
}

static inline enum err rig_free_bytes(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    enum err err = rig_now->disk->free_bytes(state, ret_free, ret_total);
    if (atomic_load(&rig_now->disk_full)) *ret_free = 0;
    return err;
}

/* ---- the bundle ---- */

static const char rig_policy[] =
    "rules:\n"
    "  - {id: reads, agents: ['*'], actions: ['get_*'], decision: allow}\n"
    "  - {id: refunds, agents: ['*'], actions: [refund], decision: human_review}\n"
    "  - {id: few, agents: ['*'], actions: [pay], decision: allow, limit: {per: tenant, window: 1h, count: 30}}\n"
    "  - {id: each, agents: ['*'], actions: [send], decision: allow, limit: {per: actor, window: 1h, count: 1000000}}\n"
    "  - {id: copies, agents: ['*'], actions: [copy], decision: compute, compute: {tool: put, args: {text: '${args.text}'}}, limit: {per: actor, window: 1h, count: 1}}\n"
    "  - {id: wires, agents: ['*'], actions: [wire], decision: human_review}\n"
    "  - {id: one-wire, agents: ['*'], actions: [wire], decision: allow, limit: {per: actor, window: 1h, count: 1}}\n";

static inline void rig_put_key(struct rig *r, struct buf *b, enum rig_key k, const char *name,
                               const char *roles)
{
    struct id id = {{1}};
    char text[ID_TEXT], hex[SHA256_HEX];
    if (r->is_gone[k]) return;
    id.bytes[ID_BYTES - 1] = (uint8_t)(k + 1);
    if (r->credentials[k][0] == '\0') credential_make(id, r->credentials[k]);
    sha256_write_hex(credential_mac(&r->engine.pepper, str_from(r->credentials[k])), hex);
    id_write("key_", id, text);
    buf_printf(
        b,
        "%s{\"id\":\"%.*s\",\"name\":\"%s\",\"owner\":\"%s-owner\",\"tenant\":\"acme\",\"roles\":[%s],\"actors\":[\"*\"],\"mac\":\"%.*s\"}",
        k == 0 ? "" : ",", ID_TEXT, text, name, name, roles, SHA256_HEX, hex);
}

static inline struct bundle *rig_bundle(struct rig *r, unsigned revision)
{
    struct buf b = buf_over(r->bundle_text, sizeof r->bundle_text);
    struct bundle *bundle;
    struct fault f;
    char hex[SHA256_HEX];
    buf_printf(&b, "{\"revision\":%u,\"keys\":[", revision);
    rig_put_key(r, &b, RIG_AGENT, "agent", "\"agent\"");
    rig_put_key(r, &b, RIG_REVIEWER, "rita", "\"reviewer\"");
    rig_put_key(r, &b, RIG_OTHER_REVIEWER, "carol", "\"reviewer\"");
    rig_put_key(r, &b, RIG_ADMIN, "admin", "\"admin\"");
    sha256_write_hex(sha256_once(str_from(rig_policy)), hex);
    buf_printf(
        &b,
        "],\"policies\":[{\"tenant_id\":\"acme\",\"name\":\"base\",\"version\":%u,\"digest\":\"%.*s\",\"content\":",
        revision, SHA256_HEX, hex);
    json_put_string(&b, str_from(rig_policy));
    buf_put_literal(&b, "}]}");
    assert_false(b.overflow);
    enum err err = bundle_create(buf_view(&b), NULL, world_now_ms(), &bundle, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
    return bundle;
}

/* As the feed does: another bundle, and the one before it is freed when all have moved. */
static inline void rig_swap(struct rig *r, struct bundle *next)
{
    struct engine *e = &r->engine;
    struct bundle *before = atomic_exchange(&e->bundle, next);
    for (unsigned i = 0; i < RIG_REACTORS; i++) reactor_wake(e->reactors[i].reactor);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        while (atomic_load_explicit(&e->reactors[i].in_use, memory_order_acquire) != next)
            sem_wait(&e->bundle_seen);
    bundle_destroy(before);
}

/* ---- start and end ---- */

static inline void rig_rang(void *context, unsigned producer)
{
    struct engine *e = context;
    if (producer == e->reactor_count) sem_post(&e->main_rung);
    if (producer < e->reactor_count && e->reactors[producer].reactor != NULL)
        reactor_wake(e->reactors[producer].reactor);
}

static inline void rig_open_journal(struct rig *r)
{
    struct engine *e = &r->engine;
    struct journal_report report;
    struct fault f;
    char path[128];
    snprintf(path, sizeof path, "%s/engine/journal", r->path);
    assert_int_equal(disk_real_create(path, &r->disk), ERR_OK);
    r->slow = *r->disk;
    r->slow.sync = rig_sync;
    r->slow.write = rig_write;
    r->slow.free_bytes = rig_free_bytes;
    struct journal_options options = {.disk = &r->slow,
                                      .producers = RIG_REACTORS + 1,
                                      .segment_bytes = 16 << 20,
                                      .lazy_sync_ms = 10,
                                      .ring = rig_rang,
                                      .context = e};
    enum err err = recovery_run(e, &r->recovery, &options, &report, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
}

/* `stall`: of journal.stall. */
static inline struct rig *rig_create(const char *stall)
{
    struct rig *r = calloc(1, sizeof *r);
    struct engine *e = &r->engine;
    struct fault f;
    rig_now = r;
    snprintf(r->path, sizeof r->path, "/tmp/test_calls_XXXXXX");
    assert_non_null(mkdtemp(r->path));
    char engine_path[128], patience[16];
    /* no request is refused because the processors are busy */
    char *arguments[] = {
        "writ-engine", "--data",           r->path, "--node", "rig", "--journal.stall",
        patience,      "--overload.delay", "0",     NULL};
    char *environment[] = {NULL};
    snprintf(patience, sizeof patience, "%s", stall);
    snprintf(engine_path, sizeof engine_path, "%s/engine", r->path);
    assert_int_equal(mkdir(engine_path, 0700), 0);
    assert_int_equal(config_read(PROGRAM_ENGINE, 9, arguments, environment, &e->config, &f),
                     ERR_OK);
    e->reactor_count = RIG_REACTORS;
    e->reactors = calloc(RIG_REACTORS, sizeof *e->reactors);
    sem_init(&e->bundle_seen, 0, 0);
    sem_init(&e->main_rung, 0, 0);
    pthread_mutex_init(&e->followers_lock, NULL);
    assert_int_equal(pthread_barrier_init(&e->leaving, NULL, RIG_REACTORS), 0);
    e->revoked = revoked_log_create(RIG_REACTORS);
    e->post = post_create(RIG_REACTORS);
    e->offload = offload_create(engine_reactor_wake, e);
    world_random(&e->pepper, sizeof e->pepper);
    assert_int_equal(signing_create(&e->config, &e->pepper, &e->signing, &f), ERR_OK);
    rig_open_journal(r);
    assert_int_equal(signing_open(e->signing, false, world_now_ms(), &f), ERR_OK);
    assert_int_equal(signing_begin(e, &f), ERR_OK);
    atomic_store(&e->bundle, rig_bundle(r, 1));
    atomic_store(&e->revision, 1);
    atomic_store(&e->phase, PHASE_SERVING);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        assert_int_equal(engine_reactor_start(e, i), ERR_OK);
    r->is_running = true;
    return r;
}

/* Whether that text stands in the journal's first file; synced or not. */
static inline bool rig_has_written(struct rig *r, const char *text)
{
    static char bytes[16 << 20];
    char path[128];
    snprintf(path, sizeof path, "%s/engine/journal/0000000000000001.journal", r->path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    ssize_t size = read(file, bytes, sizeof bytes);
    close(file);
    return size > 0 && memmem(bytes, (size_t)size, text, strlen(text)) != NULL;
}

static inline size_t rig_under_way(struct rig *r)
{
    size_t count = 0;
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        count += atomic_load(&r->engine.reactors[i].under_way);
    return count;
}

static inline size_t rig_connections(struct rig *r)
{
    size_t count = 0;
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        count += atomic_load(&r->engine.reactors[i].connections);
    return count;
}

static inline void rig_drain(struct rig *r)
{
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        engine_reactor_tell(&r->engine.reactors[i], REACTOR_DRAIN, -1, false);
}

static inline void rig_stop(struct rig *r)
{
    offload_stop(r->engine.offload);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        engine_reactor_tell(&r->engine.reactors[i], REACTOR_STOP, -1, false);
    for (unsigned i = 0; i < RIG_REACTORS; i++) reactor_join(r->engine.reactors[i].reactor);
    r->is_running = false;
}

static inline int rig_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void rig_destroy(struct rig *r)
{
    struct engine *e = &r->engine;
    atomic_store(&r->sync_stopped, false);
    atomic_store(&r->write_stopped, false);
    if (r->is_running) rig_stop(r);
    journal_close(e->journal);
    for (unsigned i = 0; i < RIG_REACTORS; i++) reactor_destroy(e->reactors[i].reactor);
    for (unsigned i = 0; i < RIG_REACTORS; i++) shard_destroy(e->shards[i]);
    free(e->shards);
    bundle_destroy(atomic_load(&e->bundle));
    signing_destroy(e->signing);
    post_destroy(e->post);
    offload_destroy(e->offload);
    revoked_log_destroy(e->revoked);
    recovery_fini(&r->recovery);
    disk_real_destroy(r->disk);
    pthread_barrier_destroy(&e->leaving);
    free(e->reactors);
    config_fini(&e->config);
    nftw(r->path, rig_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(r);
}

/* ---- a client of one reactor ---- */

struct client {
    int fd;
    struct rig *rig;
    char answer[RIG_ANSWER_BYTES]; /* of the last request, NUL-terminated: head and body */
    size_t size;
    int status;
    const char *body;
};

static inline struct client *client_of(struct rig *r, unsigned engine_reactor)
{
    int pair[2];
    struct client *c = calloc(1, sizeof *c);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    c->fd = pair[0];
    c->rig = r;
    engine_reactor_tell(&r->engine.reactors[engine_reactor], REACTOR_SOCKET, pair[1], true);
    return c;
}

static inline void client_close(struct client *c)
{
    close(c->fd);
    free(c);
}

/* `headers`: more of them, each with its line's end. */
static inline void client_say_with(struct client *c, const char *method, const char *target,
                                   enum rig_key key, const char *token, const char *headers,
                                   const char *body)
{
    char text[80 << 10];
    int size = snprintf(
        text, sizeof text,
        "%s %s HTTP/1.1\r\nHost: rig\r\nAuthorization: Bearer %s\r\nX-Request-ID: echo-7\r\n"
        "Content-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
        method, target, token != NULL ? token : c->rig->credentials[key], headers, strlen(body),
        body);
    check(size > 0 && (size_t)size < sizeof text);
    for (int at = 0; at < size;) {
        ssize_t n = send(c->fd, text + at, (size_t)(size - at), MSG_NOSIGNAL);
        check(n > 0);
        at += (int)n;
    }
}

static inline void client_say(struct client *c, const char *method, const char *target,
                              enum rig_key key, const char *token, const char *body)
{
    client_say_with(c, method, target, key, token, "", body);
}

static inline bool client_is_whole(struct client *c)
{
    const char *end = strstr(c->answer, "\r\n\r\n"),
               *length = strstr(c->answer, "Content-Length: ");
    if (end == NULL || length == NULL) return false;
    c->status = (int)strtol(c->answer + strlen("HTTP/1.1 "), NULL, 10);
    c->body = end + 4;
    return strlen(c->body) >= strtoul(length + strlen("Content-Length: "), NULL, 10);
}

/* The whole answer; 0: the connection was closed without one. */
static inline int client_hear(struct client *c)
{
    c->size = 0;
    c->answer[0] = '\0';
    while (!client_is_whole(c)) {
        ssize_t n = recv(c->fd, c->answer + c->size, sizeof c->answer - 1 - c->size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        c->size += (size_t)n;
        c->answer[c->size] = '\0';
    }
    return c->status;
}

static inline int client_call(struct client *c, const char *method, const char *target,
                              enum rig_key key, const char *body)
{
    client_say(c, method, target, key, NULL, body);
    return client_hear(c);
}

/* The text of a member of the last answer; "": it is not there. */
static inline const char *client_member(struct client *c, const char *name, char *to, size_t size)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":\"", name);
    const char *at = strstr(c->body, quoted);
    to[0] = '\0';
    if (at == NULL) return to;
    at += strlen(quoted);
    snprintf(to, size, "%.*s", (int)strcspn(at, "\""), at);
    return to;
}

static inline bool client_says(struct client *c, const char *text)
{
    return strstr(c->body, text) != NULL;
}

#endif
