#include "platform/sessions.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "platform/browser.h"
#include "platform/relying_party.h"
#include "platform/platform.h"

enum { TOUCH_MS = 30000 }; /* between two writes of the last use */

struct parked { /* a request that waits for a lookup */
    struct parked *next;
    struct http_token token;
};

/* One session as it was looked up, or that there is none. On exactly one list. */
struct known {
    struct link link; /* sessions->all, the least recently looked up first */
    struct sha256 hash;
    struct session session; /* if err is ERR_OK */
    enum err err;           /* of the lookup */
    struct fault fault;
    uint64_t at_ns;  /* of the lookup; 0: none yet */
    bool is_reading; /* a lookup is under way */
    bool has_ended;  /* here; whatever a lookup still says */
    struct parked *parked;
};

struct sessions {
    struct map by_hash; /* the bytes of a hash → struct known */
    struct list all;
    size_t count, parked;
};

static struct str key_of(const struct sha256 *hash)
{
    return str_of((const char *)hash->bytes, SHA256_BYTES);
}

struct sessions *sessions_create(void)
{
    struct sessions *s = calloc(1, sizeof *s);
    check(s != NULL);
    list_init(&s->all);
    return s;
}

static void drop(struct sessions *s, struct known *k)
{
    (void)map_remove(&s->by_hash, key_of(&k->hash));
    link_remove(&k->link);
    s->count--;
    free(k);
}

void sessions_destroy(struct sessions *s)
{
    if (s == NULL) return;
    list_each (&s->all, l, following) {
        struct known *k = link_owner(l, struct known, link);
        while (k->parked != NULL) {
            struct parked *one = k->parked;
            k->parked = one->next;
            free(one);
        }
        drop(s, k);
    }
    map_fini(&s->by_hash);
    free(s);
}

static struct known *find(struct sessions *s, const struct sha256 *hash)
{
    return map_get(&s->by_hash, key_of(hash));
}

static void make_room(struct sessions *s)
{
    list_each (&s->all, l, following) {
        struct known *k = link_owner(l, struct known, link);
        if (s->count < SESSIONS_KEPT) return;
        if (!k->is_reading) drop(s, k);
    }
}

/* NULL: no memory. */
static struct known *add(struct sessions *s, const struct sha256 *hash)
{
    make_room(s);
    struct known *k = calloc(1, sizeof *k);
    if (k == NULL) return NULL;
    k->hash = *hash;
    if (!map_put(&s->by_hash, key_of(&k->hash), k)) {
        free(k);
        return NULL;
    }
    list_append(&s->all, &k->link);
    s->count++;
    return k;
}

/* ---- lookups ---- */

struct lookup_detail {
    struct sha256 hash;
    struct session session;
};

static void lookup_work(struct job *j, struct store *s)
{
    struct lookup_detail *d = j->detail;
    j->err = session_store_find(s, &d->hash, &d->session, &j->fault);
}

static void let_go(struct platform *p, struct known *k)
{
    while (k->parked != NULL) {
        struct parked *one = k->parked;
        k->parked = one->next;
        p->sessions->parked--;
        http_unpark(p->server, one->token);
        free(one);
    }
}

static void lookup_done(struct job *j)
{
    struct platform *p = j->platform;
    const struct lookup_detail *d = j->detail;
    struct known *k = find(p->sessions, &d->hash);
    check(k != NULL && k->is_reading); /* make_room() spares it */
    uint64_t seen_at = k->err == ERR_OK ? k->session.seen_at : 0;
    k->is_reading = false;
    k->at_ns = world_monotonic_ns();
    k->err = j->err;
    k->fault = j->fault;
    if (j->err == ERR_OK) {
        k->session = d->session;
        if (k->session.seen_at < seen_at)
            k->session.seen_at = seen_at; /* its write is on the way */
    }
    link_remove(&k->link);
    list_append(&p->sessions->all, &k->link);
    let_go(p, k);
    job_destroy(j);
}

static bool look_up(struct platform *p, struct known *k)
{
    if (k->is_reading) return true;
    struct job *j = job_create(p, NULL, lookup_work);
    struct lookup_detail *d = job_detail(j, struct lookup_detail);
    d->hash = k->hash;
    j->done = lookup_done;
    k->is_reading = job_queue(j, QUEUE_READER);
    if (!k->is_reading) job_destroy(j);
    return k->is_reading;
}

static enum session_step park(struct platform *p, struct http_exchange *x, struct known *k,
                              struct fault *f)
{
    struct parked *one = p->sessions->parked < SESSIONS_PARKED ? malloc(sizeof *one) : NULL;
    if (one == NULL || !look_up(p, k)) {
        free(one);
        (void)fault_set(f, ERR_OVERLOADED, "",
                        "too many requests wait for the store: try again later");
        return SESSION_REFUSED;
    }
    *one = (struct parked){.next = k->parked, .token = http_park(x)};
    k->parked = one;
    p->sessions->parked++;
    return SESSION_PARKED;
}

/* ---- the last use ---- */

struct touch_detail {
    struct sha256 hash;
    uint64_t seen_at;
};

static void touch_work(struct job *j, struct store *s)
{
    const struct touch_detail *d = j->detail;
    j->wrote_nothing = true; /* for the log of changes: no revision */
    j->err = session_store_touch(s, &d->hash, d->seen_at, &j->fault);
}

static void touch_done(struct job *j)
{
    if (j->err != ERR_OK) log_line(LOG_WARNING, "session_not_touched", "why", j->fault.text, NULL);
    job_destroy(j);
}

