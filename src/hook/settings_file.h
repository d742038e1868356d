/* settings_file.h - the settings file of an agent: found, read, and replaced as a whole. Blocking. */
#ifndef HOOK_SETTINGS_FILE_H
#define HOOK_SETTINGS_FILE_H

#include <limits.h>
#include <sys/stat.h>

#include "hook/settings.h"

enum { SETTINGS_BYTES_MAX = 4 << 20 };

struct settings_file {
    const struct hook_options *options;
    const struct settings_place *place;
    char path[PATH_MAX]; /* behind links */
    struct arena arena;
    struct str before; /* the text; absent: there is no file */
    mode_t mode;
};

/* ERR_BAD_VALUE: there is no such place for this agent. ERR_IO: it cannot be read. Close it in any
 * case. */
enum err settings_file_open(struct settings_file *t, const struct hook_options *o, struct fault *f);
/* A reader sees the old file or the new one. Makes the folders above it. ERR_IO. */
enum err settings_file_replace(const struct settings_file *t, struct str text, struct fault *f);
void settings_file_close(struct settings_file *t);

#endif
