/* groups.c - options of which there are several sets, each with a name: notify.NAME.KEY, oidc.NAME.KEY,
 * anchor.NAME.KEY. A group has one row of its table for each KEY, and one struct for each NAME. */
#include <stdio.h>
#include <stdlib.h>

#include "config/table.h"

#define ROW(owner, index_prefix, field_, kind, key, fallback, text)                                \
    {.name = key,                                                                                  \
     .otherwise = fallback,                                                                        \
     .help = text,                                                                                 \
     .type = OPTION_##kind,                                                                        \
     .programs = PROGRAM_PLATFORM,                                                                 \
     .place = offsetof(struct owner, field_),                                                      \
     .index = index_prefix##field_},

static const struct option channel_rows[CHANNEL_OPTIONS] = {
#define CHANNEL(field, kind, key, fallback, text)                                                  \
    ROW(config_channel, CHANNEL_AT_, field, kind, key, fallback, text)
#include "config/channels.def"
#undef CHANNEL
};

static const struct option provider_rows[PROVIDER_OPTIONS] = {
#define PROVIDER(field, kind, key, fallback, text)                                                 \
    ROW(config_provider, PROVIDER_AT_, field, kind, key, fallback, text)
#include "config/providers.def"
#undef PROVIDER
};

static const struct option anchor_rows[ANCHOR_OPTIONS] = {
#define ANCHOR(field, kind, key, fallback, text)                                                   \
    ROW(config_anchor, ANCHOR_AT_, field, kind, key, fallback, text)
#include "config/anchors.def"
#undef ANCHOR
};

/* Each struct begins with its name. */
_Static_assert(offsetof(struct config_channel, name) == 0 &&
                   offsetof(struct config_provider, name) == 0 &&
                   offsetof(struct config_anchor, name) == 0 &&
                   sizeof(void *) == sizeof(struct config_channel *),
               "a member is found by its name");

static const struct group groups[] = {
    {.prefix = "notify.",
     .things = "channels",
     .title = "Channels of notifications",
     .guide = "notifications.md",
     .rows = channel_rows,
     .row_count = CHANNEL_OPTIONS,
     .members_max = CHANNELS_MAX,
     .member_size = sizeof(struct config_channel),
     .sources_at = offsetof(struct config_channel, sources),
     .list_at = offsetof(struct config, channels),
     .count_at = offsetof(struct config, channel_count)},
    {.prefix = "oidc.",
     .things = "identity providers",
     .title = "Identity providers",
     .guide = "sign-in.md",
     .rows = provider_rows,
     .row_count = PROVIDER_OPTIONS,
     .members_max = PROVIDERS_MAX,
     .member_size = sizeof(struct config_provider),
     .sources_at = offsetof(struct config_provider, sources),
     .list_at = offsetof(struct config, providers),
     .count_at = offsetof(struct config, provider_count)},
    {.prefix = "anchor.",
     .things = "anchors",
     .title = "Anchors of the audit trail",
     .guide = "anchors.md",
     .rows = anchor_rows,
     .row_count = ANCHOR_OPTIONS,
     .members_max = ANCHORS_MAX,
     .member_size = sizeof(struct config_anchor),
     .sources_at = offsetof(struct config_anchor, sources),
     .list_at = offsetof(struct config, anchors),
     .count_at = offsetof(struct config, anchor_count)},
};

const struct group *group_at(size_t index)
{
    return index < sizeof groups / sizeof *groups ? &groups[index] : NULL;
}

const struct group *group_of(struct str name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (str_starts(name, str_from(groups[i].prefix))) return &groups[i];
    return NULL;
}

/* "notify." → "WRIT_NOTIFY_" */
static struct str variable_prefix(const struct group *g, char to[OPTION_NAME_MAX + 8])
{
    option_environment_name(g->prefix, to);
    return str_from(to);
}

const struct group *group_of_variable(struct str variable)
{
    char prefix[OPTION_NAME_MAX + 8];
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (str_starts(variable, variable_prefix(&groups[i], prefix))) return &groups[i];
    return NULL;
}

static enum err refuse(const struct group *g, struct str name, const char *where, struct fault *f)
{
    struct str shown = option_shown(name);
    char bytes[256];
    struct buf keys = buf_over(bytes, sizeof bytes);
    for (size_t i = 0; i < g->row_count; i++)
        buf_printf(&keys, "%s%s", i == 0 ? "" : ", ", g->rows[i].name);
    return fault_set(f, ERR_UNKNOWN_PARAMETER, "",
                     "%.*s (%s): there is no such option; it must be %sNAME.KEY, with a NAME of "
                     "lowercase letters, digits and -, and a KEY of %.*s",
                     STR_FORMAT(shown), where, g->prefix, STR_FORMAT(buf_view(&keys)));
}

/* ---- members: one for each NAME ---- */

static void **list_of(const struct group *g, const struct config *c)
{
    return (void **)(void *)((char *)(uintptr_t)c + g->list_at);
}

static size_t *count_of(const struct group *g, const struct config *c)
{
    return (size_t *)(void *)((char *)(uintptr_t)c + g->count_at);
}

static char **sources_of(const struct group *g, void *member)
{
    return (char **)(void *)((char *)member + g->sources_at);
}

static void *find(const struct group *g, const struct config *c, struct str name)
{
    for (size_t i = 0; i < *count_of(g, c); i++)
        if (str_equal(name, str_from(list_of(g, c)[i]))) return list_of(g, c)[i];
    return NULL;
}

static enum err add(const struct group *g, struct config *c, struct str name, void **ret,
                    struct fault *f)
{
    if (*count_of(g, c) == g->members_max)
        return fault_set(f, ERR_BAD_VALUE, "", "%s%.*s: there are more than %zu %s", g->prefix,
                         STR_FORMAT(name), g->members_max, g->things);
    void *new = calloc(1, g->member_size);
    if (new == NULL) return fault_plain(f, ERR_FULL);
    memcpy(new, name.bytes, name.size);
    list_of(g, c)[(*count_of(g, c))++] = new; /* before the defaults, so that it is freed */
    for (size_t i = 0; i < g->row_count; i++) {
        /* No CHOICE has the empty word, but it may stay unset. */
        struct option as_text = g->rows[i];
        if (as_text.type == OPTION_CHOICE) as_text.type = OPTION_TEXT;
        enum err err = option_set_value(new, &as_text, str_from(as_text.otherwise), NULL, f);
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

static enum err set(const struct group *g, struct config *c, struct str member,
                    const struct option *row, struct str value, const char *where, struct fault *f)
{
    void *to = find(g, c, member);
    enum err err = to == NULL ? add(g, c, member, &to, f) : ERR_OK;
    if (err != ERR_OK) return err;
    char name[OPTION_NAME_MAX];
    snprintf(name, sizeof name, "%s%s.%s", g->prefix, (const char *)to, row->name);
    struct option named = *row;
    named.name = name;
    char **source = &sources_of(g, to)[row->index];
    if (*source != NULL && is_same_file(*source, where))
        return fault_set(f, ERR_BAD_VALUE, name, "%s (%s): it is already set at %s", name, where,
                         *source);
    err = option_set_value(to, &named, value, where, f);
    if (err != ERR_OK) return err;
    free(*source);
    *source = strdup(where);
    return *source != NULL ? ERR_OK : fault_plain(f, ERR_FULL);
}

enum err group_set(const struct group *g, struct config *c, struct str name, struct str value,
                   const char *where, struct fault *f)
{
    struct str rest = str_skip(name, strlen(g->prefix));
    size_t dot = str_find(rest, '.');
    struct str member = str_of(rest.bytes, dot);
    if (dot == rest.size || !str_is_label(member, GROUP_NAME_MAX)) return refuse(g, name, where, f);
    struct str key = str_skip(rest, dot + 1);
    for (size_t i = 0; i < g->row_count; i++)
        if (str_equal(key, str_from(g->rows[i].name)))
            return set(g, c, member, &g->rows[i], value, where, f);
    return refuse(g, name, where, f);
}

/* FINANCE_SLACK_URL_FILE → finance-slack, url_file: the longest key that it ends with. */
enum err group_set_variable(const struct group *g, struct config *c, struct str variable,
                            struct str value, const char *where, struct fault *f)
{
    char prefix[OPTION_NAME_MAX + 8];
    struct str rest = str_skip(variable, variable_prefix(g, prefix).size);
    const struct option *row = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < g->row_count; i++) {
        char end[OPTION_NAME_MAX + 8];
        option_environment_name(g->rows[i].name, end); /* WRIT_URL_FILE */
        struct str suffix = str_skip(str_from(end), 4);
        if (suffix.size > longest && rest.size > suffix.size &&
            str_equal(str_skip(rest, rest.size - suffix.size), suffix)) {
            row = &g->rows[i];
            longest = suffix.size;
        }
    }
    char bytes[GROUP_NAME_MAX];
    struct buf name = buf_over(bytes, sizeof bytes);
    for (size_t i = 0; row != NULL && i < rest.size - longest; i++) {
        char letter = rest.bytes[i];
        buf_put_byte(&name, letter == '_'                    ? '-'
                            : letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a')
                                                             : letter);
    }
    if (row == NULL || name.overflow || !str_is_label(buf_view(&name), GROUP_NAME_MAX))
        return refuse(g, variable, where, f);
    return set(g, c, buf_view(&name), row, value, where, f);
}

static void free_member(const struct group *g, void *member)
{
    for (size_t k = 0; k < g->row_count; k++) {
        free(sources_of(g, member)[k]);
        if (option_is_string(&g->rows[k]))
            free((void *)(uintptr_t) * (const char **)(void *)((char *)member + g->rows[k].place));
    }
    free(member);
}

void groups_free(struct config *c)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct group *g = &groups[i];
        for (size_t k = 0; k < *count_of(g, c); k++) free_member(g, list_of(g, c)[k]);
        *count_of(g, c) = 0;
    }
}
