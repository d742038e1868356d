/* json.h - strict JSON in (RFC 8259), canonical JSON out (RFC 8785).
 *
 * The only door to jsmn (tokens) and to the C++ library's shortest number conversion. The reader
 * parses one whole text into a tree in the caller's arena; views point into the text or the arena,
 * so both must outlive the tree. Refused, with the byte offset: anything RFC 8259 forbids,
 * duplicate keys (compared unescaped), lone surrogates, invalid UTF-8, trailing bytes, depth over
 * the limit, numbers that cannot be represented. Pure, any thread.
 *
 * Numbers are doubles. The exception is an integer literal (no fraction, no exponent) of
 * magnitude 2^53 or more: it is kept as an int64, or uint64 beyond that, and written with the
 * same digits. Beyond 64 bits it is ERR_NUMBER_PRECISION, as is a non-finite number, unless a
 * double equals it or is written in that form. So the reader accepts every number that the
 * writer makes. */
#ifndef JSON_JSON_H
#define JSON_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

/* A number: a double, an integer of magnitude 2^53 or more, or a double that was written as an
 * integer beyond 64 bits and equals it. */
enum json_number { JSON_DOUBLE, JSON_INT64, JSON_UINT64, JSON_LONG };

/* One value, and its name if it is a member. Zeroed memory is a null. A tree built by hand fills
 * type, count, child and next, key and the value; raw and the plain flags may stay zero. */
struct json {
    enum json_type type : 8;
    enum json_number number_kind : 8;
    bool has_nul;       /* a string (or key) with U+0000 in it */
    bool plain_key : 1; /* needs no escape when written */
    bool plain_string : 1;
    bool plain_number : 1; /* raw is already the canonical form */
    uint32_t count;        /* members or elements */
    struct str key;        /* in an object: the member's name, unescaped */
    struct str raw;        /* the value's bytes in the source text, quotes included */
    union {
        struct str string; /* JSON_STRING: unescaped */
        struct {
            double number; /* JSON_NUMBER, nearest double in every kind */
            union {
                int64_t int64;   /* JSON_INT64 */
                uint64_t uint64; /* JSON_UINT64 */
            };
        };
    };
    struct json *child; /* first member or element, in source order */
    struct json *next;  /* following sibling */
};

enum { JSON_DEPTH_CAP = 64 }; /* the highest depth_max: the reader recurses */

struct json_options {
    unsigned depth_max; /* 0 = LIMIT_JSON_DEPTH; the root object is depth 1 */
    /* else U+0000 is allowed only inside members named args, context, properties, at any depth.
     * A reader of such a member in another place must check has_nul */
    bool nul_anywhere;
};

/* Reads one JSON text. On an error, *f has the text (with the byte offset) and, if one value is
 * wrong, the field (a JSON pointer). Nothing else is written. ERR_MALFORMED_JSON,
 * ERR_DUPLICATE_KEY, ERR_TOO_DEEP, ERR_NUMBER_PRECISION, ERR_BODY_TOO_LARGE (arena full). */
enum err json_read(struct str text, const struct json_options *options, struct arena *arena,
                   struct json **ret_root, struct fault *f);

/* NULL: absent or not an object */
struct json *json_get(const struct json *object, struct str key);

static inline bool json_is_string(const struct json *v)
{
    return v != NULL && v->type == JSON_STRING;
}
static inline bool json_is_object(const struct json *v)
{
    return v != NULL && v->type == JSON_OBJECT;
}
static inline bool json_is_array(const struct json *v)
{
    return v != NULL && v->type == JSON_ARRAY;
}
static inline bool json_is_number(const struct json *v)
{
    return v != NULL && v->type == JSON_NUMBER;
}
static inline bool json_is_bool(const struct json *v)
{
    return v != NULL && (v->type == JSON_TRUE || v->type == JSON_FALSE);
}

/* The member's string; absent if the member is missing or has another type. */
struct str json_text(const struct json *object, struct str key);
/* The member as an unsigned integer, or `otherwise`. */
uint64_t json_u64(const struct json *object, struct str key, uint64_t otherwise);

/* For a copy that outlives the source text, or gets another value: clears raw and the flags
 * about the value, because the writer would copy raw if it is marked as canonical. */
static inline void json_forget_text(struct json *v)
{
    v->raw = (struct str){0};
    v->plain_string = v->plain_number = false;
}

/* Turns `v` (which stays where it is in its tree) into a string; for masking. */
void json_become_string(struct json *v, struct str text);

/* ---- out ---- */

/* Appends the JCS form: keys in UTF-16 order, ECMAScript numbers, minimal escapes. Overflow
 * shows in the buf. */
void json_put_canonical(struct buf *out, const struct json *v);

/* The same for an object. Also returns where in `out` the values of some of its own members are,
 * so that they need not be written again. A view is valid until the buf moves. Absent: no such
 * member. */
struct json_part {
    const struct json *value; /* in; NULL = none */
    struct str text;          /* out */
};
void json_put_canonical_parts(struct buf *out, const struct json *object, struct json_part *parts,
                              size_t count);

/* The greatest length of the JCS form of a parsed text: six times its source. The worst cases
 * are "1e20," with its 21 digits and a one-digit value that became "[masked]". */
static inline size_t json_canonical_most(const struct json *v) { return v->raw.size * 6 + 64; }
/* "text" with JCS escapes; `text` is well-formed UTF-8. */
void json_put_string(struct buf *out, struct str text);
/* The same for text that needs no escape (ids, hashes, times). */
void json_put_plain(struct buf *out, struct str text);
/* The same after `name`, which is written unchanged (usually a comma, the quoted name and a
 * colon): a whole member with one check of the room. */
void json_put_string_member(struct buf *out, struct str name, struct str text);
void json_put_plain_member(struct buf *out, struct str name, struct str text);
void json_put_number_member(struct buf *out, struct str name, double number);
/* ECMAScript Number::toString; finite only. At most 25 bytes. */
void json_put_number(struct buf *out, double number);
/* The same as a view, valid until this thread's next call of one of these. */
struct str json_number_text(double number);

/* Sets `v` to that integer, in the reader's form: a double below 2^53, else its digits. False:
 * it does not fit into 64 bits, and nothing is changed. */
bool json_set_integer(struct json *v, uint64_t magnitude, bool negative);

/* The nearest double of a JSON number literal; false if it is not one or is not finite. */
bool json_number_read(struct str literal, double *ret_number);

#endif
