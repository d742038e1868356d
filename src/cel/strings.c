/* strings.c - the functions of strings, standard and extension. Positions are code points; texts
 * are well-formed UTF-8, so a code point begins at each byte except 10xxxxxx. */
#include "cel/functions.h"
#include "cel/regex.h"

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }
static struct cel_value no_memory(void) { return cel_fail(CEL_FAULT_MEMORY, NULL); }

static bool both_strings(const struct cel_value *a)
{
    return a[0].kind == CEL_STRING && a[1].kind == CEL_STRING;
}

static bool begins_point(char byte) { return ((unsigned char)byte & 0xC0) != 0x80; }

/* The byte where code point `point` begins; the size for one past the last; SIZE_MAX beyond. */
static size_t byte_of_point(struct str s, int64_t point)
{
    int64_t seen = 0;
    for (size_t i = 0; i < s.size; i++)
        if (begins_point(s.bytes[i]) && seen++ == point) return i;
    return point == seen ? s.size : SIZE_MAX;
}

static size_t next_point(struct str s, size_t at)
{
    do at++;
    while (at < s.size && !begins_point(s.bytes[at]));
    return at;
}

static int64_t points_before(struct str s, size_t byte)
{
    return (int64_t)str_code_points(str_of(s.bytes, byte));
}

static struct cel_value bad_index(struct cel_meter *m, int64_t index)
{
    char text[32];
    struct buf out = buf_over(text, sizeof text);
    cel_put_value(&out, cel_int(index));
    return cel_fail_text(m, CEL_FAULT_INDEX, buf_view(&out));
}

static struct cel_value slice(struct cel_value s, size_t from, size_t to)
{
    return cel_string(s.bytes + from, to - from);
}

/* memmem() preprocesses the pattern, which costs more for each byte. */
static bool pay_search(struct cel_meter *m, size_t text_bytes, size_t pattern_bytes)
{
    return cel_pay_slow_bytes(m, text_bytes, 6) && cel_pay_slow_bytes(m, pattern_bytes, 2);
}

/* ---- tests ---- */

struct cel_value string_contains(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (!both_strings(a)) return cel_no_overload();
    if (!pay_search(m, a[0].size, a[1].size)) return spent();
    return cel_bool(a[1].size == 0 || memmem(a[0].bytes, a[0].size, a[1].bytes, a[1].size) != NULL);
}

struct cel_value string_starts_with(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (!both_strings(a)) return cel_no_overload();
    return cel_bool(a[0].size >= a[1].size && cel_bytes_same(a[0].bytes, a[1].bytes, a[1].size));
}

struct cel_value string_ends_with(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (!both_strings(a)) return cel_no_overload();
    if (a[0].size < a[1].size) return cel_bool(false);
    return cel_bool(cel_bytes_same(a[0].bytes + (a[0].size - a[1].size), a[1].bytes, a[1].size));
}

/* The worst cost of a search, measured with adversarial texts. The automaton of a few instructions
 * stays small, and a byte is one step. The automaton of a larger pattern may need more states than
 * its cache holds; then every byte costs all instructions, two to a unit. Medium patterns, of
 * which few are of that kind, pay half. */
static uint64_t automaton_cost(size_t bytes, uint64_t instructions)
{
    enum { MIDDLING = 40, INSTRUCTIONS_MOST = 1 << 20 };
    if (instructions > INSTRUCTIONS_MOST) instructions = INSTRUCTIONS_MOST;
    return 1 + bytes * instructions / (instructions <= MIDDLING ? 4 : 2);
}

static uint64_t search_cost(const struct cel_regex *regex, size_t bytes)
{
    enum { ALWAYS_SMALL = 15 };
    uint64_t instructions = cel_regex_size(regex);
    return instructions <= ALWAYS_SMALL ? 1 + bytes / 8 : automaton_cost(bytes, instructions);
}

/* A computed pattern is compiled for this one match and pays for it: for parsing before, for the
 * instructions afterwards. Its automaton is also new, and is paid for even if it is small. */
