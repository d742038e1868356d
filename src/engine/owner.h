/* owner.h - what a reactor does with calls on the slots that it owns.
 *
 *   room in the journal → shard_step() → its records and deltas → notices → the answer, or a place to wait
 *
 *              /-- held: no block is free; tried again each beat, nothing was changed
 *   asked ----+--- waiting: on a review, in the shard
 *              \-- answered --+-- late: not durable, so that no reactor knows of the resumption, or rotation, yet
 *                             +-- unseen: not every reactor knows of the revocation, or resumption, yet
 *                             +-- parked: another reactor's, and the block that it reveals is not durable
 *                             +-- ready: this reactor's own; goes on at the end of the beat, behind a gate
 *                             \-- on its way home by the mailbox
 *
 * A call whose record finds no free block is held rather than refused (as a rule it still is in the
 * mailbox: worker.c): blocks come free within one write, no more calls can be held than their homes
 * may have away (LIMIT_VISITS each), and sockets are held for the same reason at the same moment; a
 * refusal would make every hiccup of a disk visible to clients. Only a journal that is full is an
 * answer (ERR_JOURNAL_FULL).
 *
 * One reactor's thread. */
#ifndef ENGINE_OWNER_H
#define ENGINE_OWNER_H

#include "loop/loop.h"
#include "shards/shard.h"

struct worker;

struct call_queue { /* through call.next */
    struct call *first, *last;
    size_t count;
};

struct owner {
    struct shard *shard; /* the engine's; this thread's while it runs */
    struct effects effects;
    struct arena arena; /* theirs */
    struct call_queue held, late, unseen, parked, ready;
    uint64_t durable; /* newest block of ours known to be */
    /* of our newest notice, or of a later one that somebody waits for; 0: none is waited for */
    uint64_t place;
    /* a notice was appended in this beat: everybody is to be rung */
    bool told;
    bool stepped;            /* something may be due earlier than it was */
    struct loop_timer timer; /* the shard's next due time */
    uint64_t timer_ms;       /* which is this; 0: not started */
};

void owner_init(struct worker *w, struct shard *shard);
void owner_fini(struct worker *w);

/* Runs a call of this reactor's own on its own slots. True: answered, c->mark is the block
 * that the reply has to wait for (0: none). False: owner_ready() will give it, at the end of
 * this beat at the earliest. */
bool owner_ask(struct worker *w, struct call *c);
/* The same for a call that came by mail; its answer goes by mail. */
void owner_receive(struct worker *w, struct call *c);
/* The client of this call of our own is gone: true: it was taken back, unanswered; false: it was
 * answered already, and comes home. */
bool owner_forget(struct worker *w, struct call *c);

/* Whether all that is revoked by now is known to every reactor. False: owner_ready() will give this
 * call of our own when it is. */
bool owner_all_know(struct worker *w, struct call *c);

/* What an end of a beat does, in this order: */
void owner_retry(struct worker *w); /* held calls, where there is room again */
/* what is due by time; true: some is left for the next beat */
bool owner_tick(struct worker *w);
/* answers whose revocation every reactor knows of now */
void owner_seen(struct worker *w);
/* the next answer of our own; NULL: none, or no room for its record */
struct call *owner_ready(struct worker *w);
/* opens what is parked, and tells everybody of what was resumed or rotated */
void owner_durable(struct worker *w, uint64_t durable);

#endif
