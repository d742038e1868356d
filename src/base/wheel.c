#include "base/wheel.h"

enum { BITS = 6 };

void wheel_init(struct wheel *w, uint64_t now_ms)
{
    w->now_ms = now_ms;
    list_init(&w->due);
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        w->occupied[l] = 0;
        for (unsigned p = 0; p < WHEEL_PLACES; p++) list_init(&w->places[l][p]);
    }
}

static void put(struct wheel *w, struct wheel_entry *e)
{
    if (e->deadline_ms <= w->now_ms) {
        list_append(&w->due, &e->link);
        return;
    }
    unsigned level = (unsigned)(63 - __builtin_clzll(e->deadline_ms ^ w->now_ms)) / BITS;
    if (level >= WHEEL_LEVELS) level = WHEEL_LEVELS - 1;
    e->level = (uint8_t)level;
    e->place = (uint8_t)(e->deadline_ms >> (BITS * level) & (WHEEL_PLACES - 1));
    list_append(&w->places[level][e->place], &e->link);
    w->occupied[level] |= UINT64_C(1) << e->place;
}

void wheel_remove(struct wheel *w, struct wheel_entry *e)
{
    link_remove(&e->link);
    /* An entry that was due at once, or is in no wheel, still has its last level and place. There
     * this only clears a bit that is already clear. */
    if (list_is_empty(&w->places[e->level][e->place]))
        w->occupied[e->level] &= ~(UINT64_C(1) << e->place);
}

void wheel_add(struct wheel *w, struct wheel_entry *e, uint64_t deadline_ms)
{
    wheel_remove(w, e);
    e->deadline_ms = deadline_ms;
    put(w, e);
}

/* The places that a level's hand passes between two ticks. */
static uint64_t passed(uint64_t from, uint64_t to)
{
    uint64_t ticks = to - from;
    if (ticks >= WHEEL_PLACES) return UINT64_MAX;
    uint64_t run = (UINT64_C(1) << ticks) - 1;
    unsigned at = (unsigned)((from + 1) & (WHEEL_PLACES - 1));
    return at == 0 ? run : run << at | run >> (WHEEL_PLACES - at);
}

static void take_all(struct wheel *w, unsigned level, unsigned place, struct list *into)
{
    list_each (&w->places[level][place], k, following) {
        link_remove(k);
        list_append(into, k);
    }
    w->occupied[level] &= ~(UINT64_C(1) << place);
}

/* Entries that the hands pass are placed again, at a lower level or as due. */
static void advance(struct wheel *w, uint64_t now_ms)
{
    struct list moving;
    if (now_ms <= w->now_ms) return;
    list_init(&moving);
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        uint64_t from = w->now_ms >> (BITS * l), to = now_ms >> (BITS * l);
        if (from == to) break;
        for (uint64_t hit = passed(from, to) & w->occupied[l]; hit != 0; hit &= hit - 1)
            take_all(w, l, (unsigned)__builtin_ctzll(hit), &moving);
    }
    w->now_ms = now_ms;
    list_each (&moving, k, following) {
        link_remove(k);
        put(w, link_owner(k, struct wheel_entry, link));
    }
}

struct wheel_entry *wheel_due(struct wheel *w, uint64_t now_ms)
{
    advance(w, now_ms);
    if (list_is_empty(&w->due)) return NULL;
    struct wheel_entry *e = link_owner(w->due.head.next, struct wheel_entry, link);
    link_remove(&e->link);
    return e;
}

uint64_t wheel_next_ms(const struct wheel *w)
{
    if (!list_is_empty(&w->due)) return w->now_ms;
    uint64_t next = UINT64_MAX;
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        if (w->occupied[l] == 0) continue;
        uint64_t tick = w->now_ms >> (BITS * l);
        unsigned at = (unsigned)((tick + 1) & (WHEEL_PLACES - 1));
        uint64_t turned =
            at == 0 ? w->occupied[l] : w->occupied[l] >> at | w->occupied[l] << (WHEEL_PLACES - at);
        uint64_t when = (tick + 1 + (uint64_t)__builtin_ctzll(turned)) << (BITS * l);
        if (when < next) next = when;
    }
    return next;
}
