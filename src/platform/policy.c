/* policy.c - /api/v1/policies: a reader checks the documents, then the writer stores them.
 *
 * Checking (parsing, compiling, the document's own tests) may take long for a large document, so it
 * does not run on the writer. It does not depend on what is stored. A rollback checks the old text
 * again, since it must load in today's engines. */
#include "policy/policy.h"

#include "base/limits.h"
#include "event/event.h"
#include "store/policy_store.h"
#include "platform/limits_warn.h"
#include "platform/platform.h"
#include "platform/policy_apply.h"

struct policy_detail {
    struct policy_change change;
    char digest[SHA256_HEX];
    /* as requested; of a change: the version to put in force again, 0: the change's own text */
    uint64_t version;
    uint64_t limit, cursor;
    struct policy_problems problems; /* errors, or warnings */
    struct set_guard guard;
};

/* ---- reporting problems ---- */

static void put_problems(struct buf *out, const struct policy_problems *p)
{
    buf_put_byte(out, '[');
    for (size_t i = 0; i < p->count; i++) {
        const struct policy_problem *one = &p->list[i];
        if (i > 0) buf_put_byte(out, ',');
        buf_printf(out, "{\"column\":%u,\"line\":%u,\"message\":", one->column, one->line);
        json_put_string(out, str_from(one->message));
        buf_put_literal(out, ",\"path\":");
        json_put_string(out, str_from(one->path));
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
}

static void tell_invalid(struct job *j, const struct policy_problems *p)
{
    const struct policy_problem *first = &p->list[0];
    j->err = fault_set(&j->fault, ERR_INVALID_POLICY, "/content",
                       "content: line %u, column %u%s%s%s: %s", first->line, first->column,
                       first->path[0] == '\0' ? "" : " (", first->path,
                       first->path[0] == '\0' ? "" : ")", first->message);
    buf_put_literal(&j->reply, ",\"details\":");
    put_problems(&j->reply, p);
}

/* ---- on a reader: is it a valid document? ---- */

/* A rollback restores a text that was stored before. Its refusals of new documents become
 * warnings. */
static void check_content(struct job *j, struct policy_detail *d, struct store *s,
                          struct str content)
{
    struct policy_document *document;
    struct policy_problems lints;
    bool is_rollback = d->version > 0;
    enum err err = is_rollback ? policy_load(d->change.name, content, &document, &d->problems)
                               : policy_load_new(d->change.name, content, &document, &d->problems);
    if (err == ERR_INVALID_POLICY) {
        tell_invalid(j, &d->problems);
        return;
    }
    if (err != ERR_OK) {
        j->err = fault_plain(&j->fault, err);
        return;
    }
    policy_book_note(j->platform->book, document);
    policy_refusals(document, &d->problems); /* only a rollback has refusals left here */
    policy_lint(document, &lints);
    limits_warn(s, d->change.tenant, document, &d->problems);
    policy_problems_join(&d->problems, &lints);
    sha256_write_hex(policy_document_digest(document), d->digest);
    d->change.digest = str_of(d->digest, SHA256_HEX);
    d->change.is_json = policy_document_is_json(document);
    policy_document_release(document);
}

static void put_check(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    check_content(j, d, s, d->change.content);
}

/* ---- on the writer ---- */

/* Adds the warnings to {…policy} and, for a dry run, the changes that it would make. */
static void add_remarks(struct job *j, const struct policy_detail *d, const struct policy_result *r)
{
    if (j->reply.size > 0 && !j->reply.overflow) j->reply.size--; /* the closing brace */
    if (d->change.dry_run)
        buf_printf(&j->reply, ",\"change\":\"%s\",\"dry_run\":true", policy_effect_name(r->effect));
    if (d->problems.count > 0) {
        buf_put_literal(&j->reply, ",\"warnings\":");
        put_problems(&j->reply, &d->problems);
        if (d->problems.more > 0) buf_printf(&j->reply, ",\"warnings_more\":%zu", d->problems.more);
    }
    buf_put_byte(&j->reply, '}');
}

/* Adds the missing roles of the resulting set to the answer, next to the fault with the first of
 * them. */
static void tell_lacking(struct job *j, const struct set_guard *g)
{
    const struct fault plain = j->fault;
    if (j->err == ERR_INVALID_POLICY)
        (void)fault_set(&j->fault, j->err, "/content", "content: %s", plain.text);
    buf_clear(&j->reply);
    if ((j->err != ERR_INVALID_POLICY && j->err != ERR_ROLE_IN_USE) || g->problem_count == 0)
        return;
    buf_put_literal(&j->reply, ",\"details\":");
    set_problems_put(&j->reply, g->problems, g->problem_count);
}

static void change_work(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    const struct policy_change *c = &d->change;
    struct policy_result result;
    j->err = d->version > 0
                 ? policy_store_rollback(s, c, d->version, &j->actor, &j->reply, &result, &j->fault)
                 : policy_store_put(s, c, &j->actor, &j->reply, &result, &j->fault);
    if (j->err != ERR_OK) {
        tell_lacking(j, &d->guard);
        return;
    }
    add_remarks(j, d, &result);
    memcpy(j->etag, result.etag, sizeof result.etag);
    j->wrote_nothing = c->dry_run || result.effect == POLICY_UNCHANGED;
    if (c->dry_run) return;
    if (result.effect != POLICY_UNCHANGED) j->revision = result.revision;
    if (result.effect == POLICY_CREATED) j->status = 201;
}

/* Sends a checked document on to the writer. */
static void change_checked(struct job *j)
{
    j->done = NULL;
    j->is_check = false;
    if (j->err != ERR_OK) {
        job_answer(j);
        return;
    }
    j->work = change_work;
    job_send_on(j, QUEUE_WRITER);
}

/* ---- on the reactor ---- */

static enum err check_name(struct str name, struct fault *f)
{
    if (policy_is_name(name)) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "", "name: must be 1 to %d characters of [A-Za-z0-9._-]",
                     POLICY_NAME_MAX);
}

