/* shard_scene.h - one shard that is stepped, and its twin that is told of it by records alone.
 *
 * scene_ask() does what an engine does with a call: step it (again, while it wants that), append
 * the records to a journal, tell the shard their block, and keep what was woken. The twin applies
 * each record's delta as recovery does; scene_compare() holds both against each other by what they
 * save. */
#ifndef TESTS_SHARDS_SHARD_SCENE_H
#define TESTS_SHARDS_SHARD_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "event/event.h"
#include "shards/serialize.h"
#include "shards/shard.h"

enum { SCENE_RECORDS_MAX = 4096, SCENE_CALLS_MAX = 4096 };

static const uint64_t scene_start_ms = 1795166400123; /* 2026-11-20T09:20:00.123Z */

struct scene_record {
    struct str event, delta;
    char kind[32], id[ID_TEXT];
};

struct scene {
    struct shard *shard, *twin;
    struct effects effects;
    struct arena effect_arena, kept, reading;
    struct chance chance;
    uint64_t now_ms, ordinal, block, next_ms;
    struct scene_record records[SCENE_RECORDS_MAX];
    size_t record_count;
    struct call *woken[SCENE_CALLS_MAX];
    size_t woken_count;
    struct effect_notice notice; /* the newest */
    size_t notice_count;
    unsigned steps;          /* of the last call */
    struct arena arenas[64]; /* of calls, in turn */
    unsigned arena_next;
    struct call *calls[SCENE_CALLS_MAX];
    size_t call_count;
};

static inline void scene_begin(struct scene *s, const struct shard_options *options)
{
    s->shard = shard_create(options);
    s->twin = shard_create(options);
}

static inline int scene_set_up(void **state)
{
    static const struct shard_options options = {.count = 1};
    struct scene *s = calloc(1, sizeof *s);
    arena_init(&s->effect_arena, 1 << 16, 4 << 20);
    arena_init(&s->kept, 1 << 16, 256 << 20);
    arena_init(&s->reading, 1 << 16, 16 << 20);
    for (size_t i = 0; i < sizeof s->arenas / sizeof *s->arenas; i++)
        arena_init(&s->arenas[i], 1 << 12, 16 << 20);
    s->effects.arena = &s->effect_arena;
    effects_reset(&s->effects);
    s->now_ms = scene_start_ms;
    scene_begin(s, &options);
    *state = s;
    return 0;
}

static inline int scene_tear_down(void **state)
{
    struct scene *s = *state;
    shard_destroy(s->shard);
    shard_destroy(s->twin);
    for (size_t i = 0; i < s->call_count; i++) free(s->calls[i]);
    for (size_t i = 0; i < sizeof s->arenas / sizeof *s->arenas; i++) arena_fini(&s->arenas[i]);
    arena_fini(&s->effect_arena);
    arena_fini(&s->kept);
    arena_fini(&s->reading);
    free(s);
    return 0;
}

/* The shard anew, with other bounds. */
static inline void scene_restart(struct scene *s, const struct shard_options *options)
{
    shard_destroy(s->shard);
    shard_destroy(s->twin);
    scene_begin(s, options);
}

/* ---- records ---- */

static inline void scene_apply(struct shard *to, struct str event, struct str delta)
{
    struct delta_entry e;
    struct fault f = {.text = ""};
    enum err err = ERR_OK;
    while (delta_next(&delta, &e, &err)) {
        enum err applied = shard_apply(to, &e, event, &f);
        if (applied != ERR_OK) print_error("%s\n", f.text);
        assert_int_equal(applied, ERR_OK);
    }
    assert_int_equal(err, ERR_OK);
}

static inline void scene_record(struct scene *s, const struct effect_record *r)
{
    struct event e;
    struct fault f;
    assert_true(s->record_count < SCENE_RECORDS_MAX);
    struct scene_record *kept = &s->records[s->record_count++];
    kept->event = arena_copy(&s->kept, r->event);
    kept->delta = arena_copy(&s->kept, r->delta);
    arena_reset(&s->reading);
    enum err err = event_read(kept->event, &s->reading, &e, &f);
    if (err != ERR_OK) print_error("%s: %.*s\n", f.text, STR_FORMAT(kept->event));
    assert_int_equal(err, ERR_OK);
    size_t size = e.kind.size < sizeof kept->kind - 1 ? e.kind.size : sizeof kept->kind - 1;
    memcpy(kept->kind, e.kind.bytes, size);
    kept->kind[size] = '\0';
    assert_int_equal(e.event_id.size, ID_TEXT);
    memcpy(kept->id, e.event_id.bytes, ID_TEXT);
    assert_memory_not_equal(kept->id, "evt_0000000000", 14); /* it says when */
    for (const struct scene_record *other = s->records; other < kept; other++)
        assert_memory_not_equal(other->id, kept->id, ID_TEXT);
    scene_apply(s->twin, kept->event, kept->delta);
}

