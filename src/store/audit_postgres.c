/* audit_postgres.c - audit events into PostgreSQL, by COPY.
 *
 * insert() only writes rows, in COPY's form, into two buffers: one for `identities`, one for
 * `records`. The rows are sent when they must be visible: at settle(), at commit(), at a lookup of
 * one of them, or at any other statement while the COPY is open. A row costs two microseconds here
 * and no round trip.
 *
 *   savepoint → COPY identities ─┬─ success ────────────────────────────▶ COPY records
 *                                └─ one exists → back to the savepoint, look up which ones,
 *                                   leave those out (settle() reports them), again
 *
 * The COPY of `identities` begins as soon as there are some rows. The server then works on the
 * first rows while the next ones are decoded and written, and nothing waits for it before all rows
 * are there. It is one COPY of many rows, since a COPY allocates a slot for each of its first
 * thousand rows. `records` follow when no identity is a duplicate.
 *
 * The COPY itself checks the unique indexes of `identities`, so the usual case, no duplicate, costs
 * nothing. (The alternative was measured: COPY into a temporary table and INSERT … SELECT … ON
 * CONFLICT DO NOTHING from there writes every row twice.) A transaction holds the write lock, so no
 * other writer inserts between the lookup and the second try.
 *
 * This program assigns the ids: the row of `marks` that is the write lock also has the next id. */
#include "store/audit_rows.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/map.h"
#include "store/copy.h"
#include "store/event_key.h"

enum {
    PENDING_ARENA_FIRST = 256 << 10,
    PENDING_ARENA_LIMIT = 64 << 20,
    PENDING_BYTES_MAX = 256 << 20, /* of each buffer */
    /* The rows are then sent: a slow server can store so many before its timeout. */
    PENDING_BYTES_FULL = 4 << 20,
    IDS_BYTES_EARLY = 16 << 10, /* some hundred rows: sent while the next ones are written */
};

struct pending_row {
    struct pending_row *next;
    uint64_t id;
    struct str key;   /* in the arena */
    struct str bytes; /* borrowed from the caller, like the source's texts */
    struct audit_source source;
    size_t ids_from, ids_to, records_from, records_to; /* the row's ranges in the buffers */
    bool is_taken;
};

struct audit_pending {
    struct buf ids, records, again; /* again: the rest of a buffer without the duplicates */
    struct arena arena;
    struct map by_key;
    struct pending_row *first, **last;
    struct pending_row *taken, **last_taken; /* duplicates, to be reported by settle() */
    size_t ids_sent;        /* bytes of `ids` that are in its COPY; 0: no COPY is open */
    uint64_t count, stored; /* rows in the buffers; rows of this transaction */
    uint64_t next_id;
    uint64_t partition_known, span_known; /* one more than the newest that is known to exist */
    uint64_t known_life;                  /* in this life of the connection */
};

struct audit_pending *audit_pending_create(void)
{
    struct audit_pending *p = calloc(1, sizeof *p);
    check(p != NULL);
    buf_init(&p->ids, 64 << 10, PENDING_BYTES_MAX);
    buf_init(&p->records, 256 << 10, PENDING_BYTES_MAX);
    buf_init(&p->again, 0, PENDING_BYTES_MAX);
    arena_init(&p->arena, PENDING_ARENA_FIRST, PENDING_ARENA_LIMIT);
    p->last = &p->first;
    p->last_taken = &p->taken;
    return p;
}

void audit_pending_destroy(struct audit_pending *p)
{
    if (p == NULL) return;
    buf_fini(&p->ids);
    buf_fini(&p->records);
    buf_fini(&p->again);
    map_fini(&p->by_key);
    arena_fini(&p->arena);
    free(p);
}

/* Clears the buffers. The duplicates are still to be reported. */
static void empty(struct audit_pending *p)
{
    buf_clear(&p->ids);
    buf_clear(&p->records);
    map_fini(&p->by_key);
    p->first = NULL;
    p->last = &p->first;
    p->count = 0;
    p->ids_sent = 0;
}

static void forget_all(struct audit_pending *p)
{
    empty(p);
    p->taken = NULL;
    p->last_taken = &p->taken;
    arena_reset(&p->arena);
}

/* ---- rows ---- */

