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
#include "fleet/fleet.h"

struct engine;
struct fleet_member;

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
/* This engine leads, and its first entry is committed: it serves requests of the state. */
bool fleet_member_leads(const struct fleet_member *m);
/* Reads CLOCK_BOOTTIME. Whether an agent, or a token, may be let in now: ask when the request's
 * bytes were read. */
bool fleet_member_admits(const struct fleet_member *m);
/* Whether a decision for an agent, or a token, may be recorded now: ask where it is recorded. */
bool fleet_member_records(const struct fleet_member *m);
/* Why this engine is not ready, as a sentence. False: it is. */
bool fleet_member_trouble(struct fleet_member *m, char to[FLEET_REASON_TEXT]);
/* Whether relays reach the leader; true until it is called. Any thread. */
void fleet_member_note_reach(struct fleet_member *m, bool reaches);

#endif
