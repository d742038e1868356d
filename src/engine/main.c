/* main.c - the engine's start and end.
 *
 *   options → directories, node, pepper → addresses taken → recovery (snapshot, journal, Redis) →
 *   engine.started → signing keys → keeping the state → last good bundle → spans → reactors → feed,
 *   publisher → accepting → (signals, housekeeping) → drain → engine.stopped → publish, snapshot,
 *   Redis → exit
 *
 * The addresses are taken early, so that one in use ends the start at once. Nothing is accepted
 * before the journal is recovered and its first record is on disk. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock_log.h"
#include "base/descriptors.h"
#include "base/dumps.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/decision/old_limits.h"
#include "engine/fleet/fleet_snapshots.h"
#include "engine/runtime/signing.h"
#include "engine/control/takeover.h"
#include "engine/control/recovery.h"
#include "engine/fleet/fleet_trail.h"
#include "pipeline/publish/stream_tree.h"
#include "pipeline/publish/transport.h"
#include "evidence/run_mac.h"
#include "http/listen.h"

enum {
    HOUSEKEEPING_MS = 1000,
    DRAIN_LOOK_MS = 20,      /* how often draining reactors are checked */
    DRAIN_MS = 15000,        /* the longest time for requests in progress */
    PUBLISH_DRAIN_MS = 5000, /* the journal keeps the rest */
    FLEET_DRAIN_MS = 2000,   /* the fleet's log has the rest */
    STATE_DRAIN_MS = 10000,  /* the journal has what snapshot and Redis lack then */
    LEAVE_MS = 3000,         /* else revocations wait for the lease of this engine */
    SPANS_DRAIN_MS = 1000,   /* unsent spans are lost then */
    LOST_LINGER_MS = 1000,   /* so that /readyz shows the reason before the process ends */
    LEFT_SECONDS_MAX = 10 * 365 * 86400, /* longer times are not shown */
    /* 24, and two of each reactor, with platform, collector and both addresses; the rest is for
     * Redis, Kafka, and files that are open for a moment. */
    DESCRIPTORS = 40,
    DESCRIPTORS_EACH = 3,
};

struct boot { /* state of the main thread only */
    struct engine engine;
    struct disk *disk;
    struct loop *loop;
    struct listeners listeners;
    struct loop_fd signals;
    struct loop_timer housekeeping, linger;
    struct loop_wakeup lost; /* woken when Redis belongs to another engine */
    struct recovery recovery;
    struct transport *transport;       /* to the platform; the publisher owns it once that runs */
    struct transport *fleet_transport; /* the same, for the records of a fleet */
    int signal_fd;
    bool node_is_new; /* this start made its name */
    bool stopping;
    unsigned next_engine_reactor; /* where the search for the least loaded one begins */
    uint64_t bytes_before;        /* of the journal, at the last housekeeping */
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

/* Written under another name first, and then linked: no crash leaves an empty file, and of two
 * engines that start at once on a new directory only one names it. */
static enum err make_node(const struct engine *e, const char *path, struct fault *f)
{
    char fresh[4096 + 32], digits[ID_DIGITS], text[NODE_TEXT_MAX + 1];
    struct chance chance = {0};
    id_write_digits(id_make(world_now_ms(), &chance), digits);
    snprintf(text, sizeof text, "node-%.10s\n", digits + ID_DIGITS - 10);
    check(str_is_name(str_cut(str_from(text), strlen(text) - 1)));
    snprintf(fresh, sizeof fresh, "%s.%.26s", path, digits);
    bool is_made = file_make(fresh, str_from(text));
    bool is_linked = is_made && (link(fresh, path) == 0 || errno == EEXIST);
    bool ok = is_linked && engine_folder_sync(e);
    if (!ok)
        (void)fault_set(f, ERR_IO, "", "%s%s: %s",
                        is_made && !is_linked ? "cannot make the hard link " : "", path,
                        strerror(errno));
    if (is_made) unlink(fresh);
    return ok ? ERR_OK : ERR_IO;
}

/* The node's name is made once per data directory, unless the operator names it. */
static enum err settle_node(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
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
    b->node_is_new = err == ERR_NOT_FOUND;
    if (b->node_is_new) err = make_node(e, path, f);
    if (err == ERR_OK) err = read_line(path, e->node, sizeof e->node, f);
    if (err != ERR_OK || str_is_name(str_from(e->node))) return err;
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "%s: holds no node name. Write into it the node that this engine's records have. Remove it "
        "only if the engine has no records yet",
        path);
}

