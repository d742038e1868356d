/* bench_recovery.c - how long a start takes until the state is there.
 *
 *   bench_recovery DIRECTORY [tokens [reviews [percent in the journal [shards]]]]
 *
 * Makes (1,000,000 tokens, 100,000 pending reviews by default) a snapshot of most and a
 * journal of the rest, then does what a boot does: reads the snapshot, opens the journal and
 * applies what is behind, into so many shards. Prints milliseconds and bytes. The page cache
 * is warm, as after a restart. */
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/check.h"
#include "base/world.h"
#include "event/event.h"
#include "snapshot/replay.h"
#include "snapshot/snapshot.h"
#include "shards/slot.h"

enum { DELTA_BYTES = 8 << 10, ITEM_BYTES = 4 << 10, SHARDS_MOST = 64 };

struct bench {
    char directory[512];
    uint64_t tokens, reviews, now_ms;
    struct disk *snapshots, *journal_disk;
    struct journal *journal;
    sem_t rung;
    struct shard *shards[SHARDS_MOST];
    unsigned shard_count;
    struct lineage past;
    uint64_t replayed;
};

static struct id id_of(const struct bench *b, uint64_t n)
{
    struct id id = {{0}};
    for (int i = 0; i < 6; i++) id.bytes[i] = (uint8_t)(b->now_ms >> (8 * (5 - i)));
    for (int i = 0; i < 8; i++)
        id.bytes[8 + i] = (uint8_t)(n * UINT64_C(0x9e3779b97f4a7c15) >> (8 * i));
    return slot_id(id, (unsigned)(n % LIMIT_SLOTS));
}

static struct str minted(const struct bench *b, uint64_t n, char *to)
{
    struct buf out = buf_over(to, DELTA_BYTES);
    struct token_facts t = {.id = id_of(b, n),
                            .key = id_of(b, 1),
                            .tenant = STR("default"),
                            .actor = STR("agent-with-a-24-char-name"),
                            .scope = STR("payments.* orders.read get"),
                            .signer = 1,
                            .ordinal = n,
                            .issued_ms = b->now_ms,
                            .expires_ms = b->now_ms + 86400000,
                            .uses_max = (uint32_t)(n % 4)};
    struct retry none = {0};
    delta_put_minted(&out, &t, &none);
    check(!out.overflow);
    return buf_view(&out);
}

/* A subject has a hundred of them, and an item of about a kilobyte. */
static struct str opened(const struct bench *b, uint64_t n, char *to, char *item,
                         struct str *ret_item)
{
    char event_id[ID_TEXT], review_id[ID_TEXT], trace[40], actor[40], args[800];
    struct buf out = buf_over(to, DELTA_BYTES), text = buf_over(item, ITEM_BYTES);
    struct id id = id_of(b, n);
    id_write("evt_", id, event_id);
    id_write("rev_", id, review_id);
    snprintf(trace, sizeof trace, "trace-%" PRIu64, n);
    snprintf(actor, sizeof actor, "actor-%" PRIu64, n / 100);
    snprintf(args, sizeof args, "{\"text\":\"%0600" PRIu64 "\"}", n);
    struct event e = {.event_id = str_of(event_id, ID_TEXT),
                      .kind = STR("review.enqueued"),
                      .tenant_id = STR("default"),
                      .trace_id = str_from(trace),
                      .timestamp = b->now_ms,
                      .actor = str_from(actor),
                      .action = STR("payments.refund"),
                      .args = str_from(args),
                      .review_id = str_of(review_id, ID_TEXT)};
    event_put(&text, &e);
    struct review_facts r = {.id = id,
                             .ordinal = n,
                             .tenant = STR("default"),
                             .subject = e.actor,
                             .principal = STR("agents"),
                             .owner = STR("ann"),
                             .action = e.action,
                             .trace_id = e.trace_id,
                             .enqueued_ms = b->now_ms,
                             .expires_ms = b->now_ms + 86400000,
                             .good_for_ms = 600000,
                             .item = buf_view(&text),
                             .requirements = STR("[{\"approvals\":1}]"),
                             .votes_approved = STR("[[\"review\",\"base\",\"refunds\"]]"),
                             .state = REVIEW_PENDING};
    memcpy(r.binding.bytes, &n, sizeof n);
    memcpy(r.request.bytes + 8, &n, sizeof n);
    delta_put_opened(&out, &r);
    check(!out.overflow && !text.overflow);
    *ret_item = buf_view(&text);
    return buf_view(&out);
}

