/* route.h - from method and path to a route.
 *
 * Built once at boot: paths without parameters are found by hash, the rest by their segments. An
 * exact path wins over one with parameters; of two with parameters the first in the table wins.
 * Immutable after routes_create(). */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include "http/server.h"

struct routes;

/* One path of the table, with its methods. */
struct route_path {
    /* HEAD: that of GET if it has no route of its own */
    const struct http_route *by_method[HTTP_METHODS];
    struct str allow; /* "GET, HEAD, POST" */
};

/* The table must outlive it. A malformed table is a programmer's error. */
struct routes *routes_create(const struct http_route *table, size_t count);
void routes_destroy(struct routes *r);

/* `path` is decoded. NULL: unknown. Fills params (views into `path`) on a match. */
const struct route_path *routes_find(const struct routes *r, struct str path,
                                     struct str params[HTTP_PARAMS_MAX]);

/* Whether the route knows a query parameter of that (decoded) name. */
bool route_knows_parameter(const struct http_route *route, struct str name);

#endif
