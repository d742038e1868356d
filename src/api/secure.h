/* secure.h - what the options of TLS and of addresses mean, alike in both programs. At boot. */
#ifndef API_SECURE_H
#define API_SECURE_H

#include "config/config.h"
#include "http/listen.h"
#include "tls/tls.h"

/* *ret is NULL if neither listen.tls nor an https:// address is set. Errors as tls_create(). */
enum err api_tls_create(const struct config *c, struct tls **ret, struct fault *f);
/* Views into *c. */
struct listen_options api_listen_options(const struct config *c);

#endif
