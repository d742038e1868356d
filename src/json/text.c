/* text.c - strings: scan, unescape, escape.
 *
 *   string = quote *char quote
 *   char   = %x20-21 / %x23-5B / %x5D-10FFFF / "\" ( quote "\" "/" b f n r t / u 4HEXDIG )
 *
 * Reading refuses control bytes, unknown escapes, lone surrogates and ill-formed UTF-8, and
 * reports the byte. Writing escapes only the characters of RFC 8785 section 3.2.2.2: the two
 * short forms of quote and backslash, b f n r t, and \u00xx in lowercase for other controls. */
#include "json/text.h"

#include "json/members.h"

#define ONES 0x0101010101010101u
#define HIGHS 0x8080808080808080u

static inline uint64_t load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Nonzero if a byte of the word is below 0x20, a quote or a backslash. A byte of 0x80 or more
 * may not hide another: word` clears what a high byte itself would set~each term tests its own
 * byte, borrows only set bits above a true hit, and `& ~word` clears the bit that a high byte
 * itself would set ~word` clears what a high byte itself would set. */
static inline uint64_t has_special(uint64_t word)
{
    uint64_t control = word - ONES * 0x20;
    uint64_t quote = (word ^ (ONES * '"')) - ONES;
    uint64_t backslash = (word ^ (ONES * '\\')) - ONES;
    return (control | quote | backslash) & ~word & HIGHS;
}

static inline bool is_special(unsigned char c) { return c < 0x20 || c == '"' || c == '\\'; }

/* Whether the last eight bytes, or all if there are fewer, have no special byte: one word, part
 * of which may have been tested before, instead of up to seven bytes. */
static inline bool is_plain_end(struct str s)
{
    uint32_t first, last;
    if (s.size >= 8) return has_special(load8(s.bytes + s.size - 8)) == 0;
    if (s.size < 4) return false; /* unknown */
    memcpy(&first, s.bytes, sizeof first);
    memcpy(&last, s.bytes + s.size - sizeof last, sizeof last);
    return has_special((uint64_t)first << 32 | last) == 0;
}

/* Offset of the first byte that JCS escapes (quote, backslash, control), or s.size. */
static size_t plain_run(struct str s)
{
    size_t i = 0;
    while (s.size - i >= 8 && has_special(load8(s.bytes + i)) == 0) i += 8;
    if (s.size - i < 8 && is_plain_end(s)) return s.size;
    while (i < s.size && !is_special((unsigned char)s.bytes[i])) i++;
    return i;
}

/* Sixteen bytes at once; a comparison gives all ones for true. */
typedef signed char bytes16 __attribute__((vector_size(16)));

