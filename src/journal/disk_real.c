/* disk_real.c - the journal's disk on POSIX files of one directory.
 *
 * Handles are file descriptors. Interrupted calls are repeated and short ones completed here, so
 * that callers need not handle them. A failure is not repeated: after EIO it is unknown which data
 * the kernel still holds.
 *
 * Files are made by fallocate, then written full of zeros, then fsynced: a file that was only
 * allocated has unwritten extents, and each fdatasync over them would also have to commit the file
 * system's own journal (measured here on ext4: 480 µs against 240 µs). The zeros bypass the page
 * cache (O_DIRECT): otherwise they would take, and soon give back, as much memory as the file is
 * large, without use. That has a cost: a write that ends inside a page which the cache does not
 * have waits until the page is read. So writers avoid such ends (journal_writer.c pads its frames).
 *
 * Bytes that were written, synced and read leave the cache soon (uncache), and the next frames get
 * the same few pages: they are warm, and no other pages are evicted. A journal that filled the page
 * cache would touch memory that was unused for long. That costs several times as much in a virtual
 * machine whose host takes free memory back: the filling alone took 200 to 2,400 ns of CPU per
 * record of 1.3 KiB, and takes 100 now. The price is the new pages of the frames, 200 ns. */
#include "journal/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/planted.h"

enum { FILL_BYTES = 1 << 20, FILL_ALIGN = 4096 };

static const char lock_name[] = "lock";

struct real {
    struct disk disk;
    int directory;
    int lock_file; /* -1: not held */
};

static enum err real_open(void *state, const char *name, bool create_new, int *ret_file)
{
    struct real *r = state;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create_new ? O_CREAT | O_EXCL : 0);
    int file;
    do file = openat(r->directory, name, flags, 0600);
    while (file < 0 && errno == EINTR);
    if (file < 0 && errno == ENOMEM) return ERR_NO_SPACE;
    if (file < 0) return err_from_errno(errno);
    *ret_file = file;
    return ERR_OK;
}

static void real_close(void *state, int file)
{
    (void)state;
    close(file); /* on Linux the descriptor is gone even after EINTR */
}

static enum err real_size(void *state, int file, uint64_t *ret_size)
{
    (void)state;
    struct stat about;
    if (fstat(file, &about) != 0) return err_from_errno(errno);
    *ret_size = (uint64_t)about.st_size;
    return ERR_OK;
}

static enum err real_read(void *state, int file, void *to, size_t size, uint64_t offset)
{
    (void)state;
    char *at = to;
    while (size > 0) {
        ssize_t got = pread(file, at, size, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_from_errno(errno);
        if (got == 0) return ERR_END;
        at += got;
        size -= (size_t)got;
        offset += (uint64_t)got;
    }
    return ERR_OK;
}

static enum err real_write(void *state, int file, const void *from, size_t size, uint64_t offset)
{
    (void)state;
    const char *at = from;
    while (size > 0) {
        ssize_t put = pwrite(file, at, size, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return err_from_errno(errno);
        /* otherwise a file that takes nothing would loop without end */
        if (put == 0) return ERR_IO;
        if (planted("short_write_ignored")) return ERR_OK;
        at += put;
        size -= (size_t)put;
        offset += (uint64_t)put;
    }
    return ERR_OK;
}

static enum err real_sync(void *state, int file)
{
    (void)state;
    int failed;
    do failed = fdatasync(file);
    while (failed != 0 && errno == EINTR);
    return failed == 0 ? ERR_OK : err_from_errno(errno);
}

static enum err sync_whole(int file)
{
    int failed;
    do failed = fsync(file);
    while (failed != 0 && errno == EINTR);
    return failed == 0 ? ERR_OK : err_from_errno(errno);
}

/* Never written, so the kernel maps its one page of zeros; not const, which would put them into the
 * program's file. */
static _Alignas(FILL_ALIGN) char zeros[FILL_BYTES];

static bool set_direct(int file, bool direct)
{
    int flags = fcntl(file, F_GETFL);
    if (flags < 0) return false;
    return fcntl(file, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* The file system takes no direct writes, or only those aligned to its blocks; or the kernel has no
 * memory for one just now, but can use its cache. */
static bool is_of_directness(int number)
{
    return number == EINVAL || number == EOPNOTSUPP || number == ENOMEM;
}

/* Fills until direct writes are refused. */
static enum err fill_direct(int file, uint64_t size, uint64_t *ret_filled)
{
    uint64_t at = 0;
    while (size - at >= FILL_ALIGN) {
        size_t piece = size - at < FILL_BYTES ? (size_t)(size - at) : FILL_BYTES;
        ssize_t put = pwrite(file, zeros, piece / FILL_ALIGN * FILL_ALIGN, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && !is_of_directness(errno)) return err_from_errno(errno);
        if (put <= 0) break;
        at += (uint64_t)put;
    }
    *ret_filled = at;
    return ERR_OK;
}

static enum err fill_cached(void *state, int file, uint64_t size, uint64_t at)
{
    while (at < size) {
        size_t piece = size - at < FILL_BYTES ? (size_t)(size - at) : FILL_BYTES;
        enum err err = real_write(state, file, zeros, piece, at);
        if (err != ERR_OK) return err;
        at += piece;
    }
    return ERR_OK;
}

/* On a file system that writes to new blocks each time (btrfs), this makes a file keep its blocks,
 * so that their space is certain on a full disk, too. Only an empty file takes the flag. Other file
 * systems refuse it and do not need it, or do not know it (ZFS). The call's argument is an int, but
 * its number is declared with long, and FUSE of old kernels copies a long. */
static void stay_in_place(int file)
{
    int flags[2] = {0};
    if (ioctl(file, FS_IOC_GETFLAGS, flags) != 0) return;
    flags[0] |= FS_NOCOW_FL;
    (void)ioctl(file, FS_IOC_SETFLAGS, flags);
}

static enum err real_fill(void *state, int file, uint64_t size)
{
    stay_in_place(file);
    int failed;
    do failed = fallocate(file, 0, 0, (off_t)size);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno != EOPNOTSUPP && errno != ENOSYS) return err_from_errno(errno);

    uint64_t filled = 0;
    if (set_direct(file, true)) {
        enum err err = fill_direct(file, size, &filled);
        if (err != ERR_OK) return err;
        if (!set_direct(file, false)) return ERR_IO; /* later writes are not aligned */
    }
    enum err err = fill_cached(state, file, size, filled);
    return err == ERR_OK ? sync_whole(file) : err;
}

/* If the file system cannot reserve blocks, the file only gets its size, and a write may meet the
 * full disk. */
static enum err real_reserve(void *state, int file, uint64_t size)
{
    (void)state;
    int failed;
    do failed = fallocate(file, 0, 0, (off_t)size);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        failed = ftruncate(file, (off_t)size);
    return failed == 0 ? ERR_OK : err_from_errno(errno);
}

/* Always from the begin: a page across the end of an earlier call has stayed. */
static void real_uncache(void *state, int file, uint64_t until)
{
    (void)state;
    if (until > 0) (void)posix_fadvise(file, 0, (off_t)until, POSIX_FADV_DONTNEED);
}

static enum err real_sync_directory(void *state)
{
    struct real *r = state;
    return sync_whole(r->directory);
}

static enum err real_rename(void *state, const char *from, const char *to)
{
    struct real *r = state;
    if (renameat(r->directory, from, r->directory, to) != 0) return err_from_errno(errno);
    return ERR_OK;
}

static enum err real_remove(void *state, const char *name)
{
    struct real *r = state;
    if (unlinkat(r->directory, name, 0) != 0) return err_from_errno(errno);
    return ERR_OK;
}

static enum err real_list(void *state, void (*each)(void *context, const char *name), void *context)
{
    struct real *r = state;
    int copy = openat(r->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return err_from_errno(errno);
    DIR *walk = fdopendir(copy);
    if (walk == NULL) {
        enum err err = err_from_errno(errno);
        close(copy);
        return err;
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(walk)) != NULL; errno = 0) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, lock_name) == 0) continue;
        each(context, entry->d_name);
    }
    enum err err = errno == 0 ? ERR_OK : err_from_errno(errno);
    closedir(walk);
    return err;
}

