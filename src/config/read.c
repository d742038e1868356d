/* read.c - reads the values of options: default, then file, then environment, then flag.
 *
 * An option of the other program is refused as a flag, but accepted (and checked) in a file or the
 * environment, so that one file can configure both. A variable WRIT_… that is no option is refused
 * if it is nearly the name of one, because a mistyped WRIT_DURABILITY must not go unnoticed. Other
 * names are only logged, because other tools use the prefix too (others.def). An empty variable
 * counts as unset. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "config/file.h"
#include "config/table.h"

#define NAME_SHOWN(s) (int)((s).size > OPTION_NAME_MAX ? OPTION_NAME_MAX : (s).size), (s).bytes

static const char *program_name(enum program p)
{
    return p == PROGRAM_ENGINE ? "writ-engine" : "writ-platform";
}

static enum err refuse_unknown(struct str name, const char *where, enum program program,
                               struct fault *f)
{
    char field[OPTION_NAME_MAX + 1];
    snprintf(field, sizeof field, "%.*s", NAME_SHOWN(name));
    const struct option *near = option_nearest(name, program, option_edits_allowed(name));
    if (near != NULL)
        return fault_set(f, ERR_UNKNOWN_PARAMETER, field,
                         "%s (%s): there is no such option; did you mean %s?", field, where,
                         near->name);
    return fault_set(f, ERR_UNKNOWN_PARAMETER, field,
                     "%s (%s): there is no such option; --help lists all", field, where);
}

/* ---- the file ---- */

enum err config_apply_text(struct config *c, enum program program, struct str text,
                           const char *file, struct fault *f)
{
    unsigned *seen = calloc(option_count(), sizeof *seen); /* the line that set it */
    if (seen == NULL) return fault_plain(f, ERR_FULL);

    struct setting_reader reader = setting_reader_of(text, file);
    struct setting s;
    enum err e;
    while ((e = setting_next(&reader, &s, f)) == ERR_OK) {
        char where[160];
        snprintf(where, sizeof where, "%s:%u", file, s.line);
        const struct former *former;
        const struct option *o = option_named(s.name, &former);
        const struct group *g = group_of(s.name);
        if (g != NULL) {
            e = group_set(g, c, s.name, s.value, where, f);
            if (e != ERR_OK) break;
            continue;
        }
        if (o == NULL) {
            e = refuse_unknown(s.name, where, program, f);
            break;
        }
        unsigned *line = &seen[o - option_at(0)];
        if (*line != 0) {
            e = fault_set(f, ERR_BAD_VALUE, o->name, "%s (%s): it is already set on line %u",
                          o->name, where, *line);
            break;
        }
        *line = s.line;
        e = option_set_as(c, o, former, s.value, where, f);
        if (e != ERR_OK) break;
    }
    free(seen);
    return e == ERR_END ? ERR_OK : e;
}

static enum err apply_file(struct config *c, enum program program, const char *path,
                           struct fault *f)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return fault_set(f, ERR_NOT_FOUND, "config", "config: %s cannot be opened: %m", path);
    char *text = malloc(CONFIG_FILE_BYTES_MAX + 1);
    check(text != NULL); /* at start, before any request was accepted */
    size_t size = fread(text, 1, CONFIG_FILE_BYTES_MAX + 1, file);
    bool failed = ferror(file) != 0;
    fclose(file);

    enum err e;
    if (failed)
        e = fault_set(f, ERR_IO, "config", "config: %s cannot be read (is it a file?)", path);
    else if (size > CONFIG_FILE_BYTES_MAX)
        e = fault_set(f, ERR_BAD_VALUE, "config", "config: %s is larger than 64KiB", path);
    else
        e = config_apply_text(c, program, str_of(text, size), path, f);
    free(text);
    return e;
}

/* ---- the environment ---- */

static bool is_variable_of(struct str variable, const char *option)
{
    char name[OPTION_NAME_MAX + 8];
    option_environment_name(option, name);
    return str_equal(variable, str_from(name));
}

