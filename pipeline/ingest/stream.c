/* stream.c - an engine's batch, line by line. */
#include "pipeline/ingest/stream.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/planted.h"
#include "evidence/merkle.h"
#include "json/json.h"
#include "pipeline/ingest/checkpoint_intake.h"
#include "store/key_store.h"
#include "store/store_inside.h"
#include "store/streams.h"
#include "store/suspension.h"

enum {
    EVENT_ARENA_FIRST = 64 << 10,
    EVENT_ARENA_LIMIT = 16 << 20, /* worst case of an event of one-byte values */
};

/* A running batch. */
struct intake {
    struct store *store;
    const struct audit_store *audit;
    const struct ingest_batch *batch;
    struct ingest_result *result;
    struct fault *fault;
    struct buf copied;  /* a stored row's bytes */
    struct arena arena; /* of the first record of an epoch */
    uint64_t end_seq;   /* one past the batch's last record, after it was walked */
    bool is_new;        /* the stream has no row yet */
    bool needs_mac;
    bool owes_mac;     /* the batch's MAC is not checked yet: nothing may be committed before */
    struct buf leaves; /* if so: of the lines so far */
    uint64_t next_seq; /* as stored */
    char epoch_bytes[LIMIT_ID_CHARACTERS];
    struct str epoch; /* as stored; absent for a new stream */
};

static enum err failed(const struct intake *in, enum err err)
{
    return store_fault(in->store, err, in->fault);
}

static struct audit_source source_of(const struct intake *in, uint64_t seq)
{
    const struct ingest_batch *b = in->batch;
    return (struct audit_source){
        .node = b->node, .journal = b->journal, .epoch = b->epoch, .seq = seq};
}

static void alarm_log(struct store *s, const struct audit_quarantined *q)
{
    uint64_t held;
    if (!log_rate_allows(&s->alarms[q->reason], q->created_at, &held)) return;
    log_text(LOG_ERROR, "ingest_quarantined",
             "%s: node %.*s journal %.*s seq %llu; %llu others were not logged",
             audit_reason_name(q->reason), STR_FORMAT(q->source.node),
             STR_FORMAT(q->source.journal), (unsigned long long)q->source.seq,
             (unsigned long long)held);
}

enum err ingest_quarantine(struct store *s, const struct audit_quarantined *q, struct fault *f)
{
    const struct audit_store *audit = store_audit(s);
    alarm_log(s, q);
    enum err err = audit->ops->quarantine(audit->state, q);
    return store_fault(s, err, f);
}

static enum err quarantine(struct intake *in, uint64_t seq, struct str line,
                           enum audit_reason reason)
{
    const struct ingest_result *r = in->result;
    if (r->invalid + r->clashes > LIMIT_INGEST_WRONG_LINES)
        return fault_set(
            in->fault, ERR_OUT_OF_RANGE, "",
            "line %llu: more than %d lines of this batch are not valid events, or contradict stored records; "
            "nothing of it was stored. Send fewer lines at once",
            (unsigned long long)(seq - in->batch->first_seq + 1), LIMIT_INGEST_WRONG_LINES);
    const struct audit_quarantined q = {.reason = reason,
                                        .source = source_of(in, seq),
                                        .bytes = line,
                                        .created_at = in->batch->now_ms};
    return ingest_quarantine(in->store, &q, in->fault);
}

static enum err clash(struct intake *in, uint64_t seq, struct str line, enum audit_reason reason)
{
    in->result->clashes++;
    return quarantine(in, seq, line, reason);
}

/* A record that was stored before: the same bytes are a duplicate, others a clash. A record that
 * was quarantined the first time is still in quarantine. */
