/* consume.c - the consumer's thread: heartbeat, take, store, and recovery when one of them fails.
 *
 * When this platform gets a partition, it reads from the offset in the store. After any problem
 * with a partition, reading stops and begins again from the store's offset. So there is only one
 * way to recover, and it is used all the time. Fetched messages are dropped here if their partition
 * belongs to another platform now, or if they are before the expected offset. */
#include "pipeline/ingest/consume.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "pipeline/ingest/consumer_store.h"
#include "pipeline/ingest/intake.h"
#include "store/set.h"
#include "store/store_inside.h"

enum {
    TAKE_MS = 100,
    AGAIN_MS = 1000,
    /* and the time after which it counts as healthy, unless something of it is stored */
    STUCK_MS = 30000,
    LOOK_MS = 10000,           /* how often the topic's partitions are counted */
    STORE_MESSAGES_LEAST = 64, /* in one transaction */
    STORE_MESSAGES_MOST = CONSUME_MESSAGES_MAX,
    STORE_LONG_MS = 150, /* a transaction that took longer is followed by one of half the size */
    STORE_WAIT_FIRST_MS = 20,
    STORE_WAIT_MOST_MS = 1000,
};
_Static_assert((int)TOPIC_PARTITIONS_MAX <= (int)LEASE_PARTITIONS_MAX, "all are read");

struct reading { /* one partition of this platform */
    bool started;
    bool gone; /* its offset does not exist any more: get the bounds */
    /* The partition could not be read recently, and nothing was stored since. Until this time that
     * is reported, although it is being read again. 0: no failure. */
    uint64_t stuck_until_ms;
    uint64_t next;     /* the next offset to store, as in the store */
    uint64_t again_ms; /* not started again before */
};

struct consumer {
    struct message_source *source;
    struct message_intake intake;
    char *topic;
    uint64_t again_ms;
    struct lease lease;
    struct reading readings[LEASE_PARTITIONS_MAX];
    struct message messages[CONSUME_MESSAGES_MAX];
    struct message troubles[LEASE_PARTITIONS_MAX]; /* of a take, the first of each partition */
    bool is_troubled[LEASE_PARTITIONS_MAX];
    /* Stopped since the take began: their messages are not stored, even if they have started
     * again. */
    bool is_given_up[LEASE_PARTITIONS_MAX];
    struct metrics_sheet *sheet;
    uint64_t beat_due_ms, look_due_ms;
    bool topic_is_there; /* at the last look */
    size_t slice;        /* the limit of messages of the next transaction */
    pthread_t thread;
    _Atomic bool stopping;
    _Atomic uint64_t writing_since_ns; /* start of the current transaction; 0: none */
    pthread_mutex_t lock;              /* protects the following members */
    struct consumer_status status;
};

static uint64_t monotonic_ms(void) { return world_monotonic_ns() / 1000000; }

static void rest(struct consumer *c, uint64_t ms)
{
    for (uint64_t until = monotonic_ms() + ms;
         !atomic_load(&c->stopping) && monotonic_ms() < until;) {
        struct timespec t = {.tv_nsec = 5000000};
        nanosleep(&t, NULL);
    }
}

/* ---- status ---- */

/* Sets the present problem ("": none), and logs it if it is new. */
static void say(struct consumer *c, const char *text)
{
    pthread_mutex_lock(&c->lock);
    bool is_new = strcmp(c->status.text, text) != 0;
    snprintf(c->status.text, sizeof c->status.text, "%s", text);
    c->status.is_well = text[0] == '\0';
    pthread_mutex_unlock(&c->lock);
    if (is_new && text[0] != '\0') log_line(LOG_WARNING, "consume_failed", "text", text, NULL);
    if (is_new && text[0] == '\0') log_line(LOG_INFO, "consuming", "topic", c->topic, NULL);
}

static void failed(struct consumer *c, const char *text)
{
    metric_add(c->sheet, METRIC_CONSUMER_FAILURES, 1);
    say(c, text);
}

void consumer_status(const struct consumer *c, struct consumer_status *ret)
{
    /* the lock is not part of its value */
    struct consumer *unlocked = (struct consumer *)(uintptr_t)c;
    pthread_mutex_lock(&unlocked->lock);
    *ret = c->status;
    pthread_mutex_unlock(&unlocked->lock);
    uint64_t since_ns = atomic_load(&c->writing_since_ns);
    ret->writing_s =
        since_ns == 0 ? 0 : (uint32_t)((world_monotonic_ns() - since_ns) / UINT64_C(1000000000));
}

static void begin_writing(struct consumer *c)
{
    atomic_store(&c->writing_since_ns, world_monotonic_ns());
}

