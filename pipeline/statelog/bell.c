/* bell.c - what the member sleeps on. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/check.h"
#include "pipeline/statelog/inside.h"

void statelog_wait(struct statelog *l, uint32_t ms)
{
    struct pollfd bell = {.fd = l->bell, .events = POLLIN};
    uint64_t rang;
    if (poll(&bell, 1, (int)ms) > 0 && read(l->bell, &rang, sizeof rang) < 0)
        check(errno == EAGAIN || errno == EINTR);
}

void statelog_wake(struct statelog *l)
{
    const uint64_t one = 1;
    check(write(l->bell, &one, sizeof one) == sizeof one || errno == EAGAIN);
}
