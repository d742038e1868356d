#include "pipeline/mirror/mirror.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"

enum {
    ROUND_RECORDS = 8192,
    ROUND_BYTES = 8 << 20,
    ROUND_BYTES_MOST = 16 << 20, /* a round ends behind ROUND_BYTES; one record more fits */
    ROUND_OPS = 65536,
    SLOT_ROUND_OPS = 500,   /* four arguments each, and they are one command */
    STAGE_BYTES = 16 << 10, /* of one slot, collected while a replay is walked */
    STAGE_OPS = 256,
    OWED_MOST = 512, /* answers; more would only fill Redis' buffers */
    /* useless fields of a slot before anybody minds: of all slots 64 MB of reviews, say */
    GARBAGE_LEAST = 32,
    PROBED_SLOTS = 16, /* at once: all of them within some minutes */
};

struct slot {
    uint64_t position; /* what Redis has, or had when it last answered */
    uint64_t tried;    /* being written, or not known; 0: nothing is */
    bool known;        /* by us, not only found there */
    bool unfit;
    /* found there, or in it when it was last rewritten, and written since */
    uint32_t fields;
};

struct op {
    uint32_t next; /* of the same slot, 1-based; 0: the last */
    uint16_t object;
    char code;
    uint32_t field, field_size, value, value_size; /* places in the round's bytes */
};

struct round { /* what is written at once: for every slot its operations, in order */
    struct buf bytes;
    struct op *ops;
    uint32_t op_count;
    struct {
        uint32_t first, last, count;
        uint64_t seq; /* of the last entry */
    } slots[LIMIT_SLOTS];
};

struct mirror {
    struct mirror_options options;
    struct redis_link *link;
    struct scripts scripts;
    char owner[OWNER_TEXT];
    enum mirror_state state;
    struct slot slots[LIMIT_SLOTS];
    bool met; /* Redis, at least once */
    struct journal_cursor *cursor;
    /* the record that is read next; all before are in Redis unless its slot is unfit */
    uint64_t next;
    struct round round;
    struct script_call call;
    unsigned probed;

    /* What the answers of the calls under way said. */
    bool look_again;
    char trouble[256]; /* an error that is no matter of owner or position; "" = none */
};

/* ---- making and ending ---- */

enum err mirror_create(const struct mirror_options *options, struct mirror **ret, struct fault *f)
{
    struct redis_link_options link = {.loop = options->loop,
                                      .user = options->redis.user,
                                      .password_file = options->redis.password_file,
                                      .ca_file = options->redis.ca_file,
                                      .timeout_ms = options->redis.timeout_ms};
    enum err err = redis_address_read(str_from(options->redis.url), &link.address, f);
    if (err == ERR_OK) err = redis_link_check(&link, f);
    if (err != ERR_OK) return err;
    struct mirror *m = calloc(1, sizeof *m);
    check(m != NULL); /* at boot */
    m->options = *options;
    m->link = redis_link_create(&link);
    snprintf(m->owner, sizeof m->owner, "%s:%.*s", options->node, JOURNAL_EPOCH_TEXT,
             journal_epoch(options->journal));
    buf_init(&m->round.bytes, 1 << 20, ROUND_BYTES_MOST);
    m->round.ops = calloc(ROUND_OPS, sizeof *m->round.ops);
    check(m->round.ops != NULL);
    *ret = m;
    return ERR_OK;
}

void mirror_destroy(struct mirror *m)
{
    if (m == NULL) return;
    redis_link_destroy(m->link);
    journal_cursor_close(m->cursor);
    buf_fini(&m->round.bytes);
    free(m->round.ops);
    free(m);
}

enum mirror_state mirror_state(const struct mirror *m) { return m->state; }
uint64_t mirror_position(const struct mirror *m)
{
    return m->state == MIRROR_FOLLOWING && m->next > 0 ? m->next - 1 : 0;
}

static void leave_cursor(struct mirror *m)
{
    journal_cursor_close(m->cursor);
    m->cursor = NULL;
}