static enum err line_again(struct intake *in, uint64_t seq, struct str line)
{
    const struct audit_source source = source_of(in, seq);
    struct audit_stored stored;
    enum err err = in->audit->ops->by_seq(in->audit->state, &source, &stored);
    bool same = err == ERR_OK && str_equal(stored.bytes, line), absent = err == ERR_NOT_FOUND;
    if (absent) err = in->audit->ops->is_quarantined(in->audit->state, &source, line, &same);
    /* a record that is not stored any more cannot be compared */
    if (err == ERR_OK && !same && absent)
        err = in->audit->ops->is_dropped(in->audit->state, &source, &same);
    if (err != ERR_OK) return failed(in, err);
    if (!same) return clash(in, seq, line, REASON_CLASH);
    in->result->duplicates++;
    return ERR_OK;
}

static enum err insert(struct intake *in, uint64_t seq, struct str line, const struct event *event)
{
    const struct audit_row row = {.bytes = line,
                                  .event = event,
                                  .source = source_of(in, seq),
                                  .created_at = in->batch->now_ms};
    uint64_t id;
    enum err err = in->audit->ops->insert(in->audit->state, &row, &id);
    if (err == ERR_OK) in->result->accepted++;
    return err;
}

/* The row with the key was dropped by age, and is removed. */
static enum err insert_after_all(struct intake *in, uint64_t seq, struct str line,
                                 const struct event *event)
{
    enum err err = insert(in, seq, line, event);
    if (err == ERR_EXISTS) return clash(in, seq, line, REASON_CLASH);
    return err == ERR_OK ? suspension_note(in->store, event, in->fault) : failed(in, err);
}

static bool same_place(const struct audit_source *a, const struct audit_source *b)
{
    return a->seq == b->seq && str_equal(a->node, b->node) && str_equal(a->journal, b->journal) &&
           str_equal(a->epoch, b->epoch);
}

/* What a person posted under a record's key is no record. It goes to quarantine (its bytes are in
 * in->copied), and the record takes its place. *ret: it did. */
static enum err posted_makes_way(struct intake *in, uint64_t seq, uint64_t id, struct str line,
                                 const struct event *event, bool *ret)
{
    enum err err = in->audit->ops->displace(in->audit->state, id, ret);
    if (err != ERR_OK || !*ret) return failed(in, err);
    err = clash(in, seq, buf_view(&in->copied), REASON_EVENT_CLASH);
    in->result->displaced++;
    if (err == ERR_OK) err = insert_after_all(in, seq, line, event);
    if (err != ERR_OK) return err;
    err = in->audit->ops->displaced(in->audit->state, id);
    return failed(in, err);
}

/* Another row has this event's key. If a row has the same bytes and no source (a person restored
 * it), it is this record, and gets its source. If a row has this source, it is this record, too
 * (the stream was forgotten). Anything else is a clash, which the record wins over a posted row. */
static enum err key_taken(struct intake *in, uint64_t seq, struct str line,
                          const struct event *event)
{
    const struct audit_source source = source_of(in, seq);
    struct audit_stored stored;
    bool made_way = false;
    enum err err = in->audit->ops->by_event(in->audit->state, event, &stored);
    if (err == ERR_NOT_FOUND) return clash(in, seq, line, REASON_EVENT_CLASH);
    if (err != ERR_OK) return failed(in, err);
    bool has_place = !str_is_absent(stored.source.node);
    bool same =
        str_equal(stored.bytes, line) && (!has_place || same_place(&stored.source, &source));
    bool yields = !same && !has_place && in->batch->is_authenticated;
    buf_clear(&in->copied);
    if (yields) buf_put(&in->copied, stored.bytes);
    err = in->copied.overflow ? ERR_FULL
                              : in->audit->ops->forget(in->audit->state, stored.id, &made_way);
    if (err != ERR_OK) return failed(in, err);
    if (made_way) return insert_after_all(in, seq, line, event);
    if (yields) err = posted_makes_way(in, seq, stored.id, line, event, &made_way);
    if (err != ERR_OK || made_way) return err;
    if (!same) return clash(in, seq, line, REASON_EVENT_CLASH);
    if (!has_place) err = in->audit->ops->adopt(in->audit->state, stored.id, &source);
    if (err != ERR_OK) return failed(in, err);
    in->result->duplicates++;
    return suspension_note(in->store, event, in->fault);
}

