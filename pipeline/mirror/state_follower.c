/* state_follower.c - the thread that follows the state: when to make a snapshot, and the mirror's steps.
 *
 * The thread turns its loop and does, each time it is awake, what there is to do: connect,
 * follow, repair. Making a replay takes seconds where there is much state, and Redis' answers
 * have deadlines; so a replay has a thread of its own, one at a time, and hands over what it
 * made. With Redis configured a replay serves twice: it becomes the next snapshot, and the mirror
 * rewrites from it what is unfit.
 *
 *   this thread    loop: wakeup, timers, Redis            replay thread   load → follow → prune → write → (hand over)
 *
 * state_follower_wake() is called for every sync of the journal. It rings only when the thread listens, and
 * after a ring the thread first waits a little for company: a busy engine pays one load per
 * sync. */
#include "pipeline/mirror/state_follower.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "pipeline/mirror/mirror.h"
#include "snapshot/snapshot.h"

enum {
    COMPANY_MS = 20, /* records that a round waits for */
    TICK_MS = 1000,
    PROBE_MS = 5000,
    SNAPSHOT_RETRY_MS = 30000,
    CLAIM_LOOK_MS = 5,
    REPLAY_NICE = 5,
    REPLAY_REST = 8, /* times as long as a replay took, before a snapshot is due again */
};

static const struct backoff retries = {.first_ms = 100, .most_ms = 5000};

/* The replay thread sets ENDED, and this thread the others. */
enum replay_state { REPLAY_NONE, REPLAY_RUNS, REPLAY_ENDED };

struct state_follower {
    struct journal *journal;
    struct disk *disk;
    char node[65];
    uint64_t snapshot_bytes, snapshot_ms, tick_ms, probe_ms;
    struct metrics_sheet *sheet;
    void (*lost_ownership)(void *context);
    void *context;
    pthread_t thread;

    /* The thread's own. */
    struct loop *loop;
    struct loop_wakeup wakeup;
    struct loop_timer tick, company, retry;
    struct mirror *mirror; /* NULL: no Redis is configured */
    struct lineage past;   /* what was known when this started, and this epoch */
    uint64_t bytes_before; /* of the journal, when the newest snapshot was begun */
    uint64_t bytes_behind; /* and what recovery applied behind it */
    uint64_t last_bytes;   /* of the newest snapshot's file */
    uint64_t snapshot_due_ms, probe_due_ms;
    uint64_t rest_until_ms; /* no snapshot is due before */
    uint64_t failures;      /* of Redis, in a row */
    bool may_connect, may_follow, wants_replay, wants_mark;
    /* and nothing got through since: a connection alone is no good news */
    bool writes_fail;
    struct replay *replay; /* handed over */

    /* The replay thread's: filled before it starts, read after it ended. */
    struct {
        pthread_t thread;
        _Atomic enum replay_state state;
        bool give;
        enum err err;
        struct fault fault;
        struct replay *replay;
        uint64_t position, size, bytes_begun, begun_ms;
        uint32_t live[LIMIT_SLOTS];
    } replaying;

    /* Between threads. */
    _Atomic bool listening, stopping, given_up;
    _Atomic uint64_t drain_until_ms;
    pthread_mutex_t windows_lock;
    struct limit_windows windows; /* its list is on the heap */
    pthread_mutex_t lock;         /* of what follows */
    struct state_follower_status status;
    bool claim_settled; /* Redis is ours, lost or away: await_claim() ends */
};

static uint64_t monotonic_ms(void) { return world_monotonic_ns() / 1000000; }

/* Until replay_end() has taken what it made. */
static bool replay_is_under_way(const struct state_follower *k)
{
    return atomic_load(&k->replaying.state) != REPLAY_NONE;
}

/* ---- status ---- */

static void tell_redis(struct state_follower *k, bool reachable, bool lost, const char *text)
{
    bool was_reachable = k->status.redis_reachable;
    bool is_new = strcmp(k->status.text, text) != 0;
    pthread_mutex_lock(&k->lock);
    k->status.redis_reachable = reachable;
    k->status.redis_lost = lost;
    snprintf(k->status.text, sizeof k->status.text, "%s", text);
    pthread_mutex_unlock(&k->lock);
    if (text[0] != '\0' && is_new)
        log_line(lost ? LOG_ERROR : LOG_WARNING, lost ? "redis_lost" : "redis_trouble", "text",
                 text, NULL);
    if (reachable && !was_reachable) log_line(LOG_INFO, "redis_in_use", NULL);
    metric_set(k->sheet, METRIC_REDIS_UP, reachable);
}

