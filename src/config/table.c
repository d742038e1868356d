/* table.c - options.def and bounds.def as rows; reads one value into its field. */
#include "config/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/shown.h"

enum { UNIX_URL_BYTES_MAX = 5 + 107 }; /* the longest path of a socket that the kernel accepts */

/* A row without a BOUND takes any value. The bounds are designated initialisers of an array with an
 * index per option, so a BOUND of an unknown field does not compile. */
struct bounds {
    uint64_t least, most;
    bool given;
};

static const struct bounds bounds[CONFIG_OPTIONS] = {
#define BOUND(field, smallest, largest) [CONFIG_AT_##field] = {smallest, largest, true},
#include "config/bounds.def"
#undef BOUND
};

static const char *const instead[CONFIG_OPTIONS] = {
#define RETIRED(field, text) [CONFIG_AT_##field] = text,
#include "config/former.def"
};

static const struct former formers[] = {
#define FORMER(field, name, unit) {CONFIG_AT_##field, name, unit},
#include "config/former.def"
};

static const struct option rows[CONFIG_OPTIONS] = {
#define OPTION(field, kind, whose, written, fallback, text)                                        \
    {.name = written,                                                                              \
     .otherwise = fallback,                                                                        \
     .help = text,                                                                                 \
     .type = OPTION_##kind,                                                                        \
     .programs = PROGRAM_##whose,                                                                  \
     .place = offsetof(struct config, field),                                                      \
     .index = CONFIG_AT_##field},
#include "config/options.def"
#undef OPTION
};

size_t option_count(void) { return CONFIG_OPTIONS; }

const struct option *option_at(size_t index)
{
    check(index < CONFIG_OPTIONS);
    return &rows[index];
}

/* Options of groups are not in the table: they have no bounds. */
static const struct bounds *bounds_of(const struct option *o)
{
    static const struct bounds none = {0};
    return o >= rows && o < rows + CONFIG_OPTIONS ? &bounds[o->index] : &none;
}

static uint64_t least_of(const struct option *o)
{
    return bounds_of(o)->given ? bounds_of(o)->least : 0;
}

static uint64_t most_of(const struct option *o)
{
    return bounds_of(o)->given ? bounds_of(o)->most : UINT64_MAX;
}

/* A flag may be written with `-` in place of `_`. */
static bool is_name(struct str written, struct str name)
{
    if (written.size != name.size) return false;
    for (size_t i = 0; i < name.size; i++)
        if (written.bytes[i] != name.bytes[i] && !(written.bytes[i] == '-' && name.bytes[i] == '_'))
            return false;
    return true;
}

const struct option *option_find(struct str name)
{
    for (size_t i = 0; i < CONFIG_OPTIONS; i++)
        if (is_name(name, str_from(rows[i].name))) return option_at(i);
    return NULL;
}

/* ---- the nearest name ---- */

unsigned option_edits_allowed(struct str name)
{
    return name.size < 6 ? 1 : (unsigned)(name.size / 3);
}

const struct option *option_nearest(struct str name, enum program program, unsigned edits_max)
{
    const struct option *nearest = NULL;
    unsigned least = edits_max + 1;
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        if ((rows[i].programs & program) == 0) continue;
        unsigned distance = str_edits(name, str_from(rows[i].name));
        if (distance >= least) continue;
        least = distance;
        nearest = option_at(i);
    }
    return nearest;
}

const char *option_instead(const struct option *o) { return instead[o->index]; }

const struct former *former_at(size_t index)
{
    return index < sizeof formers / sizeof *formers ? &formers[index] : NULL;
}

const struct former *former_find(struct str name)
{
    for (size_t i = 0; i < sizeof formers / sizeof *formers; i++)
        if (str_equal(name, str_from(formers[i].name))) return &formers[i];
    return NULL;
}

const struct option *option_named(struct str name, const struct former **ret_former)
{
    const struct option *o = option_find(name);
    *ret_former = o == NULL ? former_find(name) : NULL;
    return *ret_former == NULL ? o : option_at((*ret_former)->index);
}

void option_environment_name(const char *option, char to[OPTION_NAME_MAX + 8])
{
    struct buf out = buf_over(to, OPTION_NAME_MAX + 7);
    buf_put_literal(&out, "WRIT_");
    for (const char *c = option; *c != '\0'; c++) {
        bool letter = *c >= 'a' && *c <= 'z';
        buf_put_byte(&out, letter ? (char)(*c - 'a' + 'A') : *c == '.' ? '_' : *c);
    }
    check(!out.overflow);
    to[out.size] = '\0';
}

