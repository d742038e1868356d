/* threads.c - the three threads that take the scribe's steps, and when each takes its next.
 *
 * The writer sleeps until a block is sealed, the syncer until somebody waits for durable or the
 * lazy sync is due, the keeper for a second or until the spare is gone. */
#include "base/check.h"
#include "base/thread.h"
#include "base/world.h"
#include "journal/scribe.h"

enum {
    CLAIM_AFTER_MS = 1000,
    KEEP_EVERY_MS = 1000,
    GATHER_RECORDS = 32,
    GATHER_ROUND_NS = 5000000
};

static bool sealed_blocks(void *context)
{
    struct scribe *s = context;
    if (atomic_load(&s->stopping)) return true;
    for (unsigned i = 0; i < s->options.producers; i++)
        if (s->producers[i].taken != atomic_load(&s->producers[i].sealed)) return true;
    return false;
}

static void *writer_run(void *context)
{
    struct scribe *s = context;
    uint64_t idle_since = world_monotonic_ns();
    for (;;) {
        if (scribe_write_step(s, world_now_ms())) {
            idle_since = world_monotonic_ns();
            continue;
        }
        if (atomic_load(&s->stopping)) return NULL;
        bool untold = s->claimed_seq < s->tail.next_seq - 1;
        if (untold && world_monotonic_ns() - idle_since >= CLAIM_AFTER_MS * UINT64_C(1000000)) {
            scribe_claim_step(s, world_now_ms());
            idle_since = world_monotonic_ns();
            untold = s->claimed_seq < s->tail.next_seq - 1;
        }
        bell_sleep(&s->writer_bell, untold ? CLAIM_AFTER_MS : UINT32_MAX, sealed_blocks, s);
    }
}

static bool unsynced_frames(void *context)
{
    struct scribe *s = context;
    return atomic_load(&s->stopping) ||
           atomic_load(&s->written_frames) != atomic_load(&s->durable_frames);
}

static bool wanted_frames(void *context)
{
    struct scribe *s = context;
    return atomic_load(&s->stopping) ||
           atomic_load(&s->wanted_frames) > atomic_load(&s->durable_frames);
}

/* Sleeps until someone waits for durable, or the lazy sync of what is written is due. */
static void syncer_linger(struct scribe *s)
{
    uint64_t due = world_monotonic_ns() + s->options.lazy_sync_ms * UINT64_C(1000000);
    atomic_store(&s->syncer_timed, true);
    for (;;) {
        uint64_t now = world_monotonic_ns();
        if (now >= due || wanted_frames(s)) break;
        uint64_t left_ms = (due - now + 999999) / 1000000;
        bell_sleep(&s->syncer_bell, (uint32_t)left_ms, wanted_frames, s);
    }
    atomic_store(&s->syncer_timed, false);
}

static bool gathered(void *context)
{
    struct scribe *s = context;
    return atomic_load(&s->stopping) || atomic_load(&s->written_seq) >= atomic_load(&s->gather_seq);
}

/* Group commit. A sync costs about 90 µs of processor for one record as for a thousand. So after
 * one that served much company the next begins when as many records are there again, or a round
 * after the last one began. Those who wait send nothing more, so where all wait nobody lingers:
 * their number is soon there. Where others go on, blocks overshoot the number and it grows until
 * the round ends first. Whoever is alone, or comes after a pause, does not wait. */
static void syncer_gather(struct scribe *s, uint64_t records, uint64_t begun_ns)
{
    if (records < GATHER_RECORDS) return;
    uint64_t due = begun_ns + GATHER_ROUND_NS, now;
    atomic_store(&s->gather_seq, atomic_load(&s->durable_seq) + records);
    while (!gathered(s) && (now = world_monotonic_ns()) < due)
        bell_sleep(&s->syncer_bell, (uint32_t)((due - now + 999999) / 1000000), gathered, s);
    atomic_store(&s->gather_seq, 0);
}

static void *syncer_run(void *context)
{
    struct scribe *s = context;
    for (;;) {
        if (!unsynced_frames(s)) bell_sleep(&s->syncer_bell, UINT32_MAX, unsynced_frames, s);
        if (!wanted_frames(s) && unsynced_frames(s)) syncer_linger(s);
        bool stopping = atomic_load(&s->stopping);
        bool waited_for = wanted_frames(s);
        uint64_t before_seq = atomic_load(&s->durable_seq), before_ns = world_monotonic_ns();
        if (!scribe_sync_step(s) && stopping) return NULL;
        uint64_t records = atomic_load(&s->durable_seq) - before_seq;
        if (waited_for) syncer_gather(s, records, before_ns);
    }
}

static bool keeper_news(void *context)
{
    struct scribe *s = context;
    if (atomic_load(&s->stopping)) return true;
    /* a full disk is looked at again in a second */
    return !atomic_load(&s->spare_fails) && scribe_needs_spare(s);
}

static void *keeper_run(void *context)
{
    struct scribe *s = context;
    while (!atomic_load(&s->stopping)) {
        scribe_keep_step(s, world_now_ms());
        bell_sleep(&s->keeper_bell, KEEP_EVERY_MS, keeper_news, s);
    }
    return NULL;
}

void scribe_start(struct scribe *s)
{
    thread_start(&s->writer, "journal-writer", writer_run, s);
    thread_start(&s->syncer, "journal-syncer", syncer_run, s);
    thread_start(&s->keeper, "journal-keeper", keeper_run, s);
    s->running = true;
}

void scribe_stop(struct scribe *s)
{
    if (!s->running) return;
    atomic_store(&s->stopping, true);
    bell_ring(&s->writer_bell);
    bell_ring(&s->syncer_bell);
    bell_ring(&s->keeper_bell);
    pthread_join(s->writer, NULL);
    pthread_join(s->syncer, NULL);
    pthread_join(s->keeper, NULL);
    s->running = false;
}
