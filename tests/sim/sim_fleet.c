/* sim_fleet.c - two to five engines of a fleet, over a log that loses, repeats and delays.
 *
 *   sim_fleet [--seeds N] [--from S] [--progress FILE]
 *   sim_fleet --planted [--seeds N]
 *
 * One seed is half a minute of a fleet: the code of src/fleet with a model of everything around it.
 * Clients ask any engine for anything; engines are killed, with their disks or without, stopped in the
 * middle of a turn, and cut from the log in each direction and from each other; each has clocks with
 * rates of their own, and wall clocks that are stepped; appends are delayed, lost, repeated and
 * reported wrong. Then all faults end, and the fleet has to serve again, whatever was before.
 *
 * What is held (fleet_model.h):
 *
 *   - an approval is redeemed at most once, a review has one winner, uses and counts keep their limits;
 *   - from the answer to a revocation or suspension on, no engine accepts what it ended, and none that
 *     introspection has shown as revoked;
 *   - a change that was answered is in the log, whichever engine is lost; leader_changed means that it
 *     is not;
 *   - reads show what was answered before them; a token that was minted is not refused;
 *   - all engines that count an entry have counted the same before it, and their copies are equal;
 *   - each committed event is published once, in order, and no other.
 *
 * A log whose tail was cut may have lost answers: then only the agreement of the engines is held.
 *
 * --planted runs each bug that can be planted until it is found. With --progress, a run goes on where
 * the one before it was stopped. */
#include <stddef.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/fleet_engine.h"

enum { WILD_MS = 24000, HEAL_MS = 12000, SERVED_MS = 10000 };

/* ---- clients ---- */

static unsigned recent(unsigned made, unsigned most)
{
    check(made > 0);
    return made - 1 - (unsigned)below(made < most ? made : most);
}

static enum op choose_op(void)
{
    static const uint8_t weights[OPS] = {
        [OP_USE] = 30,   [OP_SPEND] = 8,      [OP_COUNT] = 9,   [OP_OPEN] = 5,   [OP_REDEEM] = 8,
        [OP_MINT] = 5,   [OP_REVOKE] = 6,     [OP_SUSPEND] = 3, [OP_RESUME] = 5, [OP_APPROVE] = 6,
        [OP_REFUSE] = 2, [OP_INTROSPECT] = 5, [OP_GET] = 6};
    uint64_t total = 0;
    for (unsigned i = 0; i < OPS; i++) total += weights[i];
    uint64_t dice = below(total);
    for (unsigned i = 0; i < OPS; i++) {
        if (dice < weights[i]) return (enum op)i;
        dice -= weights[i];
    }
    return OP_USE;
}

/* False: there is no object yet, or no room. */
static bool choose_object(enum op op, unsigned *ret)
{
    switch (op) {
    case OP_COUNT: *ret = 0; return true;
    case OP_MINT:
        if (stories.tokens_made == TOKENS) return false;
        *ret = stories.tokens_made++;
        stories.tokens[*ret].actor = (unsigned)below(ACTORS);
        return true;
    case OP_OPEN:
        if (stories.reviews_made == REVIEWS) return false;
        *ret = stories.reviews_made++;
        return true;
    case OP_SUSPEND:
    case OP_RESUME: *ret = (unsigned)below(ACTORS); return true;
    case OP_APPROVE:
    case OP_REFUSE:
    case OP_REDEEM:
    case OP_GET:
        if (stories.reviews_made == 0) return false;
        *ret = recent(stories.reviews_made, 3);
        return true;
    default:
        if (stories.tokens_made == 0) return false;
        *ret = recent(stories.tokens_made, op == OP_REVOKE ? 9 : 4);
        return true;
    }
}