static struct str joined(struct job *j, struct str a, struct str b)
{
    char *bytes = arena_bytes(&j->arena, a.size + 1 + b.size);
    if (bytes == NULL) return a; /* the arena is full, which job_send() checks */
    struct buf both = buf_over(bytes, a.size + 1 + b.size);
    buf_put(&both, a);
    buf_put_byte(&both, ',');
    buf_put(&both, b);
    return buf_view(&both);
}

/* All tags of a header, since a list may come in several lines (RFC 9110, 5.3). */
static struct str tags_of(struct job *j, const struct http_exchange *x, struct str name)
{
    struct str all = {0};
    for (size_t i = 0; i < x->header_count; i++) {
        if (!str_equal_ignoring_case(x->headers[i].name, name)) continue;
        struct str tags = job_copy(j, x->headers[i].value);
        all = str_is_absent(all) ? tags : joined(j, all, tags);
    }
    return all;
}

/* Fills a job for the policy in the path, in the caller's tenant (settled with `body`). */
static enum err policy_job(struct job *j, const struct http_exchange *x, const struct json *body)
{
    struct policy_detail *d = job_detail(j, struct policy_detail);
    enum err err = settle_tenant(j->platform, body, &j->fault);
    if (err == ERR_OK) err = check_name(x->params[0], &j->fault);
    if (err != ERR_OK) return err;
    j->tenant = job_copy(j, j->platform->caller.tenant);
    d->change.tenant = j->tenant;
    d->change.name = job_copy(j, x->params[0]);
    d->change.condition =
        (struct policy_condition){.if_match = tags_of(j, x, STR("if-match")),
                                  .if_none_match = tags_of(j, x, STR("if-none-match"))};
    return ERR_OK;
}

