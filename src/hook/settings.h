/* settings.h - the settings files of agents: where they are, what starts the hook in them, and what in
 * them would make the agent drop the hook without a word.
 *
 * Bytes in, bytes out. No I/O. A file keeps everything that is not the hook's entry, byte for byte. */
#ifndef HOOK_SETTINGS_H
#define HOOK_SETTINGS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"
#include "hook/options.h"

enum settings_kind {
    SETTINGS_JSON,
    SETTINGS_OWN_JSON, /* a file of the hook alone */
    SETTINGS_TOML      /* a file of the hook alone */
};

struct settings_place {
    const char *agent;
    bool managed;
    const char *path; /* below the user's home, unless it is absolute */
    enum settings_kind kind;
};

/* NULL: the hook cannot be installed for this agent in this way. */
const struct settings_place *settings_place(const struct hook_agent *agent, bool managed);

/* The text of the file with the hook's entry, from `before` (absent: there is no file). ERR_BAD_VALUE:
 * the file has something by which the agent would drop the hook, or cannot be edited; *f names it.
 * ERR_FULL: no memory. */
enum err settings_with(const struct settings_place *place, const struct hook_options *options,
                       struct str line, struct str before, struct arena *arena, struct buf *out,
                       struct fault *f);

/* The same without the hook's entry. Nothing is written to `out` if only the entry was in the file.
 * ERR_NOT_FOUND: it has none. */
enum err settings_without(const struct settings_place *place, const struct hook_options *options,
                          struct str before, struct arena *arena, struct buf *out, struct fault *f);

/* The shell line of the hook's entry. ERR_NOT_FOUND: the file has none. */
enum err settings_line(const struct settings_place *place, const struct hook_agent *agent,
                       struct str text, struct arena *arena, struct str *ret, struct fault *f);

#endif
