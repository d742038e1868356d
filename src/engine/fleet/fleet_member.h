/* fleet_member.h - this engine's membership in a fleet: what its reactors may read of it.
 *
 *   member thread   reads the log, drives `struct fleet` (fleet/fleet.h), appends, publishes the view
 *   reactors        read the view; hand over blocks of records (fleet_lane.h)
 *
 * An engine without the option `fleet` has no member: `engine.member` is NULL. The view is of
 * atomics, each with one writer, the member thread. Any thread may call what takes a const pointer;
 * none of it waits. */
#ifndef ENGINE_FLEET_MEMBER_H
#define ENGINE_FLEET_MEMBER_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/fault.h"
#include "engine/fleet/roster.h"
#include "fleet/fleet.h"

struct engine;
struct fleet_member;
struct fleet_trail; /* fleet_trail.h */

enum { FLEET_NAME_MAX = 64, FLEET_REASON_TEXT = 320 };

/* The engine that leads, as of the newest TERM that was read. */
struct fleet_leader {
    uint64_t term; /* 0: none has led yet */
    bool is_self;
    char node[ENTRY_NAME_MAX + 1];
    char address[ENTRY_NAME_MAX + 1]; /* its fleet.advertise; "": it has none */
};

/* The leader; a short lock. The term alone, without one: for a look at each turn. */
void fleet_member_leader(struct fleet_member *m, struct fleet_leader *ret);
uint64_t fleet_member_term(const struct fleet_member *m);
/* The fleet's stream, for the publisher. */
struct fleet_trail *fleet_member_trail(const struct fleet_member *m);
/* This engine leads, and its first entry is committed: it serves requests of the state. */
bool fleet_member_leads(const struct fleet_member *m);
/* ERR_OK: a request of the state may begin here. ERR_NO_LEADER: this engine does not lead;
 * ERR_LEADER_CHANGED: not any more; ERR_OVERLOADED: the log has not moved for journal.stall. */
enum err fleet_member_refusal(const struct fleet_member *m);
/* It led, and does not any more: no further block is committed. The process ends. */
bool fleet_member_is_over(const struct fleet_member *m);
/* Reads CLOCK_BOOTTIME. Whether an agent, or a token, may be let in now: ask when the request's
 * bytes were read. */
bool fleet_member_admits(const struct fleet_member *m);
/* Whether a decision for an agent, or a token, may be recorded now: ask where it is recorded. */
bool fleet_member_records(const struct fleet_member *m);
/* Why this engine is not ready, as a sentence. False: it is. */
bool fleet_member_trouble(struct fleet_member *m, char to[FLEET_REASON_TEXT]);

/* ---- what people see and ask for (fleet_person.c): any thread; a short lock ---- */

struct fleet_view {
    struct fleet_id id;
    struct fleet_leader leader;
    uint64_t next_offset; /* entries of the log below it were read */
    uint64_t lease_left_ms;
    uint16_t format;               /* of the log, in force */
    char ended[FLEET_REASON_TEXT]; /* why reading ended; "": it goes on */
};
/* `ret_roster`: NULL if it is not wanted. */
void fleet_member_view(struct fleet_member *m, struct fleet_view *ret, struct roster *ret_roster);
/* The engines that should send heartbeats and do not, or do not reach the leader, as a sentence.
 * False: there are none. */
bool fleet_member_worry(struct fleet_member *m, char to[FLEET_REASON_TEXT]);
/* The leader stops serving requests of the state, and asks this node to stand. If it does not take
 * over within five seconds, the leader goes on. If it leads already, nothing happens. ERR_NOT_FOUND,
 * ERR_FLEET_MEMBER_UNFIT: why it cannot lead. */
enum err fleet_member_hand_over(struct fleet_member *m, struct str node, struct fault *f);
/* The leader raises the log's format by one. If this program knows no newer one, nothing happens.
 * ERR_FLEET_MEMBER_UNFIT: an engine, other than one that is silent for longer than its lease, does not
 * know it. *ret: the format that will be in force. */
