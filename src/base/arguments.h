/* arguments.h - a command line, read against a table of flags.
 *
 *   --name value   --name=value   --name (without a value)   --   the words after it are no flags
 *
 * A flag may stand anywhere, at most once. Views point into argv. Pure. */
#ifndef BASE_ARGUMENTS_H
#define BASE_ARGUMENTS_H

#include "base/fault.h"

struct flag {
    const char *name;
    const char *value; /* the word for the value in help: "FILE"; NULL: the flag takes no value */
    const char *help;
};

enum { FLAGS_MAX = 32, POSITIONALS_MAX = 64 };

struct arguments {
    const struct flag *flags[FLAGS_MAX];
    const char *values[FLAGS_MAX]; /* NULL: not given; "" for a flag without a value */
    size_t flag_count;
    const char *positionals[POSITIONALS_MAX];
    size_t positional_count;
};

/* Adds the flags of a table (ended by a NULL name). The table must outlive `a`. */
void arguments_know(struct arguments *a, const struct flag *table);

/* Reads argv from *at on. With `one_word` it stops after the first word that is no flag.
 * ERR_BAD_VALUE: the fault names the word and what is expected. */
enum err arguments_read(struct arguments *a, int argc, char **argv, int *at, bool one_word,
                        struct fault *f);

/* Sets a flag that takes no value. */
void arguments_give(struct arguments *a, const char *name);

/* The flag's value, or absent. The flag must be in a table. */
struct str argument_text(const struct arguments *a, const char *name);
bool argument_given(const struct arguments *a, const char *name);
struct str argument_at(const struct arguments *a, size_t index); /* absent beyond the last */

#endif
