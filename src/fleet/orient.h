/* orient.h - where replay may begin in the middle of a log, without a copy of the state.
 *
 *   the log   [ … removed … ]  A  B  x  C  D  heartbeat: the last that counts is D
 *   found                      ^ D follows C, C follows B, B follows A; x is in no chain
 *
 * An entry alone does not show whether it counts. A heartbeat names the last one that counts below
 * what its sender has applied, and each entry names the one before it. So the chain from there
 * backwards is what counts, as far as the log goes back. Replay begins with its first records. What
 * counts before a TERM without records may be missed, if that TERM names an entry that was removed:
 * the caller sees it by the seq. Pure; one thread. */
#ifndef FLEET_ORIENT_H
#define FLEET_ORIENT_H

#include "fleet/replay.h"

enum { ORIENT_ENTRIES_MAX = 1 << 14 };

struct log_orient; /* 3 MiB */

struct log_orient *log_orient_create(void);
void log_orient_destroy(struct log_orient *o); /* NULL: nothing */

enum orient_result {
    ORIENT_GOES_ON, /* read the next entry */
    ORIENT_FOUND, /* *ret is the replay before the first entry that counts, *ret_seq its records' */
    ORIENT_FULL,  /* too many entries without a heartbeat that names one of them */
};
/* The entries from anywhere on, one after the other. */
enum orient_result log_orient_add(struct log_orient *o, const struct entry *e, uint64_t offset,
                                  struct log_replay *ret, uint64_t *ret_seq);
/* The same for an entry that counts, as of a copy of the state. False: it was not among them. */
bool log_orient_by(const struct log_orient *o, const struct entry_point *counted,
                   struct log_replay *ret, uint64_t *ret_seq);

#endif
