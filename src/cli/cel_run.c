/* cel_run.c - `writ cel`: evaluates a condition and shows its structure. */
#include "cli/cli.h"

#include "base/time.h"
#include "base/world.h"
#include "cel/cel.h"

enum { SHOWN_MAX = 4 << 20, FILE_MAX = 8 << 20 };

static const struct flag cel_flags[] = {
    {"file", "FILE", "a JSON object; its members are the variables (-: standard input)"},
    {"ast", NULL, "print the typed tree"},
    {"code", NULL, "print the instructions"},
    {NULL, NULL, NULL}};

static void put_problems(struct cli *c, struct str text, const struct cel_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        const struct cel_problem *p = &problems->list[i];
        struct str message = text_shown(&c->arena, str_from(p->message));
        fprintf(c->err, "%u:%u: %.*s\n", p->line, p->column, STR_FORMAT(message));
        size_t from = p->offset, to = p->offset;
        while (from > 0 && text.bytes[from - 1] != '\n') from--;
        while (to < text.size && text.bytes[to] != '\n') to++;
        if (to - from > 160) continue;
        struct str line = text_shown(&c->arena, str_of(text.bytes + from, to - from));
        struct str before = text_shown(&c->arena, str_of(text.bytes + from, p->offset - from));
        fprintf(c->err, "  %.*s\n  %*s^\n", STR_FORMAT(line), (int)text_columns(before), "");
    }
}

/* ---- variables ---- */

static const struct cel_type *type_of_member(const struct cel_environment *policy,
                                             const struct json *member, struct arena *arena)
{
    static const char *const names[] = {
        "null_type", "bool", "bool", "dyn", "string", "list(dyn)", "map(string, dyn)"};
    for (size_t i = 0; i < policy->count; i++)
        if (str_equal(policy->variables[i].name, member->key)) return policy->variables[i].type;
    return cel_type_read(str_from(names[member->type]), arena);
}

struct scene {
    struct cel_environment environment;
    struct cel_variable variables[CEL_POLICY_VARIABLES + 256];
    struct cel_value values[CEL_POLICY_VARIABLES + 256];
};

/* The variables of a policy, and the other members of the file. */
static int set_scene(struct cli *c, const struct json *root, struct scene *s)
{
    struct cel_environment policy = cel_policy_environment();
    size_t count = policy.count;
    for (size_t i = 0; i < count; i++) {
        s->variables[i] = policy.variables[i];
        s->values[i] = cel_of_str(STR(""));
    }
    for (size_t i = CEL_ARGS; i <= CEL_REQUEST; i++) s->values[i] = cel_of_json(NULL);
    s->values[CEL_SCOPE] = s->values[CEL_ROLES] = cel_of_strs(NULL, 0);
    s->values[CEL_NOW] = cel_of_ms(world_now_ms());
    for (const struct json *m = root == NULL ? NULL : root->child; m != NULL; m = m->next) {
        size_t at = 0;
        while (at < count && !str_equal(s->variables[at].name, m->key)) at++;
        if (at == CEL_NOW) {
            struct str text = json_is_string(m) ? m->string : (struct str){0};
            uint64_t ms;
            if (!time_read(text, &ms))
                return cli_complain(c, USAGE,
                                    "now: it must be a time such as 2026-11-20T09:30:00Z");
            s->values[at] = cel_of_ms(ms);
            continue;
        }
        if (at == sizeof s->values / sizeof s->values[0])
            return cli_complain(c, USAGE, "the file has too many members");
        if (at == count)
            s->variables[count++] =
                (struct cel_variable){m->key, type_of_member(&policy, m, &c->arena)};
        s->values[at] = cel_of_json(m);
    }
    s->environment = (struct cel_environment){.variables = s->variables, .count = count};
    return DONE;
}

/* ---- one expression ---- */

static int print_value(struct cli *c, struct cel_value value)
{
    struct json *json;
    struct buf out = cli_scratch(c, SHOWN_MAX);
    if (c->json) {
        if (cel_to_json(value, JSON_DEPTH_CAP, &c->arena, &json) != ERR_OK)
            return cli_complain(c, REFUSED,
                                "the value has no form in JSON; run the command without --json");
        json_put_canonical(&out, json);
    } else {
        cel_put_value(&out, value);
    }
    struct str text = c->json ? buf_view(&out) : text_shown(&c->arena, buf_view(&out));
    fprintf(c->out, "%.*s\n", STR_FORMAT(text));
    return DONE;
}

static int run_program(struct cli *c, const struct cel_program *program, const struct scene *s)
{
    struct cel_value value;
    if (cel_run(program, s->values, &c->arena, NULL, &value)) return print_value(c, value);
    struct buf out = cli_scratch(c, 1024);
    cel_put_error(&out, value);
    struct str text = text_shown(&c->arena, buf_view(&out));
    return cli_complain(c, REFUSED, "%.*s", STR_FORMAT(text));
}

static int evaluate(struct cli *c, const struct arguments *a, struct scene *s)
{
    struct str text = argument_at(a, 0);
    struct cel_problems problems = {0};
    struct cel_program *program = NULL;
    if (argument_given(a, "ast")) {
        struct buf tree = cli_scratch(c, SHOWN_MAX);
        if (cel_put_tree(&tree, text, &s->environment, &problems) == ERR_OK)
            print_str(c->out, buf_view(&tree));
    }
    enum err e = cel_compile(text, &s->environment, &c->arena, &program, &problems);
    if (e != ERR_OK) {
        put_problems(c, text, &problems);
        return problems.count > 0 ? REFUSED : cli_complain(c, REFUSED, "%s", err_sentence(e));
    }
    int code = DONE;
    if (argument_given(a, "code")) {
        struct buf out = cli_scratch(c, SHOWN_MAX);
        cel_put_code(&out, program);
        print_str(c->out, buf_view(&out));
    }
    if (!argument_given(a, "code") && !argument_given(a, "ast")) code = run_program(c, program, s);
    cel_program_fini(program);
    return code;
}

static int cel(struct cli *c, const struct arguments *a)
{
    if (a->positional_count == 0)
        return cli_complain(c, USAGE, "the expression is missing: writ cel EXPRESSION");
    struct scene *s = arena_new(&c->arena, struct scene);
    struct json *root = NULL;
    if (argument_given(a, "file")) {
        struct str text;
        struct fault f;
        const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
        int code = file_text(c, argument_text(a, "file"), FILE_MAX, &text);
        if (code != DONE) return code;
        if (json_read(text, &options, &c->arena, &root, &f) != ERR_OK)
            return cli_complain_fault(c, USAGE, &f);
        if (!json_is_object(root)) return cli_complain(c, USAGE, "the file must be a JSON object");
    }
    int code =
        s == NULL ? cli_complain(c, REFUSED, "there is not enough memory") : set_scene(c, root, s);
    return code == DONE ? evaluate(c, a, s) : code;
}

const struct command cel_commands[] = {
    {NULL, "cel", "EXPRESSION", "evaluate a condition, or show its structure",
     "Without --file the variables of a policy are there and empty (args.amount is no such key), "
     "and `now`\n"
     "is the time. The file's members replace them and add others:\n\n"
     "  echo '{\"args\": {\"amount\": 120}}' | writ cel 'args.amount <= 500' --file -",
     cel_flags, 0, 1, cel},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
