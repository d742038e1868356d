/* policy_diff.c - `writ policy diff OLD NEW --against corpus.jsonl`: what a change of policies
 * would have done to requests that were made.
 *
 * Both sets decide each request, at the time when it was made, and the outcomes are held beside
 * each other: decision, safe call, and who is asked. Another rule that comes to the same is
 * counted, but is no change. Limits are not counted, because what they let through depends on all
 * the requests before. */
#include <errno.h>
#include <stdlib.h>

#include "cli/policy.h"

enum {
    LINE_MOST = 32 << 20, /* a page of 500 events */
    TOLD_DEFAULT = 50,
    TOLD_MOST = 100000,
    VERDICTS = 4
};

struct diff {
    struct cli *c;
    struct policy_set *before, *after;
    struct str corpus;  /* its name */
    struct arena arena; /* of one line */
    struct buf json;    /* the list of changes */
    uint64_t told_most, line;
    uint64_t requests, others, cut, changed, same_by_other;
    uint64_t counts[VERDICTS][VERDICTS]; /* of changed ones: [before][after] */
};

/* ---- sets ---- */

static int load_documents(struct cli *c, const struct policy_files *files,
                          struct policy_set_entry *entries)
{
    int code = DONE;
    for (size_t i = 0; i < files->count; i++) {
        struct policy_problems problems;
        int one = policy_file_load(c, files->paths[i], true, &entries[i].document, &problems);
        entries[i].version = 1;
        /* Told beside the report, not in it. */
        for (size_t k = 0; one != DONE && k < problems.count; k++) {
            struct str message = text_shown(&c->arena, str_from(problems.list[k].message));
            fprintf(c->err, "%.*s:%u:%u: %.*s\n", STR_FORMAT(policy_file_shown(c, files->paths[i])),
                    problems.list[k].line, problems.list[k].column, STR_FORMAT(message));
        }
        if (one != DONE) code = USAGE;
    }
    return code;
}

static int load_set(struct cli *c, const char *path, struct policy_set **ret)
{
    struct policy_files files = {0};
    struct fault f;
    int code = policy_files_add(c, path, &files);
    if (code != DONE) return code;
    struct policy_set_entry *entries = arena_array(&c->arena, struct policy_set_entry, files.count);
    if (entries == NULL) return cli_complain(c, USAGE, "there is no memory");
    code = load_documents(c, &files, entries);
    if (code == DONE && policy_set_create(entries, files.count, ret, &f) != ERR_OK)
        code = cli_complain_fault(c, USAGE, &f);
    for (size_t i = 0; i < files.count; i++) policy_document_release(entries[i].document);
    return code;
}

/* ---- one request ---- */

static bool same_args(const struct json *a, const struct json *b)
{
    struct buf x, y;
    if (a == NULL || b == NULL) return a == b;
    buf_init(&x, 1024, LINE_MOST);
    buf_init(&y, 1024, LINE_MOST);
    json_put_canonical(&x, a);
    json_put_canonical(&y, b);
    bool same = !x.overflow && !y.overflow && str_equal(buf_view(&x), buf_view(&y));
    buf_fini(&x);
    buf_fini(&y);
    return same;
}

static bool same_outcome(const struct policy_outcome *a, const struct policy_outcome *b)
{
    if (a->verdict != b->verdict) return false;
    if (a->verdict == VERDICT_HUMAN_REVIEW)
        return a->review.approvals == b->review.approvals && str_equal(a->review.by, b->review.by);
    if (a->verdict == VERDICT_COMPUTE)
        return str_equal(a->safe_tool, b->safe_tool) && same_args(a->safe_args, b->safe_args);
    return true;
}

/* "human_review by review:refunds (finance)" */
static void print_outcome(struct cli *c, const struct policy_outcome *o)
{
    print_verdict(c, str_from(verdict_name(o->verdict)));
    fprintf(c->out, " by %s", o->rule);
    if (o->verdict == VERDICT_HUMAN_REVIEW && (o->review.by.size > 0 || o->review.approvals > 1))
        fprintf(c->out, " (%u of %.*s)", o->review.approvals,
                STR_FORMAT(o->review.by.size > 0 ? o->review.by : STR("anyone who may")));
    if (o->verdict == VERDICT_COMPUTE) {
        struct buf args = cli_scratch(c, 512);
        if (o->safe_args != NULL) json_put_canonical(&args, o->safe_args);
        struct str shown = text_shown(&c->arena, args.overflow ? STR("…") : buf_view(&args));
        struct str tool = text_shown(&c->arena, o->safe_tool);
        fprintf(c->out, " (%.*s %.*s)", STR_FORMAT(tool), STR_FORMAT(shown));
    }
}

