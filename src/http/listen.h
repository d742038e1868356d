/* listen.h - listening sockets on a loop: TCP and Unix, each accepted socket handed on.
 *
 * Belongs to one loop's thread. Accepted sockets are non-blocking and close-on-exec. When the
 * process has no descriptors left, accepting pauses for 100 ms; that is told when it begins, and
 * when all who waited are in. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "base/fault.h"
#include "loop/loop.h"

struct listener;

/* Takes the address, so that it is known to be ours; nobody gets in before listen_start(). `address`
 * is host:port ("127.0.0.1:8080", "[::1]:8080", "localhost:8080"; port 0 takes any free one) or,
 * where `is_unix`, the path of a Unix socket; a stale socket file is replaced, a live one refused.
 * ERR_EXISTS (in use), ERR_BAD_VALUE, ERR_IO. */
enum err listen_open(struct str address, bool is_unix, struct listener **ret, struct fault *f);
/* `take` owns the descriptor. ERR_EXISTS: another opened the same address, and was first. ERR_IO. */
enum err listen_start(struct listener *l, struct loop *loop,
                      void (*take)(void *context, int fd, bool is_unix), void *context,
                      struct fault *f);
/* Accepts no more, whether it was started or not; removes a Unix socket's file. Accepts NULL. */
void listen_stop(struct listener *l);
/* What it listens on: "127.0.0.1:8080" or the path. NUL-terminated, owned by the listener. */
const char *listen_address(const struct listener *l);

#endif
