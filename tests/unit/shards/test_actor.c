/* The kill switch in a shard: what suspending does at once, step by step, and after a crash in
 * between. */
#include "shard_scene.h"

static struct call *suspend_call(struct scene *s, struct str actor, struct str reason)
{
    struct call *c = scene_call(s, CALL_SUSPEND, STR("root"));
    c->slot = SCENE_SLOT;
    c->actor.actor = actor;
    c->actor.reason = reason;
    c->actor.ordinal = ++s->ordinal;
    return c;
}

static struct call *resume(struct scene *s, struct str actor)
{
    struct call *c = scene_call(s, CALL_RESUME, STR("root"));
    c->slot = SCENE_SLOT;
    c->actor.actor = actor;
    scene_ask(s, c);
    return c;
}

static struct call *list(struct scene *s, uint64_t after, uint32_t limit)
{
    struct call *c = scene_call(s, CALL_ACTOR_LIST, STR("root"));
    c->list.after = after;
    c->list.limit = limit;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    return c;
}

static void suspending_is_recorded_and_everybody_is_told(void **state)
{
    struct scene *s = *state;
    struct call *c = suspend_call(s, STR("invoice_bot"), STR("it pays \"everyone\""));
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->answered);
    assert_int_equal(c->actor.suspended_ms, s->now_ms);
    assert_last_kinds(s, "actor.suspended");
    struct event e = scene_event(s, -1);
    assert_text(e.actor, "invoice_bot");
    assert_text(e.tenant_id, "acme");
    assert_text(e.reason, "it pays \"everyone\"");
    assert_text(e.resolved_by, "root");
    assert_int_equal(s->notice.kind, NOTICE_ACTOR_SUSPENDED);
    assert_text(s->notice.actor, "invoice_bot");
    assert_int_equal(s->notice.at_ms, s->now_ms);
    scene_compare(s->shard, s->twin);
}

static void suspending_twice_keeps_the_first_reason_and_records_nothing(void **state)
{
    struct scene *s = *state;
    struct call *first = suspend_call(s, STR("bot"), STR("one"));
    scene_ask(s, first);
    s->now_ms += 5000;
    struct call *second = suspend_call(s, STR("bot"), STR("two"));
    scene_ask(s, second);
    assert_int_equal(second->err, ERR_OK);
    assert_int_equal(second->actor.suspended_ms, scene_start_ms);
    assert_text(second->actor.reason, "one");
    assert_int_equal(s->record_count, 1);
    assert_int_equal(s->effects.reveals_block, 1);
    assert_int_equal(s->notice_count,
                     2); /* whoever repeats it is answered when everybody knows, too */
    assert_int_equal(s->notice.at_ms, scene_start_ms);
}

static void all_reviews_of_the_actor_are_ended_a_few_a_step(void **state)
{
    struct scene *s = *state;
    struct id ids[10];
    for (unsigned i = 0; i < 10; i++)
        ids[i] = scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    struct id other =
        scene_enqueue(s, (struct scene_review){.actor = STR("other_bot"), .binding = 20});
    struct id of_user =
        scene_enqueue(s, (struct scene_review){.user = STR("invoice_bot"), .binding = 21});
    struct call *waiter = scene_on(s, CALL_REVIEW_WAIT, ids[9], STR("fleet"));
    waiter->review.deadline_ms = s->now_ms + 30000;
    scene_ask(s, waiter);
    scene_do(s, CALL_APPROVE, ids[3], STR("rita"));
    size_t before = s->record_count;

    struct call *c = suspend_call(s, STR("invoice_bot"), STR("why"));
    scene_ask(s, c);
    assert_true(s->steps > 1);
    assert_int_equal(s->record_count - before, 11);
    assert_last_kinds(s, "review.denied", "review.denied", "review.cancelled");
    struct event e = scene_event(s, -1);
    assert_text(e.rule, "actor:suspended");
    assert_text(e.resolved_by, "root");
    assert_true(waiter->answered);
    assert_int_equal(waiter->review.facts.state, REVIEW_DENIED);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(scene_look(s, ids[i]).state, i == 3 ? REVIEW_CANCELLED : REVIEW_DENIED);
    assert_int_equal(scene_look(s, other).state, REVIEW_PENDING);
    assert_int_equal(scene_look(s, of_user).state, REVIEW_PENDING);
    scene_compare(s->shard, s->twin);
}