static struct cel_value match_computed(struct cel_meter *m, const struct cel_value *a)
{
    enum { ANY = 2000, OF_BYTE = 50, OF_CLASS = 5000, OF_INSTRUCTION = 20 };
    char why[REGEX_ERROR_TEXT];
    size_t classes = cel_regex_classes(a[1].bytes, a[1].size), instructions;
    if (!cel_pay(m, ANY + OF_BYTE * (uint64_t)a[1].size + OF_CLASS * (uint64_t)classes))
        return spent();
    struct cel_regex *regex =
        cel_regex_create(a[1].bytes, a[1].size, REGEX_COMPUTED_MEMORY_BYTES, &instructions, why);
    bool paid = cel_pay(m, OF_INSTRUCTION * (uint64_t)instructions);
    if (regex == NULL && why[0] == '\0') return no_memory();
    if (regex == NULL) return paid ? cel_fail_text(m, CEL_FAULT_ARGUMENT, str_from(why)) : spent();
    struct cel_value result = spent();
    bool found;
    if (paid && cel_pay(m, automaton_cost(a[0].size, instructions)))
        result = cel_regex_search_once(regex, a[0].bytes, a[0].size, &found) ? cel_bool(found)
                                                                             : no_memory();
    cel_regex_destroy(regex);
    return result;
}

struct cel_value string_matches(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (a[1].kind == CEL_STRING) return match_computed(m, a);
    if (a[1].kind != CEL_REGEX) return cel_no_overload();
    if (!cel_pay(m, search_cost(a[1].regex, a[0].size))) return spent();
    return cel_bool(cel_regex_search(a[1].regex, a[0].bytes, a[0].size, NULL, NULL));
}

/* ---- positions ---- */

struct cel_value string_char_at(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_INT) return cel_no_overload();
    if (!cel_pay_bytes(m, a[0].size)) return spent();
    size_t at = a[1].integer < 0 ? SIZE_MAX : byte_of_point(cel_text(a[0]), a[1].integer);
    if (at == SIZE_MAX) return bad_index(m, a[1].integer);
    return at == a[0].size ? cel_string("", 0) : slice(a[0], at, next_point(cel_text(a[0]), at));
}

/* Where the search of indexOf and lastIndexOf begins; SIZE_MAX: nowhere. */
static size_t search_start(const struct cel_value *a)
{
    return a[2].integer < 0 ? SIZE_MAX : byte_of_point(cel_text(a[0]), a[2].integer);
}

struct cel_value string_index_of(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (!both_strings(a) || (count > 2 && a[2].kind != CEL_INT)) return cel_no_overload();
    if (!pay_search(m, a[0].size, a[1].size)) return spent();
    size_t from = count > 2 ? search_start(a) : 0;
    if (from == SIZE_MAX) return bad_index(m, a[2].integer);
    struct str text = cel_text(a[0]);
    if (a[1].size == 0) return cel_int(points_before(text, from));
    const char *found = memmem(text.bytes + from, text.size - from, a[1].bytes, a[1].size);
    return cel_int(found == NULL ? -1 : points_before(text, (size_t)(found - text.bytes)));
}

struct cel_value string_last_index_of(struct cel_meter *m, const struct cel_value *a,
                                      uint32_t count)
{
    if (!both_strings(a) || (count > 2 && a[2].kind != CEL_INT)) return cel_no_overload();
    if (!cel_pay(m, 1 + (uint64_t)a[0].size * (1 + a[1].size / 16) / 4)) return spent();
    struct str text = cel_text(a[0]), wanted = cel_text(a[1]);
    size_t from = count > 2 ? search_start(a) : text.size;
    if (from == SIZE_MAX) return bad_index(m, a[2].integer);
    /* The end is a position, but no character begins there; a search without a position begins
     * before it. */
    bool is_at_end = count > 2 && from == text.size && wanted.size > 0;
    if (is_at_end || wanted.size > text.size) return cel_int(-1);
    if (from > text.size - wanted.size) from = text.size - wanted.size;
    for (size_t at = from + 1; at-- > 0;)
        if (memcmp(text.bytes + at, wanted.bytes, wanted.size) == 0)
            return cel_int(points_before(text, at));
    return cel_int(-1);
}

struct cel_value string_substring(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_INT || (count > 2 && a[2].kind != CEL_INT))
        return cel_no_overload();
    if (!cel_pay_slow_bytes(m, a[0].size, 6)) return spent(); /* it may be walked twice */
    size_t from = a[1].integer < 0 ? SIZE_MAX : byte_of_point(cel_text(a[0]), a[1].integer),
           to = a[0].size;
    if (from == SIZE_MAX) return bad_index(m, a[1].integer);
    if (count > 2) {
        to = a[2].integer < 0 ? SIZE_MAX : byte_of_point(cel_text(a[0]), a[2].integer);
        if (to == SIZE_MAX || to < from) return bad_index(m, a[2].integer);
    }
    return slice(a[0], from, to);
}

