/* The review queue of a shard: who may do what, what wins, what is recorded. Each test ends by
 * holding the shard against a twin that saw its records only. */
#include "shard_scene.h"

static const struct scene_review usual = {0};

static void same_as_twin(struct scene *s) { scene_compare(s->shard, s->twin); }

/* ---- enqueue ---- */

static void a_new_review_is_pending_and_recorded_with_its_decision(void **state)
{
    struct scene *s = *state;
    struct call *c = scene_enqueue_call(s, usual);
    c->spent = (struct str){0};
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->answered);
    assert_false(c->enqueue.same);
    assert_int_equal(s->record_count, 2);
    assert_last_kinds(s, "decision", "review.enqueued");
    assert_true(str_equal(s->records[1].event, c->records[1]));
    struct review_facts f = scene_look(s, c->enqueue.facts.id);
    assert_int_equal(f.state, REVIEW_PENDING);
    assert_true(str_equal(f.item, c->records[1]));
    assert_text(f.subject, "invoice_bot");
    assert_text(f.principal, "fleet");
    assert_text(f.owner, "erin");
    assert_text(f.action, "issue_refund");
    assert_int_equal(f.expires_ms, s->now_ms + 1800000);
    assert_int_equal(f.approval_count, 0);
    same_as_twin(s);
}

static void what_origin_spent_is_recorded_with_the_decision(void **state)
{
    struct scene *s = *state;
    struct call *c = scene_enqueue_call(s, usual);
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct limit_request ask = {.window_ms = 60000, .amount = 5};
    struct limit_told told = {.counted = true, .stamp_ms = s->now_ms};
    delta_put_counted(&b, &ask, &told);
    c->spent = buf_view(&b);
    scene_ask(s, c);
    assert_true(str_equal(s->records[0].delta, buf_view(&b)));
}

static void a_hundred_of_one_actor_may_be_pending(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < LIMIT_PENDING_PER_ACTOR; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)(i + 1)});
    struct call *c = scene_enqueue_call(s, (struct scene_review){.binding = 200});
    size_t before = s->record_count;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_PENDING_LIMIT);
    assert_int_equal(s->record_count, before);
    scene_enqueue(s, (struct scene_review){.actor = STR("other_bot"), .binding = 201});
    scene_enqueue(s, (struct scene_review){.user = STR("invoice_bot"),
                                           .binding = 202}); /* a person of that name */
    same_as_twin(s);
}

static void what_is_past_its_deadline_does_not_count_as_pending(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < LIMIT_PENDING_PER_ACTOR; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)(i + 1),
                                               .expires_in_ms = i == 50 ? 1000 : 100000});
    s->now_ms += 1000;
    scene_enqueue(s, (struct scene_review){.binding = 200});
    same_as_twin(s);
}

static void a_suspended_actor_gets_no_review(void **state)
{
    struct scene *s = *state;
    scene_suspend(s, STR("invoice_bot"));
    struct call *c = scene_enqueue_call(s, usual);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_ACTOR_SUSPENDED);
    scene_enqueue(s, (struct scene_review){.user = STR("invoice_bot")}); /* a person is no actor */
}

static void a_full_shard_forgets_what_ended_first_and_then_refuses(void **state)
{
    struct scene *s = *state;
    scene_restart(s, &(struct shard_options){.count = 1, .reviews_max = 3});
    struct id ids[3];
    for (unsigned i = 0; i < 3; i++)
        ids[i] = scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    struct call *c = scene_enqueue_call(s, (struct scene_review){.binding = 10});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_QUOTA_TENANT);
    assert_int_equal(c->quota.most, 3);
    scene_do(s, CALL_DENY, ids[1], STR("rita"));
    s->now_ms++;
    scene_do(s, CALL_DENY, ids[0], STR("rita"));
    scene_enqueue(s, (struct scene_review){.binding = 10});
    assert_int_equal(scene_do(s, CALL_APPROVE, ids[1], STR("rita"))->err, ERR_NOT_FOUND);
    assert_int_equal(scene_look(s, ids[0]).state, REVIEW_DENIED);
    same_as_twin(s);
}

