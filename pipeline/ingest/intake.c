/* intake.c - messages into rows: runs, gaps, invalid messages. See consume.h for the cases.
 *
 * The offsets are compared and set first: a platform that has lost a partition detects it before it
 * writes a row. Neighbours of one stream (same node, journal and epoch, seqs without a gap) make a
 * run, which is ingested like a posted batch. A run is no longer than the limit of wrong
 * lines in a batch, since a run is never refused. */
#include "pipeline/ingest/intake.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/planted.h"
#include "evidence/merkle.h"
#include "pipeline/ingest/stream.h"
#include "store/store_inside.h"

struct run_of_messages {
    struct topic_position first;
    uint64_t count;
    bool is_authenticated;
    struct run_checkpoint checkpoint; /* of its last message, which ends it */
};

struct tally { /* counted after the transaction has committed */
    uint64_t accepted, duplicates, clashes, invalid, poison, gaps, replays, unauthenticated;
    uint64_t trusted, untrusted, refused; /* checkpoints */
};

struct taking {
    struct message_intake *in;
    uint64_t now_ms;
    struct run_of_messages run;
    struct tally tally;
    struct fault *fault;
};

static struct str every[] = {STR("*")};
/* any writer of the topic may write for all tenants */
static const struct globs all_tenants = {every, 1};

/* ---- runs ---- */

static enum err ask_again(struct taking *t, uint64_t from_seq)
{
    bool asked;
    const struct topic_position *p = &t->run.first;
    const struct audit_stream missing = {
        .node = p->node, .journal = p->journal, .next_seq = from_seq};
    t->tally.gaps++;
    enum err err = consumer_store_ask(t->in->store, &missing, world_monotonic_ns() / 1000000,
                                      t->now_ms, &asked, t->fault);
    if (err != ERR_OK || !asked) return err;
    t->tally.replays++;
    uint64_t held;
    if (log_rate_allows(&t->in->gaps_logged, t->now_ms, &held))
        log_text(
            LOG_WARNING, "consume_gap",
            "node %.*s journal %.*s: record %llu came, but %llu is expected; its engine is asked to send "
            "the missing ones again; %llu others were not logged",
            STR_FORMAT(p->node), STR_FORMAT(p->journal), (unsigned long long)p->seq,
            (unsigned long long)from_seq, (unsigned long long)held);
    return ERR_OK;
}

/* Another history under the stream's name, or a stream above the limits: its records are
 * quarantined, for an operator to examine. */
static enum err keep_aside(struct taking *t, uint64_t from_seq, enum audit_reason reason)
{
    struct str rest = buf_view(&t->in->run), line;
    enum err err = ERR_OK;
    for (uint64_t seq = t->run.first.seq;
         err == ERR_OK && rest.size > 0 && str_split(&rest, '\n', &line); seq++) {
        if (seq < from_seq) continue; /* already compared */
        const struct topic_position *p = &t->run.first;
        struct audit_quarantined q = {
            .reason = reason,
            .bytes = line,
            .created_at = t->now_ms,
            .source = {.node = p->node, .journal = p->journal, .epoch = p->epoch, .seq = seq}};
        *(reason == REASON_EPOCH ? &t->tally.clashes
          : reason == REASON_MAC ? &t->tally.unauthenticated
                                 : &t->tally.invalid) += 1;
        err = ingest_quarantine(t->in->store, &q, t->fault);
    }
    return err;
}

