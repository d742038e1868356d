/* engine.h - the state that the engine's threads share, and the state of each reactor.
 *
 *   main thread     boot, signals, accepting, housekeeping (main.c)
 *   N reactors      one thread each: sockets, decisions, records (engine_reactor.c)
 *   offload thread  explanations, dry runs, large lists (offload.h)
 *   feed thread     follows the platform's bundle of policies and keys (feed.c)
 *   state follower  starts snapshots of the state; its mirror in Redis (pipeline/mirror)
 *   replay thread   one, while a snapshot is made
 *   journal writer  three threads of the journal: writer, syncer, segment pool
 *   publisher       one thread; and one that sends spans, if configured
 *
 * Shared fields are set before the reactors start, or are atomics with one writer. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "api/api.h"
#include "api/refused.h"
#include "access/set_mac.h"
#include "api/secure.h"
#include "api/strangers.h"
#include "config/config.h"
#include "engine/control/bundle.h"
#include "engine/runtime/commit.h"
#include "engine/runtime/offload.h"
#include "engine/runtime/overload.h"
#include "engine/runtime/owner.h"
#include "engine/runtime/reactor_view.h"
#include "engine/decision/digest.h"
#include "engine/fleet/fleet_member.h"
#include "engine/fleet/relaying.h"
#include "engine/runtime/waits.h"
#include "journal/journal.h"
#include "pipeline/mirror/state_follower.h"
#include "pipeline/publish/publish.h"
#include "pipeline/spans/spans.h"
#include "shards/mailbox.h"
#include "shards/reactor.h"
#include "shards/revoked.h"
#include "shards/shard.h"

/* LOST: another engine has taken over this one's Redis; no more decisions are made. */
enum phase { PHASE_STARTING, PHASE_SERVING, PHASE_DRAINING, PHASE_LOST };

enum { NODE_TEXT_MAX = 64 };

struct engine;

/* Whether records of one reactor wait, for the disk to sync them or for room, and since when the
 * disk has made no progress with them. */
struct disk_watch {
    bool waits, stands_still;
    uint64_t durable; /* block */
    uint64_t seen_ms; /* of the loop's clock */
    uint64_t idle_ms;
};

/* A reactor's part of the suspensions that a new engine takes over, page by page. */
struct takeover_share {
    uint64_t number;       /* of the page */
    bool is_open;          /* not reported as done */
    size_t next;           /* to be looked at */
    uint64_t block, place; /* of its newest record and notice; 0: none */
};

struct engine_reactor {
    struct engine *engine;
    unsigned index;
    struct reactor *reactor;
    struct http_server *server;
    struct api api;
    struct forward *forward;      /* NULL: no platform is configured */
    struct relaying relaying;     /* to the leader of the fleet */
    struct policy_memory *memory; /* of the actions it was asked about */
    struct committer commit;
    struct metrics_sheet *sheet;
    struct span_lane *spans; /* NULL: no collector is configured */
    /* the second in which a request without a decision was last logged */
    uint64_t told_s;
    struct loop_timer tick; /* each second: refused credentials, gauges */
    struct loop *loop;
    const struct bundle *bundle; /* this turn's */
    /* when the newest sealed block was sealed; 0 = it is synced */
    uint64_t sealed_ns;
    uint64_t sealed_block;
    struct disk_watch disk; /* as of the end of the last turn */
    struct overload overload;
    struct strangers strangers;
    struct refused refused; /* refused credentials of this second, until they are recorded */
    /* the oldest bundle that this reactor's steps may still use */
    _Atomic(const struct bundle *) in_use;
    _Atomic size_t connections; /* a momentary view, for the main thread */

    /* Calls: its own slots' (owner.c), and its requests' to any slots (operation.c). */
    struct owner owner;
    struct revoked_view *revoked; /* as of the begin of this turn, or of a later return of a call */
    struct list away, waiting;    /* operations */
    unsigned calls_away;          /* calls of those that are away */
    bool is_stepping;             /* an operation's loop runs: none begins inside it */
    struct waits waits;           /* those of `waiting`, by key */
    /* calls that began with `bundle`, and with the one before it */
    unsigned pins, pins_before;
    struct loop_timer outbox; /* a peer's ring was full */
    struct takeover_share takeover;
    uint64_t prepared_term; /* of the fleet: what a leader's reactor does first is done */
    bool draining;
    /* calls and waits: a momentary view, for the main thread */
    _Atomic unsigned under_way;
};

