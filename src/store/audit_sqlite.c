/* audit_sqlite.c - audit events into SQLite, one by one.
 *
 * Inserts use one prepared statement with borrowed views. The only copy is the one that SQLite
 * makes into its pages. */
#include "store/audit_rows.h"

/* ---- transactions ---- */

static enum err begin(void *state)
{
    struct audit_rows *a = state;
    audit_index_clear(a->index);
    a->quarantined_rows = a->quarantined_bytes = 0;
    return database_begin(a->database);
}

static enum err commit(void *state)
{
    struct audit_rows *a = state;
    enum err err = audit_index_flush(a->index);
    if (err == ERR_OK) err = audit_quarantine_settle(a);
    if (err != ERR_OK) {
        database_rollback(a->database);
        return err;
    }
    return database_commit(a->database);
}

static void rollback(void *state)
{
    struct audit_rows *a = state;
    audit_index_clear(a->index);
    database_rollback(a->database);
}

/* ---- rows ---- */

static enum err insert(void *state, const struct audit_row *row, uint64_t *ret_id)
{
    struct audit_rows *a = state;
    const struct event *e = row->event;
    struct statement *s = database_statement(
        a->database,
        "INSERT OR ABORT INTO records (created_at, node, journal, epoch, seq, event_id, kind, "
        "tenant_id, trace_id,"
        " timestamp, actor, user_id, action, decision, rule, event, restored)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)");
    bind_u64(s, 1, row->created_at);
    bind_text(s, 2, row->source.node);
    bind_text(s, 3, row->source.journal);
    bind_text(s, 4, row->source.epoch);
    bind_time(s, 5, row->source.seq); /* seqs begin at 1; none is NULL */
    bind_text(s, 6, e->event_id);
    bind_text(s, 7, e->kind);
    bind_text(s, 8, e->tenant_id);
    bind_text(s, 9, e->trace_id);
    bind_u64(s, 10, e->timestamp);
    bind_text(s, 11, e->actor);
    bind_text(s, 12, e->user_id);
    bind_text(s, 13, e->action);
    bind_text(s, 14, e->decision);
    bind_text(s, 15, e->rule);
    bind_text(s, 16, row->bytes);
    bind_u64(s, 17, row->is_restored);
    enum err err = statement_run(s);
    if (err != ERR_OK) return err;
    *ret_id = database_last_id(a->database);
    return audit_index_note(a->index, e, *ret_id);
}

/* insert() stores each row at once, and reports a duplicate itself. */
static enum err settle(void *state, audit_taken *each, void *context)
{
    (void)state;
    (void)each;
    (void)context;
    return ERR_OK;
}

static enum err adopt(void *state, uint64_t id, const struct audit_source *source)
{
    struct audit_rows *a = state;
    struct statement *s =
        database_statement(a->database, "UPDATE records SET node = ?2, journal = ?3, epoch = ?4, "
                                        "seq = ?5, restored = 0 WHERE id = ?1 AND node IS NULL");
    bind_u64(s, 1, id);
    bind_text(s, 2, source->node);
    bind_text(s, 3, source->journal);
    bind_text(s, 4, source->epoch);
    bind_u64(s, 5, source->seq);
    return statement_run(s);
}

static enum err count(void *state, uint64_t *ret)
{
    struct audit_rows *a = state;
    /* Ids have no gaps except for removed old records. Counting would read the whole table. */
    struct statement *s = database_statement(
        a->database, "SELECT max(id), (SELECT removed_id FROM horizon) FROM records");
    enum err err = statement_step(s);
    if (err == ERR_OK) {
        uint64_t newest = column_u64(s, 0), first = column_u64(s, 1);
        *ret = newest < first ? 0 : newest - first + 1;
    }
    statement_reset(s);
    return err;
}

const struct audit_store_ops audit_sqlite_ops = {
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .insert = insert,
    .settle = settle,
    .by_seq = audit_rows_by_seq,
    .by_event = audit_rows_by_event,
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
