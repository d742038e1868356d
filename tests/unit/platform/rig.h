/* rig.h - a whole platform in this process, on a port and in a directory of its own, and clients
 * that speak HTTP to it over real sockets. */
#ifndef TESTS_PLATFORM_RIG_H
#define TESTS_PLATFORM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/world.h"
#include "http/client.h"
#include "store/key_store.h"
#include "store/set.h"
#include "platform/platform.h"

enum { RIG_KEYS = 8, RIG_REPLY_MAX = 64 << 20 };

struct rig {
    char folder[64], store[96], pepper[96];
    struct config config;
    struct platform *platform;
    pthread_t thread;
    struct http_client *client;
    struct arena arena;
    struct fault fault;
    /* Of the last call: */
    int status;
    struct str body;
    char etag[96];
    struct json *json; /* NULL where the body is none */
    /* Keys by name, made before the platform starts. */
    char keys[RIG_KEYS][CREDENTIAL_TEXT + 1];
    size_t key_count;
};

enum { ROOT, ADMIN, AUDITOR, ENGINE, AGENT, OTHER }; /* the keys */

static const char *const rig_key_rows[] = {
    [ROOT] = "{\"name\":\"root\",\"owner\":\"r\",\"tenant\":\"*\",\"roles\":[\"admin\"]}",
    [ADMIN] = "{\"name\":\"admin\",\"owner\":\"a\",\"tenant\":\"default\",\"roles\":[\"admin\"]}",
    [AUDITOR] =
        "{\"name\":\"auditor\",\"owner\":\"b\",\"tenant\":\"default\",\"roles\":[\"auditor\"]}",
    [ENGINE] = ("{\"name\":\"engines\",\"owner\":\"e\",\"tenant\":\"*\",\"roles\":[\"ingest\"],"
                "\"nodes\":[\"*\"],\"tenants\":[\"*\"]}"),
    [AGENT] = "{\"name\":\"agent\",\"owner\":\"c\",\"tenant\":\"default\",\"roles\":[\"agent\"]}",
    [OTHER] = "{\"name\":\"other\",\"owner\":\"o\",\"tenant\":\"acme\",\"roles\":[\"admin\"]}",
};

