/* owner.h - how a reactor performs calls on the slots that it owns.
 *
 *   room in the journal → shard_step() → its records and deltas → notices → the result, or a place to wait
 *
 *              /-- held: no block is free; tried again each turn, nothing was changed
 *   called ---+--- waiting: on a review, in the shard
 *              \-- answered --+-- late: not durable, so that no reactor knows of the resumption, or rotation, yet
 *                             +-- unseen: not every reactor knows of the revocation, or resumption, yet
 *                             +-- syncing: this reactor's own, and the block that it recorded is not durable
 *                             +-- parked: another reactor's, and the block that it reveals is not durable
 *                             +-- ready: this reactor's own; continues at the end of the turn, behind a barrier
 *                             \-- on its way to the origin by the mailbox
 *
 * A call whose record finds no free block is held rather than refused (usually it still is in the
 * mailbox: engine_reactor.c). Blocks become free within one write, and at most LIMIT_CALLS_AWAY
 * calls of each origin can be held. Sockets are held for the same reason at the same time. A
 * refusal would show every short delay of a disk to clients. Only a full journal is an error
 * (ERR_JOURNAL_FULL).
 *
 * One reactor's thread. */
#ifndef ENGINE_OWNER_H
#define ENGINE_OWNER_H

#include "loop/loop.h"
#include "shards/shard.h"

struct engine_reactor;

struct call_queue { /* linked by call.next */
    struct call *first, *last;
    size_t count;
};

struct owner {
    struct shard *shard; /* the engine's; only this thread uses it while it runs */
    struct effects effects;
    struct arena arena; /* for the effects */
    struct call_queue held, late, unseen, parked, syncing, ready;
    struct call_queue paused;  /* calls of any reactor: their step continues in a later turn */
    struct call_queue yielded; /* own calls: their operations continue in a later turn */
    uint64_t durable;          /* newest own block that is known to be durable */
    /* of this reactor's newest notice, or of a later one that a call waits for; 0: no call waits */
    uint64_t place;
    /* this turn appended a notice: wake all reactors */
    bool told;
    bool stepped;            /* the next due time may be earlier than before */
    struct loop_timer timer; /* the shard's next due time */
    uint64_t timer_ms;       /* the time it is set to; 0: not started */
};

/* What holds between two calls of these functions. */
void owner_check(const struct owner *o);
void owner_init(struct engine_reactor *w, struct shard *shard);
void owner_fini(struct engine_reactor *w);

/* Runs an own call on own slots. True: answered, and the reply has to wait for the block c->block
 * (0: none). False: owner_ready() returns it, at the end of this turn at the earliest. */
bool owner_call(struct engine_reactor *w, struct call *c);
/* Publishes what an entry of another leader has ended, resumed or rotated. */
void owner_notice(struct engine_reactor *w, const struct effect_notice *n);
/* owner_ready() returns this own call, which owner_call() has answered. */
void owner_return(struct engine_reactor *w, struct call *c);
/* The same for a call from the mailbox; its result is sent by the mailbox. */
void owner_receive(struct engine_reactor *w, struct call *c);
/* The client of this own call is gone. True: the call was taken back, unanswered. False: it was
 * answered already, and returns to the origin. */
bool owner_forget(struct engine_reactor *w, struct call *c);

/* Whether every reactor knows of all present revocations. False: owner_ready() returns this own
 * call when they do. */
bool owner_all_know(struct engine_reactor *w, struct call *c);

/* Whether this reactor's block c->block is on the disk. False: owner_ready() returns this own call
 * when it is. */
bool owner_synced(struct engine_reactor *w, struct call *c);

/* owner_ready() returns this own call in a later turn. */
void owner_yield(struct engine_reactor *w, struct call *c);

/* Without a client: suspends an own actor as the platform has it (CALL_SUSPEND with since_ms), or makes
 * a fleet's first signing key (CALL_ROTATE).
 * ERR_FULL: no block is free; repeat it, which does only what is left. Else c->block and
 * owner.place have to be waited for. */
enum err owner_take_over(struct engine_reactor *w, struct call *c);

/* The steps at the end of a turn, in this order: */
void owner_retry(struct engine_reactor *w); /* held calls, if there is room again */
/* One step of one paused call; true: some are left for the next turn. */
bool owner_resume(struct engine_reactor *w);
/* due work; true: some is left for the next turn */
bool owner_tick(struct engine_reactor *w);
/* results whose revocation every reactor knows now */
void owner_seen(struct engine_reactor *w);
/* the next own result; NULL: none, or no room for its record */
struct call *owner_ready(struct engine_reactor *w);
/* sends what is parked or waited for its block, and publishes what was resumed or rotated */
void owner_durable(struct engine_reactor *w, uint64_t durable);

#endif
