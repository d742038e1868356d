/* otlp.h - spans as OTLP's JSON (opentelemetry.io/docs/specs/otlp, 1.x): ids in hex, 64-bit
 * integers as decimal strings, enumerations as numbers.
 *
 * One request is one resource (this engine) with one scope of spans. A span has the members by
 * which an operator finds a decision and sees its duration: outcome, rule, policy and version,
 * kind, request and trace id. It has no action, actor or arguments, because a trace store has other
 * readers than the audit trail. */
#ifndef SPANS_OTLP_H
#define SPANS_OTLP_H

#include "base/buf.h"
#include "pipeline/spans/lane.h"

struct otlp_resource {
    struct str node, version;
};

void otlp_put_begin(struct buf *out, const struct otlp_resource *r);
/* `unix_offset_ns` converts monotonic times to Unix times. */
void otlp_put_span(struct buf *out, const struct span *s, uint64_t unix_offset_ns, bool is_first);
void otlp_put_end(struct buf *out);

#endif
