#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "base/world.h"

enum { LINE_BYTES = 2048, VALUE_BYTES = 1024 };

static const char *const level_names[] = {"debug", "info", "warning", "error"};
static const char *program_name = "writ";
static enum log_level least_level = LOG_INFO;

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static unsigned lost_lines; /* behind the door: since the last that was written */

enum log_level log_level_of(const char *name)
{
    for (unsigned i = 0; i < sizeof level_names / sizeof *level_names; i++)
        if (strcmp(name, level_names[i]) == 0) return (enum log_level)i;
    return LOG_INFO;
}

void log_init(const char *program, enum log_level least)
{
    program_name = program;
    least_level = least;
}

static void put_character(struct buf *b, unsigned char c)
{
    if (c == '"' || c == '\\') buf_put_byte(b, '\\');
    if (c < 0x20 || c == 0x7f)
        buf_printf(b, "\\u%04x", c);
    else
        buf_put_byte(b, (char)c);
}

/* Bytes that are not UTF-8, also because the cut split a character, are written as `?`. */
static void put_text(struct buf *b, const char *text)
{
    struct str rest = str_of(text, strnlen(text, VALUE_BYTES));
    buf_put_byte(b, '"');
    while (rest.size > 0) {
        size_t sound = rest.size;
        bool whole = str_is_utf8(rest, &sound);
        for (size_t i = 0; i < sound; i++) put_character(b, (unsigned char)rest.bytes[i]);
        if (!whole) buf_put_byte(b, '?');
        rest = str_skip(rest, whole ? sound : sound + 1);
    }
    buf_put_byte(b, '"');
}

static void put_member(struct buf *b, const char *key, const char *value)
{
    size_t before = b->size;
    buf_put_byte(b, ',');
    put_text(b, key);
    buf_put_byte(b, ':');
    put_text(b, value == NULL ? "" : value);
    if (b->overflow || b->size + 2 > b->capacity) { /* a member that does not fit is left out */
        b->size = before;
        b->overflow = false;
    }
}

static void line_begin(struct buf *b, enum log_level level, const char *event)
{
    char time[TIME_TEXT + 1] = {0};
    time_write(world_now_ms(), time);
    buf_put_literal(b, "{\"time\":");
    put_text(b, time);
    put_member(b, "level", level_names[level]);
    put_member(b, "program", program_name);
    put_member(b, "event", event);
}

static void line_write(struct buf *b)
{
    buf_put_literal(b, "}\n");
    ssize_t ignored = write(STDERR_FILENO, b->bytes, b->size);
    (void)ignored; /* there is no other place to report a log that cannot be written */
}

_Static_assert(LINE_BYTES <= PIPE_BUF, "a pipe that has room at all takes a line at once");

static bool would_wait(void)
{
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&log, 1, 0) == 0;
}

static void tell_lost(void)
{
    char bytes[LINE_BYTES], count[16];
    struct buf b = buf_over(bytes, LINE_BYTES);
    snprintf(count, sizeof count, "%u", lost_lines);
    line_begin(&b, LOG_WARNING, "log_lines_lost");
    put_member(&b, "count", count);
    line_write(&b);
    lost_lines = 0;
}

static void line_end(struct buf *b)
{
    pthread_mutex_lock(&door);
    if (lost_lines > 0 && !would_wait()) tell_lost();
    if (would_wait())
        lost_lines++;
    else
        line_write(b);
    pthread_mutex_unlock(&door);
}

bool log_is_on(enum log_level level) { return level >= least_level; }

void log_line(enum log_level level, const char *event, ...)
{
    if (level < least_level) return;
    char bytes[LINE_BYTES];
    struct buf b = buf_over(bytes, LINE_BYTES);
    line_begin(&b, level, event);
    va_list pairs;
    va_start(pairs, event);
    for (const char *key; (key = va_arg(pairs, const char *)) != NULL;)
        put_member(&b, key, va_arg(pairs, const char *));
    va_end(pairs);
    line_end(&b);
}

void log_text(enum log_level level, const char *event, const char *format, ...)
{
    if (level < least_level) return;
    char bytes[LINE_BYTES], text[VALUE_BYTES];
    struct buf b = buf_over(bytes, LINE_BYTES);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    line_begin(&b, level, event);
    put_member(&b, "text", text);
    line_end(&b);
}