/* ---- new strings ---- */

/* Copies the string with each ASCII byte in [from, from + 25] moved by `by`. */
static struct cel_value shift_case(struct cel_meter *m, const struct cel_value *a, char from,
                                   int by)
{
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay_bytes(m, a[0].size)) return spent();
    char *bytes = cel_take(m, a[0].size + 1u);
    if (bytes == NULL) return no_memory();
    for (uint32_t i = 0; i < a[0].size; i++) {
        char c = a[0].bytes[i];
        bytes[i] = c >= from && c <= from + 25 ? (char)(c + by) : c;
    }
    return cel_string(bytes, a[0].size);
}

struct cel_value string_lower_ascii(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    return shift_case(m, a, 'A', 'a' - 'A');
}

struct cel_value string_upper_ascii(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    return shift_case(m, a, 'a', 'A' - 'a');
}

struct cel_value string_reverse(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay_slow_bytes(m, a[0].size, 4)) return spent();
    char *bytes = cel_take(m, a[0].size + 1u);
    if (bytes == NULL) return no_memory();
    struct str text = cel_text(a[0]);
    for (size_t at = 0; at < text.size;) {
        size_t next = next_point(text, at);
        memcpy(bytes + (text.size - next), text.bytes + at, next - at);
        at = next;
    }
    return cel_string(bytes, text.size);
}

/* The parts of a text between separators, one after another; an empty separator splits at every
 * code point. */
struct parts {
    struct str text, separator;
    size_t at;
    bool done;
};

static bool next_part(struct parts *p, bool is_last, struct str *ret)
{
    if (p->done) return false;
    const char *found = NULL;
    size_t from = p->at;
    if (!is_last && p->separator.size > 0)
        found = memmem(p->text.bytes + from, p->text.size - from, p->separator.bytes,
                       p->separator.size);
    if (!is_last && p->separator.size == 0 && from < p->text.size &&
        next_point(p->text, from) < p->text.size)
        found = p->text.bytes + next_point(p->text, from);
    size_t to = found == NULL ? p->text.size : (size_t)(found - p->text.bytes);
    *ret = str_of(p->text.bytes + from, to - from);
    p->at = to + p->separator.size;
    p->done = found == NULL;
    return true;
}

/* Counts the separators, up to `most`. Pays for each search twice, because it is repeated later. */
static bool count_parts(struct cel_meter *m, struct parts p, size_t most, size_t *ret)
{
    struct str part;
    for (*ret = 0;; ++*ret) {
        if (!cel_pay(m, 1 + p.separator.size)) return false;
        if (*ret == most || !next_part(&p, *ret + 1 == most, &part)) return true;
    }
}

struct cel_value string_split(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (!both_strings(a) || (count > 2 && a[2].kind != CEL_INT)) return cel_no_overload();
    if (!cel_pay_slow_bytes(m, 2 * (size_t)a[0].size, 6)) return spent();
    size_t most = count < 3 || a[2].integer < 0 ? SIZE_MAX : (size_t)a[2].integer, at = 0;
    struct parts parts = {.text = cel_text(a[0]), .separator = cel_text(a[1])};
    if (most == 0 || (a[0].size == 0 && a[1].size == 0)) return cel_list(NULL, 0);
    size_t found;
    if (!count_parts(m, parts, most, &found)) return spent();
    struct cel_value *items = cel_take_values(m, found);
    if (items == NULL) return no_memory();
    struct str part;
    while (at < found && next_part(&parts, at + 1 == most, &part))
        items[at++] = cel_string(part.bytes, part.size);
    return cel_list(items, found);
}

/* With an empty pattern the replacement goes before every code point and after the last. The
 * counting pass (`to` is NULL) pays for each search twice, because it is repeated; SIZE_MAX: the
 * cost limit is reached. */