/* The same, for a row that was counted as accepted before the store detected it. */
static enum err taken_after_all(void *intake, const struct audit_source *source, struct str bytes)
{
    struct intake *in = intake;
    struct event event;
    struct fault why;
    in->result->accepted--;
    arena_reset(&in->arena);
    enum err err = event_read(bytes, &in->arena, &event, &why); /* as it was read before */
    return err == ERR_OK ? key_taken(in, source->seq, bytes, &event) : failed(in, err);
}

/* A fault from taken_after_all() is kept. */
static enum err settle(struct intake *in)
{
    in->fault->text[0] = '\0';
    enum err err = in->audit->ops->settle(in->audit->state, taken_after_all, in);
    return err == ERR_OK || in->fault->text[0] != '\0' ? err : failed(in, err);
}

/* Whether this record is the engine.started or leader.changed that joins the batch's epoch to the stored one. */
static bool joins_epoch(struct intake *in, const struct event *event)
{
    if (!event_kind_begins_epoch(event->kind)) return false;
    struct str epoch = {0};
    uint64_t seq = 0;
    if (!str_is_absent(event->previous)) {
        struct json *previous;
        if (json_read(event->previous, NULL, &in->arena, &previous, NULL) != ERR_OK) return false;
        epoch = json_text(previous, STR("epoch"));
        seq = json_u64(previous, STR("seq"), 0);
    }
    if (in->is_new) return seq == 0;
    return seq == in->next_seq - 1 && str_equal(epoch, in->epoch);
}

static enum err check_epoch(struct intake *in, const struct event *event)
{
    if (!in->is_new && str_equal(in->batch->epoch, in->epoch)) return ERR_OK;
    if (event != NULL && joins_epoch(in, event)) return ERR_OK;
    return fault_set(in->fault, ERR_EPOCH_UNKNOWN, "",
                     "epoch %.*s does not follow the stored one: record %llu must be "
                     "engine.started (of a fleet, leader.changed) with previous "
                     "{epoch: \"%.*s\", seq: %llu}",
                     STR_FORMAT(in->batch->epoch), (unsigned long long)in->next_seq,
                     STR_FORMAT(in->epoch), (unsigned long long)in->next_seq - 1);
}

/* Records that belong to no tenant have the tenant `default`: an engine's start and end, the leaders
 * of a fleet, signing keys, and requests with unknown keys. */
static bool is_of_the_engine(const struct event *e)
{
    return str_equal(e->tenant_id, STR("default")) &&
           (str_starts(e->kind, STR("engine.")) || str_equal(e->kind, STR("leader.changed")) ||
            str_equal(e->kind, STR("signer.rotated")) || str_equal(e->kind, STR("auth.failed")));
}

static enum err line_insert(struct intake *in, uint64_t seq, const struct decoded *d)
{
    enum err err = insert(in, seq, d->line, &d->event);
    if (err != ERR_EXISTS) return failed(in, err);
    /* Settle the lines before it first: of two events, the first one gets the key. */
    err = settle(in);
    return err == ERR_OK ? key_taken(in, seq, d->line, &d->event) : err;
}

/* A word of the kill switch counts if its record is stored. A store that detects duplicates late
 * has to do so before, and for this line alone. */
static enum err suspension_new(struct intake *in, uint64_t seq, const struct decoded *d)
{
    enum err err = settle(in);
    uint64_t accepted = in->result->accepted;
    if (err == ERR_OK) err = line_insert(in, seq, d);
    if (err == ERR_OK) err = settle(in);
    bool is_stored = err == ERR_OK && in->result->accepted > accepted;
    return is_stored ? suspension_note(in->store, &d->event, in->fault) : err;
}

