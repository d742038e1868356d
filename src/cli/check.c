/* check.c - `writ policy check`: checks documents in files, without a running program.
 *
 * Problems are printed as file:line:column, which editors and terminals make clickable. */
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

/* One checked file; its lists are in the run's arena. */
struct checked {
    const char *file;
    struct policy_problem *errors, *warnings;
    size_t error_count, warning_count, more_errors, more_warnings, rules;
    struct policy_test_result dearest; /* of its tests; steps 0: none has a condition */
    struct policy_roles *roles;        /* NULL: the file is no document */
    bool is_loaded;                    /* the document is valid and its tests passed */
};

struct checking {
    struct cli *c;
    struct checked *all;
    size_t count;
    bool is_set; /* a directory was given: its documents are the whole set */
    bool is_strict;
    bool full;
};

/* Appends copies. */
static void keep(struct checking *k, struct policy_problem **list, size_t *count,
                 const struct policy_problem *more, size_t more_count)
{
    if (more_count == 0) return;
    struct policy_problem *all =
        arena_array(&k->c->arena, struct policy_problem, *count + more_count);
    if (all == NULL) {
        k->full = true;
        return;
    }
    if (*count > 0) memcpy(all, *list, *count * sizeof *all);
    memcpy(all + *count, more, more_count * sizeof *all);
    *list = all;
    *count += more_count;
}

static void keep_errors(struct checking *k, struct checked *f, const struct policy_problems *p)
{
    keep(k, &f->errors, &f->error_count, p->list, p->count);
    f->more_errors += p->more;
}

static void keep_warnings(struct checking *k, struct checked *f, const struct policy_problems *p)
{
    keep(k, &f->warnings, &f->warning_count, p->list, p->count);
    f->more_warnings += p->more;
}

/* A file may have any name, but `policy put` and the policy directory take only a policy's name. */
static void check_name(struct checking *k, struct checked *f)
{
    struct str name = policy_name_of(str_from(f->file));
    if (strcmp(f->file, "-") == 0 || policy_is_name(name)) return;
    struct policy_problem p = {.line = 1, .column = 1};
    snprintf(
        p.message, sizeof p.message,
        "the file's name is the policy's name, which is 1 to %d of [A-Za-z0-9._-]: rename the file",
        POLICY_NAME_MAX);
    keep(k, &f->warnings, &f->warning_count, &p, 1);
}

static void take_dearest(void *context, const struct policy_test_result *r)
{
    struct policy_test_result *dearest = context;
    if (r->steps > dearest->steps) *dearest = *r;
}

/* An engine denies what costs more. */
static void check_costs(struct checking *k, struct checked *f, const struct policy_document *d)
{
    struct policy_problem p = {0};
    policy_document_tests(d, take_dearest, &f->dearest);
    if (f->dearest.steps <= POLICY_STEPS_DEFAULT) return;
    p.line = f->dearest.line;
    p.column = f->dearest.column;
    snprintf(p.path, sizeof p.path, "tests[%zu]", f->dearest.index);
    snprintf(p.message, sizeof p.message,
             "its conditions cost %llu steps, and an engine denies what costs more than %d, unless "
             "its option policy.steps is higher",
             (unsigned long long)f->dearest.steps, POLICY_STEPS_DEFAULT);
    keep(k, &f->warnings, &f->warning_count, &p, 1);
}

static void check_document(struct checking *k, struct checked *f, const struct policy_document *d)
{
    struct policy_problems problems;
    check_name(k, f);
    policy_refusals(d, &problems);
    keep_errors(k, f, &problems);
    policy_lint(d, &problems);
    keep_warnings(k, f, &problems);
    check_costs(k, f, d);
    f->rules = policy_document_rules(d);
    f->roles = policy_roles_create(d);
    k->full |= f->roles == NULL;
}

static void check_file(struct checking *k, struct checked *f, int *code)
{
    struct policy_document *d = NULL;
    struct policy_problems problems = {0}, again;
    struct str text;
    int loaded = policy_file_text(k->c, f->file, &text);
    if (loaded == DONE) loaded = policy_text_load(k->c, f->file, text, true, &d, &problems);
    f->is_loaded = loaded == DONE;
    if (loaded != DONE) {
        d = NULL;
        keep_errors(k, f, &problems);
        if (*code == DONE || loaded == USAGE) *code = loaded;
    }
    /* If only its tests failed, the warnings may explain why. */
    if (problems.count > 0 && policy_text_load(k->c, f->file, text, false, &d, &again) != DONE)
        d = NULL;
    if (d == NULL) return;
    check_document(k, f, d);
    policy_document_release(d);
}