static void put_outcome(struct buf *out, const char *name, const struct policy_outcome *o)
{
    buf_printf(out, ",\"%s\":{\"decision\":\"%s\"", name, verdict_name(o->verdict));
    put_text_member(out, "rule", str_from(o->rule));
    put_text_member(out, "policy_name", o->policy_name);
    if (o->verdict == VERDICT_HUMAN_REVIEW) {
        put_text_member(out, "by", o->review.by);
        buf_printf(out, ",\"approvals\":%u", o->review.approvals);
    }
    if (o->verdict == VERDICT_COMPUTE) {
        put_text_member(out, "safe_tool", o->safe_tool);
        buf_printf(out, ",\"safe_args\":");
        if (o->safe_args == NULL)
            buf_put_literal(out, "{}");
        else
            json_put_canonical(out, o->safe_args);
    }
    buf_put_byte(out, '}');
}

/* As its set would have it recorded: a request as it was sent has masked values in clear. */
static struct policy_outcome outcome_shown(struct diff *d, const struct policy_set *set,
                                           const struct policy_outcome *o)
{
    struct policy_outcome shown = *o;
    if (o->verdict == VERDICT_COMPUTE && o->told_args != NULL)
        shown.safe_args = policy_masked_copy(set, STR("args"), o->told_args, &d->arena);
    return shown;
}

static struct str resource_shown(struct diff *d, const struct policy_request *q)
{
    struct policy_request known = *q;
    known.resource = policy_resource_shown(d->before, q);
    return policy_resource_shown(d->after, &known);
}

static void tell_change(struct diff *d, const struct policy_request *q,
                        const struct policy_outcome *before, const struct policy_outcome *after)
{
    struct cli *c = d->c;
    bool person = q->kind == SUBJECT_USER;
    if (c->json) {
        buf_printf(&d->json, "%s{\"line\":%llu", d->changed > 1 ? "," : "",
                   (unsigned long long)d->line);
        put_text_member(&d->json, person ? "user_id" : "actor", person ? q->user : q->actor);
        put_text_member(&d->json, "action", q->action);
        put_text_member(&d->json, "resource", resource_shown(d, q));
        put_outcome(&d->json, "old", before);
        put_outcome(&d->json, "new", after);
        buf_put_byte(&d->json, '}');
        return;
    }
    struct str action = text_shown(&d->arena, q->action),
               who = text_shown(&d->arena, person ? q->user : q->actor);
    struct str on = text_shown(&d->arena, resource_shown(d, q));
    fprintf(c->out, "%.*s:%llu: %.*s%s%.*s by %.*s: ", STR_FORMAT(d->corpus),
            (unsigned long long)d->line, STR_FORMAT(action), on.size > 0 ? " on " : "",
            STR_FORMAT(on), STR_FORMAT(who));
    print_outcome(c, before);
    fputs(" → ", c->out);
    print_outcome(c, after);
    fputc('\n', c->out);
}

static void compare(struct diff *d, const struct policy_recorded *recorded)
{
    const struct policy_request *q = &recorded->request;
    struct policy_outcome before, after;
    policy_evaluate(d->before, q, &d->arena, NULL, &before);
    policy_evaluate(d->after, q, &d->arena, NULL, &after);
    d->requests++;
    d->cut += recorded->is_cut;
    if (same_outcome(&before, &after)) {
        d->same_by_other += strcmp(before.rule, after.rule) != 0;
        return;
    }
    d->changed++;
    d->counts[before.verdict][after.verdict]++;
    if (d->changed > d->told_most) return;
    before = outcome_shown(d, d->before, &before);
    after = outcome_shown(d, d->after, &after);
    tell_change(d, q, &before, &after);
}