/* With ?force=true a missing role does not refuse the change. */
static enum err guard_change(struct job *j, const struct http_exchange *x)
{
    struct policy_detail *d = j->detail;
    set_guard_init(&d->guard, j->platform->book);
    d->change.guard = &d->guard.guard;
    return api_flag(x, STR("force"), &d->guard.force, &j->fault);
}

/* Also checks for a change that no file of policies.dir puts this policy in force: now, as the
 * reactor knows it, and later, as the writer finds it. */
static enum err policy_change_job(struct job *j, const struct http_exchange *x,
                                  const struct json *body)
{
    enum err err = policy_job(j, x, body);
    struct policy_detail *d = j->detail;
    if (err == ERR_OK) err = guard_change(j, x);
    if (err != ERR_OK) return err;
    return directory_permits(j->platform->watch, j->tenant, d->change.name, &d->change.condition,
                             &j->fault);
}

static const struct json *member(const struct json *body, const char *name)
{
    const struct json *v = json_get(body, str_from(name));
    return v == NULL || v->type == JSON_NULL ? NULL : v;
}

static enum err read_content(struct job *j, struct policy_detail *d, const struct json *body)
{
    const struct json *content = member(body, "content");
    if (content == NULL)
        return fault_set(&j->fault, ERR_MISSING_MEMBER, "/content", "content: is missing");
    struct str text = json_is_string(content)   ? content->string
                      : json_is_object(content) ? content->raw
                                                : (struct str){0};
    if (str_is_absent(text))
        return fault_set(&j->fault, ERR_WRONG_TYPE, "/content",
                         "content: must be YAML or JSON text, or the document as an object");
    d->change.content = job_copy(j, text);
    j->copied_bytes = text.size;
    return ERR_OK;
}

static enum err read_put(struct job *j, struct policy_detail *d, const struct json *body)
{
    enum err err = read_content(j, d, body);
    if (err != ERR_OK) return err;
    const struct json *description = member(body, "description"),
                      *active = member(body, "is_active");
    if (description != NULL && !json_is_string(description))
        return fault_set(&j->fault, ERR_WRONG_TYPE, "/description",
                         "description: must be a string");
    if (description != NULL && str_code_points(description->string) > 4 * LIMIT_ID_CHARACTERS)
        return fault_set(&j->fault, ERR_OUT_OF_RANGE, "/description",
                         "description: is longer than %d characters", 4 * LIMIT_ID_CHARACTERS);
    if (active != NULL && !json_is_bool(active))
        return fault_set(&j->fault, ERR_WRONG_TYPE, "/is_active",
                         "is_active: must be true or false");
    if (description != NULL) d->change.description = job_copy(j, description->string);
    d->change.has_active = active != NULL;
    d->change.is_active = active != NULL && active->type == JSON_TRUE;
    return ERR_OK;
}

void policy_put_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, put_check);
    struct json *body;
    bool dry_run = false;
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = api_flag(x, STR("dry_run"), &dry_run, &j->fault);
    if (err == ERR_OK) err = dry_run ? policy_job(j, x, body) : policy_change_job(j, x, body);
    if (err == ERR_OK && dry_run) err = guard_change(j, x);
    if (err == ERR_OK) err = read_put(j, j->detail, body);
    if (err == ERR_OK) ((struct policy_detail *)j->detail)->change.dry_run = dry_run;
    j->done = change_checked;
    j->is_check = true;
    job_send_if(j, x, err, QUEUE_READER);
}

/* ---- rollback ---- */

static void rollback_check(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    struct buf content;
    buf_init(&content, 4 << 10, LIMIT_POLICY_BODY_BYTES * 2);
    j->err =
        policy_store_content(s, d->change.tenant, d->change.name, d->version, &content, &j->fault);
    if (j->err == ERR_OK) check_content(j, d, s, buf_view(&content));
    buf_fini(&content);
}