static void keep_unknown_role(void *context, const struct policy_unknown_role *u)
{
    struct checking *k = context;
    struct checked *f = &k->all[u->member];
    if (k->is_set)
        keep(k, &f->errors, &f->error_count, &u->problem, 1);
    else
        keep(k, &f->warnings, &f->warning_count, &u->problem, 1);
}

/* Single files may be part of a set whose other documents define the role. */
static void check_roles(struct checking *k)
{
    struct policy_roles_member *set =
        arena_array(&k->c->arena, struct policy_roles_member, k->count + 1);
    for (size_t i = 0; set != NULL && i < k->count; i++)
        set[i] = (struct policy_roles_member){.roles = k->all[i].roles, .is_new = true};
    if (set == NULL || !policy_roles_check(NULL, 0, set, k->count, keep_unknown_role, k))
        k->full = true;
}

static void put_problems(struct cli *c, struct buf *json, const char *file, const char *kind,
                         const struct policy_problem *list, size_t count, size_t more)
{
    for (size_t i = 0; i < count; i++) policy_put_problem(c, json, file, kind, &list[i]);
    if (more == 0) return;
    struct policy_problem rest = {0};
    snprintf(rest.message, sizeof rest.message, "%zu more %ss are not shown: the limit is %d", more,
             kind, POLICY_PROBLEMS_MAX);
    policy_put_problem(c, json, file, kind, &rest);
}

/* With `is_strict` a document with warnings is refused, too. */
static void tell_file(struct checking *k, struct buf *json, const struct checked *f, int *code)
{
    struct cli *c = k->c;
    size_t refused = f->error_count + (k->is_strict ? f->warning_count : 0);
    put_problems(c, json, f->file, "error", f->errors, f->error_count, f->more_errors);
    put_problems(c, json, f->file, k->is_strict ? "error" : "warning", f->warnings,
                 f->warning_count, f->more_warnings);
    if (refused > 0 && *code == DONE) *code = REFUSED;
    if (c->json || !f->is_loaded || refused > 0) return;
    fprintf(c->out, "%.*s: valid, %zu rule%s", STR_FORMAT(policy_file_shown(c, f->file)), f->rules,
            f->rules == 1 ? "" : "s");
    if (f->dearest.steps > 0)
        fprintf(c->out, "; its costliest test (line %u) takes %llu of %d steps", f->dearest.line,
                (unsigned long long)f->dearest.steps, POLICY_STEPS_DEFAULT);
    fputc('\n', c->out);
}

const struct flag policy_check_flags[] = {{"strict", NULL, "refuse documents with warnings, too"},
                                          {NULL, NULL, NULL}};

int policy_run_check(struct cli *c, const struct arguments *a)
{
    struct policy_files files = {0};
    struct checking k = {.c = c, .is_strict = argument_given(a, "strict")};
    struct buf json;
    int code = DONE;
    for (size_t i = 0; i < a->positional_count && code == DONE; i++) {
        code = policy_files_add(c, a->positionals[i], &files);
        k.is_set |= policy_is_folder(a->positionals[i]);
    }
    if (code != DONE) return code;
    k.all = arena_array(&c->arena, struct checked, files.count + 1);
    if (k.all == NULL) return cli_complain(c, REFUSED, "there is not enough memory");
    for (; k.count < files.count; k.count++) {
        k.all[k.count].file = files.paths[k.count];
        check_file(&k, &k.all[k.count], &code);
    }
    check_roles(&k);
    buf_init(&json, 64, 256 << 20);
    buf_put_byte(&json, '[');
    for (size_t i = 0; i < k.count; i++) {
        tell_file(&k, &json, &k.all[i], &code);
        policy_roles_destroy(k.all[i].roles);
    }
    buf_put_byte(&json, ']');
    if (json.overflow || k.full)
        code = cli_complain(c, REFUSED, "there is not enough memory for all of these");
    else if (c->json)
        print_json(c, buf_view(&json));
    buf_fini(&json);
    return code;
}
