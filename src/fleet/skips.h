/* skips.h - messages of a fleet's log that a person has decided to pass over, in DATA/engine/fleet.skip.
 *
 *   line := OFFSET  FLEET-ID  TIME-MS  REASON
 *
 * `writ fleet skip` writes a line, on an engine that is stopped; the engine reads the file at its start.
 * Only a message that is no entry of the fleet is passed over. An entry is not: the next one of its
 * chain would show the gap, and reading would end there. Pure; views borrow the text. */
#ifndef FLEET_SKIPS_H
#define FLEET_SKIPS_H

#include "fleet/entry.h"

enum {
    SKIPS_MAX = 64,
    SKIP_REASON_BYTES = 512,
    SKIPS_BYTES_MAX = SKIPS_MAX * (SKIP_REASON_BYTES + 128),
};

struct skip {
    uint64_t offset, at_ms;
    struct str reason; /* printable, of one line */
    bool was_used;     /* the engine's */
};
struct skips {
    struct skip list[SKIPS_MAX];
    unsigned count;
};

/* Of this fleet; lines of others are left out. ERR_CORRUPT: a line is no line; ERR_FULL: there are more
 * than SKIPS_MAX. */
enum err skips_read(struct str text, const struct fleet_id *fleet, struct skips *ret);
/* Characters of the reason that are not printable become blanks, and it is cut at its limit. */
void skips_put(struct buf *out, const struct fleet_id *fleet, const struct skip *s);
/* NULL: it is not passed over. */
struct skip *skips_find(struct skips *s, uint64_t offset);
bool skips_have(const struct skips *s, uint64_t offset);

#endif
