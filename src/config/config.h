/* config.h - one table of options (options.def) → parser, --help, reference document.
 *
 * A file has lines `name = value` and `#` comments. An unknown or bad option is refused with its
 * name, its source (file and line, environment, flag) and the expected value. An unknown variable
 * of the environment may belong to another program, so it is only logged. All of it runs before
 * threads start; the result is read-only afterwards. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/buf.h"
#include "base/fault.h"

/* A LISTEN that is switched off. */
#define LISTEN_NONE "none"

enum program { PROGRAM_ENGINE = 1, PROGRAM_PLATFORM = 2, PROGRAM_BOTH = 3 };

/* The exit status if another start would fail in the same way: because of a wrong setting, or
 * because Redis or the database belongs to another installation. */
enum { STATUS_WRONG_SETTING = 2 };

enum {
#define OPTION(field, type, programs, name, otherwise, help) CONFIG_AT_##field,
#include "config/options.def"
#undef OPTION
    CONFIG_OPTIONS
};

enum { CHANNELS_MAX = 32, PROVIDERS_MAX = 8, ANCHORS_MAX = 8, GROUP_NAME_MAX = 32 };
enum { CONFIG_URLS_MAX = 8, CONFIG_URLS_TEXT = 300 }; /* one, with a NUL */

enum {
#define CHANNEL(field, type, key, otherwise, help) CHANNEL_AT_##field,
#include "config/channels.def"
#undef CHANNEL
    CHANNEL_OPTIONS
};

enum {
#define PROVIDER(field, type, key, otherwise, help) PROVIDER_AT_##field,
#include "config/providers.def"
#undef PROVIDER
    PROVIDER_OPTIONS
};

enum {
#define ANCHOR(field, type, key, otherwise, help) ANCHOR_AT_##field,
#include "config/anchors.def"
#undef ANCHOR
    ANCHOR_OPTIONS
};

struct config_channel; /* below */
struct config_provider;
struct config_anchor;

struct config {
#define CONFIG_TEXT(field) const char *field;
#define CONFIG_PATH(field) const char *field;
#define CONFIG_LISTEN(field) const char *field;
#define CONFIG_URL(field) const char *field;
#define CONFIG_URLS(field) const char *field;
#define CONFIG_CHOICE(field) const char *field;
#define CONFIG_FLAG(field) bool field;
#define CONFIG_RATIO(field) double field;
#define CONFIG_COUNT(field) uint64_t field;
#define CONFIG_BYTES(field) uint64_t field;
#define CONFIG_SPAN(field) uint64_t field;
#define OPTION(field, type, programs, name, otherwise, help) CONFIG_##type(field)
#include "config/options.def"
#undef OPTION
    /* "writ.conf:3", "environment WRIT_LISTEN", "flag"; NULL: the value is the default */
    char *sources[CONFIG_OPTIONS];
    const char *former[CONFIG_OPTIONS]; /* the former name by which it was set; NULL: it was not */
    struct config_channel *channels[CHANNELS_MAX]; /* in the order of their first option */
    size_t channel_count;
    struct config_provider *providers[PROVIDERS_MAX];
    size_t provider_count;
    struct config_anchor *anchors[ANCHORS_MAX];
    size_t anchor_count;
};

/* The options notify.NAME.… of one NAME. Only their form is checked here. */
struct config_channel {
    char name[GROUP_NAME_MAX + 1]; /* [a-z][a-z0-9-]* */
#define CHANNEL(field, type, key, otherwise, help) CONFIG_##type(field)
#include "config/channels.def"
#undef CHANNEL
    char *sources[CHANNEL_OPTIONS]; /* as in struct config */
};

/* The same for oidc.NAME.… */
struct config_provider {
    char name[GROUP_NAME_MAX + 1];
#define PROVIDER(field, type, key, otherwise, help) CONFIG_##type(field)
#include "config/providers.def"
#undef PROVIDER
    char *sources[PROVIDER_OPTIONS];
};

/* The same for anchor.NAME.… */
struct config_anchor {
    char name[GROUP_NAME_MAX + 1];
#define ANCHOR(field, type, key, otherwise, help) CONFIG_##type(field)
#include "config/anchors.def"
#undef ANCHOR
    char *sources[ANCHOR_OPTIONS];
};

/* Reads --config FILE (or WRIT_CONFIG), environment and flags. ERR_END: --help or --version was
 * given and printed to standard output. Strings live until config_fini() and are never NULL.
 * `listen`, `pepper_file` and `store` have their defaults filled in; any other text that is "" was
 * not set. */
enum err config_read(enum program program, int argc, char **argv, char **environment,
                     struct config *ret, struct fault *f);
void config_fini(struct config *c);

/* The next variable WRIT_… that is no option and not in others.def, from environment[*at] on; *at
 * begins at 0. Absent: there are no more. config_read() has refused names that are nearly an
 * option. */
struct str config_stray_next(char **environment, size_t *at);
/* Logs a warning for each such variable. */
void config_tell_strays(char **environment);
/* Logs a warning for each option of this program that was set but has no effect, because the option
 * that it needs is not set (needs.def). */
void config_tell_idle(const struct config *c, enum program program);

/* Logs a warning for each option that the next version removes, or that was set by its former name
 * (former.def). */
void config_tell_former(const struct config *c, enum program program);

void config_put_help(struct buf *out, enum program program); /* for a terminal */
void config_put_reference(struct buf *out);                  /* schemas/config.md */

/* Adds the source of its value after each option in the fault's sentence, as config_read() does.
 * Many values are checked only where they are used, by code without access to files and flags. */
void config_name_sources(const struct config *c, struct fault *f);

/* Reads the settings of one file's text into `c`; `file` is its name in faults. */
enum err config_apply_text(struct config *c, enum program program, struct str text,
                           const char *file, struct fault *f);

/* "64KiB", "1GiB", "100" → bytes; "250ms", "30s", "10m", "72h", "7d" → ms. */
bool config_bytes(struct str text, uint64_t *ret);
bool config_span(struct str text, uint64_t *ret_ms);

#endif
