/* audit_rows.c - audit events in a database: lookup by key and source, streams. Insertion is in
 * audit_sqlite.c and audit_postgres.c, quarantine in quarantine.c, queries in audit_index.c and
 * audit_query.c. */
#include "store/audit_rows.h"

#include "base/world.h"
#include "store/event_key.h"

#define STORED "id, event, node, journal, epoch, seq, created_at"

void audit_stored_read(struct statement *s, struct audit_stored *ret)
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
enum err audit_one_row(struct statement *s, struct audit_stored *ret)
{
    enum err err = statement_step(s);
    if (err == ERR_OK) audit_stored_read(s, ret);
    return err == ERR_END ? ERR_NOT_FOUND : err;
}

enum err audit_rows_by_seq(void *state, const struct audit_source *source, struct audit_stored *ret)
{
    struct audit_rows *a = state;
    struct statement *s = database_statement(
        a->database,
        "SELECT " STORED " FROM records WHERE node = ?1 AND journal = ?2 AND seq = ?3");
    bind_text(s, 1, source->node);
    bind_text(s, 2, source->journal);
    bind_u64(s, 3, source->seq);
    return audit_one_row(s, ret);
}

enum err audit_rows_by_event(void *state, const struct event *event, struct audit_stored *ret)
{
    struct audit_rows *a = state;
    char key[EVENT_KEY_BYTES];
    struct statement *s =
        database_statement(a->database, "SELECT " STORED " FROM records WHERE " EVENT_KEY " = ?1");
    bind_text(s, 1, event_key(event, key));
    return audit_one_row(s, ret);
}

/* Deletes the row if `condition`, a query of its id, finds something. */
static enum err delete_if(struct audit_rows *a, const char *condition, uint64_t id, bool *ret)
{
    static const char *const steps[] = {
        "DELETE FROM identities WHERE id = ?1 AND event_key = (SELECT " EVENT_KEY
        " FROM records WHERE id = ?1)",
        "DELETE FROM records WHERE id = ?1",
    };
    struct statement *s = database_statement(a->database, condition);
    bind_u64(s, 1, id);
    enum err err = statement_step(s);
    statement_reset(s);
    *ret = err == ERR_OK;
    if (err != ERR_OK) return err == ERR_END ? ERR_OK : err;
    for (size_t i = database_is_postgres(a->database) ? 0 : 1; i < 2 && err == ERR_OK; i++) {
        s = database_statement(a->database, steps[i]);
        bind_u64(s, 1, id);
        err = statement_run(s);
    }
    return err;
}

enum err audit_rows_forget(void *state, uint64_t id, bool *ret)
{
    return delete_if(state, "SELECT 1 FROM horizon WHERE first_id > ?1", id, ret);
}

/* The platform's own rows have no source either. Their kinds are not taken from other systems. */
#define IS_POSTED                                                                                  \
    "SELECT id FROM records WHERE id = ?1 AND node IS NULL AND (restored = 1 OR NOT ("             \
    "kind LIKE 'audit.%' OR kind LIKE 'key.%' OR kind LIKE 'policy.%' OR kind LIKE 'session.%'"    \
    " OR kind = 'auth.failed'))"

/* SQLite would give the id of the newest row to the next one, and readers that have passed it would
 * not see that. So there the row only loses its key first. */
enum err audit_rows_displace(void *state, uint64_t id, bool *ret)
{
    struct audit_rows *a = state;
    if (database_is_postgres(a->database)) return delete_if(a, IS_POSTED, id, ret);
    struct statement *s = database_statement(
        a->database,
        "UPDATE records SET event_id = event_id || '/' || id WHERE id IN (" IS_POSTED ")");
    bind_u64(s, 1, id);
    enum err err = statement_run(s);
    *ret = err == ERR_OK && database_changes(a->database) == 1;
    return err;
}

enum err audit_rows_displaced(void *state, uint64_t id)
{
    struct audit_rows *a = state;
    if (database_is_postgres(a->database)) return ERR_OK;
    struct statement *s = database_statement(a->database, "DELETE FROM records WHERE id = ?1");
    bind_u64(s, 1, id);
    return statement_run(s);
}

