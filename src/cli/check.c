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

/* `kind`: "error" or "warning". */
static void put_problems(struct cli *c, struct buf *json, const char *file, const char *kind,
                         const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        policy_put_problem(c, json, file, kind, &problems->list[i]);
    if (problems->more == 0) return;
    struct policy_problem rest = {0};
    snprintf(rest.message, sizeof rest.message, "%zu more %ss are not shown: %d are the most",
             problems->more, kind, POLICY_PROBLEMS_MAX);
    policy_put_problem(c, json, file, kind, &rest);
}

/* A document may lie under any name, but then neither `policy put` nor a
 * directory of policies takes it. */
static bool check_name(struct cli *c, struct buf *json, const char *file, const char *kind)
{
    struct str name = policy_name_of(str_from(file));
    if (strcmp(file, "-") == 0 || policy_is_name(name)) return true;
    struct policy_problem p = {.line = 1, .column = 1};
    snprintf(
        p.message, sizeof p.message,
        "its name is to be the policy's, which is 1 to %d of [A-Za-z0-9._-]: no directory of policies takes it so",
        POLICY_NAME_MAX);
    policy_put_problem(c, json, file, kind, &p);
    return false;
}

/* What is wrong with a document that can be read, and what is probably wrong; false: it may not be
 * put. `is_strict`: neither may it be where it is only warned of. */
static bool check_document(struct cli *c, struct buf *json, const char *file, bool is_strict,
                           const struct policy_document *d)
{
    struct policy_problems refusals, lints;
    const char *kind = is_strict ? "error" : "warning";
    policy_refusals(d, &refusals);
    policy_lint(d, &lints);
    bool is_named = check_name(c, json, file, kind);
    put_problems(c, json, file, "error", &refusals);
    put_problems(c, json, file, kind, &lints);
    return refusals.count == 0 && (!is_strict || (is_named && lints.count == 0));
}

static void check_file(struct cli *c, struct buf *json, const char *file, bool is_strict, int *code)
{
    struct policy_document *d = NULL;
    struct policy_problems problems = {0}, again;
    struct str text;
    int loaded = policy_file_text(c, file, &text);
    if (loaded == DONE) loaded = policy_text_load(c, file, text, true, &d, &problems);
    if (loaded != DONE) {
        d = NULL;
        put_problems(c, json, file, "error", &problems);
    }
    /* Only its tests may have failed, and what it is warned of may say why. */
    if (problems.count > 0 && policy_text_load(c, file, text, false, &d, &again) != DONE) d = NULL;
    bool is_good = d == NULL || check_document(c, json, file, is_strict, d);
    if (loaded == DONE && !is_good) loaded = REFUSED;
    if (loaded != DONE && (*code == DONE || loaded == USAGE)) *code = loaded;
    if (loaded == DONE && !c->json) {
        size_t rules = policy_document_rules(d);
        fprintf(c->out, "%.*s: valid, %zu rule%s\n", STR_FORMAT(policy_file_shown(c, file)), rules,
                rules == 1 ? "" : "s");
    }
    if (d != NULL) policy_document_release(d);
}

const struct flag policy_check_flags[] = {{"strict", NULL, "refuse what is only warned of, too"},
                                          {NULL, NULL, NULL}};

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
    bool is_strict = argument_given(a, "strict");
    for (size_t i = 0; i < files.count; i++) check_file(c, &json, files.paths[i], is_strict, &code);
    buf_put_byte(&json, ']');
    if (json.overflow)
        code = cli_complain(c, REFUSED, "there is not enough memory for all of these");
    else if (c->json)
        print_json(c, buf_view(&json));
    buf_fini(&json);
    return code;
}
