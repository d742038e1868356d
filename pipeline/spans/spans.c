/* spans.c - the thread that empties the lanes and sends to the collector.
 *
 * It sleeps SPANS_DELAY_MS between rounds, or until a lane becomes half full. A reactor never wakes
 * it for a single span. A request's bytes stay until the collector has taken or refused it
 * (OTLP/HTTP: 429, 502, 503 and 504 must be tried again, any other status is final). */
#include "pipeline/spans/spans.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "http/client.h"
#include "json/json.h"
#include "pipeline/spans/otlp.h"

enum {
    CALL_MS = 10000, /* the collector's time limit for one request */
    REPLY_BYTES_MAX = 64 << 10,
    BODY_BYTES_FIRST = 64 << 10,
    /* Far above SPANS_BATCH spans with every text at its longest and escaped. */
    BODY_BYTES_MAX = 4 << 20,
    RETRY_AFTER_MOST_S = 60,
};

static const struct backoff retries = {.first_ms = 100, .most_ms = 10000};

struct spans {
    /* Set before the thread starts. */
    struct span_lane *lanes;
    unsigned lane_count;
    uint64_t threshold; /* a trace is sampled if the last 63 bits of its id are below it */
    struct http_client *client;
    struct metrics_sheet *sheet;
    char *node, *version;
    pthread_t thread;

    /* The thread's own. */
    struct buf body; /* the current request, and its number of spans */
    size_t body_spans;
    unsigned next_lane;
    uint64_t failures;  /* in a row */
    struct arena arena; /* of an answer */

    /* Between threads. */
    _Atomic uint32_t rings; /* the sleeping thread sleeps on it */
    _Atomic uint32_t stopping, ended;
    _Atomic uint64_t give_up_ns; /* after stopping: no request is tried after this time */
};

/* ---- which ---- */

/* The comparison of OpenTelemetry's samplers: the low 63 bits of the trace id's lower half. */
static bool is_chosen(const struct spans *s, const uint8_t trace[TRACE_ID_BYTES])
{
    uint64_t low = 0;
    for (size_t i = 8; i < TRACE_ID_BYTES; i++) low = low << 8 | trace[i];
    return low >> 1 < s->threshold;
}

bool spans_wanted(const struct spans *s, struct str traceparent, struct str trace_id,
                  struct span_place *ret)
{
    struct trace_context c;
    uint8_t trace[TRACE_ID_BYTES];
    if (trace_context_read(traceparent, &c)) {
        if (!c.sampled) return false;
        *ret = (struct span_place){.has_parent = true};
        memcpy(ret->trace, c.trace, sizeof ret->trace);
        memcpy(ret->parent, c.parent, sizeof ret->parent);
        return true;
    }
    if (!trace_id_read(trace_id, trace) || !is_chosen(s, trace)) return false;
    *ret = (struct span_place){.has_parent = false};
    memcpy(ret->trace, trace, sizeof ret->trace);
    return true;
}

/* ---- sleeping and waking ---- */

