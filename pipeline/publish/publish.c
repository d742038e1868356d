/* publish.c - the publisher's thread: find, fill, send, and the handling of each answer.
 *
 * There are two ways to wait. With nothing to send the thread listens: publish_wake() counts a ring
 * and wakes it if it sleeps. (This is an event count: the thread sets `listening`, reads the count,
 * looks for work once more, and sleeps only while the count stays the same.) A pause (batch delay,
 * backoff) ignores rings, so a busy engine pays one atomic addition per sync and no system call. */
#include "pipeline/publish/publish.h"
#include "pipeline/publish/stream_tree.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "metrics/metrics.h"
#include "pipeline/publish/batch.h"
#include "pipeline/publish/record_source.h"

enum {
    BATCH_BYTES_LEAST = 64 << 10,
    BATCH_BYTES_SLOW = 4 << 10,
    BATCH_QUICK_MS = 5000,
    DRAIN_RETRY_MS = 50,
    RELOG_EVERY = 100,
    SETTLE_MS = 50,
    FIND_REST = 2
};

/* If a batch were refused because of invalid lines, the stream would stop there. */
_Static_assert((int)PUBLISH_BATCH_RECORDS <= (int)LIMIT_INGEST_WRONG_LINES, "any batch is taken");

static const struct backoff retries = {.first_ms = 50, .most_ms = 5000};

struct publisher {
    /* Set before the thread starts. */
    struct record_source source;
    struct transport *transport;
    struct metrics_sheet *sheet;
    char node[LIMIT_ID_CHARACTERS + 1];
    uint64_t poll_ms;
    struct stream_tree *tree; /* NULL: none; the thread's own from then on */
    pthread_t thread;

    /* The thread's own. */
    struct batch_filler filler;
    struct positions positions;
    /* the last epoch from the platform that our source has at that record */
    char compared[EPOCH_TEXT];
    bool must_find;
    bool tree_is_compared; /* with this source */
    /* The last batch was not taken, or not even filled. Then an answer with positions does not end
     * the failure. */
    bool send_fails;
    /* the size that the network carries in time; the size that the platform accepts */
    size_t batch_bytes, batch_bytes_most;
    uint64_t poll_due_ms;
    struct relay_report relay; /* of a relay, as last reported */
    /* when the platform last advanced towards it; the permitted time without that */
    uint64_t progress_ms, stall_ms;
    uint64_t quiet_finds; /* finds in a row that failed and were not needed, because of the relay */

    /* Between threads. */
    _Alignas(64) _Atomic uint32_t rings; /* the listener sleeps on it */
    _Atomic uint32_t listening;
    _Atomic uint32_t stopping; /* a pause sleeps on it; 1: drain, 2: at once */
    _Atomic uint32_t ended;    /* publish_stop() sleeps on it; 1: the thread has ended */
    _Atomic uint64_t drain_until_ms;
    pthread_mutex_t lock; /* protects the following members */
    struct publish_status status;
    uint64_t answered_ms;
    /* when a relay last had all records, or advanced */
    uint64_t delivered_ms;
    /* when the platform last had all records of a relay, or advanced */
    uint64_t closer_ms;
    char relay_trouble[TOPIC_TROUBLE_TEXT]; /* the relay's reason */
};

static bool is_relayed(const struct publisher *p) { return p->transport->settle != NULL; }

/* The newest record that may be published. */
static uint64_t newest(const struct publisher *p) { return p->source.end(p->source.state); }

static uint64_t monotonic_ms(void) { return world_monotonic_ns() / 1000000; }

/* ---- sleeping and waking ---- */

