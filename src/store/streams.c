#include "store/streams.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/key_store.h"
#include "store/store_inside.h"

enum { RECENT_MS = STREAM_RECENT_HOURS * 3600000, FULL_NODES_TOLD = 3 };

/* ---- room ---- */

static enum err count_of(struct store *s, const char *sql, struct str node, uint64_t *ret)
{
    struct statement *q = database_statement(s->database, sql);
    if (!str_is_absent(node)) bind_text(q, 1, node);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return err == ERR_END ? ERR_CORRUPT : err;
}

/* Counted once in a transaction, because no other writer adds any within it. */
static enum err count_all(struct store *s, const char *sql, uint64_t *counted, uint64_t *ret)
{
    enum err err = ERR_OK;
    if (*counted == 0) {
        err = count_of(s, sql, (struct str){0}, ret);
        *counted = *ret + 1;
    }
    *ret = *counted - 1;
    return err;
}

enum err stream_room(struct store *s, struct str node, struct fault *f)
{
    uint64_t of_node = 0, all = 0;
    enum err err = count_of(s, "SELECT count(*) FROM streams WHERE node = ?1", node, &of_node);
    if (err == ERR_OK)
        err = count_all(s, "SELECT count(*) FROM streams", &s->streams_counted, &all);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (of_node >= LIMIT_STREAMS_PER_NODE)
        return fault_set(
            f, ERR_NODE_FULL, "",
            "a node has at most %d streams, and this one has as many: an admin can remove those that "
            "no engine uses (writ engine forget NODE --journal J)",
            LIMIT_STREAMS_PER_NODE);
    if (all >= LIMIT_STREAMS)
        return fault_set(
            f, ERR_NODE_FULL, "",
            "the store has %d streams, which is the limit: an admin can remove those of engines that are gone "
            "(writ engine forget NODE)",
            LIMIT_STREAMS);
    s->streams_counted++;
    return ERR_OK;
}

enum err replay_room(struct store *s, struct str node, bool *ret, struct fault *f)
{
    uint64_t of_node = 0, all = 0;
    enum err err = count_of(s, "SELECT count(*) FROM replays WHERE node = ?1", node, &of_node);
    if (err == ERR_OK)
        err = count_all(s, "SELECT count(*) FROM replays", &s->replays_counted, &all);
    *ret = of_node < LIMIT_STREAMS_PER_NODE && all < LIMIT_STREAMS;
    if (err == ERR_OK && *ret) s->replays_counted++;
    return store_fault(s, err, f);
}

static void put_full(struct buf *b, struct statement *q)
{
    if (b->size > 0) buf_put_literal(b, "; ");
    struct str node = str_cut(column_text(q, 0), 64);
    buf_printf(b, "node %.*s has %llu streams, and no other may begin", STR_FORMAT(node),
               (unsigned long long)column_u64(q, 1));
}

enum err streams_full(struct store *s, struct streams_full *ret, struct fault *f)
{
    struct buf b = buf_over(ret->text, sizeof ret->text - 1);
    uint64_t all = 0;
    struct statement *q = database_statement(
        s->database, "SELECT node, count(*) FROM streams GROUP BY node HAVING count(*) >= ?1"
                     " ORDER BY node LIMIT ?2");
    bind_u64(q, 1, LIMIT_STREAMS_PER_NODE);
    bind_u64(q, 2, FULL_NODES_TOLD);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) put_full(&b, q);
    statement_reset(q);
    if (err == ERR_END) err = count_of(s, "SELECT count(*) FROM streams", (struct str){0}, &all);
    if (err == ERR_OK && all >= LIMIT_STREAMS)
        buf_printf(&b, "%sthe store has %llu streams, and no other may begin",
                   b.size == 0 ? "" : "; ", (unsigned long long)all);
    if (b.size > 0) buf_put_literal(&b, ": writ engine forget");
    ret->text[b.size] = '\0';
    return store_fault(s, err, f);
}

enum err streams_untrusted(struct store *s, struct streams_untrusted *ret, struct fault *f)
{
    struct buf b = buf_over(ret->json, sizeof ret->json - 1);
    struct statement *q = database_statement(
        s->database,
        "SELECT s.node, s.journal FROM streams s WHERE EXISTS (SELECT 1 FROM checkpoints c WHERE"
        " c.node = s.node AND c.journal = s.journal) AND NOT EXISTS (SELECT 1 FROM engine_keys k WHERE"
        " k.node = s.node AND k.journal = s.journal AND k.distrusted_from IS NULL)"
        " ORDER BY s.node, s.journal LIMIT ?1");
    bind_u64(q, 1, STREAMS_UNTRUSTED_TOLD);
    enum err err;
    buf_put_byte(&b, '[');
    while ((err = statement_step(q)) == ERR_OK) {
        buf_put(&b, b.size > 1 ? STR(",{\"journal\":") : STR("{\"journal\":"));
        json_put_string(&b, column_text(q, 1));
        json_put_string_member(&b, STR(",\"node\":"), column_text(q, 0));
        buf_put_byte(&b, '}');
    }
    statement_reset(q);
    buf_put_byte(&b, ']');
    ret->json[b.overflow ? 0 : b.size] = '\0';
    return store_fault(s, err == ERR_END ? ERR_OK : err, f);
}

/* ---- forgetting ---- */

/* A stream that may belong to a running engine: it is recent, or it is journal 0 of a node that
 * follows policies and keys. */