static struct request *new_request(enum op op, unsigned object, unsigned engine)
{
    struct request *r = NULL;
    for (unsigned i = 0; i < OPEN_MAX && r == NULL; i++)
        if (world.requests[i].stage == IDLE) r = &world.requests[i];
    if (r == NULL || stories.requests == REQUESTS) return NULL;
    unsigned end = (unsigned)(r - world.requests) + 1;
    if (end > world.requests_end) world.requests_end = end;
    *r = (struct request){.id = stories.requests++,
                          .op = op,
                          .stage = ARRIVES,
                          .object = object,
                          .engine = engine,
                          .reactor = (unsigned)below(REACTORS),
                          .begin_ms = world.now_ms,
                          .due_ms = world.now_ms};
    return r;
}

static void begin_request(void)
{
    enum op op = choose_op();
    unsigned object;
    if (!choose_object(op, &object)) return;
    if (new_request(op, object, (unsigned)below(world.engines_count)) == NULL) return;
    if (op == OP_REVOKE) stories.tokens[object].revoke_begun = true;
    if (op == OP_SUSPEND) {
        stories.actors[object].suspends_open++;
        stories.actors[object].clear_ms = 0;
    }
}

/* Most requests are plain ones, of tokens that the engine would let in. */
static void begin_uses(void)
{
    for (unsigned i = 0; i < world.engines_count; i++) {
        const struct engine *e = &world.engines[i];
        if (!e->is_running || stories.tokens_made == 0 || !one_in(8)) continue;
        unsigned skip = (unsigned)below(6);
        for (unsigned token = stories.tokens_made; token-- > 0;) {
            if (!e->model.tokens[token].is_minted || is_dead(&e->model, token) || skip-- > 0)
                continue;
            (void)new_request(OP_USE, token, i);
            break;
        }
    }
}

/* A client waits for a while. */
static void end_old_requests(void)
{
    for (unsigned i = 0; i < world.requests_end; i++) {
        struct request *r = &world.requests[i];
        if (r->stage == IDLE || world.now_ms - r->begin_ms < 16000) continue;
        (void)relay_end(&world.engines[r->engine].relays, r->id + 1);
        answer(r, ANSWER_UNKNOWN, 0);
    }
    while (world.requests_end > 0 && world.requests[world.requests_end - 1].stage == IDLE)
        world.requests_end--;
}

/* ---- faults ---- */

static uint64_t for_a_while(void) { return world.now_ms + 50 + below(one_in(3) ? 10000 : 1000); }

/* A copy of another engine that the log still follows. */
static const struct copy *copy_of_another(const struct engine *e, uint64_t first)
{
    for (unsigned i = 0; i < world.engines_count; i++) {
        const struct engine *other = &world.engines[(first + i) % world.engines_count];
        if (other != e && is_usable(&other->disk)) return &other->disk;
    }
    return NULL;
}

static void kill_engine(struct engine *e, bool with_disk, uint64_t away_ms)
{
    if (e->is_running) engine_stop(e);
    /* When the log was shortened, the state is lost with the last copy. */
    if (!with_disk && world.log_begin > 0 && copy_of_another(e, 0) == NULL) with_disk = true;
    if (!with_disk) {
        e->disk.is_there = e->older.is_there = false;
        sums.disks_lost++;
    }
    e->start_ms = world.now_ms + away_ms;
    e->paused_until_ms = 0;
    sums.kills++;
}

static void step_wall_clock(struct engine *e)
{
    int64_t most = one_in(3) ? 8000 : 500;
    e->wall_offset_ms = (int64_t)below((uint64_t)most * 2) - most;
    e->wall_wrong_until_ms = world.now_ms + 500 + below(5000);
    sums.clock_steps++;
}

/* From the log and from the others, in both directions. */
static void cut_off(struct engine *e)
{
    e->produce_cut_ms = e->fetch_cut_ms = e->peers_cut_ms = for_a_while() + below(5000);
    sums.produce_cut++;
    sums.fetch_cut++;
    sums.peers_cut++;
}

