/* address.c - see address.h. */
#include "cel/address.h"

#include "cel/cel.h"

#include <arpa/inet.h>

bool cel_address_read(struct str text, struct cel_cidr *ret)
{
    char copy[64];
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    if (text.size == 0 || text.size >= sizeof copy || memchr(text.bytes, '\0', text.size) != NULL)
        return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    *ret = (struct cel_cidr){.family = 4, .bits = 32};
    if (inet_pton(AF_INET, copy, ret->bytes) == 1) return true;
    *ret = (struct cel_cidr){.family = 6, .bits = 128};
    if (inet_pton(AF_INET6, copy, ret->bytes) != 1) return false;
    if (memcmp(ret->bytes, mapped, sizeof mapped) == 0) {
        struct cel_cidr four = {.family = 4, .bits = 32};
        memcpy(four.bytes, ret->bytes + 12, 4);
        *ret = four;
    }
    return true;
}

void cel_address_put(struct buf *out, const struct cel_cidr *address)
{
    char text[ADDRESS_TEXT];
    if (inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, text, sizeof text) !=
        NULL)
        buf_put(out, str_from(text));
}

/* ---- hosts that end in a number ---- */

static bool is_hexadecimal(struct str part)
{
    return part.size >= 2 && part.bytes[0] == '0' && (part.bytes[1] | 0x20) == 'x';
}

static bool is_number(struct str part)
{
    bool hexadecimal = is_hexadecimal(part);
    for (size_t i = hexadecimal ? 2 : 0; i < part.size; i++) {
        char c = part.bytes[i], lower = (char)(c | 0x20);
        bool is_digit = c >= '0' && c <= '9', is_letter = lower >= 'a' && lower <= 'f';
        if (!is_digit && !(hexadecimal && is_letter)) return false;
    }
    return part.size > 0;
}

static bool read_number(struct str part, uint64_t *ret)
{
    bool hexadecimal = is_hexadecimal(part);
    if (!is_number(part) || part.size > 18 || (hexadecimal && part.size == 2)) return false;
    if (!hexadecimal && part.size > 1 && part.bytes[0] == '0') return false;
    uint64_t number = 0;
    for (size_t i = hexadecimal ? 2 : 0; i < part.size; i++) {
        char c = part.bytes[i];
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
        number = number * (hexadecimal ? 16 : 10) + digit;
        if (number > UINT32_MAX) return false;
    }
    *ret = number;
    return true;
}

bool cel_address_is_number(struct str host)
{
    size_t from = host.size;
    while (from > 0 && host.bytes[from - 1] != '.') from--;
    return is_number(str_skip(host, from));
}

/* The WHATWG's IPv4 parser: the last part fills all bytes that are left. */
bool cel_address_read_host(struct str host, struct cel_cidr *ret)
{
    uint64_t parts[4];
    size_t count = 0;
    struct str part;
    while (str_split(&host, '.', &part))
        if (count == 4 || !read_number(part, &parts[count++])) return false;
    if (count == 0) return false;
    uint64_t address = parts[count - 1];
    if (address >> 8 * (5 - count) != 0) return false;
    for (size_t i = 0; i + 1 < count; i++) {
        if (parts[i] > 255) return false;
        address |= parts[i] << 8 * (3 - i);
    }
    *ret = (struct cel_cidr){.family = 4, .bits = 32};
    for (size_t i = 0; i < 4; i++) ret->bytes[i] = (uint8_t)(address >> 8 * (3 - i));
    return true;
}

/* ---- ranges ---- */

/* Clears the bits after the prefix; true: some were set. */
static bool prefix_mask(struct cel_cidr *c)
{
    bool had_more = false;
    unsigned size = c->family == 4 ? 4 : 16;
    for (unsigned i = 0; i < size; i++) {
        unsigned kept = c->bits >= (i + 1) * 8 ? 8 : c->bits > i * 8 ? c->bits - i * 8 : 0;
        uint8_t cut = (uint8_t)(c->bytes[i] & (0xFF00u >> kept));
        had_more = had_more || cut != c->bytes[i];
        c->bytes[i] = cut;
    }
    return had_more;
}

bool cel_cidr_read_telling(struct str text, struct cel_cidr *ret, bool *ret_had_more)
{
    size_t slash = str_find(text, '/');
    uint64_t bits;
    struct str address = str_of(text.bytes, slash);
    *ret_had_more = false;
    if (!cel_address_read(address, ret)) return false;
    if (slash == text.size) return true;
    struct str length = str_skip(text, slash + 1);
    if (length.size > 3 || !str_to_u64(length, &bits)) return false;
    bool written_as_six = str_find(address, ':') < address.size;
    if (ret->family == 4 && written_as_six) { /* a range of mapped addresses */
        if (bits < 96) return false;
        bits -= 96;
    }
    if (bits > ret->bits) return false;
    ret->bits = (uint8_t)bits;
    *ret_had_more = prefix_mask(ret);
    return true;
}

bool cel_cidr_read(struct str text, struct cel_cidr *ret)
{
    bool had_more;
    return cel_cidr_read_telling(text, ret, &had_more);
}

void cel_cidr_put(struct buf *out, const struct cel_cidr *range)
{
    cel_address_put(out, range);
    buf_printf(out, "/%u", range->bits);
}