static void put_identities(struct buf *b, const struct audit_row *row, struct str key, uint64_t id)
{
    const struct event *e = row->event;
    copy_row(b, 7);
    copy_bigint(b, id);
    copy_text(b, key);
    copy_text(b, row->source.node);
    copy_text(b, row->source.journal);
    if (row->source.seq == 0)
        copy_null(b); /* seqs begin at 1 */
    else
        copy_bigint(b, row->source.seq);
    copy_bigint(b, id >> AUDIT_SPAN_BITS);
    if (str_is_absent(e->trace_id))
        copy_null(b);
    else
        copy_bigint(b, audit_trace_hash(e->trace_id));
}

static void put_record(struct buf *b, const struct audit_row *row, uint64_t id)
{
    const struct event *e = row->event;
    copy_row(b, 18);
    copy_bigint(b, id);
    copy_bigint(b, row->created_at);
    copy_text(b, row->source.node);
    copy_text(b, row->source.journal);
    copy_text(b, row->source.epoch);
    if (row->source.seq == 0)
        copy_null(b);
    else
        copy_bigint(b, row->source.seq);
    copy_text(b, e->event_id);
    copy_text(b, e->kind);
    copy_text(b, e->tenant_id);
    copy_text(b, e->trace_id);
    copy_bigint(b, e->timestamp);
    copy_text(b, e->actor);
    copy_text(b, e->user_id);
    copy_text(b, e->action);
    copy_text(b, e->decision);
    copy_text(b, e->rule);
    copy_text(b, row->bytes);
    copy_bigint(b, row->is_restored);
}

static enum err flush(struct audit_rows *a);
static enum err send_ids(struct audit_rows *a);

static enum err insert(void *state, const struct audit_row *row, uint64_t *ret_id)
{
    struct audit_rows *a = state;
    struct audit_pending *p = a->pending;
    char key_bytes[EVENT_KEY_BYTES];
    struct str key = event_key(row->event, key_bytes);
    if (map_get(&p->by_key, key) != NULL) return ERR_EXISTS;
    if (p->records.size > PENDING_BYTES_FULL) {
        enum err err = flush(a);
        if (err != ERR_OK) return err;
    }
    if (p->count == 0) {
        copy_begin(&p->ids);
        copy_begin(&p->records);
    }
    struct pending_row *r = arena_new(&p->arena, struct pending_row);
    if (r == NULL) return ERR_FULL;
    *r = (struct pending_row){.id = p->next_id,
                              .bytes = row->bytes,
                              .source = row->source,
                              .key = arena_copy(&p->arena, key),
                              .ids_from = p->ids.size,
                              .records_from = p->records.size};
    if (str_is_absent(r->key) || !map_put(&p->by_key, r->key, r)) return ERR_FULL;
    put_identities(&p->ids, row, key, r->id);
    put_record(&p->records, row, r->id);
    if (p->ids.overflow || p->records.overflow) return ERR_FULL;
    r->ids_to = p->ids.size;
    r->records_to = p->records.size;
    *p->last = r;
    p->last = &r->next;
    p->count++;
    *ret_id = p->next_id++;
    enum err err = p->ids.size - p->ids_sent < IDS_BYTES_EARLY ? ERR_OK : send_ids(a);
    if (err != ERR_OK) return err;
    return audit_index_note(a->index, row->event, r->id);
}

/* ---- partitions ---- */

static enum err run_formatted(struct audit_rows *a, const char *format, unsigned long long number)
{
    char sql[512];
    struct buf b = buf_over(sql, sizeof sql - 1);
    unsigned long long from = number << AUDIT_PARTITION_BITS, to = (number + 1)
                                                                   << AUDIT_PARTITION_BITS;
    buf_printf(&b, format, number, from, to);
    check(!b.overflow);
    sql[b.size] = '\0';
    return database_execute(a->database, sql, NULL);
}

/* Made apart and then attached, so that others can read meanwhile. */
static enum err make_partition(struct audit_rows *a, uint64_t number)
{
    struct statement *s = database_statement(
        a->database, "SELECT 1 WHERE to_regclass('records_' || ?1::text) IS NOT NULL");
    bind_u64(s, 1, number);
    enum err err = statement_step(s);
    statement_reset(s);
    if (err != ERR_END) return err;
    err = run_formatted(
        a,
        "CREATE TABLE records_%1$llu (LIKE records INCLUDING ALL EXCLUDING INDEXES);"
        "ALTER TABLE records ATTACH PARTITION records_%1$llu FOR VALUES FROM (%2$llu) TO (%3$llu)",
        number);
    return err;
}

