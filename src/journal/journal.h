/* journal.h - an append-only, hash-chained log. Decisions leave only after their records.
 *
 * Reactors (producers) fill blocks with records and seal them. The journal writer's writer thread
 * numbers the records, frames each block and writes it at an explicit offset into a zero-filled,
 * pre-synced segment. Its syncer thread makes written bytes durable. Both publish block numbers and
 * wake the producers.
 *
 *   producer: reserve → commit … → seal → (written, durable rise) → replies of that block may leave
 *   block     a producer's blocks are numbered 1, 2, … in the order in which it seals them
 *   seq       a record's number in this journal: 1, 2, … over all epochs, never reused
 *   epoch     random per boot: 16 lowercase hex digits
 *
 * A frame carries: magic, segment id, epoch, length, first seq, count, the last seq known durable
 * when it was written, the SHA-256 of the previous frame, and a CRC-32C seeded with segment id and
 * epoch. On open, the highest durable seq in any valid frame separates two cases. Damage up to that
 * seq broke a promise: the journal is refused, with the place of the damage. Damage beyond it is a
 * torn tail: it is cut at the first bad frame and counted, and the tail is copied to a fresh file
 * and synced before anything else.
 *
 * A write or sync that fails with EIO ends the process and is never retried: it is unknown which
 * data the kernel still holds. ENOSPC can only occur when a spare segment is made. Then the journal
 * is full, returns ERR_JOURNAL_FULL from journal_reserve, and continues when there is room. */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include <stdatomic.h>

#include "base/fault.h"
#include "journal/disk.h"

struct journal;
struct journal_producer;
struct journal_report;

enum {
    JOURNAL_EPOCH_TEXT = 16,
    JOURNAL_FULL_PERCENT = 95, /* of the file system: above it the journal takes no more records */
    JOURNAL_LEAVE_FILES = 2    /* files that no segment may take: a snapshot's, a bundle's */
};

struct journal_options {
    struct disk *disk; /* borrowed */
    unsigned producers;
    uint64_t segment_bytes; /* 0 = 64 MiB; at least 1 MiB */
    /* Confirmed segments stay for keep_ms (0: they do not stay), unless all segments together
     * exceed keep_bytes (0: no bound) or the disk is getting full. */
    uint64_t keep_ms, keep_bytes;
    uint64_t leave_bytes; /* as journal_leave() */
    uint64_t node;        /* tag of the name under which its records are published; 0: none */
    const _Atomic bool
        /* the opening ends with ERR_CLOSED when it is true; NULL: it is never cancelled */
        *given_up;
    /* Called after the whole journal was found sound, before anything is replayed or written; an
     * error from it ends the opening. NULL: none. */
    enum err (*accept)(void *context, const struct journal_report *found, struct fault *f);
    uint32_t lazy_sync_ms; /* blocks without waiting replies are synced after this long */
    /* Called by the journal writer's threads, or NULL. Must only wake. It is called for each
     * producer whose durable block moved, or whose written block moved over a record that was
     * committed without wants_sync (a reply that waits for durable needs no wakeup before). It is
     * also called for a producer that journal_reserve refused and that may try again. */
    void (*ring)(void *context, unsigned producer);
    /* Called when the durable seq moved (for the publisher), or NULL. Must only wake. */
    void (*ring_durable)(void *context);
    void *context;
};

/* One record as read back. */
struct journal_record {
    uint64_t seq;
    char epoch[JOURNAL_EPOCH_TEXT];
    struct str public_bytes;  /* the event's JSON */
    struct str private_bytes; /* the delta that rebuilds state; never published */
};

/* The result of opening. */
struct journal_report {
    uint64_t last_seq;                   /* 0: empty */
    char last_epoch[JOURNAL_EPOCH_TEXT]; /* of that record; zeros when empty */
    char epoch[JOURNAL_EPOCH_TEXT];      /* this boot's */
    uint64_t last_ms; /* when its last frame was written; time never goes back behind it */
    uint64_t node;    /* tag of the node that wrote it; 0: unknown */
    uint64_t durable_seq_claimed;   /* highest durable seq in any valid frame */
    uint64_t cut_frames, cut_bytes; /* torn tail that was cut */
    uint64_t records, segments;
};

/* Opens, verifies, cuts a torn tail, replays all kept records in order through `replay` (NULL:
 * none; an error from it ends the opening), makes the spare segment and starts the journal writer's
 * threads. ERR_CLOSED (cancelled), ERR_CORRUPT (damage at or below the durable seq: *f has segment,
 * offset, seq), ERR_BAD_VALUE (a newer program wrote it), ERR_EXISTS (another process has this
 * directory), ERR_NO_SPACE, ERR_IO. */
