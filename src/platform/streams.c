/* streams.c - the admin's operations on streams. POST /api/v1/audit/gaps: an admin accepts that records
 * will never come. POST /api/v1/audit/streams:forget: the stream has no engine any more, or an
 * attacker made it. GET /api/v1/engines: which nodes there are, and how far they are. */
#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "crypto/base64.h"
#include "event/event.h"
#include "json/json.h"
#include "platform/platform.h"
#include "store/engine_key.h"
#include "store/engines.h"
#include "store/gap.h"

/* ---- on the writer ---- */

static void gap_work(struct job *j, struct store *s)
{
    const struct gap *g = j->detail;
    j->err = gap_accept(s, g, &j->actor, &j->fault);
    if (j->err != ERR_OK) return;
    log_text(LOG_WARNING, "gap_accepted", "node %.*s journal %.*s: records %llu to %llu, by %.*s",
             STR_FORMAT(g->node), STR_FORMAT(g->journal), (unsigned long long)g->from_seq,
             (unsigned long long)g->next_seq - 1, STR_FORMAT(j->actor.principal));
    buf_put_literal(&j->reply, "{\"journal\":");
    json_put_string(&j->reply, g->journal);
    buf_printf(&j->reply, ",\"lost\":%llu,\"next_seq\":%llu,\"node\":",
               (unsigned long long)(g->next_seq - g->from_seq), (unsigned long long)g->next_seq);
    json_put_string(&j->reply, g->node);
    buf_put_byte(&j->reply, '}');
}

/* ---- the request ---- */

static enum err wrong(struct fault *f, enum err err, const char *name, const char *what)
{
    char field[32];
    snprintf(field, sizeof field, "/%s", name);
    return fault_set(f, err, field, "%s: %s", name, what);
}

static const struct json *member(const struct json *body, const char *name)
{
    const struct json *v = json_get(body, str_from(name));
    return v == NULL || v->type == JSON_NULL ? NULL : v;
}

/* `otherwise` is the default; if it is absent, the member is required. */
static enum err read_name(struct job *j, const struct json *body, const char *name,
                          struct str otherwise, struct str *ret)
{
    const struct json *v = member(body, name);
    if (v == NULL && str_is_absent(otherwise))
        return wrong(&j->fault, ERR_MISSING_MEMBER, name, "is needed");
    if (v != NULL && v->type != JSON_STRING)
        return wrong(&j->fault, ERR_WRONG_TYPE, name, "must be a string");
    *ret = v == NULL ? otherwise : job_copy(j, v->string);
    if (ret->size == 0 || ret->size > LIMIT_ID_CHARACTERS)
        return wrong(&j->fault, ERR_OUT_OF_RANGE, name, "must be 1 to 256 bytes");
    return ERR_OK;
}

static enum err read_seq(struct job *j, const struct json *body, const char *name, uint64_t *ret)
{
    const struct json *v = member(body, name);
    if (v == NULL) return wrong(&j->fault, ERR_MISSING_MEMBER, name, "is needed");
    if (!json_is_number(v)) return wrong(&j->fault, ERR_WRONG_TYPE, name, "must be a whole number");
    *ret = json_u64(body, str_from(name), 0);
    if (*ret == 0 || *ret > EVENT_COUNT_MAX) /* the event has a count, which has this limit */
        return wrong(&j->fault, ERR_OUT_OF_RANGE, name,
                     "must be the number of a record, from 1 to 9007199254740991");
    return ERR_OK;
}

static enum err read_epoch(struct job *j, const struct json *body, struct str *ret)
{
    enum err err = read_name(j, body, "epoch", (struct str){0}, ret);
    if (err == ERR_OK && !str_to_u64_hex(*ret, &(uint64_t){0}))
        return wrong(&j->fault, ERR_BAD_VALUE, "epoch", "must be 16 lowercase hex digits");
    return err;
}

static enum err read_reason(struct job *j, const struct json *body, struct str *ret)
{
    const struct json *v = member(body, "reason");
    if (v == NULL) return ERR_OK;
    if (v->type != JSON_STRING)
        return wrong(&j->fault, ERR_WRONG_TYPE, "reason", "must be a string");
    if (str_code_points(v->string) > GAP_REASON_CHARACTERS)
        return wrong(&j->fault, ERR_OUT_OF_RANGE, "reason", "is longer than 512 characters");
    *ret = job_copy(j, v->string);
    return ERR_OK;
}

