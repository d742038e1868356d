/* audit_sqlite.c - audit events in SQLite: rows, streams, quarantine. How they are found is
 * audit_index.c and audit_query.c.
 *
 * Inserts go through one prepared statement with borrowed views: what SQLite copies into its
 * pages is the only copy made. */
#include "pipeline/ingest/audit_sqlite.h"

#include <stdlib.h>

#include "base/check.h"
#include "crypto/crypto.h"

/* ---- transactions ---- */

static enum err begin(void *state)
{
    struct audit_sqlite *a = state;
    audit_index_clear(a->index);
    return database_begin(a->database);
}

static enum err commit(void *state)
{
    struct audit_sqlite *a = state;
    enum err err = audit_index_flush(a->index);
    if (err != ERR_OK) {
        database_rollback(a->database);
        return err;
    }
    return database_commit(a->database);
}

static void rollback(void *state)
{
    struct audit_sqlite *a = state;
    audit_index_clear(a->index);
    database_rollback(a->database);
}

/* ---- rows ---- */

static enum err insert(void *state, const struct audit_row *row, uint64_t *ret_id)
{
    struct audit_sqlite *a = state;
    const struct event *e = row->event;
    sqlite3_stmt *s = database_statement(
        a->database,
        "INSERT OR ABORT INTO records (created_at, node, journal, epoch, seq, event_id, kind, "
        "tenant_id, trace_id,"
        " timestamp, actor, user_id, action, decision, rule, event)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)");
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
    enum err err = statement_run(s);
    if (err != ERR_OK) return err;
    *ret_id = database_last_id(a->database);
    return audit_index_note(a->index, e, *ret_id);
}

#define STORED "id, event, node, journal, epoch, seq, created_at"

void audit_stored_read(sqlite3_stmt *s, struct audit_stored *ret)
{
    ret->id = column_u64(s, 0);
    ret->bytes = column_text(s, 1);
    ret->source = (struct audit_source){.node = column_text(s, 2),
                                        .journal = column_text(s, 3),
                                        .epoch = column_text(s, 4),
                                        .seq = column_u64(s, 5)};
    ret->created_at = column_u64(s, 6);
}

/* The views of the row stay valid as long as its statement stands at it. */
static enum err one_row(sqlite3_stmt *s, struct audit_stored *ret)
{
    enum err err = statement_step(s);
    if (err == ERR_OK) audit_stored_read(s, ret);
    return err == ERR_END ? ERR_NOT_FOUND : err;
}

static enum err by_seq(void *state, const struct audit_source *source, struct audit_stored *ret)
{
    struct audit_sqlite *a = state;
    sqlite3_stmt *s = database_statement(
        a->database,
        "SELECT " STORED " FROM records WHERE node = ?1 AND journal = ?2 AND seq = ?3");
    bind_text(s, 1, source->node);
    bind_text(s, 2, source->journal);
    bind_u64(s, 3, source->seq);
    return one_row(s, ret);
}

static enum err by_event_id(void *state, struct str event_id, struct audit_stored *ret)
{
    struct audit_sqlite *a = state;
    sqlite3_stmt *s =
        database_statement(a->database, "SELECT " STORED " FROM records WHERE event_id = ?1");
    bind_text(s, 1, event_id);
    return one_row(s, ret);
}

static enum err adopt(void *state, uint64_t id, const struct audit_source *source)
{
    struct audit_sqlite *a = state;
    sqlite3_stmt *s =
        database_statement(a->database, "UPDATE records SET node = ?2, journal = ?3, epoch = ?4, "
                                        "seq = ?5 WHERE id = ?1 AND node IS NULL");
    bind_u64(s, 1, id);
    bind_text(s, 2, source->node);
    bind_text(s, 3, source->journal);
    bind_text(s, 4, source->epoch);
    bind_u64(s, 5, source->seq);
    return statement_run(s);
}

/* ---- quarantine ---- */

static struct str digest_hex(struct str bytes, char to[SHA256_HEX])
{
    sha256_write_hex(sha256_once(bytes), to);
    return str_of(to, SHA256_HEX);
}

static enum err quarantine(void *state, const struct audit_quarantined *q)
{
    struct audit_sqlite *a = state;
    char hex[SHA256_HEX];
    sqlite3_stmt *s = database_statement(
        a->database,
        "INSERT INTO quarantine (created_at, reason, node, journal, epoch, seq, digest, event)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (node, journal, seq, digest) DO "
        "NOTHING");
    bind_u64(s, 1, q->created_at);
    bind_text(s, 2, str_from(q->reason));
    bind_text(s, 3, q->source.node);
    bind_text(s, 4, q->source.journal);
    bind_text(s, 5, q->source.epoch);
    bind_u64(s, 6, q->source.seq);
    bind_text(s, 7, digest_hex(q->bytes, hex));
    bind_blob(s, 8, q->bytes.size == 0 ? STR("") : q->bytes);
    return statement_run(s);
}

