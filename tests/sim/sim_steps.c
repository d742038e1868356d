/* sim_steps.c - the steps of a request for a decision, against owners and a journal that fail.
 *
 *   sim_steps [--count N] [--seed S]
 *
 * The engine's own operation.c and authorization*.c run here, with the real policies and shards.
 * Linked around them is a world without threads, sockets or a disk (--wrap, see tests/CMakeLists.txt):
 * it delivers each call and each result late and in any order, some results twice, and loses some, so
 * that their requests never end. Now and then the journal and the shards have no room. Each life has up
 * to three reactors, tokens with few uses, limits that several requests meet, Idempotency-Keys, reviews
 * and their redemptions, and suspensions in between. It checks (and prints the seed of a failure) that
 *
 *   - each request gets one reply, unless a result of it was lost, and no step runs inside another;
 *   - what a request counted, spent, claimed or held is what its one record has, or was given back;
 *   - an allow has a record with all of its counts, a refusal has none; no limit lets more through;
 *   - at the end each counter holds what the records have, and what lost requests took with them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "engine/decision/redeem.h"
#include "shards/delta.h"
#include "shards/mailbox.h"

enum { REACTORS_MAX = 3, OPS_MAX = 48, PENDING_MAX = 512, KEYS_MAX = 64, REVIEWS_MAX = 16 };
enum { TOKENS = 3, ACTORS = 3, OP_ARENA_FIRST = 64 << 10, OP_ARENA_MOST = 4 << 20 };

static uint64_t seed_now, state, clock_ms;
static struct {
    uint64_t requests, decided, allowed, refused, replayed, lost, doubled, away, redeemed, shared,
        given_back, no_room, retried, stopped;
} sums;

static uint64_t roll(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static uint64_t below(uint64_t n) { return roll() % n; }
static bool percent(unsigned p) { return below(100) < p; }

static void refill(void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) ((uint8_t *)bytes)[i] = (uint8_t)roll();
}

static _Noreturn void fail(const char *what, uint64_t expected, uint64_t got)
{
    fprintf(stderr,
            "FAIL %s: expected %" PRIu64 ", got %" PRIu64 "; repeat with --seed %" PRIu64
            " --count 1\n",
            what, expected, got, seed_now);
    exit(1);
}

static void must(bool holds, const char *what)
{
    if (!holds) fail(what, 1, 0);
}

static void same(const char *what, uint64_t expected, uint64_t got)
{
    if (expected != got) fail(what, expected, got);
}

/* ---- the account ---- */

struct counter { /* of one limit's key */
    struct limit_request ask;
    uint64_t recorded, lost;
};

struct op { /* one request, and what the owners have done for it */
    struct redemption *r;
    struct arena arena;
    struct http_exchange x;
    struct token_claims token;
    unsigned reactor;
    bool is_lost;                                        /* a call or a result of it was lost */
    int status;                                          /* of its reply; 0: none */
    int64_t counts[KEYS_MAX], recorded_counts[KEYS_MAX]; /* by counter */
    int64_t shadow, uses, recorded_uses, claims, keys;
    unsigned records, outcomes;
    char review_name[ID_TEXT];
    char text[512];
};

enum item_kind { ITEM_CALL, ITEM_RESULT };
struct item {
    enum item_kind kind;
    struct call *call;
};

static struct world {
    unsigned reactors, loss, doubling, lateness, fullness;
    struct op ops[OPS_MAX];
    unsigned op_count;
    struct item pending[PENDING_MAX];
    unsigned pending_count;
    struct counter counters[KEYS_MAX];
    unsigned counter_count;
    struct {
        struct id id;
        char text[512];
        bool is_approved;
    } reviews[REVIEWS_MAX];
    unsigned review_count;
    struct id tokens[TOKENS];
    struct effects effects;
    struct arena arena, calls;
    uint64_t ordinal, block;
    struct op *running; /* whose steps the loop takes */
} w;

static struct engine engine;
static struct bundle *bundle;
static struct metrics_sheet *sheet;
static struct hasher *hasher;

static struct op *op_of(const void *operation)
{
    for (unsigned i = 0; i < w.op_count; i++)
        if ((const void *)w.ops[i].r == operation) return &w.ops[i];
    fail("a call of nobody", 0, 1);
}

