/* feed.c - follows the platform's bundle: policies and keys, as one revision.
 *
 *   request (long-poll) → keep on disk → compile → swap → wait until all reactors moved → free the old
 *
 * The engine sends the revision that all its reactors use, so that the platform knows which engines
 * have not yet seen a revoked key. If no bundle can be fetched, the last good one stays in force;
 * it is on disk for the next start as well. A tenant whose documents do not load is closed after
 * its time, even if nothing else changes: then the same text is built again.
 *
 * A bundle ends with a MAC under a key of the pepper (access/set_mac.h), on disk, too. Without it,
 * the bundle is refused, wherever it comes from. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/control/own_key.h"
#include "engine/control/takeover.h"
#include "engine/fleet/fleet_snapshots.h"
#include "http/client.h"

enum {
    BUNDLE_BYTES_MAX = LIMIT_BUNDLE_BYTES,
    WAIT_SECONDS = 25,
    PATIENCE_SECONDS = 10,
    SLOWEST_SECONDS = 3600,
    HASTY_MS = 500, /* the platform never answers a waiting request faster with "nothing is new" */
    HASTY_ENOUGH = 5, /* so many such answers in a row are not coincidence */
    FEED_NICE = 10
};

static const struct backoff retries = {.first_ms = 50, .most_ms = 2000};
static const struct backoff hasty_pauses = {.first_ms = 50, .most_ms = 1000};

static const char hasty_text[] =
    "the platform is asked to wait for news, but \"nothing is new\" is answered at once: "
    "a cache, or a proxy that drops ?wait=, answers for it, or the limit of waiting engines is "
    "reached; revocations may arrive late";

struct feed {
    struct engine *engine;
    struct http_client *client;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the wake of stopping, and trouble */
    pthread_cond_t wake;   /* stopping */
    char trouble[320];     /* the problem of the latest calls; "" = none */
    atomic_bool stopping;
    bool running;
    struct buf text; /* the bundle in force, as received */
    char etag[80];
    bool is_refused;        /* the latest call returned a bundle that was refused */
    bool is_news;           /* the latest call returned another bundle than the one in force */
    uint64_t waits_seconds; /* how long the latest call was to wait for news */
    atomic_uint hasty;      /* answers in a row that did not wait */
    char authorization[OWN_KEY_TEXT];
    /* when a call last returned the bundle in force, or that nothing is new */
    _Atomic uint64_t answered_ns;
    atomic_bool reachable;
    atomic_bool is_set_refused; /* by the platform or by this engine, at the latest call */
    bool is_kept;               /* the bundle in force is on disk */
    struct bundle *retired;     /* replaced, and held by offloaded work */
};

/* ---- the copy on disk ----
 *
 * The text, LF, its SHA-256 in hex, LF. By the digest, damage differs from a
 * bundle of another pepper. */

enum { COPY_END_BYTES = 1 + SHA256_HEX + 1 };

static void copy_end_write(struct str text, char to[COPY_END_BYTES])
{
    to[0] = to[COPY_END_BYTES - 1] = '\n';
    sha256_write_hex(sha256_once(text), to + 1);
}

/* Removes the end and leaves the text; false: it is damaged. */
static bool copy_end_take(struct buf *b)
{
    char end[COPY_END_BYTES];
    if (b->size < COPY_END_BYTES) return false;
    struct str text = str_of(b->bytes, b->size - COPY_END_BYTES);
    copy_end_write(text, end);
    if (memcmp(b->bytes + text.size, end, COPY_END_BYTES) != 0) return false;
    b->size = text.size;
    return true;
}

static void bundle_path(const struct engine *e, char *to, size_t size, const char *suffix)
{
    snprintf(to, size, "%s/engine/bundle.json%s", e->config.data, suffix);
}

bool engine_folder_sync(const struct engine *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/engine", e->config.data);
    return folder_sync(path);
}

/* Written beside, synced, renamed: a crash leaves the old copy or the new one. A full disk costs
 * the copy, not the bundle. The older copy is removed too, because a start with it would undo
 * revocations. Writing is tried again until there is room. */
