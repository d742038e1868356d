/* main.c - the engine's boot story, and its end.
 *
 *   options → directories, node, pepper → addresses taken → recovery (snapshot, journal, Redis) →
 *   engine.started → signing keys → keeping the state → last good bundle → spans → workers → feed,
 *   publisher → accepting → (signals, housekeeping) → drain → engine.stopped → publish, snapshot,
 *   Redis → exit
 *
 * The addresses are taken early, so that one in use ends the start at once; nothing is accepted
 * before the journal is recovered and its first record is on disk. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/descriptors.h"
#include "base/dumps.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/old_limits.h"
#include "engine/signing.h"
#include "engine/recovery.h"
#include "http/listen.h"

enum {
    HOUSEKEEPING_MS = 1000,
    DRAIN_LOOK_MS = 20,      /* how often draining workers are looked at */
    DRAIN_MS = 15000,        /* what is in hand may take this long */
    PUBLISH_DRAIN_MS = 5000, /* the journal keeps the rest */
    KEEP_DRAIN_MS = 10000,   /* so it does of snapshot and Redis */
    SPANS_DRAIN_MS = 1000,   /* what is not sent by then is lost */
    LOST_LINGER_MS = 1000,   /* who looks at /readyz shall see why before nobody answers */
    LEFT_SECONDS_MAX = 10 * 365 * 86400, /* more is no news */
    /* 24, and two of each reactor, with platform, collector and both addresses; the rest is for
     * Redis, Kafka, and files that are open for a moment. */
    DESCRIPTORS = 40,
    DESCRIPTORS_EACH = 3,
};

struct boot { /* what only the main thread needs */
    struct engine engine;
    struct disk *disk;
    struct loop *loop;
    struct listeners listeners;
    struct loop_fd signals;
    struct loop_timer housekeeping, linger;
    struct loop_bell lost; /* rung when Redis belongs to another engine */
    struct recovery recovery;
    struct transport *transport; /* to the platform; the publisher's once that runs */
    int signal_fd;
    bool stopping;
    unsigned next_worker;  /* where looking for the least loaded one begins */
    uint64_t bytes_before; /* of the journal, at the last housekeeping */
    double bytes_per_second;
};

/* ---- identity and secrets ---- */

static enum err make_directories(const struct config *c, struct fault *f)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/engine", c->data);
    if ((mkdir(c->data, 0700) != 0 && errno != EEXIST) ||
        (mkdir(path, 0700) != 0 && errno != EEXIST))
        return fault_set(f, ERR_IO, "", "data: cannot make %s: %s", path, strerror(errno));
    return ERR_OK;
}

/* The first line of a small file, NUL-terminated. */
static enum err read_line(const char *path, char *to, size_t size, struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fault_set(f, err_from_errno(errno), "", "%s: %s", path, strerror(errno));
    size_t got;
    int error = file_read(fd, to, size - 1, &got) ? 0 : errno;
    close(fd);
    if (error != 0) return fault_set(f, ERR_IO, "", "%s: %s", path, strerror(error));
    to[got] = '\0';
    to[strcspn(to, "\r\n")] = '\0';
    return ERR_OK;
}

/* Under another name first, and then linked: no crash leaves an empty file, and of two engines that
 * start at once on a new directory one names it. */
static enum err make_node(const struct engine *e, const char *path, struct fault *f)
{
    char fresh[4096 + 32], digits[ID_DIGITS], text[NODE_TEXT_MAX + 1];
    struct chance chance = {0};
    id_write_digits(id_make(world_now_ms(), &chance), digits);
    snprintf(text, sizeof text, "node-%.10s\n", digits + ID_DIGITS - 10);
    snprintf(fresh, sizeof fresh, "%s.%.26s", path, digits);
    bool is_made = file_make(fresh, str_from(text));
    bool is_linked = is_made && (link(fresh, path) == 0 || errno == EEXIST);
    bool ok = is_linked && engine_folder_sync(e);
    if (!ok)
        fault_set(f, ERR_IO, "", "%s%s: %s",
                  is_made && !is_linked ? "cannot make the hard link " : "", path, strerror(errno));
    if (is_made) unlink(fresh);
    return ok ? ERR_OK : ERR_IO;
}