static void futex_sleep(_Atomic uint32_t *word, uint32_t while_it_is, uint64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    /* may wake early: callers check again */
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint32_t is_stopping(struct publisher *p) { return atomic_load(&p->stopping); }

void publish_wake(struct publisher *p)
{
    if (p == NULL) return;
    atomic_fetch_add(&p->rings, 1);
    if (atomic_load(&p->listening)) futex_wake(&p->rings);
}

/* Sleeps until there may be something to send, a stop is requested, or `ms` have passed. */
static void listen_for(struct publisher *p, uint64_t ms)
{
    atomic_store(&p->listening, 1);
    uint32_t rings = atomic_load(&p->rings);
    if (newest(p) < p->positions.next && !is_stopping(p)) futex_sleep(&p->rings, rings, ms);
    atomic_store(&p->listening, 0);
}

/* Sleeps for `ms` unless a stop is requested; during the drain only briefly. */
static void rest(struct publisher *p, uint64_t ms)
{
    uint64_t until = monotonic_ms() + ms, now;
    while (!is_stopping(p) && (now = monotonic_ms()) < until)
        futex_sleep(&p->stopping, 0, until - now);
    if (is_stopping(p) == 1 && ms > 0) {
        struct timespec t = {.tv_nsec = DRAIN_RETRY_MS * 1000000};
        nanosleep(&t, NULL);
    }
}

/* ---- status ---- */

const char *publish_state_name(enum publish_state s)
{
    static const char *const names[] = {"finding", "sending", "ahead", "diverged",
                                        "gap",     "broken",  "misfit"};
    return names[s];
}

bool publish_state_is_alarm(enum publish_state s)
{
    return s == PUBLISH_AHEAD || s == PUBLISH_DIVERGED || s == PUBLISH_GAP || s == PUBLISH_BROKEN ||
           s == PUBLISH_MISFIT;
}

bool publish_state_is_behind(enum publish_state s)
{
    return s == PUBLISH_AHEAD || s == PUBLISH_DIVERGED;
}

static uint64_t lag_of(const struct publisher *p, uint64_t confirmed)
{
    uint64_t durable = newest(p);
    return durable > confirmed ? durable - confirmed : 0;
}

static void set_gauges(struct publisher *p)
{
    metric_set(p->sheet, p->source.confirmed_gauge, p->positions.confirmed);
    metric_set(p->sheet, p->source.lag_gauge, lag_of(p, p->positions.confirmed));
    if (!is_relayed(p) || !p->source.is_journal) return;
    uint64_t delivered = p->relay.delivered == 0 ? p->positions.confirmed : p->relay.delivered - 1;
    metric_set(p->sheet, METRIC_PUBLISH_DELIVERED_SEQ, delivered);
    metric_set(p->sheet, METRIC_PUBLISH_DELIVERY_LAG, lag_of(p, delivered));
    metric_set(p->sheet, METRIC_PUBLISH_UNDER_WAY, p->relay.under_way);
}

void publish_status(const struct publisher *p, struct publish_status *ret)
{
    /* the lock is not part of its value */
    struct publisher *unlocked = (struct publisher *)(uintptr_t)p;
    pthread_mutex_lock(&unlocked->lock);
    *ret = p->status;
    uint64_t now = monotonic_ms(), undelivered_ms = is_relayed(p) ? now - p->delivered_ms : 0;
    uint64_t standing_ms = is_relayed(p) ? now - p->closer_ms : 0;
    char trouble[TOPIC_TROUBLE_TEXT];
    memcpy(trouble, p->relay_trouble, sizeof trouble);
    ret->silent_ms = now - p->answered_ms;
    pthread_mutex_unlock(&unlocked->lock);
    if (undelivered_ms > ret->silent_ms) {
        ret->silent_ms = undelivered_ms;
        if (undelivered_ms > p->poll_ms && ret->text[0] == '\0')
            snprintf(
                ret->text, sizeof ret->text,
                "no broker has acknowledged a record for %llu s; they wait in the journal%s%.230s",
                (unsigned long long)(undelivered_ms / 1000), trouble[0] == '\0' ? "" : ". ",
                trouble);
    }
    if (standing_ms >= PUBLISH_STALL_MS && standing_ms > ret->silent_ms) {
        ret->silent_ms = standing_ms;
        if (ret->text[0] == '\0')
            snprintf(
                ret->text, sizeof ret->text,
                "the platform has stood at seq %llu for %llu s, though Kafka has more: check that it reads "
                "this topic (kafka.brokers, kafka.topic there). The records wait in the journal",
                (unsigned long long)ret->confirmed_seq, (unsigned long long)(standing_ms / 1000));
    }
    ret->durable_seq = newest(p);
    ret->lag_records = lag_of(p, ret->confirmed_seq);
}

/* The platform's answer was correct. Nothing is wrong, unless it returns positions and takes no
 * batches (its disk is full, or the topic is a misfit). Then the problem stays until a batch is
 * taken. */
static void in_step(struct publisher *p)
{
    pthread_mutex_lock(&p->lock);
    enum publish_state before = p->status.state;
    bool had_trouble = p->status.failures_in_a_row > 0 || publish_state_is_alarm(before);
    p->status.state = p->send_fails && publish_state_is_alarm(before) ? before : PUBLISH_SENDING;
    p->status.confirmed_seq = p->positions.confirmed;
    p->status.delivered_seq = p->relay.delivered == 0 ? 0 : p->relay.delivered - 1;
    if (!p->send_fails) {
        p->status.failures_in_a_row = 0;
        p->status.text[0] = '\0';
        p->answered_ms = monotonic_ms();
    }
    pthread_mutex_unlock(&p->lock);

    p->source.confirm(p->source.state, p->positions.confirmed);
    set_gauges(p);
    bool waits = is_relayed(p) && p->positions.confirmed + 1 < p->positions.next;
    p->poll_due_ms = monotonic_ms() + (waits ? PUBLISH_RELAY_POLL_MS : p->poll_ms);
    p->quiet_finds = 0;
    if (!p->send_fails && (had_trouble || before == PUBLISH_FINDING))
        log_text(LOG_INFO, "publishing", "in step with the platform from seq %llu on",
                 (unsigned long long)p->positions.next);
}

/* Records a failure: logs it (not each time), and waits longer each time. */
static void failed(struct publisher *p, const struct fault *f)
{
    p->must_find = true;
    metric_add(p->sheet, METRIC_PUBLISH_FAILURES, 1);
    set_gauges(p);
    pthread_mutex_lock(&p->lock);
    uint64_t failures = ++p->status.failures_in_a_row;
    bool is_new = strcmp(p->status.text, f->text) != 0;
    /* The problem that the platform reported stays valid while it does not answer. */
    if (!publish_state_is_behind(p->status.state)) p->status.state = PUBLISH_FINDING;
    snprintf(p->status.text, sizeof p->status.text, "%s", f->text);
    pthread_mutex_unlock(&p->lock);

    if (is_stopping(p) == 2) return; /* an interrupted call is not logged */
    if (is_new || failures % RELOG_EVERY == 0)
        log_text(LOG_WARNING, "publish_failed", "%s", f->text);
    rest(p, backoff_ms(&retries, failures));
}

/* For a problem that no retry solves: alarms once, then asks again at a slow pace, in case a person
 * solves it. */
static void alarm_raise(struct publisher *p, enum publish_state state, const char *text)
{
    p->must_find = true;
    metric_add(p->sheet, METRIC_PUBLISH_FAILURES, 1);
    set_gauges(p);
    pthread_mutex_lock(&p->lock);
    bool is_new = p->status.state != state;
    p->status.state = state;
    p->status.failures_in_a_row++;
    snprintf(p->status.text, sizeof p->status.text, "%s", text);
    pthread_mutex_unlock(&p->lock);
    if (is_new)
        log_line(LOG_ERROR, "publish_alarm", "state", publish_state_name(state), "text", text,
                 NULL);
    rest(p, p->poll_ms);
}

/* ---- the handling of news ---- */

static void told_nonsense(struct publisher *p, const char *what)
{
    struct fault f;
    (void)fault_set(&f, ERR_UPSTREAM_FAILED, "", "the platform's %s contradicts the protocol",
                    what);
    failed(p, &f);
}

static void is_ahead(struct publisher *p, uint64_t theirs)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "the platform has records of %s up to %llu, and here they end at %llu: the disk went back in "
        "time, or another history has this name. Nothing is published; %s",
        p->node, (unsigned long long)theirs, (unsigned long long)newest(p), p->source.advice);
    alarm_raise(p, PUBLISH_AHEAD, text);
}

