#include "store/evidence_page.h"

#include "base/limits.h"
#include "base/time.h"
#include "crypto/base64.h"
#include "json/json.h"
#include "store/audit_index.h"
#include "store/quarantine.h"
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
    const struct evidence_asked *asked;
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

/* The texts of a place live as long as the page. */
static enum err copy_names(struct evidence_place *at, struct str node, struct str journal,
                           char *names)
{
    if (node.size > EVIDENCE_PLACE_TEXT || journal.size > EVIDENCE_PLACE_TEXT) return ERR_CORRUPT;
    memcpy(names, node.bytes, node.size);
    memcpy(names + EVIDENCE_PLACE_TEXT, journal.bytes, journal.size);
    at->node = str_of(names, node.size);
    at->journal = str_of(names + EVIDENCE_PLACE_TEXT, journal.size);
    return ERR_OK;
}

/* ---- keys ---- */

static enum err put_keys(struct walk *w)
{
    const struct evidence_asked *asked = w->asked;
    struct statement *s = database_statement(
        w->database,
        "SELECT node, journal, public_key, mac, created_at, created_by, distrusted_from"
        " FROM engine_keys"
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
        uint64_t distrusted_from = column_u64(s, 6);
        bool is_registered =
            asked->check(asked->context, node, journal, key, distrusted_from, column_text(s, 3));
        buf_printf(w->out, ",\"is_registered\":%s", is_registered ? "true" : "false");
        if (distrusted_from > 0) put_member_u64(w, "distrusted_from", distrusted_from);
        put_end(w);
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* ---- texts of policies ---- */

static uint64_t until(const struct walk *w)
{
    return w->asked->has_to ? w->asked->to_ms : INT64_MAX;
}

/* Those that were a policy's newest version at some time of what is asked. */
static enum err put_policies(struct walk *w, struct evidence_place *at, char *names,
                             bool *ret_is_over)
{
    struct statement *s = stream_statement(
        w,
        "SELECT tenant_id, name, version, format, digest, created_at, created_by, content"
        " FROM policy_versions v WHERE (tenant_id, name, version) > (?1, ?2, ?3) AND created_at < ?4"
        " AND NOT EXISTS (SELECT 1 FROM policy_versions w WHERE w.tenant_id = v.tenant_id AND"
        " w.name = v.name AND w.version > v.version AND w.created_at < ?5)"
        " ORDER BY tenant_id, name, version",
        at);
    bind_u64(s, 3, at->seq);
    bind_u64(s, 4, until(w));
    bind_u64(s, 5, w->asked->has_from ? w->asked->from_ms : 0);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        struct str tenant = text_or_none(column_text(s, 0)), name = text_or_none(column_text(s, 1));
        char time[TIME_TEXT];
        time_write(column_u64(s, 5), time);
        buf_put_literal(w->out, "{\"line\":\"policy\"");
        put_member_text(w, "tenant_id", tenant);
        put_member_text(w, "name", name);
        put_member_u64(w, "version", column_u64(s, 2));
        put_member_text(w, "format", text_or_none(column_text(s, 3)));
        put_member_text(w, "digest", text_or_none(column_text(s, 4)));
        put_member_text(w, "created_at", str_of(time, TIME_TEXT));
        put_member_text(w, "created_by", text_or_none(column_text(s, 6)));
        put_member_text(w, "content", text_or_none(column_text(s, 7)));
        put_end(w);
        if (w->out->size < PAGE_BYTES_MAX) continue;
        *ret_is_over = false;
        *at = (struct evidence_place){.part = EVIDENCE_POLICIES, .seq = column_u64(s, 2)};
        err = copy_names(at, tenant, name, names);
        statement_reset(s);
        return err;
    }
    statement_reset(s);
    *ret_is_over = true;
    at->node = at->journal = STR("");
    return err == ERR_END ? ERR_OK : err;
}

/* ---- the range of a stream ---- */

/* One number of a stream; 0: none. */
static enum err number_of(struct walk *w, const char *sql, const struct evidence_place *at,
                          uint64_t third, uint64_t fourth, uint64_t *ret)
{
    struct statement *s = stream_statement(w, sql, at);
    bind_u64(s, 3, third);
    bind_u64(s, 4, fourth);
    enum err err = statement_step(s);
    *ret = err == ERR_OK ? column_u64(s, 0) : 0;
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* The first and the last record of the time that is asked for; 0: there is none. By ids, because
 * these have an index by time. */
static enum err find_times(struct walk *w, const struct evidence_place *at, uint64_t *ret_first,
                           uint64_t *ret_last)
{
    uint64_t from = w->asked->has_from ? w->asked->from_ms : 0, low, high;
    struct statement *s = database_statement(
        w->database, "SELECT min(first_id), max(last_id) FROM minutes WHERE minute >= ?1"
                     " AND minute <= ?2");
    bind_u64(s, 1, from / AUDIT_MINUTE_MS);
    bind_u64(s, 2, until(w) / AUDIT_MINUTE_MS);
    enum err err = statement_step(s);
    low = err == ERR_OK ? column_u64(s, 0) : 0;
    high = err == ERR_OK ? column_u64(s, 1) : 0;
    statement_reset(s);
    *ret_first = *ret_last = 0;
    if (err != ERR_OK) return err;
    s = stream_statement(w,
                         "SELECT min(seq), max(seq) FROM records WHERE id >= ?3 AND id <= ?4"
                         " AND node || '' = ?1 AND journal || '' = ?2 AND timestamp >= ?5"
                         " AND timestamp < ?6",
                         at);
    bind_u64(s, 3, low);
    bind_u64(s, 4, high);
    bind_u64(s, 5, from);
    bind_u64(s, 6, until(w));
    err = statement_step(s);
    if (err == ERR_OK) {
        *ret_first = column_u64(s, 0);
        *ret_last = column_u64(s, 1);
    }
    statement_reset(s);
    return err;
}

/* No record is of that time: one near it is enough for the verifier to see that. */
static enum err find_near(struct walk *w, const struct evidence_place *at, uint64_t *ret)
{
    enum err err = number_of(w,
                             "SELECT min(end_seq) FROM checkpoints WHERE node = ?1 AND journal = ?2"
                             " AND created_at >= ?3 AND end_seq > ?4",
                             at, until(w), 0, ret);
    if (err != ERR_OK || *ret != 0) return err;
    return number_of(w,
                     "SELECT max(seq) FROM records WHERE node = ?1 AND journal = ?2 AND seq > ?3"
                     " AND seq > ?4",
                     at, 0, 0, ret);
}

/* Moves the place to before the first record of the range, and puts the line. */
static enum err put_range(struct walk *w, struct evidence_place *at)
{
    uint64_t first, last, start = 1;
    if (!w->asked->has_from && !w->asked->has_to) return ERR_OK;
    enum err err = find_times(w, at, &first, &last);
    if (err == ERR_OK && first == 0) {
        err = find_near(w, at, &first);
        last = first;
    }
    if (err == ERR_OK && w->asked->has_from)
        err = number_of(w,
                        "SELECT max(from_seq) FROM checkpoints WHERE node = ?1 AND journal = ?2"
                        " AND from_seq < ?3 AND from_seq > ?4",
                        at, first, 0, &start);
    if (start == 0) start = 1;
    if (err == ERR_OK && w->asked->has_to)
        err = number_of(w,
                        "SELECT min(end_seq) FROM checkpoints WHERE node = ?1 AND journal = ?2"
                        " AND end_seq > ?3 AND from_seq <= ?3 + 1 AND from_seq >= ?4",
                        at, last, start, &at->last);
    if (err != ERR_OK) return err;
    at->seq = start - 1;
    put_kind(w, "range", at->node, at->journal);
    put_member_u64(w, "from_seq", start);
    put_member_u64(w, "end_seq", at->last);
    put_end(w);
    return ERR_OK;
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
        w, QUARANTINE_IN_TREE(w->database, "SELECT seq, ", "seq > ?3 AND seq <= ?4"), at);
    struct buf room;
    buf_init(&room, 0, QUARANTINED_BYTES);
    bind_u64(s, 3, at->seq);
    bind_u64(s, 4, last);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        put_kind(w, "quarantined", at->node, at->journal);
        put_member_u64(w, "seq", column_u64(s, 0));
        buf_put_literal(w->out, ",\"bytes\":\"");
        struct str bytes;
        err = quarantine_bytes(w->database, column_text(s, 1), &room, &bytes);
        if (err != ERR_OK) break;
        base64_put(w->out, bytes, 0);
        buf_put_byte(w->out, '"');
        put_end(w);
    }
    statement_reset(s);
    buf_fini(&room);
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

/* `last` is a record that is there. *ret_seq: the last one that is in the page. */
static enum err put_records(struct walk *w, const struct evidence_place *at, uint64_t last,
                            uint64_t *ret_seq)
{
    struct statement *s = stream_statement(
        w, ROW "WHERE node = ?1 AND journal = ?2 AND seq > ?3 AND seq <= ?4 ORDER BY seq", at);
    bind_u64(s, 3, at->seq);
    bind_u64(s, 4, last);
    enum err err;
    while ((err = statement_step(s)) == ERR_OK) {
        put_kind(w, "record", at->node, at->journal);
        put_member_text(w, "epoch", text_or_none(column_text(s, ROW_EPOCH)));
        put_member_u64(w, "seq", column_u64(s, ROW_SEQ));
        put_times(w, s);
        *ret_seq = column_u64(s, ROW_SEQ);
        put_event(w, s);
        if (w->out->size >= PAGE_BYTES_MAX) break;
    }
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

/* The records of a page: the lowest seq after the place, and the highest at most PAGE_RECORDS on and
 * at most `end`. 0: none. The page ends with a record that is there, because records that arrive
 * before the next page is read must be in that one. */
static enum err find_page(struct walk *w, const struct evidence_place *at, uint64_t end,
                          uint64_t *ret_first, uint64_t *ret_last)
{
    *ret_last = 0;
    enum err err = number_of(w,
                             "SELECT min(seq) FROM records WHERE node = ?1 AND journal = ?2"
                             " AND seq > ?3 AND seq <= ?4",
                             at, at->seq, end, ret_first);
    if (err != ERR_OK || *ret_first == 0) return err;
    uint64_t most = end - *ret_first < PAGE_RECORDS ? end : *ret_first + PAGE_RECORDS - 1;
    return number_of(w,
                     "SELECT max(seq) FROM records WHERE node = ?1 AND journal = ?2"
                     " AND seq > ?3 AND seq <= ?4",
                     at, at->seq, most, ret_last);
}

static enum err put_stream_end(struct walk *w, const struct evidence_place *at)
{
    struct statement *s = stream_statement(
        w, "SELECT next_seq, epoch FROM streams WHERE node = ?1 AND journal = ?2", at);
    enum err err = statement_step(s);
    put_kind(w, "stream_end", at->node, at->journal);
    if (err == ERR_OK && at->last == 0) put_member_u64(w, "next_seq", column_u64(s, 0));
    put_end(w);
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

static enum err put_stream(struct walk *w, struct evidence_place *at, bool *ret_is_over)
{
    uint64_t first = 0, last = 0;
    enum err err = ERR_OK;
    bool is_new = at->seq == 0;
    if (is_new) err = put_range(w, at);
    uint64_t end = at->last > 0 ? at->last : INT64_MAX;
    if (err == ERR_OK) err = find_page(w, at, end, &first, &last);
    *ret_is_over = first == 0;
    if (first == 0) last = end;
    if (err == ERR_OK && (is_new || first == 0)) err = put_removals(w, at);
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
        *at = (struct evidence_place){.part = EVIDENCE_STREAMS};
        err = copy_names(at, column_text(s, 0), column_text(s, 1), names);
    } else if (err == ERR_END) {
        *at = (struct evidence_place){.part = EVIDENCE_OWN, .node = STR(""), .journal = STR("")};
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
                           ROW "WHERE node IS NULL AND id > ?1 AND id <= ?2 AND timestamp >= ?3"
                               " AND timestamp < ?4 ORDER BY id");
    uint64_t last = at->seq + PAGE_IDS;
    bind_u64(s, 1, at->seq);
    bind_u64(s, 2, last);
    bind_u64(s, 3, w->asked->has_from ? w->asked->from_ms : 0);
    bind_u64(s, 4, until(w));
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

static void put_time(struct walk *w, const char *name, uint64_t ms)
{
    char time[TIME_TEXT];
    time_write(ms, time);
    put_member_text(w, name, str_of(time, TIME_TEXT));
}

static void put_head(struct walk *w, const struct store *s)
{
    buf_put_literal(w->out, "{\"line\":\"evidence\",\"format\":1,\"log_id\":");
    json_put_string(w->out, str_from(store_log_id(s)));
    put_time(w, "made_at", world_now_ms());
    if (w->asked->has_from) put_time(w, "from", w->asked->from_ms);
    if (w->asked->has_to) put_time(w, "to", w->asked->to_ms);
    put_end(w);
}

static enum err put_part(struct walk *w, const struct store *s, struct evidence_place *at,
                         char *names, bool *ret_more)
{
    bool is_over = false;
    enum err err = ERR_OK;
    switch (at->part) {
    case EVIDENCE_KEYS:
        put_head(w, s);
        *at =
            (struct evidence_place){.part = EVIDENCE_POLICIES, .node = STR(""), .journal = STR("")};
        return put_keys(w);
    case EVIDENCE_POLICIES: err = put_policies(w, at, names, &is_over); break;
    case EVIDENCE_STREAMS: err = put_stream(w, at, &is_over); break;
    case EVIDENCE_OWN:
        err = put_own(w, at, &is_over);
        *ret_more = !is_over;
        return err;
    }
    return err == ERR_OK && is_over ? move_to_next(w, at, names) : err;
}

enum err evidence_page(struct store *s, const struct evidence_asked *asked, struct buf *out,
                       char *names, bool *ret_more, struct evidence_place *ret, struct fault *f)
{
    struct walk w = {.database = s->database, .asked = asked, .out = out};
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    arena_init(&w.arena, EVENT_ARENA_FIRST, EVENT_ARENA_LIMIT);
    *ret = asked->after;
    *ret_more = true;
    err = put_part(&w, s, ret, names, ret_more);
    if (err == ERR_OK && !*ret_more) buf_put_literal(out, "{\"line\":\"end\"},\n");
    arena_fini(&w.arena);
    (void)store_fault(s, err,
                      f); /* before the end of the transaction, which has a fault of its own */
    database_rollback(s->database);
    return err;
}
