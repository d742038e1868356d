/* journal_writer.h - inside the journal: the way of blocks from producers to the disk.
 *
 *               producers (reactors)            journal writer
 *     reserve  commit  seal                  writer          syncer          segment pool
 *        |        |      |   sealed  ------>  frame, pwrite
 *        |        |      |   written <------  publish   --->  fdatasync
 *        |        |      |   durable <----------------------  publish
 *        |        |      |                    takes the spare  <-----------  makes one
 *
 * A producer owns LIMIT_BLOCKS blocks and uses them in a circle: block number n lies in place n %
 * LIMIT_BLOCKS. So a few growing numbers describe the state: sealed (by the producer), written and
 * freed (by the writer), durable (by the syncer). One thread writes each; no lock is taken between
 * a decision and the disk. `freed` follows `written`: a block's reply may leave before the writer
 * has hashed the block for the next frame's header.
 *
 * Each step of the journal writer is a function without threads, so that a simulator can call them
 * in any order; journal_writer_start() gives each its thread.
 *
 * Room: no frame may meet a full disk. So a producer takes the room of a whole frame when it opens
 * a block, and the writer gives back what the frame did not need. A segment counts for its size
 * less one frame (its end may be too short for the next frame), so frames always fit into the
 * current segment and the spare. While no spare can be made, ordinary records leave `reserve_bytes`
 * for records that close something. */
#ifndef JOURNAL_JOURNAL_WRITER_H
#define JOURNAL_JOURNAL_WRITER_H

#include "journal/wakeup.h"
#include "journal/frame.h"
#include "journal/segment.h"

struct journal_writer;

struct block {
    char *
        bytes; /* FRAME_BYTES and JOURNAL_WRITER_PAD_BYTES: room for the header, records, padding */
    uint32_t body_bytes, count;
    bool wants_sync;    /* a reply waits for durable */
    bool wants_written; /* a reply waits for written */
    bool closing;       /* opened with the reserve: no ordinary records */
};

struct journal_producer {
    /* The producer's own. */
    struct journal_writer *journal_writer;
    unsigned index;
    bool open; /* block number sealed_own + 1 is being filled */
    uint64_t sealed_own;
    uint64_t last_mark; /* of the last committed record */
    size_t reserved;    /* bytes of the record being written */
    struct block blocks[LIMIT_BLOCKS];

    _Alignas(64) _Atomic uint64_t sealed;  /* written by the producer */
    _Atomic bool starved;                  /* was refused: wake it when there is room */
    _Alignas(64) _Atomic uint64_t written; /* written by the writer */
    _Atomic uint64_t freed;
    uint64_t taken;                        /* the writer's own */
    _Alignas(64) _Atomic uint64_t durable; /* written by the syncer */
    uint64_t syncing;                      /* the syncer's own */
};

struct tail { /* where the next frame goes */
    uint64_t segment, segment_bytes, offset, next_seq;
    struct sha256 previous;
    struct frame_told told;
};

struct journal_writer_file {
    uint64_t segment, bytes;
    int file; /* -1: none */
};

enum {
    JOURNAL_WRITER_RETIRED = 16,
    JOURNAL_WRITER_PAGE_BYTES = 4096,    /* a page of the page cache, its smallest unit */
    JOURNAL_WRITER_PAD_BYTES = 32 << 10, /* a write to an unwritten place has this size */
};

struct journal_writer {
    struct disk *disk;
    struct journal_options options;
    char epoch[JOURNAL_EPOCH_TEXT];
    struct shelf shelf;
    struct journal_producer *producers;
    int64_t reserve_bytes;

    /* The writer's own. */
    struct tail tail;
    uint64_t tail_start; /* offset in this segment from which room is counted */
    /* all before it in this segment was written: frames up to the tail, then zeros */
    uint64_t padded;
    struct hasher *hasher;
    struct frame unhashed;      /* the last written frame, its digest not yet taken */
    const char *unhashed_bytes; /* NULL: tail.previous is up to date */
    uint64_t last_ms;           /* when the last frame was written */
    char *claim_bytes;          /* JOURNAL_WRITER_PAD_BYTES: a frame without records, and padding */

