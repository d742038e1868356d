/* log.h - one JSON line per event, on standard error.
 *
 * Libraries return errors; loops and mains log them once. Keys, tokens and bodies have no printf
 * form here: pass ids. Any thread. A line is one write(), which does not block: if the reader of
 * a pipe has stopped reading, lines are lost. The next line that is written has their number. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

enum log_level log_level_of(const char *name); /* "warning"; LOG_INFO for an unknown word */

void log_init(const char *program, enum log_level least); /* before threads start */

/* Whether such a line would be written, for callers that have to prepare its values. */
bool log_is_on(enum log_level level);

/* log_line(LOG_INFO, "listening", "address", "127.0.0.1:8080", NULL): event name, then pairs of
 * key and text, ended by NULL. Overlong lines are cut and stay valid JSON. */
void log_line(enum log_level level, const char *event, ...) __attribute__((sentinel));

/* The same with one printf value: log_text(LOG_ERROR, "journal", "cannot open %s", path). */
void log_text(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
