/* address.h - where a peer is: "http://host:port", "http://[::1]:port", "unix:/path".
 *
 * Pure but for http_peer_resolve(), which may ask the resolver. Any thread. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <sys/socket.h>

#include "base/fault.h"

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
    struct place places[ADDRESS_PLACES];
    size_t place_count; /* 0: where it is is not known */
};

/* ERR_BAD_VALUE. A trailing `/` is passed over; the port is 80 where none is given. */
enum err address_read(struct str text, struct address *ret, struct fault *f);

/* Whether its places are found without asking anybody: a number, or a socket's path. */
bool address_is_place(const struct address *a);

/* Finds to->places, by to->address. This may block. ERR_CLOSED: there is no such host. */
enum err http_peer_resolve(struct http_peer *to, struct fault *f);

/* Lists `first`, where it is one of its places, before the others. */
void http_peer_prefer(struct http_peer *to, const struct place *first);

/* "host:port" for the Host header; `to` holds ADDRESS_HOST + 10 bytes. */
struct str address_authority(const struct address *a, char *to);

#endif
