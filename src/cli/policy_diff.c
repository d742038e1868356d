/* policy_diff.c - `writ policy diff OLD NEW --against corpus.jsonl`: which recorded requests a
 * change of policies would decide differently.
 *
 * Both sets decide each request at its recorded time, in the order of these times, and count it in
 * counters of their own. The command compares decision, safe call and requested reviewers. If
 * another rule gives the same outcome, that is counted, but is no change.
 *
 * A record has no masked values. If a rule reads one, the request is decided with each result that
 * the rule could have; so it is if a limit adds one up. If these do not agree, the request is
 * reported as one that cannot be known. */
#include "cli/policy.h"

enum {
    ARGS_MOST = 32 << 20, /* of a safe call */
    TOLD_DEFAULT = 50,
    TOLD_MOST = 100000,
    OPEN_RULE_BYTES = 512, /* of one in the report, at most */
    VERDICTS = 4
};

struct open_rule {
    struct str policy_name, rule_id; /* of a set */
    uint64_t requests;               /* that cannot be known because of it */
    struct open_rule *next;
};

struct diff_set {
    struct policy_set *set;
    struct policy_counts *counts;
};

struct diff {
    struct cli *c;
    struct diff_set before, after;
    struct str corpus;       /* its name */
    struct arena arena;      /* of one request */
    struct buf json;         /* the list of changes */
    struct buf json_unknown; /* the list of what cannot be known */
    struct open_rule *open;  /* the rules that read what was cut, in the run's arena */
    uint64_t told_most, line;
    bool full; /* memory for counters ran out */
    uint64_t requests, others, cut, changed, unknown, same_by_other;
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
        /* Printed on standard error, not in the report. */
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
    if (entries == NULL) return cli_complain(c, USAGE, "there is not enough memory");
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
    buf_init(&x, 1024, ARGS_MOST);
    buf_init(&y, 1024, ARGS_MOST);
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
        return a->review.approvals == b->review.approvals && a->review.proof == b->review.proof &&
               str_equal(a->review.by, b->review.by);
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
    if (o->verdict == VERDICT_HUMAN_REVIEW && o->review.proof != POLICY_PROOF_ANY)
        fprintf(c->out, " (proof: %s)", policy_proof_name(o->review.proof));
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
        if (o->review.proof != POLICY_PROOF_ANY)
            put_text_member(out, "proof", str_from(policy_proof_name(o->review.proof)));
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

/* Masked as its set records it: a request as it was sent has the values unmasked. */
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
    known.resource = policy_resource_shown(d->before.set, q);
    return policy_resource_shown(d->after.set, &known);
}

static void put_request(struct diff *d, struct buf *out, bool first, const struct policy_request *q)
{
    bool person = q->kind == SUBJECT_USER;
    buf_printf(out, "%s{\"line\":%llu", first ? "" : ",", (unsigned long long)d->line);
    put_text_member(out, person ? "user_id" : "actor", person ? q->user : q->actor);
    put_text_member(out, "action", q->action);
    put_text_member(out, "resource", resource_shown(d, q));
}

/* "corpus.jsonl:7: pay on db:x by bot: " */
static void print_request(struct diff *d, const struct policy_request *q)
{
    struct str action = text_shown(&d->arena, q->action),
               who = text_shown(&d->arena, q->kind == SUBJECT_USER ? q->user : q->actor);
    struct str on = text_shown(&d->arena, resource_shown(d, q));
    fprintf(d->c->out, "%.*s:%llu: %.*s%s%.*s by %.*s: ", STR_FORMAT(d->corpus),
            (unsigned long long)d->line, STR_FORMAT(action), on.size > 0 ? " on " : "",
            STR_FORMAT(on), STR_FORMAT(who));
}

static void tell_change(struct diff *d, const struct policy_request *q,
                        const struct policy_outcome *before, const struct policy_outcome *after)
{
    struct cli *c = d->c;
    if (c->json) {
        put_request(d, &d->json, d->changed == 1, q);
        put_outcome(&d->json, "old", before);
        put_outcome(&d->json, "new", after);
        buf_put_byte(&d->json, '}');
        return;
    }
    print_request(d, q);
    print_outcome(c, before);
    fputs(" → ", c->out);
    print_outcome(c, after);
    fputc('\n', c->out);
}

