/* url.h - strict parsing of URLs: a URL that programs read differently is refused; this room only.
 *
 *   scheme "://" [userinfo "@"] host [":" port] path ["?" query] ["#" fragment]
 *
 * A condition checks the destination of a request, so the host must be the one that curl and
 * browsers use, or the whole is no URL:
 *
 *   host  letters, digits, - _ and dots between; converted to lower case, without a dot at its end.
 *         In brackets an IPv6 address. A host that ends in a number is an IPv4 address, as the
 *         WHATWG reads it (2130706433, 0x7f.1), and is returned as one. So is an IPv4 address that
 *         is written as IPv6 ([::ffff:10.0.0.1]).
 *   refused  blanks and control characters, \ and % outside of an escape, escapes and characters
 *         that are no ASCII in the host, leading zeros in its numbers, a second @, a port above
 *         65535, the parts . and .. of a path (%2e too), a URL without :// (mailto:, data:,
 *         javascript:), and one of http, https, ws, wss or ftp without a host.
 *
 * Sources: RFC 3986; url.spec.whatwg.org, host parsing. Pure, any thread. */
#ifndef CEL_URL_H
#define CEL_URL_H

#include "base/str.h"

enum { URL_MORE_BYTES = 64 }; /* by which the plain form may exceed the written URL */

/* The parts point into the plain form. */
struct cel_url {
    struct str text;     /* the whole URL in its plain form; parsing it gives the same */
    struct str scheme;   /* "https", lower case */
    struct str host;     /* "[::1]:8080": with the port, as in Kubernetes */
    struct str hostname; /* "::1" */
    struct str port;     /* "8080", or "" */
    struct str path;     /* as written, also its escapes */
    struct str query;    /* as written, without the ? */
};

/* `room` has text.size + URL_MORE_BYTES bytes and gets the plain form. False: it is no URL. */
bool cel_url_read(struct str text, char *room, struct cel_url *ret);

/* Decodes a name or value of a query: %xx and +. `to` has text.size bytes. Returns the number of
 * bytes written. */
size_t cel_url_unescape(struct str text, char *to);

#endif
