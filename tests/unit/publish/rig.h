/* rig.h - a real journal in a directory of its own, and a platform of ours that lies on request. */
#ifndef TESTS_PUBLISH_RIG_H
#define TESTS_PUBLISH_RIG_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/publish/publish.h"
#include "pipeline/publish/stream_tree.h"
#include "pipeline/publish/transport.h"

enum {
    FAKE_RECORDS = 4096,
    PATIENCE_S = 120,
    DRAIN_MS = 120000,
    QUICK_POLL_MS = 20,
    PUBLISHED_NOTE_MAX = 1024
};

struct fake { /* a platform with one stream; all under `lock` */
    struct transport door;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char log_id[16];
    uint64_t next_seq;
    char epoch[EPOCH_TEXT];
    uint64_t wants_from; /* not 0: the next send is a gap that wants this */
    int failing_finds, failing_sends;
    bool blocks;           /* sends wait until interrupted */
    size_t takes_bytes;    /* not 0: larger batches are too large */
    size_t in_time_bytes;  /* not 0: larger batches are late */
    size_t largest;        /* of those that were taken */
    uint64_t answers_next; /* not 0: the next accepted batch is answered with it */
    uint64_t clashes;      /* told with each accepted batch */
    /* What came. */
    uint64_t finds, sends, stored, batches, interrupted;
    char lines[FAKE_RECORDS][64];
    char epochs[FAKE_RECORDS][EPOCH_TEXT];
    bool out_of_order;
    uint64_t uncovered; /* batches without a checkpoint */
    uint64_t from_seq;  /* of the last batch's checkpoint; 0: it had none */
    char note[PUBLISHED_NOTE_MAX];
};

static inline enum err fake_find(void *state, struct stream_report *ret, struct fault *f)
{
    struct fake *k = state;
    pthread_mutex_lock(&k->lock);
    k->finds++;
    pthread_cond_broadcast(&k->changed);
    enum err e = ERR_OK;
    if (k->failing_finds != 0) {
        if (k->failing_finds > 0) k->failing_finds--;
        e = fault_set(f, ERR_CLOSED, "", "the platform is away");
    } else {
        *ret = (struct stream_report){
            .known = k->next_seq > 1, .next_seq = k->next_seq, .want_from = k->next_seq};
        memcpy(ret->log_id, k->log_id, sizeof k->log_id);
        memcpy(ret->epoch, k->epoch, EPOCH_TEXT);
    }
    pthread_mutex_unlock(&k->lock);
    return e;
}

/* Stores the batch's lines under their numbers. */
static inline void fake_store(struct fake *k, const struct batch *b)
{
    struct str rest = b->lines, line;
    for (uint64_t i = 0; i < b->count && str_split(&rest, '\n', &line); i++) {
        uint64_t seq = b->first_seq + i;
        if (seq >= FAKE_RECORDS) abort();
        snprintf(k->lines[seq], sizeof k->lines[seq], "%.*s", STR_FORMAT(line));
        memcpy(k->epochs[seq], b->epoch, EPOCH_TEXT);
        k->stored++;
    }
    k->uncovered += b->checkpoint.from_seq == 0;
    k->from_seq = b->checkpoint.from_seq;
    snprintf(k->note, sizeof k->note, "%.*s", STR_FORMAT(b->checkpoint.note));
    k->next_seq = b->first_seq + b->count;
    memcpy(k->epoch, b->epoch, EPOCH_TEXT);
    k->batches++;
    if (b->lines.size > k->largest) k->largest = b->lines.size;
}

static inline enum sent fake_send(void *state, const struct batch *b, struct send_answer *ret,
                                  struct fault *f)
{
    struct fake *k = state;
    pthread_mutex_lock(&k->lock);
    k->sends++;
    pthread_cond_broadcast(&k->changed);
    uint64_t interrupted = k->interrupted;
    while (k->blocks && k->interrupted == interrupted) pthread_cond_wait(&k->changed, &k->lock);

    enum sent answer = SENT_ACCEPTED;
    if (k->blocks || k->failing_sends != 0) {
        if (k->failing_sends > 0) k->failing_sends--;
        (void)fault_set(f, ERR_CLOSED, "", "the platform is away");
        answer = SENT_FAILED;
    } else if (k->takes_bytes != 0 && b->lines.size > k->takes_bytes) {
        (void)fault_set(f, ERR_BODY_TOO_LARGE, "", "too large");
        answer = SENT_TOO_LARGE;
    } else if (k->in_time_bytes != 0 && b->lines.size > k->in_time_bytes) {
        (void)fault_set(f, ERR_TIMEOUT, "", "late");
        answer = SENT_LATE;
    } else if (k->wants_from != 0) {
        ret->want_from = k->wants_from;
        k->next_seq = k->wants_from;
        k->wants_from = 0;
        answer = SENT_GAP;
    } else {
        if (b->first_seq != k->next_seq) k->out_of_order = true;
        fake_store(k, b);
        ret->next_seq = k->answers_next != 0 ? k->answers_next : k->next_seq;
        ret->clashes = k->clashes;
        k->answers_next = 0;
    }
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return answer;
}

static inline void fake_interrupt(void *state)
{
    struct fake *k = state;
    pthread_mutex_lock(&k->lock);
    k->interrupted++;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

static inline void fake_destroy(struct transport *t) { (void)t; }

static inline struct fake *fake_create(void)
{
    struct fake *k = calloc(1, sizeof *k);
    if (k == NULL) abort();
    k->door = (struct transport){k, fake_find, fake_send, fake_interrupt, fake_destroy, NULL};
    pthread_mutexattr_t checked; /* only the thread that has it can give it back */
    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&k->lock, &checked);
    pthread_mutexattr_destroy(&checked);
    pthread_cond_init(&k->changed, NULL);
    k->next_seq = 1;
    snprintf(k->log_id, sizeof k->log_id, "log-a");
    return k;
}

