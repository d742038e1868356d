/* dumps.h - keeps other programs from reading this process's memory. */
#ifndef BASE_DUMPS_H
#define BASE_DUMPS_H

/* No core dump, and only a user who may trace any process (root) can read /proc/PID/mem or
 * attach a debugger: this memory has credentials. This also holds if a core would be piped to a
 * program, which the resource limit alone does not prevent. For all threads; before the first
 * secret is read. */
void dumps_forbid(void);

#endif
