/* fleet_engine.h - one simulated engine of a fleet, for sim_fleet.c: what the host of fleet.h has to do.
 *
 * It reads the log, applies what counts to its copy, serves clients, relays to the leader, leads, and
 * saves its copy. Functions are static: one program includes this. */
#ifndef TESTS_FLEET_ENGINE_H
#define TESTS_FLEET_ENGINE_H

#include "sim/fleet_world.h"

/* ---- its life ---- */

static void engine_start(struct engine *e, const struct copy *from)
{
    struct fleet_options o = {.key = world.key,
                              .node = str_from(e->name),
                              .address = STR("http://10.0.0.1:7070"),
                              .version = STR("0.1.0"),
                              .reactors = REACTORS};
    e->life = ++world.lives;
    memcpy(o.incarnation.bytes, &e->life, sizeof e->life);
    o.incarnation.bytes[15] = (uint8_t)e->index;
    fleet_init(&e->fleet, &o, from != NULL ? &from->fleet : NULL, boot_ms(e));
    e->model = (struct model){0};
    e->history = e->commits = 0;
    if (from != NULL) {
        e->model = from->model;
        e->history = from->history;
        e->commits = from->commits;
        sums.from_snapshot++;
    }
    e->is_running = true;
    e->is_mid_turn = e->was_open = e->leaves = e->wants_entry = false;
    e->open_count = 0;
    e->led_term = 0;
    e->relays.count = 0;
    e->read_lost_ms = 0;
    memset(e->resume_position, 0, sizeof e->resume_position);
}

static void answer(struct request *r, enum answer a, uint64_t at)
{
    r->answer = a;
    r->stage = IDLE;
    sums.answers[r->op][a]++;
    hold_answer(r, world.now_ms, at);
}

/* The connection to its client, or to the replica that relayed it, is gone with the process. */
static void drop_requests_of(const struct engine *e)
{
    for (unsigned i = 0; i < world.requests_end; i++) {
        struct request *r = &world.requests[i];
        if (r->stage == IDLE) continue;
        bool was_here = r->engine == e->index && r->life == e->life;
        bool was_there = (r->stage == PARKED || r->stage == TO_LEADER) && r->leader == e->index &&
                         r->leader_life == e->life;
        if (!was_here && !was_there) continue;
        (void)relay_end(&world.engines[r->engine].relays, r->id + 1);
        answer(r, ANSWER_UNKNOWN, 0);
    }
}

static void engine_stop(struct engine *e)
{
    drop_requests_of(e);
    fleet_fini(&e->fleet);
    e->is_running = false;
}

static void save(struct engine *e)
{
    if (e->fleet.replay.last.term == 0 || e->fleet.replay.end != LOG_READS) return;
    if (e->disk.is_there && e->disk.fleet.replay.next < e->fleet.replay.next) e->older = e->disk;
    e->disk.is_there = true;
    fleet_save(&e->fleet, boot_ms(e), &e->disk.fleet);
    e->disk.model = e->model;
    e->disk.history = e->history;
    e->disk.commits = e->commits;
}

/* ---- reading ---- */

static bool leads(const struct engine *e) { return e->is_running && e->fleet.role == FLEET_LEADER; }

/* All engines that count an entry have counted the same before it. */
static void must_agree(uint64_t digest, uint64_t history)
{
    for (uint64_t i = world.agreed_count; i-- > 0;) {
        if (world.agreed[i].digest != digest) continue;
        if (world.agreed[i].history != history)
            fail("two engines count an entry behind different ones");
        return;
    }
    check(world.agreed_count < COMMITS_MAX);
    world.agreed[world.agreed_count].digest = digest;
    world.agreed[world.agreed_count++].history = history;
}

