/* address.h - where a peer is: "http://host:port", "http://[::1]:port", "unix:/path".
 *
 * Nothing here blocks: a name's addresses are asked for by a lookup (base/lookup.h). Any thread. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <sys/socket.h>

#include "base/fault.h"
#include "base/lookup.h"

enum { ADDRESS_HOST = 256, ADDRESS_PLACES = 4 };

struct address {
    bool is_unix;
    char host[ADDRESS_HOST]; /* or the path; no brackets; NUL-terminated */
    char port[6];
};

/* One socket address to try. */
struct place {
    struct sockaddr_storage at;
    socklen_t size;
};

struct http_peer {
    struct address address;
    bool is_fixed; /* its places are known without asking anybody: a number, or a socket's path */
    struct place places[ADDRESS_PLACES];
    size_t place_count; /* 0: where it is is not known */
};

/* With its places where it is fixed. ERR_BAD_VALUE. A trailing `/` is passed over; the port
 * is 80 where none is given. */
enum err http_peer_read(struct str text, struct http_peer *ret, struct fault *f);

/* Asks where a name is; NULL: there is no room for it. */
struct lookup *http_peer_ask(const struct http_peer *p);
/* Takes the places that a lookup has found, and leaves it; what was first is first again where it
 * is among them. ERR_CLOSED: there is no such host, or nobody has answered yet, and it goes on;
 * the peer stays as it was. */
enum err http_peer_take(struct http_peer *to, struct lookup **l, struct fault *f);

/* Lists `first`, where it is one of its places, before the others: it has answered. Accepts
 * NULL. */
void http_peer_prefer(struct http_peer *to, const struct place *first);

/* "host:port" for the Host header; `to` holds ADDRESS_HOST + 10 bytes. */
struct str address_authority(const struct address *a, char *to);

#endif