static void tell_position(struct state_follower *k)
{
    uint64_t position = mirror_position(k->mirror), durable = journal_durable_seq(k->journal);
    pthread_mutex_lock(&k->lock);
    k->status.mirror_position = position;
    pthread_mutex_unlock(&k->lock);
    metric_set(k->sheet, METRIC_REDIS_POSITION, position);
    metric_set(k->sheet, METRIC_REDIS_LAG, durable > position ? durable - position : 0);
}

void state_follower_status(const struct state_follower *k, struct state_follower_status *ret)
{
    struct state_follower *own =
        (struct state_follower *)(uintptr_t)k; /* the lock is the only thing that changes */
    pthread_mutex_lock(&own->lock);
    *ret = k->status;
    pthread_mutex_unlock(&own->lock);
}

/* ---- replays ---- */

void state_follower_hold_limits(struct state_follower *k, const struct limit_windows *windows)
{
    struct limit_windows copy = limit_windows_copy(windows);
    pthread_mutex_lock(&k->windows_lock);
    struct limit_windows before = k->windows;
    k->windows = copy;
    pthread_mutex_unlock(&k->windows_lock);
    limit_windows_free(&before);
}

static void prune(struct state_follower *k, struct replay *replay)
{
    uint64_t now = world_now_ms();
    pthread_mutex_lock(&k->windows_lock);
    shard_hold_limits(replay->shard, &k->windows);
    shard_prune(replay->shard, now > REPLAY_PRUNE_MARGIN_MS ? now - REPLAY_PRUNE_MARGIN_MS : 0);
    shard_hold_limits(replay->shard, &limit_windows_unknown);
    pthread_mutex_unlock(&k->windows_lock);
}

/* Where no snapshot verifies, a journal that begins with seq 1 is enough. */
static enum err begin_replay(struct state_follower *k, struct replay *replay, struct fault *f)
{
    struct journal_totals totals;
    enum err err = replay_load(replay, k->disk, &k->given_up, f);
    if (err != ERR_CORRUPT || replay->past.damage != SNAPSHOT_NONE_VERIFIES) return err;
    journal_totals(k->journal, &totals);
    return totals.oldest_seq <= 1 ? ERR_OK : err;
}

static enum err make_replay(struct state_follower *k, struct replay **ret, struct fault *f)
{
    struct replay *replay = replay_create();
    if (replay == NULL)
        return fault_set(f, ERR_FULL, "",
                         "a snapshot needs as much memory as the state, and there is none");
    enum err err = begin_replay(k, replay, f);
    if (err == ERR_OK)
        err = replay_follow(replay, k->journal, journal_durable_seq(k->journal), &k->given_up, f);
    if (err == ERR_OK) {
        prune(k, replay);
        struct shard *shards[1] = {replay->shard};
        memset(k->replaying.live, 0, sizeof k->replaying.live);
        err = snapshot_write(k->disk, &replay->past, shards, 1, k->replaying.live, &k->given_up, f);
    }
    if (err == ERR_OK)
        *ret = replay;
    else
        replay_destroy(replay);
    return err;
}

/* A replay takes a good part of a second where there is much state, beside reactors that have
 * as much to do as ever. It has a quarter of a full core: with less, what is journaled
 * meanwhile could outgrow it. */