/* The n-th object: every so many-th is a review. */
static struct journal_record record_of(const struct bench *b, uint64_t n, char *delta, char *item)
{
    uint64_t every = b->reviews == 0 ? UINT64_MAX : (b->tokens + b->reviews) / b->reviews;
    struct journal_record r = {.seq = n};
    struct str text = STR(
        "{\"kind\":\"token.minted\",\"more\":\"a record of this kind has about four hundred bytes\"}");
    r.private_bytes = n % every == 0 ? opened(b, n, delta, item, &text) : minted(b, n, delta);
    r.public_bytes = text;
    return r;
}

static void rang(void *context, unsigned producer)
{
    (void)producer;
    sem_post(&((struct bench *)context)->rung);
}

static void wait_for_ring(struct bench *b)
{
    while (sem_wait(&b->rung) != 0) {
    }
}

static void append(struct bench *b, const struct journal_record *r)
{
    struct journal_producer *p = journal_producer(b->journal, 0);
    enum err err;
    char *to;
    while ((to = journal_reserve(p, r->public_bytes.size + r->private_bytes.size, &err)) == NULL) {
        journal_seal(p);
        wait_for_ring(b);
    }
    memcpy(to, r->public_bytes.bytes, r->public_bytes.size);
    memcpy(to + r->public_bytes.size, r->private_bytes.bytes, r->private_bytes.size);
    journal_commit(p, r->public_bytes.size, r->private_bytes.size, true);
}

static enum err take_entry(void *context, unsigned slot, struct str entry)
{
    struct bench *b = context;
    struct fault f;
    return replay_entry(b->shards, b->shard_count, slot, entry, &f);
}

static enum err take_record(void *context, const struct journal_record *r)
{
    struct bench *b = context;
    struct fault f;
    if (r->seq <= b->past.position) return ERR_OK;
    b->replayed++;
    return replay_record(b->shards, b->shard_count, r, &f);
}

static void open_disks(struct bench *b)
{
    char path[600];
    check(mkdir(b->directory, 0700) == 0); /* an own, new directory */
    snprintf(path, sizeof path, "%s/snapshots", b->directory);
    check(disk_real_create(path, &b->snapshots) == ERR_OK);
    snprintf(path, sizeof path, "%s/journal", b->directory);
    check(disk_real_create(path, &b->journal_disk) == ERR_OK);
}

static void open_journal(struct bench *b,
                         enum err (*replay)(void *context, const struct journal_record *record))
{
    struct journal_report report;
    struct fault f;
    struct journal_options o = {
        .disk = b->journal_disk, .producers = 1, .lazy_sync_ms = 20, .ring = rang, .context = b};
    enum err err = journal_open(&o, replay, b, &b->journal, &report, &f);
    if (err != ERR_OK) fprintf(stderr, "%s\n", f.text);
    check(err == ERR_OK);
}

/* Everything into the journal; a snapshot as of the record that so many per cent are behind. */
static void make(struct bench *b, unsigned percent)
{
    static char delta[DELTA_BYTES], item[ITEM_BYTES];
    struct fault f;
    uint64_t total = b->tokens + b->reviews, position = total - total * percent / 100;
    struct shard *one = shard_create(&(struct shard_options){.count = 1});
    check(one != NULL);
    open_journal(b, NULL);
    for (uint64_t n = 1; n <= total; n++) {
        struct journal_record r = record_of(b, n, delta, item);
        append(b, &r);
        if (n <= position) check(replay_record(&one, 1, &r, &f) == ERR_OK);
    }
    journal_seal(journal_producer(b->journal, 0));
    while (journal_durable_seq(b->journal) < total) wait_for_ring(b);
    journal_close(b->journal);
    b->past.position = position;
    uint64_t begun = world_monotonic_ns();
    if (position > 0) check(snapshot_make(b->snapshots, &b->past, &one, 1, &f) == ERR_OK);
    printf("snapshot written in %" PRIu64 " ms\n", (world_monotonic_ns() - begun) / 1000000);
    shard_destroy(one);
    disk_real_destroy(b->journal_disk);
    disk_real_destroy(b->snapshots);
}

