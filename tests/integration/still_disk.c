/* still_disk.c - preloaded into a program, makes its disk stand still: while the file that
 * STILL_DISK_FILE names is there, no write to a place in a file ends, and no fdatasync; while that of
 * STILL_SYNC_FILE is there, no fdatasync. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset);
ssize_t pwrite64(int file, const void *bytes, size_t size, off_t offset);
int fdatasync(int file);

static void wait_while(const char *variable)
{
    const char *path = getenv(variable);
    while (path != NULL && access(path, F_OK) == 0) usleep(10000);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset)
{
    wait_while("STILL_DISK_FILE");
    return syscall(SYS_pwrite64, file, bytes, size, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off_t offset)
{
    return pwrite(file, bytes, size, offset);
}

int fdatasync(int file)
{
    wait_while("STILL_DISK_FILE");
    wait_while("STILL_SYNC_FILE");
    return (int)syscall(SYS_fdatasync, file);
}