static void *replay_thread(void *context)
{
    struct state_follower *k = context;
    struct replay *replay = NULL;
    pthread_setname_np(pthread_self(), "fold");
    /* it is made all the same */
    if (!thread_step_back(REPLAY_NICE))
        log_text(LOG_WARNING, "fold_priority", "%s", strerror(errno));
    uint64_t begun_ns = world_monotonic_ns();
    k->replaying.err = make_replay(k, &replay, &k->replaying.fault);
    if (k->replaying.err == ERR_OK) {
        k->replaying.position = replay->past.position;
        k->replaying.size = snapshot_size(k->disk, replay->past.position);
        enum err err = snapshot_drop_others(k->disk, replay->past.position, replay->begun);
        journal_hold(k->journal, snapshot_holds(k->disk, replay->past.position));
        if (err != ERR_OK) log_text(LOG_WARNING, "old_snapshots_stay", "%s", err_sentence(err));
        log_text(LOG_INFO, "snapshot", "as of seq %" PRIu64 ", made in %" PRIu64 " ms",
                 replay->past.position, (world_monotonic_ns() - begun_ns) / 1000000);
    }
    k->replaying.replay = NULL;
    if (k->replaying.give)
        k->replaying.replay = replay;
    else
        replay_destroy(replay);
    atomic_store(&k->replaying.state, REPLAY_ENDED);
    wakeup_send(&k->wakeup);
    return NULL;
}

static void replay_failed(struct state_follower *k)
{
    const struct fault *f = &k->replaying.fault;
    if (k->replaying.err != ERR_CLOSED) {
        log_line(LOG_ERROR, "snapshot_failed", "text", f->text, NULL);
        metric_add(k->sheet, METRIC_SNAPSHOT_FAILURES, 1);
    }
    pthread_mutex_lock(&k->lock);
    k->status.snapshot_fails = k->replaying.err != ERR_CLOSED;
    snprintf(k->status.snapshot_text, sizeof k->status.snapshot_text, "%s", f->text);
    pthread_mutex_unlock(&k->lock);
    k->snapshot_due_ms = monotonic_ms() + SNAPSHOT_RETRY_MS;
}

static void replay_begin(struct state_follower *k)
{
    struct journal_totals totals;
    journal_totals(k->journal, &totals);
    k->replaying.give = k->mirror != NULL && (mirror_state(k->mirror) == MIRROR_REPAIRING ||
                                              mirror_state(k->mirror) == MIRROR_FOLLOWING);
    k->replaying.bytes_begun = totals.bytes;
    k->replaying.begun_ms = monotonic_ms();
    k->replaying.fault = (struct fault){.err = ERR_OK};
    k->replaying.position = 0;
    atomic_store(&k->replaying.state, REPLAY_RUNS);
    replay_destroy(k->replay);
    k->replay = NULL;
    int number = pthread_create(&k->replaying.thread, NULL, replay_thread, k);
    if (number == 0) return;
    atomic_store(&k->replaying.state, REPLAY_NONE);
    k->replaying.err = fault_set(&k->replaying.fault, ERR_FULL, "",
                                 "its thread cannot be started: %s", strerror(number));
    replay_failed(k);
}

/* What the replay thread made becomes ours. */
static void replay_end(struct state_follower *k)
{
    if (atomic_load(&k->replaying.state) != REPLAY_ENDED) return;
    check(pthread_join(k->replaying.thread, NULL) == 0);
    atomic_store(&k->replaying.state, REPLAY_NONE);
    k->wants_replay = false;
    if (k->replaying.err != ERR_OK) {
        replay_failed(k);
        return;
    }
    k->replay = k->replaying.replay;
    k->bytes_before = k->replaying.bytes_begun;
    k->bytes_behind = 0;
    k->last_bytes = k->replaying.size;
    uint64_t now_ms = monotonic_ms();
    k->snapshot_due_ms = now_ms + k->snapshot_ms;
    k->rest_until_ms = now_ms + REPLAY_REST * (now_ms - k->replaying.begun_ms);
    k->wants_mark = true;
    pthread_mutex_lock(&k->lock);
    k->status.snapshot_position = k->replaying.position;
    k->status.snapshot_fails = false;
    k->status.snapshot_text[0] = '\0';
    pthread_mutex_unlock(&k->lock);
    metric_add(k->sheet, METRIC_SNAPSHOTS, 1);
    metric_set(k->sheet, METRIC_SNAPSHOT_POSITION, k->replaying.position);
}

/* Journal that no snapshot includes. */
static uint64_t journal_behind(const struct state_follower *k)
{
    struct journal_totals totals;
    journal_totals(k->journal, &totals);
    return totals.bytes - k->bytes_before + k->bytes_behind;
}