static void what_ended_first_goes_first_however_late_that_was_recorded(void **state)
{
    struct scene *s = *state;
    scene_restart(s, &(struct shard_options){.count = 1, .reviews_max = 2});
    struct id first = scene_enqueue(s, (struct scene_review){.good_for_ms = 10});
    struct id second = scene_enqueue(s, (struct scene_review){.binding = 1});
    scene_do(s, CALL_APPROVE, first, STR("rita"));
    s->now_ms += 5000;
    scene_do(s, CALL_DENY, second, STR("rita"));
    s->now_ms += 5000;
    scene_tick(s, 0);
    assert_last_kinds(s, "review.denied", "review.lapsed");
    scene_enqueue(s, (struct scene_review){.binding = 2});
    assert_int_equal(scene_look(s, second).state, REVIEW_DENIED);
    assert_int_equal(scene_do(s, CALL_REVIEW_GET, first, STR("fleet"))->err, ERR_NOT_FOUND);
    same_as_twin(s);
}

static void terms_that_nobody_can_read_enqueue_nothing(void **state)
{
    struct scene *s = *state;
    const struct str damaged[] = {STR("[{\"approvals\":0}]"),
                                  STR("[{\"approvals\":65}]"),
                                  STR("{}"),
                                  STR("[1]"),
                                  STR("[{\"by\":1}]"),
                                  STR("[")};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct call *c = scene_enqueue_call(s, (struct scene_review){.requirements = damaged[i]});
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_INTERNAL);
    }
    assert_int_equal(s->record_count, 0);
}

/* ---- get ---- */

static void whoever_asked_sees_it_and_so_does_a_reviewer_and_nobody_else(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    assert_int_equal(scene_do(s, CALL_REVIEW_GET, id, STR("fleet"))->err, ERR_OK);
    assert_int_equal(scene_do(s, CALL_REVIEW_GET, id, STR("squad"))->err, ERR_NOT_FOUND);
    struct call *reviewer = scene_on(s, CALL_REVIEW_GET, id, STR("rita"));
    reviewer->requester.sees_all = true;
    scene_ask(s, reviewer);
    assert_int_equal(reviewer->err, ERR_OK);
    struct call *foreign = scene_on(s, CALL_REVIEW_GET, id, STR("fleet"));
    foreign->tenant = STR("other");
    foreign->requester.sees_all = true;
    scene_ask(s, foreign);
    assert_int_equal(foreign->err, ERR_NOT_FOUND);
}

static void a_token_sees_its_own_actors_reviews_only(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct id of_user =
        scene_enqueue(s, (struct scene_review){.user = STR("invoice_bot"), .binding = 1});
    struct call *c = scene_on(s, CALL_REVIEW_GET, id, STR("fleet"));
    c->requester.token_actor = STR("other_bot");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
    c = scene_on(s, CALL_REVIEW_GET, id, STR("fleet"));
    c->requester.token_actor = STR("invoice_bot");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    c = scene_on(s, CALL_REVIEW_GET, of_user, STR("fleet"));
    c->requester.token_actor = STR("invoice_bot");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
    c = scene_on(s, CALL_REVIEW_GET, id, STR("fleet"));
    c->requester.token_actor = STR("invoice_bot");
    c->requester.token_acting_for = STR("carl"); /* the review is for nobody */
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
}

static void looking_at_an_overdue_review_expires_it(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    s->now_ms += 1800000 - 1;
    assert_int_equal(scene_look(s, id).state, REVIEW_PENDING);
    s->now_ms += 1;
    struct review_facts f = scene_look(s, id);
    assert_int_equal(f.state, REVIEW_EXPIRED);
    assert_int_equal(f.resolved_ms, s->now_ms);
    assert_last_kinds(s, "review.expired");
    assert_true(s->effects.reveals_unsynced);
    assert_int_equal(s->effects.reveals_block, s->block);
    assert_int_equal(scene_tick(s, 0), 0); /* once */
    same_as_twin(s);
}

/* ---- approve, deny ---- */

static void an_approval_ends_the_waiting_and_is_good_for_a_time(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.good_for_ms = 60000});
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
    c->review.note = STR("fine with me");
    c->review.by = STR("rita@finance");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_false(c->review.repeated);
    const struct review_facts *f = &c->review.facts;
    assert_int_equal(f->state, REVIEW_APPROVED);
    assert_int_equal(f->approval_expires_ms, s->now_ms + 60000);
    assert_int_equal(f->resolved_ms, s->now_ms);
    assert_text(f->resolved_by, "rita@finance");
    assert_text(f->resolver, "rita");
    assert_text(f->note, "fine with me");
    assert_int_equal(f->approval_count, 1);
    assert_int_equal(f->approvals[0].at_ms, s->now_ms);
    assert_last_kinds(s, "review.approved");
    same_as_twin(s);
}

