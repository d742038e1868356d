/* list.h - doubly linked lists threaded through their members.
 *
 * A member embeds a `struct link`; a zeroed link is on no list. Nothing is allocated. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *previous, *next;
};

struct list {
    struct link head; /* head.next is the first; an empty list points at itself */
};

static inline void list_init(struct list *l) { l->head.previous = l->head.next = &l->head; }
static inline bool list_is_empty(const struct list *l) { return l->head.next == &l->head; }
static inline bool link_is_on(const struct link *k) { return k->next != NULL; }

static inline void list_append(struct list *l, struct link *k)
{
    k->previous = l->head.previous;
    k->next = &l->head;
    k->previous->next = k;
    l->head.previous = k;
}

static inline void link_remove(struct link *k)
{
    if (!link_is_on(k)) return;
    k->previous->next = k->next;
    k->next->previous = k->previous;
    k->previous = k->next = NULL;
}

/* The struct that embeds `k` as `field`, where `k` is a link, a timer or a watcher. */
#define link_owner(k, type, field) ((type *)(void *)((char *)(k)-offsetof(type, field)))

/* Walks the list; `k` may be removed inside, `following` may not. */
#define list_each(l, k, following)                                                                 \
    for (struct link *k = (l)->head.next, *following = k->next; k != &(l)->head;                   \
         k = following, following = k->next)

#endif
