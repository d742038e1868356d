/* The queue around the reviews: waits, deadlines, pages and traces. */
#include <stdio.h>

#include "shard_scene.h"

static const struct scene_review usual = {0};

static void same_as_twin(struct scene *s) { scene_compare(s->shard, s->twin); }

/* ---- wait ---- */

static struct call *wait_on(struct scene *s, struct id id, uint64_t ms)
{
    struct call *c = scene_on(s, CALL_REVIEW_WAIT, id, STR("fleet"));
    c->review.deadline_ms = s->now_ms + ms;
    scene_ask(s, c);
    return c;
}

static void a_wait_ends_with_the_resolution(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct call *first = wait_on(s, id, 30000), *second = wait_on(s, id, 60000);
    assert_false(first->answered);
    assert_false(second->answered);
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_int_equal(s->woken_count, 2);
    assert_true(first->answered && second->answered);
    assert_int_equal(first->err, ERR_OK);
    assert_int_equal(first->review.facts.state, REVIEW_APPROVED);
    assert_text(second->review.facts.resolved_by, "rita");
    assert_false(shard_forget(s->shard, first));
    scene_tick(s, 60000);
    assert_int_equal(s->woken_count, 2); /* once */
}

static void a_vote_that_is_not_the_last_wakes_nobody(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    struct call *c = wait_on(s, id, 30000);
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_false(c->answered);
    scene_do(s, CALL_APPROVE, id, STR("carol"));
    assert_true(c->answered);
}

static void a_wait_ends_with_its_time_and_shows_what_is_pending(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct call *c = wait_on(s, id, 30000);
    scene_tick(s, 29999);
    assert_false(c->answered);
    assert_true(s->next_ms <= s->now_ms + 1);
    assert_int_equal(scene_tick(s, 1), 0);
    assert_true(c->answered);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_PENDING);
    assert_int_equal(c->block, 1); /* it reveals the enqueueing */
}

static void a_wait_ends_when_the_review_expires(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.expires_in_ms = 5000});
    struct call *c = wait_on(s, id, 30000);
    scene_tick(s, 5000);
    assert_true(c->answered);
    assert_int_equal(c->review.facts.state, REVIEW_EXPIRED);
}

static void a_wait_on_what_is_resolved_is_answered_at_once(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = wait_on(s, id, 30000);
    assert_true(c->answered);
    assert_int_equal(c->review.facts.state, REVIEW_APPROVED);
    struct id pending = scene_enqueue(s, (struct scene_review){.binding = 4});
    assert_true(wait_on(s, pending, 0)->answered);
}

static void a_forgotten_wait_is_never_answered(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct call *first = wait_on(s, id, 30000), *second = wait_on(s, id, 30000),
                *third = wait_on(s, id, 30000);
    assert_true(shard_forget(s->shard, second));
    assert_false(shard_forget(s->shard, second));
    scene_do(s, CALL_DENY, id, STR("rita"));
    assert_true(first->answered && third->answered);
    assert_false(second->answered);
    struct shard_totals totals;
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.waiters, 0);
}

static void too_many_may_not_wait_on_one_review(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    for (unsigned i = 0; i < LIMIT_WAITERS_PER_REVIEW; i++)
        assert_false(wait_on(s, id, 30000)->answered);
    struct call *c = wait_on(s, id, 30000);
    assert_true(c->answered);
    assert_int_equal(c->err, ERR_OVERLOADED);
}

/* ---- claim ---- */

static struct call *claim_of(struct scene *s, struct id id)
{
    struct call *c = scene_on(s, CALL_CLAIM, id, STR("fleet"));
    c->review.deadline_ms = s->now_ms + 10000;
    scene_ask(s, c);
    return c;
}

static void assert_claim(const struct call *c, bool claimed, enum review_state state)
{
    assert_true(c->answered);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.claimed, claimed);
    assert_int_equal(c->review.facts.state, state);
}

