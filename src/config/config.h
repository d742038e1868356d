/* config.h - one table of options (options.def) → parser, --help, reference document.
 *
 * A file has lines `name = value`, `#` comments. An unknown or bad option is refused with its
 * name, where it came from (file and line, environment, flag) and what would be right; only of the
 * environment an unknown one may be another program's and is told. Before
 * threads start; the result is read-only afterwards. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/buf.h"
#include "base/fault.h"

enum program { PROGRAM_ENGINE = 1, PROGRAM_PLATFORM = 2, PROGRAM_BOTH = 3 };

/* What a program exits with where another start would find the same: a setting that is wrong, or a
 * Redis or a database of somebody else. */
enum { STATUS_WRONG_SETTING = 2 };

enum {
#define OPTION(field, type, programs, name, otherwise, help) CONFIG_AT_##field,
#include "config/options.def"
#undef OPTION
    CONFIG_OPTIONS
};

struct config {
#define CONFIG_TEXT(field) const char *field;
#define CONFIG_PATH(field) const char *field;
#define CONFIG_LISTEN(field) const char *field;
#define CONFIG_URL(field) const char *field;
#define CONFIG_CHOICE(field) const char *field;
#define CONFIG_FLAG(field) bool field;
#define CONFIG_RATIO(field) double field;
#define CONFIG_COUNT(field) uint64_t field;
#define CONFIG_BYTES(field) uint64_t field;
#define CONFIG_SPAN(field) uint64_t field;
#define OPTION(field, type, programs, name, otherwise, help) CONFIG_##type(field)
#include "config/options.def"
#undef OPTION
    /* "writ.conf:3", "environment WRIT_LISTEN", "flag"; NULL: the default stands */
    char *sources[CONFIG_OPTIONS];
};

/* Reads --config FILE (or WRIT_CONFIG), environment and flags. ERR_END: --help or --version was
 * asked for and has been printed to standard output. Strings live until config_fini() and are
 * never NULL. `listen`, `pepper_file` and `store` come with their defaults filled in; another
 * text that is "" was not set. */
enum err config_read(enum program program, int argc, char **argv, char **environment,
                     struct config *ret, struct fault *f);
void config_fini(struct config *c);

/* The next variable WRIT_… that is no option and nobody else's (others.def), from environment[*at]
 * on, which begins at 0; absent: there is none. config_read() has refused those that are nearly an option. */
struct str config_stray_next(char **environment, size_t *at);
/* A warning in the log for each. */
void config_tell_strays(char **environment);
/* A warning in the log for each option of this program that was set and means nothing without
 * another, which is not (needs.def). */
void config_tell_idle(const struct config *c, enum program program);

void config_put_help(struct buf *out, enum program program); /* for a terminal */
void config_put_reference(struct buf *out);                  /* schemas/config.md */

/* Puts behind each option that the fault's sentence names where its value came from, as the
 * refusals of config_read() have it: much is judged only where it is used, by who knows
 * nothing of files and flags. */
void config_name_sources(const struct config *c, struct fault *f);

/* The settings of one file's text over `c`; `file` is its name in faults. */
enum err config_apply_text(struct config *c, enum program program, struct str text,
                           const char *file, struct fault *f);

/* "64KiB", "1GiB", "100" → bytes; "250ms", "30s", "10m", "72h", "7d" → ms. */
bool config_bytes(struct str text, uint64_t *ret);
bool config_span(struct str text, uint64_t *ret_ms);

#endif
