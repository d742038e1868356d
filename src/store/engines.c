#include "store/engines.h"

#include "base/limits.h"
#include "base/time.h"
#include "json/json.h"
#include "store/follower_store.h"
#include "store/store_inside.h"

enum { NODE, REVISION, SEEN_AT, JOURNAL, EPOCH, NEXT_SEQ, UPDATED_AT }; /* columns */

/* A node has a row for each of its streams, or one row without a stream. */
static const char rows_of_engines[] =
    "SELECT n.node, coalesce(r.number, 0), coalesce(f.seen_at, 0), s.journal, s.epoch, s.next_seq,"
    " s.updated_at FROM (SELECT node FROM (SELECT node FROM followers WHERE seen_at >= ?1"
    " UNION SELECT node FROM streams) AS named ORDER BY node LIMIT ?2 OFFSET ?3) AS n"
    " LEFT JOIN followers f ON f.node = n.node AND f.seen_at >= ?1"
    " LEFT JOIN revisions r ON r.number = f.revision AND r.history_id = f.history_id"
    " LEFT JOIN streams s ON s.node = n.node ORDER BY n.node, s.journal";

static const char *state_of(uint64_t seen_at, uint64_t revision, uint64_t newest, uint64_t now_ms)
{
    if (seen_at == 0) return "gone";
    if (seen_at + ENGINE_SILENT_MS < now_ms) return "silent";
    return revision < newest ? "behind" : "current";
}

static void put_time(struct buf *out, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) {
        buf_printf(out, ",\"%s\":null", name);
        return;
    }
    time_write(ms, text);
    buf_printf(out, ",\"%s\":\"%.*s\"", name, TIME_TEXT, text);
}

struct listing {
    uint64_t newest, now_ms, limit;
    char node[LIMIT_ID_CHARACTERS + 1]; /* of the row before */
    size_t node_size;
    uint64_t count, streams; /* engines; streams of the latest */
    bool has_more;
};

static void put_stream(struct listing *l, struct statement *q, struct buf *out)
{
    struct str journal = column_text(q, JOURNAL);
    if (str_is_absent(journal)) return;
    if (l->streams++ > 0) buf_put_byte(out, ',');
    buf_put_literal(out, "{\"journal\":");
    json_put_string(out, journal);
    buf_put_literal(out, ",\"epoch\":");
    json_put_string(out, column_text(q, EPOCH));
    buf_printf(out, ",\"next_seq\":%llu", (unsigned long long)column_u64(q, NEXT_SEQ));
    put_time(out, "updated_at", column_u64(q, UPDATED_AT));
    buf_put_byte(out, '}');
}

/* Ends the node before, and begins the row's. */
static void put_node(struct listing *l, struct statement *q, struct str node, struct buf *out)
{
    uint64_t revision = column_u64(q, REVISION), seen_at = column_u64(q, SEEN_AT);
    if (l->count++ > 0) buf_put_literal(out, "]},");
    buf_put_literal(out, "{\"node\":");
    json_put_string(out, node);
    buf_printf(out, ",\"state\":\"%s\",\"revision\":%llu",
               state_of(seen_at, revision, l->newest, l->now_ms), (unsigned long long)revision);
    put_time(out, "seen_at", seen_at);
    buf_put_literal(out, ",\"streams\":[");
    memcpy(l->node, node.bytes, node.size);
    l->node_size = node.size;
    l->streams = 0;
}

static enum err put_row(struct listing *l, struct statement *q, struct buf *out)
{
    struct str node = column_text(q, NODE);
    if (node.size >= sizeof l->node) return ERR_CORRUPT;
    if (l->count == 0 || !str_equal(node, str_of(l->node, l->node_size))) {
        l->has_more = l->count == l->limit || out->size > LIMIT_REPLY_BYTES / 2;
        if (l->has_more) return ERR_END;
        put_node(l, q, node, out);
    }
    put_stream(l, q, out);
    return ERR_OK;
}

enum err engines_list(struct store *s, uint64_t now_ms, uint64_t limit, uint64_t cursor,
                      struct buf *out, struct fault *f)
{
    struct revision newest;
    enum err err = store_revision(s, &newest, f);
    if (err != ERR_OK) return err;
    struct listing l = {.newest = newest.number, .now_ms = now_ms, .limit = limit};
    struct statement *q = database_statement(s->database, rows_of_engines);
    bind_u64(q, 1, now_ms > FOLLOWER_KEEP_MS ? now_ms - FOLLOWER_KEEP_MS : 1);
    bind_u64(q, 2, limit + 1);
    bind_u64(q, 3, cursor);
    buf_put_literal(out, "{\"engines\":[");
    while ((err = statement_step(q)) == ERR_OK && (err = put_row(&l, q, out)) == ERR_OK) {
    }
    statement_reset(q);
    if (err != ERR_END) return store_fault(s, err, f);
    if (l.count > 0) buf_put_literal(out, "]}");
    buf_printf(out, "],\"revision\":%llu,\"count\":%llu,\"limit\":%llu,\"next_cursor\":%llu}",
               (unsigned long long)newest.number, (unsigned long long)l.count,
               (unsigned long long)limit, (unsigned long long)(l.has_more ? cursor + l.count : 0));
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}
