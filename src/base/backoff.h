/* backoff.h - how long to wait before a failed attempt is repeated.
 *
 * The wait doubles, and a random part of up to half is taken off, so that many engines do not
 * return at the same moment. Source: "equal jitter" of
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    uint32_t first_ms, most_ms; /* both at least 2; first_ms <= most_ms <= 2^31 */
};

/* The wait before the next attempt after so many failures in a row; 0 counts as 1. Any thread. */
uint32_t backoff_ms(const struct backoff *b, uint64_t failures);

#endif
