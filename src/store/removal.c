#include "store/removal.h"

#include "base/check.h"
#include "base/time.h"
#include "crypto/base64.h"
#include "evidence/merkle.h"
#include "evidence/note.h"
#include "evidence/origin.h"
#include "evidence/verify.h"
#include "store/store_inside.h"

enum { FRONTIER_DIGITS_MAX = 4 * FRONTIER_BYTES_MAX / 3 + 8, NOTE_MAX = 8 << 10 };

struct tree_end { /* a tree up to the last removed record; base 0: none is known */
    uint64_t base;
    struct frontier leaves;
};

static void bind_stream(struct statement *q, const struct removal *r)
{
    bind_text(q, 1, r->node);
    bind_text(q, 2, r->journal);
    bind_u64(q, 3, r->end_seq);
}

/* The checkpoint that covers the last record. *ret_from: `leaves` are the ones below it. */
static enum err find_checkpoint(struct store *s, const struct removal *r, struct tree_end *ret,
                                uint64_t *ret_from)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT base, from_seq, frontier FROM checkpoints WHERE node = ?1 AND journal = ?2"
        " AND end_seq >= ?3 AND from_seq <= ?3 + 1 ORDER BY base DESC, end_seq LIMIT 1");
    uint8_t bytes[FRONTIER_DIGITS_MAX];
    size_t size;
    bind_stream(q, r);
    enum err err = statement_step(q);
    *ret = (struct tree_end){0};
    if (err == ERR_OK) {
        struct str digits = column_text(q, 2);
        *ret_from = column_u64(q, 1);
        if (digits.size <= sizeof bytes && base64_read(digits, bytes, &size) &&
            frontier_read(str_of((const char *)bytes, size), &ret->leaves))
            ret->base = column_u64(q, 0);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

/* Appends the records between. One that is not there (it is in quarantine) makes the end unknown. */
static enum err read_up(struct store *s, const struct removal *r, uint64_t from_seq,
                        struct tree_end *end)
{
    struct statement *q = database_statement(
        s->database, "SELECT seq, event FROM records WHERE node = ?1 AND journal = ?2"
                     " AND seq >= ?4 AND seq <= ?3 ORDER BY seq");
    struct hasher *h = hasher_create();
    uint64_t next = from_seq;
    enum err err;
    bind_stream(q, r);
    bind_u64(q, 4, from_seq);
    while ((err = statement_step(q)) == ERR_OK && column_u64(q, 0) == next) {
        struct sha256 leaf = merkle_leaf(h, column_text(q, 1));
        frontier_append(&end->leaves, h, &leaf);
        next++;
    }
    statement_reset(q);
    hasher_destroy(h);
    if (next != r->end_seq + 1) *end = (struct tree_end){0};
    return err == ERR_END ? ERR_OK : err;
}

/* The records from *from_seq on were dropped before: the note about them has the tree behind them. */
static enum err go_on_behind_note(struct store *s, const struct removal *r, struct tree_end *end,
                                  uint64_t *from_seq)
{
    struct statement *q =
        database_statement(s->database, "SELECT note FROM removals WHERE node = ?1 AND journal = ?2"
                                        " AND end_seq = ?3 ORDER BY number DESC LIMIT 1");
    struct verify_removal before;
    bind_stream(q, r);
    bind_u64(q, 3, r->from_seq - 1);
    enum err err = statement_step(q);
    if (err == ERR_OK && verify_read_removal(column_text(q, 0), &before) && before.has_tree &&
        before.base == end->base) {
        end->leaves = before.frontier;
        *from_seq = r->from_seq;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err find_end(struct store *s, const struct removal *r, struct tree_end *ret)
{
    uint64_t from_seq = 0;
    enum err err = find_checkpoint(s, r, ret, &from_seq);
    if (err == ERR_OK && ret->base > 0 && from_seq < r->from_seq)
        err = go_on_behind_note(s, r, ret, &from_seq);
    return err == ERR_OK && ret->base > 0 ? read_up(s, r, from_seq, ret) : err;
}

static void put_text(struct buf *out, const struct removal *r, const struct tree_end *end)
{
    char time[TIME_TEXT], bytes[FRONTIER_BYTES_MAX];
    struct buf frontier = buf_over(bytes, sizeof bytes);
    time_write(r->now_ms, time);
    origin_put_stream(out, r->node, r->journal);
    buf_printf(out, "\n%s\n%llu %llu\n%.*s\n", r->by_age ? "retention" : "gap",
               (unsigned long long)r->from_seq, (unsigned long long)r->end_seq, TIME_TEXT, time);
    if (end->base == 0) return;
    buf_printf(out, "%llu ", (unsigned long long)end->base);
    frontier_put(&frontier, &end->leaves);
    base64_put(out, buf_view(&frontier), 0);
    buf_put_byte(out, '\n');
}

static enum err insert(struct store *s, const struct removal *r, struct str note)
{
    struct statement *q = database_statement(
        s->database, "INSERT INTO removals (node, journal, end_seq, from_seq, note, created_at)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    bind_stream(q, r);
    bind_u64(q, 4, r->from_seq);
    bind_text(q, 5, note);
    bind_u64(q, 6, r->now_ms);
    return statement_run(q);
}

static enum err remove_checkpoints(struct store *s, const struct removal *r)
{
    struct statement *q = database_statement(
        s->database, "DELETE FROM checkpoints WHERE node = ?1 AND journal = ?2 AND end_seq < ?3");
    bind_stream(q, r);
    return statement_run(q);
}

enum err removal_note(struct store *s, const struct removal *r, struct fault *f)
{
    char text_bytes[NOTE_MAX], note_bytes[NOTE_MAX], name_bytes[STORE_LOG_ID_TEXT + 16];
    struct buf text = buf_over(text_bytes, sizeof text_bytes),
               note = buf_over(note_bytes, sizeof note_bytes),
               name = buf_over(name_bytes, sizeof name_bytes);
    struct tree_end end = {0};
    if (s->signer == NULL) return ERR_OK;
    check(r->end_seq >= r->from_seq);
    enum err err = r->by_age ? find_end(s, r, &end) : ERR_OK;
    if (err != ERR_OK) return store_fault(s, err, f);
    buf_printf(&name, "writ/platform/%s", s->log_id);
    put_text(&text, r, &end);
    if (!note_sign(&note, buf_view(&text), buf_view(&name), s->signer)) err = ERR_FULL;
    check(!text.overflow && !note.overflow && !name.overflow);
    if (err == ERR_OK) err = insert(s, r, buf_view(&note));
    if (err == ERR_OK && r->by_age) err = remove_checkpoints(s, r);
    return store_fault(s, err, f);
}
