#include "base/id.h"

/* One more than a digit's value; 0: it is not a digit. */
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
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return __builtin_bswap64(value); /* for little-endian machines */
}

/* All pairs of digits: one load and one store for ten bits. */
#define PAIRS(first)                                                                               \
    first "0" first "1" first "2" first "3" first "4" first "5" first "6" first "7" first          \
          "8" first "9" first "A" first "B" first "C" first "D" first "E" first "F" first          \
          "G" first "H" first "J" first "K" first "M" first "N" first "P" first "Q" first          \
          "R" first "S" first "T" first "V" first "W" first "X" first "Y" first "Z"

static const char pairs[] = PAIRS("0") PAIRS("1") PAIRS("2") PAIRS("3") PAIRS("4") PAIRS("5")
    PAIRS("6") PAIRS("7") PAIRS("8") PAIRS("9") PAIRS("A") PAIRS("B") PAIRS("C") PAIRS("D")
        PAIRS("E") PAIRS("F") PAIRS("G") PAIRS("H") PAIRS("J") PAIRS("K") PAIRS("M") PAIRS("N")
            PAIRS("P") PAIRS("Q") PAIRS("R") PAIRS("S") PAIRS("T") PAIRS("V") PAIRS("W") PAIRS("X")
                PAIRS("Y") PAIRS("Z");

static inline void put_pair(char *to, uint64_t ten_bits)
{
    memcpy(to, pairs + 2 * (ten_bits & 1023), 2);
}

void id_write_digits(struct id id, char *to)
{
    /* 26 digits hold 130 bits; the two spare ones lead and are zero. From the right: six pairs of
     * digits of the lower half, one across both halves, six of the upper. */
    uint64_t high = big_endian(id.bytes), low = big_endian(id.bytes + 8);
    for (int i = 0; i < 6; i++) put_pair(to + ID_DIGITS - 2 - 2 * i, low >> (10 * i));
    put_pair(to + 12, high << 4 | low >> 60);
    for (int i = 0; i < 6; i++) put_pair(to + 10 - 2 * i, high >> (6 + 10 * i));
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
