#include "base/reach.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/lookup.h"

void reach_init(struct reach *r)
{
    *r = (struct reach){0};
    check(pthread_mutex_init(&r->lock, NULL) == 0);
}

void reach_fini(struct reach *r)
{
    for (size_t i = 0; i < REACH_NAMES; i++) lookup_leave(r->late[i]);
    pthread_mutex_destroy(&r->lock);
}

/* ---- names ---- */

static struct lookup *take_up(struct reach *r, const char *host, const char *port)
{
    struct lookup *found = NULL;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < REACH_NAMES && found == NULL; i++) {
        if (r->late[i] == NULL || !lookup_is_of(r->late[i], host, port)) continue;
        found = r->late[i];
        r->late[i] = NULL;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void leave_for_later(struct reach *r, struct lookup *l)
{
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < REACH_NAMES && l != NULL; i++) {
        if (r->late[i] != NULL) continue;
        r->late[i] = l;
        l = NULL;
    }
    pthread_mutex_unlock(&r->lock);
    lookup_leave(l);
}

int reach_name(struct reach *r, const char *host, const char *port, int flags,
               struct addrinfo **ret)
{
    struct lookup *l = take_up(r, host, port);
    if (l == NULL) l = lookup_start(host, port, flags);
    if (l == NULL) return EAI_MEMORY;
    if (!lookup_wait(l, REACH_NAME_MS)) {
        leave_for_later(r, l);
        return EAI_AGAIN;
    }
    int outcome = lookup_take(l, ret);
    lookup_leave(l);
    return outcome;
}

bool reach_is_answered(struct reach *r, const char *host)
{
    struct addrinfo *found = NULL;
    int outcome = reach_name(r, host, NULL, 0, &found);
    if (outcome == 0) freeaddrinfo(found);
    return outcome != EAI_AGAIN;
}

/* ---- connections ---- */

int reach_socket(int domain, int type, int protocol)
{
    static const int on = 1, silence_ms = REACH_SILENCE_MS, idle_s = 5, interval_s = 2;
    int fd = socket(domain, type | SOCK_CLOEXEC, protocol);
    if (fd < 0) return fd;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    return fd;
}