static unsigned counter_of(const struct limit_request *ask)
{
    for (unsigned i = 0; i < w.counter_count; i++)
        if (memcmp(w.counters[i].ask.key.bytes, ask->key.bytes, sizeof ask->key.bytes) == 0)
            return i;
    check(w.counter_count < KEYS_MAX);
    w.counters[w.counter_count].ask = *ask;
    return w.counter_count++;
}

/* One record of this request. */
static void take_record(struct op *o, struct str delta)
{
    struct delta_entry e;
    enum err err;
    o->records++;
    while (delta_next(&delta, &e, &err)) {
        struct limit_request ask;
        struct limit_told told;
        struct retry_outcome kept;
        struct id token;
        uint32_t uses;
        if (delta_counts(e.kind) && delta_read_counted(&e, &ask, &told)) {
            unsigned k = counter_of(&ask);
            o->recorded_counts[k]++;
            w.counters[k].recorded++;
        } else if (e.kind == DELTA_TOKEN_SPENT && delta_read_spent(e.body, &token, &uses)) {
            o->recorded_uses += uses;
        } else if (e.kind == DELTA_RETRY_KEPT && delta_read_kept(e.body, &kept)) {
            o->outcomes++;
        }
    }
    same("a delta can be read", ERR_OK, err);
}

/* What the shard has done for its request by answering this call. */
static void take_answer(const struct call *c)
{
    if (c->err != ERR_OK || c->sender == NULL) return;
    struct op *o = op_of(c->sender);
    switch (c->kind) {
    case CALL_COUNT:
        if (!c->limit.told.counted || c->limit.ask.look_only || c->limit.ask.is_old) return;
        if (c->limit.ask.is_shadow)
            o->shadow++;
        else
            o->counts[counter_of(&c->limit.ask)]++;
        return;
    case CALL_UNCOUNT: {
        int64_t *held = c->limit.ask.is_shadow ? &o->shadow : &o->counts[counter_of(&c->limit.ask)];
        must(*held > 0, "it gives back what it has counted");
        --*held;
        sums.given_back++;
        return;
    }
    case CALL_SPEND: o->uses += c->token.use == TOKEN_SPENT; return;
    case CALL_UNSPEND:
        must(o->uses-- > 0, "it gives back the use that it has spent");
        sums.given_back++;
        return;
    case CALL_CLAIM: o->claims += c->review.claimed; return;
    case CALL_UNCLAIM: must(o->claims-- > 0, "it gives back its claim"); return;
    case CALL_RETRY_BEGIN:
        o->keys += c->outcome.is_held;
        sums.retried += !c->outcome.is_held;
        return;
    case CALL_RETRY_KEEP:
        must(o->keys-- > 0 && o->outcomes == 1, "it keeps the recorded outcome of a key it holds");
        return;
    case CALL_RETRY_DROP: must(o->keys-- > 0, "it drops a key that it holds"); return;
    case CALL_ENQUEUE:
        if (!c->enqueue.same) take_record(o, c->spent);
        return;
    case CALL_SHARE:
        sums.shared++;
        take_record(o, c->spent);
        return;
    case CALL_REDEEM:
        if (c->review.replayed) return;
        o->claims = 0;
        sums.redeemed++;
        take_record(o, c->spent);
        return;
    default: return;
    }
}

/* ---- the world around the steps ---- */

static void push(enum item_kind kind, struct call *c)
{
    if (percent(w.loss) && c->sender != NULL) {
        op_of(c->sender)->is_lost = true;
        sums.lost++;
        return;
    }
    check(w.pending_count + 2 <= PENDING_MAX);
    w.pending[w.pending_count++] = (struct item){.kind = kind, .call = c};
    if (kind == ITEM_RESULT && percent(w.doubling)) {
        w.pending[w.pending_count++] = (struct item){.kind = kind, .call = c};
        sums.doubled++;
    }
}

static void take_woken(void)
{
    for (struct call *c = w.effects.woken, *next; c != NULL; c = next) {
        next = c->next;
        take_answer(c);
        push(ITEM_RESULT, c);
    }
    w.effects.woken = NULL;
}

/* True: answered. */
static bool step(struct call *c)
{
    struct shard *s = engine.shards[c->to];
    if (call_ordinal(c) != NULL) *call_ordinal(c) = ++w.ordinal;
    c->now_ms = clock_ms;
    /* a full journal refuses what needs a record before anything changes */
    if (call_record_most(c) > 0 && percent(w.fullness)) {
        c->err = ERR_JOURNAL_FULL;
        c->answered = true;
        sums.no_room++;
        return true;
    }
    do {
        shard_step(s, c, &w.effects);
        if (w.effects.record_count > 0) shard_recorded(s, ++w.block);
        take_woken();
    } while (!c->answered && w.effects.again);
    shard_recount(s);
    if (c->answered) take_answer(c);
    return c->answered;
}