/* ---- values ---- */

bool option_is_string(const struct option *o) { return o->type <= OPTION_CHOICE; }

/* The words that a CHOICE may be: "synced|written". */
static struct str choices_of(const struct option *o)
{
    check(o->type == OPTION_CHOICE);
    const char *colon = NULL;
    for (const char *at = o->help; (at = strstr(at, ": ")) != NULL; at += 2) colon = at;
    check(colon != NULL);
    return str_from(colon + 2);
}

static bool is_choice(const struct option *o, struct str value)
{
    struct str rest = choices_of(o), word;
    while (str_split(&rest, '|', &word))
        if (str_equal(word, value)) return true;
    return false;
}

/* host:port, where host is a name, an IPv4 address or [IPv6]. */
static bool is_host_port(struct str value, uint64_t port_least)
{
    size_t colon = value.size;
    while (colon > 0 && value.bytes[colon - 1] != ':') colon--;
    if (colon < 2) return false;
    struct str host = str_of(value.bytes, colon - 1);
    bool bracketed = host.size > 2 && host.bytes[0] == '[' && host.bytes[host.size - 1] == ']';
    if (!bracketed && str_find(host, ':') < host.size) return false;
    for (size_t i = 0; i < host.size; i++)
        if ((unsigned char)host.bytes[i] <= ' ' || host.bytes[i] == '/' || host.bytes[i] == '@')
            return false;
    uint64_t port;
    return str_to_u64(str_skip(value, colon), &port) && port >= port_least && port <= 65535;
}

static bool is_url(struct str value)
{
    if (str_starts(value, STR("unix:/"))) return value.size > 6 && value.size <= UNIX_URL_BYTES_MAX;
    bool is_tls = str_starts(value, STR("https://"));
    if (!is_tls && !str_starts(value, STR("http://"))) return false;
    struct str rest = str_skip(value, is_tls ? 8 : 7);
    for (size_t i = 0; i < rest.size; i++)
        if (!isalnum((unsigned char)rest.bytes[i]) && strchr(".-_:[]", rest.bytes[i]) == NULL)
            return false;
    return is_host_port(rest, 1);
}

static bool are_urls(struct str value)
{
    struct str one;
    size_t count = 0;
    while (str_split(&value, ',', &one))
        if (one.size >= CONFIG_URLS_TEXT || !is_url(one) || ++count > CONFIG_URLS_MAX) return false;
    return true;
}

void option_put_form(struct buf *out, const struct option *o)
{
    switch (o->type) {
    case OPTION_TEXT: buf_put_literal(out, "text"); break;
    case OPTION_PATH: buf_put_literal(out, "a path"); break;
    case OPTION_LISTEN:
        buf_put_literal(out, "host:port, such as 127.0.0.1:8080 or [::1]:8080, or none");
        break;
    case OPTION_URL:
        buf_put_literal(out, "http://host:port, https://host:port or unix:/path");
        break;
    case OPTION_URLS:
        buf_printf(out,
                   "http://host:port, https://host:port or unix:/path, or up to %d of them with "
                   "commas between them, without blanks",
                   CONFIG_URLS_MAX);
        break;
    case OPTION_CHOICE: buf_put(out, choices_of(o)); break;
    case OPTION_FLAG: buf_put_literal(out, "true or false"); break;
    case OPTION_RATIO: buf_put_literal(out, "a number from 0 to 1, such as 0.01"); break;
    case OPTION_COUNT: buf_put_literal(out, "a whole number"); break;
    case OPTION_BYTES: buf_put_literal(out, "a size such as 512, 64KiB or 1GiB"); break;
    case OPTION_SPAN: buf_put_literal(out, "a span such as 250ms, 30s, 10m, 72h or 7d"); break;
    }
    void (*put)(struct buf *, uint64_t) = o->type == OPTION_BYTES  ? option_put_bytes
                                          : o->type == OPTION_SPAN ? option_put_span
                                                                   : buf_put_u64;
    if (o->type < OPTION_COUNT) return;
    if (least_of(o) > 0) {
        buf_put_literal(out, ", at least ");
        put(out, least_of(o));
    }
    if (most_of(o) < UINT64_MAX) {
        buf_put_literal(out, ", at most ");
        put(out, most_of(o));
    }
}