static enum err read_version(struct job *j, const struct json *body)
{
    struct policy_detail *d = j->detail;
    const struct json *v = member(body, "version");
    if (v == NULL)
        return fault_set(&j->fault, ERR_MISSING_MEMBER, "/version", "version: is missing");
    if (!json_is_number(v))
        return fault_set(&j->fault, ERR_WRONG_TYPE, "/version", "version: must be a whole number");
    d->version = json_u64(body, STR("version"), 0);
    if (d->version == 0 || d->version > EVENT_COUNT_MAX)
        return fault_set(&j->fault, ERR_OUT_OF_RANGE, "/version",
                         "version: must be a whole number from 1 to 9007199254740991");
    return ERR_OK;
}

void policy_rollback_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, rollback_check);
    struct json *body;
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = policy_change_job(j, x, body);
    if (err == ERR_OK) err = read_version(j, body);
    j->done = change_checked;
    j->is_check = true;
    job_send_if(j, x, err, QUEUE_READER);
}

/* ---- delete ---- */

static void delete_work(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    struct policy_result result;
    j->err = policy_store_delete(s, &d->change, &j->actor, &result, &j->fault);
    if (j->err != ERR_OK) {
        tell_lacking(j, &d->guard);
        return;
    }
    j->revision = result.revision;
    buf_put_literal(&j->reply, "{\"deleted\":true}");
}

void policy_delete_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, delete_work);
    job_send_if(j, x, policy_change_job(j, x, NULL), QUEUE_WRITER);
}

/* ---- reading ---- */

static void get_work(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    char etag[POLICY_ETAG_TEXT];
    j->err = policy_store_get(s, d->change.tenant, d->change.name, &j->reply, etag, &j->fault);
    if (j->err != ERR_OK) return;
    memcpy(j->etag, etag, sizeof etag);
    struct str known = d->change.condition.if_none_match;
    if (str_is_absent(known) || !etag_matches_weakly(known, str_from(etag))) return;
    j->status = 304;
    buf_clear(&j->reply);
}

void policy_get_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, get_work);
    job_send_if(j, x, policy_job(j, x, NULL), QUEUE_READER);
}

static void versions_work(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    j->err = policy_store_versions(s, d->change.tenant, d->change.name, d->limit, d->cursor,
                                   &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

/* ?limit and ?cursor. Without a limit the page has the largest size, since few tenants have
 * more. */
static enum err read_page(struct job *j, const struct http_exchange *x)
{
    struct policy_detail *d = j->detail;
    struct str limit;
    enum err err = api_page(x, &d->limit, &d->cursor, &j->fault);
    if (err == ERR_OK) err = http_parameter(x, STR("limit"), &limit, &j->fault);
    if (err == ERR_OK && str_is_absent(limit)) d->limit = LIMIT_POLICIES_PER_TENANT;
    return err;
}

void policy_versions_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, versions_work);
    enum err err = policy_job(j, x, NULL);
    job_send_if(j, x, err == ERR_OK ? read_page(j, x) : err, QUEUE_READER);
}

static void version_work(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    j->err =
        policy_store_version(s, d->change.tenant, d->change.name, d->version, &j->reply, &j->fault);
}

void policy_version_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, version_work);
    enum err err = policy_job(j, x, NULL);
    if (err == ERR_OK && !str_to_u64(x->params[1], &((struct policy_detail *)j->detail)->version))
        err = fault_set(&j->fault, ERR_NOT_FOUND, "",
                        "there is no such version: versions are numbered from 1");
    job_send_if(j, x, err, QUEUE_READER);
}

static void list_work(struct job *j, struct store *s)
{
    struct policy_detail *d = j->detail;
    j->err = policy_store_list(s, j->tenant, d->limit, d->cursor, &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

void policy_list_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, list_work);
    job_detail(j, struct policy_detail);
    enum err err = settle_tenant(p, NULL, &j->fault);
    j->tenant = job_copy(j, p->caller.tenant);
    job_send_if(j, x, err == ERR_OK ? read_page(j, x) : err, QUEUE_READER);
}
