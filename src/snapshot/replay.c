#include "snapshot/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "snapshot/snapshot.h"
#include "shards/slot.h"

enum err replay_entry(struct shard *const *shards, unsigned count, unsigned slot, struct str entry,
                      struct fault *f)
{
    return shard_load(shards[slot_owner(slot, count)], entry, f);
}

enum err replay_record(struct shard *const *shards, unsigned count,
                       const struct journal_record *record, struct fault *f)
{
    struct str rest = record->private_bytes;
    struct delta_entry e;
    enum err err = ERR_OK;
    while (delta_next(&rest, &e, &err)) {
        if (e.slot >= LIMIT_SLOTS)
            return fault_set(f, ERR_CORRUPT, "", "a delta names slot %u", e.slot);
        err = shard_apply(shards[slot_owner(e.slot, count)], &e, record->public_bytes, f);
        if (err != ERR_OK) return err;
    }
    if (err == ERR_BAD_VALUE)
        return fault_set(
            f, err, "",
            "a newer program wrote what it changes, and this one does not know that kind of change; "
            "start the newer one again");
    return err == ERR_OK ? ERR_OK : fault_set(f, err, "", "its delta is damaged");
}

/* ---- the replay ---- */

struct replay *replay_create(void)
{
    struct replay *f = calloc(1, sizeof *f);
    if (f == NULL) return NULL;
    /* What all shards together may hold. */
    f->shard = shard_create(&(struct shard_options){.count = 1});
    if (f->shard != NULL) {
        shard_hold_limits(f->shard, &limit_windows_unknown);
        return f;
    }
    free(f);
    return NULL;
}

void replay_destroy(struct replay *f)
{
    if (f == NULL) return;
    shard_destroy(f->shard);
    free(f);
}

struct loading {
    struct replay *replay;
    struct fault *fault;
};

static enum err load_entry(void *context, unsigned slot, struct str entry)
{
    struct loading *l = context;
    (void)slot;
    return shard_load(l->replay->shard, entry, l->fault);
}

enum err replay_load(struct replay *f, struct disk *disk, const _Atomic bool *given_up,
                     struct fault *fault)
{
    struct loading l = {.replay = f, .fault = fault};
    enum err err = snapshot_read_until(disk, given_up, load_entry, &l, &f->past, fault);
    f->begun = f->past.position;
    return err;
}

/* Goes on from the snapshot's own record, which has to be of the same history. Where that is no longer
 * kept, the first one behind it is asked. */
static enum err open_behind(struct replay *f, struct journal *j, struct journal_cursor **ret,
                            struct fault *fault)
{
    struct journal_record record;
    uint64_t position = f->past.position;
    if (position == 0) return journal_cursor_open(j, 1, ret, fault);
    enum err err = journal_cursor_open(j, position, ret, fault);
    bool gone = err == ERR_NOT_FOUND;
    if (gone) err = journal_cursor_open(j, position + 1, ret, fault);
    if (err != ERR_OK) return err;
    err = journal_cursor_next(*ret, &record, fault);
    if (err == ERR_OK) err = lineage_fits(&f->past, &record, fault);
    if (err == ERR_OK && !gone) return ERR_OK;
    journal_cursor_close(*ret);
    return err == ERR_OK ? journal_cursor_open(j, position + 1, ret, fault) : err;
}

static enum err apply(struct replay *f, const struct journal_record *record, struct fault *fault)
{
    struct fault why = {.err = ERR_OK};
    const char *newest = f->past.epoch_count == 0 ? NULL : f->past.epochs[f->past.epoch_count - 1];
    if (newest == NULL || memcmp(newest, record->epoch, JOURNAL_EPOCH_TEXT) != 0)
        lineage_add_epoch(&f->past, record->epoch);
    enum err err = replay_record(&f->shard, 1, record, &why);
    if (err != ERR_OK)
        return fault_set(fault, err, "", "seq %" PRIu64 ": %s", record->seq, why.text);
    f->past.position = record->seq;
    return ERR_OK;
}

enum err replay_follow(struct replay *f, struct journal *j, uint64_t seq,
                       const _Atomic bool *given_up, struct fault *fault)
{
    if (f->past.position > seq)
        return fault_set(fault, ERR_CORRUPT, "",
                         "snapshot-%016" PRIx64
                         " ends beyond the journal, which ends with seq %" PRIu64
                         ": it is of another data directory",
                         f->past.position, seq);
    if (seq == 0) return ERR_OK;
    struct journal_cursor *cursor;
    enum err err = open_behind(f, j, &cursor, fault);
    if (err != ERR_OK) return err;
    while (err == ERR_OK && f->past.position < seq) {
        struct journal_record record;
        err = journal_cursor_next(cursor, &record, fault);
        if (err == ERR_OK) err = apply(f, &record, fault);
        if (err == ERR_OK && given_up != NULL &&
            atomic_load_explicit(given_up, memory_order_relaxed))
            err = fault_set(fault, ERR_CLOSED, "", "given up");
    }
    if (err == ERR_END)
        err = fault_set(fault, ERR_CORRUPT, "",
                        "the journal ends before seq %" PRIu64 ", which is durable", seq);
    journal_cursor_close(cursor);
    return err;
}
