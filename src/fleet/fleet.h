/* fleet.h - one engine's part in a fleet: reads the log, sends heartbeats, takes over, leads.
 *
 *                silence, a random while            TERM acknowledged and counted
 *   FOLLOWER ------------------------> CANDIDATE --------------------------------> LEADER
 *       ^                                  |                                          |
 *       +------- another TERM counts ------+                                          |
 *                                          +--- its outcome is unknown ---> ENDED <---+
 *                 another TERM counts, an entry's outcome is unknown, a peer should lead
 *
 * ENDED is the end of the process: its supervisor starts it again, and it follows. So no state has to
 * be taken back. The other end is of reading (replay.h): that engine stays, and admits no agent.
 *
 * The host does all I/O. It puts each entry of the log to fleet_read() and applies what counts; it
 * asks fleet_turn() what to send and reports each append by fleet_appended(); a reply of the leader
 * waits until fleet_outcome() of its position is DONE. Restrictions are in force at the leader at
 * once, releases (a resumption) when they are DONE.
 *
 * Times `now_ms` are CLOCK_BOOTTIME, read for that call; `wall_ms` is the program's clock. Randomness
 * is an argument. Pure; one thread, except that reactors may read what fleet_admits() reads. */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "fleet/lease.h"
#include "fleet/peers.h"
#include "fleet/replay.h"

enum {
    FLEET_HEARTBEAT_MS = 500,
    FLEET_SILENCE = 6,           /* own heartbeats read back since the leader's last sign */
    FLEET_STAND_DELAY_MS = 1000, /* at most */
    FLEET_CLOCK_OFF_MS = 1000,
    FLEET_MISSED_MS = 10000,
    FLEET_REACTORS_MAX = 64,
    FLEET_RECENT = 1024, /* counted entries that are remembered */
};

struct fleet_options {
    struct entry_key key;
    struct str node, address, version; /* views that outlive the fleet */
    struct incarnation incarnation;
    unsigned reactors;
};

enum fleet_role { FLEET_FOLLOWER, FLEET_CANDIDATE, FLEET_LEADER, FLEET_ENDED };

enum fleet_end {
    FLEET_RUNS,
    FLEET_DEPOSED,         /* another TERM counts */
    FLEET_OUTCOME_UNKNOWN, /* an entry of this engine may or may not be in the log */
    FLEET_CLOCK_OFF,       /* its stamps are off the log's time */
    FLEET_UNREACHABLE,     /* most peers report that they cannot reach this leader */
    FLEET_LOG_ENDED,       /* it led, and its reading of the log ended */
};

/* What is saved with a copy of the state, and begun with. */
struct fleet_saved {
    struct log_replay replay;
    struct peers peers;
};

struct fleet {
    struct fleet_options options;
    struct hasher *hasher;
    struct log_replay replay;
    struct lease lease;
    struct peers peers;
    uint64_t applied[FLEET_REACTORS_MAX]; /* entries below it are in force at that reactor */
    /* The newest counted entries, with their offsets: entry i at i % FLEET_RECENT. */
    struct {
        struct entry_point point;
        uint64_t offset;
    } recent[FLEET_RECENT];
    uint64_t recent_count;
    enum fleet_role role;
    enum fleet_end end;

    uint64_t heartbeat_ms; /* when the newest was sent */
    bool heartbeat_in_flight, heartbeat_is_due;
    bool leaves, clock_is_off;
    uint64_t left_behind; /* the newest heartbeat when it began to leave */

    uint64_t sign_number; /* the newest heartbeat that was sent before the leader's last sign */
    unsigned silent;      /* own ones read back that were sent after it */
    uint64_t stand_ms;    /* when to stand; 0: the leader is not silent */
    uint64_t missed_ms;   /* since when most peers miss this leader; 0: they do not */

    uint64_t term;      /* that this engine stands for or leads */
    bool term_is_acked; /* and it leads when both */
    bool term_is_counted;
    struct incarnation successor;    /* zeros: none */
    uint16_t raise_format;           /* of its next RECORDS, if above that in force */
    bool entry_in_flight;            /* the TERM or RECORDS; one at a time */
    uint64_t sealed, acked, counted; /* its RECORDS, by n */
    struct sha256 sealed_digest;     /* of the newest, or of the TERM */
    uint64_t stamp_ms;               /* the newest time that it gave out */
};

