#include "engine/fleet/fleet_lane.h"

#include <stdlib.h>

#include "base/check.h"

void fleet_lane_init(struct fleet_lane *l, uint64_t applied)
{
    *l = (struct fleet_lane){.number = 1};
    atomic_store(&l->applied, applied);
    pthread_mutex_init(&l->lock, NULL);
}

void fleet_block_free(struct fleet_block *b)
{
    if (b == NULL) return;
    buf_fini(&b->bytes);
    free(b);
}

static void batch_release(struct fleet_batch *b)
{
    if (atomic_fetch_sub(&b->readers, 1) == 1) free(b);
}

void fleet_lane_fini(struct fleet_lane *l)
{
    fleet_block_free(l->open);
    for (struct fleet_block *b; (b = fleet_lane_take(l, SIZE_MAX)) != NULL;) fleet_block_free(b);
    for (struct fleet_batch *b; (b = fleet_lane_batch(l)) != NULL;) batch_release(b);
    pthread_mutex_destroy(&l->lock);
}

/* ---- the reactor ---- */

enum err fleet_lane_room(const struct fleet_lane *l, bool closing)
{
    size_t most = (size_t)FLEET_LANE_BYTES * (closing ? 2 : 1);
    return atomic_load_explicit(&l->bytes, memory_order_relaxed) < most ? ERR_OK : ERR_FULL;
}

static struct fleet_block *block_make(uint64_t number)
{
    struct fleet_block *b = calloc(1, sizeof *b);
    check(b != NULL); /* what a step has changed has to be recorded, so there is no way back */
    b->number = number;
    buf_init(&b->bytes, FLEET_BLOCK_FIRST_BYTES, FLEET_BLOCK_BYTES);
    return b;
}

static void pass(struct fleet_lane *l)
{
    struct fleet_block *b = l->open != NULL ? l->open : block_make(l->number);
    l->open = NULL;
    l->number++;
    l->is_wanted = false;
    atomic_fetch_add_explicit(&l->bytes, b->bytes.size, memory_order_relaxed);
    pthread_mutex_lock(&l->lock);
    if (l->first == NULL)
        l->first = b;
    else
        l->last->next = b;
    l->last = b;
    pthread_mutex_unlock(&l->lock);
}

uint64_t fleet_lane_put(struct fleet_lane *l, const struct effect_record *records, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += LIMIT_RECORD_HEAD_BYTES + records[i].event.size + records[i].delta.size;
    check(bytes <= FLEET_BLOCK_BYTES);
    if (l->open != NULL && l->open->bytes.size + bytes > FLEET_BLOCK_BYTES) pass(l);
    if (l->open == NULL) l->open = block_make(l->number);
    for (size_t i = 0; i < count; i++)
        entry_put_record(&l->open->bytes, records[i].event, records[i].delta);
    check(!l->open->bytes.overflow);
    l->open->records += count;
    return fleet_lane_want(l);
}

bool fleet_lane_seal(struct fleet_lane *l)
{
    if (!l->is_wanted) return false;
    pass(l);
    return true;
}

struct fleet_batch *fleet_lane_batch(struct fleet_lane *l)
{
    pthread_mutex_lock(&l->lock);
    struct fleet_batch_link *k = l->batches;
    if (k != NULL) l->batches = k->next;
    pthread_mutex_unlock(&l->lock);
    struct fleet_batch *b = k == NULL ? NULL : k->batch;
    free(k);
    return b;
}

void fleet_lane_applied(struct fleet_lane *l, struct fleet_batch *b)
{
    atomic_store_explicit(&l->applied, b->next, memory_order_release);
    batch_release(b);
}

/* ---- the member ---- */

struct fleet_block *fleet_lane_take(struct fleet_lane *l, size_t room)
{
    pthread_mutex_lock(&l->lock);
    struct fleet_block *b = l->first;
    if (b != NULL && b->bytes.size > room) b = NULL;
    if (b != NULL) l->first = b->next;
    pthread_mutex_unlock(&l->lock);
    if (b != NULL) atomic_fetch_sub_explicit(&l->bytes, b->bytes.size, memory_order_relaxed);
    return b;
}

bool fleet_lane_waits(struct fleet_lane *l)
{
    pthread_mutex_lock(&l->lock);
    bool waits = l->first != NULL;
    pthread_mutex_unlock(&l->lock);
    return waits;
}

void fleet_lanes_hand(struct fleet_lane *lanes, unsigned count, struct str records, uint64_t next)
{
    struct fleet_batch *b = malloc(sizeof *b + records.size);
    check(b != NULL); /* a copy that lacks an entry must not go on */
    atomic_init(&b->readers, count);
    b->next = next;
    b->size = records.size;
    if (records.size > 0) memcpy(b->bytes, records.bytes, records.size);
    for (unsigned i = 0; i < count; i++) {
        struct fleet_lane *l = &lanes[i];
        struct fleet_batch_link *k = malloc(sizeof *k);
        check(k != NULL);
        *k = (struct fleet_batch_link){.batch = b};
        pthread_mutex_lock(&l->lock);
        if (l->batches == NULL)
            l->batches = k;
        else
            l->last_batch->next = k;
        l->last_batch = k;
        pthread_mutex_unlock(&l->lock);
    }
}
