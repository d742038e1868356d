/* review_table.h - the reviews of a shard: objects, lists, indexes. For the files of this room
 * only.
 *
 * A review is on exactly one of its tenant's orders, and the order is its state. Only
 * review_open(), review_vote(), review_move() and review_trace_add() change what is journaled of a
 * review. Calls, recovery and snapshots all use them, so that stepped and replayed state cannot
 * differ. Each takes all memory it needs first, and changes nothing if there is none (ERR_FULL).
 * Claims and waiters are in memory only.
 *
 *   by id            every review
 *   by same request  PENDING, APPROVED: (request, principal, tenant, owner), so that the same request twice
 *                    gives one review; two owners have two, since neither may answer their own. At most one
 *                    of a row is pending, and that one is asked for first
 *   by subject       PENDING, APPROVED: an actor's or a person's, in the order of their ordinals
 *   by spelling      PENDING, APPROVED: of actors whose names differ only in their spelling
 *   by trace         every decision that was given the review
 *   by tenant, state in the order of ordinals: pages
 *   by deadline      PENDING, of a tenant: pages of what is due next
 *   by time          a wheel of pending and approved ones by their deadlines, a list of ended ones
 *
 * A review is one allocation with its strings; later additions (votes, a resolution, a redemption,
 * traces) are pieces that are freed with it. Nothing here reads a clock. */
#ifndef SHARDS_REVIEW_TABLE_H
#define SHARDS_REVIEW_TABLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/wheel.h"
#include "shards/call.h"
#include "shards/review.h"
#include "shards/order.h"
#include "shards/shares.h"

enum {
    NAME_BYTES_MAX = 1024,   /* 256 characters */
    REVIEW_TRACES_MAX = 256, /* trace ids that are kept for one review, its own included */
    REVIEW_KEPT_MS =
        LIMIT_REVIEW_KEPT_HOURS * 3600 * 1000, /* after it ended; the audit trail keeps it */
};

struct review_piece; /* memory that is freed with its review */

/* One trace id of one review; those with the same id in the same tenant are a list. */
struct review_trace {
    struct review *review;
    struct review_trace *of_review;       /* the review's next */
    struct review_trace *previous, *next; /* with the same key */
    struct str key;                       /* trace id, NUL, tenant */
};

/* The votes that an approval takes: for each requirement how many, and whether any reviewer may
 * give them. */
struct review_needs {
    uint8_t count;
    uint8_t approvals[REVIEW_REQUIREMENTS_MAX];
    uint32_t open; /* bit i: it names no group, so every reviewer meets it */
};

/* Actors whose names may differ only in their spelling. */
struct review_spelling {
    struct list subjects; /* of review_subject.of_spelling */
    uint64_t hash;        /* of tenant and name; 0: names that could not be case-folded */
};

struct review_subject {
    struct list pending, approved;    /* of review.of_subject, by ordinal */
    size_t count;                     /* of the pending ones */
    struct review_spelling *spelling; /* of an actor; NULL: a person's */
    struct link of_spelling;
    struct str key; /* 'a' or 'u', tenant, NUL, name */
    char bytes[];
};

struct review_tenant {
    struct order states[REVIEW_STATES];
    struct order by_deadline; /* of the pending ones, by review_deadline_position() */
    uint64_t block;           /* of the block with the newest record of any of them */
    struct str name;
    char bytes[];
};

struct review {
    struct review_facts facts; /* approvals are `votes` */
    uint64_t block;            /* of the block with its newest record; 0: it was recovered */
    struct review_needs needs;
    struct review_vote *votes;
    size_t votes_room;
    struct review_tenant *tenant;
    struct review_subject *subject; /* PENDING, APPROVED */
    struct link of_subject;         /* PENDING, APPROVED */
    /* DENIED, EXPIRED, CANCELLED, REDEEMED: in the lists of the table, of its tenant and of its key,
     * ordered by the time of that */
    struct link ended, ended_of_tenant, ended_of_key;
    struct share *share; /* of its key */
    struct wheel_entry timer;
    uint64_t deadline_place; /* PENDING: in by_deadline */
    struct call *waiters;    /* PENDING, or while it is claimed: by call.next */
    bool claimed;            /* APPROVED: a redemption is in progress; in memory only */
    unsigned waiter_count;
    struct str same_key;                      /* request, principal, NUL, tenant, NUL, owner */
    struct review *same_next, *same_previous; /* PENDING, APPROVED: with the same key */
    struct review_trace *traces;              /* newest first; the last is `trace` */
    size_t trace_count;
    struct review_trace trace;
    struct review_piece *pieces;
    size_t bytes; /* all of it */
};

struct review_table {
    struct map by_id, by_same, by_subject, by_spelling, by_trace, tenants;
    struct list ended;    /* oldest first */
    struct shares shares; /* by tenants and keys, which are a principal and an owner here */
    struct wheel wheel;   /* of review.timer, of those that have not ended */
    struct wheel waits;   /* of call.timer: waits that end without an answer */
    struct order_spare spare, deadline_spare;
    struct arena scratch; /* for requirements */
    size_t waiter_count;
    size_t count_by_state[REVIEW_STATES];
    uint64_t ordinal_max;
};

