/* operations.h - requests of operators and load balancers to either program: /livez, /readyz,
 * /healthz, /metrics. The values come from each program (engine/control/health.c,
 * platform/operations.c). */
#ifndef API_OPERATIONS_H
#define API_OPERATIONS_H

#include "api/api.h"

struct checks {
    struct buf *out; /* receives the members of `checks`, without the braces */
    struct metrics_sheet *sheet;
    bool any, degraded; /* start out false */
};

/* One check: "ok", or the problem and its effect. Sets its gauge as well, so that /healthz and
 * /metrics agree. */
void checks_put(struct checks *c, enum metric gauge, const char *name, bool ok,
                const char *otherwise);
/* For the check `quotas`: whether the last refusal for a quota (struct api) is some time ago. */
bool quotas_are_well(const _Atomic uint64_t *refused_ms);
#define QUOTAS_TEXT "within the last minute a key or a tenant had used its part up, and was refused"
/* The last members of /healthz, and its brace. */
void checks_put_end(const struct checks *c, struct buf *out, const char *service);

/* The answer of /livez: a program that can send it is alive. */
void api_reply_alive(struct api *a, struct http_exchange *x);
/* The answer of /metrics, for callers that are admitted: all metrics whose names begin so
 * (metrics_put). */
void api_reply_metrics(struct api *a, struct http_exchange *x, struct str prefix);

#endif