/* One engine is cut off and goes on by its copy; all others begin again, a little later, by theirs. */
static void isolate(struct engine *e)
{
    cut_off(e);
    e->produce_cut_ms = e->fetch_cut_ms = e->peers_cut_ms = world.now_ms + 6000 + below(9000);
    world.isolated = e;
    for (unsigned i = 0; i < world.engines_count;
         i++) /* they are waited for shortly, and it is not */
        if (&world.engines[i] != e) world.engines[i].lease_ms = 2000;
    world.restart_ms = world.now_ms + 1000 + below(3000);
    sums.isolated++;
}

static void do_later(void)
{
    for (unsigned i = 0; i < world.engines_count; i++) {
        struct engine *e = &world.engines[i];
        if (e->cut_off_ms == 0 || world.now_ms < e->cut_off_ms) continue;
        if (e->produce_cut_ms <= world.now_ms) { /* it reads its newest heartbeats late … */
            e->produce_cut_ms = world.now_ms + e->lease_ms + 6000;
            e->slow_reader_until_ms = e->produce_cut_ms;
            e->cut_off_ms = world.now_ms + 500 + below(3000);
        } else { /* … and nothing behind them */
            e->fetch_cut_ms = e->produce_cut_ms;
            e->cut_off_ms = 0;
        }
    }
    if (world.isolated == NULL || world.now_ms < world.restart_ms) return;
    for (unsigned i = 0; i < world.engines_count; i++)
        if (&world.engines[i] != world.isolated)
            kill_engine(&world.engines[i], true, 50 + below(500));
    world.isolated = NULL;
}

static void trouble(struct engine *e, unsigned seldom)
{
    if (!one_in(seldom)) return;
    /* In half of the seeds one kind of fault prevails: what it can do it does in combination. */
    uint64_t kind = below(12);
    if (world.theme < 12 && !one_in(3)) kind = world.theme;
    switch (kind) {
    case 0:
        e->paused_until_ms = for_a_while();
        sums.pauses++;
        break;
    case 1: kill_engine(e, !one_in(3), 100 + below(4000)); break;
    case 2:
        if (!e->is_running || e->leaves) break;
        if (!one_in(3)) e->fetch_cut_ms = world.now_ms + 500 + below(3000);
        e->leaves = true;
        fleet_leave(&e->fleet);
        break;
    case 3:
        e->produce_cut_ms = for_a_while();
        sums.produce_cut++;
        break;
    case 4: /* it writes, and does not read: until its lease is over, and it reads up slowly */
        e->fetch_cut_ms = one_in(2) ? for_a_while() : world.now_ms + e->lease_ms + below(3000);
        if (one_in(2)) e->slow_reader_until_ms = e->fetch_cut_ms + below(5000);
        sums.fetch_cut++;
        break;
    case 5:
        e->peers_cut_ms = for_a_while() + (one_in(3) ? 15000 : 0);
        sums.peers_cut++;
        break;
    case 6:
        e->slow_reactor_until_ms = for_a_while();
        sums.slow_reactors++;
        break;
    case 7:
    case 8:
        e->slow_reader_until_ms = for_a_while();
        sums.slow_readers++;
        if (one_in(2)) e->cut_off_ms = world.now_ms + 1500 + below(4000); /* with a backlog */
        break;
    case 9: step_wall_clock(e); break;
    case 10:
        if (one_in(2)) isolate(e);
        break;
    default: /* the option is raised, for example, because of an outage */
        e->lease_ms = 2000 + (uint32_t)below(12000);
        sums.lease_changes++;
        if (one_in(2)) cut_off(e);
    }
}

static void trouble_of_all(unsigned seldom)
{
    if (one_in(2 * seldom)) {
        world.log_away_ms = for_a_while();
        sums.log_away++;
    }
    if (one_in(12 * seldom)) { /* power */
        for (unsigned i = 0; i < world.engines_count; i++)
            kill_engine(&world.engines[i], true, 100 + below(2000));
        sums.powers++;
    }
}

/* ---- the fleet ---- */