static void end_writing(struct consumer *c) { atomic_store(&c->writing_since_ns, 0); }

static void tell_numbers(struct consumer *c)
{
    uint32_t owned = 0;
    uint64_t lag = 0, now = monotonic_ms();
    bool all_read = true; /* also if there is nothing to read */
    for (uint32_t i = 0; i < c->lease.partition_count; i++) {
        if (!lease_is_mine(&c->lease, i)) continue;
        uint64_t end = c->source->heard_end(c->source->state, i);
        owned++;
        all_read = all_read && c->readings[i].started &&
                   (c->readings[i].stuck_until_ms <= now || end <= c->readings[i].next);
        if (end > c->readings[i].next) lag += end - c->readings[i].next;
    }
    metric_set(c->sheet, METRIC_CONSUMER_PARTITIONS, owned);
    metric_set(c->sheet, METRIC_CONSUMER_LAG, lag);
    pthread_mutex_lock(&c->lock);
    c->status.partitions = c->lease.partition_count;
    c->status.owned = owned;
    bool was_ill = !c->status.is_well;
    pthread_mutex_unlock(&c->lock);
    if (was_ill && all_read && c->topic_is_there) say(c, "");
}

/* ---- partitions ---- */

static void stop_reading(struct consumer *c, uint32_t partition)
{
    struct reading *r = &c->readings[partition];
    if (r->started) {
        c->source->stop(c->source->state, partition);
        c->is_given_up[partition] = true;
    }
    *r = (struct reading){0};
}

/* The offset does not exist any more: read on from the earliest offset, and request replays from
 * the streams. */
static enum err start_over(struct consumer *c, uint32_t partition, struct fault *f)
{
    struct reading *r = &c->readings[partition];
    uint64_t low, high, asked = 0;
    enum err err = c->source->bounds(c->source->state, partition, &low, &high, f);
    if (err != ERR_OK) return err;
    struct store *s = c->intake.store;
    err = store_begin(s, f);
    if (err != ERR_OK) return err;
    const struct offset_move move = {.partition = partition, .from = r->next, .to = low};
    err = consumer_store_move(s, c->intake.topic, c->intake.owner, &move, world_now_ms(), f);
    if (err == ERR_OK)
        err = consumer_store_ask_all(s, partition, c->lease.partition_count, monotonic_ms(),
                                     world_now_ms(), &asked, f);
    err = store_end(s, err, f);
    if (err != ERR_OK) return err;
    metric_add(c->sheet, METRIC_CONSUMER_RESETS, 1);
    metric_add(c->sheet, METRIC_CONSUMER_REPLAYS, asked);
    log_text(
        LOG_ERROR, "consume_offset_gone",
        "partition %u of %s has offsets %llu to %llu, but %llu is the next to read: the topic was deleted, truncated or has "
        "expired. Reading continues from %llu; %llu streams are asked to send again the records that may be missing",
        partition, c->topic, (unsigned long long)low, (unsigned long long)high,
        (unsigned long long)r->next, (unsigned long long)low, (unsigned long long)asked);
    r->next = low;
    r->gone = false;
    return ERR_OK;
}

static void lost(struct consumer *c, uint32_t partition, const struct fault *f)
{
    metric_add(c->sheet, METRIC_CONSUMER_FENCED, 1);
    log_text(LOG_WARNING, "consume_fenced", "%s", f->text);
    stop_reading(c, partition);
    c->lease.partitions[partition].is_owned = false;
    c->beat_due_ms = 0;
}

static void start_reading(struct consumer *c, uint32_t partition)
{
    struct reading *r = &c->readings[partition];
    struct fault f = {0};
    enum err err = ERR_OK;
    if (r->gone)
        err = start_over(c, partition, &f);
    else
        r->next = c->lease.partitions[partition].next_offset;
    if (err == ERR_OK) err = c->source->start(c->source->state, partition, r->next, &f);
    if (err == ERR_OK) {
        r->started = true;
        return;
    }
    if (err == ERR_PRECONDITION_FAILED) { /* or this program moved it, and the answer was lost */
        lost(c, partition, &f);
        return;
    }
    r->again_ms = monotonic_ms() + c->again_ms;
    failed(c, f.text);
}

/* Starts the partitions of this platform and stops all others. */
static void follow_lease(struct consumer *c)
{
    uint64_t now = monotonic_ms();
    for (uint32_t i = 0; i < LEASE_PARTITIONS_MAX; i++) {
        struct reading *r = &c->readings[i];
        if (!lease_is_mine(&c->lease, i))
            stop_reading(c, i);
        else if (!r->started && now >= r->again_ms)
            start_reading(c, i);
    }
}