/* The option that has, or formerly had, the variable "WRIT_HTTP_IDLE_TIMEOUT", or none. */
static const struct option *option_of_variable(struct str variable,
                                               const struct former **ret_former)
{
    *ret_former = NULL;
    for (size_t i = 0; i < option_count(); i++)
        if (is_variable_of(variable, option_at(i)->name)) return option_at(i);
    for (size_t i = 0; (*ret_former = former_at(i)) != NULL; i++)
        if (is_variable_of(variable, (*ret_former)->name)) return option_at((*ret_former)->index);
    return NULL;
}

/* The option that a variable misspells, or NULL. The names are compared in the option's spelling. A
 * short name may have one edit, a longer one two, the shortest ones none. */
static const struct option *option_misspelt(struct str variable, enum program program)
{
    char bytes[OPTION_NAME_MAX];
    struct buf name = buf_over(bytes, sizeof bytes);
    for (size_t i = 5; i < variable.size; i++) {
        char c = variable.bytes[i];
        buf_put_byte(&name, c == '_' ? '.' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c);
    }
    if (name.overflow || name.size < 5) return NULL;
    return option_nearest(buf_view(&name), program, name.size < 9 ? 1 : 2);
}

static enum err apply_variable(struct config *c, enum program program, struct str variable,
                               struct str value, struct fault *f)
{
    const struct former *former;
    const struct option *o = option_of_variable(variable, &former);
    if (o != NULL) {
        char where[OPTION_NAME_MAX + 32];
        snprintf(where, sizeof where, "environment %.*s", STR_FORMAT(variable));
        return option_set_as(c, o, former, value, where, f);
    }
    const struct group *g = group_of_variable(variable);
    if (g != NULL) {
        char where[160];
        snprintf(where, sizeof where, "environment %.*s", NAME_SHOWN(variable));
        return group_set_variable(g, c, variable, value, where, f);
    }
    const struct option *near = option_misspelt(variable, program);
    if (near == NULL) return ERR_OK;
    char right[OPTION_NAME_MAX + 8];
    option_environment_name(near->name, right);
    return fault_set(f, ERR_UNKNOWN_PARAMETER, near->name,
                     "environment %.*s: there is no such option; did you mean %s?",
                     NAME_SHOWN(variable), right);
}

struct variable {
    struct str name, value;
};

/* The next variable WRIT_… that is not empty, from environment[*at] on; false: there is none. */
static bool variable_next(char **environment, size_t *at, struct variable *ret)
{
    while (environment != NULL && environment[*at] != NULL) {
        struct str entry = str_from(environment[(*at)++]);
        size_t equals = str_find(entry, '=');
        if (!str_starts(entry, STR("WRIT_")) || equals + 1 >= entry.size) continue;
        *ret = (struct variable){str_of(entry.bytes, equals), str_skip(entry, equals + 1)};
        return true;
    }
    return false;
}

