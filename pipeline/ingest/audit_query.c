/* audit_query.c - audit events in SQLite: finding them. audit_index.h says how it is known where to
 * look; here it is looked, segment by segment, newest or oldest first, until the page is full.
 *
 * Every record that is told was compared with all that the query names: the index only says where
 * it may be worth reading. A query that finds little in much is stopped after QUERY_MS with
 * ERR_TIMEOUT, so that it cannot keep a reader from others. */
#include "pipeline/ingest/audit_sqlite.h"

#include "base/check.h"

enum { QUERY_MS = 5000, PROGRESS_STEPS = 20000 };

/* One query under way. */
struct walk {
    struct database *database;
    const struct audit_query *query;
    audit_each *each;
    void *context;
    uint64_t low, high; /* ids, both inclusive */
    uint64_t told;
    uint64_t deadline_ns;
    bool done; /* the page is full */
};

#define COLUMNS "SELECT id, event, node, journal, epoch, seq, created_at FROM records "
/* An absent parameter is NULL and narrows nothing. */
#define NAMED                                                                                      \
    " AND tenant_id = ?3 AND timestamp >= ?4 AND timestamp < ?5 AND (?6 IS NULL OR actor = ?6)"    \
    " AND (?7 IS NULL OR action = ?7) AND (?8 IS NULL OR decision = ?8) AND (?9 IS NULL OR "       \
    "trace_id = ?9)"                                                                               \
    " AND (?10 IS NULL OR kind = ?10) AND (?11 IS NULL OR rule = ?11) AND (?12 IS NULL OR "        \
    "user_id = ?12)"

static void bind_named(sqlite3_stmt *s, const struct audit_query *q)
{
    bind_text(s, 3, q->tenant);
    bind_u64(s, 4, q->has_from ? q->from_ms : 0);
    bind_u64(s, 5, q->has_to ? q->to_ms : INT64_MAX);
    bind_text(s, 6, q->actor);
    bind_text(s, 7, q->action);
    bind_text(s, 8, q->decision);
    bind_text(s, 9, q->trace_id);
    bind_text(s, 10, q->kind);
    bind_text(s, 11, q->rule);
    bind_text(s, 12, q->user_id);
}

/* Tells the rows of a statement that stands before its first one. */
static enum err tell_rows(struct walk *w, sqlite3_stmt *s)
{
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        struct audit_stored row;
        audit_stored_read(s, &row);
        w->done = !w->each(w->context, &row) || ++w->told == w->query->limit;
        if (w->done) break;
    }
    sqlite3_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* ---- by blocks ---- */

static enum err read_block(struct walk *w, uint64_t block)
{
    static const char newest[] = COLUMNS "WHERE id >= ?1 AND id <= ?2" NAMED " ORDER BY id DESC";
    static const char oldest[] = COLUMNS "WHERE id >= ?1 AND id <= ?2" NAMED " ORDER BY id ASC";
    uint64_t first = block << AUDIT_BLOCK_BITS, last = first + (1u << AUDIT_BLOCK_BITS) - 1;
    sqlite3_stmt *s = database_statement(w->database, w->query->oldest_first ? oldest : newest);
    bind_u64(s, 1, first > w->low ? first : w->low);
    bind_u64(s, 2, last < w->high ? last : w->high);
    bind_named(s, w->query);
    return tell_rows(w, s);
}

/* The blocks of a segment that may hold what the query names. */
static enum err blocks_of(struct walk *w, uint64_t segment, uint64_t *ret_blocks)
{
    const struct audit_query *q = w->query;
    const struct str values[AUDIT_MEMBERS] = {
        [AUDIT_TENANT] = STR(""),       [AUDIT_ACTOR] = q->actor, [AUDIT_ACTION] = q->action,
        [AUDIT_DECISION] = q->decision, [AUDIT_KIND] = q->kind,   [AUDIT_RULE] = q->rule,
        [AUDIT_USER] = q->user_id,
    };
    *ret_blocks = ~0ull;
    enum err err = ERR_OK;
    for (int m = 0; m < AUDIT_MEMBERS && err == ERR_OK && *ret_blocks != 0; m++) {
        if (str_is_absent(values[m])) continue;
        uint64_t blocks;
        err = audit_index_blocks(w->database, segment, q->tenant, (enum audit_member)m, values[m],
                                 &blocks);
        *ret_blocks &= blocks;
    }
    return err;
}

static enum err read_segment(struct walk *w, uint64_t segment)
{
    uint64_t blocks;
    enum err err = blocks_of(w, segment, &blocks);
    while (err == ERR_OK && blocks != 0 && !w->done) {
        unsigned at = w->query->oldest_first ? (unsigned)__builtin_ctzll(blocks)
                                             : 63u - (unsigned)__builtin_clzll(blocks);
        blocks &= ~(1ull << at);
        uint64_t block = (segment << (AUDIT_SEGMENT_BITS - AUDIT_BLOCK_BITS)) + at;
        if ((block + 1) << AUDIT_BLOCK_BITS <= w->low || block << AUDIT_BLOCK_BITS > w->high)
            continue;
        err = read_block(w, block);
    }
    return err;
}

