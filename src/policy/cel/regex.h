/* regex.h - the only door to RE2: patterns are compiled, and matched in time linear in the text.
 *
 * A compiled pattern is immutable for its users and may be matched by many threads. It lives on the
 * heap, and RE2 builds its automaton lazily in a cache; both are bounded by the memory that
 * cel_regex_create() is given. No exceptions leave. Where the process has no memory left, compiling
 * tells so, and a pattern's only match. A search of one that others go on using ends the process:
 * what is left of RE2's cache then may say of a text that matches that it does not. */
#ifndef POLICY_CEL_REGEX_H
#define POLICY_CEL_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REGEX_PATTERN_MAX = 1024, /* bytes; a longer one is a program, not a pattern */
    /* Program and caches of a pattern that is spelled out, and compiled once; and of one that is
     * computed, and compiled for a single match: about 2,700 instructions, a millisecond. */
    REGEX_MEMORY_BYTES = 256 << 10,
    REGEX_COMPUTED_MEMORY_BYTES = 64 << 10,
    REGEX_ERROR_TEXT = 120,
};

struct cel_regex;

/* NULL: the pattern is not one, or too large for that memory; `ret_error` (REGEX_ERROR_TEXT bytes,
 * may be NULL) says why, and is "" where the process has no memory left. What compiling takes is
 * told in instructions, a third of a microsecond each: the program's, or what there was room for of
 * one that is too large. */
struct cel_regex *cel_regex_create(const char *pattern, size_t size, size_t memory_bytes,
                                   size_t *ret_instructions, char *ret_error);

/* How many Unicode classes (\p{L}, \PN) it has. Reading one takes up to a tenth of a millisecond,
 * whatever becomes of the pattern. */
size_t cel_regex_classes(const char *pattern, size_t size);
void cel_regex_destroy(struct cel_regex *regex); /* NULL is fine */

/* Whether some part of the text matches; the leftmost first one's place where asked for. */
bool cel_regex_search(const struct cel_regex *regex, const char *text, size_t size,
                      size_t *ret_from, size_t *ret_to);
/* The same of one that is destroyed next, whatever came of it. False: there was no memory for it. */
bool cel_regex_search_once(const struct cel_regex *regex, const char *text, size_t size,
                           bool *ret_found);

/* Instructions of the compiled pattern: what a byte of text costs at worst, and its memory too. */
size_t cel_regex_size(const struct cel_regex *regex);

#ifdef __cplusplus
}
#endif

#endif
