/* state_world.h - the engine taken apart, for sim_state.c: shards, journal, mail,
 * and what clients were told.
 *
 * Everything random comes from the story's seed; everything that is told is told by the model's
 * clients (state_clients.h). Functions are static: one program includes this. */
#ifndef TESTS_STATE_WORLD_H
#define TESTS_STATE_WORLD_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "event/event.h"
#include "journal/inside.h"
#include "shards/revoked.h"
#include "shards/shard.h"
#include "sim/sim_disk.h"

enum {
    SHARDS_MAX = 4,
    TOKENS = 8,
    REVIEWS = 24,
    COUNTERS = 3,
    ACTORS = 3,
    SPELLINGS = 2,
    TRACES = 256,
    TIMES = 256,
    SEGMENT = 1 << 20
};
enum { WINDOW_MS = 60000, COUNT_MAX = 4, ARENA_BYTES = 8 << 20 };

/* ---- what clients were told ---- */

struct token_story {
    struct id id;
    bool told_minted, told_revoked;
    uint32_t max, told_spent;
    unsigned actor;
    uint64_t expires_ms;
};

struct review_story {
    struct id id;
    unsigned actor, spelling, wish; /* who asked for what */
    bool told_pending, told_approved, told_denied, told_cancelled, told_redeemed;
    bool told_ended; /* its approval: taken back, or its actor was suspended since */
    bool claimed;    /* some redemption was told that it alone may redeem */
    /* answers that were the resolution itself, and no repetition of it */
    unsigned wins;
    uint64_t expires_ms, approval_expires_ms;
    uint64_t retry; /* the key it was redeemed under; 0: none */
};

struct counter_story {
    uint64_t times[TIMES];
    size_t count;
};

struct actor_story {
    unsigned spelling; /* under which it is suspended and resumed */
    bool told_suspended;
    bool told_denied;  /* with all that it had pending, under any spelling */
    unsigned changing; /* suspends and resumes under way */
    uint64_t changes;  /* all that ever began */
};

/* What asked for a review, as first or once more. */
struct trace_story {
    unsigned slot;    /* of its subject */
    bool told;        /* which review it was given */
    bool is_recorded; /* its decision is in the journal that was replayed last */
    struct id review; /* of that record */
};

/* ---- the engine, taken apart ---- */

enum op_kind {
    OP_MINT,
    OP_USE,
    OP_REVOKE,
    OP_ENQUEUE,
    OP_APPROVE,
    OP_DENY,
    OP_CANCEL,
    OP_TAKE_BACK,
    OP_REDEEM,
    OP_WAIT,
    OP_FIND,
    OP_COUNT,
    OP_SUSPEND,
    OP_RESUME,
    OP_SPELLINGS, /* a suspension's part at one shard */
    OP_KINDS
};

enum redeem_stage { DIRECT, CLAIMING, CLAIMED, UNCLAIMING };
enum enqueue_stage { ASKING, SHARING };
enum suspend_stage { SUSPENDING, DENYING };

struct op {           /* one client's request */
    struct call call; /* first */
    struct arena arena;
    enum op_kind kind;
    unsigned stage, about; /* which token, review, counter or actor */
    unsigned spelling, wish, trace;
    struct op *whole;    /* that this is a part of */
    unsigned parts_left; /* under way */
    uint64_t retry;
    bool was_woken;               /* it had to wait at the owner */
    bool at_origin;               /* its call is on the way back, or its own record is waited for */
    bool was_resolved;            /* and that was told, before the review was to be shared */
    bool is_approved;             /* the review that is to be shared */
    bool ended_when_asked;        /* the approval that is to be redeemed */
    uint32_t approved_when_asked; /* bit i: review i, of the actor that is to be suspended */
    /* Of the model's view when it began: */
    bool suspended_when_asked, denied_when_asked;
    uint64_t changes_when_asked;
    uint64_t notice; /* place in the revocation log that all have to have seen */
    struct op *all_next;
};

struct queue {
    struct op *first, *last;
};

struct story {
    uint64_t seed, life, clock_ms, ordinal, serial;
    struct chance_source chance;
    struct chance shard_chance;
    struct sim_disk *disk;
    struct sim_counts counts;
    struct journal *journal;
    unsigned shard_count;
    struct shard *shards[SHARDS_MAX];
    struct effects effects[SHARDS_MAX];
    struct arena scratch[SHARDS_MAX];
    struct revoked_log *log;
    struct revoked_view *views[SHARDS_MAX];
    struct queue mail[SHARDS_MAX][SHARDS_MAX];
    struct queue parked[SHARDS_MAX];
    struct op *ops;

    struct token_story tokens[TOKENS];
    struct review_story reviews[REVIEWS];
    size_t review_count;
    struct counter_story counters[COUNTERS];
    struct actor_story actors[ACTORS];
    struct trace_story traces[TRACES];
    unsigned trace_count;