struct feed;
struct takeover; /* takeover.h */
struct signing;  /* signing.h */

struct engine {
    struct config config;
    struct trusted_proxies proxies;
    struct tls *tls; /* NULL: neither listen.tls nor an https:// address is set */
    struct pepper pepper;
    struct digest_keys digest_keys; /* of the pepper */
    struct sha256 assertion_key;    /* of the pepper */
    struct sha256 bundle_key;       /* of the pepper: for the MAC of bundles */
    struct assertions *assertions;  /* of sessions that were accepted */
    struct meters *meters;          /* what keys and tenants with rates have used */
    uint64_t started_ms;
    char node[NODE_TEXT_MAX + 1];
    struct journal *journal;
    /* NULL: no platform, or not running now; guarded by followers_lock */
    struct publisher *publisher;
    struct publisher *fleet_publisher; /* the same, of the fleet that this engine leads */
    pthread_mutex_t followers_lock;
    struct feed *feed;
    struct fleet_snapshots *fleet_snapshots; /* guarded by followers_lock; NULL: none is running */
    struct fleet_member *member;             /* NULL: its state is its own (no option `fleet`) */
    struct takeover *takeover; /* NULL: there was nothing to take over when it started */
    /* it does not have the open suspensions of the platform yet: agents and tokens are refused */
    atomic_bool takeover_due;
    struct signing *signing; /* keys of tokens */
    struct spans *spans;     /* NULL: no collector */
    struct shard **shards;   /* by reactor; recovered before the reactors start */
    struct post *post;
    struct offload *offload;
    struct revoked_log *revoked;
    const struct old_limits *old_limits;   /* NULL: none */
    struct state_follower *state_follower; /* NULL: not running now; guarded by followers_lock */
    /* the next position in lists: rises with every mint and every new review */
    _Atomic uint64_t ordinal;
    /* reactors (bit i: reactor i) that a reader of the revocation log has to wake */
    _Atomic uint64_t revoking;
    /* no reactor frees anything before all have stopped stepping calls */
    pthread_barrier_t leaving;
    struct engine_reactor *reactors;
    unsigned reactor_count;
    _Atomic(struct bundle *) bundle; /* the newest; only the feed replaces it */
    /* of the bundle that all reactors use; 0: none yet */
    _Atomic uint64_t revision;
    /* of its keys, those made with another pepper than this engine's */
    _Atomic size_t keys_unprovable;
    _Atomic uint64_t quota_refused_ms; /* when a request was last refused for a quota */
    _Atomic enum phase phase;
    /* reactors for which the journal's disk makes no progress (journal.stall) */
    _Atomic unsigned standing_still;
    /* estimated time until the file system takes no more records; set by housekeeping */
    _Atomic uint64_t journal_left_seconds;
    sem_t bundle_seen; /* posted by a reactor that moved to another bundle */
    sem_t main_rung;   /* the blocks of the main thread's producer moved */
};

/* ---- reactors (engine_reactor.c) ---- */

/* Makes reactor `index` and its thread; the error is that of making the thread. */
enum err engine_reactor_start(struct engine *e, unsigned index);
void engine_reactor_tell(struct engine_reactor *w, enum reactor_message_kind kind, int fd,
                         enum socket_kind socket);

/* For offload_create(). Any thread. */
void engine_reactor_wake(void *engine, unsigned index);

/* ---- their state (engine_reactor_state.c) ---- */

/* What holds for a reactor between two of its operations, and between two turns. */
void engine_reactor_check(const struct engine_reactor *w);
/* This reactor uses no older bundle than engine_reactor->bundle any more. */
void engine_reactor_moved(struct engine_reactor *w);
/* Within a turn: gives its records so far to the journal writer, and sends the replies of earlier
 * ones that are durable. */
void engine_reactor_flush(struct engine_reactor *w);
/* A block is free: what begins now has room for its record. */
static inline bool engine_reactor_has_room(const struct engine_reactor *w)
{
    return journal_has_room(w->commit.producer);
}
/* The disk has made no progress with some reactor's records for longer than journal.stall. Any
 * thread. */
