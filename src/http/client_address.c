#include "http/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/str.h"

struct client_address client_address_ipv4(const void *four_bytes)
{
    struct client_address a = {.kind = CLIENT_IPV4};
    memcpy(a.bytes, four_bytes, 4);
    return a;
}

/* An IPv4 client has one spelling, even if it connected to an IPv6 socket. */
struct client_address client_address_ipv6(const void *sixteen_bytes)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (memcmp(sixteen_bytes, mapped, sizeof mapped) == 0)
        return client_address_ipv4((const uint8_t *)sixteen_bytes + sizeof mapped);
    struct client_address a = {.kind = CLIENT_IPV6};
    memcpy(a.bytes, sixteen_bytes, 16);
    return a;
}

struct client_address client_address_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (getpeername(fd, (struct sockaddr *)&name, &size) != 0)
        return (struct client_address){.kind = CLIENT_UNKNOWN};
    if (name.ss_family == AF_INET)
        return client_address_ipv4(&((struct sockaddr_in *)&name)->sin_addr);
    if (name.ss_family == AF_INET6)
        return client_address_ipv6(&((struct sockaddr_in6 *)&name)->sin6_addr);
    return (struct client_address){.kind =
                                       name.ss_family == AF_UNIX ? CLIENT_UNIX : CLIENT_UNKNOWN};
}

bool client_address_read(struct str text, struct client_address *ret)
{
    char room[CLIENT_ADDRESS_TEXT];
    uint8_t bytes[16];
    if (text.size == 0 || text.size >= sizeof room || memchr(text.bytes, '\0', text.size) != NULL)
        return false;
    memcpy(room, text.bytes, text.size);
    room[text.size] = '\0';
    if (inet_pton(AF_INET, room, bytes) == 1)
        *ret = client_address_ipv4(bytes);
    else if (inet_pton(AF_INET6, room, bytes) == 1)
        *ret = client_address_ipv6(bytes);
    else
        return false;
    return true;
}

struct str client_address_text(const struct client_address *a, char to[CLIENT_ADDRESS_TEXT])
{
    if (a->kind == CLIENT_UNKNOWN) return (struct str){0};
    if (a->kind == CLIENT_UNIX) return STR("unix");
    int family = a->kind == CLIENT_IPV4 ? AF_INET : AF_INET6;
    return str_from(inet_ntop(family, a->bytes, to, CLIENT_ADDRESS_TEXT));
}

