#include "snapshot/lineage.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"

/* Its place; epoch_count: it is not known. */
static size_t place_of(const struct lineage *p, struct str epoch)
{
    for (size_t i = p->epoch_count; i-- > 0;)
        if (str_equal(epoch, str_of(p->epochs[i], JOURNAL_EPOCH_TEXT))) return i;
    return p->epoch_count;
}

bool lineage_knows(const struct lineage *p, struct str epoch)
{
    return place_of(p, epoch) < p->epoch_count;
}

void lineage_add_epoch(struct lineage *p, const char epoch[JOURNAL_EPOCH_TEXT])
{
    if (lineage_knows(p, str_of(epoch, JOURNAL_EPOCH_TEXT))) return;
    if (p->epoch_count == LINEAGE_EPOCHS_MAX) {
        memmove(p->epochs, p->epochs + 1, sizeof p->epochs - sizeof *p->epochs);
        memmove(p->ends, p->ends + 1, sizeof p->ends - sizeof *p->ends);
        p->epoch_count--;
    }
    p->ends[p->epoch_count] = 0;
    memcpy(p->epochs[p->epoch_count++], epoch, JOURNAL_EPOCH_TEXT);
}

void lineage_reached(struct lineage *p, const char epoch[JOURNAL_EPOCH_TEXT], uint64_t seq)
{
    lineage_add_epoch(p, epoch);
    p->ends[place_of(p, str_of(epoch, JOURNAL_EPOCH_TEXT))] = seq;
}

uint64_t lineage_end(const struct lineage *p, struct str epoch, uint64_t last_seq)
{
    size_t at = place_of(p, epoch);
    return at == p->epoch_count || p->ends[at] == 0 || p->ends[at] > last_seq ? last_seq
                                                                              : p->ends[at];
}

/* The first record of an epoch has where the one before it ended. */
static bool tells_of(struct str event, const char epoch[JOURNAL_EPOCH_TEXT], uint64_t seq)
{
    char text[80];
    snprintf(text, sizeof text, "\"previous\":{\"epoch\":\"%.*s\",\"seq\":%" PRIu64 "}",
             JOURNAL_EPOCH_TEXT, epoch, seq);
    return memmem(event.bytes, event.size, text, strlen(text)) != NULL;
}

enum err lineage_fits(const struct lineage *snapshot, const struct journal_record *record,
                      struct fault *f)
{
    if (snapshot->position == 0 || snapshot->epoch_count == 0) return ERR_OK;
    const char *epoch = snapshot->epochs[snapshot->epoch_count - 1];
    bool same = memcmp(record->epoch, epoch, JOURNAL_EPOCH_TEXT) == 0;
    if (same || (record->seq == snapshot->position + 1 &&
                 tells_of(record->public_bytes, epoch, snapshot->position)))
        return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "",
                     "snapshot-%016" PRIx64
                     " and the journal are of different histories: the snapshot "
                     "ends in epoch %.*s, and seq %" PRIu64
                     " of the journal is of epoch %.*s. Put the snapshots "
                     "of this journal back; one that is not of it may be moved away",
                     snapshot->position, JOURNAL_EPOCH_TEXT, epoch, record->seq, JOURNAL_EPOCH_TEXT,
                     record->epoch);
}

/* ---- into shards ---- */
