/* fleet_model.h - the state of a simulated fleet, for sim_fleet.c: what records do to it, and the truth that
 * the log and the clients' answers are held against.
 *
 * The state is a small likeness of the engine's own: tokens with uses, actors that can be suspended,
 * reviews, one limit. Each engine has a copy. The truth is one more copy, to which each entry is
 * applied when the first engine counts it; a record that may not be there ends the run. Functions are
 * static: one program includes this. */
#ifndef TESTS_FLEET_MODEL_H
#define TESTS_FLEET_MODEL_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/planted.h"
#include "fleet/fleet.h"
#include "fleet/relay.h"

enum { TOKENS = 32, ACTORS = 4, REVIEWS = 32, LIMIT = 3, WINDOW_MS = 1500, DEADLINE_MS = 6000 };

/* ---- what a record does ---- */

enum record_kind {
    R_MINT,
    R_SPEND,
    R_SPEND_DENIED, /* no use was left */
    R_DEAD_DENIED,  /* the token was revoked, or its actor suspended */
    R_REVOKE,
    R_SUSPEND,
    R_RESUME,
    R_OPEN, /* a review */
    R_APPROVE,
    R_REFUSE,
    R_REDEEM,
    R_COUNT,
    R_COUNT_DENIED, /* over the limit */
};

struct record {
    uint8_t kind, object, actor, max;
    uint32_t request;
    uint64_t stamp_ms;
};

enum review { REVIEW_NONE, REVIEW_PENDING, REVIEW_APPROVED, REVIEW_REFUSED, REVIEW_REDEEMED };

/* `at`: behind the offset of the newest revocation or suspension; 0: none, or not in the log yet. */
struct model {
    struct {
        uint64_t at;
        uint8_t is_minted, actor, max, uses, is_revoked;
    } tokens[TOKENS];
    struct {
        uint64_t at;
        uint8_t is_suspended;
    } actors[ACTORS];
    struct {
        uint64_t deadline_ms;
        uint8_t state;
    } reviews[REVIEWS];
    uint64_t counted[LIMIT], counted_size; /* stamps in the window, oldest first */
    uint64_t time_ms;
};

static void forget_counts(struct model *m, uint64_t before_ms)
{
    uint64_t drop = 0;
    while (drop < m->counted_size && m->counted[drop] <= before_ms) drop++;
    m->counted_size -= drop;
    for (uint64_t i = 0; i < LIMIT; i++)
        m->counted[i] = i < m->counted_size ? m->counted[i + drop] : 0;
}

static bool is_dead(const struct model *m, unsigned token)
{
    return m->tokens[token].is_revoked || m->actors[m->tokens[token].actor].is_suspended;
}

/* NULL, or the rule that the record breaks. */
static const char *broken_by(const struct model *m, const struct record *r)
{
    unsigned o = r->object;
    switch ((enum record_kind)r->kind) {
    case R_MINT: return m->tokens[o].is_minted ? "a token was minted twice" : NULL;
    case R_SPEND:
        if (m->tokens[o].uses >= m->tokens[o].max) return "more uses were spent than there are";
        return is_dead(m, o) ? "a use was spent after a revocation or suspension" : NULL;
    case R_SPEND_DENIED:
        return m->tokens[o].uses < m->tokens[o].max ? "a use was denied though one was left" : NULL;
    case R_DEAD_DENIED: return !is_dead(m, o) ? "a live token was denied as dead" : NULL;
    case R_APPROVE:
    case R_REFUSE: return m->reviews[o].state != REVIEW_PENDING ? "a review has two winners" : NULL;
    case R_REDEEM:
        if (m->reviews[o].state != REVIEW_APPROVED)
            return "an approval was redeemed twice, or not given";
        return r->stamp_ms >= m->reviews[o].deadline_ms ? "an expired approval was redeemed" : NULL;
    case R_COUNT: return m->counted_size >= LIMIT ? "more was counted than the limit" : NULL;
    case R_COUNT_DENIED:
        return m->counted_size < LIMIT ? "the limit refused what it has room for" : NULL;
    default: return NULL;
    }
}

