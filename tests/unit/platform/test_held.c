/* What is asked, and waits for a reader, while keys end. */
#include "rig.h"

#include <arpa/inet.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"

#define KEYS "/api/v1/keys"

/* All GETs of the platform's own: once one is asked, no reader does anything until it may go on; nor
 * does the writer, from the first change on that is asked once `holds_writer`. */
static struct {
    sem_t begun, go_on, asked;
    _Atomic bool holds_writer, counts_changes;
    void (*handles[64])(void *context, struct http_exchange *x);
} held;

static void hold(struct job *j, struct store *s)
{
    (void)j;
    (void)s;
    sem_post(&held.begun);
    sem_wait(&held.go_on);
}

static void handle_held(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    for (unsigned i = 0; i < p->config->readers; i++)
        assert_true(job_queue(job_create(p, NULL, hold), QUEUE_READER));
    for (unsigned i = 0; i < p->config->readers; i++) sem_wait(&held.begun);
    held.handles[x->route - p->routes](context, x);
    sem_post(&held.asked);
}

static void handle_change(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    if (atomic_exchange(&held.holds_writer, false)) {
        assert_true(job_queue(job_create(p, NULL, hold), QUEUE_WRITER));
        sem_wait(&held.begun);
    }
    held.handles[x->route - p->routes](context, x);
    if (atomic_load(&held.counts_changes)) sem_post(&held.asked);
}

static void go_on(const struct rig *r)
{
    for (unsigned i = 0; i < r->config.readers; i++) sem_post(&held.go_on);
}

static void hold_routes(struct platform *p)
{
    assert_true(p->route_count <= sizeof held.handles / sizeof *held.handles);
    for (size_t i = 0; i < p->route_count; i++) {
        struct http_route *route = &p->routes[i];
        held.handles[i] = route->handle;
        if (route->roles == 0) continue;
        route->handle = route->method == HTTP_GET ? handle_held : handle_change;
    }
}