bool __wrap_owner_call(struct engine_reactor *r, struct call *c);
bool __wrap_owner_call(struct engine_reactor *r, struct call *c)
{
    (void)r;
    if (percent(w.lateness)) {
        push(ITEM_CALL, c); /* held: no block is free */
        return false;
    }
    if (!step(c)) return false;
    if (!percent(w.lateness)) return true;
    push(ITEM_RESULT, c);
    return false;
}

void __wrap_mailbox_send(struct post *p, unsigned from, unsigned to, struct call *c);
void __wrap_mailbox_send(struct post *p, unsigned from, unsigned to, struct call *c)
{
    (void)p, (void)from, (void)to;
    sums.away++;
    push(ITEM_CALL, c);
}

bool __wrap_owner_synced(struct engine_reactor *r, struct call *c);
bool __wrap_owner_synced(struct engine_reactor *r, struct call *c)
{
    (void)r;
    if (percent(50)) return true;
    push(ITEM_RESULT, c);
    return false;
}

enum err __wrap_offload_put(struct offload *o, struct offload_job *job, struct fault *f);
enum err __wrap_offload_put(struct offload *o, struct offload_job *job, struct fault *f)
{
    (void)o;
    if (percent(10)) return fault_plain(f, ERR_OVERLOADED);
    job->run(job);
    push(ITEM_RESULT, &link_owner(job, struct operation, job)->call);
    return ERR_OK;
}

enum err __wrap_commit_records(struct committer *c, const struct effect_record *records,
                               size_t count, enum commit_lane lane, struct http_barrier *ret);
enum err __wrap_commit_records(struct committer *c, const struct effect_record *records,
                               size_t count, enum commit_lane lane, struct http_barrier *ret)
{
    (void)c;
    same("one record of a decision", 1, count);
    if (percent(w.fullness)) {
        sums.no_room++;
        return percent(50) ? ERR_FULL : ERR_JOURNAL_FULL;
    }
    take_record(w.running, records[0].delta);
    *ret = (struct http_barrier){.lane = lane, .block = ++w.block};
    return ERR_OK;
}

bool __wrap_journal_has_room(const struct journal_producer *p);
bool __wrap_journal_has_room(const struct journal_producer *p)
{
    (void)p;
    return true;
}

void __wrap_http_server_hold(struct http_server *s, bool held);
void __wrap_http_server_hold(struct http_server *s, bool held) { (void)s, (void)held; }

struct http_token __wrap_http_defer(struct http_exchange *x);
struct http_token __wrap_http_defer(struct http_exchange *x)
{
    (void)x;
    return (struct http_token){.place = (uint32_t)(w.running - w.ops), .generation = 1};
}

struct arena *__wrap_http_arena_take(struct http_exchange *x);
struct arena *__wrap_http_arena_take(struct http_exchange *x) { return x->arena; }
void __wrap_http_arena_give(struct http_server *s, struct arena *a);
void __wrap_http_arena_give(struct http_server *s, struct arena *a) { (void)s, (void)a; }

struct str __wrap_api_request_id(const struct http_exchange *x);
struct str __wrap_api_request_id(const struct http_exchange *x)
{
    (void)x;
    return (struct str){0};
}

uint64_t __wrap_world_now_ms(void);
uint64_t __wrap_world_now_ms(void) { return clock_ms; }

void __wrap_auth_failed_note_ended(struct engine_reactor *r, struct id key,
                                   const struct token_claims *token,
                                   const struct client_address *client, enum err err);
void __wrap_auth_failed_note_ended(struct engine_reactor *r, struct id key,
                                   const struct token_claims *token,
                                   const struct client_address *client, enum err err)
{
    (void)r, (void)key, (void)token, (void)client, (void)err;
}

bool __wrap_engine_reactor_token_is_dead(void *r, const struct token_claims *t);
bool __wrap_engine_reactor_token_is_dead(void *r, const struct token_claims *t)
{
    (void)r, (void)t;
    return percent(2);
}

void __wrap_traced_refusal(struct authorization *a, const struct fault *f);
void __wrap_traced_refusal(struct authorization *a, const struct fault *f) { (void)a, (void)f; }