static void who_claims_an_approval_second_waits_until_it_is_spent(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    assert_claim(claim_of(s, id), true, REVIEW_APPROVED);
    struct call *second = claim_of(s, id), *third = claim_of(s, id);
    assert_false(second->answered || third->answered);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_claim(second, false, REVIEW_REDEEMED);
    assert_claim(third, false, REVIEW_REDEEMED);
    assert_claim(claim_of(s, id), false, REVIEW_REDEEMED);
    same_as_twin(s);
}

static void a_claim_that_is_given_back_is_the_next_ones(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    claim_of(s, id);
    struct call *waiting[] = {claim_of(s, id), claim_of(s, id)};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(scene_do(s, CALL_UNCLAIM, id, STR("fleet"))->err, ERR_OK);
        assert_int_equal(waiting[0]->answered + waiting[1]->answered, i + 1);
    }
    assert_claim(waiting[0], true, REVIEW_APPROVED);
    assert_claim(waiting[1], true, REVIEW_APPROVED);
    assert_false(claim_of(s, id)->answered);
    scene_do(s, CALL_UNCLAIM, id, STR("fleet"));
    scene_do(s, CALL_UNCLAIM, id, STR("fleet")); /* once more than it was claimed */
    assert_claim(claim_of(s, id), true, REVIEW_APPROVED);
}

/* Whoever was not told that it has the claim does not give it back either. */
static void a_claim_that_cannot_be_told_is_nobodys(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_on(s, CALL_CLAIM, id, STR("fleet"));
    scene_without_room(c);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OVERLOADED);
    assert_false(c->review.claimed);
    assert_claim(claim_of(s, id), true, REVIEW_APPROVED);
    struct call *waiting[] = {claim_of(s, id), claim_of(s, id)};
    for (unsigned i = 0; i < 2; i++) scene_without_room(waiting[i]);
    scene_do(s, CALL_UNCLAIM, id, STR("fleet"));
    for (unsigned i = 0; i < 2; i++) {
        assert_true(waiting[i]->answered);
        assert_int_equal(waiting[i]->err, ERR_OVERLOADED);
        assert_false(waiting[i]->review.claimed);
    }
    assert_claim(claim_of(s, id), true, REVIEW_APPROVED);
}

static void a_claim_waits_no_longer_than_its_time_and_the_approvals(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    claim_of(s, id);
    struct call *c = claim_of(s, id);
    scene_tick(s, 9999);
    assert_false(c->answered);
    scene_tick(s, 1);
    assert_claim(c, false, REVIEW_APPROVED);
    scene_tick(s, 900000 - 10000 - 100);
    c = claim_of(s, id);
    assert_false(c->answered);
    scene_tick(s, 100);
    assert_claim(c, false, REVIEW_EXPIRED);
    assert_claim(claim_of(s, id), false, REVIEW_EXPIRED);
    same_as_twin(s);
}

static void only_who_asked_claims_and_only_what_is_approved(void **state)
{
    struct scene *s = *state;
    assert_claim(claim_of(s, scene_enqueue(s, usual)), false, REVIEW_PENDING);
    struct id id = scene_enqueue(s, (struct scene_review){.binding = 4});
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_int_equal(scene_do(s, CALL_CLAIM, id, STR("rita"))->err, ERR_NOT_FOUND);
    claim_of(s, id);
    assert_int_equal(scene_do(s, CALL_UNCLAIM, id, STR("rita"))->err, ERR_NOT_FOUND);
    for (unsigned i = 0; i < LIMIT_WAITERS_PER_REVIEW; i++) assert_false(claim_of(s, id)->answered);
    assert_int_equal(claim_of(s, id)->err, ERR_OVERLOADED);
}

/* ---- time ---- */

static void time_alone_expires_what_is_pending_and_what_is_approved(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s),
              pending = scene_enqueue(s, (struct scene_review){.binding = 1});
    assert_int_equal(scene_tick(s, 899999), 0);
    assert_int_equal(scene_tick(s, 1), 1);
    assert_last_kinds(s, "review.lapsed");
    assert_int_equal(scene_look(s, id).state, REVIEW_EXPIRED);
    assert_int_equal(scene_tick(s, 899999), 0);
    assert_true(s->next_ms <= s->now_ms + 1);
    assert_int_equal(scene_tick(s, 1), 1);
    assert_int_equal(scene_look(s, pending).state, REVIEW_EXPIRED);
    same_as_twin(s);
}

