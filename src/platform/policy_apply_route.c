/* policy_apply_route.c - POST /api/v1/policies:apply: several documents in one transaction.
 *
 *   {"policies": [{"name", "content", "description"?, "is_active"?}, …], "delete": [name, …]}
 *
 * Each document is checked as for a PUT, and then the resulting set. The whole set comes into
 * force, or nothing changes. A document with unchanged text makes no new version, and the deletion
 * of a missing policy changes nothing, so the same request may be sent again. Documents that are
 * not named stay. */
#include <stdio.h>

#include "base/limits.h"
#include "base/map.h"
#include "platform/platform.h"
#include "platform/policy_apply.h"

/* ---- the answer ---- */

static void put_result(struct buf *out, const struct policy_step *step)
{
    const struct policy_result *r = &step->result;
    buf_printf(out, "{\"change\":\"%s\",\"name\":", policy_effect_name(r->effect));
    json_put_string(out, step->change.name);
    if (r->version > 0) buf_printf(out, ",\"version\":%llu", (unsigned long long)r->version);
    buf_put_byte(out, '}');
}

static void tell_applied(struct job *j, const struct policy_apply *a)
{
    buf_printf(&j->reply, "{\"dry_run\":%s,\"policies\":[", a->batch.dry_run ? "true" : "false");
    j->wrote_nothing = true;
    for (size_t i = 0; i < a->batch.count; i++) {
        const struct policy_step *step = &a->batch.steps[i];
        if (i > 0) buf_put_byte(&j->reply, ',');
        put_result(&j->reply, step);
        if (a->batch.dry_run || step->result.effect == POLICY_UNCHANGED) continue;
        j->wrote_nothing = false;
        if (step->result.revision > j->revision) j->revision = step->result.revision;
    }
    buf_put_literal(&j->reply, "],\"warnings\":");
    set_problems_put(&j->reply, a->warnings, a->warning_count);
    buf_put_byte(&j->reply, '}');
}

/* Adds all problems to the answer, next to the fault with the first of them. */
static void tell_refused(struct job *j, const struct policy_apply *a)
{
    const struct set_guard *g = &a->guard;
    buf_clear(&j->reply);
    if (g->problem_count == 0 || (j->err != ERR_INVALID_POLICY && j->err != ERR_ROLE_IN_USE))
        return;
    size_t first = 0;
    while (first + 1 < g->problem_count && g->problems[first].is_taken_away) first++;
    if (j->err == ERR_INVALID_POLICY && g->problems[first].step != SIZE_MAX) {
        const struct fault plain = j->fault;
        char field[64];
        snprintf(field, sizeof field, "/policies/%zu/content", g->problems[first].step);
        (void)fault_set(&j->fault, j->err, field, "%s: %s", field + 1, plain.text);
    }
    buf_put_literal(&j->reply, ",\"details\":");
    set_problems_put(&j->reply, g->problems, g->problem_count);
}

/* ---- on a reader, then on the writer ---- */

static void apply_check(struct job *j, struct store *s)
{
    struct policy_apply *a = j->detail;
    j->err = policy_apply_check(a, s, &j->arena, &j->fault);
    if (j->err != ERR_OK) tell_refused(j, a);
}

static void apply_work(struct job *j, struct store *s)
{
    struct policy_apply *a = j->detail;
    j->err = policy_apply_store(a, s, &j->actor, &j->fault);
    if (j->err == ERR_OK)
        tell_applied(j, a);
    else
        tell_refused(j, a);
}

static void apply_checked(struct job *j)
{
    j->done = NULL;
    j->is_check = false;
    if (j->err != ERR_OK) {
        job_answer(j);
        return;
    }
    j->work = apply_work;
    job_send_on(j, QUEUE_WRITER);
}

/* ---- the request ---- */

static const struct json *member(const struct json *object, const char *name)
{
    const struct json *v = json_get(object, str_from(name));
    return v == NULL || v->type == JSON_NULL ? NULL : v;
}