static void an_event_says_who_did_what_to_which_request(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(
        s, (struct scene_review){.acting_for = STR("dan"), .trace_id = STR("trace-9")});
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
    c->review.note = STR("go \"on\"");
    c->requester.key_id = STR("key_01JD1111111111111111111111");
    scene_ask(s, c);
    struct event e = scene_event(s, -1);
    char review[ID_TEXT];
    id_write("rev_", id, review);
    assert_text(e.kind, "review.approved");
    assert_text(e.tenant_id, "acme");
    assert_text(e.trace_id, "trace-9");
    assert_text(e.request_id, "req_01JD0000000000000000000000");
    assert_text(e.actor, "invoice_bot");
    assert_true(str_is_absent(e.user_id));
    assert_text(e.acting_for, "dan");
    assert_text(e.action, "issue_refund");
    assert_true(str_equal(e.review_id, str_of(review, ID_TEXT)));
    assert_text(e.resolved_by, "rita");
    assert_text(e.resolution_note, "go \"on\"");
    assert_text(e.key_id, "key_01JD1111111111111111111111");
    assert_text(e.mode, "live");
    assert_text(e.engine_version, WRIT_VERSION);
    assert_text(e.rule, "review:large");
    assert_text(e.policy_name, "payments");
    assert_int_equal(e.policy_version, 7);
    assert_int_equal(e.count, 1);
    assert_int_equal(e.binding_hash.size, 64);
    assert_int_equal(e.timestamp, s->now_ms);
}

static void a_persons_review_says_so_in_its_events(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.user = STR("uma")});
    scene_do(s, CALL_DENY, id, STR("rita"));
    struct event e = scene_event(s, -1);
    assert_text(e.kind, "review.denied");
    assert_text(e.user_id, "uma");
    assert_true(str_is_absent(e.actor));
}

static void the_events_of_a_denial_and_a_cancellation_say_by_whom_and_why(void **state)
{
    struct scene *s = *state;
    struct id denied = scene_enqueue(s, usual),
              cancelled = scene_enqueue(s, (struct scene_review){.binding = 1});
    struct call *c = scene_on(s, CALL_DENY, denied, STR("rita"));
    c->review.by = STR("rita@finance");
    c->review.note = STR("not this month");
    c->review.owner = STR("root");
    c->requester.key_id = STR("key_01JD1111111111111111111111");
    scene_ask(s, c);
    assert_text(c->review.facts.resolver, "rita");
    assert_text(c->review.facts.resolver_owner, "root");
    assert_text(c->review.facts.resolved_by, "rita@finance");
    assert_text(c->review.facts.note, "not this month");
    struct event e = scene_event(s, -1);
    assert_text(e.kind, "review.denied");
    assert_text(e.key_id, "key_01JD1111111111111111111111");
    assert_text(e.resolved_by, "rita@finance");
    assert_text(e.resolution_note, "not this month");
    c = scene_on(s, CALL_CANCEL, cancelled, STR("fleet"));
    c->requester.key_id = STR("key_01JD2222222222222222222222");
    c->review.principal = c->review.owner = c->review.by = c->review.note = STR("somebody");
    scene_ask(s, c); /* who cancels is who calls, whatever else the call holds */
    assert_text(c->review.facts.resolver, "fleet");
    assert_text(c->review.facts.resolver_owner, "erin");
    assert_true(str_is_empty(c->review.facts.note));
    e = scene_event(s, -1);
    assert_text(e.kind, "review.cancelled");
    assert_text(e.resolved_by, "erin");
    assert_text(e.key_id, "key_01JD2222222222222222222222");
    assert_true(str_is_absent(e.resolution_note));
}

