/* session.c - /api/v1/session and /api/v1/sessions: sign in, sign out, one's own sessions.
 *
 * A person signs in with an API key that is theirs. The key is shown once; after that the browser has
 * only the cookie, a random value that is no key: it works for this platform's pages alone, and ends.
 * The session has the roles of its key, and one person: the key's owner, or a person whom the key may
 * name. */
#include "store/session_store.h"

#include "base/limits.h"
#include "platform/browser.h"
#include "platform/platform.h"
#include "platform/relying_party.h"
#include "platform/session_begin.h"

struct session_detail {
    struct session session; /* the caller's own */
    struct id id;           /* of the one to end */
    struct sha256 ended;
    struct str client, person;
    bool is_secure; /* the cookie's kind */
    uint64_t idle_ms, count;
};

/* ---- the document ---- */

static void put_text(struct buf *out, const char *name, struct str text)
{
    buf_printf(out, "\"%s\":", name);
    json_put_string(out, text);
    buf_put_byte(out, ',');
}

static void put_roles(struct buf *out, uint32_t roles)
{
    bool is_first = true;
    buf_put_literal(out, "\"roles\":[");
    for (uint32_t bit = 1; bit <= ROLE_ADMIN; bit <<= 1) {
        if ((roles & bit) == 0) continue;
        if (!is_first) buf_put_byte(out, ',');
        is_first = false;
        json_put_plain(out, str_from(role_name((enum role)bit)));
    }
    buf_put_literal(out, "],");
}

static void put_document(struct buf *out, const struct session *s, uint32_t roles,
                         const char csrf_token[COOKIE_SECRET_TEXT], uint64_t idle_ms)
{
    char id[ID_TEXT], key[ID_TEXT];
    id_write("ses_", s->id, id);
    id_write("key_", s->key, key);
    buf_put_byte(out, '{');
    session_put_time(out, "created_at", s->created_at);
    buf_put_byte(out, ',');
    put_text(out, "csrf_token", str_of(csrf_token, COOKIE_SECRET_TEXT));
    session_put_time(out, "expires_at", s->expires_at);
    buf_put_byte(out, ',');
    put_text(out, "id", str_of(id, ID_TEXT));
    session_put_time(out, "idle_ends_at", s->seen_at + idle_ms);
    buf_put_byte(out, ',');
    if (s->proof == PROOF_KEY) put_text(out, "key_id", str_of(key, ID_TEXT));
    put_text(out, "person", str_from(s->person));
    put_text(out, "proof", str_from(proof_name(s->proof)));
    if (s->proof == PROOF_OIDC) put_text(out, "provider", str_from(s->provider));
    put_roles(out, roles);
    buf_put_literal(out, "\"tenant_id\":");
    json_put_string(out, str_from(s->tenant));
    buf_put_byte(out, '}');
}

/* ---- sign in ---- */

static enum err text_member(const struct json *body, const char *name, struct str *ret,
                            struct fault *f)
{
    const struct json *v = json_get(body, str_from(name));
    char field[16] = "/";
    *ret = (struct str){0};
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    memcpy(field + 1, name, strlen(name) + 1);
    if (v->type != JSON_STRING)
        return fault_set(f, ERR_WRONG_TYPE, field, "%s: must be a string", name);
    *ret = v->string;
    return ERR_OK;
}

static enum err refuse_credential(struct platform *p, const struct http_exchange *x,
                                  struct str credential, enum err err, struct fault *f)
{
    struct id id;
    if (credential_read(credential, &id) && key_table_get(p->keys, id) != NULL) {
        auth_failed_note_ended(p, id, &x->client, err);
    } else {
        metric_add(p->sheet, METRIC_PLATFORM_AUTH_FAILED, 1);
        auth_failed_note(p, x, err);
    }
    if (err == ERR_UNAUTHENTICATED)
        return fault_set(f, err, "/key", "key: is not an API key of this installation");
    return fault_set(f, err, "/key", "key: %s",
                     err == ERR_CREDENTIAL_REVOKED ? "was revoked" : "has expired");
}

static enum err verify(struct platform *p, const struct http_exchange *x, const struct json *body,
                       const struct key **ret, struct fault *f)
{
    struct str credential;
    enum err err = text_member(body, "key", &credential, f);
    if (err != ERR_OK) return err;
    if (str_is_absent(credential))
        return fault_set(f, ERR_MISSING_MEMBER, "/key", "key: is missing: the API key, wk_…");
    err = key_cache_verify(p->api.cache, p->api.hasher, p->keys, &p->pepper, credential,
                           world_expiry_ms(world_now_ms()), ret);
    return err == ERR_OK ? ERR_OK : refuse_credential(p, x, credential, err, f);
}

