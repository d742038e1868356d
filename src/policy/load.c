/* load.c - loads a document: reads its text, and runs its tests once. */
#include "policy/document.h"

#include <stdio.h>

#include "base/check.h"
#include "base/limits.h"
#include "policy/set.h"

/* The failures of the document's own tests, as problems. */
struct test_report {
    struct policy_document *document;
    struct policy_problems *problems;
    size_t failed;
    bool full;
};

/* The cost of a test may change with a later version, and a document in force must still load. So
 * only refusal.c refuses a new document because of it. */
static void keep_unpaid(struct test_report *t, const struct policy_test_result *r)
{
    struct policy_document *d = t->document;
    if (d->unpaid_test != NULL) return;
    struct policy_test_result *kept = arena_new(&d->arena, struct policy_test_result);
    t->full = kept == NULL;
    if (kept != NULL) *kept = *r;
    d->unpaid_test = kept;
}

static void report_test(void *context, const struct policy_test_result *r)
{
    struct test_report *t = context;
    check(r->index < t->document->test_count);
    if (r->passed) return;
    if (r->is_unpaid) {
        keep_unpaid(t, r);
        return;
    }
    t->failed++;
    const struct policy_test *test = &t->document->tests[r->index];
    struct place list = {.key = STR("tests")}, item = {.parent = &list, .index = r->index};
    problem_add(t->problems, &item, test->line, test->column, "%s", r->message);
}

static enum err load(struct policy_document *d, struct str text, bool tested,
                     struct policy_problems *problems)
{
    struct arena scratch;
    arena_init(&scratch, 64 << 10, DOCUMENT_BYTES_MAX);
    struct node *root = node_read(text, &scratch, problems);
    if (root != NULL) document_read(d, root, problems);
    bool full = scratch.overflow || d->arena.overflow;
    arena_fini(&scratch);
    if (full) return ERR_FULL;
    if (problems->count > 0) return ERR_INVALID_POLICY;
    if (!tested) return ERR_OK;

    size_t failed;
    struct test_report report = {.document = d, .problems = problems};
    if (!document_run_tests(d, &failed, report_test, &report) || report.full) return ERR_FULL;
    return report.failed == 0 ? ERR_OK : ERR_INVALID_POLICY;
}

static enum err load_named(struct str name, struct str text, bool tested,
                           struct policy_document **ret, struct policy_problems *problems)
{
    *problems = (struct policy_problems){0};
    struct policy_document *d = document_new(name);
    if (d == NULL) return ERR_FULL;
    d->is_json = node_text_is_json(text);
    d->digest = sha256_once(text);
    enum err err = load(d, text, tested, problems);
    if (err == ERR_FULL) problems->count = 0; /* a partly read document gives no result */
    problems_sort(problems);
    check((err == ERR_INVALID_POLICY) == (problems->count > 0));
    if (err != ERR_OK) {
        policy_document_release(d);
        return err;
    }
    document_check(d);
    *ret = d;
    return ERR_OK;
}

bool policy_is_name(struct str name) { return name.size <= POLICY_NAME_MAX && str_is_name(name); }

struct str policy_file_stem(struct str file)
{
    static const char *const ends[] = {".yaml", ".yml", ".json"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct str end = str_from(ends[i]);
        if (file.size > end.size && str_equal(str_skip(file, file.size - end.size), end))
            return str_of(file.bytes, file.size - end.size);
    }
    return (struct str){0};
}

enum err policy_load(struct str name, struct str text, struct policy_document **ret,
                     struct policy_problems *problems)
{
    return load_named(name, text, true, ret, problems);
}

enum err policy_load_untested(struct str name, struct str text, struct policy_document **ret,
                              struct policy_problems *problems)
{
    return load_named(name, text, false, ret, problems);
}

struct sha256 policy_document_digest(const struct policy_document *d) { return d->digest; }
bool policy_document_is_json(const struct policy_document *d) { return d->is_json; }
size_t policy_document_rules(const struct policy_document *d) { return d->rule_count; }

/* ---- tests ---- */

/* Names may be long, so a text may be cut within a character of several bytes. */
static void cut_to_utf8(char *text) { text[str_cut(str_from(text), SIZE_MAX).size] = '\0'; }

enum { COUNT_COST = 50 }; /* steps for counting one limit once */

struct given_run {
    struct policy_counts *counts;
    unsigned long long given, counted; /* requests */
    uint64_t cost;
    bool full; /* memory ran out */
};

