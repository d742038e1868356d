/* session_begin.h - a new session, however its person was identified: its cookie, its row.
 *
 * The cookie's value is drawn here, at the sign-in: never one that the browser had before. */
#ifndef PLATFORM_SESSION_BEGIN_H
#define PLATFORM_SESSION_BEGIN_H

#include "platform/platform.h"

/* The first part of the detail of a job that starts a session. */
struct session_begin {
    struct session session; /* person, tenant and rights are the caller's to fill */
    struct sign_in from;
    bool is_secure; /* the cookie's kind */
    uint64_t idle_ms;
    char secret[COOKIE_SECRET_TEXT]; /* the cookie's value */
};

/* Everything but person, tenant and rights. */
void session_begin_fill(struct platform *p, const struct client_address *client,
                        struct session_begin *b);
/* The session that the request's browser has shown, if it has one: the new one replaces it. */
void session_begin_replaces(const struct platform *p, const struct http_exchange *x,
                            struct sha256 *ret);
/* Writes the row; for struct job. */
void session_begin_work(struct job *j, struct store *s);
/* The row is written: sets the job's cookie, forgets the replaced session, and wipes the secret. */
void session_begin_done(struct job *j);

#endif