static enum err line_new(struct intake *in, uint64_t seq, const struct decoded *d)
{
    if (seq == in->next_seq) {
        enum err err = check_epoch(in, d->is_valid ? &d->event : NULL);
        if (err != ERR_OK) return err;
    }
    if (!d->is_valid) {
        arena_reset(&in->arena);
        if (in->batch->holds_newer && event_is_later(d->line, &in->arena))
            return fault_set(
                in->fault, ERR_NEWER_RECORD, "",
                "record %llu has a member or a kind that this platform does not know: its engine is newer, and keeps it "
                "until this platform is upgraded, too",
                (unsigned long long)seq);
        in->result->invalid++;
        return quarantine(in, seq, d->line, REASON_INVALID);
    }
    /* The text goes into the engine's /healthz, so it does not name the tenant. */
    if (!globs_match(in->batch->tenants, d->event.tenant_id) && !is_of_the_engine(&d->event))
        return fault_set(in->fault, ERR_WRONG_TENANT, "",
                         "record %llu: this key may not write for that record's tenant",
                         (unsigned long long)seq);
    if (suspension_is_noted(&d->event)) return suspension_new(in, seq, d);
    return line_insert(in, seq, d);
}

static enum err read_position(struct intake *in)
{
    struct audit_stream stream;
    enum err err =
        in->audit->ops->stream_get(in->audit->state, in->batch->node, in->batch->journal, &stream);
    in->is_new = err == ERR_NOT_FOUND;
    in->needs_mac = in->is_new || stream.is_authenticated;
    in->next_seq = 1;
    if (in->is_new) return ERR_OK;
    if (err != ERR_OK) return failed(in, err);
    in->next_seq = stream.next_seq;
    check(stream.epoch.size <= sizeof in->epoch_bytes);
    memcpy(in->epoch_bytes, stream.epoch.bytes, stream.epoch.size);
    in->epoch = str_of(in->epoch_bytes, stream.epoch.size);
    return ERR_OK;
}

static enum err move_position(struct intake *in, uint64_t next_seq)
{
    const struct ingest_batch *b = in->batch;
    const struct audit_stream from = {
        .node = b->node, .journal = b->journal, .epoch = in->epoch, .next_seq = in->next_seq};
    const struct audit_stream to = {.node = b->node,
                                    .journal = b->journal,
                                    .epoch = b->epoch,
                                    .next_seq = next_seq,
                                    .is_authenticated = b->is_authenticated};
    enum err err = in->audit->ops->stream_move(in->audit->state, in->is_new ? NULL : &from, &to);
    if (err == ERR_PRECONDITION_FAILED)
        return fault_set(in->fault, ERR_STORE_UNAVAILABLE, "",
                         "another ingester moved this stream meanwhile");
    return failed(in, err);
}

static enum err bad_mac(struct fault *f)
{
    return fault_set(f, ERR_BAD_MAC, "",
                     "Writ-Mac: does not fit these records; nothing of them was stored. Check that "
                     "the engine and the platform have the same pepper_file");
}

static struct sha256 mac_of(struct hasher *h, const struct hmac_key *key,
                            const struct ingest_batch *batch, const struct sha256 *leaves,
                            uint64_t count)
{
    const struct run run = {.epoch = batch->epoch,
                            .first_seq = batch->first_seq,
                            .count = count,
                            .leaves = leaves,
                            .checkpoint = batch->checkpoint};
    return run_mac(h, key, &run);
}

/* Whether a MAC could be made of it at all. */
static bool may_have_mac(const struct store *s, const struct ingest_batch *batch)
{
    return s->has_set_keys && batch->epoch.size == RUN_EPOCH_BYTES && batch->node.size > 0 &&
           batch->node.size <= LIMIT_ID_CHARACTERS && batch->journal.size <= LIMIT_ID_CHARACTERS;
}

