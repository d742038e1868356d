/* platform.h - what the platform's threads share.
 *
 *   reactor    sockets, admission, long-polls; never blocks (the thread that calls platform_run)
 *   writer     one thread: every change of the store, in the order of arrival
 *   readers    queries, each on a snapshot of its own
 *   consumer   Kafka's topic into the store (pipeline/ingest/consume.h); where one is configured
 *   keeper     events dropped by age, keys that have ended, PostgreSQL's partitions (keeper.h)
 *
 * The reactor hands jobs to writer and readers (work.h) and answers when they come back. Everything
 * here belongs to the reactor but where said otherwise. */
#ifndef PLATFORM_PLATFORM_H
#define PLATFORM_PLATFORM_H

#include <stdatomic.h>

#include "api/api.h"
#include "api/refused.h"
#include "base/list.h"
#include "config/config.h"
#include "http/listen.h"
#include "pipeline/ingest/consume.h"
#include "platform/followers.h"
#include "platform/keeper.h"
#include "platform/policy_set.h"
#include "platform/watch.h"
#include "platform/work.h"

/* Entity tags that were found to be of the bundle, each for the key that it was sent
 * to; the oldest makes room. */
enum { BUNDLE_ETAG_TEXT = JOB_ETAG_TEXT, BUNDLE_TAGS_MAX = 1024 };

struct store_trouble {
    struct fault fault; /* no text: none */
    uint64_t at_ns;     /* monotonic */
};

struct bundle_tag {
    struct id key;
    uint64_t revision; /* 0: free */
    char text[BUNDLE_ETAG_TEXT];
};

struct bundle_tags {
    struct bundle_tag all[BUNDLE_TAGS_MAX];
    size_t next;
};

struct platform {
    const struct config *config;
    struct trusted_proxies proxies;
    struct pepper pepper;
    struct loop *loop;
    struct listeners listeners;
    struct http_server *server;
    struct http_route *routes;
    size_t route_count;
    struct api api;
    struct forward *forward; /* NULL: no engine is configured */
    struct work *work;
    struct keeper *keeper;
    struct policy_book *book;           /* of documents in force */
    struct policy_report policy_report; /* the last whole one */
    bool is_reporting;                  /* the next is being made */
    struct watch *watch;                /* of policies.dir; NULL: not configured */
    /* of Kafka's topic; NULL: not configured. Set before the threads that ask it */
    struct consumer *consumer;
    struct metrics_sheet *sheet; /* the reactor's */
    struct key_table *keys;      /* replaced whole when keys change */
    /* of them, those made under another pepper than ours; as of the last tick */
    _Atomic size_t keys_unprovable;
    uint64_t revision;            /* newest known */
    struct caller caller;         /* of the request in hand */
    struct loop_timer tick;       /* each second */
    unsigned looking_s;           /* how many ticks the look at the store is away; 0: it is not */
    struct fault reading_trouble; /* why the last look failed; no text: it did not */
    struct store_trouble trouble[QUEUE_COUNT]; /* of the store, as its users met it last */
    struct loop_bell wake;                     /* rung by platform_stop */
    atomic_bool stopping;                      /* set by any thread */
    bool draining;

    struct refused refused; /* credentials of this second, until they are recorded */
    bool refused_wait;      /* the latest of them could not be */

    struct followers followers;
    struct bundle_tags bundle_tags;
    struct list bundle_waits;         /* of jobs: engines that wait for a change */
    _Atomic size_t bundle_wait_count; /* written by the reactor alone */
};

/* Where the store is: the path of a file, or the address of a server. */
static inline const char *platform_store(const struct config *c)
{
    return c->store_url[0] != '\0' ? c->store_url : c->store;
}

/* Opens the store (making and migrating it), starts the threads and listens. On failure nothing
 * is left running. `c` outlives the platform. */
