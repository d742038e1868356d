/* output.c - the bytes of replies and their barriers. */
#include "http/output.h"

#include "base/check.h"
#include "crypto/crypto.h"

char *output_room(struct output *o, struct pool *pool, size_t size)
{
    if (o->capacity - o->to >= size) return o->bytes + o->to;
    size_t pending = output_pending(o);
    if (o->capacity - pending >= size && o->from >= o->capacity / 2) {
        memmove(o->bytes, o->bytes + o->from, pending);
        memory_wipe(o->bytes + pending, o->to - pending);
    } else {
        size_t wanted = pending + size > o->capacity * 2 ? pending + size : o->capacity * 2;
        size_t capacity;
        char *bytes = pool_take(pool, wanted, &capacity);
        if (bytes == NULL) return NULL;
        if (pending > 0) memcpy(bytes, o->bytes + o->from, pending);
        pool_give(pool, o->bytes, o->capacity, o->to);
        o->bytes = bytes;
        o->capacity = capacity;
    }
    o->from = 0;
    o->to = pending;
    return o->bytes + o->to;
}

static bool is_reached(uint32_t lane, uint64_t block, const uint64_t reached[HTTP_LANES])
{
    return lane == 0 || block <= reached[lane - 1];
}

bool output_wait(struct output *o, struct http_barrier barrier, const uint64_t reached[HTTP_LANES])
{
    check(barrier.lane <= HTTP_LANES);
    struct output_barrier *last =
        o->barrier_count == 0
            ? NULL
            : &o->barriers[(o->barrier_first + o->barrier_count - 1) % OUTPUT_BARRIERS];
    bool covered = last != NULL && last->lane == barrier.lane && barrier.block <= last->block;
    if (covered || is_reached(barrier.lane, barrier.block, reached)) {
        if (last == NULL) return false;
        last->replies++;
        return true;
    }
    check(output_has_barrier_room(o));
    o->barriers[(o->barrier_first + o->barrier_count++) % OUTPUT_BARRIERS] =
        (struct output_barrier){.block = barrier.block,
                                .offset = o->sent + output_pending(o),
                                .lane = barrier.lane,
                                .replies = 1};
    return true;
}

uint32_t output_release(struct output *o, const uint64_t reached[HTTP_LANES])
{
    uint32_t replies = 0;
    while (o->barrier_count > 0) {
        const struct output_barrier *barrier = &o->barriers[o->barrier_first];
        if (!is_reached(barrier->lane, barrier->block, reached)) break;
        replies += barrier->replies;
        o->barrier_first = (o->barrier_first + 1) % OUTPUT_BARRIERS;
        o->barrier_count--;
    }
    return replies;
}

uint32_t output_cut(struct output *o)
{
    const size_t open = output_open(o);
    uint32_t replies = 0;
    for (; o->barrier_count > 0; o->barrier_count--) {
        replies += o->barriers[o->barrier_first].replies;
        o->barrier_first = (o->barrier_first + 1) % OUTPUT_BARRIERS;
    }
    if (o->bytes != NULL) memory_wipe(o->bytes + o->from + open, output_pending(o) - open);
    o->to = o->from + open;
    return replies;
}

void output_sent(struct output *o, struct pool *pool, size_t size)
{
    check(size <= output_open(o));
    o->from += size;
    o->sent += size;
    if (o->from < o->to) return;
    pool_give(pool, o->bytes, o->capacity, o->to);
    o->bytes = NULL;
    o->capacity = o->from = o->to = 0;
}

void output_fini(struct output *o, struct pool *pool)
{
    pool_give(pool, o->bytes, o->capacity, o->to);
    *o = (struct output){0};
}
