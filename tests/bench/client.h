/* client.h - what the bench's clients share: leaving with a sentence, memory, time, one
 * connection. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The system said no: errno's words, status 1. */
static inline _Noreturn void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

/* Whoever called this asked for what cannot be: status 2. */
static inline _Noreturn void refuse(const char *what)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(2);
}

static inline void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) die("memory");
    return memory;
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* HOST:PORT, HOST an IPv4 address. */
static inline struct sockaddr_in address_read(const char *text)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host)
        refuse("--address must be HOST:PORT");
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
        refuse("--address: HOST must be an IPv4 address");
    return to;
}

static inline int connect_to(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to) != 0) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

#endif
