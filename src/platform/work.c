#include "platform/work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/reserve.h"
#include "base/log.h"
#include "base/thread.h"
#include "store/key_store.h"
#include "store/set.h"
#include "platform/platform.h"

enum {
    WRITER_JOBS_MAX = 256,
    READER_JOBS_MAX = 1024,
    SLOW_JOBS_MAX = 512,        /* of QUEUE_READER's jobs */
    QUEUE_BYTES_MAX = 64 << 20, /* of request bodies and copies: eight of the largest bodies */
    TURNS = 4,                  /* one of so many jobs comes from the last lane that has any */
    WATCH_MS = 200,             /* how often the writer looks for changes by others */
    SET_LOOK_MS = 60000,        /* how often it compares all rows of the set */
    REFUSED_LOOK_MS = 2000,     /* the same while the set is refused */
    READERS_MAX = 64,
    NOWHERE_BYTES = 64 << 10,
    SPARE_JOBS = 4, /* only one of them is made and refused at a time */
    JOB_ARENA_FIRST = 2 << 10,
    JOB_ARENA_LIMIT = 16 << 20,
};

/* Jobs run in the order of arrival, with the keys in turn. A job without a body (a change of a
 * policy or key) goes before batches, so a revocation does not wait for megabytes of events. A
 * bundle goes before document checks, and these before queries. If there are several readers, one
 * runs neither checks nor queries, so engines get a revoked key while others search. A client that
 * sends urgent jobs without end only slows the others down: each fourth turn is theirs. */
enum lane_name { LANE_URGENT, LANE_CHECKS, LANE_BULK, LANE_COUNT };

/* In a lane each key has one job in a round, so a client with many jobs waits only for itself. */
struct lane {
    struct job *first; /* by round, and within a round in the order of arrival */
    uint64_t round;    /* of the last job that was taken */
};

struct load {
    size_t count, slow_count, bytes;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct lane lanes[LANE_COUNT];
    struct load load;
    size_t count_max;
    unsigned turn;
    size_t long_running, long_running_max; /* of all lanes except the urgent one */
    bool stopping;
};

struct db_thread {
    struct work *work;
    struct queue *queue;
    struct store *store;
    struct metrics_sheet *sheet;
    _Atomic uint64_t begun_ns;   /* of the current job; 0: there is none */
    _Atomic uint64_t failing_ns; /* begin of the first failed job; 0: the last one succeeded */
    pthread_t thread;
    bool running;
};

struct work {
    struct platform *platform;
    void (*back)(struct job *);
    struct queue queues[QUEUE_COUNT];
    struct db_thread writer, readers[READERS_MAX];
    unsigned reader_count;
    uint64_t revision_seen, lost_revision; /* the writer's; lost: yet to be reported, 0: none */
    struct revision looked_at;             /* by the writer's watch, when it last read the set */
    uint64_t looked_ns;
    bool is_refused; /* the set, at that time */
    pthread_mutex_t back_lock;
    struct job *back_first, **back_last; /* finished jobs */
    struct loop_wakeup wakeup;
    struct job *spares[SPARE_JOBS];
    unsigned spare_count;
    _Alignas(16) char nowhere[NOWHERE_BYTES]; /* job_detail_take() */
    size_t under_way; /* the reactor's count of jobs that have not returned */
};

/* ---- queues: any thread ---- */

static void queue_init(struct queue *q, size_t count_max, size_t long_running_max)
{
    pthread_mutex_init(&q->lock, NULL);
    condition_init(&q->filled);
    q->count_max = count_max;
    q->long_running_max = long_running_max;
}

static void queue_fini(struct queue *q)
{
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
}

/* Whether one more job fits next to this load, in one of so many equal parts of the queue. */
static bool load_has_room(const struct load *l, const struct queue *q, size_t parts, size_t bytes,
                          bool is_slow)
{
    return l->count < q->count_max / parts &&
           (bytes == 0 || l->bytes + bytes <= QUEUE_BYTES_MAX / parts) &&
           (!is_slow || l->slow_count < SLOW_JOBS_MAX / parts);
}

