#include "fleet/fleet.h"

#include "base/check.h"
#include "base/planted.h"

static void fleet_check(const struct fleet *f)
{
    check(f->counted <= f->sealed && f->acked <= f->sealed);
    check((f->role == FLEET_ENDED) == (f->end != FLEET_RUNS));
    check(f->role != FLEET_LEADER || (f->term_is_acked && f->term_is_counted));
}

/* The newest counted entry. */
static void remember(struct fleet *f)
{
    unsigned at = (unsigned)(f->recent_count++ % FLEET_RECENT);
    f->recent[at].point = f->replay.last;
    f->recent[at].offset = f->replay.last_offset;
}

/* The last counted entry below `applied`. False: it is not remembered. */
static bool point_below(const struct fleet *f, uint64_t applied, struct entry_point *ret)
{
    for (uint64_t i = f->recent_count; i-- > 0 && f->recent_count - i <= FLEET_RECENT;) {
        if (f->recent[i % FLEET_RECENT].offset >= applied) continue;
        *ret = f->recent[i % FLEET_RECENT].point;
        return true;
    }
    return false;
}

void fleet_init(struct fleet *f, const struct fleet_options *o, const struct fleet_saved *saved,
                uint64_t now_ms)
{
    check(o->reactors >= 1 && o->reactors <= FLEET_REACTORS_MAX);
    *f = (struct fleet){.options = *o, .hasher = hasher_create()};
    check(f->hasher != NULL);
    log_replay_begin(&f->replay, saved != NULL ? &saved->replay : NULL);
    peers_begin(&f->peers, saved != NULL ? &saved->peers : NULL, now_ms);
    for (unsigned i = 0; i < o->reactors; i++) f->applied[i] = f->replay.next;
    if (f->replay.last.term > 0) remember(f);
    f->heartbeat_is_due = true;
    fleet_check(f);
}

void fleet_fini(struct fleet *f) { hasher_destroy(f->hasher); }

void fleet_save(const struct fleet *f, uint64_t now_ms, struct fleet_saved *ret)
{
    ret->replay = f->replay;
    if (ret->replay.resumes) ret->replay.next++; /* it has the entry that it has not compared yet */
    ret->replay.resumes = false;
    peers_save(&f->peers, now_ms, &ret->peers);
}

static void end(struct fleet *f, enum fleet_end why)
{
    f->role = FLEET_ENDED;
    f->end = why;
}

/* ---- reading ---- */

static bool is_mine(const struct fleet *f, const struct entry *e)
{
    return incarnation_equal(&e->incarnation, &f->options.incarnation);
}

/* The leader is there: what this engine sent before proves no silence. */
static void leader_shows(struct fleet *f)
{
    f->sign_number = f->lease.number;
    f->silent = 0;
    f->stand_ms = 0;
}

static void lead_if_won(struct fleet *f)
{
    if (f->role != FLEET_CANDIDATE || !f->term_is_acked || !f->term_is_counted) return;
    f->role = FLEET_LEADER;
    f->heartbeat_is_due = true;
}

static void read_term(struct fleet *f, const struct entry *e)
{
    leader_shows(f);
    if (is_mine(f, e) && f->role == FLEET_CANDIDATE && e->term == f->term) {
        f->term_is_counted = true;
        f->sealed_digest = e->digest;
        lead_if_won(f);
    } else if (f->role == FLEET_LEADER || (f->role == FLEET_CANDIDATE && f->term_is_counted)) {
        end(f, FLEET_DEPOSED);
    } else if (f->role == FLEET_CANDIDATE && e->term >= f->term) {
        f->role = FLEET_FOLLOWER; /* another candidate was first */
    }
}

static bool read_own_heartbeat(struct fleet *f, const struct entry *e, uint64_t offset,
                               uint64_t append_ms, uint64_t now_ms, uint64_t delay_ms)
{
    uint64_t sent_ms;
    if (!lease_read_back(&f->lease, e, offset, append_ms, now_ms, &sent_ms)) return false;
    if (sent_ms != 0) {
        uint64_t on_its_way_ms = now_ms - sent_ms;
        f->clock_is_off = e->time_ms > append_ms + FLEET_CLOCK_OFF_MS ||
                          append_ms > e->time_ms + on_its_way_ms + FLEET_CLOCK_OFF_MS;
        if (f->clock_is_off && f->role == FLEET_LEADER) end(f, FLEET_CLOCK_OFF);
    }
    if (e->heartbeat.number <= f->sign_number) return true;
    f->silent++;
    if (f->silent >= FLEET_SILENCE && f->stand_ms == 0) f->stand_ms = now_ms + delay_ms;
    return true;
}

