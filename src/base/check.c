#include "base/check.h"

#include <stdlib.h>
#include <unistd.h>

#include <stdio.h>

void check_failed(const char *expression, const char *file, int line)
{
    char text[512];
    int length = snprintf(text, sizeof text, "check failed: %s at %s:%d\n", expression, file, line);
    if (length > 0) {
        size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        ssize_t ignored = write(STDERR_FILENO, text, size);
        (void)ignored;
    }
    abort();
}
