#include "pipeline/anchor/anchors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "metrics/metrics.h"
#include "outbound/outbound.h"
#include "pipeline/anchor/anchor_proof.h"
#include "pipeline/anchor/anchor_store.h"
#include "pipeline/anchor/witness.h"

enum {
    LOOK_MS = 250,
    STATUS_MS = 2000,
    FAILURES_REPORTED = 3, /* in a row: then the check fails */
    ARENA_BYTES = 4 << 20,
    HEAD_TEXT = 128,
    HTTP_THERE_ALREADY = 412, /* the object of this very checkpoint */
    WITNESS_TRIES = 2,        /* of one checkpoint in a round: the witness names its size once */
    ORIGIN_SHOWN = 100,
};

static const struct backoff anchor_backoff = {1000, 60000};

struct place {
    const struct anchor *anchor;
    struct arena arena; /* of the list */
    struct anchor_due list[ANCHOR_DUE_MAX];
    size_t count, sent; /* of the list; sent of these */
    bool is_sending;
    bool has_written;           /* the last line of its file is whole, and this process's */
    uint64_t next_ms, failures; /* monotonic; in a row */
    char error[ANCHORS_ERROR_TEXT];
    struct { /* of a witness */
        struct note_key key;
        struct anchor_proof proof;
        bool is_begun, is_proving; /* the list's next one */
        uint64_t old_size, tries;
        uint64_t refused; /* in this round, over several lists */
        char why[ANCHORS_ERROR_TEXT];
    } witness;
};

struct anchors {
    struct anchors_options options;
    struct store *store;
    struct metrics_sheet *sheet;
    struct outbound *sender;
    struct hasher *hasher;
    uint64_t status_ms; /* when next; monotonic */
    char trouble[320];  /* of the store; "": none */
    atomic_bool stopping;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the status */
    struct anchors_status status;
    size_t place_count;
    struct place places[];
};

static uint64_t monotonic_ms(void) { return world_monotonic_ns() / 1000000; }

static void in_trouble(struct anchors *a, const struct fault *f)
{
    if (strcmp(a->trouble, f->text) != 0)
        log_line(LOG_WARNING, "anchor_store", "why", f->text, NULL);
    snprintf(a->trouble, sizeof a->trouble, "%s", f->text);
}

static void failed(struct anchors *a, struct place *p, const char *why)
{
    if (p->failures++ == 0)
        log_line(LOG_WARNING, "anchor_failed", "anchor", p->anchor->name, "why", why, NULL);
    metric_add(a->sheet, METRIC_ANCHOR_FAILED, 1);
    snprintf(p->error, sizeof p->error, "%s", why);
    p->next_ms = monotonic_ms() + backoff_ms(&anchor_backoff, p->failures);
}

/* ---- files ---- */

/* `is_first`: the last attempt, perhaps another process's, may have left a part of a line. */
static bool append(const char *path, struct str text, bool is_first)
{
    struct stat now;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd < 0) return false;
    bool good = fstat(fd, &now) == 0;
    if (good && is_first && now.st_size > 0) good = write(fd, "\n", 1) == 1;
    while (text.size > 0 && good) {
        ssize_t n = write(fd, text.bytes, text.size);
        if (n < 0 && errno == EINTR) continue;
        good = n > 0;
        if (good) text = str_skip(text, (size_t)n);
    }
    good = good && fsync(fd) == 0;
    int why = errno;
    (void)close(fd);
    errno = why;
    return good;
}

static void send_to_file(struct anchors *a, struct place *p)
{
    struct buf lines;
    buf_init(&lines, 16 << 10, 1 << 20);
    for (size_t i = 0; i < p->count; i++) anchor_put_line(&lines, p->list[i].note, world_now_ms());
    if (lines.overflow) {
        failed(a, p, "there was no memory for the lines");
    } else if (!append(p->anchor->file, buf_view(&lines), !p->has_written)) {
        char why[ANCHORS_ERROR_TEXT];
        snprintf(why, sizeof why, "%s: %s", p->anchor->file, strerror(errno));
        failed(a, p, why);
        p->has_written = false;
    } else {
        p->has_written = true;
        p->sent = p->count;
    }
    buf_fini(&lines);
}

