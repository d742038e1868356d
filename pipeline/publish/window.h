/* window.h - what is under way to the brokers, and how far it has arrived without a gap. Pure.
 *
 *   first ........ delivered | ................ end        seq
 *   all acknowledged         | some, maybe; these bits say which
 *
 * Acknowledgements may come in any order; the position moves over a contiguous prefix only. */
#ifndef PUBLISH_WINDOW_H
#define PUBLISH_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { WINDOW_MAX = 1 << 16 }; /* records under way at a time; a power of two */

struct window {
    uint64_t delivered; /* all below are acknowledged */
    uint64_t end;       /* one past the newest under way */
    uint64_t under_way; /* of [delivered, end), those not acknowledged */
    uint64_t bits[WINDOW_MAX / 64];
};

void window_reset(struct window *w, uint64_t first); /* nothing is under way; `first` comes next */
static inline bool window_has_room(const struct window *w)
{
    return w->end - w->delivered < WINDOW_MAX;
}
/* the record `end` is under way; there is room */
void window_add(struct window *w);
/* Acknowledged. One that is not under way, or was told before, is ignored. */
void window_ack(struct window *w, uint64_t seq);

#endif