static enum err make_room(struct audit_rows *a, uint64_t first_id, uint64_t last_id)
{
    struct audit_pending *p = a->pending;
    enum err err = ERR_OK;
    if (p->known_life != database_life(a->database)) p->partition_known = p->span_known = 0;
    p->known_life = database_life(a->database);
    for (uint64_t n = first_id >> AUDIT_PARTITION_BITS;
         n <= last_id >> AUDIT_PARTITION_BITS && err == ERR_OK; n++) {
        if (n < p->partition_known) continue;
        err = make_partition(a, n);
        if (err == ERR_OK) p->partition_known = n + 1;
    }
    for (uint64_t n = first_id >> AUDIT_SPAN_BITS; n <= last_id >> AUDIT_SPAN_BITS && err == ERR_OK;
         n++) {
        if (n < p->span_known) continue;
        struct statement *s = database_statement(
            a->database, "INSERT INTO spans VALUES (?1) ON CONFLICT (span) DO NOTHING");
        bind_u64(s, 1, n);
        err = statement_run(s);
        if (err == ERR_OK) p->span_known = n + 1;
    }
    return err;
}

/* ---- sending rows to the server ---- */

static enum err look_for(struct audit_rows *a, struct pending_row *r)
{
    struct statement *s = database_statement(
        a->database, "SELECT 1 FROM identities WHERE event_key = ?1 UNION ALL"
                     " SELECT 1 FROM identities WHERE node = ?2 AND journal = ?3 AND seq = ?4");
    bind_text(s, 1, r->key);
    bind_text(s, 2, r->source.node);
    bind_text(s, 3, r->source.journal);
    bind_time(s, 4, r->source.seq);
    return statement_finds(s, &r->is_taken);
}

/* Marks the rows whose key exists, with one query for all. */
static enum err look_for_keys(struct audit_rows *a, bool *ret_any)
{
    struct audit_pending *p = a->pending;
    struct buf array;
    buf_init(&array, 4 << 10, PENDING_BYTES_MAX);
    for (const struct pending_row *r = p->first; r != NULL; r = r->next)
        array_put_text(&array, r->key);
    buf_put_literal(&array, "}\0");
    struct statement *s = database_statement(
        a->database, "SELECT event_key FROM identities WHERE event_key = ANY(?1)");
    bind_texts(s, 1, buf_view(&array));
    enum err err = array.overflow ? ERR_FULL : ERR_OK;
    while (err == ERR_OK && (err = statement_step(s)) == ERR_OK) {
        struct pending_row *r = map_get(&p->by_key, column_text(s, 0));
        if (r != NULL) r->is_taken = *ret_any = true;
    }
    statement_reset(s);
    buf_fini(&array);
    return err == ERR_END ? ERR_OK : err;
}

/* Removes the duplicates from a buffer, and updates the positions of the other rows. */
static void sift(struct audit_pending *p, struct buf *b, bool records)
{
    buf_clear(&p->again);
    copy_begin(&p->again);
    for (struct pending_row *r = p->first; r != NULL; r = r->next) {
        size_t *from = records ? &r->records_from : &r->ids_from,
               *to = records ? &r->records_to : &r->ids_to;
        struct str bytes = str_of(b->bytes + *from, *to - *from);
        if (r->is_taken) continue;
        *from = p->again.size;
        buf_put(&p->again, bytes);
        *to = p->again.size;
    }
    struct buf old = *b;
    *b = p->again;
    p->again = old;
}

static enum err sort_out(struct audit_rows *a)
{
    struct audit_pending *p = a->pending;
    bool any = false;
    enum err err = look_for_keys(a, &any);
    if (!any) /* then a source is a duplicate, which is rarer still */
        for (struct pending_row *r = p->first; r != NULL && err == ERR_OK; r = r->next)
            err = look_for(a, r);
    if (err != ERR_OK) return err;
    sift(p, &p->ids, false);
    sift(p, &p->records, true);
    for (struct pending_row **at = &p->first; *at != NULL;) {
        struct pending_row *r = *at;
        if (!r->is_taken) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->next = NULL;
        *p->last_taken = r;
        p->last_taken = &r->next;
        p->count--;
    }
    return p->ids.overflow || p->records.overflow ? ERR_FULL : ERR_OK;
}

