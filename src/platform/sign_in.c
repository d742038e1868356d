/* sign_in.c - people sign in at an identity provider (OpenID Connect, authorization code with PKCE).
 *
 *   page     POST /api/v1/session/oidc/NAME ──▶ flow cookie, URL at the provider
 *   browser  goes there; the person signs in
 *   browser  GET …/NAME/callback?code&state&iss, with the flow cookie
 *              cookie ─▶ state ─▶ issuer ─▶ exchange of the code (providers' thread)
 *              ─▶ identity ─▶ row of the session (writer) ─▶ 303 to the console, session cookie
 *
 * The start is a POST of our own page: no other site can begin a sign-in. The answer is always a 303 to
 * the console, which has no parameter for a place to go: after a refusal with one of the words below,
 * for which the page has a text. The session's cookie is Strict, so the browser does not send it with
 * the redirect. It sends it with the calls of the page, which need it.
 *
 * A refused answer changes no session. No code, token or state is logged. */
#include "base/check.h"
#include "base/log.h"
#include "platform/flow.h"
#include "platform/relying_party.h"
#include "platform/session_begin.h"

enum { CODE_BYTES_MAX = 2048, URL_BYTES_MAX = 4 * OIDC_URL_MAX };

/* From …/api/v1/session/oidc/NAME/callback, below whatever path a proxy has put us. */
#define CONSOLE "../../../../../console/"

struct sign_in_detail {
    struct session_begin begin; /* first: session_begin.h */
    struct oidc_exchange exchange;
    char nonce[FLOW_VALUE_TEXT], verifier[FLOW_VALUE_TEXT];
};

/* ---- start ---- */

static void answer_start(struct platform *p, struct http_exchange *x, struct str url,
                         struct str cookie)
{
    char bytes[URL_BYTES_MAX + 64];
    struct buf b = buf_over(bytes, sizeof bytes);
    buf_put_literal(&b, "{\"authorization_url\":");
    json_put_string(&b, url);
    buf_put_byte(&b, '}');
    struct http_reply r = {.status = 200, .body = buf_view(&b)};
    r.headers[r.header_count++] = (struct http_header){.name = STR("Set-Cookie"), .value = cookie};
    r.headers[r.header_count++] =
        (struct http_header){.name = STR("Cache-Control"), .value = STR("no-store")};
    api_send(&p->api, x, &r, (struct str){0});
}

void sign_in_start_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct oidc_endpoints endpoints;
    struct flow flow;
    struct sha256 replaces;
    struct fault f;
    bool is_secure;
    size_t provider;
    char cookie[FLOW_COOKIE_TEXT], set_cookie[SET_COOKIE_TEXT], redirect[OIDC_URL_MAX],
        bytes[URL_BYTES_MAX];
    enum err err = browser_check_origin(x, p->config->public_url, &is_secure, &f);
    if (err == ERR_OK) err = provider_find(p, x->params[0], &provider, &f);
    if (platform_failed(p, x, err, &f)) return;
    enum provider_step step = provider_endpoints(p, x, provider, &endpoints, &f);
    if (step == PROVIDER_REFUSED) platform_refuse(p, x, &f);
    if (step != PROVIDER_FOUND) return;

    const struct oidc_settings *settings = oidc_settings_of(p->providers.oidc, provider);
    const struct str name = str_from(settings->name);
    session_begin_replaces(p, x, &replaces);
    flow_make(&flow, &replaces, world_now_ms());
    flow_write(&flow, &p->flow_key, name, cookie);
    struct buf target = buf_over(redirect, sizeof redirect), url = buf_over(bytes, sizeof bytes);
    provider_put_redirect(&target, p, name);
    const struct flow_request request = {.endpoint = str_from(endpoints.authorization),
                                         .client_id = str_from(settings->client_id),
                                         .redirect_uri = buf_view(&target),
                                         .scope = str_from(settings->scope)};
    flow_put_url(&url, &flow, &p->flow_key, name, &request);
    if (target.overflow || url.overflow) {
        err = fault_set(&f, ERR_PROVIDER_UNAVAILABLE, "",
                        "the URL of a sign-in at %s would be too long", settings->name);
        (void)platform_failed(p, x, err, &f);
        return;
    }
    answer_start(p, x, buf_view(&url),
                 browser_set_flow_cookie(is_secure, str_of(cookie, sizeof cookie), FLOW_MS / 1000,
                                         set_cookie));
}

/* ---- refusals ---- */

/* What the page gets: its texts are in console/sign_in.js. */
static const char *word_of(enum err err)
{
    switch (err) {
    case ERR_EXISTS: return "used";
    case ERR_UNAUTHENTICATED:
    case ERR_CREDENTIAL_EXPIRED: return "refused";
    case ERR_IDENTITY_REFUSED: return "identity";
    case ERR_PROVIDER_UNAVAILABLE: return "unavailable";
    default: return "failed"; /* ours: the store, or too much at once */
    }
}