/* Adds a step for this policy, which the request may name only once. */
static enum err add_step(struct job *j, struct policy_apply *a, struct map *names, struct str name,
                         const char *field, struct policy_step **ret)
{
    struct fault *f = &j->fault;
    if (!policy_is_name(name))
        return fault_set(f, ERR_BAD_VALUE, field,
                         "%s: must be 1 to %d characters of [A-Za-z0-9._-]", field + 1,
                         POLICY_NAME_MAX);
    struct policy_step *step = &a->batch.steps[a->batch.count++];
    step->change.tenant = j->tenant;
    step->change.name = job_copy(j, name);
    if (map_get(names, name) != NULL)
        return fault_set(f, ERR_BAD_VALUE, field, "%s: the policy %.*s is named twice", field + 1,
                         STR_FORMAT(name));
    if (str_is_absent(step->change.name) || !map_put(names, step->change.name, step))
        return fault_plain(f, ERR_FULL);
    *ret = step;
    return ERR_OK;
}

static enum err read_document(struct job *j, const struct json *item, size_t index,
                              struct map *names)
{
    struct policy_apply *a = j->detail;
    struct policy_step *step = NULL;
    struct fault *f = &j->fault;
    char at[48], field[80];
    snprintf(at, sizeof at, "/policies/%zu", index);
    if (!json_is_object(item))
        return fault_set(f, ERR_WRONG_TYPE, at, "%s: must be an object", at + 1);
    const struct json *name = member(item, "name"), *content = member(item, "content"),
                      *description = member(item, "description"),
                      *active = member(item, "is_active");
    snprintf(field, sizeof field, "%s/name", at);
    if (name == NULL) return fault_set(f, ERR_MISSING_MEMBER, field, "%s: is missing", field + 1);
    if (!json_is_string(name))
        return fault_set(f, ERR_WRONG_TYPE, field, "%s: must be a string", field + 1);
    enum err err = api_members(item, "content description is_active name", at, f);
    if (err == ERR_OK) err = add_step(j, a, names, name->string, field, &step);
    if (err != ERR_OK) return err;
    snprintf(field, sizeof field, "%s/content", at);
    if (content == NULL)
        return fault_set(f, ERR_MISSING_MEMBER, field, "%s: is missing", field + 1);
    struct str text = json_is_string(content)   ? content->string
                      : json_is_object(content) ? content->raw
                                                : (struct str){0};
    if (str_is_absent(text))
        return fault_set(f, ERR_WRONG_TYPE, field,
                         "%s: must be YAML or JSON text, or the document as an object", field + 1);
    if (text.size > LIMIT_POLICY_BODY_BYTES)
        return fault_set(f, ERR_OUT_OF_RANGE, field, "%s: has %zu bytes; the limit is 1 MiB",
                         field + 1, text.size);
    snprintf(field, sizeof field, "%s/description", at);
    if (description != NULL && !json_is_string(description))
        return fault_set(f, ERR_WRONG_TYPE, field, "%s: must be a string", field + 1);
    if (description != NULL && str_code_points(description->string) > 4 * LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_OUT_OF_RANGE, field, "%s: is longer than %d characters", field + 1,
                         4 * LIMIT_ID_CHARACTERS);
    snprintf(field, sizeof field, "%s/is_active", at);
    if (active != NULL && !json_is_bool(active))
        return fault_set(f, ERR_WRONG_TYPE, field, "%s: must be true or false", field + 1);
    step->change.content = job_copy(j, text);
    if (description != NULL) step->change.description = job_copy(j, description->string);
    step->change.has_active = active != NULL;
    step->change.is_active = active != NULL && active->type == JSON_TRUE;
    j->copied_bytes += text.size;
    return ERR_OK;
}

