/* arena.h - memory with the life of one request (or one document, one job).
 *
 * Allocation moves a pointer; arena_reset() frees everything at once and keeps the first chunk for
 * the next request. The arena never grows past `limit_bytes`: then arena_take() returns NULL and
 * `overflow` sticks until the reset, so that a long chain of steps may ask once at its end. What
 * arena_new(), arena_array() and arena_take() give is zeroed. Owned by one thread. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/str.h"

struct arena_chunk;

struct arena {
    char *next;                /* first free byte of the current chunk */
    char *end;                 /* one past its last */
    struct arena_chunk *first; /* chunks in the order of use; the first is kept for ever */
    struct arena_chunk *current;
    size_t taken_bytes; /* of all chunks */
    size_t limit_bytes;
    bool overflow;
    bool prefers_huge;
};

/* `first_bytes` is reserved now; `limit_bytes` bounds the whole. */
void arena_init(struct arena *a, size_t first_bytes, size_t limit_bytes);
/* For what is large, lives long and is read at random: chunks of 2 MiB and more are asked of the
 * kernel in huge pages from now on, so that reading costs a cache miss and not a walk of page
 * tables besides. Where there are none to be had they are ordinary ones. */
void arena_prefer_huge(struct arena *a);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a); /* keeps the first chunk, frees the rest */

/* Work whose memory must not be missed by anybody else: what is taken after arena_begin_aside()
 * counts against `limit_bytes` of its own. arena_end_aside() frees all of it and leaves the arena
 * as it was, its overflow included. Such works may be nested. */
struct arena arena_begin_aside(struct arena *a, size_t limit_bytes);
void arena_end_aside(struct arena *a, const struct arena *before);

/* `size` zeroed bytes aligned to 16, or NULL (and a->overflow) where the limit is reached. */
void *arena_take(struct arena *a, size_t size);
/* The same, not zeroed, aligned to 1: for bytes that are written at once. */
char *arena_bytes(struct arena *a, size_t size);
/* Gives back the unused end of the newest arena_bytes() of `size` bytes. */
void arena_trim(struct arena *a, char *newest, size_t size, size_t used);

#define arena_new(a, type) ((type *)arena_take((a), sizeof(type)))
#define arena_array(a, type, count)                                                                \
    ((size_t)(count) > SIZE_MAX / 2 / sizeof(type)                                                 \
         ? (type *)NULL                                                                            \
         : (type *)arena_take((a), sizeof(type) * (size_t)(count)))

/* A copy of `s`, NUL-terminated beyond its size; absent where the arena is full. */
struct str arena_copy(struct arena *a, struct str s);
/* printf into the arena. */
struct str arena_printf(struct arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