/* Who sees it waits until what made it so is safe. */
static void a_look_tells_of_the_newest_record_of_a_review(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    scene_enqueue(s, (struct scene_review){.binding = 1}); /* the newest record is another's */
    scene_look(s, id);
    assert_int_equal(s->effects.reveals_block, s->block - 1);
    for (unsigned i = 0; i < 2; i++) {
        scene_do(s, CALL_APPROVE, id, i == 0 ? STR("rita") : STR("carol"));
        scene_look(s, id);
        assert_int_equal(s->effects.reveals_block, s->block);
    }
    scene_ask(s, scene_redeem_call(s, id, STR("fleet"), 0, 0));
    assert_int_equal(scene_look(s, id).state, REVIEW_REDEEMED);
    assert_int_equal(s->effects.reveals_block, s->block);
}

/* An answer is sent long after the step. */
static void what_was_shown_of_the_votes_outlives_the_review(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    struct review_facts f = scene_look(s, id);
    scene_tick(s, 900000);                     /* it expires, */
    scene_tick(s, 24 * 60 * 60 * 1000 + 1000); /* and is forgotten */
    assert_int_equal(scene_do(s, CALL_REVIEW_GET, id, STR("fleet"))->err, ERR_NOT_FOUND);
    assert_int_equal(f.approval_count, 1);
    assert_text(f.approvals[0].by, "rita");
}

static void one_deny_ends_it(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":3}]")});
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    struct call *c = scene_do(s, CALL_DENY, id, STR("carol"));
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_DENIED);
    assert_text(c->review.facts.resolved_by, "carol");
    assert_int_equal(c->review.facts.approval_count, 1);
    assert_last_kinds(s, "review.approved", "review.denied");
    same_as_twin(s);
}

static void the_first_resolution_wins_and_others_are_told_whose(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    scene_do(s, CALL_DENY, id, STR("rita"));
    size_t before = s->record_count;
    struct call *late = scene_do(s, CALL_APPROVE, id, STR("carol"));
    assert_int_equal(late->err, ERR_ALREADY_RESOLVED);
    assert_int_equal(late->review.facts.state, REVIEW_DENIED);
    assert_text(late->review.facts.resolved_by, "rita");
    assert_int_equal(scene_do(s, CALL_DENY, id, STR("carol"))->err, ERR_ALREADY_RESOLVED);
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_ALREADY_RESOLVED);
    assert_int_equal(s->record_count, before);
}

static void whoever_repeats_their_own_outcome_is_told_so_again(void **state)
{
    struct scene *s = *state;
    struct id denied = scene_enqueue(s, usual),
              approved = scene_enqueue(s, (struct scene_review){.binding = 1});
    struct id halfway = scene_enqueue(
        s, (struct scene_review){.binding = 2, .requirements = STR("[{\"approvals\":2}]")});
    scene_do(s, CALL_DENY, denied, STR("rita"));
    scene_do(s, CALL_APPROVE, approved, STR("rita"));
    scene_do(s, CALL_APPROVE, halfway, STR("rita"));
    size_t before = s->record_count;
    struct call *again = scene_do(s, CALL_DENY, denied, STR("rita"));
    assert_int_equal(again->err, ERR_OK);
    assert_true(again->review.repeated);
    again = scene_do(s, CALL_APPROVE, approved, STR("rita"));
    assert_int_equal(again->err, ERR_OK);
    assert_true(again->review.repeated);
    again = scene_do(s, CALL_APPROVE, halfway, STR("rita"));
    assert_int_equal(again->err, ERR_OK);
    assert_true(again->review.repeated);
    assert_int_equal(again->review.facts.approval_count, 1);
    assert_int_equal(scene_do(s, CALL_DENY, approved, STR("rita"))->err, ERR_ALREADY_RESOLVED);
    assert_int_equal(s->record_count, before);
    /* What another brought about is not what rita wanted. */
    scene_do(s, CALL_DENY, halfway, STR("carol"));
    again = scene_do(s, CALL_APPROVE, halfway, STR("rita"));
    assert_int_equal(again->err, ERR_ALREADY_RESOLVED);
    assert_false(again->review.repeated);
}

/* A page at which several people review, all by one key of one owner: what one of them brought about
 * is not told to the next as if they had. */