static const struct hmac_key *key_of(struct store *s, const struct ingest_batch *batch)
{
    struct last_run_key *last = &s->run_key;
    if (str_equal(batch->node, str_of(last->node, last->node_size)) &&
        str_equal(batch->journal, str_of(last->journal, last->journal_size)))
        return &last->key;
    struct sha256 key = run_key(&s->record_key, batch->node, batch->journal);
    last->key = run_key_prepare(s->hasher, &key);
    memory_wipe(&key, sizeof key);
    memcpy(last->node, batch->node.bytes, last->node_size = batch->node.size);
    memcpy(last->journal, batch->journal.bytes, last->journal_size = batch->journal.size);
    return &last->key;
}

bool ingest_mac_fits(struct store *s, const struct ingest_batch *batch, const struct sha256 *leaves,
                     uint64_t count)
{
    struct sha256 given;
    if (!may_have_mac(s, batch) || !sha256_read_hex(batch->mac, &given)) return false;
    const struct sha256 mac = mac_of(s->hasher, key_of(s, batch), batch, leaves, count);
    return bytes_equal_secret(mac.bytes, given.bytes, sizeof mac.bytes);
}

static void put_leaf(struct buf *leaves, const struct sha256 *leaf)
{
    buf_put(leaves, str_of((const char *)leaf->bytes, sizeof leaf->bytes));
}

static const struct sha256 *leaves_of(const struct buf *leaves, uint64_t *ret_count)
{
    check(!leaves->overflow); /* check_lines() */
    *ret_count = leaves->size / sizeof(struct sha256);
    return (const struct sha256 *)(const void *)leaves->bytes;
}

static enum err leaves_fit(struct store *s, const struct ingest_batch *batch,
                           const struct buf *leaves, struct fault *f)
{
    uint64_t count;
    if (leaves->overflow) return fault_plain(f, ERR_FULL); /* of memory */
    const struct sha256 *list = leaves_of(leaves, &count);
    return ingest_mac_fits(s, batch, list, count) ? ERR_OK : bad_mac(f);
}

static void put_leaves(struct buf *leaves, struct hasher *h, struct str body)
{
    struct str line;
    while (body.size > 0 && str_split(&body, '\n', &line)) {
        const struct sha256 leaf = merkle_leaf(h, line);
        put_leaf(leaves, &leaf);
    }
}

/* All lines were walked. */
static enum err settle_mac(struct intake *in)
{
    if (!in->owes_mac) return ERR_OK;
    in->owes_mac = false;
    return leaves_fit(in->store, in->batch, &in->leaves, in->fault);
}

static enum err check_mac(struct intake *in)
{
    if (in->batch->is_authenticated || !in->needs_mac) return ERR_OK;
    return fault_set(
        in->fault, ERR_BAD_MAC, "",
        "record %llu has no MAC, and this stream needs one: an engine of an older version "
        "sent it, or another program",
        (unsigned long long)in->end_seq);
}

/* The new lines, decoded a little ahead; in->end_seq advances with them. */
static enum err take_new(struct intake *in, struct str lines)
{
    struct decoder *decoder = in->store->decoder;
    const struct decoded *list;
    enum err err = ERR_OK;
    decoder_begin(decoder, lines, in->owes_mac);
    for (size_t count; err == ERR_OK && (count = decoder_next(decoder, &list)) > 0;)
        for (size_t i = 0; i < count && err == ERR_OK; i++) {
            if (in->owes_mac) put_leaf(&in->leaves, &list[i].leaf);
            err = line_new(in, in->end_seq++, &list[i]);
        }
    decoder_end(decoder);
    if (err == ERR_OK) err = settle_mac(in);
    return err == ERR_OK ? settle(in) : err;
}

/* The lines that are stored already. */
static enum err take_again(struct intake *in, struct str *rest)
{
    struct str line;
    enum err err = ERR_OK;
    while (err == ERR_OK && in->end_seq < in->next_seq && !planted("no_dedupe") && rest->size > 0 &&
           str_split(rest, '\n', &line)) {
        if (in->owes_mac) put_leaves(&in->leaves, in->store->hasher, line);
        err = line_again(in, in->end_seq++, line);
    }
    return err;
}