void spans_wake(struct spans *s)
{
    atomic_fetch_add(&s->rings, 1);
    syscall(SYS_futex, &s->rings, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps until a ring that is not among `seen`, or for `ms`. */
static void sleep_for(struct spans *s, uint32_t seen, uint64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    if (ms > 0) syscall(SYS_futex, &s->rings, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
}

/* A pause that only a stop ends early, not a reactor's ring. */
static void pause_for(struct spans *s, uint64_t ms)
{
    uint64_t until_ns = world_monotonic_ns() + ms * 1000000, now_ns;
    for (;;) {
        uint32_t seen = atomic_load(&s->rings);
        if (atomic_load(&s->stopping) || (now_ns = world_monotonic_ns()) >= until_ns) return;
        sleep_for(s, seen, (until_ns - now_ns) / 1000000 + 1);
    }
}

static bool must_end(struct spans *s)
{
    return atomic_load(&s->stopping) && world_monotonic_ns() >= atomic_load(&s->give_up_ns);
}

/* ---- filling ---- */

/* The next span of any lane; the lanes take turns. */
static struct span_lane *next_lane(struct spans *s)
{
    for (unsigned i = 0; i < s->lane_count; i++) {
        struct span_lane *l = &s->lanes[s->next_lane++ % s->lane_count];
        if (lane_peek(l) != NULL) return l;
    }
    return NULL;
}

static bool fill(struct spans *s)
{
    const struct otlp_resource resource = {.node = str_from(s->node),
                                           .version = str_from(s->version)};
    uint64_t unix_offset_ns = world_wall_ns() - world_monotonic_ns();
    struct span_lane *l;
    buf_clear(&s->body);
    s->body_spans = 0;
    otlp_put_begin(&s->body, &resource);
    while (s->body_spans < SPANS_BATCH && (l = next_lane(s)) != NULL) {
        otlp_put_span(&s->body, lane_peek(l), unix_offset_ns, s->body_spans == 0);
        lane_drop(l);
        s->body_spans++;
    }
    otlp_put_end(&s->body);
    check(!s->body.overflow);
    return s->body_spans > 0;
}

/* ---- sending ---- */

enum outcome { TAKEN, REFUSED, TRY_AGAIN };

/* {"partialSuccess":{"rejectedSpans":"3"}}: accepted, except for so many. */
static uint64_t rejected_of(struct spans *s, const struct http_answer *answer)
{
    static const struct json_options options = {.nul_anywhere = true};
    struct json *root;
    struct fault ignored;
    uint64_t count = 0;
    arena_reset(&s->arena);
    if (str_is_empty(answer->body) ||
        json_read(answer->body, &options, &s->arena, &root, &ignored) != ERR_OK)
        return 0;
    const struct json *partial = json_get(root, STR("partialSuccess"));
    if (partial == NULL || !str_to_u64(json_text(partial, STR("rejectedSpans")), &count))
        count = partial == NULL ? 0 : json_u64(partial, STR("rejectedSpans"), 0);
    return count < s->body_spans ? count : s->body_spans;
}

static void taken(struct spans *s, const struct http_answer *answer)
{
    uint64_t rejected = rejected_of(s, answer);
    metric_add(s->sheet, METRIC_SPANS_SENT, s->body_spans - rejected);
    if (rejected > 0) metric_add(s->sheet, METRIC_SPANS_DROPPED_REFUSED, rejected);
    if (s->failures > 0)
        log_line(LOG_INFO, "spans_sent_again", "text", "the collector accepts spans again", NULL);
    s->failures = 0;
}

static void refused(struct spans *s, int status)
{
    metric_add(s->sheet, METRIC_SPANS_FAILURES, 1);
    metric_add(s->sheet, METRIC_SPANS_DROPPED_REFUSED, s->body_spans);
    if (s->failures++ == 0)
        log_text(LOG_WARNING, "spans_refused",
                 "the collector answers POST /v1/traces with status %d: these spans are lost",
                 status);
}

/* Logged once, until it works again. */
static void failed(struct spans *s, const char *why)
{
    metric_add(s->sheet, METRIC_SPANS_FAILURES, 1);
    if (s->failures++ == 0)
        log_text(
            LOG_WARNING, "spans_failed",
            "the collector cannot be reached; decisions go on, spans are lost when the rings are full: %s",
            why);
}

static enum outcome send_once(struct spans *s, uint64_t *ret_wait_ms)
{
    struct http_call call = {.method = "POST",
                             .target = STR("/v1/traces"),
                             .content_type = STR("application/json"),
                             .body = buf_view(&s->body),
                             .timeout_ms = CALL_MS,
                             .reply_max = REPLY_BYTES_MAX};
    struct http_answer answer;
    struct fault f = {.text = ""};
    enum err err = http_call(s->client, &call, true, &answer, &f);
    if (err == ERR_OK && answer.status >= 200 && answer.status < 300) {
        taken(s, &answer);
        return TAKEN;
    }
    bool again =
        err != ERR_OK || answer.status == 429 || (answer.status >= 502 && answer.status <= 504);
    if (!again) {
        refused(s, answer.status);
        return REFUSED;
    }
    uint64_t seconds = 0;
    if (err == ERR_OK) {
        snprintf(f.text, sizeof f.text, "it answers with status %d", answer.status);
        if (!str_to_u64(http_answer_header(&answer, STR("retry-after")), &seconds)) seconds = 0;
        if (seconds > RETRY_AFTER_MOST_S) seconds = RETRY_AFTER_MOST_S;
    }
    failed(s, f.text);
    *ret_wait_ms = backoff_ms(&retries, s->failures);
    if (*ret_wait_ms < seconds * 1000) *ret_wait_ms = seconds * 1000;
    return TRY_AGAIN;
}

/* Sends one request until it is settled; when stopping, once. */
static void send_until_settled(struct spans *s)
{
    uint64_t wait_ms = 0;
    while (send_once(s, &wait_ms) == TRY_AGAIN) {
        if (atomic_load(&s->stopping)) {
            atomic_store(&s->give_up_ns, 0);
            return;
        }
        pause_for(s, wait_ms);
    }
}

static void *run(void *context)
{
    struct spans *s = context;
    for (;;) {
        uint32_t seen = atomic_load(&s->rings);
        while (!must_end(s) && fill(s)) send_until_settled(s);
        if (atomic_load(&s->stopping)) break;
        sleep_for(s, seen, SPANS_DELAY_MS);
    }
    atomic_store(&s->ended, 1);
    syscall(SYS_futex, &s->ended, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

/* ---- life ---- */

static void destroy(struct spans *s)
{
    for (unsigned i = 0; i < s->lane_count; i++) lane_fini(&s->lanes[i]);
    free(s->lanes);
    http_client_destroy(s->client);
    buf_fini(&s->body);
    arena_fini(&s->arena);
    free(s->node);
    free(s->version);
    free(s);
}

static uint64_t threshold_of(double sample)
{
    const double whole = 9223372036854775808.0; /* 2^63 */
    return sample <= 0 ? 0 : sample >= 1 ? UINT64_C(1) << 63 : (uint64_t)(sample * whole);
}

enum err spans_start(const struct spans_options *options, struct spans **ret, struct fault *f)
{
    struct spans *s = calloc(1, sizeof *s);
    check(s != NULL && options->lanes > 0); /* only at boot */
    s->lanes = aligned_alloc(64, options->lanes * sizeof *s->lanes);
    s->node = strdup(options->node);
    s->version = strdup(options->version);
    check(s->lanes != NULL && s->node != NULL && s->version != NULL);
    s->lane_count = options->lanes;
    for (unsigned i = 0; i < options->lanes; i++) lane_init(&s->lanes[i]);
    s->threshold = threshold_of(options->sample);
    s->sheet = metrics_sheet_create();
    buf_init(&s->body, BODY_BYTES_FIRST, BODY_BYTES_MAX);
    arena_init(&s->arena, 4 << 10, 4 << 20);
    enum err err = http_client_create(str_from(options->url), options->tls, &s->client, f);
    if (err == ERR_OK && pthread_create(&s->thread, NULL, run, s) != 0)
        err = fault_set(f, ERR_FULL, "", "the thread that sends spans cannot be started");
    if (err != ERR_OK) {
        destroy(s);
        return err;
    }
    *ret = s;
    return ERR_OK;
}

void spans_stop(struct spans *s, uint32_t drain_ms)
{
    if (s == NULL) return;
    uint64_t until_ns = world_monotonic_ns() + (uint64_t)drain_ms * 1000000, now_ns;
    atomic_store(&s->give_up_ns, until_ns);
    atomic_store(&s->stopping, 1);
    spans_wake(s);
    while (!atomic_load(&s->ended) && (now_ns = world_monotonic_ns()) < until_ns) {
        struct timespec t = {.tv_sec = (time_t)((until_ns - now_ns) / 1000000000),
                             .tv_nsec = (long)((until_ns - now_ns) % 1000000000)};
        syscall(SYS_futex, &s->ended, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
    }
    if (!atomic_load(&s->ended)) http_client_interrupt(s->client);
    pthread_join(s->thread, NULL);
    destroy(s);
}

struct span_lane *spans_lane(struct spans *s, unsigned index, struct metrics_sheet *sheet)
{
    check(index < s->lane_count);
    s->lanes[index].sheet = sheet;
    return &s->lanes[index];
}
