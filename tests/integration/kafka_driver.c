/* kafka_driver.c - the half of an engine that publishes, for tests that kill what is around it.
 *
 *   kafka_driver DIR NODE URL KEY_FILE PEPPER_FILE BROKERS TOPIC PARTITIONS [security=ssl ca_file=PATH …]
 *
 * Opens the journal and the tree of the stream in DIR, records engine.started and publishes by
 * Kafka; the platform at URL reports the positions. Commands are lines on standard input, and each is answered by its last
 * line on standard output:
 *
 *   append N   records N decisions; prints "acked SEQ EVENT_ID" for each once it is durable, then "appended N"
 *   status     "status STATE CONFIRMED DELIVERED DURABLE TEXT"
 *   replays    "replays N": how often records were sent again
 *   stop       records engine.stopped, drains, "stopped drained|left", and ends */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "access/key.h"
#include "base/check.h"
#include "base/id.h"
#include "base/log.h"
#include "base/world.h"
#include "event/event.h"
#include "metrics/metrics.h"
#include "pipeline/publish/publish.h"
#include "pipeline/publish/stream_tree.h"

enum { DRAIN_MS = 10000 };

struct driver {
    struct disk *disk;
    struct journal *journal;
    struct journal_producer *producer;
    struct chance chance;
    uint64_t last_seq;
    pthread_mutex_t lock;
    struct publisher *publisher;
};

static void ring(void *context, unsigned producer)
{
    (void)context;
    (void)producer;
}

static void ring_durable(void *context)
{
    struct driver *d = context;
    pthread_mutex_lock(&d->lock);
    publish_wake(d->publisher);
    pthread_mutex_unlock(&d->lock);
}

static void hex_random(struct driver *d, char *to, size_t bytes)
{
    uint8_t random[32];
    chance_take(&d->chance, random, bytes);
    hex_write(to, random, bytes);
}

static void record(struct driver *d, struct event *e, char event_id[ID_TEXT])
{
    char bytes[4096];
    struct buf out = buf_over(bytes, sizeof bytes);
    enum err err;
    char *to;
    e->timestamp = world_now_ms();
    id_write("evt_", id_make(e->timestamp, &d->chance), event_id);
    e->event_id = str_of(event_id, ID_TEXT);
    e->tenant_id = STR("default");
    event_put(&out, e);
    check(!out.overflow);
    while ((to = journal_reserve(d->producer, out.size, &err)) == NULL) {
        journal_seal(d->producer);
        sched_yield();
    }
    memcpy(to, bytes, out.size);
    journal_commit(d->producer, out.size, 0, true);
    d->last_seq++;
}

static void wait_durable(struct driver *d)
{
    uint64_t written, durable = 0, mark = journal_block(d->producer);
    journal_seal(d->producer);
    while (durable < mark) {
        journal_progress(d->producer, &written, &durable);
        sched_yield();
    }
}

static void record_one(struct driver *d, const char *kind, struct str previous)
{
    char id[ID_TEXT];
    struct event e = {.kind = str_from(kind), .previous = previous};
    record(d, &e, id);
    wait_durable(d);
    printf("acked %" PRIu64 " %.*s\n", d->last_seq, ID_TEXT, id);
}

enum { HANDFUL = 500 };

static void append(struct driver *d, uint64_t count)
{
    static char ids[HANDFUL][ID_TEXT];
    for (uint64_t done = 0; done < count;) {
        uint64_t first = d->last_seq + 1, handful = count - done < HANDFUL ? count - done : HANDFUL;
        for (uint64_t i = 0; i < handful; i++) {
            char trace[32], hash[64];
            hex_random(d, trace, 16);
            hex_random(d, hash, 32);
            struct event e = {.kind = STR("decision"),
                              .trace_id = str_of(trace, 32),
                              .action = STR("get_x"),
                              .actor = STR("bot"),
                              .decision = (done + i) % 3 == 0 ? STR("deny") : STR("allow"),
                              .mode = STR("live"),
                              .rule = STR("allow:reads"),
                              .input_hash = str_of(hash, 64),
                              .output_hash = str_of(hash, 64),
                              .reason = STR("A reason of \xe2\x82\xac 500 for a person.")};
            record(d, &e, ids[i]);
        }
        wait_durable(d);
        for (uint64_t i = 0; i < handful; i++)
            printf("acked %" PRIu64 " %.*s\n", first + i, ID_TEXT, ids[i]);
        done += handful;
    }
    printf("appended %" PRIu64 "\n", count);
}