static bool queue_room(const struct queue *q, size_t bytes, bool is_slow)
{
    return load_has_room(&q->load, q, 1, bytes, is_slow);
}

static enum lane_name lane_of(const struct job *j)
{
    return j->is_check ? LANE_CHECKS : j->body_size > 0 || j->is_slow ? LANE_BULK : LANE_URGENT;
}

static size_t bytes_of(const struct job *j) { return j->body_size + j->copied_bytes; }

static void load_add(struct load *l, const struct job *j)
{
    l->count++;
    l->slow_count += j->is_slow;
    l->bytes += bytes_of(j);
}

static void load_remove(struct load *l, const struct job *j)
{
    l->count--;
    l->slow_count -= j->is_slow;
    l->bytes -= bytes_of(j);
}

static bool same_key(const struct job *a, const struct job *b)
{
    return !str_is_absent(a->actor.key_id) && str_equal(a->actor.key_id, b->actor.key_id);
}

/* When half of a queue is taken, a tenant may have at most half of it, and a key at most a quarter
 * of its bytes. So a key that floods the queue does not block another key's revocation or another
 * engine's records. */
static bool queue_takes(const struct queue *q, const struct job *j)
{
    struct load own = {0};
    size_t key_bytes = bytes_of(j);
    if (!queue_room(q, bytes_of(j), j->is_slow)) return false;
    if (load_has_room(&q->load, q, 2, bytes_of(j), j->is_slow)) return true;
    for (size_t lane = 0; lane < LANE_COUNT; lane++)
        for (const struct job *k = q->lanes[lane].first; k != NULL; k = k->next) {
            if (!str_is_absent(j->charged) && str_equal(k->charged, j->charged)) load_add(&own, k);
            if (same_key(j, k)) key_bytes += bytes_of(k);
        }
    return load_has_room(&own, q, 2, bytes_of(j), j->is_slow) &&
           (bytes_of(j) == 0 || key_bytes <= QUEUE_BYTES_MAX / 4);
}

static void lane_push(struct lane *l, struct job *j)
{
    struct job **at = &l->first;
    j->round = l->round;
    for (const struct job *k = l->first; k != NULL; k = k->next)
        if (same_key(j, k)) j->round = k->round + 1; /* rounds ascend along the list */
    while (*at != NULL && (*at)->round <= j->round) at = &(*at)->next;
    j->next = *at;
    *at = j;
}

static struct job *lane_pop(struct lane *l)
{
    struct job *j = l->first;
    if (j == NULL) return NULL;
    l->first = j->next;
    l->round = j->round;
    return j;
}

static bool queue_push(struct queue *q, struct job *j)
{
    pthread_mutex_lock(&q->lock);
    bool taken = queue_takes(q, j);
    if (taken) {
        lane_push(&q->lanes[lane_of(j)], j);
        load_add(&q->load, j);
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->lock);
    return taken;
}

/* The lane of the next job; LANE_COUNT: no lane has one. */
static enum lane_name next_lane(const struct queue *q)
{
    size_t end = q->long_running < q->long_running_max ? LANE_COUNT : LANE_URGENT + 1;
    size_t found = LANE_COUNT;
    for (size_t lane = 0; lane < end; lane++) {
        if (q->lanes[lane].first == NULL) continue;
        found = lane;
        if (q->turn % TURNS != TURNS - 1) break; /* else the last lane that has any */
    }
    return (enum lane_name)found;
}

/* The next job. NULL: there was none for `patience_ms` (0: no wait), or the end has come
 * (*ret_end). */
static struct job *queue_take(struct queue *q, uint64_t patience_ms, bool *ret_end)
{
    const struct timespec until = condition_deadline(patience_ms);
    pthread_mutex_lock(&q->lock);
    while (next_lane(q) == LANE_COUNT && !q->stopping) {
        if (patience_ms == 0)
            pthread_cond_wait(&q->filled, &q->lock);
        else if (pthread_cond_timedwait(&q->filled, &q->lock, &until) != 0)
            break;
    }
    enum lane_name lane = next_lane(q);
    struct job *j = lane == LANE_COUNT ? NULL : lane_pop(&q->lanes[lane]);
    if (j != NULL) {
        q->long_running += lane != LANE_URGENT;
        load_remove(&q->load, j);
        q->turn++;
    }
    *ret_end = j == NULL && q->stopping;
    pthread_mutex_unlock(&q->lock);
    return j;
}

