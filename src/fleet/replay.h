/* replay.h - which entries of a fleet's log count.
 *
 * All engines read the whole log in its order and put each entry to this one rule, so they agree on
 * the result without a vote:
 *
 *   TERM       counts if its term is greater than the current one: its sender leads from here on
 *   RECORDS    count if they are of the current term, of its leader, and the next in its chain
 *   HEARTBEAT  always counts
 *
 * A lower term, a number that was seen already and a TERM that is not greater are stale: they are
 * left out, and counted. Any other entry proves that the log or this reader is wrong. Then reading
 * ends for good, with its reason, and only a person may go on.
 *
 * A reader that found the log shorter asks for the newest entry once more: it has to be the same one.
 * A copy of the state that was saved goes on at the newest entry that it had read, which has to be
 * the same one in the log. A fleet that begins with a state names it in its first TERM: `last` of
 * that copy is the state's digest, with `next` 0. Pure; one thread. */
#ifndef FLEET_REPLAY_H
#define FLEET_REPLAY_H

#include "fleet/entry.h"

enum log_result { LOG_COUNTED, LOG_STALE, LOG_ENDED };

enum log_end {
    LOG_READS,          /* it has not ended */
    LOG_END_UNREADABLE, /* no entry of this fleet */
    LOG_END_OFFSET,   /* entries are missing between two reads, or the log is shorter than it was */
    LOG_END_NO_TERM,  /* records of a term whose TERM is not in the log */
    LOG_END_SENDER,   /* records of this term, of an engine that does not lead it */
    LOG_END_GAP,      /* records are missing */
    LOG_END_PREVIOUS, /* another entry was before these records than the one that was read */
    LOG_END_HISTORY,  /* the leader counted other entries before its term */
    LOG_END_RESUMED,  /* the entry at which this copy was saved is another one now */
    LOG_END_CUT, /* its sender had applied more, or other entries, than were before it: the log was cut */
    LOG_END_NEVER_SENT, /* a heartbeat in this engine's name that it never sent */
    LOG_END_DELTA,      /* a record cannot be applied */
    LOG_END_SEED,       /* the fleet began with another state than this copy */
};

/* All of it is saved with a copy of the state. */
struct log_replay {
    struct entry_point last;   /* counted, a TERM or RECORDS; n is 0 behind a TERM */
    uint64_t last_offset;      /* of that entry */
    struct entry_point before; /* the last one before the current term */
    struct incarnation leader; /* of the current term */
    uint64_t time_ms;          /* the newest of all counted entries: the log's time */
    uint64_t next;             /* the offset that is read next */
    struct sha256 newest;      /* digest of the entry before it, of any kind */
    uint64_t stale;            /* entries that were left out */
    uint16_t format;           /* in force: the newest of all counted TERM and RECORDS */
    bool resumes;              /* the entry at `next` has to be `newest` */
    enum log_end end;
    uint64_t end_offset;
};

/* At the beginning of the log, or at the entry that `saved` read last. */
void log_replay_begin(struct log_replay *r, const struct log_replay *saved);
/* `e`: NULL where entry_read() found a fault. */
enum log_result log_replay_step(struct log_replay *r, const struct entry *e, uint64_t offset);
/* Passes over a message that is no entry, because a person has decided so. */
enum log_result log_replay_pass(struct log_replay *r, uint64_t offset);
/* For a reason that only the caller can see. */
enum log_result log_replay_stop(struct log_replay *r, enum log_end why, uint64_t offset);
/* The log ends at this offset now; false: that is before what was read. */
bool log_replay_fits(struct log_replay *r, uint64_t log_end);

/* As bytes; without the reason for an end, and what it has left out. */
enum { LOG_REPLAY_BYTES = 176 };
void log_replay_put(const struct log_replay *r, char to[LOG_REPLAY_BYTES]);
void log_replay_get(const char from[LOG_REPLAY_BYTES], struct log_replay *ret);

#endif