static enum err is_quarantined(void *state, const struct audit_source *source, struct str bytes,
                               bool *ret)
{
    struct audit_sqlite *a = state;
    char hex[SHA256_HEX];
    sqlite3_stmt *s = database_statement(
        a->database,
        "SELECT 1 FROM quarantine WHERE node = ?1 AND journal = ?2 AND seq = ?3 AND digest = ?4");
    bind_text(s, 1, source->node);
    bind_text(s, 2, source->journal);
    bind_u64(s, 3, source->seq);
    bind_text(s, 4, digest_hex(bytes, hex));
    enum err err = statement_step(s);
    sqlite3_reset(s);
    if (err != ERR_OK && err != ERR_END) return err;
    *ret = err == ERR_OK;
    return ERR_OK;
}

/* ---- streams ---- */

static enum err stream_get(void *state, struct str node, struct str journal,
                           struct audit_stream *ret)
{
    struct audit_sqlite *a = state;
    sqlite3_stmt *s = database_statement(
        a->database,
        "SELECT node, journal, epoch, next_seq FROM streams WHERE node = ?1 AND journal = ?2");
    bind_text(s, 1, node);
    bind_text(s, 2, journal);
    enum err err = statement_step(s);
    if (err != ERR_OK) return err == ERR_END ? ERR_NOT_FOUND : err;
    *ret = (struct audit_stream){.node = column_text(s, 0),
                                 .journal = column_text(s, 1),
                                 .epoch = column_text(s, 2),
                                 .next_seq = column_u64(s, 3)};
    return ERR_OK;
}

static enum err stream_move(void *state, const struct audit_stream *from,
                            const struct audit_stream *to)
{
    struct audit_sqlite *a = state;
    static const char make[] =
        "INSERT INTO streams (node, journal, epoch, next_seq, updated_at) VALUES"
        " (?1, ?2, ?3, ?4, ?5) ON CONFLICT (node, journal) DO NOTHING";
    static const char move[] =
        "UPDATE streams SET epoch = ?3, next_seq = ?4, updated_at = ?5 WHERE node = ?1"
        " AND journal = ?2 AND epoch = ?6 AND next_seq = ?7";
    sqlite3_stmt *s = database_statement(a->database, from == NULL ? make : move);
    bind_text(s, 1, to->node);
    bind_text(s, 2, to->journal);
    bind_text(s, 3, to->epoch);
    bind_u64(s, 4, to->next_seq);
    bind_u64(s, 5, world_now_ms());
    if (from != NULL) {
        bind_text(s, 6, from->epoch);
        bind_u64(s, 7, from->next_seq);
    }
    enum err err = statement_run(s);
    if (err != ERR_OK) return err;
    return database_changes(a->database) == 1 ? ERR_OK : ERR_PRECONDITION_FAILED;
}

static enum err streams_of(void *state, struct str node,
                           void (*each)(void *context, const struct audit_stream *s), void *context)
{
    struct audit_sqlite *a = state;
    sqlite3_stmt *s = database_statement(
        a->database,
        "SELECT node, journal, epoch, next_seq, iif(from_seq = next_seq, asked_at, 0) FROM streams"
        " LEFT JOIN replays USING (node, journal) WHERE node = ?1"
        " UNION ALL SELECT node, journal, '', 1, asked_at FROM replays WHERE node = ?1 AND NOT EXISTS"
        " (SELECT 1 FROM streams WHERE streams.node = replays.node AND streams.journal = "
        "replays.journal) ORDER BY 2");
    bind_text(s, 1, node);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        struct audit_stream stream = {.node = column_text(s, 0),
                                      .journal = column_text(s, 1),
                                      .epoch = column_text(s, 2),
                                      .next_seq = column_u64(s, 3),
                                      .replay = column_u64(s, 4)};
        each(context, &stream);
    }
    sqlite3_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

static enum err count(void *state, uint64_t *ret)
{
    struct audit_sqlite *a = state;
    /* Rows are never deleted, so the highest id tells; counting would read the whole table. */
    sqlite3_stmt *s = database_statement(a->database, "SELECT max(id) FROM records");
    enum err err = statement_step(s);
    if (err == ERR_OK) *ret = column_u64(s, 0);
    sqlite3_reset(s);
    return err;
}

const struct audit_store_ops audit_sqlite_ops = {
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .insert = insert,
    .by_seq = by_seq,
    .by_event_id = by_event_id,
    .adopt = adopt,
    .quarantine = quarantine,
    .is_quarantined = is_quarantined,
    .stream_get = stream_get,
    .stream_move = stream_move,
    .streams_of = streams_of,
    .query = audit_sqlite_query,
    .count = count,
};

struct audit_sqlite *audit_sqlite_create(struct database *d)
{
    struct audit_sqlite *a = calloc(1, sizeof *a);
    check(a != NULL);
    a->database = d;
    a->index = audit_index_create(d);
    return a;
}

void audit_sqlite_destroy(struct audit_sqlite *a)
{
    if (a == NULL) return;
    audit_index_destroy(a->index);
    free(a);
}
