/* /api/v1/keys over real sockets: rights, revocation, rotation, and the command line beside it. */
#include "rig.h"

#include "base/time.h"
#include "store/database.h"

#define KEYS "/api/v1/keys"

/* The credential of the last answer. */
static const char *credential(struct rig *r)
{
    assert_status(r, 201);
    struct str key = json_text(r->json, STR("key"));
    assert_int_equal(key.size, CREDENTIAL_TEXT);
    return arena_copy(&r->arena, key).bytes;
}

static struct str last_id(struct rig *r)
{
    return arena_copy(&r->arena, json_text(r->json, STR("id")));
}

static int revoke_key(struct rig *r, int key, struct str id)
{
    struct str target = arena_printf(&r->arena, KEYS "/%.*s", STR_FORMAT(id));
    return call_with(r, r->keys[key], "DELETE", target.bytes, (struct str){0}, NULL);
}

static void a_key_is_shown_once_and_works_at_once(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS,
              "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"policy_admin\"]}");
    const char *key = credential(r);
    struct str id = last_id(r);
    assert_null(json_get(r->json, STR("mac")));
    assert_text(r, "tenant", "default");
    assert_int_equal(call_with(r, key, "GET", "/api/v1/policies", (struct str){0}, NULL), 200);
    get(r, ADMIN, KEYS);
    assert_null(memmem(r->body.bytes, r->body.size, key, CREDENTIAL_TEXT));
    assert_null(memmem(r->body.bytes, r->body.size, "\"mac\"", 5));
    assert_non_null(memmem(r->body.bytes, r->body.size, id.bytes, id.size));
    assert_null(memmem(r->body.bytes, r->body.size, "acme", 4)); /* another tenant's */
    assert_int_equal(number(r, "count"), json_get(r->json, STR("keys"))->count);
}

static void pages_tell_each_key_once(void **state)
{
    struct rig *r = *state;
    struct str id, before = {0};
    uint64_t seen = 0, cursor = 0, all;
    get(r, ADMIN, KEYS);
    all = number(r, "count");
    do {
        get(r, ADMIN,
            arena_printf(&r->arena, KEYS "?limit=1&cursor=%llu", (unsigned long long)cursor).bytes);
        assert_int_equal(number(r, "count"), 1);
        id = arena_copy(&r->arena, json_text(json_get(r->json, STR("keys"))->child, STR("id")));
        assert_false(str_equal(id, before));
        before = id;
        cursor = number(r, "next_cursor");
    } while (++seen < all && cursor != 0);
    assert_int_equal(seen, all);
    assert_int_equal(cursor, 0);
}

static void a_wrong_request_is_named(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *body, *code, *field;
    } cases[] = {
        {"{\"owner\":\"o\",\"roles\":[\"agent\"]}", "missing_member", "/name"},
        {"{\"name\":\"n\",\"roles\":[\"agent\"]}", "missing_member", "/owner"},
        {"{\"name\":\"n\",\"owner\":\"o\"}", "missing_member", "/roles"},
        {"{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"emperor\"]}", "bad_value", "/roles"},
        {"{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"],\"expiresAt\":\"x\"}", "wrong_case",
         "/expiresAt"},
        {"{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"],\"expires_at\":\"2020-01-01T00:00:"
         "00Z\"}",
         "out_of_range", "/expires_at"},
        {"{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"],\"tenant\":5}", "wrong_type",
         "/tenant"},
        {"{\"name\":\"a\\u0000b\",\"owner\":\"o\",\"roles\":[\"agent\"]}", "malformed_json",
         "/name"},
        {"{\"name\":\"n\",\"owner\":\"\\u0000\",\"roles\":[\"agent\"]}", "malformed_json",
         "/owner"},
        {"5", "wrong_type", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        send_json(r, ADMIN, "POST", KEYS, cases[i].body);
        assert_refused(r, 400, cases[i].code, cases[i].field);
    }
}