/* False: the news ended the step. `theirs` is the newest seq that the platform reports. */
static bool news_are_good(struct publisher *p, enum position_news news, uint64_t theirs,
                          const char *what)
{
    switch (news) {
    case POSITION_FINE: return true;
    case POSITION_ASKED:
        metric_add(p->sheet, METRIC_PUBLISH_REPLAYS, 1);
        log_text(
            LOG_WARNING, "publish_asked_again",
            "records are missing behind Kafka, and the platform asks for them; sending again from seq %llu",
            (unsigned long long)p->positions.next);
        return true;
    case POSITION_REPLAY:
        if (is_relayed(p)) {
            log_text(
                LOG_WARNING, "publish_replay",
                "the platform lost records it had confirmed (a restored database?); it reads them from the topic again");
            return true;
        }
        log_text(
            LOG_WARNING, "publish_replay",
            "the platform lost records it had confirmed (a restored database?); sending again from seq %llu",
            (unsigned long long)p->positions.next);
        return true;
    case POSITION_NEW_LOG:
        log_text(LOG_WARNING, "publish_new_log",
                 "the platform's database is another one (%s); sending from seq %llu",
                 p->positions.log_id, (unsigned long long)p->positions.next);
        return true;
    case POSITION_AHEAD: is_ahead(p, theirs); return false;
    case POSITION_NONSENSE: told_nonsense(p, what); return false;
    }
    return false;
}

