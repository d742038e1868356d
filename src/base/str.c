#include "base/str.h"

#define ONES 0x0101010101010101u

int str_compare(struct str a, struct str b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter == 0 ? 0 : memcmp(a.bytes, b.bytes, shorter);
    if (order != 0) return order;
    return a.size < b.size ? -1 : a.size > b.size;
}

static inline unsigned char lowered(char byte)
{
    return (unsigned char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
}

/* Lowers eight bytes at once: 0x20 is set in each byte below 0x80 that is between 'A' and 'Z'.
 * The top bits of two sums show which bytes are. */
static inline uint64_t lowered8(uint64_t word)
{
    uint64_t seven = word & (ONES * 0x7F);
    uint64_t letter = (seven + ONES * (0x80 - 'A')) & ~(seven + ONES * (0x7F - 'Z')) & ~word;
    return word | (letter & (ONES * 0x80)) >> 2;
}

static inline bool equal8(const char *a, const char *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x == y || lowered8(x) == lowered8(y);
}

bool str_equal_ignoring_case(struct str a, struct str b)
{
    if (a.size != b.size) return false;
    size_t i = 0;
    if (a.size >= 8) {
        for (; i < a.size - 8; i += 8)
            if (!equal8(a.bytes + i, b.bytes + i)) return false;
        return equal8(a.bytes + a.size - 8, b.bytes + b.size - 8);
    }
    for (; i < a.size; i++)
        if (lowered(a.bytes[i]) != lowered(b.bytes[i])) return false;
    return true;
}

size_t str_find(struct str s, char byte)
{
    const char *at = s.size == 0 ? NULL : memchr(s.bytes, byte, s.size);
    return at == NULL ? s.size : (size_t)(at - s.bytes);
}

bool str_split(struct str *rest, char separator, struct str *ret_part)
{
    if (str_is_absent(*rest)) return false;
    size_t at = str_find(*rest, separator);
    *ret_part = str_of(rest->bytes, at);
    *rest = at == rest->size ? (struct str){0} : str_skip(*rest, at + 1);
    return true;
}

bool str_to_u64(struct str s, uint64_t *ret_value)
{
    if (s.size == 0 || s.size > 20) return false;
    uint64_t value = 0;
    for (size_t i = 0; i < s.size; i++) {
        if (s.bytes[i] < '0' || s.bytes[i] > '9') return false;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(s.bytes[i] - '0'), &value)) return false;
    }
    *ret_value = value;
    return true;
}

bool str_glob(struct str pattern, struct str text, bool ignore_case)
{
    /* The last `*` seen and where its run began: on a mismatch only that run may grow, because
     * an earlier `*` could not match more than the later one can. */
    size_t p = 0, t = 0, star = SIZE_MAX, run = 0;
    while (t < text.size) {
        if (p < pattern.size && pattern.bytes[p] == '*') {
            star = p++;
            run = t;
            if (p == pattern.size) return true; /* the rest of the text */
        } else if (p < pattern.size &&
                   (pattern.bytes[p] == text.bytes[t] ||
                    (ignore_case && lowered(pattern.bytes[p]) == lowered(text.bytes[t])))) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++run;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.bytes[p] == '*') p++;
    return p == pattern.size;
}

