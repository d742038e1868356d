/* follow.c - GET /api/v1/bundle, and the engines that wait there for a change.
 *
 *   engine sends its revision (If-None-Match) ─┬─ a newer one exists: the bundle, at once
 *                                              └─ none: the request waits on bundle_waits until
 *                                                 a change (the bundle) or its time (304)
 *
 * An engine that asks with revision r confirms that all its reactors run r. So a revocation can
 * find the engines that are behind (followers.h). An engine that asks without a revision counts as
 * behind from then on, because the bundle that it receives may have been read before the
 * revocation.
 *
 * An entity tag has the revision and the digest of the bundle's bytes. It is the same at every
 * platform of a store and after restarts. It differs if a restored database reaches the same
 * revision number with other content. The platform trusts only tags that it has compared with the
 * bundle (bundle_tags), and only for the key that showed them, since another key may be for other
 * tenants. Any other tag is compared first. If it is equal, no bundle is sent. */
#include "store/bundle.h"

#include <stdio.h>

#include "base/check.h"
#include "base/limits.h"
#include "platform/platform.h"

enum {
    WAIT_SECONDS_MAX = LIMIT_WAIT_SECONDS,
    BUNDLE_WAITS_MAX = LIMIT_BUNDLE_WAITS,
};

struct bundle_detail {
    struct id key_id;
    struct globs tenants;
    char node[NODE_BYTES_MAX];
    size_t node_size;
    char known[BUNDLE_ETAG_TEXT]; /* the entity tag of the engine's bundle */
    bool is_believed;             /* the tag was compared before this request */
    struct revision revision;     /* of the bundle that the tag was compared with; number 0: none */
};

/* ---- entity tags ---- */

static void etag_write(uint64_t revision, struct str bundle, char to[BUNDLE_ETAG_TEXT])
{
    char digest[SHA256_HEX];
    sha256_write_hex(sha256_once(bundle), digest);
    snprintf(to, BUNDLE_ETAG_TEXT, "\"%llu-%.32s\"", (unsigned long long)revision, digest);
}

/* The revision of this tag; number 0: the tag was not compared yet. */
static struct revision tag_revision(const struct bundle_tags *t, struct id key, const char *tag)
{
    for (size_t i = 1; i <= BUNDLE_TAGS_MAX; i++) {
        /* the newest first */
        const struct bundle_tag *known = &t->all[(t->next + BUNDLE_TAGS_MAX - i) % BUNDLE_TAGS_MAX];
        if (known->revision.number == 0) break;
        if (id_equal(known->key, key) && strcmp(known->text, tag) == 0) return known->revision;
    }
    return (struct revision){0};
}

static void tag_learn(struct bundle_tags *t, struct id key, const char *tag,
                      const struct revision *revision)
{
    if (tag_revision(t, key, tag).number != 0) return;
    struct bundle_tag *known = &t->all[t->next];
    t->next = (t->next + 1) % BUNDLE_TAGS_MAX;
    *known = (struct bundle_tag){.key = key, .revision = *revision};
    memcpy(known->text, tag, strlen(tag));
}

/* ---- the bundle ---- */

static void bundle_work(struct job *j, struct store *s)
{
    struct bundle_detail *d = j->detail;
    j->err = bundle_put(s, &d->tenants, &j->reply, &d->revision, &j->fault);
    if (j->err != ERR_OK) {
        buf_clear(&j->reply);
        return;
    }
    j->is_set_checked = true;
    etag_write(d->revision.number, buf_view(&j->reply), j->etag);
    if (strcmp(j->etag, d->known) != 0) return;
    j->status = 304;
    buf_clear(&j->reply);
}

static void bundle_done(struct job *j)
{
    struct platform *p = j->platform;
    const struct bundle_detail *d = j->detail;
    if (j->err == ERR_OK) tag_learn(&p->bundle_tags, d->key_id, j->etag, &d->revision);
    bool is_proved = j->err == ERR_OK && j->status == 304 && !d->is_believed;
    if (is_proved && d->node_size > 0)
        followers_saw(p, str_of(d->node, d->node_size), d->key_id, &d->revision);
    job_answer(j);
}

static void wait_leave(struct job *j)
{
    struct platform *p = j->platform;
    const struct bundle_detail *d = j->detail;
    link_remove(&j->link);
    loop_timer_stop(p->loop, &j->timer);
    p->bundle_wait_count--;
    if (d->node_size > 0) followers_waited(p, str_of(d->node, d->node_size), d->key_id);
}

/* Only for a reset: a client that closed only its own side may still want the answer (RFC 9112,
 * 9.6). */
static void client_gone(void *context)
{
    struct job *j = context;
    wait_leave(j);
    job_destroy(j);
}

/* Answers the request now, or sends it to a reader. */
static void wait_end(struct job *j)
{
    http_when_gone(j->platform->server, j->token, NULL, NULL);
    wait_leave(j);
}

