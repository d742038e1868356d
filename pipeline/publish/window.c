#include "pipeline/publish/window.h"

#include <string.h>

#include "base/check.h"

static uint64_t *word_of(struct window *w, uint64_t seq) { return &w->bits[seq % WINDOW_MAX / 64]; }

static uint64_t bit_of(uint64_t seq) { return 1ull << seq % 64; }

void window_reset(struct window *w, uint64_t first)
{
    memset(w->bits, 0, sizeof w->bits);
    w->delivered = w->end = first;
    w->under_way = 0;
}

void window_add(struct window *w)
{
    check(window_has_room(w));
    w->end++;
    w->under_way++;
}

void window_ack(struct window *w, uint64_t seq)
{
    if (seq < w->delivered || seq >= w->end || (*word_of(w, seq) & bit_of(seq)) != 0) return;
    *word_of(w, seq) |= bit_of(seq);
    w->under_way--;
    while (w->delivered < w->end && (*word_of(w, w->delivered) & bit_of(w->delivered)) != 0) {
        *word_of(w, w->delivered) &= ~bit_of(w->delivered);
        w->delivered++;
    }
}