bool cel_cidr_contains(const struct cel_cidr *range, struct cel_cidr inner)
{
    if (range->family != inner.family || range->bits > inner.bits) return false;
    inner.bits = range->bits;
    prefix_mask(&inner);
    return memcmp(range->bytes, inner.bytes, sizeof inner.bytes) == 0;
}

/* ---- kinds ---- */

struct range_four {
    uint8_t bytes[4], bits;
};

struct range_six {
    uint8_t bytes[6], bits; /* the bytes behind are zero */
};

static bool begins(const uint8_t *address, const uint8_t *range, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(address, range, whole) != 0) return false;
    return rest == 0 || (address[whole] ^ range[whole]) >> (8 - rest) == 0;
}

bool cel_address_is_unspecified(const struct cel_cidr *a)
{
    static const uint8_t zero[16];
    return memcmp(a->bytes, zero, sizeof zero) == 0;
}

bool cel_address_is_loopback(const struct cel_cidr *a)
{
    static const uint8_t one[16] = {[15] = 1};
    return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, one, sizeof one) == 0;
}

bool cel_address_is_link_local_unicast(const struct cel_cidr *a)
{
    return a->family == 4 ? a->bytes[0] == 169 && a->bytes[1] == 254
                          : a->bytes[0] == 0xFE && (a->bytes[1] & 0xC0) == 0x80;
}

bool cel_address_is_link_local_multicast(const struct cel_cidr *a)
{
    return a->family == 4 ? a->bytes[0] == 224 && a->bytes[1] == 0 && a->bytes[2] == 0
                          : a->bytes[0] == 0xFF && (a->bytes[1] & 0x0F) == 2;
}

/* The definition of Go's netip, which Kubernetes uses: private addresses are global unicast, too. */
bool cel_address_is_global_unicast(const struct cel_cidr *a)
{
    static const uint8_t everyone[4] = {255, 255, 255, 255};
    bool is_multicast = a->family == 4 ? (a->bytes[0] & 0xF0) == 0xE0 : a->bytes[0] == 0xFF;
    bool is_broadcast = a->family == 4 && memcmp(a->bytes, everyone, 4) == 0;
    return !is_multicast && !is_broadcast && !cel_address_is_unspecified(a) &&
           !cel_address_is_loopback(a) && !cel_address_is_link_local_unicast(a);
}

/* The IPv4 address that an IPv6 address carries. */
static bool carried(const struct cel_cidr *a, struct cel_cidr *ret)
{
    static const uint8_t zero[12], nat64[12] = {0x00, 0x64, 0xFF, 0x9B};
    unsigned at = 12;
    if (a->bytes[0] == 0x20 && a->bytes[1] == 0x02)
        at = 2; /* 6to4 */
    else if (memcmp(a->bytes, zero, sizeof zero) != 0 && memcmp(a->bytes, nat64, sizeof nat64) != 0)
        return false;
    *ret = (struct cel_cidr){.family = 4, .bits = 32};
    memcpy(ret->bytes, a->bytes + at, 4);
    return true;
}

bool cel_address_is_private(const struct cel_cidr *a)
{
    static const struct range_four four[] = {
        {{0}, 8},         {{10}, 8},       {{100, 64}, 10},      {{127}, 8},
        {{169, 254}, 16}, {{172, 16}, 12}, {{192, 0, 0}, 24},    {{192, 0, 2}, 24},
        {{192, 168}, 16}, {{198, 18}, 15}, {{198, 51, 100}, 24}, {{203, 0, 113}, 24},
        {{240}, 4},
    };
    static const struct range_six six[] = {
        {{0xFC}, 7},                                /* unique local */
        {{0xFE, 0x80}, 10},                         /* link-local */
        {{0xFE, 0xC0}, 10},                         /* site-local */
        {{0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01}, 48}, /* NAT64 within a network */
        {{0x01, 0x00}, 48},                         /* discard */
        {{0x20, 0x01, 0x00, 0x00}, 23},             /* protocols, Teredo among them */
        {{0x20, 0x01, 0x0D, 0xB8}, 32},             /* documentation */
        {{0x3F, 0xFF}, 20},                         /* documentation */
        {{0x5F, 0x00}, 16},                         /* segment routing */
    };
    struct cel_cidr inner;
    if (a->family == 4) {
        for (size_t i = 0; i < sizeof four / sizeof four[0]; i++)
            if (begins(a->bytes, four[i].bytes, four[i].bits)) return true;
        return false;
    }
    for (size_t i = 0; i < sizeof six / sizeof six[0]; i++)
        if (begins(a->bytes, six[i].bytes, six[i].bits)) return true;
    return carried(a, &inner) && cel_address_is_private(&inner);
}

bool cel_address_is_public(const uint8_t *bytes, size_t size)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF}; /* ::ffff:10.0.0.1 */
    struct cel_cidr a = {.family = size == 4 ? 4 : 6, .bits = size == 4 ? 32 : 128};
    if (size == 16 && memcmp(bytes, mapped, sizeof mapped) == 0)
        return cel_address_is_public(bytes + sizeof mapped, 4);
    if (size != 4 && size != 16) return false;
    memcpy(a.bytes, bytes, size);
    return cel_address_is_global_unicast(&a) && !cel_address_is_private(&a);
}
