/* write.c - a tree to its canonical text (RFC 8785): the bytes that are hashed and stored.
 *
 * Members are sorted by UTF-16 code units. That equals byte order with one exception: U+E000 to
 * U+FFFF (UTF-8 leads EE, EF) come after the surrogate pairs of U+10000 and beyond (leads F0 to
 * F4). Small objects are sorted on the stack with the first eight bytes of each key as one
 * integer; only objects of more than SORT_ON_STACK members touch the heap. */
#include <stdlib.h>

#include "base/check.h"
#include "json/text.h"

enum { SORT_ON_STACK = 32 };

/* A byte's rank in the order of UTF-16. Continuation bytes are below 0xC0 and keep their value. */
static inline unsigned rank_of(unsigned char c)
{
    if (c < 0xEE) return c;
    return c < 0xF0 ? c + 0x10u : c - 2u;
}

/* RFC 8785 key order: by UTF-16 code units. <0, 0, >0. */
static int key_compare(struct str a, struct str b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    for (size_t i = 0; i < shorter; i++) {
        unsigned char x = (unsigned char)a.bytes[i], y = (unsigned char)b.bytes[i];
        if (x != y) return rank_of(x) < rank_of(y) ? -1 : 1;
    }
    return a.size < b.size ? -1 : a.size > b.size;
}

struct sortable {
    /* ranks of the first eight bytes, zeros beyond the end; equal values need the key */
    uint64_t prefix;
    const struct json *member;
};

static inline uint64_t prefix_of(struct str key)
{
    uint64_t word = 0;
    if (key.size >= 8) {
        memcpy(&word, key.bytes, 8);
        word = __builtin_bswap64(word);
    } else if (key.size >= 4) { /* its first four bytes and its last four, which may overlap */
        uint32_t first, last;
        memcpy(&first, key.bytes, sizeof first);
        memcpy(&last, key.bytes + key.size - sizeof last, sizeof last);
        word = (uint64_t)__builtin_bswap32(first) << 32 | (uint64_t)__builtin_bswap32(last)
                                                              << (64 - 8 * key.size);
    } else {
        for (size_t i = 0; i < key.size; i++)
            word |= (uint64_t)(unsigned char)key.bytes[i] << (56 - 8 * i);
    }
    if ((word & 0x8080808080808080u) == 0) return word;
    uint64_t ranked = 0;
    for (int i = 56; i >= 0; i -= 8) ranked |= (uint64_t)rank_of((unsigned char)(word >> i)) << i;
    return ranked;
}

static inline bool comes_before(const struct sortable *a, const struct sortable *b)
{
    if (a->prefix != b->prefix) return a->prefix < b->prefix;
    return key_compare(a->member->key, b->member->key) < 0;
}

static int compare_sortables(const void *a, const void *b)
{
    return comes_before(a, b) ? -1 : comes_before(b, a);
}

/* Insertion sort while the members are collected: most objects are short and partly in order.
 * Returns the count, or one more than there is room for. */
static inline size_t sort_few(const struct json *object, struct sortable sorted[SORT_ON_STACK])
{
    size_t count = 0;
    for (const struct json *m = object->child; m != NULL; m = m->next) {
        size_t at = count++;
        if (at == SORT_ON_STACK) break;
        struct sortable entry = {prefix_of(m->key), m};
        for (; at > 0 && comes_before(&entry, &sorted[at - 1]); at--) sorted[at] = sorted[at - 1];
        sorted[at] = entry;
    }
    return count;
}

/* The members of an object whose values the caller wants to find; most objects have none. */
struct wanted {
    struct json_part *parts;
    size_t count;
};

/* `lead` is the byte before the member: the opening brace or a comma. */
static void put_key(struct buf *out, char lead, const struct json *m)
{
    buf_put_byte(out, lead);
    if (m->plain_key)
        json_put_plain(out, m->key);
    else
        json_put_string(out, m->key);
    buf_put_byte(out, ':');
}

/* A member whose name and value were canonical when they were read, as most are: one check of
 * the room. Returns the position of its value. */