/* A replay costs what the state is worth, however little was journaled since the last: so it rests in
 * proportion, and takes no more than a ninth of its thread's time. A full disk makes one due at the
 * end of that rest, since a snapshot may let segments go; and where one is due anyway, a full disk
 * does not wait for that end.
 *
 * A disk that is full has refused decisions already. So one is due, too, when the journal behind the
 * last takes as much as is left beside what the next one needs itself: else a disk with less room than snapshot_bytes would be filled by
 * what is only kept to make snapshots seldom. Where others fill the disk, each halves what is left
 * until the next, so they are few. */
static bool snapshot_is_due(const struct state_follower *k)
{
    struct journal_totals totals;
    bool rested = monotonic_ms() >= k->rest_until_ms, full = journal_is_full(k->journal);
    if (journal_durable_seq(k->journal) <= k->status.snapshot_position) return false;
    if (k->status.snapshot_fails && monotonic_ms() < k->snapshot_due_ms) return false;
    if (!rested && !full) return false;
    if (rested && full) return true;
    journal_totals(k->journal, &totals);
    uint64_t behind = journal_behind(k);
    bool tight = totals.total_bytes > 0 && behind >= totals.left_bytes;
    return (rested && tight) || behind >= k->snapshot_bytes || monotonic_ms() >= k->snapshot_due_ms;
}

/* A full disk outweighs that the older snapshot could begin a recovery, too: where the newest
 * includes all there is, no other one will let segments go. */
static void give_way(struct state_follower *k)
{
    uint64_t position = k->status.snapshot_position;
    if (!journal_is_full(k->journal) || replay_is_under_way(k) || position == 0 ||
        journal_durable_seq(k->journal) > position)
        return;
    journal_hold(k->journal, position - 1);
}

static void begin_replay_if_due(struct state_follower *k)
{
    give_way(k);
    journal_leave(k->journal, snapshot_needs(k->last_bytes, journal_behind(k)));
    bool retry = !k->status.snapshot_fails || monotonic_ms() >= k->snapshot_due_ms;
    if (!replay_is_under_way(k) && (snapshot_is_due(k) || (k->wants_replay && retry)))
        replay_begin(k);
}

/* ---- the mirror ---- */

static void retry_due(struct loop_timer *t)
{
    link_owner(t, struct state_follower, retry)->may_connect = true;
}
static void company_came(struct loop_timer *t)
{
    link_owner(t, struct state_follower, company)->may_follow = true;
}

/* Reports the outcome to the starting thread, once. True: it has reported already that serving may begin. */
static bool settle_claim(struct state_follower *k)
{
    pthread_mutex_lock(&k->lock);
    bool was = k->claim_settled;
    k->claim_settled = true;
    pthread_mutex_unlock(&k->lock);
    return was;
}

static void lost(struct state_follower *k, const struct fault *f)
{
    tell_redis(k, false, true, f->text);
    if (settle_claim(k))
        k->lost_ownership(k->context); /* before that, state_follower_start() reports it */
}

/* Down: waits longer and longer. */
static void away(struct state_follower *k, const struct fault *f)
{
    tell_redis(k, false, false, f->text);
    metric_add(k->sheet, METRIC_REDIS_FAILURES, 1);
    k->may_connect = false;
    loop_timer_start(k->loop, &k->retry, backoff_ms(&retries, ++k->failures), retry_due);
    (void)settle_claim(k); /* Nothing waits for a Redis that is away. */
}

/* Redis took what we wrote, or there was nothing to write. A connection is not enough to say
 * so: one that is full, read-only or cannot save answers every question, and would be tried
 * for ever without a pause. */
static void got_through(struct state_follower *k)
{
    k->failures = 0;
    k->writes_fail = false;
    if (!k->status.redis_reachable || k->status.text[0] != '\0') tell_redis(k, true, false, "");
}

static void connect_mirror(struct state_follower *k)
{
    struct fault f = {.err = ERR_OK};
    enum err err = mirror_connect(k->mirror, &f);
    if (err == ERR_OK) {
        k->may_follow = true;
        k->probe_due_ms = monotonic_ms() + k->probe_ms;
        (void)settle_claim(k);
        if (!k->writes_fail && mirror_state(k->mirror) == MIRROR_REPAIRING)
            tell_redis(
                k, true, false,
                "Redis does not have this engine's state as it is now; it is being rewritten");
    } else if (mirror_state(k->mirror) == MIRROR_LOST) {
        lost(k, &f);
    } else {
        k->writes_fail = false; /* The newest trouble is reported. */
        away(k, &f);
    }
}