static enum err apply_environment(struct config *c, enum program program, char **environment,
                                  struct fault *f)
{
    struct variable v;
    for (size_t at = 0; variable_next(environment, &at, &v);) {
        enum err e = apply_variable(c, program, v.name, v.value, f);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

static bool is_of_others(struct str name)
{
    static const char *const others[] = {
#define OTHER(name) name,
#include "config/others.def"
#undef OTHER
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (str_equal(name, str_from(others[i]))) return true;
    return false;
}

struct str config_stray_next(char **environment, size_t *at)
{
    struct variable v;
    const struct former *former;
    while (variable_next(environment, at, &v))
        if (option_of_variable(v.name, &former) == NULL && group_of_variable(v.name) == NULL &&
            !is_of_others(v.name))
            return v.name;
    return (struct str){0};
}

void config_tell_strays(char **environment)
{
    struct str name;
    for (size_t at = 0; !str_is_absent(name = config_stray_next(environment, &at));)
        log_text(LOG_WARNING, "variable_unknown",
                 "%.*s in the environment is no option and has no effect", NAME_SHOWN(name));
}

static const char *environment_get(char **environment, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        if (strncmp(environment[i], name, size) == 0 && environment[i][size] == '=' &&
            environment[i][size + 1] != '\0')
            return environment[i] + size + 1;
    return NULL;
}

/* ---- flags ---- */

struct flags { /* an iteration over the command line */
    int argc, at;
    char **argv;
};

struct flag {
    struct str name, value; /* value absent: none was given */
};

/* Takes `--name=value`, `--name value`, or `--name` if the option is a FLAG. A next word that is no
 * option is the value. */
static enum err flag_next(struct flags *w, struct flag *ret, struct fault *f)
{
    struct str word = str_from(w->argv[w->at++]);
    if (!str_starts(word, STR("--")) || word.size == 2) {
        struct str shown = option_shown(word);
        return fault_set(f, ERR_BAD_VALUE, "",
                         "\"%.*s\": an option is written --name value or --name=value",
                         STR_FORMAT(shown));
    }
    word = str_skip(word, 2);
    size_t equals = str_find(word, '=');
    *ret = (struct flag){.name = str_of(word.bytes, equals)};
    if (equals < word.size) {
        ret->value = str_skip(word, equals + 1);
        return ERR_OK;
    }
    if (str_equal(word, STR("help")) || str_equal(word, STR("version"))) return ERR_OK;
    const struct former *former;
    const struct option *o = option_named(word, &former);
    struct str next = w->at < w->argc ? str_from(w->argv[w->at]) : (struct str){0};
    bool stands_alone =
        o != NULL && o->type == OPTION_FLAG && (next.size == 0 || str_starts(next, STR("--")));
    ret->value = stands_alone ? STR("true") : next;
    if (!stands_alone) w->at++;
    return ERR_OK;
}

static enum err apply_flag(struct config *c, enum program program, const struct flag *flag,
                           struct fault *f)
{
    const struct former *former;
    const struct option *o = option_named(flag->name, &former);
    const struct group *g = program == PROGRAM_PLATFORM ? group_of(flag->name) : NULL;
    if (g != NULL && !str_is_absent(flag->value))
        return group_set(g, c, flag->name, flag->value, "flag", f);
    if (o == NULL) return refuse_unknown(flag->name, "flag", program, f);
    if ((o->programs & program) == 0)
        return fault_set(f, ERR_UNKNOWN_PARAMETER, o->name,
                         "%s (flag): that is an option of %s, not of %s", o->name,
                         program_name(o->programs), program_name(program));
    if (str_is_absent(flag->value)) {
        char bytes[160];
        struct buf form = buf_over(bytes, sizeof bytes);
        option_put_form(&form, o);
        return fault_set(f, ERR_BAD_VALUE, o->name,
                         "%s (flag): its value is missing; it must be %.*s", o->name,
                         STR_FORMAT(buf_view(&form)));
    }
    return option_set_as(c, o, former, flag->value, "flag", f);
}

static enum err apply_flags(struct config *c, enum program program, int argc, char **argv,
                            struct fault *f)
{
    struct flags walk = {argc, 1, argv};
    while (walk.at < argc) {
        struct flag flag;
        enum err e = flag_next(&walk, &flag, f);
        if (e == ERR_OK && !str_equal(flag.name, STR("config")))
            e = apply_flag(c, program, &flag, f);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

static void print(const struct buf *text)
{
    fwrite(text->bytes, 1, text->size, stdout);
    fflush(stdout);
}

/* Finds the flags that must be known first: --help, --version, --config. */
static enum err look_ahead(enum program program, int argc, char **argv, const char **ret_file,
                           struct fault *f)
{
    struct flags walk = {argc, 1, argv};
    while (walk.at < argc) {
        struct flag flag;
        if (flag_next(&walk, &flag, NULL) != ERR_OK)
            continue; /* refused later, when all flags are read */
        bool help = str_equal(flag.name, STR("help"));
        if (help || str_equal(flag.name, STR("version"))) {
            struct buf out;
            buf_init(&out, 0, 1 << 20);
            if (help)
                config_put_help(&out, program);
            else
                buf_printf(&out, "%s %s\n", program_name(program), WRIT_VERSION);
            print(&out);
            buf_fini(&out);
            return ERR_END;
        }
        if (!str_equal(flag.name, STR("config"))) continue;
        if (str_is_empty(flag.value))
            return fault_set(f, ERR_BAD_VALUE, "config",
                             "config (flag): its value is missing; it must be a path");
        *ret_file = flag.value.bytes; /* the end of an argument, so it is NUL-terminated */
    }
    return ERR_OK;
}

/* ---- all of it ---- */

static void set_defaults(struct config *c)
{
    *c = (struct config){0};
    for (size_t i = 0; i < option_count(); i++) {
        struct fault f;
        enum err e = option_set(c, option_at(i), str_from(option_at(i)->otherwise), NULL, &f);
        check(e == ERR_OK); /* a default that its own type refuses is an error in options.def */
    }
}

static enum err default_path(const char **at, const char *data, const char *name)
{
    if (**at != '\0') return ERR_OK;
    char *path = NULL;
    if (asprintf(&path, "%s/%s", data, name) < 0) return ERR_FULL;
    free((void *)(uintptr_t)*at);
    *at = path;
    return ERR_OK;
}

static enum err default_text(const char **at, const char *text)
{
    if (**at != '\0') return ERR_OK;
    char *copy = strdup(text);
    if (copy == NULL) return ERR_FULL;
    free((void *)(uintptr_t)*at);
    *at = copy;
    return ERR_OK;
}

/* Defaults that depend on another option or on the program. */
static enum err derive(struct config *c, enum program program, struct fault *f)
{
    if (*c->data == '\0')
        return fault_set(f, ERR_BAD_VALUE, "data", "data: it is empty; it must be a path");
    bool engine = program == PROGRAM_ENGINE;
    if (default_path(&c->pepper_file, c->data, "pepper") != ERR_OK ||
        default_path(&c->store, c->data, "platform.db") != ERR_OK ||
        default_text(&c->listen, engine ? "127.0.0.1:8080" : "127.0.0.1:9090") != ERR_OK)
        return fault_plain(f, ERR_FULL);
    return ERR_OK;
}

enum err config_read(enum program program, int argc, char **argv, char **environment,
                     struct config *ret, struct fault *f)
{
    check(program == PROGRAM_ENGINE || program == PROGRAM_PLATFORM);
    const char *file = environment_get(environment, "WRIT_CONFIG");
    enum err e = look_ahead(program, argc, argv, &file, f);
    if (e != ERR_OK) return e;

    struct config c;
    set_defaults(&c);
    if (file != NULL) e = apply_file(&c, program, file, f);
    if (e == ERR_OK) e = apply_environment(&c, program, environment, f);
    if (e == ERR_OK) e = apply_flags(&c, program, argc, argv, f);
    if (e == ERR_OK) {
        e = derive(&c, program, f);
        if (e != ERR_OK) config_name_sources(&c, f);
    }
    if (e != ERR_OK) {
        config_fini(&c);
        return e;
    }
    *ret = c;
    return ERR_OK;
}

void config_fini(struct config *c)
{
    if (c == NULL) return;
    groups_free(c);
    for (size_t i = 0; i < option_count(); i++) {
        free(c->sources[i]);
        c->sources[i] = NULL;
        if (!option_is_string(option_at(i))) continue;
        const char **at = (const char **)(void *)((char *)c + option_at(i)->place);
        free((void *)(uintptr_t)*at);
        *at = NULL;
    }
}
