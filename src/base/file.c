#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool file_read(int fd, char *to, size_t capacity, size_t *ret_size)
{
    size_t size = 0;
    while (size < capacity) {
        ssize_t n = read(fd, to + size, capacity - size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        if (n == 0) break;
        size += (size_t)n;
    }
    *ret_size = size;
    return true;
}

bool file_write(int fd, struct str bytes)
{
    while (bytes.size > 0) {
        ssize_t n = write(fd, bytes.bytes, bytes.size);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = ENOSPC;
        if (n <= 0) return false;
        bytes = str_skip(bytes, (size_t)n);
    }
    return true;
}

bool file_make(const char *path, struct str bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool made = file_write(fd, bytes) && fsync(fd) == 0;
    int why = errno;
    close(fd);
    if (!made) unlink(path);
    errno = why;
    return made;
}

bool folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool synced = fsync(fd) == 0;
    int why = errno;
    close(fd);
    errno = why;
    return synced;
}
