/* policy_test.c - `writ policy test`: runs the tests of documents, and prints the results for
 * people or programs.
 *
 * All tests run before anything is printed, because JUnit has the number of tests at its
 * beginning. A document that does not load is a failure of its own. With --coverage, so is a rule
 * that no test meets.
 *
 * TAP is version 14 (testanything.org); JUnit is the XML that build servers read: a suite for each
 * file, a case for each test. */
#include "base/limits.h"
#include "cli/policy.h"

struct test_case {
    size_t index;
    bool passed;
    unsigned line, column;
    struct str about, message;
};

struct suite {
    const char *file;
    bool loaded;
    struct policy_problems *problems; /* where it is not */
    struct test_case *cases;
    size_t count, room, failed;
    struct policy_problem *unmatched; /* each as a warning */
    size_t unmatched_count, unmatched_room;
};

struct report {
    struct cli *c;
    struct suite *suites;
    size_t count;
    size_t passed, failed, broken, rules, unmatched;
    bool require_coverage;
    bool full; /* memory ran out */
};

/* ---- run ---- */

struct run {
    struct report *report;
    struct suite *suite;
};

/* Room for one more element; the old ones are kept. */
static void *grown(struct report *r, void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room) return list;
    size_t more = *room * 2 + 16;
    void *larger = arena_take(&r->c->arena, more * size);
    if (larger == NULL) {
        r->full = true;
        return NULL;
    }
    if (count > 0) memcpy(larger, list, count * size);
    *room = more;
    return larger;
}

static void take_case(void *context, const struct policy_test_result *result)
{
    struct run *run = context;
    struct suite *s = run->suite;
    struct test_case *list = grown(run->report, s->cases, s->count, &s->room, sizeof *list);
    if (result->passed)
        run->report->passed++;
    else
        run->report->failed++;
    s->failed += !result->passed;
    if (list == NULL) return;
    s->cases = list;
    s->cases[s->count++] = (struct test_case){
        .index = result->index,
        .passed = result->passed,
        .line = result->line,
        .column = result->column,
        .about = text_shown(&run->report->c->arena, str_from(result->about)),
        .message = text_shown(&run->report->c->arena, str_from(result->message))};
}

static void take_unmatched(void *context, const struct policy_unmatched *u)
{
    struct run *run = context;
    struct suite *s = run->suite;
    struct policy_problem *list =
        grown(run->report, s->unmatched, s->unmatched_count, &s->unmatched_room, sizeof *list);
    run->report->unmatched++;
    if (list == NULL) return;
    s->unmatched = list;
    struct policy_problem *p = &list[s->unmatched_count++];
    *p = (struct policy_problem){.line = u->line, .column = u->column};
    snprintf(p->path, sizeof p->path, "rules[%zu]", u->index);
    if (u->is_unknown)
        snprintf(p->message, sizeof p->message,
                 "not known to be matched by a test: %.*s (looking at all rules with all tests "
                 "would cost more than %d steps)",
                 STR_FORMAT(u->rule_id), LIMIT_POLICY_TESTS_STEPS);
    else
        snprintf(p->message, sizeof p->message, "never matched by any test: %.*s",
                 STR_FORMAT(u->rule_id));
}

static int run_suite(struct report *r, struct suite *s)
{
    struct policy_document *d;
    struct run run = {r, s};
    s->problems = arena_new(&r->c->arena, struct policy_problems);
    if (s->problems == NULL) {
        r->full = true;
        return REFUSED;
    }
    int code = policy_file_load(r->c, s->file, false, &d, s->problems);
    s->loaded = code == DONE;
    r->broken += code != DONE;
    if (code != DONE) return code;
    r->rules += policy_document_rules(d);
    size_t before = r->failed, failed = policy_document_tests(d, take_case, &run);
    r->full |= failed != r->failed - before; /* the tests could not be run */
    policy_document_unmatched(d, take_unmatched, &run);
    policy_document_release(d);
    return DONE;
}