    /* Between writer, syncer and segment pool. */
    pthread_mutex_t files_lock;
    struct journal_writer_file current, spare;
    struct journal_writer_file retired[JOURNAL_WRITER_RETIRED]; /* full, not yet synced */
    unsigned retired_count;

    struct journal_writer_file
        cooling; /* the syncer's own: the last one retired, which cursors may still read */

    /* Published. */
    _Alignas(64) _Atomic int64_t room;
    _Atomic bool spare_ready;
    _Atomic bool disk_full; /* 95 % of the file system are used */
    /* the last attempt met a full disk, or the bytes and files that it has to leave */
    _Atomic bool spare_fails;
    _Alignas(64) _Atomic uint64_t written_seq, written_frames;
    _Atomic uint64_t wanted_frames; /* the last one that a reply waits for */
    /* the seq that the syncer waits for to be written; 0: it does not wait */
    _Atomic uint64_t records, frames, bytes;
    _Alignas(64) _Atomic uint64_t durable_seq, durable_frames;
    _Atomic uint64_t syncs, sync_ns;
    _Alignas(64) _Atomic uint64_t confirmed_seq;
    _Atomic uint64_t held_seq; /* recovery needs the records above it; UINT64_MAX: none */
    _Atomic uint64_t free_bytes, total_bytes, free_files, total_files;
    _Atomic uint64_t leave_bytes; /* of free_bytes, for the next snapshot */
    _Atomic bool stopping;
    _Atomic bool syncer_timed; /* it sleeps until a lazy sync is due: only a wanted sync wakes it */
    struct wakeup writer_wakeup, syncer_wakeup, pool_wakeup;
    pthread_t writer, syncer, segment_pool;
    bool running;
};

/* After recovery: writing continues at `tail`; everything before it is durable. The shelf
 * (initialised and filled by the caller) holds the segments. Opens the tail's file. */
enum err journal_writer_init(struct journal_writer *s, const struct journal_options *options,
                             const char *epoch, struct tail tail);
void journal_writer_fini(struct journal_writer *s); /* only closes files */

/* Takes an empty segment that was made ahead. */
void journal_writer_take_spare(struct journal_writer *s, struct journal_writer_file spare);

/* Writes all sealed blocks; false: there were none. */
bool journal_writer_write_step(struct journal_writer *s, uint64_t now_ms);
/* Makes all written blocks durable; false: they were already. */
bool journal_writer_sync_step(struct journal_writer *s);
/* Checks the disk's room, removes segments that need not be kept, makes a spare if there is none.
 * False: there is still none, because there is no space. */
bool journal_writer_keep_step(struct journal_writer *s, uint64_t now_ms);
/* There is no spare, and one more segment may retire. */
bool journal_writer_needs_spare(struct journal_writer *s);
/* Writes frames without records that claim the new durable seq, until one of them lies in another
 * disk block than the last record. Then later damage to the last records cannot pass for a torn
 * tail. False: there is nothing new to claim, or no room. */
bool journal_writer_claim_step(struct journal_writer *s, uint64_t now_ms);

/* After a failed write or sync: logs it and ends the process. */
_Noreturn void journal_writer_die(const char *what, enum err err);

/* threads.c */
void journal_writer_start(struct journal_writer *s);
void journal_writer_stop(struct journal_writer *s); /* then the caller may call the steps */

/* producer.c */
void producer_init(struct journal_producer *p, struct journal_writer *s, unsigned index);
void producer_fini(struct journal_producer *p);
/* Wakes the producers that were refused for want of blocks or room: there may be some now. */
void producers_ring_starved(struct journal_writer *s);

#endif