static void the_answer_reveals_the_last_denial(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 8; i++) scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    struct call *c = suspend_call(s, STR("invoice_bot"), STR("why"));
    scene_ask(s, c);
    assert_int_equal(s->effects.record_count, 0); /* the last step only answered */
    assert_int_equal(s->effects.reveals_block, s->block);
}

static void an_event_id_is_never_given_twice(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 100; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    scene_ask(s, suspend_call(s, STR("invoice_bot"), STR("why")));
    char ids[SCENE_RECORDS_MAX][ID_TEXT];
    for (size_t i = 0; i < s->record_count; i++) {
        memcpy(ids[i], scene_event(s, (int)i).event_id.bytes, ID_TEXT);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(ids[i], ids[k], ID_TEXT);
    }
    assert_int_equal(s->record_count, 301);
}

static void after_a_crash_in_between_the_ticks_deny_the_rest(void **state)
{
    struct scene *s = *state;
    struct id ids[10];
    for (unsigned i = 0; i < 10; i++)
        ids[i] = scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    struct call *c = suspend_call(s, STR("invoice_bot"), STR("why"));
    c->now_ms = s->now_ms;
    shard_step(s->shard, c, &s->effects); /* the first step only */
    scene_perform(s);
    assert_true(s->effects.again);

    shard_destroy(s->shard); /* what the records say is all there is */
    s->shard = s->twin;
    s->twin = shard_create(&(struct shard_options){.count = 1});
    for (size_t i = 0; i < s->record_count; i++)
        scene_apply(s->twin, s->records[i].event, s->records[i].delta);
    size_t before = s->record_count;
    scene_tick(s, 0);
    assert_int_equal(s->record_count - before, 6);
    assert_last_kinds(s, "review.denied");
    for (unsigned i = 0; i < 10; i++) {
        struct review_facts f = scene_look(s, ids[i]);
        assert_int_equal(f.state, REVIEW_DENIED);
        assert_text(f.resolved_by, "root");
    }
    scene_compare(s->shard, s->twin);
}

static struct call *deny_spellings(struct scene *s, struct str actor)
{
    struct call *c = scene_call(s, CALL_DENY_SPELLINGS, STR("root"));
    c->list.actor = actor;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->answered);
    return c;
}

static void reviews_of_every_spelling_are_denied_and_nobody_elses(void **state)
{
    struct scene *s = *state;
    const struct str spellings[] = {STR("invoice_bot"), STR("Invoice_BOT"), STR(" invoice_bot"),
                                    STR("\xef\xbd\x89nvoice_bot")}; /* a wide i */
    const struct scene_review others[] = {{.actor = STR("invoice-bot")},
                                          {.user = STR("INVOICE_BOT")},
                                          {.actor = STR("INVOICE_BOT"), .tenant = STR("acme2")},
                                          {.actor = STR("INVOICE_BOT"), .tenant = STR("ac")}};
    struct id denied[4][6], kept[4];
    for (unsigned i = 0; i < 4; i++) {
        struct scene_review other = others[i];
        other.binding = (uint8_t)(100 + i);
        kept[i] = scene_enqueue(s, other);
        for (unsigned k = 0; k < 6; k++)
            denied[i][k] = scene_enqueue(
                s, (struct scene_review){.actor = spellings[i], .binding = (uint8_t)(i * 10 + k)});
    }
    size_t before = s->record_count;
    deny_spellings(s, STR("INVOICE_bot"));
    assert_int_equal(s->record_count - before, 24);
    assert_last_kinds(s, "review.denied", "review.denied");
    struct event e = scene_event(s, -1);
    assert_text(e.rule, "actor:suspended");
    assert_text(e.resolved_by, "root");
    assert_int_equal(s->notice_count, 0);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 6; k++)
            assert_int_equal(scene_look(s, denied[i][k]).state, REVIEW_DENIED);
    struct shard_totals totals;
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.reviews_pending, 4);
    assert_int_equal(scene_look(s, kept[0]).state, REVIEW_PENDING);
    scene_compare(s->shard, s->twin);
}