static void status(struct driver *d)
{
    struct publish_status s;
    publish_status(d->publisher, &s);
    printf("status %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", publish_state_name(s.state),
           s.confirmed_seq, s.delivered_seq, s.durable_seq, s.text);
}

static bool command(struct driver *d, const char *line)
{
    if (strncmp(line, "append ", 7) == 0)
        append(d, strtoull(line + 7, NULL, 10));
    else if (strncmp(line, "status", 6) == 0)
        status(d);
    else if (strncmp(line, "replays", 7) == 0)
        printf("replays %" PRIu64 "\n", metrics_total(METRIC_PUBLISH_REPLAYS));
    else
        return false;
    fflush(stdout);
    return true;
}

static void boot(struct driver *d, const char *directory)
{
    struct fault f;
    struct journal_report report;
    check(disk_real_create(directory, &d->disk) == ERR_OK);
    struct journal_options o = {.disk = d->disk,
                                .producers = 1,
                                .segment_bytes = 4 << 20,
                                .lazy_sync_ms = 5,
                                .keep_ms = 3600000,
                                .ring = ring,
                                .ring_durable = ring_durable,
                                .context = d};
    if (journal_open(&o, NULL, NULL, &d->journal, &report, &f) != ERR_OK) {
        fprintf(stderr, "journal: %s\n", f.text);
        exit(1);
    }
    d->producer = journal_producer(d->journal, 0);
    d->last_seq = report.last_seq;
    char text[80];
    int size =
        snprintf(text, sizeof text, "{\"epoch\":\"%.*s\",\"seq\":%" PRIu64 "}",
                 report.last_seq == 0 ? 0 : JOURNAL_EPOCH_TEXT, report.last_epoch, report.last_seq);
    record_one(d, "engine.started", str_of(text, (size_t)size));
    fflush(stdout);
}

static void stop(struct driver *d)
{
    record_one(d, "engine.stopped", (struct str){0});
    pthread_mutex_lock(&d->lock);
    struct publisher *p = d->publisher;
    d->publisher = NULL;
    pthread_mutex_unlock(&d->lock);
    printf("stopped %s\n", publish_stop(p, DRAIN_MS) ? "drained" : "left");
    journal_close(d->journal);
    disk_real_destroy(d->disk);
}

/* "name=value" of the access. */
static bool set_access(struct topic_access *a, const char *word)
{
    const struct {
        const char *name, **value;
    } known[] = {{"security=", &a->security}, {"mechanism=", &a->mechanism},
                 {"user=", &a->user},         {"password_file=", &a->password_file},
                 {"ca_file=", &a->ca_file},   {"token_file=", &a->token_file}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t size = strlen(known[i].name);
        if (strncmp(word, known[i].name, size) == 0) {
            *known[i].value = word + size;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct driver d = {.last_seq = 0};
    struct fault f;
    char line[128];
    if (argc < 9) return 2;
    log_init("kafka_driver", LOG_INFO);
    pthread_mutex_init(&d.lock, NULL);
    boot(&d, argv[1]);
    struct publish_kafka kafka = {.access = {.brokers = argv[6],
                                             .topic = argv[7],
                                             .security = "plaintext",
                                             .mechanism = "PLAIN",
                                             .user = "",
                                             .password_file = "",
                                             .ca_file = "",
                                             .token_file = ""},
                                  .partitions = (uint32_t)strtoul(argv[8], NULL, 10),
                                  .compression = "lz4"};
    for (int i = 9; i < argc; i++)
        if (!set_access(&kafka.access, argv[i])) return 2;
    struct pepper pepper;
    struct publisher *p;
    enum err err = pepper_read(argv[5], &pepper, &f);
    if (err == ERR_OK) {
        const struct sha256 of_all = pepper_derive(&pepper, STR(RUN_KEY_LABEL));
        struct publish_options o = {.journal = d.journal,
                                    .node = argv[2],
                                    .url = argv[3],
                                    .key_file = argv[4],
                                    .record_key = run_key(&of_all, str_from(argv[2]), STR("0")),
                                    .kafka = &kafka};
        err = stream_tree_open(argv[1], argv[2], &o.tree, &f);
        if (err == ERR_OK) err = publish_start(&o, &p, &f);
    }
    if (err != ERR_OK) {
        fprintf(stderr, "publisher: %s\n", f.text);
        return 1;
    }
    pthread_mutex_lock(&d.lock);
    d.publisher = p;
    pthread_mutex_unlock(&d.lock);
    while (fgets(line, sizeof line, stdin) != NULL && command(&d, line)) {
    }
    stop(&d);
    return 0;
}