static enum err read_gap(struct job *j, struct gap *g, const struct http_exchange *x)
{
    struct json *body;
    if (!platform_is_everywhere(j->platform))
        return fault_set(
            &j->fault, ERR_WRONG_TENANT, "",
            "a stream has records of all tenants: only an admin of tenant * may accept a gap");
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = read_name(j, body, "node", (struct str){0}, &g->node);
    if (err == ERR_OK) err = read_name(j, body, "journal", STR("0"), &g->journal);
    if (err == ERR_OK) err = read_seq(j, body, "from_seq", &g->from_seq);
    if (err == ERR_OK) err = read_seq(j, body, "next_seq", &g->next_seq);
    if (err == ERR_OK && g->next_seq <= g->from_seq)
        err = wrong(&j->fault, ERR_OUT_OF_RANGE, "next_seq", "must be above from_seq");
    if (err == ERR_OK) err = read_epoch(j, body, &g->epoch);
    if (err == ERR_OK) err = read_reason(j, body, &g->reason);
    return err;
}

void gap_accept_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, gap_work);
    struct gap *g = job_detail(j, struct gap);
    job_send_if(j, x, read_gap(j, g, x), QUEUE_WRITER);
}

/* ---- keys of engines ---- */

static void trust_work(struct job *j, struct store *s)
{
    const struct engine_key *k = j->detail;
    j->err = engine_key_add(s, k, &j->actor, &j->fault);
    if (j->err != ERR_OK) return;
    buf_put_literal(&j->reply, "{\"journal\":");
    json_put_string(&j->reply, k->journal);
    buf_put_literal(&j->reply, ",\"node\":");
    json_put_string(&j->reply, k->node);
    buf_put_literal(&j->reply, ",\"public_key\":\"");
    base64_put(&j->reply, str_of((const char *)k->public_key, sizeof k->public_key), 0);
    buf_put_literal(&j->reply, "\"}");
}

static enum err read_public_key(struct job *j, const struct json *body, struct engine_key *k)
{
    uint8_t bytes[LIMIT_ID_CHARACTERS];
    size_t size;
    struct str text;
    enum err err = read_name(j, body, "public_key", (struct str){0}, &text);
    if (err != ERR_OK) return err;
    if (!base64_read(text, bytes, &size) || size != sizeof k->public_key)
        return wrong(
            &j->fault, ERR_BAD_VALUE, "public_key",
            "must be the base64 of 32 bytes, as engine/evidence.pub in the engine's data has it");
    memcpy(k->public_key, bytes, sizeof k->public_key);
    return ERR_OK;
}

static enum err read_trust(struct job *j, struct engine_key *k, const struct http_exchange *x)
{
    struct json *body;
    if (!platform_is_everywhere(j->platform))
        return fault_set(
            &j->fault, ERR_WRONG_TENANT, "",
            "a stream has records of all tenants: only an admin of tenant * may register its key, "
            "or withdraw it");
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = read_name(j, body, "node", (struct str){0}, &k->node);
    if (err == ERR_OK) err = read_name(j, body, "journal", STR("0"), &k->journal);
    return err == ERR_OK ? read_public_key(j, body, k) : err;
}

void engine_trust_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, trust_work);
    struct engine_key *k = job_detail(j, struct engine_key);
    job_send_if(j, x, read_trust(j, k, x), QUEUE_WRITER);
}

struct distrusting {
    struct engine_key key;
    struct str reason;
};

static void distrust_work(struct job *j, struct store *s)
{
    const struct distrusting *d = j->detail;
    uint64_t from = 0;
    j->err = engine_key_distrust(s, &d->key, d->reason, &j->actor, &from, &j->fault);
    if (j->err != ERR_OK) return;
    log_text(LOG_WARNING, "engine_key_distrusted",
             "node %.*s journal %.*s: from record %llu on, by %.*s", STR_FORMAT(d->key.node),
             STR_FORMAT(d->key.journal), (unsigned long long)from, STR_FORMAT(j->actor.principal));
    buf_printf(&j->reply, "{\"distrusted_from\":%llu,\"journal\":", (unsigned long long)from);
    json_put_string(&j->reply, d->key.journal);
    buf_put_literal(&j->reply, ",\"node\":");
    json_put_string(&j->reply, d->key.node);
    buf_put_byte(&j->reply, '}');
}

