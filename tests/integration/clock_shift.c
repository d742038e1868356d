/* clock_shift.c - preloaded into a program, lets a test step its wall clock while it runs.
 *
 * CLOCK_SHIFT_FILE names a file of eight bytes: milliseconds, signed, in the machine's own order.
 * They are added to the wall clock, and to nothing else, at each look at it; a test that writes
 * the file steps the clock of every program that was given it. It is what an operator or a broken
 * NTP server does, but for waits with a wall-clock deadline in the kernel, which nobody here
 * uses. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *ret);
int gettimeofday(struct timeval *restrict ret, void *restrict zone);
time_t time(time_t *ret);

static const volatile int64_t *shift_ms;

__attribute__((constructor)) static void map_shift(void)
{
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *shift_ms, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) shift_ms = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int status = (int)syscall(SYS_clock_gettime, clock, ret);
    if (status != 0 || shift_ms == NULL) return status;
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return status;
    int64_t shift = *shift_ms;
    ret->tv_sec += (time_t)(shift / 1000);
    ret->tv_nsec += (long)(shift % 1000) * 1000000;
    if (ret->tv_nsec < 0) {
        ret->tv_sec--;
        ret->tv_nsec += 1000000000;
    } else if (ret->tv_nsec >= 1000000000) {
        ret->tv_sec++;
        ret->tv_nsec -= 1000000000;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    (void)zone;
    struct timespec now;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    if (status == 0) *ret = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return status;
}

time_t time(time_t *ret)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (ret != NULL) *ret = now.tv_sec;
    return now.tv_sec;
}
