/* test_token.c - tokens in the shard: minted, spent, revoked, listed, forgotten. */
#include "shards/token_table.h"
#include "token_scene.h"

static const uint64_t day_ms = 24 * 3600 * 1000;

static void assert_same_facts(const struct token_facts *a, const struct token_facts *b)
{
    assert_memory_equal(a->id.bytes, b->id.bytes, ID_BYTES);
    assert_memory_equal(a->key.bytes, b->key.bytes, ID_BYTES);
    assert_true(str_equal(a->tenant, b->tenant) && str_equal(a->actor, b->actor) &&
                str_equal(a->acting_for, b->acting_for));
    assert_true(str_equal(a->scope, b->scope) && str_equal(a->audience, b->audience));
    assert_true(str_is_absent(a->acting_for) == str_is_absent(b->acting_for));
    assert_int_equal(a->signer, b->signer);
    assert_int_equal(a->ordinal, b->ordinal);
    assert_int_equal(a->issued_ms, b->issued_ms);
    assert_int_equal(a->expires_ms, b->expires_ms);
    assert_int_equal(a->revoked_ms, b->revoked_ms);
    assert_int_equal(a->uses_max, b->uses_max);
    assert_int_equal(a->uses, b->uses);
}

/* ---- mint ---- */

static void a_minted_token_is_recorded_and_found_with_all_its_facts(void **state)
{
    struct scene *s = *state;
    struct token_facts found,
        made = mint(
            s, (struct wish){.acting_for = STR("ann"), .audience = STR("billing"), .uses_max = 5});
    assert_int_equal(s->record_count, 1);
    assert_last_kinds(s, "token.minted");
    assert_int_equal(look(s, made.id, key_a, STR("acme"), false, &found), ERR_OK);
    assert_same_facts(&made, &found);
    struct token_facts bare = mint(s, (struct wish){0});
    assert_int_equal(look(s, bare.id, key_a, STR("acme"), false, &found), ERR_OK);
    assert_true(str_is_absent(found.acting_for) && str_is_absent(found.audience));
    assert_int_equal(scene_compare(s->shard, s->twin), 2);
}

static void what_origin_spent_for_the_minting_is_in_its_record(void **state)
{
    struct scene *s = *state;
    struct token_facts counted = mint(s, (struct wish){.uses_max = 5});
    char bytes[64];
    struct buf spent = buf_over(bytes, sizeof bytes);
    struct call *c = mint_call(s, (struct wish){0});
    delta_put_spent(&spent, counted.id, 1);
    c->spent = buf_view(&spent);
    assert_int_equal(spend(s, counted.id), TOKEN_SPENT);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(scene_compare(s->shard, s->twin), 2);
}

static void an_id_that_is_there_already_is_refused_and_recorded_nowhere(void **state)
{
    struct scene *s = *state;
    struct token_facts made = mint(s, (struct wish){0});
    struct call *c = mint_call(s, (struct wish){.id = made.id, .actor = STR("other")});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_EXISTS);
    assert_int_equal(s->record_count, 1);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
}

static void a_full_shard_mints_nothing_until_a_token_has_expired(void **state)
{
    struct scene *s = *state;
    scene_restart(s, &(struct shard_options){.count = 1, .tokens_max = 2});
    mint(s, (struct wish){.ttl_ms = 1000});
    mint(s, (struct wish){.ttl_ms = day_ms});
    struct call *c = mint_call(s, (struct wish){0});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_QUOTA_TENANT);
    assert_int_equal(s->record_count, 2);
    scene_tick(s, 61000);
    mint(s, (struct wish){0});
    assert_int_equal(scene_compare(s->shard, s->twin), 2);
}

/* What follows a snapshot may hold more than was ever there at once: the
 * expired of it were not dropped. */
static void what_is_recorded_is_taken_beyond_the_bound(void **state)
{
    struct scene *s = *state;
    const struct shard_options small = {.count = 1, .tokens_max = 2};
    scene_restart(s, &small);
    for (unsigned i = 0; i < 5; i++) {
        mint(s, (struct wish){.ttl_ms = 1000});
        mint(s, (struct wish){.ttl_ms = 1000});
        scene_tick(s, 61000);
    }
    struct shard *recovered = shard_create(&small);
    for (size_t i = 0; i < s->record_count; i++)
        scene_apply(recovered, s->records[i].event, s->records[i].delta);
    assert_int_equal(scene_compare(recovered, recovered), 10);
    shard_prune(recovered, s->now_ms);
    assert_int_equal(scene_compare(recovered, s->shard), 0);
    shard_destroy(recovered);
}