/* `next`: behind the offset of its entry; 0: not in the log yet. */
static const char *model_apply(struct model *m, const struct record *r, uint64_t next)
{
    unsigned o = r->object;
    if (r->stamp_ms < m->time_ms) return "the log's time went back";
    m->time_ms = r->stamp_ms;
    forget_counts(m, r->stamp_ms - WINDOW_MS);
    const char *broken = broken_by(m, r);
    if (broken != NULL) return broken;
    switch ((enum record_kind)r->kind) {
    case R_MINT:
        m->tokens[o].is_minted = 1;
        m->tokens[o].actor = r->actor;
        m->tokens[o].max = r->max;
        break;
    case R_SPEND: m->tokens[o].uses++; break;
    case R_REVOKE:
        m->tokens[o].is_revoked = 1;
        m->tokens[o].at = next;
        break;
    case R_SUSPEND:
        m->actors[o].is_suspended = 1;
        m->actors[o].at = next;
        break;
    case R_RESUME: m->actors[o].is_suspended = 0; break;
    case R_OPEN:
        m->reviews[o].state = REVIEW_PENDING;
        m->reviews[o].deadline_ms = r->stamp_ms + DEADLINE_MS;
        break;
    case R_APPROVE: m->reviews[o].state = REVIEW_APPROVED; break;
    case R_REFUSE: m->reviews[o].state = REVIEW_REFUSED; break;
    case R_REDEEM: m->reviews[o].state = REVIEW_REDEEMED; break;
    case R_COUNT: m->counted[m->counted_size++] = r->stamp_ms; break;
    case R_SPEND_DENIED:
    case R_DEAD_DENIED:
    case R_COUNT_DENIED: break;
    }
    return NULL;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const char *from = bytes;
    for (; size >= 8; size -= 8, from += 8) {
        uint64_t word;
        memcpy(&word, from, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t model_hash(const struct model *m) { return mix(1, m, sizeof *m); }

/* ---- what clients were answered ---- */

enum op {
    OP_USE, /* a plain decision: a token, at any engine */
    OP_SPEND,
    OP_COUNT,
    OP_OPEN,
    OP_REDEEM,
    OP_MINT, /* from here on by people, who need no lease */
    OP_REVOKE,
    OP_SUSPEND,
    OP_RESUME,
    OP_APPROVE,
    OP_REFUSE,
    OP_INTROSPECT,
    OP_GET, /* a review */
    OPS
};

enum answer {
    ANSWER_NONE,
    ANSWER_DONE,   /* allowed; or the change was made */
    ANSWER_DENIED, /* no use left, over the limit, revoked, suspended */
    ANSWER_NO,     /* not in the state that the change needs: already resolved, not there */
    ANSWER_STALE,  /* 503 fleet_stale */
    ANSWER_NO_LEADER,
    ANSWER_BUSY,
    ANSWER_LEADER_CHANGED,
    ANSWER_UNKNOWN, /* 503 outcome_unknown, or no answer */
};

enum stage { IDLE, ARRIVES, ADMITTED, TO_LEADER, PARKED, RETURNS };

enum { REQUESTS = 8192, OPEN_MAX = 48, COMMITS_MAX = 4096, ENGINES = 5 };

/* One client's request, at most one of OPEN_MAX at a time. */
struct request {
    uint32_t id; /* in world.facts */
    enum op op;
    enum stage stage;
    unsigned object, engine, reactor;
    uint32_t life; /* of the engine that it came to */
    uint64_t begin_ms, due_ms;
    unsigned hops; /* relays that it passed */
    uint64_t relay_term;
    unsigned leader; /* where it was relayed to, or is parked */
    uint32_t leader_life;
    uint64_t position;       /* to leave behind */
    uint64_t vouched, as_of; /* the leader's word covers what is below; the same, once it came */
    bool is_ask;             /* a token is asked about: the rest is decided where it came to */
    bool was_asked;
    bool awaits_settled;
    enum answer answer;
    uint8_t shown; /* what a read returns */
};

struct facts { /* of each request that ever was */
    bool is_committed, nothing_happened;
};

static uint64_t seed_now;
static void (*print_world)(void); /* what is around the state, after a failure */

/* Also in the child that looks for a planted bug. */
static _Noreturn void fail(const char *what)
{
    printf("FAIL: %s; repeat with --from %" PRIu64 " --seeds 1\n", what, seed_now);
    if (print_world != NULL) print_world();
    fflush(stdout);
    _exit(1);
}

static struct stories {
    struct facts facts[REQUESTS];
    uint32_t requests;
    struct {
        bool revoke_begun;
        uint64_t minted_ms, revoked_ms; /* when that was answered or shown; 0: not */
        unsigned actor;
    } tokens[TOKENS];
    struct {
        uint64_t answered_at;    /* behind the offset of the newest answered suspension */
        uint64_t clear_ms;       /* since when a client may rely on its not being suspended */
        uint64_t suspend_end_ms; /* when the newest suspension was answered */
        unsigned suspends_open;
        bool is_unsure; /* the outcome of a suspension is not known */
    } actors[ACTORS];
    struct {
        uint64_t resolved_ms, redeemed_ms;
    } reviews[REVIEWS];
    unsigned tokens_made, reviews_made;

    struct model truth;
    uint64_t committed;
    uint64_t lost;      /* a cut took commits that only an engine with so many of them can miss */
    uint64_t published; /* by the platform: commits[0 .. published) are stored */
    bool was_cut; /* the log lost its tail: leader_changed may have been answered by a lost TERM */
    bool is_forked; /* a cut log lost what was answered: only agreement is held from here on */
    struct {
        uint64_t term, n, history, hash, offset;
    } commits[COMMITS_MAX];
} stories;

/* An entry that no engine has counted before. */
static void commit(uint64_t term, uint64_t n, uint64_t history, const struct record *records,
                   unsigned count, uint64_t offset)
{
    check(stories.committed < COMMITS_MAX);
    for (unsigned i = 0; i < count; i++) {
        const char *broken = model_apply(&stories.truth, &records[i], offset + 1);
        if (broken != NULL && !stories.is_forked) fail(broken);
        struct facts *f = &stories.facts[records[i].request];
        if (f->is_committed && !stories.is_forked) fail("one request is in the log twice");
        if (f->nothing_happened && !stories.was_cut)
            fail("a request that was answered leader_changed is in the log");
        f->is_committed = true;
    }
    stories.commits[stories.committed].term = term;
    stories.commits[stories.committed].n = n;
    stories.commits[stories.committed].offset = offset;
    stories.commits[stories.committed].history = history;
    stories.commits[stories.committed++].hash = model_hash(&stories.truth);
}

/* At this moment an engine that has counted `commits` records that it let a token in. */
static void must_be_acceptable(unsigned token, uint64_t commits)
{
    unsigned actor = stories.tokens[token].actor;
    if (stories.is_forked || commits < stories.lost) return;
    if (stories.tokens[token].revoked_ms != 0)
        fail("a token was accepted after its revocation was answered or shown");
    if (stories.truth.actors[actor].is_suspended &&
        stories.truth.actors[actor].at <= stories.actors[actor].answered_at)
        fail("a suspended actor was let in after the answer");
}

static void hold_read(const struct request *r)
{
    if (r->op == OP_INTROSPECT && !r->shown) {
        if (stories.tokens[r->object].revoked_ms != 0 &&
            stories.tokens[r->object].revoked_ms < r->begin_ms)
            fail("introspection shows a token as active after its revocation was answered");
    }
    if (r->op == OP_GET) {
        if (stories.reviews[r->object].resolved_ms != 0 &&
            stories.reviews[r->object].resolved_ms < r->begin_ms && r->shown <= REVIEW_PENDING)
            fail("a review is pending after its resolution was answered");
        if (stories.reviews[r->object].redeemed_ms != 0 &&
            stories.reviews[r->object].redeemed_ms < r->begin_ms && r->shown != REVIEW_REDEEMED)
            fail("an approval is there after its redemption was answered");
    }
}

static void hold_denied_use(const struct request *r)
{
    unsigned actor = stories.tokens[r->object].actor;
    bool is_known = stories.tokens[r->object].minted_ms != 0 &&
                    stories.tokens[r->object].minted_ms < r->begin_ms;
    bool is_free =
        stories.actors[actor].clear_ms != 0 && stories.actors[actor].clear_ms < r->begin_ms;
    if (is_known && is_free && !stories.tokens[r->object].revoke_begun)
        fail("a token that was minted is refused");
}

/* A client gets its answer. `at`: behind the revocation or suspension that it is about. */
static void hold_answer(const struct request *r, uint64_t now_ms, uint64_t at)
{
    struct facts *f = &stories.facts[r->id];
    if (r->answer == ANSWER_LEADER_CHANGED) f->nothing_happened = true;
    if (r->op == OP_SUSPEND) {
        stories.actors[r->object].suspends_open--;
        stories.actors[r->object].suspend_end_ms = now_ms;
        if (r->answer == ANSWER_UNKNOWN) stories.actors[r->object].is_unsure = true;
    }
    if (stories.is_forked) return;
    if (f->nothing_happened && f->is_committed && !stories.was_cut)
        fail("leader_changed was answered to what is in the log");
    bool is_change = r->op != OP_USE && r->op < OP_INTROSPECT && r->op != OP_REVOKE;
    if (r->answer == ANSWER_DONE && is_change && !f->is_committed)
        fail("a change was answered that is not in the log");
    if (r->answer == ANSWER_DENIED && (r->op == OP_SPEND || r->op == OP_COUNT) && !f->is_committed)
        fail("a denial by the state was answered whose record is not in the log");
    if (r->answer == ANSWER_DENIED && r->op == OP_USE) hold_denied_use(r);
    if (r->answer != ANSWER_DONE) return;
    hold_read(r);
    switch (r->op) {
    case OP_MINT: stories.tokens[r->object].minted_ms = now_ms; break;
    case OP_INTROSPECT:
        if (!r->shown) break;
        /* fall through */
    case OP_REVOKE:
        if (stories.tokens[r->object].revoked_ms == 0)
            stories.tokens[r->object].revoked_ms = now_ms;
        break;
    case OP_SUSPEND:
        if (at > stories.actors[r->object].answered_at) stories.actors[r->object].answered_at = at;
        break;
    case OP_RESUME: /* no suspension was under way beside it */
        if (stories.actors[r->object].suspends_open == 0 &&
            stories.actors[r->object].suspend_end_ms < r->begin_ms &&
            !stories.actors[r->object].is_unsure)
            stories.actors[r->object].clear_ms = now_ms;
        break;
    case OP_APPROVE:
    case OP_REFUSE: stories.reviews[r->object].resolved_ms = now_ms; break;
    case OP_REDEEM: stories.reviews[r->object].redeemed_ms = now_ms; break;
    default: break;
    }
}

#endif
