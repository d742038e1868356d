#include "pipeline/anchor/anchor_store.h"

#include "base/time.h"
#include "json/json.h"
#include "store/store_inside.h"

enum { ELEMENT_MAX = 4 << 10 };

/* The trees of each stream, found from base to base by the index: checkpoints are many. */
#define NEWEST                                                                                     \
    "WITH RECURSIVE trees(node, journal, base) AS (SELECT s.node, s.journal,"                      \
    " (SELECT max(c.base) FROM checkpoints c WHERE c.node = s.node AND c.journal = s.journal)"     \
    " FROM streams s UNION ALL SELECT t.node, t.journal, (SELECT max(c.base) FROM checkpoints c"   \
    " WHERE c.node = t.node AND c.journal = t.journal AND c.base < t.base) FROM trees t"           \
    " WHERE t.base IS NOT NULL), newest AS (SELECT t.node, t.journal, t.base, (SELECT c.end_seq"   \
    " FROM checkpoints c WHERE c.node = t.node AND c.journal = t.journal AND c.base = t.base"      \
    " AND c.created_at <= ?2 ORDER BY c.end_seq DESC LIMIT 1) AS end_seq"                          \
    " FROM trees t WHERE t.base IS NOT NULL) "
#define OF_ANCHOR                                                                                  \
    " LEFT JOIN anchors a ON a.name = ?1 AND a.node = n.node AND a.journal = n.journal"            \
    " AND a.base = n.base WHERE n.end_seq IS NOT NULL"

static struct statement *begin(struct store *s, const char *sql, struct str anchor, uint64_t now_ms)
{
    struct statement *q = database_statement(s->database, sql);
    bind_text(q, 1, anchor);
    bind_u64(q, 2, now_ms - ANCHOR_SETTLED_MS);
    return q;
}

enum err anchor_store_due(struct store *s, struct str anchor, uint64_t now_ms, uint64_t skip,
                          struct arena *arena, struct anchor_due ret[ANCHOR_DUE_MAX],
                          size_t *ret_count, struct fault *f)
{
    struct statement *q =
        begin(s,
              NEWEST "SELECT n.node, n.journal, n.base, n.end_seq, c.note, a.end_seq FROM newest n"
                     " JOIN checkpoints c ON c.node = n.node AND c.journal = n.journal"
                     " AND c.base = n.base AND c.end_seq = n.end_seq" OF_ANCHOR
                     " AND (a.end_seq IS NULL OR a.end_seq < n.end_seq)"
                     " ORDER BY n.node, n.journal, n.base LIMIT ?3 OFFSET ?4",
              anchor, now_ms);
    enum err err = ERR_OK;
    *ret_count = 0;
    bind_u64(q, 3, ANCHOR_DUE_MAX);
    bind_u64(q, 4, skip);
    while (*ret_count < ANCHOR_DUE_MAX && (err = statement_step(q)) == ERR_OK)
        ret[(*ret_count)++] = (struct anchor_due){.node = arena_copy(arena, column_text(q, 0)),
                                                  .journal = arena_copy(arena, column_text(q, 1)),
                                                  .base = column_u64(q, 2),
                                                  .end_seq = column_u64(q, 3),
                                                  .note = arena_copy(arena, column_text(q, 4)),
                                                  .had_seq = column_u64(q, 5)};
    statement_reset(q);
    if (arena->overflow) return fault_plain(f, ERR_FULL);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

/* ---- what an anchor has ---- */

static void bind_checkpoint(struct statement *q, const struct anchor_due *d)
{
    bind_text(q, 1, d->node);
    bind_text(q, 2, d->journal);
    bind_u64(q, 3, d->base);
    bind_u64(q, 4, d->end_seq);
}

/* "— NAME " of the line. */
static struct str signer_of(struct str line)
{
    while (line.size > 0 && line.bytes[line.size - 1] != ' ') line.size--;
    return line;
}

/* *ret: the checkpoint is still in the store, and did not have one of the same witness. */
static enum err add_signature(struct store *s, const struct anchor_due *d, bool *ret,
                              struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "UPDATE checkpoints SET note = note || ?5 WHERE node = ?1 AND journal = ?2"
                     " AND base = ?3 AND end_seq = ?4 AND replace(note, ?6, '') = note");
    bind_checkpoint(q, d);
    bind_text(q, 5, d->signature);
    bind_text(q, 6, signer_of(d->signature));
    enum err err = statement_run(q);
    *ret = err == ERR_OK && database_changes(s->database) > 0;
    return store_fault(s, err, f);
}