/* ---- journal ---- */

static uint64_t node_tag(const struct engine *e)
{
    struct sha256 digest = sha256_once(str_from(e->node));
    uint64_t tag = 0;
    for (size_t i = 0; i < sizeof tag; i++) tag = tag << 8 | digest.bytes[i];
    return tag;
}

/* The platform accepts no second history under a name, and no second name for one history. An
 * operator who sets the name by option does so deliberately. */
static enum err accept_node(struct boot *b, const struct journal_report *found, struct fault *f)
{
    const struct engine *e = &b->engine;
    if (found->node == 0 || found->node == node_tag(e) || e->config.node[0] != '\0') return ERR_OK;
    char path[4096];
    snprintf(path, sizeof path, "%s/engine/node", e->config.data);
    if (b->node_is_new) unlink(path);
    char held[NODE_TEXT_MAX + 40] = "there is no such file";
    if (!b->node_is_new) snprintf(held, sizeof held, "it holds %s", e->node);
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "%s: %s, and the last records here were written under another name. Restore the "
        "file: its one line is the name that the platform has for these records "
        "(`node` in the audit trail). With --node NAME the engine continues under NAME",
        path, held);
}

/* With a wrong clock everything with a deadline would end, and time never goes back behind the
 * records. */
static enum err accept_clock(const struct boot *b, const struct journal_report *found,
                             struct fault *f)
{
    uint64_t most_ms = b->engine.config.clock_ahead_ms, now_ms = world_now_ms();
    if (most_ms == 0 || found->last_ms == 0 || now_ms <= found->last_ms ||
        now_ms - found->last_ms <= most_ms)
        return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "journal.clock_ahead: the machine's clock is %" PRIu64
                     " days ahead of the last record; the limit is %" PRIu64
                     " days. Set the clock right and start again. If it is right, start once "
                     "with --journal.clock_ahead 0",
                     (now_ms - found->last_ms) / 86400000, most_ms / 86400000);
}

static enum err accept_journal(void *engine, const struct journal_report *found, struct fault *f)
{
    struct boot *b = link_owner((struct engine *)engine, struct boot, engine);
    enum err err = accept_node(b, found, f);
    return err == ERR_OK ? accept_clock(b, found, f) : err;
}

/* While the main thread recovers, which may take minutes, this thread waits for the signal that
 * ends the start. It does not consume the signal: the loop does. */
struct watch {
    struct boot *boot;
    int over; /* an eventfd */
    pthread_t thread;
};