/* ---- what cannot be known ---- */

static bool count_open(struct diff *d, const struct policy_open *o)
{
    struct open_rule **at = &d->open;
    for (; *at != NULL; at = &(*at)->next)
        if (str_equal((*at)->policy_name, o->policy_name) && str_equal((*at)->rule_id, o->rule_id))
            break;
    if (*at == NULL) {
        *at = arena_new(&d->c->arena, struct open_rule);
        if (*at == NULL) return false;
        **at = (struct open_rule){.policy_name = o->policy_name, .rule_id = o->rule_id};
    }
    (*at)->requests++;
    return true;
}

/* A rule may have two such parts; it is listed once. */
static bool is_listed(const struct policy_unknowns *u, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_equal(u->open[i].rule_id, u->open[at].rule_id) &&
            str_equal(u->open[i].policy_name, u->open[at].policy_name))
            return true;
    return false;
}

static void tell_unknown(struct diff *d, const struct policy_request *q,
                         const struct policy_unknowns *u)
{
    struct cli *c = d->c;
    struct buf *out = &d->json_unknown;
    if (c->json) {
        put_request(d, out, d->unknown == 1, q);
        buf_put_literal(out, ",\"rules\":[");
    } else {
        print_request(d, q);
        fputs("cannot be known: ", c->out);
    }
    for (size_t i = 0; i < u->count; i++) {
        const struct policy_open *o = &u->open[i];
        if (is_listed(u, i)) continue;
        if (c->json) {
            buf_printf(out, "%s{\"policy_name\":", i > 0 ? "," : "");
            json_put_string(out, o->policy_name);
            put_text_member(out, "rule_id", o->rule_id);
            buf_put_byte(out, '}');
        } else {
            fprintf(c->out, "%s%.*s of %.*s", i > 0 ? ", " : "", STR_FORMAT(o->rule_id),
                    STR_FORMAT(o->policy_name));
        }
    }
    if (c->json)
        buf_put_literal(out, "]}");
    else
        fputs(u->count == 0 ? "its resource is not recorded\n" : "\n", c->out);
}

static void take_unknown(struct diff *d, const struct policy_request *q,
                         const struct policy_unknowns *u)
{
    d->unknown++;
    for (size_t i = 0; i < u->count; i++)
        if (!is_listed(u, i) && !count_open(d, &u->open[i])) break;
    if (d->unknown <= d->told_most) tell_unknown(d, q, u);
}

/* ---- both sets ---- */

struct pair {
    struct policy_outcome before, after;
    bool is_same;
};

/* People have approved a redemption: whatever the set asks for counts as approved then. The outcome
 * of such a request is what they are asked, unless it is denied in spite of that. */
static struct policy_outcome decide_as(struct diff *d, struct diff_set *s,
                                       const struct policy_recorded *r, struct policy_unknowns *u)
{
    struct policy_request q = r->request;
    struct policy_outcome o, asked = {0};
    for (;;) {
        policy_evaluate(s->set, &q, &d->arena, NULL, &o);
        if (r->is_counted && !policy_count_weigh(s->counts, u, &q, &d->arena, &o)) d->full = true;
        if (o.verdict != VERDICT_HUMAN_REVIEW) break;
        if (q.approved_count == 0) asked = o;
        if (!r->is_redemption || o.review.vote_count <= q.approved_count) break;
        q.approved = o.review.votes;
        q.approved_count = o.review.vote_count;
    }
    return q.approved_count > 0 && o.verdict != VERDICT_DENY ? asked : o;
}

/* False: with these assumptions it is not known whether the outcomes differ. */
static bool decide(struct diff *d, const struct policy_recorded *r, struct policy_unknowns *u,
                   struct pair *ret)
{
    u->values = 0;
    ret->before = decide_as(d, &d->before, r, u);
    uint64_t values = u->values;
    u->values = 0;
    ret->after = decide_as(d, &d->after, r, u);
    ret->is_same = same_outcome(&ret->before, &ret->after);
    bool both_compute =
        ret->before.verdict == VERDICT_COMPUTE && ret->after.verdict == VERDICT_COMPUTE;
    return !u->is_open && (!both_compute || values == u->values);
}