/* ---- replies ---- */

static void keep_review(const struct op *o)
{
    const struct decision *d = &o->r->a.d;
    if (w.review_count == REVIEWS_MAX || d->outcome.verdict != VERDICT_HUMAN_REVIEW ||
        o->r->a.kind != AUTHORIZATION_FIRST || d->has_review)
        return;
    w.reviews[w.review_count].id = d->review;
    memcpy(w.reviews[w.review_count].text, o->text, sizeof o->text);
    w.reviews[w.review_count++].is_approved = false;
}

static void take_reply(struct op *o, int status)
{
    const struct authorization *a = &o->r->a;
    same("one reply", 0, (uint64_t)o->status);
    o->status = status;
    for (unsigned k = 0; k < w.counter_count; k++)
        same("counts: what stays is recorded", (uint64_t)o->recorded_counts[k],
             (uint64_t)o->counts[k]);
    same("uses: what stays is recorded", (uint64_t)o->recorded_uses, (uint64_t)o->uses);
    same("no claim stays", 0, (uint64_t)o->claims);
    same("no Idempotency-Key stays held", 0, (uint64_t)o->keys);
    if (status != 200) {
        sums.refused++;
        same("a refusal has no record", 0, o->records);
        same("a refusal counts nothing for shadow documents", 0, (uint64_t)o->shadow);
        return;
    }
    sums.decided++;
    if (a->d.replayed) {
        sums.replayed++;
        must(o->records <= 1, "at most one record");
        return;
    }
    same("one record of a decision", 1, o->records);
    bool permits = a->d.outcome.verdict == VERDICT_ALLOW || a->d.outcome.verdict == VERDICT_COMPUTE;
    uint64_t recorded = 0;
    for (unsigned k = 0; k < w.counter_count; k++) recorded += (uint64_t)o->recorded_counts[k];
    bool counts = permits && !a->tools.dry_run;
    same("an allow has all its counts", counts ? a->d.outcome.limit_count : 0, recorded);
    sums.allowed += permits;
    sums.stopped += strcmp(a->d.outcome.rule, "actor:suspended") == 0;
    keep_review(o);
}

static struct op *op_at(struct http_token t)
{
    same("a token of a request", 1, t.generation);
    return &w.ops[t.place];
}

void __wrap_api_reply_at_barrier(struct api *a, struct http_exchange *x, int status,
                                 struct str body, struct str request_id, struct http_barrier b);
void __wrap_api_reply_at_barrier(struct api *a, struct http_exchange *x, int status,
                                 struct str body, struct str request_id, struct http_barrier b)
{
    (void)a, (void)x, (void)body, (void)request_id, (void)b;
    take_reply(w.running, status);
}

void __wrap_api_refuse_at_barrier(struct api *a, struct http_exchange *x, const struct fault *f,
                                  struct str trace_id, struct http_barrier b);
void __wrap_api_refuse_at_barrier(struct api *a, struct http_exchange *x, const struct fault *f,
                                  struct str trace_id, struct http_barrier b)
{
    (void)a, (void)x, (void)trace_id, (void)b;
    take_reply(w.running, err_status(f->err));
}

bool __wrap_api_reply_deferred(struct api *a, const struct api_deferred *d, int status,
                               struct str body, struct str request_id);
bool __wrap_api_reply_deferred(struct api *a, const struct api_deferred *d, int status,
                               struct str body, struct str request_id)
{
    (void)a, (void)body, (void)request_id;
    take_reply(op_at(d->token), status);
    return true;
}

bool __wrap_api_refuse_deferred(struct api *a, const struct api_deferred *d, const struct fault *f,
                                struct str trace_id);
bool __wrap_api_refuse_deferred(struct api *a, const struct api_deferred *d, const struct fault *f,
                                struct str trace_id)
{
    (void)a, (void)trace_id;
    take_reply(op_at(d->token), err_status(f->err));
    return true;
}

/* ---- requests ---- */

static const char policy[] =
    "rules:\n"
    "  - {id: reads, agents: ['*'], actions: ['get_*'], decision: allow}\n"
    "  - {id: few, agents: ['*'], actions: [pay, send], decision: allow, limit: {per: tenant, window: 1h, count: 5}}\n"
    "  - {id: each, agents: ['*'], actions: [send, copy], decision: allow, limit: {per: actor, window: 1h, count: 3}}\n"
    "  - {id: sums, agents: ['*'], actions: [send], decision: allow, limit: {per: actor, window: 1h, sum: args.n, max: 9}}\n"
    "  - {id: refunds, agents: ['*'], actions: [refund], decision: human_review}\n"
    "  - {id: wires, agents: ['*'], actions: [wire], decision: human_review}\n"
    "  - {id: one-wire, agents: ['*'], actions: [wire], decision: allow, limit: {per: actor, window: 1h, count: 1}}\n";
