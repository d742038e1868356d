#include "pipeline/notify/notice_store.h"

#include <stdio.h>

#include "base/limits.h"
#include "store/store_inside.h"

/* Longer than a review can wait and its approval be good for. */
enum { ANNOUNCED_DAYS = 32 };
#define DAY_MS UINT64_C(86400000)
#define GIVE_UP_MS (LIMIT_NOTICE_HOURS * UINT64_C(3600000))

/* ---- reading ---- */

enum err notice_store_newest(struct store *s, uint64_t *ret, struct fault *f)
{
    static const char sqlite[] = "SELECT max(id) FROM records",
                      postgres[] = "SELECT next_id - 1 FROM marks";
    struct statement *q =
        database_statement(s->database, database_is_postgres(s->database) ? postgres : sqlite);
    enum err err = statement_step(q);
    *ret = err == ERR_OK ? column_u64(q, 0) : 0;
    statement_reset(q);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

/* Events that other systems have posted announce nothing: they have no node. */
enum err notice_store_read(struct store *s, uint64_t after, struct arena *arena,
                           struct noted_event ret[NOTICE_READ_MAX], size_t *ret_count,
                           uint64_t *ret_last, bool *ret_more, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT id, CASE WHEN node IS NOT NULL AND kind LIKE 'review.%' THEN event END"
                     " FROM records WHERE id > ?1 ORDER BY id LIMIT ?2");
    enum err err;
    size_t rows = 0;
    *ret_count = 0;
    *ret_last = after;
    bind_u64(q, 1, after);
    bind_u64(q, 2, NOTICE_READ_MAX);
    while ((err = statement_step(q)) == ERR_OK) {
        struct str event = column_text(q, 1);
        if (!str_is_absent(event)) {
            struct str copy = arena_copy(arena, event);
            if (arena->overflow) break; /* the rest comes with the next look */
            ret[(*ret_count)++] = (struct noted_event){column_u64(q, 0), copy};
        }
        *ret_last = column_u64(q, 0);
        rows++;
    }
    statement_reset(q);
    *ret_more = rows == NOTICE_READ_MAX || arena->overflow;
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

enum err notice_store_due(struct store *s, struct str channel, uint64_t now_ms, struct arena *arena,
                          struct notice *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT record_id, kind, tenant_id, review_id, since, tries, owner FROM notices n"
        " WHERE channel = ?1 AND next_at <= ?2 AND NOT EXISTS (SELECT 1 FROM notices m WHERE"
        " m.review_id = n.review_id AND m.channel = n.channel AND m.record_id < n.record_id"
        " AND m.kind <> 'review.reminder') ORDER BY record_id LIMIT 1");
    bind_text(q, 1, channel);
    bind_u64(q, 2, now_ms);
    enum err err = statement_step(q);
    if (err == ERR_OK)
        *ret = (struct notice){.record_id = column_u64(q, 0),
                               .channel = channel,
                               .kind = arena_copy(arena, column_text(q, 1)),
                               .tenant = arena_copy(arena, column_text(q, 2)),
                               .review = arena_copy(arena, column_text(q, 3)),
                               .since = column_u64(q, 4),
                               .tries = column_u64(q, 5),
                               .owner = arena_copy(arena, column_text(q, 6))};
    statement_reset(q);
    if (err == ERR_OK && arena->overflow) return fault_plain(f, ERR_FULL);
    return err == ERR_END ? ERR_END : store_fault(s, err, f);
}

enum err notice_store_event(struct store *s, uint64_t record_id, struct arena *arena,
                            struct str *ret, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "SELECT event FROM records WHERE id = ?1");
    bind_u64(q, 1, record_id);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = arena_copy(arena, column_text(q, 0));
    statement_reset(q);
    if (err == ERR_OK && arena->overflow) return fault_plain(f, ERR_FULL);
    return err == ERR_END ? ERR_NOT_FOUND : store_fault(s, err, f);
}

static enum err read_error(struct store *s, struct str channel, struct notice_status *ret)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT error FROM notices WHERE channel = ?1 AND error <> '' ORDER BY tries DESC LIMIT 1");
    bind_text(q, 1, channel);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        struct str error = column_text(q, 0);
        snprintf(ret->error, sizeof ret->error, "%.*s", STR_FORMAT(error));
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

enum err notice_store_status(struct store *s, struct str channel, uint64_t now_ms,
                             struct notice_status *ret, struct fault *f)
{
    *ret = (struct notice_status){0};
    struct statement *q = database_statement(
        s->database, "SELECT count(*), max(tries), min(since) FROM notices WHERE channel = ?1"
                     " AND (tries > 0 OR next_at <= ?2)");
    bind_text(q, 1, channel);
    bind_u64(q, 2, now_ms);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        ret->count = column_u64(q, 0);
        ret->tries = column_u64(q, 1);
        ret->oldest_ms = column_u64(q, 2);
    }
    statement_reset(q);
    if (err == ERR_OK && ret->tries > 0) err = read_error(s, channel, ret);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

/* ---- writing ---- */

enum err notice_store_begin(struct store *s, struct fault *f) { return store_begin(s, f); }

enum err notice_store_end(struct store *s, enum err err, struct fault *f)
{
    return store_end(s, err, f);
}

static enum err run(struct store *s, struct statement *q, struct fault *f)
{
    return store_fault(s, statement_run(q), f);
}

static enum err one_count(struct store *s, struct statement *q, uint64_t *ret, struct fault *f)
{
    enum err err = statement_step(q);
    *ret = err == ERR_OK ? column_u64(q, 0) : 0;
    statement_reset(q);
    return store_fault(s, err, f);
}

