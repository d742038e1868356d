/* What a reactor does with calls on its own slots, step by step, without its
 * thread: the test is the turn. */
#include "calls_rig.h"

struct scene {
    struct rig *rig;
    struct engine_reactor *w;
    struct arena arena;
};

static void never_handled(void *context, struct http_exchange *x)
{
    (void)context, (void)x;
    check(false);
}

static void never_refused(void *context, struct http_exchange *x, const struct fault *f)
{
    (void)context, (void)x, (void)f;
    check(false);
}

/* The first reactor of an engine whose threads were stopped again; its journal goes on. */
static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    s->rig = rig_create("10m");
    rig_stop(s->rig);
    s->w = &s->rig->engine.reactors[0];
    s->w->revoked = revoked_view_create(s->rig->engine.revoked, 0);
    s->w->owner = (struct owner){0};
    static const struct http_service service = {.handle = never_handled, .refuse = never_refused};
    static const struct http_limits limits = {
        .connections_max = 1, .head_ms = 1, .body_ms = 1, .idle_ms = 1, .write_ms = 1};
    s->w->server = http_server_create(s->w->loop, &service, &limits);
    owner_init(s->w, s->rig->engine.shards[0]);
    arena_init(&s->arena, 64 << 10, 1 << 20);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    revoked_view_destroy(s->w->revoked);
    http_server_destroy(s->w->server);
    owner_fini(s->w);
    arena_fini(&s->arena);
    rig_destroy(s->rig);
    free(s);
    return 0;
}

static struct call suspension(struct scene *s, const char *actor, unsigned origin)
{
    struct call c = {.kind = CALL_SUSPEND,
                     .origin = (uint16_t)origin,
                     .now_ms = world_now_ms(),
                     .arena = &s->arena,
                     .tenant = STR("acme")};
    c.requester.principal = c.requester.owner = STR("admin");
    c.requester.key_id = STR("key_00000000000000000000000001");
    c.actor.actor = str_from(actor);
    c.id = id_make(c.now_ms, &s->w->api.chance);
    return c;
}

static void fill_all_blocks(struct scene *s)
{
    static char bytes[LIMIT_EVENT_BYTES];
    struct str event = str_of(bytes, sizeof bytes);
    struct http_barrier barrier;
    memset(bytes, 'x', sizeof bytes);
    atomic_store(&s->rig->write_stopped, true);
    while (commit_events(&s->w->commit, &event, 1, LANE_SYNCED, &barrier) == ERR_OK) {
    }
    assert_false(engine_reactor_has_room(s->w));
}

static uint32_t current_signer(const struct scene *s)
{
    return signers_current(signing_now(s->rig->engine.signing), world_now_ms());
}

/* It comes while there is no room for its record. */
static void hold(struct scene *s, struct call *c)
{
    fill_all_blocks(s);
    assert_false(owner_call(s->w, c));
}

/* There is room, and those that were held have their turn. */
static void write_again(struct scene *s)
{
    atomic_store(&s->rig->write_stopped, false);
    while (!engine_reactor_has_room(s->w)) sched_yield();
    owner_retry(s->w);
}

static void until_durable(struct scene *s, uint64_t block)
{
    uint64_t written, durable = 0;
    while (durable < block) {
        journal_seal(s->w->commit.producer);
        journal_progress(s->w->commit.producer, &written, &durable);
        sched_yield();
    }
}

static void see_all(struct scene *s, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct revoked_view *v = revoked_view_create(s->rig->engine.revoked, i);
        revoked_view_take(v, world_now_ms());
        revoked_view_destroy(v);
    }
}

