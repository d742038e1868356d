/* Whoever asks for a change has a key that holds when its turn comes, whenever it was asked for. */
#include "rig.h"

#include "base/time.h"
#include "store/key_store.h"
#include "store/store_inside.h"

static enum err begin(struct rig *r, struct str key_id)
{
    enum err err = key_store_begin(r->store, key_id, &r->fault);
    if (err == ERR_OK) assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    return err;
}

/* A row that ends then. */
static void key_until(const struct rig *r, const char *id, uint64_t expires_at)
{
    char end[64], time[TIME_TEXT];
    time_write(expires_at, time);
    snprintf(end, sizeof end, ",\"expires_at\":\"%.*s\"", TIME_TEXT, time);
    rig_key(r, id, end);
}

static void a_key_begins_a_change_as_long_as_it_holds(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    key_until(r, KEY_2, world_now_ms() + 3600000);
    assert_int_equal(begin(r, STR(KEY_1)), ERR_OK);
    assert_int_equal(begin(r, STR(KEY_2)), ERR_OK);
    assert_int_equal(begin(r, (struct str){0}), ERR_OK); /* nobody's */
}

static void a_key_that_was_revoked_or_is_gone_begins_none(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, REVOKED);
    assert_int_equal(begin(r, STR(KEY_1)), ERR_CREDENTIAL_REVOKED);
    assert_int_equal(begin(r, STR(KEY_2)), ERR_CREDENTIAL_REVOKED);
    assert_int_equal(begin(r, (struct str){0}), ERR_OK); /* the lock was given back */
}

/* It held when the change was asked for, five seconds before its end; that was ten seconds ago. */
static void a_key_that_expired_while_its_change_waited_makes_none(void **state)
{
    struct rig *r = *state;
    const uint64_t now_ms = world_now_ms();
    const struct actor by = {
        .principal = STR("root"), .key_id = STR(KEY_1), .now_ms = now_ms - 10000};
    struct key_result result;
    struct id id;
    bool changed = false;
    key_until(r, KEY_1, now_ms - 5000);
    rig_key(r, KEY_2, "");
    assert_true(id_read("key_", STR(KEY_2), &id));
    assert_int_equal(key_store_revoke(r->store, STR("*"), id, &by, &changed, &result, &r->fault),
                     ERR_CREDENTIAL_EXPIRED);
    assert_false(changed);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM keys WHERE revoked_at IS NULL"), 2);
}

/* A successor ends when it does, and so would have ended before it was made. */
static void a_key_that_expired_while_its_rotation_waited_has_no_successor(void **state)
{
    struct rig *r = *state;
    const uint64_t now_ms = world_now_ms();
    const struct actor by = {
        .principal = STR("root"), .key_id = STR(KEY_1), .now_ms = now_ms - 10000};
    const struct pepper pepper = {0};
    struct key_rotation wanted = {.everywhere = true, .overlap_ms = 3600000};
    struct key_result result;
    rig_key(r, KEY_1, "");
    key_until(r, KEY_2, now_ms - 5000);
    rig_adopt(r);
    assert_true(id_read("key_", STR(KEY_2), &wanted.id));
    assert_int_equal(key_store_rotate(r->store, &pepper, &wanted, &by, &r->out, &result, &r->fault),
                     ERR_KEY_ENDED);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM keys"), 2);
}

static uint64_t time_of(const struct json *row, const char *name)
{
    uint64_t ms;
    assert_true(time_read(json_text(row, str_from(name)), &ms));
    return ms;
}

/* An overlap that is shorter than the wait would be over before anybody is told of the new key. */
static void what_waited_for_its_turn_counts_from_then(void **state)
{
    struct rig *r = *state;
    const uint64_t now_ms = world_now_ms();
    const struct actor by = {.principal = STR("root"), .now_ms = now_ms - 10000};
    const struct pepper pepper = {0};
    struct key_rotation wanted = {.everywhere = true, .overlap_ms = 1000};
    struct key_result result;
    struct arena arena;
    struct json *row;
    arena_init(&arena, 1 << 12, 1 << 20);
    rig_key(r, KEY_1, "");
    rig_adopt(r);
    assert_true(id_read("key_", STR(KEY_1), &wanted.id));
    assert_int_equal(key_store_rotate(r->store, &pepper, &wanted, &by, &r->out, &result, &r->fault),
                     ERR_OK);
    assert_int_equal(json_read(buf_view(&r->out), NULL, &arena, &row, &r->fault), ERR_OK);
    assert_true(time_of(json_get(row, STR("replaces")), "expires_at") >= now_ms + 1000);
    assert_true(time_of(row, "created_at") >= now_ms);

    struct key *draft;
    assert_int_equal(key_read(row, &draft, &r->fault), ERR_OK);
    buf_clear(&r->out);
    assert_int_equal(key_store_create(r->store, &pepper, draft, &by, &r->out, &result, &r->fault),
                     ERR_OK);
    key_destroy(draft);
    assert_int_equal(json_read(buf_view(&r->out), NULL, &arena, &row, &r->fault), ERR_OK);
    assert_true(time_of(row, "created_at") >= now_ms);
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_begins_a_change_as_long_as_it_holds),
        TEST(a_key_that_was_revoked_or_is_gone_begins_none),
        TEST(a_key_that_expired_while_its_change_waited_makes_none),
        TEST(a_key_that_expired_while_its_rotation_waited_has_no_successor),
        TEST(what_waited_for_its_turn_counts_from_then),
    };
    return rig_run(tests);
}