/* ---- find ---- */

/* With a relay a failed find can wait, because records go on to the relay. No record is sent while
 * a hanging platform is asked, so asking may take at most a third of the time. */
static void find_failed(struct publisher *p, uint64_t took_ms, const struct fault *f)
{
    if (!is_relayed(p) || p->positions.next == 0) {
        failed(p, f);
        return;
    }
    metric_add(p->sheet, METRIC_PUBLISH_FAILURES, 1);
    p->must_find = false;
    uint64_t failures = ++p->quiet_finds;
    pthread_mutex_lock(&p->lock);
    bool is_new = strcmp(p->status.text, f->text) != 0;
    snprintf(p->status.text, sizeof p->status.text, "%s", f->text);
    pthread_mutex_unlock(&p->lock);
    if (is_stopping(p) == 0 && (is_new || failures % RELOG_EVERY == 0))
        log_text(LOG_WARNING, "publish_unconfirmed", "records go to Kafka, unconfirmed: %s",
                 f->text);
    uint64_t pause_ms = backoff_ms(&retries, failures), least_ms = FIND_REST * took_ms;
    p->poll_due_ms = monotonic_ms() + (pause_ms > least_ms ? pause_ms : least_ms);
}

/* With a relay: checks that the platform advances towards the relay's position. If it does not, the
 * relay may have lost acknowledged records (its topic was deleted, or truncated). */
static void watch_progress(struct publisher *p, uint64_t confirmed_before)
{
    uint64_t now = monotonic_ms();
    bool all_read = p->positions.confirmed + 1 >= p->relay.delivered;
    bool moved = p->positions.confirmed != confirmed_before;
    pthread_mutex_lock(&p->lock);
    /* Records that are sent again are undelivered and unread for a moment. That is no
     * standstill. */
    if (moved || (all_read && p->relay.under_way == 0)) p->closer_ms = now;
    pthread_mutex_unlock(&p->lock);
    /* The permitted time grows until all is read. A slow platform that is busy with records that it
     * already has does not advance for a while. Sending them again would give it even more of
     * them. */
    if (p->progress_ms == 0 || all_read) p->stall_ms = PUBLISH_STALL_MS;
    if (p->progress_ms == 0 || all_read || moved) {
        p->progress_ms = now;
        return;
    }
    if (p->relay.under_way > 0 || now - p->progress_ms < p->stall_ms) return;
    p->progress_ms = now;
    p->stall_ms = p->stall_ms * 2 < PUBLISH_STALL_MOST_MS ? p->stall_ms * 2 : PUBLISH_STALL_MOST_MS;
    p->positions.next = p->positions.confirmed + 1;
    metric_add(p->sheet, METRIC_PUBLISH_REPLAYS, 1);
    log_text(
        LOG_WARNING, "publish_stalled",
        "the platform's position stays at %llu, though Kafka has more (check kafka.brokers there, and whether the topic was "
        "deleted); sending again from there",
        (unsigned long long)p->positions.confirmed);
}

/* False, with the alarm raised: the record before the platform's next one differs from ours there.
 * A record that is not kept any more cannot be compared. */
static bool history_is_ours(struct publisher *p, const struct stream_report *r)
{
    if (!r->known || r->next_seq <= 1) return true;
    bool same = false;
    struct fault f = {0};
    enum err e = p->source.epoch_is(p->source.state, r->next_seq - 1, r->epoch, &same, &f);
    if (e == ERR_NOT_FOUND || e == ERR_END || (e == ERR_OK && same)) return true;
    if (e != ERR_OK) {
        alarm_raise(p, PUBLISH_BROKEN, f.text);
        return false;
    }
    char text[512];
    snprintf(
        text, sizeof text,
        "the platform's record %llu of %s is of epoch %.16s, and here it is not: two histories under "
        "one name. Nothing is published; %s",
        (unsigned long long)(r->next_seq - 1), p->node, r->epoch, p->source.advice);
    alarm_raise(p, PUBLISH_DIVERGED, text);
    return false;
}

