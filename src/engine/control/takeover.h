/* takeover.h - an engine with a new journal takes over the open suspensions of its platform.
 *
 *   no record in the journal → the mark DATA/engine/suspensions-due → (engine.started)
 *     → the feed's first bundle → GET /api/v1/suspensions?open=true, page by page
 *     → each reactor records those of its slots, and all reactors have them → the mark is removed
 *
 * While the mark is there, agents and tokens are refused (503 `starting`), and the engine is not
 * ready. A crash in between leaves the mark, and the next start begins again. An actor that is
 * suspended already stays as it is, so a repetition records nothing twice. A state that was adopted
 * from Redis may have a later resume, which stays. Without platform.url there is nothing to ask,
 * and the mark waits for a start with one. */
#ifndef ENGINE_TAKEOVER_H
#define ENGINE_TAKEOVER_H

#include "engine/engine.h"
#include "http/client.h"

struct takeover;

/* Main thread, before the first record: `is_new`, there is none yet. ERR_IO: the mark cannot be
 * made. */
enum err takeover_open(struct engine *e, bool is_new, struct fault *f);
/* After the reactors have ended. */
void takeover_destroy(struct engine *e);

/* Any thread. */
static inline bool takeover_is_due(const struct engine *e)
{
    return atomic_load_explicit(&e->takeover_due, memory_order_acquire);
}
/* ERR_STARTING, and what it waits for. Any thread; only while it is due. */
enum err takeover_fault(const struct engine *e, struct fault *f);

/* The feed's thread, while it is due: asks, and waits for the reactors. ERR_CLOSED: stopped. */
enum err takeover_run(struct engine *e, struct http_client *platform, const char *authorization,
                      struct fault *f);
/* Ends takeover_run() soon. Any thread. */
void takeover_stop(struct engine *e);

/* A reactor's share of the present page, once a turn, after the block of the turn was sealed. True:
 * one more turn is needed, for the rest or for the block. */
bool takeover_turn(struct engine_reactor *w);

#endif
