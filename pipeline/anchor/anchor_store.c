#include "pipeline/anchor/anchor_store.h"

#include "store/store_inside.h"

#define NEWEST                                                                                     \
    " FROM checkpoints c LEFT JOIN anchors a ON a.name = ?1 AND a.node = c.node"                   \
    " AND a.journal = c.journal AND a.base = c.base"                                               \
    " WHERE NOT EXISTS (SELECT 1 FROM checkpoints d WHERE d.node = c.node"                         \
    " AND d.journal = c.journal AND d.base = c.base AND d.end_seq > c.end_seq)"

enum err anchor_store_due(struct store *s, struct str anchor, struct arena *arena,
                          struct anchor_due ret[ANCHOR_DUE_MAX], size_t *ret_count, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "SELECT c.node, c.journal, c.base, c.end_seq, c.note" NEWEST
                                        " AND (a.end_seq IS NULL OR a.end_seq < c.end_seq)"
                                        " ORDER BY c.node, c.journal, c.base LIMIT ?2");
    enum err err = ERR_OK;
    *ret_count = 0;
    bind_text(q, 1, anchor);
    bind_u64(q, 2, ANCHOR_DUE_MAX);
    while (*ret_count < ANCHOR_DUE_MAX && (err = statement_step(q)) == ERR_OK)
        ret[(*ret_count)++] = (struct anchor_due){.node = arena_copy(arena, column_text(q, 0)),
                                                  .journal = arena_copy(arena, column_text(q, 1)),
                                                  .base = column_u64(q, 2),
                                                  .end_seq = column_u64(q, 3),
                                                  .note = arena_copy(arena, column_text(q, 4))};
    statement_reset(q);
    if (arena->overflow) return fault_plain(f, ERR_FULL);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

static enum err write_one(struct store *s, struct str anchor, const struct anchor_due *d,
                          uint64_t now_ms, struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "INSERT INTO anchors (name, node, journal, base, end_seq, anchored_at) VALUES"
        " (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name, node, journal, base) DO UPDATE SET"
        " end_seq = excluded.end_seq, anchored_at = excluded.anchored_at"
        " WHERE anchors.end_seq < excluded.end_seq");
    bind_text(q, 1, anchor);
    bind_text(q, 2, d->node);
    bind_text(q, 3, d->journal);
    bind_u64(q, 4, d->base);
    bind_u64(q, 5, d->end_seq);
    bind_u64(q, 6, now_ms);
    enum err err = statement_step(q);
    statement_reset(q);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

enum err anchor_store_done(struct store *s, struct str anchor, const struct anchor_due *list,
                           size_t count, uint64_t now_ms, struct fault *f)
{
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    for (size_t i = 0; i < count && err == ERR_OK; i++)
        err = write_one(s, anchor, &list[i], now_ms, f);
    return store_end(s, err, f);
}

enum err anchor_store_count(struct store *s, struct str anchor, struct anchor_counts *ret,
                            struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT count(*), sum(CASE WHEN a.end_seq IS NULL OR a.end_seq < c.end_seq THEN 1 ELSE 0 END),"
        " min(CASE WHEN a.end_seq IS NULL THEN 0 WHEN a.end_seq < c.end_seq THEN a.anchored_at END)" NEWEST);
    bind_text(q, 1, anchor);
    enum err err = statement_step(q);
    *ret = (struct anchor_counts){0};
    if (err == ERR_OK)
        *ret = (struct anchor_counts){column_u64(q, 0), column_u64(q, 1), column_u64(q, 2)};
    statement_reset(q);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}
