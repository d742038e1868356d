#include "hook/ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/limits.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "hook/answer.h"
#include "hook/last_word.h"
#include "http/client.h"
#include "tls/tls.h"

enum {
    REASON_BYTES = 2048,
    SECRET_BYTES = 4096,
    REPLY_BYTES = 1 << 20,
    TARGET_BYTES = 256,
    REVIEW_ID_MOST = 64,
    SAFE_CALL_SHOWN = 500,
    ROUNDS_MOST = 16, /* of a review whose redemption needs another review */
    PAUSE_MS = 250,   /* before an engine that has not answered is asked to wait again */
    MARGIN_MS = 2000, /* the deadline is the timer's; a call's own time-out comes after it */
    ANSWER_BYTES_MAX = 256 << 20
};

struct ask {
    const struct hook_options *options;
    const struct hook_call *call;
    const struct hook_request *request;
    struct arena *arena;
    struct http_client *client;
    struct str bearer;
    struct str review; /* absent: none */
    struct str note;   /* of the reviewer, to go with an allow; absent: none */
};

struct reply {
    int status;        /* 0: no answer */
    struct json *root; /* NULL: no JSON */
    struct fault fault;
};

/* ---- denials ---- */

static void prepare(const struct hook_agent *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void prepare_list(const struct hook_agent *agent, const char *format, va_list arguments)
{
    char text[REASON_BYTES];
    int size = vsnprintf(text, sizeof text, format, arguments);
    size_t kept = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    last_word_prepare(agent, str_cut(str_of(text, kept), kept));
}

static void prepare(const struct hook_agent *agent, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    prepare_list(agent, format, arguments);
    va_end(arguments);
}

void hook_refuse(const struct hook_agent *agent, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    prepare_list(agent, format, arguments);
    va_end(arguments);
    last_word_deny();
}

/* A member for a sentence: bounded, so that the sentence reaches its end. */
static struct str shown(const struct json *object, const char *name)
{
    return str_cut(json_text(object, str_from(name)), 600);
}

/* ---- calls ---- */

static void call_engine(struct ask *a, const char *method, struct str target, struct str body,
                        struct str retry_key, struct reply *ret)
{
    *ret = (struct reply){0};
    struct http_call what = {.method = method,
                             .target = target,
                             .body = body,
                             .timeout_ms = (uint32_t)(a->options->deadline_ms + MARGIN_MS),
                             .reply_max = REPLY_BYTES};
    what.headers[what.header_count++] = (struct http_header){STR("Authorization"), a->bearer};
    if (!str_is_absent(body)) what.content_type = STR("application/json");
    if (!str_is_absent(retry_key))
        what.headers[what.header_count++] = (struct http_header){STR("Idempotency-Key"), retry_key};
    struct http_answer answer;
    /* only a request with a key of its own may be sent twice */
    if (http_call(a->client, &what, !str_is_absent(retry_key), &answer, &ret->fault) != ERR_OK)
        return;
    ret->status = answer.status;
    struct fault ignored;
    struct str text = arena_copy(a->arena, answer.body);
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    if (str_is_absent(text) ||
        json_read(text, &options, a->arena, &ret->root, &ignored) != ERR_OK ||
        !json_is_object(ret->root))
        ret->root = NULL;
}

static _Noreturn void refuse_failure(struct ask *a, const struct reply *r)
{
    const struct hook_agent *agent = a->options->agent;
    struct str error = shown(r->root, "error"), code = shown(r->root, "code");
    if (r->status == 0)
        hook_refuse(agent, "The engine cannot be asked: %s. The call is denied.", r->fault.text);
    if (r->status != 200 && error.size > 0)
        hook_refuse(agent, "The engine refused the question: %.*s (%d %.*s). The call is denied.",
                    STR_FORMAT(error), r->status, STR_FORMAT(code));
    hook_refuse(agent, "The engine's answer (status %d) cannot be understood. The call is denied.",
                r->status);
}

/* ---- answers ---- */

static _Noreturn void allow(struct ask *a)
{
    struct buf out;
    buf_init(&out, 4 << 10, ANSWER_BYTES_MAX);
    answer_put_allow(&out, a->options->agent, a->options->grant, a->note);
    if (out.overflow) hook_refuse(a->options->agent, "There is no memory for an answer.");
    last_word_allow(buf_view(&out));
}

static _Noreturn void refuse_compute(struct ask *a, struct str safe_tool,
                                     const struct json *safe_args, const char *why)
{
    struct buf text;
    buf_init(&text, 1 << 10, REPLY_BYTES);
    if (safe_args != NULL) json_put_canonical(&text, safe_args);
    struct str args = str_cut(buf_view(&text), SAFE_CALL_SHOWN);
    hook_refuse(a->options->agent,
                "This call is not permitted as it is. Permitted is: %.*s %.*s%s (%s)",
                STR_FORMAT(safe_tool), STR_FORMAT(args), args.size < text.size ? "…" : "", why);
}

static _Noreturn void compute(struct ask *a, const struct json *root)
{
    const struct hook_options *o = a->options;
    struct str safe_tool = json_text(root, STR("safe_tool"));
    const struct json *safe_args = json_get(root, STR("safe_args"));
    struct buf input, out;
    struct fault f;
    buf_init(&input, 4 << 10, ANSWER_BYTES_MAX);
    enum err err =
        hook_rewrite_make(o->agent, a->call, a->request, safe_tool, safe_args, &input, &f);
    if (err != ERR_OK) refuse_compute(a, safe_tool, safe_args, f.text);
    if (o->agent->rewrite == HOOK_REWRITES_BY_GRANTING && !o->grant_compute)
        refuse_compute(a, safe_tool, safe_args,
                       "the hook may not pass it on without --grant-compute");
    buf_init(&out, input.size + 256, ANSWER_BYTES_MAX);
    answer_put_rewrite(&out, o->agent, o->grant, buf_view(&input));
    if (out.overflow) hook_refuse(o->agent, "There is no memory for an answer.");
    last_word_allow(buf_view(&out));
}

/* Ends the process, unless a person has to decide. */
static void answer(struct ask *a, const struct reply *r)
{
    const struct json *root = r->root;
    struct str verdict = json_text(root, STR("decision"));
    bool is_live = str_equal(json_text(root, STR("mode")), STR("live"));
    if (r->status != 200 || !is_live) refuse_failure(a, r);
    if (str_equal(verdict, STR("human_review"))) return;
    const struct json *allowed = json_get(root, STR("allowed"));
    bool is_allowed = allowed != NULL && allowed->type == JSON_TRUE;
    if (str_equal(verdict, STR("allow")) && is_allowed) allow(a);
    if (str_equal(verdict, STR("compute"))) compute(a, root);
    if (!str_equal(verdict, STR("deny"))) refuse_failure(a, r);
    hook_refuse(a->options->agent, "%.*s (denied by %.*s; trace %.*s)",
                STR_FORMAT(shown(root, "reason")), STR_FORMAT(shown(root, "rule")),
                STR_FORMAT(shown(root, "trace_id")));
}

/* ---- reviews ---- */

static struct str review_target(const struct ask *a, const char *what, char to[TARGET_BYTES])
{
    struct buf out = buf_over(to, TARGET_BYTES);
    buf_put_literal(&out, "/v1/queue/");
    http_put_encoded(&out, a->review);
    buf_put(&out, str_from(what));
    return buf_view(&out);
}

static void prepare_wait(const struct ask *a, const struct json *root)
{
    prepare(a->options->agent,
            "A person has to approve this call, and has not decided yet: %.*s Review %.*s waits. "
            "Ask again with the same call: after an approval it runs.",
            STR_FORMAT(shown(root, "reason")), STR_FORMAT(a->review));
}

/* After a failure. The review lives on in the engine, so the wait begins again. */
static void pause_before_wait(void)
{
    const struct timespec t = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&t, NULL);
}