/* ---- buckets ---- */

static void put_hash_head(char to[HEAD_TEXT], struct str body)
{
    struct sha256 hash = sha256_once(body);
    char hex[2 * SHA256_BYTES];
    hex_write(hex, hash.bytes, sizeof hash.bytes);
    snprintf(to, HEAD_TEXT, "x-amz-content-sha256: %.*s", 2 * SHA256_BYTES, hex);
}

static void put_until_head(char to[HEAD_TEXT], uint64_t until_ms)
{
    char until[TIME_TEXT];
    time_write(until_ms, until);
    snprintf(to, HEAD_TEXT, "x-amz-object-lock-retain-until-date: %.*s", TIME_TEXT, until);
}

/* The name of the checkpoint's first line. */
static struct str origin_of(struct str note)
{
    note.size = str_find(note, '\n');
    return note;
}

static void send_to_bucket(struct anchors *a, struct place *p)
{
    const struct anchor *to = p->anchor;
    const struct anchor_due *d = &p->list[p->sent];
    char secret[ANCHOR_SECRET_MAX + 2], signature[64], hash[HEAD_TEXT], until[HEAD_TEXT];
    struct fault f = {0};
    if (anchor_read_secret(to, secret, &f) != ERR_OK) {
        failed(a, p, f.text);
        return;
    }
    struct buf url;
    buf_init(&url, 1 << 10, 8 << 10);
    anchor_put_url(&url, to, origin_of(d->note), d->end_seq);
    buf_put_byte(&url, '\0');
    snprintf(signature, sizeof signature, "aws:amz:%s:s3", to->region);
    put_hash_head(hash, d->note);
    struct outbound_request r = {.method = OUTBOUND_PUT,
                                 .url = url.bytes,
                                 .body = d->note,
                                 .headers = {"content-type: text/plain", "if-none-match: *", hash},
                                 .header_count = 3,
                                 .user = to->access_key,
                                 .password = secret,
                                 .signature = signature,
                                 .allow_private = to->allow_private,
                                 .allow_plaintext = to->allow_plaintext};
    if (to->retain_ms != 0) {
        put_until_head(until, world_wall_ns() / 1000000 + to->retain_ms);
        r.headers[r.header_count++] = "x-amz-object-lock-mode: COMPLIANCE";
        r.headers[r.header_count++] = until;
    }
    p->is_sending = !url.overflow && outbound_begin(a->sender, (size_t)(p - a->places), &r);
    if (!p->is_sending) failed(a, p, "there was no memory for the request");
    buf_fini(&url);
    memory_wipe(secret, sizeof secret);
}

/* ---- witnesses ---- */

static void next_tree(struct place *p)
{
    p->sent++;
    p->witness.is_begun = p->witness.is_proving = false;
    p->witness.tries = 0;
}

/* Only this tree; the first reason of a round is shown. */
static void refused(struct place *p, const char *why)
{
    struct anchor_due *d = &p->list[p->sent];
    struct str origin = origin_of(d->note);
    if (origin.size > ORIGIN_SHOWN) origin.size = ORIGIN_SHOWN;
    if (p->witness.refused++ == 0)
        snprintf(p->witness.why, sizeof p->witness.why, "%.*s: %s", STR_FORMAT(origin), why);
    d->is_refused = true;
    next_tree(p);
}

static bool is_signed_already(const struct place *p, const struct anchor_due *d)
{
    struct note n;
    return note_read(d->note, &n, NULL) == ERR_OK &&
           note_verify(&n, &p->witness.key) == NOTE_SIGNED;
}

/* False: it needs no request. */
static bool begin_tree(struct place *p, struct anchor_due *d)
{
    if (p->witness.is_begun) return true;
    if (d->base == 0 || d->end_seq < d->base || d->end_seq > INT64_MAX) {
        refused(p, "the row of its checkpoint is not what its engine has signed");
        return false;
    }
    if (is_signed_already(p, d)) {
        next_tree(p);
        return false;
    }
    p->witness.is_begun = true;
    p->witness.old_size = d->had_seq < d->base ? 0 : d->had_seq + 1 - d->base;
    return true;
}

