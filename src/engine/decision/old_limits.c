#include "engine/decision/old_limits.h"

#include <stdlib.h>

#include "base/check.h"

enum { BITS_PER_KEY = 16 };

static void old_limits_check(const struct old_limits *o)
{
    check(o->filter != NULL && o->mask != 0 && (o->mask & (o->mask + 1)) == 0);
    check((o->windows == NULL) == (o->window_count == 0));
}

static void count_key(void *context, const struct limit_request *ask, uint64_t newest_ms)
{
    size_t *keys = context;
    (void)ask, (void)newest_ms;
    ++*keys;
}

/* Already random, as part of a digest. */
static uint64_t bit_of(const struct old_limits *o, const struct slot_key *key)
{
    uint64_t number;
    memcpy(&number, key->bytes + 2, sizeof number);
    return number & o->mask;
}

static void note_window(struct old_limits *o, uint64_t window_ms)
{
    for (size_t i = 0; i < o->window_count; i++)
        if (o->windows[i] == window_ms) return;
    o->windows = realloc(o->windows, (o->window_count + 1) * sizeof *o->windows);
    check(o->windows != NULL);
    o->windows[o->window_count++] = window_ms;
}

static void note(void *context, const struct limit_request *ask, uint64_t newest_ms)
{
    struct old_limits *o = context;
    old_limits_check(o);
    uint64_t bit = bit_of(o, &ask->key), end = newest_ms + LIMIT_WINDOW_SECONDS * UINT64_C(1000);
    o->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
    note_window(o, ask->window_ms);
    if (end > o->until_ms) o->until_ms = end;
}

struct old_limits *old_limits_create(struct shard *const *shards, unsigned count)
{
    size_t keys = 0, bits = 64;
    for (unsigned i = 0; i < count; i++) shard_old_limits(shards[i], count_key, &keys);
    if (keys == 0) return NULL;
    while (bits < keys * BITS_PER_KEY) bits *= 2;
    struct old_limits *o = calloc(1, sizeof *o);
    check(o != NULL);
    o->mask = bits - 1;
    o->filter = calloc(bits / 64, sizeof *o->filter);
    check(o->filter != NULL);
    for (unsigned i = 0; i < count; i++) shard_old_limits(shards[i], note, o);
    old_limits_check(o);
    check(o->window_count > 0 && o->until_ms > 0);
    return o;
}

void old_limits_destroy(struct old_limits *o)
{
    if (o == NULL) return;
    free(o->windows);
    free(o->filter);
    free(o);
}

bool old_limits_may_have(const struct old_limits *o, struct slot_key key)
{
    uint64_t bit = bit_of(o, &key);
    return (o->filter[bit / 64] >> (bit % 64) & 1) != 0;
}