/* `saved`: NULL to read the log from its beginning. */
void fleet_init(struct fleet *f, const struct fleet_options *o, const struct fleet_saved *saved,
                uint64_t now_ms);
void fleet_fini(struct fleet *f);
void fleet_save(const struct fleet *f, uint64_t now_ms, struct fleet_saved *ret);

/* ---- reading ---- */

/* One entry of the log; NULL: unreadable. LOG_COUNTED: the host applies its records, unless they are
 * its own, which it has applied when it made them. `delay_ms`: random, at most
 * FLEET_STAND_DELAY_MS. */
enum log_result fleet_read(struct fleet *f, const struct entry *e, uint64_t offset,
                           uint64_t append_ms, uint64_t now_ms, uint64_t delay_ms);
/* The same for a message that is no entry, and that a person has decided to pass over. */
enum log_result fleet_pass(struct fleet *f, uint64_t offset);
/* Entries below `next` are in force at this reactor. */
void fleet_applied(struct fleet *f, unsigned reactor, uint64_t next);
/* The log holds entries up to `log_end`, exclusive: fewer than were read ends reading. */
void fleet_log_end(struct fleet *f, uint64_t log_end);

/* ---- agents ---- */

/* Whether an agent or a token may be let in now, and recorded now. An engine that leaves lets no new
 * one in, and records those that it has let in. */
bool fleet_admits(const struct fleet *f, uint64_t now_ms);
bool fleet_records(const struct fleet *f, uint64_t now_ms);
/* Whether the answer to a revocation or suspension in the entry at this offset may leave, or be
 * shown. */
bool fleet_settled(const struct fleet *f, uint64_t offset, uint64_t now_ms);

/* ---- sending ---- */

enum fleet_send { FLEET_NOTHING, FLEET_HEARTBEAT, FLEET_TERM };

struct fleet_turn {
    uint64_t now_ms, wall_ms, nonce;
    uint32_t lease_ms; /* the option's value */
    bool reaches;      /* the leader */
    bool works;        /* every reactor has turned lately, and the disk moves */
    uint64_t kept;     /* as in a heartbeat */
    unsigned let_in;   /* agents' requests that were admitted and are not recorded yet */
};
/* What to append now, as bytes in `out`. */
enum fleet_send fleet_turn(struct fleet *f, const struct fleet_turn *t, struct buf *out);
/* Stands at once: the first engine of a fleet, or a person wants it to lead. */
void fleet_stand(struct fleet *f, uint64_t now_ms);
/* A revocation or suspension is in force at all reactors: the next heartbeat, which others wait for,
 * is sent at once. */
void fleet_hurry(struct fleet *f);
/* Lets no agent in any more; its next heartbeats are closed when none is left. One whose role has ended
 * sends no others than these. */
void fleet_leave(struct fleet *f);
/* The log has a closed heartbeat that was sent since then, so no revocation waits for this engine. Of
 * one that reads no more: the log has taken it, or it is lost. */
bool fleet_has_left(const struct fleet *f);
/* The leader's next heartbeats ask this engine to stand; none (zeros): they ask for none any more. */
void fleet_hand_over(struct fleet *f, struct incarnation successor);
/* The leader's entries from the next one on have the format behind the one in force. The host has
 * checked that all engines of the fleet know it. False: this program does not. */
bool fleet_raise_format(struct fleet *f);
/* Whether the leader may append an entry: it has none in flight. */
bool fleet_may_seal(const struct fleet *f);
/* Appends the entry with these records (none: a barrier). ERR_FULL: they are too large. */
enum err fleet_seal(struct fleet *f, struct str records, uint64_t seq, uint64_t wall_ms,
                    struct buf *out);
/* How an append came out; what is not certain is not good. */
void fleet_appended(struct fleet *f, enum entry_kind kind, bool good);

/* ---- leading ---- */

/* The time of a record: never below that of an earlier one, of any leader. */
uint64_t fleet_stamp(struct fleet *f, uint64_t wall_ms);
/* For what happens now, a change or a read: the entry behind which its reply leaves. */
uint64_t fleet_position(const struct fleet *f);

enum fleet_outcome {
    FLEET_WAITS,
    FLEET_DONE,
    FLEET_NOTHING_HAPPENED, /* 503 leader_changed */
    FLEET_UNKNOWN           /* 503 outcome_unknown */
};
enum fleet_outcome fleet_outcome(const struct fleet *f, uint64_t position);

#endif