void engine_distrust_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, distrust_work);
    struct distrusting *d = job_detail(j, struct distrusting);
    struct json *body;
    enum err err = read_trust(j, &d->key, x);
    if (err == ERR_OK) err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = read_reason(j, body, &d->reason);
    job_send_if(j, x, err, QUEUE_WRITER);
}

static void trusted_work(struct job *j, struct store *s)
{
    j->err = engine_key_list(s, &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

void engine_trusted_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, trusted_work);
    bool everywhere = platform_is_everywhere(context);
    job_send_if(j, x,
                everywhere ? ERR_OK
                           : fault_set(&j->fault, ERR_WRONG_TENANT, "",
                                       "streams have records of all tenants: only an admin of "
                                       "tenant * may list their keys"),
                QUEUE_READER);
}

/* ---- forgetting ---- */

struct forgetting {
    struct stream_forget what;
    struct stream_forgotten done;
};

static void forget_work(struct job *j, struct store *s)
{
    struct forgetting *d = j->detail;
    const struct stream_forget *what = &d->what;
    j->err = stream_forget(s, what, &j->actor, &d->done, &j->fault);
    if (j->err != ERR_OK) return;
    const struct stream_forgotten done = d->done;
    log_text(LOG_WARNING, "streams_forgotten", "%llu of node %.*s%s, by %.*s",
             (unsigned long long)done.streams, STR_FORMAT(what->node),
             done.engine ? ", and the engine" : "", STR_FORMAT(j->actor.principal));
    buf_printf(&j->reply, "{\"engine\":%s,\"forgotten\":%llu,\"kept\":%llu,\"node\":",
               done.engine ? "true" : "false", (unsigned long long)done.streams,
               (unsigned long long)done.kept);
    json_put_string(&j->reply, what->node);
    buf_put_byte(&j->reply, '}');
}

static void forget_done(struct job *j)
{
    const struct forgetting *d = j->detail;
    if (j->err == ERR_OK && d->done.engine) followers_remove(j->platform, d->what.node);
    job_answer(j);
}

static enum err read_force(struct job *j, const struct json *body, bool *ret)
{
    const struct json *v = member(body, "force");
    *ret = v != NULL && v->type == JSON_TRUE;
    if (v == NULL || v->type == JSON_TRUE || v->type == JSON_FALSE) return ERR_OK;
    return wrong(&j->fault, ERR_WRONG_TYPE, "force", "must be true or false");
}

static enum err read_forget(struct job *j, struct stream_forget *what,
                            const struct http_exchange *x)
{
    struct json *body;
    if (!platform_is_everywhere(j->platform))
        return fault_set(
            &j->fault, ERR_WRONG_TENANT, "",
            "a stream has records of all tenants: only an admin of tenant * may forget one");
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = read_name(j, body, "node", (struct str){0}, &what->node);
    if (err == ERR_OK && member(body, "journal") != NULL)
        err = read_name(j, body, "journal", (struct str){0}, &what->journal);
    if (err == ERR_OK) err = read_force(j, body, &what->force);
    if (err == ERR_OK) err = read_reason(j, body, &what->reason);
    return err;
}

void stream_forget_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, forget_work);
    struct forgetting *d = job_detail(j, struct forgetting);
    j->done = forget_done;
    job_send_if(j, x, read_forget(j, &d->what, x), QUEUE_WRITER);
}

/* ---- the list ---- */

struct page {
    uint64_t limit, cursor;
};

static void list_work(struct job *j, struct store *s)
{
    const struct page *page = j->detail;
    j->err = engines_list(s, j->actor.now_ms, page->limit, page->cursor, &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

void engine_list_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, list_work);
    struct page *page = job_detail(j, struct page);
    enum err err = api_page(x, &page->limit, &page->cursor, &j->fault);
    if (err == ERR_OK && !platform_is_everywhere(p))
        err = fault_set(&j->fault, ERR_WRONG_TENANT, "",
                        "engines serve all tenants: only an admin of tenant * may list them");
    job_send_if(j, x, err, QUEUE_READER);
}