/* What was denied for whoever asked first may not be durable yet. */
static void who_asks_for_that_again_waits_for_the_last_denial(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, (struct scene_review){.actor = STR("Bot")});
    deny_spellings(s, STR("bot"));
    size_t before = s->record_count;
    deny_spellings(s, STR("bot"));
    assert_int_equal(s->record_count, before);
    assert_true(s->effects.reveals_unsynced);
    assert_int_equal(s->effects.reveals_block, s->block);
}

static void an_overdue_review_of_another_spelling_expires(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){.actor = STR("Bot")});
    s->now_ms += 1800000;
    deny_spellings(s, STR("bot"));
    assert_int_equal(scene_look(s, id).state, REVIEW_EXPIRED);
    scene_compare(s->shard, s->twin);
}

/* So many actors, each of another spelling of that name and with a review. */
static void enqueue_many(struct scene *s, const char *name, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        char text[32];
        size_t size = strlen(name);
        for (size_t k = 0; k < size; k++) text[k] = (char)(i >> k & 1 ? name[k] ^ 0x20 : name[k]);
        struct str actor = str_of(text, size);
        scene_enqueue(s, (struct scene_review){.actor = actor, .principal = actor});
    }
}

static size_t pending(const struct scene *s)
{
    struct shard_totals totals;
    shard_totals(s->shard, &totals);
    return totals.reviews_pending;
}

static struct call *begin_to_deny_spellings(struct scene *s, unsigned steps)
{
    struct call *c = scene_call(s, CALL_DENY_SPELLINGS, STR("root"));
    c->list.actor = STR("invoicebot");
    c->now_ms = s->now_ms;
    for (unsigned i = 0; i < steps; i++) {
        shard_step(s->shard, c, &s->effects);
        scene_perform(s);
        assert_true(s->effects.again);
    }
    return c;
}

static void however_many_spellings_there_are_all_are_denied_and_nobody_elses(void **state)
{
    struct scene *s = *state;
    enqueue_many(s, "invoicebot", 0, 400);
    enqueue_many(s, "anotherbot", 0, 400);
    deny_spellings(s, STR("invoicebot"));
    assert_int_equal(pending(s), 400);
    deny_spellings(s, STR("ANOTHERBOT"));
    assert_int_equal(pending(s), 0);
    scene_compare(s->shard, s->twin);
}

static void no_spelling_is_missed_that_comes_meanwhile(void **state)
{
    struct scene *s = *state;
    enqueue_many(s, "invoicebot", 0, 400);
    enqueue_many(s, "anotherbot", 0, 400);
    struct call *c = begin_to_deny_spellings(s, 50);
    enqueue_many(s, "invoicebot", 400, 100);
    enqueue_many(s, "anotherbot", 400, 400); /* the table grows */
    scene_ask(s, c);
    assert_int_equal(pending(s), 800);
    scene_compare(s->shard, s->twin);
}

static enum err load_into(void *context, struct str entry)
{
    struct fault f;
    return shard_load(context, entry, &f);
}

static void a_snapshot_in_between_knows_that_some_are_left(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 10; i++)
        scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    struct call *c = suspend_call(s, STR("invoice_bot"), STR("why"));
    c->now_ms = s->now_ms;
    shard_step(s->shard, c, &s->effects);
    scene_perform(s);
    struct shard *loaded = shard_create(&(struct shard_options){.count = 1});
    assert_int_equal(shard_save(s->shard, load_into, loaded), ERR_OK);
    shard_destroy(s->shard);
    s->shard = loaded;
    assert_int_equal(scene_tick(s, 0), 6);
    assert_last_kinds(s, "review.denied");
    scene_compare(s->shard, s->twin);
}

