/* threads.c - the three threads that call the journal writer's steps, and when each calls the next.
 *
 * The writer sleeps until a block is sealed. The syncer sleeps until a reply waits for durable or
 * the lazy sync is due. The segment pool sleeps for a second or until the spare is taken. */
#include "base/check.h"
#include "base/thread.h"
#include "base/world.h"
#include "journal/journal_writer.h"

enum {
    CLAIM_AFTER_MS = 1000,
    KEEP_EVERY_MS = 1000,
};

static bool sealed_blocks(void *context)
{
    struct journal_writer *s = context;
    if (atomic_load(&s->stopping)) return true;
    for (unsigned i = 0; i < s->options.producers; i++)
        if (s->producers[i].taken != atomic_load(&s->producers[i].sealed)) return true;
    return false;
}

/* Under load, later frames claim a record durable within milliseconds. If none has done so after a
 * second, because the journal rests or frames are few and small, frames without records do it. */
static void *writer_run(void *context)
{
    struct journal_writer *s = context;
    uint64_t wanted_seq = 0, since_ns = 0;
    for (;;) {
        bool wrote = journal_writer_write_step(s, world_now_ms());
        if (!wrote && atomic_load(&s->stopping)) return NULL;
        uint64_t now_ns = world_monotonic_ns();
        if (s->tail.told.seq >= wanted_seq) {
            wanted_seq = s->tail.next_seq - 1;
            since_ns = now_ns;
        } else if (now_ns - since_ns >= CLAIM_AFTER_MS * UINT64_C(1000000)) {
            journal_writer_claim_step(s, world_now_ms());
            since_ns = now_ns;
        }
        if (wrote) continue;
        bool untold = s->tail.told.seq < s->tail.next_seq - 1;
        wakeup_wait(&s->writer_wakeup, untold ? CLAIM_AFTER_MS : UINT32_MAX, sealed_blocks, s);
    }
}

static bool unsynced_frames(void *context)
{
    struct journal_writer *s = context;
    return atomic_load(&s->stopping) ||
           atomic_load(&s->written_frames) != atomic_load(&s->durable_frames);
}

static bool wanted_frames(void *context)
{
    struct journal_writer *s = context;
    return atomic_load(&s->stopping) ||
           atomic_load(&s->wanted_frames) > atomic_load(&s->durable_frames);
}

/* Sleeps until a reply waits for durable, or the lazy sync of the written blocks is due. */
static void syncer_linger(struct journal_writer *s)
{
    uint64_t due = world_monotonic_ns() + s->options.lazy_sync_ms * UINT64_C(1000000);
    atomic_store(&s->syncer_timed, true);
    for (;;) {
        uint64_t now = world_monotonic_ns();
        if (now >= due || wanted_frames(s)) break;
        uint64_t left_ms = (due - now + 999999) / 1000000;
        wakeup_wait(&s->syncer_wakeup, (uint32_t)left_ms, wanted_frames, s);
    }
    atomic_store(&s->syncer_timed, false);
}

/* Group commit needs no delay of its own. One sync runs at a time, and all that is written while it runs
 * is in the next one: so the slower the disk, the more records a sync serves. To wait for more was measured
 * and is not done: in an open loop each request paid the wait, and in a closed loop nothing was gained. */
static void *syncer_run(void *context)
{
    struct journal_writer *s = context;
    for (;;) {
        if (!unsynced_frames(s)) wakeup_wait(&s->syncer_wakeup, UINT32_MAX, unsynced_frames, s);
        if (!wanted_frames(s) && unsynced_frames(s)) syncer_linger(s);
        bool stopping = atomic_load(&s->stopping);
        if (!journal_writer_sync_step(s) && stopping) return NULL;
    }
}

static bool pool_news(void *context)
{
    struct journal_writer *s = context;
    if (atomic_load(&s->stopping)) return true;
    /* a full disk is checked again after a second */
    return !atomic_load(&s->spare_fails) && journal_writer_needs_spare(s);
}

static void *pool_run(void *context)
{
    struct journal_writer *s = context;
    while (!atomic_load(&s->stopping)) {
        journal_writer_keep_step(s, world_now_ms());
        wakeup_wait(&s->pool_wakeup, KEEP_EVERY_MS, pool_news, s);
    }
    return NULL;
}

void journal_writer_start(struct journal_writer *s)
{
    thread_start(&s->writer, "journal-writer", writer_run, s);
    thread_start(&s->syncer, "journal-syncer", syncer_run, s);
    thread_start(&s->segment_pool, "journal-keeper", pool_run, s);
    s->running = true;
}

void journal_writer_stop(struct journal_writer *s)
{
    if (!s->running) return;
    atomic_store(&s->stopping, true);
    wakeup_send(&s->writer_wakeup);
    wakeup_send(&s->syncer_wakeup);
    wakeup_send(&s->pool_wakeup);
    pthread_join(s->writer, NULL);
    pthread_join(s->syncer, NULL);
    pthread_join(s->segment_pool, NULL);
    s->running = false;
}
