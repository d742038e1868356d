/* filing.c - collecting and sorting patterns; see filing.h. */
#include "policy/filing.h"

#include <stdlib.h>

#include "base/check.h"

static int filing_compare(const void *a, const void *b)
{
    const struct filing *x = a, *y = b;
    int order = str_compare(x->pattern, y->pattern);
    if (order != 0) return order;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

/* Most patterns have no capitals, so folding does not change them. */
static bool folded_text(struct policy_set *s, const struct glob *g, struct str *ret)
{
    struct glob folded;
    size_t small = 0;
    while (small < g->text.size && glob_fold(g->text.bytes[small]) == g->text.bytes[small]) small++;
    *ret = g->text;
    if (small == g->text.size) return true;
    if (!glob_compile(&s->arena, g->text, true, &folded)) return false;
    *ret = folded.text;
    check(ret->size > 0);
    return true;
}

bool filings_collect(struct policy_set *s, const uint32_t *rules, size_t rule_count,
                     selector_of *of, struct filings *ret)
{
    size_t count = 0;
    *ret = (struct filings){0};
    for (size_t i = 0; i < rule_count; i++)
        count += of(s->rules[rules == NULL ? i : rules[i]].rule)->count;
    ret->list = calloc(count + 1, sizeof *ret->list);
    if (ret->list == NULL) return false;
    for (size_t i = 0; i < rule_count; i++) {
        uint32_t number = rules == NULL ? (uint32_t)i : rules[i];
        check(number < s->rule_count);
        const struct selector *selector = of(s->rules[number].rule);
        for (size_t k = 0; k < selector->count; k++) {
            struct filing *f = &ret->list[ret->count++];
            f->rule = number;
            if (!folded_text(s, &selector->globs[k], &f->pattern)) return false;
        }
    }
    check(ret->count == count);
    qsort(ret->list, count, sizeof *ret->list, filing_compare);
    return true;
}

void filings_fini(struct filings *f)
{
    free(f->list);
    *f = (struct filings){0};
}

size_t filings_run(const struct filings *f, size_t from)
{
    check(from < f->count);
    size_t end = from + 1;
    while (end < f->count && str_equal(f->list[from].pattern, f->list[end].pattern)) end++;
    return end - from;
}

size_t filings_rules(const struct filings *f, size_t from, size_t count, uint32_t *to)
{
    check(count > 0 && from + count <= f->count);
    size_t kept = 0;
    for (size_t i = from; i < from + count; i++)
        if (kept == 0 || to[kept - 1] != f->list[i].rule) to[kept++] = f->list[i].rule;
    return kept;
}
