/* fleet_world.h - what is around the engines of a simulated fleet, for sim_fleet.c: true time, their
 * clocks, the log with its faults, and what happened how often.
 *
 * The log is Kafka's promise and no more: appends come late, are acknowledged late or not at all, come
 * twice, or come after their sender has given them up; readers see entries some time after the append,
 * in one order. A cut tail breaks the promise. Functions are static: one program includes this. */
#ifndef TESTS_FLEET_WORLD_H
#define TESTS_FLEET_WORLD_H

#include "sim/fleet_model.h"

enum {
    TICK_MS = 10,
    LOG_MAX = 8192,
    POOL_BYTES = 4 << 20,
    APPENDS_MAX = 256,
    REACTORS = 2,
    RECORDS_MAX = 8, /* in one entry */
    PRODUCE_TIMEOUT_MS = 3000,
};
static const uint64_t epoch_ms = UINT64_C(1795166400000);

/* ---- what happened ---- */

static struct sums {
    uint64_t seeds, entries, answers[OPS][ANSWER_UNKNOWN + 1];
    uint64_t delayed, ack_lost, duplicated, unknown_landed, unknown_dropped, landed_after_end,
        tails_cut, counted_cut, foreign, log_away, produce_cut, fetch_cut, peers_cut, pauses,
        mid_turn, clock_steps, kills, disks_lost, leaves, joins, lease_changes, slow_reactors,
        slow_readers, isolated;
    uint64_t takeovers, contested, stale, deposed, unknown_ends, clock_ends, missed_ends,
        reading_ended, from_snapshot, trims, trimmed_past, forks;
    uint64_t accepted, refused_stale, vouched, relayed, asked_again, late_answers, loops, barriers,
        settled, waited_ms, lapsed, reopened, published;
    uint64_t log_entries_max, powers, healed, served, served_ms, served_max_ms;
} sums;

static uint64_t state;

