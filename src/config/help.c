/* help.c - the table of options as texts: --help and schemas/config.md. */
#include "config/table.h"

static const char *const names[] = {[PROGRAM_ENGINE] = "writ-engine",
                                    [PROGRAM_PLATFORM] = "writ-platform",
                                    [PROGRAM_BOTH] = "both"};
static const char *const purpose[] = {
    [PROGRAM_ENGINE] =
        "writ-engine decides whether people and AI agents may act, and records every decision.",
    [PROGRAM_PLATFORM] = "writ-platform keeps policies, API keys and the audit trail."};

static const char *type_word(const struct option *o)
{
    switch (o->type) {
    case OPTION_TEXT: return "TEXT";
    case OPTION_PATH: return "PATH";
    case OPTION_LISTEN: return "HOST:PORT";
    case OPTION_URL: return "URL";
    case OPTION_URLS: return "URL,…";
    case OPTION_CHOICE: return "WORD";
    case OPTION_FLAG: return "true|false";
    case OPTION_RATIO: return "RATIO";
    case OPTION_COUNT: return "NUMBER";
    case OPTION_BYTES: return "SIZE";
    case OPTION_SPAN: return "SPAN";
    }
    return "";
}

/* Prints `text` broken at `width` columns, with further lines indented. */
static void put_wrapped(struct buf *out, struct str text, size_t indent, size_t width)
{
    size_t column = indent;
    struct str word;
    bool first = true;
    while (str_split(&text, ' ', &word)) {
        if (!first && column + 1 + word.size > width) {
            buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            buf_put_byte(out, ' ');
            column++;
        }
        buf_put(out, word);
        column += word.size;
        first = false;
    }
    buf_put_byte(out, '\n');
}

static void put_option(struct buf *out, const char *before, const struct option *o)
{
    buf_printf(out, "  --%s%s %s", before, o->name, type_word(o));
    if (*o->otherwise != '\0') buf_printf(out, "   (default %s)", o->otherwise);
    buf_printf(out, "\n%*s", 8, "");
    put_wrapped(out, str_from(o->help), 8, 88);
}

/* "notify." → "notify.NAME." */
static const char *member_prefix(const struct group *g, char room[OPTION_NAME_MAX])
{
    struct buf text = buf_over(room, OPTION_NAME_MAX - 1);
    buf_printf(&text, "%sNAME.", g->prefix);
    room[text.size] = '\0';
    return room;
}

void config_put_help(struct buf *out, enum program program)
{
    char room[OPTION_NAME_MAX];
    buf_printf(out, "%s\n\nUsage: %s [--config FILE] [--name value | --name=value] …\n\n",
               purpose[program], names[program]);
    put_wrapped(
        out,
        STR("A value comes from the default, then the file's line `name = value`, then the environment "
            "variable WRIT_NAME (dots are written _), then the flag. Sizes are written 64KiB, 1GiB; spans "
            "250ms, 30s, 10m, 72h, 7d. Keys are never options, because other users can see a "
            "command line. Put keys into files."),
        0, 88);
    buf_put_literal(out, "\nOptions:\n");
    buf_put_literal(out, "  --config FILE\n        file to read options from (also WRIT_CONFIG)\n");
    for (size_t i = 0; i < option_count(); i++)
        if ((option_at(i)->programs & program) != 0 && option_instead(option_at(i)) == NULL)
            put_option(out, "", option_at(i));
    const struct group *g;
    for (size_t i = 0; program == PROGRAM_PLATFORM && (g = group_at(i)) != NULL; i++)
        for (size_t k = 0; k < g->row_count; k++)
            put_option(out, member_prefix(g, room), &g->rows[k]);
    buf_put_literal(out, "  --help, --version\n        print this, or the version, and end\n");
}

/* ---- schemas/config.md ---- */

static void put_cell(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '|') buf_put_byte(out, '\\');
        buf_put_byte(out, text.bytes[i]);
    }
}

static void put_row(struct buf *out, const char *before, const struct option *o)
{
    char variable[OPTION_NAME_MAX + 8], bytes[160];
    char name[2 * OPTION_NAME_MAX];
    struct buf full = buf_over(name, sizeof name - 1);
    buf_printf(&full, "%s%s", before, o->name);
    name[full.size] = '\0';
    option_environment_name(name, variable);
    struct buf form = buf_over(bytes, sizeof bytes);
    option_put_form(&form, o);
    buf_printf(out, "| `%s` | `%s` | ", name, variable);
    if (*o->otherwise != '\0') buf_printf(out, "`%s`", o->otherwise);
    buf_put_literal(out, " | ");
    put_cell(out, buf_view(&form));
    buf_put_literal(out, " | ");
    put_cell(out, str_from(o->help));
    buf_put_literal(out, " |\n");
}

