/* scribe.h - inside the journal: blocks on their way from producers to the disk.
 *
 *               producers (reactors)            scribe
 *     reserve  commit  seal                  writer          syncer          keeper
 *        |        |      |   sealed  ------>  frame, pwrite
 *        |        |      |   written <------  publish   --->  fdatasync
 *        |        |      |   durable <----------------------  publish
 *        |        |      |                    takes the spare  <-----------  makes one
 *
 * A producer owns LIMIT_BLOCKS blocks and uses them in a circle: block number n lies in place
 * n % LIMIT_BLOCKS, so three growing numbers say everything: sealed (by the producer), written
 * and freed (by the writer), durable (by the syncer). Each is written by one thread; no lock is
 * taken between a decision and the disk. `freed` follows `written`, because the writer still has
 * to hash a block for the next frame's header after its reply may already leave.
 *
 * Each step of the scribe is a function without threads, so that a simulator can drive them in
 * any order; scribe_start() gives each its thread.
 *
 * Room: no frame may meet a full disk, so a producer takes the room of a whole frame when it
 * opens a block and the writer gives back what the frame did not need. A segment counts for its
 * size less one frame (its end may be too short for the next frame), so frames always fit into
 * the current segment and the spare. While no spare can be made, ordinary records leave
 * `reserve_bytes` alone, for those that close something. */
#ifndef JOURNAL_SCRIBE_H
#define JOURNAL_SCRIBE_H

#include "journal/bell.h"
#include "journal/frame.h"
#include "journal/segment.h"

struct scribe;

struct block {
    char *bytes; /* FRAME_BYTES and SCRIBE_PAD_BYTES: place for the header, records, padding */
    uint32_t body_bytes, count;
    bool wants_sync;    /* someone waits for durable */
    bool wants_written; /* someone waits for written */
    bool closing;       /* opened with the reserve: no ordinary records */
};

struct journal_producer {
    /* The producer's own. */
    struct scribe *scribe;
    unsigned index;
    bool open; /* block number sealed_own + 1 is being filled */
    uint64_t sealed_own;
    uint64_t last_mark; /* of the last committed record */
    size_t reserved;    /* bytes of the record being written */
    struct block blocks[LIMIT_BLOCKS];

    _Alignas(64) _Atomic uint64_t sealed;  /* written by the producer */
    _Atomic bool starved;                  /* was refused: ring when there is room */
    _Alignas(64) _Atomic uint64_t written; /* written by the writer */
    _Atomic uint64_t freed;
    uint64_t taken;                        /* the writer's own */
    _Alignas(64) _Atomic uint64_t durable; /* written by the syncer */
    uint64_t syncing;                      /* the syncer's own */
};

struct tail { /* where the next frame goes */
    uint64_t segment, segment_bytes, offset, next_seq;
    struct sha256 previous;
};

struct scribe_file {
    uint64_t segment, bytes;
    int file; /* -1: none */
};

enum {
    SCRIBE_RETIRED = 16,
    SCRIBE_PAGE_BYTES = 4096,    /* of the page cache, the least it holds */
    SCRIBE_PAD_BYTES = 32 << 10, /* what is written at once where nothing was */
};

struct scribe {
    struct disk *disk;
    struct journal_options options;
    char epoch[JOURNAL_EPOCH_TEXT];
    struct shelf shelf;
    struct journal_producer *producers;
    int64_t reserve_bytes;

    /* The writer's own. */
    struct tail tail;
    uint64_t tail_start; /* offset in this segment where room began to be counted */
    uint64_t padded;     /* all before it in this segment was written, behind the tail zeros */
    struct hasher *hasher;
    struct frame unhashed;      /* written, its digest not yet taken */
    const char *unhashed_bytes; /* NULL: tail.previous is right */
    uint64_t claimed_seq;       /* the highest durable seq told by a frame */
    uint64_t last_ms;           /* when the last frame was written */
    char *claim_bytes;          /* SCRIBE_PAD_BYTES: a frame of no records, and padding */

    /* Between writer, syncer and keeper. */
    pthread_mutex_t files_lock;
    struct scribe_file current, spare;
    struct scribe_file retired[SCRIBE_RETIRED]; /* full, not yet synced */
    unsigned retired_count;

    struct scribe_file
        cooling; /* the syncer's own: the last one retired, which may be read still */

    /* Published. */
    _Alignas(64) _Atomic int64_t room;
    _Atomic bool spare_ready;
    _Atomic bool disk_full;   /* 95 % of the file system are used */
    _Atomic bool spare_fails; /* the last attempt met a full disk, or what it has to leave */
    _Alignas(64) _Atomic uint64_t written_seq, written_frames;
    _Atomic uint64_t wanted_frames; /* the last one that someone waits for */
    _Atomic uint64_t gather_seq;    /* the syncer waits for it to be written; 0: it does not */
    _Atomic uint64_t records, frames, bytes;
    _Alignas(64) _Atomic uint64_t durable_seq, durable_frames;
    _Atomic uint64_t syncs, sync_ns;
    _Alignas(64) _Atomic uint64_t confirmed_seq;
    _Atomic uint64_t held_seq; /* recovery needs what is above it; UINT64_MAX: nothing */
    _Atomic uint64_t free_bytes, total_bytes, free_files, total_files;
    _Atomic uint64_t leave_bytes; /* of free_bytes, to the next snapshot */
    _Atomic bool stopping;
    _Atomic bool syncer_timed; /* it sleeps until a lazy sync is due: only a wanted one wakes it */
    struct bell writer_bell, syncer_bell, keeper_bell;
    pthread_t writer, syncer, keeper;
    bool running;
};

/* After recovery: `tail` is where writing goes on; all before it is durable, and `claimed_seq` of
 * it told by frames. The shelf (initialised and filled by the caller) holds the segments. Opens
 * the tail's file. */
enum err scribe_init(struct scribe *s, const struct journal_options *options, const char *epoch,
                     struct tail tail, uint64_t claimed_seq);
void scribe_fini(struct scribe *s); /* touches the disk only to close files */

/* An empty segment, made ahead. */
void scribe_take_spare(struct scribe *s, struct scribe_file spare);

/* Writes all sealed blocks there are; false: there were none. */
bool scribe_write_step(struct scribe *s, uint64_t now_ms);
/* Makes all written blocks durable; false: they are. */
bool scribe_sync_step(struct scribe *s);
/* Looks at the disk, removes what need not be kept, makes a spare where there is none. False:
 * there is still none, for want of space. */
bool scribe_keep_step(struct scribe *s, uint64_t now_ms);
/* There is no spare, and place for one more to retire. */
bool scribe_needs_spare(struct scribe *s);
/* Writes a frame of no records that tells the durable seq, where that has moved; so that later
 * damage to the last records cannot pass for a torn tail. False: nothing new to tell, or no room.
 */
bool scribe_claim_step(struct scribe *s, uint64_t now_ms);

/* A write or sync failed: says so and ends the process. */
_Noreturn void scribe_die(const char *what, enum err err);

/* threads.c */
void scribe_start(struct scribe *s);
void scribe_stop(struct scribe *s); /* after this the steps may be called by the caller */

/* producer.c */
void producer_init(struct journal_producer *p, struct scribe *s, unsigned index);
void producer_fini(struct journal_producer *p);
/* Rings those that were refused for want of blocks or room: there may be some now. */
void producers_ring_starved(struct scribe *s);

#endif