static void count_partitions(struct consumer *c)
{
    struct fault f = {0};
    uint32_t count = 0;
    uint64_t now = monotonic_ms();
    if (now < c->look_due_ms) return;
    enum err err = c->source->partitions(c->source->state, &count, &f);
    c->look_due_ms = now + (err == ERR_OK ? LOOK_MS : c->again_ms);
    c->topic_is_there = err == ERR_OK;
    if (err != ERR_OK) {
        failed(c, f.text);
        return;
    }
    if (count > LEASE_PARTITIONS_MAX) count = LEASE_PARTITIONS_MAX;
    c->lease.partition_count = count; /* if the topic is missing, its known partitions stay */
}

static void heartbeat(struct consumer *c)
{
    struct fault f = {0};
    uint64_t now = monotonic_ms();
    if (now < c->beat_due_ms) return;
    count_partitions(c);
    begin_writing(c);
    enum err err = consumer_store_heartbeat(c->intake.store, c->intake.topic, &c->lease,
                                            monotonic_ms(), world_now_ms(), &f);
    end_writing(c);
    c->beat_due_ms = monotonic_ms() + LEASE_HEARTBEAT_MS;
    if (err != ERR_OK) {
        failed(c, f.text);
        return;
    }
    follow_lease(c);
    tell_numbers(c);
}

/* ---- messages ---- */

static void in_trouble(struct consumer *c, const struct message *m)
{
    struct reading *r = &c->readings[m->partition];
    if (!r->started) return;
    uint64_t next = r->next;
    stop_reading(c, m->partition);
    if (m->kind == MESSAGE_OFFSET_GONE) {
        r->gone = true;
        r->next = next;
        return;
    }
    char text[320];
    snprintf(text, sizeof text,
             "partition %u of Kafka's topic %s cannot be read at offset %llu: %s", m->partition,
             c->topic, (unsigned long long)next, m->why);
    r->next = next;
    r->stuck_until_ms = monotonic_ms() + STUCK_MS;
    r->again_ms = monotonic_ms() + c->again_ms;
    c->look_due_ms = 0;
    failed(c, text);
}

static struct offset_move *move_of(struct offset_move *moves, size_t *count, uint32_t partition,
                                   uint64_t from)
{
    for (size_t i = 0; i < *count; i++)
        if (moves[i].partition == partition) return &moves[i];
    moves[*count] = (struct offset_move){.partition = partition, .from = from, .to = from};
    return &moves[(*count)++];
}

/* Moves the messages to be stored, in order, to the front, and computes the moves of the
 * offsets. */
static size_t sift(struct consumer *c, struct message *messages, size_t count,
                   struct offset_move *moves, size_t *ret_moves)
{
    size_t kept = 0;
    *ret_moves = 0;
    for (size_t i = 0; i < count; i++) {
        const struct message *m = &messages[i];
        if (m->partition >= LEASE_PARTITIONS_MAX || !c->readings[m->partition].started ||
            c->is_given_up[m->partition])
            continue;
        struct offset_move *move =
            move_of(moves, ret_moves, m->partition, c->readings[m->partition].next);
        if (m->offset < move->to) continue;
        move->to = m->offset + 1;
        messages[kept++] = *m;
    }
    size_t moved = 0;
    for (size_t i = 0; i < *ret_moves; i++)
        if (moves[i].to > moves[i].from) moves[moved++] = moves[i];
    *ret_moves = moved;
    return kept;
}

/* Until the messages are stored, belong to another platform, or the thread must end. */
static void store_messages(struct consumer *c, struct message *messages, size_t count)
{
    struct offset_move moves[LEASE_PARTITIONS_MAX];
    struct message_batch batch = {.messages = messages, .count = count, .moves = moves};
    uint64_t wait_ms = STORE_WAIT_FIRST_MS;
    while ((batch.count = sift(c, messages, batch.count, moves, &batch.move_count)) > 0 &&
           !atomic_load(&c->stopping)) {
        struct fault f = {0};
        uint32_t partition = 0;
        begin_writing(c);
        enum err err = message_intake_store(&c->intake, &batch, world_now_ms(), &partition, &f);
        end_writing(c);
        if (err == ERR_OK) {
            for (size_t i = 0; i < batch.move_count; i++) {
                c->readings[moves[i].partition].next = moves[i].to;
                c->readings[moves[i].partition].stuck_until_ms = 0;
            }
            return;
        }
        if (err == ERR_PRECONDITION_FAILED) {
            lost(c, partition, &f);
            continue;
        }
        failed(c, f.text);
        rest(c, wait_ms);
        wait_ms = wait_ms * 2 < STORE_WAIT_MOST_MS ? wait_ms * 2 : STORE_WAIT_MOST_MS;
        heartbeat(c); /* renews the lease, if possible */
    }
}

