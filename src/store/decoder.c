#include "store/decoder.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "evidence/merkle.h"

enum {
    CHUNKS = 4,
    CHUNK_BYTES = 128 << 10, /* of lines; the last line may exceed it */
    AHEAD_BYTES = 64 << 10,  /* a shorter batch is decoded on the caller's thread */
    ARENA_FIRST = 512 << 10,
    ARENA_LIMIT = 64 << 20, /* one-byte values on all lines of a chunk take 17 MiB */
};

struct chunk {
    struct decoded list[DECODED_MAX];
    size_t count;
    struct arena arena;
};

struct decoder {
    struct chunk chunks[CHUNKS];
    struct str rest;       /* not yet decoded; absent: nothing. Belongs to the decoding thread */
    struct hasher *hasher; /* likewise */
    bool hashes;
    bool ahead; /* decoded on the other thread */
    bool given; /* the caller has a chunk */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the following members */
    pthread_cond_t changed;
    size_t made, taken;            /* chunks of this batch */
    bool working, ended, stopping; /* ended: the whole batch is decoded */
};

/* ---- decoding ---- */

static void decode_one(struct decoder *d, struct chunk *c, struct str line)
{
    struct decoded *to = &c->list[c->count++];
    struct fault why;
    to->line = line;
    to->is_valid =
        line.size <= LIMIT_EVENT_BYTES && event_read(line, &c->arena, &to->event, &why) == ERR_OK;
    if (d->hashes) to->leaf = merkle_leaf(d->hasher, line);
}

static void decode_chunk(struct decoder *d, struct chunk *c)
{
    struct str line;
    size_t bytes = 0;
    c->count = 0;
    arena_reset(&c->arena);
    while (c->count < DECODED_MAX && bytes < CHUNK_BYTES && d->rest.size > 0 &&
           str_split(&d->rest, '\n', &line)) {
        decode_one(d, c, line);
        bytes += line.size;
    }
}

/* ---- the other thread ---- */

static void work(struct decoder *d)
{
    while (!d->stopping && d->working && !d->ended) {
        if (d->made - d->taken == CHUNKS) {
            pthread_cond_wait(&d->changed, &d->lock);
            continue;
        }
        struct chunk *c = &d->chunks[d->made % CHUNKS];
        pthread_mutex_unlock(&d->lock);
        decode_chunk(d, c);
        pthread_mutex_lock(&d->lock);
        if (c->count == 0)
            d->ended = true;
        else
            d->made++;
        pthread_cond_broadcast(&d->changed);
    }
    d->working = false;
    pthread_cond_broadcast(&d->changed);
}

static void *run(void *decoder)
{
    struct decoder *d = decoder;
    pthread_setname_np(pthread_self(), "decoder");
    pthread_mutex_lock(&d->lock);
    while (!d->stopping) {
        if (d->working)
            work(d);
        else
            pthread_cond_wait(&d->changed, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- its user ---- */

struct decoder *decoder_create(void)
{
    struct decoder *d = calloc(1, sizeof *d);
    check(d != NULL);
    d->hasher = hasher_create();
    for (size_t i = 0; i < CHUNKS; i++) arena_init(&d->chunks[i].arena, ARENA_FIRST, ARENA_LIMIT);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    return d;
}

void decoder_destroy(struct decoder *d)
{
    if (d == NULL) return;
    pthread_mutex_lock(&d->lock);
    d->stopping = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (d->has_thread) pthread_join(d->thread, NULL);
    for (size_t i = 0; i < CHUNKS; i++) arena_fini(&d->chunks[i].arena);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    hasher_destroy(d->hasher);
    free(d);
}

void decoder_begin(struct decoder *d, struct str lines, bool hashes)
{
    d->rest = lines;
    d->hashes = hashes;
    d->made = d->taken = 0;
    d->ended = false;
    if (!d->has_thread && lines.size >= AHEAD_BYTES)
        d->has_thread = pthread_create(&d->thread, NULL, run, d) == 0;
    d->ahead = d->has_thread && lines.size >= AHEAD_BYTES;
    if (!d->ahead) return;
    pthread_mutex_lock(&d->lock);
    d->working = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* Also releases the chunk that was returned before. */
static struct chunk *next_ahead(struct decoder *d)
{
    pthread_mutex_lock(&d->lock);
    while (d->taken == d->made && !d->ended) pthread_cond_wait(&d->changed, &d->lock);
    struct chunk *c = d->taken == d->made ? NULL : &d->chunks[d->taken % CHUNKS];
    pthread_mutex_unlock(&d->lock);
    return c;
}

static void free_last(struct decoder *d)
{
    pthread_mutex_lock(&d->lock);
    d->taken++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

size_t decoder_next(struct decoder *d, const struct decoded **ret)
{
    struct chunk *c = &d->chunks[0];
    if (d->ahead) {
        if (d->given) free_last(d);
        c = next_ahead(d);
        d->given = c != NULL;
        if (c == NULL) return 0;
    } else {
        decode_chunk(d, c);
    }
    *ret = c->list;
    return c->count;
}

void decoder_end(struct decoder *d)
{
    if (!d->ahead) return;
    pthread_mutex_lock(&d->lock);
    while (d->working) {
        d->ended = true; /* it stops after the current chunk */
        d->taken = d->made;
        pthread_cond_broadcast(&d->changed);
        pthread_cond_wait(&d->changed, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    d->ahead = d->given = false;
}
