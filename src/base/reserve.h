/* reserve.h - memory for steps that cannot be refused.
 *
 * A request that finds no memory is refused. Some steps cannot be refused: the event loop's own
 * tables, a revocation that is recorded already. They call malloc(), and if that fails take a
 * piece of a reserve that every program has from its start. Pieces of the reserve are not
 * reused: a program that has used it up ends (check.h), which fails closed. Any thread. */
#ifndef BASE_RESERVE_H
#define BASE_RESERVE_H

#include <stddef.h>
#include <stdint.h>

enum { RESERVE_BYTES = 4 << 20 };

/* How often arenas, buffers and maps have found no memory on this thread. Code that must report
 * why a long chain of steps failed compares it with its earlier value. */
void memory_was_missing(void);
uint64_t memory_missed(void);

void *reserve_take(size_t size); /* zeroed; never NULL */
/* As realloc(), and never NULL. */
void *reserve_resize(void *before, size_t size);
void reserve_give(void *taken); /* accepts NULL */

#endif
