#include "store/retention.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/audit_rows.h"
#include "store/event_key.h"
#include "store/removal.h"
#include "store/set_inside.h"

enum {
    DAY_MS = 86400000,
    ROWS_AT_ONCE = 2000,
    IDS_AT_ONCE = 5000,
    NEWEST_ROWS = 1000, /* the newest storage time is among these */
    FINDS_ARENA_FIRST = 16 << 10,
    FINDS_ARENA_LIMIT = 256 << 20, /* tenants and streams of one drop */
};

struct horizon {
    uint64_t first_id, removed_id, day;
};

struct found_tenant {
    struct found_tenant *next;
    struct str name;
    uint64_t rows, from_ms, to_ms; /* of the events' own time */
};

struct found_stream {
    struct found_stream *next;
    struct str node, journal;
    uint64_t first_seq, before_seq;
};

struct drop { /* a running drop */
    struct store *store;
    struct arena arena;
    struct found_tenant *tenants;
    struct found_stream *streams;
    uint64_t from_id, to_id, rows;
    /* Rows older than limit_ms are dropped. Afterwards the checks up to `day` are done. */
    uint64_t limit_ms, day;
    struct fault *fault;
};

static enum err horizon_read(struct store *s, struct horizon *ret, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "SELECT first_id, removed_id, day FROM horizon");
    enum err err = statement_step(q);
    if (err == ERR_OK)
        *ret = (struct horizon){column_u64(q, 0), column_u64(q, 1), column_u64(q, 2)};
    statement_reset(q);
    return err == ERR_OK ? ERR_OK : store_fault(s, err == ERR_END ? ERR_CORRUPT : err, f);
}

/* ---- the end of the range ---- */

/* The record with the lowest id from `id` on; ERR_END: there is none. */
static enum err record_from(struct store *s, uint64_t id, uint64_t *ret_id,
                            uint64_t *ret_created_at)
{
    struct statement *q = database_statement(
        s->database, "SELECT id, created_at FROM records WHERE id >= ?1 ORDER BY id LIMIT 1");
    bind_u64(q, 1, id);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        *ret_id = column_u64(q, 0);
        *ret_created_at = column_u64(q, 1);
    }
    statement_reset(q);
    return err;
}

static enum err next_id(struct store *s, uint64_t *ret)
{
    static const char sqlite[] = "SELECT coalesce(max(id), 0) + 1 FROM records",
                      postgres[] = "SELECT next_id FROM marks";
    struct statement *q =
        database_statement(s->database, database_is_postgres(s->database) ? postgres : sqlite);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return err;
}

/* The approximate first id that is not older than `limit_ms`. Halving the range takes forty
 * lookups, however large it is. But each platform stored rows by its own clock, so times only
 * nearly rise with the ids. The rows below are therefore checked once more (end_at_kept()). */
static enum err first_kept(struct store *s, uint64_t low, uint64_t limit_ms, uint64_t *ret)
{
    uint64_t high, id, created_at;
    enum err err = next_id(s, &high);
    while (err == ERR_OK && low < high) {
        uint64_t middle = low + (high - low) / 2;
        err = record_from(s, middle, &id, &created_at);
        if (err == ERR_OK && created_at < limit_ms)
            low = id + 1;
        else if (err == ERR_OK || err == ERR_END)
            high = middle, err = ERR_OK;
    }
    /* Not within a gap: the range ends at the next record, or at the next id to be used. */
    if (err == ERR_OK) err = record_from(s, low, &id, &created_at);
    if (err == ERR_OK) *ret = id;
    if (err == ERR_END) err = next_id(s, ret);
    return err;
}

/* ---- the clock ---- */

static enum err number_of(struct store *s, const char *sql, uint64_t *ret)
{
    struct statement *q = database_statement(s->database, sql);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return err == ERR_END ? ERR_CORRUPT : err;
}