/* Decides with all assumptions, and counts. False: the result depends on what was cut, by the rules
 * in *ret_by. Else *ret is one of the pairs that all say the same. */
static bool decide_all(struct diff *d, const struct policy_recorded *r, struct policy_unknowns *u,
                       struct pair *ret, struct policy_unknowns *ret_by)
{
    bool is_known = true, all_same = true, all_alike = true;
    size_t evaluations = 0;
    do {
        struct pair next;
        bool is_sure = decide(d, r, u, &next);
        if (evaluations++ == 0) *ret = next;
        all_same &= next.is_same;
        all_alike &=
            same_outcome(&ret->before, &next.before) && same_outcome(&ret->after, &next.after);
        if (!is_known || (is_sure && (all_same || all_alike))) continue;
        is_known = false;
        *ret_by = *u;
    } while (policy_unknowns_next(u));
    if (r->is_counted) {
        policy_count_settle(d->before.counts, evaluations, r->request.now_ms);
        policy_count_settle(d->after.counts, evaluations, r->request.now_ms);
    }
    return is_known;
}

static void compare(void *context, const struct policy_recorded *recorded)
{
    struct diff *d = context;
    struct policy_recorded r = *recorded;
    struct policy_unknowns unknowns = {0}, by;
    struct pair pair;
    arena_reset(&d->arena);
    if (r.is_cut) r.request.unknowns = &unknowns;
    d->line = r.line;
    d->requests++;
    d->cut += r.is_cut;
    if (!decide_all(d, &r, &unknowns, &pair, &by)) {
        take_unknown(d, &r.request, &by);
        return;
    }
    if (pair.is_same) {
        d->same_by_other += strcmp(pair.before.rule, pair.after.rule) != 0;
        return;
    }
    d->changed++;
    d->counts[pair.before.verdict][pair.after.verdict]++;
    if (d->changed > d->told_most) return;
    struct policy_outcome before = outcome_shown(d, d->before.set, &pair.before),
                          after = outcome_shown(d, d->after.set, &pair.after);
    tell_change(d, &r.request, &before, &after);
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

static uint64_t not_shown(const struct diff *d, uint64_t count)
{
    return count > d->told_most ? count - d->told_most : 0;
}

static void print_unknown(const struct diff *d)
{
    if (d->unknown == 0) return;
    fprintf(d->c->out,
            "%llu cannot be known, because rules read or add up values that are not recorded\n",
            (unsigned long long)d->unknown);
    for (const struct open_rule *r = d->open; r != NULL; r = r->next)
        fprintf(d->c->out, "%10llu  %.*s of %.*s\n", (unsigned long long)r->requests,
                STR_FORMAT(r->rule_id), STR_FORMAT(r->policy_name));
}

static void print_counts(const struct diff *d)
{
    FILE *out = d->c->out;
    uint64_t looser = changed_to(d, true), stricter = changed_to(d, false);
    uint64_t more = not_shown(d, d->changed) + not_shown(d, d->unknown);
    if (more > 0)
        fprintf(out, "… and %llu more; --limit shows more of them\n", (unsigned long long)more);
    fprintf(out, "%llu of %llu requests would change: %llu looser, %llu stricter, %llu otherwise\n",
            (unsigned long long)d->changed, (unsigned long long)d->requests,
            (unsigned long long)looser, (unsigned long long)stricter,
            (unsigned long long)(d->changed - looser - stricter));
    for (int from = VERDICTS - 1; from >= 0; from--)
        for (int to = VERDICTS - 1; to >= 0; to--)
            if (d->counts[from][to] > 0)
                fprintf(out, "%10llu  %s → %s\n", (unsigned long long)d->counts[from][to],
                        verdict_name((enum verdict)from), verdict_name((enum verdict)to));
    print_unknown(d);
    if (d->same_by_other > 0)
        fprintf(out, "%llu have the same outcome by another rule\n",
                (unsigned long long)d->same_by_other);
    if (d->cut > 0)
        fprintf(out, "%llu were recorded with values masked or left out\n",
                (unsigned long long)d->cut);
    if (d->others > 0)
        fprintf(out,
                "%llu events that are dry runs or no decisions, or have no subject, were skipped\n",
                (unsigned long long)d->others);
}

static size_t open_rules(const struct diff *d)
{
    size_t count = 0;
    for (const struct open_rule *r = d->open; r != NULL; r = r->next) count++;
    return count;
}

static void put_open_rules(const struct diff *d, struct buf *out)
{
    for (const struct open_rule *r = d->open; r != NULL; r = r->next) {
        buf_printf(out, "%s{\"policy_name\":", r == d->open ? "" : ",");
        json_put_string(out, r->policy_name);
        put_text_member(out, "rule_id", r->rule_id);
        buf_printf(out, ",\"requests\":%llu}", (unsigned long long)r->requests);
    }
}

static int print_json_report(struct diff *d)
{
    uint64_t looser = changed_to(d, true), stricter = changed_to(d, false);
    struct buf out = cli_scratch(d->c, d->json.size + d->json_unknown.size +
                                           open_rules(d) * OPEN_RULE_BYTES + 4096);
    buf_printf(&out,
               "{\"requests\":%llu,\"changed\":%llu,\"looser\":%llu,\"stricter\":%llu,\"same_by_"
               "other_rule\":%llu,"
               "\"unknown\":%llu,\"masked\":%llu,\"other_events\":%llu,\"counts\":[",
               (unsigned long long)d->requests, (unsigned long long)d->changed,
               (unsigned long long)looser, (unsigned long long)stricter,
               (unsigned long long)d->same_by_other, (unsigned long long)d->unknown,
               (unsigned long long)d->cut, (unsigned long long)d->others);
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
    buf_put_literal(&out, "],\"unknowns\":[");
    buf_put(&out, buf_view(&d->json_unknown));
    buf_put_literal(&out, "],\"unknown_rules\":[");
    put_open_rules(d, &out);
    buf_put_literal(&out, "]}");
    if (out.overflow || d->json.overflow || d->json_unknown.overflow)
        return cli_complain(d->c, USAGE, "the report is too long; --limit shortens it");
    print_json(d->c, buf_view(&out));
    return DONE;
}

const struct flag policy_diff_flags[] = {
    {"against", "FILE", "the requests, one JSON object a line (-: standard input)"},
    {"limit", "N", "the most changes to show (default 50)"},
    {NULL, NULL, NULL}};

/* Printed on standard error: no request of the corpus shows these changes. */
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
    int code = load_set(d->c, a->positionals[0], &d->before.set);
    if (code == DONE) code = load_set(d->c, a->positionals[1], &d->after.set);
    if (code == DONE) policy_set_limit_changes(d->before.set, d->after.set, tell_limits, d->c);
    if (code == DONE) code = policy_history_read(d->c, d->corpus, compare, d, &d->others);
    if (code == DONE && d->full)
        code = cli_complain(d->c, USAGE, "there is not enough memory to count these requests");
    if (code != DONE) return code;
    if (d->c->json)
        code = print_json_report(d);
    else
        print_counts(d);
    return code != DONE ? code : d->changed + d->unknown > 0 ? REFUSED : DONE;
}

