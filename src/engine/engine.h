/* engine.h - what the engine's threads share, and what each of its workers owns.
 *
 *   main thread     boot, signals, accepting, housekeeping (main.c)
 *   N workers       one reactor each: sockets, decisions, records (worker.c)
 *   feed thread     follows the platform's bundle of policies and keys (feed.c)
 *   keep thread     when to make a snapshot of the state; its mirror in Redis (pipeline/keep)
 *   fold thread     one, while a snapshot is made
 *   scribe          three threads of the journal: writer, syncer, keeper of segments
 *   publisher       one thread; and one that sends spans, if any
 *
 * Shared fields are set before the workers start, or are atomics with one writer. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "api/api.h"
#include "api/refused.h"
#include "config/config.h"
#include "engine/bundle.h"
#include "engine/commit.h"
#include "engine/owner.h"
#include "engine/place.h"
#include "engine/waits.h"
#include "journal/journal.h"
#include "pipeline/keep/keep.h"
#include "pipeline/publish/publish.h"
#include "pipeline/spans/spans.h"
#include "shards/mailbox.h"
#include "shards/reactor.h"
#include "shards/revoked.h"
#include "shards/shard.h"

/* LOST: another engine has taken over this one's Redis; nothing is decided any more. */
enum phase { PHASE_STARTING, PHASE_SERVING, PHASE_DRAINING, PHASE_LOST };

enum { NODE_TEXT_MAX = 64 };

struct engine;

/* Whether records of one worker wait, for the disk to sync them or for room, and how long already
 * the disk has done nothing for them. */
struct disk_watch {
    bool waits, stands_still;
    uint64_t durable; /* mark */
    uint64_t seen_ms; /* of the loop's clock */
    uint64_t idle_ms;
};

struct worker {
    struct engine *engine;
    unsigned index;
    struct reactor *reactor;
    struct http_server *server;
    struct api api;
    struct forward *forward;      /* NULL: no platform is configured */
    struct policy_memory *memory; /* of the actions it was asked about */
    struct committer commit;
    struct metrics_sheet *sheet;
    struct span_lane *spans; /* NULL: no collector is configured */
    /* the second in which a request without a decision was last logged */
    uint64_t told_s;
    struct loop_timer tick; /* each second: refused credentials, gauges */
    struct loop *loop;
    const struct bundle *bundle; /* this beat's */
    /* when the newest sealed block was sealed; 0 = it is synced */
    uint64_t sealed_ns;
    uint64_t sealed_mark;
    struct disk_watch disk;                /* as of the end of the last beat */
    struct refused refused;                /* credentials of this second, until they are recorded */
    _Atomic(const struct bundle *) in_use; /* what this worker's steps may still point into */
    _Atomic size_t connections;            /* a moment's view, for the main thread */

    /* Calls: its own slots' (owner.c), and its requests' to any slots (errand.c). */
    struct owner owner;
    struct revoked_view *revoked; /* as of this beat's begin, or a later call's coming home */
    struct list away, waiting;    /* errands */
    unsigned visits;              /* calls of those that are away */
    struct waits waits;           /* those of `waiting`, by key */
    /* visits that began with `bundle`, and with the one before it */
    unsigned pins, pins_before;
    struct loop_timer outbox; /* a peer's ring was full */
    bool draining;
    /* visits and waits: a moment's view, for the main thread */
    _Atomic unsigned under_way;
};

struct feed;
struct signing; /* signing.h */

struct engine {
    struct config config;
    struct trusted_proxies proxies;
    struct pepper pepper;
    struct place_keys place_keys; /* of the pepper */
    char node[NODE_TEXT_MAX + 1];
    struct journal *journal;
    /* NULL: no platform, or not running now; held by followers_lock */
    struct publisher *publisher;
    pthread_mutex_t followers_lock;
    struct feed *feed;
    struct signing *signing; /* keys of tokens */
    struct spans *spans;     /* NULL: no collector */
    struct shard **shards;   /* by reactor; recovered before the workers start */
    struct post *post;
    struct revoked_log *revoked;
    const struct old_limits *old_limits; /* NULL: none */
    struct keep *keep;                   /* NULL: not running now; held by followers_lock */
    /* the next place in lists: rises over all that is minted and enqueued */
    _Atomic uint64_t ordinal;
    /* workers (bit i: worker i) to be rung by who has read the revocation log */
    _Atomic uint64_t revoking;
    /* no worker frees anything before none steps a call any more */
    pthread_barrier_t leaving;
    struct worker *workers;
    unsigned worker_count;
    _Atomic(struct bundle *) bundle; /* the newest; replaced by the feed alone */
    /* of the one that all workers have moved to; 0: none yet */
    _Atomic uint64_t revision;
    /* of its keys, those made under another pepper than ours */
    _Atomic size_t keys_unprovable;
    _Atomic enum phase phase;
    /* workers for which the journal's disk stands still (journal.stall) */
    _Atomic unsigned standing_still;
    /* until its file system takes no more records; housekeeping's */
    _Atomic uint64_t journal_left_seconds;
    sem_t bundle_seen; /* posted by a worker that moved to another bundle */
    sem_t main_rung;   /* the marks of the main thread's producer moved */
};

/* ---- workers (worker.c) ---- */

/* Makes worker `index` and its thread; the error is that thread's. */
enum err worker_start(struct engine *e, unsigned index);
void worker_tell(struct worker *w, enum reactor_message_kind kind, int fd, bool is_unix);