    struct buf snapshot; /* entries, each behind its size */
    uint64_t snapshot_position;
};

static struct sums {
    struct sim_counts disk;
    uint64_t steps, answers, crossed, crashes, replays, snapshots_used, refused_full;
    uint64_t told[OP_KINDS], none_left, dead, over, self_dedupe, already, not_redeemable, claimed,
        claimed_after, replayed, woken, expired, suspended, jumps, overtaken, shared, share_late,
        approved_again, taken_back, ended_by_suspension, spellings_denied, traces_found,
        traces_lost;
} sums;

static _Noreturn void fail(const struct story *t, const char *what)
{
    printf("FAIL seed %" PRIu64 " life %" PRIu64 ": %s\n", t->seed, t->life, what);
    exit(1);
}

static void must(const struct story *t, bool holds, const char *what)
{
    if (!holds) fail(t, what);
}

static uint64_t below(struct story *t, uint64_t n) { return chance_below(&t->chance, n); }

static void fill_by_chance(struct story *t, void *to, size_t size)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = chance_next(&t->chance);
        memcpy((char *)to + at, &word, size - at < 8 ? size - at : 8);
    }
}

static struct id new_id(struct story *t)
{
    struct id id;
    fill_by_chance(t, id.bytes, sizeof id.bytes);
    for (int i = 0; i < 6; i++) id.bytes[i] = (uint8_t)(t->clock_ms >> (40 - 8 * i));
    return id;
}

/* The chance that a tick takes for its events' ids. */
static void refill_chance(struct story *t)
{
    fill_by_chance(t, t->shard_chance.pool, sizeof t->shard_chance.pool);
    t->shard_chance.left = sizeof t->shard_chance.pool;
}

static const char *const actor_names[ACTORS][SPELLINGS] = {
    {"bot-0", "BOT-0"}, {"bot-1", "Bot-1"}, {"bot-2", "\xef\xbd\x82ot-2"}};

static struct str actor_name(unsigned actor, unsigned spelling)
{
    return str_from(actor_names[actor][spelling]);
}

static unsigned actor_slot(unsigned actor, unsigned spelling)
{
    return (actor * 337 + spelling * 511) % LIMIT_SLOTS;
}

static struct str tenant(void) { return STR("default"); }

static struct requester agent(void)
{
    return (struct requester){.principal = STR("agents"),
                              .owner = STR("agent-owner"),
                              .key_id = STR("key_01JD0000000000000000000000")};
}

static struct requester reviewer(unsigned who)
{
    static const char *const names[] = {"rita", "carol", "dan"};
    struct str name = str_from(names[who % 3]);
    return (struct requester){.principal = name,
                              .owner = name,
                              .key_id = STR("key_01JD0000000000000000000001"),
                              .sees_all = true};
}

/* ---- queues ---- */

static void queue_put(struct queue *q, struct op *o)
{
    o->call.next = NULL;
    if (q->last == NULL)
        q->first = o;
    else
        q->last->call.next = &o->call;
    q->last = o;
}

static struct op *queue_take(struct queue *q)
{
    struct op *o = q->first;
    if (o == NULL) return NULL;
    q->first = (struct op *)(void *)o->call.next;
    if (q->first == NULL) q->last = NULL;
    o->call.next = NULL;
    return o;
}

/* ---- events ---- */

static struct str trace_of(struct story *t, struct arena *arena)
{
    char *trace = arena_bytes(arena, TRACE_TEXT);
    snprintf(trace, TRACE_TEXT, "trace-%020" PRIu64, ++t->serial);
    return str_from(trace);
}

static struct str event_of(struct story *t, struct arena *arena, const char *kind, struct str trace,
                           struct str actor, const char *action, struct id review)
{
    char *ids = arena_bytes(arena, 3 * ID_TEXT);
    char *bytes = arena_bytes(arena, 2048);
    id_write("evt_", new_id(t), ids);
    id_write("req_", new_id(t), ids + ID_TEXT);
    id_write("rev_", review, ids + 2 * ID_TEXT);
    struct event e = {.event_id = str_of(ids, ID_TEXT),
                      .request_id = str_of(ids + ID_TEXT, ID_TEXT),
                      .kind = str_from(kind),
                      .tenant_id = tenant(),
                      .timestamp = t->clock_ms,
                      .trace_id = trace,
                      .actor = actor,
                      .action = str_from(action),
                      .decision = STR("human_review"),
                      .rule = STR("review:r"),
                      .reason = STR("A person decides."),
                      .mode = STR("live"),
                      .key_id = STR("key_01JD0000000000000000000000"),
                      .review_id = str_of(ids + 2 * ID_TEXT, ID_TEXT),
                      .engine_version = STR("sim")};
    struct buf b = buf_over(bytes, 2048);
    event_put(&b, &e);
    check(!b.overflow);
    return buf_view(&b);
}