static void hold_commit(struct engine *e, const struct entry *entry, const struct record *records,
                        unsigned count, uint64_t offset)
{
    if (e->commits == stories.committed && !stories.is_forked)
        commit(entry->term, entry->n, e->history, records, count, offset);
    uint64_t i = e->commits++;
    if (stories.is_forked) return;
    if (stories.commits[i].term != entry->term || stories.commits[i].n != entry->n ||
        stories.commits[i].history != e->history || stories.commits[i].offset != offset) {
        /* Elsewhere, too: a late copy of an entry may land behind the cut that took the first. */
        if (!stories.was_cut) fail("an entry counts where another one was counted before");
        stories.is_forked = true;
        sums.forks++;
        return;
    }
    if (stories.commits[i].hash != model_hash(&e->model)) fail("two copies differ at one entry");
}

static void apply_records(struct engine *e, const struct entry *entry, uint64_t offset)
{
    struct record records[RECORDS_MAX];
    unsigned count = 0;
    struct str rest = entry->records, public_bytes, private_bytes;
    while (entry_next_record(&rest, &public_bytes, &private_bytes)) {
        check(private_bytes.size == sizeof *records && count < RECORDS_MAX);
        memcpy(&records[count++], private_bytes.bytes, sizeof *records);
    }
    bool restricts = false;
    for (unsigned i = 0; i < count; i++) {
        const struct record *r = &records[i];
        (void)model_apply(&e->model, r, offset + 1);
        restricts |= r->kind == R_REVOKE || r->kind == R_SUSPEND;
        if (r->kind == R_REVOKE) e->work.tokens[r->object].at = offset + 1;
        if (r->kind == R_SUSPEND) e->work.actors[r->object].at = offset + 1;
    }
    if (planted("pruned_by_own_clock")) forget_counts(&e->model, wall_ms(e) - WINDOW_MS);
    hold_commit(e, entry, records, count, offset);
    if (restricts) fleet_hurry(&e->fleet);
}

static void end_older_relays(struct engine *e);

static void read_one(struct engine *e, uint64_t offset)
{
    const struct entry *entry = log_entry(offset);
    struct fleet *f = &e->fleet;
    enum fleet_role role = f->role;
    enum log_result result = fleet_read(f, entry, offset, world.log[offset].append_ms, boot_ms(e),
                                        below(FLEET_STAND_DELAY_MS + 1));
    if (result == LOG_STALE && entry->kind != ENTRY_HEARTBEAT) sums.stale++;
    if (result == LOG_ENDED && f->replay.end != LOG_READS && !stories.was_cut && !world.was_foreign)
        fail("reading ended though the log is whole");
    if (result == LOG_ENDED) sums.reading_ended++;
    if (result != LOG_COUNTED || entry->kind == ENTRY_HEARTBEAT) return;
    if (world.log[offset].is_foreign) fail("an entry of another fleet counts");
    uint64_t digest;
    memcpy(&digest, entry->digest.bytes, sizeof digest);
    e->history = mix(e->history, &digest, sizeof digest);
    if (entry->kind == ENTRY_RECORDS) must_agree(digest, e->history);
    if (entry->kind == ENTRY_RECORDS) apply_records(e, entry, offset);
    if (entry->kind == ENTRY_TERM) end_older_relays(e);
    if (role == FLEET_CANDIDATE && f->role == FLEET_FOLLOWER) sums.contested++;
}

static void engine_read(struct engine *e)
{
    struct fleet *f = &e->fleet;
    bool reads_slowly = world.now_ms < e->slow_reader_until_ms;
    if (world.now_ms < e->fetch_cut_ms || world.now_ms < world.log_away_ms ||
        !one_in(reads_slowly ? 60 : 2))
        return;
    fleet_log_end(f, world.log_size);
    if (f->replay.next < world.log_begin) { /* its process ends, and begins with a later copy */
        sums.trimmed_past++;
        engine_stop(e);
        e->start_ms = world.now_ms + 200 + below(1200);
        return;
    }
    for (unsigned i = 1 + (unsigned)below(6); i > 0; i--) {
        uint64_t next = f->replay.next;
        if (next >= world.log_size || world.log[next].visible_ms > world.now_ms) break;
        if (f->replay.end != LOG_READS || f->role == FLEET_ENDED) break;
        if (next > world.log_begin && one_in(40)) read_one(e, next - 1); /* it was shorter */
        if (f->replay.end == LOG_READS) read_one(e, next);
    }
}