static enum err go_away(struct mirror *m, struct fault *f, const char *why)
{
    redis_link_fail(m->link, why);
    m->state = MIRROR_AWAY;
    return fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis cannot be used: %s",
                     redis_link_why(m->link));
}

/* ---- answers ---- */

struct answer {
    struct mirror *mirror;
    unsigned slot;
    uint64_t seq; /* the position that the call writes; 0: none */
    bool claims;  /* of what it looked like a moment ago */
};

static void note_trouble(struct mirror *m, struct str text)
{
    if (m->trouble[0] != '\0') return;
    snprintf(m->trouble, sizeof m->trouble, "%.*s", (int)(text.size < 200 ? text.size : 200),
             text.bytes);
}

/* An error that is the slot's, not the server's: as long as these data are there it comes again. */
static bool is_of_the_slot(struct str text)
{
    return str_starts(text, STR("WRONGTYPE")) || str_starts(text, STR("ERR hash value is not"));
}

static void write_anew(struct slot *s)
{
    s->unfit = true;
    s->tried = 0;
}

static void script_failed(const struct answer *a, struct str text)
{
    struct slot *s = &a->mirror->slots[a->slot];
    if (a->seq == 0 || s->unfit || !is_of_the_slot(text)) {
        note_trouble(a->mirror, text);
        return;
    }
    log_text(LOG_WARNING, "redis_slot_unfit",
             "slot %u cannot be written to (%.*s): it will be rewritten", a->slot,
             STR_FORMAT(text));
    write_anew(s);
}

/* Keys were evicted, or somebody else deleted or wrote some. */
static void not_as_many(struct mirror *m, unsigned slot, struct str held)
{
    log_text(LOG_WARNING, "redis_slot_unfit",
             "slot %u holds %.*s fields, which is not what was written: it will be rewritten", slot,
             STR_FORMAT(held));
    write_anew(&m->slots[slot]);
}

/* {word, what is there} of one of our scripts. */
static void script_answered(void *context, const struct redis_value *v)
{
    const struct answer *a = context;
    struct mirror *m = a->mirror;
    struct slot *s = &m->slots[a->slot];
    if (v == NULL) return; /* Not known: `tried` stays. */
    if (v->kind == REDIS_ERROR) {
        script_failed(a, v->text);
        return;
    }
    struct str word =
        v->kind == REDIS_LIST && v->count == 2 ? redis_value_at(v, 0).text : (struct str){0};
    if (str_equal(word, STR("OK"))) {
        if (a->seq != 0) s->position = a->seq;
        s->tried = 0;
    } else if (str_equal(word, STR("OWNER")) || (a->claims && str_equal(word, STR("POSITION")))) {
        m->look_again = true;
    } else if (str_equal(word, STR("POSITION"))) {
        struct str there = redis_value_at(v, 1).text;
        log_text(LOG_WARNING, "redis_slot_unfit",
                 "slot %u is at \"%.*s\" instead of %" PRIu64 ": it will be rewritten", a->slot,
                 STR_FORMAT(there), s->position);
        write_anew(s);
    } else if (str_equal(word, STR("FIELDS"))) {
        not_as_many(m, a->slot, redis_value_at(v, 1).text);
    } else if (str_equal(word, STR("BROKEN"))) {
        struct str why = redis_value_at(v, 1).text;
        log_text(LOG_WARNING, "redis_slot_unfit",
                 "a write to slot %u broke off (%.*s): it will be rewritten", a->slot,
                 STR_FORMAT(why));
        write_anew(s);
    } else {
        note_trouble(m, STR("a script answered nonsense"));
    }
}

void mirror_hurry(struct mirror *m, uint64_t until_ms)
{
    if (m->link != NULL) redis_link_hurry(m->link, until_ms);
}

static bool lost_script(const struct mirror *m) { return strncmp(m->trouble, "NOSCRIPT", 8) == 0; }

/* All answers are there, or will never come. ERR_OK: and none of them was a surprise. */
static enum err settle(struct mirror *m, struct fault *f)
{
    if (!redis_link_await(m->link, 0)) return go_away(m, f, "");
    if (m->trouble[0] != '\0') return go_away(m, f, m->trouble);
    if (m->look_again)
        return go_away(m, f, "a slot has another owner, or it moved while it was claimed");
    return ERR_OK;
}

