/* traced.h - what a request for a decision leaves for whoever watches, beside its record: a span
 * (pipeline/spans) where it is sampled, and a log line.
 *
 * At log.level = debug each decision is one line, `decided`; whatever the level, a request that got
 * no decision for a fault of ours is `not_decided`, at most one a second for each reactor. Both
 * carry the trace id of the answer and of the event. Nothing here can fail or wait. */
#ifndef ENGINE_TRACED_H
#define ENGINE_TRACED_H

#include "engine/authorization.h"

/* The header `traceparent`; absent where there is none, or more than one (W3C: then none is
 * valid). */
struct str traced_header(const struct http_exchange *x);

/* Before the reply is given away: its gate is when the span ends. */
void traced_answer(struct authorization *a);
void traced_refusal(struct authorization *a, const struct fault *f);

/* Once a beat, behind the replies: spans whose replies have left go to the sender. */
void traced_beat(struct worker *w, uint64_t written, uint64_t synced);

#endif