static void leave_if_done(struct engine *e)
{
    if (!e->leaves || let_in(e) > 0 || !fleet_has_left(&e->fleet)) return;
    engine_stop(e);
    e->start_ms = world.now_ms + 100 + below(1500);
    sums.leaves++;
}

static void start_if_due(struct engine *e)
{
    if (world.now_ms < e->start_ms) return;
    const struct copy *from = is_usable(&e->disk) ? &e->disk : NULL;
    if (from == NULL) { /* a new machine: another engine's copy, if there is one */
        uint64_t first = below(world.engines_count);
        const struct engine *other = &world.engines[first];
        if (is_usable(&other->disk)) from = &other->disk;
        if (from == NULL && world.log_begin > 0) from = copy_of_another(e, first);
        if (from == NULL && world.log_begin > 0) fail("no copy is left for the log there is");
        sums.joins++;
    }
    engine_start(e, from);
}

static void step_world(void)
{
    unsigned first = (unsigned)below(world.engines_count);
    world.now_ms += TICK_MS;
    step_log();
    for (unsigned i = 0; i < world.engines_count; i++) {
        struct engine *e = &world.engines[(first + i) % world.engines_count];
        if (!e->is_running) start_if_due(e);
        if (e->is_running) engine_turn(e);
        if (e->is_running) leave_if_done(e);
        if (world.now_ms >= e->wall_wrong_until_ms && e->wall_wrong_until_ms != 0) {
            e->wall_offset_ms = (int64_t)below(400) - 200;
            e->wall_wrong_until_ms = 0;
        }
    }
    end_old_requests();
}

static struct engine *serving(void)
{
    for (unsigned i = 0; i < world.engines_count; i++)
        if (leads(&world.engines[i]) && world.engines[i].fleet.counted > 0)
            return &world.engines[i];
    return NULL;
}

static void make_world(void)
{
    memset(&world, 0, offsetof(struct world, log));
    memset(&stories, 0, offsetof(struct stories, commits));
    world.hasher = hasher_create();
    check(world.hasher != NULL);
    struct fleet_id id = {{1}}, other = {{2}};
    world.key = entry_key_derive(STR("pepper"), 7, STR("sim"), id);
    world.foreign_key = entry_key_derive(STR("pepper"), 7, STR("sim"), other);
    world.is_wild = !one_in(16);
    world.engines_count = 2 + (unsigned)below(ENGINES - 1);
    uint32_t lease_ms = 2000 + (uint32_t)below(12000);
    bool is_one_lease = one_in(2);
    for (unsigned i = 0; i < ACTORS; i++) stories.actors[i].clear_ms = 1;
    for (unsigned i = 0; i < world.engines_count; i++) {
        struct engine *e = &world.engines[i];
        e->index = i;
        (void)snprintf(e->name, sizeof e->name, "node-%u", i);
        e->rate_ppm = (int64_t)below(8000) - 4000;
        e->boot_offset_ms = 1000 + below(1000000);
        e->wall_offset_ms = (int64_t)below(400) - 200;
        e->lease_ms = is_one_lease ? lease_ms : 2000 + (uint32_t)below(12000);
        engine_start(e, NULL);
    }
    fleet_stand(&world.engines[0].fleet, 0); /* the seed of the fleet */
}

/* Sometimes all that had read the lost entries are lost with them. */
static void cut_tail_of_log(void)
{
    uint64_t drop = 1 + below(one_in(3) ? 60 : 4);
    if (drop >= world.log_size) return;
    for (unsigned i = 0; i < world.engines_count; i++)
        if (one_in(2)) world.engines[i].slow_reader_until_ms = world.now_ms + below(3000);
    bool with_readers = one_in(2);
    cut_tail(drop);
    for (unsigned i = 0; with_readers && i < world.engines_count; i++) {
        struct engine *e = &world.engines[i];
        if (e->disk.is_there && e->disk.fleet.replay.next > world.log_size)
            e->disk.is_there = false;
        if (e->is_running && e->fleet.replay.next > world.log_size)
            kill_engine(e, true, 100 + below(1000));
    }
}

