/* review_table.h - the reviews of a shard: objects, lists, indexes. Inside of this room only.
 *
 * A review is on exactly one of its tenant's orders, and the order is its state. review_open(),
 * review_vote(), review_move() and review_trace_add() are all that changes what is journaled of one;
 * calls, recovery and snapshots go through them alike, so that what was stepped and what was
 * replayed cannot differ. Each takes all memory it needs first and changes nothing where there is
 * none (ERR_FULL). A claim and those who wait are in memory only.
 *
 *   by id            whatever there is
 *   by same request  PENDING: (request, principal, tenant, owner), so that asking twice gives one review;
 *                    of two owners there are two, since neither may answer their own
 *   by subject       PENDING: an actor's or a person's, in the order of their ordinals
 *   by spelling      PENDING: of actors whose names are the same but for their spelling
 *   by trace         every decision that was given the review
 *   by tenant, state in the order of ordinals: pages
 *   by time          a wheel of pending and approved ones by their deadlines, a list of ended ones
 *
 * A review is one allocation with its strings; what comes to it later (votes, a resolution, a
 * redemption, traces) are pieces that go with it. Nothing here reads a clock. */
#ifndef SHARDS_REVIEW_TABLE_H
#define SHARDS_REVIEW_TABLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/wheel.h"
#include "shards/call.h"
#include "shards/review.h"
#include "shards/order.h"

enum {
    NAME_BYTES_MAX = 1024,   /* 256 characters */
    REVIEW_TRACES_MAX = 256, /* trace ids that are remembered of one review, its own included */
    REVIEW_KEPT_MS = 24 * 3600 * 1000, /* after it ended; the audit trail has it for ever */
};

struct review_piece; /* memory that goes with its review */

/* One trace id of one review; those with the same id in the same tenant are a list. */
struct review_trace {
    struct review *review;
    struct review_trace *of_review;       /* the review's next */
    struct review_trace *previous, *next; /* with the same key */
    struct str key;                       /* trace id, NUL, tenant */
};

/* What an approval takes: for each requirement how many votes, and whether anyone may give them. */
struct review_needs {
    uint8_t count;
    uint8_t approvals[REVIEW_REQUIREMENTS_MAX];
    uint32_t open; /* bit i: it names nobody, so every reviewer meets it */
};

/* Actors whose names may be one but for its spelling. */
struct review_spelling {
    struct list subjects; /* of review_subject.of_spelling */
    uint64_t hash;        /* of tenant and name; 0: of those that could not be folded */
};

struct review_subject {
    struct list pending; /* of review.of_subject, by ordinal */
    size_t count;
    struct review_spelling *spelling; /* of an actor; NULL: a person's */
    struct link of_spelling;
    struct str key; /* 'a' or 'u', tenant, NUL, name */
    char bytes[];
};

struct review_tenant {
    struct order states[REVIEW_STATES];
    uint64_t mark; /* of the block with the newest record of any of them */
    struct str name;
    char bytes[];
};

struct review {
    struct review_facts facts; /* approvals are `votes` */
    uint64_t mark;             /* of the block with its newest record; 0: it was recovered */
    struct review_needs needs;
    struct review_vote *votes;
    size_t votes_room;
    struct review_tenant *tenant;
    struct review_subject *subject; /* PENDING */
    struct link of_subject;         /* PENDING */
    struct link ended;              /* DENIED, EXPIRED, CANCELLED, REDEEMED: by when that was */
    struct wheel_entry timer;
    struct call *waiters; /* PENDING, or while it is claimed: by call.next */
    bool claimed;         /* APPROVED: a redemption is under way; in memory only */
    unsigned waiter_count;
    struct str same_key;         /* request, principal, NUL, tenant, NUL, owner */
    struct review_trace *traces; /* newest first; the last is `trace` */
    size_t trace_count;
    struct review_trace trace;
    struct review_piece *pieces;
    size_t bytes; /* all of it */
};