static void keep_on_disk(struct feed *feed, struct str text)
{
    const struct engine *e = feed->engine;
    char path[4096], beside[4096];
    bundle_path(e, path, sizeof path, "");
    bundle_path(e, beside, sizeof beside, ".new");
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char end[COPY_END_BYTES];
    copy_end_write(text, end);
    bool ok = fd >= 0 && file_write(fd, text) && file_write(fd, str_of(end, sizeof end)) &&
              fsync(fd) == 0;
    if (fd >= 0) close(fd);
    bool was_kept = feed->is_kept;
    feed->is_kept = ok && rename(beside, path) == 0 && engine_folder_sync(e);
    if (feed->is_kept) return;
    int why = errno;
    (void)unlink(beside);
    bool is_gone = (unlink(path) == 0 || errno == ENOENT) && engine_folder_sync(e);
    if (was_kept || !is_gone)
        log_text(LOG_WARNING, "bundle_not_kept", "%s: %s; the older copy %s", path, strerror(why),
                 is_gone ? "is removed, because a start without the platform would use it"
                         : "cannot be removed either");
}

static enum err read_from_disk(struct feed *feed)
{
    char path[4096];
    bundle_path(feed->engine, path, sizeof path, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_from_errno(errno);
    for (size_t got = 1; got > 0 && buf_room(&feed->text, 64 << 10); feed->text.size += got)
        if (!file_read(fd, feed->text.bytes + feed->text.size, 64 << 10, &got)) break;
    close(fd);
    return feed->text.overflow || !copy_end_take(&feed->text) ? ERR_CORRUPT : ERR_OK;
}

/* ---- the swap ---- */

static bool all_moved(const struct engine *e, const struct bundle *to)
{
    for (unsigned i = 0; i < e->reactor_count; i++)
        if (e->reactors[i].reactor != NULL &&
            atomic_load_explicit(&e->reactors[i].in_use, memory_order_acquire) != to)
            return false;
    return true;
}

static void swap(struct feed *feed, struct bundle *next)
{
    struct engine *e = feed->engine;
    check(next != atomic_load(&e->bundle));
    struct bundle *before = atomic_exchange(&e->bundle, next);
    for (unsigned i = 0; i < e->reactor_count; i++)
        if (e->reactors[i].reactor != NULL) reactor_wake(e->reactors[i].reactor);
    while (!all_moved(e, next)) sem_wait(&e->bundle_seen);
    struct unprovable unprovable =
        key_table_unprovable(bundle_keys(next), pepper_fingerprint(&e->pepper), world_now_ms());
    key_trouble_note(&e->keys_unprovable, &unprovable);
    atomic_store(&e->revision, bundle_facts(next)->revision);
    pthread_mutex_lock(&e->followers_lock);
    if (e->state_follower != NULL)
        state_follower_hold_limits(e->state_follower, bundle_limit_windows(next));
    if (e->fleet_snapshots != NULL)
        fleet_snapshots_hold_limits(e->fleet_snapshots, bundle_limit_windows(next));
    pthread_mutex_unlock(&e->followers_lock);
    bundle_retire(&feed->retired, before);
}

static enum err check_mac(const struct engine *e, struct str text, struct fault *f)
{
    if (set_mac_fits(text, &e->bundle_key)) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "the bundle's MAC does not fit: it was changed on its way or on the disk, the "
                     "platform has another pepper, or a platform of an earlier version made it");
}

/* Builds from the text and puts it in force. A `fresh` text is on disk before that, so that no
 * crash brings back older policies and keys after decisions were made by new ones. */
static enum err apply(struct feed *feed, struct str text, bool fresh, struct fault *f)
{
    struct engine *e = feed->engine;
    struct bundle *next, *now = atomic_load(&e->bundle);
    enum err err = check_mac(e, text, f);
    if (err == ERR_OK) err = bundle_create(text, now, world_now_ms(), &next, f);
    if (err != ERR_OK) return err;
    const struct bundle_facts *facts = bundle_facts(next);
    err = bundle_follows(facts, bundle_facts(now), f);
    if (err != ERR_OK) {
        bundle_destroy(next);
        return err;
    }
    log_text(LOG_INFO, "bundle", "revision %llu: %zu tenants, %zu policies, %zu rules, %zu keys",
             (unsigned long long)facts->revision, facts->tenants, facts->documents, facts->rules,
             facts->keys);
    if (fresh) keep_on_disk(feed, text);
    swap(feed, next);
    return ERR_OK;
}

