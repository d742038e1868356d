#include "platform/policy_apply.h"

#include "base/check.h"
#include "platform/limits_warn.h"

void set_problems_put(struct buf *out, const struct set_problem *list, size_t count)
{
    buf_put_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        const struct policy_problem *p = &list[i].problem;
        if (i > 0) buf_put_byte(out, ',');
        buf_printf(out, "{\"column\":%u,\"line\":%u,\"message\":", p->column, p->line);
        json_put_string(out, str_from(p->message));
        buf_put_literal(out, ",\"path\":");
        json_put_string(out, str_from(p->path));
        buf_put_literal(out, ",\"policy\":");
        json_put_string(out, str_from(list[i].policy));
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
}

static void keep(struct set_problem *list, size_t *count, size_t most, struct str policy,
                 size_t step, const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count && *count < most; i++) {
        struct set_problem *p = &list[(*count)++];
        *p = (struct set_problem){.step = step, .problem = problems->list[i]};
        memcpy(p->policy, policy.bytes,
               policy.size < sizeof p->policy ? policy.size : sizeof p->policy - 1);
    }
}

/* Returns ERR_INVALID_POLICY and keeps the problems. */
static enum err check_step(struct policy_apply *a, size_t index, struct store *s,
                           struct arena *arena)
{
    struct policy_change *p = &a->batch.steps[index].change;
    struct policy_document *d = NULL;
    struct policy_problems problems = {0};
    bool is_in_force = a->in_force != NULL && a->in_force[index];
    enum err err =
        (is_in_force ? policy_load : policy_load_new)(p->name, p->content, &d, &problems);
    if (err == ERR_INVALID_POLICY)
        keep(a->guard.problems, &a->guard.problem_count, SET_PROBLEMS_MAX, p->name, index,
             &problems);
    if (err != ERR_OK) return err;
    if (a->lints) {
        struct policy_problems counts = {0};
        limits_warn(s, p->tenant, d, &counts);
        keep(a->warnings, &a->warning_count, APPLY_WARNINGS_MAX, p->name, index, &counts);
        policy_lint(d, &problems);
        keep(a->warnings, &a->warning_count, APPLY_WARNINGS_MAX, p->name, index, &problems);
    }
    policy_book_note(a->guard.book, d);
    char *digest = arena_bytes(arena, SHA256_HEX);
    if (digest != NULL) sha256_write_hex(policy_document_digest(d), digest);
    p->digest = str_of(digest, SHA256_HEX);
    p->is_json = policy_document_is_json(d);
    policy_document_release(d);
    return digest == NULL ? ERR_FULL : ERR_OK;
}

enum err policy_apply_check(struct policy_apply *a, struct store *s, struct arena *arena,
                            struct fault *f)
{
    a->guard.problem_count = a->warning_count = 0;
    for (size_t i = 0; i < a->batch.count; i++) {
        enum err err = a->batch.steps[i].deletes ? ERR_OK : check_step(a, i, s, arena);
        if (err != ERR_OK && err != ERR_INVALID_POLICY) return fault_plain(f, err);
    }
    if (a->guard.problem_count == 0) return ERR_OK;
    const struct set_problem *first = &a->guard.problems[0];
    const struct policy_problem *p = &first->problem;
    const char *path = p->path;
    return fault_set(f, ERR_INVALID_POLICY, "", "%s: line %u, column %u%s%s%s: %s", first->policy,
                     p->line, p->column, path[0] == '\0' ? "" : " (", path,
                     path[0] == '\0' ? "" : ")",
                     path[0] == '\0' ? p->message : policy_problem_short(p));
}

enum err policy_apply_store(struct policy_apply *a, struct store *s, const struct actor *by,
                            struct fault *f)
{
    a->batch.guard = &a->guard.guard;
    return policy_store_apply(s, &a->batch, by, f);
}