struct moment { /* CPU time beside the wall's: other work on the machine does not count */
    uint64_t wall_ns, cpu_ns;
};

static struct moment moment_now(void)
{
    struct timespec cpu;
    check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0);
    return (struct moment){.wall_ns = world_monotonic_ns(),
                           .cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec};
}

static void print_span(const char *what, struct moment from, struct moment to)
{
    printf("%-10s %6" PRIu64 " ms, CPU %6" PRIu64 " ms\n", what,
           (to.wall_ns - from.wall_ns) / 1000000, (to.cpu_ns - from.cpu_ns) / 1000000);
}

static void boot(struct bench *b)
{
    char path[600];
    struct fault f;
    struct shard_totals sum = {0};
    snprintf(path, sizeof path, "%s/snapshots", b->directory);
    check(disk_real_create(path, &b->snapshots) == ERR_OK);
    snprintf(path, sizeof path, "%s/journal", b->directory);
    check(disk_real_create(path, &b->journal_disk) == ERR_OK);
    for (unsigned i = 0; i < b->shard_count; i++)
        b->shards[i] = shard_create(&(struct shard_options){.index = i, .count = b->shard_count});
    struct moment begun = moment_now();
    check(snapshot_read(b->snapshots, take_entry, b, &b->past, &f) == ERR_OK);
    struct moment loaded = moment_now();
    open_journal(b, take_record);
    struct moment replayed = moment_now();
    for (unsigned i = 0; i < b->shard_count; i++) {
        struct shard_totals t;
        shard_totals(b->shards[i], &t);
        sum.tokens += t.tokens;
        sum.reviews += t.reviews;
        sum.token_bytes += t.token_bytes;
        sum.review_bytes += t.review_bytes;
    }
    printf("%" PRIu64 " tokens, %" PRIu64 " reviews, %u shards, %" PRIu64
           " records applied behind the snapshot\n",
           sum.tokens, sum.reviews, b->shard_count, b->replayed);
    print_span("snapshot", begun, loaded);
    print_span("journal", loaded, replayed);
    print_span("together", begun, replayed);
    printf("bytes per token %" PRIu64 ", per review %" PRIu64 "\n",
           sum.tokens ? sum.token_bytes / sum.tokens : 0,
           sum.reviews ? sum.review_bytes / sum.reviews : 0);
    check(sum.tokens + sum.reviews == b->tokens + b->reviews);
    journal_close(b->journal);
    for (unsigned i = 0; i < b->shard_count; i++) shard_destroy(b->shards[i]);
    disk_real_destroy(b->journal_disk);
    disk_real_destroy(b->snapshots);
}

static uint64_t number(int argc, char **argv, int at, uint64_t otherwise)
{
    uint64_t value = otherwise;
    if (argc > at) check(str_to_u64(str_from(argv[at]), &value));
    return value;
}

int main(int argc, char **argv)
{
    static struct bench b;
    if (argc < 2) {
        fprintf(
            stderr,
            "usage: bench_recovery DIRECTORY [tokens [reviews [percent in the journal [shards]]]]\n");
        return 2;
    }
    snprintf(b.directory, sizeof b.directory, "%s", argv[1]);
    b.tokens = number(argc, argv, 2, 1000000);
    b.reviews = number(argc, argv, 3, 100000);
    unsigned percent = (unsigned)number(argc, argv, 4, 10);
    b.shard_count = (unsigned)number(argc, argv, 5, 2);
    check(percent <= 100 && b.shard_count >= 1 && b.shard_count <= SHARDS_MOST);
    b.now_ms = world_now_ms();
    sem_init(&b.rung, 0, 0);
    open_disks(&b);
    make(&b, percent);
    boot(&b);
    return 0;
}
