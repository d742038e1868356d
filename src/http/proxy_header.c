/* proxy_header.c - the PROXY protocol.
 *
 *   1: "PROXY" SP ( "TCP4" | "TCP6" ) SP source SP destination SP port SP port CR LF
 *      "PROXY UNKNOWN" … CR LF                                      107 bytes at most
 *   2: 12 bytes of signature, version and command, family and transport, length (2 bytes), then
 *      so many bytes: addresses, and additions of the proxy, which are ignored
 *
 * The option decides whether a header is expected, not the first bytes. Otherwise a client
 * behind a proxy that sends no header could send one itself. */
#include "http/proxy_header.h"

enum { LINE_MAX_BYTES = 107, FIXED_BYTES = 16 };

static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n";

static enum proxy_header bad(const char *wrong, const char **ret_wrong)
{
    *ret_wrong = wrong;
    return PROXY_BAD;
}

static bool is_port(struct str text)
{
    uint64_t port;
    bool has_zero_before = text.size > 1 && text.bytes[0] == '0';
    return !has_zero_before && str_to_u64(text, &port) && port <= 65535;
}

/* Exactly one blank between the five words behind "PROXY ". */
static bool line_read(struct str line, struct client_address *a)
{
    struct str family, source, destination, port, other_port;
    struct client_address from, to;
    if (!str_split(&line, ' ', &family)) return false;
    if (str_equal(family, STR("UNKNOWN"))) return true;
    bool is_v4 = str_equal(family, STR("TCP4"));
    if (!is_v4 && !str_equal(family, STR("TCP6"))) return false;
    if (!str_split(&line, ' ', &source) || !str_split(&line, ' ', &destination) ||
        !str_split(&line, ' ', &port) || !str_split(&line, ' ', &other_port) ||
        !str_is_absent(line))
        return false;
    bool is_of_family = (str_find(source, ':') == source.size) == is_v4 &&
                        (str_find(destination, ':') == destination.size) == is_v4;
    if (!is_of_family || !client_address_read(source, &from) ||
        !client_address_read(destination, &to) || !is_port(port) || !is_port(other_port))
        return false;
    *a = from;
    return true;
}

static enum proxy_header version_1(const char *bytes, size_t size, size_t *ret_size,
                                   struct client_address *a, const char **ret_wrong)
{
    static const char before[] = "PROXY ";
    const char *lf = memchr(bytes, '\n', size < LINE_MAX_BYTES ? size : LINE_MAX_BYTES);
    if (lf == NULL)
        return size < LINE_MAX_BYTES ? PROXY_MORE : bad("has no end within 107 bytes", ret_wrong);
    size_t whole = (size_t)(lf + 1 - bytes);
    if (whole < sizeof before + 1 || lf[-1] != '\r' ||
        !line_read(str_of(bytes + sizeof before - 1, whole - (sizeof before - 1) - 2), a))
        return bad("is not in the format of version 1", ret_wrong);
    *ret_size = whole;
    return PROXY_WHOLE;
}

static unsigned byte_at(const char *bytes, size_t at) { return (unsigned char)bytes[at]; }

static enum proxy_header version_2(const char *bytes, size_t size, size_t *ret_size,
                                   struct client_address *a, const char **ret_wrong)
{
    enum { LOCAL = 0, PROXY = 1, UNSPECIFIED = 0x00, TCP4 = 0x11, TCP6 = 0x21, UNIX = 0x31 };
    static const size_t least[] = {[TCP4] = 12, [TCP6] = 36, [UNIX] = 216};
    if (size < FIXED_BYTES) return PROXY_MORE;
    unsigned command = byte_at(bytes, 12), family = byte_at(bytes, 13);
    size_t length = byte_at(bytes, 14) << 8 | byte_at(bytes, 15);
    if (command >> 4 != 2 || (command & 15) > PROXY)
        return bad("has an unknown version or command", ret_wrong);
    if (length > PROXY_HEADER_MAX - FIXED_BYTES) return bad("is over 4096 bytes", ret_wrong);
    bool is_local = (command & 15) == LOCAL;
    if (!is_local && family != UNSPECIFIED && family != TCP4 && family != TCP6 && family != UNIX)
        return bad("has a family or transport that cannot carry HTTP", ret_wrong);
    if (!is_local && family != UNSPECIFIED && length < least[family])
        return bad("is too short for its addresses", ret_wrong);
    if (size < FIXED_BYTES + length) return PROXY_MORE;
    *ret_size = FIXED_BYTES + length;
    if (is_local || family == UNSPECIFIED) return PROXY_WHOLE;
    if (family == TCP4) *a = client_address_ipv4(bytes + FIXED_BYTES);
    if (family == TCP6) *a = client_address_ipv6(bytes + FIXED_BYTES);
    if (family == UNIX) *a = (struct client_address){.kind = CLIENT_UNIX};
    return PROXY_WHOLE;
}

enum proxy_header proxy_header_read(const char *bytes, size_t size, size_t *ret_size,
                                    struct client_address *a, const char **ret_wrong)
{
    size_t seen = size < 6 ? size : 6;
    if (memcmp(bytes, "PROXY ", seen) == 0)
        return seen < 6 ? PROXY_MORE : version_1(bytes, size, ret_size, a, ret_wrong);
    seen = size < sizeof signature ? size : sizeof signature;
    if (memcmp(bytes, signature, seen) == 0) return version_2(bytes, size, ret_size, a, ret_wrong);
    return bad("is missing", ret_wrong);
}
