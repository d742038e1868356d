/* work.h - jobs: what may block is done elsewhere, and comes back.
 *
 *   reactor: job_create → fill → job_send ── queue ──▶ writer or reader: work()
 *      ▲                                                     │
 *      └── back(): done(), or the answer ◀──────── bell ─────┘
 *
 * A job carries copies of all it needs, since its exchange's memory is gone once the handler
 * returns. Queues are bounded by jobs and bytes; a full one refuses politely (503 overloaded).
 * The writer also looks at the store a few times a second for changes that others made (the
 * command line), and comes back with a job of its own when there is one. */
#ifndef PLATFORM_WORK_H
#define PLATFORM_WORK_H

#include "access/key.h"
#include "base/arena.h"
#include "base/list.h"
#include "http/server.h"
#include "loop/loop.h"
#include "metrics/metrics.h"
#include "pipeline/ingest/store.h"

struct platform;
struct work;
struct job;

enum job_queue { QUEUE_WRITER, QUEUE_READER, QUEUE_COUNT };

enum {
    JOB_REPLY_MAX = 256 << 20, /* the largest bundle that an engine takes */
    JOB_ETAG_TEXT = 80,
    /* A change that takes longer is none that goes on: the database gives a lock 5 and a statement
     * 10, and then says so. */
    WRITING_SECONDS_MAX = 12,
};

struct job {
    struct job *next; /* in a queue */
    struct link link; /* on one of the platform's waiting lists */
    struct platform *platform;
    /* On the writer or a reader. May block; must not touch the platform. */
    void (*work)(struct job *j, struct store *s);
    /* Back on the reactor (back.c); NULL: job_answer(). Whoever ends the job
     * answers it or destroys it. */
    void (*done)(struct job *j);
    void *detail; /* the resource's own, in the arena */
    struct arena arena;
    enum job_queue queue; /* where it went */
    bool is_slow;         /* a query that may take seconds: goes behind what is quick */
    bool is_check;        /* of a document: before queries, but never on all readers */
    bool is_vital;        /* engines wait for it: told also where large answers wait for clients */

    /* The request, copied. */
    bool has_token;
    struct http_token token;
    struct str tenant;  /* settled; absent where the route needs none */
    struct str charged; /* whose share of a queue it takes: the key's tenant; absent: nobody's */
    struct actor actor;
    char request_id[ID_TEXT];
    struct str echo_id; /* the client's X-Request-ID, if it is one to echo */
    struct client_address client;
    char *body; /* malloced where there is one to keep, freed with the job */
    size_t body_size;
    size_t copied_bytes; /* of a body that was copied to the arena: they count in a queue, too */
    struct key *draft;   /* of a key that is to be made; owned */
    struct metrics_sheet *sheet; /* of the thread that works on it */

    /* The outcome. */
    enum err err;
    struct fault fault;
    /* though it is the writer's: no proof that the store can be written, and `revision` is of
     * somebody else's change */
    bool wrote_nothing;
    int status;               /* where err is ERR_OK */
    struct buf reply;         /* JSON; with a fault: more members for the error, "," first */
    char etag[JOB_ETAG_TEXT]; /* "" = none */
    uint64_t revision;        /* of the store after a change; 0 = none */
    bool keys_changed;        /* the writer then reads the table anew, into: */
    struct key_table *keys;
    struct loop_timer timer; /* while it is on a waiting list */
};

/* A connection and a thread for the writer and each reader; the error is the store's. Each job that
 * is done, and each that the writer made, is handed to back() on the reactor, which ends it. */
enum err work_create(struct platform *p, const char *store_path, unsigned readers,
                     void (*back)(struct job *), struct work **ret, struct fault *f);
/* Finishes what is queued, joins the threads. */
void work_stop(struct work *w);
void work_destroy(struct work *w);
/* Whether a job with so many bytes would be taken. */
bool work_has_room(struct work *w, enum job_queue q, size_t bytes);
size_t work_under_way(const struct work *w);
/* How long the writer has been at the job in hand, or had been at others before it, one after the
 * other, that the store did not take either; 0: it has none. */
unsigned work_writing_seconds(const struct work *w);

/* A job for the exchange in hand and its caller; x NULL: one that no client waits for. Never
 * NULL. */
struct job *job_create(struct platform *p, const struct http_exchange *x,
                       void (*work)(struct job *, struct store *));
void job_destroy(struct job *j); /* its client, if it has one, is not answered */
/* A zeroed object in the job's arena, also its detail. */
#define job_detail(j, type) ((type *)((j)->detail = arena_new(&(j)->arena, type)))
struct str job_copy(struct job *j, struct str s);
/* false: out of memory */
bool job_copy_globs(struct job *j, const struct globs *from, struct globs *to);

/* Defers the exchange and queues the job; refuses (and destroys) it where the queue is full, or
 * the store stands still and the job is a change (503 store_unavailable). */
void job_send(struct job *j, struct http_exchange *x, enum job_queue q);
/* The same with a job that was sent before and came back. */
void job_send_on(struct job *j, enum job_queue q);
/* The same where making the job has gone well (`err`), else refuses with its fault and destroys
 * it. */
void job_send_if(struct job *j, struct http_exchange *x, enum err err, enum job_queue q);
/* Queues a job that has its token, or none; false (and the job untouched) where the queue is full.
 */
bool job_queue(struct job *j, enum job_queue q);
/* Sends the job's outcome to its client, and destroys it. */
void job_answer(struct job *j);
/* The same with a fault. */
void job_refuse(struct job *j, enum err err, const char *text);

#endif