void review_table_init(struct review_table *t, size_t count_max, size_t bytes_max);
void review_table_fini(struct review_table *t);

/* ---- invariants ---- */

/* What is true of every review, subject and table between two calls. Constant time. */
void review_check(const struct review *r);
void review_subject_check(const struct review_subject *s);
void review_table_check(const struct review_table *t);

/* ---- finding ---- */

/* NULL: there is none. */
struct review *review_find(const struct review_table *t, struct id id);
/* The pending one for this very request, or NULL. */
struct review *review_find_same(const struct review_table *t, struct str tenant,
                                struct str principal, struct str owner,
                                const struct review_digest *request);
/* An approved one for this very request that can be redeemed now: the newest whose ordinal is below
 * `below`, or NULL. */
struct review *review_find_approved(const struct review_table *t, struct str tenant,
                                    struct str principal, struct str owner,
                                    const struct review_digest *request, uint64_t below,
                                    uint64_t now_ms);
/* The subject's pending and approved reviews, or NULL: there are none. */
struct review_subject *review_subject_find(const struct review_table *t, struct str tenant,
                                           bool is_user, struct str name);
/* An actor of the tenant with pending or approved reviews whose name may differ from this one only in its
 * spelling. ERR_NOT_FOUND: there is none. ERR_FULL: there is no memory to fold the name. */
enum err review_subject_spelled(const struct review_table *t, struct str tenant, struct str actor,
                                struct review_subject **ret);
/* The newest review that was given this trace id, others by ->next; NULL: none. */
struct review_trace *review_trace_find(const struct review_table *t, struct str tenant,
                                       struct str trace_id);
struct str review_trace_id(const struct review_trace *k);
struct review_tenant *review_tenant_find(const struct review_table *t, struct str name);

static inline bool review_state_is_end(enum review_state s) { return s < REVIEW_PENDING; }
/* Of a review that has not ended. */
static inline uint64_t review_deadline_ms(const struct review *r)
{
    return r->facts.state == REVIEW_PENDING ? r->facts.expires_ms : r->facts.approval_expires_ms;
}
/* Whether it is past the deadline of its state, recorded or not. */
static inline bool review_is_overdue(const struct review *r, uint64_t now_ms)
{
    return !review_state_is_end(r->facts.state) && now_ms >= review_deadline_ms(r);
}

/* ---- changing ---- */

/* Whether there is a place for one more. Drops ended reviews, oldest first, until there is: those of
 * the key or of the tenant that is over its part, or of all. Errors as of shares_ask(): there are not
 * enough ended reviews. */
enum err review_make_room(struct review_table *t, const struct review_facts *f, uint64_t now_ms,
                          struct quota *ret);
size_t review_size(const struct review_facts *f); /* about: the bytes that opening it takes */
/* Copies. ERR_CORRUPT: its requirements are not valid, or it exists already. */
enum err review_open(struct review_table *t, const struct review_facts *f, struct review **ret);
/* Copies. ERR_FULL: out of memory, or the review has the most votes already; nothing is changed
 * then. */
enum err review_vote(struct review_table *t, struct review *r, const struct review_vote *v);
/* Moves the deadline of a review that has not ended to `deadline_ms`, if it is later. No record has
 * this change: only for a state that becomes a snapshot before anything is recorded. */
void review_end_by(struct review_table *t, struct review *r, uint64_t deadline_ms);
/* Changes the state to after->state, with its times, redemption and retry. The resolver is the last
 * vote's if it is approved, and `after`'s if it ends another way. It stays when an approval is
 * redeemed or expires.
 * ERR_CORRUPT: review.h has no such arrow. */
enum err review_move(struct review_table *t, struct review *r, const struct review_facts *after);
/* Adds a trace id; each is kept once, and at most REVIEW_TRACES_MAX of them. */
enum err review_trace_add(struct review_table *t, struct review *r, struct str trace_id);
/* Drops reviews that ended long enough ago, at most `most`. */
void review_table_prune(struct review_table *t, uint64_t now_ms, size_t most);
/* When the next review can be dropped, ms. */
uint64_t review_forget_ms(const struct review_table *t);
void review_drop(struct review_table *t, struct review *r); /* it has no waiters */

/* Whether its votes, and `more` (or NULL), meet every requirement. */
bool review_has_quorum(const struct review *r, const struct review_vote *more);
/* The bits that count: `given`, and those of requirements that every reviewer meets. */
uint32_t review_meets(const struct review *r, uint32_t given);

/* ---- waiting ---- */

/* Borrows the call until it is removed. */
void review_waiter_add(struct review_table *t, struct review *r, struct call *c);
/* it waits: c->previous is set */
void review_waiter_remove(struct review_table *t, struct call *c);

#endif