static inline size_t put_as_read(struct buf *out, char lead, const struct json *m)
{
    size_t before = m->key.size + 4;
    if (!buf_room(out, before + m->raw.size)) return out->size;
    char *to = out->bytes + out->size;
    *to++ = lead;
    *to++ = '"';
    to = buf_copy(to, m->key.bytes, m->key.size);
    *to++ = '"';
    *to++ = ':';
    buf_copy(to, m->raw.bytes, m->raw.size);
    size_t begin = out->size + before;
    out->size = begin + m->raw.size;
    return begin;
}

static void tell_part(struct wanted w, const struct buf *out, const struct json *m, size_t begin)
{
    for (size_t i = 0; i < w.count; i++)
        if (w.parts[i].value == m && !out->overflow)
            w.parts[i].text = str_of(out->bytes + begin, out->size - begin);
}

static void put_members(struct buf *out, const struct sortable *sorted, size_t count,
                        struct wanted w)
{
    char lead = '{';
    for (size_t i = 0; i < count; i++, lead = ',') {
        const struct json *m = sorted[i].member;
        size_t begin;
        if (m->plain_key && (m->plain_string || m->plain_number)) {
            begin = put_as_read(out, lead, m);
        } else {
            put_key(out, lead, m);
            begin = out->size;
            json_put_canonical(out, m);
        }
        if (w.count > 0) tell_part(w, out, m, begin);
    }
    buf_put_byte(out, '}');
}

static size_t members_of(const struct json *object)
{
    size_t count = 0;
    for (const struct json *m = object->child; m != NULL; m = m->next) count++;
    return count;
}

static void put_large_object(struct buf *out, const struct json *object, struct wanted w)
{
    size_t count = members_of(object);
    struct sortable *sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL) {
        out->overflow = out->starved = true;
        return;
    }
    size_t i = 0;
    for (const struct json *m = object->child; m != NULL; m = m->next)
        sorted[i++] = (struct sortable){prefix_of(m->key), m};
    qsort(sorted, count, sizeof *sorted, compare_sortables);
    put_members(out, sorted, count, w);
    free(sorted);
}

static void put_object(struct buf *out, const struct json *object, struct wanted w)
{
    struct sortable sorted[SORT_ON_STACK];
    size_t count = sort_few(object, sorted);
    if (count == 0)
        buf_put_literal(out, "{}");
    else if (count <= SORT_ON_STACK)
        put_members(out, sorted, count, w);
    else
        put_large_object(out, object, w);
}

static void put_array(struct buf *out, const struct json *array)
{
    buf_put_byte(out, '[');
    for (const struct json *v = array->child; v != NULL; v = v->next) {
        if (v != array->child) buf_put_byte(out, ',');
        json_put_canonical(out, v);
    }
    buf_put_byte(out, ']');
}

static void put_number(struct buf *out, const struct json *v)
{
    if (v->plain_number) {
        buf_put(out, v->raw);
    } else if (v->number_kind == JSON_DOUBLE || v->number_kind == JSON_LONG) {
        json_put_number(out, v->number);
    } else if (v->number_kind == JSON_UINT64) {
        buf_put_u64(out, v->uint64);
    } else {
        if (v->int64 < 0) buf_put_byte(out, '-');
        buf_put_u64(out, v->int64 < 0 ? 0 - (uint64_t)v->int64 : (uint64_t)v->int64);
    }
}

void json_put_canonical(struct buf *out, const struct json *v)
{
    switch (v->type) {
    case JSON_NULL: buf_put_literal(out, "null"); return;
    case JSON_FALSE: buf_put_literal(out, "false"); return;
    case JSON_TRUE: buf_put_literal(out, "true"); return;
    case JSON_NUMBER: put_number(out, v); return;
    case JSON_STRING:
        if (v->plain_string)
            json_put_plain(out, v->string);
        else
            json_put_string(out, v->string);
        return;
    case JSON_ARRAY: put_array(out, v); return;
    case JSON_OBJECT: put_object(out, v, (struct wanted){0}); return;
    }
    check(false);
}

void json_put_canonical_parts(struct buf *out, const struct json *object, struct json_part *parts,
                              size_t count)
{
    check(object->type == JSON_OBJECT);
    for (size_t i = 0; i < count; i++) parts[i].text = (struct str){0};
    put_object(out, object, (struct wanted){parts, count});
}