enum err notice_store_put(struct store *s, const struct notice *n, bool *ret_full, struct fault *f)
{
    uint64_t count;
    struct statement *q =
        database_statement(s->database, "SELECT count(*) FROM notices WHERE channel = ?1");
    bind_text(q, 1, n->channel);
    enum err err = one_count(s, q, &count, f);
    *ret_full = count >= LIMIT_NOTICES;
    if (err != ERR_OK || *ret_full) return err;
    q = database_statement(
        s->database, "INSERT INTO notices (record_id, channel, kind, tenant_id, review_id, since,"
                     " next_at, tries, owner, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, '', '')"
                     " ON CONFLICT (record_id, channel, kind) DO NOTHING");
    bind_u64(q, 1, n->record_id);
    bind_text(q, 2, n->channel);
    bind_text(q, 3, n->kind);
    bind_text(q, 4, n->tenant);
    bind_text(q, 5, n->review);
    bind_u64(q, 6, n->since);
    bind_u64(q, 7, n->next_at);
    return run(s, q, f);
}

enum err notice_store_announce(struct store *s, struct str tenant, struct str review,
                               struct str channels, uint64_t now_ms, bool *ret_full,
                               struct fault *f)
{
    uint64_t count;
    struct statement *q = database_statement(s->database, "SELECT count(*) FROM announced");
    enum err err = one_count(s, q, &count, f);
    *ret_full = count >= LIMIT_ANNOUNCED;
    if (err != ERR_OK || *ret_full) return err;
    q = database_statement(
        s->database,
        "INSERT INTO announced (tenant_id, review_id, channels, created_at) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (tenant_id, review_id) DO NOTHING");
    bind_text(q, 1, tenant);
    bind_text(q, 2, review);
    bind_text(q, 3, channels);
    bind_u64(q, 4, now_ms);
    return run(s, q, f);
}

enum err notice_store_announced(struct store *s, struct str tenant, struct str review,
                                struct arena *arena, struct str *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT channels FROM announced WHERE tenant_id = ?1 AND review_id = ?2");
    *ret = (struct str){0};
    bind_text(q, 1, tenant);
    bind_text(q, 2, review);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = arena_copy(arena, column_text(q, 0));
    statement_reset(q);
    if (err == ERR_OK && arena->overflow) return fault_plain(f, ERR_FULL);
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

enum err notice_store_forget(struct store *s, struct str tenant, struct str review, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "DELETE FROM announced WHERE tenant_id = ?1 AND review_id = ?2");
    bind_text(q, 1, tenant);
    bind_text(q, 2, review);
    return run(s, q, f);
}

enum err notice_store_drop_reminders(struct store *s, struct str review, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "DELETE FROM notices WHERE review_id = ?1 AND kind = 'review.reminder'"
                     " AND tries = 0");
    bind_text(q, 1, review);
    return run(s, q, f);
}

static enum err run_on(struct store *s, struct statement *q, const struct notice *n,
                       struct str owner, bool *ret, struct fault *f)
{
    bind_u64(q, 1, n->record_id);
    bind_text(q, 2, n->channel);
    bind_text(q, 3, n->kind);
    bind_text(q, 4, owner);
    enum err err = run(s, q, f);
    *ret = err == ERR_OK && database_changes(s->database) == 1;
    return err;
}

enum err notice_store_claim(struct store *s, const struct notice *n, struct str owner,
                            struct fault *f)
{
    bool is_claimed;
    struct statement *q = database_statement(
        s->database,
        "UPDATE notices SET owner = ?4, tries = tries + 1 WHERE record_id = ?1 AND channel = ?2"
        " AND kind = ?3 AND tries = ?5 AND owner = ?6");
    bind_u64(q, 5, n->tries);
    bind_text(q, 6, n->owner);
    enum err err = run_on(s, q, n, owner, &is_claimed, f);
    return err != ERR_OK || is_claimed ? err : fault_plain(f, ERR_PRECONDITION_FAILED);
}

enum err notice_store_delivered(struct store *s, const struct notice *n, struct str owner,
                                bool *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "DELETE FROM notices WHERE record_id = ?1 AND channel = ?2 AND kind = ?3"
                     " AND owner = ?4");
    return run_on(s, q, n, owner, ret, f);
}

enum err notice_store_failed(struct store *s, const struct notice *n, struct str owner,
                             uint64_t next_at, const char *error, bool *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "UPDATE notices SET owner = '', next_at = ?5, error = ?6 WHERE record_id = ?1"
                     " AND channel = ?2 AND kind = ?3 AND owner = ?4");
    bind_u64(q, 5, next_at);
    bind_text(q, 6, str_from(error));
    return run_on(s, q, n, owner, ret, f);
}

enum err notice_store_give_up(struct store *s, struct str owner, uint64_t now_ms, uint64_t *ret,
                              struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "DELETE FROM notices WHERE since < ?1 AND owner <> ?2");
    *ret = 0;
    bind_text(q, 2, owner);
    bind_u64(q, 1, now_ms > GIVE_UP_MS ? now_ms - GIVE_UP_MS : 0);
    enum err err = run(s, q, f);
    if (err != ERR_OK) return err;
    *ret = database_changes(s->database);
    uint64_t age_ms = ANNOUNCED_DAYS * DAY_MS;
    q = database_statement(s->database, "DELETE FROM announced WHERE created_at < ?1");
    bind_u64(q, 1, now_ms > age_ms ? now_ms - age_ms : 0);
    return run(s, q, f);
}