static inline size_t scene_perform(struct scene *s)
{
    struct effects *e = &s->effects;
    size_t bytes = 0;
    for (size_t i = 0; i < e->record_count; i++) {
        bytes += e->records[i].event.size + e->records[i].delta.size + 16;
        scene_record(s, &e->records[i]);
    }
    if (e->record_count > 0) shard_recorded(s->shard, ++s->block);
    for (size_t i = 0; i < e->notice_count; i++) {
        s->notice = e->notices[i];
        s->notice_count++;
    }
    for (struct call *c = e->woken; c != NULL; c = c->next) {
        assert_true(c->answered);
        assert_true(s->woken_count < SCENE_CALLS_MAX);
        s->woken[s->woken_count++] = c;
    }
    return bytes;
}

/* The event of record `i`, from the end where it is negative; good until the next one is read. */
static inline struct event scene_event(struct scene *s, int i)
{
    struct event e = {0};
    struct fault f;
    size_t at = i < 0 ? s->record_count - (size_t)-i : (size_t)i;
    assert_true(at < s->record_count);
    arena_reset(&s->reading);
    assert_int_equal(event_read(s->records[at].event, &s->reading, &e, &f), ERR_OK);
    return e;
}

#define assert_text(text, literal)                                                                 \
    do {                                                                                           \
        struct str text_is = (text);                                                               \
        if (!str_equal(text_is, STR(literal))) print_error("it is %.*s\n", STR_FORMAT(text_is));   \
        assert_true(str_equal(text_is, STR(literal)));                                             \
    } while (0)

