/* audit_query.c - finds audit events in a database. The index (audit_index.h) selects the blocks.
 * The query reads them segment by segment, newest or oldest first, until the page is full.
 *
 * Every returned record was compared with all values of the query: the index only shows where
 * reading may be worth it. A query that finds few of many records is stopped after QUERY_MS with
 * ERR_TIMEOUT, so that it does not keep a reader from others. */
#include "store/audit_rows.h"

#include "base/check.h"
#include "base/world.h"
#include "store/copy.h"

enum {
    QUERY_MS = 5000,
    SEGMENTS_AT_ONCE = 64, /* for PostgreSQL, in one round trip */
    TRACE_IDS_AT_ONCE = 10000,
    TRACE_BYTES_MAX = TRACE_IDS_AT_ONCE * 21 + 16,
};

/* A running query. */
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
/* An absent parameter is NULL and does not restrict. */
#define NAMED                                                                                      \
    " AND tenant_id = ?3 AND timestamp >= ?4 AND timestamp < ?5 AND (?6 IS NULL OR actor = ?6)"    \
    " AND (?7 IS NULL OR action = ?7) AND (?8 IS NULL OR decision = ?8) AND (?9 IS NULL OR "       \
    "trace_id = ?9)"                                                                               \
    " AND (?10 IS NULL OR kind = ?10) AND (?11 IS NULL OR rule = ?11) AND (?12 IS NULL OR "        \
    "user_id = ?12)"

static void bind_named(struct statement *s, const struct audit_query *q)
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