/* The newest storage time. (None: 0.) */
static enum err newest_stored(struct store *s, uint64_t *ret)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT max(created_at) FROM (SELECT created_at FROM records ORDER BY id DESC LIMIT ?1) AS r");
    bind_u64(q, 1, NEWEST_ROWS);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return err;
}

/* Dropped events are lost permanently, so a fast clock must not decide what is old. On PostgreSQL
 * its server's clock counts for all platforms, on SQLite the newest stored event. */
enum err retention_check_clock(struct store *s, uint64_t now_ms, struct fault *f)
{
    bool is_postgres = database_is_postgres(s->database);
    uint64_t other_ms = 0;
    enum err err =
        is_postgres ? number_of(s, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                                &other_ms)
                    : newest_stored(s, &other_ms);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (now_ms <= other_ms + DAY_MS) return ERR_OK;
    char now[TIME_TEXT], other[TIME_TEXT];
    time_write(now_ms, now);
    time_write(other_ms, other);
    return fault_set(
        f, ERR_OUT_OF_RANGE, "",
        "nothing is dropped by age: this platform's clock shows %.*s, which is more than a day after %s (%.*s)",
        TIME_TEXT, now,
        is_postgres ? "the PostgreSQL server's clock" : "the newest event that was stored",
        TIME_TEXT, other);
}

/* ---- dropped events ---- */

/* Ends the range before the first row that must stay; on PostgreSQL before its partition. */
static enum err end_at_kept(struct drop *d)
{
    struct statement *q = database_statement(
        d->store->database,
        "SELECT min(id) FROM records WHERE id >= ?1 AND id < ?2 AND created_at >= ?3");
    bind_u64(q, 1, d->from_id);
    bind_u64(q, 2, d->to_id);
    bind_u64(q, 3, d->limit_ms);
    enum err err = statement_step(q);
    uint64_t id = err == ERR_OK ? column_u64(q, 0) : 0;
    statement_reset(q);
    if (err != ERR_OK || id == 0) return err;
    if (database_is_postgres(d->store->database))
        id = id >> AUDIT_PARTITION_BITS << AUDIT_PARTITION_BITS;
    d->to_id = id > d->from_id ? id : d->from_id;
    return ERR_OK;
}

