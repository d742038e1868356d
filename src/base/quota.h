/* quota.h - the quota that a request is over, for the refusal's headers (api/api.h).
 *
 * By value. `name` is a literal. */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include <stdint.h>

struct quota {
    const char *name;  /* "reviews"; NULL: the refusal is for another reason */
    uint64_t most;     /* so many of them */
    uint32_t window_s; /* in so many seconds; 0: at a time */
    uint32_t retry_s;  /* when asking again may help */
};

#endif