static _Noreturn void refuse_review(struct ask *a, const struct json *root)
{
    const struct hook_agent *agent = a->options->agent;
    struct str status = json_text(root, STR("status")), by = shown(root, "resolved_by"),
               note = shown(root, "resolution_note");
    if (str_equal(status, STR("denied")))
        hook_refuse(agent, "%.*s denied this call%s%.*s (review %.*s)", STR_FORMAT(by),
                    note.size > 0 ? ": " : "", STR_FORMAT(note), STR_FORMAT(a->review));
    if (str_equal(status, STR("expired")))
        hook_refuse(agent, "The time for an approval of this call is over (review %.*s).",
                    STR_FORMAT(a->review));
    if (str_equal(status, STR("cancelled")))
        hook_refuse(agent, "The review of this call was cancelled (%.*s; review %.*s).",
                    STR_FORMAT(shown(root, "cancelled_by")), STR_FORMAT(a->review));
    hook_refuse(agent, "Review %.*s is %.*s: the call is denied.", STR_FORMAT(a->review),
                STR_FORMAT(status));
}

/* Returns when the review is approved. */
static void wait_for_people(struct ask *a)
{
    char to[TARGET_BYTES];
    struct str target = review_target(a, "/wait?timeout_ms=50000", to);
    for (;;) {
        struct reply r;
        call_engine(a, "GET", target, (struct str){0}, (struct str){0}, &r);
        struct str status = json_text(r.root, STR("status"));
        if (r.status >= 400 && r.status < 500) refuse_failure(a, &r);
        if (r.status != 200 || status.size == 0) {
            pause_before_wait();
            continue;
        }
        if (str_equal(status, STR("pending"))) continue;
        if (!str_equal(status, STR("approved"))) refuse_review(a, r.root);
        struct str note = shown(r.root, "resolution_note");
        if (note.size > 0)
            a->note = arena_printf(a->arena, "%.*s approved this call: %.*s",
                                   STR_FORMAT(shown(r.root, "resolved_by")), STR_FORMAT(note));
        return;
    }
}