static void begin_calls(struct mirror *m)
{
    m->look_again = false;
    m->trouble[0] = '\0';
}

/* ---- connect: look, judge, claim ---- */

static enum err lose(struct mirror *m, struct fault *f)
{
    redis_link_fail(m->link, "it belongs to another engine");
    m->state = MIRROR_LOST;
    return f->err;
}

/* Of an engine that we adopted: it may not write any more, and its positions
 * mean nothing to our journal. */
static bool is_theirs(const struct mirror *m, const struct slot_seen *seen)
{
    return list_has(m->options.past->adopted, str_from(seen->owner));
}

static enum err judge_owner(const struct mirror *m, unsigned slot, const struct slot_seen *seen,
                            struct fault *f)
{
    struct str node, epoch, owner = str_from(seen->owner);
    if (seen->strange)
        return fault_set(
            f, ERR_EXISTS, "",
            "slot %u of this Redis holds what no engine wrote; it is used by something else", slot);
    if (owner.size == 0 || is_theirs(m, seen)) return ERR_OK;
    if (!owner_read(owner, &node, &epoch))
        return fault_set(f, ERR_EXISTS, "",
                         "slot %u of this Redis is owned by \"%s\", which is no engine's name",
                         slot, seen->owner);
    if (!str_equal(node, str_from(m->options.node)))
        return fault_set(f, ERR_EXISTS, "",
                         "this Redis belongs to engine %.*s now; this one (%s) may not use it",
                         STR_FORMAT(node), m->options.node);
    if (str_equal(owner, str_from(m->owner)) || lineage_knows(m->options.past, epoch))
        return ERR_OK;
    return fault_set(
        f, ERR_EXISTS, "",
        "this Redis belongs to epoch %.*s of %s, which this engine's journal does not know: another engine has the same "
        "name",
        STR_FORMAT(epoch), m->options.node);
}

/* The last record that this journal has of the slot's owner. */
static uint64_t end_of_history(const struct mirror *m, const struct slot_seen *seen,
                               uint64_t durable)
{
    struct str node, epoch;
    return owner_read(str_from(seen->owner), &node, &epoch)
               ? lineage_end(m->options.past, epoch, durable)
               : durable;
}

/* Whether what is there can be gone on with. */
static bool is_fit(struct mirror *m, const struct slot *s, const struct slot_seen *seen,
                   uint64_t oldest)
{
    bool ours = str_equal(str_from(seen->owner), str_from(m->owner));
    if (seen->owner[0] == '\0' || !seen->has_position || is_theirs(m, seen)) return false;
    if (s->known)
        return ours && !s->unfit &&
               (seen->position == s->position || (s->tried != 0 && seen->position == s->tried));
    return seen->position >= m->options.past->position && seen->position + 1 >= oldest;
}

/* Nothing was written there since we adopted it, and nothing that this journal never had. */
static enum err judge_position(const struct mirror *m, unsigned slot, const struct slot_seen *seen,
                               uint64_t durable, struct fault *f)
{
    const struct lineage *past = m->options.past;
    uint64_t end = end_of_history(m, seen, durable);
    if (is_theirs(m, seen)) {
        if (!past->adopted_at_known || seen->position <= past->adopted_at[slot]) return ERR_OK;
        return fault_set(f, ERR_EXISTS, "",
                         "slot %u of this Redis is at %" PRIu64
                         " of %s, which wrote there after it was adopted at %" PRIu64 ". Stop that "
                         "engine, then start this one with a new data directory and --adopt",
                         slot, seen->position, seen->owner, past->adopted_at[slot]);
    }
    if (!seen->has_position || seen->position <= end) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "slot %u of this Redis is at %" PRIu64
                     ", this journal has that history up to %" PRIu64 ": its disk went back "
                     "in time",
                     slot, seen->position, end);
}

