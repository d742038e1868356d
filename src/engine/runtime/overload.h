/* overload.h - what a reactor does when more requests arrive than it can handle: it refuses some of
 * them early, so that the others are answered in time.
 *
 * Requests wait in the sockets. A turn reads each socket that has become readable since the turn
 * before it, so requests wait about as long as that turn took: the length of a turn is the delay of
 * the queue. A wait for events in which the thread slept found the queue empty.
 *
 *   calm        a turn was shorter than half of `overload.delay`, or the thread has slept
 *   overloaded  no calm for OVERLOAD_MS and OVERLOAD_TURNS: in each turn, requests that have to
 *               wait for longer than `overload.delay` behind the others of the turn are refused (503)
 *
 * So a burst is served however long it is, and a queue that does not become shorter is cut. If one
 * key, or one tenant, has used more than half of the time of long turns, its requests are cut first:
 * those of the others are refused only when a turn has taken LIMIT_OVERLOAD_OTHERS percent of the delay. It is
 * the idea of CoDel (RFC 8289) in the form that servers use (Maurer, "Fail at Scale", ACM Queue
 * 13(8), 2015). Requests that end, deny or stop something, votes on reviews and reads are never
 * refused (struct http_route). While the journal has no room the clock stands: a disk that is slow
 * is no overload. One thread. */
#ifndef ENGINE_OVERLOAD_H
#define ENGINE_OVERLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/runtime/busiest.h"

/* Whose request it is; hashes, 0: not known. */
struct overload_asker {
    uint64_t tenant, key;
};

struct overload {
    uint64_t delay_ns; /* overload.delay; 0: nothing is refused */
    uint64_t calm_ns;  /* the end of the last calm */
    uint64_t held_ns;  /* since when the journal has no room; 0: it has */
    long sleeps;       /* of this thread, at the end of the last turn */
    bool is_long;      /* the last turn was not calm: this one has to be judged */
    uint32_t longs;    /* long turns since the last calm */
    bool is_judged;
    bool is_refusing; /* in this turn */
    struct busiest tenants, keys;
    /* The loop's clock at the last refusal, ms; 0: none. For other threads. */
    _Atomic uint64_t refused_ms;
};

/* One turn may be long because the thread had no processor. */
enum { OVERLOAD_MS = 100, OVERLOAD_TURNS = 2 };
/* Of `overload.delay`, in each turn. */
enum {
    OVERLOAD_KNOWN_PERCENT = 100,
    OVERLOAD_UNKNOWN_PERCENT = 50, /* for requests whose credential is not known */
};

void overload_init(struct overload *o, uint64_t delay_ms, uint64_t now_ns);
/* The end of a turn whose wait for events ended at `woken_ns`. */
void overload_turn_end(struct overload *o, uint64_t woken_ns, uint64_t now_ns, bool is_held);
/* Whether the turn before was long, so that each request of this one has to be judged by
 * overload_admits() and noted by overload_note(). */
static inline bool overload_is_near(const struct overload *o) { return o->is_long; }
/* False: refuse the request. `now_ns` is that of its beginning. */
bool overload_admits(struct overload *o, uint64_t woken_ns, uint64_t now_ns,
                     const struct overload_asker *who);
/* What a request has taken. */
void overload_note(struct overload *o, const struct overload_asker *who, uint64_t spent_ns);

#endif