/* As df counts: space reserved for root is neither free nor part of the total. */
static enum err real_free_bytes(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    struct real *r = state;
    struct statvfs about;
    if (fstatvfs(r->directory, &about) != 0) return err_from_errno(errno);
    *ret_free = (uint64_t)about.f_bavail * about.f_frsize;
    *ret_total = (uint64_t)(about.f_blocks - about.f_bfree + about.f_bavail) * about.f_frsize;
    return ERR_OK;
}

/* As df -i counts. */
static enum err real_free_files(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    struct real *r = state;
    struct statvfs about;
    if (fstatvfs(r->directory, &about) != 0) return err_from_errno(errno);
    *ret_free = (uint64_t)about.f_favail;
    *ret_total = (uint64_t)about.f_files;
    return ERR_OK;
}

static enum err real_lock(void *state)
{
    struct real *r = state;
    if (r->lock_file >= 0) return ERR_EXISTS; /* this process holds it already */
    int file = openat(r->directory, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return err_from_errno(errno);
    int failed;
    do failed = flock(file, LOCK_EX | LOCK_NB);
    while (failed != 0 && errno == EINTR);
    if (failed != 0) {
        enum err err = errno == EWOULDBLOCK ? ERR_EXISTS : err_from_errno(errno);
        close(file);
        return err;
    }
    r->lock_file = file;
    return ERR_OK;
}

bool disk_refuses(enum err err)
{
    return err == ERR_NO_SPACE || err == ERR_NO_DESCRIPTORS || err == ERR_NOT_PERMITTED;
}

static const struct disk real_operations = {
    .open = real_open,
    .close = real_close,
    .size = real_size,
    .read = real_read,
    .write = real_write,
    .sync = real_sync,
    .fill = real_fill,
    .reserve = real_reserve,
    .uncache = real_uncache,
    .sync_directory = real_sync_directory,
    .rename = real_rename,
    .remove = real_remove,
    .list = real_list,
    .free_bytes = real_free_bytes,
    .free_files = real_free_files,
    .lock = real_lock,
};

enum err disk_real_create(const char *directory, struct disk **ret)
{
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) return err_from_errno(errno);
    int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return err_from_errno(errno);
    struct real *r = calloc(1, sizeof *r);
    check(r != NULL);
    r->disk = real_operations;
    r->disk.state = r;
    r->disk.directory = strdup(directory);
    check(r->disk.directory != NULL);
    r->directory = file;
    r->lock_file = -1;
    *ret = &r->disk;
    return ERR_OK;
}

void disk_real_destroy(struct disk *d)
{
    if (d == NULL) return;
    struct real *r = d->state;
    if (r->lock_file >= 0) close(r->lock_file);
    close(r->directory);
    free((char *)(uintptr_t)r->disk.directory);
    free(r);
}
