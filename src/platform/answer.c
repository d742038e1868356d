/* answer.c - a job's outcome becomes its client's reply. */
#include "base/check.h"
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
    if (!str_is_absent(j->cookie)) {
        add_header(r, STR("Set-Cookie"), j->cookie);
        add_header(r, STR("Cache-Control"), STR("no-store"));
    }
    if (!str_is_absent(j->location)) {
        add_header(r, STR("Location"), j->location);
        if (str_is_absent(j->cookie)) add_header(r, STR("Cache-Control"), STR("no-store"));
    }
    if (!str_is_absent(j->flow_cookie)) add_header(r, STR("Set-Cookie"), j->flow_cookie);
    if (r->status == 401) add_header(r, STR("WWW-Authenticate"), STR("Bearer"));
    if (r->status == 503) add_header(r, STR("Retry-After"), STR("1"));
    api_count_reply(&p->api, r->status);
    if (j->has_token) http_resume(p->server, j->token, r);
    memory_wipe(j->cookie_text, sizeof j->cookie_text);
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
    buf_put_byte(&head, '}'); /* if there is no memory for the rest */
    struct http_reply r = {.status = err_status(j->err),
                           .body = buf_view(body.overflow ? &head : &body)};
    j->etag[0] = '\0';
    j->cookie = (struct str){0};
    send(j, &r);
    buf_fini(&body);
}

/* Maps an internal error of the store to a code that clients know (schemas/errors.md). The internal
 * error is logged, because the platform must solve it. */
static enum err public_err(const struct job *j)
{
    static const enum err public[ERR_COUNT] = {
        [ERR_INTERNAL] = ERR_INTERNAL,
        [ERR_EXISTS] = ERR_INTERNAL,
        [ERR_END] = ERR_INTERNAL,
        [ERR_IO] = ERR_STORE_UNAVAILABLE,
        [ERR_CORRUPT] = ERR_STORE_UNAVAILABLE,
        [ERR_NO_SPACE] = ERR_STORE_UNAVAILABLE,
        [ERR_FULL] = ERR_STORE_UNAVAILABLE,
        [ERR_TIMEOUT] = ERR_OVERLOADED,
    };
    enum err err = public[j->err];
    if (err == ERR_OK) return j->err; /* already a public code */
    log_line(LOG_ERROR, "request_failed", "code", err_code(j->err), "why", j->fault.text, NULL);
    return err;
}

/* A key may end while its job runs. Then the result of a read, or its absence, is not sent. The
 * result of a write is sent. */
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

/* The key's end is noted wherever it was found: by the writer, by judge_key(), or while the job
 * waited for a change. */
static void note_ended_key(const struct job *j)
{
    struct id key;
    if (err_status(j->err) == 401 && id_read("key_", j->actor.key_id, &key))
        auth_failed_note_ended(j->platform, key, &j->client, j->err);
}

void job_answer(struct job *j)
{
    if (j->err == ERR_OK && j->reply.overflow) {
        j->err = j->reply.starved
                     ? api_no_memory(&j->fault)->err
                     : fault_set(&j->fault, ERR_FULL, "",
                                 "the answer has more than 256 MiB: ask for less at once");
        buf_clear(&j->reply);
    }
    /* The result of a write is always sent, however full the send buffers are: such answers are
     * small. */
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

/* ---- on its way ---- */

void job_send(struct job *j, struct http_exchange *x, enum job_queue q)
{
    struct platform *p = j->platform;
    struct fault f;
    if (work_judge(j, q, &f) != ERR_OK) {
        job_destroy(j);
        platform_refuse(p, x, &f);
        return;
    }
    j->token = http_defer(x);
    j->has_token = true;
    check(job_queue(j, q));
}

void job_send_on(struct job *j, enum job_queue q)
{
    struct fault f;
    enum err err = work_judge(j, q, &f);
    if (err == ERR_OK)
        check(job_queue(j, q));
    else
        job_refuse(j, err, f.text);
}

void job_send_if(struct job *j, struct http_exchange *x, enum err err, enum job_queue q)
{
    if (platform_failed(j->platform, x, err, &j->fault))
        job_destroy(j);
    else
        job_send(j, x, q);
}
