#include "store/follower_store.h"

#include "store/store_inside.h"

static uint64_t oldest(uint64_t now_ms)
{
    return now_ms > FOLLOWER_KEEP_MS ? now_ms - FOLLOWER_KEEP_MS : 0;
}

/* Does not replace a newer row, which another platform may have written first. The time decides,
 * or, if the platforms' clocks differ, the revision. */
static enum err note(struct store *s, const struct follower_row *row)
{
    struct statement *q = database_statement(
        s->database,
        "INSERT INTO followers (node, revision, seen_at, history_id) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (node) DO UPDATE SET revision = ?2, seen_at = ?3, history_id = ?4"
        " WHERE followers.seen_at <= ?3 OR followers.revision < ?2");
    bind_text(q, 1, row->node);
    bind_u64(q, 2, row->revision.number);
    bind_u64(q, 3, row->seen_at);
    bind_text(q, 4, str_from(row->revision.history_id));
    return statement_run(q);
}

/* Removes old rows, and the oldest ones above the limit, because names come from outside. */
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
    if (err != ERR_OK) (void)store_fault(s, err, f);
    return store_end(s, err, f);
}

/* An engine's revision counts only if the store has exactly this revision: another history may have
 * reached the same number. */
static enum err read_row(struct statement *q, struct arena *arena, struct follower_row *ret)
{
    struct str history_id = column_text(q, 1);
    *ret = (struct follower_row){.node = arena_copy(arena, column_text(q, 0)),
                                 .revision.number = column_u64(q, 2),
                                 .seen_at = column_u64(q, 3)};
    if (history_id.size > HISTORY_ID_TEXT) return ERR_CORRUPT;
    if (history_id.size > 0) memcpy(ret->revision.history_id, history_id.bytes, history_id.size);
    return ERR_OK;
}

enum err follower_store_list(struct store *s, uint64_t now_ms, struct arena *arena,
                             struct follower_row ret[FOLLOWERS_MAX], size_t *ret_count,
                             struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT f.node, f.history_id, coalesce(r.number, 0), f.seen_at FROM followers f"
        " LEFT JOIN revisions r ON r.number = f.revision AND r.history_id = f.history_id"
        " WHERE f.seen_at >= ?1 ORDER BY f.seen_at DESC LIMIT ?2");
    enum err err;
    size_t count = 0;
    bind_u64(q, 1, oldest(now_ms));
    bind_u64(q, 2, FOLLOWERS_MAX);
    while ((err = statement_step(q)) == ERR_OK && count < FOLLOWERS_MAX &&
           (err = read_row(q, arena, &ret[count])) == ERR_OK)
        count++;
    statement_reset(q);
    if (err != ERR_OK && err != ERR_END) return store_fault(s, err, f);
    if (arena->overflow) return fault_plain(f, ERR_FULL);
    *ret_count = count;
    return ERR_OK;
}
