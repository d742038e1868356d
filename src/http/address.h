/* address.h - where a peer is: "http://host:port", "http://[::1]:port", "unix:/path".
 *
 * Pure but for address_resolve(), which may ask the resolver. Any thread. */
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

/* ERR_BAD_VALUE. A trailing `/` is passed over; the port is 80 where none is given. */
enum err address_read(struct str text, struct address *ret, struct fault *f);

/* Up to ADDRESS_PLACES places. Without `may_block` only numeric hosts and "localhost" are known
 * (else ERR_BAD_VALUE). ERR_CLOSED: there is no such host. */
enum err address_resolve(const struct address *a, bool may_block,
                         struct place ret_places[ADDRESS_PLACES], size_t *ret_count,
                         struct fault *f);

/* "host:port" for the Host header; `to` holds ADDRESS_HOST + 10 bytes. */
struct str address_authority(const struct address *a, char *to);

#endif
