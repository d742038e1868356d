/* strangers.h - requests that show no credential that their thread knows: bounded, so that they do not
 * take its time from clients with a known credential. An engine has one for each reactor, a platform one.
 *
 * There are two kinds: requests that need no credential, and requests with an unknown one. The
 * thread gives each kind LIMIT_STRANGER_SHARE percent of its time. Of the second kind only false
 * credentials count: new clients are not slowed by their own number. Beyond the share, requests
 * are parked, and a few are handled every two milliseconds. A new credential is known after it was verified
 * once.
 *
 * False credentials also slow their source. The source is the connection, and the address of the
 * client (an IPv6 address by its first 64 bits). For a request that a trusted proxy has forwarded,
 * it is the address alone, and for a Unix socket without one the connection alone. Known
 * credentials are never slowed, wherever they come from. One thread. */
#ifndef API_STRANGERS_H
#define API_STRANGERS_H

#include "api/api.h"
#include "base/limits.h"
#include "loop/loop.h"

enum stranger_kind { STRANGER_PUBLIC, STRANGER_UNKNOWN, STRANGER_KINDS };

struct stranger { /* a parked request */
    struct http_token token;
    uint64_t due_ms; /* of the loop's clock */
    enum stranger_kind kind;
    bool is_slowed; /* its source has shown false credentials: it comes after others */
};

struct false_address {
    struct client_address address;
    uint32_t count;   /* one less for each second since: see `seen_ms` */
    uint64_t seen_ms; /* 0: free */
    uint64_t until_ms;
};

struct strangers_ports {
    struct api *api;
    struct loop *loop;
    struct http_server *const *server;
    enum metric waited, refused, closed;                     /* requests, requests, connections */
    void (*proceed)(void *context, struct http_exchange *x); /* handles a request */
    void *context;
};

struct strangers {
    struct strangers_ports ports;
    bool draining; /* set by its owner: no request waits any more */
    /* when a request was last slowed, or its connection closed; of the loop's clock, 0: never */
    _Atomic uint64_t slowed_ms;
    struct stranger *parked; /* LIMIT_STRANGERS */
    size_t count;
    struct false_address *addresses; /* LIMIT_STRANGER_ADDRESSES, in sets */
    uint64_t seed;                   /* of the sets */
    int64_t left_ns[STRANGER_KINDS]; /* of their shares; below 0: used up */
    uint64_t filled_ns;
    bool shown_false; /* by the request that is being handled */
    struct loop_timer timer;
};

void strangers_init(struct strangers *s, const struct strangers_ports *ports);
void strangers_fini(struct strangers *s);

/* Handles the request, parks it, or refuses it. */
void strangers_handle(struct strangers *s, struct http_exchange *x);
/* For a request whose body has not arrived, which cannot be parked: whether its credential may be
 * verified now. If so, strangers_verified() follows. */
bool strangers_may_verify(struct strangers *s, const struct http_exchange *x,
                          uint64_t *ret_begun_ns);
void strangers_verified(struct strangers *s, uint64_t begun_ns);
/* A credential of this request was refused with 401. */
void strangers_note_false(struct strangers *s, const struct http_exchange *x);
/* The keys have changed, so a credential that was false may be good now: no source waits on. */
void strangers_new_keys(struct strangers *s);
/* Whether a source of false credentials was slowed within the last ten seconds. Any thread; the time is
 * that of a loop's clock. */
bool strangers_are_slowed(const struct strangers *s, uint64_t now_ms);
#define STRANGERS_TEXT                                                                             \
    "false credentials are shown, and their connections and addresses are slowed; known ones are not"

#endif
