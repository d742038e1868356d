/* glob.h - names of a request, and the patterns that select them.
 *
 * A pattern is anchored; only `*` is special (any run of bytes, also none). It is compiled for
 * one of two ways of matching:
 *
 *   folding (deny, human_review): ASCII case is ignored, so DROP_ does not escape `drop_*`.
 *   exact   (allow, compute): bytes as they are; and a name that has characters outside
 *           [A-Za-z0-9._:/@+-] matches only a pattern without `*` that spells the whole name.
 *           So `get_*` does not permit "get_x; rm -rf /".
 *
 * Pure, any thread. */
#ifndef POLICY_GLOB_H
#define POLICY_GLOB_H

#include "base/arena.h"

enum {
    GLOB_BYTES_MAX = 512, /* a tool's name of 128 characters */
    GLOB_STARS_MAX = 8,   /* bounds the matcher's backtracking */
    NAME_INLINE = 120,    /* longer names take from the arena */
    NAME_PADDING = 8,     /* zeros behind the folded bytes, so that whole words can be read */
};

enum glob_kind { GLOB_EXACT, GLOB_ANY, GLOB_PREFIX, GLOB_SUFFIX, GLOB_GENERAL };

struct glob {
    struct str written; /* as the author wrote it */
    struct str text;    /* runs of `*` collapsed; folded if it is matched so */
    enum glob_kind kind;
};

enum glob_kind glob_kind_of(struct str text); /* of a compiled text */

/* False: the arena is full. Views into `written` are kept. */
bool glob_compile(struct arena *arena, struct str written, bool folds, struct glob *ret);

/* One name of a request, prepared once for many comparisons. */
struct name {
    struct str text;     /* as given; absent if the request has none */
    struct str folded;   /* NAME_PADDING readable zeros behind it */
    struct str reversed; /* the folded bytes from the end */
    uint64_t hash;       /* of the folded bytes */
    bool odd;            /* has characters outside [A-Za-z0-9._:/@+-] */
    bool has_capitals;   /* else folded matching is exact matching, for patterns without capitals */
    char space[2 * (NAME_INLINE + NAME_PADDING)];
};

/* False: the arena is full. `n` must not move afterwards. */
bool name_prepare(struct name *n, struct str text, struct arena *arena);

/* A prepared name: its forms are of one length. */
void name_check(const struct name *n);

/* One literal text with its kind against one text, byte by byte. */
bool glob_match_text(enum glob_kind kind, struct str literal, struct str text);

/* An absent name matches no exact pattern; for a folding one it is "". */
bool glob_match(const struct glob *g, const struct name *n, bool folds);

/* Hash of bytes with NAME_PADDING zeros after them. It has no secret key: the stored entries come
 * from policies, never from requests, so a client cannot make chains long. */
uint64_t name_hash(const char *padded, size_t size);

char glob_fold(char byte);
bool glob_is_odd(struct str text); /* any character outside the plain set */

#endif