static void a_call_without_room_for_its_record_is_held_and_changes_nothing(void **state)
{
    struct scene *s = *state;
    struct owner *o = &s->w->owner;
    struct shard_totals totals;
    struct call c = suspension(s, "bot", 0);
    hold(s, &c);
    assert_int_equal(o->held.count, 1);
    owner_retry(s->w); /* still none */
    assert_int_equal(o->held.count, 1);
    shard_totals(o->shard, &totals);
    assert_int_equal(totals.suspended, 0);

    write_again(s);
    assert_int_equal(o->held.count, 0);
    shard_totals(o->shard, &totals);
    assert_int_equal(totals.suspended, 1);
    assert_true(c.answered);
    assert_int_equal(c.err, ERR_OK);
}

/* Also one that may not use what is kept for those that close something. */
static void a_held_call_is_made_as_soon_as_there_is_room(void **state)
{
    struct scene *s = *state;
    struct call stop = suspension(s, "bot", 0), go_on = suspension(s, "bot", 0);
    go_on.kind = CALL_RESUME;
    assert_false(call_closes(go_on.kind));
    (void)owner_call(s->w, &stop);
    hold(s, &go_on);
    assert_int_equal(s->w->owner.held.count, 1);
    write_again(s);
    assert_int_equal(s->w->owner.held.count, 0);
    assert_true(go_on.answered);
    assert_int_equal(go_on.err, ERR_OK);
}

static struct call minting(struct scene *s, uint64_t lives_ms)
{
    struct call c = suspension(s, "", 0);
    c.kind = CALL_MINT;
    memset(&c.mint, 0, sizeof c.mint);
    c.records[0] = STR("{\"kind\":\"token.minted\"}");
    c.mint.facts = (struct token_facts){.signer = current_signer(s),
                                        .id = slot_id(id_make(c.now_ms, &s->w->api.chance), 0),
                                        .tenant = STR("acme"),
                                        .actor = STR("bot"),
                                        .scope = STR("*"),
                                        .issued_ms = c.now_ms,
                                        .expires_ms = c.now_ms + lives_ms};
    return c;
}

static enum err outcome_of(struct scene *s, enum call_kind kind)
{
    struct call *c = arena_new(&s->arena, struct call); /* a queue may keep it */
    *c = kind == CALL_MINT ? minting(s, 60000) : suspension(s, "bot", 0);
    c->kind = kind;
    /* of what nobody has */
    if (kind != CALL_SUSPEND && kind != CALL_RESUME && kind != CALL_MINT)
        memset(&c->review, 0, sizeof c->review);
    (void)owner_call(s->w, c);
    assert_true(c->answered);
    return c->err;
}

static void on_a_full_disk_who_closes_something_is_served_alone(void **state)
{
    struct scene *s = *state;
    atomic_store(&s->rig->disk_full, true);
    while (!journal_is_full(s->rig->engine.journal)) sched_yield();
    assert_int_equal(outcome_of(s, CALL_SUSPEND), ERR_OK);
    assert_int_equal(outcome_of(s, CALL_REVOKE), ERR_NOT_FOUND);
    assert_int_equal(outcome_of(s, CALL_DENY), ERR_NOT_FOUND);
    assert_int_equal(outcome_of(s, CALL_CANCEL), ERR_NOT_FOUND);
    static const enum call_kind opening[] = {CALL_MINT, CALL_ENQUEUE, CALL_APPROVE, CALL_REDEEM,
                                             CALL_RESUME};
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++)
        assert_int_equal(outcome_of(s, opening[i]), ERR_JOURNAL_FULL);
}

static void a_suspension_is_of_the_moment_when_it_is_made(void **state)
{
    struct scene *s = *state;
    struct call c = suspension(s, "bot", 0);
    uint64_t asked_ms = c.now_ms;
    c.now_ms = asked_ms - 60000; /* it waited long */
    (void)owner_call(s->w, &c);
    assert_true(c.answered);
    assert_true(c.actor.suspended_ms >= asked_ms);
}

static void what_came_due_while_nobody_ran_is_looked_for_at_once(void **state)
{
    struct scene *s = *state;
    assert_true(s->w->owner.stepped);
    assert_false(owner_tick(s->w));
    assert_false(s->w->owner.stepped);
}

