/* channels.c - the options notify.NAME.KEY: one row of channels.def for each KEY, in one struct for
 * each NAME. */
#include <stdio.h>
#include <stdlib.h>

#include "config/table.h"

static const struct option rows[CHANNEL_OPTIONS] = {
#define CHANNEL(field, kind, key, fallback, text)                                                  \
    {.name = key,                                                                                  \
     .otherwise = fallback,                                                                        \
     .help = text,                                                                                 \
     .type = OPTION_##kind,                                                                        \
     .programs = PROGRAM_PLATFORM,                                                                 \
     .place = offsetof(struct config_channel, field),                                              \
     .index = CHANNEL_AT_##field},
#include "config/channels.def"
#undef CHANNEL
};

#define PREFIX STR("notify.")
#define VARIABLE_PREFIX STR("WRIT_NOTIFY_")

const struct option *channel_option_at(size_t index) { return &rows[index]; }

bool channel_is_option(struct str name) { return str_starts(name, PREFIX); }
bool channel_is_variable(struct str variable) { return str_starts(variable, VARIABLE_PREFIX); }

static enum err refuse(struct str name, const char *where, const char *what, struct fault *f)
{
    struct str shown = option_shown(name);
    char bytes[256];
    struct buf keys = buf_over(bytes, sizeof bytes);
    for (size_t i = 0; i < CHANNEL_OPTIONS; i++)
        buf_printf(&keys, "%s%s", i == 0 ? "" : ", ", rows[i].name);
    return fault_set(f, ERR_UNKNOWN_PARAMETER, "",
                     "%.*s (%s): %s; it must be notify.NAME.KEY, with a "
                     "NAME of lowercase letters, digits and -, and a KEY of %.*s",
                     STR_FORMAT(shown), where, what, STR_FORMAT(buf_view(&keys)));
}

static struct config_channel *channel_find(struct config *c, struct str name)
{
    for (size_t i = 0; i < c->channel_count; i++)
        if (str_equal(name, str_from(c->channels[i]->name))) return c->channels[i];
    return NULL;
}

static enum err channel_add(struct config *c, struct str name, struct config_channel **ret,
                            struct fault *f)
{
    if (c->channel_count == CHANNELS_MAX)
        return fault_set(f, ERR_BAD_VALUE, "", "notify.%.*s: there are more than %d channels",
                         STR_FORMAT(name), CHANNELS_MAX);
    struct config_channel *new = calloc(1, sizeof *new);
    if (new == NULL) return fault_plain(f, ERR_FULL);
    memcpy(new->name, name.bytes, name.size);
    c->channels[c->channel_count++] = new; /* before the defaults, so that it is freed */
    for (size_t i = 0; i < CHANNEL_OPTIONS; i++) {
        /* No CHOICE has the empty word, but it may stay unset. */
        struct option as_text = rows[i];
        if (as_text.type == OPTION_CHOICE) as_text.type = OPTION_TEXT;
        enum err err = option_set_value(new, &as_text, str_from(rows[i].otherwise), NULL, f);
        if (err != ERR_OK) return err;
    }
    *ret = new;
    return ERR_OK;
}

/* Whether both are lines of one file: "writ.conf:3" and "writ.conf:7". */
static bool is_same_file(const char *a, const char *b)
{
    const char *end = strrchr(a, ':');
    return end != NULL && strncmp(a, b, (size_t)(end - a) + 1) == 0 &&
           strrchr(b, ':') - b == end - a;
}

static enum err set(struct config *c, struct str channel, const struct option *row,
                    struct str value, const char *where, struct fault *f)
{
    struct config_channel *to = channel_find(c, channel);
    enum err err = to == NULL ? channel_add(c, channel, &to, f) : ERR_OK;
    if (err != ERR_OK) return err;
    char name[OPTION_NAME_MAX];
    snprintf(name, sizeof name, "notify.%s.%s", to->name, row->name);
    struct option named = *row;
    named.name = name;
    char **source = &to->sources[row->index];
    if (*source != NULL && is_same_file(*source, where))
        return fault_set(f, ERR_BAD_VALUE, name, "%s (%s): it is already set at %s", name, where,
                         *source);
    err = option_set_value(to, &named, value, where, f);
    if (err != ERR_OK) return err;
    free(*source);
    *source = strdup(where);
    return *source != NULL ? ERR_OK : fault_plain(f, ERR_FULL);
}

enum err channel_set(struct config *c, struct str name, struct str value, const char *where,
                     struct fault *f)
{
    struct str rest = str_skip(name, PREFIX.size);
    size_t dot = str_find(rest, '.');
    struct str channel = str_of(rest.bytes, dot);
    if (dot == rest.size || !str_is_label(channel, CHANNEL_NAME_MAX))
        return refuse(name, where, "there is no such option", f);
    struct str key = str_skip(rest, dot + 1);
    for (size_t i = 0; i < CHANNEL_OPTIONS; i++)
        if (str_equal(key, str_from(rows[i].name)))
            return set(c, channel, &rows[i], value, where, f);
    return refuse(name, where, "there is no such option", f);
}

/* FINANCE_SLACK_URL_FILE → finance-slack, url_file: the longest key that it ends with. */
enum err channel_set_variable(struct config *c, struct str variable, struct str value,
                              const char *where, struct fault *f)
{
    struct str rest = str_skip(variable, VARIABLE_PREFIX.size);
    const struct option *row = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < CHANNEL_OPTIONS; i++) {
        char end[OPTION_NAME_MAX + 8];
        option_environment_name(rows[i].name, end); /* WRIT_URL_FILE */
        struct str suffix = str_skip(str_from(end), 4);
        if (suffix.size > longest && rest.size > suffix.size &&
            str_equal(str_skip(rest, rest.size - suffix.size), suffix)) {
            row = &rows[i];
            longest = suffix.size;
        }
    }
    char bytes[CHANNEL_NAME_MAX];
    struct buf name = buf_over(bytes, sizeof bytes);
    for (size_t i = 0; row != NULL && i < rest.size - longest; i++) {
        char letter = rest.bytes[i];
        buf_put_byte(&name, letter == '_'                    ? '-'
                            : letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a')
                                                             : letter);
    }
    if (row == NULL || name.overflow || !str_is_label(buf_view(&name), CHANNEL_NAME_MAX))
        return refuse(variable, where, "there is no such option", f);
    return set(c, buf_view(&name), row, value, where, f);
}

void channels_free(struct config *c)
{
    for (size_t i = 0; i < c->channel_count; i++) {
        struct config_channel *one = c->channels[i];
        for (size_t k = 0; k < CHANNEL_OPTIONS; k++) {
            free(one->sources[k]);
            if (option_is_string(&rows[k]))
                free((void *)(uintptr_t) * (const char **)(void *)((char *)one + rows[k].place));
        }
        free(one);
    }
    c->channel_count = 0;
}