/* Called before another statement runs on the connection: all pending rows are sent first. */
static enum err end_ids(void *state) { return flush(state); }

/* Sends the new bytes of `ids` into their COPY, and begins it if none is open. */
static enum err send_ids(struct audit_rows *a)
{
    struct audit_pending *p = a->pending;
    enum err err = ERR_OK;
    if (p->ids_sent == 0) {
        err = database_execute(a->database, "SAVEPOINT before_ids", NULL);
        if (err == ERR_OK)
            err = database_copy_begin(a->database, "COPY identities FROM STDIN (FORMAT binary)",
                                      end_ids, a);
    }
    if (err == ERR_OK)
        err = database_copy_put(a->database, str_skip(buf_view(&p->ids), p->ids_sent));
    if (err == ERR_OK) p->ids_sent = p->ids.size;
    return err;
}

static enum err copy_ids(struct audit_rows *a)
{
    struct audit_pending *p = a->pending;
    copy_end(&p->ids);
    enum err err = send_ids(a);
    if (err == ERR_OK) err = database_copy_end(a->database);
    p->ids_sent = 0;
    /* Without the release, each COPY of a long transaction would be a subtransaction within the one
     * before. */
    if (err == ERR_OK) return database_execute(a->database, "RELEASE before_ids", NULL);
    if (err != ERR_EXISTS) return err;
    enum err back =
        database_execute(a->database, "ROLLBACK TO before_ids; RELEASE before_ids", NULL);
    return back == ERR_OK ? ERR_EXISTS : back;
}

static enum err copy_records(struct audit_rows *a)
{
    struct audit_pending *p = a->pending;
    enum err err = make_room(a, p->first->id, p->next_id - 1);
    copy_end(&p->records);
    return err == ERR_OK ? database_copy(a->database, "COPY records FROM STDIN (FORMAT binary)",
                                         buf_view(&p->records))
                         : err;
}

static enum err flush(struct audit_rows *a)
{
    struct audit_pending *p = a->pending;
    if (p->count == 0) return ERR_OK;
    enum err err = copy_ids(a);
    for (int tries = 0; err == ERR_EXISTS && tries < 2; tries++) { /* first keys, then sources */
        err = sort_out(a);
        if (err == ERR_OK && p->count > 0) err = copy_ids(a);
    }
    if (err == ERR_OK && p->count > 0) err = copy_records(a);
    if (err != ERR_OK) return err;
    p->stored += p->count;
    empty(p);
    return ERR_OK;
}

static enum err settle(void *state, audit_taken *each, void *context)
{
    struct audit_rows *a = state;
    struct audit_pending *p = a->pending;
    enum err err;
    do { /* again only if `each` has inserted a row */
        err = flush(a);
        const struct pending_row *r = p->taken;
        p->taken = NULL;
        p->last_taken = &p->taken;
        for (; r != NULL && err == ERR_OK; r = r->next) err = each(context, &r->source, r->bytes);
    } while (err == ERR_OK && (p->count > 0 || p->taken != NULL));
    if (err == ERR_OK) arena_reset(&p->arena);
    return err;
}

/* ---- transactions ---- */

static enum err begin(void *state)
{
    struct audit_rows *a = state;
    forget_all(a->pending);
    audit_index_clear(a->index);
    a->pending->stored = 0;
    a->quarantined_rows = a->quarantined_bytes = 0;
    enum err err = database_begin(a->database);
    a->pending->next_id = database_next_id(a->database);
    return err;
}

static enum err move_marks(struct audit_rows *a)
{
    struct audit_pending *p = a->pending;
    if (p->next_id == database_next_id(a->database)) return ERR_OK;
    struct statement *s = database_statement(
        a->database, "UPDATE marks SET next_id = ?1, row_count = row_count + ?2");
    bind_u64(s, 1, p->next_id);
    bind_u64(s, 2, p->stored);
    return statement_run(s);
}

static void rollback(void *state)
{
    struct audit_rows *a = state;
    forget_all(a->pending);
    audit_index_clear(a->index);
    /* the rolled-back partitions are gone, too */
    a->pending->partition_known = a->pending->span_known = 0;
    database_rollback(a->database);
}

