/* lineage.h - what outlives a boot beside the state: where it came from, and whose it is.
 *
 * A struct lineage belongs to the thread that has it. */
#ifndef SNAPSHOT_LINEAGE_H
#define SNAPSHOT_LINEAGE_H

#include "base/fault.h"
#include "base/limits.h"
#include "journal/journal.h"

enum { LINEAGE_EPOCHS_MAX = 1024, LINEAGE_ADOPTED_TEXT = 512 };

enum snapshot_damage {
    SNAPSHOT_WHOLE,        /* the newest snapshot verifies, or there is none */
    SNAPSHOT_OLDER_SERVES, /* it does not, and an older one does */
    SNAPSHOT_NONE_VERIFIES, /* there are some; a journal that begins with seq 1 has all that they had */
};

struct lineage {
    uint64_t position; /* the seq that the state includes; 0: none */
    /* owners whose images began this state, "node:epoch,…"; "" = none */
    char adopted[LINEAGE_ADOPTED_TEXT];
    /* and at which positions, by slot: what moves after that was not adopted */
    bool adopted_at_known;
    uint64_t adopted_at[LIMIT_SLOTS];
    size_t epoch_count;
    /* of this journal, oldest first; the newest are kept */
    char epochs[LINEAGE_EPOCHS_MAX][JOURNAL_EPOCH_TEXT];
    /* their last seqs, as the journal showed them; 0: unknown, or it goes on. In no snapshot */
    uint64_t ends[LINEAGE_EPOCHS_MAX];
    /* what was found when it was read; in no snapshot */
    enum snapshot_damage damage;
    uint64_t damaged; /* position of the newest one that does not verify */
};

void lineage_add_epoch(struct lineage *p, const char epoch[JOURNAL_EPOCH_TEXT]); /* once each */
bool lineage_knows(const struct lineage *p, struct str epoch);
/* adds it, too */
void lineage_reached(struct lineage *p, const char epoch[JOURNAL_EPOCH_TEXT], uint64_t seq);

/* Whether snapshot and journal are of one history, asked of the journal's record at the snapshot's
 * position, or of the first one behind it where that one is no longer kept: seqs say nothing, since
 * every journal has them, but an epoch is one boot's. `snapshot` is as it was read from its file.
 * ERR_CORRUPT: they are of two data directories. */
enum err lineage_fits(const struct lineage *snapshot, const struct journal_record *record,
                      struct fault *f);
/* How far this journal goes in that epoch, and no further than `last_seq`, its end.
 * What is beyond, this journal never had, also where it has grown past that number
 * since: its disk went back in time. */
uint64_t lineage_end(const struct lineage *p, struct str epoch, uint64_t last_seq);

#endif
