/* fleet_reactor.h - a reactor's part in a fleet, in each of its turns.
 *
 *   begin   apply entries of other leaders to the own slots; in a new term of this engine, what its
 *           leader does first
 *   end     pass the open block to the member; release what waited for the log
 *
 * One reactor's thread; only in an engine with a member. */
#ifndef ENGINE_FLEET_REACTOR_H
#define ENGINE_FLEET_REACTOR_H

#include <stdint.h>

struct engine_reactor;

void fleet_reactor_begin(struct engine_reactor *w);
/* The journal's positions are for what this reactor has recorded there. */
void fleet_reactor_end(struct engine_reactor *w, uint64_t written, uint64_t synced);

#endif