static void lead_if_new(struct engine *e)
{
    if (!leads(e) || e->led_term == e->fleet.term) return;
    e->led_term = e->fleet.term;
    e->work = e->model;
    e->wants_entry = true;
    sums.takeovers++;
}

/* Reactors see revocations when they turn: not when the log is read. */
static void engine_cursors(struct engine *e)
{
    for (unsigned i = 0; i < REACTORS; i++) {
        if (i == 1 && world.now_ms < e->slow_reactor_until_ms) continue;
        if (one_in(3)) fleet_applied(&e->fleet, i, e->fleet.replay.next);
    }
}

/* ---- a plain decision ---- */

static bool is_past(const struct engine *e, const struct request *r, uint64_t at)
{
    return at != 0 && at <= e->fleet.applied[r->reactor] && at > r->as_of;
}

/* By this reactor's view: of the log, and at the leader of what it has done itself. */
static bool is_stopped(const struct engine *e, const struct request *r)
{
    const struct model *m = &e->model;
    unsigned actor = stories.tokens[r->object].actor;
    if (leads(e) && is_dead(&e->work, r->object)) return true;
    if (leads(e) && fleet_outcome(&e->fleet, e->resume_position[actor]) != FLEET_DONE &&
        !planted("resumed_before_commit"))
        return true; /* the resumption may come to nothing */
    if (leads(e) && planted("resumed_before_commit")) return false;
    return (m->tokens[r->object].is_revoked && is_past(e, r, m->tokens[r->object].at)) ||
           (m->actors[actor].is_suspended && is_past(e, r, m->actors[actor].at));
}

static void park(struct engine *leader, struct request *r, bool awaits_settled)
{
    r->stage = PARKED;
    r->leader = leader->index;
    r->leader_life = leader->life;
    r->position = fleet_position(&leader->fleet);
    r->awaits_settled = awaits_settled;
    leader->wants_entry = true;
}

static void relay(struct engine *e, struct request *r);

static void begin_use(struct engine *e, struct request *r)
{
    uint64_t clock_ms = planted("cached_time") ? e->turn_ms : boot_ms(e);
    if (!fleet_admits(&e->fleet, clock_ms)) {
        sums.refused_stale++;
        answer(r, ANSWER_STALE, 0);
        return;
    }
    const struct model *m = leads(e) ? &e->work : &e->model;
    if (!r->was_asked && (!m->tokens[r->object].is_minted || is_stopped(e, r))) {
        /* A no of its own copy: the leader is asked. */
        r->is_ask = true;
        relay(e, r);
        return;
    }
    r->stage = ADMITTED;
    r->due_ms = world.now_ms + (one_in(6) ? below(2500) : below(30));
}

/* The log has lost heartbeats that it had read back: no other engine has seen that they began a lease.
 * Afterwards it has to have noticed. */
static bool may_be_late(const struct engine *e)
{
    return e->read_lost_ms != 0 &&
           world.now_ms - e->read_lost_ms <= e->lease_ms + e->lease_ms / 50 + 1000;
}

static void record_use(struct engine *e, struct request *r)
{
    uint64_t clock_ms = planted("cached_time") ? e->turn_ms : boot_ms(e);
    if (!fleet_records(&e->fleet, clock_ms) && !planted("lease_not_rechecked")) {
        sums.refused_stale++;
        answer(r, ANSWER_STALE, 0);
    } else if (is_stopped(e, r)) {
        answer(r, ANSWER_NO, 0); /* in a program: asked once more */
    } else {
        if (!may_be_late(e)) must_be_acceptable(r->object, e->commits);
        sums.accepted++;
        sums.vouched += r->was_asked;
        answer(r, ANSWER_DONE, 0);
    }
}

