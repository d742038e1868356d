/* check.c - `writ policy check`: documents in files, no program needed.
 *
 * Problems are told as file:line:column, which editors and terminals make clickable. */
#include "cli/policy.h"

struct str policy_file_shown(struct cli *c, const char *file)
{
    return text_shown(&c->arena, str_from(file));
}

void policy_put_file(struct cli *c, struct buf *json, const char *file)
{
    bool is_text = str_is_utf8(str_from(file), &(size_t){0});
    json_put_string(json, is_text ? str_from(file) : policy_file_shown(c, file));
}

void policy_put_problem(struct cli *c, struct buf *json, const char *file, const char *kind,
                        const struct policy_problem *p)
{
    if (!c->json) {
        struct str path = text_shown(&c->arena, str_from(p->path));
        struct str message = text_shown(&c->arena, str_from(policy_problem_short(p)));
        fprintf(c->out, "%.*s:%u:%u: %s: %.*s%s%.*s\n", STR_FORMAT(policy_file_shown(c, file)),
                p->line, p->column, kind, STR_FORMAT(path), path.size == 0 ? "" : ": ",
                STR_FORMAT(message));
        return;
    }
    buf_put(json, json->size > 1 ? STR(",{\"file\":") : STR("{\"file\":"));
    policy_put_file(c, json, file);
    put_text_member(json, "kind", str_from(kind));
    buf_printf(json, ",\"line\":%u,\"column\":%u", p->line, p->column);
    put_text_member(json, "path", str_from(p->path));
    put_text_member(json, "message", str_from(p->message));
    buf_put_byte(json, '}');
}

static void put_problems(struct cli *c, struct buf *json, const char *file, const char *kind,
                         const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        policy_put_problem(c, json, file, kind, &problems->list[i]);
}

/* A document may lie under any name, but then neither `policy put` nor a
 * directory of policies takes it. */
static void check_name(struct cli *c, struct buf *json, const char *file)
{
    struct str name = policy_name_of(str_from(file));
    if (strcmp(file, "-") == 0 || policy_is_name(name)) return;
    struct policy_problem p = {.line = 1, .column = 1};
    snprintf(
        p.message, sizeof p.message,
        "its name is to be the policy's, which is 1 to %d of [A-Za-z0-9._-]: no directory of policies takes it so",
        POLICY_NAME_MAX);
    policy_put_problem(c, json, file, "warning", &p);
}

static void check_file(struct cli *c, struct buf *json, const char *file, int *code)
{
    struct policy_document *d;
    struct policy_problems problems;
    int loaded = policy_file_load(c, file, true, &d, &problems);
    if (loaded != DONE) {
        put_problems(c, json, file, "error", &problems);
        if (*code == DONE || loaded == USAGE) *code = loaded;
        return;
    }
    struct policy_problems lints = {0};
    size_t rules = policy_document_rules(d);
    policy_refusals(d, &problems);
    policy_lint(d, &lints);
    check_name(c, json, file);
    put_problems(c, json, file, "error", &problems);
    put_problems(c, json, file, "warning", &lints);
    if (problems.count > 0 && *code == DONE) *code = REFUSED;
    if (!c->json && problems.count == 0)
        fprintf(c->out, "%.*s: valid, %zu rule%s\n", STR_FORMAT(policy_file_shown(c, file)), rules,
                rules == 1 ? "" : "s");
    policy_document_release(d);
}

int policy_run_check(struct cli *c, const struct arguments *a)
{
    struct policy_files files = {0};
    struct buf json;
    int code = DONE;
    for (size_t i = 0; i < a->positional_count && code == DONE; i++)
        code = policy_files_add(c, a->positionals[i], &files);
    if (code != DONE) return code;
    buf_init(&json, 64, 256 << 20);
    buf_put_byte(&json, '[');
    for (size_t i = 0; i < files.count; i++) check_file(c, &json, files.paths[i], &code);
    buf_put_byte(&json, ']');
    if (json.overflow)
        code = cli_complain(c, REFUSED, "there is not enough memory for all of these");
    else if (c->json)
        print_json(c, buf_view(&json));
    buf_fini(&json);
    return code;
}