static uint64_t roll(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static uint64_t below(uint64_t n) { return roll() % n; }
static bool one_in(uint64_t n) { return below(n) == 0; }

/* ---- the world ---- */

struct log_entry {
    const char *bytes;
    size_t size;
    uint64_t append_ms; /* the log's own time */
    uint64_t visible_ms;
    bool is_foreign;
    bool is_parsed;
    enum entry_fault fault;
    struct entry entry;
};

enum fate { FATE_GOOD, FATE_ACK_LOST, FATE_TWICE, FATE_UNKNOWN, FATE_DROPPED };

struct append { /* under way to the log */
    bool is_used, has_landed, is_reported;
    unsigned engine;
    uint32_t life;
    enum entry_kind kind;
    enum fate fate;
    const char *bytes;
    size_t size;
    uint64_t sent_ms, lands_ms, report_ms;
};

/* What a disk keeps, and a joiner fetches: a copy of the state as of a counted entry. */
struct copy {
    bool is_there;
    struct fleet_saved fleet;
    struct model model;
    uint64_t history, commits;
};

struct engine {
    unsigned index;
    bool is_running, has_left;
    uint32_t life;
    uint64_t start_ms; /* when it runs again */
    struct fleet fleet;
    struct model model; /* by the log */
    struct model work;  /* the leader's: with what is not committed yet */
    uint64_t history, commits;
    struct copy disk, older; /* the two newest snapshots */
    char name[16];

    int64_t rate_ppm, wall_offset_ms;
    uint64_t boot_offset_ms, turn_ms; /* the clock at the turn's begin */
    uint64_t paused_until_ms, slow_reactor_until_ms, slow_reader_until_ms, wall_wrong_until_ms;
    uint64_t produce_cut_ms, fetch_cut_ms, peers_cut_ms; /* until then */
    uint64_t cut_off_ms;                                 /* when it is cut off */
    uint64_t read_lost_ms; /* the log has lost what it had read; 0: it has not */
    bool is_mid_turn, was_open, leaves;
    uint32_t lease_ms;

    struct record open[RECORDS_MAX]; /* the entry that is sealed next */
    unsigned open_count;
    bool wants_entry;
    uint64_t led_term; /* for which `work` was made */
    uint64_t resume_position[ACTORS];
    struct relays relays;
};

static struct world {
    uint64_t now_ms; /* true time */
    bool heals;      /* no fault begins any more */
    bool is_wild, was_foreign;
    unsigned engines_count;
    struct engine engines[ENGINES];
    uint64_t log_size, log_away_ms, log_visible_ms;
    uint64_t log_begin; /* entries below it were removed */
    bool trims;
    struct append appends[APPENDS_MAX];
    struct request requests[OPEN_MAX];
    unsigned appends_end, requests_end; /* none from here on is in use */
    size_t pool_size;
    struct entry_key key, foreign_key;
    struct hasher *hasher;
    uint32_t lives;
    uint64_t theme;
    struct engine *isolated; /* all others are restarted, then */
    uint64_t restart_ms;
    uint64_t agreed_count;
    /* From here on, parts that need no clearing for the next seed. */
    struct log_entry log[LOG_MAX];
    struct {
        uint64_t digest, history;
    } agreed[COMMITS_MAX]; /* what the first engine that counted an entry had counted */
    char pool[POOL_BYTES];
} world;

static void print_engine(const struct engine *e)
{
    const struct fleet *f = &e->fleet;
    if (!e->is_running) {
        printf("  %s is down until %" PRIu64 " ms\n", e->name, e->start_ms);
        return;
    }
    printf("  %s life %u: role %d end %d term %" PRIu64 ", read to %" PRIu64 " of %" PRIu64
           " (end %d), last %" PRIu64 ".%" PRIu64 ", sealed %" PRIu64 " acked %" PRIu64
           " counted %" PRIu64 ", silent %u, heartbeat %" PRIu64 " (read %" PRIu64
           ", closed %" PRIu64 ", horizon %" PRIu64 ")%s%s%s%s\n",
           e->name, e->life, (int)f->role, (int)f->end, f->term, f->replay.next, world.log_size,
           (int)f->replay.end, f->replay.last.term, f->replay.last.n, f->sealed, f->acked,
           f->counted, f->silent, f->lease.number, f->lease.read_number, f->lease.closed_number,
           f->lease.horizon_number, f->leaves ? ", leaves" : "",
           f->entry_in_flight ? ", entry in flight" : "",
           f->heartbeat_in_flight ? ", heartbeat in flight" : "",
           f->clock_is_off ? ", clock off" : "");
}

static void print_engines(void)
{
    printf("  at %" PRIu64 " ms\n", world.now_ms);
    for (unsigned i = 0; i < world.engines_count; i++) print_engine(&world.engines[i]);
}

/* ---- clocks ---- */

static uint64_t boot_ms(const struct engine *e)
{
    return e->boot_offset_ms + world.now_ms +
           (uint64_t)((int64_t)world.now_ms * e->rate_ppm / 1000000);
}

static uint64_t wall_ms(const struct engine *e)
{
    return epoch_ms + world.now_ms + (uint64_t)e->wall_offset_ms;
}

/* ---- the log ---- */

static const char *keep(struct str bytes)
{
    char *at = world.pool + world.pool_size;
    check(world.pool_size + bytes.size <= sizeof world.pool);
    memcpy(at, bytes.bytes, bytes.size);
    world.pool_size += bytes.size;
    return at;
}

static void log_append(const char *bytes, size_t size, bool is_foreign)
{
    check(world.log_size < LOG_MAX);
    uint64_t visible_ms = world.now_ms + below(20);
    if (visible_ms > world.log_visible_ms) world.log_visible_ms = visible_ms;
    struct log_entry *l = &world.log[world.log_size++];
    l->bytes = bytes;
    l->size = size;
    l->append_ms = epoch_ms + world.now_ms;
    l->visible_ms = world.log_visible_ms;
    l->is_foreign = is_foreign;
    l->is_parsed = false;
    sums.entries++;
}

/* Reading is pure, so the first reader reads for all. */
static const struct entry *log_entry(uint64_t offset)
{
    struct log_entry *l = &world.log[offset];
    if (offset < world.log_begin) fail("an entry is read that was removed");
    if (!l->is_parsed) {
        l->fault = entry_read(str_of(l->bytes, l->size), &world.key, world.hasher, &l->entry);
        l->is_parsed = true;
    }
    return l->fault == ENTRY_GOOD ? &l->entry : NULL;
}

static enum fate choose_fate(enum entry_kind kind)
{
    if (world.heals || !world.is_wild) return FATE_GOOD;
    uint64_t dice = below(kind == ENTRY_HEARTBEAT ? 120 : 200);
    return dice == 0   ? FATE_UNKNOWN
           : dice == 1 ? FATE_DROPPED
           : dice <= 4 ? FATE_ACK_LOST
           : dice <= 8 ? FATE_TWICE
                       : FATE_GOOD;
}

static void send_append(const struct engine *e, enum entry_kind kind, struct str bytes)
{
    struct append *a = NULL;
    for (unsigned i = 0; i < APPENDS_MAX && a == NULL; i++)
        if (!world.appends[i].is_used) a = &world.appends[i];
    check(a != NULL);
    unsigned end = (unsigned)(a - world.appends) + 1;
    if (end > world.appends_end) world.appends_end = end;
    uint64_t delay_ms = 1 + below(15);
    if (!world.heals && world.is_wild && one_in(40)) {
        delay_ms += below(1200);
        sums.delayed++;
    }
    *a = (struct append){.is_used = true,
                         .engine = e->index,
                         .life = e->life,
                         .kind = kind,
                         .fate = choose_fate(kind),
                         .bytes = keep(bytes),
                         .size = bytes.size,
                         .sent_ms = world.now_ms,
                         .lands_ms = world.now_ms + delay_ms};
    if (a->fate == FATE_UNKNOWN) { /* given up before or after it lands */
        a->lands_ms = world.now_ms + 1 + below(4000);
        a->report_ms = world.now_ms + 1 + below(2000);
    }
    if (a->fate == FATE_DROPPED) a->report_ms = world.now_ms + 1 + below(2000);
}

static struct engine *sender_of(const struct append *a)
{
    struct engine *e = &world.engines[a->engine];
    return e->is_running && e->life == a->life ? e : NULL;
}

static void report(struct append *a, bool good)
{
    struct engine *e = sender_of(a);
    a->is_reported = true;
    if (e == NULL) return;
    fleet_appended(&e->fleet, a->kind, good);
}

static void land(struct append *a)
{
    a->has_landed = true;
    log_append(a->bytes, a->size, false);
    if (a->fate != FATE_UNKNOWN) a->report_ms = world.now_ms + 1 + below(10);
    if (a->fate == FATE_ACK_LOST) { /* the producer sends again, and the log has it already */
        a->report_ms += 200 + below(1300);
        sums.ack_lost++;
    }
    if (a->fate == FATE_UNKNOWN) sums.unknown_landed++;
    if (sender_of(a) == NULL) sums.landed_after_end++;
}

static void step_append(struct append *a)
{
    struct engine *sender = sender_of(a);
    bool is_cut = sender != NULL && world.now_ms < sender->produce_cut_ms;
    bool is_paused = sender != NULL && world.now_ms < sender->paused_until_ms;
    if (!a->has_landed && a->fate != FATE_DROPPED && world.now_ms >= a->lands_ms &&
        world.now_ms >= world.log_away_ms && !is_cut)
        land(a);
    if (a->has_landed && a->fate == FATE_TWICE && a->is_reported &&
        world.now_ms >= a->lands_ms + 400) {
        log_append(a->bytes, a->size, false);
        a->fate = FATE_GOOD;
        sums.duplicated++;
    }
    bool is_late = !a->has_landed && world.now_ms >= a->sent_ms + PRODUCE_TIMEOUT_MS;
    if (is_late && !a->is_reported && !is_paused) report(a, false);
    if (!a->is_reported && a->report_ms != 0 && world.now_ms >= a->report_ms && !is_paused &&
        !is_cut)
        report(a, a->fate != FATE_UNKNOWN && a->fate != FATE_DROPPED);
    if (sender == NULL) a->is_reported = true;
    if (a->fate == FATE_DROPPED && a->is_reported) {
        a->is_used = false;
        sums.unknown_dropped++;
    }
    if (a->has_landed && a->is_reported && a->fate != FATE_TWICE) a->is_used = false;
    /* A request that its sender has given up reaches the log for some seconds more, then never. */
    if (!a->has_landed && a->is_reported && world.now_ms >= a->sent_ms + 3 * PRODUCE_TIMEOUT_MS)
        a->is_used = false;
}

static void step_log(void)
{
    for (unsigned i = 0; i < world.appends_end; i++)
        if (world.appends[i].is_used) step_append(&world.appends[i]);
    while (world.appends_end > 0 && !world.appends[world.appends_end - 1].is_used)
        world.appends_end--;
}

/* ---- faults of the log that Kafka promises not to have ---- */

static void cut_tail(uint64_t drop)
{
    world.log_size -= drop;
    for (uint64_t i = stories.committed; i-- > 0 && stories.commits[i].offset >= world.log_size;) {
        stories.lost = stories.committed;
        sums.counted_cut++;
    }
    for (unsigned i = 0; i < world.engines_count; i++)
        if (world.engines[i].is_running && world.engines[i].fleet.replay.next > world.log_size)
            world.engines[i].read_lost_ms = world.now_ms;
    stories.was_cut = true;
    sums.tails_cut++;
}

static void append_foreign(void)
{
    char bytes[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct record r = {.kind = R_RESUME, .stamp_ms = epoch_ms + world.now_ms};
    char records[64];
    struct buf body = buf_over(records, sizeof records);
    entry_put_record(&body, STR(""), str_of((const char *)&r, sizeof r));
    uint64_t term = 1 + below(20);
    struct entry e = {
        .kind = ENTRY_TERM, .format = ENTRY_FORMAT, .term = term, .node = STR("other")};
    check(entry_put(&e, &world.foreign_key, world.hasher, &out) == ERR_OK);
    log_append(keep(buf_view(&out)), out.size, true);
    e = (struct entry){.kind = ENTRY_RECORDS,
                       .format = ENTRY_FORMAT,
                       .term = term,
                       .n = 1,
                       .previous = e.digest,
                       .node = STR("other"),
                       .records = buf_view(&body)};
    buf_clear(&out);
    check(entry_put(&e, &world.foreign_key, world.hasher, &out) == ERR_OK);
    log_append(keep(buf_view(&out)), out.size, true);
    world.was_foreign = true;
    sums.foreign++;
}

#endif