static enum err find_tenants(struct drop *d)
{
    struct statement *q = database_statement(
        d->store->database,
        "SELECT tenant_id, count(*), min(timestamp), max(timestamp) FROM records"
        " WHERE id >= ?1 AND id < ?2 GROUP BY tenant_id ORDER BY tenant_id DESC");
    bind_u64(q, 1, d->from_id);
    bind_u64(q, 2, d->to_id);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct found_tenant *t = arena_new(&d->arena, struct found_tenant);
        if (t == NULL) break; /* find() checks the arena */
        *t = (struct found_tenant){.next = d->tenants,
                                   .name = arena_copy(&d->arena, column_text(q, 0)),
                                   .rows = column_u64(q, 1),
                                   .from_ms = column_u64(q, 2),
                                   .to_ms = column_u64(q, 3)};
        d->tenants = t;
        d->rows += t->rows;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err find_streams(struct drop *d)
{
    struct statement *q = database_statement(
        d->store->database,
        "SELECT node, journal, max(seq) + 1, min(seq) FROM records WHERE id >= ?1 AND id < ?2"
        " AND node IS NOT NULL GROUP BY node, journal");
    bind_u64(q, 1, d->from_id);
    bind_u64(q, 2, d->to_id);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct found_stream *t = arena_new(&d->arena, struct found_stream);
        if (t == NULL) break; /* find() checks the arena */
        *t = (struct found_stream){.next = d->streams,
                                   .node = arena_copy(&d->arena, column_text(q, 0)),
                                   .journal = arena_copy(&d->arena, column_text(q, 1)),
                                   .before_seq = column_u64(q, 2),
                                   .first_seq = column_u64(q, 3)};
        d->streams = t;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

/* Counts the rows before the transaction that drops them, since it takes a while. The counts cannot
 * change: only this code deletes rows, and a second run at the same time is detected. */
static enum err find(struct drop *d)
{
    struct database *b = d->store->database;
    enum err err = database_begin_read(b);
    if (err == ERR_OK) err = database_patient(b);
    if (err == ERR_OK) err = end_at_kept(d);
    if (err == ERR_OK && d->to_id > d->from_id) err = find_tenants(d);
    if (err == ERR_OK && d->to_id > d->from_id) err = find_streams(d);
    if (err == ERR_OK && d->arena.overflow) err = ERR_FULL;
    database_rollback(b);
    return store_fault(d->store, err, d->fault);
}

/* ---- dropping ---- */

static enum err tell(struct drop *d, const struct found_tenant *t, uint64_t now_ms)
{
    char from[TIME_TEXT], to[TIME_TEXT], span[TIME_TEXT * 2 + 2], reason[160];
    time_write(t->from_ms, from);
    time_write(t->to_ms, to);
    struct buf b = buf_over(span, sizeof span), why = buf_over(reason, sizeof reason);
    buf_printf(&b, "%.*s/%.*s", TIME_TEXT, from, TIME_TEXT, to);
    buf_printf(&why, "older than audit.keep: %llu events from %.*s to %.*s",
               (unsigned long long)t->rows, TIME_TEXT, from, TIME_TEXT, to);
    check(!b.overflow && !why.overflow);
    const struct own_event e = {.kind = "audit.dropped",
                                .tenant = t->name,
                                .resource_type = "audit",
                                .resource_id = buf_view(&b),
                                .reason = buf_view(&why),
                                .count = t->rows};
    const struct actor by = {.principal = STR("platform"), .now_ms = now_ms};
    return own_event_store(d->store, &by, &e, d->fault);
}

/* The first record behind what was dropped before; else the stream's first one here. */
static enum err first_dropped(struct drop *d, const struct found_stream *t, uint64_t *ret)
{
    struct statement *q = database_statement(
        d->store->database, "SELECT before_seq FROM dropped WHERE node = ?1 AND journal = ?2");
    bind_text(q, 1, t->node);
    bind_text(q, 2, t->journal);
    enum err err = statement_step(q);
    *ret = err == ERR_OK ? column_u64(q, 0) : t->first_seq;
    statement_reset(q);
    return err == ERR_END ? ERR_OK : store_fault(d->store, err, d->fault);
}

/* Nothing is noted of records that came again after they had been dropped. */
static enum err sign(struct drop *d, const struct found_stream *t, uint64_t now_ms)
{
    struct removal r = {.node = t->node,
                        .journal = t->journal,
                        .by_age = true,
                        .end_seq = t->before_seq - 1,
                        .now_ms = now_ms};
    enum err err = first_dropped(d, t, &r.from_seq);
    if (err != ERR_OK || r.from_seq > r.end_seq) return err;
    return removal_note(d->store, &r, d->fault);
}

static enum err remember(struct drop *d, const struct found_stream *t)
{
    struct statement *q = database_statement(
        d->store->database,
        "INSERT INTO dropped (node, journal, before_seq) VALUES (?1, ?2, ?3) ON CONFLICT (node, journal)"
        " DO UPDATE SET before_seq = CASE WHEN ?3 > dropped.before_seq THEN ?3 ELSE dropped.before_seq END");
    bind_text(q, 1, t->node);
    bind_text(q, 2, t->journal);
    bind_u64(q, 3, t->before_seq);
    enum err err = statement_run(q);
    return store_fault(d->store, err, d->fault);
}

/* ERR_PRECONDITION_FAILED: another platform has moved it meanwhile. */
static enum err horizon_move(struct drop *d, uint64_t known_day)
{
    struct statement *q = database_statement(
        d->store->database,
        "UPDATE horizon SET first_id = ?1, day = ?2 WHERE first_id = ?3 AND day = ?4");
    bind_u64(q, 1, d->to_id);
    bind_u64(q, 2, d->day);
    bind_u64(q, 3, d->from_id);
    bind_u64(q, 4, known_day);
    enum err err = statement_run(q);
    if (err != ERR_OK) return store_fault(d->store, err, d->fault);
    return database_changes(d->store->database) == 1 ? ERR_OK : ERR_PRECONDITION_FAILED;
}

static enum err rows_forget(struct drop *d)
{
    if (!database_is_postgres(d->store->database)) return ERR_OK;
    struct statement *q =
        database_statement(d->store->database, "UPDATE marks SET row_count = row_count - ?1");
    bind_u64(q, 1, d->rows);
    enum err err = statement_run(q);
    return store_fault(d->store, err, d->fault);
}

static enum err drop_within(struct drop *d, const struct horizon *h, uint64_t now_ms)
{
    enum err err = horizon_move(d, h->day);
    if (err == ERR_OK && d->rows > 0) err = rows_forget(d);
    for (const struct found_stream *t = d->streams; t != NULL && err == ERR_OK; t = t->next) {
        err = sign(d, t, now_ms);
        if (err == ERR_OK) err = remember(d, t);
    }
    for (const struct found_tenant *t = d->tenants; t != NULL && err == ERR_OK; t = t->next)
        err = tell(d, t, now_ms);
    return err;
}

static enum err drop_found(struct drop *d, const struct horizon *h, uint64_t now_ms)
{
    enum err err = store_begin(d->store, d->fault);
    return err == ERR_OK ? store_end(d->store, drop_within(d, h, now_ms), d->fault) : err;
}

/* Drops the range up to `end_id`, but at most one of PostgreSQL's partitions: a scan of one ends in
 * time, and a scan of all might not. The last one ends the day. *h follows. */
static enum err drop_some(struct drop *d, struct horizon *h, uint64_t end_id, uint64_t now_ms)
{
    uint64_t partition_end = ((h->first_id >> AUDIT_PARTITION_BITS) + 1) << AUDIT_PARTITION_BITS;
    bool in_parts = database_is_postgres(d->store->database) && partition_end < end_id;
    uint64_t wanted = in_parts ? partition_end : end_id;
    enum err err = ERR_OK;
    d->from_id = h->first_id;
    d->to_id = wanted;
    if (d->to_id > d->from_id) err = find(d);
    d->day = d->to_id < wanted || !in_parts ? now_ms / DAY_MS : h->day;
    if (err == ERR_OK) err = drop_found(d, h, now_ms);
    if (err != ERR_OK) return err;
    h->first_id = d->to_id;
    h->day = d->day;
    return ERR_OK;
}

/* A check dated tomorrow counts as today's, because another platform's clock may be slightly fast.
 * A later day was set by a wrong clock, and is ignored. */
static bool is_looked_at(const struct horizon *h, uint64_t now_ms)
{
    uint64_t today = now_ms / DAY_MS;
    return h->day == today || h->day == today + 1;
}

enum err retention_drop(struct store *s, uint64_t keep_ms, uint64_t now_ms, uint64_t *ret_dropped,
                        struct fault *f)
{
    struct horizon h;
    uint64_t end_id;
    *ret_dropped = 0;
    check(keep_ms >= DAY_MS);
    enum err err = horizon_read(s, &h, f);
    if (err != ERR_OK || is_looked_at(&h, now_ms) || keep_ms >= now_ms) return err;
    uint64_t limit_ms = (now_ms - keep_ms) / DAY_MS * DAY_MS;
    err = first_kept(s, h.first_id, limit_ms, &end_id);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (database_is_postgres(s->database))
        end_id = end_id >> AUDIT_PARTITION_BITS << AUDIT_PARTITION_BITS;
    if (end_id < h.first_id) end_id = h.first_id;
    if (end_id > h.first_id) err = retention_check_clock(s, now_ms, f);
    while (err == ERR_OK && !is_looked_at(&h, now_ms)) {
        struct drop d = {.store = s, .limit_ms = limit_ms, .fault = f};
        arena_init(&d.arena, FINDS_ARENA_FIRST, FINDS_ARENA_LIMIT);
        err = drop_some(&d, &h, end_id, now_ms);
        arena_fini(&d.arena);
        if (err == ERR_OK) *ret_dropped += d.rows;
    }
    return err == ERR_PRECONDITION_FAILED ? ERR_OK : err;
}

/* ---- removing ---- */

static enum err run_below(struct store *s, const char *sql, uint64_t below, uint64_t limit,
                          uint64_t *ret_changes)
{
    struct statement *q = database_statement(s->database, sql);
    bind_u64(q, 1, below);
    bind_u64(q, 2, limit);
    enum err err = statement_run(q);
    *ret_changes += err == ERR_OK ? database_changes(s->database) : 0;
    return err;
}

static enum err removed_move(struct store *s, uint64_t id)
{
    struct statement *q = database_statement(
        s->database, "UPDATE horizon SET removed_id = ?1 WHERE removed_id < ?1 AND first_id >= ?1");
    bind_u64(q, 1, id);
    return statement_run(q);
}

/* Removes a few rows of the first table that has any: *ret_changes is 0 if none has. */
static enum err remove_handful(struct store *s, const char *const *steps, const uint64_t *below,
                               size_t count, uint64_t *ret_changes)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && err == ERR_OK && *ret_changes == 0; i++)
        err = run_below(s, steps[i], below[i], ROWS_AT_ONCE, ret_changes);
    return err;
}