/* If the queue is full, the next use tries again. */
static void touch(struct platform *p, struct known *k, uint64_t now_ms)
{
    if (now_ms < k->session.seen_at + TOUCH_MS) return;
    struct job *j = job_create(p, NULL, touch_work);
    struct touch_detail *d = job_detail(j, struct touch_detail);
    d->hash = k->hash;
    d->seen_at = now_ms;
    j->done = touch_done;
    if (job_queue(j, QUEUE_WRITER))
        k->session.seen_at = now_ms;
    else
        job_destroy(j);
}

/* ---- admission ---- */

static enum session_step refuse(struct fault *f, const char *why)
{
    (void)fault_set(f, ERR_SESSION_ENDED, "", "%s: sign in again", why);
    return SESSION_REFUSED;
}

static bool is_fresh(const struct known *k)
{
    return k->at_ns != 0 && world_monotonic_ns() - k->at_ns < (uint64_t)SESSION_FRESH_MS * 1000000;
}

static enum session_step use(struct platform *p, struct http_exchange *x, struct known *k,
                             uint32_t roles, struct fault *f)
{
    uint64_t now_ms = world_now_ms();
    if (k->has_ended || k->err == ERR_NOT_FOUND)
        return refuse(f, "there is no such session, or it was ended");
    if (k->err != ERR_OK) {
        (void)fault_set(f, ERR_STORE_UNAVAILABLE, "", "the session cannot be looked up now: %s",
                        k->fault.text);
        return SESSION_REFUSED;
    }
    if (session_is_over(&k->session, p->config->session_idle_ms, now_ms))
        return refuse(f, "the session has ended by its time");
    const struct key *key;
    if (k->session.proof == PROOF_KEY) {
        key = key_table_get(p->keys, k->session.key);
        if (key == NULL || key_in_force(key, world_expiry_ms(now_ms)) != ERR_OK)
            return refuse(f, "the API key of the session was revoked, or has expired");
    } else {
        if (!provider_is_there(p, str_from(k->session.provider)))
            return refuse(f, "the identity provider of the session is not configured any more");
        key = key_of_person(str_from(k->session.tenant), str_from(k->session.person),
                            k->session.roles, x->arena);
        if (key == NULL) {
            (void)api_no_memory(f);
            return SESSION_REFUSED;
        }
    }
    if (api_admit_key(&p->api, x, key, roles, &p->caller, f) != ERR_OK) return SESSION_REFUSED;
    if (str_is_absent(http_header_get(x, STR("writ-background")))) touch(p, k, now_ms);
    p->session = &k->session;
    return SESSION_FOUND;
}

enum session_step session_admit(struct platform *p, struct http_exchange *x, uint32_t roles,
                                struct fault *f)
{
    struct str cookie;
    const char *url = p->config->public_url;
    if (!str_is_absent(http_header_get(x, STR("transfer-encoding")))) {
        (void)fault_set(
            f, ERR_BAD_HEADER, "",
            "Transfer-Encoding: a request of a session must have a Content-Length instead");
        return SESSION_REFUSED;
    }
    enum err err = browser_cookie(x, url, &cookie, f);
    if (err == ERR_OK) err = browser_check(x, url, cookie, &p->csrf_key, f);
    if (err != ERR_OK) return SESSION_REFUSED;
    const struct sha256 hash = sha256_once(cookie);
    struct known *k = find(p->sessions, &hash);
    if (k != NULL && is_fresh(k)) return use(p, x, k, roles, f);
    if (k == NULL) k = add(p->sessions, &hash);
    if (k != NULL) return park(p, x, k, f);
    (void)api_no_memory(f);
    return SESSION_REFUSED;
}

void session_forget(struct platform *p, const struct sha256 *hash)
{
    struct known *k = find(p->sessions, hash);
    if (k != NULL) k->has_ended = true;
}

void session_forget_person(struct platform *p, struct str tenant, struct str person)
{
    list_each (&p->sessions->all, l, following) {
        struct known *k = link_owner(l, struct known, link);
        bool is_of_tenant = str_is_absent(tenant) || str_equal(tenant, str_from(k->session.tenant));
        if (is_of_tenant && str_equal(person, str_from(k->session.person))) k->has_ended = true;
    }
}

/* ---- calls to the engine ---- */

/* As they were written at the sign-in (sign_in.c). False: no memory, or the row is damaged. */
static bool read_claims(const struct session *s, struct arena *arena, struct assertion *ret)
{
    struct json *list;
    struct fault ignored;
    if (json_read(str_from(s->claims), NULL, arena, &list, &ignored) != ERR_OK ||
        !json_is_array(list))
        return false;
    struct claim *claims = arena_array(arena, struct claim, list->count + 1);
    if (claims == NULL) return false;
    for (const struct json *pair = list->child; pair != NULL; pair = pair->next) {
        if (!json_is_array(pair) || pair->count != 2 || !json_is_string(pair->child) ||
            !json_is_string(pair->child->next))
            return false;
        claims[ret->claim_count++] =
            (struct claim){.name = pair->child->string, .value = pair->child->next->string};
    }
    ret->claims = claims;
    return true;
}

bool session_assert(struct platform *p, const struct http_exchange *x, struct buf *out)
{
    const struct session *s = p->session;
    uint64_t now_ms = world_now_ms();
    struct assertion a = {.id = id_make(now_ms, &p->api.chance),
                          .key = s->key,
                          .tenant = str_from(s->tenant),
                          .person = str_from(s->person),
                          .method = forward_method(x),
                          .target = sha256_once(forward_target(x)),
                          .roles = p->caller.key->roles,
                          .proof = s->proof,
                          .made_at = now_ms};
    if (s->proof == PROOF_OIDC && !read_claims(s, x->arena, &a)) return false;
    return assertion_put(out, &p->assertion_key, &a);
}
