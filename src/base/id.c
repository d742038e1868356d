#include "base/id.h"

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* One more than a digit's value; 0: it is none. */
static const uint8_t values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    ['G'] = 17, ['H'] = 18, ['J'] = 19, ['K'] = 20, ['M'] = 21, ['N'] = 22, ['P'] = 23, ['Q'] = 24,
    ['R'] = 25, ['S'] = 26, ['T'] = 27, ['V'] = 28, ['W'] = 29, ['X'] = 30, ['Y'] = 31, ['Z'] = 32};

struct id id_make(uint64_t now_ms, struct chance *chance)
{
    struct id id;
    for (int i = 0; i < 6; i++) id.bytes[i] = (uint8_t)(now_ms >> (40 - 8 * i));
    chance_take(chance, id.bytes + 6, ID_BYTES - 6);
    return id;
}

static uint64_t big_endian(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | bytes[i];
    return value;
}

void id_write_digits(struct id id, char *to)
{
    /* 26 digits hold 130 bits; the two spare ones lead and are zero. From the right: twelve digits
     * of the lower half, one across both halves, thirteen of the upper. */
    uint64_t high = big_endian(id.bytes), low = big_endian(id.bytes + 8);
    for (int i = ID_DIGITS - 1; i > 13; i--, low >>= 5) to[i] = digits[low & 31];
    to[13] = digits[(high & 1) << 4 | low];
    high >>= 1;
    for (int i = 12; i >= 0; i--, high >>= 5) to[i] = digits[high & 31];
}

void id_write(const char prefix[4], struct id id, char *to)
{
    memcpy(to, prefix, 4);
    id_write_digits(id, to + 4);
}

bool id_read_digits(struct str text, struct id *ret_id)
{
    if (text.size != ID_DIGITS || text.bytes[0] > '7') return false;
    unsigned __int128 value = 0;
    for (size_t i = 0; i < ID_DIGITS; i++) {
        unsigned digit = values[(unsigned char)text.bytes[i]];
        if (digit == 0) return false;
        value = value << 5 | (digit - 1);
    }
    for (int i = ID_BYTES - 1; i >= 0; i--) {
        ret_id->bytes[i] = (uint8_t)value;
        value >>= 8;
    }
    return true;
}

bool id_read(const char prefix[4], struct str text, struct id *ret_id)
{
    return text.size == ID_TEXT && memcmp(text.bytes, prefix, 4) == 0 &&
           id_read_digits(str_skip(text, 4), ret_id);
}

uint64_t id_time_ms(struct id id)
{
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++) ms = ms << 8 | id.bytes[i];
    return ms;
}

void trace_write(struct chance *chance, char to[TRACE_TEXT])
{
    uint8_t random[TRACE_TEXT / 2];
    chance_take(chance, random, sizeof random);
    hex_write(to, random, sizeof random);
}

bool id_has_prefix(struct str text)
{
    static const char *const prefixes[] = {"req_", "rev_", "tok_", "evt_", "key_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (str_starts(text, str_of(prefixes[i], 4))) return true;
    return false;
}
