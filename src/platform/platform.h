/* platform.h - the state that the platform's threads share.
 *
 *   reactor           sockets, admission, long-polls; never blocks (the thread of platform_run)
 *   writer            one thread: every change of the store, in the order of arrival
 *   readers           queries, each on a snapshot of its own
 *   consumer          Kafka's topic into the store (pipeline/ingest/consume.h), if configured
 *   notifier          messages about reviews (pipeline/notify/notifier.h), if channels are configured
 *   anchors           checkpoints to places outside (pipeline/anchor/anchors.h), if some are configured
 *   providers         documents of identity providers (oidc/oidc.h), if providers are configured
 *   retention thread  old events and ended keys, PostgreSQL's partitions (retention_thread.h)
 *
 * The reactor hands jobs to writer and readers (work.h) and answers when they return. Unless a
 * comment says otherwise, everything here belongs to the reactor. */
#ifndef PLATFORM_PLATFORM_H
#define PLATFORM_PLATFORM_H

#include <stdatomic.h>

#include "api/api.h"
#include "api/refused.h"
#include "api/secure.h"
#include "api/strangers.h"
#include "base/list.h"
#include "config/config.h"
#include "http/listen.h"
#include "pipeline/ingest/consume.h"
#include "pipeline/anchor/anchors.h"
#include "pipeline/notify/notifier.h"
#include "store/quarantine.h"
#include "store/streams.h"
#include "platform/console.h"
#include "platform/followers.h"
#include "platform/retention_thread.h"
#include "platform/providers.h"
#include "platform/reads.h"
#include "platform/policy_set.h"
#include "platform/policy_directory.h"
#include "platform/sessions.h"
#include "platform/work.h"

/* Entity tags that were compared with the bundle, each for the key that received it. The oldest
 * makes room. */
enum { BUNDLE_ETAG_TEXT = JOB_ETAG_TEXT, BUNDLE_TAGS_MAX = 1024 };

enum { CONSOLE_URL_TEXT = 512 };

struct store_trouble {
    struct fault fault; /* no text: no failure */
    uint64_t at_ns;     /* monotonic */
};

struct bundle_tag {
    struct id key;
    struct revision revision; /* number 0: free */
    char text[BUNDLE_ETAG_TEXT];
};

struct bundle_tags {
    struct bundle_tag all[BUNDLE_TAGS_MAX];
    size_t next;
};

struct platform {
    const struct config *config;
    struct trusted_proxies proxies;
    struct tls *tls; /* NULL: neither listen.tls nor an https:// address is set */
    struct pepper pepper;
    struct ed25519 *signer;                          /* of notes about removed records */
    struct sha256 assertion_key, csrf_key, flow_key; /* of the pepper */
    struct loop *loop;
    struct listeners listeners;
    struct http_server *server;
    struct http_route *routes;
    size_t route_count;
    struct api api;
    struct strangers strangers;
    struct meters *meters;             /* what keys and tenants with rates have used */
    _Atomic uint64_t quota_refused_ms; /* when a request was last refused for a quota */
    struct console *console;           /* NULL: it is switched off */
    struct forward *forward;           /* NULL: no engine is configured */
    struct work *work;
    struct retention_thread *retention_thread;
    struct policy_book *book;           /* of the documents in force */
    struct policy_report policy_report; /* the last complete report */
    bool is_reporting;                  /* the next report is being made */
    struct policy_directory *watch;     /* of policies.dir; NULL: not configured */
    /* Of Kafka's topic; NULL: not configured. Set before the threads that use it start. */
    struct consumer *consumer;
    struct notifier *notifier; /* of channels; NULL: none is configured. Also set at boot */
    struct notify_channel channels[CHANNELS_MAX];
    char console_url[CONSOLE_URL_TEXT];
    struct anchors *anchors; /* NULL: none is configured. Also set at boot */
    struct anchor anchor_list[ANCHORS_MAX];
    struct metrics_sheet *sheet; /* the reactor's */
    struct key_table *keys;      /* replaced whole when keys change */
    /* How many of them were made under another pepper than ours, at the last tick. */
    _Atomic size_t keys_unprovable;
    uint64_t revision;      /* newest known */
    struct history history; /* of all connections to the store; any thread */
    struct caller caller;   /* of the current request */
    struct sessions *sessions;
    const struct session *session; /* of the current request; NULL: it shows no session */
    struct providers providers;
    const struct identity
        *identity;          /* of the current request; NULL: it shows no provider's token */
    struct loop_timer tick; /* each second */
    unsigned looking_s; /* for how many ticks the look at the store has run; 0: it does not run */
    struct streams_full streams_full; /* looked up at intervals, and the next, too */
    struct streams_untrusted untrusted;
    unsigned looks;
    struct quarantine_status quarantine; /* at the last look that succeeded */
    struct fault
        set_trouble; /* why the stored policies and keys are refused; no text: they are not */
    struct fault reading_trouble;              /* why the last look failed; no text: it succeeded */
    struct store_trouble trouble[QUEUE_COUNT]; /* the last failures of the store's users */
    struct loop_wakeup wake;                   /* signalled by platform_stop */
    atomic_bool stopping, reloading;           /* set by any thread */
    bool draining;

    struct reads reads;     /* of the audit trail, in this minute */
    struct refused refused; /* credentials of this second, until they are recorded */
    bool refused_wait;      /* the last of them could not be recorded */

