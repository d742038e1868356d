#include "http/memo.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "crypto/crypto.h"

struct head_memo {
    uint32_t size;                     /* 0: nothing is remembered */
    uint32_t digits_from, digits_size; /* of Content-Length; no size where there is none */
    uint32_t length_field;
    struct meaning meaning; /* with views into `bytes`, `digits` and `fields` */
    struct http_kept kept;
    struct http_header fields[MEMO_FIELDS];
    char digits[U64_DIGITS]; /* the views of the last request: the input moves */
    char bytes[MEMO_BYTES];
};

/* The decimal digits at the front of the text, at most one more than a number may have; the scan
 * refuses longer ones. */
static size_t digits_at(const char *text, size_t size)
{
    size_t most = size <= U64_DIGITS ? size : U64_DIGITS + 1, count = 0;
    while (count < most && text[count] >= '0' && text[count] <= '9') count++;
    return count;
}

bool memo_find(struct head_memo *m, const char *bytes, size_t size, size_t *ret_head_size)
{
    if (m == NULL || m->size == 0) return false;
    size_t from = m->digits_from, after = from + m->digits_size, rest = m->size - after;
    if (size < from + rest || memcmp(bytes, m->bytes, from) != 0) return false;
    struct str digits = str_of(bytes + from, 0);
    uint64_t length = 0;
    if (m->digits_size > 0) {
        digits.size = digits_at(digits.bytes, size - from);
        if (!str_to_u64(digits, &length)) return false; /* the parser reports the error */
    }
    size_t head_size = from + digits.size + rest;
    if (size < head_size || memcmp(bytes + head_size - rest, m->bytes + after, rest) != 0)
        return false;
    if (m->digits_size > 0) {
        buf_copy(m->digits, digits.bytes, digits.size);
        m->fields[m->length_field].value = str_of(m->digits, digits.size);
    }
    m->meaning.length = length;
    *ret_head_size = head_size;
    return true;
}

const struct meaning *memo_meaning(const struct head_memo *m) { return &m->meaning; }

/* A move of bytes, and of the views into them. */
struct move {
    const char *from, *to;
    size_t size;
};

static struct str moved(const struct move *move, struct str view)
{
    if (str_is_absent(view)) return view;
    size_t at = (size_t)(view.bytes - move->from);
    check(at <= move->size && view.size <= move->size - at);
    return str_of(move->to + at, view.size);
}

static void fill_fields(struct head_memo *m, const struct move *move, const struct http_exchange *x)
{
    m->digits_from = m->digits_size = m->length_field = 0;
    for (size_t i = 0; i < x->header_count; i++) {
        struct str name = x->headers[i].name, value = x->headers[i].value;
        m->fields[i] = (struct http_header){.name = moved(move, name), .value = moved(move, value)};
        if (!str_equal_ignoring_case(name, STR("content-length"))) continue;
        m->length_field = (uint32_t)i;
        m->digits_from = (uint32_t)(value.bytes - move->from);
        m->digits_size = (uint32_t)value.size;
    }
}

static void fill(struct head_memo *m, const char *bytes, size_t size, const struct meaning *meaning)
{
    const struct move move = {.from = bytes, .to = m->bytes, .size = size};
    memcpy(m->bytes, bytes, size);
    fill_fields(m, &move, &meaning->exchange);
    m->kept = (struct http_kept){0};
    m->meaning = *meaning;
    m->meaning.content_type = moved(&move, meaning->content_type);
    m->meaning.content_encoding = moved(&move, meaning->content_encoding);
    m->meaning.expect = moved(&move, meaning->expect);
    struct http_exchange *x = &m->meaning.exchange;
    x->method_text = moved(&move, x->method_text);
    x->target = moved(&move, x->target);
    x->path = moved(&move, x->path);
    x->query = moved(&move, x->query);
    for (size_t i = 0; i < HTTP_PARAMS_MAX; i++) x->params[i] = moved(&move, x->params[i]);
    x->headers = m->fields;
    x->kept = &m->kept;
    m->size = (uint32_t)size;
}

bool memo_take(struct head_memo **m, const char *bytes, size_t size, const struct meaning *meaning)
{
    bool fits = size <= MEMO_BYTES && meaning->exchange.header_count <= MEMO_FIELDS;
    if (*m == NULL && fits) {
        *m = malloc(sizeof **m);
        if (*m == NULL) return false;
        (*m)->size = 0;
    }
    if (*m == NULL) return false;
    size_t before = (*m)->size;
    (*m)->size = 0;
    if (fits) fill(*m, bytes, size, meaning);
    if (before > (*m)->size) memory_wipe((*m)->bytes + (*m)->size, before - (*m)->size);
    return fits;
}

void memo_destroy(struct head_memo *m)
{
    if (m == NULL) return;
    memory_wipe(m->bytes, m->size);
    free(m);
}