/* The node's name is made once per data directory, unless the operator names it. */
static enum err settle_node(struct engine *e, struct fault *f)
{
    const char *given = e->config.node;
    if (given[0] != '\0') {
        if (strlen(given) > NODE_TEXT_MAX || !str_is_name(str_from(given)))
            return fault_set(f, ERR_BAD_VALUE, "", "node: must be 1 to %d of [A-Za-z0-9._-]",
                             NODE_TEXT_MAX);
        snprintf(e->node, sizeof e->node, "%s", given);
        return ERR_OK;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/engine/node", e->config.data);
    enum err err = read_line(path, e->node, sizeof e->node, f);
    if (err == ERR_NOT_FOUND) err = make_node(e, path, f);
    if (err == ERR_OK) err = read_line(path, e->node, sizeof e->node, f);
    if (err != ERR_OK || str_is_name(str_from(e->node))) return err;
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "%s: holds no node name. Write into it what this engine's records have as their node; only where it has none yet, "
        "remove it",
        path);
}

/* ---- journal ---- */

static void scribe_rang(void *context, unsigned producer)
{
    struct engine *e = context;
    if (producer == e->worker_count)
        sem_post(&e->main_rung);
    else if (e->workers[producer].reactor != NULL)
        reactor_wake(e->workers[producer].reactor);
}

static void durable_moved(void *context)
{
    struct engine *e = context;
    pthread_mutex_lock(&e->followers_lock);
    publish_wake(e->publisher);
    keep_wake(e->keep);
    pthread_mutex_unlock(&e->followers_lock);
}

static enum err open_journal(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    const struct config *c = &e->config;
    char path[4096], seq[24], cut[24];
    snprintf(path, sizeof path, "%s/engine/journal", c->data);
    enum err err = disk_real_create(path, &b->disk);
    if (err != ERR_OK)
        return fault_set(f, err, "", "journal: cannot open %s: %s", path, strerror(errno));
    struct journal_options options = {.disk = b->disk,
                                      .producers = e->worker_count + 1,
                                      .segment_bytes = c->segment_bytes,
                                      .keep_ms = c->keep_ms,
                                      .keep_bytes = c->keep_bytes,
                                      .lazy_sync_ms = (uint32_t)c->lazy_sync_ms,
                                      .ring = scribe_rang,
                                      .ring_durable = durable_moved,
                                      .context = e};
    struct journal_report report;
    err = recovery_run(e, &b->recovery, &options, &report, f);
    if (err == ERR_OK)
        err = signing_open(e->signing, recovery_found_nothing(&b->recovery, &report),
                           world_now_ms(), f);
    if (err != ERR_OK) return err;
    snprintf(seq, sizeof seq, "%llu", (unsigned long long)report.last_seq);
    snprintf(cut, sizeof cut, "%llu", (unsigned long long)report.cut_bytes);
    log_line(report.cut_frames > 0 ? LOG_WARNING : LOG_INFO, "journal_recovered", "last_seq", seq,
             "torn_bytes_cut", cut, NULL);
    err = lifecycle_record(e, STR("engine.started"), &report);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the first record cannot be written: %s", err_sentence(err));
    err = signing_begin(e, f);
    return err == ERR_OK ? recovery_keep(e, &b->recovery, f) : err;
}

/* ---- Redis is another engine's ---- */

/* On the keep thread: from here on nothing is decided. */
static void ownership_lost(void *context)
{
    struct boot *b = context;
    atomic_store(&b->engine.phase, PHASE_LOST);
    bell_ring(&b->lost);
}

static void lingered(struct loop_timer *t)
{
    struct boot *b = link_owner(t, struct boot, linger);
    b->stopping = true;
}

static void heard_lost(struct loop_bell *bell)
{
    struct boot *b = link_owner(bell, struct boot, lost);
    log_line(LOG_ERROR, "ownership_lost", "text",
             "another engine has this one's state in Redis: it stops serving and ends", NULL);
    loop_timer_start(b->loop, &b->linger, LOST_LINGER_MS, lingered);
}

/* ---- accepting ---- */

static void accepted(void *context, int fd, bool is_unix)
{
    struct boot *b = context;
    struct engine *e = &b->engine;
    unsigned least = b->next_worker++ % e->worker_count;
    for (unsigned i = 0; i < e->worker_count; i++)
        if (atomic_load_explicit(&e->workers[i].connections, memory_order_relaxed) <
            atomic_load_explicit(&e->workers[least].connections, memory_order_relaxed))
            least = i;
    worker_tell(&e->workers[least], REACTOR_SOCKET, fd, is_unix);
}