static void be_wild(void)
{
    unsigned seldom = 400 << below(4);
    world.theme = below(24);
    uint64_t cut_ms = one_in(8) ? below(WILD_MS) : 0, foreign_ms = one_in(40) ? below(WILD_MS) : 0;
    world.trims = seed_now % 3 == 0 && cut_ms == 0 && foreign_ms == 0;
    while (world.now_ms < WILD_MS) {
        step_world();
        if (one_in(5)) begin_request();
        begin_uses();
        if (!world.is_wild) continue;
        for (unsigned i = 0; i < world.engines_count; i++) trouble(&world.engines[i], seldom);
        trouble_of_all(seldom);
        do_later();
        if (cut_ms != 0 && world.now_ms >= cut_ms) {
            cut_tail_of_log();
            cut_ms = one_in(3) ? 0 : world.now_ms + below(5000);
        }
        if (foreign_ms != 0 && world.now_ms >= foreign_ms) {
            append_foreign();
            foreign_ms = 0;
        }
    }
}

static bool is_whole(const struct engine *e)
{
    return e->is_running && fleet_admits(&e->fleet, boot_ms(e));
}

/* All faults end, and everything works again. */
static void heal(void)
{
    world.heals = true;
    world.log_away_ms = 0;
    for (unsigned i = 0; i < world.engines_count; i++) {
        struct engine *e = &world.engines[i];
        e->paused_until_ms = e->produce_cut_ms = e->fetch_cut_ms = e->peers_cut_ms = 0;
        e->slow_reactor_until_ms = e->slow_reader_until_ms = e->wall_wrong_until_ms = 0;
        e->wall_offset_ms = 0;
    }
    uint64_t until_ms = world.now_ms + HEAL_MS;
    while (world.now_ms < until_ms) {
        step_world();
        if (one_in(20)) begin_request();
    }
    for (unsigned i = 0; i < world.engines_count; i++)
        if (!is_whole(&world.engines[i]))
            fail("an engine admits no agents though all faults have ended");
    if (serving() == NULL) fail("no engine leads though all faults have ended");
    sums.healed++;
}

/* The leader is killed alone: how long is the state not served? */
static void lose_leader(void)
{
    uint64_t begin_ms = world.now_ms;
    kill_engine(serving(), true, 60000);
    while (serving() == NULL) {
        step_world();
        if (world.now_ms - begin_ms > SERVED_MS)
            fail("the state is not served again within ten seconds");
    }
    uint64_t took_ms = world.now_ms - begin_ms;
    sums.served++;
    sums.served_ms += took_ms;
    if (took_ms > sums.served_max_ms) sums.served_max_ms = took_ms;
    /* What is committed gets to the platform, from the new leader too. */
    for (unsigned i = 0; i < 200 && stories.published < stories.committed; i++) step_world();
    if (!stories.is_forked && stories.published < stories.committed)
        fail("a committed event was not published");
}

static void run_seed(uint64_t seed)
{
    seed_now = state = seed;
    print_world = print_engines;
    make_world();
    be_wild();
    if (!stories.was_cut && !world.was_foreign) {
        heal();
        lose_leader();
    }
    if (world.log_size > sums.log_entries_max) sums.log_entries_max = world.log_size;
    for (unsigned i = 0; i < world.engines_count; i++)
        if (world.engines[i].is_running) engine_stop(&world.engines[i]);
    hasher_destroy(world.hasher);
    sums.seeds++;
}

/* ---- what happened ---- */