/* Length of the well-formed sequence at `at` (Unicode 15, table 3-7), or 0. */
static size_t utf8_sequence(const unsigned char *at, size_t left)
{
    unsigned char lead = at[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (left < length) return 0;
    unsigned char low = 0x80, high = 0xBF;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    return length;
}

bool str_is_utf8(struct str s, size_t *ret_offset)
{
    size_t i = 0;
    while (i < s.size) {
        uint64_t eight;
        if (s.size - i >= sizeof eight) { /* Most text is ASCII: eight bytes at a time. */
            memcpy(&eight, s.bytes + i, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        size_t length = utf8_sequence((const unsigned char *)s.bytes + i, s.size - i);
        if (length == 0) {
            *ret_offset = i;
            return false;
        }
        i += length;
    }
    return true;
}

struct str str_cut(struct str s, size_t most)
{
    size_t wrong;
    if (s.size > most) s.size = most;
    if (!str_is_utf8(s, &wrong)) s.size = wrong;
    return s;
}

size_t str_code_points(struct str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.size; i++)
        if (((unsigned char)s.bytes[i] & 0xC0) != 0x80) count++;
    return count;
}

unsigned str_edits(struct str a, struct str b)
{
    uint8_t table[STR_EDITS_MAX + 1][STR_EDITS_MAX + 1];
    if (a.size > STR_EDITS_MAX || b.size > STR_EDITS_MAX) return STR_EDITS_MAX;
    for (size_t i = 0; i <= a.size; i++) table[i][0] = (uint8_t)i;
    for (size_t j = 0; j <= b.size; j++) table[0][j] = (uint8_t)j;
    for (size_t i = 1; i <= a.size; i++) {
        for (size_t j = 1; j <= b.size; j++) {
            unsigned best = table[i - 1][j - 1] + (a.bytes[i - 1] == b.bytes[j - 1] ? 0u : 1u);
            if (table[i - 1][j] + 1u < best) best = table[i - 1][j] + 1u;
            if (table[i][j - 1] + 1u < best) best = table[i][j - 1] + 1u;
            bool swapped = i > 1 && j > 1 && a.bytes[i - 1] == b.bytes[j - 2] &&
                           a.bytes[i - 2] == b.bytes[j - 1];
            if (swapped && table[i - 2][j - 2] + 1u < best) best = table[i - 2][j - 2] + 1u;
            table[i][j] = (uint8_t)best;
        }
    }
    return table[a.size][b.size];
}

bool str_is_name(struct str s)
{
    if (s.size == 0) return false;
    for (size_t i = 0; i < s.size; i++) {
        char c = s.bytes[i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));

static inline bytes16 hex_digits(bytes16 halves)
{
    bytes16 is_letter = (bytes16)(halves > 9); /* all ones */
    return halves + '0' + (is_letter & ('a' - '0' - 10));
}

/* Every decision writes ids and three hashes in this form: sixteen bytes at once, and the rest
 * one by one. */
void hex_write(char *to, const uint8_t *bytes, size_t size)
{
    for (; size >= 16; to += 32, bytes += 16, size -= 16) {
        bytes16 whole;
        memcpy(&whole, bytes, sizeof whole);
        bytes16 high = hex_digits(whole >> 4), low = hex_digits(whole & 15);
        bytes16 first = __builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                6, 22, 7, 23),
                second = __builtin_shufflevector(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                 13, 29, 14, 30, 15, 31);
        memcpy(to, &first, sizeof first);
        memcpy(to + 16, &second, sizeof second);
    }
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
}

/* One more than the value of a lowercase hex digit; 0: it is not one. */
static const uint8_t hex_values[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};

bool hex_read(const char *digits, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned high = hex_values[(unsigned char)digits[2 * i]],
                 low = hex_values[(unsigned char)digits[2 * i + 1]];
        if (high == 0 || low == 0) return false;
        bytes[i] = (uint8_t)((high - 1) << 4 | (low - 1));
    }
    return true;
}

bool str_to_u64_hex(struct str s, uint64_t *ret_value)
{
    uint8_t bytes[sizeof *ret_value];
    if (s.size != 2 * sizeof bytes || !hex_read(s.bytes, bytes, sizeof bytes)) return false;
    *ret_value = 0;
    for (size_t i = 0; i < sizeof bytes; i++) *ret_value = *ret_value << 8 | bytes[i];
    return true;
}

size_t str_put_code_point(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3F));
        to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3F));
    to[2] = (char)(0x80 | (c >> 6 & 0x3F));
    to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

bool str_is_label(struct str s, size_t most)
{
    if (s.size == 0 || s.size > most) return false;
    for (size_t i = 0; i < s.size; i++) {
        char c = s.bytes[i];
        bool letter = c >= 'a' && c <= 'z';
        if (!letter && (i == 0 || (c != '-' && !(c >= '0' && c <= '9')))) return false;
    }
    return true;
}