/* Takes over what is there, slot by slot; following begins where the oldest of them stands. */
static void take_over(struct mirror *m, const struct slot_seen *seen, uint64_t durable,
                      size_t *ret_unfit)
{
    struct journal_totals totals;
    journal_totals(m->options.journal, &totals);
    uint64_t begin = m->met ? m->next : durable + 1;
    *ret_unfit = 0;
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        struct slot *s = &m->slots[i];
        s->unfit = !is_fit(m, s, &seen[i], totals.oldest_seq);
        *ret_unfit += s->unfit;
        if (!s->unfit && !s->known && seen[i].position + 1 < begin) begin = seen[i].position + 1;
        if (!s->unfit) s->position = seen[i].position;
        s->known = true;
        s->tried = 0;
    }
    m->met = true;
    m->next = begin;
    leave_cursor(m);
}

static enum err judge(struct mirror *m, const struct slot_seen *seen, size_t *ret_unfit,
                      struct fault *f)
{
    uint64_t durable = journal_durable_seq(m->options.journal);
    enum err err = ERR_OK;
    for (unsigned i = 0; i < LIMIT_SLOTS && err == ERR_OK; i++) {
        err = judge_owner(m, i, &seen[i], f);
        if (err == ERR_OK) err = judge_position(m, i, &seen[i], durable, f);
    }
    if (err == ERR_OK) take_over(m, seen, durable, ret_unfit);
    return err;
}

/* What becomes of the position. One that means nothing to this journal must not be
 * believed by a later start; but an engine that adopts us should still know a whole image from
 * one that has yet to be written. */
static struct str claim_word(const struct mirror *m, unsigned slot, const struct slot_seen *seen)
{
    if (!m->slots[slot].unfit) return STR("keep");
    return seen->is_whole || (seen->has_position && is_theirs(m, seen)) ? STR("adopted")
                                                                        : STR("forget");
}

static enum err claim(struct mirror *m, const struct slot_seen *seen, struct fault *f)
{
    static _Thread_local struct answer answers[LIMIT_SLOTS];
    begin_calls(m);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (!m->slots[i].unfit && str_equal(str_from(seen[i].owner), str_from(m->owner))) continue;
        answers[i] = (struct answer){.mirror = m, .slot = i, .claims = true};
        script_call_begin(&m->call, SCRIPT_CLAIM, i);
        script_call_add(&m->call, str_from(seen[i].owner));
        script_call_add(&m->call, str_from(seen[i].at));
        script_call_add(&m->call, str_from(m->owner));
        script_call_add(&m->call, claim_word(m, i, &seen[i]));
        script_call_send(&m->call, m->link, &m->scripts, false, script_answered, &answers[i]);
    }
    return settle(m, f);
}

/* Whether the hashes hold what was written, by its number. What an earlier start left is counted,
 * too: garbage that has grown over many of them is seen. */
static enum err count_fields(struct mirror *m, const struct slot_seen *seen, size_t *unfit,
                             struct fault *f)
{
    static _Thread_local struct slot_sizes sizes;
    bool wanted[LIMIT_SLOTS];
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) wanted[i] = !m->slots[i].unfit;
    enum err err = slots_count(m->link, wanted, &sizes, f);
    for (unsigned i = 0; err == ERR_OK && i < LIMIT_SLOTS; i++) {
        struct slot *s = &m->slots[i];
        if (s->unfit) continue;
        s->fields = sizes.fields[i];
        if (seen[i].has_fields && seen[i].fields == sizes.fields[i]) continue;
        s->unfit = true;
        ++*unfit;
    }
    return err;
}