static void many_that_expire_together_are_recorded_one_by_one(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 100; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    assert_int_equal(scene_tick(s, 1800000), 100);
    struct shard_totals totals;
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.reviews_pending, 0);
    assert_int_equal(totals.reviews, 100);
    same_as_twin(s);
}

static void what_ended_is_forgotten_after_a_day(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    scene_do(s, CALL_DENY, id, STR("rita"));
    scene_tick(s, 24 * 3600 * 1000 - 1);
    assert_int_equal(scene_look(s, id).state, REVIEW_DENIED);
    assert_true(s->next_ms <= s->now_ms + 1);
    scene_tick(s, 1);
    assert_int_equal(scene_do(s, CALL_REVIEW_GET, id, STR("fleet"))->err, ERR_NOT_FOUND);
    assert_int_equal(s->next_ms, UINT64_MAX);
    assert_int_equal(scene_compare(s->shard, s->twin), 0);
    struct shard_totals totals;
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.reviews, 0);
    assert_int_equal(totals.review_bytes, 0);
}

/* ---- lists ---- */

static struct call *list(struct scene *s, uint64_t after, uint32_t limit)
{
    struct call *c = scene_call(s, CALL_REVIEW_LIST, STR("rita"));
    c->requester.sees_all = true;
    c->list.state = REVIEW_PENDING;
    c->list.after = after;
    c->list.limit = limit;
    return c;
}

static void pages_are_oldest_first_and_meet_without_a_gap(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 50; i++)
        scene_enqueue(s, (struct scene_review){.actor = i % 2 ? STR("odd") : STR("even"),
                                               .binding = (uint8_t)i});
    uint64_t after = 0, seen = 0;
    for (unsigned page = 0; page < 6; page++) {
        struct call *c = list(s, after, 10);
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OK);
        assert_int_equal(c->list.total, 50);
        assert_int_equal(c->list.count, page < 5 ? 10 : 0);
        for (uint32_t i = 0; i < c->list.count; i++)
            assert_int_equal(c->list.reviews[i].ordinal, ++seen);
        if (c->list.count > 0) after = c->list.reviews[c->list.count - 1].ordinal;
    }
    struct call *c = list(s, 0, 10);
    c->tenant = STR("nobody");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 0);
}

/* What it leaves out has changed, too, and what is beyond it counts. */
static void a_page_reveals_the_newest_record_of_its_tenant(void **state)
{
    struct scene *s = *state;
    struct id first =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    scene_enqueue(s, (struct scene_review){.binding = 1});
    scene_do(s, CALL_APPROVE, first, STR("rita"));
    struct call *c = list(s, 0, 10);
    scene_ask(s, c);
    assert_int_equal(s->effects.reveals_block, 3);
    c = list(s, 1, 10);
    scene_ask(s, c);
    assert_int_equal(s->effects.reveals_block, 3);
    scene_do(s, CALL_DENY, first, STR("carol"));
    c = list(s, 0, 10);
    scene_ask(s, c);
    assert_int_equal(c->list.count, 1);
    assert_int_equal(s->effects.reveals_block, 4);
    c = list(s, 0, 10);
    c->tenant = STR("globex");
    scene_ask(s, c);
    assert_false(s->effects.reveals_unsynced);
}

/* ---- long lists ---- */

enum { LONG = 1800, OF_ONE_ACTOR = 50 };

/* Of every second one the agent acts for dan. */
static void enqueue_many(struct scene *s, struct id ids[LONG])
{
    char actor[32];
    for (unsigned i = 0; i < LONG; i++) {
        snprintf(actor, sizeof actor, "actor-%u", i / OF_ONE_ACTOR);
        ids[i] = scene_enqueue(
            s, (struct scene_review){.actor = str_from(actor),
                                     .principal = str_from(actor),
                                     .binding = (uint8_t)i,
                                     .acting_for = i % 2 == 0 ? STR("dan") : STR("eve")});
    }
}