/* Whether the history need not be compared again. Records of this boot's epoch are ours after the
 * first comparison. A record of an earlier epoch is news at any position: another writer may have
 * written it, for example a copy of this machine. */
static bool is_no_news(const struct publisher *p, const struct stream_report *r)
{
    return memcmp(r->epoch, p->compared, EPOCH_TEXT) == 0 &&
           memcmp(r->epoch, p->source.epoch(p->source.state), EPOCH_TEXT) == 0 &&
           r->next_seq - 1 >= p->positions.confirmed;
}

static void find(struct publisher *p)
{
    struct stream_report r = {0};
    struct fault f = {0};
    uint64_t begun = monotonic_ms();
    if (p->transport->find(p->transport->state, &r, &f) != ERR_OK) {
        find_failed(p, monotonic_ms() - begun, &f);
        return;
    }
    struct positions moved = p->positions;
    uint64_t end = newest(p), before = moved.confirmed;
    enum position_news news =
        is_relayed(p) ? positions_relayed(&moved, &r, end) : positions_found(&moved, &r, end);
    bool good = news != POSITION_AHEAD && news != POSITION_NONSENSE;
    if (good && !is_no_news(p, &r) && !history_is_ours(p, &r)) return;
    if (good) memcpy(p->compared, r.epoch, EPOCH_TEXT);
    /* only the answer was lost */
    if (moved.next > p->positions.next || moved.next > end) p->send_fails = false;
    p->positions = moved;
    if (!news_are_good(p, news, r.next_seq - 1, "position")) return;
    p->must_find = false;
    if (is_relayed(p)) watch_progress(p, before);
    in_step(p);
}

/* ---- send ---- */

static void accepted(struct publisher *p, const struct batch *b, const struct send_answer *a)
{
    metric_add(p->sheet, METRIC_PUBLISH_BATCHES, 1);
    if (a->clashes > 0) {
        metric_add(p->sheet, METRIC_PUBLISH_CLASHES, a->clashes);
        log_text(
            LOG_ERROR, "publish_clash",
            "the platform quarantined %llu records between seq %llu and %llu: it has others under their numbers",
            (unsigned long long)a->clashes, (unsigned long long)b->first_seq,
            (unsigned long long)(b->first_seq + b->count - 1));
    }
    enum position_news news =
        positions_accepted(&p->positions, b->first_seq, b->count, a->next_seq, newest(p));
    if (news_are_good(p, news, a->next_seq - 1, "answer")) in_step(p);
}

static void gap_told(struct publisher *p, const struct batch *b, const struct send_answer *a)
{
    enum position_news news = positions_gap(&p->positions, b->first_seq, a->want_from, newest(p));
    if (news_are_good(p, news, a->want_from - 1, "gap")) in_step(p);
}

static void too_large(struct publisher *p, const struct batch *b, const struct fault *f)
{
    size_t half = b->lines.size / 2;
    p->batch_bytes = p->batch_bytes_most = half > BATCH_BYTES_LEAST ? half : BATCH_BYTES_LEAST;
    failed(p, f);
}

/* Makes the batches smaller: sent again unchanged, a batch that a slow network cannot carry in time
 * would never arrive. */
static void late(struct publisher *p, const struct batch *b, const struct fault *f)
{
    size_t less = b->lines.size / 4; /* each try takes all the available time */
    p->batch_bytes = less > BATCH_BYTES_SLOW ? less : BATCH_BYTES_SLOW;
    failed(p, f);
}

/* A batch that was sent quickly may be larger the next time. */
static void went_in(struct publisher *p, uint64_t took_ms)
{
    if (took_ms > BATCH_QUICK_MS) return;
    p->batch_bytes =
        p->batch_bytes < p->batch_bytes_most / 2 ? p->batch_bytes * 2 : p->batch_bytes_most;
}

