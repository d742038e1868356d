#include "store/evidence_page.h"

#include "base/limits.h"
#include "base/time.h"
#include "crypto/base64.h"
#include "json/json.h"
#include "store/store_inside.h"

enum {
    PAGE_RECORDS = 1000,      /* seqs of one page */
    PAGE_IDS = 64 << 10,      /* ids that are looked at for rows without a stream */
    PAGE_BYTES_MAX = 8 << 20, /* then the page ends early */
    EVENT_ARENA_FIRST = 64 << 10,
    EVENT_ARENA_LIMIT = 16 << 20,
};

struct walk {
    struct database *database;
    struct buf *out;
    struct arena arena;
};

static struct statement *stream_statement(struct walk *w, const char *sql,
                                          const struct evidence_place *at)
{
    struct statement *s = database_statement(w->database, sql);
    bind_text(s, 1, at->node);
    bind_text(s, 2, at->journal);
    return s;
}

static void put_end(struct walk *w) { buf_put_literal(w->out, "},\n"); }

static void put_kind(struct walk *w, const char *kind, struct str node, struct str journal)
{
    buf_printf(w->out, "{\"line\":\"%s\",\"node\":", kind);
    json_put_string(w->out, node);
    buf_put_literal(w->out, ",\"journal\":");
    json_put_string(w->out, journal);
}

static void put_member_text(struct walk *w, const char *name, struct str text)
{
    buf_printf(w->out, ",\"%s\":", name);
    json_put_string(w->out, text);
}