/* Passes the rows of a statement that stands before its first one to the caller. */
static enum err tell_rows(struct walk *w, struct statement *s)
{
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        struct audit_stored row;
        audit_stored_read(s, &row);
        w->done = !w->each(w->context, &row) || ++w->told == w->query->limit;
        if (w->done) break;
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

static bool is_late(const struct walk *w) { return world_monotonic_ns() > w->deadline_ns; }

/* ---- by blocks ---- */

static enum err read_block(struct walk *w, uint64_t block)
{
    static const char newest[] =
        COLUMNS "WHERE id >= ?1 AND id <= ?2" NAMED " ORDER BY id DESC LIMIT ?13";
    static const char oldest[] =
        COLUMNS "WHERE id >= ?1 AND id <= ?2" NAMED " ORDER BY id ASC LIMIT ?13";
    uint64_t first = block << AUDIT_BLOCK_BITS, last = first + (1u << AUDIT_BLOCK_BITS) - 1;
    struct statement *s = database_statement(w->database, w->query->oldest_first ? oldest : newest);
    bind_u64(s, 1, first > w->low ? first : w->low);
    bind_u64(s, 2, last < w->high ? last : w->high);
    bind_named(s, w->query);
    bind_u64(s, 13, w->query->limit - w->told);
    return tell_rows(w, s);
}

/* The query's value of a member; absent: any. The member AUDIT_TENANT has no value. */
static struct str value_of(const struct audit_query *q, enum audit_member m)
{
    const struct str values[AUDIT_MEMBERS] = {
        [AUDIT_TENANT] = STR(""),       [AUDIT_ACTOR] = q->actor, [AUDIT_ACTION] = q->action,
        [AUDIT_DECISION] = q->decision, [AUDIT_KIND] = q->kind,   [AUDIT_RULE] = q->rule,
        [AUDIT_USER] = q->user_id,
    };
    return values[m];
}

/* The blocks of a segment that may have the query's values. */
static enum err blocks_of(struct walk *w, uint64_t segment, uint64_t *ret_blocks)
{
    const struct audit_query *q = w->query;
    *ret_blocks = ~0ull;
    enum err err = ERR_OK;
    for (enum audit_member m = 0; m < AUDIT_MEMBERS && err == ERR_OK && *ret_blocks != 0; m++) {
        struct str value = value_of(q, m);
        if (str_is_absent(value)) continue;
        uint64_t blocks;
        err = audit_index_blocks(w->database, segment, q->tenant, m, value, &blocks);
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
    /* most segments have none: one seek */
    struct statement *s = database_statement(w->database, any);
    bind_u64(s, 1, segment);
    bind_u64(s, 2, hash);
    enum err err = statement_step(s);
    statement_reset(s);
    if (err != ERR_OK) return err == ERR_END ? ERR_OK : err;

    s = database_statement(w->database, w->query->oldest_first ? oldest : newest);
    bind_u64(s, 1, segment);
    bind_u64(s, 2, hash);
    bind_u64(s, 13, w->low);
    bind_u64(s, 14, w->high);
    bind_named(s, w->query);
    return tell_rows(w, s);
}

/* A page of the ids whose trace id has this hash, of any tenant, and the bounds of the next
 * page. */
static enum err ids_of_trace(struct walk *w, struct buf *ids, uint64_t *ret_count)
{
    static const char newest[] =
        "SELECT i.id FROM spans s JOIN identities i ON i.span = s.span AND i.trace_hash = ?1"
        " WHERE s.span >= ?2 AND s.span <= ?3 AND i.id >= ?4 AND i.id <= ?5"
        " ORDER BY i.id DESC LIMIT ?6";
    static const char oldest[] =
        "SELECT i.id FROM spans s JOIN identities i ON i.span = s.span AND i.trace_hash = ?1"
        " WHERE s.span >= ?2 AND s.span <= ?3 AND i.id >= ?4 AND i.id <= ?5"
        " ORDER BY i.id ASC LIMIT ?6";
    struct statement *s = database_statement(w->database, w->query->oldest_first ? oldest : newest);
    bind_u64(s, 1, audit_trace_hash(w->query->trace_id));
    bind_u64(s, 2, w->low >> AUDIT_SPAN_BITS);
    bind_u64(s, 3, w->high >> AUDIT_SPAN_BITS);
    bind_u64(s, 4, w->low);
    bind_u64(s, 5, w->high);
    bind_u64(s, 6, TRACE_IDS_AT_ONCE);
    enum err err;
    uint64_t id = 0;
    buf_clear(ids);
    for (*ret_count = 0; (err = statement_step(s)) == ERR_OK; ++*ret_count) {
        id = column_u64(s, 0);
        array_put_number(ids, (int64_t)id);
    }
    statement_reset(s);
    if (err != ERR_END || id == 0) return err == ERR_END ? ERR_OK : err;
    check(!ids->overflow);
    if (w->query->oldest_first)
        w->low = id + 1;
    else
        w->high = id - 1;
    return ERR_OK;
}

static enum err read_trace_page(struct walk *w, struct buf *ids)
{
    static const char newest[] =
        COLUMNS "WHERE id = ANY(?1) AND id <= ?2" NAMED " ORDER BY id DESC LIMIT ?13";
    static const char oldest[] =
        COLUMNS "WHERE id = ANY(?1) AND id <= ?2" NAMED " ORDER BY id ASC LIMIT ?13";
    buf_put_literal(ids, "}\0");
    struct statement *s = database_statement(w->database, w->query->oldest_first ? oldest : newest);
    bind_numbers(s, 1, buf_view(ids));
    bind_u64(s, 2, INT64_MAX); /* no bound: NAMED counts on from ?3 */
    bind_named(s, w->query);
    bind_u64(s, 13, w->query->limit - w->told);
    return tell_rows(w, s);
}

/* Page by page: most of the ids may belong to another tenant that chose the same trace id. */
static enum err walk_trace(struct walk *w)
{
    struct buf ids;
    uint64_t count = TRACE_IDS_AT_ONCE;
    enum err err = ERR_OK;
    buf_init(&ids, 256, TRACE_BYTES_MAX);
    while (err == ERR_OK && !w->done && count == TRACE_IDS_AT_ONCE && w->low <= w->high) {
        if (is_late(w)) err = ERR_TIMEOUT;
        if (err == ERR_OK) err = ids_of_trace(w, &ids, &count);
        if (err == ERR_OK && count > 0) err = read_trace_page(w, &ids);
    }
    buf_fini(&ids);
    return err;
}

/* ---- the whole ---- */

/* The range of ids that can have events. Events that were dropped by age are left out, even those
 * that are still to be removed. */
static enum err bounds(struct walk *w)
{
    static const char sqlite[] = "SELECT max(id), (SELECT first_id FROM horizon) FROM records",
                      postgres[] = "SELECT next_id - 1, (SELECT first_id FROM horizon) FROM marks";
    struct statement *s =
        database_statement(w->database, database_is_postgres(w->database) ? postgres : sqlite);
    enum err err = statement_step(s);
    if (err == ERR_OK) {
        w->high = column_u64(s, 0);
        uint64_t first = column_u64(s, 1);
        if (w->low < first) w->low = first;
    }
    statement_reset(s);
    return err;
}

/* Narrows the ids to the range of all events of the requested time. */
static enum err narrow_by_time(struct walk *w)
{
    const struct audit_query *q = w->query;
    if (!q->has_from && !q->has_to) return ERR_OK;
    struct statement *s =
        database_statement(w->database, "SELECT min(first_id), max(last_id) FROM minutes WHERE "
                                        "tenant_id = ?1 AND minute >= ?2 AND minute <= ?3");
    bind_text(s, 1, q->tenant);
    bind_u64(s, 2, q->has_from ? q->from_ms / AUDIT_MINUTE_MS : 0);
    bind_u64(s, 3, q->has_to ? q->to_ms / AUDIT_MINUTE_MS : INT64_MAX);
    enum err err = statement_step(s);
    if (err == ERR_OK) { /* if no minute has any, both are NULL: 0, and no id is */
        uint64_t first = column_u64(s, 0), last = column_u64(s, 1);
        if (w->low < first) w->low = first;
        if (w->high > last) w->high = last;
    }
    statement_reset(s);
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
        if (err == ERR_OK && !w->done && is_late(w)) err = ERR_TIMEOUT;
    }
    return err;
}

/* The segments with the query's first value, from `*at` on. On PostgreSQL ids jump, so most
 * segments between two are empty, and each query costs a round trip. */
static enum err segments_there(struct walk *w, uint64_t at, uint64_t end, uint64_t *segments,
                               size_t *ret_count)
{
    static const char down[] =
        "SELECT segment FROM places WHERE tenant_id = ?1 AND member = ?2 AND "
        "value = ?3 AND segment <= ?4 AND segment >= ?5 ORDER BY segment DESC LIMIT ?6";
    static const char up[] =
        "SELECT segment FROM places WHERE tenant_id = ?1 AND member = ?2 AND "
        "value = ?3 AND segment >= ?4 AND segment <= ?5 ORDER BY segment ASC LIMIT ?6";
    const struct audit_query *q = w->query;
    enum audit_member member = AUDIT_TENANT + 1;
    while (member < AUDIT_MEMBERS && str_is_absent(value_of(q, member))) member++;
    if (member == AUDIT_MEMBERS) member = AUDIT_TENANT;
    struct statement *s = database_statement(w->database, q->oldest_first ? up : down);
    bind_text(s, 1, q->tenant);
    bind_u64(s, 2, (uint64_t)member);
    bind_text(s, 3, value_of(q, member));
    bind_u64(s, 4, at);
    bind_u64(s, 5, end);
    bind_u64(s, 6, SEGMENTS_AT_ONCE);
    enum err err;
    for (*ret_count = 0; (err = statement_step(s)) == ERR_OK; ++*ret_count)
        segments[*ret_count] = column_u64(s, 0);
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

static enum err walk_segments_there(struct walk *w)
{
    bool up = w->query->oldest_first;
    uint64_t first = w->low >> AUDIT_SEGMENT_BITS, last = w->high >> AUDIT_SEGMENT_BITS;
    uint64_t at = up ? first : last, end = up ? last : first, segments[SEGMENTS_AT_ONCE];
    size_t count;
    enum err err = ERR_OK;
    while (err == ERR_OK && !w->done) {
        err = segments_there(w, at, end, segments, &count);
        for (size_t i = 0; i < count && err == ERR_OK && !w->done; i++) {
            err = read_segment(w, segments[i]);
            if (err == ERR_OK && !w->done && is_late(w)) err = ERR_TIMEOUT;
        }
        if (count < SEGMENTS_AT_ONCE || segments[count - 1] == end) break;
        at = up ? segments[count - 1] + 1 : segments[count - 1] - 1;
    }
    return err;
}

static enum err walk_run(struct walk *w)
{
    enum err err = bounds(w);
    if (w->query->before_id > 0 && w->query->before_id - 1 < w->high)
        w->high = w->query->before_id - 1;
    if (err == ERR_OK) err = narrow_by_time(w);
    if (err != ERR_OK || w->high == 0 || w->low > w->high) return err;
    if (!database_is_postgres(w->database)) return walk_segments(w);
    return str_is_absent(w->query->trace_id) ? walk_segments_there(w) : walk_trace(w);
}

enum err audit_rows_query(void *state, const struct audit_query *q, audit_each *each, void *context)
{
    struct audit_rows *a = state;
    struct database *d = a->database;
    check(!str_is_absent(q->tenant) && q->limit > 0);
    struct walk w = {.database = d,
                     .query = q,
                     .each = each,
                     .context = context,
                     .low = q->after_id + 1,
                     .deadline_ns = world_monotonic_ns() + (uint64_t)QUERY_MS * 1000000};
    enum err err = database_begin_read(d); /* one snapshot for all segments */
    if (err != ERR_OK) return err;
    database_deadline(d, w.deadline_ns);
    err = walk_run(&w);
    database_deadline(d, 0);
    database_rollback(d); /* it only reads */
    return err;
}
