/* key.c - /api/v1/keys: who may create which keys, and when a revoked key is refused everywhere.
 *
 * An admin creates keys of its own tenant, with any role except `ingest`. Only an admin of tenant
 * `*` creates keys of tenant `*` and `ingest` keys (which write for others). */
#include "store/key_store.h"

#include <stdio.h>

#include "base/limits.h"
#include "platform/platform.h"

enum { OVERLAP_SECONDS = 86400, OVERLAP_SECONDS_MAX = LIMIT_KEY_OVERLAP_DAYS * 86400 };

struct key_detail {
    struct id id;
    struct str tenant; /* the tenant whose keys may be used; absent: any */
    bool everywhere;   /* the caller is an admin of every tenant */
    uint64_t overlap_ms;
    uint64_t limit, cursor;
    /* for a revocation: the engines that may have to take it up */
    struct follower_row known[FOLLOWERS_MAX];
    size_t known_count;
};

/* ---- create ---- */

static void create_work(struct job *j, struct store *s)
{
    struct key_result result;
    j->err = key_store_create(s, &j->platform->pepper, j->draft, &j->actor, &j->reply, &result,
                              &j->fault);
    if (j->err != ERR_OK) return;
    j->status = 201;
    j->revision = result.revision;
    j->keys_changed = true;
}

/* The tenant that the body names in `member`. It must agree with the tenant that was named before
 * (in the query, in another member, by the caller's own key). */
static enum err settle_named(struct platform *p, const struct json *body, const char *member,
                             struct fault *f)
{
    const struct json *named = json_get(body, str_from(member));
    char field[16];
    snprintf(field, sizeof field, "/%s", member);
    if (named == NULL || named->type == JSON_NULL) return ERR_OK;
    if (named->type != JSON_STRING)
        return fault_set(f, ERR_WRONG_TYPE, field, "%s: must be a string", member);
    if (str_code_points(named->string) > LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_OUT_OF_RANGE, field, "%s: is longer than %d characters", member,
                         LIMIT_ID_CHARACTERS);
    if (named->string.size == 0 || str_equal(named->string, p->caller.tenant)) return ERR_OK;
    if (!platform_is_everywhere(p))
        return fault_set(f, ERR_WRONG_TENANT, field,
                         "%s: this key may manage only keys of its own tenant", member);
    if (!str_is_absent(p->caller.tenant))
        return fault_set(f, ERR_CONFLICTING_MEMBER, field,
                         "%s: differs from another tenant in the request", member);
    p->caller.tenant = named->string;
    return ERR_OK;
}

/* Sets the tenant of the new key: as the body names it, or else the caller's own. */
static enum err fill_tenant(struct platform *p, struct json *body, struct json *own,
                            struct fault *f)
{
    enum err err = settle_named(p, body, "tenant_id", f);
    if (err == ERR_OK) err = settle_named(p, body, "tenant", f);
    if (err != ERR_OK) return err;
    if (str_is_absent(p->caller.tenant))
        return fault_set(
            f, ERR_TENANT_REQUIRED, "/tenant",
            "tenant: is missing; this key is for every tenant, so name the new key's tenant");
    struct json *given = json_get(body, STR("tenant"));
    if (given == NULL) {
        *own = (struct json){.key = STR("tenant"), .next = body->child};
        body->child = given = own;
        body->count++;
    }
    json_become_string(given, p->caller.tenant);
    return ERR_OK;
}

static enum err read_create(struct job *j, const struct http_exchange *x)
{
    struct platform *p = j->platform;
    struct json *body, tenant;
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = fill_tenant(p, body, &tenant, &j->fault);
    if (err != ERR_OK) return err;
    err = key_read(body, &j->draft, &j->fault);
    if (err == ERR_OK) err = key_check_maker(j->draft, platform_is_everywhere(p), &j->fault);
    return err == ERR_OK ? key_check_end(j->draft, j->actor.now_ms, &j->fault) : err;
}

void key_create_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, create_work);
    job_send_if(j, x, read_create(j, x), QUEUE_WRITER);
}

/* ---- one key, by its id ---- */

/* Call after reading a body, which may name the tenant. A key's id also determines the tenant, so
 * an admin of every tenant need not name it. */