#define IS_RECENT                                                                                  \
    "(updated_at > ?3 OR (journal = '0' AND EXISTS (SELECT 1 FROM followers"                       \
    " WHERE followers.node = streams.node AND seen_at > ?3)))"
#define ARE_NAMED " WHERE node = ?1 AND (?2 IS NULL OR journal = ?2)"

static struct statement *forget_statement(struct store *s, const char *sql,
                                          const struct stream_forget *what)
{
    struct statement *q = database_statement(s->database, sql);
    bind_text(q, 1, what->node);
    bind_text(q, 2, what->journal);
    return q;
}

static enum err count_left(struct store *s, const struct stream_forget *what, uint64_t *ret)
{
    struct statement *q = forget_statement(s, "SELECT count(*) FROM streams" ARE_NAMED, what);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return err == ERR_END ? ERR_CORRUPT : err;
}

/* Up to this time a report counts as old. */
static uint64_t old_until(const struct stream_forget *what, uint64_t now_ms)
{
    if (what->force) return INT64_MAX;
    return now_ms > RECENT_MS ? now_ms - RECENT_MS : 0;
}

static enum err remove_engine(struct store *s, const struct stream_forget *what, uint64_t now_ms,
                              bool *ret)
{
    if (!str_is_absent(what->journal)) return ERR_OK;
    struct statement *q =
        database_statement(s->database, "DELETE FROM followers WHERE node = ?1 AND seen_at <= ?2");
    bind_text(q, 1, what->node);
    bind_u64(q, 2, old_until(what, now_ms));
    enum err err = statement_run(q);
    if (err == ERR_OK) *ret = database_changes(s->database) > 0;
    return err;
}

/* The streams first: whether one is recent depends on the node's row in followers. */
static enum err remove_named(struct store *s, const struct stream_forget *what, uint64_t now_ms,
                             struct stream_forgotten *ret)
{
    struct statement *q =
        forget_statement(s, "DELETE FROM streams" ARE_NAMED " AND NOT " IS_RECENT, what);
    bind_u64(q, 3, old_until(what, now_ms));
    enum err err = statement_run(q);
    if (err != ERR_OK) return err;
    ret->streams = database_changes(s->database);
    q = forget_statement(
        s,
        "DELETE FROM replays" ARE_NAMED " AND NOT EXISTS (SELECT 1 FROM streams"
        " WHERE streams.node = replays.node AND streams.journal = replays.journal)",
        what);
    err = statement_run(q);
    if (err != ERR_OK) return err;
    uint64_t replays = database_changes(s->database);
    if (replays > ret->streams) ret->streams = replays; /* most streams have none */
    err = remove_engine(s, what, now_ms, &ret->engine);
    return err == ERR_OK ? count_left(s, what, &ret->kept) : err;
}

static enum err nothing_removed(struct store *s, const struct stream_forget *what, uint64_t kept,
                                struct fault *f)
{
    uint64_t follows = 0;
    enum err err =
        count_of(s, "SELECT count(*) FROM followers WHERE node = ?1", what->node, &follows);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (kept == 0 && (follows == 0 || !str_is_absent(what->journal)))
        return fault_set(f, ERR_NOT_FOUND, "", "node %.*s has no such stream",
                         (int)(what->node.size > 64 ? 64 : what->node.size), what->node.bytes);
    return fault_set(
        f, ERR_PRECONDITION_FAILED, "/force",
        "a running engine may use it: a record came within the last %d hours, or its engine follows policies and "
        "keys. Stop that engine and revoke its key first, or send \"force\": true (writ engine forget NODE --force)",
        STREAM_RECENT_HOURS);
}

static enum err record_forgotten(struct store *s, const struct stream_forget *what,
                                 const struct actor *by, const struct stream_forgotten *done,
                                 struct fault *f)
{
    char bytes[FORGET_REASON_CHARACTERS * 4 + LIMIT_ID_CHARACTERS + 128];
    struct buf reason = buf_over(bytes, sizeof bytes);
    if (!str_is_absent(what->journal))
        buf_printf(&reason, "the position of journal %.*s is forgotten", STR_FORMAT(what->journal));
    else if (done->streams > 0)
        buf_put_literal(&reason, "positions of its journals are forgotten");
    if (done->engine)
        buf_printf(&reason, "%srevocations no longer wait for it", reason.size > 0 ? ", and " : "");
    if (!str_is_empty(what->reason)) buf_printf(&reason, ": %.*s", STR_FORMAT(what->reason));
    check(!reason.overflow);
    const struct own_event e = {.kind = "audit.forgotten",
                                .tenant = STR("*"),
                                .resource_type = "stream",
                                .resource_id = what->node,
                                .reason = buf_view(&reason),
                                .count = done->streams};
    return own_event_store(s, by, &e, f);
}

enum err stream_forget(struct store *s, const struct stream_forget *what, const struct actor *by,
                       struct stream_forgotten *ret, struct fault *f)
{
    *ret = (struct stream_forgotten){0};
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    err = store_fault(s, remove_named(s, what, by->now_ms, ret), f);
    if (err == ERR_OK && ret->streams == 0 && !ret->engine)
        err = nothing_removed(s, what, ret->kept, f);
    if (err == ERR_OK) err = record_forgotten(s, what, by, ret, f);
    return store_end(s, err, f);
}
