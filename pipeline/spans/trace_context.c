#include "pipeline/spans/trace_context.h"

enum { VERSION_AT = 0, TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, WHOLE = 55, FLAG_SAMPLED = 1 };

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0) return false;
    return true;
}

bool trace_context_read(struct str header, struct trace_context *ret)
{
    struct trace_context c = {.sampled = false};
    const char *h = header.bytes;
    uint8_t version, flags;
    if (header.size < WHOLE || h[TRACE_AT - 1] != '-' || h[PARENT_AT - 1] != '-' ||
        h[FLAGS_AT - 1] != '-')
        return false;
    if (!hex_read(h + VERSION_AT, &version, 1) || version == 0xff) return false;
    if (header.size > WHOLE && (version == 0 || h[WHOLE] != '-')) return false;
    if (!hex_read(h + TRACE_AT, c.trace, sizeof c.trace) || is_zero(c.trace, sizeof c.trace))
        return false;
    if (!hex_read(h + PARENT_AT, c.parent, sizeof c.parent) || is_zero(c.parent, sizeof c.parent))
        return false;
    if (!hex_read(h + FLAGS_AT, &flags, 1)) return false;
    c.trace_text = str_of(h + TRACE_AT, 2 * sizeof c.trace);
    c.sampled = (flags & FLAG_SAMPLED) != 0; /* other bits have no meaning yet */
    *ret = c;
    return true;
}

bool trace_id_read(struct str text, uint8_t ret[TRACE_ID_BYTES])
{
    uint8_t bytes[TRACE_ID_BYTES];
    if (text.size != 2 * sizeof bytes || !hex_read(text.bytes, bytes, sizeof bytes) ||
        is_zero(bytes, sizeof bytes))
        return false;
    memcpy(ret, bytes, sizeof bytes);
    return true;
}
