/* The same request again: which review it is given. Each test ends by holding the shard against a
 * twin that saw its records only. */
#include "shard_scene.h"

static const struct scene_review usual = {0};

static void same_as_twin(struct scene *s) { scene_compare(s->shard, s->twin); }

static void the_same_request_while_pending_is_the_same_review(void **state)
{
    struct scene *s = *state;
    struct id first = scene_enqueue(s, usual);
    s->now_ms += 1000;
    struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = STR("trace-2")});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->enqueue.same);
    assert_memory_equal(c->enqueue.facts.id.bytes, first.bytes, ID_BYTES);
    assert_int_equal(c->enqueue.facts.expires_ms, scene_start_ms + 1800000);
    assert_int_equal(s->record_count, 2);
    assert_true(s->effects.reveals_unsynced);
    assert_int_equal(s->effects.reveals_block, 1);
}

/* Each review has a binding of its own, so the same request is found by another digest; or by the plain
 * one, where an earlier version opened the review. */
static void the_same_request_is_found_whatever_its_binding(void **state)
{
    struct scene *s = *state;
    struct id first = scene_enqueue(s, usual);
    struct call *c = scene_enqueue_call(s, usual);
    c->enqueue.facts.binding.bytes[1] ^= 1;
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && c->enqueue.same);
    assert_memory_equal(c->enqueue.facts.id.bytes, first.bytes, ID_BYTES);
    c = scene_enqueue_call(s, usual);
    c->enqueue.request_plain = c->enqueue.facts.request; /* as it is kept */
    c->enqueue.facts.request.bytes[1] ^= 1;              /* and as it would be kept now */
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && c->enqueue.same);
    assert_memory_equal(c->enqueue.facts.id.bytes, first.bytes, ID_BYTES);
    assert_int_equal(s->record_count, 2);
}

static void the_same_request_while_approved_is_the_approved_review(void **state)
{
    struct scene *s = *state;
    struct id first = scene_approved(s);
    struct call *c = scene_enqueue_call(s, (struct scene_review){.trace_id = STR("trace-2")});
    size_t before = s->record_count;
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && c->enqueue.same);
    assert_memory_equal(c->enqueue.facts.id.bytes, first.bytes, ID_BYTES);
    assert_int_equal(c->enqueue.facts.state, REVIEW_APPROVED);
    assert_int_equal(c->enqueue.facts.approval_count, 1);
    assert_int_equal(s->record_count, before);
    assert_int_equal(scene_share(s, c, STR("trace-2"))->err, ERR_OK);
    assert_last_kinds(s, "review.approved", "decision");
    assert_int_equal(scene_look(s, first).state, REVIEW_APPROVED);
    same_as_twin(s);
}

/* Nothing that can no longer be redeemed is offered, and nothing of another asker. */
static void an_approved_review_is_offered_only_while_its_asker_can_redeem_it(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct call *c = scene_enqueue_call(s, (struct scene_review){.owner = STR("dan")});
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && !c->enqueue.same);
    c = scene_enqueue_call(s, (struct scene_review){.principal = STR("squad")});
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && !c->enqueue.same);
    assert_true(scene_do(s, CALL_CLAIM, id, STR("fleet"))->review.claimed);
    struct call *seen = scene_enqueue_call(s, usual);
    seen->enqueue.facts.id = id;
    seen->enqueue.facts.state = REVIEW_APPROVED;
    assert_int_equal(scene_share(s, seen, STR("t"))->err, ERR_NOT_FOUND); /* it is being redeemed */
    c = scene_enqueue_call(s, usual);
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && !c->enqueue.same);
    scene_do(s, CALL_CANCEL, c->enqueue.facts.id, STR("fleet"));
    scene_do(s, CALL_UNCLAIM, id, STR("fleet"));
    s->now_ms += 900000 - 1;
    c = scene_enqueue_call(s, usual);
    scene_ask(s, c);
    assert_true(c->enqueue.same);
    s->now_ms += 1;
    c = scene_enqueue_call(s, usual);
    scene_ask(s, c);
    assert_true(c->err == ERR_OK && !c->enqueue.same);
    same_as_twin(s);
}

