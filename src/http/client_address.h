/* client_address.h - who a request comes from: the address of its connection, or what a trusted proxy
 * says of it.
 *
 * A proxy in front of a program hides its clients. It may tell of them in X-Forwarded-For, or in a
 * PROXY header before the first request (proxy_header.h); both are believed only where the
 * connection comes from an address of http.trusted_proxies, since anybody can send them. Pure but for
 * client_address_of(), any thread. */
#ifndef HTTP_CLIENT_ADDRESS_H
#define HTTP_CLIENT_ADDRESS_H

#include "base/fault.h"
#include "http/header.h"

enum client_kind {
    CLIENT_UNKNOWN, /* the zero value */
    CLIENT_UNIX,    /* of a Unix socket: clients have no names there */
    CLIENT_IPV4,    /* the first four bytes; also what is IPv4 mapped into IPv6 */
    CLIENT_IPV6
};

struct client_address {
    uint8_t kind; /* enum client_kind */
    uint8_t bytes[16];
};

enum { CLIENT_ADDRESS_TEXT = 46 };

/* The other end of an accepted socket. */
struct client_address client_address_of(int fd);
/* "10.0.0.1", "2001:db8::1"; no port, no brackets, no zone. False: it is none. */
bool client_address_read(struct str text, struct client_address *ret);
struct client_address client_address_ipv4(const void *four_bytes);
struct client_address client_address_ipv6(const void *sixteen_bytes);
/* As records have it: "10.0.0.1", "2001:db8::1", "unix"; absent where it is unknown. A view into
 * `to`. */
struct str client_address_text(const struct client_address *a, char to[CLIENT_ADDRESS_TEXT]);
bool client_address_equal(const struct client_address *a, const struct client_address *b);

enum { TRUSTED_PROXIES_MAX = 64 };

struct trusted_proxies {
    struct trusted_network {
        struct client_address address;
        uint8_t bits; /* of it that count; of CLIENT_UNIX none */
    } networks[TRUSTED_PROXIES_MAX];
    size_t count;
    bool send_proxy_header; /* each connection of theirs begins with one */
};

/* "10.0.0.0/8, 2001:db8::1, unix"; the empty text is nobody. ERR_BAD_VALUE: what is no address, a
 * network with bits behind its mask, or too many. */
enum err trusted_proxies_read(struct str text, struct trusted_proxies *ret, struct fault *f);
/* `t` NULL: nobody is. */
bool trusted_proxies_have(const struct trusted_proxies *t, const struct client_address *a);

/* From the connection's address in *a to that of the client: where it is a trusted proxy's, the last
 * address of X-Forwarded-For, and so on to the left, as long as those are trusted proxies', too.
 * Several such headers are one list. "unknown" ends the way: the client is not known any
 * better. ERR_BAD_REQUEST: what a trusted proxy has put there is no address. */
enum err client_address_forwarded(const struct trusted_proxies *t,
                                  const struct http_header *headers, size_t count,
                                  struct client_address *a, struct fault *f);

#endif