static size_t replaced(struct cel_meter *m, const struct cel_value *a, size_t most, char *to)
{
    struct str text = cel_text(a[0]), old = cel_text(a[1]), new = cel_text(a[2]);
    size_t at = 0, size = 0, done = 0;
    while (done < most && at <= text.size) {
        if (to == NULL && !cel_pay(m, 1 + old.size)) return SIZE_MAX;
        const char *found = old.size == 0
                                ? text.bytes + at
                                : memmem(text.bytes + at, text.size - at, old.bytes, old.size);
        if (found == NULL) break;
        size_t before = (size_t)(found - text.bytes) - at;
        if (to != NULL) memcpy(to + size, text.bytes + at, before);
        if (to != NULL) memcpy(to + size + before, new.bytes, new.size);
        size += before + new.size;
        at += before + old.size;
        done++;
        if (old.size > 0) continue;
        if (at == text.size) return size;
        size_t next = next_point(text, at);
        if (to != NULL) memcpy(to + size, text.bytes + at, next - at);
        size += next - at;
        at = next;
    }
    if (to != NULL) memcpy(to + size, text.bytes + at, text.size - at);
    return size + text.size - at;
}

struct cel_value string_replace(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (!both_strings(a) || a[2].kind != CEL_STRING || (count > 3 && a[3].kind != CEL_INT))
        return cel_no_overload();
    if (!cel_pay_slow_bytes(m, 2 * (size_t)a[0].size, 6)) return spent();
    size_t most = count < 4 || a[3].integer < 0 ? SIZE_MAX : (size_t)a[3].integer;
    size_t size = replaced(m, a, most, NULL);
    if (size == SIZE_MAX || !cel_pay_bytes(m, size)) return spent();
    char *bytes = size > UINT32_MAX ? NULL : cel_take(m, size + 1);
    if (bytes == NULL) return no_memory();
    replaced(m, a, most, bytes);
    return cel_string(bytes, size);
}

struct cel_value string_join(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (a[0].kind != CEL_LIST || (count > 1 && a[1].kind != CEL_STRING)) return cel_no_overload();
    struct str separator = count > 1 ? cel_text(a[1]) : STR("");
    struct cel_walk walk = cel_walk_start(a[0]);
    struct cel_value key, item;
    size_t size = 0, at = 0;
    if (!cel_pay(m, 1 + 2 * (uint64_t)a[0].size)) return spent();
    for (; cel_walk_next(&walk, &key, &item);
         size += item.size + (walk.at > 1 ? separator.size : 0))
        if (item.kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay(m, size / 16)) return spent();
    char *bytes = size > UINT32_MAX ? NULL : cel_take(m, size + 1);
    if (bytes == NULL) return no_memory();
    for (walk = cel_walk_start(a[0]); cel_walk_next(&walk, &key, &item);) {
        if (walk.at > 1) {
            memcpy(bytes + at, separator.bytes, separator.size);
            at += separator.size;
        }
        memcpy(bytes + at, item.bytes, item.size);
        at += item.size;
    }
    return cel_string(bytes, size);
}

/* ---- trim and quote ---- */

static uint32_t code_point(struct str s, size_t at, size_t next)
{
    unsigned char first = (unsigned char)s.bytes[at];
    uint32_t c = next - at == 1   ? first
                 : next - at == 2 ? first & 0x1Fu
                 : next - at == 3 ? first & 0x0Fu
                                  : first & 0x07u;
    for (size_t i = at + 1; i < next; i++) c = c << 6 | ((unsigned char)s.bytes[i] & 0x3Fu);
    return c;
}

/* Unicode's White_Space. */
static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

struct cel_value string_trim(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay_slow_bytes(m, a[0].size, 3)) return spent();
    struct str text = cel_text(a[0]);
    size_t from = 0, to = text.size;
    while (from < text.size && is_space(code_point(text, from, next_point(text, from))))
        from = next_point(text, from);
    while (to > from) {
        size_t last = to;
        do last--;
        while (!begins_point(text.bytes[last]));
        if (!is_space(code_point(text, last, to))) break;
        to = last;
    }
    return slice(a[0], from, to);
}

struct cel_value string_quote(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    static const char plain[] = "\a\b\f\n\r\t\v\\\"", letters[] = "abfnrtv\\\"";
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay_slow_bytes(m, a[0].size, 4)) return spent();
    char *bytes = cel_take(m, 2 * (size_t)a[0].size + 2);
    if (bytes == NULL) return no_memory();
    size_t size = 0;
    bytes[size++] = '"';
    for (uint32_t i = 0; i < a[0].size; i++) {
        char c = a[0].bytes[i];
        const char *escape = c == '\0' ? NULL : strchr(plain, c);
        if (escape != NULL) bytes[size++] = '\\';
        bytes[size++] = escape != NULL ? letters[escape - plain] : c;
    }
    bytes[size++] = '"';
    return cel_string(bytes, size);
}
