/* lookup.h - asks for a name's addresses on a thread of its own.
 *
 * getaddrinfo() cannot be ended, and where no name server answers it lasts as long as all of
 * them are tried for each search domain: half a minute is usual. So whoever asks goes on
 * meanwhile, looks again later, or leaves; a lookup that was left ends by itself. All but the
 * asking itself is for one thread. */
#ifndef BASE_LOOKUP_H
#define BASE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

struct lookup;
struct addrinfo; /* netdb.h: its names would meet those of whoever only asks */

/* `port` is a number, or NULL; `flags` are more of getaddrinfo()'s, or 0. NULL: there is no memory,
 * thread or descriptor for it. */
struct lookup *lookup_start(const char *host, const char *port, int flags);
bool lookup_is_of(const struct lookup *l, const char *host, const char *port);
int lookup_fd(const struct lookup *l); /* readable from its end on: for a loop */
bool lookup_is_over(struct lookup *l);
/* Waits for its end, so long at most; whether it is over. */
bool lookup_wait(struct lookup *l, uint32_t most_ms);
/* Once it is over: of SOCK_STREAM, valid until it is left; NULL where there are
 * none, and *ret_why says why. */
const struct addrinfo *lookup_found(const struct lookup *l, const char **ret_why);
/* The same as getaddrinfo() would tell it; freeaddrinfo() is the caller's then. */
int lookup_take(struct lookup *l, struct addrinfo **ret);
void lookup_leave(struct lookup *l); /* accepts NULL */

#endif
