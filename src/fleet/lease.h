/* lease.h - until when an engine may admit agents by its own copy of the state.
 *
 *   sent, with a stamp and a nonce --> read back --> passed by every reactor = the horizon
 *
 * A heartbeat that was read back proves that its sender had read all before it. So the horizon is
 * the moment at which it was SENT, and it counts from when all reactors have seen the revocations
 * before it. Agents are admitted while `now - horizon` is at most the lease that stands in that
 * heartbeat: the one that the others have read, whatever the option is now.
 *
 * A closed heartbeat promises to admit no agent until an open one, sent after it, was read back. An
 * engine whose lease has lapsed sends closed ones, and open ones again only when it has read a
 * closed one back lately: an engine that writes but cannot read must not look open.
 *
 * Times are milliseconds of the engine's own CLOCK_BOOTTIME. Pure; one thread. */
#ifndef FLEET_LEASE_H
#define FLEET_LEASE_H

#include "fleet/entry.h"

enum { LEASE_SENT = 64, LEASE_READ_LATELY_MS = 2000 };

struct lease_sent {
    uint64_t number; /* 0: unused */
    uint64_t nonce;
    uint64_t sent_ms;
    uint64_t offset; /* where it was read back */
    uint32_t lease_ms;
    bool closed, is_read;
};

struct lease {
    struct lease_sent sent[LEASE_SENT]; /* the newest, by number */
    uint64_t number;                    /* of the newest */
    uint64_t closed_number;             /* of the newest closed one; 0: none */
    uint64_t read_number, read_ms;      /* the newest that was read back, and when */
    uint64_t append_ms, append_sent_ms; /* the log's time of that one, and when it was sent */
    bool is_open;                       /* there is a horizon */
    uint64_t horizon_ms, horizon_number;
    uint32_t horizon_lease_ms, option_ms; /* what its heartbeat has; what the next one gets */
};

/* Notes a heartbeat before it is queued: `now_ms` has to be from before. Returns its number. A
 * closed one ends the horizon at once. */
uint64_t lease_send(struct lease *l, uint64_t now_ms, uint64_t nonce, uint32_t lease_ms,
                    bool closed);
/* Reads an own heartbeat in the log, appended at `append_ms` by the log's clock. False: it was never
 * sent. *ret_sent_ms: when; 0 where it is too old to be remembered. */
bool lease_read_back(struct lease *l, const struct entry *e, uint64_t offset, uint64_t append_ms,
                     uint64_t now_ms, uint64_t *ret_sent_ms);
/* Every reactor has passed all entries below `applied`. */
void lease_applied(struct lease *l, uint64_t applied);
/* The clock has to be read after the request's bytes were, and again where it is recorded. */
bool lease_admits(const struct lease *l, uint64_t now_ms);
/* Whether the next heartbeat has to be closed, of an engine that wants to admit agents. */
bool lease_must_close(const struct lease *l, uint64_t now_ms);

#endif