enum err mirror_connect(struct mirror *m, struct fault *f)
{
    static _Thread_local struct slot_seen seen[LIMIT_SLOTS];
    check(m->state == MIRROR_AWAY);
    size_t unfit = 0;
    enum err err = redis_link_open(m->link, f);
    if (err != ERR_OK) return err;
    err = scripts_load(m->link, &m->scripts, f);
    if (err == ERR_OK) err = slots_look(m->link, seen, f);
    if (err == ERR_OK) err = judge(m, seen, &unfit, f);
    if (err == ERR_EXISTS || err == ERR_BAD_VALUE) return lose(m, f);
    if (err == ERR_OK) err = claim(m, seen, f);
    if (err == ERR_OK) err = count_fields(m, seen, &unfit, f);
    if (err != ERR_OK) {
        redis_link_fail(m->link, f->text);
        return err;
    }
    m->state = unfit > 0 ? MIRROR_REPAIRING : MIRROR_FOLLOWING;
    log_text(LOG_INFO, "redis_connected",
             "%zu of %d slots have to be rewritten; the rest is followed from seq %" PRIu64, unfit,
             LIMIT_SLOTS, m->next);
    return ERR_OK;
}

/* ---- rounds ---- */

static void round_begin(struct round *r)
{
    buf_clear(&r->bytes);
    r->op_count = 0;
    memset(r->slots, 0, sizeof r->slots);
}

static uint32_t place(const struct round *r, struct str s)
{
    return (uint32_t)(s.bytes - r->bytes.bytes);
}

static void round_add(struct round *r, unsigned slot, const struct slot_op *o)
{
    struct op *op = &r->ops[r->op_count++];
    bool has_value = o->value.size > 0;
    *op = (struct op){.object = (uint16_t)o->object,
                      .code = o->code,
                      .field = place(r, o->field),
                      .field_size = (uint32_t)o->field.size,
                      .value = has_value ? place(r, o->value) : 0,
                      .value_size = (uint32_t)o->value.size};
    if (r->slots[slot].first == 0)
        r->slots[slot].first = r->op_count;
    else
        r->ops[r->slots[slot].last - 1].next = r->op_count;
    r->slots[slot].last = r->op_count;
    r->slots[slot].count++;
}

/* One record's entries; those that Redis has already are skipped. */
static enum err take_record(struct mirror *m, const struct journal_record *record, bool *ret_full,
                            struct fault *f)
{
    struct round *r = &m->round;
    struct str rest = record->private_bytes;
    struct delta_entry e;
    enum err err = ERR_OK;
    for (unsigned index = 0; delta_next(&rest, &e, &err); index++) {
        struct slot_op ops[SLOT_OPS_MAX];
        size_t count;
        if (e.slot >= LIMIT_SLOTS || m->slots[e.slot].unfit ||
            record->seq <= m->slots[e.slot].position)
            continue;
        check(buf_room(&r->bytes, slot_ops_most(&e, record->public_bytes)));
        err = slot_ops(&e, record->seq, index, record->public_bytes, &r->bytes, ops, &count);
        if (err != ERR_OK) break;
        if (count == 0) continue;
        for (size_t i = 0; i < count; i++) round_add(r, e.slot, &ops[i]);
        r->slots[e.slot].seq = record->seq;
        *ret_full = *ret_full || r->slots[e.slot].count >= SLOT_ROUND_OPS;
    }
    *ret_full = *ret_full || r->bytes.size >= ROUND_BYTES || r->op_count >= ROUND_OPS - 8192;
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, err, "", "the delta of seq %" PRIu64 " is damaged", record->seq);
}

/* Reads records into the round; *ret_next is the one after the last. ERR_END: there are none. */
static enum err round_fill(struct mirror *m, uint64_t *ret_next, struct fault *f)
{
    uint64_t next = m->next;
    bool full = false;
    round_begin(&m->round);
    if (next > journal_durable_seq(m->options.journal)) return ERR_END;
    enum err err =
        m->cursor != NULL ? ERR_OK : journal_cursor_open(m->options.journal, next, &m->cursor, f);
    for (unsigned i = 0; err == ERR_OK && i < ROUND_RECORDS && !full; i++) {
        struct journal_record record;
        err = journal_cursor_next(m->cursor, &record, f);
        if (err != ERR_OK) break;
        err = take_record(m, &record, &full, f);
        next = record.seq + 1;
    }
    *ret_next = next;
    return err == ERR_END && next > m->next ? ERR_OK : err;
}