static enum err remove_rows(struct store *s, const struct horizon *h)
{
    static const char *const steps[] = {
        "DELETE FROM records WHERE id IN (SELECT id FROM records WHERE id < ?1 ORDER BY id LIMIT ?2)",
        "DELETE FROM traces WHERE (segment, hash, id) IN (SELECT segment, hash, id FROM traces WHERE "
        "segment < ?1 LIMIT ?2)",
        "DELETE FROM places WHERE (segment, tenant_id, member, value) IN (SELECT segment, tenant_id, "
        "member, value FROM places WHERE segment < ?1 LIMIT ?2)",
        "DELETE FROM minutes WHERE (tenant_id, minute) IN (SELECT tenant_id, minute FROM minutes WHERE "
        "last_id < ?1 LIMIT ?2)",
    };
    const uint64_t below[] = {h->first_id, h->first_id >> AUDIT_SEGMENT_BITS,
                              h->first_id >> AUDIT_SEGMENT_BITS, h->first_id};
    uint64_t changes = 0;
    enum err err = remove_handful(s, steps, below, 4, &changes);
    return err == ERR_OK && changes == 0 ? removed_move(s, h->first_id) : err;
}

/* ---- PostgreSQL: the names of a partition's rows first, then the partition ---- */

static enum err remove_partition(struct store *s, uint64_t number);