/* Makes a key in the data directory, as the command line does. */
static inline void rig_bootstrap(struct rig *r, const char *row, char to[CREDENTIAL_TEXT + 1])
{
    struct json *request, *answer;
    struct buf out;
    buf_init(&out, 1024, 1 << 20);
    assert_int_equal(json_read(str_from(row), NULL, &r->arena, &request, &r->fault), ERR_OK);
    if (key_store_bootstrap(r->store, r->pepper, request, &out, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    assert_int_equal(json_read(buf_view(&out), NULL, &r->arena, &answer, &r->fault), ERR_OK);
    struct str key = json_text(answer, STR("key"));
    assert_int_equal(key.size, CREDENTIAL_TEXT);
    memcpy(to, key.bytes, CREDENTIAL_TEXT);
    to[CREDENTIAL_TEXT] = '\0';
    buf_fini(&out);
}

/* The store of a running platform, for changes of its own. */
static inline struct store *rig_store(struct rig *r)
{
    struct store *s;
    struct pepper pepper;
    assert_int_equal(store_open(r->store, true, &s, &r->fault), ERR_OK);
    assert_int_equal(pepper_read(r->pepper, &pepper, &r->fault), ERR_OK);
    store_share_pepper(s, &pepper);
    return s;
}

/* Rows that were written as SQL become valid. */
static inline void rig_adopt(struct rig *r)
{
    const struct actor by = {.principal = STR("rig"), .now_ms = world_now_ms()};
    struct store *s = rig_store(r);
    struct buf out;
    buf_init(&out, 1 << 16, 256 << 20);
    if (set_adopt(s, &by, &out, &r->fault) != ERR_OK) fail_msg("%s", r->fault.text);
    buf_fini(&out);
    store_close(s);
}

static inline void *rig_run(void *platform)
{
    platform_run(platform);
    return NULL;
}

static inline struct http_client *rig_connect(struct rig *r)
{
    struct http_client *client;
    char url[128];
    snprintf(url, sizeof url, "http://%s", platform_address(r->platform, SOCKET_TCP));
    assert_int_equal(http_client_create(str_from(url), NULL, &client, &r->fault), ERR_OK);
    return client;
}

static inline void rig_start(struct rig *r)
{
    if (platform_create(&r->config, &r->platform, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    assert_int_equal(pthread_create(&r->thread, NULL, rig_run, r->platform), 0);
    r->client = rig_connect(r);
}

static inline void rig_stop(struct rig *r)
{
    http_client_destroy(r->client);
    r->client = NULL;
    platform_stop(r->platform);
    pthread_join(r->thread, NULL);
    platform_destroy(r->platform);
    r->platform = NULL;
}

static inline int rig_set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    snprintf(r->folder, sizeof r->folder, "/tmp/writ-platform-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->store, sizeof r->store, "%s/platform.db", r->folder);
    snprintf(r->pepper, sizeof r->pepper, "%s/pepper", r->folder);
    arena_init(&r->arena, 1 << 16, 512 << 20);
    for (size_t i = 0; i < sizeof rig_key_rows / sizeof *rig_key_rows; i++)
        rig_bootstrap(r, rig_key_rows[i], r->keys[i]);
    r->config = (struct config){.data = r->folder,
                                .kafka_brokers = "",
                                .listen = "127.0.0.1:0",
                                .listen_tls = "",
                                .listen_unix = "",
                                .pepper_file = r->pepper,
                                .log_level = "info",
                                .connections_max = 100,
                                .head_ms = 10000,
                                .body_ms = 30000,
                                .idle_ms = 60000,
                                .write_ms = 30000,
                                .engine_url = "",
                                .public_url = "",
                                .policies_dir = "",
                                .store_url = "",
                                .store = r->store,
                                .readers = 2};
    rig_start(r);
    *state = r;
    return 0;
}

static inline int rig_tear_down(void **state)
{
    struct rig *r = *state;
    rig_stop(r);
    static const char *const files[] = {"platform.db",           "platform.db-wal",
                                        "platform.db-shm",       "pepper",
                                        "platform-evidence.key", "platform-evidence.pub"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", r->folder, files[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(r->folder), 0);
    arena_fini(&r->arena);
    free(r);
    return 0;
}

/* ---- calls ---- */

struct extra { /* more headers, and the content type where it is not JSON */
    const char *names[6], *values[6];
    const char *type;
};

static inline struct http_call rig_call(struct rig *r, const char *key, const char *method,
                                        const char *target, struct str body,
                                        const struct extra *extra, struct str *bearer)
{
    struct http_call call = {.method = method,
                             .target = str_from(target),
                             .body = body,
                             .timeout_ms = 120000,
                             .reply_max = RIG_REPLY_MAX,
                             .content_type =
                                 str_is_absent(body) ? (struct str){0} : STR("application/json")};
    *bearer = key == NULL ? (struct str){0} : arena_printf(&r->arena, "Bearer %s", key);
    if (key != NULL)
        call.headers[call.header_count++] = (struct http_header){STR("Authorization"), *bearer};
    for (size_t i = 0; extra != NULL && i < 6 && extra->names[i] != NULL; i++)
        call.headers[call.header_count++] =
            (struct http_header){str_from(extra->names[i]), str_from(extra->values[i])};
    if (extra != NULL && extra->type != NULL) call.content_type = str_from(extra->type);
    return call;
}

/* The status; body, json and etag are in the rig. `key` NULL: none. */
static inline int call_with(struct rig *r, const char *key, const char *method, const char *target,
                            struct str body, const struct extra *extra)
{
    struct str bearer;
    const struct http_call call = rig_call(r, key, method, target, body, extra, &bearer);
    struct http_answer answer;
    if (http_call(r->client, &call, true, &answer, &r->fault) != ERR_OK)
        fail_msg("%s %s: %s", method, target, r->fault.text);
    r->status = answer.status;
    r->body = arena_copy(&r->arena, answer.body);
    struct str etag = http_answer_header(&answer, STR("etag"));
    snprintf(r->etag, sizeof r->etag, "%.*s", STR_FORMAT(etag));
    r->json = NULL;
    const struct json_options options = {.nul_anywhere = true};
    if (json_read(r->body, &options, &r->arena, &r->json, &r->fault) != ERR_OK) r->json = NULL;
    return r->status;
}

static inline int get(struct rig *r, int key, const char *target)
{
    return call_with(r, r->keys[key], "GET", target, (struct str){0}, NULL);
}

static inline int send_json(struct rig *r, int key, const char *method, const char *target,
                            const char *body)
{
    return call_with(r, r->keys[key], method, target, str_from(body), NULL);
}

static inline void assert_refused(struct rig *r, int status, const char *code, const char *field)
{
    struct str got = json_text(r->json, STR("code"));
    if (r->status != status || !str_equal(got, str_from(code)))
        fail_msg("wanted %d %s, got %d %.*s", status, code, r->status, STR_FORMAT(r->body));
    struct str at = json_text(r->json, STR("field"));
    if (field != NULL && !str_equal(at, str_from(field)))
        fail_msg("wanted field %s, got %.*s", field, STR_FORMAT(r->body));
}

static inline void assert_status(struct rig *r, int status)
{
    if (r->status != status)
        fail_msg("wanted %d, got %d %.*s", status, r->status, STR_FORMAT(r->body));
}

static inline uint64_t number(const struct rig *r, const char *name)
{
    return json_u64(r->json, str_from(name), UINT64_MAX);
}

static inline void assert_text(const struct rig *r, const char *name, const char *value)
{
    struct str text = json_text(r->json, str_from(name));
    if (!str_equal(text, str_from(value)))
        fail_msg("%s is %.*s, not %s", name, STR_FORMAT(text), value);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

#endif
