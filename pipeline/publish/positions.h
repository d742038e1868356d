/* positions.h - where the stream stands, decided from what the platform says. Pure, any thread.
 *
 *   1 ........ confirmed | next ........ end          seq, in this engine's journal
 *   stored by the platform | to be sent | newest durable
 *
 * The platform's word is the truth for what it has stored; the journal's end is the truth for what
 * ever existed. Where the two contradict, somebody's disk went back in time. */
#ifndef PUBLISH_POSITIONS_H
#define PUBLISH_POSITIONS_H

#include "base/str.h"

enum { LOG_ID_MAX = 64, EPOCH_TEXT = 16 };

struct stream_report { /* GET /api/v1/audit/positions, for this node's journal 0 */
    char log_id[LOG_ID_MAX + 1];
    bool known;                   /* false: the platform never heard of this stream */
    char epoch[EPOCH_TEXT];       /* of record next_seq - 1 */
    uint64_t next_seq, want_from; /* it has all below want_from; want_from <= next_seq */
    /* not 0: it asks to send again from want_from; another number, another request */
    uint64_t replay;
};

struct positions {      /* starts out zeroed */
    uint64_t next;      /* the next to send; 0: not known yet */
    uint64_t confirmed; /* all up to here are stored */
    char log_id[LOG_ID_MAX + 1];
    uint64_t replay; /* of the requests to send again, the last one that was honoured */
};

enum position_news {
    POSITION_FINE,
    POSITION_REPLAY,   /* fine, but it had more before: its database was restored; tell someone */
    POSITION_NEW_LOG,  /* fine, but it is another database than before; tell someone */
    POSITION_AHEAD,    /* it has what this journal never had; nothing was changed */
    POSITION_NONSENSE, /* an answer that no correct platform gives; nothing was changed */
    POSITION_ASKED     /* fine; records are missing behind the relay, and are to be sent again */
};

enum position_news positions_found(struct positions *p, const struct stream_report *r,
                                   uint64_t end);
/* The same where a relay lies between: what the platform has not stored yet is on its way, so
 * `next` stays where it is unless the platform asks for a replay. A restored database, or another
 * one, needs none: its place in the relay is restored with it. */
enum position_news positions_relayed(struct positions *p, const struct stream_report *r,
                                     uint64_t end);
/* A batch of `count` records from `first` was answered with next_seq. */
enum position_news positions_accepted(struct positions *p, uint64_t first, uint64_t count,
                                      uint64_t next_seq, uint64_t end);
/* A batch from `first` was refused: records from want_from on are missing. */
enum position_news positions_gap(struct positions *p, uint64_t first, uint64_t want_from,
                                 uint64_t end);

#endif
