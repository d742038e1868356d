/* sessions.h - from a browser's cookie to a caller.
 *
 *   cookie ─▶ SHA-256 ─▶ looked up less than a second ago? ─▶ caller
 *                            │ no                      ▲
 *                            └▶ the request is parked ─┴─ read by a reader
 *
 * The store has the sessions (store/session_store.h). The reactor keeps those that it looked up for
 * SESSION_FRESH_MS, so a sign-out on another platform holds here within that time; one on this
 * platform holds at once. On each use it checks that the session is not over and that its API key is
 * in force: a revoked key ends its sessions at once.
 *
 * Belongs to the reactor. */
#ifndef PLATFORM_SESSIONS_H
#define PLATFORM_SESSIONS_H

#include "api/api.h"
#include "store/session_store.h"

struct platform;
struct sessions;

enum {
    SESSION_FRESH_MS = 1000,
    SESSIONS_KEPT = 1024,   /* that were looked up; the oldest make room */
    SESSIONS_PARKED = 1024, /* requests that wait for a lookup; one more: 503 `overloaded` */
};

struct sessions *sessions_create(void);
void sessions_destroy(struct sessions *s);

enum session_step {
    SESSION_REFUSED, /* with the fault */
    SESSION_PARKED,  /* the request will be handled again */
    SESSION_FOUND,   /* p->session */
};
/* For a request that shows a cookie (browser.h), in its handler. Checks the cookie, origin and token,
 * and sets p->session, which is valid until the handler returns, and p->caller for a route with these
 * roles. Errors of browser_check() and of api_admit(); ERR_SESSION_ENDED; ERR_OVERLOADED. */
enum session_step session_admit(struct platform *p, struct http_exchange *x, uint32_t roles,
                                struct fault *f);
/* This platform has ended it. */
void session_forget(struct platform *p, const struct sha256 *hash);
/* The same for all sessions of a person; `tenant` absent: of any tenant. */
void session_forget_person(struct platform *p, struct str tenant, struct str person);

/* The credential with which the engine accepts this request as a call of p->session. False: `out`
 * has no room. */
bool session_assert(struct platform *p, const struct http_exchange *x, struct buf *out);

#endif