static const char shadow_policy[] =
    "mode: shadow\n"
    "rules:\n"
    "  - {id: next, agents: ['*'], actions: ['get_*', pay], decision: allow, limit: {per: actor, window: 1h, count: 2}}\n"
    "  - {id: all, agents: ['*'], actions: [pay], decision: allow, limit: {per: tenant, window: 1h, count: 3}}\n";

static void put_document(struct buf *b, const char *name, const char *text)
{
    char hex[SHA256_HEX];
    sha256_write_hex(sha256_once(str_from(text)), hex);
    buf_printf(
        b, "{\"tenant_id\":\"acme\",\"name\":\"%s\",\"version\":1,\"digest\":\"%.*s\",\"content\":",
        name, SHA256_HEX, hex);
    json_put_string(b, str_from(text));
    buf_put_byte(b, '}');
}

static struct id key_id(void) { return (struct id){{1}}; }

static void make_bundle(void)
{
    static char text[16 << 10];
    struct buf b = buf_over(text, sizeof text);
    struct fault f;
    char id[2][ID_TEXT];
    id_write("key_", key_id(), id[0]);
    id_write("key_", (struct id){{2}}, id[1]);
    buf_put_literal(&b, "{\"revision\":1,\"keys\":[");
    for (unsigned i = 0; i < 2; i++)
        buf_printf(
            &b,
            "%s{\"id\":\"%.*s\",\"name\":\"%s\",\"owner\":\"%s-owner\",\"tenant\":\"acme\",\"roles\":[\"%s\"],"
            "\"actors\":[\"*\"],\"mac\":\"%064u\"}",
            i == 0 ? "" : ",", ID_TEXT, id[i], i == 0 ? "agent" : "rita", i == 0 ? "agent" : "rita",
            i == 0 ? "agent" : "reviewer", i + 1);
    buf_put_literal(&b, "],\"policies\":[");
    put_document(&b, "base", policy);
    buf_put_byte(&b, ',');
    put_document(&b, "next", shadow_policy);
    buf_put_literal(&b, "]}");
    check(!b.overflow);
    if (bundle_create(buf_view(&b), NULL, clock_ms, &bundle, &f) != ERR_OK) {
        fprintf(stderr, "%s\n", f.text);
        exit(1);
    }
    must(!policy_set_is_closed(bundle_policies(bundle, STR("acme"))), "the policies load");
}

static enum step_result enter_redemption(struct operation *e)
{
    return redeem_enter((struct redemption *)(void *)e);
}
static const struct step redemption_steps[] = {{"enter", enter_redemption, NULL}};
static const struct process redemption = PROCESS(redemption_steps, .refuse = authorization_refuse);

static void read_body(struct op *o)
{
    static const struct json_options options = {0};
    struct authorization *a = &o->r->a;
    struct fault f;
    o->x.body = a->operation.x->body;
    check(json_read(str_from(o->text), &options, &o->arena, &a->body, &f) == ERR_OK);
}

static struct op *begin_op(unsigned reactor)
{
    struct op *o = &w.ops[w.op_count++];
    *o = (struct op){.reactor = reactor};
    arena_init(&o->arena, OP_ARENA_FIRST, OP_ARENA_MOST);
    o->x.arena = &o->arena;
    o->x.missing = UINT64_MAX;
    o->r = authorization_begin(&engine.reactors[reactor], &o->x, sizeof *o->r);
    check(o->r != NULL);
    struct caller *c = &o->r->a.operation.caller;
    c->key = key_table_get(bundle_keys(bundle), key_id());
    check(c->key != NULL);
    c->tenant = STR("acme");
    o->r->a.form = ASK_AGENT;
    sums.requests++;
    return o;
}