/* Call when a job is done, before it returns to the reactor. */
static void queue_done(struct queue *q, const struct job *j)
{
    if (lane_of(j) == LANE_URGENT) return;
    pthread_mutex_lock(&q->lock);
    q->long_running--;
    pthread_cond_signal(&q->filled); /* a thread may be waiting to take the next job */
    pthread_mutex_unlock(&q->lock);
}

static void queue_stop(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->stopping = true;
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

static bool is_stopping(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool stopping = q->stopping;
    pthread_mutex_unlock(&q->lock);
    return stopping;
}

/* ---- the other threads ---- */

static void give_back(struct work *w, struct job *j)
{
    pthread_mutex_lock(&w->back_lock);
    j->next = NULL;
    *w->back_last = j;
    w->back_last = &j->next;
    pthread_mutex_unlock(&w->back_lock);
    wakeup_send(&w->wakeup);
}

static void read_keys(struct job *j, struct store *s)
{
    struct fault f;
    enum err err = key_store_table(s, &j->keys, &f);
    if (err == ERR_OK) return;
    /* The change is committed. The platform continues with the keys that it knew, and logs this. */
    if (err == ERR_SET_REFUSED)
        j->set_trouble = f;
    else
        log_line(LOG_ERROR, "keys_unreadable", "why", f.text, NULL);
}

static bool is_failing(const struct db_thread *w)
{
    return atomic_load_explicit(&w->failing_ns, memory_order_relaxed) != 0;
}

static void work_on(struct db_thread *w, struct job *j)
{
    uint64_t begun_ns = world_monotonic_ns();
    j->sheet = w->sheet;
    atomic_store_explicit(&w->begun_ns, begun_ns, memory_order_relaxed);
    uint64_t missed = memory_missed();
    j->work(j, w->store);
    /* Steps may report missing memory under any error code. */
    if (j->err != ERR_OK && memory_missed() != missed) {
        j->err = api_no_memory(&j->fault)->err;
        buf_clear(&j->reply);
    }
    if (j->err == ERR_OK && j->keys_changed) read_keys(j, w->store);
    bool is_taken = j->err != ERR_STORE_UNAVAILABLE && j->err != ERR_TIMEOUT;
    if (is_taken)
        atomic_store_explicit(&w->failing_ns, 0, memory_order_relaxed);
    else if (!is_failing(w))
        atomic_store_explicit(&w->failing_ns, begun_ns, memory_order_relaxed);
    atomic_store_explicit(&w->begun_ns, 0, memory_order_relaxed);
    queue_done(w->queue, j);
}

/* Whether the watch must read the set again. A refused one may have been corrected. */
static bool is_due(const struct work *w, const struct revision *now)
{
    if (w->is_refused && !revision_equal(now, &w->looked_at)) return true;
    uint64_t pause_ms = w->is_refused ? REFUSED_LOOK_MS : SET_LOOK_MS;
    return world_monotonic_ns() - w->looked_ns >= pause_ms * 1000000;
}

/* Checks whether another process (the command line) changed policies or keys, or the store went
 * back; and at intervals, whether all rows are still what was stored. */
static void watch(struct db_thread *w)
{
    struct work *work = w->work;
    struct revision now;
    struct fault f;
    uint64_t lost;
    enum err err = store_settle_history(w->store, &lost, &f);
    if (err != ERR_OK && err != ERR_SET_REFUSED) return; /* the look below finds out why */
    if (lost > 0) work->lost_revision = lost;
    if (store_revision(w->store, &now, &f) != ERR_OK) return;
    bool is_news = now.number != work->revision_seen || work->lost_revision != 0;
    if (!is_due(work, &now) && (!is_news || work->is_refused)) return;
    struct job *j = job_create(work->platform, NULL, NULL);
    err = set_compare(w->store, &j->set_trouble);
    j->is_set_checked = err == ERR_OK;
    if (err == ERR_OK && (is_news || work->is_refused)) read_keys(j, w->store);
    if (err == ERR_OK || err == ERR_SET_REFUSED) {
        work->is_refused = err == ERR_SET_REFUSED;
        work->looked_at = now;
        work->looked_ns = world_monotonic_ns();
    }
    bool is_read = j->keys != NULL;
    if (!is_read && !j->is_set_checked &&
        j->set_trouble.text[0] == '\0') { /* again at the next look */
        job_destroy(j);
        return;
    }
    if (is_read) {
        j->revision = now.number;
        j->lost_revision = work->lost_revision;
        work->revision_seen = now.number;
        work->lost_revision = 0;
    }
    give_back(work, j);
}

/* During the drain, waiting jobs fail at once if the store refuses changes. Otherwise each would
 * wait for its own timeout. */
static void write_one(struct db_thread *w, struct job *j)
{
    if (!is_failing(w) || !is_stopping(w->queue)) {
        work_on(w, j);
        return;
    }
    j->err =
        fault_set(&j->fault, ERR_STORE_UNAVAILABLE, "", "the store accepts no changes at present");
    queue_done(w->queue, j);
}

static void *writer_run(void *argument)
{
    struct db_thread *w = argument;
    uint64_t watched_ns = 0;
    for (bool end = false; !end;) {
        struct job *j = queue_take(w->queue, WATCH_MS, &end);
        if (j != NULL) {
            write_one(w, j);
            /* A gap in the revisions is a change by others. If the keys could not be read, they
             * must be read again. The watch below handles both. */
            bool told_all = !j->keys_changed || j->keys != NULL;
            bool is_next = !j->wrote_nothing && j->revision == w->work->revision_seen + 1;
            if (told_all && is_next) w->work->revision_seen = j->revision;
            give_back(w->work, j);
        }
        uint64_t now_ns = world_monotonic_ns();
        if (now_ns - watched_ns < (uint64_t)WATCH_MS * 1000000) continue;
        watched_ns = now_ns;
        watch(w);
    }
    return NULL;
}

static void *reader_run(void *argument)
{
    struct db_thread *w = argument;
    for (bool end = false; !end;) {
        struct job *j = queue_take(w->queue, 0, &end);
        if (j == NULL) continue;
        work_on(w, j);
        give_back(w->work, j);
    }
    return NULL;
}

/* ---- back on the reactor ---- */

static void wakeup_received(struct loop_wakeup *b)
{
    struct work *w = link_owner(b, struct work, wakeup);
    pthread_mutex_lock(&w->back_lock);
    struct job *j = w->back_first;
    w->back_first = NULL;
    w->back_last = &w->back_first;
    pthread_mutex_unlock(&w->back_lock);
    while (j != NULL) {
        struct job *next = j->next;
        if (j->work != NULL) w->under_way--; /* jobs that the writer made were never counted */
        w->back(j);
        j = next;
    }
}

/* ---- life ---- */

static enum err db_thread_open(struct work *w, struct db_thread *k, struct queue *q,
                               const char *path, const char *name, void *(*run)(void *),
                               struct fault *f)
{
    k->work = w;
    k->queue = q;
    k->sheet = metrics_sheet_create();
    enum err err = store_open(path, run == writer_run, &k->store, f);
    if (err != ERR_OK) return err;
    store_share_history(k->store, &w->platform->history);
    store_share_pepper(k->store, &w->platform->pepper);
    store_share_signer(k->store, w->platform->signer);
    thread_start(&k->thread, name, run, k);
    k->running = true;
    return ERR_OK;
}

static bool job_init(struct job *j)
{
    arena_init(&j->arena, JOB_ARENA_FIRST, JOB_ARENA_LIMIT);
    buf_init(&j->reply, 1 << 10, JOB_REPLY_MAX);
    return !j->arena.overflow && !j->reply.overflow;
}

static void job_fini(struct job *j)
{
    arena_fini(&j->arena);
    buf_fini(&j->reply);
}

enum err work_create(struct platform *p, const char *store_path, unsigned readers,
                     void (*back)(struct job *), struct work **ret, struct fault *f)
{
    struct work *w = calloc(1, sizeof *w);
    check(w != NULL && readers <= READERS_MAX);
    for (; w->spare_count < SPARE_JOBS; w->spare_count++) {
        struct job *j = w->spares[w->spare_count] = calloc(1, sizeof *j);
        check(j != NULL && job_init(j)); /* only at boot */
        j->is_spare = true;
    }
    w->platform = p;
    w->back = back;
    w->revision_seen = p->revision; /* boot has read this revision */
    w->reader_count = readers;
    w->back_last = &w->back_first;
    pthread_mutex_init(&w->back_lock, NULL);
    queue_init(&w->queues[QUEUE_WRITER], WRITER_JOBS_MAX, 1);
    queue_init(&w->queues[QUEUE_READER], READER_JOBS_MAX, readers > 1 ? readers - 1 : 1);
    wakeup_start(p->loop, &w->wakeup, wakeup_received);
    enum err err = db_thread_open(w, &w->writer, &w->queues[QUEUE_WRITER], store_path, "writer",
                                  writer_run, f);
    for (unsigned i = 0; i < readers && err == ERR_OK; i++)
        err = db_thread_open(w, &w->readers[i], &w->queues[QUEUE_READER], store_path, "reader",
                             reader_run, f);
    if (err != ERR_OK) {
        work_stop(w);
        work_destroy(w);
        return err;
    }
    *ret = w;
    return ERR_OK;
}

static void db_thread_join(struct db_thread *k)
{
    if (k->running) pthread_join(k->thread, NULL);
    k->running = false;
    store_close(k->store);
    k->store = NULL;
}

void work_stop(struct work *w)
{
    if (w == NULL) return;
    for (size_t i = 0; i < QUEUE_COUNT; i++) queue_stop(&w->queues[i]);
    for (unsigned i = 0; i < w->reader_count; i++) db_thread_join(&w->readers[i]);
    db_thread_join(&w->writer); /* last: closing it joins the WAL into the file */
}

void work_destroy(struct work *w)
{
    if (w == NULL) return;
    wakeup_received(&w->wakeup); /* handles the last finished jobs: they are answered or freed */
    wakeup_stop(&w->wakeup);
    for (size_t i = 0; i < QUEUE_COUNT; i++) queue_fini(&w->queues[i]);
    pthread_mutex_destroy(&w->back_lock);
    while (w->spare_count > 0) {
        struct job *j = w->spares[--w->spare_count];
        job_fini(j);
        free(j);
    }
    free(w);
}

bool work_has_room(struct work *w, enum job_queue q, size_t bytes)
{
    struct queue *queue = &w->queues[q];
    pthread_mutex_lock(&queue->lock);
    bool room = queue_room(queue, bytes, false);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

static bool has_room_for(struct work *w, enum job_queue q, const struct job *j)
{
    struct queue *queue = &w->queues[q];
    pthread_mutex_lock(&queue->lock);
    bool room = queue_takes(queue, j);
    pthread_mutex_unlock(&queue->lock);
    return room;
}

size_t work_under_way(const struct work *w) { return w->under_way; }

unsigned work_writing_seconds(const struct work *w)
{
    uint64_t begun_ns = atomic_load_explicit(&w->writer.begun_ns, memory_order_relaxed),
             failing_ns = atomic_load_explicit(&w->writer.failing_ns, memory_order_relaxed);
    if (begun_ns == 0) return 0; /* idle: the next job will find out */
    uint64_t since_ns = failing_ns == 0 ? begun_ns : failing_ns;
    return (unsigned)((world_monotonic_ns() - since_ns) / UINT64_C(1000000000));
}

/* ---- jobs ---- */

/* Without memory, a job is made of a spare one. job_send() refuses it, so there is only one place
 * for that. */
static struct job *job_new(struct work *w)
{
    struct job *j = calloc(1, sizeof *j);
    if (j != NULL && job_init(j)) return j;
    if (j != NULL) job_fini(j);
    free(j);
    check(w->spare_count > 0);
    return w->spares[--w->spare_count];
}

static void job_spare(struct job *j)
{
    struct work *w = j->platform->work;
    struct job blank = {.arena = j->arena, .reply = j->reply, .is_spare = true};
    arena_reset(&blank.arena);
    buf_clear(&blank.reply);
    *j = blank;
    w->spares[w->spare_count++] = j;
}

struct job *job_create(struct platform *p, const struct http_exchange *x,
                       void (*work)(struct job *, struct store *))
{
    struct job *j = job_new(p->work);
    j->platform = p;
    j->work = work;
    j->status = 200;
    j->actor.now_ms = world_now_ms();
    if (x == NULL) return j;
    id_write("req_", id_make(j->actor.now_ms, &p->api.chance), j->request_id);
    j->actor.request_id = str_of(j->request_id, ID_TEXT);
    j->echo_id = job_copy(j, api_request_id(x));
    j->client = x->client;
    const struct key *k = p->caller.key;
    if (k == NULL) return j;
    j->tenant = job_copy(j, p->caller.tenant);
    if (!platform_is_everywhere(p)) j->charged = job_copy(j, k->tenant);
    j->actor.principal = job_copy(j, k->name);
    j->actor.key_id = job_copy(j, key_shown_id(k));
    return j;
}

void job_destroy(struct job *j)
{
    if (j == NULL) return;
    key_table_destroy(j->keys);
    key_destroy(j->draft);
    free(j->body);
    if (j->is_spare) {
        job_spare(j);
        return;
    }
    job_fini(j);
    free(j);
}

void *job_detail_take(struct job *j, size_t size)
{
    void *detail = arena_take(&j->arena, size);
    if (detail != NULL) return detail;
    struct work *w = j->platform->work;
    check(size <= sizeof w->nowhere);
    return memset(w->nowhere, 0, size);
}

struct str job_copy(struct job *j, struct str s) { return arena_copy(&j->arena, s); }

bool job_queue(struct job *j, enum job_queue q)
{
    struct work *w = j->platform->work;
    if (j->is_spare || j->arena.overflow) return false;
    j->queue = q;
    w->under_way++; /* before the push: the job may return at once */
    if (queue_push(&w->queues[q], j)) return true;
    w->under_way--;
    return false;
}

bool job_send_away(struct job *j, struct http_exchange *x)
{
    struct platform *p = j->platform;
    struct fault f;
    check(j->work != NULL); /* else its return would not be counted */
    if (j->is_spare || j->arena.overflow) {
        job_destroy(j);
        platform_refuse(p, x, api_no_memory(&f));
        return false;
    }
    j->queue = QUEUE_COUNT;
    j->token = http_defer(x);
    j->has_token = true;
    p->work->under_way++;
    return true;
}

void job_return(struct job *j) { give_back(j->platform->work, j); }

bool job_copy_globs(struct job *j, const struct globs *from, struct globs *to)
{
    *to = (struct globs){.count = from->count};
    if (from->count == 0) return true;
    to->list = arena_array(&j->arena, struct str, from->count);
    if (to->list == NULL) return false;
    for (size_t i = 0; i < from->count; i++) to->list[i] = job_copy(j, from->list[i]);
    return !j->arena.overflow;
}

/* Only this thread fills the queues, so the room stays until the push. */
enum err work_judge(const struct job *j, enum job_queue q, struct fault *f)
{
    struct work *w = j->platform->work;
    if (j->is_spare || j->arena.starved) {
        api_no_memory(f);
        return f->err;
    }
    if (j->arena.overflow)
        return fault_set(f, ERR_OVERLOADED, "",
                         "the request is too large for the queue: send less at once");
    if (!has_room_for(w, q, j))
        return fault_set(f, ERR_OVERLOADED, "",
                         "too many requests wait for the store: try again later");
    unsigned writing_s = q == QUEUE_WRITER ? work_writing_seconds(w) : 0;
    if (writing_s >= WRITING_SECONDS_MAX)
        return fault_set(
            f, ERR_STORE_UNAVAILABLE, "",
            "the store has not taken a change for %u s: further changes are refused until it does",
            writing_s);
    return ERR_OK;
}