static void an_admin_makes_keys_of_its_own_tenant_only(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS,
              "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"acme\",\"roles\":[\"agent\"]}");
    assert_refused(r, 403, "wrong_tenant", "/tenant");
    send_json(r, ADMIN, "POST", KEYS,
              "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"agent\"]}");
    assert_refused(r, 403, "wrong_tenant", "/tenant");
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"ingest\"]}");
    assert_refused(r, 403, "missing_role", "/roles");
    send_json(
        r, ADMIN, "POST", KEYS,
        "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"admin\",\"reviewer\"],\"tenant\":\"\"}");
    assert_status(r, 201);
    send_json(r, ROOT, "POST", KEYS, "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    assert_refused(r, 400, "tenant_required", "/tenant");
    send_json(r, ROOT, "POST", KEYS "?tenant_id=acme",
              "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    assert_text(r, "tenant", "acme");
    send_json(r, ROOT, "POST", KEYS,
              "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"ingest\"],\"tenants\":"
              "[\"*\"],\"nodes\":[\"*\"]}");
    assert_status(r, 201);
    send_json(r, AUDITOR, "POST", KEYS, "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    assert_refused(r, 403, "missing_role", NULL);
}

static void what_only_the_store_may_say_is_refused_in_a_request(void **state)
{
    struct rig *r = *state;
    static const char *const ours[] = {
        "id",         "mac",         "pepper_mark",        "created_at",
        "revoked_at", "replaced_by", "original_expires_at"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        char body[160], field[32];
        (void)snprintf(body, sizeof body,
                       "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"auditor\"],\"%s\":null}",
                       ours[i]);
        (void)snprintf(field, sizeof field, "/%s", ours[i]);
        send_json(r, ADMIN, "POST", KEYS, body);
        assert_refused(r, 400, "unknown_member", field);
    }
}

static void a_revoked_key_is_dead_with_the_answer(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS,
              "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"policy_admin\"]}");
    const char *key = credential(r);
    struct str id = last_id(r);
    assert_int_equal(call_with(r, key, "GET", "/api/v1/policies", (struct str){0}, NULL), 200);
    assert_int_equal(revoke_key(r, OTHER, id), 404);
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[],\"revoked\":true}");
    call_with(r, key, "GET", "/api/v1/policies", (struct str){0}, NULL);
    assert_refused(r, 401, "credential_revoked", NULL);
    assert_int_equal(revoke_key(r, ADMIN, id), 200); /* again: the same */
    assert_int_equal(revoke_key(r, ADMIN, STR("key_00000000000000000000000000")), 404);
    assert_int_equal(revoke_key(r, ADMIN, STR("x")), 404);
    get(r, AUDITOR, "/api/v1/audit?kind=key.revoked");
    assert_int_equal(number(r, "count"), 1);
    get(r, AUDITOR, "/api/v1/audit?kind=key.created&limit=1");
    assert_int_equal(number(r, "count"), 1);
}

static void a_revocation_names_engines_that_are_behind(void **state)
{
    struct rig *r = *state;
    const struct extra node = {{"Writ-Node"}, {"node-1"}, NULL};
    call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle", (struct str){0},
              &node); /* it runs nothing yet */
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    struct str id = last_id(r);
    uint64_t begin = world_monotonic_ns();
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[\"node-1\"],\"revoked\":true}");
    assert_in_range((world_monotonic_ns() - begin) / 1000000, 900, 30000);
    /* It has taken up the newest: now nobody is behind. */
    get(r, ENGINE, "/api/v1/bundle");
    char etag[96];
    snprintf(etag, sizeof etag, "%s", r->etag);
    const struct extra current = {{"Writ-Node", "If-None-Match"}, {"node-1", etag}, NULL};
    assert_int_equal(
        call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle", (struct str){0}, &current), 304);
    char weak[100]; /* as a proxy that packs bodies makes it */
    snprintf(weak, sizeof weak, "W/%s", etag);
    const struct extra packed = {{"Writ-Node", "If-None-Match"}, {"node-1", weak}, NULL};
    assert_int_equal(
        call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle", (struct str){0}, &packed), 304);
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[],\"revoked\":true}");
}

static void a_rotation_without_overlap_names_them_too(void **state)
{
    struct rig *r = *state;
    const struct extra node = {{"Writ-Node"}, {"node-1"}, NULL};
    /* it runs nothing yet */
    call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle", (struct str){0}, &node);
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(last_id(r)));
    send_json(r, ADMIN, "POST", target.bytes, "{\"overlap_seconds\":0}");
    assert_status(r, 201);
    assert_non_null(memmem(r->body.bytes, r->body.size, "\"behind\":[\"node-1\"]", 19));
}

/* An engine's question; with what it runs where `etag` is given. */
static void ask_bundle_with(struct rig *r, const char *key, const char *node, const char *etag)
{
    struct extra with = {{"Writ-Node", "If-None-Match"}, {node, etag}, NULL};
    if (etag == NULL) with.names[1] = NULL;
    call_with(r, key, "GET", "/api/v1/bundle", (struct str){0}, &with);
}

static void ask_bundle(struct rig *r, const char *node, const char *etag)
{
    ask_bundle_with(r, r->keys[ENGINE], node, etag);
}

/* Asks for the bundle, and again with what came. */
static void ask_and_follow(struct rig *r, const char *key, const char *node)
{
    char etag[96];
    ask_bundle_with(r, key, node, NULL);
    snprintf(etag, sizeof etag, "%s", r->etag);
    ask_bundle_with(r, key, node, etag);
    assert_status(r, 304);
}

