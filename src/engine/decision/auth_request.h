/* auth_request.h - a request for a decision, in one form for all routes.
 *
 *   agent route  POST /v1/agent/authorize   snake_case, `action`
 *   tool route   POST /api/v1/authorize     camelCase, `tool`
 *   user route   POST /v1/authorize         snake_case, `user_id`
 *
 * auth_request_read() checks every known member, settles tenant, actor and user with the
 * credential, and fills a policy_request. `null` counts as absent; a known member in the other
 * route's casing is refused; confidence, acting_for, scope and trace id may be beside or inside
 * `context`, but not with different values. Everything lives in the request's arena. Pure. */
#ifndef ENGINE_AUTH_REQUEST_H
#define ENGINE_AUTH_REQUEST_H

#include "api/api.h"
#include "policy/policy.h"

enum auth_request_form { ASK_AGENT, ASK_TOOL, ASK_USER };

enum { ASK_SCOPES_MAX = 64, ASK_RESOURCE_STRINGS_MAX = 32 };

struct auth_request {
    enum auth_request_form form;
    struct policy_request policy; /* its context is without confidence and trace id */
    struct str trace_id;
    struct str tool_call_id, conversation_id; /* recorded only: no condition or binding has them */
    struct json *body;          /* as received, until it is masked: the source of inputHash */
    struct json *context;       /* as received, or NULL */
    struct json *resource;      /* its strings, or NULL */
    struct json *resource_sent; /* as received: an object or a string, or NULL */
    struct json *properties;    /* or NULL */
};

struct auth_request_source {
    enum auth_request_form form;
    bool dry_run;           /* then the request may name any actor and user of the tenant */
    struct str traceparent; /* the header, or absent */
    /* used if neither the body nor the header has one; absent: a fresh one */
    struct str trace_id;
    struct chance *chance;
    struct arena *arena;
};

/* What every request has that was read. Before it is masked, too, args are an object. */
void auth_request_check(const struct auth_request *a);

/* Settles `caller`'s tenant. */
enum err auth_request_read(const struct auth_request_source *from, struct caller *caller,
                           struct json *body, struct auth_request *ret, struct fault *f);

/* The form that these members belong to. */
enum auth_request_form auth_request_form_of(const struct json *body);
/* api_settle_tenant(), with its fault in the spelling of the form. */
enum err auth_request_settle_tenant(enum auth_request_form form, struct caller *caller,
                                    struct str asked, struct fault *f);

/* The request's full form: the canonical JSON that an approval is bound to. Call it before
 * masking. */
void auth_request_put_binding(struct buf *out, const struct auth_request *a);

#endif