static void a_scope_too_large_for_a_record_is_refused_and_the_shard_lives(void **state)
{
    static char scope[LIMIT_DELTA_BYTES];
    struct scene *s = *state;
    memset(scope, 'x', sizeof scope);
    struct call *c = mint_call(s, (struct wish){.scope = str_of(scope, sizeof scope)});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OUT_OF_RANGE);
    assert_int_equal(s->record_count, 0);
    mint(s, (struct wish){.scope = str_of(scope, 3000)});
}

static void an_event_too_large_for_a_record_mints_nothing(void **state)
{
    static char large[LIMIT_EVENT_BYTES + 1];
    struct scene *s = *state;
    memset(large, ' ', sizeof large);
    struct call *c = mint_call(s, (struct wish){0});
    c->records[0] = str_of(large, sizeof large);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OUT_OF_RANGE);
    assert_int_equal(s->record_count, 0);
    struct token_facts f;
    assert_int_equal(look(s, c->mint.facts.id, key_a, STR("acme"), false, &f), ERR_NOT_FOUND);
}

/* ---- mint again ---- */

static void the_same_key_and_body_get_the_same_token_and_no_second_record(void **state)
{
    struct scene *s = *state;
    struct token_facts first = mint(
        s, (struct wish){.retry_key = 1, .retry_body = 2, .acting_for = STR("ann"), .uses_max = 9});
    struct call *c = mint_call(s, (struct wish){.retry_key = 1, .retry_body = 2});
    shard_recorded(s->shard, s->block);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->mint.replayed);
    assert_same_facts(&first, &c->mint.facts);
    assert_int_equal(s->record_count, 1);
    /* Who is told of it is told of a record that may not be durable yet. */
    assert_true(s->effects.reveals_unsynced);
    assert_int_equal(s->effects.reveals_block, s->block);
}

static void the_same_key_with_another_body_is_a_mismatch(void **state)
{
    struct scene *s = *state;
    mint(s, (struct wish){.retry_key = 1, .retry_body = 2});
    struct call *c = mint_call(s, (struct wish){.retry_key = 1, .retry_body = 3});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_IDEMPOTENCY_MISMATCH);
    assert_int_equal(s->record_count, 1);
}

static void an_expired_token_is_still_what_its_retry_gets_for_a_day(void **state)
{
    struct scene *s = *state;
    struct token_facts found,
        first = mint(s, (struct wish){.retry_key = 1, .retry_body = 2, .ttl_ms = 1000});
    scene_tick(s, day_ms - 1);
    assert_int_equal(look(s, first.id, key_a, STR("acme"), false, &found), ERR_NOT_FOUND);
    struct call *c = mint_call(s, (struct wish){.retry_key = 1, .retry_body = 2});
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->mint.replayed);
    assert_same_facts(&first, &c->mint.facts);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
}

/* Time decides, not the tick that drops the old one a little later. */
static void after_a_day_the_key_mints_anew_and_the_new_token_holds_it(void **state)
{
    struct scene *s = *state;
    struct token_facts first =
        mint(s, (struct wish){.retry_key = 1, .retry_body = 2, .ttl_ms = day_ms});
    s->now_ms += day_ms;
    struct token_facts second =
        mint(s, (struct wish){.retry_key = 1, .retry_body = 3, .ttl_ms = 1000});
    assert_memory_not_equal(first.id.bytes, second.id.bytes, ID_BYTES);
    assert_int_equal(scene_compare(s->shard, s->twin), 2);
    scene_tick(s, 120000); /* the old one goes, and does not take the key with it */
    struct call *c = mint_call(s, (struct wish){.retry_key = 1, .retry_body = 3});
    scene_ask(s, c);
    assert_true(c->mint.replayed);
    assert_same_facts(&second, &c->mint.facts);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
    scene_tick(s, day_ms + 60000);
    assert_int_equal(scene_compare(s->shard, s->twin), 0);
    mint(s, (struct wish){.retry_key = 1,
                          .retry_body = 4}); /* of those that held it nothing is left to be met */
}

/* ---- uses ---- */

static void a_token_is_spent_as_often_as_it_may_be_and_not_once_more(void **state)
{
    struct scene *s = *state;
    struct id id = mint(s, (struct wish){.uses_max = 3}).id;
    for (int i = 0; i < 3; i++) assert_int_equal(spend(s, id), TOKEN_SPENT);
    assert_int_equal(spend(s, id), TOKEN_NONE_LEFT);
    assert_int_equal(s->record_count, 1); /* in memory: the decision's record says it */
}

static void a_use_that_was_given_back_may_be_spent_again(void **state)
{
    struct scene *s = *state;
    struct token_facts found;
    struct id id = mint(s, (struct wish){.uses_max = 1}).id;
    assert_int_equal(spend(s, id), TOKEN_SPENT);
    do_token(s, CALL_UNSPEND, id);
    assert_int_equal(spend(s, id), TOKEN_SPENT);
    assert_int_equal(spend(s, id), TOKEN_NONE_LEFT);
    do_token(s, CALL_UNSPEND, id);
    do_token(s, CALL_UNSPEND, id); /* more than was spent: never below nothing */
    assert_int_equal(look(s, id, key_a, STR("acme"), false, &found), ERR_OK);
    assert_int_equal(found.uses, 0);
}