#define assert_last_kinds(s, ...) scene_assert_last_kinds((s), (const char *[]){__VA_ARGS__, NULL})
static inline void scene_assert_last_kinds(struct scene *s, const char **kinds)
{
    size_t count = 0;
    while (kinds[count] != NULL) count++;
    assert_true(s->record_count >= count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(s->records[s->record_count - count + i].kind, kinds[i]);
}

/* ---- calls ---- */

static inline struct call *scene_call(struct scene *s, enum call_kind kind, struct str principal)
{
    assert_true(s->call_count < SCENE_CALLS_MAX);
    struct call *c = s->calls[s->call_count++] = calloc(1, sizeof *c);
    c->arena = &s->arenas[s->arena_next++ % (sizeof s->arenas / sizeof *s->arenas)];
    arena_reset(c->arena);
    c->kind = kind;
    c->tenant = STR("acme");
    c->requester = (struct requester){.principal = principal,
                                      .owner = principal,
                                      .key_id = STR("key_01JD0000000000000000000000")};
    c->id = id_make(s->now_ms, &s->chance);
    return c;
}

/* As an owner runs it, whose room for records is what the call says it needs. */
static inline const char *call_name(enum call_kind k)
{
    static const char *const names[] = {
#define CALL_KIND(name, shards, effect, ordinal, revocation, text) #name,
#include "shards/call.def"
#undef CALL_KIND
    };
    return names[k];
}

static inline void scene_ask(struct scene *s, struct call *c)
{
    s->steps = 0;
    c->now_ms = s->now_ms;
    do {
        size_t most = call_record_most(c);
        assert_true(most <= LIMIT_RESERVE_BYTES);
        shard_step(s->shard, c, &s->effects);
        size_t bytes = scene_perform(s);
        if (bytes > most)
            print_error("%s recorded %zu bytes, at most %zu were promised\n", call_name(c->kind),
                        bytes, most);
        assert_true(bytes <= most);
        s->steps++;
        assert_true(s->steps < 1000);
    } while (s->effects.again);
}

/* Lets time pass, and does all that it brings. How many records that made. */
static inline size_t scene_tick(struct scene *s, uint64_t ms)
{
    size_t before = s->record_count;
    s->now_ms += ms;
    while (shard_tick(s->shard, s->now_ms, &s->chance, &s->effects, &s->next_ms)) {
        assert_true(s->effects.record_count <= 1);
        assert_true(scene_perform(s) <= shard_tick_record_most());
    }
    assert_int_equal(s->effects.record_count, 0);
    shard_prune(s->twin, s->now_ms);
    return s->record_count - before;
}

/* ---- comparing ---- */

struct scene_saved {
    struct str *entries;
    size_t count, room;
    struct arena arena;
};

static inline enum err scene_saved_put(void *context, struct str entry)
{
    struct scene_saved *v = context;
    if (v->count == v->room) {
        v->room = v->room == 0 ? 64 : v->room * 2;
        v->entries = realloc(v->entries, v->room * sizeof *v->entries);
    }
    v->entries[v->count++] = arena_copy(&v->arena, entry);
    return ERR_OK;
}

static inline int scene_entry_order(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static inline void scene_save(const struct shard *s, struct scene_saved *ret)
{
    *ret = (struct scene_saved){0};
    arena_init(&ret->arena, 1 << 16, (size_t)1 << 30);
    assert_int_equal(shard_save(s, scene_saved_put, ret), ERR_OK);
    if (ret->count > 0) qsort(ret->entries, ret->count, sizeof *ret->entries, scene_entry_order);
}

static inline void scene_saved_drop(struct scene_saved *v)
{
    arena_fini(&v->arena);
    free(v->entries);
}

/* Both hold the same, byte by byte; how many objects that is. */
static inline size_t scene_compare(const struct shard *a, const struct shard *b)
{
    struct scene_saved first, second;
    scene_save(a, &first);
    scene_save(b, &second);
    size_t count = first.count;
    assert_int_equal(first.count, second.count);
    for (size_t i = 0; i < first.count; i++) {
        assert_int_equal(first.entries[i].size, second.entries[i].size);
        assert_memory_equal(first.entries[i].bytes, second.entries[i].bytes, first.entries[i].size);
    }
    scene_saved_drop(&first);
    scene_saved_drop(&second);
    return count;
}

/* ---- reviews ---- */

enum { SCENE_SLOT = 77 };

struct scene_review { /* what differs from the usual; zeros: as usual */
    struct str actor, user, principal, owner, acting_for, action, trace_id, requirements, tenant,
        token_actor;
    uint64_t expires_in_ms, good_for_ms;
    uint8_t binding;
    size_t args_bytes;
    bool asks_proof;
};

static inline struct str scene_or(struct str given, struct str otherwise)
{
    return str_is_absent(given) ? otherwise : given;
}

static inline struct str scene_event_text(struct scene *s, const char *kind,
                                          const struct event *like, struct arena *arena)
{
    char id[ID_TEXT];
    struct event e = *like;
    id_write("evt_", id_make(s->now_ms, &s->chance), id);
    e.event_id = str_of(id, ID_TEXT);
    e.kind = str_from(kind);
    char *bytes = arena_bytes(arena, LIMIT_EVENT_BYTES);
    struct buf b = buf_over(bytes, LIMIT_EVENT_BYTES);
    event_put(&b, &e);
    assert_false(b.overflow);
    arena_trim(arena, bytes, LIMIT_EVENT_BYTES, b.size);
    return buf_view(&b);
}

static inline struct call *scene_enqueue_call(struct scene *s, struct scene_review r)
{
    char args[LIMIT_EVENT_BYTES];
    char id[ID_TEXT];
    struct str actor = scene_or(r.actor, STR("invoice_bot")),
               principal = scene_or(r.principal, STR("fleet"));
    struct call *c = scene_call(s, CALL_ENQUEUE, principal);
    c->slot = SCENE_SLOT;
    c->tenant = scene_or(r.tenant, c->tenant);
    c->requester.owner = scene_or(r.owner, STR("erin"));
    c->requester.token_actor = r.token_actor;
    struct review_facts f = {.id = slot_id(id_make(s->now_ms, &s->chance), SCENE_SLOT),
                             .ordinal = ++s->ordinal,
                             .tenant = c->tenant,
                             .subject = str_is_absent(r.user) ? actor : r.user,
                             .is_user = !str_is_absent(r.user),
                             .principal = principal,
                             .owner = c->requester.owner,
                             .acting_for = r.acting_for,
                             .action = scene_or(r.action, STR("issue_refund")),
                             .trace_id = scene_or(r.trace_id, STR("trace-1")),
                             .enqueued_ms = s->now_ms,
                             .expires_ms =
                                 s->now_ms + (r.expires_in_ms > 0 ? r.expires_in_ms : 1800000),
                             .good_for_ms = r.good_for_ms > 0 ? r.good_for_ms : 900000,
                             .requirements = scene_or(r.requirements, STR("[{\"approvals\":1}]")),
                             .votes_approved = STR("[[\"review\",\"payments\",\"large\"]]"),
                             .asks_proof = r.asks_proof,
                             .state = REVIEW_PENDING};
    memset(f.binding.bytes, r.binding, sizeof f.binding.bytes);
    f.binding.bytes[0] =
        (uint8_t)(f.subject.size +
                  (uint8_t)f.subject.bytes[f.subject.size - 1]); /* it is of the subject too */
    f.request = f.binding;
    f.request.bytes[31] ^= 0x80;
    id_write("rev_", f.id, id);
    struct event e = {.tenant_id = f.tenant,
                      .timestamp = s->now_ms,
                      .action = f.action,
                      .acting_for = f.acting_for,
                      .trace_id = f.trace_id,
                      .review_id = str_of(id, ID_TEXT),
                      .request_id = STR("req_01JD0000000000000000000000"),
                      .rule = STR("review:large"),
                      .policy_name = STR("payments"),
                      .policy_version = 7,
                      .has_policy_version = true,
                      .key_id = STR("key_01JD0000000000000000000000"),
                      .mode = STR("live"),
                      .decision = STR("human_review")};
    if (f.is_user)
        e.user_id = f.subject;
    else
        e.actor = f.subject;
    if (r.args_bytes > 0) {
        memset(args, 'x', r.args_bytes);
        memcpy(args, "{\"a\":\"", 6);
        memcpy(args + r.args_bytes - 2, "\"}", 2);
        e.args = str_of(args, r.args_bytes);
    }
    c->records[0] = scene_event_text(s, "decision", &e, c->arena);
    c->records[1] = f.item = scene_event_text(s, "review.enqueued", &e, c->arena);
    c->enqueue.facts = f;
    c->enqueue.approved_below = UINT64_MAX;
    return c;
}

static inline struct id scene_enqueue(struct scene *s, struct scene_review r)
{
    struct call *c = scene_enqueue_call(s, r);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->answered && !c->enqueue.same);
    return c->enqueue.facts.id;
}

/* The request has a review already, and its decision names that one. */
static inline struct call *scene_share_call(struct scene *s, const struct call *asked,
                                            struct str trace_id)
{
    struct call *c = scene_call(s, CALL_SHARE, asked->requester.principal);
    c->slot = SCENE_SLOT;
    c->enqueue.facts.id = asked->enqueue.facts.id;
    c->enqueue.facts.trace_id = trace_id;
    c->enqueue.facts.state = asked->enqueue.facts.state;
    c->records[0] = asked->records[0];
    return c;
}

static inline struct call *scene_share(struct scene *s, const struct call *asked,
                                       struct str trace_id)
{
    struct call *c = scene_share_call(s, asked, trace_id);
    scene_ask(s, c);
    return c;
}

/* A call on one review by a key of that name, which is its owner's too, but for who asked. */
static inline struct call *scene_on(struct scene *s, enum call_kind kind, struct id id,
                                    struct str principal)
{
    struct call *c = scene_call(s, kind, principal);
    c->slot = (uint16_t)slot_of_id(id);
    c->review.id = id;
    c->requester.sees_all = kind == CALL_APPROVE || kind == CALL_DENY;
    if (!c->requester.sees_all) c->requester.owner = STR("erin"); /* as who asked */
    c->review.principal = c->review.owner = c->review.by = principal;
    c->review.meets = UINT32_MAX;
    c->review.key = (struct id){{1, 2, 3}};
    c->review.proof = REVIEW_PROOF_OWNER;
    return c;
}

static inline struct call *scene_do(struct scene *s, enum call_kind kind, struct id id,
                                    struct str principal)
{
    struct call *c = scene_on(s, kind, id, principal);
    scene_ask(s, c);
    return c;
}

static inline struct id scene_approved(struct scene *s)
{
    struct id id = scene_enqueue(s, (struct scene_review){0});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    return id;
}

/* As a reviewer sees it. */
static inline struct review_facts scene_look(struct scene *s, struct id id)
{
    struct call *c = scene_on(s, CALL_REVIEW_GET, id, STR("viewer"));
    c->requester.sees_all = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    return c->review.facts;
}

static inline struct call *scene_redeem_call(struct scene *s, struct id id, struct str principal,
                                             uint8_t retry_key, uint8_t retry_body)
{
    struct call *c = scene_on(s, CALL_REDEEM, id, principal);
    struct event e = {.tenant_id = c->tenant,
                      .timestamp = s->now_ms,
                      .action = STR("issue_refund"),
                      .decision = STR("allow"),
                      .actor = STR("invoice_bot"),
                      .mode = STR("live")};
    c->records[0] = scene_event_text(s, "decision", &e, c->arena);
    c->records[1] = scene_event_text(s, "review.redeemed", &e, c->arena);
    memset(c->review.binding.bytes, 0, REVIEW_DIGEST_BYTES);
    c->review.binding.bytes[0] = (uint8_t)(11 + 't'); /* of invoice_bot */
    c->review.retry.given = retry_key != 0;
    memset(c->review.retry.key.bytes, retry_key, REVIEW_DIGEST_BYTES);
    memset(c->review.retry.body.bytes, retry_body, REVIEW_DIGEST_BYTES);
    return c;
}

/* Where who asked has no memory for what it is told. */
static inline void scene_without_room(struct call *c)
{
    while (arena_bytes(c->arena, 1) != NULL) {
    }
}

static inline void scene_suspend(struct scene *s, struct str actor)
{
    struct call *c = scene_call(s, CALL_SUSPEND, STR("root"));
    c->slot = SCENE_SLOT;
    c->actor.actor = actor;
    c->actor.reason = STR("it misbehaves");
    c->actor.ordinal = ++s->ordinal;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
}

#define scene_test(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

#endif
