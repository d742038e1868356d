#include "config/file.h"

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static struct str trimmed(struct str s)
{
    while (s.size > 0 && is_blank(s.bytes[0])) s = str_skip(s, 1);
    while (s.size > 0 && is_blank(s.bytes[s.size - 1])) s.size--;
    return s;
}

/* The line without its comment. */
static struct str without_comment(struct str line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.bytes[i] == '#' && (i == 0 || is_blank(line.bytes[i - 1])))
            return str_of(line.bytes, i);
    return line;
}

static bool is_option_name(struct str name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.bytes[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-';
        if (!fine) return false;
    }
    return name.size > 0;
}

static enum err refuse(const struct setting_reader *r, const char *why, struct fault *f)
{
    return fault_set(f, ERR_BAD_VALUE, "", "%s:%u: %s; a line is `name = value` or a `#` comment",
                     r->file, r->line, why);
}

enum err setting_next(struct setting_reader *r, struct setting *ret, struct fault *f)
{
    struct str line;
    while (str_split(&r->rest, '\n', &line)) {
        r->line++;
        size_t offset;
        if (memchr(line.size == 0 ? "" : line.bytes, '\0', line.size) != NULL)
            return refuse(r, "it holds a NUL byte", f);
        if (!str_is_utf8(line, &offset)) return refuse(r, "it is not UTF-8", f);

        line = trimmed(without_comment(line));
        if (line.size == 0) continue;
        size_t equals = str_find(line, '=');
        if (equals == line.size) return refuse(r, "the `=` is missing", f);
        struct str name = trimmed(str_of(line.bytes, equals));
        if (!is_option_name(name))
            return refuse(r, "the text before `=` is not the name of an option", f);
        *ret = (struct setting){name, trimmed(str_skip(line, equals + 1)), r->line};
        return ERR_OK;
    }
    return ERR_END;
}