struct review_table {
    struct map by_id, by_same, by_subject, by_spelling, by_trace, tenants;
    struct list ended;  /* oldest first */
    struct wheel wheel; /* of review.timer, of those that have not ended */
    struct wheel waits; /* of call.timer: waits that end without an answer */
    struct order_spare spare;
    struct arena scratch; /* for requirements */
    size_t count, bytes, waiter_count;
    size_t count_by_state[REVIEW_STATES];
    size_t count_max, bytes_max;
    uint64_t ordinal_max;
};

void review_table_init(struct review_table *t, size_t count_max, size_t bytes_max);
void review_table_fini(struct review_table *t);

/* ---- finding ---- */

/* NULL: there is none. */
struct review *review_find(const struct review_table *t, struct id id);
/* The pending one for this very request, or NULL. */
struct review *review_find_same(const struct review_table *t, struct str tenant,
                                struct str principal, struct str owner,
                                const struct review_digest *request);
/* The subject's pending reviews, or NULL: there are none. */
struct review_subject *review_subject_find(const struct review_table *t, struct str tenant,
                                           bool is_user, struct str name);
/* An actor of the tenant's with pending reviews that may be this one but for the spelling of its
 * name. ERR_NOT_FOUND: there is none. ERR_FULL: there is no memory to fold the name. */
enum err review_subject_spelled(const struct review_table *t, struct str tenant, struct str actor,
                                struct review_subject **ret);
/* The newest review that was given this trace id, others by ->next; NULL: none. */
struct review_trace *review_trace_find(const struct review_table *t, struct str tenant,
                                       struct str trace_id);
struct str review_trace_id(const struct review_trace *k);
struct review_tenant *review_tenant_find(const struct review_table *t, struct str name);

/* Whether it is past the deadline of its state, recorded or not. */
bool review_is_overdue(const struct review *r, uint64_t now_ms);
static inline bool review_state_is_end(enum review_state s) { return s < REVIEW_PENDING; }

/* ---- changing ---- */

/* Drops ended reviews, oldest first, until one more of `bytes` has its place;
 * false: none can be made. */
bool review_make_room(struct review_table *t, size_t bytes);
size_t review_size(const struct review_facts *f); /* about: what opening it takes */
/* Copies. ERR_CORRUPT: its requirements are not what they have to be, or it is there already. */
enum err review_open(struct review_table *t, const struct review_facts *f, struct review **ret);
/* Copies. ERR_FULL: out of memory, or as many votes as there may be; nothing is changed then. */
enum err review_vote(struct review_table *t, struct review *r, const struct review_vote *v);
/* To after->state, with its times, redemption and retry. Who resolved it is told by the last vote
 * where it is approved, by `after` where it ends another way, and stays when an approval ends.
 * ERR_CORRUPT: there is no such arrow in review.h. */
enum err review_move(struct review_table *t, struct review *r, const struct review_facts *after);
/* One more trace id; kept once, and no more than REVIEW_TRACES_MAX of them. */
enum err review_trace_add(struct review_table *t, struct review *r, struct str trace_id);
/* Drops at most so many of those that ended long enough ago. */
void review_table_prune(struct review_table *t, uint64_t now_ms, size_t most);
/* When the next will have, ms. */
uint64_t review_forget_ms(const struct review_table *t);
void review_drop(struct review_table *t, struct review *r); /* nobody waits on it */

/* Whether its votes meet every requirement, `more` (or NULL) counted too. */
bool review_has_quorum(const struct review *r, const struct review_vote *more);
/* The bits that count: those given, and those of requirements that anyone meets. */
uint32_t review_meets(const struct review *r, uint32_t given);

/* ---- waiting ---- */

/* Borrows the call until it is removed. */
void review_waiter_add(struct review_table *t, struct review *r, struct call *c);
/* it waits: c->previous says so */
void review_waiter_remove(struct review_table *t, struct call *c);

#endif