static void start_request(void)
{
    static const char *const actions[] = {"get_x", "pay",  "pay",    "send",
                                          "send",  "copy", "refund", "wire"};
    struct op *o = begin_op((unsigned)below(w.reactors));
    struct authorization *a = &o->r->a;
    unsigned actor = (unsigned)below(ACTORS);
    snprintf(o->text, sizeof o->text,
             "{\"action\":\"%s\",\"actor\":\"bot-%u\",\"args\":{\"n\":%u}}",
             actions[below(sizeof actions / sizeof *actions)], actor, (unsigned)below(4));
    if (percent(40)) {
        unsigned t = (unsigned)below(TOKENS);
        char bot[16];
        snprintf(bot, sizeof bot, "bot-%u", actor);
        o->token = (struct token_claims){.id = w.tokens[t],
                                         .key = key_id(),
                                         .subject = STR("agent"),
                                         .tenant = STR("acme"),
                                         .actor = arena_copy(&o->arena, str_from(bot)),
                                         .scope = STR("*"),
                                         .expires_at = clock_ms / 1000 + 3600,
                                         .counted = true};
        a->operation.caller.token = &o->token;
    }
    if (percent(30)) {
        a->retry_header = arena_printf(&o->arena, "retry-%u", (unsigned)below(4));
        /* the same key comes with the same body, mostly */
        if (percent(80))
            snprintf(o->text, sizeof o->text,
                     "{\"action\":\"send\",\"actor\":\"bot-%u\",\"args\":{\"n\":1}}",
                     (unsigned)below(2));
    }
    a->tools.dry_run = a->operation.caller.token == NULL && percent(5);
    read_body(o);
    w.running = o;
    operation_start(&a->operation, &authorization_process, AUTH_READ);
    w.running = NULL;
}

static void start_redemption(void)
{
    if (w.review_count == 0) return;
    unsigned at = (unsigned)below(w.review_count);
    struct op *o = begin_op((unsigned)below(w.reactors));
    memcpy(o->text, w.reviews[at].text, sizeof o->text);
    read_body(o);
    o->r->review = w.reviews[at].id;
    if (percent(40)) o->r->retry_header = arena_printf(&o->arena, "again-%u", (unsigned)below(2));
    w.running = o;
    operation_start(&o->r->a.operation, &redemption, 0);
    w.running = NULL;
}

/* ---- what others do ---- */

static struct call *other_call(enum call_kind kind, unsigned slot)
{
    arena_reset(&w.calls);
    struct call *c = arena_new(&w.calls, struct call);
    c->kind = kind;
    c->slot = (uint16_t)slot;
    c->to = (uint16_t)slot_owner(slot, w.reactors);
    c->now_ms = clock_ms;
    c->id = id_make(clock_ms, &engine.reactors[0].api.chance);
    c->arena = &w.calls;
    c->tenant = STR("acme");
    c->requester = (struct requester){.principal = STR("rita"),
                                      .owner = STR("rita-owner"),
                                      .key_id = STR("key_00000000000000000000000002"),
                                      .sees_all = true};
    return c;
}

static void other_step(struct call *c)
{
    do {
        shard_step(engine.shards[c->to], c, &w.effects);
        if (w.effects.record_count > 0) shard_recorded(engine.shards[c->to], ++w.block);
        take_woken();
    } while (!c->answered && w.effects.again);
}

static void approve(void)
{
    if (w.review_count == 0) return;
    unsigned at = (unsigned)below(w.review_count);
    if (w.reviews[at].is_approved) return;
    struct call *c = other_call(CALL_APPROVE, slot_of_id(w.reviews[at].id));
    c->review.id = w.reviews[at].id;
    c->review.meets = 1;
    c->review.by = c->review.owner = STR("rita-owner");
    c->review.principal = STR("rita");
    c->review.proof = REVIEW_PROOF_OWNER;
    other_step(c);
    w.reviews[at].is_approved = c->err == ERR_OK;
}

static void suspend(void)
{
    char name[16];
    snprintf(name, sizeof name, "bot-%u", (unsigned)below(ACTORS));
    revoked_log_append(
        engine.revoked,
        &(struct effect_notice){.kind = percent(50) ? NOTICE_ACTOR_SUSPENDED : NOTICE_ACTOR_RESUMED,
                                .tenant = STR("acme"),
                                .actor = str_from(name),
                                .at_ms = clock_ms});
    for (unsigned i = 0; i < w.reactors; i++)
        revoked_view_take(engine.reactors[i].revoked, clock_ms);
}

