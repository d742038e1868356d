/* arena.h - memory with the life of one request (or one document, one job).
 *
 * Allocation moves a pointer; arena_reset() frees everything at once and keeps the first chunk
 * for the next request. The arena never grows past `limit_bytes`: then arena_take() returns NULL
 * and `overflow` stays set until the reset, so that a long chain of steps may check once at its
 * end. The same happens when the system has no memory; then `starved` is set, too. Memory of
 * arena_new(), arena_array() and arena_take() is zeroed. Owned by one thread. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/str.h"

struct arena_chunk;

struct arena {
    char *next;                /* first free byte of the current chunk */
    char *end;                 /* one past its last */
    struct arena_chunk *first; /* chunks in the order of use; the first is never freed */
    struct arena_chunk *current;
    size_t taken_bytes; /* of all chunks */
    size_t first_bytes;
    size_t limit_bytes;
    bool overflow;
    bool starved; /* since the reset the system had no memory at least once */
    bool prefers_huge;
};

/* `first_bytes` are reserved now; `limit_bytes` bounds the whole. If there is no memory for
 * that, the arena is starved until a reset finds some. */
void arena_init(struct arena *a, size_t first_bytes, size_t limit_bytes);
/* For content that is large, lives long and is read at random. From now on, chunks of 2 MiB and
 * more are requested from the kernel in huge pages, so that a read costs a cache miss but no
 * walk of page tables. If there are no huge pages, the chunks are ordinary ones. */
void arena_prefer_huge(struct arena *a);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a); /* keeps the first chunk, frees the rest */
/* Content for the arena could not be made, because another allocation had no memory. */
void arena_starve(struct arena *a);

/* For work whose memory must not reduce that of other work: memory taken after
 * arena_begin_aside() counts against its own `limit_bytes`. arena_end_aside() frees all of it
 * and restores the arena, including its overflow. Only `starved` stays set. Such work may be
 * nested. */
struct arena arena_begin_aside(struct arena *a, size_t limit_bytes);
void arena_end_aside(struct arena *a, const struct arena *before);
/* Keeps what was taken instead; the memory that is left for other work is the same as before. False:
 * that is not possible, and all of it was freed. */
bool arena_keep_aside(struct arena *a, const struct arena *before);

/* `size` zeroed bytes aligned to 16, or NULL (and a->overflow) if the limit is reached. */
void *arena_take(struct arena *a, size_t size);
/* The same, not zeroed, aligned to 1: for bytes that are written at once. */
char *arena_bytes(struct arena *a, size_t size);
/* Returns the unused end of the newest arena_bytes() of `size` bytes. */
void arena_trim(struct arena *a, char *newest, size_t size, size_t used);

#define arena_new(a, type) ((type *)arena_take((a), sizeof(type)))
#define arena_array(a, type, count)                                                                \
    ((size_t)(count) > SIZE_MAX / 2 / sizeof(type)                                                 \
         ? (type *)NULL                                                                            \
         : (type *)arena_take((a), sizeof(type) * (size_t)(count)))

/* A copy of `s` with a NUL after it; absent if the arena is full. */
struct str arena_copy(struct arena *a, struct str s);
/* printf into the arena. */
struct str arena_printf(struct arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