static void send_slot(struct mirror *m, unsigned slot, bool by_text, struct answer *answer)
{
    const struct round *r = &m->round;
    struct slot *s = &m->slots[slot];
    static const struct str keys[] = {{"3", 1}, {"4", 1}, {"5", 1}, {"6", 1}};
    char expected[24], reached[24];
    struct buf from = buf_over(expected, sizeof expected), to = buf_over(reached, sizeof reached);
    buf_put_u64(&from, s->position);
    buf_put_u64(&to, r->slots[slot].seq);
    script_call_begin(&m->call, SCRIPT_WRITE, slot);
    script_call_add(&m->call, str_from(m->owner));
    script_call_add(&m->call, buf_view(&from));
    script_call_add(&m->call, buf_view(&to));
    for (uint32_t i = r->slots[slot].first; i != 0; i = r->ops[i - 1].next) {
        const struct op *op = &r->ops[i - 1];
        script_call_add(&m->call, str_of(&op->code, 1));
        script_call_add(&m->call, keys[op->object]);
        script_call_add(&m->call, str_of(r->bytes.bytes + op->field, op->field_size));
        script_call_add(&m->call, str_of(r->bytes.bytes + op->value, op->value_size));
    }
    s->tried = r->slots[slot].seq;
    *answer = (struct answer){.mirror = m, .slot = slot, .seq = s->tried};
    script_call_send(&m->call, m->link, &m->scripts, by_text, script_answered, answer);
}

/* Sends what the round holds for each slot; what was answered is not sent again. */
static enum err round_write(struct mirror *m, struct fault *f)
{
    static _Thread_local struct answer answers[LIMIT_SLOTS];
    bool by_text = false;
    for (;;) {
        begin_calls(m);
        for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
            struct slot *s = &m->slots[i];
            if (m->round.slots[i].seq == 0 || m->round.slots[i].seq <= s->position || s->unfit)
                continue;
            send_slot(m, i, by_text, &answers[i]);
            if (redis_link_owed(m->link) >= OWED_MOST)
                (void)redis_link_await(m->link, OWED_MOST / 2);
        }
        (void)redis_link_await(m->link, 0);
        if (!lost_script(m) || by_text) break;
        by_text = true; /* the server forgot the scripts: EVAL brings them back */
    }
    return settle(m, f);
}

static enum err unfit_if_any(struct mirror *m, struct fault *f)
{
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (!m->slots[i].unfit) continue;
        m->state = MIRROR_REPAIRING;
        return fault_set(
            f, ERR_CORRUPT, "",
            "Redis holds something else than was written, or nothing; it is being rewritten");
    }
    return ERR_OK;
}

static void count_round(struct mirror *m)
{
    uint64_t writes = 0;
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        m->slots[i].fields += m->round.slots[i].count;
        writes += m->round.slots[i].seq != 0;
    }
    metric_add(m->options.sheet, METRIC_REDIS_WRITES, writes);
}

/* What cannot be read back any more is in a snapshot: all slots are rewritten from there. */
static enum err cannot_read(struct mirror *m, enum err err, const struct fault *why,
                            struct fault *f)
{
    if (err != ERR_NOT_FOUND)
        return fault_set(f, err, "", "the journal cannot be mirrored: %s", why->text);
    log_text(LOG_WARNING, "redis_behind", "%s: every slot is rewritten", why->text);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) m->slots[i].unfit = true;
    return unfit_if_any(m, f);
}

enum err mirror_follow(struct mirror *m, struct fault *f)
{
    struct fault why = {.err = ERR_OK};
    uint64_t next = m->next;
    check(m->state == MIRROR_FOLLOWING);
    enum err err = round_fill(m, &next, &why);
    if (err == ERR_END) return err;
    if (err != ERR_OK) {
        leave_cursor(m);
        return cannot_read(m, err, &why, f);
    }
    err = round_write(m, f);
    /* the cursor is behind this round: judge() begins again at m->next */
    if (err != ERR_OK) return err;
    count_round(m);
    m->next = next;
    return unfit_if_any(m, f);
}

/* ---- marks and probes ---- */