static void of_several_people_behind_one_key_each_repeats_only_their_own(void **state)
{
    struct scene *s = *state;
    struct id halfway =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    struct id denied = scene_enqueue(s, (struct scene_review){.binding = 1});
    static const enum call_kind kinds[] = {CALL_APPROVE, CALL_DENY};
    static const enum err errs[] = {ERR_ALREADY_VOTED, ERR_ALREADY_RESOLVED};
    for (int i = 0; i < 2; i++) {
        struct id id = i == 0 ? halfway : denied;
        struct call *c = NULL;
        for (int n = 0; n < 3; n++) {
            c = scene_on(s, kinds[i], id, STR("page"));
            c->review.by = n == 1 ? STR("dora") : STR("carol");
            scene_ask(s, c);
            assert_int_equal(c->err, n == 1 ? errs[i] : ERR_OK);
            assert_int_equal(c->review.repeated, n == 2);
        }
    }
    same_as_twin(s);
}

/* Nor what was brought about by another key, or by one of another owner, for the same person. */
static void an_outcome_is_repeated_by_the_key_that_brought_it_about(void **state)
{
    struct scene *s = *state;
    static const struct {
        struct str principal, owner;
    } others[] = {{STR("second"), STR("page")}, {STR("page"), STR("second")}};
    static const enum call_kind kinds[] = {CALL_APPROVE, CALL_DENY};
    for (uint8_t i = 0; i < 2; i++) {
        struct id id = scene_enqueue(s, (struct scene_review){.binding = i});
        for (int n = 0; n < 3; n++) {
            struct call *c = scene_on(s, kinds[i], id, STR("page"));
            c->review.by = STR("carol");
            if (n > 0) c->review.principal = others[n - 1].principal;
            if (n > 0) c->review.owner = others[n - 1].owner;
            scene_ask(s, c);
            assert_int_equal(c->err, n == 0 ? ERR_OK : ERR_ALREADY_RESOLVED);
            assert_false(c->review.repeated);
        }
    }
    same_as_twin(s);
}

/* Half an approval is none: who had given it is not told that it went through. */
static void a_vote_on_what_expired_undecided_is_no_outcome_to_repeat(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]"),
                                               .expires_in_ms = 1000});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    scene_tick(s, 2000);
    struct call *again = scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_int_equal(again->err, ERR_ALREADY_RESOLVED);
    assert_false(again->review.repeated);
    assert_int_equal(again->review.facts.state, REVIEW_EXPIRED);
}

/* Who approved and hears no answer asks again, be the approval over by then: it was theirs. */
static void who_approved_is_told_so_when_the_approval_is_over_too(void **state)
{
    struct scene *s = *state;
    struct id id = scene_approved(s);
    scene_tick(s, 900000);
    struct call *again = scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_int_equal(again->err, ERR_OK);
    assert_true(again->review.repeated);
    assert_int_equal(again->review.facts.state, REVIEW_EXPIRED);
    again = scene_do(s, CALL_APPROVE, id, STR("carol"));
    assert_int_equal(again->err, ERR_ALREADY_RESOLVED);
}

static void two_approvals_take_two_owners(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->review.facts.state,
                     REVIEW_PENDING);
    struct call *second = scene_on(s, CALL_APPROVE, id, STR("rita-laptop"));
    second->review.owner = STR("RITA");
    scene_ask(s, second);
    assert_int_equal(second->err, ERR_ALREADY_VOTED);
    struct call *deny = scene_do(s, CALL_DENY, id, STR("rita"));
    assert_int_equal(deny->err, ERR_ALREADY_VOTED); /* votes are final */
    struct call *third = scene_do(s, CALL_APPROVE, id, STR("carol"));
    assert_int_equal(third->review.facts.state, REVIEW_APPROVED);
    assert_int_equal(third->review.facts.approval_count, 2);
    assert_text(third->review.facts.approvals[0].by, "rita");
    assert_text(third->review.facts.approvals[1].by, "carol");
    assert_last_kinds(s, "review.approved", "review.approved");
    assert_int_equal(scene_event(s, -1).count, 2);
    same_as_twin(s);
}

