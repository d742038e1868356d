/* trace_context.h - the caller's trace and span: the header `traceparent`, read strictly.
 *
 *   traceparent = version "-" trace-id "-" parent-id "-" flags      2, 32, 16, 2 lowercase hex digits
 *
 * W3C Trace Context, level 1 (https://www.w3.org/TR/trace-context-1/). Version 00 has exactly this
 * length. A later one may continue after another "-", and that part is not read. Version ff and ids
 * of zeros are not valid. An invalid header is ignored as if it were absent. It is never an error,
 * because the sender of the request has rarely caused it. Pure, any thread. */
#ifndef SPANS_TRACE_CONTEXT_H
#define SPANS_TRACE_CONTEXT_H

#include <stdint.h>

#include "base/str.h"

enum { TRACE_ID_BYTES = 16, SPAN_ID_BYTES = 8 };

struct trace_context {
    uint8_t trace[TRACE_ID_BYTES];
    uint8_t parent[SPAN_ID_BYTES];
    struct str trace_text; /* the 32 digits; a view of the header */
    bool sampled;          /* the caller records its part of this trace */
};

/* False: absent, or not valid; *ret is unchanged. */
bool trace_context_read(struct str header, struct trace_context *ret);

/* Whether a trace id is also a W3C trace id: 32 lowercase hex digits, not all zero. */
bool trace_id_read(struct str text, uint8_t ret[TRACE_ID_BYTES]);

#endif