static void mint(unsigned at)
{
    struct call *c = other_call(CALL_MINT, (unsigned)below(LIMIT_SLOTS));
    c->mint.facts = (struct token_facts){.id = slot_id(c->id, c->slot),
                                         .key = key_id(),
                                         .tenant = STR("acme"),
                                         .actor = STR("bot-0"),
                                         .scope = STR("*"),
                                         .ordinal = ++w.ordinal,
                                         .issued_ms = clock_ms,
                                         .expires_ms = clock_ms + 3600000,
                                         .uses_max = 1 + (uint32_t)below(4)};
    c->records[0] = STR("{}");
    other_step(c);
    same("a token is minted", ERR_OK, c->err);
    w.tokens[at] = c->mint.facts.id;
}

/* ---- one life ---- */

static void deliver(unsigned at)
{
    struct item i = w.pending[at];
    w.pending[at] = w.pending[--w.pending_count];
    if (i.kind == ITEM_CALL) {
        if (step(i.call)) push(ITEM_RESULT, i.call);
        return;
    }
    if (i.call->sender == NULL) { /* it was delivered already */
        must(!operation_origin(&engine.reactors[i.call->origin], i.call),
             "a result that was delivered already is not taken");
        return;
    }
    struct op *o = op_of(i.call->sender);
    w.running = o;
    (void)operation_origin(&engine.reactors[o->reactor], i.call);
    w.running = NULL;
}

static void tick(uint64_t passed_ms)
{
    uint64_t next;
    clock_ms += passed_ms;
    for (unsigned i = 0; i < w.reactors; i++)
        while (shard_tick(engine.shards[i], clock_ms, &engine.reactors[0].api.chance, &w.effects,
                          &next)) {
            if (w.effects.record_count > 0) shard_recorded(engine.shards[i], ++w.block);
            take_woken();
        }
}

static void deliver_all(void)
{
    while (w.pending_count > 0) deliver((unsigned)below(w.pending_count));
}

static void begin_life(void)
{
    w = (struct world){.reactors = 1 + (unsigned)below(REACTORS_MAX),
                       .loss = percent(50) ? 0 : (unsigned)below(6),
                       .doubling = percent(30) ? 0 : (unsigned)below(40),
                       .lateness = (unsigned)below(60),
                       .fullness = percent(50) ? 0 : (unsigned)below(25),
                       .arena = w.arena,
                       .calls = w.calls};
    w.effects.arena = &w.arena;
    engine.reactor_count = w.reactors;
    engine.revoked = revoked_log_create(w.reactors);
    for (unsigned i = 0; i < w.reactors; i++) {
        struct engine_reactor *r = &engine.reactors[i];
        bool is_small = percent(30);
        struct shard_options options = {.index = i,
                                        .count = w.reactors,
                                        .counters_max = is_small ? 2 + below(4) : 64,
                                        .outcomes_max = is_small ? 1 + below(3) : 64,
                                        .reviews_max = is_small ? 1 + below(3) : 64,
                                        .tokens_max = 64};
        engine.shards[i] = shard_create(&options);
        check(engine.shards[i] != NULL);
        *r = (struct engine_reactor){
            .engine = &engine,
            .index = i,
            .sheet = sheet,
            .bundle = bundle,
            .in_use = bundle,
            .revoked = revoked_view_create(engine.revoked, i),
            .api = {.hasher = hasher, .keys = bundle_keys(bundle), .chance = {.refill = refill}}};
        r->memory = policy_memory_create(64);
        list_init(&r->away);
        list_init(&r->waiting);
    }
    for (unsigned t = 0; t < TOKENS; t++) mint(t);
}

static uint64_t used_of(const struct limit_request *ask)
{
    struct call *c = other_call(CALL_COUNT, slot_of_key(ask->key));
    c->limit.ask = *ask;
    c->limit.ask.look_only = true;
    other_step(c);
    return c->err == ERR_OK ? c->limit.told.used.count : 0;
}

/* It waits for a request with the same Idempotency-Key that was lost with it. */
static bool waits_for_lost(const struct op *o)
{
    const struct authorization *a = &o->r->a;
    if (a->operation.step != AUTH_HOLD_KEY) return false;
    for (unsigned i = 0; i < w.op_count; i++) {
        const struct op *other = &w.ops[i];
        if (other->is_lost && other->keys > 0 &&
            memcmp(&other->r->a.first.key, &a->first.key, sizeof a->first.key) == 0)
            return true;
    }
    return false;
}