/* A step of the proof. *ret_is_whole: it was the last one. */
static enum err prove(struct anchors *a, struct place *p, const struct anchor_due *d,
                      bool *ret_is_whole, struct fault *f)
{
    struct anchor_proof *proof = &p->witness.proof;
    enum err err = ERR_OK;
    *ret_is_whole = p->witness.old_size == 0 || p->witness.old_size == d->end_seq + 1 - d->base;
    if (*ret_is_whole) {
        proof->maker.proof.count = 0;
        return ERR_OK;
    }
    if (!p->witness.is_proving)
        err = anchor_proof_begin(a->store, a->hasher, d, p->witness.old_size, proof, f);
    if (err == ERR_OK) err = anchor_proof_step(a->store, a->hasher, d, proof, f);
    p->witness.is_proving = err == ERR_OK;
    *ret_is_whole = err == ERR_OK && proof_is_complete(&proof->maker);
    return err;
}

static void ask(struct anchors *a, struct place *p, const struct anchor_due *d)
{
    struct buf url, body;
    buf_init(&url, 1 << 10, 8 << 10);
    buf_init(&body, 4 << 10, 128 << 10);
    buf_printf(&url, "%s/add-checkpoint", p->anchor->witness);
    buf_put_byte(&url, '\0');
    witness_put_request(&body, p->witness.old_size, &p->witness.proof.maker.proof, d->note);
    struct outbound_request r = {.method = OUTBOUND_POST,
                                 .url = url.bytes,
                                 .body = buf_view(&body),
                                 .headers = {"content-type: text/plain"},
                                 .header_count = 1,
                                 .answer_max = WITNESS_ANSWER_MAX,
                                 .allow_private = p->anchor->allow_private,
                                 .allow_plaintext = p->anchor->allow_plaintext};
    p->is_sending =
        !url.overflow && !body.overflow && outbound_begin(a->sender, (size_t)(p - a->places), &r);
    if (!p->is_sending) failed(a, p, "there was no memory for the request");
    buf_fini(&body);
    buf_fini(&url);
}

/* False: the store has failed. */
static bool send_to_witness(struct anchors *a, struct place *p, struct fault *f)
{
    struct anchor_due *d = &p->list[p->sent];
    bool is_whole;
    if (!begin_tree(p, d)) return true;
    enum err err = prove(a, p, d, &is_whole, f);
    if (err == ERR_NOT_FOUND)
        refused(p, "the store does not have all records that the proof for the witness needs");
    else if (is_whole)
        ask(a, p, d);
    return err == ERR_OK || err == ERR_NOT_FOUND;
}

static void take_answer(struct anchors *a, struct place *p, const struct outbound_result *result)
{
    struct anchor_due *d = &p->list[p->sent];
    const struct witness_asked asked = {.key = &p->witness.key,
                                        .note = d->note,
                                        .old_size = p->witness.old_size,
                                        .size = d->end_seq + 1 - d->base};
    struct witness_answer answer;
    witness_read_answer(&asked, result->status, result->answer, result->error, &answer);
    switch (answer.verdict) {
    case WITNESS_SIGNED:
        d->signature = arena_copy(&p->arena, answer.line);
        if (p->arena.overflow)
            failed(a, p, "there was no memory for the signature");
        else
            next_tree(p);
        break;
    case WITNESS_HAS_ANOTHER:
        p->witness.old_size = answer.size;
        p->witness.is_proving = false;
        if (++p->witness.tries == WITNESS_TRIES)
            refused(p, "HTTP 409: it has another size than it answered a moment ago");
        break;
    case WITNESS_REFUSED: refused(p, answer.why); break;
    case WITNESS_FAILED: failed(a, p, answer.why); break;
    }
}