/* A relay took some of the batch, or none of it for a while; then it may have given a reason. */
static void queued(struct publisher *p, const struct batch *b, const struct send_answer *a,
                   const struct fault *f)
{
    p->positions.next = a->next_seq;
    if (a->next_seq > b->first_seq) {
        metric_add(p->sheet, METRIC_PUBLISH_BATCHES, 1);
        uint64_t soon = monotonic_ms() + PUBLISH_RELAY_POLL_MS;
        if (p->poll_due_ms > soon && p->quiet_finds == 0) p->poll_due_ms = soon;
        return;
    }
    if (f->text[0] == '\0') return;
    pthread_mutex_lock(&p->lock);
    bool is_new = strcmp(p->status.text, f->text) != 0;
    snprintf(p->status.text, sizeof p->status.text, "%s", f->text);
    pthread_mutex_unlock(&p->lock);
    if (is_new) log_text(LOG_WARNING, "publish_waits", "%s", f->text);
}

static void settle(struct publisher *p, uint64_t ms)
{
    struct fault f = {0};
    uint64_t before = p->relay.delivered;
    enum err e = p->transport->settle(p->transport->state, (uint32_t)ms, &p->relay, &f);
    set_gauges(p);
    pthread_mutex_lock(&p->lock);
    if (p->relay.delivered > before || p->relay.delivered > newest(p))
        p->delivered_ms = monotonic_ms();
    p->status.delivered_seq = p->relay.delivered == 0 ? 0 : p->relay.delivered - 1;
    snprintf(p->relay_trouble, sizeof p->relay_trouble, "%s",
             p->relay.trouble == NULL ? "" : p->relay.trouble);
    pthread_mutex_unlock(&p->lock);
    if (e == ERR_OK) return;
    if (p->relay.delivered > 0) p->positions.next = p->relay.delivered;
    failed(p, &f);
}

static void send_batch(struct publisher *p, const struct batch *b)
{
    struct send_answer a = {0};
    struct fault f = {0};
    uint64_t begun = monotonic_ms();
    enum sent sent = p->transport->send(p->transport->state, b, &a, &f);
    p->send_fails = sent != SENT_ACCEPTED && sent != SENT_GAP && sent != SENT_QUEUED;
    switch (sent) {
    case SENT_ACCEPTED:
        went_in(p, monotonic_ms() - begun);
        accepted(p, b, &a);
        break;
    case SENT_GAP: gap_told(p, b, &a); break;
    case SENT_DIVERGED: alarm_raise(p, PUBLISH_DIVERGED, f.text); break;
    case SENT_TOO_LARGE: too_large(p, b, &f); break;
    case SENT_LATE: late(p, b, &f); break;
    case SENT_QUEUED: queued(p, b, &a, &f); break;
    case SENT_MISFIT: alarm_raise(p, PUBLISH_MISFIT, f.text); break;
    case SENT_FAILED: failed(p, &f); break;
    }
}

/* The source does not have the records that the platform requests, and their content is lost here.
 * A person must decide. */
static void nothing_to_fill_with(struct publisher *p)
{
    struct batch oldest;
    struct fault f;
    char text[sizeof p->status.text];
    struct buf t = buf_over(text, sizeof text - 1);
    uint64_t wanted = p->positions.confirmed + 1;
    buf_printf(
        &t,
        "the platform wants records from seq %llu on, and they are no longer kept here: its database is a new one, "
        "or from a backup that is older than journal.keep. Restore a newer one",
        (unsigned long long)wanted);
    if (batch_fill(&p->filler, p->source.oldest(p->source.state), BATCH_BYTES_LEAST, 1, &oldest,
                   &f) == ERR_OK)
        buf_printf(
            &t,
            ", or accept the loss: writ audit accept-gap --node %s --from-seq %llu --next-seq %llu --epoch %.*s",
            p->node, (unsigned long long)wanted, (unsigned long long)oldest.first_seq,
            JOURNAL_EPOCH_TEXT, oldest.epoch);
    text[t.size] = '\0';
    alarm_raise(p, PUBLISH_GAP, text);
}

static void cannot_fill(struct publisher *p, enum err e, const struct fault *f)
{
    /* the durable position moved, but its bytes are not readable yet: try again at once */
    if (e == ERR_END) {
        rest(p, 1);
        return;
    }
    p->send_fails = true;
    if (e == ERR_NOT_FOUND)
        nothing_to_fill_with(p);
    else
        alarm_raise(p, PUBLISH_BROKEN, f->text);
}

/* ---- the tree ---- */

/* Whether the record before the tree's next one may be the tree's last one. A record that is not kept
 * any more cannot be compared. One that the journal never had belongs to a journal that was replaced
 * by an older copy. */