/* A step of the mirror failed: its state says what that means. */
static void mirror_failed(struct state_follower *k, const struct fault *f)
{
    if (mirror_state(k->mirror) == MIRROR_AWAY) {
        bool is_first = k->failures == 0;
        away(k, f);
        k->writes_fail = true;
        k->may_connect = is_first; /* at once: it may only have to be looked at again */
    } else if (!k->writes_fail) {
        tell_redis(k, true, false, f->text);
    }
}

static void repair(struct state_follower *k)
{
    struct fault f = {.err = ERR_OK};
    k->wants_replay = k->replay == NULL;
    if (k->replay == NULL) return; /* one is begun as soon as this step is over */
    enum err err = mirror_repair(k->mirror, k->replay, &f);
    if (err == ERR_OK) {
        replay_destroy(k->replay);
        k->replay = NULL;
        k->may_follow = true;
        got_through(k);
    } else {
        mirror_failed(k, &f);
    }
}

/* Rounds until nothing is left, or it is time to look around; then it listens. */
static void follow(struct state_follower *k)
{
    struct fault f = {.err = ERR_OK};
    if (!k->may_follow) return;
    enum err err = mirror_follow(k->mirror, &f);
    if (err == ERR_OK || err == ERR_END)
        got_through(k);
    else
        mirror_failed(k, &f);
    if (err == ERR_OK) return; /* more may be there: again in the next turn */
    if (err != ERR_END && mirror_state(k->mirror) != MIRROR_FOLLOWING) return;
    k->may_follow = false;
    /* the journal cannot be read: not Redis' fault, and asking at once again is no help */
    if (err != ERR_END) {
        loop_timer_start(k->loop, &k->company, retries.most_ms, company_came);
        return;
    }
    atomic_store(&k->listening, true);
    if (journal_durable_seq(k->journal) > mirror_position(k->mirror) &&
        atomic_exchange(&k->listening, false))
        k->may_follow = true;
}

static void look_after(struct state_follower *k)
{
    struct fault f = {.err = ERR_OK};
    enum err err = ERR_OK;
    if (k->replay != NULL && !mirror_wants_compaction(k->mirror, k->replaying.live)) {
        replay_destroy(k->replay);
        k->replay = NULL;
    }
    if (mirror_state(k->mirror) != MIRROR_FOLLOWING) return;
    if (k->wants_mark && mirror_position(k->mirror) >= k->status.snapshot_position) {
        k->wants_mark = false;
        err = mirror_mark(k->mirror, &f);
    } else if (monotonic_ms() >= k->probe_due_ms) {
        k->probe_due_ms = monotonic_ms() + k->probe_ms;
        err = mirror_probe(k->mirror, &f);
    }
    if (err != ERR_OK) mirror_failed(k, &f);
}

static void step_mirror(struct state_follower *k)
{
    if (k->mirror == NULL) return;
    if (mirror_state(k->mirror) == MIRROR_AWAY && k->may_connect) connect_mirror(k);
    if (mirror_state(k->mirror) == MIRROR_REPAIRING) repair(k);
    if (mirror_state(k->mirror) == MIRROR_FOLLOWING) follow(k);
    if (mirror_state(k->mirror) == MIRROR_FOLLOWING) look_after(k);
    /* it is as large as the state */
    if (mirror_state(k->mirror) == MIRROR_AWAY || mirror_state(k->mirror) == MIRROR_LOST) {
        replay_destroy(k->replay);
        k->replay = NULL;
    }
    tell_position(k);
}

/* ---- the thread ---- */

/* A Redis that is not in use yet gets nothing more: the next start writes it. */
static void hurry_if_stopping(struct state_follower *k)
{
    if (k->mirror == NULL || !atomic_load(&k->stopping)) return;
    mirror_hurry(k->mirror, mirror_state(k->mirror) == MIRROR_AWAY
                                ? monotonic_ms()
                                : atomic_load(&k->drain_until_ms));
}

