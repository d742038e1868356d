/* redis.h - the only door to hiredis: one connection on the caller's loop,
 * with deadlines of our own.
 *
 * hiredis' asynchronous half knows no timeouts before 1.0 and no loop of ours at all: its hooks are
 * turned into a loop_fd, and a timer is set whenever an answer is owed. The user of a link writes
 * straight code: send, then turn the loop until the answers are there or the link is down. Every
 * callback is called exactly once. What a server may answer is bounded. One thread. */
#ifndef MIRROR_REDIS_H
#define MIRROR_REDIS_H

#include "base/fault.h"
#include "loop/loop.h"

enum { REDIS_HOST_TEXT = 256, REDIS_PATH_TEXT = 108 };

struct redis_address {
    bool is_unix, tls;
    char host[REDIS_HOST_TEXT]; /* or the socket's path */
    uint16_t port;
};

/* unix:/path, tcp://host[:port], redis://host[:port], rediss://host[:port] (TLS). ERR_BAD_VALUE: no
 * such form, or TLS where the library has none. */
enum err redis_address_read(struct str url, struct redis_address *ret, struct fault *f);

enum redis_kind { REDIS_NOTHING, REDIS_TEXT, REDIS_INTEGER, REDIS_LIST, REDIS_ERROR };

struct redis_value { /* valid during the callback */
    enum redis_kind kind;
    int64_t integer;
    struct str text; /* of TEXT and ERROR */
    size_t count;    /* of LIST */
    const void *inside;
};
/* Valid as long as the list; `index` is below its count. */
struct redis_value redis_value_at(const struct redis_value *list, size_t index);

struct redis_link;

/* What one answer may be. A larger one is not built: the link fails and says which bound it was. */
struct redis_bounds {
    size_t elements;   /* of a list; a list in a list is always refused */
    size_t text_bytes; /* of one text or line */
    size_t bytes;      /* of all its texts */
};
extern const struct redis_bounds redis_bounds_usual; /* after each opening */

struct redis_link_options {
    struct loop *loop;
    struct redis_address address;
    const char *user;          /* "" = none */
    const char *password_file; /* "" = no AUTH; read again at each opening, so it may rotate */
    const char *ca_file;       /* for TLS, which needs one */
    uint32_t timeout_ms;       /* to be found, to connect, and for each answer */
};

/* Closed. The options' texts are borrowed for its life. */
struct redis_link *redis_link_create(const struct redis_link_options *options);
void redis_link_destroy(struct redis_link *l);

/* TLS without a CA file is ERR_BAD_VALUE: the library compares no names, so only a CA of one's own
 * says that this is the right server. So is a CA file without TLS, and a user without a password:
 * who gives one relies on it. */
enum err redis_link_check(const struct redis_link_options *options, struct fault *f);

/* Connects and says who we are, beating the loop until that is done. ERR_STORE_UNAVAILABLE: it
 * cannot be reached, or does not take us; *f says which. */
enum err redis_link_open(struct redis_link *l, struct fault *f);
bool redis_link_is_up(const struct redis_link *l);
const char *redis_link_why(const struct redis_link *l); /* it is down; "" = not known */
void redis_link_fail(struct redis_link *l,
                     const char *why); /* closes; what is owed is answered with NULL */

/* `answered` gets NULL where the connection was lost. The arguments are copied. */
void redis_link_send(struct redis_link *l, const struct str *arguments, size_t count,
                     void (*answered)(void *context, const struct redis_value *v), void *context);
size_t redis_link_owed(const struct redis_link *l); /* answers */
/* Other bounds for what comes from now on. */
void redis_link_expect(struct redis_link *l, const struct redis_bounds *bounds);
/* Turns the loop until no more than `most` answers are owed. False: the link is down, as it is
 * after ten times its timeout, however steadily answers came. */
bool redis_link_await(struct redis_link *l, size_t most);
/* From now on no await outlasts this moment (monotonic, ms), not even one that is under way. */
void redis_link_hurry(struct redis_link *l, uint64_t until_ms);

#endif