/* ---- for people, and as JSON ---- */

static const char *coverage_kind(const struct report *r)
{
    return r->require_coverage ? "error" : "warning";
}

static void put_text_case(struct report *r, struct buf *json, const struct suite *s,
                          const struct test_case *t)
{
    if (!r->c->json) {
        fprintf(r->c->out, "%s  %.*s:%u:%u: tests[%zu]: %.*s\n", t->passed ? "ok  " : "FAIL",
                STR_FORMAT(policy_file_shown(r->c, s->file)), t->line, t->column, t->index,
                STR_FORMAT(t->message));
        return;
    }
    buf_printf(json, "%s{\"file\":", json->size > 1 ? "," : "");
    policy_put_file(r->c, json, s->file);
    buf_printf(json, ",\"line\":%u,\"column\":%u,\"test\":%zu,\"passed\":%s", t->line, t->column,
               t->index, t->passed ? "true" : "false");
    put_text_member(json, "about", t->about);
    put_text_member(json, "message", t->message);
    buf_put_byte(json, '}');
}

static void tell_text(struct report *r)
{
    struct buf json;
    buf_init(&json, 64, 256 << 20);
    buf_put_byte(&json, '[');
    for (size_t i = 0; i < r->count; i++) {
        const struct suite *s = &r->suites[i];
        for (size_t k = 0; k < s->problems->count; k++)
            policy_put_problem(r->c, &json, s->file, "error", &s->problems->list[k]);
        for (size_t k = 0; k < s->count; k++) put_text_case(r, &json, s, &s->cases[k]);
        for (size_t k = 0; k < s->unmatched_count; k++)
            policy_put_problem(r->c, &json, s->file, coverage_kind(r), &s->unmatched[k]);
    }
    buf_put_byte(&json, ']');
    r->full |= json.overflow;
    if (r->c->json) {
        print_json(r->c, buf_view(&json));
    } else {
        fprintf(r->c->out, "%zu passed, %zu failed%s\n", r->passed, r->failed,
                r->broken == 0 ? "" : "; a document does not load, see above");
        if (r->unmatched > 0)
            fprintf(r->c->out, "%zu of %zu rules are never matched by any test\n", r->unmatched,
                    r->rules);
    }
    buf_fini(&json);
}

/* ---- TAP ---- */

/* In a description, # and \ are TAP's own. */
static void put_tap_text(FILE *out, struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '#' || text.bytes[i] == '\\') fputc('\\', out);
        fputc(text.bytes[i], out);
    }
}

/* A scalar of the YAML block; JSON's strings are YAML's. */
static void put_tap_field(struct report *r, const char *name, struct str text)
{
    struct buf out = cli_scratch(r->c, 8192);
    json_put_string(&out, text);
    fprintf(r->c->out, "  %s: %.*s\n", name, STR_FORMAT(buf_view(&out)));
}

static void put_tap_point(struct report *r, bool good, size_t number, const char *file)
{
    fprintf(r->c->out, "%sok %zu - ", good ? "" : "not ", number);
    put_tap_text(r->c->out, text_shown(&r->c->arena, str_from(file)));
}

static void put_tap_problems(struct report *r, const struct policy_problem *list, size_t count)
{
    fputs("  ---\n  problems:\n", r->c->out);
    for (size_t i = 0; i < count; i++) {
        struct buf out = cli_scratch(r->c, 4096);
        json_put_string(&out, text_shown(&r->c->arena, str_from(list[i].message)));
        fprintf(r->c->out, "    - {line: %u, column: %u, message: %.*s}\n", list[i].line,
                list[i].column, STR_FORMAT(buf_view(&out)));
    }
    fputs("  ...\n", r->c->out);
}