static inline bytes16 load16(const char *p)
{
    bytes16 bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

static inline bool is_any(bytes16 found)
{
    uint64_t halves[2];
    memcpy(halves, &found, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}

/* Backslashes, and bytes that are below a blank as signed bytes: controls and bytes beyond
 * ASCII. */
static inline bytes16 strange_of(bytes16 bytes) { return (bytes < ' ') | (bytes == '\\'); }

static inline bytes16 look_and_copy16(char *to, const char *from)
{
    bytes16 bytes = load16(from);
    if (to != NULL) memcpy(to, &bytes, sizeof bytes);
    return strange_of(bytes);
}

/* Copies if `to` is not NULL; inlined, so that this is not checked for each run of bytes. */
static inline bool look_and_copy(char *to, struct str s)
{
    bytes16 strange = {0};
    if (s.size >= 16) { /* the last run overlaps the one before */
        size_t last = s.size - 16;
        for (size_t i = 0; i < last; i += 16)
            strange |= look_and_copy16(to == NULL ? NULL : to + i, s.bytes + i);
        strange |= look_and_copy16(to == NULL ? NULL : to + last, s.bytes + last);
        return !is_any(strange);
    }
    bool plain = true;
    for (size_t i = 0; i < s.size; i++) {
        signed char c = (signed char)s.bytes[i];
        if (to != NULL) to[i] = (char)c;
        plain = plain && c >= ' ' && c != '\\';
    }
    return plain;
}

bool text_is_plain(struct str s) { return look_and_copy(NULL, s); }

bool text_copy(char *to, struct str s) { return look_and_copy(to, s); }

/* ---- in ---- */

/* Four hex digits at `at`; -1 if there are not four. */
static int32_t hex4(struct str s, size_t at)
{
    if (s.size - at < 4) return -1;
    int32_t value = 0;
    for (size_t i = at; i < at + 4; i++) {
        int digit = hex_value(s.bytes[i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* A \u escape whose digits begin at *at (a pair of escapes beyond U+FFFF); moves *at past it.
 * NULL, or the error. */
static const char *read_unicode(struct str s, size_t *at, uint32_t *ret)
{
    int32_t first = hex4(s, *at);
    if (first < 0) return "has a \\u escape without four hex digits";
    if (first >= 0xDC00 && first <= 0xDFFF)
        return "has a low surrogate without a high one before it";
    *ret = (uint32_t)first;
    *at += 4;
    if (first < 0xD800 || first > 0xDBFF) return NULL;
    int32_t second = -1;
    if (s.size - *at >= 6 && s.bytes[*at] == '\\' && s.bytes[*at + 1] == 'u')
        second = hex4(s, *at + 2);
    if (second < 0xDC00 || second > 0xDFFF)
        return "has a high surrogate without a low one after it";
    *ret = 0x10000 + (((uint32_t)first - 0xD800) << 10) + ((uint32_t)second - 0xDC00);
    *at += 6;
    return NULL;
}

/* The character after a backslash at *at; moves *at past it. NULL, or the error. */
static const char *read_escape(struct str s, size_t *at, uint32_t *ret)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (*at == s.size) return "ends within an escape";
    char name = s.bytes[(*at)++];
    if (name == 'u') return read_unicode(s, at, ret);
    const char *found = memchr(names, name, sizeof names - 1);
    if (found == NULL) return "has an unknown escape";
    *ret = (unsigned char)values[found - names];
    return NULL;
}

/* The general case; `to` holds inside.size bytes, since no escape is shorter than its character. */
static bool unescape(struct str inside, char *to, size_t *ret_size, bool *ret_nul,
                     struct text_fault *f)
{
    size_t at = 0, size = 0;
    while (at < inside.size) {
        size_t run = plain_run(str_skip(inside, at));
        memcpy(to + size, inside.bytes + at, run);
        size += run;
        at += run;
        if (at == inside.size) break;
        f->at = at;
        if (inside.bytes[at] != '\\') {
            f->problem = inside.bytes[at] == '"' ? "has a quote"
                                                 : "has a control character that is not escaped";
            return false;
        }
        uint32_t character = 0;
        at++;
        f->problem = read_escape(inside, &at, &character);
        if (f->problem != NULL) return false;
        if (character == 0) *ret_nul = true;
        size += str_put_code_point(to + size, character);
    }
    *ret_size = size;
    return true;
}

enum err text_read(struct str inside, struct arena *arena, struct str *ret, bool *ret_nul,
                   struct text_fault *ret_fault)
{
    size_t ill_formed;
    *ret_nul = false;
    bool utf8 = str_is_utf8(inside, &ill_formed);
    struct str checked = utf8 ? inside : str_of(inside.bytes, ill_formed);
    *ret = inside;
    if (plain_run(checked) < checked.size) {
        char *to = arena_bytes(arena, checked.size);
        if (to == NULL) return ERR_BODY_TOO_LARGE;
        size_t size;
        if (!unescape(checked, to, &size, ret_nul, ret_fault)) return ERR_MALFORMED_JSON;
        arena_trim(arena, to, checked.size, size);
        *ret = str_of(to, size);
    }
    if (utf8) return ERR_OK;
    *ret_fault = (struct text_fault){.problem = "has bytes that are not UTF-8", .at = ill_formed};
    return ERR_MALFORMED_JSON;
}

/* ---- out ---- */

static void put_escaped(struct buf *out, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    static const char names[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', [31] = 0};
    char text[6] = {'\\', 'u', '0', '0', digits[c >> 4 & 15], digits[c & 15]};
    size_t size = 6;
    if (c == '"' || c == '\\' || (c < 0x20 && names[c] != 0)) {
        text[1] = c < 0x20 ? names[c] : (char)c;
        size = 2;
    }
    buf_put(out, str_of(text, size));
}

void json_put_plain(struct buf *out, struct str text) { json_put_plain_member(out, STR(""), text); }

void json_put_plain_member(struct buf *out, struct str name, struct str text)
{
    if (!buf_room(out, name.size + text.size + 2)) return;
    char *to = buf_copy(out->bytes + out->size, name.bytes, name.size);
    *to++ = '"';
    to = buf_copy(to, text.bytes, text.size);
    *to = '"';
    out->size += name.size + text.size + 2;
}

/* Bytes that JCS escapes: quotes, backslashes and controls. */
static inline bytes16 special_of(bytes16 bytes)
{
    /* compares signed bytes in the order of unsigned ones */
    bytes16 high = bytes ^ (signed char)0x80;
    return (high < (signed char)(0x20 ^ 0x80)) | (bytes == '"') | (bytes == '\\');
}

static inline bytes16 copy_and_look16(char *to, const char *from)
{
    bytes16 bytes = load16(from);
    memcpy(to, &bytes, sizeof bytes);
    return special_of(bytes);
}

/* Copies like buf_copy(); NULL if a byte must be escaped. */
static inline char *copy_unless_special(char *to, const char *from, size_t size)
{
    if (size >= 16) {
        size_t last = size - 16;
        bytes16 special = copy_and_look16(to + last, from + last);
        for (size_t i = 0; i < last; i += 16) special |= copy_and_look16(to + i, from + i);
        return is_any(special) ? NULL : to + size;
    }
    uint64_t special = 0;
    if (size >= 8) {
        uint64_t first = load8(from), last = load8(from + size - 8);
        memcpy(to, &first, sizeof first);
        memcpy(to + size - 8, &last, sizeof last);
        special = has_special(first) | has_special(last);
    } else if (size >= 4) {
        uint32_t first, last;
        memcpy(&first, from, sizeof first);
        memcpy(&last, from + size - 4, sizeof last);
        memcpy(to, &first, sizeof first);
        memcpy(to + size - 4, &last, sizeof last);
        special = has_special((uint64_t)first << 32 | last);
    } else {
        for (size_t i = 0; i < size; i++) {
            to[i] = from[i];
            special |= is_special((unsigned char)from[i]);
        }
    }
    return special != 0 ? NULL : to + size;
}

/* The text with its escapes and the closing quote. */
static void put_inside(struct buf *out, struct str text)
{
    for (;;) {
        size_t run = plain_run(text);
        buf_put(out, str_of(text.bytes, run));
        text = str_skip(text, run);
        if (text.size == 0) break;
        put_escaped(out, (unsigned char)text.bytes[0]);
        text = str_skip(text, 1);
    }
    buf_put_byte(out, '"');
}

void json_put_string_member(struct buf *out, struct str name, struct str text)
{
    if (!buf_room(out, name.size + text.size + 2)) return;
    char *to = buf_copy(out->bytes + out->size, name.bytes, name.size);
    *to++ = '"';
    to = copy_unless_special(to, text.bytes, text.size);
    if (to != NULL) {
        *to = '"';
        out->size += name.size + text.size + 2;
        return;
    }
    out->size += name.size + 1;
    put_inside(out, text);
}

void json_put_string(struct buf *out, struct str text)
{
    json_put_string_member(out, STR(""), text);
}

/* ---- many members ---- */

static struct members_place place_of(struct buf *out)
{
    return (struct members_place){out->bytes + out->size,
                                  out->bytes + (out->overflow ? out->size : out->capacity)};
}

struct members_place members_grow(struct buf *out, char *to, size_t more)
{
    if (to != NULL) out->size = (size_t)(to - out->bytes);
    return buf_room(out, more) ? place_of(out) : (struct members_place){to, to};
}

__attribute__((noinline)) char *members_copy_plain(char *to, const char *text, size_t size)
{
    to = buf_copy(to, text, size);
    *to = '"';
    return to + 1;
}

__attribute__((noinline)) char *members_copy_text(char *to, const char *text, size_t size)
{
    to = copy_unless_special(to, text, size);
    if (to == NULL) return NULL;
    *to = '"';
    return to + 1;
}

struct members_place members_put_escaped(struct buf *out, char *to, struct str quoted_name,
                                         struct str text)
{
    out->size = (size_t)(to - out->bytes);
    buf_put(out, quoted_name);
    put_inside(out, text);
    return place_of(out);
}
