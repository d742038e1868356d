/* peer.h - a program at the other end of a Unix socket that notes each request and gives the
 * answers it was told to, one after another (the last one again and again). */
#ifndef TESTS_PUBLISH_PEER_H
#define TESTS_PUBLISH_PEER_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEER_ANSWERS = 16, PEER_REQUESTS = 32, PEER_BYTES = 256 << 10 };

struct peer {
    char folder[64], address[128]; /* "unix:/…" */
    int listener, stop[2];
    pthread_t thread;
    pthread_mutex_t lock;
    struct {
        int status;
        const char *headers; /* whole lines, each with CR LF; NULL: none */
        const char *body;
    } answers[PEER_ANSWERS];
    size_t answer_count;
    char *requests[PEER_REQUESTS]; /* head and body, NUL-terminated */
    size_t request_count;
};

static inline size_t peer_body_size(const char *head)
{
    for (const char *at = head; (at = strstr(at, "\r\n")) != NULL; at += 2)
        if (strncasecmp(at + 2, "content-length:", 15) == 0)
            return (size_t)strtoull(at + 17, NULL, 10);
    return 0;
}

/* One whole request into `bytes`; false: the client went away, or the test ends. */
static inline bool peer_read(struct peer *p, int fd, char *bytes)
{
    size_t have = 0, head = 0;
    for (;;) {
        struct pollfd wait[2] = {{fd, POLLIN, 0}, {p->stop[0], POLLIN, 0}};
        if (poll(wait, 2, -1) < 0 || (wait[1].revents & (POLLIN | POLLHUP)) != 0) return false;
        ssize_t got = read(fd, bytes + have, PEER_BYTES - 1 - have);
        if (got <= 0) return false;
        have += (size_t)got;
        bytes[have] = '\0';
        char *end = strstr(bytes, "\r\n\r\n");
        if (end == NULL) continue;
        head = (size_t)(end - bytes) + 4;
        if (have >= head + peer_body_size(bytes)) return true;
    }
}

static inline void peer_answer(struct peer *p, int fd, char *request)
{
    pthread_mutex_lock(&p->lock);
    size_t i = p->request_count < p->answer_count ? p->request_count : p->answer_count - 1;
    if (p->request_count < PEER_REQUESTS) p->requests[p->request_count] = strdup(request);
    p->request_count++;
    const char *body = p->answers[i].body == NULL ? "" : p->answers[i].body;
    const char *headers = p->answers[i].headers == NULL ? "" : p->answers[i].headers;
    int status = p->answers[i].status;
    pthread_mutex_unlock(&p->lock);
    if (status == 0) return;
    dprintf(
        fd,
        "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
        status, headers, strlen(body), body);
}

static inline void *peer_run(void *context)
{
    struct peer *p = context;
    char *bytes = malloc(PEER_BYTES);
    for (;;) {
        struct pollfd wait[2] = {{p->listener, POLLIN, 0}, {p->stop[0], POLLIN, 0}};
        if (poll(wait, 2, -1) < 0 || (wait[1].revents & (POLLIN | POLLHUP)) != 0) break;
        int fd = accept(p->listener, NULL, NULL);
        if (fd >= 0 && peer_read(p, fd, bytes)) peer_answer(p, fd, bytes);
        if (fd >= 0) close(fd);
    }
    free(bytes);
    return NULL;
}

static inline struct peer *peer_create(void)
{
    struct peer *p = calloc(1, sizeof *p);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (p == NULL) abort();
    snprintf(p->folder, sizeof p->folder, "/tmp/writ-peer-XXXXXX");
    if (mkdtemp(p->folder) == NULL || pipe(p->stop) != 0) abort();
    snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", p->folder);
    snprintf(p->address, sizeof p->address, "unix:%s", at.sun_path);
    pthread_mutex_init(&p->lock, NULL);
    p->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(p->listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(p->listener, 8) != 0)
        abort();
    if (pthread_create(&p->thread, NULL, peer_run, p) != 0) abort();
    return p;
}

/* The next request without an answer gets this (status 0: the connection's
 * end); told before it comes. */
static inline void peer_will_answer(struct peer *p, int status, const char *headers,
                                    const char *body)
{
    pthread_mutex_lock(&p->lock);
    if (p->answer_count == PEER_ANSWERS) abort();
    p->answers[p->answer_count].status = status;
    p->answers[p->answer_count].headers = headers;
    p->answers[p->answer_count++].body = body;
    pthread_mutex_unlock(&p->lock);
}

/* What was asked, and how often; a request is noted before its answer leaves. */
static inline const char *peer_request(struct peer *p, size_t index)
{
    pthread_mutex_lock(&p->lock);
    const char *request = p->requests[index];
    pthread_mutex_unlock(&p->lock);
    return request;
}

static inline size_t peer_request_count(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    size_t count = p->request_count;
    pthread_mutex_unlock(&p->lock);
    return count;
}

static inline void peer_destroy(struct peer *p)
{
    close(p->stop[1]); /* its end is the sign */
    pthread_join(p->thread, NULL);
    close(p->stop[0]);
    close(p->listener);
    unlink(p->address + 5);
    rmdir(p->folder);
    for (size_t i = 0; i < PEER_REQUESTS; i++) free(p->requests[i]);
    free(p);
}

#endif