/* ---- journaling what a step wants recorded ---- */

static char *reserve(struct story *t, unsigned p, size_t size, bool closing)
{
    struct journal_producer *producer = journal_producer(t->journal, p);
    enum err err;
    char *to = closing ? journal_reserve_closing(producer, size, &err)
                       : journal_reserve(producer, size, &err);
    if (to == NULL) sums.refused_full++;
    return to;
}

static void commit(struct story *t, unsigned p, char *to, const struct effects *e)
{
    struct journal_producer *producer = journal_producer(t->journal, p);
    for (size_t i = 0; i < e->record_count; i++) {
        struct str event = e->records[i].event, delta = e->records[i].delta;
        if (i > 0) to = journal_reserved(producer, event.size + delta.size);
        check(to != NULL);
        memcpy(to, event.bytes, event.size);
        if (delta.size > 0) memcpy(to + event.size, delta.bytes, delta.size);
        journal_commit(producer, event.size, delta.size, true);
    }
    if (e->record_count > 0) shard_recorded(t->shards[p], journal_block(producer));
}

static uint64_t append_notices(struct story *t, const struct effects *e)
{
    uint64_t place = 0;
    for (size_t i = 0; i < e->notice_count; i++) place = revoked_log_append(t->log, &e->notices[i]);
    return place;
}

static void park(struct story *t, unsigned p, struct op *o, uint64_t block)
{
    o->call.block = block;
    queue_put(&t->parked[p], o);
}

static void park_woken(struct story *t, unsigned p, const struct effects *e, uint64_t block)
{
    for (struct call *c = e->woken, *following; c != NULL; c = following) {
        following = c->next;
        sums.woken++;
        ((struct op *)(void *)c)->was_woken = true;
        park(t, p, (struct op *)(void *)c, block);
    }
}

static bool is_told_resolved(const struct story *t, struct id review, bool is_approved)
{
    for (size_t i = 0; i < t->review_count; i++) {
        const struct review_story *r = &t->reviews[i];
        if (!id_equal(r->id, review)) continue;
        if (is_approved)
            return r->told_redeemed || r->told_denied || r->told_cancelled || r->told_ended;
        return r->told_approved || r->told_denied || r->told_cancelled;
    }
    return false;
}

/* Of a suspension everybody was told since it was asked for, as the engine's owners look. */
static bool is_overtaken(const struct story *t, unsigned p, const struct call *c)
{
    uint64_t dead_before;
    bool loosens = c->kind == CALL_ENQUEUE || c->kind == CALL_SHARE || c->kind == CALL_REDEEM;
    return loosens && revoked_view_actor(t->views[p], tenant(), c->for_actor, &dead_before);
}

/* The owner's part: room, step, record, park the answer on its block. */
static void step_at_owner(struct story *t, unsigned p, struct op *o)
{
    struct journal_producer *producer = journal_producer(t->journal, p);
    struct effects *e = &t->effects[p];
    if (is_overtaken(t, p, &o->call)) {
        sums.overtaken++;
        o->at_origin = true;
        o->call.err = ERR_ACTOR_SUSPENDED;
        park(t, p, o, 0);
        return;
    }
    char *to = reserve(t, p, call_record_most(&o->call), call_closes(o->call.kind));
    o->at_origin = true; /* from here on it is on its way back */
    if (to == NULL) {
        o->call.err = ERR_OVERLOADED;
        park(t, p, o, 0);
        return;
    }
    if (o->call.kind == CALL_SHARE)
        o->was_resolved = is_told_resolved(t, o->call.enqueue.facts.id, o->is_approved);
    shard_step(t->shards[p], &o->call, e);
    shard_recount(t->shards[p]);
    commit(t, p, to, e);
    if (o->kind == OP_SPELLINGS) sums.spellings_denied += e->record_count;
    uint64_t place = append_notices(t, e);
    if (place != 0) o->notice = place;
    uint64_t block = e->record_count > 0   ? journal_block(producer)
                     : e->reveals_unsynced ? e->reveals_block
                                           : 0;
    if (o->call.answered) {
        park(t, p, o, block);
    } else if (e->again) {
        o->at_origin = false;
        queue_put(&t->mail[p][p], o);
    }
    park_woken(t, p, e, journal_block(producer));
}

static void tick(struct story *t, unsigned p)
{
    uint64_t next;
    char *to = reserve(t, p, shard_tick_record_most(), true);
    if (to == NULL) return;
    refill_chance(t);
    bool did = shard_tick(t->shards[p], t->clock_ms, &t->shard_chance, &t->effects[p], &next);
    shard_recount(t->shards[p]);
    if (!did) return;
    commit(t, p, to, &t->effects[p]);
    if (t->effects[p].record_count > 0) sums.expired++;
    park_woken(t, p, &t->effects[p], journal_block(journal_producer(t->journal, p)));
}

#endif
