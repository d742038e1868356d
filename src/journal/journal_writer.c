/* journal_writer.c - the writer's and the syncer's steps. (The segment pool's step is in segment_pool.c,
 * the threads that call them in threads.c.)
 *
 * The writer owns the chain: it alone numbers records, hashes frames and knows the offset. The
 * syncer owns the durable block numbers. It reads what it is about to promise first (block numbers,
 * then the list of files), so that everything it read was written before its fdatasync began. */
#include "journal/journal_writer.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "base/world.h"

_Noreturn void journal_writer_die(const char *what, enum err err)
{
    log_text(
        LOG_ERROR, "journal_failed",
        "%s: %s; it is unknown which data the kernel holds, so this process ends; the next start "
        "checks the journal",
        what, err_sentence(err));
    abort();
}

/* The bytes of a segment that frames can rely on: its end can be too short for the next one. */
static int64_t usable(uint64_t bytes, uint64_t start)
{
    return bytes > start + FRAME_BYTES ? (int64_t)(bytes - start - FRAME_BYTES) : 0;
}

enum err journal_writer_init(struct journal_writer *s, const struct journal_options *options,
                             const char *epoch, struct tail tail)
{
    s->disk = options->disk;
    s->options = *options;
    memcpy(s->epoch, epoch, JOURNAL_EPOCH_TEXT);
    check(pthread_mutex_init(&s->files_lock, NULL) == 0);
    s->spare.file = s->cooling.file = -1;
    s->hasher = hasher_create();
    s->claim_bytes = calloc(1, JOURNAL_WRITER_PAD_BYTES);
    check(s->claim_bytes != NULL);
    s->producers = aligned_alloc(64, options->producers * sizeof *s->producers);
    check(s->producers != NULL);
    memset(s->producers, 0, options->producers * sizeof *s->producers);
    for (unsigned i = 0; i < options->producers; i++) producer_init(&s->producers[i], s, i);

    int64_t eighth = (int64_t)(options->segment_bytes / 8);
    s->reserve_bytes = eighth > FRAME_BYTES ? eighth : FRAME_BYTES;
    s->tail = tail;
    s->tail_start = tail.offset;
    s->padded = (tail.offset + JOURNAL_WRITER_PAGE_BYTES - 1) / JOURNAL_WRITER_PAGE_BYTES *
                JOURNAL_WRITER_PAGE_BYTES;
    atomic_store(&s->held_seq, UINT64_MAX);
    atomic_store(&s->leave_bytes, options->leave_bytes);
    atomic_store(&s->written_seq, tail.next_seq - 1);
    atomic_store(&s->durable_seq, tail.next_seq - 1);
    atomic_store(&s->room, usable(tail.segment_bytes, tail.offset));

    char name[SEGMENT_NAME];
    segment_write_name(tail.segment, name);
    s->current = (struct journal_writer_file){
        .segment = tail.segment, .bytes = tail.segment_bytes, .file = -1};
    return s->disk->open(s->disk->state, name, false, &s->current.file);
}

static void file_close(struct journal_writer *s, struct journal_writer_file *f)
{
    if (f->file >= 0) s->disk->close(s->disk->state, f->file);
    f->file = -1;
}

void journal_writer_fini(struct journal_writer *s)
{
    file_close(s, &s->current);
    file_close(s, &s->spare);
    file_close(s, &s->cooling);
    for (unsigned i = 0; i < s->retired_count; i++) file_close(s, &s->retired[i]);
    for (unsigned i = 0; i < s->options.producers; i++) producer_fini(&s->producers[i]);
    free(s->producers);
    free(s->claim_bytes);
    hasher_destroy(s->hasher);
    pthread_mutex_destroy(&s->files_lock);
}

/* ---- the writer ---- */

static void rotate(struct journal_writer *s)
{
    pthread_mutex_lock(&s->files_lock);
    check(s->spare.file >= 0); /* room was taken for this frame */
    check(s->retired_count < JOURNAL_WRITER_RETIRED);
    s->retired[s->retired_count++] = s->current;
    s->current = s->spare;
    s->spare.file = -1;
    atomic_store(&s->spare_ready, false);
    struct journal_writer_file current = s->current;
    pthread_mutex_unlock(&s->files_lock);

    /* Frames at the end of the old segment, which was not counted as room, took the room of the new
     * one. */
    int64_t taken = (int64_t)(s->tail.offset - s->tail_start);
    atomic_fetch_add(&s->room, taken - usable(s->tail.segment_bytes, s->tail_start));

    shelf_end_newest(&s->shelf, s->last_ms);
    shelf_append(&s->shelf, (struct segment){.id = current.segment, .bytes = current.bytes});
    s->tail.segment = current.segment;
    s->tail.segment_bytes = current.bytes;
    s->tail.offset = s->tail_start = s->padded = 0;
    wakeup_send(&s->pool_wakeup);
}

