/* fuzz_traceparent.c - a header from anybody: what is taken has the form, and says the same
 * again. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "pipeline/spans/trace_context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str header = str_of((const char *)data, size);
    struct trace_context c, again;
    uint8_t trace[TRACE_ID_BYTES];
    if (!trace_context_read(header, &c)) return 0;
    check(c.trace_text.size == 32 && trace_id_read(c.trace_text, trace) &&
          memcmp(trace, c.trace, sizeof trace) == 0);
    char text[64];
    struct buf b = buf_over(text, sizeof text);
    buf_put_literal(&b, "00-");
    buf_put_hex(&b, c.trace, sizeof c.trace);
    buf_put_byte(&b, '-');
    buf_put_hex(&b, c.parent, sizeof c.parent);
    buf_put(&b, c.sampled ? STR("-01") : STR("-00"));
    check(trace_context_read(buf_view(&b), &again) && again.sampled == c.sampled);
    check(memcmp(again.trace, c.trace, sizeof c.trace) == 0 &&
          memcmp(again.parent, c.parent, sizeof c.parent) == 0);
    check(memcmp(text + 2, header.bytes + 2, 51) == 0);
    return 0;
}