static const struct row {
    const char *what;
    const uint64_t *count;
} rows[] = {
    {"fault: append delayed", &sums.delayed},
    {"fault: acknowledgement lost", &sums.ack_lost},
    {"fault: append repeated", &sums.duplicated},
    {"fault: outcome unknown, and it landed", &sums.unknown_landed},
    {"fault: outcome unknown, and it was lost", &sums.unknown_dropped},
    {"fault: append landed after its sender's end", &sums.landed_after_end},
    {"fault: tail of the log cut", &sums.tails_cut},
    {"fault: entries that counted cut off", &sums.counted_cut},
    {"fault: entries of another fleet", &sums.foreign},
    {"fault: log away", &sums.log_away},
    {"fault: link to the log cut, writing", &sums.produce_cut},
    {"fault: link to the log cut, reading", &sums.fetch_cut},
    {"fault: link between engines cut", &sums.peers_cut},
    {"fault: engine stopped", &sums.pauses},
    {"fault: engine stopped in the middle of a turn", &sums.mid_turn},
    {"fault: one reactor slow", &sums.slow_reactors},
    {"fault: the log read slowly", &sums.slow_readers},
    {"fault: one engine cut off, all others restarted", &sums.isolated},
    {"fault: wall clock stepped", &sums.clock_steps},
    {"fault: engine killed", &sums.kills},
    {"fault: machine lost with its disk", &sums.disks_lost},
    {"fault: all engines lost power", &sums.powers},
    {"option lease changed", &sums.lease_changes},
    {"engine left", &sums.leaves},
    {"engine joined without a disk", &sums.joins},
    {"engine began with a copy", &sums.from_snapshot},
    {"log shortened", &sums.trims},
    {"log shortened past an engine that was away", &sums.trimmed_past},
    {"takeovers", &sums.takeovers},
    {"candidates that were second", &sums.contested},
    {"stale TERM and RECORDS", &sums.stale},
    {"leaders deposed", &sums.deposed},
    {"processes ended for an unknown outcome", &sums.unknown_ends},
    {"leaders ended for their clock", &sums.clock_ends},
    {"leaders ended because peers missed them", &sums.missed_ends},
    {"readings that ended", &sums.reading_ended},
    {"logs that lost what was answered", &sums.forks},
    {"leases lapsed", &sums.lapsed},
    {"leases open again", &sums.reopened},
    {"agents let in", &sums.accepted},
    {"agents refused as stale", &sums.refused_stale},
    {"agents let in on the leader's word", &sums.vouched},
    {"requests relayed", &sums.relayed},
    {"reads asked again", &sums.asked_again},
    {"relays to an engine that does not lead", &sums.loops},
    {"barriers", &sums.barriers},
    {"revocations settled", &sums.settled},
    {"milliseconds waited for that", &sums.waited_ms},
    {"events published", &sums.published},
    {"fleets healed", &sums.healed},
    {"leaders lost alone", &sums.served},
};

static bool print_sums(void)
{
    bool all = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf("  %-48s %12" PRIu64 "\n", rows[i].what, *rows[i].count);
        if (*rows[i].count > 0) continue;
        printf("FAIL: that never happened, so nothing was shown about it\n");
        all = false;
    }
    static const char *const ops[OPS] = {"use",    "spend",      "count",   "open",   "redeem",
                                         "mint",   "revoke",     "suspend", "resume", "approve",
                                         "refuse", "introspect", "get"};
    printf("  %-12s %10s %10s %10s %10s %10s %10s %10s %10s\n", "answers", "done", "denied", "no",
           "stale", "no_leader", "busy", "changed", "unknown");
    for (unsigned i = 0; i < OPS; i++) {
        printf("  %-12s", ops[i]);
        for (unsigned a = ANSWER_DONE; a <= ANSWER_UNKNOWN; a++)
            printf(" %10" PRIu64, sums.answers[i][a]);
        printf("\n");
    }
    printf("served again after the loss of a leader: mean %" PRIu64 " ms, at most %" PRIu64 " ms\n",
           sums.served > 0 ? sums.served_ms / sums.served : 0, sums.served_max_ms);
    return all;
}

/* ---- planted bugs ---- */

