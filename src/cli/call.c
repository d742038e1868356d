/* call.c - one request to one of the two programs. A failure is printed once. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/key.h"
#include "access/token.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/world.h"
#include "cli/cli.h"
#include "http/client.h"
#include "policy/policy.h"
#include "tls/tls.h"

enum {
    CALL_MS = 30000,
    REPLY_MAX = LIMIT_REPLY_BYTES,
    CREDENTIAL_MAX = TOKEN_TEXT_MAX + 2,
    TARGET_MAX = 4096
};

static const char *const program[] = {
    [SIDE_ENGINE] = "writ-engine", [SIDE_PLATFORM] = "writ-platform"};

struct str side_address(const struct cli *c, enum side side)
{
    return side == SIDE_ENGINE ? c->engine : c->platform;
}

/* ---- the key ---- */

bool is_token_text(struct str text)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t dots = 0;
    if (!str_starts(text, STR("ey")) || text.size > TOKEN_TEXT_MAX) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '.')
            dots++;
        else if (text.bytes[i] == '\0' || strchr(letters, text.bytes[i]) == NULL)
            return false;
    }
    return dots == 2;
}

int cli_credential(struct cli *c, struct str *ret)
{
    struct str text = environment_value(c, "WRIT_KEY");
    if (c->key_size > 0) {
        *ret = str_of(c->key, c->key_size);
        return DONE;
    }
    struct stat s;
    bool is_file =
        str_is_absent(c->key_file) || (stat(c->key_file.bytes, &s) == 0 && S_ISREG(s.st_mode));
    if (!str_is_absent(c->key_file)) {
        if (is_file && (s.st_mode & (S_IRGRP | S_IROTH)) != 0)
            return cli_complain(
                c, USAGE,
                "%s can be read by other users: chmod 600 it, and rotate the key (writ key create "
                "--output FILE makes files that only their owner can read)",
                c->key_file.bytes);
        int code = file_text(c, c->key_file, CREDENTIAL_MAX, &text);
        if (code != DONE) return code;
    }
    while (text.size > 0 && (unsigned char)text.bytes[text.size - 1] <= ' ') text.size--;
    struct id id;
    if (text.size == 0)
        return cli_complain(
            c, USAGE,
            "no API key: put one in WRIT_KEY, or in a file and name that with --key-file");
    if (!credential_read(text, &id) && !is_token_text(text))
        return cli_complain(
            c, USAGE,
            "%s holds no valid API key or token. A key is wk_ and 77 more characters; a token is "
            "the text that writ token mint printed. Copy it again",
            str_is_absent(c->key_file) ? "WRIT_KEY" : c->key_file.bytes);
    *ret = text;
    if (is_file) return DONE;
    check(text.size <= sizeof c->key); /* both forms have no other characters */
    memcpy(c->key, text.bytes, text.size);
    c->key_size = text.size;
    return DONE;
}

/* ---- targets ---- */

struct buf cli_scratch(struct cli *c, size_t size)
{
    char *bytes = arena_bytes(&c->arena, size);
    check(bytes != NULL); /* the arena is far larger than the memory that one run needs */
    return buf_over(bytes, size);
}

void target_init(struct cli *c, struct target *t, const char *path)
{
    *t = (struct target){.text = cli_scratch(c, TARGET_MAX)};
    buf_put(&t->text, str_from(path));
}

void target_segment(struct target *t, struct str segment)
{
    buf_put_byte(&t->text, '/');
    http_put_encoded(&t->text, segment);
}

void target_query(struct target *t, const char *name, struct str value)
{
    if (str_is_absent(value)) return;
    buf_put_byte(&t->text, t->has_query ? '&' : '?');
    t->has_query = true;
    buf_put(&t->text, str_from(name));
    buf_put_byte(&t->text, '=');
    http_put_encoded(&t->text, value);
}

/* "*" is sent like any other tenant: it has the keys for every tenant, and their history. */
void target_tenant(struct target *t, const struct cli *c)
{
    target_query(t, "tenant_id", c->tenant);
}

struct str target_text(const struct target *t)
{
    /* a target that was cut would be another request */
    return t->text.overflow ? (struct str){0} : buf_view(&t->text);
}

/* ---- bodies ---- */

static void put_name(struct buf *out, const char *name)
{
    if (out->size > 1) buf_put_byte(out, ',');
    json_put_string(out, str_from(name));
    buf_put_byte(out, ':');
}