/* ---- the corpus ---- */

static int complain_line(struct diff *d, const struct fault *f)
{
    struct str text = text_shown(&d->c->arena, str_from(f->text));
    return cli_complain(d->c, USAGE, "%.*s:%llu: %.*s", STR_FORMAT(d->corpus),
                        (unsigned long long)d->line, STR_FORMAT(text));
}

static int take_request(struct diff *d, const struct json *v)
{
    struct policy_recorded recorded;
    struct fault f;
    switch (policy_recorded_read(v, &d->arena, &recorded, &f)) {
    case RECORDED_REQUEST: compare(d, &recorded); return DONE;
    case RECORDED_OTHER: d->others++; return DONE;
    case RECORDED_WRONG: break;
    }
    return complain_line(d, &f);
}

static int take_line(struct diff *d, struct str text)
{
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    struct json *root;
    struct fault f;
    while (text.size > 0 &&
           (text.bytes[text.size - 1] == '\n' || text.bytes[text.size - 1] == '\r'))
        text.size--;
    if (text.size == 0) return DONE;
    arena_reset(&d->arena);
    if (json_read(text, &options, &d->arena, &root, &f) != ERR_OK) return complain_line(d, &f);
    const struct json *events = json_get(root, STR("events"));
    if (!json_is_array(events)) return take_request(d, root);
    int code = DONE; /* a page of the audit trail */
    for (const struct json *e = events->child; e != NULL && code == DONE; e = e->next)
        code = take_request(d, e);
    return code;
}

static int take_lines(struct diff *d, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int code = DONE;
    while (code == DONE && (size = getline(&line, &room, file)) >= 0) {
        d->line++;
        if (size > LINE_MOST)
            code = cli_complain(d->c, USAGE, "%.*s:%llu: is longer than %d bytes",
                                STR_FORMAT(d->corpus), (unsigned long long)d->line, LINE_MOST);
        else
            code = take_line(d, str_of(line, (size_t)size));
    }
    if (code == DONE && !feof(file))
        code = cli_complain(d->c, USAGE, "%.*s cannot be read", STR_FORMAT(d->corpus));
    free(line);
    return code;
}

static int take_corpus(struct diff *d)
{
    bool is_input = str_equal(d->corpus, STR("-"));
    FILE *file = is_input ? stdin : fopen(d->corpus.bytes, "re");
    if (file == NULL)
        return cli_complain(d->c, USAGE, "%s cannot be opened: %s", d->corpus.bytes,
                            strerror(errno));
    int code = take_lines(d, file);
    if (!is_input) fclose(file);
    if (code == DONE && d->requests == 0)
        return cli_complain(d->c, USAGE, "%s holds no requests", d->corpus.bytes);
    return code;
}

/* ---- the end ---- */

static uint64_t changed_to(const struct diff *d, bool looser)
{
    uint64_t sum = 0;
    for (int from = 0; from < VERDICTS; from++)
        for (int to = 0; to < VERDICTS; to++)
            if (looser ? to > from : to < from) sum += d->counts[from][to];
    return sum;
}

static void print_counts(const struct diff *d)
{
    FILE *out = d->c->out;
    uint64_t looser = changed_to(d, true), stricter = changed_to(d, false);
    if (d->changed > d->told_most)
        fprintf(out, "… and %llu more; --limit shows more of them\n",
                (unsigned long long)(d->changed - d->told_most));
    fprintf(out, "%llu of %llu requests would change: %llu looser, %llu stricter, %llu otherwise\n",
            (unsigned long long)d->changed, (unsigned long long)d->requests,
            (unsigned long long)looser, (unsigned long long)stricter,
            (unsigned long long)(d->changed - looser - stricter));
    for (int from = VERDICTS - 1; from >= 0; from--)
        for (int to = VERDICTS - 1; to >= 0; to--)
            if (d->counts[from][to] > 0)
                fprintf(out, "%10llu  %s → %s\n", (unsigned long long)d->counts[from][to],
                        verdict_name((enum verdict)from), verdict_name((enum verdict)to));
    if (d->same_by_other > 0)
        fprintf(out, "%llu come to the same by another rule\n",
                (unsigned long long)d->same_by_other);
    if (d->cut > 0)
        fprintf(out,
                "%llu were recorded with values masked or left out: conditions on those may read "
                "otherwise\n",
                (unsigned long long)d->cut);
    if (d->others > 0)
        fprintf(out,
                "%llu events that are no decisions, or name no one who asked, were passed over\n",
                (unsigned long long)d->others);
}