static int set_up(void **state)
{
    rig_set_up(state);
    struct rig *r = *state;
    sem_init(&held.begun, 0, 0);
    sem_init(&held.go_on, 0, 0);
    sem_init(&held.asked, 0, 0);
    atomic_store(&held.holds_writer, false);
    atomic_store(&held.counts_changes, false);
    rig_stop(r);
    if (platform_create(&r->config, &r->platform, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    hold_routes(r->platform);
    assert_int_equal(pthread_create(&r->thread, NULL, rig_run, r->platform), 0);
    r->client = rig_connect(r);
    return 0;
}

static int tear_down(void **state)
{
    go_on(*state); /* a test that failed has not */
    return rig_tear_down(state);
}

/* Somebody who asks with the rig's last new key, and waits; a client and a memory of its own. */
struct asker {
    struct rig rig;
    char key[CREDENTIAL_TEXT + 1], id[ID_TEXT + 1];
    const char *method, *target, *body; /* no body: NULL */
    struct extra extra;
    pthread_t thread;
};

static void *ask(void *asker)
{
    struct asker *a = asker;
    struct str body = a->body == NULL ? (struct str){0} : str_from(a->body);
    call_with(&a->rig, a->key, a->method, a->target, body, &a->extra);
    return NULL;
}

static void asker_make(struct asker *a, struct rig *r, const char *row)
{
    *a = (struct asker){.rig = *r};
    arena_init(&a->rig.arena, 1 << 16, 512 << 20);
    a->rig.client = rig_connect(r);
    send_json(r, ROOT, "POST", KEYS, row);
    assert_status(r, 201);
    memcpy(a->key, json_text(r->json, STR("key")).bytes, CREDENTIAL_TEXT);
    memcpy(a->id, json_text(r->json, STR("id")).bytes, ID_TEXT);
}

/* Until the platform has taken the question. */
static void asker_send(struct asker *a, const char *method, const char *target, const char *body)
{
    a->method = method;
    a->target = target;
    a->body = body;
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
    sem_wait(&held.asked);
}

static void asker_ask(struct asker *a, const char *target) { asker_send(a, "GET", target, NULL); }

static void asker_end(struct asker *a)
{
    http_client_destroy(a->rig.client);
    arena_fini(&a->rig.arena);
}

static int revoke_by(struct rig *r, const char *key, const char *id)
{
    struct str target = arena_printf(&r->arena, KEYS "/%s", id);
    return call_with(r, key, "DELETE", target.bytes, (struct str){0}, NULL);
}

#define ADMIN_OF_ALL "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"admin\"]}"
#define ENGINE_OF_ALL                                                                              \
    "{\"name\":\"e\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"ingest\"],\"nodes\":[\"*\"],"   \
    "\"tenants\":[\"*\"]}"

static const struct {
    const char *row, *target;
} reads[] = {
    {ADMIN_OF_ALL, "/api/v1/audit?tenant_id=default"},
    {ADMIN_OF_ALL, "/api/v1/audit/trace/x?tenant_id=default"},
    {ADMIN_OF_ALL, "/api/v1/keys?tenant_id=default"},
    {ADMIN_OF_ALL, "/api/v1/policies?tenant_id=default"},
    {ADMIN_OF_ALL, "/api/v1/policies/none?tenant_id=default"}, /* nor that there is none */
    {ENGINE_OF_ALL, "/api/v1/audit/positions?node=node-1"},
    {ENGINE_OF_ALL, "/api/v1/bundle"},
};

static void what_is_read_is_not_told_to_a_key_that_was_revoked_meanwhile(void **state)
{
    struct rig *r = *state;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        struct asker a;
        asker_make(&a, r, reads[i].row);
        asker_ask(&a, reads[i].target);
        assert_int_equal(revoke_by(r, r->keys[ROOT], a.id), 200);
        go_on(r);
        pthread_join(a.thread, NULL);
        assert_refused(&a.rig, 401, "credential_revoked", NULL);
        asker_end(&a);
    }
}

/* It is rotated: what is left of it is a second. */
static uint64_t end_soon(struct rig *r, const char *id)
{
    int64_t ends_at;
    struct str target = arena_printf(&r->arena, KEYS "/%s/rotate", id);
    send_json(r, ROOT, "POST", target.bytes, "{\"overlap_seconds\":1}");
    assert_status(r, 201);
    assert_true(
        time_read_any(json_text(json_get(r->json, STR("replaces")), STR("expires_at")), &ends_at));
    return (uint64_t)ends_at;
}

static void what_is_read_is_not_told_to_a_key_that_has_expired_meanwhile(void **state)
{
    struct rig *r = *state;
    struct asker a;
    asker_make(&a, r, ADMIN_OF_ALL);
    asker_ask(&a, "/api/v1/audit?tenant_id=default");
    uint64_t ends_at = end_soon(r, a.id);
    while (world_now_ms() < ends_at) usleep(1000);
    go_on(r);
    pthread_join(a.thread, NULL);
    assert_refused(&a.rig, 401, "credential_expired", NULL);
    asker_end(&a);
}

static void who_holds_is_told_what_was_read(void **state)
{
    struct rig *r = *state;
    struct asker a;
    asker_make(&a, r, ADMIN_OF_ALL);
    asker_ask(&a, "/api/v1/audit?tenant_id=default");
    send_json(r, ROOT, "POST", KEYS, ENGINE_OF_ALL); /* another table of keys, and it is in it */
    assert_status(r, 201);
    go_on(r);
    pthread_join(a.thread, NULL);
    assert_status(&a.rig, 200);
    asker_end(&a);
}

static void what_a_key_has_changed_is_told_to_it_though_it_ends_itself(void **state)
{
    struct rig *r = *state;
    struct asker a;
    asker_make(&a, r, ADMIN_OF_ALL);
    assert_int_equal(revoke_by(r, a.key, a.id), 200);
    assert_string_equal(r->body.bytes, "{\"behind\":[],\"revoked\":true}");
    assert_int_equal(revoke_by(r, a.key, a.id), 401);
    asker_end(&a);
}

/* Whether it was taken: its key had not ended before. */
static bool ask_bundle(struct rig *r, const char *key, const char *target, const char *etag)
{
    const struct extra known = {{"If-None-Match"}, {etag}, NULL};
    go_on(r);
    call_with(r, key, "GET", target, (struct str){0}, &known);
    return sem_trywait(&held.asked) == 0;
}

/* Asks with what there is, and waits until a second after the end of its key. */
static bool waits_beyond_its_end(struct rig *r, unsigned seconds)
{
    char key[CREDENTIAL_TEXT + 1] = "", etag[96], end[TIME_TEXT + 1] = "", target[64];
    time_write(world_now_ms() + 1000 * seconds, end);
    send_json(
        r, ROOT, "POST", KEYS,
        arena_printf(&r->arena,
                     "{\"name\":\"e\",\"owner\":\"o\",\"tenant\":\"*\",\"roles\":[\"ingest\"],"
                     "\"expires_at\":\"%s\"}",
                     end)
            .bytes);
    assert_status(r, 201);
    memcpy(key, json_text(r->json, STR("key")).bytes, CREDENTIAL_TEXT);
    if (!ask_bundle(r, key, "/api/v1/bundle", "\"0\"")) return false;
    snprintf(etag, sizeof etag, "%s", r->etag);
    snprintf(target, sizeof target, "/api/v1/bundle?wait=%u", seconds + 1);
    return ask_bundle(r, key, target, etag);
}

/* A 304 at the end of its wait would say that there is nothing newer. */
static void an_engine_whose_key_expires_while_it_waits_is_told_so(void **state)
{
    struct rig *r = *state;
    unsigned seconds = 1;
    while (!waits_beyond_its_end(r, seconds)) seconds *= 2; /* the machine is slow */
    assert_refused(r, 401, "credential_expired", NULL);
}

/* How often the key was refused, as the trail has it; whatever is not recorded yet is at the end. */
static uint64_t refusals_recorded(struct rig *r, const char *key_id)
{
    uint64_t count = 0;
    rig_stop(r);
    rig_start(r);
    get(r, ROOT, "/api/v1/audit?tenant_id=default&kind=auth.failed");
    assert_status(r, 200);
    const struct json *events = json_get(r->json, STR("events"));
    for (const struct json *e = events->child; e != NULL; e = e->next)
        if (str_equal(json_text(e, STR("key_id")), str_from(key_id)))
            count += json_u64(e, STR("count"), 0);
    return count;
}

static void a_key_that_ended_while_it_waited_is_recorded_as_refused(void **state)
{
    struct rig *r = *state;
    struct asker a;
    asker_make(&a, r, ADMIN_OF_ALL);
    asker_ask(&a, "/api/v1/audit?tenant_id=default");
    assert_int_equal(revoke_by(r, r->keys[ROOT], a.id), 200);
    go_on(r);
    pthread_join(a.thread, NULL);
    assert_refused(&a.rig, 401, "credential_revoked", NULL);
    asker_end(&a);
    assert_int_equal(refusals_recorded(r, a.id), 1);
}

/* Both wait for the writer: the end of the key has its turn first. */
static void a_key_that_ended_before_the_turn_of_its_change_is_recorded_as_refused(void **state)
{
    struct rig *r = *state;
    struct asker a, ends;
    asker_make(&a, r, ADMIN_OF_ALL);
    asker_make(&ends, r, ADMIN_OF_ALL);
    atomic_store(&held.holds_writer, true);
    atomic_store(&held.counts_changes, true);
    asker_send(&ends, "DELETE", arena_printf(&r->arena, KEYS "/%s", a.id).bytes, NULL);
    asker_send(&a, "POST", KEYS, ADMIN_OF_ALL);
    go_on(r);
    pthread_join(a.thread, NULL);
    pthread_join(ends.thread, NULL);
    assert_status(&ends.rig, 200);
    assert_refused(&a.rig, 401, "credential_revoked", NULL);
    asker_end(&ends);
    asker_end(&a);
    assert_int_equal(refusals_recorded(r, a.id), 1);
}

static bool is_listening(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = connect(fd, (const struct sockaddr *)&to, sizeof to) == 0;
    close(fd);
    return yes;
}

/* Nobody is accepted any more; who was goes on. */
static void begin_the_end(struct rig *r)
{
    const char *port = strrchr(platform_address(r->platform, SOCKET_TCP), ':');
    uint16_t number = (uint16_t)strtoul(port + 1, NULL, 10);
    platform_stop(r->platform);
    while (is_listening(number)) usleep(1000);
}

static void a_key_that_is_refused_at_the_very_end_is_recorded(void **state)
{
    struct rig *r = *state;
    struct asker a;
    asker_make(&a, r, ADMIN_OF_ALL);
    asker_ask(&a, "/api/v1/audit?tenant_id=default");
    assert_int_equal(revoke_by(r, r->keys[ROOT], a.id), 200);
    begin_the_end(r);
    go_on(r);
    pthread_join(a.thread, NULL);
    assert_refused(&a.rig, 401, "credential_revoked", NULL);
    asker_end(&a);
    assert_int_equal(refusals_recorded(r, a.id), 1);
}

/* The engines that are behind when somebody's key is revoked now. */
static struct str revoke_one(struct rig *r)
{
    send_json(r, ROOT, "POST", KEYS,
              "{\"name\":\"p\",\"owner\":\"o\",\"tenant\":\"default\",\"roles\":[\"agent\"]}");
    assert_status(r, 201);
    struct str id = arena_copy(&r->arena, json_text(r->json, STR("id")));
    struct str text = arena_printf(&r->arena, "%.*s", STR_FORMAT(id));
    assert_int_equal(revoke_by(r, r->keys[ROOT], text.bytes), 200);
    return json_get(r->json, STR("behind"))->raw;
}

/* What it is sent may have been read before the revocation. */
static void an_engine_that_is_new_is_behind_from_when_it_asks(void **state)
{
    struct rig *r = *state;
    struct asker a;
    asker_make(&a, r, ENGINE_OF_ALL);
    assert_true(str_equal(revoke_one(r), STR("[]")));
    a.extra = (struct extra){{"Writ-Node"}, {"new"}, NULL};
    asker_ask(&a, "/api/v1/bundle");
    assert_true(str_equal(revoke_one(r), STR("[\"new\"]")));
    go_on(r);
    pthread_join(a.thread, NULL);
    assert_status(&a.rig, 200);
    asker_end(&a);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_read_is_not_told_to_a_key_that_was_revoked_meanwhile),
        TEST(what_is_read_is_not_told_to_a_key_that_has_expired_meanwhile),
        TEST(a_key_that_ended_while_it_waited_is_recorded_as_refused),
        TEST(a_key_that_ended_before_the_turn_of_its_change_is_recorded_as_refused),
        TEST(a_key_that_is_refused_at_the_very_end_is_recorded),
        TEST(who_holds_is_told_what_was_read),
        TEST(what_a_key_has_changed_is_told_to_it_though_it_ends_itself),
        TEST(an_engine_whose_key_expires_while_it_waits_is_told_so),
        TEST(an_engine_that_is_new_is_behind_from_when_it_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
