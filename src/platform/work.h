/* work.h - jobs: blocking work runs on other threads, and returns to the reactor.
 *
 *   reactor: job_create → fill → job_send ── queue ──▶ writer or reader: work()
 *      ▲                                                     │
 *      └── back(): done(), or the answer ◀──────── wakeup ─────┘
 *
 * A job has copies of all its data, since its exchange's memory is released when the handler
 * returns. Queues are bounded by jobs and bytes. A full queue refuses with 503 overloaded. The
 * writer also looks at the store a few times a second for changes by others (the command line). For
 * each it makes a job of its own and returns it to the reactor. */
#ifndef PLATFORM_WORK_H
#define PLATFORM_WORK_H

#include "access/key.h"
#include "base/arena.h"
#include "base/list.h"
#include "http/server.h"
#include "loop/loop.h"
#include "metrics/metrics.h"
#include "platform/browser.h"
#include "store/store.h"

struct platform;
struct work;
struct job;

/* QUEUE_COUNT: the job is with another thread than the store's (job_send_away()). */
enum job_queue { QUEUE_WRITER, QUEUE_READER, QUEUE_COUNT };

enum {
    JOB_REPLY_MAX = 256 << 20, /* the largest bundle that an engine takes */
    JOB_ETAG_TEXT = 80,
    /* A change that takes longer does not progress: the database gives up after 5 s for a lock and
     * after 10 s for a statement. */
    WRITING_SECONDS_MAX = 12,
};

struct job {
    struct job *next; /* in a queue */
    uint64_t round;   /* in the queue's lane */
    struct link link; /* on one of the platform's waiting lists */
    struct platform *platform;
    /* On the writer or a reader. May block; must not touch the platform. */
    void (*work)(struct job *j, struct store *s);
    /* Back on the reactor (job_done.c); NULL: job_answer(). The function answers or destroys the
     * job. */
    void (*done)(struct job *j);
    void *detail; /* data of the route, in the arena */
    struct arena arena;
    enum job_queue queue; /* the queue that it was sent to */
    bool is_slow;         /* a query that may take seconds: runs after quick ones */
    bool is_check;        /* a check of a document: runs before queries, but never on all readers */
    bool is_spare;        /* made without memory: it can only be refused (work.c) */
    bool is_vital;        /* engines wait for it: sent even when large answers must wait for room */

    /* The request, copied. */
    bool has_token;
    struct http_token token;
    struct str tenant;  /* settled; absent if the route needs none */
    struct str charged; /* the key's tenant, whose share of the queue it uses; absent: none */
    struct actor actor;
    char request_id[ID_TEXT];
    struct str echo_id; /* the client's X-Request-ID, if it can be echoed */
    struct client_address client;
    char *body; /* owned copy of the body, freed with the job; NULL: none */
    size_t body_size;
    size_t copied_bytes;         /* bytes of a body in the arena, which count in the queue, too */
    struct key *draft;           /* of a key to be created; owned */
    struct metrics_sheet *sheet; /* of the thread that runs it */

    /* The outcome. */
    enum err err;
    struct fault fault;
    /* The writer changed nothing. Then the job does not prove that the store can be written, and
     * `revision` is that of another process's change. */
    bool wrote_nothing;
    int status;               /* if err is ERR_OK */
    struct buf reply;         /* JSON; with a fault: more members for the error, "," first */
    char etag[JOB_ETAG_TEXT]; /* "": none */
    struct str cookie;        /* Set-Cookie, in cookie_text; absent: none */
    struct str flow_cookie;   /* another one, in the arena */
    struct str location;      /* of a 303, in the arena; absent: none */
    char cookie_text[SET_COOKIE_TEXT];
    uint64_t revision; /* of the store after a change; 0: none */
    /* not 0: the store went back, and has lost its revisions up to this one */
    uint64_t lost_revision;
    /* All rows of the set were compared, and are good; or why it was refused ("": it was not). */
    bool is_set_checked;
    struct fault set_trouble;
    bool keys_changed; /* the writer then reads the table again, into: */
    struct key_table *keys;
    struct loop_timer timer; /* while it is on a waiting list */
};

/* Creates a connection and a thread for the writer and for each reader. The error is the store's.
 * Each finished job, and each that the writer made, is passed to back() on the reactor, which ends
 * it. */
enum err work_create(struct platform *p, const char *store_path, unsigned readers,
                     void (*back)(struct job *), struct work **ret, struct fault *f);
/* Finishes the queued jobs and joins the threads. */
void work_stop(struct work *w);
void work_destroy(struct work *w);
/* Whether the queue would accept a job with so many bytes. */
bool work_has_room(struct work *w, enum job_queue q, size_t bytes);
size_t work_under_way(const struct work *w);
/* The age of the writer's current job, or of the first in an unbroken series of failed jobs before
 * it. */
unsigned work_writing_seconds(const struct work *w);

/* A job for the current exchange and its caller; x NULL: a job without a client. Never NULL. */
struct job *job_create(struct platform *p, const struct http_exchange *x,
                       void (*work)(struct job *, struct store *));
void job_destroy(struct job *j); /* does not answer its client */
/* Sets and returns a zeroed object in the job's arena as its detail. Never NULL: without memory it
 * is a substitute that holds until the job is refused. */
#define job_detail(j, type) ((type *)((j)->detail = job_detail_take((j), sizeof(type))))
void *job_detail_take(struct job *j, size_t size);
struct str job_copy(struct job *j, struct str s);
/* False: out of memory. */
bool job_copy_globs(struct job *j, const struct globs *from, struct globs *to);

/* Whether the job may be queued now; else ERR_OVERLOADED or ERR_STORE_UNAVAILABLE, with the reason. */
enum err work_judge(const struct job *j, enum job_queue q, struct fault *f);
/* Defers the exchange and queues the job. Refuses (and destroys) the job if the queue is full, or
 * if the store stands still and the job is a change (503 store_unavailable). */
void job_send(struct job *j, struct http_exchange *x, enum job_queue q);
/* The same for a job that was sent before and has returned. */
void job_send_on(struct job *j, enum job_queue q);
/* The same if making the job has succeeded (`err`). Otherwise refuses it with its fault and
 * destroys it. */
void job_send_if(struct job *j, struct http_exchange *x, enum err err, enum job_queue q);
/* Queues a job with or without a token. False, and the job unchanged, if the queue is full. */
bool job_queue(struct job *j, enum job_queue q);
/* Defers the exchange for work of another thread, which calls job_return() when it has the outcome.
 * False: there was no memory for the job; it was refused and destroyed. */
bool job_send_away(struct job *j, struct http_exchange *x);
void job_return(struct job *j); /* any thread */
/* Sends the job's outcome to its client, and destroys it. */
void job_answer(struct job *j);
/* The same with a fault. */
void job_refuse(struct job *j, enum err err, const char *text);

#endif
