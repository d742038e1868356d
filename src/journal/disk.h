/* disk.h - every file operation of the journal, so that a simulated disk can stand in.
 *
 * A `struct disk` is a table of operations over one directory. The real one is POSIX
 * (disk_real_create); the simulated one (tests/sim) keeps written and synced bytes apart and can
 * lose, tear and reorder what was not synced. Names are single path components. Handles are
 * small integers. Where an operation of the real one fails, errno says why. Thread: as the journal
 * uses it (writer and syncer thread may call at once). */
#ifndef JOURNAL_DISK_H
#define JOURNAL_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct disk {
    void *state;
    const char *directory; /* its path, for people; NULL: it has none */
    /* ERR_NO_SPACE, ERR_NO_DESCRIPTORS: no file can be opened or made now; no fault of the disk. */
    enum err (*open)(void *state, const char *name, bool create_new, int *ret_file);
    void (*close)(void *state, int file);
    enum err (*size)(void *state, int file, uint64_t *ret_size);
    /* Short reads and writes are completed inside; a read past the end is ERR_END. A write never
     * makes a file longer: fill() did. */
    enum err (*read)(void *state, int file, void *to, size_t size, uint64_t offset);
    enum err (*write)(void *state, int file, const void *from, size_t size, uint64_t offset);
    enum err (*sync)(void *state, int file); /* fdatasync */
    /* Gives a new file `size` zero bytes, allocated, written and synced with their metadata, so
     * that no later sync has to write more than data. ERR_NO_SPACE leaves a useless file. */
    enum err (*fill)(void *state, int file, uint64_t size);
    /* The same without the zeros' way to the disk, for a plain file that is written once from its
     * begin to its end and then synced. What it holds before it is written is not promised. */
    enum err (*reserve)(void *state, int file, uint64_t size);
    /* Nobody will read the file before `until` soon, and all there is synced: its memory may serve
     * another. Only a hint. */
    void (*uncache)(void *state, int file, uint64_t until);
    enum err (*sync_directory)(void *state);
    enum err (*rename)(void *state, const char *from, const char *to);
    enum err (*remove)(void *state, const char *name);
    /* Calls `each` with every file name, in no order; not with one that begins with a point, nor
     * with the lock's. */
    enum err (*list)(void *state, void (*each)(void *context, const char *name), void *context);
    enum err (*free_bytes)(void *state, uint64_t *ret_free, uint64_t *ret_total);
    /* How many more files it takes, and of how many; a total of 0: it has no bound of them. */
    enum err (*free_files)(void *state, uint64_t *ret_free, uint64_t *ret_total);
    enum err (*lock)(void *state); /* ERR_EXISTS: another process holds it; until destroy */
};

/* Opens (making it, 0700) the directory and gives its disk. */
enum err disk_real_create(const char *directory, struct disk **ret);
void disk_real_destroy(struct disk *d);

/* There is no room now, or a right is missing: nothing was lost by that, and later it may be done. */
bool disk_refuses(enum err err);

#endif
