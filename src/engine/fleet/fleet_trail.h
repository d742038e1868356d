/* fleet_trail.h - the records of a fleet as one stream of the audit trail.
 *
 *   node `fleet.NAME`, journal 0, seq 1, 2, 3 … over all terms
 *   epoch: 8 hex digits of the fleet's id, then 8 of the term, so a fleet that was made again under
 *          the same name is another history
 *
 *   member      each entry that counts ─▶ fleet_trail_note(): position, tree, marks
 *   publisher   platform's position ─▶ the mark before it ─▶ a reader of its own ─▶ records
 *
 * The leader publishes, and only what it has read back: what counts in the log of one engine counts
 * in that of all. So two engines that publish at once send the same bytes under the same numbers, and
 * no file has to remember what was sent.
 *
 * The tree is of all records from the first on, and belongs to the copy of the state. So each engine
 * can go on with it.
 *
 * A mark is what a reader needs to begin in the middle of the log. There are at most TRAIL_MARKS, at
 * even distances that grow with the log. */
#ifndef ENGINE_FLEET_TRAIL_H
#define ENGINE_FLEET_TRAIL_H

#include "base/world.h"
#include "fleet/replay.h"
#include "fleet/skips.h"
#include "fleet/trail_point.h"
#include "pipeline/publish/record_source.h"
#include "pipeline/topic/topic.h"

enum {
    TRAIL_NODE_TEXT = 80, /* "fleet.", and the fleet's name */
    TRAIL_MARKS = 256,
    TRAIL_MARK_RECORDS = 256, /* at first */
    TRAIL_TERMS = 64,         /* the newest, whose first records are remembered */
};

struct fleet_trail;

void fleet_trail_node(const char *fleet, char to[TRAIL_NODE_TEXT]);
/* `access`: of the fleet's log; its texts outlive the trail. So do `skips`, messages that are passed
 * over, which do not change any more when publishing begins. */
struct fleet_trail *fleet_trail_create(const struct topic_access *access,
                                       const struct entry_key *key, const struct skips *skips);
void fleet_trail_destroy(struct fleet_trail *t); /* NULL: nothing */

/* ---- the member's thread ---- */

/* Before the first entry is read: the state of the replay, and where the stream stands (saved with a
 * copy; NULL: before its first record). */
void fleet_trail_begin(struct fleet_trail *t, const struct log_replay *replay,
                       const struct trail_point *at);
/* Marks the present place, and appends all marks and terms. */
void fleet_trail_save(struct fleet_trail *t, const struct log_replay *replay, struct buf *out);
/* Behind fleet_trail_begin(): what fleet_trail_save() wrote. False: it is not that. */
bool fleet_trail_restore(struct fleet_trail *t, struct str saved);
/* Marks below this offset of the log are needed no more. */
void fleet_trail_forget(struct fleet_trail *t, uint64_t below);
/* An entry with records that counts, and the replay behind it. False: its records are not the ones
 * that come next. */
bool fleet_trail_note(struct fleet_trail *t, const struct entry *e,
                      const struct log_replay *replay);
const struct trail_point *fleet_trail_at(const struct fleet_trail *t);
/* The first record of a term: it names the last one before, so the platform sees that none is
 * missing. */
void fleet_trail_put_first(const struct fleet_trail *t, uint64_t term, struct str node,
                           uint64_t now_ms, struct chance *chance, struct buf *out);

/* ---- publishing ---- */

/* The newest record that counts; any thread. */
uint64_t fleet_trail_end(const struct fleet_trail *t);
/* All entries below this offset have only records that the platform has confirmed; any thread. 0:
 * none is known. */
uint64_t fleet_trail_confirmed_offset(struct fleet_trail *t);
/* For the publisher of the engine that leads in `term`. Borrows the trail. */
struct record_source fleet_trail_source(struct fleet_trail *t, uint64_t term);

#endif