static enum err commit(void *state)
{
    struct audit_rows *a = state;
    enum err err = flush(a);
    /* without settle(), duplicates cannot be reported: an error */
    if (err == ERR_OK && a->pending->taken != NULL) err = ERR_EXISTS;
    if (err == ERR_OK) err = audit_index_flush(a->index);
    if (err == ERR_OK) err = audit_quarantine_settle(a);
    if (err == ERR_OK) err = move_marks(a);
    if (err == ERR_OK) err = database_commit(a->database);
    if (err != ERR_OK) rollback(a);
    return err;
}

/* ---- one row ---- */

static enum err adopt(void *state, uint64_t id, const struct audit_source *source)
{
    static const char records[] =
        "UPDATE records SET node = ?2, journal = ?3, seq = ?4, epoch = ?5, restored = 0"
        " WHERE id = ?1 AND node IS NULL";
    static const char ids[] =
        "UPDATE identities SET node = ?2, journal = ?3, seq = ?4 WHERE id = ?1 AND node IS NULL"
        " AND event_key = (SELECT " EVENT_KEY " FROM records WHERE id = ?1)";
    struct audit_rows *a = state;
    enum err err = flush(a);
    for (int i = 0; i < 2 && err == ERR_OK; i++) {
        struct statement *s = database_statement(a->database, i == 0 ? records : ids);
        bind_u64(s, 1, id);
        bind_text(s, 2, source->node);
        bind_text(s, 3, source->journal);
        bind_u64(s, 4, source->seq);
        if (i == 0) bind_text(s, 5, source->epoch);
        err = statement_run(s);
    }
    return err;
}

static enum err row_of_id(struct audit_rows *a, uint64_t id, struct audit_stored *ret)
{
    struct statement *s = database_statement(
        a->database,
        "SELECT id, event, node, journal, epoch, seq, created_at FROM records WHERE id = ?1");
    bind_u64(s, 1, id);
    return audit_one_row(s, ret);
}

static enum err row_of_statement(struct audit_rows *a, struct statement *s,
                                 struct audit_stored *ret)
{
    enum err err = statement_step(s);
    uint64_t id = err == ERR_OK ? column_u64(s, 0) : 0;
    statement_reset(s);
    if (err != ERR_OK) return err == ERR_END ? ERR_NOT_FOUND : err;
    return row_of_id(a, id, ret);
}

static enum err by_seq(void *state, const struct audit_source *source, struct audit_stored *ret)
{
    struct audit_rows *a = state;
    enum err err = flush(a);
    if (err != ERR_OK) return err;
    struct statement *s = database_statement(
        a->database, "SELECT id FROM identities WHERE node = ?1 AND journal = ?2 AND seq = ?3");
    bind_text(s, 1, source->node);
    bind_text(s, 2, source->journal);
    bind_u64(s, 3, source->seq);
    return row_of_statement(a, s, ret);
}

static enum err by_event(void *state, const struct event *event, struct audit_stored *ret)
{
    struct audit_rows *a = state;
    char key[EVENT_KEY_BYTES];
    enum err err = flush(a);
    if (err != ERR_OK) return err;
    struct statement *s =
        database_statement(a->database, "SELECT id FROM identities WHERE event_key = ?1");
    bind_text(s, 1, event_key(event, key));
    return row_of_statement(a, s, ret);
}

static enum err count(void *state, uint64_t *ret)
{
    struct audit_rows *a = state;
    struct statement *s = database_statement(a->database, "SELECT row_count FROM marks");
    enum err err = statement_step(s);
    if (err == ERR_OK) *ret = column_u64(s, 0);
    statement_reset(s);
    return err;
}

const struct audit_store_ops audit_postgres_ops = {
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .insert = insert,
    .settle = settle,
    .by_seq = by_seq,
    .by_event = by_event,
    .adopt = adopt,
    .displace = audit_rows_displace,
    .displaced = audit_rows_displaced,
    .forget = audit_rows_forget,
    .quarantine = audit_rows_quarantine,
    .is_quarantined = audit_rows_is_quarantined,
    .is_dropped = audit_rows_is_dropped,
    .stream_get = audit_rows_stream_get,
    .stream_move = audit_rows_stream_move,
    .streams_of = audit_rows_streams_of,
    .query = audit_rows_query,
    .count = count,
};