static void take_result(struct anchors *a, struct place *p)
{
    struct outbound_result result;
    if (!p->is_sending || !outbound_take(a->sender, (size_t)(p - a->places), &result)) return;
    p->is_sending = false;
    if (anchor_kind(p->anchor) == ANCHOR_WITNESS)
        take_answer(a, p, &result);
    else if (result.is_delivered || result.status == HTTP_THERE_ALREADY)
        p->sent++;
    else
        failed(a, p, result.error);
}

/* ---- one turn ---- */

/* All that was due has been sent, or was refused. */
static void end_round(struct anchors *a, struct place *p)
{
    if (p->witness.refused > 0) {
        failed(a, p, p->witness.why);
    } else {
        if (p->failures > 0) log_line(LOG_INFO, "anchor_works", "anchor", p->anchor->name, NULL);
        p->failures = 0;
        p->error[0] = '\0';
    }
    p->witness.refused = 0;
    p->next_ms = monotonic_ms() + p->anchor->every_ms;
}

/* Those that were refused in this round are still due, and come first. */
static bool look(struct anchors *a, struct place *p, struct fault *f)
{
    arena_reset(&p->arena);
    p->sent = p->count = 0;
    p->witness.is_begun = p->witness.is_proving = false;
    p->witness.tries = 0;
    enum err err = anchor_store_due(a->store, str_from(p->anchor->name), world_now_ms(),
                                    p->witness.refused, &p->arena, p->list, &p->count, f);
    if (err == ERR_OK && p->count == 0) end_round(a, p);
    return err == ERR_OK;
}

/* What was sent is noted; the rest is looked up again. */
static bool note(struct anchors *a, struct place *p, struct fault *f)
{
    size_t sent = p->sent, given = 0;
    bool is_all = sent == p->count;
    for (size_t i = 0; i < sent; i++) given += !p->list[i].is_refused;
    if (given > 0 && anchor_store_done(a->store, str_from(p->anchor->name), p->list, sent,
                                       world_now_ms(), f) != ERR_OK)
        return false;
    metric_add(a->sheet, METRIC_ANCHOR_SENT, given);
    if (!is_all)
        p->witness.refused = 0; /* the place has failed; the next attempt is another round */
    else if (p->count == ANCHOR_DUE_MAX)
        p->next_ms = 0;
    else
        end_round(a, p);
    p->sent = p->count = 0;
    return true;
}

static void step(struct anchors *a, struct place *p)
{
    struct fault f = {0};
    bool good = true;
    uint64_t failures = p->failures;
    take_result(a, p);
    if (p->is_sending || monotonic_ms() < p->next_ms) return;
    if (p->count == 0) good = look(a, p, &f);
    if (good && p->sent < p->count) {
        switch (anchor_kind(p->anchor)) {
        case ANCHOR_FILE: send_to_file(a, p); break;
        case ANCHOR_S3: send_to_bucket(a, p); break;
        case ANCHOR_WITNESS: good = send_to_witness(a, p, &f); break;
        }
    }
    bool is_over =
        p->count > 0 && !p->is_sending && (p->sent == p->count || p->failures != failures);
    if (good && is_over) good = note(a, p, &f);
    if (good) return;
    in_trouble(a, &f);
    p->next_ms = monotonic_ms() + backoff_ms(&anchor_backoff, 1);
}

/* ---- the status ---- */

static const char *const kind_names[] = {
    [ANCHOR_FILE] = "file", [ANCHOR_S3] = "s3", [ANCHOR_WITNESS] = "witness"};

static void put_failing(struct buf *out, const struct anchors_one *one)
{
    char since[TIME_TEXT];
    time_write(one->since_ms, since);
    buf_printf(out, "%s%s: ", out->size > 0 ? "; " : "", one->name);
    if (one->since_ms == 0)
        buf_put_literal(out, "it has no checkpoint of some streams yet; ");
    else
        buf_printf(out, "it has nothing newer than %.*s; ", TIME_TEXT, since);
    buf_put(out, str_from(one->error));
}

