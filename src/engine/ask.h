/* ask.h - what is asked of the engine, in one form whichever route it came by.
 *
 *   agent route  POST /v1/agent/authorize   snake_case, `action`
 *   tool route   POST /api/v1/authorize     camelCase, `tool`
 *   user route   POST /v1/authorize         snake_case, `user_id`
 *
 * ask_read() checks every known member, settles tenant, actor and user with the credential, and
 * fills a policy_request. `null` counts as absent; a known member in the other route's casing is
 * refused; confidence, acting_for, scope and trace id may stand beside or inside `context`, but
 * not with different values. Everything lives in the request's arena. Pure. */
#ifndef ENGINE_ASK_H
#define ENGINE_ASK_H

#include "api/api.h"
#include "policy/policy.h"

enum ask_form { ASK_AGENT, ASK_TOOL, ASK_USER };

enum { ASK_SCOPES_MAX = 64, ASK_RESOURCE_STRINGS_MAX = 32 };

struct ask {
    enum ask_form form;
    struct policy_request policy; /* its context is without confidence and trace id */
    struct str trace_id;
    struct json *body;          /* as received, until it is masked: inputHash is of this */
    struct json *context;       /* as received, or NULL */
    struct json *resource;      /* its strings, or NULL */
    struct json *resource_sent; /* as received: an object or a string, or NULL */
    struct json *properties;    /* or NULL */
};

struct ask_source {
    enum ask_form form;
    bool dry_run;           /* then any actor and user of the tenant may be named */
    struct str traceparent; /* the header, or absent */
    /* where neither the body nor the header has one; absent: a fresh one */
    struct str trace_id;
    struct chance *chance;
    struct arena *arena;
};

/* `caller` gets its tenant settled. */
enum err ask_read(const struct ask_source *from, struct caller *caller, struct json *body,
                  struct ask *ret, struct fault *f);

/* api_settle_tenant(), its fault in the form's own spelling. */
enum err ask_settle_tenant(enum ask_form form, struct caller *caller, struct str asked,
                           struct fault *f);

/* The request's full form: canonical JSON of what an approval is bound to. Before masking. */
void ask_put_binding(struct buf *out, const struct ask *a);

#endif
