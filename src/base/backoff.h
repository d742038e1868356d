/* backoff.h - how long to wait before what failed is tried again.
 *
 * Doubling, then between half of it and all of it by chance, so that many engines do not come back
 * as one. Source: "equal jitter" of
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    uint32_t first_ms, most_ms; /* both at least 2; first_ms <= most_ms <= 2^31 */
};

/* Before the next attempt after so many failures in a row; 0 counts as 1. Any thread. */
uint32_t backoff_ms(const struct backoff *b, uint64_t failures);

#endif