static enum err write_one(struct store *s, struct str anchor, const struct anchor_due *d,
                          uint64_t now_ms, struct fault *f)
{
    bool is_there = true;
    if (!str_is_absent(d->signature)) {
        enum err err = add_signature(s, d, &is_there, f);
        if (err != ERR_OK || !is_there) return err;
    }
    struct statement *q = database_statement(
        s->database,
        "INSERT INTO anchors (node, journal, base, end_seq, name, anchored_at) VALUES"
        " (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name, node, journal, base) DO UPDATE SET"
        " end_seq = excluded.end_seq, anchored_at = excluded.anchored_at"
        " WHERE anchors.end_seq < excluded.end_seq");
    bind_checkpoint(q, d);
    bind_text(q, 5, anchor);
    bind_u64(q, 6, now_ms);
    return store_fault(s, statement_run(q), f);
}

enum err anchor_store_done(struct store *s, struct str anchor, const struct anchor_due *list,
                           size_t count, uint64_t now_ms, struct fault *f)
{
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    for (size_t i = 0; i < count && err == ERR_OK; i++)
        if (!list[i].is_refused) err = write_one(s, anchor, &list[i], now_ms, f);
    return store_end(s, err, f);
}

/* ---- the status ---- */

static void put_time(struct buf *out, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) {
        buf_put_literal(out, "null");
    } else {
        time_write(ms, text);
        json_put_plain(out, str_of(text, TIME_TEXT));
    }
}

/* False: there was no room. */
static bool put_tree(struct buf *out, struct statement *q)
{
    char bytes[ELEMENT_MAX];
    struct buf one = buf_over(bytes, sizeof bytes);
    buf_put_literal(&one, "{\"anchored_at\":");
    put_time(&one, column_u64(q, 5));
    buf_printf(&one, ",\"anchored_seq\":%llu,\"base\":%llu,\"checkpoint_seq\":%llu",
               (unsigned long long)column_u64(q, 4), (unsigned long long)column_u64(q, 2),
               (unsigned long long)column_u64(q, 3));
    json_put_string_member(&one, STR(",\"journal\":"), column_text(q, 1));
    json_put_string_member(&one, STR(",\"node\":"), column_text(q, 0));
    buf_put_byte(&one, '}');
    if (one.overflow || out->capacity - out->size < one.size + 1) return false;
    if (out->size > 0) buf_put_byte(out, ',');
    buf_put(out, buf_view(&one));
    return true;
}

enum err anchor_store_status(struct store *s, struct str anchor, uint64_t now_ms, struct buf *out,
                             struct anchor_counts *ret, struct fault *f)
{
    struct statement *q =
        begin(s,
              NEWEST "SELECT n.node, n.journal, n.base, n.end_seq, a.end_seq, a.anchored_at"
                     " FROM newest n" OF_ANCHOR
                     " ORDER BY CASE WHEN a.end_seq >= n.end_seq THEN 1 ELSE 0 END,"
                     " a.anchored_at, n.node, n.journal, n.base",
              anchor, now_ms);
    bool has_room = true, is_never = false;
    enum err err;
    *ret = (struct anchor_counts){0};
    while ((err = statement_step(q)) == ERR_OK) {
        uint64_t since_ms = column_u64(q, 5);
        bool is_waiting = column_u64(q, 4) < column_u64(q, 3);
        ret->trees++;
        ret->waiting += is_waiting;
        is_never = is_never || (is_waiting && since_ms == 0);
        if (is_waiting && (ret->since_ms == 0 || since_ms < ret->since_ms))
            ret->since_ms = since_ms;
        has_room = has_room && put_tree(out, q);
    }
    statement_reset(q);
    if (is_never) ret->since_ms = 0;
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}
