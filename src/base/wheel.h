/* wheel.h - a hierarchical timer wheel (Varghese, Lauck 1987): many deadlines, constant cost each.
 *
 * Six levels of 64 places, a millisecond at the lowest; an entry lies at the level of the highest
 * six bits in which its deadline differs from now, and moves down as they come near. Intrusive:
 * nothing is allocated. A zeroed entry is in no wheel. Deadlines beyond two years are looked at
 * again and again, and still kept. Time never goes back. Owned by one thread. */
#ifndef BASE_WHEEL_H
#define BASE_WHEEL_H

#include <stdint.h>

#include "base/list.h"

enum { WHEEL_LEVELS = 6, WHEEL_PLACES = 64 };

struct wheel_entry {
    struct link link;
    uint64_t deadline_ms;
    uint8_t level, place; /* where it was put last, if it did not become due at once */
};

struct wheel {
    uint64_t now_ms;
    uint64_t occupied[WHEEL_LEVELS]; /* bit p: places[level][p] holds something */
    struct list places[WHEEL_LEVELS][WHEEL_PLACES];
    struct list due;
};

void wheel_init(struct wheel *w, uint64_t now_ms); /* not to be moved afterwards */
/* Adds; one that is in the wheel already is moved. */
void wheel_add(struct wheel *w, struct wheel_entry *e, uint64_t deadline_ms);
void wheel_remove(struct wheel *w, struct wheel_entry *e); /* one that is in none is left alone */
/* The next entry whose deadline is not after `now_ms`, taken out; NULL: none is. */
struct wheel_entry *wheel_due(struct wheel *w, uint64_t now_ms);
/* When to ask again: not after the earliest deadline; UINT64_MAX: the wheel is empty. */
uint64_t wheel_next_ms(const struct wheel *w);

#endif
