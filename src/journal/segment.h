/* segment.h - the files that hold frames, and the shelf: the list of kept segments.
 *
 * A segment is a file `<id>.journal`, id in 16 hex digits so that names sort by age; ids are 1, 2,
 * 3, … without gaps. It is made whole (zeros, synced) under another name and then renamed, so a
 * file of this name always has all its blocks. A segment made ahead is the spare.
 *
 * The shelf lists the segments in use, oldest first; the last is being written. It has a lock: the
 * writer appends, the segment pool removes, cursors search. */
#ifndef JOURNAL_SEGMENT_H
#define JOURNAL_SEGMENT_H

#include <pthread.h>

#include "journal/disk.h"

enum {
    SEGMENT_NAME = 16 + 8 + 1,        /* with NUL */
    SEGMENT_LEAST_BYTES = 1 << 20,    /* a few of the largest frames */
    SEGMENT_DEFAULT_BYTES = 64 << 20, /* seconds of full load; a start copies at most this */
    SEGMENT_READ_BYTES = 256 << 10,   /* one read; no frame is larger */
};

struct segment {
    uint64_t id;
    uint64_t bytes;
    uint64_t used;      /* by frames; only zeros follow */
    uint64_t first_seq; /* of its first frame; 0: it has none yet */
    uint64_t last_ms;   /* when its last frame was written */
};

void segment_write_name(uint64_t id, char to[SEGMENT_NAME]);
bool segment_read_name(const char *name, uint64_t *ret_id);

/* Makes a new file full of zeros under its own name, durable; removes leftovers of an attempt that
 * a crash interrupted. ERR_NO_SPACE, ERR_NO_DESCRIPTORS leave nothing behind. */
enum err segment_make(struct disk *d, uint64_t id, uint64_t bytes);

/* Replaces a segment by a fresh file with its first `used` bytes and zeros after them, durably: at
 * every moment the name has either the old file or the new one. */
enum err segment_copy(struct disk *d, uint64_t id, uint64_t bytes, uint64_t used);

/* If there is no room for a copy: writes the first `used` bytes over themselves and zeros over the
 * rest, and syncs. A crash in between leaves bytes that are the old or the new ones. */
enum err segment_rewrite(struct disk *d, uint64_t id, uint64_t used);

/* Removes files that a crash left half made or half copied. */
enum err segment_remove_unready(struct disk *d);

/* ---- reading a segment in large pieces ---- */

struct segment_reader {
    struct disk *disk;
    uint64_t id;
    int file; /* -1: none open */
    uint64_t file_bytes;
    uint64_t end; /* of the readable part: file_bytes, unless the reader's owner lowers it */
    char *bytes;  /* SEGMENT_READ_BYTES */
    uint64_t at;  /* offset of bytes[0] */
    size_t held;
};

void segment_reader_init(struct segment_reader *r, struct disk *d);
void segment_reader_fini(struct segment_reader *r);
enum err segment_reader_open(struct segment_reader *r,
                             uint64_t id); /* on an error the old file stays open */
/* `size` bytes (at most SEGMENT_READ_BYTES) at `offset`, valid until the next call. ERR_END: the
 * readable part ends before. */
enum err segment_reader_view(struct segment_reader *r, uint64_t offset, size_t size,
                             const char **ret);
/* Drops the buffer, which may be older than the file. */
static inline void segment_reader_forget(struct segment_reader *r) { r->held = 0; }

/* ---- the shelf ---- */

struct shelf {
    pthread_mutex_t lock;
    struct segment *all; /* oldest first */
    size_t count, capacity;
};

void shelf_init(struct shelf *s);
void shelf_fini(struct shelf *s);
void shelf_append(struct shelf *s, struct segment segment);
/* Set of the newest segment: the seq its first frame begins with, the end of its frames, and the
 * time of its last frame. */
void shelf_begin_newest(struct shelf *s, uint64_t seq);
void shelf_grow_newest(struct shelf *s, uint64_t used);
void shelf_end_newest(struct shelf *s, uint64_t ms);
/* The end of this segment's frames; UINT64_MAX: it is no longer kept. */
uint64_t shelf_used(struct shelf *s, uint64_t id);
/* The segment that holds or will hold the record `seq`; false: it is older than all kept. */
bool shelf_find(struct shelf *s, uint64_t seq, struct segment *ret);
bool shelf_after(struct shelf *s, uint64_t id, struct segment *ret); /* the next newer one */
/* The oldest two; false: there is only one. */
bool shelf_oldest(struct shelf *s, struct segment *ret_oldest, struct segment *ret_next);
void shelf_drop_oldest(struct shelf *s);
void shelf_totals(struct shelf *s, uint64_t *ret_count, uint64_t *ret_bytes,
                  uint64_t *ret_oldest_seq);

#endif