static void what_is_overdue_expires_rather_than_be_denied(void **state)
{
    struct scene *s = *state;
    struct id id = scene_enqueue(s, (struct scene_review){0});
    s->now_ms += 1800000;
    scene_ask(s, suspend_call(s, STR("invoice_bot"), STR("why")));
    assert_int_equal(scene_look(s, id).state, REVIEW_EXPIRED);
    scene_compare(s->shard, s->twin);
}

static void resuming_is_recorded_and_leaves_older_tokens_dead(void **state)
{
    struct scene *s = *state;
    scene_suspend(s, STR("bot"));
    s->now_ms += 1000;
    struct call *c = resume(s, STR("bot"));
    assert_int_equal(c->err, ERR_OK);
    assert_last_kinds(s, "actor.resumed");
    assert_int_equal(s->notice.kind, NOTICE_ACTOR_RESUMED);
    assert_int_equal(s->notice.at_ms, s->now_ms);
    assert_int_equal(list(s, 0, 10)->list.total, 0);
    assert_int_equal(resume(s, STR("bot"))->err, ERR_NOT_FOUND);
    /* that it goes on is told no earlier than it is kept */
    assert_int_equal(s->effects.reveals_block, s->block);
    assert_false(shard_actor_goes_on(s->shard, c->tenant, STR("bot"), s->block - 1));
    assert_true(shard_actor_goes_on(s->shard, c->tenant, STR("bot"), s->block));
    assert_int_equal(resume(s, STR("nobody"))->err, ERR_NOT_FOUND);
    scene_suspend(s, STR("other_bot"));
    scene_enqueue(s, (struct scene_review){.actor = STR("bot")});
    scene_compare(s->shard, s->twin);
}

static void an_actor_may_be_suspended_again(void **state)
{
    struct scene *s = *state;
    scene_suspend(s, STR("bot"));
    resume(s, STR("bot"));
    s->now_ms += 777;
    struct call *c = suspend_call(s, STR("bot"), STR("again"));
    scene_ask(s, c);
    assert_int_equal(c->actor.suspended_ms, s->now_ms);
    assert_text(c->actor.reason, "again");
    scene_tick(s, 48 * 3600 * 1000);
    assert_int_equal(list(s, 0, 10)->list.total, 1);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
    assert_int_equal(resume(s, STR("bot"))->err, ERR_OK);
}

struct told {
    char text[16];
    size_t count;
    uint64_t at_ms[16];
};

static void tell(void *context, const struct effect_notice *n)
{
    struct told *t = context;
    assert_true(t->count < 15);
    t->at_ms[t->count] = n->at_ms;
    t->text[t->count++] = n->kind == NOTICE_ACTOR_SUSPENDED ? 'S'
                          : n->kind == NOTICE_ACTOR_RESUMED ? 'R'
                                                            : 'T';
}

static void after_recovery_everybody_is_told_of_who_is_and_who_was_suspended(void **state)
{
    struct scene *s = *state;
    struct told t = {.text = ""};
    scene_suspend(s, STR("bot"));
    s->now_ms += 1000;
    resume(s, STR("bot"));
    shard_notices(s->twin, tell, &t);
    assert_string_equal(t.text, "SR");
    assert_int_equal(t.at_ms[0], scene_start_ms);
    assert_int_equal(t.at_ms[1], scene_start_ms + 1000);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);

    scene_tick(s, 24 * 3600 * 1000 - 1); /* until no token can be left from before the resume */
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
    scene_tick(s, 1);
    assert_int_equal(scene_compare(s->shard, s->twin), 0);
    t = (struct told){.text = ""};
    scene_suspend(s, STR("bot"));
    scene_tick(s, (uint64_t)100 * 24 * 3600 * 1000); /* who is suspended stays so */
    shard_notices(s->shard, tell, &t);
    assert_string_equal(t.text, "S");
}

