/* spare.c - arenas that change hands: a request that continues after its handler keeps its arena.
 *
 * Returned arenas are kept, and the last one is taken first. So deferring costs no allocation as
 * long as no more requests are deferred than before. Each arena shrinks to its first chunk: one
 * large request must not keep its megabytes. */
#include "base/check.h"
#include "base/reserve.h"
#include "http/connection.h"

struct arena *spare_take(struct spares *s)
{
    if (s->count > 0) return s->kept[--s->count];
    /* the code that took the request's arena finds no way back */
    struct arena *a = reserve_take(sizeof *a);
    arena_init(a, SPARE_FIRST_BYTES, LIMIT_REQUEST_ARENA_BYTES);
    return a;
}

static void arena_free(struct arena *a)
{
    arena_fini(a);
    reserve_give(a);
}

void spare_give(struct spares *s, struct arena *a)
{
    if (s->count == SPARES_KEPT) {
        arena_free(a);
        return;
    }
    arena_reset(a);
    s->kept[s->count++] = a;
}

void spares_fini(struct spares *s)
{
    while (s->count > 0) arena_free(s->kept[--s->count]);
}

struct arena *http_arena_take(struct http_exchange *x)
{
    struct http_server *s = x->connection->server;
    check(x->arena == s->arena);
    s->arena = spare_take(&s->spares);
    return x->arena;
}

struct arena *http_arena_spare(struct http_server *s) { return spare_take(&s->spares); }

void http_arena_give(struct http_server *s, struct arena *a)
{
    if (a != NULL) spare_give(&s->spares, a);
}