static enum err take_lines(struct intake *in)
{
    struct str rest = in->batch->body;
    enum err err = take_again(in, &rest);
    if (err == ERR_OK && rest.size > 0) err = check_mac(in);
    if (err == ERR_OK) err = take_new(in, rest);
    /* nothing new: the position stays */
    if (err != ERR_OK || in->end_seq <= in->next_seq) return err;
    if (planted("position_apart")) return ERR_OK;
    return move_position(in, in->end_seq);
}

#ifdef WRIT_PLANTED_BUGS
/* The planted bug: the position is committed before its rows. */
static enum err position_apart(struct intake *in)
{
    uint64_t next = in->batch->first_seq;
    struct str rest = in->batch->body, line;
    while (rest.size > 0 && str_split(&rest, '\n', &line)) next++;
    if (!planted("position_apart") || next <= in->next_seq) return ERR_OK;
    enum err err = move_position(in, next);
    if (err == ERR_OK) err = in->audit->ops->commit(in->audit->state);
    if (err == ERR_OK) err = in->audit->ops->begin(in->audit->state);
    return err;
}
#else
static enum err position_apart(struct intake *in)
{
    (void)in;
    return ERR_OK;
}
#endif

static enum err batch_take(struct intake *in)
{
    enum err err = read_position(in);
    if (err != ERR_OK) return err;
    in->result->next_seq = in->next_seq;
    in->end_seq = in->batch->first_seq;
    if (in->batch->first_seq > in->next_seq) err = check_mac(in); /* a gap has consequences */
    if (err != ERR_OK) return err;
    if (in->batch->first_seq > in->next_seq)
        return fault_set(
            in->fault, ERR_STREAM_GAP, "",
            "the batch begins at record %llu, but %llu is expected next: send from there",
            (unsigned long long)in->batch->first_seq, (unsigned long long)in->next_seq);
    if (in->is_new) err = stream_room(in->store, in->batch->node, in->fault);
    if (err == ERR_OK) err = position_apart(in);
    return err == ERR_OK ? take_lines(in) : err;
}

/* Before anything is locked, so that an invalid batch does not delay others. */
static enum err check_lines(const struct ingest_batch *b, struct fault *f)
{
    struct str rest = b->body, line;
    for (uint64_t n = 1; rest.size > 0 && str_split(&rest, '\n', &line); n++) {
        if (n > LIMIT_INGEST_LINES)
            return fault_set(
                f, ERR_OUT_OF_RANGE, "",
                "line %llu: a batch has at most %d lines; nothing of it was stored. Send it in parts",
                (unsigned long long)n, LIMIT_INGEST_LINES);
        if (line.size == 0)
            return fault_set(
                f, ERR_BAD_VALUE, "",
                "line %llu: is empty, and each line is a record; nothing of the batch was stored",
                (unsigned long long)n);
    }
    return ERR_OK;
}

static enum err check_batch(const struct ingest_batch *b, struct fault *f)
{
    if (b->first_seq == 0)
        return fault_set(f, ERR_BAD_HEADER, "", "Writ-First-Seq: records are numbered from 1");
    const struct str names[] = {b->node, b->journal, b->epoch};
    static const char *const headers[] = {"Writ-Node", "Writ-Journal", "Writ-Epoch"};
    for (size_t i = 0; i < 3; i++)
        if (names[i].size == 0 || names[i].size > LIMIT_ID_CHARACTERS ||
            !str_is_utf8(names[i], &(size_t){0}))
            return fault_set(f, ERR_BAD_HEADER, "", "%s: must be 1 to %d bytes of UTF-8",
                             headers[i], LIMIT_ID_CHARACTERS);
    if (!str_to_u64_hex(b->epoch, &(uint64_t){0}))
        return fault_set(f, ERR_BAD_HEADER, "", "Writ-Epoch: must be 16 lowercase hex digits");
    if (b->first_seq > INT64_MAX - LIMIT_INGEST_BODY_BYTES)
        return fault_set(f, ERR_BAD_HEADER, "", "Writ-First-Seq: out of range");
    return check_lines(b, f);
}

