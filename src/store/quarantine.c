#include "store/quarantine.h"

#include "base/limits.h"
#include "crypto/crypto.h"
#include "store/audit_rows.h"
#include "store/store_inside.h"

enum { ROWS_AT_ONCE = 256 };

const char *audit_reason_name(enum audit_reason r)
{
    static const char *const names[REASON_COUNT] = {
        [REASON_CLASH] = "clash",         [REASON_EVENT_CLASH] = "event_id clash",
        [REASON_INVALID] = "invalid",     [REASON_EPOCH] = "epoch unknown",
        [REASON_POISON] = "poison",       [REASON_NODE_FULL] = "node full",
        [REASON_MAC] = "unauthenticated",
    };
    return names[r];
}

/* PostgreSQL sends hex digits. */
enum err quarantine_bytes(const struct database *d, struct str column, struct buf *room,
                          struct str *ret)
{
    *ret = column;
    if (!database_is_postgres(d)) return ERR_OK;
    size_t size = column.size / 2;
    buf_clear(room);
    if (!buf_room(room, size)) return ERR_FULL;
    if (column.size % 2 != 0 || !hex_read(column.bytes, (uint8_t *)room->bytes, size))
        return ERR_CORRUPT;
    *ret = str_of(room->bytes, size);
    return ERR_OK;
}

/* ---- in ---- */

static struct str digest_hex(struct str bytes, char to[SHA256_HEX])
{
    sha256_write_hex(sha256_once(bytes), to);
    return str_of(to, SHA256_HEX);
}

/* Stores only the beginning of an entry that is larger than any record: a small message can become
 * very large when Kafka's client decompresses it. The digest covers all bytes. */
static struct str kept_of(struct str bytes)
{
    if (bytes.size == 0) return STR("");
    return str_of(bytes.bytes, bytes.size < QUARANTINED_BYTES ? bytes.size : QUARANTINED_BYTES);
}

enum err audit_rows_quarantine(void *state, const struct audit_quarantined *q)
{
    struct audit_rows *a = state;
    char hex[SHA256_HEX];
    struct str kept = kept_of(q->bytes);
    struct statement *s = database_statement(
        a->database,
        "INSERT INTO quarantine (created_at, reason, node, journal, epoch, seq, digest, event)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (node, journal, seq, digest) DO "
        "NOTHING");
    bind_u64(s, 1, q->created_at);
    bind_text(s, 2, str_from(audit_reason_name(q->reason)));
    bind_text(s, 3, q->source.node);
    bind_text(s, 4, q->source.journal);
    bind_text(s, 5, q->source.epoch);
    bind_u64(s, 6, q->source.seq);
    bind_text(s, 7, digest_hex(q->bytes, hex));
    bind_blob(s, 8, kept);
    enum err err = statement_run(s);
    if (err != ERR_OK || database_changes(a->database) == 0) return err;
    a->quarantined_rows++;
    a->quarantined_bytes += kept.size;
    return ERR_OK;
}

enum err audit_rows_is_quarantined(void *state, const struct audit_source *source, struct str bytes,
                                   bool *ret)
{
    struct audit_rows *a = state;
    char hex[SHA256_HEX];
    struct statement *s = database_statement(
        a->database,
        "SELECT 1 FROM quarantine WHERE node = ?1 AND journal = ?2 AND seq = ?3 AND digest = ?4");
    bind_text(s, 1, source->node);
    bind_text(s, 2, source->journal);
    bind_u64(s, 3, source->seq);
    bind_text(s, 4, digest_hex(bytes, hex));
    return statement_finds(s, ret);
}

/* ---- out ---- */

static enum err status_read(struct database *d, struct quarantine_status *ret)
{
    struct statement *s = database_statement(
        d,
        "SELECT row_count, bytes, dropped, (SELECT created_at FROM quarantine ORDER BY id LIMIT 1)"
        " FROM quarantine_size");
    enum err err = statement_step(s);
    if (err == ERR_OK)
        *ret = (struct quarantine_status){column_u64(s, 0), column_u64(s, 1), column_u64(s, 2),
                                          column_u64(s, 3)};
    statement_reset(s);
    return err == ERR_END ? ERR_CORRUPT : err;
}

