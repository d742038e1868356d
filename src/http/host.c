/* host.c - the grammar of a host: a proxy in front might route by parts that a lenient reader
 * ignores.
 *
 *   uri-host   = IP-literal / IPv4address / reg-name
 *   IP-literal = "[" ( IPv6address / IPvFuture ) "]"
 *   IPvFuture  = "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )
 *   reg-name   = *( unreserved / pct-encoded / sub-delims )
 *   port       = *DIGIT
 *
 * An IPv4address is a reg-name, too. Stricter than the grammar in three places: a comma (a
 * sub-delim) joins two Hosts to one, a port without a host is not an address (RFC 9110, 4.2.1),
 * and TCP has no port above 65535. Zones of IPv6 addresses are valid on one machine only, and
 * are not in this grammar. */
#include "http/host.h"

#include <arpa/inet.h>

enum { IPV6_TEXT_MAX = 45, PORT_MAX = 65535 };

static bool is_unreserved_or_sub_delim(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c != '\0' && strchr("-._~!$&'()*+;=", c) != NULL;
}

static const char *judge_port(struct str port)
{
    uint64_t number = 0;
    for (size_t i = 0; i < port.size; i++) {
        if (port.bytes[i] < '0' || port.bytes[i] > '9') return "has a port that is not a number";
        if (number <= PORT_MAX) number = number * 10 + (uint64_t)(port.bytes[i] - '0');
    }
    return number <= PORT_MAX ? NULL : "has a port above 65535";
}

static bool is_ipv6(struct str text)
{
    char room[IPV6_TEXT_MAX + 1];
    struct in6_addr ignored;
    if (text.size > IPV6_TEXT_MAX || memchr(text.bytes, '\0', text.size) != NULL) return false;
    memcpy(room, text.bytes, text.size);
    room[text.size] = '\0';
    return inet_pton(AF_INET6, room, &ignored) == 1;
}

static bool is_ipv_future(struct str text)
{
    size_t dot = str_find(text, '.');
    if (text.size == 0 || (text.bytes[0] | 0x20) != 'v' || dot < 2 || dot + 1 >= text.size)
        return false;
    for (size_t i = 1; i < dot; i++)
        if (hex_value(text.bytes[i]) < 0) return false;
    for (size_t i = dot + 1; i < text.size; i++)
        if (text.bytes[i] != ':' && !is_unreserved_or_sub_delim(text.bytes[i])) return false;
    return true;
}

static const char *judge_literal(struct str text)
{
    size_t end = str_find(text, ']');
    if (end == text.size) return "has a [ without its ]";
    struct str inside = str_of(text.bytes + 1, end - 1), rest = str_skip(text, end + 1);
    if (!is_ipv6(inside) && !is_ipv_future(inside)) return "has no IPv6 address between [ and ]";
    if (rest.size == 0) return NULL;
    return rest.bytes[0] == ':' ? judge_port(str_skip(rest, 1)) : "has text after its ]";
}

const char *host_judge(struct str text)
{
    if (text.size == 0) return NULL;
    if (text.bytes[0] == '[') return judge_literal(text);
    size_t colon = str_find(text, ':');
    if (colon == 0) return "has a port and no host";
    for (size_t i = 0; i < colon; i++) {
        if (text.bytes[i] == '%') {
            if (colon - i < 3 || hex_value(text.bytes[i + 1]) < 0 ||
                hex_value(text.bytes[i + 2]) < 0)
                return "has a % without two hexadecimal digits";
            i += 2;
        } else if (!is_unreserved_or_sub_delim(text.bytes[i])) {
            return "has a byte that is not allowed in a host";
        }
    }
    return colon == text.size ? NULL : judge_port(str_skip(text, colon + 1));
}
