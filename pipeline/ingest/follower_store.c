#include "pipeline/ingest/follower_store.h"

#include "pipeline/ingest/store_inside.h"

static uint64_t oldest(uint64_t now_ms)
{
    return now_ms > FOLLOWER_KEEP_MS ? now_ms - FOLLOWER_KEEP_MS : 0;
}

/* Not over what is newer, which another platform may have noted first: by when it was said, or, where
 * the platforms' clocks differ, by what was said. */
static enum err note(struct store *s, const struct follower_row *row)
{
    struct statement *q = database_statement(
        s->database, "INSERT INTO followers (node, revision, seen_at) VALUES (?1, ?2, ?3)"
                     " ON CONFLICT (node) DO UPDATE SET revision = ?2, seen_at = ?3"
                     " WHERE followers.seen_at <= ?3 OR followers.revision < ?2");
    bind_text(q, 1, row->node);
    bind_u64(q, 2, row->revision);
    bind_u64(q, 3, row->seen_at);
    return statement_run(q);
}

/* Who is too old, and whoever there would be too many of: names come from outside. */
static enum err forget(struct store *s, uint64_t now_ms)
{
    struct statement *q = database_statement(
        s->database, "DELETE FROM followers WHERE seen_at < ?1 OR node NOT IN"
                     " (SELECT node FROM followers ORDER BY seen_at DESC, node LIMIT ?2)");
    bind_u64(q, 1, oldest(now_ms));
    bind_u64(q, 2, FOLLOWERS_MAX);
    return statement_run(q);
}

enum err follower_store_note(struct store *s, const struct follower_row *rows, size_t count,
                             uint64_t now_ms, struct fault *f)
{
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    for (size_t i = 0; i < count && err == ERR_OK; i++) err = note(s, &rows[i]);
    if (err == ERR_OK) err = forget(s, now_ms);
    if (err != ERR_OK) store_fault(s, err, f);
    return store_end(s, err, f);
}

enum err follower_store_list(struct store *s, uint64_t now_ms, struct arena *arena,
                             struct follower_row ret[FOLLOWERS_MAX], size_t *ret_count,
                             struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT node, revision, seen_at FROM followers WHERE seen_at >= ?1 ORDER BY seen_at DESC LIMIT ?2");
    enum err err;
    size_t count = 0;
    bind_u64(q, 1, oldest(now_ms));
    bind_u64(q, 2, FOLLOWERS_MAX);
    while ((err = statement_step(q)) == ERR_OK && count < FOLLOWERS_MAX)
        ret[count++] = (struct follower_row){.node = arena_copy(arena, column_text(q, 0)),
                                             .revision = column_u64(q, 1),
                                             .seen_at = column_u64(q, 2)};
    statement_reset(q);
    if (err != ERR_OK && err != ERR_END) return store_fault(s, err, f);
    if (arena->overflow) return fault_plain(f, ERR_FULL);
    *ret_count = count;
    return ERR_OK;
}