/* ---- their state (worker_state.c) ---- */

/* Nothing of this worker points into an older bundle than worker->bundle any more. */
void worker_moved(struct worker *w);
/* A block is free: what begins now will find room for its record. */
bool worker_has_room(const struct worker *w);
/* The disk has done nothing for somebody's records for longer than they may wait. Any thread. */
bool engine_stands_still(const struct engine *e);
#define STANDS_STILL_TEXT                                                                          \
    "the journal's disk stands still, and records have waited for it for longer than journal.stall"
/* For whom nothing was loaded yet: why. */
const char *engine_why_empty(const struct engine *e);
/* As of this beat's begin, or of the last call that came home in it. */
bool worker_actor_is_suspended(const struct worker *w, struct str tenant, struct str actor);
/* No token of this actor's that was born up to then is alive (0: none is dead). */
uint64_t worker_actor_dead_until(const struct worker *w, struct str tenant, struct str actor);
/* Signed by a key that verifies no more; or revoked; or its actor is suspended; or it was born no later than its actor's last suspension or
 * resume. Its own expiry is not looked at. */
bool worker_token_is_dead(void *worker, const struct token_claims *t);
uint64_t worker_ordinal(struct worker *w);
uint64_t worker_ordinal_next(const struct worker *w); /* below it are all that were given */

/* ---- routes (routes.c) ---- */

extern const struct http_route engine_routes[];
extern const size_t engine_route_count;
/* context: a worker */
void route_handle(void *context, struct http_exchange *x);
bool route_admit(void *context, struct http_exchange *x);
void route_refuse(void *context, struct http_exchange *x, const struct fault *f);
void route_refuse_starting(struct worker *w, struct http_exchange *x); /* no key is known yet */

/* ---- resources: one file each ---- */

void authorize_handle(void *context, struct http_exchange *x);     /* authorize.c */
void queue_pending_handle(void *context, struct http_exchange *x); /* queue.c */
void queue_list_handle(void *context, struct http_exchange *x);
void queue_get_handle(void *context, struct http_exchange *x);
void queue_wait_handle(void *context, struct http_exchange *x);
void queue_approve_handle(void *context, struct http_exchange *x);
void queue_deny_handle(void *context, struct http_exchange *x);
void queue_cancel_handle(void *context, struct http_exchange *x);
void queue_redeem_handle(void *context, struct http_exchange *x); /* redeem.c */
void actor_list_handle(void *context, struct http_exchange *x);   /* actors.c */
void actor_suspend_handle(void *context, struct http_exchange *x);
void actor_resume_handle(void *context, struct http_exchange *x);
void token_mint_handle(void *context, struct http_exchange *x);   /* mint.c */
void token_revoke_handle(void *context, struct http_exchange *x); /* tokens.c */
void token_list_handle(void *context, struct http_exchange *x);
void signer_rotate_handle(void *context, struct http_exchange *x); /* rotate.c */
void jwks_handle(void *context, struct http_exchange *x);
void token_introspect_handle(void *context, struct http_exchange *x); /* introspect.c */
void healthz_handle(void *context, struct http_exchange *x);          /* health.c */
void livez_handle(void *context, struct http_exchange *x);
void readyz_handle(void *context, struct http_exchange *x);
void config_check_handle(void *context, struct http_exchange *x);
void metrics_handle(void *context, struct http_exchange *x);

/* ---- refused credentials (auth_failed.c) ---- */

void auth_failed_note(void *worker, const struct http_exchange *x, enum err err);
void token_rejected_note(void *worker, const struct http_exchange *x, const struct token_claims *t,
                         enum err err);
/* The key, or the token that it minted (NULL: none), was admitted, and had ended when its answer was
 * made. */
void auth_failed_note_ended(struct worker *w, struct id key, const struct token_claims *token,
                            const struct client_address *client, enum err err);
/* puts what was noted into the journal, where there is room */
void auth_failed_record(struct worker *w);

/* ---- the feed (feed.c) ---- */

struct feed_status {
    bool reachable;     /* the latest call brought what is in force, or that nothing is new */
    bool is_cut_short;  /* the latest calls were answered at once, and not by the platform */
    uint64_t silent_ms; /* how long none has */
    char trouble[320];  /* why, for people; "" = nothing is wrong */
};

/* Looks at the settings of whom to follow; loads the last good bundle from disk (or starts with none,
 * which opens nothing); then follows the platform on its own thread. */
enum err feed_create(struct engine *e, struct fault *f);
enum err feed_load(struct engine *e, struct fault *f);
void feed_start(struct engine *e);
void feed_status(const struct engine *e, struct feed_status *ret); /* any thread */
void feed_stop(struct engine *e);    /* while the workers still beat */
void feed_destroy(struct engine *e); /* once nobody asks for its status any more */
/* Makes the names of files in DATA/engine durable; false, with errno: it could not. */
bool engine_folder_sync(const struct engine *e);

/* ---- lifecycle records (lifecycle.c): main thread, through the last producer ---- */

/* Records `engine.started` or `engine.stopped` and waits until it is synced. */
enum err lifecycle_record(struct engine *e, struct str kind, const struct journal_report *report);
/* The same of any record. */
enum err lifecycle_put(struct engine *e, const struct effect_record *record);

#endif