static void another_key_does_not_say_for_an_engine_that_it_has_followed(void **state)
{
    struct rig *r = *state;
    send_json(r, ROOT, "POST", KEYS,
              "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"ingest\"],"
              "\"tenants\":[\"*\"],\"nodes\":[\"*\"]}");
    const char *other = credential(r);
    struct str other_id = last_id(r);
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    struct str id = last_id(r);
    ask_and_follow(r, r->keys[ENGINE], "node-1");
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    ask_and_follow(r, other, "node-1");
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[\"node-1\"],\"revoked\":true}");
    ask_and_follow(r, r->keys[ENGINE], "node-1");
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[],\"revoked\":true}");
    /* A key that has ended is not waited for. */
    assert_int_equal(revoke_key(r, ROOT, other_id), 200);
    ask_and_follow(r, r->keys[ENGINE], "node-1");
    assert_int_equal(revoke_key(r, ROOT, other_id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[],\"revoked\":true}");
}

/* Its bundle was on its way when it ended. */
static void a_key_that_has_ended_says_nothing_for_an_engine(void **state)
{
    struct rig *r = *state;
    const struct id ended = {{1}};
    platform_stop(r->platform);
    pthread_join(r->thread, NULL);
    followers_saw(r->platform, STR("node-1"), ended, &(struct revision){.number = 7});
    assert_int_equal(r->platform->followers.count, 1);
    assert_int_equal(r->platform->followers.all[0].revision.number, 0);
    http_client_destroy(r->client);
    platform_destroy(r->platform);
    rig_start(r);
}

static void who_was_behind_before_a_restart_is_behind_after_it(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    struct str id = last_id(r);
    ask_bundle(r, "node-1", NULL);
    char etag[96];
    snprintf(etag, sizeof etag, "%s", r->etag);
    ask_bundle(r, "node-2", etag);
    ask_bundle(r, "node-1", etag); /* both run what there is */
    rig_stop(r);
    rig_start(r);
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_non_null(strstr(r->body.bytes, "\"node-1\""));
    assert_non_null(strstr(r->body.bytes, "\"node-2\""));
    ask_bundle(r, "node-1", NULL);
    snprintf(etag, sizeof etag, "%s", r->etag);
    ask_bundle(r, "node-1", etag);
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[\"node-2\"],\"revoked\":true}");
}

static int ask_with(struct rig *r, const char *key, const char *target, const char *etag)
{
    const struct extra known = {{"If-None-Match"}, {etag}, NULL};
    return call_with(r, key, "GET", target, (struct str){0}, &known);
}

static void
what_an_engine_has_is_not_sent_again_by_another_platform_or_after_a_restart(void **state)
{
    struct rig *r = *state, other = *r; /* of the same store */
    rig_start(&other);
    get(r, ENGINE, "/api/v1/bundle");
    char etag[96];
    snprintf(etag, sizeof etag, "%s", r->etag);
    assert_int_equal(ask_with(&other, other.keys[ENGINE], "/api/v1/bundle?wait=60", etag), 304);
    assert_string_equal(other.etag, etag);
    uint64_t begin = world_monotonic_ns();
    /* it has been compared: now it waits */
    assert_int_equal(ask_with(&other, other.keys[ENGINE], "/api/v1/bundle?wait=1", etag), 304);
    assert_in_range((world_monotonic_ns() - begin) / 1000000, 900, 30000);
    rig_stop(&other);
    rig_stop(r);
    rig_start(r);
    assert_int_equal(ask_with(r, r->keys[ENGINE], "/api/v1/bundle", etag), 304);
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    assert_int_equal(ask_with(r, r->keys[ENGINE], "/api/v1/bundle", etag), 200);
}

static void another_keys_tag_of_the_same_revision_proves_nothing(void **state)
{
    struct rig *r = *state;
    char narrow[CREDENTIAL_TEXT + 1] = "";
    send_json(
        r, ROOT, "POST", KEYS,
        "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"ingest\"],\"nodes\":[\"*\"],\"tenants\":[\"acme\"]}");
    assert_status(r, 201);
    memcpy(narrow, json_text(r->json, STR("key")).bytes, CREDENTIAL_TEXT);
    get(r, ENGINE, "/api/v1/bundle");
    char etag[96];
    snprintf(etag, sizeof etag, "%s", r->etag);
    assert_int_equal(ask_with(r, r->keys[ENGINE], "/api/v1/bundle?wait=0", etag), 304);
    assert_int_equal(ask_with(r, narrow, "/api/v1/bundle?wait=60", etag), 200);
    assert_string_not_equal(r->etag, etag);
}