static void take_review(struct ask *a, const struct reply *r)
{
    struct str id = json_text(r->root, STR("review_id"));
    if (!str_starts(id, STR("rev_")) || id.size > REVIEW_ID_MOST) refuse_failure(a, r);
    a->review = id;
}

/* ---- the conversation ---- */

static void connect_engine(struct ask *a)
{
    const struct hook_options *o = a->options;
    struct fault f;
    struct tls *tls = NULL;
    char secret[SECRET_BYTES];
    size_t size;
    /* the words of a command line and of the environment end with a NUL */
    if (secret_read("--key-file", o->key_file.bytes, secret, sizeof secret, &size, &f) != ERR_OK)
        hook_refuse(o->agent, "%s. The call is denied.", f.text);
    a->bearer = arena_printf(a->arena, "Bearer %s", secret);
    memory_wipe(secret, sizeof secret);
    if (str_is_absent(a->bearer)) hook_refuse(o->agent, "There is no memory for a request.");
    const struct tls_files files = {.ca_file = o->ca_file.bytes,
                                    .cert_file = o->cert_file.bytes,
                                    .key_file = o->cert_key_file.bytes,
                                    .prefix = "--tls-"};
    bool is_tls = str_starts(o->engine, STR("https://"));
    if (is_tls && tls_create(&files, &tls, &f) != ERR_OK)
        hook_refuse(o->agent, "%s. The call is denied.", f.text);
    if (http_client_create(o->engine, tls, &a->client, &f) != ERR_OK)
        hook_refuse(o->agent, "--engine: %s. The call is denied.", f.text);
}

void hook_ask(const struct hook_options *options, const struct hook_call *call,
              const struct hook_request *request, struct arena *arena)
{
    struct ask a = {.options = options, .call = call, .request = request, .arena = arena};
    struct str target = STR("/v1/agent/authorize"), retry_key = {0};
    char to[TARGET_BYTES];
    connect_engine(&a);
    for (int round = 0; round < ROUNDS_MOST; round++) {
        struct reply r;
        call_engine(&a, "POST", target, request->body, retry_key, &r);
        answer(&a, &r);
        take_review(&a, &r);
        prepare_wait(&a, r.root);
        wait_for_people(&a);
        uint8_t random[16];
        char key_text[2 * sizeof random + 8];
        struct buf key = buf_over(key_text, sizeof key_text);
        world_random(random, sizeof random);
        buf_put_literal(&key, "hook-");
        buf_put_hex(&key, random, sizeof random);
        retry_key = arena_copy(arena, buf_view(&key));
        target = review_target(&a, "/redeem", to);
    }
    hook_refuse(options->agent, "Review %.*s was not the last one: ask again with the same call.",
                STR_FORMAT(a.review));
}
