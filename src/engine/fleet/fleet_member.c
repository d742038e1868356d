/* fleet_member.c - the member's thread: reads, appends, and publishes the view.
 *
 *   turn   read what is there → results of appends → what all reactors have applied → the view
 *          → heartbeat, or TERM → blocks of the reactors → RECORDS → what is committed, and settled
 *          → sleep until there is something
 *
 * One entry is in flight at a time. Its blocks are committed when fleet_outcome() of its position is
 * DONE. Revocations are settled in the order of the log: a block counts as settled when all
 * revocations up to its entry are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "engine/fleet/member_inside.h"

enum {
    MESSAGES_PER_TURN = 1000,
    SLEEP_MS = 100,
    SLEEP_BUSY_MS = 2, /* while reactors apply, or a revocation settles */
    POINT_BYTES = 48,  /* in a term's first entry */
    TURNS_MS = 3000,   /* each reactor has one in this time */
};

/* ---- lists of entries ---- */

static struct member_entry *entry_make(const struct fleet_member *m)
{
    struct member_entry *n = calloc(1, sizeof *n + m->count * sizeof n->blocks[0]);
    check(n != NULL);
    n->offset = UINT64_MAX;
    return n;
}

static void entry_append(struct member_entries *l, struct member_entry *n)
{
    n->next = NULL;
    if (l->first == NULL)
        l->first = n;
    else
        l->last->next = n;
    l->last = n;
}

static struct member_entry *entry_take(struct member_entries *l)
{
    struct member_entry *n = l->first;
    l->first = n->next;
    return n;
}

/* ---- reading ---- */

static void wake_reactors(const struct fleet_member *m)
{
    for (unsigned i = 0; i < m->count; i++) reactor_wake(m->engine->reactors[i].reactor);
}

static bool is_mine(const struct fleet_member *m, const struct entry *e)
{
    return incarnation_equal(&e->incarnation, &m->fleet.options.incarnation);
}

static void settle_later(struct fleet_member *m, struct member_entry *n, uint64_t offset)
{
    n->offset = offset;
    entry_append(&m->unsettled, n);
}

static void note_records(struct fleet_member *m, const struct entry *e, uint64_t offset)
{
    bool restricts = member_restricts(e->records);
    if (!fleet_trail_note(m->trail, e, &m->fleet.replay)) {
        (void)log_replay_stop(&m->fleet.replay, LOG_END_GAP, offset);
        fleet_log_end(&m->fleet, UINT64_MAX);
        return;
    }
    if (restricts) m->hurry_next = offset + 1;
    if (!is_mine(m, e)) {
        if (e->records.size > 0) {
            fleet_lanes_hand(m->lanes, m->count, e->records, offset + 1);
            m->handed = offset + 1;
            for (unsigned i = 0; i < m->count; i++) reactor_wake(m->engine->reactors[i].reactor);
        }
        if (!restricts) return;
        struct member_entry *n = entry_make(m);
        for (unsigned i = 0; i < m->count; i++) n->blocks[i] = fleet_lane_committed(&m->lanes[i]);
        settle_later(m, n, offset);
        return;
    }
    for (struct member_entry *n = m->sealed.first; n != NULL; n = n->next) {
        if (n->position != e->n) continue;
        n->offset = offset;
        n->restricts = restricts;
    }
}

/* The leader removed entries that this engine had not read: it was away for longer than two snapshots
 * of all others. Only a start with a snapshot goes on from there. */
static bool was_trimmed(struct fleet_member *m)
{
    uint64_t begin, end;
    struct fault f;
    if (statelog_bounds(m->log, &begin, &end, &f) != ERR_OK || begin < m->fleet.replay.next)
        return false;
    if (m->has_ended) return true;
    m->has_ended = true;
    atomic_store(&m->is_over, true);
    log_text(LOG_ERROR, "fleet_log_trimmed",
             "the log begins with offset %" PRIu64
             " by now, and this engine has read up to %" PRIu64
             ": it ends, to start again with a snapshot of another engine",
             begin, m->fleet.replay.next);
    wake_reactors(m);
    m->ended(m->context);
    return true;
}