static void suspended_actors_are_listed_in_pages_by_tenant(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 25; i++) {
        char name[16];
        struct buf b = buf_over(name, sizeof name);
        buf_printf(&b, "bot-%u", i);
        scene_suspend(s, buf_view(&b));
    }
    struct call *foreign = suspend_call(s, STR("bot-1"), STR("elsewhere"));
    foreign->tenant = STR("other");
    scene_ask(s, foreign);
    struct call *first = list(s, 0, 10);
    assert_int_equal(first->list.total, 25);
    assert_int_equal(first->list.count, 10);
    assert_text(first->list.actors[0].actor, "bot-0");
    assert_text(first->list.actors[0].reason, "it misbehaves");
    assert_text(first->list.actors[0].by, "root");
    struct call *third = list(s, 20, 10);
    assert_int_equal(third->list.count, 5);
    assert_text(third->list.actors[4].actor, "bot-24");
    assert_int_equal(shard_ordinal_max(s->shard), 26);
    assert_int_equal(shard_ordinal_max(s->twin), 26);
    struct shard_totals totals;
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.suspended, 26);
}

static void no_more_than_so_many_may_be_suspended(void **state)
{
    struct scene *s = *state;
    scene_restart(
        s, &(struct shard_options){.index = SCENE_SLOT % LIMIT_REACTORS, .count = LIMIT_REACTORS});
    char name[16];
    struct buf b = buf_over(name, sizeof name);
    const unsigned most = LIMIT_SUSPENDED / LIMIT_REACTORS;
    for (unsigned i = 0; i < most / 2; i++) {
        buf_clear(&b);
        buf_printf(&b, "bot-%u", i);
        scene_suspend(s, buf_view(&b));
    }
    struct call *c = suspend_call(s, STR("one-more"), STR("why"));
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OVERLOADED);
    for (unsigned i = 0; i <= most / 2; i++) { /* another tenant has what is left, and no more */
        buf_clear(&b);
        buf_printf(&b, "bot-%u", i);
        c = suspend_call(s, buf_view(&b), STR("why"));
        c->tenant = STR("other");
        scene_ask(s, c);
        assert_int_equal(c->err, i < most / 2 ? ERR_OK : ERR_OVERLOADED);
    }
    c = suspend_call(s, STR("bot"), STR("why"));
    c->tenant = STR("a third");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OVERLOADED);
    c = suspend_call(s, STR("bot-1"), STR("again"));
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
}

static void a_long_reason_is_kept_and_fits_its_record(void **state)
{
    struct scene *s = *state;
    char reason[4000];
    memset(reason, 'r', sizeof reason);
    memset(reason, 0x01, 1000);
    for (unsigned i = 0; i < 5; i++)
        scene_enqueue(s, (struct scene_review){.actor = STR("bot"), .binding = (uint8_t)i});
    struct call *c = suspend_call(s, STR("bot"), str_of(reason, sizeof reason));
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->actor.reason.size, sizeof reason);
    scene_compare(s->shard, s->twin);
}

static void words_in_the_same_millisecond_have_rising_times(void **state)
{
    struct scene *s = *state;
    scene_ask(s, suspend_call(s, STR("bot"), STR("one")));
    resume(s, STR("bot"));
    assert_int_equal(scene_event(s, -1).timestamp, s->now_ms + 1);
    struct call *again = suspend_call(s, STR("bot"), STR("two"));
    scene_ask(s, again);
    assert_int_equal(scene_event(s, -1).timestamp, s->now_ms + 2);
    assert_int_equal(again->actor.suspended_ms, s->now_ms + 2);
    scene_compare(s->shard, s->twin);
}

/* ---- suspensions of the platform ---- */