/* One for each partition: the source has stopped it, and only this thread starts it again. A
 * missing offset overrides any other problem. */
static void hold_trouble(struct consumer *c, const struct message *m)
{
    if (m->partition >= LEASE_PARTITIONS_MAX) return;
    if (c->is_troubled[m->partition] && m->kind != MESSAGE_OFFSET_GONE) return;
    c->is_troubled[m->partition] = true;
    c->troubles[m->partition] = *m;
}

/* One transaction holds the write lock, and other writers wait. So the size of the next one follows
 * from the duration of this one. */
static void store_slice(struct consumer *c, struct message *messages, size_t count)
{
    uint64_t begun_ms = monotonic_ms();
    store_messages(c, messages, count);
    uint64_t took_ms = monotonic_ms() - begun_ms;
    if (took_ms > STORE_LONG_MS && c->slice > STORE_MESSAGES_LEAST) c->slice /= 2;
    if (took_ms < STORE_LONG_MS / 2 && c->slice <= STORE_MESSAGES_MOST / 2) c->slice *= 2;
}

static void take(struct consumer *c)
{
    memset(c->is_given_up, 0, sizeof c->is_given_up);
    size_t count = c->source->take(c->source->state, TAKE_MS, c->messages, CONSUME_MESSAGES_MAX),
           records = 0;
    /* The messages that were read before the trouble are valid, and come first. */
    for (size_t i = 0; i < count; i++) {
        const struct message *m = &c->messages[i];
        if (m->kind == MESSAGE_RECORD)
            c->messages[records++] = *m;
        else
            hold_trouble(c, m);
    }
    for (size_t from = 0, n; from < records; from += n) {
        n = records - from < c->slice ? records - from : c->slice;
        store_slice(c, &c->messages[from], n);
    }
    for (uint32_t i = 0; i < LEASE_PARTITIONS_MAX; i++) {
        if (c->is_troubled[i]) in_trouble(c, &c->troubles[i]);
        c->is_troubled[i] = false;
    }
}

/* ---- life ---- */

static void *run(void *context)
{
    struct consumer *c = context;
    while (!atomic_load(&c->stopping)) {
        heartbeat(c);
        follow_lease(c);
        take(c);
    }
    return NULL;
}

static void destroy(struct consumer *c)
{
    if (c->source != NULL) c->source->destroy(c->source);
    store_close(c->intake.store);
    buf_fini(&c->intake.run);
    lease_fini(&c->lease);
    pthread_mutex_destroy(&c->lock);
    free(c->topic);
    free(c);
}

enum err consumer_start(const struct consumer_options *o, struct consumer **ret, struct fault *f)
{
    struct consumer *c = calloc(1, sizeof *c);
    char me[LEASE_OWNER_TEXT];
    uint8_t random[LEASE_OWNER_TEXT / 2];
    check(c != NULL); /* only at boot */
    world_random(random, sizeof random);
    hex_write(me, random, sizeof random);
    lease_init(&c->lease, me);
    c->source = o->source;
    c->again_ms = o->again_ms > 0 ? o->again_ms : AGAIN_MS;
    c->topic = strdup(o->topic);
    check(c->topic != NULL);
    pthread_mutex_init(&c->lock, NULL);
    c->slice = STORE_MESSAGES_MOST / 8;
    c->sheet = metrics_sheet_create();
    snprintf(c->status.text, sizeof c->status.text, "the topic was not read yet");
    c->intake = (struct message_intake){.topic = str_from(c->topic),
                                        .owner = str_of(c->lease.me, LEASE_OWNER_TEXT),
                                        .sheet = c->sheet};
    buf_init(&c->intake.run, 64 << 10, CONSUME_BYTES_MAX * 2);
    enum err err = store_open(o->store, true, &c->intake.store, f);
    if (err == ERR_OK) store_share_pepper(c->intake.store, o->pepper);
    if (err != ERR_OK) {
        destroy(c);
        return err;
    }
    thread_start(&c->thread, "consumer", run, c);
    *ret = c;
    return ERR_OK;
}

void consumer_stop(struct consumer *c)
{
    if (c == NULL) return;
    struct fault f;
    atomic_store(&c->stopping, true);
    pthread_join(c->thread, NULL);
    for (uint32_t i = 0; i < LEASE_PARTITIONS_MAX; i++) stop_reading(c, i);
    /* If this fails, the others wait until the lease is over. */
    if (consumer_store_leave(c->intake.store, c->intake.topic, &c->lease, &f) != ERR_OK)
        log_text(LOG_WARNING, "consume_not_left", "%s", f.text);
    destroy(c);
}