static int print_json_report(struct diff *d)
{
    uint64_t looser = changed_to(d, true), stricter = changed_to(d, false);
    struct buf out = cli_scratch(d->c, d->json.size + 4096);
    buf_printf(&out,
               "{\"requests\":%llu,\"changed\":%llu,\"looser\":%llu,\"stricter\":%llu,\"same_by_"
               "other_rule\":%llu,"
               "\"masked\":%llu,\"other_events\":%llu,\"counts\":[",
               (unsigned long long)d->requests, (unsigned long long)d->changed,
               (unsigned long long)looser, (unsigned long long)stricter,
               (unsigned long long)d->same_by_other, (unsigned long long)d->cut,
               (unsigned long long)d->others);
    bool first = true;
    for (int from = VERDICTS - 1; from >= 0; from--)
        for (int to = VERDICTS - 1; to >= 0; to--) {
            if (d->counts[from][to] == 0) continue;
            buf_printf(&out, "%s{\"old\":\"%s\",\"new\":\"%s\",\"count\":%llu}", first ? "" : ",",
                       verdict_name((enum verdict)from), verdict_name((enum verdict)to),
                       (unsigned long long)d->counts[from][to]);
            first = false;
        }
    buf_printf(&out, "],\"changes\":[");
    buf_put(&out, buf_view(&d->json));
    buf_printf(&out, "]}");
    if (out.overflow || d->json.overflow)
        return cli_complain(d->c, USAGE, "the report is too long; --limit shortens it");
    print_json(d->c, buf_view(&out));
    return DONE;
}

const struct flag policy_diff_flags[] = {
    {"against", "FILE", "the requests, one JSON object a line (-: standard input)"},
    {"limit", "N", "show at most so many that would change (default 50)"},
    {NULL, NULL, NULL}};

/* Told beside the report: no request of the corpus shows it. */
static void tell_limits(void *context, struct str policy_name,
                        const struct policy_problems *problems)
{
    struct cli *c = context;
    struct str name = text_shown(&c->arena, policy_name);
    for (size_t i = 0; i < problems->count; i++) {
        const struct policy_problem *p = &problems->list[i];
        struct str message = text_shown(&c->arena, str_from(p->message));
        fprintf(c->err, "warning: %.*s: line %u: %s: %.*s\n", STR_FORMAT(name), p->line, p->path,
                STR_FORMAT(message));
    }
}

static int run(struct diff *d, const struct arguments *a)
{
    int code = load_set(d->c, a->positionals[0], &d->before);
    if (code == DONE) code = load_set(d->c, a->positionals[1], &d->after);
    if (code == DONE) policy_set_limit_changes(d->before, d->after, tell_limits, d->c);
    if (code == DONE) code = take_corpus(d);
    if (code != DONE) return code;
    if (d->c->json)
        code = print_json_report(d);
    else
        print_counts(d);
    return code != DONE ? code : d->changed > 0 ? REFUSED : DONE;
}

int policy_run_diff(struct cli *c, const struct arguments *a)
{
    struct diff d = {.c = c, .corpus = argument_text(a, "against"), .told_most = TOLD_DEFAULT};
    if (str_is_absent(d.corpus))
        return cli_complain(
            c, USAGE,
            "against which requests? --against FILE; writ audit query --json makes such a file");
    if (argument_given(a, "limit") &&
        (!str_to_u64(argument_text(a, "limit"), &d.told_most) || d.told_most > TOLD_MOST))
        return cli_complain(c, USAGE, "--limit: it must be a number up to %d", TOLD_MOST);
    arena_init(&d.arena, 64 << 10, (size_t)512 << 20);
    buf_init(&d.json, 4096, 128 << 20);
    int code = run(&d, a);
    policy_set_destroy(d.before);
    policy_set_destroy(d.after);
    buf_fini(&d.json);
    arena_fini(&d.arena);
    return code;
}
