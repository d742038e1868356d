/* check.h - assertions that stay on in release builds.
 *
 * check() is for conditions that the code guarantees, never for input: a failed check is a bug,
 * and continuing would risk a wrong decision, so the process ends. Independent of NDEBUG. Any
 * thread. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

_Noreturn void check_failed(const char *expression, const char *file, int line);

#define check(expression)                                                                          \
    (__builtin_expect(!(expression), 0) ? check_failed(#expression, __FILE__, __LINE__) : (void)0)

#endif