/* Before anything is recorded: an engine whose address is taken did not start. */
static enum err take_addresses(struct boot *b, struct fault *f)
{
    const struct config *c = &b->engine.config;
    return listeners_open(&b->listeners, str_from(c->listen), str_from(c->listen_unix), f);
}

static enum err begin_accepting(struct boot *b, struct fault *f)
{
    enum err err = listeners_start(&b->listeners, b->loop, accepted, b, f);
    if (err != ERR_OK) return err;
    log_line(LOG_INFO, "listening", "address", listeners_address(&b->listeners), "unix",
             b->engine.config.listen_unix, "node", b->engine.node, NULL);
    return ERR_OK;
}

/* ---- housekeeping ---- */

/* Time until decisions are refused for want of space, at the rate of the last
 * minute (a running mean). */
static void measure_room(struct boot *b)
{
    struct engine *e = &b->engine;
    struct journal_totals totals;
    journal_totals(e->journal, &totals);
    double now = (double)(totals.bytes - b->bytes_before);
    b->bytes_before = totals.bytes;
    b->bytes_per_second += (now - b->bytes_per_second) / 60.0;
    double seconds = LEFT_SECONDS_MAX;
    if (journal_is_full(e->journal))
        seconds = 0;
    else if (b->bytes_per_second >= 1.0)
        seconds = (double)totals.left_bytes / b->bytes_per_second;
    atomic_store(&e->journal_left_seconds,
                 (uint64_t)(seconds < LEFT_SECONDS_MAX ? seconds : LEFT_SECONDS_MAX));
}

static void housekeeping(struct loop_timer *t)
{
    struct boot *b = link_owner(t, struct boot, housekeeping);
    world_time_discipline();
    measure_room(b);
    loop_timer_start(b->loop, &b->housekeeping, HOUSEKEEPING_MS, housekeeping);
}