/* Whichever of its names somebody shows a second time, and however that is spelled then. */
static void one_person_is_one_approval_by_whichever_name(void **state)
{
    struct scene *s = *state;
    static const struct {
        struct str owner, by;
    } seconds[] = {{STR("RITA"), STR("zoe")},
                   {STR("other-page"), STR("Nina")},
                   {STR("NINA"), STR("zoe")},
                   {STR("other-page"), STR("Rita")}};
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    struct call *first = scene_on(s, CALL_APPROVE, id, STR("rita"));
    first->review.by = STR("nina");
    scene_ask(s, first);
    assert_int_equal(first->err, ERR_OK);
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        struct call *c = scene_on(s, CALL_APPROVE, id, STR("second"));
        c->review.owner = seconds[i].owner;
        c->review.by = seconds[i].by;
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_ALREADY_VOTED);
    }
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("second"));
    c->review.owner = STR("other-page");
    c->review.by = STR("zoe");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_APPROVED);
    same_as_twin(s);
}

/* Names that only look alike, and addresses of one local part, are one person where that restricts. */
static void a_person_who_may_be_the_same_is_the_same(void **state)
{
    struct scene *s = *state;
    static const struct str askers[] = {STR("erin@corp.example"), STR("\u0435rin"),
                                        STR("Invoice_Bot@corp.example")};
    static const struct str voters[] = {STR("rita@corp.example"), STR("r\u0456ta"),
                                        STR("rita+2@x")};
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    for (size_t i = 0; i < sizeof askers / sizeof *askers; i++) {
        struct call *c = scene_on(s, CALL_APPROVE, id, STR("page"));
        c->review.by = askers[i];
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_SELF_REVIEW);
    }
    id = scene_enqueue(
        s, (struct scene_review){.binding = 1, .requirements = STR("[{\"approvals\":2}]")});
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
    for (size_t i = 0; i < sizeof voters / sizeof *voters; i++) {
        struct call *owned = scene_on(s, CALL_APPROVE, id, voters[i]);
        owned->review.by = STR("zoe");
        scene_ask(s, owned);
        assert_int_equal(owned->err, ERR_ALREADY_VOTED);
        struct call *named = scene_on(s, CALL_APPROVE, id, STR("page"));
        named->review.by = voters[i];
        scene_ask(s, named);
        assert_int_equal(named->err, ERR_ALREADY_VOTED);
    }
    /* Not a repetition: the answer is not that of a vote that counts. */
    struct call *again = scene_on(s, CALL_APPROVE, id, STR("rita"));
    again->review.by = voters[0];
    scene_ask(s, again);
    assert_int_equal(again->err, ERR_ALREADY_VOTED);
    /* A denial restricts, so it is refused to the voter alone. */
    assert_int_equal(scene_do(s, CALL_DENY, id, voters[0])->err, ERR_OK);
    same_as_twin(s);
}

/* That is for approvals: whoever approved at a page may still stop it by their own key. */
static void who_approved_by_anothers_key_may_still_deny_by_their_own(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    struct call *first = scene_on(s, CALL_APPROVE, id, STR("page"));
    first->review.by = STR("rita");
    scene_ask(s, first);
    assert_int_equal(first->err, ERR_OK);
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_ALREADY_VOTED);
    struct call *c = scene_do(s, CALL_DENY, id, STR("rita"));
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_DENIED);
    same_as_twin(s);
}

static void each_requirement_is_met_by_those_whom_it_names(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(
        s, (struct scene_review){.requirements =
                                     STR("[{\"approvals\":1,\"by\":[\"finance\"]},{\"approvals\":2,"
                                         "\"by\":[\"legal\"]},{\"approvals\":1}]")});
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("anne"));
    c->review.meets = 1;
    scene_ask(s, c);
    assert_int_equal(c->review.facts.state, REVIEW_PENDING);
    c = scene_on(s, CALL_APPROVE, id, STR("bert"));
    c->review.meets = 2;
    scene_ask(s, c);
    assert_int_equal(c->review.facts.state, REVIEW_PENDING);
    c = scene_on(s, CALL_APPROVE, id, STR("carl"));
    c->review.meets = 1;
    scene_ask(s, c);
    assert_int_equal(c->review.facts.state, REVIEW_PENDING);
    c = scene_on(s, CALL_APPROVE, id, STR("dora"));
    c->review.meets = 2;
    scene_ask(s, c);
    assert_int_equal(c->review.facts.state, REVIEW_APPROVED);
    same_as_twin(s);
}

