/* console.h - the page for people (docs/guides/reviewers.md), from files inside the program. It
 * belongs to the reactor. */
#ifndef PLATFORM_CONSOLE_H
#define PLATFORM_CONSOLE_H

#include "api/api.h"

struct console;

/* `api` outlives it. */
struct console *console_create(struct api *api);
void console_destroy(struct console *c); /* accepts NULL */

/* Each replies. */
void console_root(struct console *c, struct http_exchange *x);     /* GET / */
void console_redirect(struct console *c, struct http_exchange *x); /* GET /console */
void console_index(struct console *c, struct http_exchange *x);    /* GET /console/ */
void console_file(struct console *c, struct http_exchange *x); /* GET /console/{digest}/{file} */

#endif
