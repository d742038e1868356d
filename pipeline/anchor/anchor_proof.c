#include "pipeline/anchor/anchor_proof.h"

#include "crypto/base64.h"
#include "store/quarantine.h"
#include "store/store_inside.h"

static void bind_stream(struct statement *q, const struct anchor_due *d)
{
    bind_text(q, 1, d->node);
    bind_text(q, 2, d->journal);
}

static bool read_frontier(struct str digits, uint64_t size, struct frontier *ret)
{
    uint8_t bytes[(FRONTIER_BYTES_MAX + 2) / 3 * 3];
    size_t count;
    return digits.size <= sizeof bytes / 3 * 4 && base64_read(digits, bytes, &count) &&
           frontier_read(str_of((const char *)bytes, count), ret) && ret->size == size;
}

/* Of the first checkpoint that covers the last leaf that the witness has. */
enum err anchor_proof_begin(struct store *s, struct hasher *h, const struct anchor_due *d,
                            uint64_t old_size, struct anchor_proof *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT from_seq, frontier FROM checkpoints WHERE node = ?1 AND journal = ?2"
                     " AND base = ?3 AND end_seq >= ?4 ORDER BY end_seq LIMIT 1");
    struct frontier before = {0};
    uint64_t from = 0;
    bool is_read = false;
    bind_stream(q, d);
    bind_u64(q, 3, d->base);
    bind_u64(q, 4, d->base + old_size - 1);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        from = column_u64(q, 0);
        is_read = from >= d->base && from <= d->base + old_size &&
                  read_frontier(column_text(q, 1), from - d->base, &before);
    }
    statement_reset(q);
    if (err != ERR_OK && err != ERR_END) return store_fault(s, err, f);
    if (!is_read) return ERR_NOT_FOUND;
    proof_begin_consistency(&ret->maker, old_size, d->end_seq + 1 - d->base);
    proof_skip(&ret->maker, h, &before);
    ret->next = from;
    return ERR_OK;
}

static void add(struct anchor_proof *p, struct hasher *h, struct str bytes)
{
    struct sha256 leaf = merkle_leaf(h, bytes);
    proof_add(&p->maker, h, &leaf);
    p->next++;
}

/* The record is in the tree, and was not stored as a row. */
static enum err add_quarantined(struct store *s, struct hasher *h, const struct anchor_due *d,
                                struct anchor_proof *p, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, QUARANTINE_IN_TREE(s->database, "SELECT ", "seq = ?3"));
    struct buf room;
    struct str bytes;
    buf_init(&room, 0, QUARANTINED_BYTES);
    bind_stream(q, d);
    bind_u64(q, 3, p->next);
    enum err err = statement_step(q);
    if (err == ERR_OK) err = quarantine_bytes(s->database, column_text(q, 0), &room, &bytes);
    if (err == ERR_OK) add(p, h, bytes);
    statement_reset(q);
    buf_fini(&room);
    return err == ERR_END ? ERR_NOT_FOUND : store_fault(s, err, f);
}

enum err anchor_proof_step(struct store *s, struct hasher *h, const struct anchor_due *d,
                           struct anchor_proof *p, struct fault *f)
{
    uint64_t last = p->next + ANCHOR_PROOF_STEP - 1;
    if (last > d->end_seq) last = d->end_seq;
    struct statement *q = database_statement(
        s->database, "SELECT seq, event FROM records WHERE node = ?1 AND journal = ?2"
                     " AND seq >= ?3 AND seq <= ?4 ORDER BY seq");
    bind_stream(q, d);
    bind_u64(q, 3, p->next);
    bind_u64(q, 4, last);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK && column_u64(q, 0) == p->next)
        add(p, h, column_text(q, 1));
    statement_reset(q);
    if (err != ERR_OK && err != ERR_END) return store_fault(s, err, f);
    return p->next > last ? ERR_OK : add_quarantined(s, h, d, p, f);
}
