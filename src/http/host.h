/* host.h - a host with its port, as the header Host and a target in absolute form have them
 * (RFC 9110, 7.2; RFC 3986, 3.2.2 and 3.2.3). Pure, any thread. */
#ifndef HTTP_HOST_H
#define HTTP_HOST_H

#include "base/str.h"

/* The error of `text` as `uri-host [":" port]`, as the end of a sentence; NULL: none. The empty
 * text is valid: a client sends it if its target has no host. */
const char *host_judge(struct str text);

#endif