static void note(struct platform *p, const struct client_address *client, struct str provider,
                 const char *word, const char *why)
{
    char name[SESSION_PROVIDER_BYTES + 1] = "";
    bool is_fault = strcmp(word, "unavailable") == 0 || strcmp(word, "failed") == 0;
    provider = str_cut(provider, SESSION_PROVIDER_BYTES);
    memcpy(name, provider.bytes, provider.size);
    log_line(is_fault ? LOG_WARNING : LOG_INFO, "sign_in_refused", "provider", name, "code", word,
             "why", why, NULL);
    if (is_fault) return;
    metric_add(p->sheet, METRIC_PLATFORM_AUTH_FAILED, 1);
    refused_note_other(&p->refused, client, ERR_UNAUTHENTICATED);
}

static struct str location_of(struct arena *arena, const char *word)
{
    return word == NULL ? STR(CONSOLE) : arena_printf(arena, CONSOLE "#/sign-in/%s", word);
}

static bool is_secure_here(const struct platform *p)
{
    return browser_is_secure(p->config->public_url);
}

/* At once. */
static void refuse(struct platform *p, struct http_exchange *x, const char *word, const char *why)
{
    char set_cookie[SET_COOKIE_TEXT];
    struct http_reply r = {.status = 303, .body = STR("")};
    note(p, &x->client, x->params[0], word, why);
    const struct http_header headers[] = {
        {STR("Location"), location_of(x->arena, word)},
        {STR("Set-Cookie"),
         browser_set_flow_cookie(is_secure_here(p), (struct str){0}, 0, set_cookie)},
        {STR("Cache-Control"), STR("no-store")},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        r.headers[r.header_count++] = headers[i];
    api_send(&p->api, x, &r, (struct str){0});
}

/* Later. `word` NULL: to the console, signed in. */
static void redirect(struct job *j, const char *word)
{
    char set_cookie[SET_COOKIE_TEXT];
    j->err = ERR_OK;
    j->status = 303;
    j->location = location_of(&j->arena, word);
    j->flow_cookie = job_copy(
        j, browser_set_flow_cookie(is_secure_here(j->platform), (struct str){0}, 0, set_cookie));
    job_answer(j);
}

static void refuse_later(struct job *j, enum err err, const struct fault *f)
{
    const struct sign_in_detail *d = j->detail;
    const char *word = word_of(err);
    const char *name = oidc_settings_of(j->platform->providers.oidc, d->exchange.provider)->name;
    note(j->platform, &j->client, str_from(name), word, f->text);
    redirect(j, word);
}

/* ---- the session ---- */

static void signed_in(struct job *j)
{
    enum err err = j->err;
    session_begin_done(j);
    if (err == ERR_OK)
        redirect(j, NULL);
    else
        refuse_later(j, err, &j->fault);
}

static bool put_name(struct str from, char *to, size_t most)
{
    if (from.size == 0 || from.size > most || memchr(from.bytes, '\0', from.size) != NULL)
        return false;
    memcpy(to, from.bytes, from.size);
    to[from.size] = '\0';
    return true;
}

static enum err put_claims(const struct identity *i, char to[SESSION_CLAIMS_BYTES + 1],
                           struct fault *f)
{
    struct buf b = buf_over(to, SESSION_CLAIMS_BYTES);
    if (claims_check(i->claims, i->claim_count, f) != ERR_OK) return ERR_IDENTITY_REFUSED;
    buf_put_byte(&b, '[');
    for (size_t c = 0; c < i->claim_count; c++) {
        buf_put(&b, c > 0 ? STR(",[") : STR("["));
        json_put_string(&b, i->claims[c].name);
        buf_put_byte(&b, ',');
        json_put_string(&b, i->claims[c].value);
        buf_put_byte(&b, ']');
    }
    buf_put_byte(&b, ']');
    check(!b.overflow); /* SESSION_CLAIMS_BYTES */
    to[b.size] = '\0';
    return ERR_OK;
}

static enum err fill(struct job *j, struct session *s, const struct identity *i, struct fault *f)
{
    s->proof = PROOF_OIDC;
    s->roles = i->roles & (uint32_t)ROLES_OF_PEOPLE;
    if (!put_name(i->person, s->person, SESSION_NAME_BYTES) ||
        !put_name(i->tenant, s->tenant, SESSION_NAME_BYTES) ||
        !put_name(i->provider, s->provider, SESSION_PROVIDER_BYTES) ||
        !put_name(i->subject, s->subject, SESSION_SUBJECT_BYTES))
        return fault_set(f, ERR_IDENTITY_REFUSED, "",
                         "person, tenant or subject of the token is empty or too long");
    if (s->roles == 0 || strcmp(s->tenant, "*") == 0)
        return fault_set(f, ERR_IDENTITY_REFUSED, "", "no role is mapped to this person");
    j->actor.principal = job_copy(j, i->person);
    return put_claims(i, s->claims, f);
}

/* The exchange has ended. */
static void identified(struct job *j)
{
    struct sign_in_detail *d = j->detail;
    const struct oidc_exchange *e = &d->exchange;
    struct fault f = j->fault;
    enum err err = j->err;
    j->done = signed_in;
    if (!str_is_absent(e->id_token))
        memory_wipe((char *)(uintptr_t)e->id_token.bytes, e->id_token.size);
    memory_wipe(d->verifier, sizeof d->verifier);
    if (err == ERR_OK) err = fill(j, &d->begin.session, &e->identity, &f);
    if (err == ERR_OK) err = work_judge(j, QUEUE_WRITER, &f);
    if (err == ERR_OK)
        check(job_queue(j, QUEUE_WRITER));
    else
        refuse_later(j, err, &f);
}

/* ---- the answer ---- */

struct answer { /* what the browser brings back */
    struct str code, state, issuer, error;
};

static bool read_answer(const struct http_exchange *x, struct answer *ret)
{
    struct fault ignored;
    return http_parameter(x, STR("code"), &ret->code, &ignored) == ERR_OK &&
           http_parameter(x, STR("state"), &ret->state, &ignored) == ERR_OK &&
           http_parameter(x, STR("iss"), &ret->issuer, &ignored) == ERR_OK &&
           http_parameter(x, STR("error"), &ret->error, &ignored) == ERR_OK;
}

/* A provider that announces `iss` sends it with each answer, errors too (RFC 9207, 2). */
static bool issuer_is_right(struct platform *p, size_t provider, const struct answer *a)
{
    struct oidc_endpoints endpoints;
    struct fault ignored;
    bool may_change;
    if (!str_is_absent(a->issuer))
        return str_equal(a->issuer,
                         str_from(oidc_settings_of(p->providers.oidc, provider)->issuer));
    return oidc_endpoints(p->providers.oidc, provider, &endpoints, &may_change, &ignored) ==
               ERR_OK &&
           !endpoints.names_issuer;
}

static void exchange(struct platform *p, struct http_exchange *x, size_t provider,
                     const struct flow *flow, struct str code)
{
    const struct str name = str_from(oidc_settings_of(p->providers.oidc, provider)->name);
    char redirect_uri[OIDC_URL_MAX], state[FLOW_VALUE_TEXT];
    struct buf target = buf_over(redirect_uri, sizeof redirect_uri);
    struct fault f;
    struct job *j = job_create(p, x, session_begin_work);
    struct sign_in_detail *d = job_detail(j, struct sign_in_detail);
    provider_put_redirect(&target, p, name);
    j->done = identified;
    d->begin.is_secure = is_secure_here(p);
    session_begin_fill(p, &x->client, &d->begin);
    flow_value(flow, &p->flow_key, name, FLOW_NONCE, d->nonce);
    flow_value(flow, &p->flow_key, name, FLOW_VERIFIER, d->verifier);
    d->begin.from = (struct sign_in){.replaces = flow->replaces,
                                     .state_ends_at = flow->made_at + 2 * (uint64_t)FLOW_MS};
    flow_value(flow, &p->flow_key, name, FLOW_STATE, state);
    d->begin.from.state = sha256_once(str_of(state, sizeof state));
    d->exchange = (struct oidc_exchange){.provider = provider,
                                         .code = job_copy(j, code),
                                         .verifier = str_of(d->verifier, sizeof d->verifier),
                                         .nonce = str_of(d->nonce, sizeof d->nonce),
                                         .redirect_uri = job_copy(j, buf_view(&target))};
    enum err err = work_judge(j, QUEUE_WRITER, &f);
    if (err == ERR_OK) {
        provider_exchange(j, x, &d->exchange);
    } else {
        job_destroy(j);
        refuse(p, x, word_of(err), f.text);
    }
}

void sign_in_answer_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct answer a;
    struct flow flow;
    struct fault f;
    size_t provider;
    if (platform_failed(p, x, provider_find(p, x->params[0], &provider, &f), &f)) return;
    const struct str name = str_from(oidc_settings_of(p->providers.oidc, provider)->name);
    struct str cookie = browser_flow_cookie(x, is_secure_here(p));
    enum flow_verdict verdict = str_is_absent(cookie)
                                    ? FLOW_OVER
                                    : flow_read(cookie, &p->flow_key, name, world_now_ms(), &flow);
    if (verdict == FLOW_OVER)
        refuse(p, x, "expired", "the cookie of the sign-in is missing or too old");
    else if (verdict == FLOW_WRONG)
        refuse(p, x, "mismatch", "the cookie of the sign-in was altered, or is another provider's");
    else if (!read_answer(x, &a) || !flow_has_state(&flow, &p->flow_key, name, a.state))
        refuse(p, x, "mismatch", "the state is not that of this browser's sign-in");
    else if (!issuer_is_right(p, provider, &a))
        refuse(p, x, "mismatch", "the answer names another issuer, or none");
    else if (!str_is_empty(a.error))
        refuse(p, x, "denied", "the provider answered with an error");
    else if (str_is_empty(a.code) || a.code.size > CODE_BYTES_MAX)
        refuse(p, x, "mismatch", "the code is missing or too long");
    else
        exchange(p, x, provider, &flow, a.code);
    memory_wipe(&flow, sizeof flow);
}
