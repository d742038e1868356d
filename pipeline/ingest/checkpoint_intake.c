#include "pipeline/ingest/checkpoint_intake.h"

#include "base/log.h"
#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/merkle.h"
#include "evidence/note.h"
#include "evidence/origin.h"
#include "store/engine_key.h"
#include "store/store_inside.h"

enum {
    CHECKPOINT_DIGITS_MAX = 8 << 10,
    ORIGIN_MAX = ORIGIN_BYTES_MAX + 8,
    REPLACE_MS = 1000, /* a newer checkpoint replaces one that is no older */
};

struct arrived {
    struct str note; /* its text, in `bytes` */
    struct str origin;
    uint64_t base, size;
    char bytes[CHECKPOINT_DIGITS_MAX];
};

/* NULL: the checkpoint is of this stream and fits the run. Else why it does not. */
static const char *read_checkpoint(const struct ingest_batch *b, uint64_t end_seq,
                                   struct arrived *to, struct note *ret_note)
{
    char prefix[ORIGIN_MAX];
    uint8_t frontier_bytes[CHECKPOINT_DIGITS_MAX];
    struct buf stream = buf_over(prefix, sizeof prefix);
    struct checkpoint c;
    struct frontier before;
    struct fault ignored;
    size_t size;
    if (b->checkpoint.note.size > CHECKPOINT_DIGITS_MAX ||
        !base64_read(b->checkpoint.note, (uint8_t *)to->bytes, &size))
        return "it is not base64";
    to->note = str_of(to->bytes, size);
    if (note_read(to->note, ret_note, &ignored) != ERR_OK ||
        checkpoint_read(ret_note->text, &c, &ignored) != ERR_OK || c.extensions.size > 0)
        return "it is not the signed note of a checkpoint";
    origin_put_stream(&stream, b->node, b->journal);
    buf_put_byte(&stream, '/');
    if (c.origin.size <= stream.size || !str_to_u64(str_skip(c.origin, stream.size), &to->base) ||
        to->base == 0)
        return "its origin has no base of a tree";
    buf_put_u64(&stream, to->base);
    if (!str_equal(c.origin, buf_view(&stream))) return "its origin is another stream's";
    to->origin = c.origin;
    to->size = c.size;
    if (c.size == 0 || to->base + c.size - 1 != end_seq)
        return "it does not end with the last record that came with it";
    if (b->checkpoint.from_seq < to->base || b->checkpoint.from_seq > end_seq + 1 ||
        b->checkpoint.frontier.size > CHECKPOINT_DIGITS_MAX ||
        !base64_read(b->checkpoint.frontier, frontier_bytes, &size) ||
        !frontier_read(str_of((const char *)frontier_bytes, size), &before) ||
        before.size != b->checkpoint.from_seq - to->base)
        return "its frontier is not that of the records before from_seq";
    return NULL;
}

/* ---- the signature ---- */

enum trust { TRUSTED, UNTRUSTED, FORGED };

static enum err verify(struct store *s, const struct ingest_batch *b, const struct arrived *c,
                       const struct note *note, enum trust *ret, struct fault *f)
{
    uint8_t keys[ENGINE_KEYS_MAX][ED25519_KEY_BYTES];
    size_t count;
    bool is_known;
    enum err err = engine_keys_of(s, b->node, b->journal, keys, &count, &is_known, f);
    if (err != ERR_OK) return err;
    *ret = is_known ? FORGED : UNTRUSTED;
    for (size_t i = 0; i < count && *ret != TRUSTED; i++) {
        const struct note_key key = note_key_of(c->origin, keys[i]);
        if (note_verify(note, &key) == NOTE_SIGNED) *ret = TRUSTED;
    }
    return ERR_OK;
}

/* ---- the row ---- */

struct newest {
    uint64_t end_seq, created_at; /* end_seq 0: none */
};

static void bind_tree(struct statement *q, const struct ingest_batch *b, uint64_t base)
{
    bind_text(q, 1, b->node);
    bind_text(q, 2, b->journal);
    bind_u64(q, 3, base);
}