static void a_token_that_is_unknown_revoked_or_past_its_time_is_dead(void **state)
{
    struct scene *s = *state;
    struct id revoked = mint(s, (struct wish){.uses_max = 3}).id,
              expired = mint(s, (struct wish){.uses_max = 3, .ttl_ms = 500}).id;
    struct id unknown = slot_id(id_make(s->now_ms, &s->chance), SCENE_SLOT);
    do_token(s, CALL_REVOKE, revoked);
    assert_int_equal(spend(s, unknown), TOKEN_DEAD);
    assert_int_equal(spend(s, revoked), TOKEN_DEAD);
    s->now_ms += 499;
    assert_int_equal(spend(s, expired), TOKEN_SPENT);
    s->now_ms += 1;
    assert_int_equal(spend(s, expired), TOKEN_DEAD);
    do_token(s, CALL_UNSPEND, unknown);
}

static void spent_uses_come_back_with_the_decisions_record(void **state)
{
    struct scene *s = *state;
    struct id id = mint(s, (struct wish){.uses_max = 3}).id;
    char bytes[64];
    struct buf delta = buf_over(bytes, sizeof bytes);
    assert_int_equal(spend(s, id), TOKEN_SPENT);
    assert_int_equal(spend(s, id), TOKEN_SPENT);
    delta_put_spent(&delta, id, 2);
    scene_apply(s->twin, STR("{}"), buf_view(&delta));
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
}

/* ---- who may see and revoke it ---- */

static void
a_token_is_seen_by_the_key_that_minted_it_and_by_who_sees_all_of_its_tenant(void **state)
{
    struct scene *s = *state;
    struct token_facts found;
    struct id id = mint(s, (struct wish){0}).id;
    assert_int_equal(look(s, id, key_a, STR("acme"), false, &found), ERR_OK);
    assert_int_equal(look(s, id, key_b, STR("acme"), false, &found), ERR_NOT_FOUND);
    assert_int_equal(look(s, id, key_b, STR("acme"), true, &found), ERR_OK);
    assert_int_equal(look(s, id, key_a, STR("globex"), true, &found), ERR_NOT_FOUND);
    assert_int_equal(look(s, id, STR("key_nonsense"), STR("acme"), false, &found), ERR_NOT_FOUND);
}

static enum err revoke_by(struct scene *s, struct id id, struct str key, struct str tenant,
                          bool any)
{
    struct call *c = on_token(s, CALL_REVOKE, id);
    c->requester.key_id = key;
    c->tenant = tenant;
    c->requester.sees_all = any;
    scene_ask(s, c);
    return c->err;
}

static void others_may_not_revoke_it_and_other_tenants_do_not_find_it(void **state)
{
    struct scene *s = *state;
    struct id id = mint(s, (struct wish){.uses_max = 1}).id;
    assert_int_equal(revoke_by(s, id, key_b, STR("acme"), false), ERR_MISSING_ROLE);
    assert_int_equal(revoke_by(s, id, key_a, STR("globex"), false), ERR_NOT_FOUND);
    assert_int_equal(revoke_by(s, id, key_a, STR("globex"), true), ERR_NOT_FOUND);
    assert_int_equal(s->record_count, 1);
    assert_int_equal(s->notice_count, 0);
    assert_int_equal(spend(s, id), TOKEN_SPENT);
    assert_int_equal(revoke_by(s, id, key_b, STR("acme"), true), ERR_OK);
    do_token(s, CALL_UNSPEND, id);
    assert_int_equal(spend(s, id), TOKEN_DEAD);
}

static void revoking_records_tells_everybody_and_is_the_same_when_repeated(void **state)
{
    struct scene *s = *state;
    struct token_facts made = mint(s, (struct wish){.acting_for = STR("ann")});
    char text[ID_TEXT];
    s->now_ms += 1234;
    uint64_t at_ms = s->now_ms;
    struct call *c = do_token(s, CALL_REVOKE, made.id);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->token.facts.revoked_ms, at_ms);
    assert_last_kinds(s, "token.minted", "token.revoked");
    struct event e = scene_event(s, -1);
    id_write("tok_", made.id, text);
    assert_true(str_equal(e.token_id, str_of(text, ID_TEXT)));
    assert_text(e.tenant_id, "acme");
    assert_text(e.actor, "invoice_bot");
    assert_text(e.acting_for, "ann");
    assert_text(e.mode, "live");
    assert_true(str_equal(e.key_id, key_a));
    assert_text(e.resolved_by, "fleet");
    assert_true(str_equal(e.engine_version, STR(WRIT_VERSION)));
    assert_int_equal(e.timestamp, at_ms);
    assert_int_equal(s->notice_count, 1);
    assert_int_equal(s->notice.kind, NOTICE_TOKEN_REVOKED);
    assert_memory_equal(s->notice.token.bytes, made.id.bytes, ID_BYTES);
    assert_int_equal(s->notice.expires_ms, made.expires_ms);

    s->now_ms += 1000;
    c = do_token(s, CALL_REVOKE, made.id);
    assert_int_equal(c->err, ERR_OK);
    assert_int_equal(c->token.facts.revoked_ms, at_ms);
    assert_int_equal(s->record_count, 2);
    assert_int_equal(s->notice_count, 2); /* so that the answer waits until everybody knows, too */
    assert_true(s->effects.reveals_unsynced);
    assert_int_equal(s->effects.reveals_block, s->block);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
}

