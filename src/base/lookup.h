/* lookup.h - looks up a name's addresses in a thread of its own.
 *
 * getaddrinfo() cannot be cancelled. If no name server answers, it lasts until all of them were
 * tried for each search domain: half a minute is usual. So the caller continues in the meantime,
 * and checks again later or leaves. A lookup that was left ends by itself. All functions are for
 * one thread. */
#ifndef BASE_LOOKUP_H
#define BASE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

struct lookup;
struct addrinfo; /* netdb.h: its names would collide with names of files that include this header */

/* `port` is a number, or NULL; `flags` are additional flags of getaddrinfo(), or 0. NULL: there
 * is no memory, thread or descriptor for it. */
struct lookup *lookup_start(const char *host, const char *port, int flags);
bool lookup_is_of(const struct lookup *l, const char *host, const char *port);
int lookup_fd(const struct lookup *l); /* readable as soon as the lookup is over: for a loop */
bool lookup_is_over(struct lookup *l);
/* Waits for its end, for at most so long; returns whether it is over. */
bool lookup_wait(struct lookup *l, uint32_t most_ms);
/* After its end: addresses of SOCK_STREAM, valid until it is left; NULL if there are none, and
 * *ret_why is the cause. */
const struct addrinfo *lookup_found(const struct lookup *l, const char **ret_why);
/* The same with the result of getaddrinfo(); the caller then calls freeaddrinfo(). */
int lookup_take(struct lookup *l, struct addrinfo **ret);
void lookup_leave(struct lookup *l); /* accepts NULL */

#endif