/* ---- requests of the state, at the leader ---- */

static struct record record_of(struct engine *e, const struct request *r, enum record_kind kind)
{
    return (struct record){.kind = (uint8_t)kind,
                           .object = (uint8_t)r->object,
                           .actor = (uint8_t)stories.tokens[r->object].actor,
                           .max = (uint8_t)(1 + r->object % 3),
                           .request = r->id,
                           .stamp_ms = fleet_stamp(&e->fleet, wall_ms(e))};
}

/* What a request comes to, by the leader's own state. True: `kind` is recorded. */
static bool decide(struct engine *e, struct request *r, enum record_kind *kind, enum answer *a)
{
    struct model *m = &e->work;
    unsigned o = r->object;
    uint64_t stamp_ms = fleet_stamp(&e->fleet, wall_ms(e));
    *a = ANSWER_DONE;
    switch (r->op) {
    case OP_SPEND:
        *kind = is_dead(m, o)                           ? R_DEAD_DENIED
                : m->tokens[o].uses >= m->tokens[o].max ? R_SPEND_DENIED
                                                        : R_SPEND;
        if (*kind != R_SPEND) *a = ANSWER_DENIED;
        return true;
    case OP_COUNT:
        forget_counts(m, stamp_ms - WINDOW_MS);
        *kind = m->counted_size < LIMIT ? R_COUNT : R_COUNT_DENIED;
        if (*kind != R_COUNT) *a = ANSWER_DENIED;
        return true;
    case OP_MINT: *kind = R_MINT; return true;
    case OP_OPEN: *kind = R_OPEN; return true;
    case OP_SUSPEND: *kind = R_SUSPEND; return true;
    case OP_RESUME: *kind = R_RESUME; return true;
    case OP_REVOKE: *kind = R_REVOKE; return !m->tokens[o].is_revoked;
    case OP_APPROVE:
    case OP_REFUSE:
        *kind = r->op == OP_APPROVE ? R_APPROVE : R_REFUSE;
        if (m->reviews[o].state == REVIEW_PENDING) return true;
        *a = ANSWER_NO;
        return false;
    case OP_REDEEM:
        *kind = R_REDEEM;
        if (m->reviews[o].state == REVIEW_APPROVED && stamp_ms < m->reviews[o].deadline_ms)
            return true;
        *a = ANSWER_NO;
        return false;
    case OP_INTROSPECT: r->shown = m->tokens[o].is_revoked; return false;
    case OP_GET: r->shown = m->reviews[o].state; return false;
    case OP_USE: /* asked about: is it alive? */
        if (!m->tokens[o].is_minted || is_dead(m, o)) *a = ANSWER_DENIED;
        r->vouched = e->fleet.replay.next;
        return false;
    default: check(false);
    }
    return false;
}

static void send_back(struct request *r, enum answer a, uint64_t at);

static void serve(struct engine *e, struct request *r)
{
    enum record_kind kind;
    enum answer a;
    if (r->op < OP_MINT && !r->is_ask && !fleet_admits(&e->fleet, boot_ms(e))) {
        sums.refused_stale++;
        send_back(r, ANSWER_STALE, 0);
        return;
    }
    if (e->open_count == RECORDS_MAX) {
        send_back(r, ANSWER_BUSY, 0);
        return;
    }
    bool is_recorded = decide(e, r, &kind, &a);
    bool shows_dead = r->op == OP_INTROSPECT && r->shown && !planted("shown_before_answered");
    r->answer = a;
    if (a == ANSWER_DENIED && is_recorded && planted("deny_in_local_journal")) {
        send_back(r, a, 0);
        return;
    }
    if (is_recorded) {
        e->open[e->open_count] = record_of(e, r, kind);
        const char *broken = model_apply(&e->work, &e->open[e->open_count++], 0);
        if (broken != NULL && !planted("time_not_floored")) fail(broken);
        if (kind == R_RESUME) e->resume_position[r->object] = fleet_position(&e->fleet);
    } else if (planted("read_without_barrier") && !shows_dead && r->op != OP_REVOKE) {
        send_back(r, a, 0);
        return;
    }
    park(e, r, r->op == OP_REVOKE || r->op == OP_SUSPEND || shows_dead);
}