void put_text_member(struct buf *out, const char *name, struct str text)
{
    if (str_is_absent(text)) return;
    put_name(out, name);
    json_put_string(out, text);
}

void put_raw_member(struct buf *out, const char *name, struct str json)
{
    if (str_is_absent(json)) return;
    put_name(out, name);
    buf_put(out, json);
}

void put_list_member(struct buf *out, const char *name, struct str list)
{
    if (str_is_absent(list)) return;
    put_name(out, name);
    buf_put_byte(out, '[');
    bool first = true;
    for (struct str item; str_split(&list, ',', &item);) {
        while (item.size > 0 && item.bytes[0] == ' ') item = str_skip(item, 1);
        while (item.size > 0 && item.bytes[item.size - 1] == ' ') item.size--;
        if (item.size == 0) continue;
        if (!first) buf_put_byte(out, ',');
        json_put_string(out, item);
        first = false;
    }
    buf_put_byte(out, ']');
}

/* ---- the call ---- */

static int cannot_reach(struct cli *c, const struct request *r, struct reply *ret)
{
    struct str address = side_address(c, r->side);
    const struct http_client *client = c->clients[r->side];
    bool may_be_done =
        strcmp(r->method, "GET") != 0 && client != NULL && http_client_has_sent(client);
    if (!r->quiet)
        cli_complain(
            c, UNREACHABLE, "%s at %.*s %s: %s%s", program[r->side], STR_FORMAT(address),
            may_be_done ? "received the request and has not answered" : "cannot be reached",
            ret->fault.text,
            may_be_done ? ". It may have done the work: check before you repeat the command" : "");
    ret->status = 0;
    return UNREACHABLE;
}

/* The texts are arguments or variables, so they end with a NUL. */
static enum err tls_for(struct cli *c, struct str address, struct fault *f)
{
    if (c->tls != NULL || !str_starts(address, STR("https://"))) return ERR_OK;
    const struct tls_files files = {.ca_file = c->ca_file.bytes,
                                    .cert_file = c->cert_file.bytes,
                                    .key_file = c->cert_key_file.bytes,
                                    .insecure_peers = c->insecure_peers,
                                    .prefix = "--tls-"};
    return tls_create(&files, &c->tls, f);
}

static int client_for(struct cli *c, const struct request *r, struct reply *ret)
{
    if (c->clients[r->side] != NULL) return DONE;
    enum err e = tls_for(c, side_address(c, r->side), &ret->fault);
    if (e != ERR_OK) return cli_complain_fault(c, USAGE, &ret->fault);
    e = http_client_create(side_address(c, r->side), c->tls, &c->clients[r->side], &ret->fault);
    if (e == ERR_OK) return DONE;
    if (e == ERR_BAD_VALUE)
        return cli_complain(c, USAGE, "--%s: %s", r->side == SIDE_ENGINE ? "engine" : "platform",
                            ret->fault.text);
    return cannot_reach(c, r, ret);
}

void cli_tell_problems(struct cli *c, const char *kind, const struct json *list)
{
    if (!json_is_array(list)) return;
    for (const struct json *d = list->child; d != NULL; d = d->next) {
        struct str path = member_shown(c, d, "path"), message = member_shown(c, d, "message"),
                   policy = member_shown(c, d, "policy");
        fprintf(c->err, "  %s%.*s%sline %llu, column %llu: ", kind, STR_FORMAT(policy),
                policy.size > 0 ? ": " : "", (unsigned long long)json_u64(d, STR("line"), 0),
                (unsigned long long)json_u64(d, STR("column"), 0));
        struct policy_problem p = {0};
        snprintf(p.path, sizeof p.path, "%.*s", STR_FORMAT(path));
        snprintf(p.message, sizeof p.message, "%.*s", STR_FORMAT(message));
        fprintf(c->err, "%s%s%s\n", p.path, path.size > 0 ? ": " : "", policy_problem_short(&p));
    }
}

static int is_no_answer(struct cli *c, const struct request *r)
{
    return cli_complain(
        c, REFUSED, "the program at %.*s is not %s, or a proxy has changed its answer: check --%s",
        STR_FORMAT(side_address(c, r->side)), program[r->side],
        r->side == SIDE_ENGINE ? "engine" : "platform");
}

