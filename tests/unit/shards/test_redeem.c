/* Approvals of a shard's reviews and their use: once, for that request, by who asked. Each test
 * ends by holding the shard against a twin that saw its records only. */
#include "shard_scene.h"

static const struct scene_review usual = {0};

static void same_as_twin(struct scene *s) { scene_compare(s->shard, s->twin); }

static void an_approval_is_spent_once(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_false(c->review.replayed);
    assert_last_kinds(s, "decision", "review.redeemed");
    assert_int_equal(c->review.facts.state, REVIEW_REDEEMED);
    size_t before = s->record_count;
    struct call *again = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, again);
    assert_int_equal(again->err, ERR_NOT_REDEEMABLE);
    assert_int_equal(again->review.facts.state, REVIEW_REDEEMED);
    assert_int_equal(s->record_count, before);
    same_as_twin(s);
}

static void the_decision_and_the_spending_are_one_record(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    struct limit_request ask = {.window_ms = 60000, .amount = 5};
    struct limit_told told = {.counted = true, .stamp_ms = s->now_ms};
    delta_put_counted(&b, &ask, &told);
    c->spent = buf_view(&b);
    scene_ask(s, c);
    const struct scene_record *decision = &s->records[s->record_count - 2];
    assert_string_equal(decision->kind, "decision");
    struct str delta = decision->delta;
    struct delta_entry e;
    enum err err = ERR_OK;
    assert_true(delta_next(&delta, &e, &err));
    assert_int_equal(e.kind, DELTA_LIMIT_COUNTED);
    assert_true(delta_next(&delta, &e, &err));
    assert_int_equal(e.kind, DELTA_REVIEW_MOVED);
    assert_false(delta_next(&delta, &e, &err));
    assert_int_equal(s->records[s->record_count - 1].delta.size, 0);
}

/* What origin wrote is recorded whole or not at all. */
static void what_is_too_large_for_a_record_changes_nothing(void **state)
{
    struct scene *s = *state;
    static char large[LIMIT_EVENT_BYTES + 1];
    memset(large, ' ', sizeof large);
    for (unsigned i = 0; i < 2; i++) {
        struct call *c = scene_enqueue_call(s, usual);
        c->records[i] = str_of(large, sizeof large);
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OUT_OF_RANGE);
        assert_int_equal(s->record_count, 0);
        assert_int_equal(scene_do(s, CALL_REVIEW_GET, c->enqueue.facts.id, STR("fleet"))->err,
                         ERR_NOT_FOUND);
    }
    struct id id = scene_approved(s);
    size_t before = s->record_count;
    for (unsigned i = 0; i < 2; i++) {
        struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
        c->records[i] = str_of(large, sizeof large);
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OUT_OF_RANGE);
        assert_int_equal(s->record_count, before);
        assert_int_equal(scene_look(s, id).state, REVIEW_APPROVED);
    }
    same_as_twin(s);
}

/* So is what origin has spent for it: the engine would rather end than record half of that. */
static void what_spent_too_much_for_a_record_changes_nothing(void **state)
{
    struct scene *s = *state;
    static char large[LIMIT_DELTA_BYTES + 1];
    struct call *c = scene_enqueue_call(s, usual);
    c->spent = str_of(large, sizeof large);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OUT_OF_RANGE);
    struct id id = scene_approved(s);
    size_t before = s->record_count;
    c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    c->spent = str_of(large, LIMIT_DELTA_BYTES); /* the review's own comes to it */
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OUT_OF_RANGE);
    assert_int_equal(scene_look(s, id).state, REVIEW_APPROVED);
    assert_int_equal(s->record_count, before);
    same_as_twin(s);
}

/* "Try again later" of what is recorded as spent would be answered "used already" then. */
static void a_redemption_that_is_recorded_is_told_so_without_room_to_show_the_review(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_without_room(c);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_last_kinds(s, "decision", "review.redeemed");
    assert_int_equal(scene_look(s, id).state, REVIEW_REDEEMED);
}