static void release(struct engine *e, struct request *r)
{
    enum fleet_outcome outcome = fleet_outcome(&e->fleet, r->position);
    if (outcome == FLEET_WAITS) return;
    if (outcome == FLEET_NOTHING_HAPPENED) {
        send_back(r, ANSWER_LEADER_CHANGED, 0);
        return;
    }
    if (outcome == FLEET_UNKNOWN) {
        send_back(r, ANSWER_UNKNOWN, 0);
        return;
    }
    uint64_t at = 0;
    if (r->awaits_settled) {
        at = r->op == OP_SUSPEND ? e->work.actors[r->object].at : e->work.tokens[r->object].at;
        if (at == 0 || !fleet_settled(&e->fleet, at - 1, boot_ms(e))) {
            sums.waited_ms += TICK_MS;
            return;
        }
        sums.settled++;
    }
    send_back(r, r->answer, at);
}

/* ---- relays ---- */

static struct engine *leader_of(const struct engine *e)
{
    for (unsigned i = 0; i < world.engines_count; i++) {
        struct engine *o = &world.engines[i];
        if (o->is_running && e->fleet.replay.last.term > 0 &&
            incarnation_equal(&o->fleet.options.incarnation, &e->fleet.replay.leader))
            return o;
    }
    return NULL;
}

static bool reaches(const struct engine *a, const struct engine *b)
{
    return b != NULL &&
           (a == b || (world.now_ms >= a->peers_cut_ms && world.now_ms >= b->peers_cut_ms));
}

static void relay(struct engine *e, struct request *r)
{
    struct engine *leader = leader_of(e);
    uint64_t term = e->fleet.replay.last.term;
    if (leads(e)) {
        r->relay_term = 0;
        serve(e, r);
        return;
    }
    if (!reaches(e, leader)) {
        answer(r, ANSWER_NO_LEADER, 0);
        return;
    }
    struct relay about = {
        .id = r->id + 1, .term = term, .is_read = r->op >= OP_INTROSPECT || r->is_ask};
    if (relay_begin(&e->relays, &about, false) != ERR_OK) {
        answer(r, ANSWER_BUSY, 0);
        return;
    }
    r->relay_term = term;
    r->stage = TO_LEADER;
    r->leader = leader->index;
    r->leader_life = leader->life;
    r->due_ms = world.now_ms + 1 + (one_in(20) ? below(800) : below(20));
    r->hops = 1;
    sums.relayed++;
}

/* Another engine leads now. */
static void end_older_relays(struct engine *e)
{
    struct relay old;
    while (relay_take_older(&e->relays, e->fleet.replay.last.term, &old)) {
        struct request *r = NULL;
        for (unsigned i = 0; i < world.requests_end; i++)
            if (world.requests[i].stage != IDLE && world.requests[i].id + 1 == old.id)
                r = &world.requests[i];
        if (r == NULL) continue;
        if (!old.is_read) {
            answer(r, ANSWER_UNKNOWN, 0);
            continue;
        }
        r->stage = ARRIVES; /* asked again; what the old leader answers is not waited for */
        r->due_ms = world.now_ms;
        r->is_ask = false;
        sums.asked_again++;
    }
}

