/* listen.h - what a program listens on: a TCP address, and a Unix socket beside it where one is
 * wanted. Each accepted socket is handed on.
 *
 * Belongs to one loop's thread. Accepted sockets are non-blocking and close-on-exec. When the
 * process has no descriptors left, or nobody can be accepted for another reason, accepting pauses for
 * 100 ms; that is told when it begins, and when all who waited are in. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/fault.h"
#include "loop/loop.h"

struct listener;

struct listeners { /* starts out zeroed */
    struct listener *tcp;
    struct listener *local; /* on a Unix socket; NULL: none */
};

/* Takes the addresses, so that they are known to be ours; nobody gets in before listeners_start().
 * `address` is host:port ("127.0.0.1:8080", "[::1]:8080", "localhost:8080"; port 0 takes any free
 * one), `path` that of a Unix socket, or "": a stale socket file is replaced, a live one refused.
 * ERR_EXISTS (in use), ERR_BAD_VALUE, ERR_IO; what was opened is still to be stopped then. */
enum err listeners_open(struct listeners *l, struct str address, struct str path, struct fault *f);
/* `take` owns the descriptor. ERR_EXISTS: another opened the same address, and was first. ERR_IO. */
enum err listeners_start(const struct listeners *l, struct loop *loop,
                         void (*take)(void *context, int fd, bool is_unix), void *context,
                         struct fault *f);
/* Accepts no more, whether they were started or not; removes the Unix socket's file. Zeroed again. */
void listeners_stop(struct listeners *l);
/* The TCP address: "127.0.0.1:8080". NUL-terminated, good until they are stopped. */
const char *listeners_address(const struct listeners *l);

#endif
