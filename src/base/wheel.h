/* wheel.h - a hierarchical timer wheel (Varghese, Lauck 1987): many deadlines, constant cost each.
 *
 * Six levels of 64 places, a millisecond at the lowest; an entry is at the level of the highest
 * six bits in which its deadline differs from now, and moves down as the deadline comes near.
 * Intrusive: nothing is allocated. A zeroed entry is in no wheel. An entry with a deadline
 * beyond two years is placed again several times, and is still due in time. Time never goes
 * back. Owned by one thread. */
#ifndef BASE_WHEEL_H
#define BASE_WHEEL_H

#include <stdint.h>

#include "base/list.h"

enum { WHEEL_LEVELS = 6, WHEEL_PLACES = 64 };

struct wheel_entry {
    struct link link;
    uint64_t deadline_ms;
    uint8_t level, place; /* its last position, unless it became due at once */
};

struct wheel {
    uint64_t now_ms;
    uint64_t occupied[WHEEL_LEVELS]; /* bit p: places[level][p] is not empty */
    struct list places[WHEEL_LEVELS][WHEEL_PLACES];
    struct list due;
};

void wheel_init(struct wheel *w, uint64_t now_ms); /* must not be moved afterwards */
/* Adds an entry; one that is already in the wheel is moved. */
void wheel_add(struct wheel *w, struct wheel_entry *e, uint64_t deadline_ms);
/* an entry that is in no wheel is left alone */
void wheel_remove(struct wheel *w, struct wheel_entry *e);
/* The next entry whose deadline is not after `now_ms`, taken out; NULL: there is none. */
struct wheel_entry *wheel_due(struct wheel *w, uint64_t now_ms);
/* When to check again: not after the earliest deadline; UINT64_MAX: the wheel is empty. */
uint64_t wheel_next_ms(const struct wheel *w);

#endif