/* The leader's answer leaves for the client, or for the replica that relayed the request. */
static void send_back(struct request *r, enum answer a, uint64_t at)
{
    if (r->relay_term == 0) {
        struct engine *e = &world.engines[r->engine];
        r->answer = a;
        if (!r->is_ask || (a != ANSWER_DONE)) {
            answer(r, a, at);
            return;
        }
        r->is_ask = false;
        r->was_asked = true;
        r->as_of = r->vouched;
        begin_use(e, r);
        return;
    }
    r->answer = a;
    r->position = at; /* its answer is about that */
    r->stage = RETURNS;
    r->due_ms = world.now_ms + 1 + (one_in(20) ? below(800) : below(20));
}

static void arrive_at_leader(struct request *r)
{
    struct engine *to = &world.engines[r->leader];
    struct engine *from = &world.engines[r->engine];
    if (!to->is_running || to->life != r->leader_life || !reaches(from, to)) {
        (void)relay_end(&from->relays, r->id + 1);
        answer(r, ANSWER_UNKNOWN, 0);
        return;
    }
    if (world.now_ms < to->paused_until_ms) return;
    if (relay_is_served(r->relay_term, leads(to) ? to->fleet.term : 0)) {
        serve(to, r);
        return;
    }
    struct relay about = {.id = r->id + 1, .term = to->fleet.replay.last.term};
    sums.loops++;
    if (relay_begin(&to->relays, &about, true) == ERR_OK) r->hops++;
    if (r->hops > 1) fail("a relayed request was relayed again");
    send_back(r, ANSWER_NO_LEADER, 0);
}

static void return_to_origin(struct request *r)
{
    struct engine *from = &world.engines[r->engine];
    if (world.now_ms < from->paused_until_ms) return;
    bool is_lost = !reaches(from, &world.engines[r->leader]);
    if (!relay_end(&from->relays, r->id + 1)) return;
    if (is_lost) {
        answer(r, ANSWER_UNKNOWN, 0);
    } else if (r->is_ask && r->answer == ANSWER_DONE) {
        r->is_ask = false;
        r->was_asked = true;
        r->as_of = r->vouched;
        begin_use(from, r);
    } else {
        answer(r, r->answer, r->position);
    }
}

/* ---- its turn ---- */

static void step_request(struct engine *e, struct request *r)
{
    if (r->stage == ARRIVES && r->due_ms <= world.now_ms && r->engine == e->index) {
        r->life = e->life;
        if (r->op == OP_USE)
            begin_use(e, r);
        else
            relay(e, r);
    } else if (r->stage == ADMITTED && r->engine == e->index && r->due_ms <= world.now_ms) {
        record_use(e, r);
    } else if (r->stage == PARKED && r->leader == e->index) {
        release(e, r);
    } else if (r->stage == TO_LEADER && r->leader == e->index && r->due_ms <= world.now_ms) {
        arrive_at_leader(r);
    } else if (r->stage == RETURNS && r->engine == e->index && r->due_ms <= world.now_ms) {
        return_to_origin(r);
    }
}

static void engine_requests(struct engine *e)
{
    for (unsigned i = 0; i < world.requests_end; i++)
        if (world.requests[i].stage != IDLE) step_request(e, &world.requests[i]);
}

static unsigned let_in(const struct engine *e)
{
    unsigned count = 0;
    for (unsigned i = 0; i < world.requests_end; i++)
        count += world.requests[i].stage == ADMITTED && world.requests[i].engine == e->index;
    return count;
}

/* Without a disk there is nothing to begin with. */
static bool is_usable(const struct copy *c)
{
    return c->is_there && c->fleet.replay.next > world.log_begin;
}

/* It begins again without the entries below this one, from either copy. */
static uint64_t kept_by(const struct engine *e)
{
    return e->disk.is_there && e->older.is_there ? e->older.fleet.replay.next - 1 : 0;
}

/* The leader removes what all engines can begin without. */
static void trim(const struct engine *e)
{
    uint64_t until = peers_kept(&e->fleet.peers, boot_ms(e));
    if (!world.trims || until <= world.log_begin) return;
    world.log_begin = until;
    sums.trims++;
}

