#include "base/log_rate.h"

bool log_rate_allows(struct log_rate *r, uint64_t now_ms, uint64_t *ret_held)
{
    uint64_t second = now_ms / 1000;
    if (second != r->second) r->lines = 0;
    r->second = second;
    if (r->lines == LOG_RATE_LINES) {
        r->held++;
        return false;
    }
    r->lines++;
    *ret_held = r->held;
    r->held = 0;
    return true;
}
