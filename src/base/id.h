/* id.h - ids that sort by time and show their kind: `req_` + 26 Crockford base-32 characters.
 *
 * 48 bits of milliseconds, then 80 random bits (the ULID layout, github.com/ulid/spec). Structs
 * with one field, so that a token's id cannot be used as a review's. Pure, any thread. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include "base/str.h"
#include "base/world.h"

enum { ID_BYTES = 16, ID_DIGITS = 26, ID_TEXT = 4 + ID_DIGITS };

struct id {
    uint8_t bytes[ID_BYTES];
};

static inline bool id_equal(struct id a, struct id b)
{
    return memcmp(a.bytes, b.bytes, ID_BYTES) == 0;
}

/* `now_ms` since 1970. */
struct id id_make(uint64_t now_ms, struct chance *chance);

/* Writes `prefix` (4 bytes, like "req_") and 26 digits; `to` holds ID_TEXT bytes, no NUL. */
void id_write(const char prefix[4], struct id id, char *to);

/* Exactly prefix + 26 upper-case digits that encode 128 bits; false otherwise. */
bool id_read(const char prefix[4], struct str text, struct id *ret_id);

/* 26 digits without a prefix (in keys). */
void id_write_digits(struct id id, char *to);
bool id_read_digits(struct str text, struct id *ret_id);

uint64_t id_time_ms(struct id id);

/* A trace id for a request without one: 32 random lowercase hex digits, no NUL. */
enum { TRACE_TEXT = 32 };
void trace_write(struct chance *chance, char to[TRACE_TEXT]);

/* Whether `text` starts with one of our id prefixes (a trace id may not). */
bool id_has_prefix(struct str text);

#endif