/* The partition's last ids are removed with the partition. If `removed_id` moved to its end first,
 * no later run would remove it. (If the index entries are removed first, the same ids are deleted
 * again: there are none.) */
static enum err remove_ids(struct store *s, uint64_t number, uint64_t from_id, uint64_t to_id)
{
    struct statement *q =
        database_statement(s->database,
                           /* Not the rows of events that were stored again since. */
                           "DELETE FROM identities WHERE event_key = ANY(ARRAY(SELECT " EVENT_KEY
                           " FROM records WHERE id >= ?1 AND id < ?2))"
                           " AND id >= ?1 AND id < ?2");
    bind_u64(q, 1, from_id);
    bind_u64(q, 2, to_id);
    enum err err = statement_run(q);
    if (err != ERR_OK) return err;
    bool is_end = to_id == (number + 1) << AUDIT_PARTITION_BITS;
    return is_end ? remove_partition(s, number) : removed_move(s, to_id);
}

/* Removes the index entries of the partition's rows, which are no longer used. */
static enum err remove_signposts(struct store *s, uint64_t end_id, uint64_t *ret_changes)
{
    static const char *const steps[] = {
        "DELETE FROM places WHERE (tenant_id, member, value, segment) IN (SELECT tenant_id, member, value, "
        "segment FROM places WHERE segment < ?1 LIMIT ?2)",
        "DELETE FROM minutes WHERE (tenant_id, minute) IN (SELECT tenant_id, minute FROM minutes WHERE "
        "last_id < ?1 LIMIT ?2)",
        "DELETE FROM spans WHERE span IN (SELECT span FROM spans WHERE span < ?1 LIMIT ?2)",
    };
    const uint64_t below[] = {end_id >> AUDIT_SEGMENT_BITS, end_id, end_id >> AUDIT_SPAN_BITS};
    return remove_handful(s, steps, below, 3, ret_changes);
}