static enum log_result read_heartbeat(struct fleet *f, const struct entry *e, uint64_t offset,
                                      uint64_t append_ms, uint64_t now_ms, uint64_t delay_ms)
{
    struct entry_point claimed = {.term = e->term, .n = e->n, .digest = e->previous}, counted;
    bool is_known = point_below(f, e->heartbeat.applied, &counted);
    if (is_known && e->heartbeat.applied > 0 && !entry_point_equal(&claimed, &counted) &&
        !planted("claim_unchecked"))
        return log_replay_stop(&f->replay, LOG_END_CUT, offset);
    peers_read(&f->peers, e, is_known || planted("claim_unchecked") ? e->heartbeat.applied : 0,
               offset, append_ms, now_ms);
    if (is_mine(f, e) && !read_own_heartbeat(f, e, offset, append_ms, now_ms, delay_ms))
        return log_replay_stop(&f->replay, LOG_END_NEVER_SENT, offset);
    if (!e->heartbeat.works || !incarnation_equal(&e->incarnation, &f->replay.leader))
        return LOG_COUNTED;
    leader_shows(f);
    if (incarnation_equal(&e->heartbeat.successor, &f->options.incarnation)) fleet_stand(f, now_ms);
    return LOG_COUNTED;
}

static enum log_result read_entry(struct fleet *f, const struct entry *e, uint64_t offset,
                                  uint64_t append_ms, uint64_t now_ms, uint64_t delay_ms)
{
    enum log_result result = log_replay_step(&f->replay, e, offset);
    if (result != LOG_COUNTED) return result;
    if (e->kind != ENTRY_HEARTBEAT) remember(f);
    switch (e->kind) {
    case ENTRY_TERM: read_term(f, e); break;
    case ENTRY_RECORDS:
        leader_shows(f);
        if (is_mine(f, e) && f->role == FLEET_LEADER && e->term == f->term) f->counted = e->n;
        break;
    case ENTRY_HEARTBEAT: return read_heartbeat(f, e, offset, append_ms, now_ms, delay_ms);
    }
    return LOG_COUNTED;
}

enum log_result fleet_read(struct fleet *f, const struct entry *e, uint64_t offset,
                           uint64_t append_ms, uint64_t now_ms, uint64_t delay_ms)
{
    if (f->role == FLEET_ENDED) return LOG_ENDED;
    enum log_result result = read_entry(f, e, offset, append_ms, now_ms, delay_ms);
    if (result == LOG_ENDED && f->role != FLEET_FOLLOWER) end(f, FLEET_LOG_ENDED);
    fleet_check(f);
    return result;
}

enum log_result fleet_pass(struct fleet *f, uint64_t offset)
{
    return f->role == FLEET_ENDED ? LOG_ENDED : log_replay_pass(&f->replay, offset);
}

void fleet_log_end(struct fleet *f, uint64_t log_end)
{
    bool fits = log_replay_fits(&f->replay, log_end);
    if (!fits && f->role != FLEET_FOLLOWER && f->role != FLEET_ENDED) end(f, FLEET_LOG_ENDED);
}

static uint64_t applied_by_all(const struct fleet *f)
{
    if (planted("applied_before_all")) return f->replay.next;
    uint64_t least = f->applied[0];
    for (unsigned i = 1; i < f->options.reactors; i++)
        if (f->applied[i] < least) least = f->applied[i];
    return least;
}

void fleet_applied(struct fleet *f, unsigned reactor, uint64_t next)
{
    check(reactor < f->options.reactors && next >= f->applied[reactor] && next <= f->replay.next);
    f->applied[reactor] = next;
    lease_applied(&f->lease, applied_by_all(f));
}

/* ---- agents ---- */

bool fleet_records(const struct fleet *f, uint64_t now_ms)
{
    return f->role != FLEET_ENDED && f->replay.end == LOG_READS && lease_admits(&f->lease, now_ms);
}

