/* client_address.h - the client of a request: the address of its connection, or the address that a
 * trusted proxy reports.
 *
 * A proxy in front of a program hides its clients. It can report them in X-Forwarded-For, or in
 * a PROXY header before the first request (proxy_header.h). Any client can send both, so they
 * count only on connections from an address of http.trusted_proxies. Pure but for
 * client_address_of(), any thread. */
#ifndef HTTP_CLIENT_ADDRESS_H
#define HTTP_CLIENT_ADDRESS_H

#include "base/fault.h"
#include "http/header.h"

enum client_kind {
    CLIENT_UNKNOWN, /* the zero value */
    CLIENT_UNIX,    /* a Unix socket: its clients have no addresses */
    CLIENT_IPV4,    /* the first four bytes; also for IPv4 mapped into IPv6 */
    CLIENT_IPV6
};

struct client_address {
    uint8_t kind; /* enum client_kind */
    uint8_t bytes[16];
};

enum { CLIENT_ADDRESS_TEXT = 46 };

/* The other end of an accepted socket. */
struct client_address client_address_of(int fd);
/* "10.0.0.1", "2001:db8::1"; no port, no brackets, no zone. False: not an address. */
bool client_address_read(struct str text, struct client_address *ret);
struct client_address client_address_ipv4(const void *four_bytes);
struct client_address client_address_ipv6(const void *sixteen_bytes);
/* The form in records: "10.0.0.1", "2001:db8::1", "unix"; absent if it is unknown. A view into
 * `to`. */
struct str client_address_text(const struct client_address *a, char to[CLIENT_ADDRESS_TEXT]);
bool client_address_equal(const struct client_address *a, const struct client_address *b);

enum { TRUSTED_PROXIES_MAX = 64 };

struct trusted_proxies {
    struct trusted_network {
        struct client_address address;
        uint8_t bits; /* bits of the address that count; unused for CLIENT_UNIX */
    } networks[TRUSTED_PROXIES_MAX];
    size_t count;
    bool send_proxy_header; /* each connection from them begins with a PROXY header */
};

/* "10.0.0.0/8, 2001:db8::1, unix"; an empty text trusts no address. ERR_BAD_VALUE: an item is
 * not an address, a network has bits set after its mask, or there are too many items. */
enum err trusted_proxies_read(struct str text, struct trusted_proxies *ret, struct fault *f);
/* `t` NULL: no address is trusted. */
bool trusted_proxies_have(const struct trusted_proxies *t, const struct client_address *a);

/* Replaces the connection's address in *a by that of the client. If *a is a trusted proxy, the
 * last address of X-Forwarded-For replaces it, and so on to the left while the addresses are
 * trusted proxies. Several such headers are one list. "unknown" ends the search: the client
 * stays at the last known address. ERR_BAD_REQUEST: a trusted proxy has sent an item that is not
 * an address. */
enum err client_address_forwarded(const struct trusted_proxies *t,
                                  const struct http_header *headers, size_t count,
                                  struct client_address *a, struct fault *f);

#endif
