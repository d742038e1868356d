/* reach.h - connections to brokers: name lookups, and connections that the network may drop
 * silently.
 *
 * The client library looks a name up on the thread of its broker, which cannot be joined before
 * getaddrinfo() is over. So it calls this room, where each lookup has a thread of its own
 * (base/lookup.h). A lookup that takes longer than REACH_NAME_MS continues, and the next attempt
 * uses its result. So a slow name server is waited for, and a silent one delays the end of a
 * program by only a second. (libpq accepts no addresses from us: the store only checks here whether
 * a lookup would be answered.)
 *
 * A connection ends if its packets are not acknowledged for REACH_SILENCE_MS (RFC 5482; keepalives
 * send some if there is no other traffic). The kernel's own limit is a quarter of an hour, the
 * library's a minute.
 *
 * Any thread. */
#ifndef BASE_REACH_H
#define BASE_REACH_H

#include <pthread.h>
#include <stdbool.h>

enum {
    REACH_NAME_MS = 1000,
    REACH_SILENCE_MS = 10000,
    /* lookups that take so long; with more than these each attempt starts a new one */
    REACH_NAMES = 16,
};

struct addrinfo;

struct reach {
    pthread_mutex_t lock;
    struct lookup *late[REACH_NAMES]; /* the attempt that needed them is over */
};

void reach_init(struct reach *r);
void reach_fini(struct reach *r); /* no attempt needs it any more */

/* As getaddrinfo(), with its flags: EAI_AGAIN if it takes longer. The caller calls
 * freeaddrinfo(). */
int reach_name(struct reach *r, const char *host, const char *port, int flags,
               struct addrinfo **ret);
/* Whether a name server answers in time, perhaps that the name does not exist. */
bool reach_is_answered(struct reach *r, const char *host);
/* As socket(): for a TCP connection that ends when its other end is silent for too long. */
int reach_socket(int domain, int type, int protocol);

#endif