static struct call *list_for_dan(struct scene *s)
{
    struct call *c = list(s, 0, 100);
    c->list.acting_for = STR("dan");
    c->now_ms = s->now_ms;
    return c;
}

static void a_long_list_is_read_in_parts(void **state)
{
    static struct id ids[LONG];
    struct scene *s = *state;
    enqueue_many(s, ids);
    struct call *c = list_for_dan(s);
    scene_ask(s, c);
    assert_true(s->steps >= 2);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->list.total, LONG / 2);
    assert_int_equal(c->list.count, 100);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(c->list.reviews[i].ordinal, c->list.reviews[0].ordinal + 2 * i);
}

/* Each part counts what is there when it is read. */
static void what_changes_between_the_parts_of_a_list_is_counted_once_or_not(void **state)
{
    static struct id ids[LONG];
    struct scene *s = *state;
    enqueue_many(s, ids);
    struct call *c = list_for_dan(s);
    shard_step(s->shard, c, &s->effects);
    assert_true(s->effects.pauses && !c->answered);
    scene_do(s, CALL_DENY, ids[2], STR("rita"));        /* was counted */
    scene_do(s, CALL_DENY, ids[LONG - 2], STR("rita")); /* was not reached */
    scene_enqueue(s, (struct scene_review){.actor = STR("late"), .acting_for = STR("dan")});
    do shard_step(s->shard, c, &s->effects);
    while (s->effects.again);
    assert_true(c->answered);
    assert_int_equal(c->list.total, LONG / 2);
    assert_int_equal(c->list.count, 100);
}

static void a_page_of_large_reviews_is_copied_in_parts(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 60; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i, .args_bytes = 20000});
    for (unsigned of_actor = 0; of_actor < 2; of_actor++) {
        struct call *c = list(s, 0, 50);
        if (of_actor) c->list.actor = STR("invoice_bot");
        scene_ask(s, c);
        assert_true(s->steps >= 3);
        assert_int_equal(c->list.total, 60);
        assert_int_equal(c->list.count, 50);
        for (uint32_t i = 1; i < 50; i++)
            assert_int_equal(c->list.reviews[i].ordinal, c->list.reviews[i - 1].ordinal + 1);
    }
}

static void what_arrives_out_of_order_is_listed_in_order(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 20; i++) {
        s->ordinal = 100 - 3 * (i % 7) - i; /* scene_enqueue adds one */
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    }
    for (unsigned filtered = 0; filtered < 2; filtered++) {
        struct call *c = list(s, 0, 20);
        if (filtered) c->list.actor = STR("invoice_bot");
        scene_ask(s, c);
        assert_int_equal(c->list.count, 20);
        for (unsigned i = 1; i < 20; i++)
            assert_true(c->list.reviews[i - 1].ordinal <= c->list.reviews[i].ordinal);
    }
}

static void what_is_pending_is_listed_by_deadline_and_pages_meet(void **state)
{
    struct scene *s = *state;
    struct id ids[60];
    for (unsigned i = 0; i < 60; i++) /* many end in the same millisecond */
        ids[i] = scene_enqueue(s, (struct scene_review){.actor = i % 2 ? STR("odd") : STR("even"),
                                                        .binding = (uint8_t)i,
                                                        .expires_in_ms = 1000 + i * 37 % 7});
    scene_do(s, CALL_DENY, ids[7], STR("rita"));
    scene_do(s, CALL_APPROVE, ids[8], STR("rita"));
    for (unsigned filtered = 0; filtered < 2; filtered++) {
        uint64_t after = 0, before_ms = 0;
        unsigned seen = 0;
        for (struct call *c;; after = review_deadline_position(&c->list.reviews[9])) {
            c = list(s, after, 10);
            c->list.by_deadline = true;
            if (filtered) c->list.actor = STR("odd");
            scene_ask(s, c);
            assert_int_equal(c->err, ERR_OK);
            assert_int_equal(c->list.total, filtered ? 29 : 58);
            for (uint32_t i = 0; i < c->list.count; i++) {
                const struct review_facts *f = &c->list.reviews[i];
                assert_int_equal(f->state, REVIEW_PENDING);
                assert_true(f->expires_ms >= before_ms);
                assert_true(review_deadline_position(f) > after);
                before_ms = f->expires_ms;
                seen++;
            }
            if (c->list.count < 10) break;
        }
        assert_int_equal(seen, filtered ? 29 : 58);
    }
    s->now_ms += 1003; /* those that end by now are no more listed, recorded or not */
    struct call *c = list(s, 0, 100);
    c->list.by_deadline = true;
    scene_ask(s, c);
    for (uint32_t i = 0; i < c->list.count; i++)
        assert_true(c->list.reviews[i].expires_ms > s->now_ms);
    assert_int_equal(c->list.count, c->list.total);
    scene_tick(s, 10);
    c = list(s, 0, 100);
    c->list.by_deadline = true;
    scene_ask(s, c);
    assert_int_equal(c->list.total, 0);
    same_as_twin(s);
}