/* No query waits for the lock: a running query only delays the removal. */
static enum err remove_partition(struct store *s, uint64_t number)
{
    char sql[128];
    uint64_t changes = 0, end_id = (number + 1) << AUDIT_PARTITION_BITS;
    enum err err = remove_signposts(s, end_id, &changes);
    if (err != ERR_OK || changes > 0) return err;
    struct buf b = buf_over(sql, sizeof sql - 1);
    buf_printf(&b, "SET LOCAL lock_timeout = '200ms'; DROP TABLE IF EXISTS records_%llu",
               (unsigned long long)number);
    check(!b.overflow);
    sql[b.size] = '\0';
    err = database_execute(s->database, sql, NULL);
    return err == ERR_OK ? removed_move(s, end_id) : err;
}

static enum err remove_step(struct store *s, const struct horizon *h)
{
    uint64_t number = h->removed_id >> AUDIT_PARTITION_BITS, end = (number + 1)
                                                                   << AUDIT_PARTITION_BITS;
    uint64_t id, created_at;
    enum err err = record_from(s, h->removed_id, &id, &created_at);
    if (err != ERR_OK && err != ERR_END) return err;
    if (err == ERR_END || id >= end) return remove_partition(s, number);
    return remove_ids(s, number, h->removed_id, id + IDS_AT_ONCE < end ? id + IDS_AT_ONCE : end);
}

enum err retention_remove(struct store *s, bool *ret_more, struct fault *f)
{
    struct horizon h;
    *ret_more = false;
    enum err err = horizon_read(s, &h, f);
    if (err != ERR_OK || h.removed_id >= h.first_id) return err;
    err = store_begin(s, f);
    if (err == ERR_OK) err = horizon_read(s, &h, f); /* again, with the lock */
    bool is_postgres = database_is_postgres(s->database);
    if (err == ERR_OK && h.removed_id < h.first_id) {
        err = is_postgres ? remove_step(s, &h) : remove_rows(s, &h);
        if (err != ERR_OK) (void)store_fault(s, err, f);
    }
    err = store_end(s, err, f);
    *ret_more = err == ERR_OK;
    return err;
}

/* ---- keys ---- */

#define KEY_ENDED_BEFORE " FROM keys WHERE revoked_at < ?1 OR expires_at < ?1"

/* A row that was changed in the database must not be forgotten as if the key had ended. */
static enum err forget_each(struct store *s, struct str before, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "SELECT id, tenant_id, key" KEY_ENDED_BEFORE);
    bind_text(q, 1, before);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct str id = column_text(q, 0);
        err = set_check_key(s, id, column_text(q, 1), column_text(q, 2), f);
        if (err == ERR_OK) err = set_remove(s, SET_KEY, STR(""), id, f);
        if (err != ERR_OK) break;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err == ERR_SET_REFUSED ? err : store_fault(s, err, f);
}

static enum err forget_keys(struct store *s, struct str before, uint64_t *ret_forgotten,
                            struct fault *f)
{
    uint64_t revision;
    enum err err = forget_each(s, before, f);
    if (err != ERR_OK) return err;
    struct statement *q = database_statement(s->database, "DELETE" KEY_ENDED_BEFORE);
    bind_text(q, 1, before);
    err = statement_run(q);
    if (err != ERR_OK) return store_fault(s, err, f);
    *ret_forgotten = database_changes(s->database); /* another platform may have been first */
    return *ret_forgotten == 0 ? ERR_OK : store_raise_revision(s, &revision, f);
}