/* *ret_before: the stream's earlier position. `owes_mac`: batch->mac has to be checked. */
static enum err take_within(struct store *s, const struct ingest_batch *batch, bool owes_mac,
                            struct ingest_result *ret, uint64_t *ret_before, struct fault *f)
{
    struct intake in = {.store = s,
                        .audit = store_audit(s),
                        .batch = batch,
                        .result = ret,
                        .fault = f,
                        .owes_mac = owes_mac};
    arena_init(&in.arena, EVENT_ARENA_FIRST, EVENT_ARENA_LIMIT);
    buf_init(&in.copied, 0, QUARANTINED_BYTES);
    buf_init(&in.leaves, 0, LIMIT_INGEST_LINES * sizeof(struct sha256));
    enum err err = batch_take(&in);
    /* What is wrong with records counts only if they are an engine's. */
    if (err != ERR_OK && in.owes_mac) {
        buf_clear(&in.leaves);
        put_leaves(&in.leaves, s->hasher, batch->body);
        enum err of_mac = leaves_fit(s, batch, &in.leaves, f);
        if (of_mac != ERR_OK) err = of_mac;
    }
    buf_fini(&in.leaves);
    buf_fini(&in.copied);
    arena_fini(&in.arena);
    *ret_before = ret->next_seq;
    if (err == ERR_OK && batch->is_authenticated && batch->checkpoint.from_seq > 0 &&
        in.end_seq > batch->first_seq)
        err = checkpoint_take(s, batch, in.end_seq - 1, ret, f);
    if (err == ERR_OK && in.end_seq > ret->next_seq) ret->next_seq = in.end_seq;
    return err;
}

enum err ingest_stream_within(struct store *s, const struct ingest_batch *batch,
                              struct ingest_result *ret, struct fault *f)
{
    uint64_t before;
    *ret = (struct ingest_result){0};
    enum err err = check_batch(batch, f);
    return err == ERR_OK ? take_within(s, batch, false, ret, &before, f) : err;
}

struct sha256 ingest_mac(const struct sha256 *of_all, const struct ingest_batch *batch)
{
    struct hasher *h = hasher_create();
    struct buf leaves;
    uint64_t count;
    buf_init(&leaves, 1 << 10, LIMIT_INGEST_LINES * sizeof(struct sha256));
    put_leaves(&leaves, h, batch->body);
    const struct sha256 raw = run_key(of_all, batch->node, batch->journal);
    const struct hmac_key key = run_key_prepare(h, &raw);
    const struct sha256 *list = leaves_of(&leaves, &count);
    const struct sha256 mac = mac_of(h, &key, batch, list, count);
    buf_fini(&leaves);
    hasher_destroy(h);
    return mac;
}

enum err ingest_stream(struct store *s, const struct ingest_batch *given, struct ingest_result *ret,
                       struct fault *f)
{
    uint64_t before = 0;
    struct ingest_batch batch = *given;
    *ret = (struct ingest_result){0};
    enum err err = check_batch(&batch, f);
    /* so far; it is checked while the lines are stored, and before they are committed */
    batch.is_authenticated = !str_is_absent(batch.mac);
    if (err == ERR_OK && batch.is_authenticated && !may_have_mac(s, &batch)) return bad_mac(f);
    if (err == ERR_OK) err = key_store_begin(s, batch.key_id, f);
    if (err != ERR_OK) return err;
    err = take_within(s, &batch, batch.is_authenticated, ret, &before, f);
    err = store_end(s, err, f);
    /* Nothing was stored, whatever was counted. */
    if (err != ERR_OK) *ret = (struct ingest_result){.next_seq = before};
    return err;
}