    struct followers followers;
    struct bundle_tags bundle_tags;
    struct list bundle_waits;         /* jobs of engines that wait for a change */
    _Atomic size_t bundle_wait_count; /* written only by the reactor */
};

/* The store's address: the path of a file, or the address of a server. */
static inline const char *platform_store(const struct config *c)
{
    return c->store_url[0] != '\0' ? c->store_url : c->store;
}

/* Opens the store (and makes and migrates it), starts the threads and listens. After a failure
 * nothing is left running. `c` must outlive the platform. */
enum err platform_create(const struct config *c, struct platform **ret, struct fault *f);
/* "127.0.0.1:9090"; "" if it does not listen on that kind */
const char *platform_address(const struct platform *p, enum socket_kind kind);
/* Serves on the calling thread until platform_stop(), then drains. */
void platform_run(struct platform *p);
/* Any thread, and signal handlers. */
void platform_stop(struct platform *p);
/* The files of TLS are read again; for a signal handler, too. */
void platform_reload(struct platform *p);
void platform_destroy(struct platform *p);

/* notify.c: checks the channels of the configuration, and starts the notifier if there are some. */
enum err notify_start(struct platform *p, struct fault *f);
/* ,"channels": what waits on each; for /healthz. */
void notify_put(struct buf *out, struct platform *p);

/* anchors.c: checks the anchors of the configuration, and starts sending checkpoints to them. */
enum err anchors_begin(struct platform *p, struct fault *f);
/* ,"anchors": what each has; for /healthz. */
void anchors_put(struct buf *out, struct platform *p);

/* ---- routes (routes.c): context is the platform ---- */

void routes_make(struct platform *p);
bool route_admit(void *context, struct http_exchange *x);
void route_handle(void *context, struct http_exchange *x);
void route_proceed(void *context, struct http_exchange *x); /* a request that may be handled now */
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
/* A time of the query, in ms; *ret_has: it is there. */
enum err audit_time_parameter(struct job *j, const struct http_exchange *x, const char *name,
                              bool *ret_has, uint64_t *ret_ms);
void evidence_page_handle(void *context, struct http_exchange *x);
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
void session_start_handle(void *context, struct http_exchange *x); /* session.c */
void session_get_handle(void *context, struct http_exchange *x);
void session_end_handle(void *context, struct http_exchange *x);
void session_end_one_handle(void *context, struct http_exchange *x);
void session_list_handle(void *context, struct http_exchange *x);
void session_end_person_handle(void *context, struct http_exchange *x);
void provider_list_handle(void *context, struct http_exchange *x); /* relying_party.c */
void sign_in_start_handle(void *context, struct http_exchange *x); /* sign_in.c */
void sign_in_answer_handle(void *context, struct http_exchange *x);
void bundle_handle(void *context, struct http_exchange *x); /* follow.c */
void gap_accept_handle(void *context, struct http_exchange *x);
void engine_trust_handle(void *context, struct http_exchange *x);
void engine_distrust_handle(void *context, struct http_exchange *x);
void engine_trusted_handle(void *context, struct http_exchange *x);
void stream_forget_handle(void *context, struct http_exchange *x);
void suspension_list_handle(void *context, struct http_exchange *x); /* suspension.c */
void engine_list_handle(void *context, struct http_exchange *x);     /* streams.c */

/* session_admit(), and answers a refusal. False: the request was refused or parked. */
bool session_enter(struct platform *p, struct http_exchange *x, uint32_t roles);
/* Refuses the current exchange with this fault. */
void platform_refuse(struct platform *p, struct http_exchange *x, const struct fault *f);
/* Refuses the exchange if `err` is set, and returns whether it did. */
bool platform_failed(struct platform *p, struct http_exchange *x, enum err err,
                     const struct fault *f);
/* ERR_WRONG_NODE: the caller's key may not speak for this node. */
enum err platform_check_node(const struct platform *p, struct str node, struct fault *f);
/* ERR_CREDENTIAL_REVOKED (also if the key is unknown now) or ERR_CREDENTIAL_EXPIRED: the key has
 * ended since its request was admitted. */
enum err platform_key_holds(const struct platform *p, struct id key);
/* Whether the caller's key is of every tenant. */
bool platform_is_everywhere(const struct platform *p);
/* The caller's tenant, combined with the tenant that a body may name. */
enum err settle_tenant(struct platform *p, const struct json *body, struct fault *f);

/* ---- engines that wait for a change (follow.c) ---- */

/* The revision moved, or another thread changed the store: answers the requests that wait for
 * it. */
void follow_changed(struct platform *p);
void follow_drain(struct platform *p); /* answers all that wait */

/* ---- finished jobs (job_done.c) ---- */

void job_finish(struct job *j);
/* The stored policies and keys were compared: ERR_OK, or ERR_SET_REFUSED and why. */
void set_trouble_note(struct platform *p, enum err err, const struct fault *f);

/* ---- refused credentials (auth_failed.c) ---- */

void auth_failed_note(void *context, const struct http_exchange *x, enum err err);
/* The key was admitted, and had ended before its answer was sent. */
void auth_failed_note_ended(struct platform *p, struct id key, const struct client_address *client,
                            enum err err);
void auth_failed_record(struct platform *p);

#endif
