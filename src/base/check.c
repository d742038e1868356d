#include "base/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Most checks that can fail because of the environment are allocations at boot. For these the
 * operator can change something, so the message names the cause. */
static const char *memory_told(void)
{
    return errno == ENOMEM ? ": perhaps out of memory (ulimit -v, or the memory limit of its group)"
                           : "";
}

void check_failed(const char *expression, const char *file, int line)
{
    char text[512];
    int length = snprintf(text, sizeof text, "check failed: %s at %s:%d%s\n", expression, file,
                          line, memory_told());
    if (length > 0) {
        size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        ssize_t ignored = write(STDERR_FILENO, text, size);
        (void)ignored;
    }
    abort();
}
