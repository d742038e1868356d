/* offload.h - work that takes too long for a reactor, on a thread of its own.
 *
 *   reactor ── offload_put ──▶ queue, tenants in turn ──▶ thread: one job after the other
 *   reactor ◀─ offload_take ── done, by reactor ◀─────────┘ (and a wakeup)
 *
 * The thread gives way to the reactors (thread_step_back). A tenant has at most
 * LIMIT_OFFLOADED_OF_TENANT jobs here and all tenants LIMIT_OFFLOADED; one of a tenant never waits
 * behind two of another. A job that has waited for LIMIT_OFFLOAD_WAIT_SECONDS is returned without
 * being run.
 *
 * From offload_put() until offload_take() returns it, the job and all that it points to are the
 * thread's. That may be: the arena of its operation, what lies in it, and what never changes and
 * is held meanwhile, such as a bundle. It may not be: anything of a reactor, such as its hasher, its
 * chance, its memory of actions or its revocations. */
#ifndef ENGINE_OFFLOAD_H
#define ENGINE_OFFLOAD_H

#include "base/fault.h"

struct offload;

enum offload_end {
    OFFLOAD_RUN,
    OFFLOAD_LATE, /* it waited too long */
};

struct offload_job {
    void (*run)(struct offload_job *job); /* on the thread */
    struct str tenant;                    /* as long as the job */
    unsigned reactor;                     /* that takes it */
    enum offload_end end;                 /* out */

    /* Used by offload.c only. */
    struct offload_job *next;
    uint64_t turn; /* of the tenants */
    uint64_t put_ns;
};

/* `wake` makes the reactor take its jobs; it is called on the thread. Ends the process if there is no
 * memory or no thread. */
struct offload *offload_create(void (*wake)(void *context, unsigned reactor), void *context);
/* ERR_QUOTA_TENANT: the tenant has its most here. ERR_OVERLOADED: the limit of all is reached, or the thread has stopped; the job was not taken. Any thread. */
enum err offload_put(struct offload *o, struct offload_job *job, struct fault *f);
/* A job of this reactor that has ended; NULL: none has. Costs no lock if there is none. */
struct offload_job *offload_take(struct offload *o, unsigned reactor);
/* Ends the thread behind the job that it runs. Those that wait are never returned. */
void offload_stop(struct offload *o);
void offload_destroy(struct offload *o); /* after offload_stop(); accepts NULL */

#endif