static enum err one_key(struct job *j, const struct http_exchange *x)
{
    struct platform *p = j->platform;
    struct key_detail *d = j->detail;
    d->tenant = job_copy(j, p->caller.tenant);
    d->everywhere = platform_is_everywhere(p);
    if (id_read("key_", x->params[0], &d->id)) return ERR_OK;
    return fault_set(&j->fault, ERR_NOT_FOUND, "",
                     "there is no such key: an id is key_ and 26 digits");
}

/* Read before anything changes: if the engines that are behind cannot be found, the revocation
 * fails. */
static enum err read_followers(struct job *j, struct store *s)
{
    struct key_detail *d = j->detail;
    return follower_store_list(s, j->actor.now_ms, &j->arena, d->known, &d->known_count, &j->fault);
}

static void revoke_work(struct job *j, struct store *s)
{
    struct key_detail *d = j->detail;
    struct key_result result;
    j->err = read_followers(j, s);
    if (j->err != ERR_OK) return;
    j->err = key_store_revoke(s, d->tenant, d->id, &j->actor, &j->keys_changed, &result, &j->fault);
    if (j->err != ERR_OK) return;
    j->revision = result.revision;
    /* Another client may have revoked it just before. Our own revision number does not show
     * that. */
    j->wrote_nothing = !j->keys_changed;
    j->keys_changed = true;
}

static void revoke_done(struct job *j)
{
    const struct key_detail *d = j->detail;
    if (j->err != ERR_OK)
        job_answer(j);
    else
        followers_await(j, d->known, d->known_count);
}

void key_revoke_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, revoke_work);
    job_detail(j, struct key_detail);
    j->done = revoke_done;
    job_send_if(j, x, one_key(j, x), QUEUE_WRITER);
}

static void rotate_work(struct job *j, struct store *s)
{
    struct key_detail *d = j->detail;
    struct key_result result;
    j->err = d->overlap_ms > 0 ? ERR_OK : read_followers(j, s);
    if (j->err != ERR_OK) return;
    const struct key_rotation wanted = {
        .tenant = d->tenant, .id = d->id, .everywhere = d->everywhere, .overlap_ms = d->overlap_ms};
    j->err = key_store_rotate(s, &j->platform->pepper, &wanted, &j->actor, &j->reply, &result,
                              &j->fault);
    if (j->err != ERR_OK) return;
    j->status = 201;
    j->revision = result.revision;
    j->keys_changed = true;
}

/* Without an overlap the old key is revoked. */
static void rotate_done(struct job *j)
{
    const struct key_detail *d = j->detail;
    if (j->err != ERR_OK || d->overlap_ms > 0)
        job_answer(j);
    else
        followers_await(j, d->known, d->known_count);
}

static enum err read_rotation(struct job *j, struct key_detail *d, const struct http_exchange *x)
{
    struct json *body;
    d->overlap_ms = (uint64_t)OVERLAP_SECONDS * 1000;
    if (x->body.size == 0) return ERR_OK;
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = settle_named(j->platform, body, "tenant_id", &j->fault);
    if (err != ERR_OK) return err;
    const struct json *v = json_get(body, STR("overlap_seconds"));
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    if (!json_is_number(v))
        return fault_set(&j->fault, ERR_WRONG_TYPE, "/overlap_seconds",
                         "overlap_seconds: must be a whole number");
    uint64_t seconds = json_u64(body, STR("overlap_seconds"), UINT64_MAX);
    if (seconds > OVERLAP_SECONDS_MAX)
        return fault_set(&j->fault, ERR_OUT_OF_RANGE, "/overlap_seconds",
                         "overlap_seconds: must be a whole number from 0 to %d",
                         OVERLAP_SECONDS_MAX);
    d->overlap_ms = seconds * 1000;
    return ERR_OK;
}

void key_rotate_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, rotate_work);
    j->done = rotate_done;
    enum err err = read_rotation(j, job_detail(j, struct key_detail), x);
    if (err == ERR_OK) err = one_key(j, x);
    job_send_if(j, x, err, QUEUE_WRITER);
}

/* ---- list ---- */

static void list_work(struct job *j, struct store *s)
{
    struct key_detail *d = j->detail;
    j->err = key_store_list(s, j->tenant, d->limit, d->cursor, &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

void key_list_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, list_work);
    struct key_detail *d = job_detail(j, struct key_detail);
    enum err err = settle_tenant(p, NULL, &j->fault);
    j->tenant = job_copy(j, p->caller.tenant);
    if (err == ERR_OK) err = api_page(x, &d->limit, &d->cursor, &j->fault);
    job_send_if(j, x, err, QUEUE_READER);
}