static void a_held_call_can_be_taken_back(void **state)
{
    struct scene *s = *state;
    struct call first = suspension(s, "one", 0), second = suspension(s, "two", 0),
                third = suspension(s, "three", 0);
    hold(s, &first);
    assert_false(owner_call(s->w, &second));
    assert_true(owner_forget(s->w, &second));
    assert_false(owner_forget(s->w, &second));
    assert_false(owner_call(s->w, &third)); /* the queue's end is still its end */
    assert_int_equal(s->w->owner.held.count, 3 - 1);
    assert_true(owner_forget(s->w, &third));
    assert_true(owner_forget(s->w, &first));
    assert_int_equal(s->w->owner.held.count, 0);
    assert_null(s->w->owner.held.first);
}

/* Synced is not enough, and neither is seen. */
static void a_suspension_is_answered_when_it_is_durable_and_all_have_seen_it(void **state)
{
    struct scene *s = *state;
    struct owner *o = &s->w->owner;
    struct post *post = s->rig->engine.post;
    struct call c = suspension(s, "bot", 1);
    bool more;
    atomic_store(&s->rig->sync_stopped, true);
    owner_receive(s->w, &c);
    assert_true(c.answered);
    assert_int_equal(o->unseen.count, 1);
    assert_true(o->told);
    see_all(s, 0, RIG_REACTORS - 1);
    owner_seen(s->w);
    assert_int_equal(o->unseen.count, 1); /* one has not */
    see_all(s, RIG_REACTORS - 1, RIG_REACTORS);
    assert_true(atomic_load(&s->rig->engine.revoking) & 1);
    owner_seen(s->w);
    assert_false(atomic_load(&s->rig->engine.revoking) & 1);
    assert_int_equal(o->unseen.count, 0);
    assert_int_equal(o->parked.count, 1); /* not durable */
    owner_durable(s->w, c.block - 1);
    assert_int_equal(mailbox_depth(post, 1), 0);
    atomic_store(&s->rig->sync_stopped, false);
    until_durable(s, c.block);
    owner_durable(s->w, c.block);
    assert_ptr_equal(mailbox_take(post, 1, &more), &c);
}

static void whoever_repeats_a_suspension_is_told_no_earlier(void **state)
{
    struct scene *s = *state;
    struct owner *o = &s->w->owner;
    struct call first = suspension(s, "bot", 1), again = suspension(s, "bot", 2);
    bool more;
    owner_receive(s->w, &first);
    owner_receive(s->w, &again); /* no new record */
    assert_int_equal(first.actor.suspended_ms, again.actor.suspended_ms);
    see_all(s, 0, RIG_REACTORS - 1);
    owner_seen(s->w);
    assert_int_equal(o->unseen.count, 2);
    see_all(s, RIG_REACTORS - 1, RIG_REACTORS);
    owner_seen(s->w);
    assert_int_equal(o->unseen.count, 0);
    until_durable(s, again.block);
    owner_durable(s->w, again.block);
    assert_ptr_equal(mailbox_take(s->rig->engine.post, 1, &more), &first);
    assert_ptr_equal(mailbox_take(s->rig->engine.post, 2, &more), &again);
}

static void whoever_looks_who_is_suspended_is_told_no_earlier(void **state)
{
    struct scene *s = *state;
    struct owner *o = &s->w->owner;
    struct call first = suspension(s, "bot", 1), look = suspension(s, "", 2);
    bool more;
    look.kind = CALL_ACTOR_LIST;
    memset(&look.list, 0, sizeof look.list);
    look.list.limit = 10;
    owner_receive(s->w, &first);
    owner_receive(s->w, &look);
    assert_int_equal(look.list.count, 1);
    assert_int_equal(o->unseen.count, 2);
    see_all(s, 0, RIG_REACTORS);
    owner_seen(s->w);
    assert_int_equal(o->unseen.count, 0);
    until_durable(s, look.block);
    owner_durable(s->w, look.block);
    assert_ptr_equal(mailbox_take(s->rig->engine.post, 1, &more), &first);
    assert_ptr_equal(mailbox_take(s->rig->engine.post, 2, &more), &look);
}