static int was_refused(struct cli *c, const struct request *r, const struct reply *ret)
{
    if (r->quiet) return REFUSED;
    struct str error = member_shown(c, ret->root, "error"),
               code = member_shown(c, ret->root, "code");
    if (c->json && ret->root != NULL) print_json(c, ret->body);
    if (error.size == 0)
        return cli_complain(c, REFUSED, "%s answered %d", program[r->side], ret->status);
    cli_complain(c, REFUSED, "%.*s (%d %.*s)", STR_FORMAT(error), ret->status, STR_FORMAT(code));
    if (str_equal(code, STR("tenant_required"))) fprintf(c->err, "  name it with --tenant NAME\n");
    if (r->hint != NULL && str_equal(code, str_from(r->hint_code)))
        fprintf(c->err, "  %s\n", r->hint);
    cli_tell_problems(c, "", json_get(ret->root, STR("details")));
    return REFUSED;
}

static void answer_keep(struct cli *c, const struct http_answer *a, bool is_raw, struct reply *ret)
{
    *ret = (struct reply){.status = a->status, .body = arena_copy(&c->arena, a->body)};
    ret->date = arena_copy(&c->arena, http_answer_header(a, STR("Date")));
    ret->etag = arena_copy(&c->arena, http_answer_header(a, STR("ETag")));
    if (is_raw && a->status < 300) return;
    struct fault ignored;
    struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    if (json_read(ret->body, &options, &c->arena, &ret->root, &ignored) != ERR_OK) ret->root = NULL;
}

int cli_call(struct cli *c, const struct request *r, struct reply *ret)
{
    *ret = (struct reply){0};
    struct str key = {0};
    if (str_is_absent(r->target))
        return cli_complain(
            c, USAGE, "the names are too long for one request: at most %d bytes, percent-encoded",
            TARGET_MAX);
    int code = r->without_key ? DONE : cli_credential(c, &key);
    if (code == DONE) code = client_for(c, r, ret);
    if (code != DONE) return code;

    struct buf bearer = cli_scratch(c, TOKEN_TEXT_MAX + 16);
    buf_put_literal(&bearer, "Bearer ");
    buf_put(&bearer, key);
    struct http_call what = {.method = r->method,
                             .target = r->target,
                             .body = r->body,
                             .timeout_ms = r->timeout_ms == 0 ? CALL_MS : r->timeout_ms,
                             .reply_max = REPLY_MAX};
    const struct http_header headers[] = {
        {STR("Authorization"), r->without_key ? (struct str){0} : buf_view(&bearer)},
        {STR("If-Match"), r->if_match},
        {STR("If-None-Match"), r->if_none_match}};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (!str_is_absent(headers[i].value)) what.headers[what.header_count++] = headers[i];
    if (!str_is_absent(r->body)) what.content_type = STR("application/json");

    struct http_answer answer;
    if (http_call(c->clients[r->side], &what, false, &answer, &ret->fault) != ERR_OK)
        return cannot_reach(c, r, ret);
    answer_keep(c, &answer, r->is_raw, ret);
    if (c->arena.overflow && !r->may_overflow)
        return cli_complain(
            c, REFUSED, "the answer is larger than this command's memory; use a smaller --limit");
    if (ret->status < 200 || ret->status >= 300) return was_refused(c, r, ret);
    bool is_callers = r->quiet || r->may_overflow || r->is_raw;
    return is_callers || json_is_object(ret->root) ? DONE : is_no_answer(c, r);
}

uint64_t reply_now_ms(const struct reply *r)
{
    struct tm t = {0};
    bool has_date =
        r->date.size > 0 && strptime(r->date.bytes, "%a, %d %b %Y %H:%M:%S", &t) != NULL;
    time_t at = has_date ? timegm(&t) : -1;
    return at < 0 ? world_now_ms() : (uint64_t)at * 1000;
}

int cli_post(struct cli *c, const char *path, const struct buf *body, struct reply *ret)
{
    struct target target;
    if (body->overflow)
        return cli_complain(c, USAGE, "the request is larger than 8 KiB; shorten --reason");
    target_init(c, &target, path);
    const struct request r = {.side = SIDE_PLATFORM,
                              .method = "POST",
                              .target = target_text(&target),
                              .body = buf_view(body)};
    int code = cli_call(c, &r, ret);
    if (code == DONE && c->json) print_json(c, ret->body);
    return code;
}