static void who_is_silent_for_a_week_is_waited_for_no_more(void **state)
{
    struct rig *r = *state;
    const uint64_t day_ms = 86400000, now_ms = world_now_ms();
    const struct follower_row rows[] = {{STR("old"), {.number = 1}, now_ms - 8 * day_ms},
                                        {STR("there"), {.number = 1}, now_ms - 6 * day_ms}};
    struct store *s;
    assert_int_equal(store_open(r->store, true, &s, &r->fault), ERR_OK);
    assert_int_equal(follower_store_note(s, rows, 2, now_ms - 7 * day_ms, &r->fault), ERR_OK);
    store_close(s);
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    assert_int_equal(revoke_key(r, ADMIN, last_id(r)), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[\"there\"],\"revoked\":true}");
}

static void no_more_than_so_many_are_waited_for(void **state)
{
    struct rig *r = *state;
    static struct follower_row rows[FOLLOWERS_MAX + 10], kept[FOLLOWERS_MAX];
    const uint64_t now_ms = world_now_ms();
    struct store *s;
    size_t count;
    for (size_t i = 0; i < FOLLOWERS_MAX + 10; i++)
        rows[i] = (struct follower_row){
            arena_printf(&r->arena, "node-%zu", i), {.number = 1}, now_ms - i};
    assert_int_equal(store_open(r->store, true, &s, &r->fault), ERR_OK);
    assert_int_equal(follower_store_note(s, rows + FOLLOWERS_MAX, 10, now_ms, &r->fault), ERR_OK);
    assert_int_equal(follower_store_list(s, now_ms, &r->arena, kept, &count, &r->fault), ERR_OK);
    assert_int_equal(count, 10);
    assert_int_equal(follower_store_note(s, rows, FOLLOWERS_MAX, now_ms, &r->fault), ERR_OK);
    assert_int_equal(follower_store_list(s, now_ms, &r->arena, kept, &count, &r->fault), ERR_OK);
    assert_int_equal(count, FOLLOWERS_MAX);
    /* newest first, the ten are gone */
    for (size_t i = 0; i < count; i++) assert_true(str_equal(kept[i].node, rows[i].node));
    store_close(s);
}

struct engine {
    struct rig *r;
    struct http_client *client;
    char etag[96];
    atomic_bool stop;
};

/* Follows as an engine does: asks with what it runs, takes up what comes. */
static void *follow(void *argument)
{
    struct engine *e = argument;
    char bearer[128];
    snprintf(bearer, sizeof bearer, "Bearer %s", e->r->keys[ENGINE]);
    while (!atomic_load(&e->stop)) {
        struct http_call call = {.method = "GET",
                                 .target = STR("/api/v1/bundle?wait=2"),
                                 .timeout_ms = 120000,
                                 .reply_max = RIG_REPLY_MAX,
                                 .header_count = 3};
        struct http_answer answer;
        struct fault f;
        call.headers[0] = (struct http_header){STR("Authorization"), str_from(bearer)};
        call.headers[1] = (struct http_header){STR("Writ-Node"), STR("node-1")};
        call.headers[2] = (struct http_header){STR("If-None-Match"), str_from(e->etag)};
        if (http_call(e->client, &call, true, &answer, &f) != ERR_OK) break;
        struct str etag = http_answer_header(&answer, STR("etag"));
        if (answer.status == 200) snprintf(e->etag, sizeof e->etag, "%.*s", STR_FORMAT(etag));
    }
    return NULL;
}

/* A revocation that is answered when the engine has heard of it. Only where that takes a second is
 * it named, and asked for again. */
static void revoke_and_be_heard(struct rig *r)
{
    struct str id = last_id(r);
    for (bool heard = false; !heard;) {
        uint64_t begun_ns = world_monotonic_ns();
        assert_int_equal(revoke_key(r, ADMIN, id), 200);
        heard = strcmp(r->body.bytes, "{\"behind\":[],\"revoked\":true}") == 0;
        if (heard) break;
        assert_string_equal(r->body.bytes, "{\"behind\":[\"node-1\"],\"revoked\":true}");
        assert_true(world_monotonic_ns() - begun_ns > 900000000u);
    }
}

/* Revocations through r, while an engine follows the platform `at`. */
static void revoke_while_one_follows(struct rig *r, struct rig *at)
{
    struct engine e = {.r = at, .client = rig_connect(at), .etag = "\"0\""};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, follow, &e), 0);
    for (int i = 0; i < 20; i++) {
        send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
        revoke_and_be_heard(r);
    }
    atomic_store(&e.stop, true);
    http_client_interrupt(e.client);
    pthread_join(thread, NULL);
    http_client_destroy(e.client);
}

static void a_revocation_waits_for_an_engine_that_follows(void **state)
{
    revoke_while_one_follows(*state, *state);
}

static void a_revocation_waits_for_an_engine_that_follows_another_platform(void **state)
{
    struct rig *r = *state, other = *r; /* of the same store */
    rig_start(&other);
    ask_bundle(&other, "node-1", NULL);
    char etag[96];
    snprintf(etag, sizeof etag, "%s", other.etag);
    ask_bundle(&other, "node-1", etag);
    /* Written down: then this platform knows of it, too. */
    uint64_t begin = world_monotonic_ns();
    do {
        send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
        assert_int_equal(revoke_key(r, ADMIN, last_id(r)), 200);
        assert_true(world_monotonic_ns() - begin < 120000000000u);
    } while (strcmp(r->body.bytes, "{\"behind\":[\"node-1\"],\"revoked\":true}") != 0);
    revoke_while_one_follows(r, &other);
    rig_stop(&other);
}