static void a_retried_redemption_is_answered_as_before(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 5, 6);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    struct str decision = s->records[s->record_count - 2].event;
    size_t before = s->record_count;
    c = scene_redeem_call(s, id, STR("fleet"), 5, 6);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->review.replayed);
    assert_true(str_equal(c->review.facts.redemption, decision));
    c = scene_redeem_call(s, id, STR("fleet"), 5, 7);
    memset(c->review.retry.body_plain.bytes, 6,
           REVIEW_DIGEST_BYTES); /* an earlier version kept it */
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && c->review.replayed);
    c = scene_redeem_call(s, id, STR("fleet"), 5, 7);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_IDEMPOTENCY_MISMATCH);
    c = scene_redeem_call(s, id, STR("fleet"), 8, 6);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    c = scene_do(s, CALL_APPROVE, id, STR("rita")); /* who approved it is told so even now */
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->review.repeated);
    assert_int_equal(s->record_count, before);
    same_as_twin(s);
}

static void a_suspended_actor_is_not_told_again_what_it_was_allowed(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 5, 6);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    scene_suspend(s, STR("invoice_bot"));
    c = scene_redeem_call(s, id, STR("fleet"), 5, 6);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_ACTOR_SUSPENDED);
    assert_false(c->review.replayed);
}

static void a_key_of_zeros_is_nobodys_until_it_was_used(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    c->review.retry.given = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_false(c->review.replayed);
}

static void only_the_approved_request_of_who_asked_is_redeemed(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    c->review.binding.bytes[31] ^= 1;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    assert_int_equal(c->review.facts.state, REVIEW_APPROVED);
    c = scene_redeem_call(s, id, STR("rita"), 0, 0);
    c->requester.sees_all = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
    c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    c->requester.token_actor = STR("other_bot");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
    c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    c->requester.token_actor = STR("invoice_bot");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
}

static void what_is_not_approved_is_not_redeemed(void **state)
{
    struct scene *s = *state;
    struct id pending = scene_enqueue(s, usual);
    struct call *c = scene_redeem_call(s, pending, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    assert_int_equal(c->review.facts.state, REVIEW_PENDING);
    scene_do(s, CALL_DENY, pending, STR("rita"));
    c = scene_redeem_call(s, pending, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    assert_int_equal(c->review.facts.state, REVIEW_DENIED);
}

static void an_approval_past_its_time_is_not_redeemed(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s), other = scene_enqueue(s, (struct scene_review){.binding = 1});
    s->now_ms += 900000 - 1;
    scene_do(s, CALL_APPROVE, other, STR("rita"));
    s->now_ms += 1;
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    assert_int_equal(c->review.facts.state, REVIEW_EXPIRED);
    assert_text(c->review.facts.resolved_by, "rita"); /* who approved it is not forgotten */
    assert_last_kinds(s, "review.lapsed");
    assert_int_equal(scene_look(s, other).state, REVIEW_APPROVED);
    same_as_twin(s);
}

static void an_approval_is_taken_back_until_it_is_redeemed(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){0});
    struct call *early = scene_on(s, CALL_TAKE_BACK, id, STR("carol"));
    early->requester.sees_all = true;
    scene_ask(s, early);
    assert_int_equal(early->err, ERR_NOT_APPROVED);
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    struct call *c = scene_on(s, CALL_TAKE_BACK, id, STR("carol"));
    c->requester.sees_all = true;
    c->review.meets = 0;
    struct call *open = scene_on(s, CALL_TAKE_BACK, id, STR("carol"));
    open->requester.sees_all = true;
    open->review.note = STR("wrong account");
    scene_ask(s, open); /* every reviewer may, where the rule names none */
    assert_int_equal(open->err, ERR_OK);
    assert_last_kinds(s, "review.approved", "review.cancelled");
    const struct review_facts *f = &open->review.facts;
    assert_int_equal(f->state, REVIEW_CANCELLED);
    assert_int_equal(f->cancelled_by, REVIEW_BY_REVOCATION);
    assert_text(f->resolved_by, "carol");
    assert_text(f->note, "wrong account");
    assert_int_equal(f->approval_count, 1);
    struct event e = scene_event(s, -1);
    assert_text(e.rule, "review:revoked");
    assert_text(e.resolution_note, "wrong account");
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && c->review.repeated);
    c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_ALREADY_RESOLVED);
    id = scene_approved(s);
    scene_ask(s, scene_redeem_call(s, id, STR("fleet"), 0, 0));
    c = scene_on(s, CALL_TAKE_BACK, id, STR("carol"));
    c->requester.sees_all = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_ALREADY_RESOLVED);
    same_as_twin(s);
}