static enum err count_change(struct database *d, const char *sql, uint64_t rows, uint64_t bytes)
{
    struct statement *s = database_statement(d, sql);
    bind_u64(s, 1, rows);
    bind_u64(s, 2, bytes);
    return statement_run(s);
}

/* Removes a few of the oldest rows that were put in before a time. */
static enum err remove_oldest(struct database *d, uint64_t before_ms)
{
    struct statement *s = database_statement(
        d, "SELECT max(id), count(*), sum(length(event)) FROM (SELECT id, created_at, event"
           " FROM quarantine ORDER BY id LIMIT ?1) AS oldest WHERE created_at < ?2");
    bind_u64(s, 1, ROWS_AT_ONCE);
    bind_u64(s, 2, before_ms);
    enum err err = statement_step(s);
    uint64_t last = err == ERR_OK ? column_u64(s, 0) : 0;
    uint64_t rows = err == ERR_OK ? column_u64(s, 1) : 0;
    uint64_t bytes = err == ERR_OK ? column_u64(s, 2) : 0;
    statement_reset(s);
    if (err != ERR_OK || rows == 0) return err;
    s = database_statement(d, "DELETE FROM quarantine WHERE id <= ?1 AND created_at < ?2");
    bind_u64(s, 1, last);
    bind_u64(s, 2, before_ms);
    err = statement_run(s);
    if (err != ERR_OK) return err;
    return count_change(d,
                        "UPDATE quarantine_size SET row_count = row_count - ?1, bytes = bytes - ?2,"
                        " dropped = dropped + ?1",
                        rows, bytes);
}

static bool is_over(const struct quarantine_status *q)
{
    return q->rows > LIMIT_QUARANTINE_ROWS || q->bytes > LIMIT_QUARANTINE_BYTES;
}

/* If far more rows exist than permitted (from an earlier program), the retention thread removes
 * most of them, so that no batch takes long for it. */
enum err audit_quarantine_settle(struct audit_rows *a)
{
    uint64_t tries = a->quarantined_rows / (ROWS_AT_ONCE / 4) + 2;
    struct quarantine_status now;
    if (a->quarantined_rows == 0) return ERR_OK;
    enum err err = count_change(
        a->database, "UPDATE quarantine_size SET row_count = row_count + ?1, bytes = bytes + ?2",
        a->quarantined_rows, a->quarantined_bytes);
    a->quarantined_rows = a->quarantined_bytes = 0;
    for (; err == ERR_OK && tries > 0; tries--) {
        err = status_read(a->database, &now);
        if (err != ERR_OK || !is_over(&now)) return err;
        err = remove_oldest(a->database, INT64_MAX);
    }
    return err;
}

static bool is_due(const struct quarantine_status *q, uint64_t before_ms)
{
    return q->rows > 0 && (is_over(q) || q->oldest_ms < before_ms);
}

enum err quarantine_trim(struct store *s, uint64_t keep_ms, uint64_t now_ms, bool *ret_more,
                         struct fault *f)
{
    uint64_t before_ms = keep_ms == 0 || keep_ms > now_ms ? 0 : now_ms - keep_ms;
    struct quarantine_status now;
    *ret_more = false;
    enum err err = quarantine_status(s, &now, f);
    if (err != ERR_OK || !is_due(&now, before_ms)) return err;
    err = store_begin(s, f);
    if (err != ERR_OK) return err;
    err = status_read(s->database, &now); /* again, with the lock */
    if (err == ERR_OK && is_due(&now, before_ms))
        err = remove_oldest(s->database, is_over(&now) ? INT64_MAX : before_ms);
    err = store_end(s, store_fault(s, err, f), f);
    *ret_more = err == ERR_OK;
    return err;
}

enum err quarantine_status(struct store *s, struct quarantine_status *ret, struct fault *f)
{
    return store_fault(s, status_read(s->database, ret), f);
}