static void read_all(struct fleet_member *m)
{
    struct statelog_message message;
    struct entry e;
    for (unsigned i = 0; i < MESSAGES_PER_TURN; i++) {
        enum statelog_read found = statelog_next(m->log, &message);
        if (found == STATELOG_NOTHING) return;
        if (found == STATELOG_GONE) {
            if (!was_trimmed(m)) fleet_log_end(&m->fleet, 0);
            return;
        }
        enum log_result result = member_read(m, &message, &e);
        member_note_progress(m, &message, result == LOG_COUNTED ? &e : NULL);
        statelog_note_next(m->log, m->fleet.replay.next);
        if (result == LOG_STALE) metric_add(m->sheet, METRIC_FLEET_STALE_ENTRIES, 1);
        if (result != LOG_COUNTED) continue;
        world_time_floor(m->fleet.replay.time_ms);
        if (member_note_leader(m, &e)) {
            if (m->leader.is_self) m->sealed_seq = fleet_trail_at(m->trail)->seq;
            log_text(LOG_INFO, "fleet_leader", "%s leads in term %" PRIu64, m->leader.node,
                     m->leader.term);
        }
        if (e.kind == ENTRY_RECORDS) note_records(m, &e, message.offset);
    }
    statelog_wake(m->log); /* there is more */
}

static void look_at_log(struct fleet_member *m)
{
    uint64_t end;
    if (m->fleet.replay.end == LOG_READS && statelog_was_cut(m->log, &end))
        fleet_log_end(&m->fleet, end);
    pthread_mutex_lock(&m->lock);
    uint64_t broken = m->broken_next;
    pthread_mutex_unlock(&m->lock);
    if (broken != 0 && m->fleet.replay.end == LOG_READS) {
        (void)log_replay_stop(&m->fleet.replay, LOG_END_DELTA, broken - 1);
        fleet_log_end(&m->fleet, UINT64_MAX);
    }
    if (m->fleet.replay.end == LOG_READS || m->has_ended) return;
    pthread_mutex_lock(&m->lock);
    bool is_new = m->broken[0] == '\0';
    if (is_new) member_end_text(m, m->broken);
    pthread_mutex_unlock(&m->lock);
    if (is_new) log_text(LOG_ERROR, "fleet_reading_ended", "%s", m->broken);
}

/* ---- what the reactors have applied ---- */

static bool all_have_applied(const struct fleet_member *m)
{
    for (unsigned i = 0; i < m->count; i++)
        if (atomic_load_explicit(&m->lanes[i].applied, memory_order_acquire) < m->handed)
            return false;
    return true;
}

/* All reactors have applied their part, and then each has seen the revocations of all parts. */
static void advance_applied(struct fleet_member *m)
{
    struct revoked_log *log = m->engine->revoked;
    if (!m->applies) {
        if (m->applies_next == m->fleet.replay.next || !all_have_applied(m)) return;
        m->applies = true;
        m->applies_next = m->fleet.replay.next;
        m->applies_place = revoked_log_newest(log);
        if (!revoked_log_seen(log, m->applies_place)) wake_reactors(m);
    }
    if (!revoked_log_seen(log, m->applies_place)) return;
    m->applies = false;
    for (unsigned i = 0; i < m->count; i++) fleet_applied(&m->fleet, i, m->applies_next);
    if (m->hurry_next == 0 || m->applies_next < m->hurry_next) return;
    m->hurry_next = 0;
    fleet_hurry(&m->fleet);
}

/* ---- the view ---- */

static bool is_prepared(struct fleet_member *m)
{
    for (unsigned i = 0; i < m->count; i++)
        if (atomic_load(&m->reactors[i].prepared_term) != m->fleet.term ||
            fleet_lane_committed(&m->lanes[i]) < atomic_load(&m->reactors[i].prepared_block))
            return false;
    return true;
}

