/* answer.c - a job's outcome becomes its client's reply. */
#include "platform/platform.h"

#include "base/log.h"
#include "json/json.h"

static void add_header(struct http_reply *r, struct str name, struct str value)
{
    if (r->header_count < HTTP_REPLY_HEADERS_MAX)
        r->headers[r->header_count++] = (struct http_header){.name = name, .value = value};
}

static void send(struct job *j, struct http_reply *r)
{
    struct platform *p = j->platform;
    add_header(r, STR("X-Request-ID"),
               str_is_absent(j->echo_id) ? str_of(j->request_id, ID_TEXT) : j->echo_id);
    if (j->etag[0] != '\0') add_header(r, STR("ETag"), str_from(j->etag));
    if (r->status == 401) add_header(r, STR("WWW-Authenticate"), STR("Bearer"));
    if (r->status == 503) add_header(r, STR("Retry-After"), STR("1"));
    api_count_reply(&p->api, r->status);
    if (j->has_token) http_resume(p->server, j->token, r);
    job_destroy(j);
}

static void send_fault(struct job *j)
{
    char bytes[4096];
    struct buf head = buf_over(bytes, sizeof bytes);
    buf_put_byte(&head, '{');
    api_put_fault(&head, &j->fault, (struct str){0});
    struct buf body;
    buf_init(&body, sizeof bytes, JOB_REPLY_MAX);
    buf_put(&body, buf_view(&head));
    buf_put(&body, buf_view(&j->reply));
    buf_put_byte(&body, '}');
    struct http_reply r = {.status = err_status(j->err), .body = buf_view(&body)};
    j->etag[0] = '\0';
    send(j, &r);
    buf_fini(&body);
}

/* What the store says of itself, in codes that clients know (schemas/errors.md);
 * it is logged, being ours. */
static enum err public_err(const struct job *j)
{
    enum err err = j->err;
    switch (err) {
    case ERR_INTERNAL:
    case ERR_EXISTS:
    case ERR_END: err = ERR_INTERNAL; break;
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_NO_SPACE:
    case ERR_FULL: err = ERR_STORE_UNAVAILABLE; break;
    case ERR_TIMEOUT: err = ERR_OVERLOADED; break;
    default: return err;
    }
    log_line(LOG_ERROR, "request_failed", "code", err_code(j->err), "why", j->fault.text, NULL);
    return err;
}

/* What was read, or that there was nothing, is not told to a key that has ended meanwhile. What was
 * written is. */
static void judge_key(struct job *j)
{
    struct id key;
    bool was_read = j->has_token && j->queue == QUEUE_READER;
    if (!was_read || !id_read("key_", j->actor.key_id, &key)) return;
    enum err err = platform_key_holds(j->platform, key);
    if (err == ERR_OK) return;
    j->err = fault_plain(&j->fault, err);
    buf_clear(&j->reply);
}

/* Refused by the writer, by judge_key(), or where it waited for a change. */
static void note_ended_key(const struct job *j)
{
    struct id key;
    if (err_status(j->err) == 401 && id_read("key_", j->actor.key_id, &key))
        auth_failed_note_ended(j->platform, key, &j->client, j->err);
}

void job_answer(struct job *j)
{
    if (j->err == ERR_OK && j->reply.overflow)
        j->err = fault_set(&j->fault, ERR_FULL, "", "the answer is too large");
    /* What was written is told, however much waits: and such answers are small. */
    bool may_refuse = j->has_token && j->queue == QUEUE_READER && !j->is_vital;
    if (j->err == ERR_OK && may_refuse &&
        !http_server_has_room(j->platform->server, j->reply.size)) {
        j->err = api_no_room(&j->fault);
        buf_clear(&j->reply);
    }
    if (j->err != ERR_OK) j->err = public_err(j);
    judge_key(j);
    if (j->err != ERR_OK) {
        note_ended_key(j);
        j->fault.err = j->err;
        send_fault(j);
        return;
    }
    struct http_reply r = {.status = j->status, .body = buf_view(&j->reply)};
    send(j, &r);
}

void job_refuse(struct job *j, enum err err, const char *text)
{
    j->err = fault_set(&j->fault, err, "", "%s", text);
    buf_clear(&j->reply);
    job_answer(j);
}