static void lists_are_filtered_by_actor_action_and_state(void **state)
{
    struct scene *s = *state;
    struct id ids[12];
    for (unsigned i = 0; i < 12; i++)
        ids[i] =
            scene_enqueue(s, (struct scene_review){.actor = i % 2 ? STR("odd") : STR("even"),
                                                   .binding = (uint8_t)i,
                                                   .action = i % 3 ? STR("pay") : STR("drop")});
    scene_enqueue(s, (struct scene_review){.user = STR("odd"), .binding = 20});
    scene_do(s, CALL_DENY, ids[1], STR("rita"));

    struct call *c = list(s, 0, 3);
    c->list.actor = STR("odd");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 5);
    assert_int_equal(c->list.count, 3);
    assert_int_equal(c->list.reviews[0].ordinal, 4);

    c = list(s, 4, 3);
    c->list.actor = STR("odd");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 5);
    assert_int_equal(c->list.reviews[0].ordinal, 6);

    c = list(s, 0, 30);
    c->list.action = STR("drop");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 4);
    assert_int_equal(c->list.reviews[1].ordinal, 4);

    c = list(s, 0, 30);
    c->list.state = REVIEW_DENIED;
    scene_ask(s, c);
    assert_int_equal(c->list.total, 1);
    assert_int_equal(c->list.reviews[0].ordinal, 2);

    c = list(s, 0, 30);
    c->list.any_state = true;
    scene_ask(s, c);
    assert_int_equal(c->list.total, 13);
    for (uint32_t i = 0; i < 13; i++) assert_int_equal(c->list.reviews[i].ordinal, i + 1);

    c = list(s, 0, 30);
    c->list.any_state = true;
    c->list.actor = STR("odd");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 6);
}

static void who_is_no_reviewer_lists_their_own_only(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, (struct scene_review){.acting_for = STR("dan")});
    scene_enqueue(s, (struct scene_review){
                         .principal = STR("squad"), .binding = 1, .acting_for = STR("eve")});
    struct call *c = list(s, 0, 10);
    c->requester = (struct requester){.principal = STR("squad"), .owner = STR("erin")};
    scene_ask(s, c);
    assert_int_equal(c->list.total, 1);
    assert_text(c->list.reviews[0].principal, "squad");
    c = list(s, 0, 10);
    c->list.acting_for = STR("dan");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 1);
    assert_text(c->list.reviews[0].acting_for, "dan");
}

static void what_is_overdue_is_not_listed_as_pending(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, (struct scene_review){.expires_in_ms = 1000});
    scene_enqueue(s, (struct scene_review){.expires_in_ms = 9000, .binding = 1});
    scene_tick(s, 0);
    s->now_ms += 1000;
    struct call *c = list(s, 0, 30);
    scene_ask(s, c);
    assert_int_equal(c->list.total, 1);
    assert_int_equal(c->list.reviews[0].ordinal, 2);
    c = list(s, 0, 30);
    c->list.actor = STR("invoice_bot");
    scene_ask(s, c);
    assert_int_equal(c->list.total, 1);
    for (unsigned filtered = 0; filtered < 2; filtered++) {
        c = list(s, 0, 30);
        c->list.any_state = true;
        if (filtered) c->list.action = STR("issue_refund");
        scene_ask(s, c);
        assert_int_equal(c->list.total, 2);
        assert_int_equal(c->list.reviews[0].state, REVIEW_EXPIRED);
        assert_int_equal(c->list.reviews[0].resolved_ms, s->now_ms);
    }
}

