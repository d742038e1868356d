#include "store/suspension.h"

#include "base/limits.h"
#include "base/time.h"
#include "json/json.h"
#include "store/store_inside.h"

/* ---- the newest word ---- */

struct word {
    uint64_t at_ms;
    struct str event_id;
};

static bool is_suspended(const struct event *e)
{
    return str_equal(e->kind, STR("actor.suspended"));
}

bool suspension_is_noted(const struct event *e)
{
    return (is_suspended(e) || str_equal(e->kind, STR("actor.resumed"))) && e->actor.size > 0;
}

/* The event's own, or that of the person's event that an engine has taken over. */
static struct word word_of(const struct event *e, struct arena *arena)
{
    struct word own = {.at_ms = e->timestamp, .event_id = e->event_id}, taken = {0};
    struct json *previous;
    if (!is_suspended(e) || str_is_absent(e->previous) ||
        json_read(e->previous, NULL, arena, &previous, NULL) != ERR_OK)
        return own;
    taken.event_id = json_text(previous, STR("event_id"));
    bool is_whole =
        taken.event_id.size > 0 && time_read(json_text(previous, STR("timestamp")), &taken.at_ms);
    return is_whole ? taken : own;
}

/* `rank`: a suspension has 1, a resume 0 */
#define WORD_IS_NEWER(rank)                                                                        \
    " WHERE (coalesce(suspensions.resumed_at, suspensions.suspended_at),"                          \
    " CASE WHEN suspensions.resumed_at IS NULL THEN 1 ELSE 0 END, suspensions.event_id)"           \
    " < (?3, " rank ", ?4)"

static struct statement *suspend(struct database *d, const struct event *e)
{
    struct statement *q = database_statement(
        d,
        "INSERT INTO suspensions (tenant_id, actor, suspended_at, event_id, suspended_by, reason)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tenant_id, actor) DO UPDATE SET"
        " suspended_at = ?3, event_id = ?4, suspended_by = ?5, reason = ?6, resumed_at = NULL,"
        " resumed_by = NULL" WORD_IS_NEWER("1"));
    bind_text(q, 5, e->resolved_by);
    bind_text(q, 6, e->reason);
    return q;
}

static struct statement *resume(struct database *d, const struct event *e)
{
    struct statement *q = database_statement(
        d, "INSERT INTO suspensions (tenant_id, actor, resumed_at, event_id, resumed_by)"
           " VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant_id, actor) DO UPDATE SET"
           " resumed_at = ?3, event_id = ?4, resumed_by = ?5" WORD_IS_NEWER("0"));
    bind_text(q, 5, e->resolved_by);
    return q;
}

enum err suspension_note(struct store *s, const struct event *e, struct fault *f)
{
    if (!suspension_is_noted(e)) return ERR_OK;
    struct arena arena;
    arena_init(&arena, 4 << 10, 4 << 20);
    struct word word = word_of(e, &arena);
    struct statement *q = is_suspended(e) ? suspend(s->database, e) : resume(s->database, e);
    bind_text(q, 1, e->tenant_id);
    bind_text(q, 2, e->actor);
    bind_u64(q, 3, word.at_ms);
    bind_text(q, 4, word.event_id);
    enum err err = statement_run(q);
    arena_fini(&arena);
    return store_fault(s, err, f);
}

/* ---- the list ---- */

enum { NUMBER, TENANT, ACTOR, SUSPENDED_AT, SUSPENDED_BY, REASON, RESUMED_AT, RESUMED_BY, EVENT };

#define ROWS                                                                                       \
    "SELECT number, tenant_id, actor, suspended_at, suspended_by, reason, resumed_at, resumed_by," \
    " event_id FROM suspensions WHERE number > ?1"

static void put_text(struct buf *out, const char *name, struct str text)
{
    if (str_is_absent(text)) return;
    buf_printf(out, ",\"%s\":", name);
    json_put_string(out, text);
}

static void put_time(struct buf *out, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) return;
    time_write(ms, text);
    put_text(out, name, str_of(text, TIME_TEXT));
}

static void put_row(struct buf *out, struct statement *q)
{
    buf_put_literal(out, "{\"actor\":");
    json_put_string(out, column_text(q, ACTOR));
    put_text(out, "event_id", column_text(q, EVENT));
    put_text(out, "reason", column_text(q, REASON));
    put_time(out, "resumed_at", column_u64(q, RESUMED_AT));
    put_text(out, "resumed_by", column_text(q, RESUMED_BY));
    buf_printf(out, ",\"suspended\":%s", column_u64(q, RESUMED_AT) == 0 ? "true" : "false");
    put_time(out, "suspended_at", column_u64(q, SUSPENDED_AT));
    put_text(out, "suspended_by", column_text(q, SUSPENDED_BY));
    put_text(out, "tenant_id", column_text(q, TENANT));
    buf_put_byte(out, '}');
}

static bool is_wanted(const struct suspension_page *page, struct str tenant)
{
    if (!str_is_absent(page->tenant) && !str_equal(page->tenant, tenant)) return false;
    return page->tenants == NULL || globs_match(page->tenants, tenant);
}

struct listing {
    const struct suspension_page *page;
    struct buf *out;
    uint64_t count, seen, next; /* rows in the page; the last number read; the next cursor, or 0 */
    uint64_t last;              /* in the page */
};

/* ERR_END: the page is full. */
static enum err take_row(struct listing *l, struct statement *q)
{
    l->seen = column_u64(q, NUMBER);
    if (!is_wanted(l->page, column_text(q, TENANT))) return ERR_OK;
    if (l->count == l->page->limit || l->out->size > LIMIT_REPLY_BYTES / 2) {
        l->next = l->last;
        return ERR_END;
    }
    if (l->count++ > 0) buf_put_byte(l->out, ',');
    put_row(l->out, q);
    l->last = l->seen;
    return ERR_OK;
}

/* The next rows, of any tenant; ERR_END: the page is full, or these were the last. */
static enum err take_some(struct listing *l, struct database *d)
{
    enum { ROWS_AT_ONCE = LIMIT_PAGE + 1 };
    struct statement *q =
        l->page->open
            ? database_statement(d, ROWS " AND resumed_at IS NULL ORDER BY number LIMIT ?2")
            : database_statement(d, ROWS " ORDER BY number LIMIT ?2");
    uint64_t rows = 0;
    enum err err;
    bind_u64(q, 1, l->seen);
    bind_u64(q, 2, ROWS_AT_ONCE);
    while ((err = statement_step(q)) == ERR_OK && (err = take_row(l, q)) == ERR_OK) rows++;
    statement_reset(q);
    return err == ERR_END && rows == ROWS_AT_ONCE ? ERR_OK : err;
}

enum err suspension_list(struct store *s, const struct suspension_page *page, struct buf *out,
                         struct fault *f)
{
    struct listing l = {.page = page, .out = out, .seen = page->cursor};
    enum err err;
    buf_put_literal(out, "{\"suspensions\":[");
    while ((err = take_some(&l, s->database)) == ERR_OK) {
    }
    if (err != ERR_END) return store_fault(s, err, f);
    buf_printf(out, "],\"count\":%llu,\"limit\":%llu,\"next_cursor\":%llu}",
               (unsigned long long)l.count, (unsigned long long)page->limit,
               (unsigned long long)l.next);
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}