/* Waits (with patience, under the lock) until the condition holds; leaves the lock taken. */
#define FAKE_UNTIL(k, condition)                                                                   \
    do {                                                                                           \
        struct timespec at_;                                                                       \
        clock_gettime(CLOCK_REALTIME, &at_);                                                       \
        at_.tv_sec += PATIENCE_S;                                                                  \
        pthread_mutex_lock(&(k)->lock);                                                            \
        while (!(condition))                                                                       \
            if (pthread_cond_timedwait(&(k)->changed, &(k)->lock, &at_) == ETIMEDOUT)              \
                fail_msg("never came true: " #condition);                                          \
    } while (0)
#define FAKE_DONE(k) pthread_mutex_unlock(&(k)->lock)

/* ---- the journal ---- */

struct rig {
    char folder[64];
    struct disk *disk;
    struct journal *journal;
    struct journal_producer *producer;
    pthread_mutex_t lock;
    struct publisher *publisher; /* under `lock`: the journal rings while it ends */
    struct fake *platform;
    uint64_t poll_ms; /* of the publisher; 0: the usual */
    bool has_tree;    /* of the publisher, in the folder */
};

static inline void rig_ring_durable(void *context)
{
    struct rig *r = context;
    pthread_mutex_lock(&r->lock);
    publish_wake(r->publisher);
    pthread_mutex_unlock(&r->lock);
}

static inline void rig_ring(void *context, unsigned producer)
{
    (void)context;
    (void)producer;
}

/* Opens the journal: a new epoch each time. */
static inline void rig_boot(struct rig *r)
{
    struct fault f = {0};
    struct journal_report report;
    struct journal_options options = {.disk = r->disk,
                                      .producers = 1,
                                      .segment_bytes = 1 << 20,
                                      .lazy_sync_ms = 1,
                                      .ring = rig_ring,
                                      .ring_durable = rig_ring_durable,
                                      .context = r};
    if (journal_open(&options, NULL, NULL, &r->journal, &report, &f) != ERR_OK) {
        printf("journal: %s\n", f.text);
        abort();
    }
    r->producer = journal_producer(r->journal, 0);
}

static inline void rig_shut(struct rig *r)
{
    journal_close(r->journal);
    r->journal = NULL;
}

static inline void rig_restart(struct rig *r)
{
    rig_shut(r);
    disk_real_destroy(r->disk); /* and with it the lock of the folder */
    if (disk_real_create(r->folder, &r->disk) != ERR_OK) abort();
    rig_boot(r);
}

static inline struct rig *rig_create(void)
{
    struct rig *r = calloc(1, sizeof *r);
    if (r == NULL) abort();
    pthread_mutex_init(&r->lock, NULL);
    snprintf(r->folder, sizeof r->folder, "/tmp/writ-publish-XXXXXX");
    if (mkdtemp(r->folder) == NULL || disk_real_create(r->folder, &r->disk) != ERR_OK) abort();
    rig_boot(r);
    r->platform = fake_create();
    return r;
}

static inline void rig_remove_file(void *context, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", (const char *)context, name);
    unlink(path);
}

static inline void rig_destroy(struct rig *r)
{
    journal_close(r->journal);
    (void)r->disk->list(r->disk->state, rig_remove_file, r->folder);
    disk_real_destroy(r->disk);
    static const char *const others[] = {"lock", "evidence.key", "evidence.pub", "evidence.tree"};
    for (size_t i = 0; i < 4; i++) rig_remove_file(r->folder, others[i]);
    rmdir(r->folder);
    free(r->platform);
    free(r);
}

/* One block with `count` records "<first>", "<first + 1>", … of `padding` more bytes each. */
static inline void rig_append(struct rig *r, uint64_t first, unsigned count, size_t padding)
{
    for (unsigned i = 0; i < count; i++) {
        char *to;
        enum err e;
        while ((to = journal_reserve(r->producer, 32 + padding, &e)) == NULL) sched_yield();
        int size = snprintf(to, 32, "%llu", (unsigned long long)(first + i));
        memset(to + size, ' ', padding);
        journal_commit(r->producer, (size_t)size + padding, 0, true);
        journal_seal(r->producer);
    }
    uint64_t written, durable = 0, mark = journal_block(r->producer);
    while (durable < mark) {
        journal_progress(r->producer, &written, &durable);
        sched_yield();
    }
}

static inline void rig_publish(struct rig *r)
{
    struct publish_options options = {.journal = r->journal,
                                      .node = "n1",
                                      .transport = &r->platform->door,
                                      .poll_ms = r->poll_ms};
    struct publisher *p;
    struct fault f;
    if (r->has_tree && stream_tree_open(r->folder, options.node, &options.tree, &f) != ERR_OK)
        abort();
    if (publish_start(&options, &p, &f) != ERR_OK) abort();
    pthread_mutex_lock(&r->lock);
    r->publisher = p;
    pthread_mutex_unlock(&r->lock);
}

static inline bool rig_unpublish(struct rig *r, uint32_t drain_ms)
{
    pthread_mutex_lock(&r->lock);
    struct publisher *p = r->publisher;
    r->publisher = NULL;
    pthread_mutex_unlock(&r->lock);
    return publish_stop(p, drain_ms);
}

#endif