static void a_token_past_its_time_is_not_there_whether_or_not_a_tick_came(void **state)
{
    struct scene *s = *state;
    struct token_facts found;
    struct id id = mint(s, (struct wish){.ttl_ms = 1000}).id;
    s->now_ms += 1000;
    assert_int_equal(look(s, id, key_a, STR("acme"), true, &found), ERR_NOT_FOUND);
    assert_int_equal(revoke_by(s, id, key_a, STR("acme"), true), ERR_NOT_FOUND);
    scene_tick(s, 60000);
    assert_int_equal(look(s, id, key_a, STR("acme"), true, &found), ERR_NOT_FOUND);
    assert_int_equal(revoke_by(s, id, key_a, STR("acme"), true), ERR_NOT_FOUND);
    assert_int_equal(s->record_count, 1);
}

/* ---- lists ---- */

static struct call *list_call(struct scene *s, uint32_t limit, uint64_t after)
{
    struct call *c = scene_call(s, CALL_TOKEN_LIST, STR("root"));
    c->requester.sees_all = true;
    c->list.limit = limit;
    c->list.after = after;
    return c;
}

static void a_list_is_in_the_order_of_minting_and_pages_do_not_shift(void **state)
{
    struct scene *s = *state;
    uint64_t ordinals[10], after = 0, seen = 0;
    for (size_t i = 0; i < 10; i++) ordinals[i] = mint(s, (struct wish){0}).ordinal;
    mint(s, (struct wish){.tenant = STR("globex")});
    for (;;) {
        struct call *c = list_call(s, 3, after);
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OK);
        for (uint32_t i = 0; i < c->list.count; i++)
            assert_int_equal(c->list.tokens[i].ordinal, ordinals[seen++]);
        if (c->list.count < 3) break;
        after = c->list.tokens[2].ordinal;
        if (seen == 3) mint(s, (struct wish){.tenant = STR("globex")});
    }
    assert_int_equal(seen, 10);
}

static uint32_t listed(struct scene *s, struct call *c)
{
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    return c->list.count;
}

static void a_long_list_of_tokens_is_read_in_parts(void **state)
{
    struct scene *s = *state;
    struct id id = mint(s, (struct wish){0}).id;
    for (unsigned i = 0; i < 1500; i++) {
        do_token(s, CALL_REVOKE, id);
        id = mint(s, (struct wish){0}).id;
    }
    struct call *c = list_call(s, 10, 0);
    c->list.active_only = true;
    assert_int_equal(listed(s, c), 1);
    assert_true(s->steps >= 2);
    assert_true(id_equal(c->list.tokens[0].id, id));
}

static void filters_narrow_a_list(void **state)
{
    struct scene *s = *state;
    struct call *c;
    mint(s, (struct wish){.actor = STR("a"), .acting_for = STR("ann")});
    mint(s, (struct wish){.actor = STR("a"), .acting_for = STR("bob")});
    mint(s, (struct wish){.actor = STR("b"), .acting_for = STR("ann")});
    mint(s, (struct wish){.actor = STR("b"), .key = key_b});
    assert_int_equal(listed(s, list_call(s, 10, 0)), 4);
    c = list_call(s, 10, 0);
    c->list.actor = STR("a");
    assert_int_equal(listed(s, c), 2);
    c = list_call(s, 10, 0);
    c->list.acting_for = STR("ann");
    assert_int_equal(listed(s, c), 2);
    assert_text(c->list.tokens[1].actor, "b");
    c->list.actor = STR("b");
    assert_int_equal(listed(s, c), 1);
    c->list.actor = STR("c");
    assert_int_equal(listed(s, c), 0);
}

