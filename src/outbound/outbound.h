/* outbound.h - requests to other machines over the internet, by HTTP and SMTP, with libcurl: messages of
 * channels, the documents of identity providers, and checkpoints to their anchors. One request at a time for each place.
 *
 * The other side is not trusted: a redirect is not followed, an answer is read up to a bound, everything
 * together takes OUTBOUND_MS at most, and the address is checked when it is connected to (so that a name
 * cannot lead elsewhere than it did when it was checked). A connection serves one request. Proxies of the
 * environment are not used. Certificates are always verified.
 *
 * Belongs to one thread, except for outbound_wake(). libcurl looks up names on threads of its own. */
#ifndef OUTBOUND_OUTBOUND_H
#define OUTBOUND_OUTBOUND_H

#include "base/str.h"

enum {
    OUTBOUND_MS = 10000,
    OUTBOUND_CONNECT_MS = 5000,
    OUTBOUND_UNWANTED_BYTES = 4096, /* of an answer that is not wanted */
    OUTBOUND_HEAD_BYTES = 16384,
    OUTBOUND_HEADERS_MAX = 6,
    OUTBOUND_ERROR_TEXT = 200,
};

struct outbound;

enum outbound_method { OUTBOUND_POST, OUTBOUND_PUT, OUTBOUND_GET, OUTBOUND_MAIL };

struct outbound_request { /* all of it is copied */
    enum outbound_method method;
    const char *url; /* http: or https:; of mail smtp: or smtps: */
    struct str body;
    const char *headers[OUTBOUND_HEADERS_MAX]; /* "name: value"; HTTP */
    size_t header_count;
    const char *from, *to;       /* mail; `to` with commas between */
    const char *user, *password; /* NULL or "": no login; of HTTP, in the scheme Basic */
    /* Of HTTP: "aws:amz:REGION:s3", to sign the request with user and password (AWS Signature 4)
     * instead. One of the headers is then x-amz-content-sha256, and none is without a value. NULL: it is not
     * signed. */
    const char *signature;
    size_t answer_max; /* bytes that are kept; 0: the answer is not wanted */
    bool allow_private, allow_plaintext;
};

struct outbound_result {
    bool is_delivered; /* a mail, or an HTTP request with a complete answer of 2xx */
    long status;       /* of HTTP; 0: there was no answer */
    /* Valid until the next request of this place. An error's answer is kept, too. */
    struct str answer;
    char error[OUTBOUND_ERROR_TEXT]; /* without address and secrets */
    uint64_t retry_after_s;          /* as the other side asks; 0: it does not */
};

/* `ca_file`: of the authorities; "": the system's. NULL: no memory. */
struct outbound *outbound_create(size_t places, const char *ca_file);
void outbound_destroy(struct outbound *s); /* gives up what is under way */

/* The place is free. False: no memory, nothing was begun. */
bool outbound_begin(struct outbound *s, size_t place, const struct outbound_request *r);
bool outbound_is_busy(const struct outbound *s, size_t place);
/* Works until something has ended, the time is over, or outbound_wake() was called. */
void outbound_work(struct outbound *s, int timeout_ms);
/* Whether the place's request has ended; then it is free again. */
bool outbound_take(struct outbound *s, size_t place, struct outbound_result *ret);
void outbound_wake(struct outbound *s); /* any thread */

#endif
