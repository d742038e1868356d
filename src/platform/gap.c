/* gap.c - POST /api/v1/audit/gaps: somebody answers for records that will never come. */
#include "pipeline/ingest/gap.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "event/event.h"
#include "json/json.h"
#include "platform/platform.h"

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

/* `otherwise` where it is absent; absent itself: it is needed. */
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
    if (*ret == 0 || *ret > EVENT_COUNT_MAX) /* the event of it has a count */
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
    static const char *const members[] = {"from_seq", "next_seq"};
    struct json *body;
    if (!platform_is_everywhere(j->platform))
        return fault_set(
            &j->fault, ERR_WRONG_TENANT, "",
            "a stream has records of all tenants: only an admin of tenant * may give some up");
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = check_case(body, members, 2, &j->fault);
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