static void wait_due(struct loop_timer *t)
{
    struct job *j = link_owner(t, struct job, timer);
    const struct bundle_detail *d = j->detail;
    wait_end(j);
    j->status = 304;
    memcpy(j->etag, d->known, sizeof d->known);
    job_answer(j);
}

void follow_changed(struct platform *p)
{
    list_each (&p->bundle_waits, k, following) {
        struct job *j = link_owner(k, struct job, link);
        enum err err = platform_key_holds(p, ((const struct bundle_detail *)j->detail)->key_id);
        wait_end(j);
        if (!http_token_alive(p->server, j->token)) job_destroy(j);
        /* its rights were checked long ago */
        else if (err != ERR_OK)
            job_refuse(j, err, err_sentence(err));
        else if (!job_queue(j, QUEUE_READER))
            job_refuse(j, ERR_OVERLOADED, "too many requests wait for the store: try again later");
    }
}

void follow_drain(struct platform *p)
{
    list_each (&p->bundle_waits, k, following) {
        struct job *j = link_owner(k, struct job, link);
        wait_end(j);
        job_refuse(j, ERR_DRAINING, err_sentence(ERR_DRAINING));
    }
}

/* Each wait keeps a connection; together they have three quarters of all. One more request is
 * answered at once, and asks again. */
static size_t waits_most(const struct platform *p)
{
    return api_part((uint32_t)p->config->connections_max, 12, BUNDLE_WAITS_MAX);
}

static enum err read_wait(const struct http_exchange *x, uint64_t *ret_seconds, struct fault *f)
{
    struct str text;
    *ret_seconds = 0;
    enum err err = http_parameter(x, STR("wait"), &text, f);
    if (err != ERR_OK || str_is_absent(text)) return err;
    if (str_to_u64(text, ret_seconds) && *ret_seconds <= WAIT_SECONDS_MAX) return ERR_OK;
    return fault_set(f, ERR_BAD_PARAMETER, "",
                     "wait: must be a whole number of seconds from 0 to %d", WAIT_SECONDS_MAX);
}

static enum err read_bundle(struct job *j, struct bundle_detail *d, const struct http_exchange *x)
{
    const struct key *k = j->platform->caller.key;
    struct str node = http_header_get(x, STR("writ-node")),
               known = http_header_get(x, STR("if-none-match"));
    /* a proxy that compresses bodies makes tags weak */
    if (str_starts(known, STR("W/"))) known = str_skip(known, 2);
    if (!str_is_absent(node)) {
        if (node.size == 0 || node.size > NODE_BYTES_MAX || !str_is_utf8(node, &(size_t){0}))
            return fault_set(&j->fault, ERR_BAD_HEADER, "",
                             "Writ-Node: must be 1 to %d bytes of UTF-8", NODE_BYTES_MAX);
        enum err err = platform_check_node(j->platform, node, &j->fault);
        if (err != ERR_OK) return err;
        memcpy(d->node, node.bytes, node.size);
        d->node_size = node.size;
    }
    if (known.size < sizeof d->known)
        memcpy(d->known, known.size == 0 ? "" : known.bytes, known.size);
    d->key_id = k->id;
    return job_copy_globs(j, &k->tenants, &d->tenants) ? ERR_OK : fault_plain(&j->fault, ERR_FULL);
}

void bundle_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    uint64_t seconds;
    struct job *j = job_create(p, x, bundle_work);
    j->is_vital = true;
    struct bundle_detail *d = job_detail(j, struct bundle_detail);
    enum err err = read_wait(x, &seconds, &j->fault);
    if (err == ERR_OK) err = read_bundle(j, d, x);
    if (platform_failed(p, x, err, &j->fault)) {
        job_destroy(j);
        return;
    }
    const struct revision revision = tag_revision(&p->bundle_tags, d->key_id, d->known);
    d->is_believed = revision.number != 0;
    j->done = bundle_done;
    if (d->node_size > 0) followers_saw(p, str_of(d->node, d->node_size), d->key_id, &revision);
    /* The engine may run a newer revision than this thread knows. Then nothing newer exists
     * either. While the set is refused, no engine waits: it gets the reason at once. */
    bool waits = d->is_believed && revision.number >= p->revision && seconds > 0 && !p->draining &&
                 p->set_trouble.text[0] == '\0' && p->bundle_wait_count < waits_most(p);
    if (!waits) {
        job_send(j, x, QUEUE_READER);
        return;
    }
    j->token = http_defer(x);
    j->has_token = true;
    j->queue = QUEUE_READER; /* for the time when a newer revision exists */
    list_append(&p->bundle_waits, &j->link);
    p->bundle_wait_count++;
    loop_timer_start(p->loop, &j->timer, seconds * 1000, wait_due);
    check(http_when_gone(p->server, j->token, client_gone, j));
}