static struct call about_review(struct scene *s, enum call_kind kind, struct id review)
{
    struct call c = suspension(s, "", 0);
    c.kind = kind;
    c.slot = (uint16_t)slot_of_id(review);
    memset(&c.review, 0, sizeof c.review);
    c.review.id = review;
    return c;
}

static struct call new_review(struct scene *s, uint64_t good_for_ms)
{
    uint64_t now_ms = world_now_ms();
    struct id id = slot_id(id_make(now_ms, &s->w->api.chance), 0);
    struct call c = about_review(s, CALL_ENQUEUE, id);
    memset(&c.enqueue, 0, sizeof c.enqueue);
    c.records[0] = STR("{\"kind\":\"decision\"}");
    c.records[1] = STR("{\"kind\":\"review.enqueued\"}");
    c.enqueue.facts = (struct review_facts){.id = id,
                                            .tenant = STR("acme"),
                                            .subject = STR("bot"),
                                            .principal = STR("admin"),
                                            .owner = STR("admin"),
                                            .action = STR("pay"),
                                            .trace_id = STR("t"),
                                            .enqueued_ms = now_ms,
                                            .expires_ms = now_ms + 60000,
                                            .good_for_ms = good_for_ms,
                                            .state = REVIEW_PENDING};
    c.for_actor = STR("bot");
    return c;
}

/* One that may be redeemed for so long. */
static struct review_facts approved_review(struct scene *s, uint64_t good_for_ms)
{
    struct call c = new_review(s, good_for_ms);
    struct id id = c.enqueue.facts.id;
    assert_true(owner_call(s->w, &c));
    assert_int_equal(c.err, ERR_OK);
    c = about_review(s, CALL_APPROVE, id);
    c.requester.sees_all = true;
    c.review.owner = c.review.by = c.review.principal = STR("rita");
    c.review.meets = 1;
    assert_true(owner_call(s->w, &c));
    assert_int_equal(c.err, ERR_OK);
    return c.review.facts;
}

static struct call redemption(struct scene *s, struct id review)
{
    struct call c = about_review(s, CALL_REDEEM, review);
    c.for_actor = STR("bot");
    c.records[0] = STR("{\"kind\":\"decision\"}");
    c.records[1] = STR("{\"kind\":\"review.redeemed\"}");
    return c;
}

static void an_approval_is_not_used_after_its_time_however_long_the_call_was_held(void **state)
{
    struct scene *s = *state;
    struct review_facts review = approved_review(s, 2000);
    struct call c = redemption(s, review.id);
    hold(s, &c);
    assert_int_equal(s->w->owner.held.count, 1);
    while (world_now_ms() <= review.approval_expires_ms) usleep(10000);
    write_again(s);
    assert_true(c.answered);
    assert_int_equal(c.err, ERR_NOT_REDEEMABLE);
    assert_int_equal(c.review.facts.state, REVIEW_EXPIRED);
}

/* The reserve is for that, too: else who reads the trail would find it pending for as long. */
static void on_a_full_disk_what_is_over_ends_all_the_same(void **state)
{
    struct scene *s = *state;
    struct shard_totals totals;
    struct call c = new_review(s, 60000);
    uint64_t over_ms = c.enqueue.facts.expires_ms = world_now_ms() + 100;
    assert_true(owner_call(s->w, &c));
    assert_int_equal(c.err, ERR_OK);
    uint64_t before = journal_block(s->w->commit.producer);
    atomic_store(&s->rig->disk_full, true);
    while (!journal_is_full(s->rig->engine.journal)) sched_yield();
    journal_seal(s->w->commit.producer);
    while (world_now_ms() <= over_ms) usleep(1000);
    assert_false(owner_tick(s->w));
    shard_totals(s->w->owner.shard, &totals);
    assert_int_equal(totals.reviews_pending, 0);
    assert_true(journal_block(s->w->commit.producer) > before);
}