/* A page of large reviews is cut, and what follows it can be asked for. */
static void a_page_that_does_not_fit_is_cut(void **state)
{
    struct scene *s = *state;
    enum { REVIEWS = 100 };
    unsigned seen = 0, pages = 0;
    uint64_t after = 0;
    for (unsigned i = 0; i < REVIEWS; i++) {
        char actor[16];
        struct buf b = buf_over(actor, sizeof actor);
        buf_printf(&b, "bot-%u", i);
        scene_enqueue(s, (struct scene_review){
                             .binding = (uint8_t)i, .actor = buf_view(&b), .args_bytes = 55000});
    }
    for (bool cut = true; cut; pages++) {
        struct call *c = list(s, after, 500);
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OK);
        assert_int_equal(c->list.total, REVIEWS);
        assert_true(c->list.count > 0);
        for (uint32_t i = 0; i < c->list.count; i++)
            assert_true(c->list.reviews[i].ordinal == ++seen);
        after = c->list.reviews[c->list.count - 1].ordinal;
        cut = c->list.cut;
    }
    assert_int_equal(seen, REVIEWS);
    assert_true(pages > 1);
}

static void a_page_without_room_for_one_review_is_refused(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 8; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i, .args_bytes = 50000});
    struct arena small;
    arena_init(&small, 1 << 12, 50 << 10);
    struct call *c = list(s, 0, 8);
    c->arena = &small;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OVERLOADED);
    arena_fini(&small);
}

/* ---- traces ---- */

static struct call *find(struct scene *s, struct str trace_id, struct str principal)
{
    struct call *c = scene_call(s, CALL_REVIEW_FIND, principal);
    c->requester.owner = STR("erin"); /* as who asked */
    c->list.trace_id = trace_id;
    c->list.limit = CALL_TRACES_MAX;
    c->list.any_state = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    return c;
}

static void a_review_is_found_by_every_trace_id_that_was_given_it(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    for (unsigned i = 0; i < 3; i++) {
        const struct str trace_id = i == 0 ? STR("t-a") : STR("t-b");
        struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = trace_id});
        scene_ask(s, c);
        assert_true(c->enqueue.same);
        assert_int_equal(scene_share(s, c, trace_id)->err, ERR_OK);
    }
    const struct str traces[] = {STR("trace-1"), STR("t-a"), STR("t-b")};
    for (size_t i = 0; i < 3; i++) {
        struct call *c = find(s, traces[i], STR("fleet"));
        assert_int_equal(c->list.count, 1);
        assert_memory_equal(c->list.reviews[0].id.bytes, id.bytes, ID_BYTES);
    }
    assert_int_equal(find(s, STR("t-c"), STR("fleet"))->list.count, 0);
    scene_do(s, CALL_DENY, id, STR("rita"));
    assert_int_equal(find(s, STR("t-a"), STR("fleet"))->list.count, 1);
    scene_tick(s, 24 * 3600 * 1000);
    assert_int_equal(find(s, STR("t-a"), STR("fleet"))->list.count, 0);
}

/* The trace id is kept by that record, and by nothing before it. */
static void a_request_that_shares_a_review_is_recorded_with_it(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, usual);
    struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = STR("t-a")});
    scene_ask(s, c);
    assert_int_equal(find(s, STR("t-a"), STR("fleet"))->list.count, 0);
    size_t before = s->record_count;
    assert_int_equal(scene_share(s, c, STR("t-a"))->err, ERR_OK);
    assert_int_equal(s->record_count - before, 1);
    assert_last_kinds(s, "decision");
    uint64_t block = s->block;
    assert_int_equal(find(s, STR("t-a"), STR("fleet"))->list.count, 1);
    assert_true(s->effects.reveals_unsynced);
    assert_int_equal(s->effects.reveals_block, block);
    scene_compare(s->shard, s->twin);
}

