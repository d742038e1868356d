/* filing.h - inside of the room: patterns of rules, sorted so that equal ones are neighbours.
 *
 * An index over rules is made from these. All patterns are folded, because an index ignores case
 * (index.h). */
#ifndef POLICY_FILING_H
#define POLICY_FILING_H

#include "policy/set.h"

struct filing { /* one pattern of one rule */
    struct str pattern;
    uint32_t rule;
};

struct filings {
    struct filing *list; /* heap */
    size_t count;
};

typedef const struct selector *selector_of(const struct rule *rule);

/* All patterns of one selector of these rules (NULL: of all), sorted by pattern, then rule. False:
 * out of memory; fini in any case. Patterns live as long as the set. */
bool filings_collect(struct policy_set *s, const uint32_t *rules, size_t rule_count,
                     selector_of *of, struct filings *ret);
void filings_fini(struct filings *f);

/* The number of filings from `from` on with the same pattern. */
size_t filings_run(const struct filings *f, size_t from);

/* Writes their rules, each once, to `to`; returns their number. */
size_t filings_rules(const struct filings *f, size_t from, size_t count, uint32_t *to);

#endif