/* With a seed from which on each is found soon; `--from` begins elsewhere. */
static const struct bug {
    const char *name;
    uint64_t from;
} bugs[] = {
    {"stale_counted", 1},
    {"gap_skipped", 62},
    {"foreign_fleet_taken", 7},
    {"equal_term_accepted", 11},
    {"answer_before_read_back", 1},
    {"read_without_barrier", 73},
    {"horizon_at_read", 2092},
    {"nonce_reused", 327},
    {"own_lease", 1466},
    {"applied_before_all", 367},
    {"lease_not_rechecked", 260},
    {"cached_time", 135},
    {"answered_before_followed", 503},
    {"revocation_not_settled", 1},
    {"shown_before_answered", 141},
    {"resumed_before_commit", 71},
    {"pruned_by_own_clock", 1},
    {"time_not_floored", 41},
    {"deny_in_local_journal", 1},
    {"uncommitted_published", 1},
    {"closed_opened_early", 161},
    {"left_before_last", 3222},
    {"relay_relayed", 1},
    {"late_heartbeat_taken", 11106},
    {"trimmed_past_snapshots", 78},
};

/* In a process of its own: it ends at the first failure. */
static bool is_found(const char *bug, uint64_t seeds, uint64_t from)
{
    uint64_t *ran =
        mmap(NULL, sizeof *ran, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(ran != MAP_FAILED);
    fflush(stdout);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        check(setenv("WRIT_BUG", bug, 1) == 0 && freopen("/dev/null", "w", stdout) != NULL);
        while (*ran < seeds) run_seed(from + (*ran)++);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child);
    bool found = WIFEXITED(status) && WEXITSTATUS(status) == 1;
    printf("  %-26s %s %6" PRIu64 " seeds from %" PRIu64 "\n", bug,
           found ? "found after" : "NOT found in", *ran, from);
    (void)munmap(ran, sizeof *ran);
    return found;
}

static int find_bugs(uint64_t seeds, uint64_t from)
{
    size_t count = sizeof bugs / sizeof *bugs, found = 0;
#ifndef WRIT_PLANTED_BUGS
    printf("this build cannot plant bugs (preset dev can)\n");
    return 2;
#endif
    for (size_t i = 0; i < count; i++)
        found += is_found(bugs[i].name, seeds, from != 0 ? from : bugs[i].from);
    printf("%zu of %zu planted bugs found\n", found, count);
    return found == count ? 0 : 1;
}

/* ---- progress ---- */

static bool load_progress(const char *path, uint64_t *from)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    bool good = fread(from, sizeof *from, 1, file) == 1 && fread(&sums, sizeof sums, 1, file) == 1;
    fclose(file);
    if (!good) memset(&sums, 0, sizeof sums);
    return good;
}

static void save_progress(const char *path, uint64_t from)
{
    char fresh[4096];
    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "wb");
    check(file != NULL);
    check(fwrite(&from, sizeof from, 1, file) == 1 && fwrite(&sums, sizeof sums, 1, file) == 1);
    check(fclose(file) == 0 && rename(fresh, path) == 0);
}

int main(int argc, char **argv)
{
    uint64_t seeds = 2000, from = 0;
    const char *progress = NULL;
    bool plants = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--planted") == 0)
            plants = true;
        else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0)
            seeds = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--from") == 0)
            from = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--progress") == 0)
            progress = argv[++i];
        else
            return 2;
    }
    if (plants) return find_bugs(seeds, from);
    if (from == 0) check(getrandom(&from, sizeof from, 0) == sizeof from);
    from %= UINT64_C(1) << 40;
    if (progress != NULL && load_progress(progress, &from))
        printf("sim_fleet: goes on behind %" PRIu64 " seeds\n", sums.seeds);
    printf("sim_fleet: seeds from %" PRIu64 "\n", from);
    fflush(stdout);
    while (sums.seeds < seeds) {
        run_seed(from + sums.seeds);
        if (progress != NULL && sums.seeds % 2000 == 0) save_progress(progress, from);
    }
    printf("%" PRIu64 " seeds, %" PRIu64 " entries\n", sums.seeds, sums.entries);
    return seeds < 500 || print_sums() ? 0 : 1;
}