/* A use of a token, say: recorded with the decision that shares, it is spent after a crash. */
static void what_a_request_that_shares_a_review_spent_is_in_its_record(void **state)
{
    struct scene *s = *state;
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct id token = id_make(s->now_ms, &s->chance);
    scene_enqueue(s, usual);
    struct call *asked = scene_enqueue_call(s, usual);
    scene_ask(s, asked);
    struct call *c = scene_share_call(s, asked, STR("t-a"));
    delta_put_spent(&b, token, 1);
    c->spent = buf_view(&b);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    struct str delta = s->records[s->record_count - 1].delta;
    struct delta_entry e;
    enum err err = ERR_OK;
    assert_true(delta_next(&delta, &e, &err));
    assert_int_equal(e.kind, DELTA_TOKEN_SPENT);
    assert_true(delta_next(&delta, &e, &err));
    assert_int_equal(e.kind, DELTA_REVIEW_TRACED);
    assert_false(delta_next(&delta, &e, &err));
}

static void a_review_that_was_resolved_meanwhile_is_not_shared(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = STR("t-a")});
    scene_ask(s, c);
    scene_do(s, CALL_DENY, id, STR("rita"));
    size_t before = s->record_count;
    assert_int_equal(scene_share(s, c, STR("t-a"))->err, ERR_NOT_FOUND);
    assert_int_equal(s->record_count, before);
    assert_int_equal(find(s, STR("t-a"), STR("fleet"))->list.count, 0);
}

static void a_review_whose_time_is_over_is_not_shared(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = STR("t-a")});
    scene_ask(s, c);
    s->now_ms += 1800000;
    assert_int_equal(scene_share(s, c, STR("t-a"))->err, ERR_NOT_FOUND);
    assert_last_kinds(s, "review.expired");
    assert_int_equal(scene_look(s, id).state, REVIEW_EXPIRED);
}

static void one_trace_id_may_have_been_given_several_reviews(void **state)
{
    struct scene *s = *state;
    struct id ids[3];
    for (unsigned i = 0; i < 3; i++)
        ids[i] = scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    assert_int_equal(find(s, STR("trace-1"), STR("fleet"))->list.count, 2);
    assert_int_equal(find(s, STR("trace-1"), STR("squad"))->list.count, 0); /* not theirs to see */
    scene_enqueue(s, (struct scene_review){.principal = STR("squad"), .binding = 9});
    assert_int_equal(find(s, STR("trace-1"), STR("squad"))->list.count, 1);
    s->now_ms++;
    for (unsigned i = 0; i < 3; i++) scene_do(s, CALL_DENY, ids[(i + 1) % 3], STR("rita"));
    scene_tick(s, 24 * 3600 * 1000);
    assert_int_equal(find(s, STR("trace-1"), STR("fleet"))->list.count, 0);
    assert_int_equal(find(s, STR("trace-1"), STR("squad"))->list.count,
                     1); /* expired, and remembered */
}

static void a_trace_id_that_everybody_shares_names_nothing(void **state)
{
    struct scene *s = *state;
    char name[16];
    struct buf b = buf_over(name, sizeof name);
    scene_enqueue(s, usual);
    for (unsigned i = 0; i < 1100; i++) {
        buf_clear(&b);
        buf_printf(&b, "bot-%04u", i);
        scene_enqueue(s, (struct scene_review){.principal = STR("squad"),
                                               .actor = buf_view(&b),
                                               .binding = (uint8_t)(i / 10)});
    }
    struct call *c = scene_call(s, CALL_REVIEW_FIND, STR("fleet"));
    c->requester.owner = STR("erin");
    c->list.trace_id = STR("trace-1");
    c->list.limit = CALL_TRACES_MAX;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_AMBIGUOUS_TRACE);
}

