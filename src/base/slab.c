#include "base/slab.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { CHUNK_BYTES = 64 << 10, ALIGN = 16 };

struct slab_chunk {
    struct slab_chunk *before;
    _Alignas(ALIGN) char bytes[];
};

void slab_init(struct slab *s, size_t size, size_t max)
{
    *s = (struct slab){.size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1), .max = max};
    check(s->size <= CHUNK_BYTES / 4);
}

void slab_fini(struct slab *s)
{
    for (struct slab_chunk *c = s->chunks, *before; c != NULL; c = before) {
        before = c->before;
        free(c);
    }
    *s = (struct slab){0};
}

static bool grow(struct slab *s)
{
    struct slab_chunk *c = aligned_alloc(ALIGN, CHUNK_BYTES);
    if (c == NULL) return false;
    c->before = s->chunks;
    s->chunks = c;
    s->next = c->bytes;
    s->end = (char *)c + CHUNK_BYTES;
    return true;
}

void *slab_take(struct slab *s)
{
    if (s->count == s->max) return NULL;
    void *object = s->unused;
    if (object != NULL) {
        memcpy(&s->unused, object, sizeof s->unused);
    } else {
        if ((size_t)(s->end - s->next) < s->size && !grow(s)) return NULL;
        object = s->next;
        s->next += s->size;
    }
    s->count++;
    memset(object, 0, s->size);
    return object;
}

void slab_give(struct slab *s, void *object)
{
    check(s->count > 0);
    s->count--;
    memcpy(object, &s->unused, sizeof s->unused);
    s->unused = object;
}
