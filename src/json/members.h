/* members.h - many members of an object in a row, with names that are known at compile time.
 *
 * Does the same as json_put_plain_member() and similar functions, for code that writes tens of
 * members for every request. The write position stays in registers instead of the buf, and a
 * name that is a literal is stored without a copy. Between members_begin() and members_end()
 * nothing else may be put into the buf. Overflow is set in the buf, and nothing is written after
 * it. Pure, any thread. */
#ifndef JSON_MEMBERS_H
#define JSON_MEMBERS_H

#include "base/time.h"
#include "json/json.h"

struct members {
    struct buf *out;
    char *to;  /* write position of the next member */
    char *end; /* end of the room */
};

/* These are always inlined: the address of a `struct members` is never passed on. */
#define MEMBERS_INLINE static inline __attribute__((always_inline))

/* The name of a member with the text before it and, for members_put_plain(), _text() and
 * _time(), the quote that opens its value. */
#define MEMBER_NAME(name) STR(",\"" name "\":")
#define MEMBER_QUOTED(name) STR(",\"" name "\":\"")

/* ---- out of line ---- */

struct members_place {
    char *to, *end;
};

/* Room for `more` bytes at `to`, the end of the written text; otherwise overflow and less room. */
struct members_place members_grow(struct buf *out, char *to, size_t more);
/* Copies a text and puts a quote after it; returns the position after that. */
char *members_copy_plain(char *to, const char *text, size_t size);
/* The same, or NULL if the text has something to escape. */
char *members_copy_text(char *to, const char *text, size_t size);
/* The whole member with escapes, whatever room there is. */
struct members_place members_put_escaped(struct buf *out, char *to, struct str quoted_name,
                                         struct str text);

/* ---- in line ---- */

MEMBERS_INLINE struct members members_begin(struct buf *out)
{
    struct members m = {.out = out, .to = out->bytes, .end = out->bytes};
    if (out->bytes == NULL) return m;
    m.to += out->size;
    m.end += out->overflow ? out->size : out->capacity;
    return m;
}

MEMBERS_INLINE void members_end(const struct members *m)
{
    if (m->to != NULL) m->out->size = (size_t)(m->to - m->out->bytes);
}

MEMBERS_INLINE bool members_room(struct members *m, size_t more)
{
    if (__builtin_expect((size_t)(m->end - m->to) >= more, 1)) return true;
    struct members_place place = members_grow(m->out, m->to, more);
    m->to = place.to;
    m->end = place.end;
    return (size_t)(m->end - m->to) >= more;
}

/* A string that needs no escape. */
MEMBERS_INLINE void members_put_plain(struct members *m, struct str quoted_name, struct str text)
{
    if (!members_room(m, quoted_name.size + text.size + 1)) return;
    memcpy(m->to, quoted_name.bytes, quoted_name.size);
    m->to = members_copy_plain(m->to + quoted_name.size, text.bytes, text.size);
}

/* A string; `text` is well-formed UTF-8. */
MEMBERS_INLINE void members_put_text(struct members *m, struct str quoted_name, struct str text)
{
    if (!members_room(m, quoted_name.size + text.size + 1)) return;
    memcpy(m->to, quoted_name.bytes, quoted_name.size);
    char *to = members_copy_text(m->to + quoted_name.size, text.bytes, text.size);
    if (__builtin_expect(to != NULL, 1)) {
        m->to = to;
        return;
    }
    struct members_place place = members_put_escaped(m->out, m->to, quoted_name, text);
    m->to = place.to;
    m->end = place.end;
}

MEMBERS_INLINE void members_put_time(struct members *m, struct str quoted_name, uint64_t ms)
{
    if (!members_room(m, quoted_name.size + TIME_TEXT + 1)) return;
    memcpy(m->to, quoted_name.bytes, quoted_name.size);
    time_write(ms, m->to + quoted_name.size);
    m->to[quoted_name.size + TIME_TEXT] = '"';
    m->to += quoted_name.size + TIME_TEXT + 1;
}

/* A value that is JSON already. */
MEMBERS_INLINE void members_put_json(struct members *m, struct str name, struct str json)
{
    if (!members_room(m, name.size + json.size)) return;
    memcpy(m->to, name.bytes, name.size);
    memcpy(m->to + name.size, json.bytes, json.size);
    m->to += name.size + json.size;
}

MEMBERS_INLINE void members_put_number(struct members *m, struct str name, double number)
{
    members_put_json(m, name, json_number_text(number));
}

MEMBERS_INLINE void members_put_u64(struct members *m, struct str name, uint64_t value)
{
    char digits[U64_DIGITS];
    members_put_json(m, name, str_of_u64(value, digits));
}

#endif
