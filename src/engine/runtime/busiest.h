/* busiest.h - the client that has used more than half of a reactor's time lately, if one has.
 *
 * A weighted majority vote (Boyer and Moore, "MJRTY", 1981) over periods of BUSIEST_PERIOD_NS of
 * time. It keeps one candidate, whatever the number of clients, and a client with more than half of
 * a period is the candidate at its end. What the candidate has used since it became one is counted
 * as well, so that a client with less is never named. One thread. */
#ifndef ENGINE_BUSIEST_H
#define ENGINE_BUSIEST_H

#include <stdbool.h>
#include <stdint.h>

struct busiest {
    uint64_t candidate, margin_ns, its_ns, all_ns; /* of this period */
    uint64_t named;                                /* at the end of the last period; 0: none */
};

enum { BUSIEST_PERIOD_NS = 100000000 };

/* 0: none has. Before the end of a period with one, it is that of the present period so far. */
uint64_t busiest_now(const struct busiest *b);

/* `who` is a hash, not 0. */
void busiest_note(struct busiest *b, uint64_t who, uint64_t spent_ns);

#endif