static void told(struct scene *s, const struct effect_notice *n)
{
    revoked_log_append(s->rig->engine.revoked, n);
    assert_true(revoked_view_take(s->w->revoked, world_now_ms()));
}

/* Of the bot's, in another spelling. */
static void told_of_suspension(struct scene *s)
{
    told(s, &(struct effect_notice){.kind = NOTICE_ACTOR_SUSPENDED,
                                    .tenant = STR("acme"),
                                    .actor = STR("BOT"),
                                    .at_ms = world_now_ms()});
}

/* The same was asked again. */
static struct call sharing(struct scene *s, struct id review)
{
    struct call c = about_review(s, CALL_SHARE, review);
    memset(&c.enqueue, 0, sizeof c.enqueue);
    c.for_actor = STR("bot");
    c.records[0] = STR("{\"kind\":\"decision\"}");
    c.enqueue.facts = (struct review_facts){.id = review, .trace_id = STR("t-again")};
    return c;
}

static struct id pending_review(struct scene *s)
{
    struct call c = new_review(s, 60000);
    struct id id = c.enqueue.facts.id;
    assert_true(owner_call(s->w, &c));
    assert_int_equal(c.err, ERR_OK);
    return id;
}

/* A redemption, a request that shares a review and a new one that are held while that is told; how
 * they end. */
static void held_while(struct scene *s, struct id token, const struct effect_notice *n,
                       enum err expected)
{
    struct call all[] = {redemption(s, approved_review(s, 60000).id), sharing(s, pending_review(s)),
                         new_review(s, 60000)};
    const size_t count = sizeof all / sizeof *all;
    struct shard_totals before, after;
    memset(all[2].enqueue.facts.request.bytes, 1, REVIEW_DIGEST_BYTES); /* another request */
    fill_all_blocks(s);
    shard_totals(s->w->owner.shard, &before);
    for (unsigned i = 0; i < count; i++) {
        all[i].requester.token = token;
        all[i].requester.token_actor = STR("bot");
        all[i].requester.token_signer = current_signer(s);
        assert_false(owner_call(s->w, &all[i]));
    }
    told(s, n);
    write_again(s);
    for (unsigned i = 0; i < count; i++) {
        assert_true(all[i].answered);
        assert_int_equal(all[i].err, expected);
    }
    shard_totals(s->w->owner.shard, &after);
    assert_int_equal(after.reviews, before.reviews);
}

static void a_held_call_of_a_token_that_was_revoked_meanwhile_changes_nothing(void **state)
{
    struct scene *s = *state;
    struct id token = id_make(world_now_ms(), &s->w->api.chance);
    held_while(s, token,
               &(struct effect_notice){.kind = NOTICE_TOKEN_REVOKED,
                                       .token = token,
                                       .expires_ms = world_now_ms() + 60000},
               ERR_CREDENTIAL_REVOKED);
}

/* In whatever spelling: the shard knows of its own alone. */
static void a_held_call_for_an_actor_that_was_suspended_meanwhile_changes_nothing(void **state)
{
    struct scene *s = *state;
    struct call c = redemption(s, approved_review(s, 60000).id);
    hold(s, &c);
    told_of_suspension(s);
    write_again(s);
    assert_int_equal(c.err, ERR_ACTOR_SUSPENDED);
}

static void held_until(struct scene *s, struct call *c, uint64_t at_ms, enum err expected)
{
    struct shard_totals totals;
    while (world_now_ms() < at_ms) usleep(1000);
    write_again(s);
    assert_true(c->answered);
    assert_int_equal(c->err, expected);
    shard_totals(s->w->owner.shard, &totals);
    assert_int_equal(totals.tokens, expected == ERR_OK);
}