enum err journal_open(const struct journal_options *options,
                      enum err (*replay)(void *context, const struct journal_record *record),
                      void *replay_context, struct journal **ret, struct journal_report *ret_report,
                      struct fault *f);

/* Seals nothing: producers must have sealed and stopped, and cursors must be closed. Writes and
 * syncs the sealed blocks, then stops the threads. */
void journal_close(struct journal *j);

/* ---- producers: each belongs to one thread ---- */

/* 0 … options.producers - 1; ends with the journal. */
struct journal_producer *journal_producer(struct journal *j, unsigned index);

/* Room for `size` contiguous bytes (one record, or several: at most LIMIT_RESERVE_BYTES) in the
 * block now being filled; valid until the next reserve or seal. NULL: no block can be begun now
 * (*ret_err ERR_FULL: stop reading sockets, a wakeup will follow) or the disk is full
 * (ERR_JOURNAL_FULL). */
char *journal_reserve(struct journal_producer *p, size_t size, enum err *ret_err);
/* The rest of a reservation of several records: the place of the next one, after a commit; NULL if
 * less than `size` is left. Each record but the first takes 8 bytes more than its size. */
char *journal_reserved(struct journal_producer *p, size_t size);
/* For records that close something (revoke, deny, expire): may use the reserve kept for them. */
char *journal_reserve_closing(struct journal_producer *p, size_t size, enum err *ret_err);
/* The reserved bytes now hold a record: public, then private. */
void journal_commit(struct journal_producer *p, size_t public_size, size_t private_size,
                    bool wants_sync);
/* The block of the last committed record: its reply waits for this block. */
uint64_t journal_block(const struct journal_producer *p);
/* Passes the filled block to the journal writer; a block without records gives its room back. */
void journal_seal(struct journal_producer *p);
/* The newest block of this producer that is in the kernel, and the newest that is synced. */
void journal_progress(const struct journal_producer *p, uint64_t *ret_written,
                      uint64_t *ret_durable);
/* Whether another block could be begun now. False: stop reading sockets, a wakeup will follow. True
 * on a full disk, too: journal_reserve then returns ERR_JOURNAL_FULL. */
bool journal_has_room(struct journal_producer *p);

/* ---- whole journal: any thread ---- */

uint64_t journal_durable_seq(const struct journal *j);
uint64_t journal_written_seq(const struct journal *j);
const char *journal_epoch(const struct journal *j); /* JOURNAL_EPOCH_TEXT bytes */
/* The platform has confirmed all seqs up to here: older segments may be removed. The value falls if
 * the platform has lost some of them (a restored database), so that the records which it will
 * request again stay. One thread. */
void journal_confirm(struct journal *j, uint64_t seq);
/* Recovery needs the records above seq (a durable snapshot includes those up to it): none of them
 * is removed, confirmed or not. Only rises. If it is never called, nothing is held. */
void journal_hold(struct journal *j, uint64_t seq);
/* No segment is made that would leave fewer free bytes than these, or fewer files than
 * JOURNAL_LEAVE_FILES. The next snapshot needs them, and without a snapshot no segment may be
 * removed. */
void journal_leave(struct journal *j, uint64_t bytes);
bool journal_is_full(const struct journal *j);

struct journal_totals { /* a momentary view */
    uint64_t records, frames, bytes, syncs, sync_ns, segments, segment_bytes;
    uint64_t free_bytes, total_bytes; /* of the file system */
    uint64_t free_files, total_files; /* the same; a total of 0: no maximum */
    uint64_t left_bytes;              /* of these, the bytes that the journal may still use */
    uint64_t oldest_seq;              /* still on disk */
};
void journal_totals(const struct journal *j, struct journal_totals *ret);

/* ---- reading back: each cursor belongs to one thread ---- */

struct journal_cursor;
/* The next record will be `seq` (1-based). ERR_NOT_FOUND: it is no longer kept, or is beyond the
 * next record to be written; ERR_IO. */
enum err journal_cursor_open(struct journal *j, uint64_t seq, struct journal_cursor **ret,
                             struct fault *f);
void journal_cursor_close(struct journal_cursor *c);
/* Next durable record; views valid until the next call. ERR_END: none yet. ERR_NOT_FOUND: it was
 * removed meanwhile; ERR_CORRUPT, ERR_IO. */
enum err journal_cursor_next(struct journal_cursor *c, struct journal_record *ret, struct fault *f);

#endif
