/* review_check.c - what is true of every review, subject and table between two calls.
 *
 * The list that a review is on is its state, so each of these compares a state with the places that
 * it implies. All take constant time. */
#include "base/check.h"
#include "shards/review_table.h"

void review_check(const struct review *r)
{
    const struct review_facts *f = &r->facts;
    check((unsigned)f->state < REVIEW_STATES);
    const bool has_ended = review_state_is_end(f->state);
    check(r->tenant != NULL);
    check((r->subject == NULL) == has_ended);
    check(link_is_on(&r->of_subject) == !has_ended);
    check(link_is_on(&r->ended) == has_ended);
    check(link_is_on(&r->ended_of_tenant) == has_ended &&
          link_is_on(&r->ended_of_key) == has_ended);
    check(r->share != NULL && r->share->count > 0 && r->share->bytes >= r->bytes);
    check((f->state == REVIEW_CANCELLED) == (f->cancelled_by != REVIEW_NOT_CANCELLED));
    check(!r->claimed || f->state == REVIEW_APPROVED);

    check((r->waiters == NULL) == (r->waiter_count == 0));
    check(r->waiter_count <= LIMIT_WAITERS_PER_REVIEW);
    check(r->waiters == NULL || r->waiters->previous == &r->waiters);

    check(f->approvals == r->votes);
    check(f->approval_count <= r->votes_room && f->approval_count <= REVIEW_VOTES_MAX);
    check(r->needs.count > 0 && r->needs.count <= REVIEW_REQUIREMENTS_MAX);
    check((r->traces == NULL) == (r->trace_count == 0));
    check(r->trace_count <= REVIEW_TRACES_MAX);
}

void review_subject_check(const struct review_subject *s)
{
    check((s->count == 0) == list_is_empty(&s->pending));
    check((s->spelling == NULL) == (s->key.bytes[0] == 'u')); /* only actors have one */
    check((s->spelling != NULL) == link_is_on(&s->of_spelling));
}

void review_table_check(const struct review_table *t)
{
    size_t count = 0, ended = 0;
    for (unsigned i = 0; i < REVIEW_STATES; i++) {
        count += t->count_by_state[i];
        if (review_state_is_end((enum review_state)i)) ended += t->count_by_state[i];
    }
    check(t->by_id.count == count && t->shares.all.count == count);
    check((ended == 0) == list_is_empty(&t->ended));
    check(t->by_same.count <= count - ended && t->by_subject.count <= count - ended);
    check(t->by_spelling.count <= t->by_subject.count);
    check(count > 0 || t->waiter_count == 0);
    shares_check(&t->shares);
}