static enum err choose_person(const struct key *key, const struct json *body, struct session *s,
                              struct fault *f)
{
    struct str person;
    enum err err = text_member(body, "person", &person, f);
    if (err != ERR_OK) return err;
    if (str_is_empty(person)) person = key->owner;
    if (!str_equal(person, key->owner) && !globs_match(&key->reviewers, person))
        return fault_set(f, ERR_WRONG_REVIEWER, "/person",
                         "person: this key may not act as %.*s; it is the key of %.*s",
                         STR_FORMAT(str_cut(person, 100)), STR_FORMAT(str_cut(key->owner, 100)));
    if (person.size > SESSION_NAME_BYTES || key->tenant.size > SESSION_NAME_BYTES)
        return fault_set(f, ERR_OUT_OF_RANGE, "/person", "person: is longer than %d characters",
                         LIMIT_ID_CHARACTERS);
    memcpy(s->person, person.bytes, person.size);
    memcpy(s->tenant, key->tenant.bytes, key->tenant.size);
    return ERR_OK;
}

static void start_done(struct job *j)
{
    struct platform *p = j->platform;
    struct session_begin *b = j->detail;
    const struct key *key = key_table_get(p->keys, b->session.key);
    if (j->err == ERR_OK && key == NULL) j->err = fault_plain(&j->fault, ERR_CREDENTIAL_REVOKED);
    if (j->err == ERR_OK) {
        char token[COOKIE_SECRET_TEXT];
        browser_csrf_token(&p->csrf_key, str_of(b->secret, sizeof b->secret), token);
        put_document(&j->reply, &b->session, key->roles, token, b->idle_ms);
        j->status = 201;
    }
    session_begin_done(j);
    job_answer(j);
}

static enum err read_sign_in(struct job *j, const struct http_exchange *x, const struct key *key,
                             const struct json *body, bool is_secure)
{
    struct platform *p = j->platform;
    struct session_begin *b = job_detail(j, struct session_begin);
    b->is_secure = is_secure;
    b->session.proof = PROOF_KEY;
    b->session.key = key->id;
    memcpy(b->session.claims, "[]", 3);
    session_begin_fill(p, &x->client, b);
    session_begin_replaces(p, x, &b->from.replaces);
    return choose_person(key, body, &b->session, &j->fault);
}

void session_start_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct json *body;
    const struct key *key = NULL;
    struct fault f;
    bool is_secure = false;
    p->caller = (struct caller){0};
    enum err err = browser_check_origin(x, p->config->public_url, &is_secure, &f);
    if (err == ERR_OK && !p->config->session_by_key)
        err = fault_set(&f, ERR_MISSING_ROLE, "",
                        "session.by_key is false: an API key is not enough to sign in here");
    if (err == ERR_OK) err = api_body(x, &body, &f);
    if (err == ERR_OK) err = verify(p, x, body, &key, &f);
    if (platform_failed(p, x, err, &f)) return;
    p->caller.key = key;
    struct job *j = job_create(p, x, session_begin_work);
    j->done = start_done;
    job_send_if(j, x, read_sign_in(j, x, key, body, is_secure), QUEUE_WRITER);
}

/* ---- who am I ---- */

/* The request's session. False: refused or parked. */
static bool own_session(struct platform *p, struct http_exchange *x)
{
    if (browser_shows_cookie(x, p->config->public_url)) return session_enter(p, x, ~(uint32_t)0);
    struct fault f;
    (void)fault_set(&f, ERR_UNAUTHENTICATED, "", "there is no session: sign in first");
    platform_refuse(p, x, &f);
    return false;
}

void session_get_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    char token[COOKIE_SECRET_TEXT], bytes[16 << 10];
    struct str cookie;
    struct fault f;
    struct buf b = buf_over(bytes, sizeof bytes);
    if (!own_session(p, x)) return;
    if (platform_failed(p, x, browser_cookie(x, p->config->public_url, &cookie, &f), &f)) return;
    browser_csrf_token(&p->csrf_key, cookie, token);
    put_document(&b, p->session, p->caller.key->roles, token, p->config->session_idle_ms);
    struct http_reply r = {.status = 200, .body = buf_view(&b)};
    r.headers[r.header_count++] =
        (struct http_header){.name = STR("Cache-Control"), .value = STR("no-store")};
    api_send(&p->api, x, &r, (struct str){0});
}

