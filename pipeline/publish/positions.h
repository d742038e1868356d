/* positions.h - the position of the stream, computed from the platform's answers. Pure, any thread.
 *
 *   1 ........ confirmed | next ........ end          seq, in this engine's journal
 *   stored by the platform | to be sent | newest durable
 *
 * The platform decides which records are stored. The journal's end decides which records ever
 * existed. If the two contradict each other, one of the disks went back in time. */
#ifndef PUBLISH_POSITIONS_H
#define PUBLISH_POSITIONS_H

#include "base/str.h"

enum { LOG_ID_MAX = 64, EPOCH_TEXT = 16 };

struct stream_report { /* GET /api/v1/audit/positions, for this node's journal 0 */
    char log_id[LOG_ID_MAX + 1];
    bool known;                   /* false: the platform has no such stream */
    char epoch[EPOCH_TEXT];       /* of record next_seq - 1 */
    uint64_t next_seq, want_from; /* it has all below want_from; want_from <= next_seq */
    /* not 0: it requests the records from want_from on again; each request has another number */
    uint64_t replay;
};

struct positions {      /* starts zeroed */
    uint64_t next;      /* the next to send; 0: not known yet */
    uint64_t confirmed; /* all up to here are stored */
    char log_id[LOG_ID_MAX + 1];
    uint64_t replay; /* the number of the last replay request that was obeyed */
};

enum position_news {
    POSITION_FINE,
    POSITION_REPLAY,   /* valid, but it had more before: its database was restored; log it */
    POSITION_NEW_LOG,  /* valid, but it is another database than before; log it */
    POSITION_AHEAD,    /* it has records that this journal never had; nothing was changed */
    POSITION_NONSENSE, /* an answer that no correct platform gives; nothing was changed */
    POSITION_ASKED     /* valid; records are missing behind the relay, and must be sent again */
};

enum position_news positions_found(struct positions *p, const struct stream_report *r,
                                   uint64_t end);
/* The same with a relay between: records that the platform has not stored yet are on their way, so
 * `next` stays unless the platform requests a replay. A restored or another database needs no
 * replay: its position in the relay is restored with it. */
enum position_news positions_relayed(struct positions *p, const struct stream_report *r,
                                     uint64_t end);
/* A batch of `count` records from `first` was answered with next_seq. */
enum position_news positions_accepted(struct positions *p, uint64_t first, uint64_t count,
                                      uint64_t next_seq, uint64_t end);
/* A batch from `first` was refused: records from want_from on are missing. */
enum position_news positions_gap(struct positions *p, uint64_t first, uint64_t want_from,
                                 uint64_t end);

#endif