static void publish_lead(struct fleet_member *m)
{
    const struct fleet *f = &m->fleet;
    bool is_leader = f->role == FLEET_LEADER;
    if (is_leader && atomic_load(&m->prepares) != f->term && all_have_applied(m)) {
        atomic_store(&m->prepares, f->term);
        wake_reactors(m);
    }
    bool leads = is_leader && f->counted > 0 && !statelog_is_unsafe(m->log) && is_prepared(m) &&
                 !atomic_load(&m->hands_over);
    if (leads == atomic_load(&m->leads)) return;
    atomic_store(&m->leads, leads);
    log_text(LOG_INFO, leads ? "fleet_leads" : "fleet_leads_no_more",
             "term %" PRIu64 ", seq %" PRIu64, f->term, fleet_trail_end(m->trail));
    wake_reactors(m);
}

static void publish(struct fleet_member *m)
{
    const struct fleet *f = &m->fleet;
    const struct lease *l = &f->lease;
    bool reads = f->role != FLEET_ENDED && f->replay.end == LOG_READS && l->is_open &&
                 !statelog_is_unsafe(m->log);
    uint64_t until_ms = reads ? l->horizon_ms + l->horizon_lease_ms : 0;
    atomic_store(&m->records_until_ms, until_ms);
    atomic_store(&m->admits_until_ms, f->leaves ? 0 : until_ms);
    atomic_store(&m->term, f->replay.last.term);
    /* a sign of it that came behind a heartbeat of this run */
    if (f->sign_number > 0) atomic_store(&m->has_leader, true);
    atomic_store(&m->log_ms, f->replay.time_ms);
    publish_lead(m);
    uint64_t now_ms = world_boot_ms();
    metric_set(m->sheet, METRIC_FLEET_TERM, f->replay.last.term);
    metric_set(m->sheet, METRIC_FLEET_LEADS, atomic_load(&m->leads));
    metric_set(m->sheet, METRIC_FLEET_LEASE_LEFT,
               until_ms > now_ms ? (until_ms - now_ms) / 1000 : 0);
    pthread_mutex_lock(&m->lock);
    m->next_offset = f->replay.next;
    m->format = f->replay.format;
    metric_set(m->sheet, METRIC_FLEET_MEMBERS, roster_present(&m->roster));
    metric_set(m->sheet, METRIC_FLEET_SILENT, roster_silent(&m->roster));
    pthread_mutex_unlock(&m->lock);
    uint64_t entries = atomic_load(&m->read_entries);
    if (entries > 0)
        metric_set(m->sheet, METRIC_FLEET_LOG_BYTES,
                   statelog_size(m->log) * (atomic_load(&m->read_bytes) / entries));
}

/* ---- appending ---- */

static bool is_working(const struct fleet_member *m, uint64_t now_ms)
{
    for (unsigned i = 0; i < m->count; i++)
        if (now_ms - atomic_load(&m->reactors[i].turned_ms) > TURNS_MS) return false;
    return !engine_stands_still(m->engine) && !statelog_is_unsafe(m->log);
}

static void append(struct fleet_member *m, enum entry_kind kind)
{
    bool is_heartbeat = kind == ENTRY_HEARTBEAT;
    if (!is_heartbeat) m->in_flight = kind;
    if (!statelog_append(m->log, is_heartbeat ? STATELOG_HEARTBEAT : STATELOG_ENTRY,
                         buf_view(&m->out)))
        fleet_appended(&m->fleet, kind, false);
}

static void send_own(struct fleet_member *m)
{
    struct fleet_turn t = {.now_ms = world_boot_ms(),
                           .wall_ms = world_now_ms(),
                           .lease_ms = (uint32_t)m->engine->config.fleet_lease_ms,
                           .kept = atomic_load(&m->kept),
                           .reaches = atomic_load(&m->reaches)};
    chance_take(&m->chance, &t.nonce, sizeof t.nonce);
    t.works = is_working(m, t.now_ms);
    buf_clear(&m->out);
    enum fleet_send what = fleet_turn(&m->fleet, &t, &m->out);
    if (what == FLEET_NOTHING) return;
    publish(m); /* a closed heartbeat ends the horizon before it leaves */
    append(m, what == FLEET_TERM ? ENTRY_TERM : ENTRY_HEARTBEAT);
}