bool fleet_admits(const struct fleet *f, uint64_t now_ms)
{
    return !f->leaves && fleet_records(f, now_ms);
}

bool fleet_settled(const struct fleet *f, uint64_t offset, uint64_t now_ms)
{
    return offset < f->replay.next && peers_settled(&f->peers, offset, now_ms);
}

/* ---- sending ---- */

void fleet_leave(struct fleet *f)
{
    f->leaves = true;
    f->heartbeat_is_due = true;
    f->left_behind = f->lease.number;
}

bool fleet_has_left(const struct fleet *f)
{
    const struct lease *l = &f->lease;
    if (f->replay.end != LOG_READS) return true; /* it admits no agent any more */
    if (!f->leaves || l->closed_number <= f->left_behind) return false;
    return f->role == FLEET_ENDED ? !f->heartbeat_in_flight : l->read_number >= l->closed_number;
}

void fleet_hurry(struct fleet *f) { f->heartbeat_is_due = true; }

void fleet_stand(struct fleet *f, uint64_t now_ms) { f->stand_ms = now_ms; }

void fleet_hand_over(struct fleet *f, struct incarnation successor)
{
    f->successor = successor;
    f->heartbeat_is_due = true;
}

bool fleet_raise_format(struct fleet *f)
{
    if (f->replay.format >= entry_format_newest()) return false;
    f->raise_format = f->replay.format + 1;
    return true;
}

static struct entry entry_of(const struct fleet *f, enum entry_kind kind, uint64_t time_ms)
{
    return (struct entry){.kind = kind,
                          .format = f->replay.format,
                          .incarnation = f->options.incarnation,
                          .node = f->options.node,
                          .time_ms = time_ms};
}

static bool stands(const struct fleet *f, uint64_t now_ms)
{
    return f->role == FLEET_FOLLOWER && !f->entry_in_flight && f->replay.end == LOG_READS &&
           f->stand_ms != 0 && now_ms >= f->stand_ms && !f->clock_is_off && !f->leaves;
}

static void put_term(struct fleet *f, const struct fleet_turn *t, struct buf *out)
{
    struct entry e = entry_of(f, ENTRY_TERM, fleet_stamp(f, t->wall_ms));
    e.term = f->replay.last.term + 1;
    e.previous = f->replay.last.digest;
    e.nonce = t->nonce;
    e.address = f->options.address;
    f->role = FLEET_CANDIDATE;
    f->term = e.term;
    f->term_is_acked = f->term_is_counted = false;
    f->sealed = f->acked = f->counted = 0;
    f->entry_in_flight = true;
    f->stand_ms = 0;
    check(entry_put(&e, &f->options.key, f->hasher, out) == ERR_OK);
}

/* A leader's heartbeat keeps the others from standing, so it has to be able to serve. */
static bool is_working(const struct fleet *f, const struct fleet_turn *t)
{
    return f->role == FLEET_LEADER && f->counted > 0 && t->works && f->lease.read_number > 0 &&
           t->now_ms - f->lease.read_ms <= LEASE_READ_LATELY_MS;
}

static void put_heartbeat(struct fleet *f, const struct fleet_turn *t, struct buf *out)
{
    bool leaves = f->leaves && (t->let_in == 0 || planted("left_before_last"));
    bool closed = leaves || f->role == FLEET_ENDED || f->replay.end != LOG_READS ||
                  lease_must_close(&f->lease, t->now_ms);
    struct entry e = entry_of(f, ENTRY_HEARTBEAT, t->wall_ms);
    struct entry_point below = {0};
    uint64_t applied = applied_by_all(f);
    if (!point_below(f, applied, &below)) applied = 0;
    e.term = below.term;
    e.n = below.n;
    e.previous = below.digest;
    e.nonce = planted("nonce_reused") ? 1 : t->nonce;
    e.address = f->options.address;
    e.heartbeat = (struct heartbeat){
        .number = lease_send(&f->lease, t->now_ms, e.nonce, t->lease_ms, closed),
        .applied = applied,
        .kept = t->kept,
        .lease_ms = t->lease_ms,
        .version = f->options.version,
        .known_format = entry_format_newest(),
        .successor = f->successor,
        .closed = closed,
        .works = is_working(f, t),
        .reaches = t->reaches,
    };
    f->heartbeat_ms = t->now_ms;
    f->heartbeat_in_flight = true;
    f->heartbeat_is_due = false;
    check(entry_put(&e, &f->options.key, f->hasher, out) == ERR_OK);
}