/* Whoever is told of a token waits until what made it so is safe. */
static void a_look_and_a_list_tell_of_the_newest_record_of_a_token(void **state)
{
    struct scene *s = *state;
    struct token_facts f;
    struct id first = mint(s, (struct wish){.actor = STR("a")}).id;
    mint(s, (struct wish){.actor = STR("b")});
    assert_int_equal(look(s, first, key_a, STR("acme"), false, &f), ERR_OK);
    assert_int_equal(s->effects.reveals_block, s->block - 1);
    assert_int_equal(listed(s, list_call(s, 10, 0)), 2);
    assert_int_equal(s->effects.reveals_block, s->block);
    do_token(s, CALL_REVOKE, first);
    assert_int_equal(look(s, first, key_a, STR("acme"), false, &f), ERR_OK);
    assert_int_equal(s->effects.reveals_block, s->block);
}

static void who_may_not_see_all_sees_what_its_own_key_minted(void **state)
{
    struct scene *s = *state;
    mint(s, (struct wish){.acting_for = STR("ann")});
    mint(s, (struct wish){.key = key_b, .actor = STR("mine")});
    struct call *c = list_call(s, 10, 0);
    c->requester.sees_all = false;
    c->requester.key_id = key_b;
    assert_int_equal(listed(s, c), 1);
    assert_text(c->list.tokens[0].actor, "mine");
    c = list_call(s, 10, 0);
    c->requester.sees_all = false;
    c->requester.key_id = STR("key_nonsense");
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_FOUND);
}

/* Lists pass tokens by on a digest of their key: two keys that share it still see each their own.
 */
static void a_key_with_the_digest_of_another_sees_none_of_its_tokens(void **state)
{
    struct scene *s = *state;
    char text[ID_TEXT];
    struct id twin = key_id(key_a);
    uint32_t digest = token_digest(twin, (struct str){0});
    do {
        for (unsigned i = ID_BYTES; i-- > 0 && ++twin.bytes[i] == 0;) continue;
    } while (token_digest(twin, (struct str){0}) != digest);
    id_write("key_", twin, text);
    mint(s, (struct wish){0});
    struct call *c = list_call(s, 10, 0);
    c->requester.sees_all = false;
    c->requester.key_id = str_of(text, ID_TEXT);
    assert_int_equal(listed(s, c), 0);
}

static void active_ones_are_neither_revoked_nor_spent_and_expired_ones_are_in_no_list(void **state)
{
    struct scene *s = *state;
    mint(s, (struct wish){.actor = STR("good")});
    struct id revoked = mint(s, (struct wish){0}).id,
              spent = mint(s, (struct wish){.uses_max = 1}).id,
              counted = mint(s, (struct wish){.uses_max = 2, .actor = STR("counted")}).id;
    mint(s, (struct wish){.ttl_ms = 1000, .retry_key = 4}); /* kept for its retry, and yet gone */
    do_token(s, CALL_REVOKE, revoked);
    spend(s, spent);
    spend(s, counted); /* one use is left */
    s->now_ms += 1000;
    struct call *c = list_call(s, 10, 0);
    assert_int_equal(listed(s, c), 4);
    c = list_call(s, 10, 0);
    c->list.active_only = true;
    assert_int_equal(listed(s, c), 2);
    assert_text(c->list.tokens[0].actor, "good");
    assert_text(c->list.tokens[1].actor, "counted");
}

/* ---- forgetting ---- */

static void ticks_drop_what_has_expired_and_nothing_else(void **state)
{
    struct scene *s = *state;
    struct shard_totals totals;
    uint64_t chance = 99, end_ms[400];
    size_t count = sizeof end_ms / sizeof *end_ms;
    uint64_t start_ms = s->now_ms;
    for (size_t i = 0; i < count; i++) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        uint64_t ttl_ms = 1000 + chance % (i % 2 == 0 ? 600000 : day_ms);
        end_ms[i] = start_ms + ttl_ms;
        mint(s, (struct wish){.ttl_ms = ttl_ms, .uses_max = i % 3 == 0 ? 5 : 0});
    }
    while (s->now_ms < start_ms + day_ms + 120000) {
        size_t here = 0, just = 0;
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        scene_tick(s, chance % 3000000);
        for (size_t i = 0; i < count; i++) {
            here += end_ms[i] > s->now_ms;
            just += end_ms[i] <= s->now_ms && end_ms[i] + 60000 > s->now_ms;
        }
        shard_totals(s->shard, &totals);
        assert_true(totals.tokens >= here && totals.tokens <= here + just);
        assert_true(totals.tokens == 0 ||
                    (s->next_ms > s->now_ms && s->next_ms <= s->now_ms + 60000));
        assert_int_equal(listed(s, list_call(s, 500, 0)), here);
    }
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.tokens, 0);
    assert_int_equal(totals.counted_tokens, 0);
    assert_int_equal(scene_compare(s->shard, s->twin), 0);
}