enum err platform_create(const struct config *c, struct platform **ret, struct fault *f);
const char *platform_address(const struct platform *p); /* "127.0.0.1:9090" */
/* Serves on the calling thread until platform_stop(), then drains. */
void platform_run(struct platform *p);
/* Any thread, and signal handlers. */
void platform_stop(struct platform *p);
void platform_destroy(struct platform *p);

/* ---- routes (routes.c): context is the platform ---- */

void routes_make(struct platform *p);
bool route_admit(void *context, struct http_exchange *x);
void route_handle(void *context, struct http_exchange *x);
void route_refuse(void *context, struct http_exchange *x, const struct fault *f);

/* ---- resources: one file each ---- */

void healthz_handle(void *context, struct http_exchange *x); /* operations.c */
void livez_handle(void *context, struct http_exchange *x);
void readyz_handle(void *context, struct http_exchange *x);
void config_check_handle(void *context, struct http_exchange *x);
void metrics_handle(void *context, struct http_exchange *x);
void checks_tick(struct platform *p);
void ingest_handle(void *context, struct http_exchange *x); /* ingest.c */
void positions_handle(void *context, struct http_exchange *x);
void audit_query_handle(void *context, struct http_exchange *x); /* audit.c */
void audit_trace_handle(void *context, struct http_exchange *x);
void policy_list_handle(void *context, struct http_exchange *x); /* policy.c */
void policy_get_handle(void *context, struct http_exchange *x);
void policy_put_handle(void *context, struct http_exchange *x);
void policy_delete_handle(void *context, struct http_exchange *x);
void policy_versions_handle(void *context, struct http_exchange *x);
void policy_version_handle(void *context, struct http_exchange *x);
void policy_rollback_handle(void *context, struct http_exchange *x);
void policy_apply_handle(void *context, struct http_exchange *x); /* policy_apply_route.c */
void key_list_handle(void *context, struct http_exchange *x);     /* key.c */
void key_create_handle(void *context, struct http_exchange *x);
void key_revoke_handle(void *context, struct http_exchange *x);
void key_rotate_handle(void *context, struct http_exchange *x);
void bundle_handle(void *context, struct http_exchange *x);     /* follow.c */
void gap_accept_handle(void *context, struct http_exchange *x); /* gap.c */

/* Refuses the exchange in hand with this fault. */
void platform_refuse(struct platform *p, struct http_exchange *x, const struct fault *f);
/* Refuses the exchange and says so: `if (platform_failed(p, x, err, &f)) return;` */
bool platform_failed(struct platform *p, struct http_exchange *x, enum err err,
                     const struct fault *f);
/* ERR_WRONG_NODE: the caller's key may not speak for this node. */
enum err platform_check_node(const struct platform *p, struct str node, struct fault *f);
/* ERR_CREDENTIAL_REVOKED, also where the key is not known any more, or ERR_CREDENTIAL_EXPIRED: it has
 * ended since it was shown. */
enum err platform_key_holds(const struct platform *p, struct id key);
/* Whether the caller's key is of every tenant. */
bool platform_is_everywhere(const struct platform *p);
/* The caller's tenant, with the one that a body may name. */
enum err settle_tenant(struct platform *p, const struct json *body, struct fault *f);
/* Refuses a body that spells one of these members (given in snake_case) in camelCase. */
enum err check_case(const struct json *body, const char *const *members, size_t count,
                    struct fault *f);

/* ---- engines that wait for a change (follow.c) ---- */

/* The revision (or what other threads of the store did) moved: answers who waits for that. */
void follow_changed(struct platform *p);
void follow_drain(struct platform *p); /* answers all that wait */

/* ---- jobs that are done (back.c) ---- */

void job_back(struct job *j);

/* ---- refused credentials (auth_failed.c) ---- */

void auth_failed_note(void *context, const struct http_exchange *x, enum err err);
/* The key was admitted, and had ended when its answer was made. */
void auth_failed_note_ended(struct platform *p, struct id key, const struct client_address *client,
                            enum err err);
void auth_failed_record(struct platform *p);

#endif
