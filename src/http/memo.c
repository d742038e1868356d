#include "http/memo.h"

#include <stdlib.h>

#include "crypto/crypto.h"

struct head_memo {
    uint32_t size;                     /* 0: nothing is remembered */
    uint32_t digits_from, digits_size; /* of Content-Length; no size where there is none */
    uint32_t field_count, length_field;
    int minor;
    bool keep_alive, chunked, has_length;
    struct str method, target; /* views into `bytes`, like all that follow */
    struct str content_type, content_encoding, expect;
    struct http_header fields[MEMO_FIELDS];
    char bytes[MEMO_BYTES];
};

/* The same head but for Content-Length, whose digits *ret_digits are. */
static bool is_same(const struct head_memo *m, const char *bytes, size_t size,
                    struct str *ret_digits)
{
    size_t from = m->digits_from, after = from + m->digits_size, rest = m->size - after;
    if (m->size == 0 || size < from + rest) return false;
    struct str digits = str_of(bytes + from, size - from - rest);
    if (m->digits_size == 0 && digits.size != 0) return false;
    if (memcmp(bytes, m->bytes, from) != 0) return false;
    if (memcmp(bytes + size - rest, m->bytes + after, rest) != 0) return false;
    *ret_digits = digits;
    return true;
}

bool memo_recall(const struct head_memo *m, const char *bytes, size_t size, struct head *ret)
{
    struct str digits;
    uint64_t length = 0;
    if (m == NULL || !is_same(m, bytes, size, &digits)) return false;
    if (m->has_length && !str_to_u64(digits, &length)) return false; /* the parser says why */

    ret->method = m->method;
    ret->target = m->target;
    ret->status = 0;
    ret->minor = m->minor;
    ret->keep_alive = m->keep_alive;
    ret->chunked = m->chunked;
    ret->has_length = m->has_length;
    ret->length = length;
    ret->content_type = m->content_type;
    ret->content_encoding = m->content_encoding;
    ret->expect = m->expect;
    ret->field_count = m->field_count;
    memcpy(ret->fields, m->fields, m->field_count * sizeof *m->fields);
    if (m->has_length) ret->fields[m->length_field].value = digits;
    return true;
}

static struct str moved(struct str view, const char *from, const char *to)
{
    if (!str_is_absent(view)) view.bytes = to + (view.bytes - from);
    return view;
}

static void fill(struct head_memo *m, const char *bytes, size_t size, const struct head *h)
{
    memcpy(m->bytes, bytes, size);
    m->minor = h->minor;
    m->keep_alive = h->keep_alive;
    m->chunked = h->chunked;
    m->has_length = h->has_length;
    m->method = moved(h->method, bytes, m->bytes);
    m->target = moved(h->target, bytes, m->bytes);
    m->content_type = moved(h->content_type, bytes, m->bytes);
    m->content_encoding = moved(h->content_encoding, bytes, m->bytes);
    m->expect = moved(h->expect, bytes, m->bytes);
    m->field_count = (uint32_t)h->field_count;
    m->digits_from = m->digits_size = m->length_field = 0;
    for (size_t i = 0; i < h->field_count; i++) {
        struct str name = h->fields[i].name, value = h->fields[i].value;
        m->fields[i] = (struct http_header){.name = moved(name, bytes, m->bytes),
                                            .value = moved(value, bytes, m->bytes)};
        if (!h->has_length || !str_equal_ignoring_case(name, STR("content-length"))) continue;
        m->length_field = (uint32_t)i;
        m->digits_from = (uint32_t)(value.bytes - bytes);
        m->digits_size = (uint32_t)value.size;
    }
    m->size = (uint32_t)size;
}

void memo_take(struct head_memo **m, const char *bytes, size_t size, const struct head *h)
{
    bool fits = size <= MEMO_BYTES && h->field_count <= MEMO_FIELDS;
    if (*m == NULL && fits) {
        *m = malloc(sizeof **m);
        if (*m == NULL) return;
        (*m)->size = 0;
    }
    if (*m == NULL) return;
    size_t before = (*m)->size;
    (*m)->size = 0;
    if (fits) fill(*m, bytes, size, h);
    if (before > (*m)->size) memory_wipe((*m)->bytes + (*m)->size, before - (*m)->size);
}

void memo_destroy(struct head_memo *m)
{
    if (m == NULL) return;
    memory_wipe(m->bytes, m->size);
    free(m);
}