enum err audit_rows_is_dropped(void *state, const struct audit_source *source, bool *ret)
{
    struct audit_rows *a = state;
    struct statement *s = database_statement(
        a->database, "SELECT 1 FROM dropped WHERE node = ?1 AND journal = ?2 AND before_seq > ?3");
    bind_text(s, 1, source->node);
    bind_text(s, 2, source->journal);
    bind_u64(s, 3, source->seq);
    return statement_finds(s, ret);
}

/* ---- streams ---- */

enum err audit_rows_stream_get(void *state, struct str node, struct str journal,
                               struct audit_stream *ret)
{
    struct audit_rows *a = state;
    struct statement *s = database_statement(
        a->database, "SELECT node, journal, epoch, next_seq, authenticated FROM streams"
                     " WHERE node = ?1 AND journal = ?2");
    bind_text(s, 1, node);
    bind_text(s, 2, journal);
    enum err err = statement_step(s);
    if (err != ERR_OK) return err == ERR_END ? ERR_NOT_FOUND : err;
    *ret = (struct audit_stream){.node = column_text(s, 0),
                                 .journal = column_text(s, 1),
                                 .epoch = column_text(s, 2),
                                 .next_seq = column_u64(s, 3),
                                 .is_authenticated = column_u64(s, 4) != 0};
    return ERR_OK;
}

enum err audit_rows_stream_move(void *state, const struct audit_stream *from,
                                const struct audit_stream *to)
{
    struct audit_rows *a = state;
    static const char make[] =
        "INSERT INTO streams (node, journal, epoch, next_seq, updated_at) VALUES"
        " (?1, ?2, ?3, ?4, ?5) ON CONFLICT (node, journal) DO NOTHING";
    static const char move[] = "UPDATE streams SET epoch = ?3, next_seq = ?4, updated_at = ?5,"
                               " authenticated = CASE ?8 WHEN 1 THEN 1 ELSE authenticated END"
                               " WHERE node = ?1 AND journal = ?2 AND epoch = ?6 AND next_seq = ?7";
    struct statement *s = database_statement(a->database, from == NULL ? make : move);
    bind_text(s, 1, to->node);
    bind_text(s, 2, to->journal);
    bind_text(s, 3, to->epoch);
    bind_u64(s, 4, to->next_seq);
    bind_u64(s, 5, world_now_ms());
    if (from != NULL) {
        bind_text(s, 6, from->epoch);
        bind_u64(s, 7, from->next_seq);
        bind_u64(s, 8, to->is_authenticated);
    }
    enum err err = statement_run(s);
    if (err != ERR_OK) return err;
    return database_changes(a->database) == 1 ? ERR_OK : ERR_PRECONDITION_FAILED;
}

enum err audit_rows_streams_of(void *state, struct str node, struct str journal,
                               void (*each)(void *context, const struct audit_stream *s),
                               void *context)
{
    struct audit_rows *a = state;
    struct statement *s = database_statement(
        a->database,
        "SELECT * FROM (SELECT node, journal, epoch, next_seq,"
        " CASE WHEN from_seq = next_seq THEN asked_at ELSE 0 END AS replay FROM streams"
        " LEFT JOIN replays USING (node, journal) WHERE node = ?1"
        " UNION ALL SELECT node, journal, '', 1, asked_at FROM replays WHERE node = ?1 AND NOT EXISTS"
        " (SELECT 1 FROM streams WHERE streams.node = replays.node AND streams.journal = "
        "replays.journal)) AS s WHERE ?2 IS NULL OR journal = ?2"
        " ORDER BY CASE WHEN journal = '0' THEN 0 ELSE 1 END, journal");
    bind_text(s, 1, node);
    bind_text(s, 2, journal);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        struct audit_stream stream = {.node = column_text(s, 0),
                                      .journal = column_text(s, 1),
                                      .epoch = column_text(s, 2),
                                      .next_seq = column_u64(s, 3),
                                      .replay = column_u64(s, 4)};
        each(context, &stream);
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}