static void an_approval_is_taken_back_by_whom_the_rule_names_only(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(
        s, (struct scene_review){.requirements = STR("[{\"approvals\":1,\"by\":[\"x\"]}]")});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    struct call *c = scene_on(s, CALL_TAKE_BACK, id, STR("carol"));
    c->requester.sees_all = true;
    c->review.meets = 0;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_WRONG_REVIEWER);
    assert_int_equal(scene_look(s, id).state, REVIEW_APPROVED);
    /* even while a redemption counts for it */
    assert_true(scene_do(s, CALL_CLAIM, id, STR("fleet"))->review.claimed);
    c = scene_on(s, CALL_TAKE_BACK, id, STR("carol"));
    c->requester.sees_all = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    scene_do(s, CALL_UNCLAIM, id, STR("fleet"));
    same_as_twin(s);
}

static void suspending_an_actor_ends_its_approvals(void **state)
{
    struct scene *s = *state;
    struct id approved = scene_approved(s);
    struct call *c = scene_enqueue_call(s, (struct scene_review){.binding = 1});
    scene_ask(s, c);
    scene_suspend(s, STR("invoice_bot"));
    struct review_facts f = scene_look(s, approved);
    assert_int_equal(f.state, REVIEW_CANCELLED);
    assert_int_equal(f.cancelled_by, REVIEW_BY_SUSPENSION);
    assert_int_equal(scene_look(s, c->enqueue.facts.id).state, REVIEW_DENIED);
    assert_last_kinds(s, "actor.suspended", "review.denied", "review.cancelled");
    struct event e = scene_event(s, -1);
    assert_text(e.rule, "actor:suspended");
    c = scene_call(s, CALL_RESUME, STR("root"));
    c->slot = SCENE_SLOT;
    c->actor.actor = STR("invoice_bot");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    c = scene_redeem_call(s, approved, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    same_as_twin(s);
}

static void every_spelling_of_a_suspended_actor_loses_its_approvals(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.actor = STR("Invoice_Bot")});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    scene_suspend(s, STR("invoice_bot"));
    struct call *c = scene_call(s, CALL_DENY_SPELLINGS, STR("root"));
    c->list.actor = STR("invoice_bot");
    scene_ask(s, c);
    assert_int_equal(scene_look(s, id).cancelled_by, REVIEW_BY_SUSPENSION);
    same_as_twin(s);
}

static void a_suspended_actors_approval_is_not_spent(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    scene_suspend(s, STR("invoice_bot"));
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_ACTOR_SUSPENDED);
    assert_int_equal(scene_look(s, id).state, REVIEW_CANCELLED);
}

/* A person may be called what an actor is called. */
static void suspending_an_actor_is_nothing_to_a_person_of_that_name(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.user = STR("invoice_bot")});
    scene_suspend(s, STR("invoice_bot"));
    assert_int_equal(scene_look(s, id).state, REVIEW_PENDING);
    scene_enqueue(s, (struct scene_review){.user = STR("invoice_bot"), .binding = 1});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    struct call *c = scene_redeem_call(s, id, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_REDEEMED);
    same_as_twin(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_approval_is_spent_once),
        scene_test(the_decision_and_the_spending_are_one_record),
        scene_test(what_is_too_large_for_a_record_changes_nothing),
        scene_test(what_spent_too_much_for_a_record_changes_nothing),
        scene_test(a_redemption_that_is_recorded_is_told_so_without_room_to_show_the_review),
        scene_test(a_retried_redemption_is_answered_as_before),
        scene_test(a_suspended_actor_is_not_told_again_what_it_was_allowed),
        scene_test(a_key_of_zeros_is_nobodys_until_it_was_used),
        scene_test(only_the_approved_request_of_who_asked_is_redeemed),
        scene_test(what_is_not_approved_is_not_redeemed),
        scene_test(an_approval_past_its_time_is_not_redeemed),
        scene_test(an_approval_is_taken_back_until_it_is_redeemed),
        scene_test(an_approval_is_taken_back_by_whom_the_rule_names_only),
        scene_test(suspending_an_actor_ends_its_approvals),
        scene_test(every_spelling_of_a_suspended_actor_loses_its_approvals),
        scene_test(a_suspended_actors_approval_is_not_spent),
        scene_test(suspending_an_actor_is_nothing_to_a_person_of_that_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
