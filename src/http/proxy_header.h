/* proxy_header.h - the address of a client that a proxy sends before the first byte of HTTP: the
 * PROXY protocol, versions 1 and 2 (haproxy.org/download/3.0/doc/proxy-protocol.txt). Pure, any
 * thread. */
#ifndef HTTP_PROXY_HEADER_H
#define HTTP_PROXY_HEADER_H

#include "http/client_address.h"

enum {
    PROXY_HEADER_MAX = 4096
}; /* of version 2, with its additions; real headers have less than half of that */

enum proxy_header { PROXY_MORE, PROXY_WHOLE, PROXY_BAD };

/* `bytes` are the first of the connection. PROXY_WHOLE: the header has *ret_size bytes, and *a,
 * which was the proxy's own address, is now the client's. It does not change if the header has
 * no address (LOCAL, UNKNOWN). PROXY_BAD: *ret_wrong is the error, as the end of a sentence. */
enum proxy_header proxy_header_read(const char *bytes, size_t size, size_t *ret_size,
                                    struct client_address *a, const char **ret_wrong);

#endif
