/* test_signer.c - signing keys are rotated, on request and in time, and end; a recovery has them. */
#include "shard_scene.h"

enum { MINUTE = 60000, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

static struct signer_rotation rotate(struct scene *s, bool at_once)
{
    struct call *c = scene_call(s, CALL_ROTATE, STR("root"));
    c->slot = SIGNER_SLOT;
    c->rotate.at_once = at_once;
    chance_take(&s->chance, c->rotate.salt, sizeof c->rotate.salt);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    return c->rotate.made;
}

/* As the shard has it, and a recovery. */
static const struct signer_table *table(struct scene *s)
{
    scene_compare(s->shard, s->twin);
    const struct signer_table *t = shard_signers(s->shard);
    assert_int_equal(shard_signers(s->twin)->least, t->least);
    return t;
}

static void a_rotation_signs_after_ten_minutes_and_ends_nothing(void **state)
{
    struct scene *s = *state;
    struct signer_rotation first = rotate(s, true), second = rotate(s, false);
    assert_int_equal(first.active_ms, s->now_ms);
    assert_int_equal(second.active_ms, s->now_ms + 10 * MINUTE);
    assert_true(second.number > first.number);
    assert_memory_not_equal(first.salt, second.salt, sizeof first.salt);
    assert_int_equal(table(s)->count, 2);
    assert_int_equal(table(s)->least, first.number);
    assert_string_equal(s->records[s->record_count - 1].kind, "signer.rotated");
}

static void one_that_is_made_at_once_ends_all_before_it(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < 3; i++) rotate(s, false);
    struct signer_rotation last = rotate(s, true);
    assert_int_equal(table(s)->count, 1);
    assert_int_equal(table(s)->least, last.number);
    assert_int_equal(table(s)->list[0].active_ms, s->now_ms);
}

static void a_replaced_one_is_kept_until_none_of_its_tokens_can_live(void **state)
{
    struct scene *s = *state;
    rotate(s, true);
    struct signer_rotation second = rotate(s, false);
    uint64_t over_ms = second.active_ms + SIGNER_OVERLAP_MS;
    scene_tick(s, over_ms - 1 - s->now_ms);
    rotate(s, false);
    assert_int_equal(table(s)->count, 3);
    scene_tick(s, 1);
    rotate(s, false);
    assert_int_equal(table(s)->count, 3); /* the first has gone */
    assert_int_equal(table(s)->list[0].number, second.number);
}

static void so_many_may_verify_and_then_they_can_only_be_ended(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < SIGNER_ROTATIONS_MAX; i++) rotate(s, false);
    struct call *c = scene_call(s, CALL_ROTATE, STR("root"));
    c->slot = SIGNER_SLOT;
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OVERLOADED);
    assert_int_equal(table(s)->count, SIGNER_ROTATIONS_MAX);
    rotate(s, true);
    assert_int_equal(table(s)->count, 1);
}

static void the_next_one_is_made_in_time_and_told_before_it_signs(void **state)
{
    struct scene *s = *state;
    scene_restart(s, &(struct shard_options){.count = 1, .rotate_ms = 30ull * DAY});
    assert_int_equal(scene_tick(s, 100ull * DAY), 0); /* none is due before there is a first */
    struct signer_rotation first = rotate(s, true);
    assert_int_equal(scene_tick(s, 0), 0);
    uint64_t due_ms = first.active_ms + 30ull * DAY - 10 * MINUTE;
    assert_true(s->next_ms <= due_ms);
    assert_int_equal(scene_tick(s, due_ms - 1 - s->now_ms), 0);
    assert_int_equal(scene_tick(s, 1), 1);
    assert_int_equal(s->notice.kind, NOTICE_SIGNER_ROTATED);
    assert_int_equal(table(s)->count, 2);
    assert_int_equal(table(s)->list[1].active_ms, first.active_ms + 30ull * DAY);
    assert_false(table(s)->list[1].ends_older);
    assert_int_equal(scene_tick(s, 1), 0);
}

static void only_the_owner_of_slot_0_has_them(void **state)
{
    struct scene *s = *state;
    scene_restart(s, &(struct shard_options){.index = 1, .count = 2, .rotate_ms = DAY});
    assert_null(shard_signers(s->shard));
    assert_int_equal(scene_tick(s, 2 * DAY), 0);
}

static void a_damaged_rotation_is_refused(void **state)
{
    struct scene *s = *state;
    struct signer_rotation r = rotate(s, true);
    char bytes[256];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct delta_entry e;
    struct fault f;
    enum err err;
    delta_put_rotated(&out, &r); /* once more: its number does not rise */
    struct str rest = buf_view(&out);
    assert_true(delta_next(&rest, &e, &err));
    assert_int_equal(shard_apply(s->shard, &e, (struct str){0}, &f), ERR_CORRUPT);
    e.slot = SIGNER_SLOT + 1;
    assert_int_equal(shard_apply(s->shard, &e, (struct str){0}, &f), ERR_CORRUPT);
}

static enum err load_twice(void *context, struct str entry)
{
    struct fault f;
    assert_int_equal(shard_load(context, entry, &f), ERR_OK);
    assert_int_equal(shard_load(context, entry, &f), ERR_CORRUPT);
    struct shard *another = shard_create(&(struct shard_options){.count = 1});
    assert_int_equal(shard_load(another, str_of(entry.bytes, entry.size - 1), &f), ERR_CORRUPT);
    shard_destroy(another);
    return ERR_OK;
}

static void a_snapshot_has_them_with_what_was_ended(void **state)
{
    struct scene *s = *state;
    rotate(s, true);
    scene_tick(s, HOUR);
    struct signer_rotation ended = rotate(s, true);
    rotate(s, false);
    struct shard *loaded = shard_create(&(struct shard_options){.count = 1});
    assert_int_equal(shard_save(s->shard, load_twice, loaded), ERR_OK);
    assert_int_equal(shard_signers(loaded)->count, 2);
    assert_int_equal(shard_signers(loaded)->least, ended.number);
    scene_compare(s->shard, loaded);
    shard_destroy(loaded);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_rotation_signs_after_ten_minutes_and_ends_nothing),
        TEST(one_that_is_made_at_once_ends_all_before_it),
        TEST(a_replaced_one_is_kept_until_none_of_its_tokens_can_live),
        TEST(so_many_may_verify_and_then_they_can_only_be_ended),
        TEST(the_next_one_is_made_in_time_and_told_before_it_signs),
        TEST(only_the_owner_of_slot_0_has_them),
        TEST(a_damaged_rotation_is_refused),
        TEST(a_snapshot_has_them_with_what_was_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