static void hash_last(struct journal_writer *s)
{
    if (s->unhashed_bytes == NULL) return;
    s->tail.previous = frame_digest(&s->unhashed, s->unhashed_bytes, s->hasher);
    s->unhashed_bytes = NULL;
}

/* How much to write with a frame of `size`. Unless an earlier frame did so, the write continues
 * with the zeros behind the tail to the end of a piece. A write that ends inside a page which the
 * page cache does not have waits for the disk to read the page. A large piece gets a few large
 * folios, which cost a third less to write, sync and drop than many small ones. */
static size_t padded(struct journal_writer *s, size_t size)
{
    uint64_t end = s->tail.offset + size;
    if (end <= s->padded) return size;
    s->padded =
        (end + JOURNAL_WRITER_PAD_BYTES - 1) / JOURNAL_WRITER_PAD_BYTES * JOURNAL_WRITER_PAD_BYTES;
    if (s->padded > s->tail.segment_bytes) s->padded = s->tail.segment_bytes;
    return (size_t)(s->padded - s->tail.offset);
}

/* Writes one frame of `count` records, whose body lies in `bytes` behind the room for the header.
 * Its digest is taken later (hash_last), after the waiting replies have left. */
static void write_frame(struct journal_writer *s, char *bytes, uint32_t body_bytes, uint32_t count,
                        uint64_t now_ms)
{
    hash_last(s);
    struct frame f = {.first_seq = s->tail.next_seq,
                      .count = count,
                      .body_bytes = body_bytes,
                      .previous = s->tail.previous,
                      .written_ms = now_ms,
                      .node = s->options.node,
                      .durable_seq = atomic_load_explicit(&s->durable_seq, memory_order_acquire)};
    memcpy(f.epoch, s->epoch, JOURNAL_EPOCH_TEXT);
    size_t size = frame_size(&f);
    if (s->tail.offset + size > s->tail.segment_bytes) rotate(s);
    f.segment = s->tail.segment;
    f.segment_bytes = s->tail.segment_bytes;
    frame_encode(&f, bytes);
    size_t write = padded(s, size);
    memset(bytes + size, 0, write - size);

    /* ENOSPC here would mean that the file's blocks were not allocated: as bad as EIO. */
    enum err err = s->disk->write(s->disk->state, s->current.file, bytes, write, s->tail.offset);
    if (err != ERR_OK) journal_writer_die("a write to the journal failed", err);

    if (s->tail.offset == 0) shelf_begin_newest(&s->shelf, f.first_seq);
    frame_told_next(&s->tail.told, s->tail.offset, &f);
    s->tail.offset += size;
    shelf_grow_newest(&s->shelf, s->tail.offset);
    s->tail.next_seq += count;
    s->last_ms = now_ms;
    s->unhashed = f;
    s->unhashed_bytes = bytes;
    atomic_fetch_add_explicit(&s->records, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->frames, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->bytes, size, memory_order_relaxed);
}

/* Signals one more frame to the syncer. Wakes it if a reply waits for durable, or if it sleeps
 * without a deadline, because then it does not know that a lazy sync will be due. */
static void tell_syncer(struct journal_writer *s, bool wanted)
{
    uint64_t frames = atomic_load_explicit(&s->written_frames, memory_order_relaxed) + 1;
    if (wanted) atomic_store_explicit(&s->wanted_frames, frames, memory_order_release);
    atomic_store(&s->written_frames, frames);
}

static void ring_syncer(struct journal_writer *s, bool wanted)
{
    if (wanted || !atomic_load(&s->syncer_timed)) wakeup_send(&s->syncer_wakeup);
}

/* Writes all blocks that one producer has sealed. */
static bool write_producer(struct journal_writer *s, struct journal_producer *p, uint64_t now_ms,
                           bool *wanted)
{
    uint64_t sealed = atomic_load(&p->sealed);
    if (p->taken == sealed) return false;
    bool ring = false;
    while (p->taken < sealed) {
        struct block *b = &p->blocks[(p->taken + 1) % LIMIT_BLOCKS];
        write_frame(s, b->bytes, b->body_bytes, b->count, now_ms);
        p->taken++;
        int64_t unused = FRAME_BYTES - (int64_t)frame_size(&s->unhashed);
        atomic_fetch_add(&s->room, unused);
        atomic_store_explicit(&p->written, p->taken, memory_order_release);
        atomic_store(&s->written_seq, s->tail.next_seq - 1);
        ring |= b->wants_written;
        *wanted |= b->wants_sync;
        tell_syncer(s, b->wants_sync);
    }
    if (ring && s->options.ring != NULL) s->options.ring(s->options.context, p->index);
    return true;
}