static void put_tap_case(struct report *r, size_t number, const struct suite *s,
                         const struct test_case *t)
{
    put_tap_point(r, t->passed, number, s->file);
    fprintf(r->c->out, " tests[%zu]: ", t->index);
    put_tap_text(r->c->out, t->about);
    fputc('\n', r->c->out);
    if (t->passed) return;
    fputs("  ---\n", r->c->out);
    put_tap_field(r, "message", t->message);
    put_tap_field(r, "file", str_from(s->file));
    fprintf(r->c->out, "  line: %u\n  column: %u\n  ...\n", t->line, t->column);
}

static void tell_tap(struct report *r)
{
    size_t number = 0;
    fprintf(r->c->out, "TAP version 14\n1..%zu\n",
            r->passed + r->failed + r->broken + (r->require_coverage ? r->count - r->broken : 0));
    for (size_t i = 0; i < r->count; i++) {
        const struct suite *s = &r->suites[i];
        if (!s->loaded) {
            put_tap_point(r, false, ++number, s->file);
            fputs(" loads\n", r->c->out);
            put_tap_problems(r, s->problems->list, s->problems->count);
            continue;
        }
        for (size_t k = 0; k < s->count; k++) put_tap_case(r, ++number, s, &s->cases[k]);
        for (size_t k = 0; k < s->unmatched_count && !r->require_coverage; k++)
            fprintf(r->c->out, "# %.*s:%u:%u: %s\n", STR_FORMAT(policy_file_shown(r->c, s->file)),
                    s->unmatched[k].line, s->unmatched[k].column, s->unmatched[k].message);
        if (!r->require_coverage) continue;
        put_tap_point(r, s->unmatched_count == 0, ++number, s->file);
        fputs(": each rule is matched by a test\n", r->c->out);
        if (s->unmatched_count > 0) put_tap_problems(r, s->unmatched, s->unmatched_count);
    }
}

/* ---- JUnit ---- */

static void put_xml(FILE *out, struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        switch (text.bytes[i]) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(text.bytes[i], out);
        }
    }
}

/* ` name="text"`; control characters, which XML cannot contain, are printed as \u00XX. */
static void put_attribute(struct report *r, const char *name, struct str text)
{
    fprintf(r->c->out, " %s=\"", name);
    put_xml(r->c->out, text_shown(&r->c->arena, text));
    fputc('"', r->c->out);
}

static void open_case(struct report *r, const struct suite *s, struct str name, unsigned line)
{
    fputs("    <testcase", r->c->out);
    put_attribute(r, "classname", policy_name_of(str_from(s->file)));
    put_attribute(r, "name", name);
    put_attribute(r, "file", str_from(s->file));
    if (line > 0) fprintf(r->c->out, " line=\"%u\"", line);
    fputs(" time=\"0\">\n", r->c->out);
}

static void put_unfit(struct report *r, const char *element, struct str message)
{
    fprintf(r->c->out, "      <%s", element);
    put_attribute(r, "message", message);
    fputs("/>\n", r->c->out);
}

static void close_case(struct report *r) { fputs("    </testcase>\n", r->c->out); }

static void put_junit_case(struct report *r, const struct suite *s, const struct test_case *t)
{
    struct str name =
        arena_printf(&r->c->arena, "tests[%zu]: %.*s", t->index, STR_FORMAT(t->about));
    open_case(r, s, name, t->line);
    if (!t->passed) put_unfit(r, "failure", t->message);
    close_case(r);
}

static void put_problem_lines(struct report *r, const struct suite *s,
                              const struct policy_problem *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_xml(r->c->out, text_shown(&r->c->arena, str_from(s->file)));
        fprintf(r->c->out, ":%u:%u: ", list[i].line, list[i].column);
        put_xml(r->c->out, text_shown(&r->c->arena, str_from(list[i].message)));
        fputc('\n', r->c->out);
    }
}