bool engine_stands_still(const struct engine *e);
#define STANDS_STILL_TEXT                                                                          \
    "the journal's disk stands still, and records have waited for it for longer than journal.stall"
/* Its own state, or that of a fleet which it leads: it serves requests of the state. Any thread. */
static inline bool engine_owns_state(const struct engine *e)
{
    return e->member == NULL || fleet_member_leads(e->member);
}
/* ERR_OK: it does now; else why not. */
static inline enum err engine_state_refusal(const struct engine *e)
{
    return e->member == NULL ? ERR_OK : fleet_member_refusal(e->member);
}
/* The reason why there are no policies and keys. */
const char *engine_why_empty(const struct engine *e);
/* As of the begin of this turn, or of the last return of a call in it. */
static inline bool engine_reactor_actor_is_suspended(const struct engine_reactor *w,
                                                     struct str tenant, struct str actor)
{
    uint64_t dead_until_ms;
    return revoked_view_actor(w->revoked, tenant, actor, &dead_until_ms);
}
uint64_t engine_reactor_ordinal(struct engine_reactor *w);
uint64_t
engine_reactor_ordinal_next(const struct engine_reactor *w); /* all assigned ordinals are smaller */

/* ---- routes (routes.c) ---- */

/* The effect of a route. While the journal's disk makes no progress, routes that loosen are
 * refused. */
enum route_effect {
    EFFECT_UNDECLARED, /* an error in the table: counts as loosening */
    EFFECT_READ,
    EFFECT_TIGHTEN, /* it ends, denies or stops something */
    EFFECT_LOOSEN,  /* it may permit something new */
};
extern const struct http_route engine_routes[];
extern const size_t engine_route_count;
/* context: a reactor */
void route_handle(void *context, struct http_exchange *x);
bool route_admit(void *context, struct http_exchange *x);
void route_refuse(void *context, struct http_exchange *x, const struct fault *f);
void route_proceed(void *context, struct http_exchange *x); /* a request that may be handled now */
void route_refuse_starting(struct engine_reactor *w,
                           struct http_exchange *x); /* no key is known yet */

/* ---- refused credentials (auth_failed.c) ---- */

void auth_failed_note(void *engine_reactor, const struct http_exchange *x, enum err err);
void token_rejected_note(void *engine_reactor, const struct http_exchange *x,
                         const struct token_claims *t, enum err err);
/* records the noted ones, if the journal has room */
void auth_failed_record(struct engine_reactor *w);

/* ---- the feed (feed.c) ---- */

struct feed_status {
    bool reachable;     /* the latest call returned the bundle in force, or that nothing is new */
    bool is_refused;    /* the latest call brought no set, because it was refused here or there */
    bool is_cut_short;  /* the latest calls were answered at once, and not by the platform */
    uint64_t silent_ms; /* how long no call has succeeded */
    char trouble[320];  /* the reason, as text; "" = nothing is wrong */
};

/* feed_create() checks the settings of the platform. feed_load() loads the last good bundle from
 * disk (or starts with none, which permits nothing). feed_start() follows the platform on its own
 * thread. */
enum err feed_create(struct engine *e, struct fault *f);
enum err feed_load(struct engine *e, struct fault *f);
void feed_start(struct engine *e);
void feed_status(const struct engine *e, struct feed_status *ret); /* any thread */
void feed_stop(struct engine *e);    /* while the reactors still turn */
void feed_destroy(struct engine *e); /* when no thread asks for its status any more */
/* Makes the names of files in DATA/engine durable; false: it failed, with errno. */
bool engine_folder_sync(const struct engine *e);

/* ---- lifecycle records (lifecycle.c): main thread, through the last producer ---- */

/* Each records, and waits until it is synced: `engine.started`, and in a new journal with it
 * `engine.adopted`, if the state began with that of other engines (`adopted`, struct lineage). */
enum err lifecycle_started(struct engine *e, const struct journal_report *report,
                           const char *adopted);
enum err lifecycle_stopped(struct engine *e);
/* `engine.fleet`, what happened to this engine's part in its fleet, as a sentence. */
enum err lifecycle_fleet(struct engine *e, struct str what);
/* The same for any record. */
enum err lifecycle_put(struct engine *e, const struct effect_record *record);

#endif