static void engine_send(struct engine *e)
{
    char bytes[2048], body[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct fleet_turn t = {.now_ms = boot_ms(e),
                           .wall_ms = wall_ms(e),
                           .nonce = roll(),
                           .lease_ms = e->lease_ms,
                           .reaches = reaches(e, leader_of(e)),
                           .works = world.now_ms >= e->slow_reactor_until_ms,
                           .kept = kept_by(e),
                           .let_in = let_in(e)};
    enum fleet_send what = fleet_turn(&e->fleet, &t, &out);
    if (what != FLEET_NOTHING)
        send_append(e, what == FLEET_TERM ? ENTRY_TERM : ENTRY_HEARTBEAT, buf_view(&out));
    if (!fleet_may_seal(&e->fleet) || !e->wants_entry || !one_in(2)) return;
    struct buf records = buf_over(body, sizeof body);
    for (unsigned i = 0; i < e->open_count; i++)
        entry_put_record(&records, STR("{}"), str_of((const char *)&e->open[i], sizeof *e->open));
    sums.barriers += e->open_count == 0;
    buf_clear(&out);
    check(fleet_seal(&e->fleet, buf_view(&records), e->commits, wall_ms(e), &out) == ERR_OK);
    send_append(e, ENTRY_RECORDS, buf_view(&out));
    e->open_count = 0;
    e->wants_entry = false;
}

/* What the platform does not have yet, in its order. */
static void engine_publish(struct engine *e)
{
    uint64_t next = stories.published;
    bool early = planted("uncommitted_published") && e->fleet.sealed > e->fleet.counted &&
                 next == e->commits;
    if (next >= e->commits && !early) return;
    if (stories.is_forked || !one_in(3)) return;
    if (next >= stories.committed) fail("an event was published that is not committed");
    stories.published++;
    sums.published++;
}

static void watch_lease(struct engine *e)
{
    bool is_open = fleet_admits(&e->fleet, boot_ms(e));
    sums.lapsed += e->was_open && !is_open;
    sums.reopened += !e->was_open && is_open;
    e->was_open = is_open;
}

static void end_process(struct engine *e)
{
    enum fleet_end why = e->fleet.end;
    sums.deposed += why == FLEET_DEPOSED;
    sums.unknown_ends += why == FLEET_OUTCOME_UNKNOWN;
    sums.clock_ends += why == FLEET_CLOCK_OFF;
    sums.missed_ends += why == FLEET_UNREACHABLE;
    for (unsigned i = 0; i < world.requests_end; i++) {
        struct request *r = &world.requests[i];
        if (r->stage == PARKED && r->leader == e->index) release(e, r);
    }
    /* Its drain: what was answered leaves. */
    for (unsigned i = 0; i < world.requests_end; i++) {
        struct request *r = &world.requests[i];
        if (r->stage == PARKED && r->leader == e->index) send_back(r, ANSWER_UNKNOWN, 0);
    }
    engine_stop(e);
    e->start_ms = world.now_ms + 200 + below(1200);
}

static void engine_turn(struct engine *e)
{
    if (world.now_ms < e->paused_until_ms) return;
    if (!e->is_mid_turn) {
        e->turn_ms = boot_ms(e);
        if (!world.heals && world.is_wild && one_in(900)) {
            e->paused_until_ms = world.now_ms + 50 + below(one_in(3) ? 9000 : 800);
            e->is_mid_turn = true;
            sums.mid_turn++;
            return;
        }
    }
    e->is_mid_turn = false;
    if (one_in(2)) engine_read(e);
    if (!e->is_running) return;
    lead_if_new(e);
    if (e->fleet.role != FLEET_ENDED) {
        engine_cursors(e);
        engine_requests(e);
        engine_send(e);
        watch_lease(e);
    }
    if (e->fleet.role == FLEET_ENDED) {
        end_process(e);
        return;
    }
    if (leads(e)) engine_publish(e);
    if (leads(e)) trim(e);
    if (one_in(60)) save(e);
}

#endif