/* ---- sign out ---- */

static void end_work(struct job *j, struct store *s)
{
    struct session_detail *d = j->detail;
    j->wrote_nothing = true; /* no revision */
    j->err = session_store_end(s, d->id, &d->session, d->client, &j->actor, &d->ended, &j->fault);
}

static void end_done(struct job *j)
{
    struct session_detail *d = j->detail;
    if (j->err == ERR_OK) {
        char id[ID_TEXT];
        id_write("ses_", d->id, id);
        session_forget(j->platform, &d->ended);
        bool is_own = id_equal(d->id, d->session.id);
        buf_put_literal(&j->reply, "{");
        if (is_own) provider_put_end(&j->reply, j->platform, &d->session);
        buf_printf(&j->reply, "\"ended\":true,\"id\":\"%.*s\"}", ID_TEXT, id);
        if (is_own) j->cookie = browser_set_cookie(d->is_secure, (struct str){0}, j->cookie_text);
    }
    job_answer(j);
}

static struct session_detail *detail_of_own(struct job *j, const struct http_exchange *x)
{
    struct platform *p = j->platform;
    char address[CLIENT_ADDRESS_TEXT];
    struct session_detail *d = job_detail(j, struct session_detail);
    d->session = *p->session;
    d->idle_ms = p->config->session_idle_ms;
    struct str client = client_address_text(&x->client, address);
    d->client = job_copy(j, str_is_absent(client) ? STR("unknown") : client);
    return d;
}

static void end(struct platform *p, struct http_exchange *x, const struct id *which)
{
    struct job *j = job_create(p, x, end_work);
    struct session_detail *d = detail_of_own(j, x);
    d->id = which != NULL ? *which : d->session.id;
    j->done = end_done;
    /* the cookie's kind; admission has checked the origin already */
    enum err err = browser_check_origin(x, p->config->public_url, &d->is_secure, &j->fault);
    job_send_if(j, x, err, QUEUE_WRITER);
}

void session_end_handle(void *context, struct http_exchange *x)
{
    if (own_session(context, x)) end(context, x, NULL);
}

void session_end_one_handle(void *context, struct http_exchange *x)
{
    struct id id;
    struct fault f;
    if (!own_session(context, x)) return;
    if (id_read("ses_", x->params[0], &id)) {
        end(context, x, &id);
        return;
    }
    (void)fault_set(&f, ERR_NOT_FOUND, "", "there is no such session: an id is ses_ and 26 digits");
    platform_refuse(context, x, &f);
}

/* For administrators: of a person who left, or whose browser was stolen. */

static void end_person_work(struct job *j, struct store *s)
{
    struct session_detail *d = j->detail;
    j->wrote_nothing = true; /* no revision */
    j->err = session_store_end_person(s, j->tenant, d->person, d->client, &j->actor, &d->count,
                                      &j->fault);
}

static void end_person_done(struct job *j)
{
    const struct session_detail *d = j->detail;
    if (j->err == ERR_OK) {
        session_forget_person(j->platform, j->tenant, d->person);
        buf_printf(&j->reply, "{\"ended\":%llu,\"person\":", (unsigned long long)d->count);
        json_put_string(&j->reply, d->person);
        buf_put_byte(&j->reply, '}');
    }
    job_answer(j);
}

void session_end_person_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct str person;
    char address[CLIENT_ADDRESS_TEXT];
    struct fault f;
    enum err err = http_parameter(x, STR("person"), &person, &f);
    if (err == ERR_OK && str_is_empty(person))
        err = fault_set(&f, ERR_BAD_PARAMETER, "", "person: is missing: whose sessions are to end");
    if (platform_failed(p, x, err, &f)) return;
    struct job *j = job_create(p, x, end_person_work);
    struct session_detail *d = job_detail(j, struct session_detail);
    struct str client = client_address_text(&x->client, address);
    d->client = job_copy(j, str_is_absent(client) ? STR("unknown") : client);
    d->person = job_copy(j, person);
    j->done = end_person_done;
    job_send(j, x, QUEUE_WRITER);
}

/* ---- list ---- */

static void list_work(struct job *j, struct store *s)
{
    struct session_detail *d = j->detail;
    j->err = session_store_list(s, &d->session, d->idle_ms, j->actor.now_ms, &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

void session_list_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    if (!own_session(p, x)) return;
    struct job *j = job_create(p, x, list_work);
    (void)detail_of_own(j, x);
    job_send(j, x, QUEUE_READER);
}