static void *watch_signals(void *context)
{
    const struct watch *w = context;
    struct pollfd fds[2] = {{.fd = w->boot->signal_fd, .events = POLLIN},
                            {.fd = w->over, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    if (fds[0].revents != 0) atomic_store(&w->boot->recovery.given_up, true);
    return NULL;
}

static enum err recover(struct boot *b, const struct journal_options *options,
                        struct journal_report *ret_report, struct fault *f)
{
    struct watch w = {.boot = b, .over = eventfd(0, EFD_CLOEXEC)};
    if (w.over < 0) return fault_set(f, err_from_errno(errno), "", "%s", strerror(errno));
    thread_start(&w.thread, "signals", watch_signals, &w);
    enum err err = recovery_run(&b->engine, &b->recovery, options, ret_report, f);
    check(eventfd_write(w.over, 1) == 0 && pthread_join(w.thread, NULL) == 0);
    close(w.over);
    return err;
}

static void journal_writer_rang(void *context, unsigned producer)
{
    check(producer <= ((struct engine *)context)->reactor_count);
    struct engine *e = context;
    if (producer == e->reactor_count)
        sem_post(&e->main_rung);
    else if (e->reactors[producer].reactor != NULL)
        reactor_wake(e->reactors[producer].reactor);
}

static void durable_moved(void *context)
{
    struct engine *e = context;
    pthread_mutex_lock(&e->followers_lock);
    publish_wake(e->publisher);
    state_follower_wake(e->state_follower);
    pthread_mutex_unlock(&e->followers_lock);
}

static enum err record_skips(struct engine *e, struct fault *f)
{
    char text[FLEET_REASON_TEXT];
    unsigned at = 0;
    while (fleet_member_skipped(e->member, &at, text)) {
        enum err err = lifecycle_fleet(e, str_from(text));
        if (err != ERR_OK) return fault_plain(f, err);
    }
    return ERR_OK;
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
    check(e->reactor_count > 0 && e->signing != NULL);
    struct journal_options options = {.disk = b->disk,
                                      .producers = e->reactor_count + 1,
                                      .segment_bytes = c->segment_bytes,
                                      .keep_ms = c->keep_ms,
                                      .keep_bytes = c->keep_bytes,
                                      .lazy_sync_ms = (uint32_t)c->lazy_sync_ms,
                                      .node = node_tag(e),
                                      .accept = accept_journal,
                                      .ring = journal_writer_rang,
                                      .ring_durable = durable_moved,
                                      .context = e};
    struct journal_report report;
    err = recover(b, &options, &report, f);
    if (err == ERR_OK && e->member == NULL)
        err = signing_open(e->signing, recovery_found_nothing(&b->recovery, &report),
                           world_now_ms(), f);
    if (err != ERR_OK) return err;
    snprintf(seq, sizeof seq, "%llu", (unsigned long long)report.last_seq);
    snprintf(cut, sizeof cut, "%llu", (unsigned long long)report.cut_bytes);
    log_line(report.cut_frames > 0 ? LOG_WARNING : LOG_INFO, "journal_recovered", "last_seq", seq,
             "torn_bytes_cut", cut, NULL);
    /* of a fleet, the seed takes the suspensions over, when it leads */
    err = takeover_open(e, e->member == NULL ? report.last_seq == 0 : e->config.fleet_seed, f);
    if (err != ERR_OK) return err;
    err = lifecycle_started(e, &report, b->recovery.past.adopted);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the first record cannot be written: %s", err_sentence(err));
    if (e->member != NULL) err = record_skips(e, f);
    if (err != ERR_OK) return err;
    err = signing_begin(e, f);
    return err == ERR_OK && e->member == NULL ? recovery_follow(e, &b->recovery, f) : err;
}

/* ---- Redis is another engine's ---- */

/* On the state follower: from here on no decisions are made. */
static void ownership_lost(void *context)
{
    struct boot *b = context;
    atomic_store(&b->engine.phase, PHASE_LOST);
    wakeup_send(&b->lost);
}

static void lingered(struct loop_timer *t)
{
    struct boot *b = link_owner(t, struct boot, linger);
    b->stopping = true;
}

static void heard_lost(struct loop_wakeup *wakeup)
{
    struct boot *b = link_owner(wakeup, struct boot, lost);
    if (b->engine.member == NULL)
        log_line(LOG_ERROR, "ownership_lost", "text",
                 "another engine has taken over this engine's state in Redis; this one stops "
                 "serving and ends",
                 NULL);
    loop_timer_start(b->loop, &b->linger, LOST_LINGER_MS, lingered);
}

/* ---- accepting ---- */

static void accepted(void *context, int fd, enum socket_kind kind)
{
    struct boot *b = context;
    struct engine *e = &b->engine;
    unsigned least = b->next_engine_reactor++ % e->reactor_count;
    for (unsigned i = 0; i < e->reactor_count; i++)
        if (atomic_load_explicit(&e->reactors[i].connections, memory_order_relaxed) <
            atomic_load_explicit(&e->reactors[least].connections, memory_order_relaxed))
            least = i;
    engine_reactor_tell(&e->reactors[least], REACTOR_SOCKET, fd, kind);
}

/* Before anything is recorded: an engine whose address is in use has not started. */
static enum err take_addresses(struct boot *b, struct fault *f)
{
    const struct config *c = &b->engine.config;
    const struct listen_options options = api_listen_options(c);
    return listeners_open(&b->listeners, &options, f);
}

static enum err begin_accepting(struct boot *b, struct fault *f)
{
    enum err err = listeners_start(&b->listeners, b->loop, accepted, b, f);
    if (err != ERR_OK) return err;
    log_line(LOG_INFO, "listening", "address", listeners_address(&b->listeners, SOCKET_TCP), "tls",
             listeners_address(&b->listeners, SOCKET_TLS), "unix", b->engine.config.listen_unix,
             "node", b->engine.node, NULL);
    return ERR_OK;
}

/* ---- housekeeping ---- */

/* Estimates the time until decisions are refused for want of space, at the rate of the last minute
 * (a running mean). */
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

/* The journal writer and the fleet's member wake the publishers that are set here, so one that is
 * about to end is removed first. */
static struct publisher *set_publisher(struct engine *e, struct publisher **at,
                                       struct publisher *next)
{
    pthread_mutex_lock(&e->followers_lock);
    struct publisher *before = *at;
    check(before == NULL || next == NULL);
    *at = next;
    pthread_mutex_unlock(&e->followers_lock);
    return before;
}

/* The engine that leads publishes the records of the fleet, from the platform's position on. */
static void publish_fleet(struct boot *b)
{
    struct engine *e = &b->engine;
    if (b->fleet_transport == NULL || !fleet_member_leads(e->member)) return;
    char node[TRAIL_NODE_TEXT], folder[4096];
    struct fault f;
    struct publisher *publisher = NULL;
    fleet_trail_node(e->config.fleet, node);
    snprintf(folder, sizeof folder, "%s/engine", e->config.data);
    const struct record_source source =
        fleet_trail_source(fleet_member_trail(e->member), fleet_member_term(e->member));
    struct publish_options options = {
        .source = &source, .node = node, .transport = b->fleet_transport};
    b->fleet_transport = NULL;
    enum err err = stream_tree_open_unsaved(folder, node, &options.tree, &f);
    if (err != ERR_OK) /* the key was read at the start */
        log_line(LOG_ERROR, "evidence_key", "text", f.text, NULL);
    err = publish_start(&options, &publisher, &f);
    check(err == ERR_OK); /* its transport is there */
    set_publisher(e, &e->fleet_publisher, publisher);
}

static void housekeeping(struct loop_timer *t)
{
    struct boot *b = link_owner(t, struct boot, housekeeping);
    world_time_discipline();
    clock_log();
    tls_keep_up(b->engine.tls, false);
    measure_room(b);
    publish_fleet(b);
    loop_timer_start(b->loop, &b->housekeeping, HOUSEKEEPING_MS, housekeeping);
}

static void signalled(struct loop_fd *w, int events)
{
    (void)events;
    struct boot *b = link_owner(w, struct boot, signals);
    struct signalfd_siginfo info;
    if (read(b->signal_fd, &info, sizeof info) != (ssize_t)sizeof info) return;
    if (info.ssi_signo == SIGHUP)
        tls_keep_up(b->engine.tls, true);
    else
        b->stopping = true;
}

/* ---- boot ---- */

/* The main thread reads SIGINT, SIGTERM and SIGHUP from a descriptor; every other thread starts with them
 * blocked. */
static void take_signals(struct boot *b)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    check(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    signal(SIGHUP, SIG_DFL); /* what is ignored does not reach the descriptor */
    b->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    check(b->signal_fd >= 0);
    loop_fd_start(b->loop, &b->signals, b->signal_fd, LOOP_READ, signalled);
}

static unsigned reactors_of(const struct config *c)
{
    long cores = c->reactors != 0 ? (long)c->reactors : sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > LIMIT_REACTORS ? LIMIT_REACTORS : (unsigned)cores;
}

static enum err start_engine_reactors(struct engine *e, struct fault *f)
{
    check(atomic_load(&e->bundle) != NULL && e->shards != NULL);
    for (unsigned i = 0; i < e->reactor_count; i++) {
        enum err err = engine_reactor_start(e, i);
        if (err != ERR_OK) return fault_set(f, err, "", "a reactor thread cannot be started");
    }
    return ERR_OK;
}

static enum err start_spans(struct engine *e, struct fault *f)
{
    const struct spans_options options = {.url = e->config.otlp_url,
                                          .node = e->node,
                                          .version = WRIT_VERSION,
                                          .sample = e->config.otlp_sample,
                                          .tls = e->tls,
                                          .lanes = e->reactor_count};
    return options.url[0] == '\0' ? ERR_OK : spans_start(&options, &e->spans, f);
}

/* Finds wrong settings of the platform before anything is recorded. */
static enum err prepare_following(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    const struct config *c = &e->config;
    enum err err = feed_create(e, f);
    if (err != ERR_OK) return err;
    if (c->platform_url[0] == '\0' && c->kafka_brokers[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "",
                         "kafka.brokers: needs platform.url beside it, because the platform "
                         "confirms published records");
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
    const struct sha256 of_all = pepper_derive(&e->pepper, STR(RUN_KEY_LABEL));
    struct publish_options options = {.node = e->node,
                                      .record_key = run_key(&of_all, str_from(e->node), STR("0")),
                                      .url = c->platform_url,
                                      .key_file = c->platform_key_file,
                                      .tls = e->tls,
                                      .kafka = c->kafka_brokers[0] == '\0' ? NULL : &kafka};
    err = publish_connect(&options, &b->transport, f);
    if (err != ERR_OK || c->fleet[0] == '\0') return err;
    char node[TRAIL_NODE_TEXT];
    fleet_trail_node(c->fleet, node);
    options.node = node;
    options.record_key = run_key(&of_all, str_from(node), STR("0"));
    return publish_connect(&options, &b->fleet_transport, f);
}

static enum err start_following(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    if (b->transport == NULL) return ERR_OK;
    feed_start(e);
    struct publish_options options = {
        .journal = e->journal, .node = e->node, .transport = b->transport};
    struct publisher *publisher = NULL;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/engine", e->config.data);
    enum err err = stream_tree_open(folder, e->node, &options.tree, f);
    if (err == ERR_OK) err = publish_start(&options, &publisher, f);
    set_publisher(e, &e->publisher, publisher);
    return err;
}

/* A pepper that an engine makes by itself would be another one than that of its fleet. */
static enum err read_pepper(struct engine *e, struct fault *f)
{
    if (e->config.fleet[0] == '\0')
        return pepper_read_or_make(e->config.pepper_file, &e->pepper, f);
    enum err err = pepper_read(e->config.pepper_file, &e->pepper, f);
    if (err != ERR_NOT_FOUND) return err;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "fleet: there is no pepper in %s, and all engines of a fleet have the same: "
                     "copy the platform's, or name it with pepper_file",
                     e->config.pepper_file);
}

static enum err enter_fleet(struct engine *e, struct fault *f)
{
    return e->config.fleet[0] == '\0' ? fleet_member_absent(e, f)
                                      : fleet_member_open(e, &e->member, f);
}

/* On the member's thread: from here on the process only ends. */
static void lead_lost(void *context)
{
    struct boot *b = context;
    atomic_store(&b->engine.phase, PHASE_LOST);
    wakeup_send(&b->lost);
}

static void start_member(struct boot *b)
{
    struct engine *e = &b->engine;
    fleet_member_start(e->member, lead_lost, b);
    struct fleet_snapshots *snapshots = fleet_snapshots_start(e);
    pthread_mutex_lock(&e->followers_lock);
    e->fleet_snapshots = snapshots;
    pthread_mutex_unlock(&e->followers_lock);
}

static struct fleet_snapshots *take_fleet_snapshots(struct engine *e)
{
    pthread_mutex_lock(&e->followers_lock);
    struct fleet_snapshots *before = e->fleet_snapshots;
    e->fleet_snapshots = NULL;
    pthread_mutex_unlock(&e->followers_lock);
    return before;
}

static enum err boot(struct boot *b, struct fault *f)
{
    struct engine *e = &b->engine;
    e->reactor_count = reactors_of(&e->config);
    enum err err = descriptors_for_clients(DESCRIPTORS + DESCRIPTORS_EACH * e->reactor_count,
                                           &e->config.connections_max, f);
    if (err != ERR_OK) return err;
    err = trusted_proxies_read(str_from(e->config.trusted_proxies), &e->proxies, f);
    if (err != ERR_OK) return err;
    e->proxies.send_proxy_header = e->config.proxy_protocol;
    e->reactors = calloc(e->reactor_count, sizeof *e->reactors);
    check(e->reactors != NULL);
    sem_init(&e->bundle_seen, 0, 0);
    sem_init(&e->main_rung, 0, 0);
    pthread_mutex_init(&e->followers_lock, NULL);
    e->revoked = revoked_log_create(e->reactor_count);
    e->post = post_create(e->reactor_count);
    check(e->revoked != NULL && e->post != NULL);
    check(pthread_barrier_init(&e->leaving, NULL, e->reactor_count) == 0);
    b->loop = loop_create();
    wakeup_start(b->loop, &b->lost, heard_lost);
    b->recovery.lost_ownership = ownership_lost;
    b->recovery.context = b;
    take_signals(b);
    err = make_directories(&e->config, f);
    if (err == ERR_OK) err = settle_node(b, f);
    if (err == ERR_OK) err = read_pepper(e, f);
    if (err == ERR_OK) digest_keys_derive(&e->digest_keys, &e->pepper);
    if (err == ERR_OK) e->assertion_key = assertion_key(&e->pepper);
    if (err == ERR_OK) e->bundle_key = set_keys_derive(&e->pepper).sent;
    e->assertions = assertions_create();
    e->meters = meters_create();
    e->started_ms = world_now_ms();
    if (err == ERR_OK) err = signing_create(&e->config, &e->pepper, &e->signing, f);
    if (err == ERR_OK) err = api_tls_create(&e->config, &e->tls, f);
    if (err == ERR_OK) err = prepare_following(b, f);
    if (err == ERR_OK) err = take_addresses(b, f);
    if (err == ERR_OK) err = enter_fleet(e, f);
    if (err == ERR_OK) err = open_journal(b, f);
    if (err == ERR_OK) err = feed_load(e, f);
    if (err == ERR_OK) err = start_spans(e, f);
    if (err == ERR_OK) e->offload = offload_create(engine_reactor_wake, e);
    if (err == ERR_OK) err = start_engine_reactors(e, f);
    if (err == ERR_OK && e->member != NULL) start_member(b);
    if (err == ERR_OK) err = start_following(b, f);
    if (err == ERR_OK) err = begin_accepting(b, f);
    return err;
}

/* ---- the end ---- */

static struct state_follower *take_state_follower(struct engine *e)
{
    pthread_mutex_lock(&e->followers_lock);
    struct state_follower *before = e->state_follower;
    e->state_follower = NULL;
    pthread_mutex_unlock(&e->followers_lock);
    return before;
}

/* Counts connections, and requests that are away at other reactors, whose clients may have gone. If
 * no reactor has either, all mailboxes are empty, and no reactor will send anything to another. Where
 * the lead of a fleet was lost, requests may be away that never return: their clients have an answer. */
static size_t in_hand(const struct engine *e)
{
    size_t count = 0;
    for (unsigned i = 0; i < e->reactor_count; i++) {
        const struct engine_reactor *w = &e->reactors[i];
        count += atomic_load_explicit(&w->connections, memory_order_relaxed);
        if (e->member != NULL && fleet_member_is_over(e->member)) continue;
        count += atomic_load_explicit(&w->under_way, memory_order_relaxed);
    }
    return count;
}

static void look_again(struct loop_timer *t) { (void)t; }

static void stop_publishing(struct boot *b)
{
    struct engine *e = &b->engine;
    struct publisher *publisher = set_publisher(e, &e->publisher, NULL);
    if (publisher != NULL && !publish_stop(publisher, PUBLISH_DRAIN_MS))
        log_line(LOG_INFO, "not_all_published", "text",
                 "the journal keeps the rest for the next start", NULL);
    /* The next leader publishes what is left. */
    (void)publish_stop(set_publisher(e, &e->fleet_publisher, NULL),
                       e->member != NULL && fleet_member_is_over(e->member) ? 0 : FLEET_DRAIN_MS);
    if (b->fleet_transport != NULL) b->fleet_transport->destroy(b->fleet_transport);
}

/* Stop accepting → finish requests in progress → last record → publish → close. */
static void drain(struct boot *b)
{
    struct engine *e = &b->engine;
    enum phase serving = PHASE_SERVING;
    (void)atomic_compare_exchange_strong(&e->phase, &serving, PHASE_DRAINING); /* LOST stays */
    log_line(LOG_INFO, "draining", NULL);
    listeners_stop(&b->listeners);
    for (unsigned i = 0; i < e->reactor_count; i++)
        engine_reactor_tell(&e->reactors[i], REACTOR_DRAIN, -1, SOCKET_TCP);
    uint64_t deadline_ns = world_monotonic_ns() + (uint64_t)DRAIN_MS * 1000000u;
    do { /* check at least once after the reactors have begun to drain */
        loop_timer_start(b->loop, &b->housekeeping, DRAIN_LOOK_MS, look_again);
        loop_turn(b->loop, true);
        for (unsigned i = 0; i < e->reactor_count; i++) reactor_wake(e->reactors[i].reactor);
    } while (in_hand(e) > 0 && world_monotonic_ns() < deadline_ns);
    fleet_snapshots_stop(take_fleet_snapshots(e));
    fleet_member_leave(e->member, LEAVE_MS);
    feed_stop(e);             /* while the reactors still turn: it waits for them */
    offload_stop(e->offload); /* before they free what it works with */
    for (unsigned i = 0; i < e->reactor_count; i++)
        engine_reactor_tell(&e->reactors[i], REACTOR_STOP, -1, SOCKET_TCP);
    /* they leave together */
    for (unsigned i = 0; i < e->reactor_count; i++) reactor_join(e->reactors[i].reactor);
    fleet_member_stop(e->member);
    feed_destroy(e);
    takeover_destroy(e);
    if (lifecycle_stopped(e) != ERR_OK) log_line(LOG_WARNING, "stop_not_recorded", NULL);
    stop_publishing(b);
    state_follower_stop(take_state_follower(e), STATE_DRAIN_MS);
    spans_stop(e->spans, SPANS_DRAIN_MS);
    journal_close(e->journal);
    /* The journal writer's threads have ended, so nothing wakes these any more. */
    for (unsigned i = 0; i < e->reactor_count; i++) reactor_destroy(e->reactors[i].reactor);
}

static void fini(struct boot *b)
{
    struct engine *e = &b->engine;
    bundle_destroy(atomic_load(&e->bundle));
    for (unsigned i = 0; i < e->reactor_count; i++) shard_destroy(e->shards[i]);
    old_limits_destroy((struct old_limits *)(uintptr_t)e->old_limits);
    free(e->shards);
    fleet_member_destroy(e->member);
    post_destroy(e->post);
    offload_destroy(e->offload);
    revoked_log_destroy(e->revoked);
    recovery_fini(&b->recovery);
    wakeup_stop(&b->lost);
    loop_timer_stop(b->loop, &b->linger);
    loop_fd_stop(b->loop, &b->signals);
    loop_timer_stop(b->loop, &b->housekeeping);
    close(b->signal_fd);
    loop_destroy(b->loop);
    disk_real_destroy(b->disk);
    memory_wipe(&e->pepper, sizeof e->pepper);
    memory_wipe(&e->digest_keys, sizeof e->digest_keys);
    memory_wipe(&e->assertion_key, sizeof e->assertion_key);
    memory_wipe(&e->bundle_key, sizeof e->bundle_key);
    assertions_destroy(e->assertions);
    meters_destroy(e->meters);
    signing_destroy(e->signing);
    tls_destroy(e->tls);
    free(e->reactors);
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
    config_tell_former(&b.engine.config, PROGRAM_ENGINE);
    err = boot(&b, &f);
    if (err != ERR_OK) {
        listeners_stop(&b.listeners);
        if (err == ERR_CLOSED) {
            log_line(LOG_INFO, "stopped", "text", "a signal ended the start", NULL);
            _exit(0);
        }
        config_name_sources(&b.engine.config, &f);
        log_line(LOG_ERROR, "cannot_start", "why", f.text, NULL);
        /* threads may run already; their records are on disk */
        _exit(err == ERR_BAD_VALUE ? STATUS_WRONG_SETTING : 1);
    }
    measure_room(&b); /* so that the first second does not report a full disk */
    enum phase starting = PHASE_STARTING;
    /* or LOST already */
    (void)atomic_compare_exchange_strong(&b.engine.phase, &starting, PHASE_SERVING);
    loop_timer_start(b.loop, &b.housekeeping, HOUSEKEEPING_MS, housekeeping);
    while (!b.stopping) loop_turn(b.loop, true);
    drain(&b);
    bool lost = atomic_load(&b.engine.phase) == PHASE_LOST;
    log_line(LOG_INFO, "stopped", NULL);
    fini(&b);
    return lost ? 1 : 0;
}
