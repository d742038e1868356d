/* spans.h - traces of decisions for a monitoring system: OTLP over HTTP. Optional, and it never
 * delays a decision.
 *
 *   reactor ──open, keep──▶ its lane ──(its reply has left)──▶ sender ──POST /v1/traces──▶ collector
 *
 * A reactor copies the values of a span into its own ring and continues. It makes no system call,
 * takes no lock and does not wait. One thread empties the rings into requests of at most
 * SPANS_BATCH. If the collector is unreachable or slow, the thread keeps one request and tries
 * again (100 ms … 10 s, or the time of Retry-After). Meanwhile the rings fill, and spans without
 * room are lost and counted: spans are for monitoring, the audit trail is the record.
 *
 * Which decisions make a span: if the caller sent a valid `traceparent`, those whose sampled flag
 * is set (parent-based). Without it, a part of the traces as set by `sample`. Only the trace id
 * decides, so all engines choose alike. The span is in the caller's trace and a child of the
 * caller's span. Without a `traceparent` it is in the trace of the decision's trace_id, if that is
 * 32 hex digits; else there is no span. */
#ifndef SPANS_SPANS_H
#define SPANS_SPANS_H

#include "base/fault.h"
#include "pipeline/spans/lane.h"

enum { SPANS_BATCH = 512, SPANS_DELAY_MS = 500 };

struct spans;

struct spans_options {
    const char *url;     /* the collector, http://host:port, https://… or unix:/path; copied */
    struct tls *tls;     /* for https://; outlives the thread */
    const char *node;    /* copied */
    const char *version; /* copied */
    double sample;       /* 0 … 1, of the traces that begin here */
    unsigned lanes;      /* the number of reactors */
};

/* Starts the thread. ERR_BAD_VALUE: the url. */
enum err spans_start(const struct spans_options *options, struct spans **ret, struct fault *f);
/* Tries for `drain_ms` to send the remaining spans, then stops. No reactor may use its lane any
 * more. Accepts NULL. */
void spans_stop(struct spans *s, uint32_t drain_ms);

/* A reactor's own lane, valid as long as the spans; `sheet` counts its losses. Call once for
 * each. */
struct span_lane *spans_lane(struct spans *s, unsigned index, struct metrics_sheet *sheet);
void spans_wake(struct spans *s); /* any thread */

/* Whether a decision makes a span, and its trace and parent; *ret is written only on true.
 * `traceparent` may be absent or invalid. Any thread. */
bool spans_wanted(const struct spans *s, struct str traceparent, struct str trace_id,
                  struct span_place *ret);

#endif