static void step_down_if_missed(struct fleet *f, uint64_t now_ms)
{
    if (f->role != FLEET_LEADER || !peers_miss_leader(&f->peers, &f->options.incarnation, now_ms))
        f->missed_ms = 0;
    else if (f->missed_ms == 0)
        f->missed_ms = now_ms;
    else if (now_ms - f->missed_ms > FLEET_MISSED_MS)
        end(f, FLEET_UNREACHABLE);
}

enum fleet_send fleet_turn(struct fleet *f, const struct fleet_turn *t, struct buf *out)
{
    fleet_check(f);
    step_down_if_missed(f, t->now_ms);
    bool is_over = f->role == FLEET_ENDED;
    if (is_over && (!f->leaves || f->replay.end != LOG_READS)) return FLEET_NOTHING;
    if (!is_over && stands(f, t->now_ms)) {
        put_term(f, t, out);
        return FLEET_TERM;
    }
    bool is_due = f->heartbeat_is_due || t->now_ms - f->heartbeat_ms >= FLEET_HEARTBEAT_MS;
    if (!is_due || f->heartbeat_in_flight) return FLEET_NOTHING;
    put_heartbeat(f, t, out);
    return FLEET_HEARTBEAT;
}

bool fleet_may_seal(const struct fleet *f)
{
    return f->role == FLEET_LEADER && !f->entry_in_flight;
}

enum err fleet_seal(struct fleet *f, struct str records, uint64_t seq, uint64_t wall_ms,
                    struct buf *out)
{
    check(fleet_may_seal(f));
    struct entry e = entry_of(f, ENTRY_RECORDS, fleet_stamp(f, wall_ms));
    e.term = f->term;
    e.n = f->sealed + 1;
    e.previous = f->sealed_digest;
    e.seq = seq;
    e.before = f->replay.before; /* for n = 1: the replay has read up to this engine's TERM */
    e.records = records;
    if (f->raise_format > e.format) e.format = f->raise_format;
    enum err err = entry_put(&e, &f->options.key, f->hasher, out);
    if (err != ERR_OK) return err;
    f->sealed++;
    f->sealed_digest = e.digest;
    f->entry_in_flight = true;
    return ERR_OK;
}

void fleet_appended(struct fleet *f, enum entry_kind kind, bool good)
{
    if (kind == ENTRY_HEARTBEAT) {
        f->heartbeat_in_flight = false; /* a lost one is not sent again: the next is newer */
        return;
    }
    f->entry_in_flight = false;
    if (f->role == FLEET_FOLLOWER || f->role == FLEET_ENDED) return; /* another TERM was first */
    if (!good) {
        end(f, FLEET_OUTCOME_UNKNOWN);
    } else if (kind == ENTRY_TERM) {
        f->term_is_acked = true;
        lead_if_won(f);
    } else {
        f->acked = f->sealed;
    }
    fleet_check(f);
}

/* ---- leading ---- */

uint64_t fleet_stamp(struct fleet *f, uint64_t wall_ms)
{
    if (planted("time_not_floored")) return wall_ms;
    if (f->replay.time_ms > f->stamp_ms) f->stamp_ms = f->replay.time_ms;
    if (wall_ms > f->stamp_ms) f->stamp_ms = wall_ms;
    return f->stamp_ms;
}

uint64_t fleet_position(const struct fleet *f) { return f->sealed + 1; }

enum fleet_outcome fleet_outcome(const struct fleet *f, uint64_t position)
{
    if (f->acked >= position && (f->counted >= position || planted("answer_before_read_back")))
        return FLEET_DONE;
    if (f->role == FLEET_LEADER) return FLEET_WAITS;
    /* It was never sent, or is behind the TERM that ended this one: it cannot count any more. */
    if (position > f->sealed || (f->end == FLEET_DEPOSED && position > f->counted))
        return FLEET_NOTHING_HAPPENED;
    return FLEET_UNKNOWN;
}
