/* source.c - adds the source of an option's value to an error text about it.
 *
 * The code finds the options in the text: all names before the first colon ("kafka.user,
 * kafka.password_file: …"), and after it the names with a dot, because "data" or "node" may be an
 * ordinary word there. */
#include "base/buf.h"
#include "config/table.h"

static bool is_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
}

/* The first word without a final full stop: the characters of an option's name or a path. */
static struct str word_at(struct str text)
{
    size_t size = 0;
    while (size < text.size && is_of_name(text.bytes[size])) size++;
    while (size > 0 && text.bytes[size - 1] == '.') size--;
    return str_of(text.bytes, size);
}

void config_name_sources(const struct config *c, struct fault *f)
{
    struct fault before = *f;
    char bytes[2 * sizeof f->text];
    struct buf out = buf_over(bytes, sizeof bytes);
    bool told[CONFIG_OPTIONS] = {false}, is_head = true;
    struct str rest = str_from(before.text);
    while (rest.size > 0) {
        struct str word = word_at(rest);
        const struct option *o = option_find(word);
        bool names = o != NULL && (is_head || str_find(word, '.') < word.size) &&
                     c->sources[o->index] != NULL;
        size_t step = word.size > 0 ? word.size : 1;
        buf_put(&out, str_of(rest.bytes, step));
        if (names && !told[o->index]) buf_printf(&out, " (%s)", c->sources[o->index]);
        if (names) told[o->index] = true;
        is_head = is_head && rest.bytes[0] != ':';
        rest = str_skip(rest, step);
    }
    if (!out.overflow)
        (void)fault_set(f, before.err, before.field, "%.*s", STR_FORMAT(buf_view(&out)));
}
