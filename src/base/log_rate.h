/* log_rate.h - log lines of one cause, at most so many a second.
 *
 * Events that any client can cause without limit must not fill the log. Suppressed lines are
 * counted, and the next line that is written has their number.
 *
 * A zeroed `struct log_rate` is ready. It belongs to one thread. */
#ifndef BASE_LOG_RATE_H
#define BASE_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_RATE_LINES = 10 /* per second */ };

struct log_rate {
    uint64_t second;
    unsigned lines; /* in that second */
    uint64_t held;  /* since the last line that was written */
};

/* True: write the line, with the number *ret_held of similar lines that were suppressed before
 * it. */
bool log_rate_allows(struct log_rate *r, uint64_t now_ms, uint64_t *ret_held);

#endif
