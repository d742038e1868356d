/* regex.h - the only user of RE2: patterns are compiled, and matched in time linear in the text.
 *
 * A compiled pattern is immutable for its users and may be matched by many threads. It lives on the
 * heap, and RE2 builds its automaton lazily in a cache; both are bounded by the memory limit of
 * cel_regex_create(). No exceptions leave this file. If the process has no memory left, compiling
 * and the match of a single-use pattern return an error. A search with a shared pattern then
 * aborts the process, because RE2's cache may be damaged and give false results. */
#ifndef CEL_REGEX_H
#define CEL_REGEX_H

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

/* NULL: the pattern is invalid, or too large for that memory. `ret_error` (REGEX_ERROR_TEXT bytes,
 * may be NULL) has the reason, and is "" if the process has no memory left. The cost of compiling
 * is returned in instructions, a third of a microsecond each: those of the program, or, if it is
 * too large, those that fitted. */
struct cel_regex *cel_regex_create(const char *pattern, size_t size, size_t memory_bytes,
                                   size_t *ret_instructions, char *ret_error);

/* The number of its Unicode classes (\p{L}, \PN). Parsing one takes up to a tenth of a
 * millisecond, even if the pattern is refused. */
size_t cel_regex_classes(const char *pattern, size_t size);
void cel_regex_destroy(struct cel_regex *regex); /* NULL is fine */

/* Whether some part of the text matches; on request the position of the leftmost match. */
bool cel_regex_search(const struct cel_regex *regex, const char *text, size_t size,
                      size_t *ret_from, size_t *ret_to);
/* The same for a pattern that is destroyed next. False: there was no memory. */
bool cel_regex_search_once(const struct cel_regex *regex, const char *text, size_t size,
                           bool *ret_found);

/* Instructions of the compiled pattern: what a byte of text costs at worst, and its memory too. */
size_t cel_regex_size(const struct cel_regex *regex);

#ifdef __cplusplus
}
#endif

#endif
