/* document_life.c - reference counting of documents. The last reference frees the document. */
#include "policy/document.h"

#include <stdlib.h>

#include "base/check.h"
#include "policy/condition.h"

struct policy_document *document_new(struct str name)
{
    struct policy_document *d = calloc(1, sizeof *d);
    if (d == NULL) return NULL;
    atomic_init(&d->references, 1);
    arena_init(&d->arena, 8192, DOCUMENT_BYTES_MAX);
    arena_prefer_huge(&d->arena);
    d->name = arena_copy(&d->arena, name);
    return d;
}

struct policy_document *policy_document_share(struct policy_document *d)
{
    size_t before = atomic_fetch_add_explicit(&d->references, 1, memory_order_relaxed);
    check(before > 0); /* it was not freed */
    return d;
}

void policy_document_release(struct policy_document *d)
{
    if (d == NULL) return;
    /* Release what this thread did with it, acquire what the others did, before it is freed. */
    size_t before = atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel);
    check(before > 0);
    if (before != 1) return;
    conditions_fini(d->conditions);
    arena_fini(&d->arena);
    free(d);
}