static void whom_no_requirement_names_may_not_approve(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(
        s, (struct scene_review){.requirements = STR("[{\"approvals\":1,\"by\":[\"finance\"]}]")});
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
    c->review.meets = 2; /* a requirement that there is not */
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_WRONG_REVIEWER);
    struct id open = scene_enqueue(s, (struct scene_review){.binding = 3});
    c = scene_on(s, CALL_APPROVE, open, STR("rita"));
    c->review.meets = 0;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
}

/* A denial only restricts, so any reviewer may give it. */
static void what_asks_for_proof_takes_approvals_of_verified_people_only(void **state)
{
    struct scene *s = *state;
    const struct scene_review asks = {.requirements = STR("[{\"approvals\":1,\"proof\":\"oidc\"}]"),
                                      .asks_proof = true};
    static const enum review_proof weaker[] = {REVIEW_PROOF_UNKNOWN, REVIEW_PROOF_OWNER,
                                               REVIEW_PROOF_NAMED, REVIEW_PROOF_KEY};
    struct id id = scene_enqueue(s, asks);
    for (size_t i = 0; i < sizeof weaker / sizeof *weaker; i++) {
        struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
        c->review.proof = weaker[i];
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_PROOF_REQUIRED);
    }
    assert_int_equal(scene_look(s, id).state, REVIEW_PENDING);
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
    c->review.proof = REVIEW_PROOF_OIDC;
    c->review.claims = STR("[[\"groups\",\"finance\"]]");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_APPROVED);
    assert_text(scene_look(s, id).approvals[0].claims, "[[\"groups\",\"finance\"]]");
    struct scene_review other = asks;
    other.binding = 7;
    id = scene_enqueue(s, other);
    assert_int_equal(scene_do(s, CALL_DENY, id, STR("rita"))->err, ERR_OK);
    assert_int_equal(scene_look(s, id).state, REVIEW_DENIED);
    same_as_twin(s);
}

static void without_requirements_one_approval_is_enough(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.requirements = STR("[]")});
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
    c->review.meets = 0;
    assert_int_equal(scene_look(s, id).state, REVIEW_PENDING);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_APPROVED);
    same_as_twin(s);
}

static void nobody_resolves_what_they_asked_for_in_any_of_five_ways(void **state)
{
    struct scene *s = *state;
    const struct scene_review r = {.actor = STR("bot"),
                                   .principal = STR("fleet"),
                                   .owner = STR("erin"),
                                   .acting_for = STR("dan")};
    const struct str selves[] = {STR("fleet"), STR("Erin"), STR("BOT"), STR("dan")};
    struct id id = scene_enqueue(s, r),
              of_user = scene_enqueue(s, (struct scene_review){.user = STR("uma")});
    for (size_t i = 0; i < sizeof selves / sizeof *selves; i++) {
        for (unsigned how = 0; how < 3; how++) {
            for (unsigned deny = 0; deny < 2; deny++) {
                struct call *c = scene_on(s, deny ? CALL_DENY : CALL_APPROVE, id, STR("rita"));
                *(how == 0   ? &c->review.principal
                  : how == 1 ? &c->review.owner
                             : &c->review.by) = selves[i];
                scene_ask(s, c);
                assert_int_equal(c->err, ERR_SELF_REVIEW);
            }
        }
    }
    assert_int_equal(scene_do(s, CALL_APPROVE, of_user, STR("UMA"))->err, ERR_SELF_REVIEW);
    assert_int_equal(scene_look(s, id).state, REVIEW_PENDING);
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_OK);
}

static void an_overdue_review_cannot_be_approved(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    s->now_ms += 1800000;
    struct call *c = scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_int_equal(c->err, ERR_ALREADY_RESOLVED);
    assert_int_equal(c->review.facts.state, REVIEW_EXPIRED);
    assert_last_kinds(s, "review.expired");
    same_as_twin(s);
}

static void the_longest_note_is_taken_and_recorded(void **state)
{
    struct scene *s = *state;
    char note[8000];
    memset(note, 'n', sizeof note);
    struct id id = scene_enqueue(s, usual),
              other = scene_enqueue(s, (struct scene_review){.binding = 1});
    struct call *c = scene_on(s, CALL_APPROVE, id, STR("rita"));
    c->review.note = str_of(note, sizeof note);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.note.size, sizeof note);
    assert_int_equal(scene_tick(s, 900000),
                     1); /* and its expiry, whose record does not say it again */
    assert_true(s->records[s->record_count - 1].delta.size < 500);
    memset(note, 0x1f, 2000); /* each is written as six bytes */
    c = scene_on(s, CALL_DENY, other, STR("rita"));
    c->review.note = str_of(note, 2000);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    same_as_twin(s);
    char longer[8001] = {'n'};
    c = scene_on(s, CALL_DENY, scene_enqueue(s, (struct scene_review){.binding = 2}), STR("rita"));
    c->review.note = str_of(longer, sizeof longer);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OUT_OF_RANGE);
}

