/* file.h - the syntax of configuration files.
 *
 *   file    = { line "\n" }
 *   line    = blanks [ setting ] [ comment ]
 *   setting = name blanks "=" blanks value        value: the rest, without blanks around it
 *   comment = "#" …                               at the line's start or after a blank
 *
 * There is no quoting, so nothing needs escaping. Text must be UTF-8 without NUL. Only src/config
 * includes this header. Pure, any thread. */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "base/fault.h"

enum { CONFIG_FILE_BYTES_MAX = 64 << 10 };

struct setting {
    struct str name, value; /* views of the text */
    unsigned line;          /* 1-based */
};

struct setting_reader {
    struct str rest;
    const char *file; /* the file's name, for faults */
    unsigned line;
};

static inline struct setting_reader setting_reader_of(struct str text, const char *file)
{
    return (struct setting_reader){.rest = text, .file = file};
}

/* The next setting. ERR_END after the last; ERR_BAD_VALUE: the line is no setting. */
enum err setting_next(struct setting_reader *r, struct setting *ret, struct fault *f);

#endif