static bool tree_is_of_this_journal(const struct publisher *p)
{
    struct str epoch = stream_tree_epoch(p->tree);
    struct fault ignored;
    bool same = false;
    if (str_is_absent(epoch)) return true;
    uint64_t last = stream_tree_next(p->tree) - 1;
    if (last > newest(p)) return false;
    enum err e = p->source.epoch_is(p->source.state, last, epoch.bytes, &same, &ignored);
    return e == ERR_NOT_FOUND || (e == ERR_OK && same);
}

/* Appends the records between the tree and the next one to be sent: a crash left the tree's file
 * behind, or another engine led before. ERR_END: one is not here yet. Other errors: it is not kept. */
static enum err tree_read_up(struct publisher *p)
{
    for (uint64_t next; (next = stream_tree_next(p->tree)) < p->positions.next;) {
        uint64_t missing = p->positions.next - next;
        struct batch b;
        struct fault ignored;
        enum err err = batch_fill(&p->filler, next, PUBLISH_BATCH_BYTES,
                                  missing < PUBLISH_BATCH_RECORDS ? missing : PUBLISH_BATCH_RECORDS,
                                  &b, &ignored);
        if (err != ERR_OK) return err;
        stream_tree_append(p->tree, str_of(b.epoch, JOURNAL_EPOCH_TEXT), b.first_seq, b.leaves,
                           b.count);
    }
    return ERR_OK;
}

/* A source that keeps the tree itself: it goes on from there, over all engines that publish it. */
static void tree_take_from_source(struct publisher *p)
{
    uint64_t next;
    struct frontier frontier;
    if (p->source.tree == NULL || stream_tree_next(p->tree) > 0) return;
    p->source.tree(p->source.state, p->positions.next, &next, &frontier);
    stream_tree_resume(p->tree, next, &frontier);
    p->tree_is_compared = true;
}

/* Ready for records from p->positions.next on. False: a record that the tree needs is not here yet. */
static bool tree_prepare(struct publisher *p)
{
    if (p->tree == NULL) return true;
    tree_take_from_source(p);
    bool has_tree = stream_tree_next(p->tree) > 0;
    bool fits = has_tree && (p->tree_is_compared || tree_is_of_this_journal(p));
    p->tree_is_compared = true;
    enum err err = fits ? tree_read_up(p) : ERR_NOT_FOUND;
    if (err == ERR_OK || err == ERR_END) return err == ERR_OK;
    if (has_tree)
        log_text(
            LOG_WARNING, "evidence_tree",
            "the tree of this stream cannot go on from record %llu: what follows is not kept. A "
            "new tree begins at record %llu",
            (unsigned long long)stream_tree_next(p->tree) - 1,
            (unsigned long long)p->positions.next);
    stream_tree_begin(p->tree, p->positions.next);
    return true;
}

/* A batch of records that were sent before has no checkpoint, unless it ends where the tree ends. */
static void tree_cover(struct publisher *p, struct batch *b)
{
    if (p->tree == NULL) return;
    stream_tree_append(p->tree, str_of(b->epoch, JOURNAL_EPOCH_TEXT), b->first_seq, b->leaves,
                       b->count);
    if (b->first_seq + b->count != stream_tree_next(p->tree)) return;
    if (stream_tree_sign(p->tree, &b->checkpoint))
        metric_add(p->sheet, METRIC_PUBLISH_CHECKPOINTS, 1);
}

static void fill_and_send(struct publisher *p)
{
    struct batch b;
    struct fault f = {0};
    set_gauges(p);
    enum err e = tree_prepare(p) ? batch_fill(&p->filler, p->positions.next, p->batch_bytes,
                                              PUBLISH_BATCH_RECORDS, &b, &f)
                                 : ERR_END;
    if (e == ERR_OK) {
        tree_cover(p, &b);
        send_batch(p, &b);
        return;
    }
    cannot_fill(p, e, &f);
}

/* ---- the thread ---- */

static bool all_confirmed(struct publisher *p)
{
    return p->positions.next != 0 && p->positions.confirmed >= newest(p);
}

/* All records are where a stop may leave them: confirmed, or safe in the relay. */
static bool all_safe(struct publisher *p)
{
    uint64_t durable = newest(p);
    return all_confirmed(p) ||
           (is_relayed(p) && p->positions.next > durable && p->relay.delivered > durable);
}

static bool is_done(struct publisher *p)
{
    uint32_t stopping = is_stopping(p);
    if (stopping == 0) return false;
    /* only this thread writes it; waiting does not help */
    if (publish_state_is_alarm(p->status.state)) return true;
    return stopping == 2 || all_safe(p) || monotonic_ms() >= atomic_load(&p->drain_until_ms);
}

