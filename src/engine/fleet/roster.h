/* roster.h - the engines of a fleet by their heartbeats, for people: node, address, version, offset.
 *
 *   LEADS    leads, and serves
 *   FOLLOWS  admits agents
 *   CLOSED   admits none: it starts, has lost its lease, or its reading of the log ended
 *   SILENT   no heartbeat for ROSTER_SILENT_MS of the log's time
 *   LEFT     silent, and its last heartbeat was closed
 *
 * A node has one row: its newest run's. What was silent for ROSTER_FORGET_MS has none: an engine that
 * is lost for ever is forgotten without a command. Nothing waits for it after its lease. Nothing that is
 * safe or unsafe depends on this table (peers.h has what revocations wait for). Pure; one thread. */
#ifndef ENGINE_ROSTER_H
#define ENGINE_ROSTER_H

#include "fleet/entry.h"

enum { ROSTER_MAX = 32, ROSTER_SILENT_MS = 5000, ROSTER_FORGET_MS = 3600000 };

enum roster_state { ROSTER_LEADS, ROSTER_FOLLOWS, ROSTER_CLOSED, ROSTER_SILENT, ROSTER_LEFT };

struct roster_member {
    struct incarnation incarnation;
    char node[ENTRY_NAME_MAX + 1], address[ENTRY_NAME_MAX + 1], version[ENTRY_NAME_MAX + 1];
    uint64_t applied, append_ms;
    uint32_t lease_ms;
    uint16_t known_format;
    bool closed, works, reaches;
};

struct roster {
    struct roster_member list[ROSTER_MAX];
    unsigned count;
    uint64_t log_ms; /* of the newest heartbeat: the log's time */
};

/* A heartbeat that counts. With more than ROSTER_MAX engines, the one that is silent the longest has no
 * row. */
void roster_read(struct roster *r, const struct entry *heartbeat, uint64_t append_ms);
enum roster_state roster_state(const struct roster *r, const struct roster_member *m);
const char *roster_state_text(enum roster_state state);
/* How long ago its newest heartbeat was, by the log's time. */
static inline uint64_t roster_age_ms(const struct roster *r, const struct roster_member *m)
{
    return r->log_ms > m->append_ms ? r->log_ms - m->append_ms : 0;
}
/* Whether something may wait for it: it has not left, and the lease of its newest heartbeat has not passed.
 */
bool roster_counts(const struct roster *r, const struct roster_member *m);
/* How many sent a heartbeat lately; how many should have, and have not. */
unsigned roster_present(const struct roster *r);
unsigned roster_silent(const struct roster *r);
/* NULL: there is none. */
const struct roster_member *roster_find(const struct roster *r, struct str node);

#endif
