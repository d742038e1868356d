/* listen.h - what a program listens on: a TCP address, and beside it, where they are wanted, one with
 * TLS and a Unix socket. Each accepted socket is handed on.
 *
 * Belongs to one loop's thread. Accepted sockets are non-blocking and close-on-exec. When
 * accept() fails, because the process has no descriptors left or for another reason, accepting
 * pauses for 100 ms. The start of the pause is logged, and its end, when all waiting clients are
 * accepted. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/fault.h"
#include "http/socket_kind.h"
#include "loop/loop.h"

struct listener;

/* What a program listens on. The addresses are host:port ("127.0.0.1:8080", "[::1]:8080",
 * "localhost:8080"; port 0 takes any free one). */
struct listen_options {
    struct str address; /* without TLS; "": none */
    struct str path;    /* of a Unix socket; "": none */
    struct str tls;     /* with TLS; "": none */
    bool may_be_public; /* `address` need not be a loopback address */
};

struct listeners {                        /* starts out zeroed */
    struct listener *kinds[SOCKET_KINDS]; /* NULL: none */
};

/* Takes the addresses, so that another program cannot have them. No client is accepted before
 * listeners_start(). The file of a stale Unix socket is replaced, a live one refused. ERR_EXISTS
 * (in use), ERR_BAD_VALUE, ERR_IO; the caller still has to stop the listeners that were opened. */
enum err listeners_open(struct listeners *l, const struct listen_options *options, struct fault *f);
/* `take` owns the descriptor. ERR_EXISTS: another program has taken the same address first.
 * ERR_IO. */
enum err listeners_start(const struct listeners *l, struct loop *loop,
                         void (*take)(void *context, int fd, enum socket_kind kind), void *context,
                         struct fault *f);
/* Accepts no more, whether they were started or not; removes the Unix socket's file. Zeroed again. */
void listeners_stop(struct listeners *l);
/* The address of that kind: "127.0.0.1:8080"; "": there is none. NUL-terminated, good until they are
 * stopped. */
const char *listeners_address(const struct listeners *l, enum socket_kind kind);

#endif