struct str option_shown(struct str text)
{
    if (text.size <= 60) return text;
    text.size = 60;
    while (text.size > 0 && ((unsigned char)text.bytes[text.size] & 0xc0) == 0x80) text.size--;
    return text;
}

static enum err refuse(const struct option *o, struct str value, const char *where, struct fault *f)
{
    char bytes[160];
    struct buf form = buf_over(bytes, sizeof bytes);
    size_t offset;
    if (str_is_utf8(value, &offset))
        option_put_form(&form, o);
    else
        buf_put_literal(&form, "UTF-8");
    struct str shown = option_shown(shown_address(value));
    return fault_set(f, ERR_BAD_VALUE, o->name, "%s (%s): \"%.*s\" is not valid; it must be %.*s",
                     o->name, where, STR_FORMAT(shown), STR_FORMAT(buf_view(&form)));
}

static bool read_number(const struct option *o, struct str value, uint64_t *ret)
{
    uint64_t number;
    bool read = o->type == OPTION_BYTES  ? config_bytes(value, &number)
                : o->type == OPTION_SPAN ? config_span(value, &number)
                                         : str_to_u64(value, &number);
    if (!read || number < least_of(o) || number > most_of(o)) return false;
    *ret = number;
    return true;
}

/* An empty string is always accepted and means "none". Code that needs a value refuses it at
 * start. */
static bool string_is_right(const struct option *o, struct str value)
{
    for (size_t i = 0; i < value.size; i++)
        if ((unsigned char)value.bytes[i] < ' ' || value.bytes[i] == 0x7f) return false;
    size_t offset;
    if (!str_is_utf8(value, &offset)) return false;
    if (o->type == OPTION_CHOICE) return is_choice(o, value);
    if (value.size == 0) return true;
    /* with port 0 the kernel chooses one */
    if (o->type == OPTION_LISTEN)
        return is_host_port(value, 0) || str_equal(value, STR(LISTEN_NONE));
    if (o->type == OPTION_URL) return is_url(value);
    if (o->type == OPTION_URLS) return are_urls(value);
    return true;
}

static void *field(void *owner, const struct option *o) { return (char *)owner + o->place; }

static enum err set_string(void *owner, const struct option *o, struct str value)
{
    char *copy = strndup(value.size == 0 ? "" : value.bytes, value.size);
    if (copy == NULL) return ERR_FULL;
    const char **at = field(owner, o);
    free((void *)(uintptr_t)*at);
    *at = copy;
    return ERR_OK;
}

enum err option_set_value(void *owner, const struct option *o, struct str value, const char *where,
                          struct fault *f)
{
    if (option_is_string(o)) {
        if (!string_is_right(o, value)) return refuse(o, value, where, f);
        if (set_string(owner, o, value) != ERR_OK) return fault_plain(f, ERR_FULL);
        return ERR_OK;
    }
    if (o->type == OPTION_FLAG) {
        bool yes = str_equal(value, STR("true"));
        if (!yes && !str_equal(value, STR("false"))) return refuse(o, value, where, f);
        *(bool *)field(owner, o) = yes;
        return ERR_OK;
    }
    if (o->type == OPTION_RATIO)
        return option_ratio(value, field(owner, o)) ? ERR_OK : refuse(o, value, where, f);
    uint64_t number;
    if (!read_number(o, value, &number)) return refuse(o, value, where, f);
    *(uint64_t *)field(owner, o) = number;
    return ERR_OK;
}

enum err option_set(struct config *c, const struct option *o, struct str value, const char *where,
                    struct fault *f)
{
    enum err err = option_set_value(c, o, value, where, f);
    if (err != ERR_OK) return err;
    free(c->sources[o->index]);
    c->sources[o->index] = where == NULL ? NULL : strdup(where);
    return where == NULL || c->sources[o->index] != NULL ? ERR_OK : fault_plain(f, ERR_FULL);
}

enum err option_set_as(struct config *c, const struct option *o, const struct former *former,
                       struct str value, const char *where, struct fault *f)
{
    char bytes[32];
    struct buf with_unit = buf_over(bytes, sizeof bytes);
    bool is_bare = former != NULL && str_to_u64(value, &(uint64_t){0});
    if (is_bare) buf_printf(&with_unit, "%.*s%s", STR_FORMAT(value), former->unit);
    enum err err =
        option_set(c, o, is_bare && !with_unit.overflow ? buf_view(&with_unit) : value, where, f);
    if (err == ERR_OK) c->former[o->index] = former == NULL ? NULL : former->name;
    return err;
}