static void heard(struct loop_wakeup *b)
{
    struct state_follower *k = link_owner(b, struct state_follower, wakeup);
    hurry_if_stopping(k);
    if (k->mirror != NULL && !k->may_follow)
        loop_timer_start(k->loop, &k->company, COMPANY_MS, company_came);
}

/* So that the thread looks at the clock; while it drains, more often. What it awaits then ends in
 * time, too. */
static void ticked(struct loop_timer *t)
{
    struct state_follower *k = link_owner(t, struct state_follower, tick);
    hurry_if_stopping(k);
    loop_timer_start(k->loop, &k->tick, atomic_load(&k->stopping) ? COMPANY_MS : k->tick_ms,
                     ticked);
}

/* Something to do at once, or a sleep. */
static bool may_sleep(const struct state_follower *k)
{
    if (k->mirror == NULL) return true;
    enum mirror_state state = mirror_state(k->mirror);
    return !(state == MIRROR_FOLLOWING && k->may_follow) &&
           !(state == MIRROR_AWAY && k->may_connect) &&
           !(state == MIRROR_REPAIRING && k->replay != NULL);
}

static bool is_time_up(const struct state_follower *k)
{
    return monotonic_ms() >= atomic_load(&k->drain_until_ms);
}

/* The mirror's rest: a repair that was wanted, what is durable, and a mark for the next start. */
static void drain_mirror(struct state_follower *k)
{
    struct fault f = {.err = ERR_OK};
    enum err err = ERR_OK;
    if (k->mirror == NULL) return;
    if (mirror_state(k->mirror) == MIRROR_REPAIRING && k->replay != NULL && !is_time_up(k))
        err = mirror_repair(k->mirror, k->replay, &f);
    while (err == ERR_OK && mirror_state(k->mirror) == MIRROR_FOLLOWING && !is_time_up(k))
        err = mirror_follow(k->mirror, &f);
    if (err == ERR_END) err = mirror_mark(k->mirror, &f);
    if (err != ERR_OK)
        log_line(LOG_INFO, "redis_not_all", "text", f.text, "then",
                 "the next start writes the rest", NULL);
}

static void await_replay(struct state_follower *k)
{
    while (replay_is_under_way(k)) {
        if (is_time_up(k)) atomic_store(&k->given_up, true);
        if (atomic_load(&k->replaying.state) == REPLAY_RUNS)
            loop_turn(k->loop, true); /* its end rings */
        replay_end(k);
    }
}

static void drain_snapshot(struct state_follower *k)
{
    await_replay(k);
    bool wanted =
        k->mirror != NULL && mirror_state(k->mirror) == MIRROR_REPAIRING && k->replay == NULL;
    if (is_time_up(k) ||
        (!wanted && journal_durable_seq(k->journal) <= k->status.snapshot_position))
        return;
    replay_begin(k);
    await_replay(k);
}

static void *run(void *context)
{
    struct state_follower *k = context;
    k->may_connect = true;
    loop_timer_start(k->loop, &k->tick, k->tick_ms, ticked);
    while (!atomic_load(&k->stopping)) {
        replay_end(k);
        step_mirror(k); /* it may want a replay */
        begin_replay_if_due(k);
        if (!atomic_load(&k->stopping)) loop_turn(k->loop, may_sleep(k));
    }
    ticked(&k->tick); /* more often from here on: there is a time that must not be missed */
    drain_snapshot(k);
    drain_mirror(k);
    return NULL;
}

void state_follower_wake(struct state_follower *k)
{
    if (k == NULL) return;
    if (atomic_load(&k->listening) && atomic_exchange(&k->listening, false))
        wakeup_send(&k->wakeup);
}

/* The engine may serve only what it owns: waits until that is settled, or Redis went away. */
static enum err await_claim(struct state_follower *k, struct fault *f)
{
    struct timespec pause = {.tv_nsec = CLAIM_LOOK_MS * 1000000};
    for (;;) {
        /* Both at one moment: what is lost after it calls lost_ownership(), what was
         * lost before it is reported here. */
        pthread_mutex_lock(&k->lock);
        bool settled = k->claim_settled, is_lost = k->status.redis_lost;
        if (is_lost) (void)fault_set(f, ERR_EXISTS, "", "redis.url: %s", k->status.text);
        pthread_mutex_unlock(&k->lock);
        if (is_lost) return ERR_EXISTS;
        if (settled) return ERR_OK;
        nanosleep(&pause, NULL);
    }
}

