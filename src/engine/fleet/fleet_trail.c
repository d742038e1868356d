#include "engine/fleet/fleet_trail.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/id.h"
#include "base/little.h"
#include "event/event.h"
#include "fleet/orient.h"
#include "json/json.h"
#include "pipeline/statelog/statelog.h"

enum {
    ID_IN_EPOCH = 4, /* bytes */
    WAIT_MS = 200,   /* for a message that is in the log, but not here yet */
    MESSAGES_PER_CALL = 4096,
    PREVIOUS_TEXT = 80,
    REASON_TEXT = 400,
    FIRST_BYTES = 2048,
};

struct mark {
    struct log_replay replay;
    struct trail_point at;
};

struct fleet_trail {
    struct topic_access access;
    struct entry_key key;
    const struct skips *skips;

    struct trail_point at; /* the member's */
    struct hasher *hasher;

    pthread_mutex_t lock; /* guards the marks and terms */
    struct mark marks[TRAIL_MARKS];
    size_t mark_count;
    uint64_t distance; /* between two marks, in records */
    struct {
        uint64_t term, first_seq;
    } terms[TRAIL_TERMS]; /* number i at i % TRAIL_TERMS */
    uint64_t term_count;

    _Atomic uint64_t end, confirmed;
};

/* ---- its name ---- */

void fleet_trail_node(const char *fleet, char to[TRAIL_NODE_TEXT])
{
    snprintf(to, TRAIL_NODE_TEXT, "fleet.%s", fleet);
}

static void put_epoch(const struct fleet_trail *t, uint64_t term, char to[JOURNAL_EPOCH_TEXT])
{
    char text[JOURNAL_EPOCH_TEXT + 1];
    hex_write(to, t->key.fleet.bytes, ID_IN_EPOCH);
    snprintf(text, sizeof text, "%08" PRIx32, (uint32_t)term);
    memcpy(to + (size_t)2 * ID_IN_EPOCH, text, JOURNAL_EPOCH_TEXT - (size_t)2 * ID_IN_EPOCH);
}

/* ---- life ---- */