/* Blocks of all reactors in turn, as many as fit behind what is in m->records. */
static unsigned gather(struct fleet_member *m, struct member_entry *n, uint64_t *records)
{
    size_t room = ENTRY_BODY_MAX - POINT_BYTES - m->records.size;
    unsigned count = 0, idle = 0;
    for (unsigned i = m->first_lane++; idle < m->count; i++) {
        struct fleet_block *b = fleet_lane_take(&m->lanes[i % m->count], room);
        idle = b == NULL ? idle + 1 : 0;
        if (b == NULL) continue;
        buf_put(&m->records, buf_view(&b->bytes));
        room -= b->bytes.size;
        *records += b->records;
        n->blocks[i % m->count] = b->number;
        fleet_block_free(b);
        count++;
    }
    check(!m->records.overflow);
    return count;
}

/* A term begins with an entry at once: it ends the wait of the others. Its first record names the
 * leader, and the last record before it. */
static void seal(struct fleet_member *m)
{
    if (!fleet_may_seal(&m->fleet)) return;
    bool waits = m->fleet.sealed == 0 || atomic_load(&m->raises);
    for (unsigned i = 0; i < m->count; i++) waits = fleet_lane_waits(&m->lanes[i]) || waits;
    if (!waits) return;
    struct member_entry *n = entry_make(m);
    uint64_t records = 0, now_ms = world_now_ms();
    buf_clear(&m->records);
    if (m->fleet.sealed == 0) {
        fleet_trail_put_first(m->trail, m->fleet.term, m->fleet.options.node,
                              fleet_stamp(&m->fleet, now_ms), &m->chance, &m->records);
        records = 1;
    }
    if (gather(m, n, &records) == 0 && m->fleet.sealed > 0 && !atomic_load(&m->raises)) {
        free(n);
        return;
    }
    n->position = fleet_position(&m->fleet);
    n->sealed_ns = world_monotonic_ns();
    buf_clear(&m->out);
    check(fleet_seal(&m->fleet, buf_view(&m->records), m->sealed_seq, now_ms, &m->out) == ERR_OK);
    m->sealed_seq += records;
    atomic_store(&m->raises, false);
    entry_append(&m->sealed, n);
    metric_add(m->sheet, METRIC_FLEET_ENTRIES, 1);
    append(m, ENTRY_RECORDS);
}

static void take_results(struct fleet_member *m)
{
    enum statelog_kind kind;
    bool good;
    while (statelog_result(m->log, &kind, &good))
        fleet_appended(&m->fleet, kind == STATELOG_HEARTBEAT ? ENTRY_HEARTBEAT : m->in_flight,
                       good);
}

/* ---- what is committed, and settled ---- */

static void commit(struct fleet_member *m)
{
    bool moved = false;
    while (m->sealed.first != NULL &&
           fleet_outcome(&m->fleet, m->sealed.first->position) == FLEET_DONE) {
        struct member_entry *n = entry_take(&m->sealed);
        moved = true;
        metric_observe(m->sheet, HISTOGRAM_FLEET_COMMIT, world_monotonic_ns() - n->sealed_ns);
        for (unsigned i = 0; i < m->count; i++) {
            uint64_t before = fleet_lane_committed(&m->lanes[i]), block = n->blocks[i];
            if (block > before)
                atomic_store_explicit(&m->lanes[i].committed, block, memory_order_release);
            n->blocks[i] = before;
        }
        if (n->restricts)
            settle_later(m, n, n->offset);
        else
            free(n);
    }
    if (moved) m->moved_ns = world_monotonic_ns();
    uint64_t now_ms = world_boot_ms();
    while (m->unsettled.first != NULL &&
           fleet_settled(&m->fleet, m->unsettled.first->offset, now_ms))
        free(entry_take(&m->unsettled));
    for (unsigned i = 0; i < m->count; i++) {
        struct fleet_lane *l = &m->lanes[i];
        uint64_t block =
            m->unsettled.first != NULL ? m->unsettled.first->blocks[i] : fleet_lane_committed(l);
        if (block <= fleet_lane_settled(l)) continue;
        atomic_store_explicit(&l->settled, block, memory_order_release);
        moved = true;
    }
    if (moved) wake_reactors(m);
}