static enum err find_newest(struct store *s, const struct ingest_batch *b, uint64_t base,
                            struct newest *ret)
{
    struct statement *q = database_statement(
        s->database, "SELECT end_seq, created_at FROM checkpoints WHERE node = ?1 AND journal = ?2"
                     " AND base = ?3 ORDER BY end_seq DESC LIMIT 1");
    bind_tree(q, b, base);
    enum err err = statement_step(q);
    *ret = (struct newest){0};
    if (err == ERR_OK) *ret = (struct newest){column_u64(q, 0), column_u64(q, 1)};
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err replace(struct store *s, const struct ingest_batch *b, const struct arrived *c,
                        uint64_t old_end, uint64_t end_seq)
{
    struct statement *q = database_statement(
        s->database,
        "UPDATE checkpoints SET end_seq = ?4, note = ?5 WHERE node = ?1 AND journal = ?2"
        " AND base = ?3 AND end_seq = ?6");
    bind_tree(q, b, c->base);
    bind_u64(q, 4, end_seq);
    bind_text(q, 5, c->note);
    bind_u64(q, 6, old_end);
    return statement_run(q);
}

static enum err insert(struct store *s, const struct ingest_batch *b, const struct arrived *c,
                       uint64_t end_seq)
{
    struct statement *q = database_statement(
        s->database,
        "INSERT INTO checkpoints (node, journal, base, end_seq, from_seq, frontier, note,"
        " created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        " ON CONFLICT (node, journal, base, end_seq) DO NOTHING");
    bind_tree(q, b, c->base);
    bind_u64(q, 4, end_seq);
    bind_u64(q, 5, b->checkpoint.from_seq);
    bind_text(q, 6, b->checkpoint.frontier);
    bind_text(q, 7, c->note);
    bind_u64(q, 8, b->now_ms);
    return statement_run(q);
}

static enum err store_it(struct store *s, const struct ingest_batch *b, const struct arrived *c,
                         uint64_t end_seq)
{
    struct newest newest;
    enum err err = find_newest(s, b, c->base, &newest);
    if (err != ERR_OK || newest.end_seq >= end_seq) return err;
    bool is_young = newest.end_seq > 0 && b->now_ms < newest.created_at + REPLACE_MS;
    /* without a record between that is in neither */
    bool is_next = b->checkpoint.from_seq <= newest.end_seq + 1;
    return is_young && is_next ? replace(s, b, c, newest.end_seq, end_seq)
                               : insert(s, b, c, end_seq);
}

static enum err refuse(struct store *s, const struct ingest_batch *b, uint64_t end_seq,
                       const char *why, struct ingest_result *ret)
{
    uint64_t held;
    ret->checkpoints_refused++;
    if (log_rate_allows(&s->checkpoint_alarms, b->now_ms, &held))
        log_text(LOG_ERROR, "checkpoint_refused",
                 "node %.*s journal %.*s, for record %llu: %s; %llu others were not logged",
                 STR_FORMAT(b->node), STR_FORMAT(b->journal), (unsigned long long)end_seq, why,
                 (unsigned long long)held);
    return ERR_OK;
}

enum err checkpoint_take(struct store *s, const struct ingest_batch *batch, uint64_t end_seq,
                         struct ingest_result *ret, struct fault *f)
{
    struct arrived arrived;
    struct note note;
    enum trust trust = FORGED;
    const char *why = read_checkpoint(batch, end_seq, &arrived, &note);
    if (why != NULL) return refuse(s, batch, end_seq, why, ret);
    enum err err = verify(s, batch, &arrived, &note, &trust, f);
    if (err != ERR_OK) return err;
    if (trust == FORGED)
        return refuse(s, batch, end_seq,
                      "none of the keys that are registered for it has signed it", ret);
    *(trust == TRUSTED ? &ret->checkpoints_trusted : &ret->checkpoints_untrusted) += 1;
    err = store_it(s, batch, &arrived, end_seq);
    return store_fault(s, err, f);
}