static void step(struct publisher *p)
{
    uint64_t now = monotonic_ms();
    if (p->must_find || now >= p->poll_due_ms) {
        find(p);
        return;
    }
    if (is_relayed(p)) settle(p, 0);
    uint64_t durable = newest(p);
    if (durable < p->positions.next) {
        set_gauges(p);
        uint64_t left = p->poll_due_ms - now;
        if (p->relay.under_way > 0)
            settle(p, left < SETTLE_MS ? left : SETTLE_MS);
        else
            listen_for(p, left);
        durable = newest(p);
        if (durable < p->positions.next) return;
    }
    /* A few records wait for more; a backlog does not. */
    if (durable - p->positions.next < PUBLISH_BATCH_RECORDS / 2 && !is_stopping(p))
        rest(p, PUBLISH_DELAY_MS);
    fill_and_send(p);
}

static void *run(void *context)
{
    struct publisher *p = context;
    while (!is_done(p)) step(p);
    atomic_store(&p->ended, 1);
    futex_wake(&p->ended);
    return NULL;
}

enum err publish_connect(const struct publish_options *options, struct transport **ret,
                         struct fault *f)
{
    enum err e = transport_http_create(options->url, options->tls, options->key_file, options->node,
                                       &options->record_key, ret, f);
    if (e == ERR_OK && options->kafka != NULL)
        e = transport_kafka_create(options->kafka, options->node, &options->record_key, *ret, ret,
                                   f);
    return e;
}

enum err publish_start(const struct publish_options *options, struct publisher **ret,
                       struct fault *f)
{
    struct transport *transport = options->transport;
    if (transport == NULL) {
        enum err e = publish_connect(options, &transport, f);
        if (e != ERR_OK) {
            stream_tree_close(options->tree);
            if (options->source != NULL) {
                struct record_source source = *options->source;
                source.destroy(&source);
            }
            return e;
        }
    }
    struct publisher *p = aligned_alloc(64, (sizeof(struct publisher) + 63) / 64 * 64);
    check(p != NULL); /* only at boot */
    *p = (struct publisher){.source = options->source != NULL ? *options->source
                                                              : journal_source(options->journal),
                            .transport = transport,
                            .tree = options->tree,
                            .poll_ms = options->poll_ms > 0 ? options->poll_ms : PUBLISH_POLL_MS,
                            .sheet = metrics_sheet_create(),
                            .must_find = true,
                            .batch_bytes = PUBLISH_BATCH_BYTES,
                            .batch_bytes_most = PUBLISH_BATCH_BYTES,
                            .answered_ms = monotonic_ms(),
                            .delivered_ms = monotonic_ms(),
                            .closer_ms = monotonic_ms()};
    snprintf(p->node, sizeof p->node, "%s", options->node);
    batch_filler_init(&p->filler, &p->source);
    pthread_mutex_init(&p->lock, NULL);
    thread_start(&p->thread, "publisher", run, p);
    *ret = p;
    return ERR_OK;
}

/* Waits for the thread's end until `until_ms`; true: it ended. */
static bool ended_by(struct publisher *p, uint64_t until_ms)
{
    uint64_t now;
    while (atomic_load(&p->ended) == 0 && (now = monotonic_ms()) < until_ms)
        futex_sleep(&p->ended, 0, until_ms - now);
    return atomic_load(&p->ended) != 0;
}

bool publish_stop(struct publisher *p, uint32_t drain_ms)
{
    if (p == NULL) return true;
    uint64_t until = monotonic_ms() + drain_ms;
    atomic_store(&p->drain_until_ms, until);
    atomic_store(&p->stopping, 1);
    futex_wake(&p->stopping);
    publish_wake(p);
    bool ended = ended_by(p, until);
    /* probably in a call: interrupt it, and again if the thread was just before one */
    while (!ended) {
        atomic_store(&p->stopping, 2);
        p->transport->interrupt(p->transport->state);
        ended = ended_by(p, monotonic_ms() + DRAIN_RETRY_MS);
    }
    pthread_join(p->thread, NULL);
    bool all = all_safe(p);
    batch_filler_fini(&p->filler);
    p->source.destroy(&p->source);
    stream_tree_close(p->tree);
    p->transport->destroy(p->transport);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return all;
}