enum err mirror_mark(struct mirror *m, struct fault *f)
{
    check(m->state == MIRROR_FOLLOWING);
    round_begin(&m->round);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++)
        if (m->slots[i].position < m->next - 1) m->round.slots[i].seq = m->next - 1;
    enum err err = round_write(m, f);
    return err == ERR_OK ? unfit_if_any(m, f) : err;
}

enum err mirror_probe(struct mirror *m, struct fault *f)
{
    static _Thread_local struct answer answers[PROBED_SLOTS];
    check(m->state == MIRROR_FOLLOWING);
    round_begin(&m->round);
    begin_calls(m);
    for (unsigned i = 0; i < PROBED_SLOTS; i++) {
        unsigned slot = m->probed++ % LIMIT_SLOTS;
        m->round.slots[slot].seq = m->slots[slot].position; /* nothing new: only what it expects */
        send_slot(m, slot, true, &answers[i]);
    }
    enum err err = settle(m, f);
    return err == ERR_OK ? unfit_if_any(m, f) : err;
}

/* ---- repair ---- */

struct stage { /* what a walk over the replay collected for one slot */
    struct buf bytes;
    uint32_t places[STAGE_OPS][4]; /* field, size, value, size */
    uint16_t objects[STAGE_OPS];
    unsigned count;
    bool begun;
    uint32_t fields;
};

struct repair {
    struct mirror *mirror;
    struct stage *stages[LIMIT_SLOTS]; /* of unfit slots */
    struct answer answers[LIMIT_SLOTS];
    uint64_t entries;
};

static void send_stage(struct repair *r, unsigned slot)
{
    static const struct str keys[] = {{"2", 1}, {"3", 1}, {"4", 1}, {"5", 1}};
    struct mirror *m = r->mirror;
    struct stage *s = r->stages[slot];
    script_call_begin(&m->call, SCRIPT_STAGE, slot);
    script_call_add(&m->call, str_from(m->owner));
    script_call_add(&m->call, s->begun ? STR("more") : STR("first"));
    for (unsigned i = 0; i < s->count; i++) {
        script_call_add(&m->call, keys[s->objects[i]]);
        script_call_add(&m->call, str_of(s->bytes.bytes + s->places[i][0], s->places[i][1]));
        script_call_add(&m->call, str_of(s->bytes.bytes + s->places[i][2], s->places[i][3]));
    }
    r->answers[slot] = (struct answer){.mirror = m, .slot = slot};
    script_call_send(&m->call, m->link, &m->scripts, false, script_answered, &r->answers[slot]);
    s->begun = true;
    s->count = 0;
    buf_clear(&s->bytes);
    if (redis_link_owed(m->link) >= OWED_MOST) (void)redis_link_await(m->link, OWED_MOST / 2);
}

static enum err stage_entry(void *context, struct str entry)
{
    struct repair *r = context;
    struct mirror *m = r->mirror;
    struct shard_entry e;
    check(shard_entry_read(entry, &e));
    struct stage *s = r->stages[e.slot];
    if (s == NULL || e.object >= SHARD_MIRRORED) return ERR_OK;
    if (!redis_link_is_up(m->link) || m->trouble[0] != '\0' || m->look_again ||
        atomic_load(m->options.given_up))
        return ERR_CLOSED;
    size_t field = s->bytes.size;
    slot_field_put(&s->bytes, &e);
    size_t value = s->bytes.size;
    buf_put_byte(&s->bytes, FIELD_IMAGE);
    buf_put(&s->bytes, entry);
    check(!s->bytes.overflow);
    s->places[s->count][0] = (uint32_t)field;
    s->places[s->count][1] = (uint32_t)(value - field);
    s->places[s->count][2] = (uint32_t)value;
    s->places[s->count][3] = (uint32_t)(s->bytes.size - value);
    s->objects[s->count++] = (uint16_t)e.object;
    s->fields++;
    r->entries++;
    if (s->count == STAGE_OPS || s->bytes.size >= STAGE_BYTES) send_stage(r, e.slot);
    return ERR_OK;
}