struct fleet_trail *fleet_trail_create(const struct topic_access *access,
                                       const struct entry_key *key, const struct skips *skips)
{
    struct fleet_trail *t = calloc(1, sizeof *t);
    check(t != NULL); /* only at boot */
    t->access = *access;
    t->key = *key;
    t->skips = skips;
    t->hasher = hasher_create();
    t->distance = TRAIL_MARK_RECORDS;
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void fleet_trail_destroy(struct fleet_trail *t)
{
    if (t == NULL) return;
    hasher_destroy(t->hasher);
    memory_wipe(&t->key, sizeof t->key);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- the member's thread ---- */

/* Every second mark goes when there is no room, but never the first. */
static void make_room(struct fleet_trail *t)
{
    if (t->mark_count < TRAIL_MARKS) return;
    for (size_t i = 1; 2 * i < TRAIL_MARKS; i++) t->marks[i] = t->marks[2 * i];
    t->mark_count = TRAIL_MARKS / 2;
    t->distance *= 2;
}

static void add_mark(struct fleet_trail *t, const struct log_replay *replay)
{
    pthread_mutex_lock(&t->lock);
    make_room(t);
    t->marks[t->mark_count++] = (struct mark){.replay = *replay, .at = t->at};
    pthread_mutex_unlock(&t->lock);
}

static void add_term(struct fleet_trail *t, uint64_t term, uint64_t first_seq)
{
    pthread_mutex_lock(&t->lock);
    t->terms[t->term_count % TRAIL_TERMS].term = term;
    t->terms[t->term_count % TRAIL_TERMS].first_seq = first_seq;
    t->term_count++;
    pthread_mutex_unlock(&t->lock);
}

void fleet_trail_begin(struct fleet_trail *t, const struct log_replay *replay,
                       const struct trail_point *at)
{
    t->mark_count = t->term_count = 0; /* of an attempt that has read no records */
    t->at = at != NULL ? *at : (struct trail_point){.seq = 1};
    atomic_store(&t->end, t->at.seq - 1);
    add_mark(t, replay);
}

static void put_number(struct buf *out, uint64_t value, unsigned bytes)
{
    char room[8];
    little_put(room, value, bytes);
    buf_put(out, str_of(room, bytes));
}

/* saved := distance(8)  marks(4)  { replay  size(2)  point }  terms(4)  { term(8)  first(8) } */
void fleet_trail_save(struct fleet_trail *t, const struct log_replay *replay, struct buf *out)
{
    if (t->marks[t->mark_count - 1].replay.next < replay->next) add_mark(t, replay);
    put_number(out, t->distance, 8);
    put_number(out, t->mark_count, 4);
    for (size_t i = 0; i < t->mark_count; i++) {
        char bytes[LOG_REPLAY_BYTES], point[TRAIL_POINT_BYTES_MAX];
        struct buf at = buf_over(point, sizeof point);
        log_replay_put(&t->marks[i].replay, bytes);
        trail_point_put(&at, &t->marks[i].at);
        buf_put(out, str_of(bytes, sizeof bytes));
        put_number(out, at.size, 2);
        buf_put(out, buf_view(&at));
    }
    uint64_t oldest = t->term_count > TRAIL_TERMS ? t->term_count - TRAIL_TERMS : 0;
    put_number(out, t->term_count - oldest, 4);
    for (uint64_t i = oldest; i < t->term_count; i++) {
        put_number(out, t->terms[i % TRAIL_TERMS].term, 8);
        put_number(out, t->terms[i % TRAIL_TERMS].first_seq, 8);
    }
}

static bool take(struct str *rest, size_t size, const char **ret)
{
    if (rest->size < size) return false;
    *ret = rest->bytes;
    *rest = str_skip(*rest, size);
    return true;
}

static bool take_mark(struct str *rest, struct mark *ret)
{
    const char *bytes;
    if (!take(rest, LOG_REPLAY_BYTES, &bytes)) return false;
    log_replay_get(bytes, &ret->replay);
    if (!take(rest, 2, &bytes)) return false;
    size_t size = little_get16(bytes);
    return take(rest, size, &bytes) && trail_point_read(str_of(bytes, size), &ret->at);
}

static bool take_all(struct fleet_trail *t, struct str rest)
{
    const char *bytes;
    if (!take(&rest, 12, &bytes)) return false;
    size_t marks = little_get32(bytes + 8);
    t->distance = little_get64(bytes);
    if (marks < 1 || marks > TRAIL_MARKS || t->distance < TRAIL_MARK_RECORDS) return false;
    for (t->mark_count = 0; t->mark_count < marks; t->mark_count++)
        if (!take_mark(&rest, &t->marks[t->mark_count])) return false;
    if (!take(&rest, 4, &bytes)) return false;
    size_t terms = little_get32(bytes);
    if (terms > TRAIL_TERMS) return false;
    for (t->term_count = 0; t->term_count < terms; t->term_count++) {
        if (!take(&rest, 16, &bytes)) return false;
        t->terms[t->term_count].term = little_get64(bytes);
        t->terms[t->term_count].first_seq = little_get64(bytes + 8);
    }
    return rest.size == 0;
}

bool fleet_trail_restore(struct fleet_trail *t, struct str saved)
{
    pthread_mutex_lock(&t->lock);
    bool is_whole = take_all(t, saved);
    pthread_mutex_unlock(&t->lock);
    return is_whole;
}

/* The distance becomes smaller again where few are left. */
void fleet_trail_forget(struct fleet_trail *t, uint64_t below)
{
    size_t gone = 0;
    pthread_mutex_lock(&t->lock);
    while (gone + 1 < t->mark_count && t->marks[gone].replay.next < below) gone++;
    t->mark_count -= gone;
    memmove(t->marks, t->marks + gone, t->mark_count * sizeof *t->marks);
    if (t->mark_count < TRAIL_MARKS / 4 && t->distance > TRAIL_MARK_RECORDS) t->distance /= 2;
    pthread_mutex_unlock(&t->lock);
}

bool fleet_trail_note(struct fleet_trail *t, const struct entry *e, const struct log_replay *replay)
{
    const uint64_t seq = t->at.seq, term = t->at.term;
    if (!trail_point_add(&t->at, e, t->hasher)) return false;
    if (t->at.term != term) add_term(t, t->at.term, seq);
    if (t->at.seq - t->marks[t->mark_count - 1].at.seq >= t->distance) add_mark(t, replay);
    atomic_store_explicit(&t->end, t->at.seq - 1, memory_order_release);
    return true;
}

const struct trail_point *fleet_trail_at(const struct fleet_trail *t) { return &t->at; }

void fleet_trail_put_first(const struct fleet_trail *t, uint64_t term, struct str node,
                           uint64_t now_ms, struct chance *chance, struct buf *out)
{
    char id[ID_TEXT], trace[TRACE_TEXT], epoch[JOURNAL_EPOCH_TEXT];
    char previous_room[PREVIOUS_TEXT], reason_room[REASON_TEXT];
    struct buf previous = buf_over(previous_room, sizeof previous_room),
               reason = buf_over(reason_room, sizeof reason_room);
    struct event e = {.kind = STR("leader.changed"),
                      .tenant_id = STR("default"),
                      .timestamp = now_ms,
                      .engine_version = STR(WRIT_VERSION)};
    id_write("evt_", id_make(now_ms, chance), id);
    e.event_id = str_of(id, sizeof id);
    trace_write(chance, trace);
    e.trace_id = str_of(trace, sizeof trace);
    buf_printf(&reason, "%.*s leads in term %" PRIu64, STR_FORMAT(node), term);
    e.reason = buf_view(&reason);
    put_epoch(t, t->at.term, epoch);
    if (t->at.term > 0) {
        buf_put_literal(&previous, "{\"epoch\":");
        json_put_plain(&previous, str_of(epoch, sizeof epoch));
        buf_printf(&previous, ",\"seq\":%" PRIu64 "}", t->at.seq - 1);
        e.previous = buf_view(&previous);
    }
    char room[FIRST_BYTES];
    struct buf event = buf_over(room, sizeof room);
    event_put(&event, &e);
    check(!event.overflow && !previous.overflow && !reason.overflow);
    entry_put_record(out, buf_view(&event), STR(""));
}

/* ---- publishing ---- */

uint64_t fleet_trail_end(const struct fleet_trail *t)
{
    return atomic_load_explicit(&t->end, memory_order_acquire);
}

/* The newest mark whose next record is at most `seq`, of those that a log from `begin` on has; NULL:
 * there is none. Under the lock. */
static const struct mark *mark_before(const struct fleet_trail *t, uint64_t seq, uint64_t begin)
{
    for (size_t i = t->mark_count; i-- > 0 && t->marks[i].replay.next >= begin;)
        if (t->marks[i].at.seq <= seq) return &t->marks[i];
    return NULL;
}

/* The oldest of those, or else the newest of all. Under the lock. */
static const struct mark *oldest_mark(const struct fleet_trail *t, uint64_t begin)
{
    size_t i = 0;
    while (i + 1 < t->mark_count && t->marks[i].replay.next < begin) i++;
    return &t->marks[i];
}

uint64_t fleet_trail_confirmed_offset(struct fleet_trail *t)
{
    uint64_t confirmed = atomic_load(&t->confirmed);
    pthread_mutex_lock(&t->lock);
    const struct mark *m = confirmed == 0 ? NULL : mark_before(t, confirmed + 1, 0);
    uint64_t offset = m == NULL ? 0 : m->replay.next;
    pthread_mutex_unlock(&t->lock);
    return offset;
}

struct trail_reader {
    struct fleet_trail *trail;
    char epoch[JOURNAL_EPOCH_TEXT]; /* of the own term */
    struct statelog *log;           /* NULL: not open */
    uint64_t begin;                 /* of the log, when it was last looked at */
    struct hasher *hasher;
    struct log_orient *orient; /* not NULL: it looks for a place where replay can begin */
    struct log_replay replay;
    struct str rest;                      /* of the last entry's records */
    char entry_epoch[JOURNAL_EPOCH_TEXT]; /* its */
    uint64_t at;                          /* seq of the first record of `rest`, or behind it */
    uint64_t wanted;
};

static uint64_t source_end(const void *state)
{
    return fleet_trail_end(((const struct trail_reader *)state)->trail);
}

static const char *source_epoch(const void *state)
{
    return ((const struct trail_reader *)state)->epoch;
}

static enum err read_from(struct trail_reader *r, uint64_t offset, struct fault *f)
{
    r->rest = (struct str){0};
    return statelog_read_again(r->log, offset, f);
}

/* The log may have lost its beginning since, and with it the first marks: those of a copy, and of an
 * engine that followed. */
static enum err look_at_log(struct trail_reader *r, struct fault *f)
{
    const struct statelog_options options = {.access = r->trail->access, .reads_only = true};
    uint64_t end;
    enum err err = r->log == NULL ? statelog_open(&options, &r->log, f) : ERR_OK;
    return err == ERR_OK ? statelog_bounds(r->log, &r->begin, &end, f) : err;
}

/* What the platform wants is before the first mark that the log has: from the beginning of the log on.
 */
static enum err begin_orienting(struct trail_reader *r, struct fault *f)
{
    r->orient = log_orient_create();
    r->replay.next = r->begin;
    r->at = 0;
    return read_from(r, r->begin, f);
}

static void orient_end(struct trail_reader *r)
{
    log_orient_destroy(r->orient);
    r->orient = NULL;
}

static enum err go_to_mark(struct trail_reader *r, uint64_t seq, struct fault *f)
{
    struct fleet_trail *t = r->trail;
    pthread_mutex_lock(&t->lock);
    const struct mark *found = mark_before(t, seq, r->begin);
    if (found != NULL) {
        r->replay = found->replay;
        r->at = found->at.seq;
    }
    pthread_mutex_unlock(&t->lock);
    if (found == NULL) return begin_orienting(r, f);
    return read_from(r, r->replay.next, f);
}

static enum err source_go(void *state, uint64_t seq, struct fault *f)
{
    struct trail_reader *r = state;
    struct fleet_trail *t = r->trail;
    pthread_mutex_lock(&t->lock);
    const struct mark *found = mark_before(t, seq, r->begin);
    bool reads_on = r->log != NULL && r->at <= seq && (found == NULL || r->at >= found->at.seq);
    pthread_mutex_unlock(&t->lock);
    r->wanted = seq;
    if (reads_on) return ERR_OK;
    orient_end(r);
    r->at = UINT64_MAX; /* it reads nothing */
    enum err err = look_at_log(r, f);
    if (err == ERR_OK) err = go_to_mark(r, seq, f);
    if (err != ERR_OK) r->at = UINT64_MAX;
    return err;
}

/* At the first mark the copy shows which entries count. */
static enum err orient_by(struct trail_reader *r, const struct entry *e, uint64_t offset,
                          struct fault *f)
{
    struct fleet_trail *t = r->trail;
    struct log_replay replay;
    uint64_t seq;
    enum orient_result result = log_orient_add(r->orient, e, offset, &replay, &seq);
    pthread_mutex_lock(&t->lock);
    const struct log_replay first = oldest_mark(t, r->begin)->replay;
    pthread_mutex_unlock(&t->lock);
    if (result == ORIENT_GOES_ON && offset + 1 >= first.next)
        result = log_orient_by(r->orient, &first.last, &replay, &seq) ||
                         log_orient_by(r->orient, &first.before, &replay, &seq)
                     ? ORIENT_FOUND
                     : ORIENT_FULL;
    if (result == ORIENT_GOES_ON) return ERR_OK;
    orient_end(r);
    if (result == ORIENT_FULL || seq > r->wanted) return fault_plain(f, ERR_NOT_FOUND);
    r->replay = replay;
    r->at = seq;
    return read_from(r, replay.next, f);
}

/* Takes the next message. ERR_END: none came. */
static enum err read_message(struct trail_reader *r, struct fault *f)
{
    struct statelog_message message;
    enum statelog_read found = statelog_next(r->log, &message);
    if (found == STATELOG_NOTHING) {
        statelog_wait(r->log, WAIT_MS);
        enum statelog_kind kind;
        bool good;
        (void)statelog_result(r->log, &kind, &good); /* polls the client */
        found = statelog_next(r->log, &message);
    }
    if (found == STATELOG_NOTHING) return ERR_END;
    if (found == STATELOG_GONE) return fault_plain(f, ERR_NOT_FOUND);
    struct entry e;
    bool is_good = entry_read(message.bytes, &r->trail->key, r->hasher, &e) == ENTRY_GOOD;
    const bool is_skipped = !is_good && skips_have(r->trail->skips, message.offset);
    if ((is_good || is_skipped) && r->orient != NULL) {
        statelog_note_next(r->log, message.offset + 1);
        return is_skipped ? ERR_OK : orient_by(r, &e, message.offset, f);
    }
    enum log_result result = is_skipped
                                 ? log_replay_pass(&r->replay, message.offset)
                                 : log_replay_step(&r->replay, is_good ? &e : NULL, message.offset);
    statelog_note_next(r->log, r->replay.next);
    if (result == LOG_ENDED)
        return fault_set(f, ERR_CORRUPT, "",
                         "the fleet's log cannot be read for the audit trail at offset %" PRIu64,
                         message.offset);
    if (result == LOG_STALE || e.kind != ENTRY_RECORDS) return ERR_OK;
    r->rest = e.records;
    r->at = e.seq;
    put_epoch(r->trail, e.term, r->entry_epoch);
    return ERR_OK;
}

/* Nothing behind the end is touched: the member has not counted it yet. */
static enum err source_next(void *state, struct journal_record *ret, struct fault *f)
{
    struct trail_reader *r = state;
    for (unsigned messages = 0; messages < MESSAGES_PER_CALL;) {
        if (r->at > source_end(r)) return ERR_END;
        struct journal_record record = {.seq = r->at};
        if (entry_next_record(&r->rest, &record.public_bytes, &record.private_bytes)) {
            if (r->at++ < r->wanted) continue;
            memcpy(record.epoch, r->entry_epoch, sizeof record.epoch);
            *ret = record;
            return ERR_OK;
        }
        enum err err = read_message(r, f);
        if (err != ERR_OK && err != ERR_END) r->at = UINT64_MAX;
        if (err != ERR_OK) return err;
        messages++;
    }
    return ERR_END;
}

static enum err source_epoch_is(void *state, uint64_t seq, const char epoch[JOURNAL_EPOCH_TEXT],
                                bool *ret_same, struct fault *f)
{
    struct trail_reader *r = state;
    struct fleet_trail *t = r->trail;
    char own[JOURNAL_EPOCH_TEXT];
    uint64_t term = 0;
    put_epoch(t, 0, own);
    *ret_same = false;
    if (memcmp(own, epoch, (size_t)2 * ID_IN_EPOCH) != 0) return ERR_OK; /* another fleet */
    pthread_mutex_lock(&t->lock);
    uint64_t oldest = t->term_count > TRAIL_TERMS ? t->term_count - TRAIL_TERMS : 0;
    for (uint64_t i = t->term_count; i-- > oldest && term == 0;)
        if (t->terms[i % TRAIL_TERMS].first_seq <= seq) term = t->terms[i % TRAIL_TERMS].term;
    pthread_mutex_unlock(&t->lock);
    if (term == 0) return fault_plain(f, ERR_NOT_FOUND);
    put_epoch(t, term, own);
    *ret_same = memcmp(own, epoch, JOURNAL_EPOCH_TEXT) == 0;
    return ERR_OK;
}

static uint64_t source_oldest(const void *state)
{
    struct fleet_trail *t = ((const struct trail_reader *)state)->trail;
    pthread_mutex_lock(&t->lock);
    uint64_t seq = t->marks[0].at.seq;
    pthread_mutex_unlock(&t->lock);
    return seq;
}

static void source_confirm(void *state, uint64_t seq)
{
    atomic_store(&((struct trail_reader *)state)->trail->confirmed, seq);
}

static void source_tree(void *state, uint64_t seq, uint64_t *ret_next, struct frontier *ret)
{
    struct trail_reader *r = state;
    struct fleet_trail *t = r->trail;
    struct fault ignored;
    (void)look_at_log(r, &ignored); /* otherwise a mark may be one that the log has not */
    pthread_mutex_lock(&t->lock);
    const struct mark *found = mark_before(t, seq, r->begin);
    if (found == NULL) found = oldest_mark(t, r->begin);
    *ret_next = found->at.seq;
    *ret = found->at.tree;
    pthread_mutex_unlock(&t->lock);
}

static void source_destroy(struct record_source *s)
{
    struct trail_reader *r = s->state;
    statelog_close(r->log);
    orient_end(r);
    hasher_destroy(r->hasher);
    free(r);
}

struct record_source fleet_trail_source(struct fleet_trail *t, uint64_t term)
{
    struct trail_reader *r = calloc(1, sizeof *r);
    check(r != NULL);
    r->trail = t;
    r->hasher = hasher_create();
    r->at = UINT64_MAX;
    put_epoch(t, term, r->epoch);
    return (struct record_source){
        .state = r,
        .end = source_end,
        .epoch = source_epoch,
        .go = source_go,
        .next = source_next,
        .epoch_is = source_epoch_is,
        .oldest = source_oldest,
        .confirm = source_confirm,
        .tree = source_tree,
        .destroy = source_destroy,
        .confirmed_gauge = METRIC_FLEET_PUBLISH_CONFIRMED_SEQ,
        .lag_gauge = METRIC_FLEET_PUBLISH_LAG,
        .advice =
            "the platform has records of another log of this fleet: restore that log, or begin "
            "a fleet of another name",
    };
}