static void put_section(struct buf *out, const char *title, enum program programs)
{
    buf_printf(
        out,
        "\n## %s\n\n| option | variable | default | value | what it is |\n|---|---|---|---|---|\n",
        title);
    for (size_t i = 0; i < option_count(); i++)
        if (option_at(i)->programs == programs && option_instead(option_at(i)) == NULL)
            put_row(out, "", option_at(i));
}

static void put_group(struct buf *out, const struct group *g)
{
    char room[OPTION_NAME_MAX];
    buf_printf(
        out,
        "\n## %s\n\n"
        "Each has a NAME: a lowercase letter, then lowercase letters, digits and `-`, at most 32.\n"
        "A variable has `_` for each `-` of the name. There are at most %zu %s.\n"
        "[%s](../docs/guides/%s) is the guide.\n\n"
        "| option | variable | default | value | what it is |\n|---|---|---|---|---|\n",
        g->title, g->members_max, g->things, g->guide, g->guide);
    for (size_t i = 0; i < g->row_count; i++) put_row(out, member_prefix(g, room), &g->rows[i]);
}

static void put_former(struct buf *out)
{
    buf_put_literal(
        out, "\n## Names of the version before\n\n"
             "This version still reads them and logs `option_former`. The next one does not.\n\n"
             "| name | instead |\n|---|---|\n");
    const struct former *former;
    for (size_t i = 0; (former = former_at(i)) != NULL; i++) {
        buf_printf(out, "| `%s` | `%s`", former->name, option_at(former->index)->name);
        if (*former->unit != '\0')
            buf_printf(out, ", a span: `%s = 5` is `%s = 5%s`", former->name,
                       option_at(former->index)->name, former->unit);
        buf_put_literal(out, " |\n");
    }
    for (size_t i = 0; i < option_count(); i++)
        if (option_instead(option_at(i)) != NULL)
            buf_printf(out, "| `%s` | none: %s |\n", option_at(i)->name,
                       option_instead(option_at(i)));
}

void config_put_reference(struct buf *out)
{
    buf_put_literal(
        out,
        "# Configuration\n\n"
        "<!-- Made by `writ docs config` from src/config/options.def; change it there. -->\n\n"
        "Both programs take the value of an option from these places. A later place wins:\n\n"
        "1. the default;\n"
        "2. a file (`--config FILE` or `WRIT_CONFIG`);\n"
        "3. the environment;\n"
        "4. a flag (`--name value` or `--name=value`).\n\n"
        "A file has lines `name = value`. `#` starts a comment at the beginning of a line or after a\n"
        "blank. Nothing is quoted. One file may serve both programs: each takes its own options and\n"
        "checks the others. An empty variable counts as unset.\n\n"
        "| finding | what happens |\n|---|---|\n"
        "| an option that is unknown, set twice in a file, or has a bad value | the program ends at once, "
        "and names the option, where it came from, and what is allowed |\n"
        "| a variable `WRIT_…` that is no option, with a name one or two letters away from an option's | "
        "the same |\n"
        "| another variable `WRIT_…` that is no option | a warning (`variable_unknown`); variables of `writ` "
        "and of the scripts in `ops/` are known |\n"
        "| an option that needs another one, which is not set (`kafka.topic` without `kafka.brokers`) | a "
        "warning (`option_idle`), so that several installations may share a file |\n\n"
        "Sizes are bytes, or written with `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024). Spans are written\n"
        "with `ms`, `s`, `m`, `h` or `d`. Keys, passwords and the pepper are in files of their own\n"
        "(mode 0600), never in options: other users of a machine can see a command line. Such a file of the\n"
        "program's own user is refused if its group or others may read or write it. The mode of another\n"
        "user's file is not checked, because Docker, Kubernetes and systemd hand in secrets so. The\n"
        "exception is the pepper, which has to be closed in any case.\n");
    put_section(out, "Both programs", PROGRAM_BOTH);
    put_section(out, "writ-engine", PROGRAM_ENGINE);
    put_section(out, "writ-platform", PROGRAM_PLATFORM);
    const struct group *g;
    for (size_t i = 0; (g = group_at(i)) != NULL; i++) put_group(out, g);
    put_former(out);
}
