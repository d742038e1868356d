/* help.c - the table of options, told to people: --help and schemas/config.md. */
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
    case OPTION_CHOICE: return "WORD";
    case OPTION_FLAG: return "true|false";
    case OPTION_RATIO: return "RATIO";
    case OPTION_COUNT: return "NUMBER";
    case OPTION_BYTES: return "SIZE";
    case OPTION_SPAN: return "SPAN";
    }
    return "";
}

/* Words of `text`, broken at `width` columns, each further line indented. */
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

static void put_option(struct buf *out, const struct option *o)
{
    buf_printf(out, "  --%s %s", o->name, type_word(o));
    if (*o->otherwise != '\0') buf_printf(out, "   (default %s)", o->otherwise);
    buf_printf(out, "\n%*s", 8, "");
    put_wrapped(out, str_from(o->help), 8, 88);
}

void config_put_help(struct buf *out, enum program program)
{
    buf_printf(out, "%s\n\nUsage: %s [--config FILE] [--name value | --name=value] …\n\n",
               purpose[program], names[program]);
    put_wrapped(
        out,
        STR("A value comes from the default, then the file's line `name = value`, then the environment "
            "variable WRIT_NAME (dots are written _), then the flag. Sizes are written 64KiB, 1GiB; spans "
            "250ms, 30s, 10m, 72h, 7d. Keys are never options, because other users can see a "
            "command line: they are in files."),
        0, 88);
    buf_put_literal(out, "\nOptions:\n");
    buf_put_literal(out, "  --config FILE\n        file to read options from (also WRIT_CONFIG)\n");
    for (size_t i = 0; i < option_count(); i++)
        if (option_at(i)->programs & program) put_option(out, option_at(i));
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

static void put_row(struct buf *out, const struct option *o)
{
    char variable[OPTION_NAME_MAX + 8], bytes[160];
    option_environment_name(o, variable);
    struct buf form = buf_over(bytes, sizeof bytes);
    option_put_form(&form, o);
    buf_printf(out, "| `%s` | `%s` | ", o->name, variable);
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
        if (option_at(i)->programs == programs) put_row(out, option_at(i));
}

void config_put_reference(struct buf *out)
{
    buf_put_literal(
        out,
        "# Configuration\n\n"
        "<!-- Made by `writ docs config` from src/config/options.def; change it there. -->\n\n"
        "Both programs take a value from, each over the one before: the default, a file\n"
        "(`--config FILE` or `WRIT_CONFIG`), the environment, a flag (`--name value` or `--name=value`).\n\n"
        "A file has lines `name = value`; `#` starts a comment at the beginning of a line or after a\n"
        "blank; nothing is quoted. One file may serve both programs: each takes its own options and\n"
        "checks the others. An empty variable counts as unset. An option that is unknown, set twice in\n"
        "a file or has a bad value ends the program at once, with its name, where it came from and what\n"
        "would be right. A variable `WRIT_…` that is no option may be another program's: it does so where its\n"
        "name is a slip or two away from an option's, and else a warning in the log names it\n"
        "(`variable_unknown`). Those of `writ` and of the scripts in `ops/` are known. An option that belongs to\n"
        "something which is not set (`kafka.topic` without `kafka.brokers`) is named by a warning, too\n"
        "(`option_idle`), and not refused: installations of which only some have it may share a file.\n\n"
        "Sizes are bytes, or written with `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024). Spans are written\n"
        "with `ms`, `s`, `m`, `h` or `d`. Keys, passwords and the pepper are in files of their own\n"
        "(mode 0600), never in options: other users of a machine can see a command line. Such a file of the\n"
        "program's own user is refused where its group or others may read or write it. The mode of one that is\n"
        "another user's, as Docker, Kubernetes and systemd hand in secrets, is that user's affair; only the pepper\n"
        "has to be closed whoever owns it.\n");
    put_section(out, "Both programs", PROGRAM_BOTH);
    put_section(out, "writ-engine", PROGRAM_ENGINE);
    put_section(out, "writ-platform", PROGRAM_PLATFORM);
}