static void make_status(struct anchors *a, struct anchors_status *s)
{
    struct buf text = buf_over(s->text, sizeof s->text - 1);
    uint64_t waiting = 0;
    bool is_read = true;
    for (size_t i = 0; i < a->place_count && is_read; i++) {
        const struct place *p = &a->places[i];
        struct anchor_counts counts = {0};
        struct fault f = {0};
        struct anchors_one *one = &s->list[s->count++];
        struct buf anchored = buf_over(one->anchored, sizeof one->anchored - 1);
        is_read = anchor_store_status(a->store, str_from(p->anchor->name), world_now_ms(),
                                      &anchored, &counts, &f) == ERR_OK;
        if (!is_read) in_trouble(a, &f);
        one->anchored[anchored.size] = '\0';
        one->name = p->anchor->name;
        one->kind = kind_names[anchor_kind(p->anchor)];
        one->trees = counts.trees;
        one->waiting = counts.waiting;
        one->since_ms = counts.since_ms;
        snprintf(one->error, sizeof one->error, "%s", p->error);
        waiting += counts.waiting;
        if (p->failures >= FAILURES_REPORTED) put_failing(&text, one);
    }
    if (is_read) a->trouble[0] = '\0';
    metric_set(a->sheet, METRIC_ANCHOR_WAITING, waiting);
    if (a->trouble[0] != '\0') buf_printf(&text, "%s%s", text.size > 0 ? "; " : "", a->trouble);
    s->text[text.size] = '\0';
    s->is_well = text.size == 0;
}

static void look_at_status(struct anchors *a)
{
    struct anchors_status s = {0};
    if (monotonic_ms() < a->status_ms) return;
    a->status_ms = monotonic_ms() + STATUS_MS;
    make_status(a, &s);
    pthread_mutex_lock(&a->lock);
    a->status = s;
    pthread_mutex_unlock(&a->lock);
}

void anchors_status(struct anchors *a, struct anchors_status *ret)
{
    pthread_mutex_lock(&a->lock);
    *ret = a->status;
    pthread_mutex_unlock(&a->lock);
}

/* ---- life ---- */

static void *run(void *context)
{
    struct anchors *a = context;
    while (!atomic_load(&a->stopping)) {
        bool has_more = false;
        for (size_t i = 0; i < a->place_count; i++) {
            const struct place *p = &a->places[i];
            step(a, &a->places[i]);
            has_more = has_more || (p->count > 0 && !p->is_sending && monotonic_ms() >= p->next_ms);
        }
        look_at_status(a);
        outbound_work(a->sender, has_more ? 0 : LOOK_MS);
    }
    return NULL;
}

static void destroy(struct anchors *a)
{
    outbound_destroy(a->sender);
    hasher_destroy(a->hasher);
    for (size_t i = 0; i < a->place_count; i++) arena_fini(&a->places[i].arena);
    store_close(a->store);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

enum err anchors_start(const struct anchors_options *o, struct history *history,
                       struct anchors **ret, struct fault *f)
{
    struct anchors *a = calloc(1, sizeof *a + o->count * sizeof *a->places);
    check(a != NULL && o->count <= ANCHORS_OF_ALL_MAX); /* only at boot */
    *ret = NULL;
    a->options = *o;
    a->place_count = o->count;
    pthread_mutex_init(&a->lock, NULL);
    a->status.is_well = true;
    a->sheet = metrics_sheet_create();
    for (size_t i = 0; i < a->place_count; i++) {
        a->places[i].anchor = &o->list[i];
        if (anchor_kind(&o->list[i]) == ANCHOR_WITNESS)
            a->places[i].witness.key = anchor_witness_key(&o->list[i]);
        arena_init(&a->places[i].arena, 16 << 10, ARENA_BYTES);
    }
    a->hasher = hasher_create();
    a->sender = outbound_create(a->place_count, o->ca_file);
    check(a->sender != NULL);
    enum err err = store_open(o->store, true, &a->store, f);
    if (err != ERR_OK) {
        destroy(a);
        return err;
    }
    store_share_history(a->store, history);
    thread_start(&a->thread, "anchors", run, a);
    *ret = a;
    return ERR_OK;
}

void anchors_stop(struct anchors *a)
{
    if (a == NULL) return;
    atomic_store(&a->stopping, true);
    outbound_wake(a->sender);
    pthread_join(a->thread, NULL);
    destroy(a);
}
