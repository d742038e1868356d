/* url.h - the parts of an address that options and documents name, before it is used. Pure. */
#ifndef OUTBOUND_URL_H
#define OUTBOUND_URL_H

#include "base/str.h"

/* Printable ASCII without what a URL's text or a header cannot have; not empty. */
bool url_is_printable(struct str text);
/* Host and port of a URL that begins with a scheme of that size ("https://": 8). Absent: it has none, or
 * a user before it. */
struct str url_host(struct str url, size_t scheme_size);
/* localhost, 127.0.0.1 or [::1], with or without a port. */
bool url_host_is_loopback(struct str host);

#endif