static void a_tick_after_years_of_silence_drops_all(void **state)
{
    struct scene *s = *state;
    mint(s, (struct wish){.ttl_ms = 1000});
    mint(s, (struct wish){.ttl_ms = day_ms, .retry_key = 3});
    scene_tick(s, 900 * day_ms);
    assert_int_equal(scene_compare(s->shard, s->twin), 0);
    mint(s, (struct wish){.ttl_ms = 1000});
    scene_tick(s, 61000);
    assert_int_equal(scene_compare(s->shard, s->twin), 0);
}

static void one_that_is_loaded_after_its_time_goes_with_the_next_tick(void **state)
{
    struct scene *s = *state;
    struct scene_saved saved;
    struct fault f;
    mint(s, (struct wish){.ttl_ms = 1000});
    scene_save(s->shard, &saved);
    scene_restart(s, &(struct shard_options){.count = 1});
    mint(s, (struct wish){.ttl_ms = day_ms});
    scene_tick(s, 10 * 60000);
    assert_int_equal(shard_load(s->shard, saved.entries[0], &f), ERR_OK);
    scene_tick(s, 60000);
    assert_int_equal(scene_compare(s->shard, s->twin), 1);
    scene_saved_drop(&saved);
}

static void a_table_that_has_dropped_all_holds_nothing_for_them(void **state)
{
    (void)state;
    static const struct retry retry = {.given = true};
    static struct token_table t;
    struct token *k;
    struct token_facts f = {
        .tenant = STR("acme"), .actor = STR("bot"), .issued_ms = 1000, .expires_ms = 2000};
    token_table_init(&t, 100);
    for (unsigned i = 0; i < 40; i++) {
        f.id.bytes[15] = (uint8_t)i;
        f.key.bytes[0] = (uint8_t)(i % 4);
        f.ordinal = 100 - i;
        assert_int_equal(token_add(&t, &f, i == 7 ? &retry : NULL, &k), ERR_OK);
    }
    assert_int_equal(t.ordinal_max, 100);
    assert_int_equal(t.minters.count, 4);
    assert_int_equal(t.retries.count, 1);
    while (token_table_prune(&t, 2 * day_ms, 7)) continue;
    assert_int_equal(t.count, 0);
    assert_int_equal(t.minters.count, 0);
    assert_int_equal(t.retries.count, 0);
    assert_int_equal(t.bytes, t.capacity * sizeof *t.places);
    assert_true(token_table_next_ms(&t) == UINT64_MAX);
    token_table_fini(&t);
    token_table_fini(&t);
}

static void no_tick_drops_more_than_it_was_told(void **state)
{
    (void)state;
    static struct token_table t;
    struct token *k;
    struct token_facts f = {
        .tenant = STR("acme"), .actor = STR("bot"), .issued_ms = 1000, .expires_ms = 2000};
    token_table_init(&t, 100);
    for (unsigned i = 0; i < 20; i++) {
        f.id.bytes[15] = (uint8_t)i;
        f.expires_ms = 2000 + i * 30000;
        assert_int_equal(token_add(&t, &f, NULL, &k), ERR_OK);
    }
    for (size_t left = 20; left > 0; left -= left < 7 ? left : 7) {
        assert_int_equal(t.count, left);
        assert_true(token_table_prune(&t, day_ms, 7));
    }
    assert_int_equal(t.count, 0);
    assert_false(token_table_prune(&t, day_ms, 7));
    token_table_fini(&t);
}

/* With strings of 24 bytes, the index and the order included. */
static void a_token_takes_at_most_264_bytes(void **state)
{
    struct scene *s = *state;
    struct shard_totals totals;
    struct wish w = {.actor = STR("abcdefghijklmnopqrstuvwx"),
                     .acting_for = STR("abcdefghijklmnopqrstuvwx"),
                     .scope = STR("abcdefghijklmnopqrstuvwx"),
                     .audience = STR("abcdefghijklmnopqrstuvwx"),
                     .tenant = STR("abcdefghijklmnopqrstuvwx")};
    /* Just after the index has grown it is at its largest for a token. */
    for (size_t i = 0; i < 3 * 1024 + 1; i++) mint(s, w);
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.tokens, 3 * 1024 + 1);
    assert_true(totals.token_bytes / totals.tokens <= 264);
    assert_true(totals.token_bytes / totals.tokens >= 96 + 100);
}

/* ---- the journal and snapshots ---- */