/* ---- following ---- */

static void pause_ms(struct feed *feed, uint64_t ms)
{
    const struct timespec until = condition_deadline(ms);
    pthread_mutex_lock(&feed->mutex);
    while (!atomic_load(&feed->stopping))
        if (pthread_cond_timedwait(&feed->wake, &feed->mutex, &until) == ETIMEDOUT) break;
    pthread_mutex_unlock(&feed->mutex);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The time until a tenant must be closed; UINT32_MAX: none is to be closed. */
static uint64_t left_seconds(struct feed *feed)
{
    const struct bundle_facts *facts = bundle_facts(atomic_load(&feed->engine->bundle));
    uint64_t now_ms = world_now_ms();
    if (facts->close_at_ms == 0) return UINT32_MAX;
    return facts->close_at_ms <= now_ms ? 0 : (facts->close_at_ms - now_ms + 999) / 1000;
}

static void close_what_is_due(struct feed *feed)
{
    const struct bundle_facts *facts = bundle_facts(atomic_load(&feed->engine->bundle));
    struct fault f;
    if (facts->close_at_ms == 0 || world_now_ms() < facts->close_at_ms) return;
    if (apply(feed, buf_view(&feed->text), false, &f) != ERR_OK)
        log_text(LOG_ERROR, "bundle_refused", "%s", f.text);
}

static enum err take(struct feed *feed, const struct http_answer *answer, struct fault *f)
{
    struct str etag = http_answer_header(answer, STR("etag"));
    feed->is_news = !str_equal(answer->body, buf_view(&feed->text));
    if (feed->is_news) {
        size_t size = answer->body.size, have = feed->text.size;
        if (size > have && !buf_room(&feed->text, size - have)) {
            feed->text.overflow = feed->text.starved = false;
            return fault_plain(f, ERR_FULL);
        }
        enum err err = apply(feed, answer->body, true, f);
        feed->is_refused = err != ERR_OK;
        /* feed->text stays the bundle in force: a tenant may have to be closed by it */
        if (err != ERR_OK) return err;
        buf_clear(&feed->text);
        buf_put(&feed->text, answer->body);
        check(!feed->text.overflow); /* no answer is longer than its limit */
    }
    snprintf(feed->etag, sizeof feed->etag, "%.*s", STR_FORMAT(etag));
    return ERR_OK;
}

/* False: the answer is another error. */
static bool read_refusal(struct str body, struct fault *f)
{
    struct arena a;
    struct json *root;
    arena_init(&a, 4 << 10, 64 << 10);
    bool is_refusal = json_read(body, NULL, &a, &root, f) == ERR_OK &&
                      str_equal(json_text(root, STR("code")), str_from(err_code(ERR_SET_REFUSED)));
    if (is_refusal)
        (void)fault_set(f, ERR_SET_REFUSED, "", "the platform sends no set: %.*s",
                        STR_FORMAT(json_text(root, STR("error"))));
    arena_fini(&a);
    return is_refusal;
}

static enum err ask(struct feed *feed, struct fault *f)
{
    char target[64];
    struct buf t = buf_over(target, sizeof target);
    /* Neither a wait for news, nor a platform that hangs, nor a slow transfer may exceed the time
     * when a tenant must be closed. */
    uint64_t left = left_seconds(feed), most = least(SLOWEST_SECONDS, left + 1);
    /* After a failure it does not wait for news, because /healthz has to show soon that the
     * platform is back. */
    uint64_t seconds = atomic_load(&feed->reachable) ? least(left, WAIT_SECONDS) : 0;
    buf_put_literal(&t, "/api/v1/bundle?wait=");
    buf_put_u64(&t, seconds);
    check(!t.overflow && seconds <= WAIT_SECONDS);
    struct http_call call = {.method = "GET",
                             .target = buf_view(&t),
                             .timeout_ms = (uint32_t)(most * 1000),
                             .silence_ms = (uint32_t)(seconds + PATIENCE_SECONDS) * 1000,
                             .reply_max = BUNDLE_BYTES_MAX};
    call.headers[call.header_count++] =
        (struct http_header){STR("Authorization"), str_from(feed->authorization)};
    call.headers[call.header_count++] =
        (struct http_header){STR("Writ-Node"), str_from(feed->engine->node)};
    if (feed->etag[0] != '\0')
        call.headers[call.header_count++] =
            (struct http_header){STR("If-None-Match"), str_from(feed->etag)};
    struct http_answer answer;
    feed->is_refused = feed->is_news = false;
    feed->waits_seconds = seconds;
    enum err err = http_call(feed->client, &call, true, &answer, f);
    if (err != ERR_OK) return err;
    if (answer.status == 304) return ERR_OK;
    if (answer.status == 200) return take(feed, &answer, f);
    /* The platform's text names the row. */
    feed->is_refused = read_refusal(answer.body, f);
    if (feed->is_refused) return ERR_SET_REFUSED;
    return fault_set(f, ERR_UPSTREAM_FAILED, "",
                     "the platform answers the bundle with status %d: %.*s", answer.status,
                     (int)(answer.body.size < 200 ? answer.body.size : 200),
                     answer.body.size == 0 ? "" : answer.body.bytes);
}

/* Compiling a large tenant takes a good part of a second. If this thread shares a core with a
 * reactor, no decision may wait for it: it never interrupts a running thread, and gets a tenth of a
 * contended core. Not SCHED_IDLE: on a fully loaded machine a revoked key would arrive very
 * late. */
static void step_back(void)
{
    /* without it, the feed still follows */
    if (!thread_step_back(FEED_NICE)) log_text(LOG_WARNING, "feed_priority", "%s", strerror(errno));
}

static void note_trouble(struct feed *feed, const char *text)
{
    if (strcmp(feed->trouble, text) == 0) return; /* only this thread writes it */
    pthread_mutex_lock(&feed->mutex);
    snprintf(feed->trouble, sizeof feed->trouble, "%s", text);
    pthread_mutex_unlock(&feed->mutex);
}

/* Logs the first failure and each different one: after an outage, the platform may return with an
 * older database. */
static void ask_failed(struct feed *feed, const struct fault *f)
{
    check(f->err != ERR_OK);
    bool is_new = strcmp(feed->trouble, f->text) != 0;
    if (atomic_exchange(&feed->reachable, false) || is_new) {
        if (feed->is_refused)
            log_text(LOG_ERROR, "bundle_refused", "policies and keys stay as they are: %s",
                     f->text);
        else
            log_text(LOG_WARNING, "platform_away", "policies and keys stay as they are: %s",
                     f->text);
    }
    note_trouble(feed, f->text);
}

/* If some other party answers at once that nothing is new, asking again at once would only keep
 * this thread, and that party, busy. */
static void ask_succeeded(struct feed *feed, uint64_t took_ms)
{
    bool is_hasty = !feed->is_news && feed->waits_seconds > 0 && took_ms < HASTY_MS;
    unsigned hasty = is_hasty ? atomic_load(&feed->hasty) + 1 : 0;
    atomic_store(&feed->hasty, hasty);
    if (hasty == HASTY_ENOUGH) log_text(LOG_WARNING, "feed_cut_short", "%s", hasty_text);
    note_trouble(feed, hasty < HASTY_ENOUGH ? "" : hasty_text);
    if (!atomic_exchange(&feed->reachable, true)) log_line(LOG_INFO, "platform_reached", NULL);
    atomic_store(&feed->answered_ns, world_monotonic_ns());
    if (!feed->is_kept) keep_on_disk(feed, buf_view(&feed->text));
    if (is_hasty) pause_ms(feed, backoff_ms(&hasty_pauses, hasty));
}

static void *feed_run(void *argument)
{
    struct feed *feed = argument;
    step_back();
    uint64_t failures = 0; /* in a row */
    while (!atomic_load(&feed->stopping)) {
        struct fault f = {.text = ""};
        uint64_t begun_ns = world_monotonic_ns();
        enum err err = ask(feed, &f);
        atomic_store(&feed->is_set_refused, feed->is_refused);
        if (err == ERR_OK && takeover_is_due(feed->engine))
            err = takeover_run(feed->engine, feed->client, feed->authorization, &f);
        uint64_t took_ms = (world_monotonic_ns() - begun_ns) / 1000000;
        close_what_is_due(feed);
        bundle_retire(&feed->retired, NULL);
        if (err == ERR_OK) {
            ask_succeeded(feed, took_ms);
            failures = 0;
            continue;
        }
        if (atomic_load(&feed->stopping)) break;
        atomic_store(&feed->hasty, 0);
        ask_failed(feed, &f);
        pause_ms(feed, backoff_ms(&retries, ++failures));
        if (own_key_read(&feed->engine->config, feed->authorization, &f) != ERR_OK)
            log_text(LOG_WARNING, "credential", "%s", f.text);
    }
    return NULL;
}

/* ---- life ---- */

enum err feed_create(struct engine *e, struct fault *f)
{
    check(e->feed == NULL);
    struct feed *feed = e->feed = calloc(1, sizeof *feed);
    check(feed != NULL);
    feed->engine = e;
    buf_init(&feed->text, 64 << 10, BUNDLE_BYTES_MAX + COPY_END_BYTES);
    pthread_mutex_init(&feed->mutex, NULL);
    condition_init(&feed->wake);
    atomic_store(&feed->answered_ns, world_monotonic_ns());
    feed->is_kept = true; /* or there is none yet */
    if (e->config.platform_url[0] == '\0') return ERR_OK;
    enum err err = http_client_create(str_from(e->config.platform_url), e->tls, &feed->client, f);
    return err == ERR_OK ? own_key_read(&feed->engine->config, feed->authorization, f) : err;
}

enum err feed_load(struct engine *e, struct fault *f)
{
    check(e->feed != NULL && atomic_load(&e->bundle) == NULL);
    struct bundle *nothing;
    enum err err = bundle_create(STR("{\"keys\":[],\"policies\":[],\"revision\":0}"), NULL,
                                 world_now_ms(), &nothing, f);
    if (err != ERR_OK) return err;
    atomic_store(&e->bundle, nothing);
    err = read_from_disk(e->feed);
    if (err != ERR_OK && err != ERR_NOT_FOUND)
        log_text(
            LOG_ERROR, "bundle_refused",
            "the copy on disk cannot be read, or is damaged: no requests are served before the "
            "platform answers");
    struct fault why;
    if (err == ERR_OK) {
        err = apply(e->feed, buf_view(&e->feed->text), false, &why);
        if (err != ERR_OK) log_text(LOG_ERROR, "bundle_refused", "the copy on disk: %s", why.text);
    }
    if (err != ERR_OK) buf_clear(&e->feed->text); /* it holds the bundle in force, or nothing */
    return ERR_OK;
}

void feed_start(struct engine *e)
{
    check(e->feed != NULL && !e->feed->running && e->feed->client != NULL);
    struct feed *feed = e->feed;
    thread_start(&feed->thread, "feed", feed_run, feed);
    feed->running = true;
}

void feed_status(const struct engine *e, struct feed_status *ret)
{
    pthread_mutex_lock(&e->feed->mutex);
    memcpy(ret->trouble, e->feed->trouble, sizeof ret->trouble);
    pthread_mutex_unlock(&e->feed->mutex);
    ret->reachable = atomic_load(&e->feed->reachable);
    ret->is_refused = atomic_load(&e->feed->is_set_refused);
    ret->is_cut_short = atomic_load(&e->feed->hasty) >= HASTY_ENOUGH;
    ret->silent_ms = (world_monotonic_ns() - atomic_load(&e->feed->answered_ns)) / 1000000;
}

void feed_stop(struct engine *e)
{
    struct feed *feed = e->feed;
    if (feed == NULL || !feed->running) return;
    pthread_mutex_lock(&feed->mutex);
    atomic_store(&feed->stopping, true);
    pthread_cond_signal(&feed->wake);
    pthread_mutex_unlock(&feed->mutex);
    http_client_interrupt(feed->client);
    takeover_stop(e);
    pthread_join(feed->thread, NULL);
    feed->running = false;
}

void feed_destroy(struct engine *e)
{
    struct feed *feed = e->feed;
    if (feed == NULL) return;
    check(!feed->running);
    bundle_retire(&feed->retired, NULL);
    check(feed->retired == NULL); /* the reactors have ended, and their operations */
    http_client_destroy(feed->client);
    buf_fini(&feed->text);
    memory_wipe(feed->authorization, sizeof feed->authorization);
    pthread_cond_destroy(&feed->wake);
    pthread_mutex_destroy(&feed->mutex);
    free(feed);
    e->feed = NULL;
}
