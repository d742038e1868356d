/* problem.c - problems with their paths, and suggestions for misspelt words. */
#include "policy/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"

void problems_check(const struct policy_problems *problems)
{
    check(problems->count <= POLICY_PROBLEMS_MAX);
}

/* "rules[2].review.by[0]" */
static void path_put(struct buf *out, const struct place *place)
{
    if (place == NULL) return;
    path_put(out, place->parent);
    if (str_is_absent(place->key)) {
        buf_printf(out, "[%zu]", place->index);
        return;
    }
    if (out->size > 0) buf_put_byte(out, '.');
    buf_put(out, place->key);
}

/* The beginning of the message: the last named step and the steps after it, as in "by[0]". An
 * element of a list without a name has none. */
static void name_put(struct buf *out, const struct place *place)
{
    if (!str_is_absent(place->key)) {
        buf_put(out, place->key);
    } else if (place->parent != NULL) {
        name_put(out, place->parent);
        buf_printf(out, "[%zu]", place->index);
    }
}

/* Removes a character that was cut, at the end or before it ("%.60s"), so that the text stays
 * well-formed UTF-8. */
static void drop_half_characters(char *text, size_t size)
{
    size_t kept = 0, wrong;
    struct str rest = str_of(text, size);
    while (!str_is_utf8(rest, &wrong)) {
        memmove(text + kept, rest.bytes, wrong);
        kept += wrong;
        rest = str_skip(rest, wrong + 1);
    }
    memmove(text + kept, rest.bytes, rest.size);
    text[kept + rest.size] = '\0';
    check(kept + rest.size <= size);
}

/* The part that fits, NUL-terminated. */
static void text_copy(char *to, size_t room, struct str text)
{
    check(room > 0);
    size_t size = text.size < room ? text.size : room - 1;
    memcpy(to, text.bytes, size);
    drop_half_characters(to, size);
}

void policy_problems_join(struct policy_problems *to, const struct policy_problems *more)
{
    problems_check(to);
    problems_check(more);
    size_t at = 0;
    for (; at < more->count && to->count < POLICY_PROBLEMS_MAX; at++)
        to->list[to->count++] = more->list[at];
    to->more += more->more + (more->count - at);
}

void problem_add(struct policy_problems *problems, const struct place *place, unsigned line,
                 unsigned column, const char *format, ...)
{
    if (problems->count == POLICY_PROBLEMS_MAX) {
        problems->more++;
        return;
    }
    problems_check(problems);
    struct policy_problem *p = &problems->list[problems->count++];
    *p = (struct policy_problem){.line = line, .column = column};

    char long_path[1024], long_name[512], text[1024],
        long_message[sizeof long_name + 2 + sizeof text];
    struct buf path = buf_over(long_path, sizeof long_path),
               name = buf_over(long_name, sizeof long_name),
               message = buf_over(long_message, sizeof long_message);
    path_put(&path, place);
    text_copy(p->path, sizeof p->path, buf_view(&path));

    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
    va_end(arguments);
    if (place != NULL) name_put(&name, place);
    if (name.size > 0) buf_printf(&message, "%.*s: ", STR_FORMAT(buf_view(&name)));
    buf_put(&message, str_from(text));
    text_copy(p->message, sizeof p->message, buf_view(&message));
}

/* The name in front is the end of the path. It may contain a colon, so the longest match counts. */
const char *policy_problem_short(const struct policy_problem *p)
{
    struct str path = str_from(p->path), message = str_from(p->message);
    size_t name = 0;
    for (size_t i = 1; i + 1 < message.size && i <= path.size; i++) {
        bool is_step = i == path.size || path.bytes[path.size - i - 1] == '.';
        if (message.bytes[i] == ':' && message.bytes[i + 1] == ' ' && is_step &&
            memcmp(message.bytes, path.bytes + (path.size - i), i) == 0)
            name = i;
    }
    return name > 0 ? p->message + name + 2 : p->message;
}

static int problem_compare(const void *a, const void *b)
{
    const struct policy_problem *x = a, *y = b;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return strcmp(x->message, y->message); /* qsort is not stable, but the result must be */
}

void problems_sort(struct policy_problems *problems)
{
    problems_check(problems);
    qsort(problems->list, problems->count, sizeof problems->list[0], problem_compare);
}