static void signalled(struct loop_fd *w, int events)
{
    (void)events;
    struct boot *b = link_owner(w, struct boot, signals);
    struct signalfd_siginfo info;
    if (read(b->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) b->stopping = true;
}

/* ---- boot ---- */

/* SIGINT and SIGTERM are read from a descriptor by the main thread; every other thread starts
 * with them blocked. */
static void take_signals(struct boot *b)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    check(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    b->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    check(b->signal_fd >= 0);
    loop_fd_start(b->loop, &b->signals, b->signal_fd, LOOP_READ, signalled);
}

static unsigned reactors_of(const struct config *c)
{
    long cores = c->reactors != 0 ? (long)c->reactors : sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > LIMIT_REACTORS ? LIMIT_REACTORS : (unsigned)cores;
}

static enum err start_workers(struct engine *e, struct fault *f)
{
    for (unsigned i = 0; i < e->worker_count; i++) {
        enum err err = worker_start(e, i);
        if (err != ERR_OK) return fault_set(f, err, "", "a reactor thread cannot be started");
    }
    return ERR_OK;
}

/* The scribe wakes whom it finds here: what is about to end is taken away first. */
static struct publisher *set_publisher(struct engine *e, struct publisher *next)
{
    pthread_mutex_lock(&e->followers_lock);
    struct publisher *before = e->publisher;
    e->publisher = next;
    pthread_mutex_unlock(&e->followers_lock);
    return before;
}

static enum err start_spans(struct engine *e, struct fault *f)
{
    const struct spans_options options = {.url = e->config.otlp_url,
                                          .node = e->node,
                                          .version = WRIT_VERSION,
                                          .sample = e->config.otlp_sample,
                                          .lanes = e->worker_count};
    return options.url[0] == '\0' ? ERR_OK : spans_start(&options, &e->spans, f);
}

/* What is wrong with how the platform is to be found is found out before anything is recorded. */
static enum err prepare_following(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    const struct config *c = &e->config;
    enum err err = feed_create(e, f);
    if (err != ERR_OK) return err;
    if (c->platform_url[0] == '\0' && c->kafka_brokers[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "",
                         "kafka.brokers: needs platform.url beside it: what was published is "
                         "confirmed by the platform");
    if (c->platform_url[0] == '\0') {
        log_line(LOG_WARNING, "no_platform", "text",
                 "platform.url is not set: policies and keys come from the last good bundle only, "
                 "and records are kept here only",
                 NULL);
        return ERR_OK;
    }
    const struct publish_kafka kafka = {.access = {.brokers = c->kafka_brokers,
                                                   .topic = c->kafka_topic,
                                                   .security = c->kafka_security,
                                                   .mechanism = c->kafka_sasl_mechanism,
                                                   .user = c->kafka_user,
                                                   .password_file = c->kafka_password_file,
                                                   .ca_file = c->kafka_ca_file,
                                                   .token_file = c->kafka_token_file},
                                        .partitions = (uint32_t)c->kafka_partitions,
                                        .compression = c->kafka_compression};
    const struct publish_options options = {.node = e->node,
                                            .url = c->platform_url,
                                            .key_file = c->platform_key_file,
                                            .kafka = c->kafka_brokers[0] == '\0' ? NULL : &kafka};
    return publish_connect(&options, &b->transport, f);
}

static enum err start_following(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    if (b->transport == NULL) return ERR_OK;
    feed_start(e);
    const struct publish_options options = {
        .journal = e->journal, .node = e->node, .transport = b->transport};
    struct publisher *publisher = NULL;
    enum err err = publish_start(&options, &publisher, f);
    set_publisher(e, publisher);
    return err;
}

static enum err boot(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    e->worker_count = reactors_of(&e->config);
    enum err err = descriptors_for_clients(DESCRIPTORS + DESCRIPTORS_EACH * e->worker_count,
                                           &e->config.connections_max, f);
    if (err != ERR_OK) return err;
    err = trusted_proxies_read(str_from(e->config.trusted_proxies), &e->proxies, f);
    if (err != ERR_OK) return err;
    e->proxies.send_proxy_header = e->config.proxy_protocol;
    e->workers = calloc(e->worker_count, sizeof *e->workers);
    check(e->workers != NULL);
    sem_init(&e->bundle_seen, 0, 0);
    sem_init(&e->main_rung, 0, 0);
    pthread_mutex_init(&e->followers_lock, NULL);
    e->revoked = revoked_log_create(e->worker_count);
    e->post = post_create(e->worker_count);
    check(e->revoked != NULL && e->post != NULL);
    check(pthread_barrier_init(&e->leaving, NULL, e->worker_count) == 0);
    b->loop = loop_create();
    bell_start(b->loop, &b->lost, heard_lost);
    b->recovery.lost_ownership = ownership_lost;
    b->recovery.context = b;
    take_signals(b);
    err = make_directories(&e->config, f);
    if (err == ERR_OK) err = settle_node(e, f);
    if (err == ERR_OK) err = pepper_read_or_make(e->config.pepper_file, &e->pepper, f);
    if (err == ERR_OK) place_keys_derive(&e->place_keys, &e->pepper);
    if (err == ERR_OK) err = signing_create(&e->config, &e->pepper, &e->signing, f);
    if (err == ERR_OK) err = prepare_following(b, f);
    if (err == ERR_OK) err = take_addresses(b, f);
    if (err == ERR_OK) err = open_journal(b, f);
    if (err == ERR_OK) err = feed_load(e, f);
    if (err == ERR_OK) err = start_spans(e, f);
    if (err == ERR_OK) err = start_workers(e, f);
    if (err == ERR_OK) err = start_following(b, f);
    if (err == ERR_OK) err = begin_accepting(b, f);
    return err;
}

/* ---- the end ---- */

static struct keep *take_keep(struct engine *e)
{
    pthread_mutex_lock(&e->followers_lock);
    struct keep *before = e->keep;
    e->keep = NULL;
    pthread_mutex_unlock(&e->followers_lock);
    return before;
}

/* Connections, and requests that are away at other reactors, whose clients may have gone:
 * where there are none of either on any worker, nothing is in a mailbox, and no worker will
 * send anything to another. */
static size_t in_hand(const struct engine *e)
{
    size_t count = 0;
    for (unsigned i = 0; i < e->worker_count; i++) {
        const struct worker *w = &e->workers[i];
        count += atomic_load_explicit(&w->connections, memory_order_relaxed);
        count += atomic_load_explicit(&w->under_way, memory_order_relaxed);
    }
    return count;
}

static void look_again(struct loop_timer *t) { (void)t; }

/* Stop accepting → finish what is in hand → last record → publish → close. */
static void drain(struct boot *b)
{
    struct engine *e = &b->engine;
    enum phase serving = PHASE_SERVING;
    (void)atomic_compare_exchange_strong(&e->phase, &serving, PHASE_DRAINING); /* LOST stays */
    log_line(LOG_INFO, "draining", NULL);
    listeners_stop(&b->listeners);
    for (unsigned i = 0; i < e->worker_count; i++)
        worker_tell(&e->workers[i], REACTOR_DRAIN, -1, false);
    uint64_t deadline_ns = world_monotonic_ns() + (uint64_t)DRAIN_MS * 1000000u;
    do { /* one look after the drain was heard, at the least */
        loop_timer_start(b->loop, &b->housekeeping, DRAIN_LOOK_MS, look_again);
        loop_beat(b->loop, true);
        for (unsigned i = 0; i < e->worker_count; i++) reactor_wake(e->workers[i].reactor);
    } while (in_hand(e) > 0 && world_monotonic_ns() < deadline_ns);
    feed_stop(e); /* while the workers still beat: it waits for them */
    for (unsigned i = 0; i < e->worker_count; i++)
        worker_tell(&e->workers[i], REACTOR_STOP, -1, false);
    /* they leave together */
    for (unsigned i = 0; i < e->worker_count; i++) reactor_join(e->workers[i].reactor);
    feed_destroy(e);
    if (lifecycle_record(e, STR("engine.stopped"), NULL) != ERR_OK)
        log_line(LOG_WARNING, "stop_not_recorded", NULL);
    struct publisher *publisher = set_publisher(e, NULL);
    if (publisher != NULL && !publish_stop(publisher, PUBLISH_DRAIN_MS))
        log_line(LOG_INFO, "not_all_published", "text",
                 "the journal keeps the rest for the next start", NULL);
    keep_stop(take_keep(e), KEEP_DRAIN_MS);
    spans_stop(e->spans, SPANS_DRAIN_MS);
    journal_close(e->journal);
    /* The scribe's threads are gone: nobody wakes these any more. */
    for (unsigned i = 0; i < e->worker_count; i++) reactor_destroy(e->workers[i].reactor);
}

static void fini(struct boot *b)
{
    struct engine *e = &b->engine;
    bundle_destroy(atomic_load(&e->bundle));
    for (unsigned i = 0; i < e->worker_count; i++) shard_destroy(e->shards[i]);
    old_limits_destroy((struct old_limits *)(uintptr_t)e->old_limits);
    free(e->shards);
    post_destroy(e->post);
    revoked_log_destroy(e->revoked);
    recovery_fini(&b->recovery);
    bell_stop(&b->lost);
    loop_timer_stop(b->loop, &b->linger);
    loop_fd_stop(b->loop, &b->signals);
    loop_timer_stop(b->loop, &b->housekeeping);
    close(b->signal_fd);
    loop_destroy(b->loop);
    disk_real_destroy(b->disk);
    memory_wipe(&e->pepper, sizeof e->pepper);
    memory_wipe(&e->place_keys, sizeof e->place_keys);
    signing_destroy(e->signing);
    free(e->workers);
    config_fini(&e->config);
}

int main(int argc, char **argv)
{
    static struct boot b;
    struct fault f;
    extern char **environ;
    if (!descriptors_take_standard()) return 1;
    thread_stacks_take();
    signals_ignore();
    log_init("writ-engine", LOG_INFO);
    enum err err = config_read(PROGRAM_ENGINE, argc, argv, environ, &b.engine.config, &f);
    if (err == ERR_END) return 0;
    if (err != ERR_OK) {
        fprintf(stderr, "writ-engine: %s\n", f.text);
        return STATUS_WRONG_SETTING;
    }
    if (!b.engine.config.core_dumps) dumps_forbid();
    log_init("writ-engine", log_level_of(b.engine.config.log_level));
    config_tell_strays(environ);
    config_tell_idle(&b.engine.config, PROGRAM_ENGINE);
    err = boot(&b, &f);
    if (err != ERR_OK) {
        listeners_stop(&b.listeners);
        config_name_sources(&b.engine.config, &f);
        log_line(LOG_ERROR, "cannot_start", "why", f.text, NULL);
        /* threads may run already; what they recorded is on disk */
        _exit(err == ERR_BAD_VALUE ? STATUS_WRONG_SETTING : 1);
    }
    measure_room(&b); /* whoever asks in the first second is not told of a full disk */
    enum phase starting = PHASE_STARTING;
    /* or LOST already */
    (void)atomic_compare_exchange_strong(&b.engine.phase, &starting, PHASE_SERVING);
    loop_timer_start(b.loop, &b.housekeeping, HOUSEKEEPING_MS, housekeeping);
    while (!b.stopping) loop_beat(b.loop, true);
    drain(&b);
    bool lost = atomic_load(&b.engine.phase) == PHASE_LOST;
    log_line(LOG_INFO, "stopped", NULL);
    fini(&b);
    return lost ? 1 : 0;
}
