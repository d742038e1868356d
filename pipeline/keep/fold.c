#include "pipeline/keep/fold.h"

#include <inttypes.h>
#include <stdlib.h>

#include "pipeline/keep/snapshot.h"
#include "shards/slot.h"

/* ---- what outlives a boot ---- */

/* Its place; epoch_count: it is not known. */
static size_t place_of(const struct keep_past *p, struct str epoch)
{
    for (size_t i = p->epoch_count; i-- > 0;)
        if (str_equal(epoch, str_of(p->epochs[i], JOURNAL_EPOCH_TEXT))) return i;
    return p->epoch_count;
}

bool keep_past_knows(const struct keep_past *p, struct str epoch)
{
    return place_of(p, epoch) < p->epoch_count;
}

void keep_past_add_epoch(struct keep_past *p, const char epoch[JOURNAL_EPOCH_TEXT])
{
    if (keep_past_knows(p, str_of(epoch, JOURNAL_EPOCH_TEXT))) return;
    if (p->epoch_count == KEEP_EPOCHS_MAX) {
        memmove(p->epochs, p->epochs + 1, sizeof p->epochs - sizeof *p->epochs);
        memmove(p->ends, p->ends + 1, sizeof p->ends - sizeof *p->ends);
        p->epoch_count--;
    }
    p->ends[p->epoch_count] = 0;
    memcpy(p->epochs[p->epoch_count++], epoch, JOURNAL_EPOCH_TEXT);
}

void keep_past_reached(struct keep_past *p, const char epoch[JOURNAL_EPOCH_TEXT], uint64_t seq)
{
    keep_past_add_epoch(p, epoch);
    p->ends[place_of(p, str_of(epoch, JOURNAL_EPOCH_TEXT))] = seq;
}

uint64_t keep_past_end(const struct keep_past *p, struct str epoch, uint64_t last_seq)
{
    size_t at = place_of(p, epoch);
    return at == p->epoch_count || p->ends[at] == 0 || p->ends[at] > last_seq ? last_seq
                                                                              : p->ends[at];
}

/* ---- into shards ---- */

enum err keep_load(struct shard *const *shards, unsigned count, unsigned slot, struct str entry,
                   struct fault *f)
{
    return shard_load(shards[slot_owner(slot, count)], entry, f);
}

enum err keep_apply(struct shard *const *shards, unsigned count,
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

/* ---- the fold ---- */

struct fold *fold_create(void)
{
    struct fold *f = calloc(1, sizeof *f);
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

void fold_destroy(struct fold *f)
{
    if (f == NULL) return;
    shard_destroy(f->shard);
    free(f);
}

struct loading {
    struct fold *fold;
    struct fault *fault;
};

static enum err load_entry(void *context, unsigned slot, struct str entry)
{
    struct loading *l = context;
    (void)slot;
    return shard_load(l->fold->shard, entry, l->fault);
}

enum err fold_load(struct fold *f, struct disk *disk, const _Atomic bool *given_up,
                   struct fault *fault)
{
    struct loading l = {.fold = f, .fault = fault};
    return snapshot_read_until(disk, given_up, load_entry, &l, &f->past, fault);
}

static enum err apply(struct fold *f, const struct journal_record *record, struct fault *fault)
{
    struct fault why = {.err = ERR_OK};
    const char *newest = f->past.epoch_count == 0 ? NULL : f->past.epochs[f->past.epoch_count - 1];
    if (newest == NULL || memcmp(newest, record->epoch, JOURNAL_EPOCH_TEXT) != 0)
        keep_past_add_epoch(&f->past, record->epoch);
    enum err err = keep_apply(&f->shard, 1, record, &why);
    if (err != ERR_OK)
        return fault_set(fault, err, "", "seq %" PRIu64 ": %s", record->seq, why.text);
    f->past.position = record->seq;
    return ERR_OK;
}

enum err fold_follow(struct fold *f, struct journal *j, uint64_t seq, const _Atomic bool *given_up,
                     struct fault *fault)
{
    if (f->past.position >= seq) return ERR_OK;
    struct journal_cursor *cursor;
    enum err err = journal_cursor_open(j, f->past.position + 1, &cursor, fault);
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
