#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>

/* Cuts a possibly overlong text before a half character. */
static void end_at_character(char *text, size_t capacity, int wanted)
{
    if (wanted < 0 || (size_t)wanted < capacity) return;
    size_t at = capacity - 1;
    while (at > 0 && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
    if (at > 0 && (unsigned char)text[at - 1] >= 0xC0) at--;
    text[at] = '\0';
}

enum err fault_set(struct fault *f, enum err err, const char *field, const char *format, ...)
{
    if (f == NULL) return err;
    f->err = err;
    end_at_character(f->field, sizeof f->field, snprintf(f->field, sizeof f->field, "%s", field));
    va_list arguments;
    va_start(arguments, format);
    end_at_character(f->text, sizeof f->text,
                     vsnprintf(f->text, sizeof f->text, format, arguments));
    va_end(arguments);
    return err;
}

enum err fault_plain(struct fault *f, enum err err)
{
    return fault_set(f, err, "", "%s", err_sentence(err));
}
