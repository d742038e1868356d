/* document_check.c - what is true of every loaded document and its parts.
 *
 * The readers refuse everything else with a problem. So a failed check is an error of a reader, and
 * evaluation need not expect such a document. */
#include "base/check.h"
#include "policy/document.h"

void selector_check(const struct selector *s)
{
    check(s->globs != NULL || s->count == 0);
    check(s->count <= 2 * SELECTOR_GLOBS_MAX); /* resources may be there in plain spelling, too */
    check((s->index != NULL) == (s->count > SELECTOR_INDEX_AT));
}

void gate_check(const struct gate *g)
{
    check(g->review_at >= 0 && g->review_at <= g->allow_at && g->allow_at <= 1);
    check(g->missing == VERDICT_DENY || g->missing == VERDICT_HUMAN_REVIEW);
}

void limit_terms_check(const struct limit_terms *t)
{
    check(t->per <= PER_RESOURCE);
    check(t->window_ms > 0 && t->window_ms <= LIMIT_WINDOW_SECONDS * UINT64_C(1000));
    check(t->count_max > 0 || t->has_max);
    check(t->has_max == (t->sum_count > 0 || t->sum_value != NULL));
    check(t->amount_max >= 0 && t->amount_max <= AMOUNT_MAX);
    check(t->over == VERDICT_DENY || t->over == VERDICT_HUMAN_REVIEW);
}

void review_terms_check(const struct review_terms *t)
{
    check(t->approvals > 0 && t->approvals <= APPROVALS_MAX);
    check(t->expires_in_ms > 0 && t->expires_in_ms <= REVIEW_MS_MAX);
    check(t->good_for_ms > 0 && t->good_for_ms <= APPROVAL_MS_MAX);
    check(t->by_count <= REVIEW_ROLES_MAX && (t->by_count == 0 || t->by_text.size > 0));
    check(t->notify_count <= REVIEW_CHANNELS_MAX);
}

void rule_check(const struct rule *rule)
{
    check(rule->id.size > 0 && rule->id.size <= RULE_ID_MAX);
    check(rule->decision <= VERDICT_ALLOW);
    check(rule->folds ==
          (rule->decision == VERDICT_DENY || rule->decision == VERDICT_HUMAN_REVIEW));
    check(rule->actions.count > 0);
    check(rule->folds || rule->names_subject); /* what permits names a subject */
    check((rule->decision == VERDICT_COMPUTE) == (rule->safe_args != NULL));
    check(rule->decision != VERDICT_DENY || rule->limit == NULL);
    check(rule->told != NULL && rule->told->id_size == rule->id.size);
    check(rule->document != NULL && rule->line > 0);
    selector_check(&rule->actions);
    selector_check(&rule->resources);
    review_terms_check(&rule->review);
    if (rule->gate != NULL) gate_check(rule->gate);
    if (rule->limit != NULL) limit_terms_check(rule->limit);
}

void document_check(const struct policy_document *d)
{
    check(d->name.size > 0);
    check(d->rule_count <= LIMIT_RULES_PER_DOCUMENT && d->role_count <= ROLES_MAX);
    check(d->mask_count <= MASKS_MAX && d->test_count <= TESTS_MAX);
    check(d->rule_count + d->role_count + d->mask_count > 0); /* it decides or hides something */
    for (size_t i = 0; i < d->rule_count; i++) rule_check(&d->rules[i]);
}
