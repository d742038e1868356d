/* test_retry.c - Idempotency-Keys of decisions: their holders, their outcomes, their bounds. */
#include "shard_scene.h"

#include "shards/retry_table.h"

enum { KEPT_MS = LIMIT_OUTCOME_SECONDS * 1000 };

static struct retry_outcome outcome_of(uint8_t key, uint8_t tenant, uint8_t asker)
{
    return (struct retry_outcome){.key.bytes = {0, SCENE_SLOT, key},
                                  .tenant.bytes = {tenant},
                                  .asker.bytes = {tenant, asker},
                                  .body.bytes = {key},
                                  .at_ms = scene_start_ms};
}

static struct call *retry_call(struct scene *s, enum call_kind kind, const struct retry_outcome *o)
{
    struct call *c = scene_call(s, kind, STR("asker"));
    c->slot = SCENE_SLOT;
    c->outcome.facts = *o;
    scene_ask(s, c);
    return c;
}

static void the_first_holds_a_key_and_the_others_get_its_outcome(void **state)
{
    struct scene *s = *state;
    struct retry_outcome o = outcome_of(1, 1, 1);
    struct call *first = retry_call(s, CALL_RETRY_BEGIN, &o);
    assert_true(first->answered && first->outcome.is_held);
    struct call *second = retry_call(s, CALL_RETRY_BEGIN, &o),
                *third = retry_call(s, CALL_RETRY_BEGIN, &o);
    assert_false(second->answered || third->answered);
    o.body.bytes[1] = 9;
    assert_int_equal(retry_call(s, CALL_RETRY_BEGIN, &o)->err, ERR_IDEMPOTENCY_MISMATCH);

    o = outcome_of(1, 1, 1);
    o.verdict = 1;
    o.record = STR("{}");
    assert_int_equal(retry_call(s, CALL_RETRY_KEEP, &o)->err, ERR_OK);
    struct call *const all[] = {second, third, retry_call(s, CALL_RETRY_BEGIN, &o)};
    for (size_t i = 0; i < 3; i++) {
        assert_true(all[i]->answered && !all[i]->outcome.is_held && all[i]->err == ERR_OK);
        assert_int_equal(all[i]->outcome.facts.verdict, 1);
        assert_true(str_equal(all[i]->outcome.facts.record, STR("{}")));
    }
}

static void a_dropped_key_goes_to_one_that_waits(void **state)
{
    struct scene *s = *state;
    const struct retry_outcome o = outcome_of(1, 1, 1);
    assert_true(retry_call(s, CALL_RETRY_BEGIN, &o)->outcome.is_held);
    struct call *second = retry_call(s, CALL_RETRY_BEGIN, &o);
    assert_false(second->answered);
    (void)retry_call(s, CALL_RETRY_DROP, &o);
    assert_true(second->answered && second->outcome.is_held);
    (void)retry_call(s, CALL_RETRY_DROP, &o);
    assert_true(retry_call(s, CALL_RETRY_BEGIN, &o)->outcome.is_held);
    for (unsigned i = 0; i < LIMIT_WAITERS_PER_OUTCOME; i++)
        assert_false(retry_call(s, CALL_RETRY_BEGIN, &o)->answered);
    assert_int_equal(retry_call(s, CALL_RETRY_BEGIN, &o)->err, ERR_OVERLOADED);
}

static enum err take(struct retry_table *t, const struct retry_outcome *o)
{
    struct retry_entry *r;
    struct quota quota;
    enum err err = retry_ask(t, o, o->at_ms, &quota);
    if (err == ERR_OK) err = retry_take(t, o, o->at_ms, &r);
    if (err == ERR_OK) retry_keep(t, r, o);
    return err;
}

static void keys_are_bounded_in_all_and_by_tenant_and_asker_and_bytes(void **state)
{
    (void)state;
    struct retry_table t;
    retry_table_init(&t, 8, 100);
    static const struct {
        uint8_t key, tenant, asker;
        enum err err;
    } rows[] = {{20, 2, 1, ERR_OK},          {21, 1, 2, ERR_OK},       {1, 1, 1, ERR_OK},
                {2, 1, 1, ERR_OK},           {3, 1, 1, ERR_QUOTA_KEY}, {5, 1, 2, ERR_OK},
                {6, 1, 3, ERR_QUOTA_TENANT}, {8, 2, 1, ERR_OK},        {9, 3, 1, ERR_OK},
                {10, 3, 2, ERR_OK},          {11, 4, 1, ERR_FULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct retry_outcome o = outcome_of(rows[i].key, rows[i].tenant, rows[i].asker);
        assert_int_equal(take(&t, &o), rows[i].err);
    }
    assert_false(retry_table_prune(&t, scene_start_ms + KEPT_MS - 1, SIZE_MAX));
    assert_true(retry_table_prune(&t, scene_start_ms + KEPT_MS, SIZE_MAX));
    assert_int_equal(t.by_key.count + t.shares.all.count + t.shares.keys.count, 0);

    static const char record[100];
    struct retry_outcome o = outcome_of(1, 1, 1);
    o.record = str_of(record, sizeof record);
    assert_int_equal(take(&t, &o), ERR_OK);
    o = outcome_of(2, 1, 1);
    o.record = str_of(record, 1);
    assert_int_equal(take(&t, &o), ERR_QUOTA_KEY);
    o = outcome_of(2, 2, 1);
    assert_int_equal(take(&t, &o), ERR_OK);
    retry_table_fini(&t);
}

static void put_kept(struct buf *out, struct retry_outcome o)
{
    buf_clear(out);
    o.has_record = o.verdict != 3;
    delta_put_kept(out, &o);
}

static void an_outcome_is_the_same_after_replay_and_after_a_snapshot(void **state)
{
    struct scene *s = *state;
    char bytes[512];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct retry_outcome allowed = outcome_of(1, 1, 1), asks = outcome_of(2, 1, 1);
    allowed.verdict = 3;
    asks.verdict = 1;
    put_kept(&out, allowed);
    scene_apply(s->shard, STR("{\"n\":1}"), buf_view(&out));
    put_kept(&out, asks);
    scene_apply(s->shard, STR("{\"n\":2}"), buf_view(&out));

    const struct shard_options options = {.count = 1};
    struct shard *other = shard_create(&options);
    struct scene_saved saved;
    struct fault f;
    scene_save(s->shard, &saved);
    assert_int_equal(saved.count, 2);
    for (size_t i = 0; i < saved.count; i++)
        assert_int_equal(shard_load(other, saved.entries[i], &f), ERR_OK);
    assert_int_equal(scene_compare(s->shard, other), 2);
    shard_destroy(other);
    scene_saved_drop(&saved);

    struct call *c = retry_call(s, CALL_RETRY_BEGIN, &asks);
    assert_true(str_equal(c->outcome.facts.record, STR("{\"n\":2}")));
    c = retry_call(s, CALL_RETRY_BEGIN, &allowed);
    assert_true(c->outcome.facts.verdict == 3 && c->outcome.facts.record.size == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(the_first_holds_a_key_and_the_others_get_its_outcome),
        scene_test(a_dropped_key_goes_to_one_that_waits),
        cmocka_unit_test(keys_are_bounded_in_all_and_by_tenant_and_asker_and_bytes),
        scene_test(an_outcome_is_the_same_after_replay_and_after_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
