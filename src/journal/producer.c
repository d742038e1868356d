/* producer.c - a reactor's interface to the journal: puts records into blocks, and passes blocks to
 * the journal writer.
 *
 * Nothing here waits or takes a lock. A refusal is decided before anything changes, and sets
 * `starved`, so that the journal writer wakes the producer when it may try again. */
#include <stdlib.h>

#include "base/check.h"
#include "journal/journal_writer.h"

_Static_assert((int)FRAME_RECORD_HEADER_BYTES <= (int)LIMIT_RECORD_HEAD_BYTES,
               "callers of journal_reserve() count so many bytes for a record's head");

void producer_init(struct journal_producer *p, struct journal_writer *s, unsigned index)
{
    p->journal_writer = s;
    p->index = index;
    for (int i = 0; i < LIMIT_BLOCKS; i++) {
        p->blocks[i].bytes =
            aligned_alloc(JOURNAL_WRITER_PAGE_BYTES, FRAME_BYTES + JOURNAL_WRITER_PAD_BYTES);
        check(p->blocks[i].bytes != NULL);
    }
}

void producer_fini(struct journal_producer *p)
{
    for (int i = 0; i < LIMIT_BLOCKS; i++) free(p->blocks[i].bytes);
}

void producers_ring_starved(struct journal_writer *s)
{
    for (unsigned i = 0; i < s->options.producers; i++) {
        struct journal_producer *p = &s->producers[i];
        if (!atomic_load(&p->starved) || !atomic_exchange(&p->starved, false)) continue;
        if (s->options.ring != NULL) s->options.ring(s->options.context, i);
    }
}

static struct block *filling(struct journal_producer *p)
{
    return &p->blocks[(p->sealed_own + 1) % LIMIT_BLOCKS];
}

static bool block_is_free(const struct journal_producer *p)
{
    return p->sealed_own - atomic_load(&p->freed) < LIMIT_BLOCKS;
}

/* Takes a whole frame's room, if at least `least` bytes remain after that. */
static bool room_take(struct journal_writer *s, int64_t least)
{
    int64_t room = atomic_load(&s->room);
    while (room - FRAME_BYTES >= least)
        if (atomic_compare_exchange_weak(&s->room, &room, room - FRAME_BYTES)) return true;
    return false;
}

static enum err block_open(struct journal_producer *p, bool closing)
{
    struct journal_writer *s = p->journal_writer;
    if (!block_is_free(p)) return ERR_FULL;
    bool ordinary = room_take(s, s->reserve_bytes);
    if (!ordinary && !(closing && room_take(s, 0)))
        return atomic_load(&s->spare_fails) ? ERR_JOURNAL_FULL : ERR_FULL;

    struct block *b = filling(p);
    b->body_bytes = b->count = 0;
    b->wants_sync = b->wants_written = false;
    b->closing = !ordinary;
    p->open = true;
    return ERR_OK;
}

/* A block without records gives its room back. */
static void block_drop(struct journal_producer *p)
{
    p->open = false;
    atomic_fetch_add(&p->journal_writer->room, FRAME_BYTES);
}

static enum err try_reserve(struct journal_producer *p, size_t size, bool closing)
{
    if (!closing && atomic_load_explicit(&p->journal_writer->disk_full, memory_order_relaxed))
        return ERR_JOURNAL_FULL;
    if (p->open) {
        const struct block *b = filling(p);
        bool fits = b->body_bytes + FRAME_RECORD_HEADER_BYTES + size <= FRAME_BODY_BYTES;
        if (fits && (closing || !b->closing)) return ERR_OK;
        journal_seal(p);
    }
    return block_open(p, closing);
}

static char *reserve(struct journal_producer *p, size_t size, bool closing, enum err *ret_err)
{
    check(size <= LIMIT_RESERVE_BYTES);
    enum err err = try_reserve(p, size, closing);
    if (err != ERR_OK) {
        /* A thread that makes room checks `starved` after that, and this one checks for room after
         * setting `starved`: one of the two sees the other. */
        atomic_store(&p->starved, true);
        err = try_reserve(p, size, closing);
    }
    if (err != ERR_OK) {
        *ret_err = err;
        return NULL;
    }
    struct block *b = filling(p);
    p->reserved = size;
    return b->bytes + FRAME_HEADER_BYTES + b->body_bytes + FRAME_RECORD_HEADER_BYTES;
}

char *journal_reserve(struct journal_producer *p, size_t size, enum err *ret_err)
{
    return reserve(p, size, false, ret_err);
}

char *journal_reserve_closing(struct journal_producer *p, size_t size, enum err *ret_err)
{
    return reserve(p, size, true, ret_err);
}

char *journal_reserved(struct journal_producer *p, size_t size)
{
    if (size > p->reserved) return NULL;
    struct block *b = filling(p);
    return b->bytes + FRAME_HEADER_BYTES + b->body_bytes + FRAME_RECORD_HEADER_BYTES;
}

void journal_commit(struct journal_producer *p, size_t public_size, size_t private_size,
                    bool wants_sync)
{
    check(p->open && public_size <= p->reserved && private_size <= p->reserved - public_size);
    struct block *b = filling(p);
    frame_put_record_header(b->bytes + FRAME_HEADER_BYTES + b->body_bytes, public_size,
                            private_size);
    b->body_bytes += (uint32_t)(FRAME_RECORD_HEADER_BYTES + public_size + private_size);
    b->count++;
    if (wants_sync)
        b->wants_sync = true;
    else
        b->wants_written = true;
    size_t used = public_size + private_size + FRAME_RECORD_HEADER_BYTES;
    p->reserved = p->reserved > used ? p->reserved - used : 0;
    p->last_mark = p->sealed_own + 1;
}

uint64_t journal_block(const struct journal_producer *p) { return p->last_mark; }

void journal_seal(struct journal_producer *p)
{
    if (!p->open) return;
    /* if this block was kept, its room would be missing to waiting producers */
    if (filling(p)->count == 0) {
        block_drop(p);
        producers_ring_starved(p->journal_writer);
        return;
    }
    p->open = false;
    p->sealed_own++;
    atomic_store(&p->sealed, p->sealed_own);
    wakeup_send(&p->journal_writer->writer_wakeup);
}

void journal_progress(const struct journal_producer *p, uint64_t *ret_written,
                      uint64_t *ret_durable)
{
    *ret_written = atomic_load_explicit(&p->written, memory_order_acquire);
    *ret_durable = atomic_load_explicit(&p->durable, memory_order_acquire);
}

static bool another_would_open(const struct journal_producer *p)
{
    const struct journal_writer *s = p->journal_writer;
    uint64_t busy = p->sealed_own - atomic_load(&p->freed) + (p->open ? 1 : 0);
    if (busy >= LIMIT_BLOCKS) return false;
    return atomic_load(&s->room) - FRAME_BYTES >= s->reserve_bytes ||
           atomic_load(&s->spare_fails) || atomic_load(&s->disk_full);
}

bool journal_has_room(struct journal_producer *p)
{
    if (another_would_open(p)) return true;
    atomic_store(&p->starved, true); /* as in reserve() */
    return another_would_open(p);
}