bool journal_writer_write_step(struct journal_writer *s, uint64_t now_ms)
{
    bool any = false, wanted = false;
    for (unsigned i = 0; i < s->options.producers; i++)
        any |= write_producer(s, &s->producers[i], now_ms, &wanted);
    if (!any) return false;
    ring_syncer(s, wanted);

    hash_last(s);
    for (unsigned i = 0; i < s->options.producers; i++) {
        struct journal_producer *p = &s->producers[i];
        if (atomic_load_explicit(&p->freed, memory_order_relaxed) != p->taken)
            atomic_store(&p->freed, p->taken);
    }
    producers_ring_starved(s);
    return true;
}

static bool take_room(struct journal_writer *s, int64_t bytes)
{
    int64_t room = atomic_load(&s->room);
    do {
        if (room < bytes) return false;
    } while (!atomic_compare_exchange_weak(&s->room, &room, room - bytes));
    return true;
}

bool journal_writer_claim_step(struct journal_writer *s, uint64_t now_ms)
{
    uint64_t durable = atomic_load(&s->durable_seq);
    bool any = false;
    while (s->tail.told.seq < durable && take_room(s, FRAME_ALIGN_BYTES)) {
        write_frame(s, s->claim_bytes, 0, 0, now_ms);
        hash_last(s);
        tell_syncer(s, false);
        any = true;
    }
    if (any) ring_syncer(s, false);
    return any;
}

/* ---- the syncer ---- */

static void publish_durable(struct journal_writer *s, uint64_t frames, uint64_t seq)
{
    bool moved = seq != atomic_load(&s->durable_seq);
    atomic_store_explicit(&s->durable_seq, seq, memory_order_release);
    for (unsigned i = 0; i < s->options.producers; i++) {
        struct journal_producer *p = &s->producers[i];
        if (p->syncing == atomic_load_explicit(&p->durable, memory_order_relaxed)) continue;
        atomic_store_explicit(&p->durable, p->syncing, memory_order_release);
        if (s->options.ring != NULL) s->options.ring(s->options.context, i);
    }
    atomic_store(&s->durable_frames, frames);
    if (moved && s->options.ring_durable != NULL) s->options.ring_durable(s->options.context);
}

static void sync_file(struct journal_writer *s, int file)
{
    uint64_t begun = world_monotonic_ns();
    enum err err = s->disk->sync(s->disk->state, file);
    if (err != ERR_OK && !planted("sync_error_ignored"))
        journal_writer_die("a sync of the journal failed", err);
    atomic_fetch_add_explicit(&s->sync_ns, world_monotonic_ns() - begun, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->syncs, 1, memory_order_relaxed);
}

/* Cursors that keep up no longer read the segment before the last: drops it from the cache, if no
 * cursor did so before. */
static void cool_down(struct journal_writer *s, struct journal_writer_file next)
{
    if (s->cooling.file >= 0) s->disk->uncache(s->disk->state, s->cooling.file, s->cooling.bytes);
    file_close(s, &s->cooling);
    s->cooling = next;
}

/* Syncs the retired segments and the current one. Only the syncer removes from the list. */
static void sync_files(struct journal_writer *s)
{
    struct journal_writer_file retired[JOURNAL_WRITER_RETIRED];
    pthread_mutex_lock(&s->files_lock);
    unsigned count = s->retired_count;
    memcpy(retired, s->retired, count * sizeof *retired);
    int current = s->current.file;
    pthread_mutex_unlock(&s->files_lock);

    for (unsigned i = 0; i < count; i++) sync_file(s, retired[i].file);
    sync_file(s, current);
    if (count == 0) return;

    pthread_mutex_lock(&s->files_lock);
    s->retired_count -= count;
    memmove(s->retired, s->retired + count, s->retired_count * sizeof *retired);
    pthread_mutex_unlock(&s->files_lock);
    for (unsigned i = 0; i < count; i++) cool_down(s, retired[i]);
    wakeup_send(&s->pool_wakeup); /* the pool makes no spare while too many segments wait here */
}

bool journal_writer_sync_step(struct journal_writer *s)
{
    uint64_t frames = atomic_load(&s->written_frames);
    if (frames == atomic_load_explicit(&s->durable_frames, memory_order_relaxed)) return false;
    uint64_t seq = atomic_load_explicit(&s->written_seq, memory_order_acquire);
    for (unsigned i = 0; i < s->options.producers; i++)
        s->producers[i].syncing =
            atomic_load_explicit(&s->producers[i].written, memory_order_acquire);

    if (planted("answer_before_sync")) publish_durable(s, frames, seq);
    sync_files(s);
    publish_durable(s, frames, seq);
    return true;
}