static void watch_stall(struct fleet_member *m)
{
    bool waits = m->sealed.first != NULL;
    for (unsigned i = 0; i < m->count; i++) waits = fleet_lane_waits(&m->lanes[i]) || waits;
    uint64_t now_ns = world_monotonic_ns();
    if (!waits) m->moved_ns = now_ns;
    bool stalls = now_ns - m->moved_ns > m->engine->config.stall_ms * 1000000;
    if (stalls == atomic_load(&m->stalls)) return;
    atomic_store(&m->stalls, stalls);
    log_text(stalls ? LOG_ERROR : LOG_INFO, stalls ? "fleet_log_stands_still" : "fleet_log_goes_on",
             "term %" PRIu64 ", seq %" PRIu64, m->fleet.term, m->sealed_seq);
}

/* ---- publishing ---- */

static void wake_publisher(struct fleet_member *m)
{
    uint64_t end = fleet_trail_end(m->trail);
    if (end == m->published_end) return;
    m->published_end = end;
    pthread_mutex_lock(&m->engine->followers_lock);
    publish_wake(m->engine->fleet_publisher);
    pthread_mutex_unlock(&m->engine->followers_lock);
}

/* ---- snapshots, and what they make needless ---- */

static void give_point(struct fleet_member *m)
{
    if (m->fleet.replay.end != LOG_READS || m->fleet.replay.resumes) return;
    pthread_mutex_lock(&m->lock);
    if (m->wanted_point != NULL) {
        fleet_save(&m->fleet, world_boot_ms(), &m->wanted_point->saved);
        m->wanted_point->trail = *fleet_trail_at(m->trail);
        buf_init(&m->wanted_point->past, 4096, FLEET_PAST_BYTES_MAX);
        fleet_trail_save(m->trail, &m->fleet.replay, &m->wanted_point->past);
        fleet_member_progress(m, &m->point_progress);
        m->wanted_point = NULL;
        pthread_cond_signal(&m->given);
    }
    pthread_mutex_unlock(&m->lock);
}

bool fleet_member_point(struct fleet_member *m, const _Atomic bool *given_up,
                        struct fleet_snapshot *ret, struct member_progress *ret_progress)
{
    pthread_mutex_lock(&m->lock);
    m->wanted_point = ret;
    statelog_wake(m->log);
    while (m->wanted_point != NULL && !atomic_load(given_up)) {
        const struct timespec at = condition_deadline(SLEEP_MS);
        (void)pthread_cond_timedwait(&m->given, &m->lock, &at);
    }
    bool is_given = m->wanted_point == NULL;
    m->wanted_point = NULL;
    *ret_progress = m->point_progress;
    pthread_mutex_unlock(&m->lock);
    return is_given;
}

void fleet_member_progress(const struct fleet_member *m, struct member_progress *ret)
{
    ret->bytes = atomic_load(&m->read_bytes);
    ret->entries = atomic_load(&m->read_entries);
    ret->records = atomic_load(&m->read_records);
}

/* The leader gives up what every engine can begin without, and the trail has. Any of them may be the
 * next to publish, from one of its own marks: so each has one that the log keeps, at what the platform
 * has. */
static void trim(struct fleet_member *m)
{
    uint64_t now_ms = world_boot_ms(), rest_ms = m->engine->config.snapshot_ms;
    /* not in the first while of a leader, and seldom: an engine may be reading from there */
    if (!atomic_load(&m->leads)) m->trim_due_ms = now_ms + rest_ms;
    if (now_ms < m->trim_due_ms) return;
    uint64_t until = peers_kept(&m->fleet.peers, now_ms);
    uint64_t confirmed = fleet_trail_confirmed_offset(m->trail);
    if (until <= m->trimmed || peers_latest_kept(&m->fleet.peers, now_ms) >= confirmed) return;
    m->trimmed = until;
    m->trim_due_ms = now_ms + rest_ms;
    fleet_trail_forget(m->trail, until);
    statelog_trim(m->log, until);
}

/* ---- the thread ---- */

