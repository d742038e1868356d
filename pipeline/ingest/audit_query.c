/* audit_query.c - audit events in SQLite: finding them.
 *
 * A query walks one index in the order of ids, so that a page costs what it shows: the index of
 * the narrowest member that the query names (a trace before a user, a user before a rule, …), or
 * the tenant's own. What else it names is looked at row by row. `from` and `to` become bounds on
 * the id, by the table of minutes, and are then checked exactly. A query that finds little in
 * much is stopped after QUERY_MS, with ERR_TIMEOUT, so that it cannot keep a reader from others. */
#include "pipeline/ingest/audit_sqlite.h"

#include "base/check.h"

enum { QUERY_MS = 5000, PROGRESS_STEPS = 20000, MINUTE_MS = 60000 };

/* Every statement binds the same parameters; an absent one is NULL and narrows nothing. */
#define FILTERS                                                                                   \
    " AND id >= ?2 AND id <= ?3 AND timestamp >= ?4 AND timestamp < ?5"                           \
    " AND (?6 IS NULL OR actor = ?6) AND (?7 IS NULL OR action = ?7) AND (?8 IS NULL OR decision = ?8)" \
    " AND (?9 IS NULL OR trace_id = ?9) AND (?10 IS NULL OR kind = ?10) AND (?11 IS NULL OR rule = ?11)" \
    " AND (?12 IS NULL OR user_id = ?12)"
#define COLUMNS "SELECT id, event, node, journal, epoch, seq, created_at FROM events INDEXED BY "
#define BY(index, condition)                                                                      \
    {COLUMNS index " WHERE tenant_id = ?1" condition FILTERS " ORDER BY id DESC LIMIT ?13",        \
     COLUMNS index " WHERE tenant_id = ?1" condition FILTERS " ORDER BY id ASC LIMIT ?13"}

enum walk { WALK_TRACE, WALK_USER, WALK_RULE, WALK_ACTOR, WALK_ACTION, WALK_KIND, WALK_DECISION, WALK_TENANT };

static const char *const walks[][2] = {
    [WALK_TRACE] = BY("events_trace", " AND trace_id = ?9"),
    [WALK_USER] = BY("events_user", " AND user_id = ?12"),
    [WALK_RULE] = BY("events_rule", " AND rule = ?11"),
    [WALK_ACTOR] = BY("events_actor", " AND actor = ?6"),
    [WALK_ACTION] = BY("events_action", " AND action = ?7"),
    [WALK_KIND] = BY("events_kind", " AND kind = ?10 AND kind <> 'decision'"),
    [WALK_DECISION] = BY("events_decision", " AND decision = ?8"),
    [WALK_TENANT] = BY("events_tenant", ""),
};

static enum walk walk_of(const struct audit_query *q)
{
    if (!str_is_absent(q->trace_id)) return WALK_TRACE;
    if (!str_is_absent(q->user_id)) return WALK_USER;
    if (!str_is_absent(q->rule)) return WALK_RULE;
    /* Decisions are most of what there is, so their kind narrows nothing; any other kind does. */
    if (!str_is_absent(q->kind) && !str_equal(q->kind, STR("decision"))) return WALK_KIND;
    if (!str_is_absent(q->actor)) return WALK_ACTOR;
    if (!str_is_absent(q->action)) return WALK_ACTION;
    if (!str_is_absent(q->decision)) return WALK_DECISION;
    return WALK_TENANT;
}

/* The ids between which all events of the asked time lie. False: there are none. */
static enum err ids_of_time(struct database *d, const struct audit_query *q, uint64_t *low, uint64_t *high, bool *ret_any)
{
    sqlite3_stmt *s = database_statement(
        d, "SELECT min(first_id), max(last_id) FROM minutes WHERE tenant_id = ?1 AND minute >= ?2 AND minute <= ?3");
    bind_text(s, 1, q->tenant);
    bind_u64(s, 2, q->has_from ? q->from_ms / MINUTE_MS : 0);
    bind_u64(s, 3, q->has_to ? q->to_ms / MINUTE_MS : INT64_MAX);
    enum err err = statement_step(s);
    if (err == ERR_OK) {
        *ret_any = sqlite3_column_type(s, 0) != SQLITE_NULL;
        if (*low < column_u64(s, 0)) *low = column_u64(s, 0);
        if (*high > column_u64(s, 1)) *high = column_u64(s, 1);
    }
    sqlite3_reset(s);
    return err;
}

static sqlite3_stmt *query_prepare(struct database *d, const struct audit_query *q, uint64_t low, uint64_t high)
{
    sqlite3_stmt *s = database_statement(d, walks[walk_of(q)][q->oldest_first ? 1 : 0]);
    bind_text(s, 1, q->tenant);
    bind_u64(s, 2, low);
    bind_u64(s, 3, high);
    bind_u64(s, 4, q->has_from ? q->from_ms : 0);
    bind_u64(s, 5, q->has_to ? q->to_ms : INT64_MAX);
    bind_text(s, 6, q->actor);
    bind_text(s, 7, q->action);
    bind_text(s, 8, q->decision);
    bind_text(s, 9, q->trace_id);
    bind_text(s, 10, q->kind);
    bind_text(s, 11, q->rule);
    bind_text(s, 12, q->user_id);
    bind_u64(s, 13, q->limit);
    return s;
}

static int is_late(void *deadline_ns) { return world_monotonic_ns() > *(const uint64_t *)deadline_ns; }

static enum err query_walk(struct database *d, const struct audit_query *q, audit_each *each, void *context)
{
    uint64_t low = 0, high = q->before_id > 0 ? q->before_id - 1 : INT64_MAX;
    bool any = true;
    enum err err = q->has_from || q->has_to ? ids_of_time(d, q, &low, &high, &any) : ERR_OK;
    if (err != ERR_OK || !any || low > high) return err;

    sqlite3_stmt *s = query_prepare(d, q, low, high);
    while ((err = statement_step(s)) == ERR_OK) {
        struct audit_stored row;
        audit_stored_read(s, &row);
        if (!each(context, &row)) break;
    }
    sqlite3_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

enum err audit_sqlite_query(void *state, const struct audit_query *q, audit_each *each, void *context)
{
    struct audit_sqlite *a = state;
    struct database *d = a->database;
    check(!str_is_absent(q->tenant));
    uint64_t deadline = world_monotonic_ns() + (uint64_t)QUERY_MS * 1000000;
    sqlite3_progress_handler(d->handle, PROGRESS_STEPS, is_late, &deadline);
    enum err err = query_walk(d, q, each, context);
    sqlite3_progress_handler(d->handle, 0, NULL, NULL);
    if (err == ERR_STORE_UNAVAILABLE && world_monotonic_ns() > deadline) err = ERR_TIMEOUT;
    return err;
}
