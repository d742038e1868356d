/* journal.h - the record that no decision can outrun: an append-only, hash-chained log.
 *
 * Reactors (producers) fill blocks with records and seal them; the scribe's writer thread numbers
 * the records, frames each block and writes it at an explicit offset into a zero-filled,
 * pre-synced segment; its syncer thread makes written bytes durable. Both publish marks and ring.
 *
 *   producer: reserve → commit … → seal → (marks move) → replies of that block may leave
 *   mark      a producer's count of sealed blocks: block number 1, 2, …
 *   seq       a record's number in this journal: 1, 2, … over all epochs, never reused
 *   epoch     random per boot: 16 lowercase hex digits
 *
 * A frame carries: magic, segment id, epoch, length, first seq, count, the last seq known durable
 * when it was written, the SHA-256 of the previous frame, and a CRC-32C seeded with segment id
 * and epoch. On open the highest durable seq in any valid frame tells damage that lost promises
 * (refused, saying where) from a torn tail (cut at the first bad frame, counted, the tail copied
 * to a fresh file and synced before anything else).
 *
 * A write or sync that fails with EIO ends the process, never retried: what the kernel holds is
 * unknown. ENOSPC can only meet the making of a spare segment: then the journal is full, says so
 * (ERR_JOURNAL_FULL from journal_reserve) and goes on when there is room. */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "base/fault.h"
#include "journal/disk.h"

struct journal;
struct journal_producer;

enum {
    JOURNAL_EPOCH_TEXT = 16,
    JOURNAL_FULL_PERCENT = 95, /* of the file system: it takes no more records */
    JOURNAL_LEAVE_FILES = 2    /* that it takes no segment from: a snapshot's, a bundle's */
};

