/* arguments.h - a command line, read against a table of flags.
 *
 *   --name value   --name=value   --name (where it takes none)   --   everything after is no flag
 *
 * A flag may stand anywhere and be given once. Views point into argv. Pure. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "base/fault.h"

struct flag {
    const char *name;
    const char *value; /* the word for it in help: "FILE"; NULL: it takes none */
    const char *help;
};

enum { FLAGS_MAX = 32, POSITIONALS_MAX = 64 };

struct arguments {
    const struct flag *flags[FLAGS_MAX];
    const char *values[FLAGS_MAX]; /* NULL: not given; "" for one without value */
    size_t flag_count;
    const char *positionals[POSITIONALS_MAX];
    size_t positional_count;
};

/* Makes the flags of a table (ended by a NULL name) known; the table outlives `a`. */
void arguments_know(struct arguments *a, const struct flag *table);

/* Reads argv from *at on; with `one_word` stops behind the first word that is no flag.
 * ERR_BAD_VALUE: the fault says which word and what would be right. */
enum err arguments_read(struct arguments *a, int argc, char **argv, int *at, bool one_word,
                        struct fault *f);

/* As if the flag (one without value) had been given. */
void arguments_give(struct arguments *a, const char *name);

/* The flag's value, or absent; the flag is one that is known. */
struct str argument_text(const struct arguments *a, const char *name);
bool argument_given(const struct arguments *a, const char *name);
struct str argument_at(const struct arguments *a, size_t index); /* absent beyond the last */

#endif