static void end_if_over(struct fleet_member *m)
{
    static const char *const why[] = {
        [FLEET_RUNS] = "",
        [FLEET_DEPOSED] = "another engine leads the fleet now",
        [FLEET_OUTCOME_UNKNOWN] = "it is not known whether an entry is in the log",
        [FLEET_CLOCK_OFF] = "this engine's clock is more than a second off the brokers'",
        [FLEET_UNREACHABLE] = "the other engines cannot reach this one",
        [FLEET_LOG_ENDED] = "its reading of the log ended",
    };
    if (m->fleet.role != FLEET_ENDED || m->has_ended) return;
    m->has_ended = true;
    atomic_store(&m->is_over, true);
    log_text(LOG_ERROR, "fleet_lead_lost",
             "this engine led the fleet and ends, to start again as a replica: %s",
             why[m->fleet.end]);
    wake_reactors(m);
    m->ended(m->context);
}

static void leave_if_asked(struct fleet_member *m)
{
    if (!atomic_load(&m->leaving)) return;
    if (!m->fleet.leaves) fleet_leave(&m->fleet);
    if (!fleet_has_left(&m->fleet)) return;
    pthread_mutex_lock(&m->lock);
    m->has_left = true;
    pthread_cond_signal(&m->left);
    pthread_mutex_unlock(&m->lock);
}

static void *run(void *context)
{
    struct fleet_member *m = context;
    m->moved_ns = world_monotonic_ns();
    if (m->seeds) fleet_stand(&m->fleet, world_boot_ms());
    while (!atomic_load(&m->stopping)) {
        read_all(m);
        take_results(m);
        look_at_log(m);
        advance_applied(m);
        commit(m);
        wake_publisher(m);
        member_person_turn(m);
        publish(m);
        give_point(m);
        trim(m);
        send_own(m);
        seal(m);
        watch_stall(m);
        end_if_over(m);
        leave_if_asked(m);
        statelog_wait(m->log, m->applies || m->unsettled.first != NULL ? SLEEP_BUSY_MS : SLEEP_MS);
    }
    return NULL;
}

void fleet_member_start(struct fleet_member *m, void (*ended)(void *context), void *context)
{
    uint64_t now_ms = world_boot_ms();
    for (unsigned i = 0; i < m->count; i++) atomic_store(&m->reactors[i].turned_ms, now_ms);
    m->ended = ended;
    m->context = context;
    m->runs = true;
    thread_start(&m->thread, "fleet", run, m);
}

void fleet_member_leave(struct fleet_member *m, uint32_t ms)
{
    if (m == NULL || !m->runs) return;
    struct timespec until = condition_deadline(ms);
    atomic_store(&m->leaving, true);
    statelog_wake(m->log);
    pthread_mutex_lock(&m->lock);
    while (!m->has_left && pthread_cond_timedwait(&m->left, &m->lock, &until) == 0) continue;
    bool has_left = m->has_left;
    pthread_mutex_unlock(&m->lock);
    if (!has_left)
        log_text(
            LOG_WARNING, "fleet_left",
            "the log did not take the last heartbeat: revocations wait for this engine's lease");
}

void fleet_member_stop(struct fleet_member *m)
{
    if (m == NULL || !m->runs) return;
    atomic_store(&m->stopping, true);
    statelog_wake(m->log);
    check(pthread_join(m->thread, NULL) == 0);
    m->runs = false;
}

void fleet_member_destroy(struct fleet_member *m)
{
    if (m == NULL) return;
    statelog_close(m->log);
    while (m->sealed.first != NULL) free(entry_take(&m->sealed));
    while (m->unsettled.first != NULL) free(entry_take(&m->unsettled));
    for (unsigned i = 0; i < m->count; i++) fleet_lane_fini(&m->lanes[i]);
    free(m->lanes);
    fleet_trail_destroy(m->trail);
    buf_fini(&m->records);
    buf_fini(&m->out);
    fleet_fini(&m->fleet);
    hasher_destroy(m->hasher);
    memory_wipe(&m->key, sizeof m->key);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->left);
    pthread_cond_destroy(&m->given);
    disk_real_destroy(m->snapshots);
    free(m);
}

/* ---- the view: any thread ---- */

void fleet_member_leader(struct fleet_member *m, struct fleet_leader *ret)
{
    pthread_mutex_lock(&m->lock);
    *ret = m->leader;
    pthread_mutex_unlock(&m->lock);
}

