#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    WHOLE_BYTES = 4096 + 1024, /* a path, and the error about it */
    TAIL_BYTES = 80,           /* of an overlong text: the text of errno, and a little before it */
};

static bool is_inside_character(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* Cuts an overlong text before an incomplete character. */
static void end_at_character(char *text, size_t capacity, int wanted)
{
    if (wanted < 0 || (size_t)wanted < capacity) return;
    size_t at = capacity - 1;
    while (at > 0 && is_inside_character(text[at - 1])) at--;
    if (at > 0 && (unsigned char)text[at - 1] >= 0xC0) at--;
    text[at] = '\0';
}

/* The start of an overlong text names its subject, often with a hint, and its end has the cause.
 * So the middle is dropped. */
static void put_text(char *to, size_t capacity, const char *whole)
{
    size_t size = strlen(whole);
    if (size < capacity) {
        memcpy(to, whole, size + 1);
        return;
    }
    size_t room = capacity - 1 - strlen("…"), head = room - TAIL_BYTES;
    while (head > 0 && is_inside_character(whole[head])) head--;
    size_t tail = size - (room - head);
    while (is_inside_character(whole[tail])) tail++;
    snprintf(to, capacity, "%.*s…%s", (int)head, whole, whole + tail);
}

enum err fault_set(struct fault *f, enum err err, const char *field, const char *format, ...)
{
    if (f == NULL) return err;
    f->err = err;
    f->quota = (struct quota){0};
    end_at_character(f->field, sizeof f->field, snprintf(f->field, sizeof f->field, "%s", field));
    char whole[WHOLE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    end_at_character(whole, sizeof whole, vsnprintf(whole, sizeof whole, format, arguments));
    va_end(arguments);
    put_text(f->text, sizeof f->text, whole);
    return err;
}

enum err fault_quota(struct fault *f, enum err err, const struct quota *quota)
{
    const char *who = err == ERR_QUOTA_KEY ? "key" : "tenant";
    const unsigned long long most = quota->most;
    if (quota->window_s > 0)
        (void)fault_set(f, err, "",
                        "this %s has used up its quota: %llu %s in %u s; try again in %u s", who,
                        most, quota->name, quota->window_s, quota->retry_s);
    else
        (void)fault_set(
            f, err, "",
            "this %s has the most %s that it may have at a time here, %llu: end some, or "
            "wait until they end",
            who, quota->name, most);
    f->quota = *quota;
    return err;
}

enum err fault_plain(struct fault *f, enum err err)
{
    return fault_set(f, err, "", "%s", err_sentence(err));
}