static void settle_account(void)
{
    for (unsigned i = 0; i < w.op_count; i++) {
        struct op *o = &w.ops[i];
        if (o->status == 0 && !o->is_lost && !waits_for_lost(o)) {
            const struct operation *e = &o->r->a.operation;
            fprintf(stderr, "at the step \"%s\", behind call %d, answered %d\n",
                    e->process->steps[e->step].name, (int)e->call.kind, e->call.answered);
            fail("a request without losses has its reply", 1, 0);
        }
        if (o->status != 0) continue;
        for (unsigned k = 0; k < w.counter_count; k++)
            w.counters[k].lost += (uint64_t)(o->counts[k] - o->recorded_counts[k]);
    }
    for (unsigned k = 0; k < w.counter_count; k++) {
        struct counter *c = &w.counters[k];
        same("a counter holds what is recorded, and what was lost", c->recorded + c->lost,
             used_of(&c->ask));
        if (c->ask.count_max != 0 && !c->ask.let_through)
            must(c->recorded <= c->ask.count_max, "no limit lets more through than it says");
    }
}

static void end_life(void)
{
    for (unsigned i = 0; i < w.reactors; i++) {
        struct engine_reactor *r = &engine.reactors[i];
        operations_drop(r);
        same("no bundle stays pinned", 0, r->pins);
        same("no call is counted as away", 0, r->calls_away);
        shard_destroy(engine.shards[i]);
        revoked_view_destroy(r->revoked);
        policy_memory_destroy(r->memory);
    }
    revoked_log_destroy(engine.revoked);
    for (unsigned i = 0; i < w.op_count; i++) arena_fini(&w.ops[i].arena);
}

static void live(void)
{
    begin_life();
    unsigned requests = 6 + (unsigned)below(OPS_MAX - 6);
    while (w.op_count < requests) {
        unsigned what = (unsigned)below(100);
        if (what < 45)
            start_request();
        else if (what < 50)
            start_redemption();
        else if (what < 56)
            approve();
        else if (what < 57)
            suspend();
        else if (what < 60)
            tick(below(3000));
        else if (w.pending_count > 0)
            deliver((unsigned)below(w.pending_count));
    }
    deliver_all();
    /* those that wait for a claim or a key whose holder was lost */
    for (unsigned i = 0; i < 4; i++) {
        tick(60000);
        deliver_all();
    }
    settle_account();
    end_life();
}

int main(int argc, char **argv)
{
    uint64_t count = 400, seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("sim_steps: seed %" PRIu64 ", %" PRIu64 " lives\n", seed, count);
    clock_ms = UINT64_C(1795166400000);
    struct pepper pepper = {{1, 2, 3}};
    static struct engine_reactor reactors[REACTORS_MAX];
    static struct shard *shards[REACTORS_MAX];
    engine.reactors = reactors;
    engine.shards = shards;
    digest_keys_derive(&engine.digest_keys, &pepper);
    hasher = hasher_create();
    sheet = metrics_sheet_create();
    make_bundle();
    arena_init(&w.arena, 64 << 10, 4 << 20);
    arena_init(&w.calls, 16 << 10, 4 << 20);
    for (uint64_t i = 0; i < count; i++) {
        seed_now = state = seed + i;
        clock_ms = UINT64_C(1795166400000);
        live();
    }
    arena_fini(&w.arena);
    arena_fini(&w.calls);
    bundle_destroy(bundle);
    hasher_destroy(hasher);
    printf("%" PRIu64 " requests: %" PRIu64 " decided (%" PRIu64 " permitted, %" PRIu64
           " replayed, %" PRIu64 " redeemed, %" PRIu64 " shared, %" PRIu64
           " of suspended actors), %" PRIu64 " refused; %" PRIu64 " calls away, %" PRIu64
           " lost, %" PRIu64 " results doubled, %" PRIu64 " times no room, %" PRIu64
           " given back, %" PRIu64 " retries\n",
           sums.requests, sums.decided, sums.allowed, sums.replayed, sums.redeemed, sums.shared,
           sums.stopped, sums.refused, sums.away, sums.lost, sums.doubled, sums.no_room,
           sums.given_back, sums.retried);
    if (count >= 400 && !(sums.allowed && sums.replayed && sums.redeemed && sums.shared &&
                          sums.refused && sums.lost && sums.doubled && sums.no_room &&
                          sums.given_back && sums.retried && sums.stopped)) {
        printf("FAIL: something was never tried\n");
        return 1;
    }
    printf("%" PRIu64 " seeds passed, 0 failed\n", count);
    return 0;
}