bool client_address_equal(const struct client_address *a, const struct client_address *b)
{
    return a->kind == b->kind && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* ---- trusted proxies ---- */

static struct str trimmed(struct str text)
{
    while (text.size > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t'))
        text = str_skip(text, 1);
    while (text.size > 0 && (text.bytes[text.size - 1] == ' ' || text.bytes[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* Whether all bits of `a` from `bits` on are 0. */
static bool ends_at(const struct client_address *a, unsigned bits)
{
    for (unsigned at = bits; at < 8 * sizeof a->bytes; at++)
        if ((a->bytes[at / 8] & (0x80u >> at % 8)) != 0) return false;
    return true;
}

static bool network_read(struct str text, struct trusted_network *ret, const char **ret_wrong)
{
    *ret_wrong = "is not an address or network such as 10.0.0.1, 10.0.0.0/8, 2001:db8::/32 or unix";
    *ret = (struct trusted_network){.address = {.kind = CLIENT_UNIX}};
    if (str_equal(text, STR("unix"))) return true;
    size_t slash = str_find(text, '/');
    if (!client_address_read(str_of(text.bytes, slash), &ret->address)) return false;
    uint64_t bits = ret->address.kind == CLIENT_IPV4 ? 32 : 128, given;
    if (slash < text.size) {
        if (!str_to_u64(str_skip(text, slash + 1), &given) || given > bits) return false;
        bits = given;
    }
    ret->bits = (uint8_t)bits;
    *ret_wrong = "is not the address of a network: the bits after its mask must be 0";
    return ends_at(&ret->address, ret->bits);
}

enum err trusted_proxies_read(struct str text, struct trusted_proxies *ret, struct fault *f)
{
    struct trusted_proxies t = {.count = 0};
    struct str rest = text, item;
    while (!str_is_empty(text) && str_split(&rest, ',', &item)) {
        const char *wrong;
        item = trimmed(item);
        if (t.count == TRUSTED_PROXIES_MAX)
            return fault_set(f, ERR_BAD_VALUE, "",
                             "http.trusted_proxies: there are more than %d entries",
                             TRUSTED_PROXIES_MAX);
        if (!network_read(item, &t.networks[t.count++], &wrong))
            return fault_set(f, ERR_BAD_VALUE, "", "http.trusted_proxies: \"%.*s\" %s",
                             (int)(item.size > 60 ? 60 : item.size), item.bytes, wrong);
    }
    *ret = t;
    return ERR_OK;
}

static bool is_within(const struct client_address *a, const struct trusted_network *n)
{
    unsigned whole = n->bits / 8, left = n->bits % 8;
    if (a->kind != n->address.kind || memcmp(a->bytes, n->address.bytes, whole) != 0) return false;
    return left == 0 || (a->bytes[whole] ^ n->address.bytes[whole]) >> (8 - left) == 0;
}

bool trusted_proxies_have(const struct trusted_proxies *t, const struct client_address *a)
{
    for (size_t i = 0; t != NULL && i < t->count; i++)
        if (is_within(a, &t->networks[i])) return true;
    return false;
}

/* ---- X-Forwarded-For ---- */

/* Some proxies add the port: "10.0.0.1:80", "[2001:db8::1]:80", "[2001:db8::1]". */
static bool forwarded_read(struct str item, struct client_address *ret)
{
    if (client_address_read(item, ret)) return true;
    uint64_t port = 1;
    struct str host = item, rest = STR("");
    if (str_starts(item, STR("["))) {
        size_t end = str_find(item, ']');
        if (end == item.size) return false;
        host = str_of(item.bytes + 1, end - 1);
        rest = str_skip(item, end + 1);
        if (str_find(host, ':') == host.size) return false;
    } else {
        size_t colon = str_find(item, ':');
        host = str_of(item.bytes, colon);
        rest = str_skip(item, colon);
    }
    if (rest.size > 0 &&
        (rest.bytes[0] != ':' || !str_to_u64(str_skip(rest, 1), &port) || port > 65535))
        return false;
    return client_address_read(host, ret);
}

/* Takes the last item off *list. */
static struct str take_last(struct str *list)
{
    size_t from = list->size;
    while (from > 0 && list->bytes[from - 1] != ',') from--;
    struct str item = trimmed(str_skip(*list, from));
    *list = from == 0 ? (struct str){0} : str_of(list->bytes, from - 1);
    return item;
}

enum err client_address_forwarded(const struct trusted_proxies *t,
                                  const struct http_header *headers, size_t count,
                                  struct client_address *a, struct fault *f)
{
    if (t == NULL || t->count == 0) return ERR_OK;
    for (size_t i = count; i-- > 0;) {
        if (!http_header_is(&headers[i], STR("x-forwarded-for"))) continue;
        struct str list = headers[i].value;
        while (!str_is_absent(list)) {
            if (!trusted_proxies_have(t, a)) return ERR_OK;
            struct str item = take_last(&list);
            if (item.size == 0) continue; /* RFC 9110, 5.6.1.2 */
            if (str_equal_ignoring_case(item, STR("unknown"))) return ERR_OK;
            if (!forwarded_read(item, a))
                return fault_set(f, ERR_BAD_REQUEST, "",
                                 "X-Forwarded-For: \"%.*s\" is not an IP address, and a proxy of "
                                 "http.trusted_proxies sent it",
                                 (int)(item.size > 60 ? 60 : item.size), item.bytes);
        }
    }
    return ERR_OK;
}