static enum err run_end(struct taking *t)
{
    if (t->run.count == 0) return ERR_OK;
    const struct topic_position *p = &t->run.first;
    struct ingest_batch batch = {.node = p->node,
                                 .journal = p->journal,
                                 .epoch = p->epoch,
                                 .first_seq = p->seq,
                                 .body = buf_view(&t->in->run),
                                 .tenants = &all_tenants,
                                 .now_ms = t->now_ms,
                                 .checkpoint = t->run.checkpoint,
                                 .is_authenticated = t->run.is_authenticated};
    struct ingest_result r;
    enum err err = ingest_stream_within(t->in->store, &batch, &r, t->fault);
    t->tally.accepted += r.accepted;
    t->tally.duplicates += r.duplicates;
    t->tally.clashes += r.clashes;
    t->tally.invalid += r.invalid;
    t->tally.trusted += r.checkpoints_trusted;
    t->tally.untrusted += r.checkpoints_untrusted;
    t->tally.refused += r.checkpoints_refused;
    if (err == ERR_STREAM_GAP) err = ask_again(t, r.next_seq);
    if (err == ERR_EPOCH_UNKNOWN) err = keep_aside(t, r.next_seq, REASON_EPOCH);
    if (err == ERR_BAD_MAC) err = keep_aside(t, r.next_seq, REASON_MAC);
    if (err == ERR_NODE_FULL) err = keep_aside(t, r.next_seq, REASON_NODE_FULL);
    t->run.count = 0;
    buf_clear(&t->in->run);
    return err;
}

static bool continues(const struct run_of_messages *r, const struct topic_position *p,
                      bool is_authenticated)
{
    return r->count > 0 && r->count < LIMIT_INGEST_WRONG_LINES &&
           r->is_authenticated == is_authenticated && r->checkpoint.from_seq == 0 &&
           p->seq == r->first.seq + r->count && str_equal(p->epoch, r->first.epoch) &&
           str_equal(p->node, r->first.node) && str_equal(p->journal, r->first.journal);
}

/* ---- messages ---- */

/* A message without a record's position is quarantined under its own position in the topic. */
static enum err poison(struct taking *t, const struct message *m, const char *why)
{
    char partition[16];
    snprintf(partition, sizeof partition, "%u", m->partition);
    uint64_t held;
    if (log_rate_allows(&t->in->poison_logged, t->now_ms, &held))
        log_text(LOG_ERROR, "consume_poison",
                 "partition %u offset %llu, %zu bytes: %s; %llu others were not logged",
                 m->partition, (unsigned long long)m->offset, m->value.size, why,
                 (unsigned long long)held);
    struct audit_quarantined q = {.reason = REASON_POISON,
                                  .bytes = str_is_absent(m->value) ? STR("") : m->value,
                                  .created_at = t->now_ms,
                                  .source = {.node = t->in->topic,
                                             .journal = str_from(partition),
                                             .epoch = STR(""),
                                             .seq = m->offset}};
    t->tally.poison++;
    return ingest_quarantine(t->in->store, &q, t->fault);
}

/* A message whose MAC is wrong is in no stream: its position may be an invention. */
static enum err forged(struct taking *t, const struct message *m, const struct topic_position *p)
{
    enum err err = run_end(t);
    const struct audit_quarantined q = {
        .reason = REASON_MAC,
        .bytes = m->value,
        .created_at = t->now_ms,
        .source = {.node = p->node, .journal = p->journal, .epoch = p->epoch, .seq = p->seq}};
    t->tally.unauthenticated++;
    return err == ERR_OK ? ingest_quarantine(t->in->store, &q, t->fault) : err;
}

static struct run_checkpoint checkpoint_of(const struct topic_headers *h)
{
    struct run_checkpoint c = {.note = h->checkpoint, .frontier = h->frontier};
    if (!str_to_u64(h->from_seq, &c.from_seq)) c.from_seq = 0;
    return c;
}

static bool mac_fits(const struct taking *t, const struct message *m,
                     const struct topic_position *p)
{
    const struct ingest_batch alone = {.node = p->node,
                                       .journal = p->journal,
                                       .epoch = p->epoch,
                                       .first_seq = p->seq,
                                       .mac = m->headers.mac,
                                       .checkpoint = checkpoint_of(&m->headers)};
    const struct sha256 leaf = merkle_leaf(t->in->store->hasher, m->value);
    return ingest_mac_fits(t->in->store, &alone, &leaf, 1);
}

