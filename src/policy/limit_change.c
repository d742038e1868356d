/* limit_change.c - the effect of a change of a document on the counters of its limits.
 *
 * A counter belongs to (document, rule, per, value). If these stay, its count is carried over; a
 * longer window knows it only as far back as the old one reached. Any other limit begins a new
 * counter, and its author gets a warning. */
#include "base/check.h"
#include "base/time.h"
#include "policy/problem.h"
#include "policy/set.h"

struct str policy_document_name(const struct policy_document *d) { return d->name; }

bool policy_document_has_limits(const struct policy_document *d)
{
    for (size_t i = 0; i < d->rule_count; i++)
        if (d->rules[i].limit != NULL) return true;
    return false;
}

static const struct rule *limited_rule(const struct policy_document *d, struct str id)
{
    for (size_t i = 0; i < d->rule_count; i++)
        if (d->rules[i].limit != NULL && str_equal(d->rules[i].id, id)) return &d->rules[i];
    return NULL;
}

static void put_duration(struct buf *out, uint64_t ms)
{
    static const struct {
        uint64_t ms;
        const char *unit;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ms % units[i].ms != 0) continue;
        buf_printf(out, "%llu%s", (unsigned long long)(ms / units[i].ms), units[i].unit);
        return;
    }
}

static void warn(struct policy_problems *ret, const struct rule *rule, struct str text)
{
    size_t index = (size_t)(rule - rule->document->rules);
    check(index < rule->document->rule_count);
    struct place rules = {.key = STR("rules")}, at = {.parent = &rules, .index = index},
                 limit = {.parent = &at, .key = STR("limit")};
    problem_add(ret, &limit, rule->line, rule->column, "%.*s", STR_FORMAT(text));
}

/* "until 2026-11-26T15:00:00.000Z this limit sees only the last 1h, which was its window" */
static void tell_longer(struct policy_problems *ret, const struct rule *rule, uint64_t was_ms,
                        uint64_t now_ms)
{
    check(rule->limit->window_ms > was_ms);
    char text[160], time[TIME_TEXT];
    struct buf out = buf_over(text, sizeof text);
    uint64_t longer_ms = rule->limit->window_ms - was_ms;
    if (now_ms > 0) {
        time_write(now_ms + longer_ms, time);
        buf_put_literal(&out, "until ");
        buf_put(&out, str_of(time, sizeof time));
    } else {
        buf_put_literal(&out, "for ");
        put_duration(&out, longer_ms);
        buf_put_literal(&out, " after the change");
    }
    buf_put_literal(&out, " this limit sees only the last ");
    put_duration(&out, was_ms);
    buf_put_literal(&out, " before the change, which was its window, and what came since");
    warn(ret, rule, buf_view(&out));
}

/* A rule of the old document whose limit the new one does not have. */
static const struct rule *limit_that_went(const struct policy_document *before,
                                          const struct policy_document *after)
{
    for (size_t i = 0; i < before->rule_count; i++)
        if (before->rules[i].limit != NULL && limited_rule(after, before->rules[i].id) == NULL)
            return &before->rules[i];
    return NULL;
}

static void tell_rule(const struct policy_document *before, const struct rule *rule,
                      uint64_t now_ms, struct policy_problems *ret)
{
    check(rule->limit != NULL);
    char text[240];
    struct buf out = buf_over(text, sizeof text);
    const struct rule *was = limited_rule(before, rule->id);
    bool same_name = str_equal(before->name, rule->document->name);
    const struct rule *gone =
        was == NULL && same_name ? limit_that_went(before, rule->document) : NULL;
    if (was == NULL && gone == NULL) return; /* an additional limit */
    if (was == NULL)
        buf_printf(&out,
                   "this limit begins a new count: what the limit of rule %.*s counted, which is "
                   "gone, is not carried over",
                   STR_FORMAT(gone->id));
    else if (!same_name)
        buf_printf(&out,
                   "this limit begins a new count: what policy %.*s counted for the rule of this "
                   "name is not carried over",
                   STR_FORMAT(before->name));
    else if (was->limit->per != rule->limit->per)
        buf_printf(&out,
                   "this limit begins a new count: it was per %s, and what was counted so is not "
                   "carried over",
                   limit_per_name(was->limit->per));
    else if (rule->limit->window_ms > was->limit->window_ms)
        tell_longer(ret, rule, was->limit->window_ms, now_ms);
    else if (rule->limit->has_max && !was->limit->has_max)
        buf_printf(&out, "this limit adds up what comes from now on: nothing was added up before");
    if (out.size > 0) warn(ret, rule, buf_view(&out));
}

void policy_limit_changes(const struct policy_document *before, const struct policy_document *after,
                          uint64_t now_ms, struct policy_problems *ret)
{
    if (before->is_shadow || after->is_shadow) return; /* nothing was counted, or nothing will be */
    for (size_t i = 0; i < after->rule_count; i++)
        if (after->rules[i].limit != NULL) tell_rule(before, &after->rules[i], now_ms, ret);
}

static const struct policy_document *document_named(const struct policy_set *s, struct str name)
{
    for (size_t i = 0; i < s->document_count; i++)
        if (str_equal(s->documents[i].document->name, name)) return s->documents[i].document;
    return NULL;
}

/* A new document may be a renamed one of the removed documents. */
static void changes_of(const struct policy_set *before, const struct policy_set *after,
                       const struct policy_document *d, struct policy_problems *ret)
{
    const struct policy_document *was = document_named(before, d->name);
    if (was != NULL) {
        policy_limit_changes(was, d, 0, ret);
        return;
    }
    for (size_t i = 0; i < before->document_count; i++)
        if (document_named(after, before->documents[i].document->name) == NULL)
            policy_limit_changes(before->documents[i].document, d, 0, ret);
}

void policy_set_limit_changes(const struct policy_set *before, const struct policy_set *after,
                              void (*each)(void *context, struct str policy_name,
                                           const struct policy_problems *problems),
                              void *context)
{
    for (size_t i = 0; i < after->document_count; i++) {
        const struct policy_document *d = after->documents[i].document;
        struct policy_problems problems = {0};
        changes_of(before, after, d, &problems);
        if (problems.count > 0) each(context, d->name, &problems);
    }
}