/* The votes of the newest may be too few for what is asked now. */
static void older_approvals_of_a_request_are_offered_one_after_the_other(void **state)
{
    struct scene *s = *state;
    struct id ids[3];
    for (unsigned i = 0; i < 3; i++) {
        struct call *c = scene_enqueue_call(s, usual);
        c->enqueue.approved_below = 0;
        scene_ask(s, c);
        assert_true(c->err == ERR_OK && !c->enqueue.same);
        ids[i] = c->enqueue.facts.id;
        scene_do(s, CALL_APPROVE, ids[i], STR("rita"));
    }
    uint64_t below = UINT64_MAX;
    for (unsigned i = 3; i-- > 0;) {
        struct call *c = scene_enqueue_call(s, usual);
        c->enqueue.approved_below = below;
        scene_ask(s, c);
        assert_true(c->enqueue.same);
        assert_memory_equal(c->enqueue.facts.id.bytes, ids[i].bytes, ID_BYTES);
        below = c->enqueue.facts.ordinal;
    }
    scene_ask(s, scene_redeem_call(s, ids[1], STR("fleet"), 0, 0)); /* out of the middle */
    scene_ask(s, scene_redeem_call(s, ids[2], STR("fleet"), 0, 0)); /* and from the end */
    struct call *c = scene_enqueue_call(s, usual);
    scene_ask(s, c);
    assert_memory_equal(c->enqueue.facts.id.bytes, ids[0].bytes, ID_BYTES);
    c = scene_enqueue_call(s, usual);
    c->enqueue.approved_below = below;
    scene_ask(s, c);
    assert_false(c->enqueue.same); /* and now one is pending: that is first */
    struct call *next = scene_enqueue_call(s, usual);
    scene_ask(s, next);
    assert_memory_equal(next->enqueue.facts.id.bytes, c->enqueue.facts.id.bytes, ID_BYTES);
    assert_int_equal(next->enqueue.facts.state, REVIEW_PENDING);
    same_as_twin(s);
}

static void another_principal_or_binding_is_another_review(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, usual);
    struct call *other = scene_enqueue_call(s, (struct scene_review){.principal = STR("squad")});
    scene_ask(s, other);
    assert_false(other->enqueue.same);
    struct call *more = scene_enqueue_call(s, (struct scene_review){.binding = 9});
    scene_ask(s, more);
    assert_false(more->enqueue.same);
    assert_int_equal(s->record_count, 6);
    same_as_twin(s);
}

/* Of two keys of one name, one owner may answer what the other asked: so it may
 * not be their own as well. */
static void another_owner_of_the_same_name_is_another_review(void **state)
{
    struct scene *s = *state;
    struct id first = scene_enqueue(s, usual);
    struct call *other = scene_enqueue_call(s, (struct scene_review){.owner = STR("dan")});
    scene_ask(s, other);
    assert_int_equal(other->err, ERR_OK);
    assert_false(other->enqueue.same);
    struct id second = other->enqueue.facts.id;
    assert_int_equal(scene_do(s, CALL_APPROVE, second, STR("dan"))->err, ERR_SELF_REVIEW);
    assert_int_equal(scene_do(s, CALL_APPROVE, first, STR("dan"))->err, ERR_OK);
    struct call *c = scene_redeem_call(s, first, STR("fleet"), 0, 0);
    c->requester.owner = STR("dan"); /* who approved it */
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
    c = scene_redeem_call(s, first, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    same_as_twin(s);
}

static void the_same_request_after_the_deadline_expires_the_old_one_first(void **state)
{
    struct scene *s = *state;
    struct id first = scene_enqueue(s, usual);
    s->now_ms += 1800000; /* expired when now is its time */
    struct call *c = scene_enqueue_call(s, usual);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_false(c->enqueue.same);
    assert_int_equal(s->steps, 2);
    assert_last_kinds(s, "review.expired", "decision", "review.enqueued");
    assert_int_equal(scene_look(s, first).state, REVIEW_EXPIRED);
    same_as_twin(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(the_same_request_while_pending_is_the_same_review),
        scene_test(the_same_request_is_found_whatever_its_binding),
        scene_test(the_same_request_while_approved_is_the_approved_review),
        scene_test(an_approved_review_is_offered_only_while_its_asker_can_redeem_it),
        scene_test(older_approvals_of_a_request_are_offered_one_after_the_other),
        scene_test(another_principal_or_binding_is_another_review),
        scene_test(another_owner_of_the_same_name_is_another_review),
        scene_test(the_same_request_after_the_deadline_expires_the_old_one_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
