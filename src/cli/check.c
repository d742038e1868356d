/* check.c - `writ policy check` and `writ policy test`: documents in files, no program needed.
 *
 * Problems are told as file:line:column, which editors and terminals make clickable. */
#include "policy/policy.h"

#include "base/limits.h"
#include "cli/policy.h"

static void put_problem(struct cli *c, struct buf *json, const char *file, const char *kind,
                        const struct policy_problem *p)
{
    if (!c->json) {
        struct str message = text_shown(&c->arena, str_from(p->message));
        fprintf(c->out, "%s:%u:%u: %s: %s%s%.*s\n", file, p->line, p->column, kind, p->path,
                p->path[0] == '\0' ? "" : ": ", STR_FORMAT(message));
        return;
    }
    if (json->size > 1) buf_put_byte(json, ',');
    struct buf one = scratch(c, 4096);
    buf_put_byte(&one, '{');
    put_text_member(&one, "file", str_from(file));
    put_text_member(&one, "kind", str_from(kind));
    buf_printf(&one, ",\"line\":%u,\"column\":%u", p->line, p->column);
    put_text_member(&one, "path", str_from(p->path));
    put_text_member(&one, "message", str_from(p->message));
    buf_put_byte(&one, '}');
    buf_put(json, buf_view(&one));
}

static void put_problems(struct cli *c, struct buf *json, const char *file, const char *kind,
                         const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) put_problem(c, json, file, kind, &problems->list[i]);
}

/* The document, or NULL with its problems told. *ret_code stays where all is well. */
static struct policy_document *load(struct cli *c, struct buf *json, const char *file, int *ret_code)
{
    struct str text, name = policy_name_of(str_from(file));
    struct policy_problems problems = {0};
    struct policy_document *document;
    int code = file_text(c, str_from(file), LIMIT_POLICY_BODY_BYTES, &text);
    if (code != DONE) {
        *ret_code = code;
        return NULL;
    }
    if (strcmp(file, "-") == 0) name = STR("stdin");
    enum err e = policy_load(name, text, &document, &problems);
    if (e == ERR_OK) return document;
    if (problems.count == 0) cli_complain(c, REFUSED, "%s: %s", file, err_sentence(e));
    put_problems(c, json, file, "error", &problems);
    if (*ret_code == DONE) *ret_code = REFUSED;
    return NULL;
}

int policy_check(struct cli *c, const struct arguments *a)
{
    int code = DONE;
    struct buf json;
    buf_init(&json, 64, 16 << 20);
    buf_put_byte(&json, '[');
    for (size_t i = 0; i < a->positional_count; i++) {
        struct policy_document *d = load(c, &json, a->positionals[i], &code);
        if (d == NULL) continue;
        struct policy_problems lints = {0};
        policy_lint(d, &lints);
        put_problems(c, &json, a->positionals[i], "warning", &lints);
        if (!c->json)
            fprintf(c->out, "%s: valid, %zu rule%s\n", a->positionals[i], policy_document_rules(d),
                    policy_document_rules(d) == 1 ? "" : "s");
        policy_document_release(d);
    }
    buf_put_byte(&json, ']');
    if (c->json) print_json(c, buf_view(&json));
    buf_fini(&json);
    return code;
}

/* ---- tests ---- */

struct tally {
    struct cli *c;
    struct buf *json;
    const char *file;
    size_t passed, failed;
};

static void tell_test(void *context, const struct policy_test_result *r)
{
    struct tally *t = context;
    if (r->passed) t->passed++;
    else t->failed++;
    if (t->c->json) {
        buf_printf(t->json, "%s{\"file\":", t->json->size > 1 ? "," : "");
        json_put_string(t->json, str_from(t->file));
        buf_printf(t->json, ",\"test\":%zu,\"passed\":%s,\"message\":", r->index, r->passed ? "true" : "false");
        json_put_string(t->json, str_from(r->message));
        buf_put_byte(t->json, '}');
        return;
    }
    struct str message = text_shown(&t->c->arena, str_from(r->message));
    fprintf(t->c->out, "%s  %s tests[%zu]%s%.*s\n", r->passed ? "ok  " : "FAIL", t->file, r->index,
            message.size == 0 ? "" : ": ", STR_FORMAT(message));
}

int policy_test(struct cli *c, const struct arguments *a)
{
    int code = DONE;
    struct buf json;
    buf_init(&json, 64, 16 << 20);
    buf_put_byte(&json, '[');
    struct tally tally = {.c = c, .json = &json};
    for (size_t i = 0; i < a->positional_count; i++) {
        /* A document whose tests fail does not load: its problems say which and why. */
        struct policy_document *d = load(c, &json, a->positionals[i], &code);
        if (d == NULL) continue;
        tally.file = a->positionals[i];
        policy_document_tests(d, tell_test, &tally);
        policy_document_release(d);
    }
    buf_put_byte(&json, ']');
    if (c->json) print_json(c, buf_view(&json));
    else fprintf(c->out, "%zu passed, %zu failed%s\n", tally.passed, tally.failed,
                 code == DONE ? "" : "; a document does not load, see above");
    buf_fini(&json);
    return tally.failed > 0 && code == DONE ? REFUSED : code;
}