/* The new hashes take the old ones' place, with the position that they are as of. */
static void swap_all(struct repair *r, uint64_t position)
{
    struct mirror *m = r->mirror;
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (r->stages[i] == NULL) continue;
        char text[24];
        struct buf b = buf_over(text, sizeof text);
        buf_put_u64(&b, position);
        script_call_begin(&m->call, SCRIPT_SWAP, i);
        script_call_add(&m->call, str_from(m->owner));
        script_call_add(&m->call, buf_view(&b));
        m->slots[i].tried = position;
        r->answers[i] = (struct answer){.mirror = m, .slot = i, .seq = position};
        script_call_send(&m->call, m->link, &m->scripts, false, script_answered, &r->answers[i]);
        if (redis_link_owed(m->link) >= OWED_MOST) (void)redis_link_await(m->link, OWED_MOST / 2);
    }
}

/* Half a replay takes nothing's place. */
static enum err repair_ended(struct mirror *m, enum err err, struct fault *f)
{
    if (err != ERR_CLOSED) return go_away(m, f, err_sentence(err));
    /* an answer ended it, or their end */
    return atomic_load(m->options.given_up) ? go_away(m, f, "given up") : settle(m, f);
}

static enum err repair_run(struct repair *r, const struct replay *replay, struct fault *f)
{
    struct mirror *m = r->mirror;
    begin_calls(m);
    enum err err = shard_save(replay->shard, stage_entry, r);
    if (err != ERR_OK) return repair_ended(m, err, f);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) /* an empty one too: what a crash left staged goes */
        if (r->stages[i] != NULL && (r->stages[i]->count > 0 || !r->stages[i]->begun))
            send_stage(r, i);
    err = settle(m, f); /* no slot is swapped before all of it is there */
    if (err != ERR_OK) return err;
    swap_all(r, replay->past.position);
    return settle(m, f);
}

static void repair_end(struct repair *r, bool done)
{
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (r->stages[i] == NULL) continue;
        if (done) {
            r->mirror->slots[i].unfit = false;
            r->mirror->slots[i].fields = r->stages[i]->fields;
        }
        buf_fini(&r->stages[i]->bytes);
        free(r->stages[i]);
    }
}

enum err mirror_repair(struct mirror *m, const struct replay *replay, struct fault *f)
{
    check(m->state == MIRROR_REPAIRING);
    struct repair *r = calloc(1, sizeof *r);
    check(r != NULL);
    r->mirror = m;
    uint64_t slots = 0;
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (!m->slots[i].unfit) continue;
        r->stages[i] = calloc(1, sizeof *r->stages[i]);
        check(r->stages[i] != NULL);
        buf_init(&r->stages[i]->bytes, 1 << 10, (size_t)4 << 20);
        slots++;
    }
    enum err err = repair_run(r, replay, f);
    repair_end(r, err == ERR_OK);
    if (err == ERR_OK) {
        /* The other slots skip what they have: a slot's position says. Where there are none, what
         * was to be read next may be gone, and nothing needs it. */
        if (slots == LIMIT_SLOTS || replay->past.position + 1 < m->next)
            m->next = replay->past.position + 1;
        leave_cursor(m);
        m->state = MIRROR_FOLLOWING;
        metric_add(m->options.sheet, METRIC_REDIS_REPAIRS, slots);
        log_text(LOG_INFO, "redis_repaired",
                 "%" PRIu64 " slots with %" PRIu64 " objects were rewritten as of seq %" PRIu64,
                 slots, r->entries, replay->past.position);
    }
    free(r);
    return err;
}

bool mirror_wants_compaction(struct mirror *m, const uint32_t live[LIMIT_SLOTS])
{
    bool any = false;
    check(m->state == MIRROR_FOLLOWING);
    for (unsigned i = 0; i < LIMIT_SLOTS; i++) {
        if (m->slots[i].fields <= GARBAGE_LEAST + 2 * live[i]) continue;
        m->slots[i].unfit = true;
        any = true;
    }
    if (any) m->state = MIRROR_REPAIRING;
    return any;
}
