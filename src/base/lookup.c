#include "base/lookup.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lookup {
    char host[NI_MAXHOST], port[NI_MAXSERV]; /* "": no port */
    int flags;
    int fd;                /* the thread that started the lookup opens and closes it */
    pthread_mutex_t mutex; /* of both threads: the last of them frees the lookup */
    bool is_over, is_left;
    int outcome; /* final when is_over */
    struct addrinfo *found;
};

static void release(struct lookup *l)
{
    if (l->found != NULL) freeaddrinfo(l->found);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

void lookup_leave(struct lookup *l)
{
    if (l == NULL) return;
    pthread_mutex_lock(&l->mutex);
    close(l->fd);
    l->is_left = true;
    bool is_over = l->is_over;
    pthread_mutex_unlock(&l->mutex);
    if (is_over) release(l);
}

static void *run(void *context)
{
    struct lookup *l = context;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | l->flags};
    l->outcome = getaddrinfo(l->host, l->port[0] == '\0' ? NULL : l->port, &hints, &l->found);
    pthread_mutex_lock(&l->mutex);
    bool is_left = l->is_left;
    if (!is_left) (void)eventfd_write(l->fd, 1); /* its counter was 0, so there is room */
    l->is_over = true;
    pthread_mutex_unlock(&l->mutex);
    if (is_left) release(l);
    return NULL;
}

struct lookup *lookup_start(const char *host, const char *port, int flags)
{
    struct lookup *l = calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    pthread_t thread;
    snprintf(l->host, sizeof l->host, "%s", host);
    snprintf(l->port, sizeof l->port, "%s", port == NULL ? "" : port);
    l->flags = flags;
    pthread_mutex_init(&l->mutex, NULL);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->fd >= 0 && pthread_create(&thread, NULL, run, l) == 0) {
        pthread_detach(thread);
        return l;
    }
    if (l->fd >= 0) close(l->fd);
    release(l);
    return NULL;
}

bool lookup_is_of(const struct lookup *l, const char *host, const char *port)
{
    return strcmp(l->host, host) == 0 && strcmp(l->port, port == NULL ? "" : port) == 0;
}

int lookup_fd(const struct lookup *l) { return l->fd; }

bool lookup_is_over(struct lookup *l)
{
    pthread_mutex_lock(&l->mutex);
    bool is_over = l->is_over;
    pthread_mutex_unlock(&l->mutex);
    return is_over;
}

bool lookup_wait(struct lookup *l, uint32_t most_ms)
{
    struct pollfd end = {.fd = l->fd, .events = POLLIN};
    (void)poll(&end, 1, (int)most_ms);
    return lookup_is_over(l);
}

const struct addrinfo *lookup_found(const struct lookup *l, const char **ret_why)
{
    if (l->outcome != 0) *ret_why = gai_strerror(l->outcome);
    return l->outcome == 0 ? l->found : NULL;
}

int lookup_take(struct lookup *l, struct addrinfo **ret)
{
    if (l->outcome != 0) return l->outcome;
    *ret = l->found;
    l->found = NULL;
    return 0;
}
