#include "pipeline/publish/batch.h"

#include "base/limits.h"
#include "evidence/merkle.h"
#include "pipeline/publish/publish.h"

void batch_filler_init(struct batch_filler *b, struct record_source *source)
{
    *b = (struct batch_filler){.source = source};
    /* Grows to the size that the load needs and stays: no allocation per batch or record. */
    buf_init(&b->lines, 64 << 10, PUBLISH_BATCH_BYTES + LIMIT_RECORD_BYTES);
    buf_init(&b->leaves, 4 << 10, PUBLISH_BATCH_RECORDS * sizeof(struct sha256));
    b->hasher = hasher_create();
}

static void lose_place(struct batch_filler *b)
{
    b->at = 0;
    b->has_held = false;
}

void batch_filler_fini(struct batch_filler *b)
{
    buf_fini(&b->lines);
    buf_fini(&b->leaves);
    hasher_destroy(b->hasher);
}

static enum err go_to(struct batch_filler *b, uint64_t seq, struct fault *f)
{
    if (b->at == seq && b->at != 0) return ERR_OK;
    lose_place(b);
    enum err e = b->source->go(b->source->state, seq, f);
    if (e == ERR_OK) b->at = seq;
    return e;
}

/* Holds the record at b->at: it is read once and stays until it is taken. */
static enum err look(struct batch_filler *b, struct fault *f)
{
    if (b->has_held) return ERR_OK;
    enum err e = b->source->next(b->source->state, &b->held, f);
    if (e != ERR_OK) return e;
    if (b->held.seq != b->at)
        return fault_set(f, ERR_CORRUPT, "", "record %llu was read instead of %llu",
                         (unsigned long long)b->held.seq, (unsigned long long)b->at);
    b->has_held = true;
    return ERR_OK;
}

static bool fits(const struct batch_filler *b, const struct batch *batch, size_t bytes_max,
                 uint64_t records_max)
{
    if (batch->count == 0) return true; /* one record is always sent, however large it is */
    return batch->count < records_max &&
           b->lines.size + b->held.public_bytes.size + 1 <= bytes_max &&
           memcmp(b->held.epoch, batch->epoch, JOURNAL_EPOCH_TEXT) == 0;
}

static void take(struct batch_filler *b, struct batch *batch)
{
    if (batch->count == 0) memcpy(batch->epoch, b->held.epoch, JOURNAL_EPOCH_TEXT);
    struct sha256 leaf = merkle_leaf(b->hasher, b->held.public_bytes);
    buf_put(&b->leaves, str_of((const char *)leaf.bytes, sizeof leaf.bytes));
    buf_put(&b->lines, b->held.public_bytes);
    buf_put_byte(&b->lines, '\n');
    batch->count++;
    b->has_held = false;
    b->at++;
}

enum err batch_fill(struct batch_filler *b, uint64_t first, size_t bytes_max, uint64_t records_max,
                    struct batch *ret, struct fault *f)
{
    enum err e = go_to(b, first, f);
    if (e != ERR_OK) return e;

    buf_clear(&b->lines);
    buf_clear(&b->leaves);
    struct batch batch = {.first_seq = first};
    while ((e = look(b, f)) == ERR_OK && fits(b, &batch, bytes_max, records_max)) take(b, &batch);
    if (e != ERR_OK && e != ERR_END) {
        lose_place(b);
        /* The records before the damage are valid: they are sent, and the next call meets the
         * damage. */
        if (batch.count == 0) return e;
    }
    if (batch.count == 0) return ERR_END;
    if (b->lines.overflow || b->leaves.overflow) return fault_plain(f, ERR_FULL);
    batch.lines = buf_view(&b->lines);
    batch.leaves = (const struct sha256 *)(const void *)b->leaves.bytes;
    *ret = batch;
    return ERR_OK;
}
