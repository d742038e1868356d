/* str.h - views of bytes, and their comparisons.
 *
 * A `struct str` borrows: it is valid until its owner changes or its arena is reset. It is not
 * NUL-terminated and may hold any byte. The zero value is the absent string; an empty one has a
 * non-NULL pointer and length 0. Pure functions, any thread. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *bytes;
    size_t size; /* bytes */
};

#define STR(literal) ((struct str){.bytes = ("" literal), .size = sizeof(literal) - 1})
#define STR_FORMAT(s) (int)(s).size, (s).size == 0 ? "" : (s).bytes /* for "%.*s" */

static inline struct str str_of(const char *bytes, size_t size)
{
    return (struct str){.bytes = bytes, .size = size};
}

static inline struct str str_from(const char *text)
{
    return text == NULL ? (struct str){0} : str_of(text, strlen(text));
}

static inline bool str_is_absent(struct str s) { return s.bytes == NULL; }

static inline bool str_is_empty(struct str s) { return s.size == 0; }

static inline bool str_equal(struct str a, struct str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.size >= prefix.size &&
           (prefix.size == 0 || memcmp(s.bytes, prefix.bytes, prefix.size) == 0);
}

/* The part that begins at `from` (at most s.size). */
static inline struct str str_skip(struct str s, size_t from)
{
    return str_of(s.bytes + from, s.size - from);
}

/* Byte order, shorter first on a tie: <0, 0, >0. */
int str_compare(struct str a, struct str b);

/* ASCII letters compare equal in either case; other bytes exactly. */
bool str_equal_ignoring_case(struct str a, struct str b);

/* Position of the first `byte`, or s.size. */
size_t str_find(struct str s, char byte);

/* Takes the part before the first `separator` off the front of *rest (all of it if there is no
 * separator). False if *rest was absent; after the last part *rest becomes absent. */
bool str_split(struct str *rest, char separator, struct str *ret_part);

enum { U64_DIGITS = 20 };

/* `value` in decimal; a view into `room`. */
static inline struct str str_of_u64(uint64_t value, char room[U64_DIGITS])
{
    size_t at = U64_DIGITS;
    do {
        room[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return str_of(room + at, U64_DIGITS - at);
}

/* Decimal digits only, no sign, no overflow. False otherwise. */
bool str_to_u64(struct str s, uint64_t *ret_value);

/* Glob: must match the whole text; only `*` is special (any run of bytes). Linear in practice,
 * O(pattern × text) at worst. `ignore_case` folds ASCII letters. */
bool str_glob(struct str pattern, struct str text, bool ignore_case);

/* Well-formed UTF-8 (RFC 3629: no surrogates, nothing overlong, at most U+10FFFF). On false,
 * *ret_offset is the first byte that is wrong. */
bool str_is_utf8(struct str s, size_t *ret_offset);

/* The longest well-formed beginning of a text, of at most `most` bytes: a character that would
 * be split is left out. */
struct str str_cut(struct str s, size_t most);

/* Unicode code points of well-formed UTF-8. */
size_t str_code_points(struct str s);
/* Writes one code point (at most U+10FFFF) as UTF-8: 1 to 4 bytes, for which `to` has room.
 * Returns their number. */
size_t str_put_code_point(char *to, uint32_t c);

/* The number of edits between two words: a byte inserted, left out or replaced, or two
 * neighbours swapped (Damerau 1964, restricted). STR_EDITS_MAX if a word is longer than that. */
enum { STR_EDITS_MAX = 64 };
unsigned str_edits(struct str a, struct str b);

/* The value of a hexadecimal digit in either case; -1: it is not one. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Two lowercase hex digits for each byte; `to` holds 2 * size, no NUL. */
void hex_write(char *to, const uint8_t *bytes, size_t size);

/* The `size` bytes of 2 * size lowercase hex digits. False if a byte is not such a digit; then
 * the content of `bytes` is undefined. */
bool hex_read(const char *digits, uint8_t *bytes, size_t size);

/* The number of 16 lowercase hex digits. False for any other text. */
bool str_to_u64_hex(struct str s, uint64_t *ret_value);

/* Whether every byte is in [A-Za-z0-9._-]: the bytes of rule ids and policy names. */
bool str_is_name(struct str s);

/* [a-z][a-z0-9-]*, of at most `most` bytes: the name of a channel. */
bool str_is_label(struct str s, size_t most);

/* "." or "..": not allowed as a name that becomes part of a path, since clients and proxies
 * remove these from it (RFC 3986, 5.2.4). */
static inline bool str_is_dots(struct str s)
{
    return str_equal(s, STR(".")) || str_equal(s, STR(".."));
}
#define STR_NO_DOTS "must not be \".\" or \"..\", because clients remove these from a path"

#endif
