/* spans.h - traces of decisions for whoever watches: OTLP over HTTP, optional and never in the way.
 *
 *   reactor ──open, keep──▶ its lane ──(its reply has left)──▶ sender ──POST /v1/traces──▶ collector
 *
 * A reactor copies what a span needs into a ring of its own and goes on; it makes no call, takes no
 * lock and waits for nobody. One thread empties the rings into requests of at most SPANS_BATCH.
 * Where the collector is away or slow it holds one request and tries again (100 ms … 10 s, or what
 * Retry-After says); meanwhile the rings fill, and what does not fit is lost and counted: spans are
 * for looking, the audit trail is the record.
 *
 * Which decisions leave one: if the caller sent a valid `traceparent`, those whose sampled flag is
 * set (parent-based); without it, a part of the traces as `sample` says, chosen by the trace id
 * alone, so that all engines choose alike. The span is in the caller's trace and a child of the
 * caller's span; without a `traceparent` in the trace that the decision's trace_id names, if that
 * is 32 hex digits; else there is none. */
#ifndef SPANS_SPANS_H
#define SPANS_SPANS_H

#include "base/fault.h"
#include "pipeline/spans/lane.h"

enum { SPANS_BATCH = 512, SPANS_DELAY_MS = 500 };

struct spans;

struct spans_options {
    const char *url;     /* the collector, http://host:port or unix:/path; copied */
    const char *node;    /* copied */
    const char *version; /* copied */
    double sample;       /* 0 … 1, of traces that nobody began before us */
    unsigned lanes;      /* how many reactors */
};

/* Starts the thread. ERR_BAD_VALUE: the url. */
enum err spans_start(const struct spans_options *options, struct spans **ret, struct fault *f);
/* Tries for `drain_ms` to send what is left, then stops. No reactor may use its
 * lane any more. Accepts NULL. */
void spans_stop(struct spans *s, uint32_t drain_ms);

/* A reactor's own, for as long as the spans live; `sheet` counts what it loses. Once for each. */
struct span_lane *spans_lane(struct spans *s, unsigned index, struct metrics_sheet *sheet);
void spans_wake(struct spans *s); /* any thread */

/* Whether a decision leaves a span, and where it belongs; *ret is written on true only.
 * `traceparent` may be absent or bad. Any thread. */
bool spans_wanted(const struct spans *s, struct str traceparent, struct str trace_id,
                  struct span_place *ret);

#endif
