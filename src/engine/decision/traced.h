/* traced.h - the traces of a request for a decision beside its record: a span (pipeline/spans) if
 * it is sampled, and a log line.
 *
 * At log.level = debug each decision is one line, `decided`. At every level, a request that got no
 * decision because of the engine is `not_decided`, at most one a second for each reactor. Both
 * carry the trace id of the answer and of the event. Nothing here can fail or wait. */
#ifndef ENGINE_TRACED_H
#define ENGINE_TRACED_H

#include "base/log.h"
#include "engine/decision/authorization.h"

/* The header `traceparent`; absent if there is none, or more than one (W3C: then none is valid). */
struct str traced_find_header(const struct http_exchange *x);
static inline struct str traced_header(const struct http_exchange *x)
{
    return http_header_is_missing(x, STR("traceparent")) ? (struct str){0} : traced_find_header(x);
}

/* Call it before the reply is passed on: the span ends with the reply's barrier. */
void traced_decision(struct authorization *a);
static inline void traced_answer(struct authorization *a)
{
    if (a->operation.engine_reactor->spans != NULL || log_is_on(LOG_DEBUG)) traced_decision(a);
}
void traced_refusal(struct authorization *a, const struct fault *f);

/* Once a turn, after the replies: passes spans whose replies have left to the sender. */
void traced_turn(struct engine_reactor *w, uint64_t written, uint64_t synced);

#endif
