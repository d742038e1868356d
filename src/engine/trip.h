/* trip.h - an errand with its caller: how the routes of tokens, reviews and actors begin.
 *
 *   errand_begin → who calls → the body, where the route takes one → which tenant → who asks */
#ifndef ENGINE_TRIP_H
#define ENGINE_TRIP_H

#include "api/api.h"
#include "engine/errand.h"

struct trip {
    struct errand errand; /* first */
    struct caller caller; /* not after a wait: its views are the bundle's */
};

/* At the head of `size` zeroed bytes, with its caller admitted, its body read (NULL where the route
 * takes none, or none was sent to a route that can do without), its tenant and asker settled. Who
 * has one of the roles `sees_all` may look at all of its tenant. NULL: refused already. */
struct trip *trip_begin(struct worker *w, struct http_exchange *x, size_t size, uint32_t sees_all,
                        struct json **ret_body);

/* The body's tenant_id; absent where there is none, or no body. */
enum err trip_tenant(const struct json *body, struct str *ret, struct fault *f);

/* A query parameter by which a list is filtered; "" is none. */
enum err trip_filter(const struct http_exchange *x, const char *name, struct str *ret,
                     struct fault *f);

/* An errand with nothing settled yet; NULL: it was refused for want of memory. */
void *trip_begin_bare(struct worker *w, struct http_exchange *x, size_t size);

/* The same caller as shards know it: its own things only. Views into the caller. */
struct asker trip_asker(const struct caller *c);

void trip_refuse(struct trip *t, const struct fault *f);
/* Without a member to name; `text` NULL: the error's own. */
void trip_refuse_with(struct trip *t, enum err err, const char *text);

#endif
