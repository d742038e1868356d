/* providers.h - identity providers (src/oidc) at the platform: requests that wait for a provider's
 * documents, the exchange of a sign-in's code, and callers with a provider's token.
 *
 *   Authorization: Bearer JWT ─▶ verified ─▶ person ─▶ caller        own routes
 *                                                └─▶ assertion      routes of the engine
 *
 * A request whose provider is being fetched is parked (http_park()) and handled again from the start.
 * Belongs to the reactor. */
#ifndef PLATFORM_PROVIDERS_H
#define PLATFORM_PROVIDERS_H

#include "http/server.h"
#include "loop/loop.h"
#include "oidc/oidc.h"

struct job;
struct platform;

/* that wait for a provider's documents; one more is answered as if the wait were over */
enum { PROVIDER_PARKED_MAX = 64 };

struct providers {
    struct oidc *oidc; /* NULL: none is configured */
    struct oidc_settings settings[OIDC_PROVIDERS_MAX];
    struct loop_wakeup fetched;
    struct http_token parked[PROVIDER_PARKED_MAX];
    size_t parked_count;
};

/* Checks the options oidc.… and starts the thread if there are some. ERR_BAD_VALUE. */
enum err providers_start(struct platform *p, struct fault *f);
/* Before the end of the jobs: those of exchanges under way return with an error. */
void providers_stop(struct platform *p);
void providers_destroy(struct platform *p);

enum provider_step {
    PROVIDER_REFUSED, /* with the fault */
    PROVIDER_PARKED,  /* the request will be handled again */
    PROVIDER_FOUND
};
/* The endpoints of a provider (a number below oidc_count()), in a handler. ERR_PROVIDER_UNAVAILABLE. */
enum provider_step provider_endpoints(struct platform *p, struct http_exchange *x, size_t provider,
                                      struct oidc_endpoints *ret, struct fault *f);
/* Defers `x` and exchanges a code. `e` is in the job's arena, with its provider, code, verifier,
 * redirect_uri and nonce, copied into the arena, too. Then job_finish() calls j->done() with j->err,
 * j->fault and *e; it answers the job, or sends it on (job_send_on()). `j->work` must be set. */
void provider_exchange(struct job *j, struct http_exchange *x, struct oidc_exchange *e);

/* Whether the request's credential is a token of one of our providers, verified or not. */
bool bearer_shown(struct platform *p, const struct http_exchange *x);
/* Whether the token that it shows was verified before. */
bool bearer_is_known(struct platform *p, const struct http_exchange *x);
/* For a request that shows one, in its handler: sets p->caller for a route with these roles, and
 * p->identity, which are valid until the handler returns. Errors of oidc_verify_bearer() and of
 * api_admit(). */
enum provider_step bearer_admit(struct platform *p, struct http_exchange *x, uint32_t roles,
                                struct fault *f);
/* The credential with which the engine accepts this request as a call of p->identity. False: `out` has
 * no room. */
bool bearer_assert(struct platform *p, const struct http_exchange *x, struct buf *out);

/* The text for /healthz about the first provider whose last fetch failed; false: there is none. */
enum { PROVIDER_TROUBLE_TEXT = 400 };
bool providers_trouble(struct platform *p, char to[PROVIDER_TROUBLE_TEXT]);
/* ,"providers":[…] for /healthz. */
void providers_put(struct buf *out, struct platform *p);

#endif