struct fleet_trail *fleet_member_trail(const struct fleet_member *m) { return m->trail; }

uint64_t fleet_member_term(const struct fleet_member *m) { return atomic_load(&m->term); }

bool fleet_member_leads(const struct fleet_member *m)
{
    return atomic_load_explicit(&m->leads, memory_order_acquire);
}

bool fleet_member_is_over(const struct fleet_member *m)
{
    return atomic_load_explicit(&m->is_over, memory_order_acquire);
}

enum err fleet_member_refusal(const struct fleet_member *m)
{
    if (atomic_load_explicit(&m->is_over, memory_order_relaxed)) return ERR_LEADER_CHANGED;
    if (!fleet_member_leads(m)) return ERR_NO_LEADER;
    return atomic_load_explicit(&m->stalls, memory_order_relaxed) ? ERR_OVERLOADED : ERR_OK;
}

bool fleet_member_admits(const struct fleet_member *m)
{
    return world_boot_ms() <= atomic_load_explicit(&m->admits_until_ms, memory_order_acquire);
}

bool fleet_member_records(const struct fleet_member *m)
{
    return world_boot_ms() <= atomic_load_explicit(&m->records_until_ms, memory_order_acquire);
}

bool fleet_member_trouble(struct fleet_member *m, char to[FLEET_REASON_TEXT])
{
    pthread_mutex_lock(&m->lock);
    memcpy(to, m->broken, FLEET_REASON_TEXT);
    const bool takes_over = m->leader.is_self; /* and serves a moment later */
    pthread_mutex_unlock(&m->lock);
    if (to[0] != '\0' || statelog_trouble(m->log, to)) return true;
    const char *text = "";
    if (atomic_load(&m->is_over))
        text = "this engine led the fleet, and another engine leads now: it ends and starts again";
    else if (!fleet_member_admits(m))
        text = "the fleet's log has not been read for longer than the lease: agents are refused";
    else if (atomic_load(&m->stalls))
        text = "the fleet's log has not moved for longer than journal.stall: requests of the state "
               "are refused";
    else if (!fleet_member_leads(m) && (takes_over || !atomic_load(&m->has_leader)))
        text = "no leader of the fleet has shown itself since this engine started: requests of the "
               "state are refused";
    snprintf(to, FLEET_REASON_TEXT, "%s", text);
    return to[0] != '\0';
}

void fleet_member_note_reach(struct fleet_member *m, bool reaches)
{
    atomic_store(&m->reaches, reaches);
}

/* ---- for reactors ---- */

struct fleet_lane *fleet_member_lane(struct fleet_member *m, unsigned reactor)
{
    return &m->lanes[reactor];
}

void fleet_member_wake(struct fleet_member *m) { statelog_wake(m->log); }

void fleet_member_turned(struct fleet_member *m, unsigned reactor)
{
    atomic_store_explicit(&m->reactors[reactor].turned_ms, world_boot_ms(), memory_order_relaxed);
}

uint64_t fleet_member_prepares(const struct fleet_member *m)
{
    return atomic_load_explicit(&m->prepares, memory_order_acquire);
}

void fleet_member_prepared(struct fleet_member *m, unsigned reactor, uint64_t term, uint64_t block)
{
    atomic_store(&m->reactors[reactor].prepared_block, block);
    atomic_store(&m->reactors[reactor].prepared_term, term);
}

void fleet_member_broke(struct fleet_member *m, uint64_t next, const struct fault *why)
{
    pthread_mutex_lock(&m->lock);
    bool is_first = m->broken_next == 0;
    if (is_first) {
        m->broken_next = next;
        snprintf(m->broken, sizeof m->broken,
                 "the entry before offset %" PRIu64 " of the fleet's log cannot be applied: %.200s",
                 next, why->text);
    }
    pthread_mutex_unlock(&m->lock);
    if (is_first)
        log_text(LOG_ERROR, "fleet_reading_ended", "offset %" PRIu64 ": %s", next, why->text);
    statelog_wake(m->log);
}

uint64_t fleet_member_log_ms(const struct fleet_member *m) { return atomic_load(&m->log_ms); }