static enum err take(struct taking *t, const struct message *m)
{
    struct topic_position place;
    const char *why = NULL;
    bool fine = topic_position_read(&m->headers, &place, &why);
    if (fine && (m->value.size == 0 || m->value.size > CONSUME_BYTES_MAX ||
                 memchr(m->value.bytes, '\n', m->value.size) != NULL)) {
        fine = false;
        why = "the value is not one line of JSON";
    }
    if (!fine) {
        enum err err = run_end(t);
        return err == ERR_OK ? poison(t, m, why) : err;
    }
    bool has_mac = !str_is_absent(m->headers.mac);
    if (has_mac && !mac_fits(t, m, &place)) return forged(t, m, &place);
    if (!continues(&t->run, &place, has_mac) ||
        t->in->run.size + m->value.size >= CONSUME_BYTES_MAX) {
        enum err err = run_end(t);
        if (err != ERR_OK) return err;
        t->run = (struct run_of_messages){.first = place, .is_authenticated = has_mac};
    }
    if (has_mac) t->run.checkpoint = checkpoint_of(&m->headers);
    buf_put_both(&t->in->run, m->value, STR("\n"));
    t->run.count++;
    return t->in->run.overflow ? fault_plain(t->fault, ERR_FULL) : ERR_OK;
}

static enum err move_offsets(struct taking *t, const struct offset_move *moves, size_t count,
                             uint32_t *ret_lost)
{
    for (size_t i = 0; i < count; i++) {
        enum err err = consumer_store_move(t->in->store, t->in->topic, t->in->owner, &moves[i],
                                           t->now_ms, t->fault);
        if (err == ERR_PRECONDITION_FAILED) *ret_lost = moves[i].partition;
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}

static void count(struct message_intake *in, const struct tally *y, size_t messages,
                  uint64_t begin_ns)
{
    metric_add(in->sheet, METRIC_CONSUMER_MESSAGES, messages);
    metric_add(in->sheet, METRIC_CONSUMER_POISON, y->poison);
    metric_add(in->sheet, METRIC_CONSUMER_REPLAYS, y->replays);
    metric_add(in->sheet, METRIC_INGEST_EVENTS, y->accepted);
    metric_add(in->sheet, METRIC_INGEST_DUPLICATES, y->duplicates);
    metric_add(in->sheet, METRIC_INGEST_CLASHES, y->clashes);
    metric_add(in->sheet, METRIC_INGEST_INVALID, y->invalid);
    metric_add(in->sheet, METRIC_INGEST_UNAUTHENTICATED, y->unauthenticated);
    metric_add(in->sheet, METRIC_INGEST_GAPS, y->gaps);
    metric_add(in->sheet, METRIC_CHECKPOINTS_TRUSTED, y->trusted);
    metric_add(in->sheet, METRIC_CHECKPOINTS_UNTRUSTED, y->untrusted);
    metric_add(in->sheet, METRIC_CHECKPOINTS_REFUSED, y->refused);
    metric_observe(in->sheet, HISTOGRAM_INGEST, world_monotonic_ns() - begin_ns);
}

#ifdef WRIT_PLANTED_BUGS
/* The planted bug: offsets are committed before their rows. */
static enum err offset_apart(struct taking *t)
{
    if (!planted("offset_apart")) return ERR_OK;
    enum err err = store_end(t->in->store, ERR_OK, t->fault);
    return err == ERR_OK ? store_begin(t->in->store, t->fault) : err;
}
#else
static enum err offset_apart(struct taking *t)
{
    (void)t;
    return ERR_OK;
}
#endif

enum err message_intake_store(struct message_intake *in, const struct message_batch *batch,
                              uint64_t now_ms, uint32_t *ret_lost, struct fault *f)
{
    struct taking t = {.in = in, .now_ms = now_ms, .fault = f};
    uint64_t begin_ns = world_monotonic_ns();
    buf_clear(&in->run);
    enum err err = store_begin(in->store, f);
    if (err != ERR_OK) return err;
    err = move_offsets(&t, batch->moves, batch->move_count, ret_lost);
    if (err == ERR_OK) err = offset_apart(&t);
    for (size_t i = 0; i < batch->count && err == ERR_OK; i++) err = take(&t, &batch->messages[i]);
    if (err == ERR_OK) err = run_end(&t);
    err = store_end(in->store, err, f);
    if (err == ERR_OK) count(in, &t.tally, batch->count, begin_ns);
    return err;
}
