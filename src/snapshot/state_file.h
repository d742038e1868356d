/* state_file.h - a file that is whole or not there: a head, and all entries of some shards.
 *
 *   file    := head  entry{count}  seal(32)
 *   entry   := size(4) slot(2) bytes                       all numbers little-endian
 *   seal    := the SHA-256 of all before; with a key, the HMAC of that digest
 *
 * While it is written, it is named with `.new`. A file of its own name was synced before it got it,
 * so one that does not verify is damage, not a crash. The head is the caller's. */
#ifndef SNAPSHOT_STATE_FILE_H
#define SNAPSHOT_STATE_FILE_H

#include <stdatomic.h>

#include "crypto/crypto.h"
#include "journal/disk.h"
#include "shards/shard.h"

enum {
    STATE_FILE_NAME = 32, /* with ".new" and NUL */
    STATE_FILES_MAX = 64, /* in a directory; others are not seen */
};

struct state_file_counts { /* of entries; `bytes` with their own heads */
    uint64_t count, bytes;
};

/* ---- names: a word, and a position as 16 hex digits ---- */

struct state_files {
    uint64_t positions[STATE_FILES_MAX]; /* the newest first */
    size_t count;
    char unready[STATE_FILES_MAX][STATE_FILE_NAME]; /* that a crash left */
    size_t unready_count;
    bool has_mark; /* a file `mark` is there */
};
void state_file_write_name(struct str word, uint64_t position, char to[STATE_FILE_NAME]);
/* `mark`: a name to look for, or "". */
enum err state_files_list(struct disk *d, struct str word, const char *mark,
                          struct state_files *ret);
/* Removes those that do not stay, and what is unready. */
enum err state_files_drop(struct disk *d, struct str word, const struct state_files *n,
                          const bool stays[STATE_FILES_MAX]);

/* ---- writing ---- */

struct state_file_writing {
    struct disk *disk;
    char name[STATE_FILE_NAME];
    /* Appends the head. */
    void (*put_head)(void *context, const struct state_file_counts *counts, struct buf *out);
    void *context;
    const struct sha256 *key;     /* NULL: none */
    uint32_t *live;               /* counts the entries of each slot, unless NULL */
    const _Atomic bool *given_up; /* ends early, with ERR_CLOSED; NULL: never */
};
/* Writes and syncs. An error leaves no file, unless it is of syncing the directory: then the file is
 * there and whole. One of that name is replaced. *ret_seal may be NULL. */
enum err state_file_write(const struct state_file_writing *w, struct shard *const *shards,
                          unsigned count, struct sha256 *ret_seal);

/* ---- reading ---- */

struct state_reader {
    struct disk *disk;
    int file;
    uint64_t size; /* of the file */
    uint64_t next; /* offset behind what is held */
    char *piece;
    size_t at, held;
    const _Atomic bool *given_up;
    struct sha256 seal; /* that was verified */
};
/* ERR_FULL: out of memory. */
enum err state_reader_init(struct state_reader *r, struct disk *d, const _Atomic bool *given_up);
void state_reader_fini(struct state_reader *r);
bool state_reader_has_given_up(const struct state_reader *r);
/* Opens and verifies it. ERR_CORRUPT: it does not verify; ERR_CLOSED: given up. After ERR_OK:
 * state_reader_close(). */
enum err state_reader_open(struct state_reader *r, const char *name, const struct sha256 *key,
                           size_t head_least);
void state_reader_close(struct state_reader *r);
/* The next bytes of the head (at most 1 MiB), valid until the next call. */
enum err state_reader_take(struct state_reader *r, size_t size, const char **ret);
/* Bytes between what was taken and the seal. */
uint64_t state_reader_left(const struct state_reader *r);
/* All entries, behind the head. */
enum err state_reader_entries(struct state_reader *r, const struct state_file_counts *counts,
                              enum err (*each)(void *context, unsigned slot, struct str entry),
                              void *context);

#endif