static void put_member_u64(struct walk *w, const char *name, uint64_t value)
{
    buf_printf(w->out, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* Stored texts may have been changed by anybody who can write to the database. */
static struct str text_or_none(struct str text)
{
    return str_is_utf8(text, &(size_t){0}) ? text : STR("");
}

/* ---- keys ---- */

static enum err put_keys(struct walk *w, const struct evidence_asked *asked)
{
    struct statement *s = database_statement(
        w->database,
        "SELECT node, journal, public_key, mac, created_at, created_by FROM engine_keys"
        " ORDER BY node, journal, created_at, public_key");
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        struct str node = text_or_none(column_text(s, 0)),
                   journal = text_or_none(column_text(s, 1)), key = text_or_none(column_text(s, 2));
        char time[TIME_TEXT];
        time_write(column_u64(s, 4), time);
        put_kind(w, "key", node, journal);
        put_member_text(w, "public_key", key);
        put_member_text(w, "registered_at", str_of(time, TIME_TEXT));
        put_member_text(w, "registered_by", text_or_none(column_text(s, 5)));
        buf_printf(w->out, ",\"is_registered\":%s",
                   asked->check(asked->context, node, journal, key, column_text(s, 3)) ? "true"
                                                                                       : "false");
        put_end(w);
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* ---- one stream ---- */

static enum err put_removals(struct walk *w, const struct evidence_place *at)
{
    struct statement *s = stream_statement(
        w, "SELECT note, number FROM removals WHERE node = ?1 AND journal = ?2 ORDER BY number",
        at);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        put_kind(w, "removal", at->node, at->journal);
        put_member_u64(w, "number", column_u64(s, 1));
        put_member_text(w, "note", text_or_none(column_text(s, 0)));
        put_end(w);
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* Those whose first new record is in the page. */
static enum err put_checkpoints(struct walk *w, const struct evidence_place *at, uint64_t last)
{
    struct statement *s = stream_statement(
        w,
        "SELECT base, end_seq, from_seq, frontier, note FROM checkpoints WHERE node = ?1 AND"
        " journal = ?2 AND from_seq > ?3 AND from_seq <= ?4 ORDER BY from_seq, end_seq",
        at);
    bind_u64(s, 3, at->seq);
    bind_u64(s, 4, last);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        put_kind(w, "checkpoint", at->node, at->journal);
        put_member_u64(w, "base", column_u64(s, 0));
        put_member_u64(w, "end_seq", column_u64(s, 1));
        put_member_u64(w, "from_seq", column_u64(s, 2));
        put_member_text(w, "frontier", text_or_none(column_text(s, 3)));
        put_member_text(w, "note", text_or_none(column_text(s, 4)));
        put_end(w);
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* A clash or a poisoned entry has the seq of another record, which is in the tree. */
static enum err put_quarantined(struct walk *w, const struct evidence_place *at, uint64_t last)
{
    struct statement *s = stream_statement(
        w,
        "SELECT seq, event FROM quarantine WHERE node = ?1 AND journal = ?2 AND seq > ?3 AND"
        " seq <= ?4 AND reason IN ('invalid', 'event_id clash') ORDER BY seq",
        at);
    bind_u64(s, 3, at->seq);
    bind_u64(s, 4, last);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        put_kind(w, "quarantined", at->node, at->journal);
        put_member_u64(w, "seq", column_u64(s, 0));
        buf_put_literal(w->out, ",\"bytes\":\"");
        base64_put(w->out, column_text(s, 1), 0);
        buf_put_byte(w->out, '"');
        put_end(w);
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* ---- rows ---- */

#define ROW                                                                                        \
    "SELECT event, epoch, seq, id, created_at, event_id, kind, tenant_id, trace_id, timestamp,"    \
    " actor, user_id, action, decision, rule, restored FROM records "

enum { ROW_EVENT, ROW_EPOCH, ROW_SEQ, ROW_ID, ROW_CREATED, ROW_EVENT_ID, ROW_RESTORED = 15 };

/* The columns by which queries select, where they are not what the event has. */
static void put_differences(struct walk *w, struct statement *s, const struct event *e)
{
    const struct {
        const char *name;
        struct str value;
    } texts[] = {{"event_id", e->event_id}, {"kind", e->kind},     {"tenant_id", e->tenant_id},
                 {"trace_id", e->trace_id}, {"timestamp", {0}},    {"actor", e->actor},
                 {"user_id", e->user_id},   {"action", e->action}, {"decision", e->decision},
                 {"rule", e->rule}};
    bool any = false;
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
        int at = ROW_EVENT_ID + i;
        bool is_time = strcmp(texts[i].name, "timestamp") == 0;
        struct str stored = is_time ? (struct str){0} : column_text(s, at);
        bool same = is_time ? column_u64(s, at) == e->timestamp
                            : str_is_absent(stored) == str_is_absent(texts[i].value) &&
                                  str_equal(stored, texts[i].value);
        if (same) continue;
        buf_printf(w->out, "%s\"%s\"", any ? "," : ",\"columns\":[", texts[i].name);
        any = true;
    }
    if (any) buf_put_byte(w->out, ']');
}

/* Of an event: one line has one, so what would end the line is written as base64. */
static bool fits_a_line(struct str bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        if ((unsigned char)bytes.bytes[i] < 0x20) return false;
    return bytes.bytes[0] == '{' && bytes.bytes[bytes.size - 1] == '}';
}

static void put_event(struct walk *w, struct statement *s)
{
    struct str bytes = column_text(s, ROW_EVENT);
    struct event e;
    arena_reset(&w->arena);
    bool is_event = event_read(bytes, &w->arena, &e, NULL) == ERR_OK;
    if (is_event) put_differences(w, s, &e);
    if (is_event && fits_a_line(bytes)) {
        buf_put_literal(w->out, ",\"event\":");
        buf_put(w->out, bytes);
    } else {
        buf_put_literal(w->out, ",\"bytes\":\"");
        base64_put(w->out, bytes, 0);
        buf_put_byte(w->out, '"');
    }
    put_end(w);
}

static void put_times(struct walk *w, struct statement *s)
{
    char time[TIME_TEXT];
    time_write(column_u64(s, ROW_CREATED), time);
    put_member_u64(w, "id", column_u64(s, ROW_ID));
    put_member_text(w, "created_at", str_of(time, TIME_TEXT));
}

static enum err put_records(struct walk *w, const struct evidence_place *at, uint64_t last,
                            uint64_t *ret_seq)
{
    struct statement *s = stream_statement(
        w, ROW "WHERE node = ?1 AND journal = ?2 AND seq > ?3 AND seq <= ?4 ORDER BY seq", at);
    bind_u64(s, 3, at->seq);
    bind_u64(s, 4, last);
    enum err err;
    *ret_seq = last;
    while ((err = statement_step(s)) == ERR_OK) {
        put_kind(w, "record", at->node, at->journal);
        put_member_text(w, "epoch", text_or_none(column_text(s, ROW_EPOCH)));
        put_member_u64(w, "seq", column_u64(s, ROW_SEQ));
        put_times(w, s);
        *ret_seq = column_u64(s, ROW_SEQ);
        put_event(w, s);
        if (w->out->size >= PAGE_BYTES_MAX) break;
    }
    if (err == ERR_END) *ret_seq = last;
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* The lowest seq after the place; 0: none. */
static enum err next_record(struct walk *w, const struct evidence_place *at, uint64_t *ret)
{
    struct statement *s = stream_statement(
        w,
        "SELECT seq FROM records WHERE node = ?1 AND journal = ?2 AND seq > ?3 ORDER BY seq LIMIT 1",
        at);
    bind_u64(s, 3, at->seq);
    *ret = 0;
    enum err err = statement_step(s);
    if (err == ERR_OK) *ret = column_u64(s, 0);
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

static enum err put_stream_end(struct walk *w, const struct evidence_place *at)
{
    struct statement *s = stream_statement(
        w, "SELECT next_seq, epoch FROM streams WHERE node = ?1 AND journal = ?2", at);
    enum err err = statement_step(s);
    put_kind(w, "stream_end", at->node, at->journal);
    if (err == ERR_OK) put_member_u64(w, "next_seq", column_u64(s, 0));
    put_end(w);
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

static enum err put_stream(struct walk *w, struct evidence_place *at, bool *ret_is_over)
{
    uint64_t first = 0;
    enum err err = next_record(w, at, &first);
    *ret_is_over = first == 0;
    uint64_t last = first == 0 ? INT64_MAX : first + PAGE_RECORDS - 1;
    if (err == ERR_OK && (at->seq == 0 || first == 0)) err = put_removals(w, at);
    if (err == ERR_OK) err = put_checkpoints(w, at, last);
    if (err == ERR_OK) err = put_quarantined(w, at, last);
    if (err != ERR_OK) return err;
    if (first == 0) return put_stream_end(w, at);
    return put_records(w, at, last, &at->seq);
}

/* ---- from stream to stream ---- */

static const char next_stream[] =
    "SELECT node, journal FROM ("
    "SELECT node, journal FROM streams UNION SELECT node, journal FROM checkpoints"
    " UNION SELECT node, journal FROM engine_keys WHERE node <> ''"
    " UNION SELECT node, journal FROM (SELECT node, journal FROM records"
    " WHERE node IS NOT NULL AND (node, journal) > (?1, ?2) ORDER BY node, journal LIMIT 1) AS r"
    ") AS named WHERE (node, journal) > (?1, ?2) ORDER BY node, journal LIMIT 1";

static enum err move_to_next(struct walk *w, struct evidence_place *at, char *names)
{
    struct statement *s = stream_statement(w, next_stream, at);
    enum err err = statement_step(s);
    if (err == ERR_OK) {
        struct str node = column_text(s, 0), journal = column_text(s, 1);
        if (node.size > EVIDENCE_PLACE_TEXT || journal.size > EVIDENCE_PLACE_TEXT) {
            err = ERR_CORRUPT;
        } else {
            memcpy(names, node.bytes, node.size);
            memcpy(names + EVIDENCE_PLACE_TEXT, journal.bytes, journal.size);
            *at = (struct evidence_place){.is_begun = true,
                                          .node = str_of(names, node.size),
                                          .journal =
                                              str_of(names + EVIDENCE_PLACE_TEXT, journal.size)};
        }
    } else if (err == ERR_END) {
        *at = (struct evidence_place){.is_begun = true, .is_own = true};
        err = ERR_OK;
    }
    statement_reset(s);
    return err;
}

/* ---- rows without a stream ---- */

static enum err put_own(struct walk *w, struct evidence_place *at, bool *ret_is_over)
{
    struct statement *s = database_statement(w->database, "SELECT max(id) FROM records");
    uint64_t newest = statement_step(s) == ERR_OK ? column_u64(s, 0) : 0;
    statement_reset(s);
    s = database_statement(w->database,
                           ROW "WHERE node IS NULL AND id > ?1 AND id <= ?2 ORDER BY id");
    uint64_t last = at->seq + PAGE_IDS;
    bind_u64(s, 1, at->seq);
    bind_u64(s, 2, last);
    enum err err;
    at->seq = last;
    while ((err = statement_step(s)) == ERR_OK) {
        buf_put_literal(w->out, "{\"line\":\"own\"");
        put_times(w, s);
        buf_printf(w->out, ",\"restored\":%s", column_u64(s, ROW_RESTORED) != 0 ? "true" : "false");
        at->seq = column_u64(s, ROW_ID);
        put_event(w, s);
        if (w->out->size >= PAGE_BYTES_MAX) break;
    }
    if (err == ERR_END) at->seq = last;
    statement_reset(s);
    *ret_is_over = at->seq >= newest;
    return err == ERR_END ? ERR_OK : err;
}

/* ---- a page ---- */

static void put_head(struct walk *w, const struct store *s)
{
    char time[TIME_TEXT];
    time_write(world_now_ms(), time);
    buf_put_literal(w->out, "{\"line\":\"evidence\",\"format\":1,\"log_id\":");
    json_put_string(w->out, str_from(store_log_id(s)));
    put_member_text(w, "made_at", str_of(time, TIME_TEXT));
    put_end(w);
}

enum err evidence_page(struct store *s, const struct evidence_asked *asked, struct buf *out,
                       char *names, bool *ret_more, struct evidence_place *ret, struct fault *f)
{
    struct walk w = {.database = s->database, .out = out};
    bool is_over = false;
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    arena_init(&w.arena, EVENT_ARENA_FIRST, EVENT_ARENA_LIMIT);
    *ret = asked->after;
    *ret_more = true;
    if (!ret->is_begun) {
        put_head(&w, s);
        ret->node = ret->journal = STR("");
        err = put_keys(&w, asked);
        is_over = true;
    } else if (ret->is_own) {
        err = put_own(&w, ret, &is_over);
        *ret_more = !is_over;
    } else {
        err = put_stream(&w, ret, &is_over);
    }
    if (err == ERR_OK && is_over && !ret->is_own) err = move_to_next(&w, ret, names);
    if (err == ERR_OK && !*ret_more) buf_put_literal(out, "{\"line\":\"end\"},\n");
    arena_fini(&w.arena);
    (void)store_fault(s, err,
                      f); /* before the end of the transaction, which has a fault of its own */
    database_rollback(s->database);
    return err;
}
