/* segment.h - the files that frames lie in, and the shelf of those that are kept.
 *
 * A segment is a file `<id>.journal`, id in 16 hex digits so that names sort by age; ids are
 * 1, 2, 3, … without gaps. It is made whole (zeros, synced) under another name and then renamed,
 * so a file of this name always has all its blocks. A segment made ahead is the spare.
 *
 * The shelf lists the segments in use, oldest first, the last being written. It has a lock: the
 * writer appends, the keeper takes away, cursors look up. */
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
    uint64_t used;      /* by frames; zeros follow */
    uint64_t first_seq; /* of its first frame; 0: it has none yet */
    uint64_t last_ms;   /* when its last frame was written */
};

void segment_write_name(uint64_t id, char to[SEGMENT_NAME]);
bool segment_read_name(const char *name, uint64_t *ret_id);

/* A new file full of zeros under its own name, durable; what a crash left of an earlier attempt
 * is removed. ERR_NO_SPACE, ERR_NO_DESCRIPTORS leave nothing behind. */
enum err segment_make(struct disk *d, uint64_t id, uint64_t bytes);

/* A fresh file with the first `used` bytes of the old one and zeros after them takes the old
 * one's name, durably: whatever happens on the way, that name has one of the two. */
enum err segment_copy(struct disk *d, uint64_t id, uint64_t bytes, uint64_t used);

/* Where there is no room for a copy: writes the first `used` bytes over themselves and zeros over
 * the rest, and syncs. A crash on the way leaves bytes that are the old or the new ones. */
enum err segment_rewrite(struct disk *d, uint64_t id, uint64_t used);

/* Removes files of names that a crash left in the middle of making or copying. */
enum err segment_remove_unready(struct disk *d);

/* ---- reading a segment in large pieces ---- */

struct segment_reader {
    struct disk *disk;
    uint64_t id;
    int file; /* -1: none open */
    uint64_t file_bytes;
    uint64_t end; /* of what is read: file_bytes, unless the reader's owner lowers it */
    char *bytes;  /* SEGMENT_READ_BYTES */
    uint64_t at;  /* offset of bytes[0] */
    size_t held;
};

void segment_reader_init(struct segment_reader *r, struct disk *d);
void segment_reader_fini(struct segment_reader *r);
enum err segment_reader_open(struct segment_reader *r,
                             uint64_t id); /* an error: the old one stays */
/* `size` bytes (at most SEGMENT_READ_BYTES) at `offset`, valid until the next call. ERR_END:
 * what is read ends before. */
enum err segment_reader_view(struct segment_reader *r, uint64_t offset, size_t size,
                             const char **ret);
/* What is held may be older than the file. */
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
/* The newest one's first frame begins with `seq` / its frames reach to `used` / its last was written
 * at `ms`. */
void shelf_begin_newest(struct shelf *s, uint64_t seq);
void shelf_grow_newest(struct shelf *s, uint64_t used);
void shelf_end_newest(struct shelf *s, uint64_t ms);
/* How far frames reach in this one; UINT64_MAX where it is no longer kept. */
uint64_t shelf_used(struct shelf *s, uint64_t id);
/* The segment that a record with `seq` is in or will be in; false: older than all kept. */
bool shelf_find(struct shelf *s, uint64_t seq, struct segment *ret);
bool shelf_after(struct shelf *s, uint64_t id, struct segment *ret); /* the next newer one */
/* The oldest two; false where there is one only. */
bool shelf_oldest(struct shelf *s, struct segment *ret_oldest, struct segment *ret_next);
void shelf_drop_oldest(struct shelf *s);
void shelf_totals(struct shelf *s, uint64_t *ret_count, uint64_t *ret_bytes,
                  uint64_t *ret_oldest_seq);

#endif
