/* dumps.h - whether this process's memory may leave it. */
#ifndef BASE_DUMPS_H
#define BASE_DUMPS_H

/* No core dump, and nobody but a user who may trace any process (root) reads /proc/PID/mem or attaches a
 * debugger: credentials are in this memory. Also where a core would be piped to a program, which the limit
 * alone does not keep from it. For all threads; before the first secret is read. */
void dumps_forbid(void);

#endif