static void a_trace_id_finds_the_older_review_when_the_newer_is_forgotten(void **state)
{
    struct scene *s = *state;
    const uint64_t long_ms = (uint64_t)72 * 3600 * 1000;
    struct id ids[3];
    for (unsigned i = 0; i < 3; i++)
        ids[i] = scene_enqueue(
            s, (struct scene_review){.binding = (uint8_t)i, .expires_in_ms = long_ms});
    scene_do(s, CALL_DENY, ids[2], STR("rita"));
    scene_tick(s, 24 * 3600 * 1000);
    assert_int_equal(find(s, STR("trace-1"), STR("fleet"))->list.count, 2);
    scene_do(s, CALL_DENY, ids[0], STR("rita"));
    scene_tick(s, 24 * 3600 * 1000);
    struct call *c = find(s, STR("trace-1"), STR("fleet"));
    assert_int_equal(c->list.count, 1);
    assert_memory_equal(c->list.reviews[0].id.bytes, ids[1].bytes, ID_BYTES);
}

static void no_more_than_so_many_trace_ids_are_remembered_of_one_review(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, usual);
    for (unsigned i = 0; i < 300; i++) {
        char text[16];
        struct buf b = buf_over(text, sizeof text);
        buf_printf(&b, "more-%u", i);
        struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = buf_view(&b)});
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OK);
        assert_true(c->enqueue.same);
        assert_int_equal(scene_share(s, c, buf_view(&b))->err, ERR_OK);
    }
    assert_int_equal(find(s, STR("more-254"), STR("fleet"))->list.count, 1);
    assert_int_equal(find(s, STR("more-255"), STR("fleet"))->list.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_wait_ends_with_the_resolution),
        scene_test(a_vote_that_is_not_the_last_wakes_nobody),
        scene_test(a_wait_ends_with_its_time_and_shows_what_is_pending),
        scene_test(a_wait_ends_when_the_review_expires),
        scene_test(a_wait_on_what_is_resolved_is_answered_at_once),
        scene_test(a_forgotten_wait_is_never_answered),
        scene_test(too_many_may_not_wait_on_one_review),
        scene_test(who_claims_an_approval_second_waits_until_it_is_spent),
        scene_test(a_claim_that_is_given_back_is_the_next_ones),
        scene_test(a_claim_that_cannot_be_told_is_nobodys),
        scene_test(a_claim_waits_no_longer_than_its_time_and_the_approvals),
        scene_test(only_who_asked_claims_and_only_what_is_approved),
        scene_test(time_alone_expires_what_is_pending_and_what_is_approved),
        scene_test(many_that_expire_together_are_recorded_one_by_one),
        scene_test(what_ended_is_forgotten_after_a_day),
        scene_test(pages_are_oldest_first_and_meet_without_a_gap),
        scene_test(a_page_reveals_the_newest_record_of_its_tenant),
        scene_test(a_long_list_is_read_in_parts),
        scene_test(what_changes_between_the_parts_of_a_list_is_counted_once_or_not),
        scene_test(a_page_of_large_reviews_is_copied_in_parts),
        scene_test(what_arrives_out_of_order_is_listed_in_order),
        scene_test(what_is_pending_is_listed_by_deadline_and_pages_meet),
        scene_test(lists_are_filtered_by_actor_action_and_state),
        scene_test(who_is_no_reviewer_lists_their_own_only),
        scene_test(what_is_overdue_is_not_listed_as_pending),
        scene_test(a_page_that_does_not_fit_is_cut),
        scene_test(a_page_without_room_for_one_review_is_refused),
        scene_test(a_review_is_found_by_every_trace_id_that_was_given_it),
        scene_test(a_request_that_shares_a_review_is_recorded_with_it),
        scene_test(what_a_request_that_shares_a_review_spent_is_in_its_record),
        scene_test(a_review_that_was_resolved_meanwhile_is_not_shared),
        scene_test(a_review_whose_time_is_over_is_not_shared),
        scene_test(one_trace_id_may_have_been_given_several_reviews),
        scene_test(a_trace_id_that_everybody_shares_names_nothing),
        scene_test(a_trace_id_finds_the_older_review_when_the_newer_is_forgotten),
        scene_test(no_more_than_so_many_trace_ids_are_remembered_of_one_review),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