/* All of its repetitions have one outcome until a limit is over, and from then on that one. */
static void run_given(const struct policy_set *set, const struct policy_given *given,
                      struct arena *arena, struct given_run *run)
{
    struct policy_outcome outcome;
    const struct policy_request *q = &given->request;
    policy_evaluate(set, q, arena, NULL, &outcome);
    check(run->counts != NULL && given->times > 0);
    run->given += given->times;
    run->cost += outcome.cost;
    for (unsigned i = 0; i < given->times && !run->full; i++) {
        run->cost += COUNT_COST * outcome.limit_count;
        if (run->cost > LIMIT_POLICY_TESTS_STEPS) return;
        struct arena before = arena_begin_aside(arena, LIMIT_REQUEST_ARENA_BYTES);
        run->full = !policy_count(run->counts, q, arena, &outcome);
        arena_end_aside(arena, &before); /* of the outcome, only the verdict is left */
        if (outcome.verdict != VERDICT_ALLOW && outcome.verdict != VERDICT_COMPUTE) return;
        run->counted++;
    }
}

/* The outcome of the tested request after those that are given. False: memory ran out. */
static bool evaluate_test(const struct policy_set *set, const struct policy_test *test,
                          struct arena *arena, struct given_run *run, struct policy_outcome *ret)
{
    check(test->counts || test->given_count == 0);
    if (test->counts && (run->counts = policy_counts_create()) == NULL) return false;
    for (size_t i = 0; i < test->given_count && run->cost <= LIMIT_POLICY_TESTS_STEPS; i++) {
        run_given(set, &test->given[i], arena, run);
        arena_reset(arena);
    }
    policy_evaluate(set, &test->request, arena, NULL, ret);
    run->cost += ret->cost;
    if (test->counts) run->full |= !policy_count(run->counts, &test->request, arena, ret);
    policy_counts_destroy(run->counts);
    return !run->full;
}

/* Returns the cost. */
static uint64_t run_test(const struct policy_set *set, const struct policy_test *test,
                         struct arena *arena, struct policy_test_result *r)
{
    struct policy_outcome outcome;
    struct given_run run = {0};
    const struct policy_request *q = &test->request;
    bool is_whole = evaluate_test(set, test, arena, &run, &outcome);
    check(run.counted <= run.given);
    r->line = test->line;
    r->column = test->column;
    r->steps = outcome.steps;
    snprintf(r->about, sizeof r->about, "%.*s by %.*s", STR_FORMAT(q->action),
             STR_FORMAT(q->kind == SUBJECT_USER ? q->user : q->actor));
    cut_to_utf8(r->about);
    bool same_rule = str_is_absent(test->rule) || str_equal(test->rule, str_from(outcome.rule));
    r->passed = is_whole && outcome.verdict == test->expect && same_rule;
    int size = snprintf(r->message, sizeof r->message, "expected %s%s%.*s, got %s by %s",
                        verdict_name(test->expect), str_is_absent(test->rule) ? "" : " by ",
                        STR_FORMAT(test->rule), verdict_name(outcome.verdict), outcome.rule);
    if (!is_whole) size = snprintf(r->message, sizeof r->message, "there is not enough memory");
    if (run.given > 0 && size > 0 && (size_t)size < sizeof r->message)
        snprintf(r->message + size, sizeof r->message - (size_t)size,
                 "; %llu of %llu given requests were let through", run.counted, run.given);
    cut_to_utf8(r->message);
    r->is_unpaid = !r->passed && outcome.is_unpaid;
    return run.cost;
}

/* The tests run in the thread that loads a document, and other changes wait for it. */
static void too_dear(struct policy_test_result *r)
{
    r->passed = false;
    r->is_unpaid = true;
    snprintf(r->message, sizeof r->message,
             "the tests up to here cost more than all of a document may (%d steps), and those "
             "behind are not run: write fewer tests, or conditions that cost less",
             LIMIT_POLICY_TESTS_STEPS);
}

bool document_run_tests(const struct policy_document *d, size_t *ret_failed,
                        void (*each)(void *context, const struct policy_test_result *r),
                        void *context)
{
    *ret_failed = 0;
    if (d->test_count == 0) return true;
    struct policy_set *set = NULL;
    /* A set changes the reference count only, not the document. */
    struct policy_set_entry entry = {.document = (struct policy_document *)(uintptr_t)d,
                                     .version = 1};
    if (set_build(&entry, 1, true, &set) != ERR_OK) return false;
    struct arena arena;
    uint64_t cost = 0;
    arena_init(&arena, 16 << 10, LIMIT_REQUEST_ARENA_BYTES);
    for (size_t i = 0; i < d->test_count; i++) {
        struct policy_test_result r = {.index = i};
        cost += run_test(set, &d->tests[i], &arena, &r);
        if (cost > LIMIT_POLICY_TESTS_STEPS) {
            too_dear(&r);
            ++*ret_failed;
            each(context, &r);
            break;
        }
        *ret_failed += !r.passed;
        each(context, &r);
        arena_reset(&arena);
    }
    arena_fini(&arena);
    policy_set_destroy(set);
    return true;
}

size_t policy_document_tests(const struct policy_document *d,
                             void (*each)(void *context, const struct policy_test_result *r),
                             void *context)
{
    size_t failed = 0;
    /* A test that could not be run has not passed. */
    return document_run_tests(d, &failed, each, context) ? failed : d->test_count;
}
