/* reach.h - how brokers are reached: by names, and over connections that the network may forget.
 *
 * The client library asks for a name on the thread of its broker, which cannot be joined before
 * getaddrinfo() is over: so it asks here, where a lookup has a thread of its own (base/lookup.h).
 * One that takes longer than REACH_NAME_MS goes on, and the next attempt takes it up: a name server
 * that is slow is waited for, and one that says nothing holds up the end of a program by a second.
 * (libpq takes no addresses from us: the store asks here whether it would be answered.)
 *
 * Packets that nobody acknowledges end a connection after REACH_SILENCE_MS (RFC 5482;
 * keepalives send some where nothing else is under way). The kernel's own patience is a quarter
 * of an hour, the library's a minute.
 *
 * Any thread. */
#ifndef TOPIC_REACH_H
#define TOPIC_REACH_H

#include <pthread.h>
#include <stdbool.h>

enum {
    REACH_NAME_MS = 1000,
    REACH_SILENCE_MS = 10000,
    REACH_NAMES = 16, /* that take so long; of more than these each attempt begins anew */
};

struct addrinfo;

struct reach {
    pthread_mutex_t lock;
    struct lookup *late[REACH_NAMES]; /* nobody waits for them now */
};

void reach_init(struct reach *r);
void reach_fini(struct reach *r); /* nobody asks any more */

/* As getaddrinfo(), whose flags these are: EAI_AGAIN where it takes longer.
 * freeaddrinfo() is the caller's. */
int reach_name(struct reach *r, const char *host, const char *port, int flags,
               struct addrinfo **ret);
/* Whether a name server says anything about it in time, be it that nobody has this name. */
bool reach_is_answered(struct reach *r, const char *host);
/* As socket(): a TCP connection to be, which does not outlive the silence of its other end. */
int reach_socket(int domain, int type, int protocol);

#endif