static enum err read_deletion(struct job *j, const struct json *item, size_t index,
                              struct map *names)
{
    struct policy_apply *a = j->detail;
    struct policy_step *step = NULL;
    char field[48];
    snprintf(field, sizeof field, "/delete/%zu", index);
    if (!json_is_string(item))
        return fault_set(&j->fault, ERR_WRONG_TYPE, field, "%s: must be a policy's name",
                         field + 1);
    enum err err = add_step(j, a, names, item->string, field, &step);
    if (err == ERR_OK) step->deletes = true;
    return err;
}

/* Reads a list, which may be absent, or sets a fault. */
static enum err read_list(const struct json *body, const char *name, const struct json **ret,
                          struct fault *f)
{
    char field[32];
    snprintf(field, sizeof field, "/%s", name);
    *ret = member(body, name);
    if (*ret == NULL || json_is_array(*ret)) return ERR_OK;
    return fault_set(f, ERR_WRONG_TYPE, field, "%s: must be a list", name);
}

static enum err read_steps(struct job *j, const struct json *body)
{
    struct policy_apply *a = j->detail;
    const struct json *documents, *deletions;
    struct map names = {0};
    enum err err = read_list(body, "policies", &documents, &j->fault);
    if (err == ERR_OK) err = read_list(body, "delete", &deletions, &j->fault);
    if (err != ERR_OK) return err;
    if (documents == NULL && deletions == NULL)
        return fault_set(&j->fault, ERR_MISSING_MEMBER, "/policies",
                         "policies, delete: both are missing; send at least one of them");
    size_t count =
        (documents == NULL ? 0 : documents->count) + (deletions == NULL ? 0 : deletions->count);
    if (count > LIMIT_POLICIES_PER_TENANT)
        return fault_set(&j->fault, ERR_OUT_OF_RANGE, documents == NULL ? "/delete" : "/policies",
                         "%s: names %zu policies; the limit is %d",
                         documents == NULL ? "delete" : "policies", count,
                         LIMIT_POLICIES_PER_TENANT);
    a->batch.steps = arena_array(&j->arena, struct policy_step, count + 1);
    if (a->batch.steps == NULL) return fault_plain(&j->fault, ERR_FULL);
    size_t index = 0;
    for (const struct json *d = documents == NULL ? NULL : documents->child;
         d != NULL && err == ERR_OK; d = d->next)
        err = read_document(j, d, index++, &names);
    index = 0;
    for (const struct json *d = deletions == NULL ? NULL : deletions->child;
         d != NULL && err == ERR_OK; d = d->next)
        err = read_deletion(j, d, index++, &names);
    map_fini(&names);
    return err;
}

/* Refuses steps for policies that files of policies.dir put in force. */
static enum err permit_steps(struct job *j)
{
    struct policy_apply *a = j->detail;
    enum err err = ERR_OK;
    for (size_t i = 0; i < a->batch.count && err == ERR_OK; i++) {
        struct policy_step *step = &a->batch.steps[i];
        err = directory_permits(j->platform->watch, j->tenant, step->change.name,
                                &step->change.condition, &j->fault);
    }
    return err;
}

void policy_apply_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, apply_check);
    struct policy_apply *a = job_detail(j, struct policy_apply);
    struct json *body;
    set_guard_init(&a->guard, p->book);
    a->lints = true;
    enum err err = api_body(x, &body, &j->fault);
    if (err == ERR_OK) err = api_flag(x, STR("dry_run"), &a->batch.dry_run, &j->fault);
    if (err == ERR_OK) err = api_flag(x, STR("force"), &a->guard.force, &j->fault);
    if (err == ERR_OK) err = settle_tenant(p, body, &j->fault);
    if (err == ERR_OK) j->tenant = job_copy(j, p->caller.tenant);
    if (err == ERR_OK) err = read_steps(j, body);
    if (err == ERR_OK && !a->batch.dry_run) err = permit_steps(j);
    j->done = apply_checked;
    j->is_check = true;
    job_send_if(j, x, err, QUEUE_READER);
}