static void many_random_calls_leave_the_twin_equal(void **state)
{
    struct scene *s = *state;
    static struct id ids[600];
    size_t count = 0;
    uint64_t chance = 7;
    for (int step = 0; step < 2500; step++) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        struct id id = count > 0 ? ids[(chance >> 8) % count] : (struct id){0};
        switch (chance % 5) {
        case 0:
        case 1: {
            struct call *c =
                mint_call(s, (struct wish){.ttl_ms = 1 + (chance >> 20) % 400000,
                                           .uses_max = (uint32_t)(chance >> 30) % 3,
                                           .retry_key = (uint8_t)((chance >> 40) % 8 * 9),
                                           .retry_body = (chance >> 50) % 4 == 0,
                                           .key = chance >> 60 & 1 ? key_a : key_b});
            scene_ask(s, c);
            if (c->err == ERR_OK && !c->mint.replayed && count < 600)
                ids[count++] = c->mint.facts.id;
            break;
        }
        case 2:
            if (count > 0 && spend(s, id) == TOKEN_SPENT) {
                char bytes[64];
                struct buf delta = buf_over(bytes, sizeof bytes);
                delta_put_spent(&delta, id, 1);
                scene_apply(s->twin, STR("{}"), buf_view(&delta));
            }
            break;
        case 3: (void)revoke_by(s, id, key_a, STR("acme"), (chance >> 20) % 2 == 0); break;
        case 4: scene_tick(s, (chance >> 20) % 4000); break;
        }
    }
    assert_true(scene_compare(s->shard, s->twin) > 20);
}

static void what_is_saved_is_loaded_and_saved_the_same(void **state)
{
    struct scene *s = *state;
    struct scene_saved saved;
    struct fault f;
    struct token_facts found,
        retried =
            mint(s, (struct wish){
                        .retry_key = 9, .retry_body = 8, .acting_for = STR("ann"), .uses_max = 4});
    struct id revoked = mint(s, (struct wish){.key = key_b, .audience = STR("")}).id;
    do_token(s, CALL_REVOKE, mint(s, (struct wish){0}).id);
    (void)revoke_by(s, revoked, key_b, STR("acme"), false);
    spend(s, retried.id);
    retried.uses = 1;
    scene_save(s->shard, &saved);
    assert_int_equal(saved.count, 3);
    shard_destroy(s->twin);
    s->twin = shard_create(&(struct shard_options){.count = 1});
    for (size_t i = 0; i < saved.count; i++)
        assert_int_equal(shard_load(s->twin, saved.entries[i], &f), ERR_OK);
    assert_int_equal(scene_compare(s->shard, s->twin), 3);
    assert_int_equal(shard_ordinal_max(s->twin), s->ordinal);
    assert_int_equal(shard_load(s->twin, saved.entries[0], &f), ERR_CORRUPT);
    for (size_t i = 0; i < saved.count; i++)
        for (size_t size = 0; size < saved.entries[i].size; size++)
            assert_int_equal(shard_load(s->twin, str_of(saved.entries[i].bytes, size), &f),
                             ERR_CORRUPT);
    assert_int_equal(scene_compare(s->shard, s->twin), 3);

    struct shard *swapped = s->shard;
    s->shard = s->twin;
    s->twin = swapped;
    struct call *c = mint_call(s, (struct wish){.retry_key = 9, .retry_body = 8});
    scene_ask(s, c);
    assert_true(c->mint.replayed);
    assert_same_facts(&retried, &c->mint.facts);
    assert_int_equal(look(s, revoked, key_b, STR("acme"), false, &found), ERR_OK);
    assert_true(found.revoked_ms > 0);
    scene_saved_drop(&saved);
}

static void keep_notice(void *context, const struct effect_notice *n)
{
    struct scene *s = context;
    s->notice = *n;
    s->notice_count++;
}

static void after_recovery_the_revoked_ones_are_told_to_all(void **state)
{
    struct scene *s = *state;
    mint(s, (struct wish){0});
    struct token_facts dead = mint(s, (struct wish){0});
    do_token(s, CALL_REVOKE, dead.id);
    s->notice_count = 0;
    shard_notices(s->twin, keep_notice, s);
    assert_int_equal(s->notice_count, 1);
    assert_int_equal(s->notice.kind, NOTICE_TOKEN_REVOKED);
    assert_memory_equal(s->notice.token.bytes, dead.id.bytes, ID_BYTES);
    assert_int_equal(s->notice.expires_ms, dead.expires_ms);
}

static void closing_what_is_open_revokes_counted_tokens_alone(void **state)
{
    struct scene *s = *state;
    struct token_facts found;
    uint64_t tokens, reviews;
    struct id free_one = mint(s, (struct wish){0}).id,
              counted = mint(s, (struct wish){.uses_max = 3}).id;
    do_token(s, CALL_REVOKE, mint(s, (struct wish){.uses_max = 3}).id);
    s->now_ms += 10;
    shard_close_open(s->shard, s->now_ms, &tokens, &reviews);
    assert_int_equal(tokens, 1);
    assert_int_equal(spend(s, counted), TOKEN_DEAD);
    assert_int_equal(look(s, free_one, key_a, STR("acme"), false, &found), ERR_OK);
    assert_int_equal(found.revoked_ms, 0);
    assert_int_equal(look(s, counted, key_a, STR("acme"), false, &found), ERR_OK);
    assert_int_equal(found.revoked_ms, s->now_ms);
}

