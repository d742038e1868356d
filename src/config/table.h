/* table.h - the options as rows that a program can iterate, and the reading of one value.
 *
 * A row joins an option of options.def with its bounds from bounds.def. Only src/config includes
 * this header. Pure, any thread. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include "config/config.h"

enum option_type {
    OPTION_TEXT,
    OPTION_PATH,
    OPTION_LISTEN, /* host:port */
    OPTION_URL,    /* http://host:port, https://host:port or unix:/path */
    OPTION_URLS,   /* the same, one or more, with commas between them */
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
const struct option *option_find(struct str name); /* NULL: none */

/* What to do instead, because the next version removes it; NULL: the option stays. */
const char *option_instead(const struct option *o);

/* A former name of an option. */
struct former {
    unsigned index; /* of the option */
    const char *name, *unit;
};
const struct former *former_find(struct str name); /* NULL: it is none */
const struct former *former_at(size_t index);      /* NULL: there are no more */

/* The option of this program that is nearest to a mistyped name, or NULL if none is near. "Near"
 * is a third of the name's length in single-letter edits, at least 1. */
const struct option *option_nearest(struct str name, enum program program, unsigned edits_max);
unsigned option_edits_allowed(struct str name);

/* "journal.keep_size" → "WRIT_JOURNAL_KEEP_SIZE", NUL-terminated. */
void option_environment_name(const char *option, char to[OPTION_NAME_MAX + 8]);

/* Whether this type's field in struct config is a string that config_fini() frees. */
bool option_is_string(const struct option *o);

/* The option of this name or former name. *ret_former is the former name, or NULL. */
const struct option *option_named(struct str name, const struct former **ret_former);
/* option_set(), with the former name's unit appended to a bare number. */
enum err option_set_as(struct config *c, const struct option *o, const struct former *former,
                       struct str value, const char *where, struct fault *f);

/* Reads `value` into the option's field and frees the string that was there. On ERR_BAD_VALUE the
 * config is unchanged and *f names the option, the value's source `where` ("writ.conf:3",
 * "environment", "flag") and the expected value. `where` is kept; NULL: the value is the default.
 * ERR_FULL: out of memory. */
enum err option_set(struct config *c, const struct option *o, struct str value, const char *where,
                    struct fault *f);

/* The option's field in the struct that has it, without its source. */
enum err option_set_value(void *owner, const struct option *o, struct str value, const char *where,
                          struct fault *f);

/* ---- groups.c: the options notify.NAME.KEY and oidc.NAME.KEY ---- */

struct group {
    const char *prefix;        /* "notify." */
    const char *things;        /* "channels" */
    const char *title, *guide; /* for the reference page */
    const struct option *rows; /* one for each KEY, which is its name */
    size_t row_count;
    size_t members_max, member_size; /* one member for each NAME */
    size_t sources_at;               /* in a member */
    size_t list_at, count_at;        /* in struct config */
};
const struct group *group_at(size_t index); /* NULL: there are no more */
/* The group of an option's name, or of a variable; NULL: of none. Such a name is never another
 * option's. */
const struct group *group_of(struct str name);
const struct group *group_of_variable(struct str variable);
/* Sets PREFIX.NAME.KEY. ERR_UNKNOWN_PARAMETER: no such key, or no such NAME. ERR_BAD_VALUE: also if
 * the same file, whose line `where` names, has set it before. */
enum err group_set(const struct group *g, struct config *c, struct str name, struct str value,
                   const char *where, struct fault *f);
/* The same, by WRIT_PREFIX_NAME_KEY; - in the name is _ there. */
enum err group_set_variable(const struct group *g, struct config *c, struct str variable,
                            struct str value, const char *where, struct fault *f);
void groups_free(struct config *c);

/* The start of a text that may be long, cut between characters: enough to recognise it. */
struct str option_shown(struct str text);

/* The description of a valid value: "a size such as 64MiB, at least 1MiB". */
void option_put_form(struct buf *out, const struct option *o);

/* A decimal fraction: "0", "0.25", "1"; at most nine digits after the point. */
bool option_ratio(struct str text, double *ret);

/* A number in the largest unit that divides it: 67108864 → "64MiB", 30000 → "30s". */
void option_put_bytes(struct buf *out, uint64_t bytes);
void option_put_span(struct buf *out, uint64_t ms);

#endif