static void *wait_for_a_second(void *rig)
{
    struct rig *r = rig;
    char etag[96];
    memcpy(etag, r->etag, sizeof etag);
    const struct extra with = {{"Writ-Node", "If-None-Match"}, {"node-1", etag}, NULL};
    call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle?wait=1", (struct str){0}, &with);
    return NULL;
}

static void until_noted(struct rig *r, struct store *s)
{
    static struct follower_row rows[FOLLOWERS_MAX];
    size_t count = 0;
    while (count == 0 || rows[0].revision.number == 0) {
        assert_int_equal(follower_store_list(s, world_now_ms(), &r->arena, rows, &count, &r->fault),
                         ERR_OK);
        usleep(1000);
    }
}

/* Its machine went down, so that nobody closed the connection on which it waits here. */
static void
an_engine_that_began_anew_elsewhere_is_behind_though_its_old_wait_ends_later(void **state)
{
    struct rig *r = *state, waits = *r;
    struct store *s;
    pthread_t thread;
    arena_init(&waits.arena, 1 << 16, 512 << 20);
    waits.client = rig_connect(r);
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    struct str id = last_id(r);
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    ask_and_follow(&waits, r->keys[ENGINE], "node-1");
    assert_int_equal(store_open(r->store, true, &s, &r->fault), ERR_OK);
    until_noted(r, s);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_a_second, &waits), 0);
    while (atomic_load(&r->platform->bundle_wait_count) == 0) usleep(1000);
    usleep(2000); /* a later millisecond */
    const struct follower_row anew = {STR("node-1"), {.number = 0}, world_now_ms()};
    assert_int_equal(follower_store_note(s, &anew, 1, anew.seen_at, &r->fault), ERR_OK);
    store_close(s);
    pthread_join(thread, NULL);
    assert_status(&waits, 304);
    assert_int_equal(revoke_key(r, ADMIN, id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[\"node-1\"],\"revoked\":true}");
    http_client_destroy(waits.client);
    arena_fini(&waits.arena);
}

static void a_rotated_key_overlaps_and_ends(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS,
              "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"policy_admin\"],\"actors\":[\"x-*\"]}");
    const char *old = credential(r);
    struct str id = last_id(r);
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(id));
    uint64_t begin = world_monotonic_ns();
    send_json(r, ADMIN, "POST", target.bytes, "{\"overlap_seconds\":1}");
    const char *fresh = credential(r);
    assert_text(r, "name", "p");
    assert_true(str_equal(json_get(r->json, STR("actors"))->child->string, STR("x-*")));
    assert_true(str_equal(json_text(json_get(r->json, STR("replaces")), STR("id")), id));
    int status = call_with(r, old, "GET", "/api/v1/policies", (struct str){0}, NULL);
    assert_true(status == 200 || world_monotonic_ns() - begin > 900000000u);
    assert_int_equal(call_with(r, fresh, "GET", "/api/v1/policies", (struct str){0}, NULL), 200);
    while (call_with(r, old, "GET", "/api/v1/policies", (struct str){0}, NULL) == 200)
        assert_true(world_monotonic_ns() - begin < 120000000000u);
    assert_refused(r, 401, "credential_expired", NULL);
    assert_int_equal(call_with(r, fresh, "GET", "/api/v1/policies", (struct str){0}, NULL), 200);
    send_json(r, ADMIN, "POST", target.bytes, "{}"); /* what has ended cannot be rotated */
    assert_refused(r, 409, "key_ended", NULL);

    struct str last = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(id));
    send_json(r, OTHER, "POST", last.bytes, "{}");
    assert_refused(r, 404, "not_found", NULL);
    send_json(r, ADMIN, "POST", last.bytes, "{\"overlap_seconds\":\"1\"}");
    assert_refused(r, 400, "wrong_type", "/overlap_seconds");
    send_json(r, ADMIN, "POST", last.bytes, "{\"overlap_seconds\":99999999}");
    assert_refused(r, 400, "out_of_range", "/overlap_seconds");
}

static void without_an_overlap_the_old_key_ends_at_once(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"auditor\"]}");
    const char *old = credential(r);
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(last_id(r)));
    send_json(r, ADMIN, "POST", target.bytes, "{\"overlap_seconds\":0}");
    const char *fresh = credential(r);
    call_with(r, old, "GET", "/api/v1/audit", (struct str){0}, NULL);
    assert_refused(r, 401, "credential_revoked", NULL);
    assert_int_equal(call_with(r, fresh, "GET", "/api/v1/audit", (struct str){0}, NULL), 200);
    send_json(r, ADMIN, "POST", target.bytes, "{}");
    assert_refused(r, 409, "key_ended", NULL);
}

