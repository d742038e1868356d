/* table.h - the options as rows that a program can walk, and one value's reading.
 *
 * options.def says what there is, bounds.def how small and large a number may be; this is where
 * both become one row each. Only src/config includes this header. Pure, any thread. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include "config/config.h"

enum option_type {
    OPTION_TEXT,
    OPTION_PATH,
    OPTION_LISTEN, /* host:port */
    OPTION_URL,    /* http://host:port or unix:/path */
    OPTION_CHOICE, /* one of the words after the help's last ": " */
    OPTION_FLAG,
    OPTION_RATIO, /* 0 … 1 */
    OPTION_COUNT,
    OPTION_BYTES,
    OPTION_SPAN
};

struct option {
    const char *name, *otherwise, *help;
    enum option_type type;
    enum program programs;
    size_t place; /* of its field in struct config */
    unsigned index;
};

enum { OPTION_NAME_MAX = 64 };

size_t option_count(void);
const struct option *option_at(size_t index);
const struct option *option_find(struct str name); /* NULL: there is none */

/* The known option of this program that a mistyped name most likely meant, or NULL where none is
 * near. "Near" is a third of the name's length in single-letter edits, at least 1. */
const struct option *option_nearest(struct str name, enum program program, unsigned edits_max);
unsigned option_edits_allowed(struct str name);

/* "journal.keep.bytes" → "WRIT_JOURNAL_KEEP_BYTES", NUL-terminated. */
void option_environment_name(const struct option *o, char to[OPTION_NAME_MAX + 8]);

/* Whether this type's field in struct config is a string that config_fini() frees. */
bool option_is_string(const struct option *o);

/* Reads `value` into the option's field (freeing the string that was there). On ERR_BAD_VALUE the
 * config is unchanged and *f names the option, `where` the value came from ("writ.conf:3",
 * "environment", "flag") and what would be right. `where` is remembered; NULL: it is the default.
 * ERR_FULL: out of memory. */
enum err option_set(struct config *c, const struct option *o, struct str value, const char *where,
                    struct fault *f);

/* The start of a text that may be long, cut between characters: enough to find it again. */
struct str option_shown(struct str text);

/* What a right value looks like: "a size such as 64MiB, at least 1MiB". */
void option_put_form(struct buf *out, const struct option *o);

/* A decimal fraction: "0", "0.25", "1"; at most nine digits behind the point. */
bool option_ratio(struct str text, double *ret);

/* A number in the largest unit that divides it: 67108864 → "64MiB", 30000 → "30s". */
void option_put_bytes(struct buf *out, uint64_t bytes);
void option_put_span(struct buf *out, uint64_t ms);

#endif