static void a_held_mint_for_an_actor_that_was_suspended_meanwhile_makes_no_token(void **state)
{
    struct scene *s = *state;
    struct call c = minting(s, 60000);
    hold(s, &c);
    told_of_suspension(s);
    held_until(s, &c, 0, ERR_ACTOR_SUSPENDED);
}

/* The suspension is over, and its older tokens are dead: it may ask for a new one. */
static void a_held_mint_for_an_actor_that_was_stopped_for_a_while_is_to_be_asked_again(void **state)
{
    struct scene *s = *state;
    struct call c = minting(s, 60000);
    struct effect_notice n = {.kind = NOTICE_ACTOR_SUSPENDED,
                              .tenant = STR("acme"),
                              .actor = STR("bot"),
                              .at_ms = c.now_ms};
    hold(s, &c);
    told(s, &n);
    n.kind = NOTICE_ACTOR_RESUMED;
    told(s, &n);
    held_until(s, &c, 0, ERR_OVERLOADED);
}

/* Told while it was held: what the older keys have signed is dead already. */
static void a_held_mint_under_a_signing_key_that_was_ended_makes_none(void **state)
{
    struct scene *s = *state;
    struct call c = minting(s, 60000);
    static const uint8_t salt[SIGNER_SALT_BYTES] = {1};
    struct signer_table ended = {.count = 0};
    struct signer_rotation next = signer_next(&ended, world_now_ms() + 1000, true, salt);
    assert_true(signer_add(&ended, &next));
    hold(s, &c);
    signing_follow(s->rig->engine.signing, &ended, world_now_ms());
    s->w->api.signers = signing_now(s->rig->engine.signing);
    held_until(s, &c, 0, ERR_OVERLOADED);
}

static void a_held_mint_of_a_token_whose_time_is_over_makes_none(void **state)
{
    struct scene *s = *state;
    fill_all_blocks(s); /* which may take a while */
    struct call c = minting(s, 1000);
    assert_false(owner_call(s->w, &c));
    held_until(s, &c, c.mint.facts.expires_ms, ERR_OVERLOADED);
}

static void a_held_mint_is_made_where_nothing_has_overtaken_it(void **state)
{
    struct scene *s = *state;
    struct call c = minting(s, 600000);
    hold(s, &c);
    held_until(s, &c, 0, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_call_without_room_for_its_record_is_held_and_changes_nothing),
        TEST(a_held_call_is_made_as_soon_as_there_is_room),
        TEST(on_a_full_disk_who_closes_something_is_served_alone),
        TEST(a_suspension_is_of_the_moment_when_it_is_made),
        TEST(what_came_due_while_nobody_ran_is_looked_for_at_once),
        TEST(a_held_call_can_be_taken_back),
        TEST(a_suspension_is_answered_when_it_is_durable_and_all_have_seen_it),
        TEST(whoever_repeats_a_suspension_is_told_no_earlier),
        TEST(whoever_looks_who_is_suspended_is_told_no_earlier),
        TEST(an_approval_is_not_used_after_its_time_however_long_the_call_was_held),
        TEST(on_a_full_disk_what_is_over_ends_all_the_same),
        TEST(a_held_call_of_a_token_that_was_revoked_meanwhile_changes_nothing),
        TEST(a_held_call_for_an_actor_that_was_suspended_meanwhile_changes_nothing),
        TEST(a_held_mint_for_an_actor_that_was_suspended_meanwhile_makes_no_token),
        TEST(a_held_mint_for_an_actor_that_was_stopped_for_a_while_is_to_be_asked_again),
        TEST(a_held_mint_under_a_signing_key_that_was_ended_makes_none),
        TEST(a_held_mint_of_a_token_whose_time_is_over_makes_none),
        TEST(a_held_mint_is_made_where_nothing_has_overtaken_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