static void put_junit_coverage(struct report *r, const struct suite *s)
{
    for (size_t i = 0; i < s->unmatched_count; i++) {
        const struct policy_problem *p = &s->unmatched[i];
        open_case(r, s, arena_printf(&r->c->arena, "%s: is matched by a test", p->path), p->line);
        put_unfit(r, "failure", str_from(p->message));
        close_case(r);
    }
}

static void put_suite(struct report *r, const struct suite *s)
{
    size_t extra = r->require_coverage ? s->unmatched_count : 0;
    fputs("  <testsuite", r->c->out);
    put_attribute(r, "name", str_from(s->file));
    fprintf(r->c->out, " tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"0\" time=\"0\">\n",
            s->count + extra + !s->loaded, s->failed + extra, !s->loaded);
    if (!s->loaded) {
        open_case(r, s, STR("loads"), s->problems->list[0].line);
        fputs("      <error message=\"the document does not load\">", r->c->out);
        put_problem_lines(r, s, s->problems->list, s->problems->count);
        fputs("</error>\n", r->c->out);
        close_case(r);
    }
    for (size_t i = 0; i < s->count; i++) put_junit_case(r, s, &s->cases[i]);
    if (r->require_coverage) {
        put_junit_coverage(r, s);
    } else if (s->unmatched_count > 0) {
        fputs("    <system-out>", r->c->out);
        put_problem_lines(r, s, s->unmatched, s->unmatched_count);
        fputs("</system-out>\n", r->c->out);
    }
    fputs("  </testsuite>\n", r->c->out);
}

static void tell_junit(struct report *r)
{
    size_t extra = r->require_coverage ? r->unmatched : 0;
    fprintf(r->c->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites name=\"writ policy test\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" "
            "time=\"0\">\n",
            r->passed + r->failed + r->broken + extra, r->failed + extra, r->broken);
    for (size_t i = 0; i < r->count; i++) put_suite(r, &r->suites[i]);
    fputs("</testsuites>\n", r->c->out);
}

/* ---- the command ---- */

const struct flag policy_test_flags[] = {
    {"format", "FORM", "text (default), tap or junit"},
    {"require-coverage", NULL, "fail if a rule is never matched by any test"},
    {NULL, NULL, NULL}};

typedef void teller(struct report *r);

static teller *teller_named(struct str name)
{
    if (str_is_absent(name) || str_equal(name, STR("text"))) return tell_text;
    if (str_equal(name, STR("tap"))) return tell_tap;
    return str_equal(name, STR("junit")) ? tell_junit : NULL;
}

int policy_run_test(struct cli *c, const struct arguments *a)
{
    struct report r = {.c = c, .require_coverage = argument_given(a, "require-coverage")};
    struct policy_files files = {0};
    teller *tell = teller_named(argument_text(a, "format"));
    if (tell == NULL) return cli_complain(c, USAGE, "--format: it must be text, tap or junit");
    if (c->json && tell != tell_text)
        return cli_complain(c, USAGE, "--json and --format exclude each other");
    int code = DONE;
    for (size_t i = 0; i < a->positional_count && code == DONE; i++)
        code = policy_files_add(c, a->positionals[i], &files);
    if (code != DONE) return code;
    r.suites = arena_array(&c->arena, struct suite, files.count);
    if (r.suites == NULL) return cli_complain(c, REFUSED, "there is not enough memory");
    for (r.count = 0; r.count < files.count && !r.full; r.count++) {
        r.suites[r.count].file = files.paths[r.count];
        int one = run_suite(&r, &r.suites[r.count]);
        if (code == DONE || one == USAGE) code = one;
    }
    /* An incomplete report would look like a complete one. */
    if (r.full) return cli_complain(c, REFUSED, "there is not enough memory for all of these");
    tell(&r);
    if (r.full) return cli_complain(c, REFUSED, "there is not enough memory for all of these");
    return code != DONE                                              ? code
           : r.failed > 0 || (r.require_coverage && r.unmatched > 0) ? REFUSED
                                                                     : DONE;
}