static enum err apply_one(struct shard *to, struct buf *delta)
{
    struct str rest = buf_view(delta);
    struct delta_entry e;
    struct fault f;
    enum err err;
    assert_true(delta_next(&rest, &e, &err));
    return shard_apply(to, &e, STR("{}"), &f);
}

static void records_that_contradict_the_state_are_damage_and_forgotten_tokens_are_not(void **state)
{
    struct scene *s = *state;
    char bytes[512];
    struct buf delta = buf_over(bytes, sizeof bytes);
    const struct retry none = {0};
    struct token_facts made = mint(s, (struct wish){.uses_max = 1});
    struct id unknown = slot_id(id_make(s->now_ms, &s->chance), SCENE_SLOT);
    delta_put_minted(&delta, &made, &none);
    assert_int_equal(apply_one(s->twin, &delta), ERR_CORRUPT); /* twice */
    buf_clear(&delta);
    delta_put_revoked(&delta, made.id, 0);
    assert_int_equal(apply_one(s->twin, &delta), ERR_CORRUPT); /* at no time */
    buf_clear(&delta);
    delta_put_spent(&delta, made.id, UINT32_MAX);
    assert_int_equal(apply_one(s->twin, &delta), ERR_OK);
    assert_int_equal(apply_one(s->twin, &delta), ERR_CORRUPT); /* more than can be counted */
    buf_clear(&delta);
    delta_put_spent(&delta, unknown, 1);
    assert_int_equal(apply_one(s->twin, &delta), ERR_OK);
    buf_clear(&delta);
    delta_put_revoked(&delta, unknown, 77);
    assert_int_equal(apply_one(s->twin, &delta), ERR_OK);
    bytes[1] = SCENE_SLOT + 1; /* an entry in another slot than its token's */
    assert_int_equal(apply_one(s->twin, &delta), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_minted_token_is_recorded_and_found_with_all_its_facts),
        scene_test(what_origin_spent_for_the_minting_is_in_its_record),
        scene_test(an_id_that_is_there_already_is_refused_and_recorded_nowhere),
        scene_test(a_full_shard_mints_nothing_until_a_token_has_expired),
        scene_test(what_is_recorded_is_taken_beyond_the_bound),
        scene_test(a_scope_too_large_for_a_record_is_refused_and_the_shard_lives),
        scene_test(an_event_too_large_for_a_record_mints_nothing),
        scene_test(the_same_key_and_body_get_the_same_token_and_no_second_record),
        scene_test(the_same_key_with_another_body_is_a_mismatch),
        scene_test(an_expired_token_is_still_what_its_retry_gets_for_a_day),
        scene_test(after_a_day_the_key_mints_anew_and_the_new_token_holds_it),
        scene_test(a_token_is_spent_as_often_as_it_may_be_and_not_once_more),
        scene_test(a_use_that_was_given_back_may_be_spent_again),
        scene_test(a_token_that_is_unknown_revoked_or_past_its_time_is_dead),
        scene_test(spent_uses_come_back_with_the_decisions_record),
        scene_test(a_token_is_seen_by_the_key_that_minted_it_and_by_who_sees_all_of_its_tenant),
        scene_test(others_may_not_revoke_it_and_other_tenants_do_not_find_it),
        scene_test(revoking_records_tells_everybody_and_is_the_same_when_repeated),
        scene_test(a_token_past_its_time_is_not_there_whether_or_not_a_tick_came),
        scene_test(a_list_is_in_the_order_of_minting_and_pages_do_not_shift),
        scene_test(a_long_list_of_tokens_is_read_in_parts),
        scene_test(filters_narrow_a_list),
        scene_test(a_look_and_a_list_tell_of_the_newest_record_of_a_token),
        scene_test(who_may_not_see_all_sees_what_its_own_key_minted),
        scene_test(a_key_with_the_digest_of_another_sees_none_of_its_tokens),
        scene_test(active_ones_are_neither_revoked_nor_spent_and_expired_ones_are_in_no_list),
        scene_test(ticks_drop_what_has_expired_and_nothing_else),
        scene_test(a_tick_after_years_of_silence_drops_all),
        scene_test(one_that_is_loaded_after_its_time_goes_with_the_next_tick),
        cmocka_unit_test(a_table_that_has_dropped_all_holds_nothing_for_them),
        cmocka_unit_test(no_tick_drops_more_than_it_was_told),
        scene_test(a_token_takes_at_most_264_bytes),
        scene_test(many_random_calls_leave_the_twin_equal),
        scene_test(what_is_saved_is_loaded_and_saved_the_same),
        scene_test(after_recovery_the_revoked_ones_are_told_to_all),
        scene_test(closing_what_is_open_revokes_counted_tokens_alone),
        scene_test(records_that_contradict_the_state_are_damage_and_forgotten_tokens_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