int policy_run_diff(struct cli *c, const struct arguments *a)
{
    struct diff d = {.c = c, .corpus = argument_text(a, "against"), .told_most = TOLD_DEFAULT};
    if (str_is_absent(d.corpus))
        return cli_complain(
            c, USAGE,
            "--against FILE is missing: the file with the requests; writ audit query --json makes one");
    if (argument_given(a, "limit") &&
        (!str_to_u64(argument_text(a, "limit"), &d.told_most) || d.told_most > TOLD_MOST))
        return cli_complain(c, USAGE, "--limit: it must be a number up to %d", TOLD_MOST);
    arena_init(&d.arena, 64 << 10, (size_t)512 << 20);
    buf_init(&d.json, 4096, 128 << 20);
    buf_init(&d.json_unknown, 4096, 128 << 20);
    d.before.counts = policy_counts_create();
    d.after.counts = policy_counts_create();
    int code = d.before.counts == NULL || d.after.counts == NULL
                   ? cli_complain(c, USAGE, "there is not enough memory")
                   : run(&d, a);
    policy_set_destroy(d.before.set);
    policy_set_destroy(d.after.set);
    policy_counts_destroy(d.before.counts);
    policy_counts_destroy(d.after.counts);
    buf_fini(&d.json);
    buf_fini(&d.json_unknown);
    arena_fini(&d.arena);
    return code;
}