static void an_overlap_makes_no_key_live_longer_and_is_recorded(void **state)
{
    struct rig *r = *state;
    send_json(
        r, ADMIN, "POST", KEYS,
        "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"auditor\"],\"expires_at\":\"2999-01-01T00:00:00.000Z\"}");
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(last_id(r)));
    /* well before its end */
    send_json(r, ADMIN, "POST", target.bytes, "{\"overlap_seconds\":2592000}");
    assert_status(r, 201);
    assert_true(str_compare(json_text(json_get(r->json, STR("replaces")), STR("expires_at")),
                            STR("2999")) < 0);
    char soon[TIME_TEXT + 1] = {0};
    time_write(world_now_ms() + 600000, soon);
    send_json(r, ADMIN, "POST", KEYS,
              arena_printf(
                  &r->arena,
                  "{\"name\":\"q\",\"owner\":\"o\",\"roles\":[\"auditor\"],\"expires_at\":\"%s\"}",
                  soon)
                  .bytes);
    target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(last_id(r)));
    send_json(r, ADMIN, "POST", target.bytes, "{\"overlap_seconds\":3600}");
    assert_status(r, 201);
    assert_true(str_equal(json_text(json_get(r->json, STR("replaces")), STR("expires_at")),
                          str_from(soon)));
    get(r, AUDITOR, "/api/v1/audit?kind=key.revoked");
    assert_int_equal(number(r, "count"), 2);
    assert_non_null(memmem(r->body.bytes, r->body.size, "rotated: key_", 13));
}

static void a_rotation_overlaps_for_a_day(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"auditor\"]}");
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(last_id(r)));
    uint64_t begin = world_now_ms(), ends;
    send_json(r, ADMIN, "POST", target.bytes, "{}");
    assert_status(r, 201);
    assert_true(time_read(json_text(json_get(r->json, STR("replaces")), STR("expires_at")), &ends));
    assert_in_range(ends, begin + 86400000, world_now_ms() + 86400000);
}

/* Of the successor: its id in `to`, its end. */
static struct str rotate(struct rig *r, struct str id, const char *body, struct str *to)
{
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(id));
    send_json(r, ADMIN, "POST", target.bytes, body);
    assert_status(r, 201);
    *to = last_id(r);
    return json_text(r->json, STR("expires_at"));
}

/* Who has lost the successor's credential asks again; and a successor is rotated, too. */
static void who_follows_a_key_lives_as_long_as_it_would_have(void **state)
{
    struct rig *r = *state;
    static const char *const ends[] = {"", ",\"expires_at\":\"2999-01-01T00:00:00.000Z\""};
    for (int i = 0; i < 2; i++) {
        const struct str end = i == 0 ? (struct str){0} : STR("2999-01-01T00:00:00.000Z");
        send_json(r, ADMIN, "POST", KEYS,
                  arena_printf(&r->arena,
                               "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"auditor\"]%s}",
                               ends[i])
                      .bytes);
        struct str first = last_id(r), second, third, last;
        assert_true(str_equal(rotate(r, first, "{\"overlap_seconds\":600}", &second), end));
        assert_null(json_get(r->json, STR("replaced_by")));
        struct str ends_at =
            arena_copy(&r->arena, json_text(json_get(r->json, STR("replaces")), STR("expires_at")));
        assert_true(str_equal(rotate(r, first, "{\"overlap_seconds\":1200}", &third), end));
        assert_true(str_equal(json_text(json_get(r->json, STR("replaces")), STR("expires_at")),
                              ends_at)); /* it lives no longer for that */
        assert_true(str_equal(rotate(r, second, "{\"overlap_seconds\":60}", &last), end));
        assert_true(str_equal(rotate(r, first, "{\"overlap_seconds\":0}", &last), end));
        get(r, ADMIN, KEYS "?limit=500");
        const struct json *k = json_get(r->json, STR("keys"))->child;
        while (k != NULL && !str_equal(json_text(k, STR("id")), first)) k = k->next;
        assert_non_null(k);
        assert_true(str_equal(json_text(k, STR("replaced_by")), last));
        assert_true(str_equal(json_text(k, STR("original_expires_at")), end));
    }
}

static void a_tenant_named_twice_is_the_same_or_refused(void **state)
{
    struct rig *r = *state;
#define KEY_OF(more) "{\"name\":\"n\",\"owner\":\"o\",\"roles\":[\"agent\"]" more "}"
    static const struct {
        int key;
        const char *query, *body, *code, *field;
    } cases[] = {
        {ADMIN, "", KEY_OF(",\"tenant_id\":\"acme\""), "wrong_tenant", "/tenant_id"},
        {ADMIN, "", KEY_OF(",\"tenant\":\"default\",\"tenant_id\":\"acme\""), "wrong_tenant",
         "/tenant_id"},
        {ADMIN, "", KEY_OF(",\"tenant_id\":7"), "wrong_type", "/tenant_id"},
        {ADMIN, "", KEY_OF(",\"tenant\":7"), "wrong_type", "/tenant"},
        {ADMIN, "", KEY_OF(",\"tenant_id\":null,\"tenant\":\"\""), NULL, "default"},
        {ROOT, "", KEY_OF(",\"tenant\":\"acme\",\"tenant_id\":\"default\""), "conflicting_member",
         "/tenant"},
        {ROOT, "?tenant_id=acme", KEY_OF(",\"tenant\":\"default\""), "conflicting_member",
         "/tenant"},
        {ROOT, "?tenant_id=acme", KEY_OF(",\"tenant_id\":\"*\""), "conflicting_member",
         "/tenant_id"},
        {ROOT, "?tenant_id=acme", KEY_OF(",\"tenant_id\":\"acme\",\"tenant\":\"acme\""), NULL,
         "acme"},
        {ROOT, "", KEY_OF(",\"tenant_id\":\"acme\""), NULL, "acme"},
        {ROOT, "?tenant_id=*", KEY_OF(",\"tenant\":\"*\""), NULL, "*"},
        {ROOT, "", KEY_OF(""), "tenant_required", "/tenant"},
    };
#undef KEY_OF
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        send_json(r, cases[i].key, "POST", arena_printf(&r->arena, KEYS "%s", cases[i].query).bytes,
                  cases[i].body);
        if (cases[i].code != NULL) {
            assert_refused(r, r->status, cases[i].code, cases[i].field);
            continue;
        }
        assert_status(r, 201);
        assert_text(r, "tenant", cases[i].field);
    }
}