/* ---- by trace ---- */

static enum err read_trace(struct walk *w, uint64_t segment)
{
    static const char newest[] =
        COLUMNS "WHERE id IN (SELECT id FROM traces WHERE segment = ?1 AND hash = ?2) AND id >= ?13"
                " AND id <= ?14" NAMED " ORDER BY id DESC";
    static const char oldest[] =
        COLUMNS "WHERE id IN (SELECT id FROM traces WHERE segment = ?1 AND hash = ?2) AND id >= ?13"
                " AND id <= ?14" NAMED " ORDER BY id ASC";
    static const char any[] = "SELECT 1 FROM traces WHERE segment = ?1 AND hash = ?2";
    uint32_t hash = audit_trace_hash(w->query->trace_id);
    sqlite3_stmt *s = database_statement(w->database, any); /* most segments have none: one seek */
    bind_u64(s, 1, segment);
    bind_u64(s, 2, hash);
    enum err err = statement_step(s);
    sqlite3_reset(s);
    if (err != ERR_OK) return err == ERR_END ? ERR_OK : err;

    s = database_statement(w->database, w->query->oldest_first ? oldest : newest);
    bind_u64(s, 1, segment);
    bind_u64(s, 2, hash);
    bind_u64(s, 13, w->low);
    bind_u64(s, 14, w->high);
    bind_named(s, w->query);
    return tell_rows(w, s);
}

/* ---- the whole ---- */

static enum err newest_id(struct database *d, uint64_t *ret)
{
    sqlite3_stmt *s = database_statement(d, "SELECT max(id) FROM records");
    enum err err = statement_step(s);
    if (err == ERR_OK) *ret = column_u64(s, 0);
    sqlite3_reset(s);
    return err;
}

/* Narrows the ids to those between which all events of the asked time lie. */
static enum err narrow_by_time(struct walk *w)
{
    const struct audit_query *q = w->query;
    if (!q->has_from && !q->has_to) return ERR_OK;
    sqlite3_stmt *s =
        database_statement(w->database, "SELECT min(first_id), max(last_id) FROM minutes WHERE "
                                        "tenant_id = ?1 AND minute >= ?2 AND minute <= ?3");
    bind_text(s, 1, q->tenant);
    bind_u64(s, 2, q->has_from ? q->from_ms / AUDIT_MINUTE_MS : 0);
    bind_u64(s, 3, q->has_to ? q->to_ms / AUDIT_MINUTE_MS : INT64_MAX);
    enum err err = statement_step(s);
    if (err == ERR_OK) { /* where no minute has any, both are NULL: 0, and no id is */
        uint64_t first = column_u64(s, 0), last = column_u64(s, 1);
        if (w->low < first) w->low = first;
        if (w->high > last) w->high = last;
    }
    sqlite3_reset(s);
    return err;
}

static enum err walk_segments(struct walk *w)
{
    bool up = w->query->oldest_first;
    bool by_trace = !str_is_absent(w->query->trace_id);
    uint64_t first = w->low >> AUDIT_SEGMENT_BITS, last = w->high >> AUDIT_SEGMENT_BITS;
    enum err err = ERR_OK;
    for (uint64_t i = 0; i <= last - first && err == ERR_OK && !w->done; i++) {
        uint64_t segment = up ? first + i : last - i;
        err = by_trace ? read_trace(w, segment) : read_segment(w, segment);
        if (err == ERR_OK && !w->done && world_monotonic_ns() > w->deadline_ns) err = ERR_TIMEOUT;
    }
    return err;
}

static enum err walk_run(struct walk *w)
{
    enum err err = newest_id(w->database, &w->high);
    if (w->query->before_id > 0 && w->query->before_id - 1 < w->high)
        w->high = w->query->before_id - 1;
    if (err == ERR_OK) err = narrow_by_time(w);
    if (err != ERR_OK || w->high == 0 || w->low > w->high) return err;
    return walk_segments(w);
}

static int is_late(void *walk)
{
    return world_monotonic_ns() > ((const struct walk *)walk)->deadline_ns;
}

enum err audit_sqlite_query(void *state, const struct audit_query *q, audit_each *each,
                            void *context)
{
    struct audit_sqlite *a = state;
    struct database *d = a->database;
    check(!str_is_absent(q->tenant) && q->limit > 0);
    struct walk w = {.database = d,
                     .query = q,
                     .each = each,
                     .context = context,
                     .low = 1,
                     .deadline_ns = world_monotonic_ns() + (uint64_t)QUERY_MS * 1000000};
    enum err err = database_begin_read(d); /* one snapshot for all segments */
    if (err != ERR_OK) return err;
    sqlite3_progress_handler(d->handle, PROGRESS_STEPS, is_late, &w);
    err = walk_run(&w);
    sqlite3_progress_handler(d->handle, 0, NULL, NULL);
    if (err == ERR_STORE_UNAVAILABLE && world_monotonic_ns() > w.deadline_ns) err = ERR_TIMEOUT;
    database_rollback(d); /* it only read */
    return err;
}
