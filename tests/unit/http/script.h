/* script.h - a peer in a thread of its own, which does as its script says; also
 * what no server should do. */
#ifndef TESTS_HTTP_SCRIPT_H
#define TESTS_HTTP_SCRIPT_H

#include "unit/http/rig.h"

#include <pthread.h>
#include <stdatomic.h>

/* For each connection one line of the script: answers to successive requests, separated by `|`.
 * After the last one it closes. An empty answer closes without a word; "~" never answers. */
struct script {
    const char *const *lines;
    size_t count;
    int listener;
    _Atomic size_t connections, requests;
    char address[64];
    /* of the last two requests, in turns: one may be read while the next one comes */
    char texts[2][4096];
    pthread_t thread;
    uint64_t longest_pause_ms; /* between two of its bytes, where those come slowly */
};

static inline bool request_is_whole(const char *text, size_t size)
{
    const char *end = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
    if (end == NULL) return false;
    size_t body = length != NULL && length < end ? strtoul(length + 16, NULL, 10) : 0;
    return size >= (size_t)(end + 4 - text) + body;
}

static inline bool read_request(struct script *s, int fd)
{
    char *text = s->texts[atomic_load(&s->requests) % 2];
    size_t size = 0;
    for (;;) {
        ssize_t got = recv(fd, text + size, sizeof s->texts[0] - 1 - size, 0);
        if (got <= 0) return false;
        size += (size_t)got;
        text[size] = '\0';
        if (request_is_whole(text, size)) return true;
    }
}

static inline void wait_for_end(int fd)
{
    char bytes[16 << 10]; /* one by one, megabytes take longer than a call may */
    while (recv(fd, bytes, sizeof bytes, 0) > 0) continue;
}

static inline void serve_line(struct script *s, int fd, const char *line)
{
    struct str rest = str_from(line), answer;
    while (str_split(&rest, '|', &answer)) {
        if (!read_request(s, fd)) return;
        atomic_fetch_add(&s->requests, 1);
        if (str_equal(answer, STR("~"))) {
            wait_for_end(fd);
            return;
        }
        if (answer.size > 0) send(fd, answer.bytes, answer.size, MSG_NOSIGNAL);
    }
}

static inline void *serve_script(void *argument)
{
    struct script *s = argument;
    for (size_t i = 0; i < s->count; i++) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0) break;
        atomic_fetch_add(&s->connections, 1);
        serve_line(s, fd, s->lines[i]);
        close(fd);
    }
    return NULL;
}

static inline void script_start(struct script *s, const char *const *lines, size_t count)
{
    *s = (struct script){.lines = lines, .count = count};
    struct sockaddr_in at;
    s->listener = rig_listen(&at);
    snprintf(s->address, sizeof s->address, "http://127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, serve_script, s), 0);
}

static inline const char *last_request(struct script *s)
{
    unsigned count = (unsigned)atomic_load(&s->requests);
    assert_true(count > 0);
    return s->texts[(count - 1) % 2];
}

static inline void script_stop(struct script *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

#endif
