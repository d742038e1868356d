/* problems.c - see problems.h. */
#include "cel/problems.h"

#include <stdarg.h>
#include <stdio.h>

void cel_place_on(struct str text, uint32_t from, uint32_t to, uint32_t *line, uint32_t *column)
{
    for (uint32_t i = from; i < to && i < text.size; i++) {
        if (text.bytes[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text.bytes[i] & 0xC0) != 0x80) {
            ++*column;
        }
    }
}

void cel_place(struct str text, uint32_t offset, uint32_t *ret_line, uint32_t *ret_column)
{
    *ret_line = *ret_column = 1;
    cel_place_on(text, 0, offset, ret_line, ret_column);
}

void cel_problem_add(struct cel_problems *problems, struct str text, uint32_t offset,
                     const char *format, ...)
{
    for (size_t i = 0; i < problems->count; i++)
        if (problems->list[i].offset == offset) return;
    if (problems->count == CEL_PROBLEMS_MAX) return;
    struct cel_problem *p = &problems->list[problems->count++];
    p->offset = offset;
    cel_place(text, offset, &p->line, &p->column);

    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(p->message, sizeof p->message, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof p->message)
        p->message[str_cut(str_from(p->message), SIZE_MAX).size] = '\0';
}

void cel_problems_sort(struct cel_problems *problems)
{
    for (size_t i = 1; i < problems->count; i++) {
        struct cel_problem moved = problems->list[i];
        size_t at = i;
        for (; at > 0 && problems->list[at - 1].offset > moved.offset; at--)
            problems->list[at] = problems->list[at - 1];
        problems->list[at] = moved;
    }
}
