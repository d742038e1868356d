/* operations.h - what operators and load balancers ask of either program: is it alive, how well is
 * it, and in figures. What is asked about is each program's own (engine/health.c,
 * platform/operations.c). */
#ifndef API_OPERATIONS_H
#define API_OPERATIONS_H

#include "api/api.h"

struct checks {
    struct buf *out; /* gets the members of `checks`, without the braces */
    struct metrics_sheet *sheet;
    bool any, degraded; /* start out false */
};

/* One check: "ok", or what is wrong and what it means. Its gauge is set with it, so that /healthz
 * and /metrics say the same. */
void checks_put(struct checks *c, enum metric gauge, const char *name, bool ok,
                const char *otherwise);
/* The last members of /healthz, and its brace. */
void checks_put_end(const struct checks *c, struct buf *out, const char *service);

/* The answer of /livez: whoever can give it is alive. */
void api_reply_alive(struct api *a, struct http_exchange *x);
/* The answer of /metrics, for who is let in: all metrics whose names begin so (metrics_put). */
void api_reply_metrics(struct api *a, struct http_exchange *x, struct str prefix);

#endif