enum err retention_forget_keys(struct store *s, uint64_t now_ms, uint64_t *ret_forgotten,
                               struct fault *f)
{
    const uint64_t kept_ms = (uint64_t)LIMIT_ENDED_KEY_DAYS * DAY_MS;
    char text[TIME_TEXT];
    *ret_forgotten = 0;
    if (now_ms < kept_ms) return ERR_OK;
    time_write(now_ms - kept_ms, text);
    struct str before = str_of(text, sizeof text);
    struct statement *q = database_statement(s->database, "SELECT 1" KEY_ENDED_BEFORE " LIMIT 1");
    bind_text(q, 1, before);
    enum err err = statement_step(q);
    statement_reset(q);
    if (err == ERR_END) return ERR_OK;
    if (err != ERR_OK) return store_fault(s, err, f);
    err = retention_check_clock(s, now_ms, f);
    /* on SQLite also if nothing was stored for a day: no hurry */
    if (err == ERR_OUT_OF_RANGE) return ERR_OK;
    if (err == ERR_OK) err = store_begin(s, f);
    return err == ERR_OK ? store_end(s, forget_keys(s, before, ret_forgotten, f), f) : err;
}

/* ---- PostgreSQL: a partition for each day, or month ---- */

static uint64_t month_of(uint64_t day)
{
    time_t seconds = (time_t)(day * (DAY_MS / 1000));
    struct tm utc;
    check(gmtime_r(&seconds, &utc) != NULL);
    return (uint64_t)utc.tm_year * 12 + (uint64_t)utc.tm_mon;
}

/* The known period is always a day, whatever this platform's audit.keep is, and only moves forward.
 * So platforms with other settings, or with slightly fast clocks, do not undo each other's
 * changes. */
static bool begins(uint64_t keep_ms, uint64_t known_day, uint64_t day)
{
    return day > known_day && (keep_ms > 0 || month_of(day) != month_of(known_day));
}

static enum err period_read(struct store *s, uint64_t *ret_period, uint64_t *ret_next)
{
    struct statement *q = database_statement(s->database, "SELECT period, next_id FROM marks");
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        *ret_period = column_u64(q, 0);
        *ret_next = column_u64(q, 1);
    }
    statement_reset(q);
    return err;
}

static enum err roll_within(struct store *s, uint64_t keep_ms, uint64_t day)
{
    uint64_t known, next;
    enum err err = period_read(s, &known, &next);
    if (err != ERR_OK || !begins(keep_ms, known, day)) return err;
    uint64_t begin = next >> AUDIT_PARTITION_BITS << AUDIT_PARTITION_BITS;
    /* An empty partition is as good as a new one (ids begin at 1), and so is the very first one. */
    if (known != 0 && next > begin + 1) next = begin + ((uint64_t)1 << AUDIT_PARTITION_BITS);
    struct statement *q =
        database_statement(s->database, "UPDATE marks SET period = ?1, next_id = ?2");
    bind_u64(q, 1, day);
    bind_u64(q, 2, next);
    return statement_run(q);
}

enum err retention_roll(struct store *s, uint64_t keep_ms, uint64_t now_ms, struct fault *f)
{
    uint64_t known, next, day = now_ms / DAY_MS;
    if (!database_is_postgres(s->database)) return ERR_OK;
    enum err err = period_read(s, &known, &next);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (!begins(keep_ms, known, day)) return ERR_OK;
    err = retention_check_clock(s, now_ms, f); /* a day far ahead would delay all days before it */
    if (err == ERR_OK) err = store_begin(s, f);
    if (err != ERR_OK) return err;
    err = roll_within(s, keep_ms, day);
    if (err != ERR_OK) (void)store_fault(s, err, f);
    return store_end(s, err, f);
}