struct journal_options {
    struct disk *disk; /* borrowed */
    unsigned producers;
    uint64_t segment_bytes; /* 0 = 64 MiB; at least 1 MiB */
    /* Confirmed segments stay for keep_ms (0: not at all), unless all segments together are over
     * keep_bytes (0: no bound) or the disk is getting full. */
    uint64_t keep_ms, keep_bytes;
    uint64_t leave_bytes;  /* as journal_leave() */
    uint32_t lazy_sync_ms; /* blocks that nobody waits for are synced after this long */
    /* Called by the scribe's threads, or NULL. Must only wake. It is called for each producer whose
     * durable mark moved; whose written mark moved over a record that was committed without
     * wants_sync (who waits for durable is not woken for less); and that was refused by
     * journal_reserve and may try again. */
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

/* What was found when opening. */
struct journal_report {
    uint64_t last_seq;                   /* 0: empty */
    char last_epoch[JOURNAL_EPOCH_TEXT]; /* of that record; zeros when empty */
    char epoch[JOURNAL_EPOCH_TEXT];      /* this boot's */
    uint64_t last_ms;               /* when its last frame was written; time never goes behind it */
    uint64_t durable_seq_claimed;   /* highest durable seq in any valid frame */
    uint64_t cut_frames, cut_bytes; /* torn tail that was cut */
    uint64_t records, segments;
};

/* Opens, verifies, cuts a torn tail, replays all kept records in order through `replay` (NULL:
 * none; an error from it ends the opening), makes the spare segment and starts the scribe's
 * threads. ERR_CORRUPT (damage at or below the durable mark: *f says segment, offset, seq),
 * ERR_BAD_VALUE (a newer program wrote it), ERR_EXISTS (another process has this directory),
 * ERR_NO_SPACE, ERR_IO. */
enum err journal_open(const struct journal_options *options,
                      enum err (*replay)(void *context, const struct journal_record *record),
                      void *replay_context, struct journal **ret, struct journal_report *ret_report,
                      struct fault *f);

/* Seals nothing: producers must have sealed and stopped, cursors be closed. Writes and syncs what
 * was sealed, then stops the threads. */
void journal_close(struct journal *j);

/* ---- producers: each belongs to one thread ---- */

/* 0 … options.producers - 1; ends with the journal. */
struct journal_producer *journal_producer(struct journal *j, unsigned index);

/* Room for `size` contiguous bytes (one record, or several: at most LIMIT_RESERVE_BYTES)
 * in the block now being filled; valid until the next reserve or seal. NULL: no block can
 * be begun now (*ret_err ERR_FULL: stop reading sockets, a bell will ring) or the disk is
 * full (ERR_JOURNAL_FULL). */
char *journal_reserve(struct journal_producer *p, size_t size, enum err *ret_err);
/* The rest of a reservation of several records: where the next one goes, after a commit; NULL where
 * `size` is more than is left. Each record but the first takes 8 bytes more than its size. */
char *journal_reserved(struct journal_producer *p, size_t size);
/* For records that close something (revoke, deny, expire): may use the reserve kept for them. */
char *journal_reserve_closing(struct journal_producer *p, size_t size, enum err *ret_err);
/* The reserved bytes now hold a record: public, then private. */
void journal_commit(struct journal_producer *p, size_t public_size, size_t private_size,
                    bool wants_sync);
/* The mark of the block that the last committed record is in: what its reply waits for. */
uint64_t journal_mark(const struct journal_producer *p);
/* Hands the filled block to the scribe; the room of one that got no record goes back. */
void journal_seal(struct journal_producer *p);
/* The newest block of this producer that is in the kernel, and the newest that is synced. */
void journal_marks(const struct journal_producer *p, uint64_t *ret_written, uint64_t *ret_durable);
/* Whether another block could be begun now. False: stop reading sockets, a bell will ring. True on
 * a full disk, too: whoever wants one is told. */
bool journal_has_room(struct journal_producer *p);

/* ---- whole journal: any thread ---- */

uint64_t journal_durable_seq(const struct journal *j);
uint64_t journal_written_seq(const struct journal *j);
const char *journal_epoch(const struct journal *j); /* JOURNAL_EPOCH_TEXT bytes */
/* All seqs up to here are confirmed by the platform: segments below may be removed. It falls where
 * the platform lost some of them (a restored database): what it will want again stays. One
 * thread. */
void journal_confirm(struct journal *j, uint64_t seq);
/* Recovery needs the records above seq (a durable snapshot includes those up to it): none of them
 * is removed, confirmed or not. Only rises. Never called: nothing is held. */
void journal_hold(struct journal *j, uint64_t seq);
/* No segment is made that would leave fewer bytes of the disk than these, or fewer files than
 * JOURNAL_LEAVE_FILES: the next snapshot needs them, and without one no segment may go. */
void journal_leave(struct journal *j, uint64_t bytes);
bool journal_is_full(const struct journal *j);

struct journal_totals { /* a moment's view */
    uint64_t records, frames, bytes, syncs, sync_ns, segments, segment_bytes;
    uint64_t free_bytes, total_bytes; /* of the file system */
    uint64_t free_files, total_files; /* the same; a total of 0: it has no bound of them */
    uint64_t left_bytes;              /* of these, before it is full for us */
    uint64_t oldest_seq;              /* still on disk */
};
void journal_totals(const struct journal *j, struct journal_totals *ret);

/* ---- reading back: each cursor belongs to one thread ---- */

struct journal_cursor;
/* The next record given will be `seq` (1-based). ERR_NOT_FOUND: it is no longer kept, or further on
 * than the one that comes next; ERR_IO. */
enum err journal_cursor_open(struct journal *j, uint64_t seq, struct journal_cursor **ret,
                             struct fault *f);
void journal_cursor_close(struct journal_cursor *c);
/* Next durable record; views valid until the next call. ERR_END: none yet. ERR_NOT_FOUND: it went
 * meanwhile; ERR_CORRUPT, ERR_IO. */
enum err journal_cursor_next(struct journal_cursor *c, struct journal_record *ret, struct fault *f);

#endif