static void a_rotations_body_may_name_the_tenant(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "POST", KEYS, "{\"name\":\"p\",\"owner\":\"o\",\"roles\":[\"agent\"]}");
    struct str id = last_id(r);
    struct str target = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(id));
    send_json(r, ADMIN, "POST", target.bytes, "{\"tenant_id\":\"acme\"}");
    assert_refused(r, 403, "wrong_tenant", "/tenant_id");
    send_json(r, ADMIN, "POST", target.bytes, "{\"tenantId\":\"default\"}");
    assert_refused(r, 400, "wrong_case", "/tenantId");
    send_json(r, ROOT, "POST", target.bytes, "{\"tenant_id\":\"acme\"}"); /* not that one's */
    assert_refused(r, 404, "not_found", NULL);
    send_json(r, ROOT, "POST", target.bytes, "{\"tenant_id\":\"default\"}");
    assert_status(r, 201);
}

/* How long it takes until a key is known that was made on the data directory. */
static uint64_t ms_until_noticed(struct rig *r)
{
    char key[CREDENTIAL_TEXT + 1];
    rig_bootstrap(
        r, "{\"name\":\"late\",\"owner\":\"l\",\"tenant\":\"default\",\"roles\":[\"auditor\"]}",
        key);
    uint64_t begin = world_monotonic_ns();
    while (call_with(r, key, "GET", "/api/v1/audit", (struct str){0}, NULL) != 200) {
        assert_true(world_monotonic_ns() - begin < 120000000000u);
        usleep(5000);
    }
    return (world_monotonic_ns() - begin) / 1000000;
}

static void a_key_made_on_the_data_directory_is_noticed(void **state)
{
    struct rig *r = *state;
    int in_time = 0; /* the machine may be busy now and then */
    for (int i = 0; i < 5; i++) in_time += ms_until_noticed(r) < 1000;
    assert_in_range(in_time, 3, 5);
    get(r, AUDITOR, "/api/v1/audit?kind=key.created&actor=command-line");
    assert_true(number(r, "count") >= 1);
}

/* What the key made is lies in the store before the platform has taken it up. */
static void a_tenants_admin_rotates_no_ingest_key_however_new_it_is(void **state)
{
    struct rig *r = *state;
    char key[CREDENTIAL_TEXT + 1];
    for (int i = 0; i < 20; i++) {
        rig_bootstrap(
            r, "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"default\",\"roles\":[\"ingest\"]}",
            key);
        struct str target = arena_printf(&r->arena, KEYS "/key_%.26s/rotate", key + 3);
        send_json(r, ADMIN, "POST", target.bytes, "{}");
        assert_refused(r, 403, "missing_role", NULL);
        send_json(r, OTHER, "POST", target.bytes, "{}");
        assert_refused(r, 404, "not_found", NULL);
    }
    struct str target = arena_printf(&r->arena, KEYS "/key_%.26s/rotate", key + 3);
    send_json(r, ROOT, "POST", target.bytes, "{}");
    assert_status(r, 201);
}

static void the_name_of_changes_by_files_is_no_keys(void **state)
{
    struct rig *r = *state;
    const char *row = "{\"name\":\"" FILES_PRINCIPAL
                      "\",\"owner\":\"o\",\"tenant\":\"default\",\"roles\":[\"policy_admin\"]}";
    struct json *request;
    struct buf out;
    buf_init(&out, 1024, 1 << 20);
    send_json(r, ADMIN, "POST", KEYS, row);
    assert_refused(r, 400, "bad_value", "/name");
    assert_int_equal(json_read(str_from(row), NULL, &r->arena, &request, &r->fault), ERR_OK);
    assert_int_equal(key_store_bootstrap(r->store, r->pepper, request, &out, &r->fault),
                     ERR_BAD_VALUE);
    buf_fini(&out);
}