static enum err start_mirror(struct state_follower *k, const struct state_follower_options *o,
                             struct fault *f)
{
    struct mirror_options m = {.loop = k->loop,
                               .journal = o->journal,
                               .node = k->node,
                               .past = &k->past,
                               .redis = o->redis,
                               .sheet = o->sheet,
                               .given_up = &k->given_up};
    if (o->redis.url[0] == '\0') return ERR_OK;
    k->status.redis_configured = true;
    return mirror_create(&m, &k->mirror, f);
}

static void fini(struct state_follower *k)
{
    replay_destroy(k->replay);
    mirror_destroy(k->mirror);
    loop_timer_stop(k->loop, &k->tick);
    loop_timer_stop(k->loop, &k->company);
    loop_timer_stop(k->loop, &k->retry);
    wakeup_stop(&k->wakeup);
    loop_destroy(k->loop);
    pthread_mutex_destroy(&k->lock);
    pthread_mutex_destroy(&k->windows_lock);
    limit_windows_free(&k->windows);
    free(k);
}

/* The next one replaces it, and is made at once. */
static void begin_damaged(struct state_follower *k, const struct lineage *past)
{
    k->snapshot_due_ms = monotonic_ms();
    k->status.snapshot_fails = true;
    snprintf(k->status.snapshot_text, sizeof k->status.snapshot_text,
             "snapshot-%016" PRIx64 " does not verify; the state was recovered from %s, and a new "
             "snapshot is being made",
             past->damaged,
             past->damage == SNAPSHOT_OLDER_SERVES ? "the one before it and the journal"
                                                   : "the whole journal");
}

enum err state_follower_start(const struct state_follower_options *o, struct state_follower **ret,
                              struct fault *f)
{
    struct state_follower *k = calloc(1, sizeof *k);
    check(k != NULL); /* at boot */
    k->journal = o->journal;
    k->disk = o->disk;
    snprintf(k->node, sizeof k->node, "%s", o->node);
    k->snapshot_bytes = o->snapshot_bytes;
    k->snapshot_ms = o->snapshot_ms;
    k->tick_ms = o->tick_ms > 0 ? o->tick_ms : TICK_MS;
    k->probe_ms = o->probe_ms > 0 ? o->probe_ms : PROBE_MS;
    k->sheet = o->sheet;
    k->lost_ownership = o->lost_ownership;
    k->context = o->context;
    k->past = *o->past;
    lineage_add_epoch(&k->past, journal_epoch(o->journal));
    k->bytes_behind = o->bytes_behind;
    k->last_bytes = snapshot_size(o->disk, o->past->position);
    k->snapshot_due_ms = monotonic_ms() + o->snapshot_ms;
    k->status.snapshot_position = o->past->position;
    if (o->past->damage != SNAPSHOT_WHOLE) begin_damaged(k, o->past);
    atomic_store(&k->drain_until_ms, UINT64_MAX);
    k->claim_settled = !o->redis_reached;
    pthread_mutex_init(&k->lock, NULL);
    pthread_mutex_init(&k->windows_lock, NULL);
    k->windows = limit_windows_unknown;
    k->loop = loop_create();
    wakeup_start(k->loop, &k->wakeup, heard);
    enum err err = start_mirror(k, o, f);
    if (err != ERR_OK) {
        fini(k);
        return err;
    }
    journal_hold(o->journal, snapshot_holds(o->disk, o->past->position));
    thread_start(&k->thread, "keep", run, k);
    err = await_claim(k, f);
    if (err != ERR_OK)
        state_follower_stop(k, 0);
    else
        *ret = k;
    return err;
}

void state_follower_stop(struct state_follower *k, uint32_t drain_ms)
{
    if (k == NULL) return;
    atomic_store(&k->drain_until_ms, monotonic_ms() + drain_ms);
    atomic_store(&k->stopping, true);
    wakeup_send(&k->wakeup);
    check(pthread_join(k->thread, NULL) == 0);
    fini(k);
}