enum err fleet_member_raise(struct fleet_member *m, uint16_t *ret, struct fault *f);

/* ---- snapshots (fleet_snapshots.c) ---- */

struct fleet_snapshot;
/* What this run has read of the log. */
struct member_progress {
    uint64_t bytes, entries, records;
};
void fleet_member_progress(const struct fleet_member *m, struct member_progress *ret);
/* Where the reading stands now: the next snapshot has to arrive there. Waits for the member's
 * thread. False: `given_up`. */
bool fleet_member_point(struct fleet_member *m, const _Atomic bool *given_up,
                        struct fleet_snapshot *ret, struct member_progress *ret_progress);

/* ---- start and end: the main thread ---- */

/* Checks the options, connects, and finds the log and the fleet's id. ERR_BAD_VALUE, ERR_EXISTS,
 * ERR_CORRUPT: why this engine cannot be in the fleet, with what to do; ERR_UPSTREAM_FAILED: Kafka
 * does not answer. */
enum err fleet_member_open(struct engine *e, struct fleet_member **ret, struct fault *f);
/* Without the option: a data directory that was in a fleet does not start, because its copy of the
 * state is old. */
enum err fleet_member_absent(const struct engine *e, struct fault *f);
/* Whether this data directory has been in this fleet, so that its journal has no state. */
bool fleet_member_was_here(const struct fleet_member *m);
/* This engine begins the fleet, with the state that its data directory has: the shards have to have
 * that state before fleet_member_rebuild(). */
bool fleet_member_takes_own(const struct fleet_member *m);
/* Loads the newest snapshot, an own one or that of another engine, and reads the log from there to its
 * present end into the shards. `has_own`: they have the state with which the fleet begins.
 * ERR_BAD_VALUE, too: this machine's clock is off the brokers'. */
enum err fleet_member_rebuild(struct fleet_member *m, bool has_own, const _Atomic bool *given_up,
                              struct fault *f);
/* What the rebuild passed over, as a sentence, from *at on, which begins with 0. False: there is no
 * more. */
bool fleet_member_skipped(const struct fleet_member *m, unsigned *at, char to[FLEET_REASON_TEXT]);
/* `ended` is called once on the member's thread if this process has to end: it led, and does not any
 * more. */
void fleet_member_start(struct fleet_member *m, void (*ended)(void *context), void *context);
/* Lets no agent in any more, and appends a closed heartbeat when the reactors have recorded what
 * they had let in. Returns when that is read back, or after `ms`. */
void fleet_member_leave(struct fleet_member *m, uint32_t ms);
void fleet_member_stop(struct fleet_member *m);    /* the thread, before the reactors are freed */
void fleet_member_destroy(struct fleet_member *m); /* NULL: nothing */

/* ---- for reactors (fleet_reactor.c) ---- */

struct fleet_lane *fleet_member_lane(struct fleet_member *m, unsigned reactor);
void fleet_member_wake(struct fleet_member *m);
/* It had a turn, so it is alive. */
void fleet_member_turned(struct fleet_member *m, unsigned reactor);
/* The term in which this engine is about to serve; 0: none. */
uint64_t fleet_member_prepares(const struct fleet_member *m);
/* The reactor is ready for the term, once this block is committed. */
void fleet_member_prepared(struct fleet_member *m, unsigned reactor, uint64_t term, uint64_t block);
/* The entry before the offset `next` cannot be applied. */
void fleet_member_broke(struct fleet_member *m, uint64_t next, const struct fault *why);
/* The newest time of an entry. */
uint64_t fleet_member_log_ms(const struct fleet_member *m);

/* Whether relays reach the leader; true until it is called. Any thread. */
void fleet_member_note_reach(struct fleet_member *m, bool reaches);

#endif
