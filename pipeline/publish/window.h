/* window.h - the records under way to the brokers, and the acknowledged prefix. Pure.
 *
 *   first ........ delivered | ................ end        seq
 *   all acknowledged         | some may be: one bit for each
 *
 * Acknowledgements may come in any order. The position moves only over a contiguous prefix. */
#ifndef PUBLISH_WINDOW_H
#define PUBLISH_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { WINDOW_MAX = 1 << 16 }; /* records under way at a time; a power of two */

struct window {
    uint64_t delivered; /* all below are acknowledged */
    uint64_t end;       /* one past the newest record under way */
    uint64_t under_way; /* of [delivered, end), those not acknowledged */
    uint64_t bits[WINDOW_MAX / 64];
};

void window_reset(struct window *w, uint64_t first); /* nothing is under way; `first` comes next */
static inline bool window_has_room(const struct window *w)
{
    return w->end - w->delivered < WINDOW_MAX;
}
/* The record `end` is under way; there must be room. */
void window_add(struct window *w);
/* An acknowledgement. It is ignored if the record is not under way, or was already acknowledged. */
void window_ack(struct window *w, uint64_t seq);

#endif
