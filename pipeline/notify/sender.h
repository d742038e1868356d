/* sender.h - sends messages by HTTP and SMTP with libcurl, one at a time for each place.
 *
 * The other side is not trusted: a redirect is not followed, of an answer SENDER_ANSWER_BYTES are
 * read, everything together takes SENDER_MS at most, and the address is checked when it is
 * connected to (so that a name cannot lead elsewhere than it did when it was checked). A connection
 * serves one message. Proxies of the environment are not used. Certificates are always verified.
 *
 * Belongs to one thread, except for sender_wake(). libcurl looks up names on threads of its own. */
#ifndef NOTIFY_SENDER_H
#define NOTIFY_SENDER_H

#include "base/str.h"

enum {
    SENDER_MS = 10000,
    SENDER_CONNECT_MS = 5000,
    SENDER_ANSWER_BYTES = 4096,
    SENDER_HEAD_BYTES = 16384,
    SENDER_HEADERS_MAX = 6,
    SENDER_ERROR_TEXT = 200,
};

struct sender;

struct send_request { /* all of it is copied */
    const char *url;  /* http:, https:, smtp: or smtps: */
    struct str body;
    const char *headers[SENDER_HEADERS_MAX]; /* "name: value"; HTTP */
    size_t header_count;
    const char *from, *to, *user, *password; /* SMTP; `to` with commas between; user "": no login */
    bool allow_private, allow_plaintext;
};

struct send_result {
    bool is_delivered;
    char error[SENDER_ERROR_TEXT]; /* without address and secrets */
    uint64_t retry_after_s;        /* as the other side asks; 0: it does not */
};

/* `ca_file`: of the authorities; "": the system's. NULL: no memory. */
struct sender *sender_create(size_t places, const char *ca_file);
void sender_destroy(struct sender *s); /* gives up what is under way */

/* The place is free. False: no memory, nothing was begun. */
bool sender_begin(struct sender *s, size_t place, const struct send_request *r);
bool sender_is_busy(const struct sender *s, size_t place);
/* Works until something has ended, the time is over, or sender_wake() was called. */
void sender_work(struct sender *s, int timeout_ms);
/* Whether the place's message has ended; then it is free again. */
bool sender_take(struct sender *s, size_t place, struct send_result *ret);
void sender_wake(struct sender *s); /* any thread */

#endif
