/* disk.h - every file operation of the journal, so that a simulated disk can replace the real one.
 *
 * A `struct disk` is a table of operations over one directory. The real one is POSIX
 * (disk_real_create). The simulated one (tests/sim) keeps written and synced bytes apart, and can
 * lose, tear and reorder bytes that were not synced. Names are single path components. Handles are
 * small integers. If an operation of the real one fails, errno has the reason. Threads: the
 * journal's writer and syncer thread may call at the same time. */
#ifndef JOURNAL_DISK_H
#define JOURNAL_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct disk {
    void *state;
    const char *directory; /* its path, for messages; NULL: it has none */
    /* ERR_NO_SPACE, ERR_NO_DESCRIPTORS: no file can be opened or made now; the disk is not at
     * fault. */
    enum err (*open)(void *state, const char *name, bool create_new, int *ret_file);
    void (*close)(void *state, int file);
    enum err (*size)(void *state, int file, uint64_t *ret_size);
    /* Completes short reads and writes; a read past the end is ERR_END. A write never makes a file
     * longer: fill() has done that. */
    enum err (*read)(void *state, int file, void *to, size_t size, uint64_t offset);
    enum err (*write)(void *state, int file, const void *from, size_t size, uint64_t offset);
    enum err (*sync)(void *state, int file); /* fdatasync */
    /* Gives a new file `size` zero bytes, allocated, written and synced with their metadata, so
     * that later syncs only write data. ERR_NO_SPACE leaves a useless file. */
    enum err (*fill)(void *state, int file, uint64_t size);
    /* The same without writing the zeros to the disk, for a plain file that is written once from
     * begin to end and then synced. The file's content before that is undefined. */
    enum err (*reserve)(void *state, int file, uint64_t size);
    /* A hint: the file before `until` is synced and will not be read soon, so the page cache may
     * drop it. */
    void (*uncache)(void *state, int file, uint64_t until);
    enum err (*sync_directory)(void *state);
    enum err (*rename)(void *state, const char *from, const char *to);
    enum err (*remove)(void *state, const char *name);
    /* Calls `each` with every file name, in no order. Omits names that begin with a point, and the
     * lock's. */
    enum err (*list)(void *state, void (*each)(void *context, const char *name), void *context);
    enum err (*free_bytes)(void *state, uint64_t *ret_free, uint64_t *ret_total);
    /* How many more files the file system takes, and its maximum; a total of 0: no maximum. */
    enum err (*free_files)(void *state, uint64_t *ret_free, uint64_t *ret_total);
    enum err (*lock)(void *state); /* ERR_EXISTS: another process holds it; until destroy */
};

/* Opens the directory (makes it, 0700, if it is missing) and returns its disk. */
enum err disk_real_create(const char *directory, struct disk **ret);
void disk_real_destroy(struct disk *d);

/* True: no room now, or a missing permission. Nothing was lost, and the operation may succeed
 * later. */
bool disk_refuses(enum err err);

#endif
