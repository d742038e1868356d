/* address.h - the address of a peer: "http://host:port", "https://host:port", "http://[::1]:port",
 * "unix:/path".
 *
 * Nothing here blocks: a lookup (base/lookup.h) finds the addresses of a name. Any thread. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <sys/socket.h>

#include "base/fault.h"
#include "base/lookup.h"

enum { ADDRESS_HOST = 256, ADDRESS_PLACES = 4 };

struct address {
    bool is_unix, is_tls;
    char host[ADDRESS_HOST]; /* or the path; no brackets; NUL-terminated */
    char port[6];
};

struct tls;

/* One socket address to try. */
struct place {
    struct sockaddr_storage at;
    socklen_t size;
};

struct http_peer {
    struct address address;
    struct tls *tls; /* for sessions; NULL: the address is without TLS */
    /* the socket addresses need no lookup: the host is a number, or the path of a socket */
    bool is_fixed;
    struct place places[ADDRESS_PLACES];
    size_t place_count; /* 0: the addresses are not known yet */
};

/* Reads an address, with its socket addresses where they need no lookup. ERR_BAD_VALUE. A
 * trailing `/` is ignored; the default port is 80, with https 443. `tls` outlives the peer and all
 * calls to it; NULL: an address with https is ERR_BAD_VALUE. */
enum err http_peer_read(struct str text, struct tls *tls, struct http_peer *ret, struct fault *f);

/* Starts the lookup of the peer's name; NULL: no memory for it. */
struct lookup *http_peer_ask(const struct http_peer *p);
/* Takes the addresses that a lookup has found, and frees the lookup. An address that was first
 * stays first if it is among them. ERR_CLOSED: the name does not exist, or the lookup is still
 * running; the peer does not change. */
enum err http_peer_take(struct http_peer *to, struct lookup **l, struct fault *f);

/* Puts `first` before the other addresses if it is one of them, because it has answered. Accepts
 * NULL. */
void http_peer_prefer(struct http_peer *to, const struct place *first);

/* "host:port" for the Host header; `to` holds ADDRESS_HOST + 10 bytes. */
struct str address_authority(const struct address *a, char *to);

#endif