/* Three lists at their longest: some 50 KB. */
static int make_large(struct rig *r, int key, int number)
{
    static const char *const lists[] = {"actors", "users", "reviewers"};
    struct buf body;
    buf_init(&body, 64 << 10, 128 << 10);
    buf_printf(&body, "{\"name\":\"k%d\",\"owner\":\"o\",\"roles\":[\"agent\"]", number);
    for (size_t i = 0; i < 3; i++) {
        buf_printf(&body, ",\"%s\":[", lists[i]);
        for (int k = 0; k < KEY_GLOBS_MAX; k++) {
            buf_printf(&body, k > 0 ? ",\"%03d" : "\"%03d", k);
            for (int c = 3; c < 256; c++) buf_put_byte(&body, 'x');
            buf_put_byte(&body, '"');
        }
        buf_put_byte(&body, ']');
    }
    buf_put_byte(&body, '}');
    call_with(r, r->keys[key], "POST", KEYS, buf_view(&body), NULL);
    buf_fini(&body);
    return r->status;
}

/* So many copies of the last key, under ids of their own, without the time that
 * asking for them would take. */
static void copy_last(struct rig *r, int count)
{
    struct database *d;
    struct str id = last_id(r);
    struct str sql = arena_printf(
        &r->arena,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),"
        " copies AS (SELECT substr(id, 1, 20) || printf('%%010d', i) AS copy, id, tenant_id, key"
        " FROM keys, n WHERE id = '%.*s')"
        " INSERT INTO keys (id, tenant_id, key) SELECT copy, tenant_id, replace(key, id, copy) FROM copies",
        count, STR_FORMAT(id));
    assert_int_equal(database_open(r->store, true, &d, &r->fault), ERR_OK);
    assert_int_equal(database_execute(d, sql.bytes, &r->fault), ERR_OK);
    database_close(d);
    rig_adopt(r);
}

static void no_tenant_has_all_the_room_for_keys(void **state)
{
    enum { COPIES = 490 };
    struct rig *r = *state;
    assert_int_equal(make_large(r, ADMIN, 0), 201);
    struct str first = last_id(r);
    copy_last(r, COPIES); /* nearly all: making a large key takes a quarter of a second */
    int made = 1;
    while (made < 100 && make_large(r, ADMIN, made) == 201) made++;
    assert_in_range(COPIES + made, 460, 540);
    assert_refused(r, 400, "out_of_range", NULL);
    /* who follows a key takes room as well as that one */
    struct str rotate = arena_printf(&r->arena, KEYS "/%.*s/rotate", STR_FORMAT(first));
    send_json(r, ADMIN, "POST", rotate.bytes, "{}");
    assert_refused(r, 400, "out_of_range", NULL);
    assert_int_equal(make_large(r, OTHER, 0), 201);
    assert_int_equal(revoke_key(r, OTHER, last_id(r)), 200);
    get(r, ENGINE, "/api/v1/bundle");
    assert_status(r, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_is_shown_once_and_works_at_once),
        TEST(pages_tell_each_key_once),
        TEST(a_wrong_request_is_named),
        TEST(an_admin_makes_keys_of_its_own_tenant_only),
        TEST(what_only_the_store_may_say_is_refused_in_a_request),
        TEST(a_revoked_key_is_dead_with_the_answer),
        TEST(a_revocation_names_engines_that_are_behind),
        TEST(a_rotation_without_overlap_names_them_too),
        TEST(another_key_does_not_say_for_an_engine_that_it_has_followed),
        TEST(a_key_that_has_ended_says_nothing_for_an_engine),
        TEST(who_was_behind_before_a_restart_is_behind_after_it),
        TEST(what_an_engine_has_is_not_sent_again_by_another_platform_or_after_a_restart),
        TEST(another_keys_tag_of_the_same_revision_proves_nothing),
        TEST(who_is_silent_for_a_week_is_waited_for_no_more),
        TEST(no_more_than_so_many_are_waited_for),
        TEST(a_revocation_waits_for_an_engine_that_follows),
        TEST(a_revocation_waits_for_an_engine_that_follows_another_platform),
        TEST(an_engine_that_began_anew_elsewhere_is_behind_though_its_old_wait_ends_later),
        TEST(a_rotated_key_overlaps_and_ends),
        TEST(a_rotation_overlaps_for_a_day),
        TEST(who_follows_a_key_lives_as_long_as_it_would_have),
        TEST(a_tenant_named_twice_is_the_same_or_refused),
        TEST(a_rotations_body_may_name_the_tenant),
        TEST(without_an_overlap_the_old_key_ends_at_once),
        TEST(an_overlap_makes_no_key_live_longer_and_is_recorded),
        TEST(a_key_made_on_the_data_directory_is_noticed),
        TEST(a_tenants_admin_rotates_no_ingest_key_however_new_it_is),
        TEST(the_name_of_changes_by_files_is_no_keys),
        TEST(no_tenant_has_all_the_room_for_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