/* ---- cancel ---- */

static void only_who_asked_may_cancel(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    struct call *c = scene_on(s, CALL_CANCEL, id, STR("rita"));
    c->requester.sees_all = true;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
    c = scene_on(s, CALL_CANCEL, id, STR("fleet"));
    c->requester.owner = STR("erin");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->review.facts.state, REVIEW_CANCELLED);
    assert_text(c->review.facts.resolved_by, "erin");
    assert_last_kinds(s, "review.cancelled");
    size_t before = s->record_count;
    c = scene_do(s, CALL_CANCEL, id, STR("fleet"));
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->review.repeated);
    assert_int_equal(s->record_count, before);
    assert_int_equal(scene_do(s, CALL_APPROVE, id, STR("rita"))->err, ERR_ALREADY_RESOLVED);
    same_as_twin(s);
}

static void what_is_resolved_cannot_be_cancelled(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, usual);
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    assert_int_equal(scene_do(s, CALL_CANCEL, id, STR("fleet"))->err, ERR_ALREADY_RESOLVED);
    assert_int_equal(scene_look(s, id).state, REVIEW_APPROVED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_new_review_is_pending_and_recorded_with_its_decision),
        scene_test(what_origin_spent_is_recorded_with_the_decision),
        scene_test(a_hundred_of_one_actor_may_be_pending),
        scene_test(what_is_past_its_deadline_does_not_count_as_pending),
        scene_test(a_suspended_actor_gets_no_review),
        scene_test(a_full_shard_forgets_what_ended_first_and_then_refuses),
        scene_test(what_ended_first_goes_first_however_late_that_was_recorded),
        scene_test(terms_that_nobody_can_read_enqueue_nothing),
        scene_test(whoever_asked_sees_it_and_so_does_a_reviewer_and_nobody_else),
        scene_test(a_token_sees_its_own_actors_reviews_only),
        scene_test(looking_at_an_overdue_review_expires_it),
        scene_test(an_approval_ends_the_waiting_and_is_good_for_a_time),
        scene_test(an_event_says_who_did_what_to_which_request),
        scene_test(a_persons_review_says_so_in_its_events),
        scene_test(the_events_of_a_denial_and_a_cancellation_say_by_whom_and_why),
        scene_test(a_look_tells_of_the_newest_record_of_a_review),
        scene_test(what_was_shown_of_the_votes_outlives_the_review),
        scene_test(one_deny_ends_it),
        scene_test(the_first_resolution_wins_and_others_are_told_whose),
        scene_test(whoever_repeats_their_own_outcome_is_told_so_again),
        scene_test(of_several_people_behind_one_key_each_repeats_only_their_own),
        scene_test(a_vote_on_what_expired_undecided_is_no_outcome_to_repeat),
        scene_test(who_approved_is_told_so_when_the_approval_is_over_too),
        scene_test(two_approvals_take_two_owners),
        scene_test(one_person_is_one_approval_by_whichever_name),
        scene_test(a_person_who_may_be_the_same_is_the_same),
        scene_test(who_approved_by_anothers_key_may_still_deny_by_their_own),
        scene_test(an_outcome_is_repeated_by_the_key_that_brought_it_about),
        scene_test(each_requirement_is_met_by_those_whom_it_names),
        scene_test(whom_no_requirement_names_may_not_approve),
        scene_test(what_asks_for_proof_takes_approvals_of_verified_people_only),
        scene_test(without_requirements_one_approval_is_enough),
        scene_test(nobody_resolves_what_they_asked_for_in_any_of_five_ways),
        scene_test(an_overdue_review_cannot_be_approved),
        scene_test(the_longest_note_is_taken_and_recorded),
        scene_test(only_who_asked_may_cancel),
        scene_test(what_is_resolved_cannot_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
