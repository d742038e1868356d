/* text.h - the bytes of strings: reading and writing escapes; this room only.
 *
 * Strings are mostly plain: no quote, backslash or control byte. The scans here step over plain
 * bytes sixteen at a time with gcc's vectors, or eight (the SWAR tests of Mycroft 1987 and Lamport
 * 1975), so that the common case costs about a cycle per eight bytes. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include "json/json.h"

/* An error inside a string, and its byte offset. */
struct text_fault {
    const char *problem; /* a clause: "has ..." */
    size_t at;
};

/* Reads the inside of a string (between its quotes): *ret is the unescaped text, a view of
 * `inside` if it has no escape, else in the arena. *ret_nul: it has a U+0000. On failure
 * ERR_MALFORMED_JSON with *ret_fault, or ERR_BODY_TOO_LARGE if the arena is full. */
enum err text_read(struct str inside, struct arena *arena, struct str *ret, bool *ret_nul,
                   struct text_fault *ret_fault);

/* Whether the whole text is ASCII without backslash or control bytes: then each string in it
 * equals its source bytes. */
bool text_is_plain(struct str s);
/* The same, and copies the text in the same pass. */
bool text_copy(char *to, struct str s);

#endif
