/* short_write.c - preloaded into a program, makes its writes and reads short and interrupted.
 *
 * A call of more than 64 bytes moves a part of them, a different one each time; every seventh call
 * is interrupted before it moves any. All of this is what POSIX allows, and what happens in life
 * too rarely to be met by chance. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset);
ssize_t pwrite64(int file, const void *bytes, size_t size, off_t offset);
ssize_t pread(int file, void *bytes, size_t size, off_t offset);
ssize_t pread64(int file, void *bytes, size_t size, off_t offset);
int fdatasync(int file);

static _Atomic unsigned calls;

/* 0: interrupted. */
static size_t part(size_t size)
{
    unsigned call = atomic_fetch_add(&calls, 1);
    if (call % 7 == 6) return 0;
    return size <= 64 ? size : size - size * (call % 5) / 6;
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset)
{
    size_t less = part(size);
    if (less == 0 && size > 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, less, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off_t offset)
{
    return pwrite(file, bytes, size, offset);
}

ssize_t pread(int file, void *bytes, size_t size, off_t offset)
{
    size_t less = part(size);
    if (less == 0 && size > 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_pread64, file, bytes, less, offset);
}

ssize_t pread64(int file, void *bytes, size_t size, off_t offset)
{
    return pread(file, bytes, size, offset);
}

int fdatasync(int file)
{
    if (atomic_fetch_add(&calls, 1) % 7 == 6) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, file);
}