static struct call *take_over(struct scene *s, struct str actor, uint64_t since_ms)
{
    struct call *c = suspend_call(s, actor, STR("it pays \"everyone\""));
    c->requester.owner = STR("carol");
    c->requester.key_id = (struct str){0};
    c->actor.since_ms = since_ms;
    c->actor.since_event = STR("evt_1");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    return c;
}

static void what_is_taken_over_keeps_its_time_and_names_the_first_event(void **state)
{
    struct scene *s = *state;
    struct call *c = take_over(s, STR("bot"), 86400000);
    assert_int_equal(c->actor.suspended_ms, 86400000);
    struct event e = scene_event(s, -1);
    assert_text(e.kind, "actor.suspended");
    assert_text(e.resolved_by, "carol");
    assert_text(e.reason, "it pays \"everyone\"");
    assert_text(e.previous, "{\"event_id\":\"evt_1\",\"timestamp\":\"1970-01-02T00:00:00.000Z\"}");
    assert_int_equal(e.timestamp, s->now_ms);
    assert_int_equal(s->notice.kind, NOTICE_ACTOR_SUSPENDED);
    assert_int_equal(list(s, 0, 10)->list.actors[0].suspended_ms, 86400000);
    scene_compare(s->shard, s->twin);
}

static void what_is_suspended_already_is_taken_over_without_a_record(void **state)
{
    struct scene *s = *state;
    scene_ask(s, suspend_call(s, STR("bot"), STR("one")));
    (void)take_over(s, STR("bot"), 86400000);
    assert_int_equal(s->record_count, 1);
    assert_int_equal(s->notice_count, 2);
    assert_int_equal(s->effects.reveals_block, s->block); /* it may not be durable */
}

static void a_later_resume_of_an_adopted_state_stays(void **state)
{
    struct scene *s = *state;
    scene_ask(s, suspend_call(s, STR("bot"), STR("one")));
    resume(s, STR("bot"));
    take_over(s, STR("bot"), s->now_ms);
    assert_int_equal(s->record_count, 2);
    assert_int_equal(list(s, 0, 10)->list.total, 0);
    take_over(s, STR("bot"), s->now_ms + 5000); /* an earlier resume does not */
    assert_int_equal(list(s, 0, 10)->list.total, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(suspending_is_recorded_and_everybody_is_told),
        scene_test(suspending_twice_keeps_the_first_reason_and_records_nothing),
        scene_test(all_reviews_of_the_actor_are_ended_a_few_a_step),
        scene_test(the_answer_reveals_the_last_denial),
        scene_test(an_event_id_is_never_given_twice),
        scene_test(after_a_crash_in_between_the_ticks_deny_the_rest),
        scene_test(a_snapshot_in_between_knows_that_some_are_left),
        scene_test(what_is_overdue_expires_rather_than_be_denied),
        scene_test(reviews_of_every_spelling_are_denied_and_nobody_elses),
        scene_test(who_asks_for_that_again_waits_for_the_last_denial),
        scene_test(an_overdue_review_of_another_spelling_expires),
        scene_test(however_many_spellings_there_are_all_are_denied_and_nobody_elses),
        scene_test(no_spelling_is_missed_that_comes_meanwhile),
        scene_test(resuming_is_recorded_and_leaves_older_tokens_dead),
        scene_test(an_actor_may_be_suspended_again),
        scene_test(after_recovery_everybody_is_told_of_who_is_and_who_was_suspended),
        scene_test(suspended_actors_are_listed_in_pages_by_tenant),
        scene_test(no_more_than_so_many_may_be_suspended),
        scene_test(a_long_reason_is_kept_and_fits_its_record),
        scene_test(words_in_the_same_millisecond_have_rising_times),
        scene_test(what_is_taken_over_keeps_its_time_and_names_the_first_event),
        scene_test(what_is_suspended_already_is_taken_over_without_a_record),
        scene_test(a_later_resume_of_an_adopted_state_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
