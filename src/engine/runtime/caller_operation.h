/* caller_operation.h - an operation with its caller: what the routes of tokens, reviews and actors
 * have before their steps.
 *
 *   operation_begin → caller → the body, if the route takes one → tenant → requester */
#ifndef ENGINE_CALLER_OPERATION_H
#define ENGINE_CALLER_OPERATION_H

#include "engine/runtime/operation.h"

/* At the head of `size` zeroed bytes: the caller is admitted, its body read (NULL if the route
 * takes none, or if the body is optional and absent), its tenant and requester settled. A caller
 * with one of the roles `sees_all` may see everything in its tenant. NULL: refused already. */
void *caller_operation_begin(struct engine_reactor *w, struct http_exchange *x, size_t size,
                             uint32_t sees_all, struct json **ret_body);

/* The body's tenant_id; absent if there is none, or no body. */
enum err caller_operation_tenant(const struct json *body, struct str *ret, struct fault *f);

/* A query parameter that filters a list; "" means no filter. */
enum err caller_operation_filter(const struct http_exchange *x, const char *name, struct str *ret,
                                 struct fault *f);

/* The caller as shards know it, which may see only its own things. Views into the caller. */
struct requester caller_operation_requester(const struct caller *c);

/* Without a trace. */
enum step_result caller_operation_refuse(struct operation *e, const struct fault *f);
/* Without the name of a member; `text` NULL: the error's own text. */
enum step_result caller_operation_refuse_with(struct operation *e, enum err err, const char *text);

#endif
