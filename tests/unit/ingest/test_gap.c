/* Records that are given up: the stream goes on behind them, once, and somebody is named for it. */
#include "rig.h"

#include "store/gap.h"

static enum err give_up_by(struct rig *r, struct str key_id, uint64_t from_seq, uint64_t next_seq,
                           const char *epoch)
{
    const struct gap g = {.node = STR("node-1"),
                          .journal = STR("0"),
                          .epoch = str_from(epoch),
                          .from_seq = from_seq,
                          .next_seq = next_seq,
                          .reason = STR("the backup was too old")};
    const struct actor by = {.principal = STR("root"),
                             .key_id = key_id,
                             .request_id = STR("req_1"),
                             .now_ms = world_now_ms()};
    r->fault = (struct fault){0};
    return gap_accept(r->store, &g, &by, &r->fault);
}

static enum err give_up(struct rig *r, uint64_t from_seq, uint64_t next_seq, const char *epoch)
{
    return give_up_by(r, (struct str){0}, from_seq, next_seq, epoch);
}

static void begin(struct rig *r) /* seqs 1 to 4 are stored */
{
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
}

static void a_stream_goes_on_behind_what_is_given_up(void **state)
{
    struct rig *r = *state;
    begin(r);
    fill_batch(r, NULL, 50, 2);
    assert_int_equal(send(r, EPOCH_1, 9), ERR_STREAM_GAP);
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
    assert_int_equal(send(r, EPOCH_1, 9), ERR_OK);
    assert_result(r, 2, 0, 0, 11);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE seq BETWEEN 5 AND 8"), 0);
}

static void what_is_given_up_is_a_signed_note(void **state)
{
    struct rig *r = *state;
    const uint8_t secret[ED25519_KEY_BYTES] = {7};
    struct ed25519 *key = ed25519_from_secret(secret);
    begin(r);
    store_share_signer(r->store, key);
    assert_int_equal(give_up(r, 4, 9, EPOCH_1), ERR_PRECONDITION_FAILED);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM removals"), 0);
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM removals WHERE node = 'node-1' AND journal = '0' AND "
                      "from_seq = 5 AND end_seq = 8 AND note LIKE "
                      "'writ/node-1/0\ngap\n5 8\n____-__-__T__:__:__.___Z\n\n%'"),
        1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM removals"), 1);
    ed25519_destroy(key);
}

static void it_goes_on_in_another_epoch_too(void **state)
{
    struct rig *r = *state;
    begin(r);
    assert_int_equal(give_up(r, 5, 9, EPOCH_2), ERR_OK);
    fill_batch(r, NULL, 50, 2); /* somewhere within that epoch */
    assert_int_equal(send(r, EPOCH_1, 9), ERR_EPOCH_UNKNOWN);
    assert_int_equal(send(r, EPOCH_2, 9), ERR_OK);
    assert_result(r, 2, 0, 0, 11);
}

static void what_an_empty_store_never_saw_can_be_given_up(void **state)
{
    struct rig *r = *state;
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_PRECONDITION_FAILED); /* it waits for 1 */
    assert_int_equal(give_up(r, 1, 9, EPOCH_1), ERR_OK);
    fill_batch(r, NULL, 50, 2);
    assert_int_equal(send(r, EPOCH_1, 9), ERR_OK);
    assert_result(r, 2, 0, 0, 11);
}

static void who_gave_up_what_and_why_is_recorded(void **state)
{
    struct rig *r = *state;
    begin(r);
    rig_key(r, KEY_1, "");
    assert_int_equal(give_up_by(r, STR(KEY_1), 5, 9, EPOCH_1), ERR_OK);
    assert_int_equal(
        rig_number(
            r,
            "SELECT count(*) FROM records WHERE kind = 'audit.gap' AND tenant_id = '*' AND event LIKE "
            "'%\"actor\":\"root\",\"count\":4,%\"key_id\":\"" KEY_1
            "\",%\"reason\":\"records 5 to 8 of journal 0 "
            "are accepted as lost: the backup was too old\",\"request_id\":\"req_1\",\"resource\":"
            "{\"id\":\"node-1\",\"type\":\"stream\"}%'"),
        1);
}

/* Another platform may have revoked it while this waited for its turn. */
static void a_key_that_has_ended_gives_nothing_up(void **state)
{
    struct rig *r = *state;
    begin(r);
    rig_key(r, KEY_1, REVOKED);
    assert_int_equal(give_up_by(r, STR(KEY_1), 5, 9, EPOCH_1), ERR_CREDENTIAL_REVOKED);
    assert_int_equal(rig_number(r, "SELECT next_seq FROM streams"), 5);
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
}

static void only_what_is_waited_for_is_given_up_and_once(void **state)
{
    struct rig *r = *state;
    begin(r);
    const uint64_t wrong[] = {1, 4, 6, 9};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(give_up(r, wrong[i], 20, EPOCH_1), ERR_PRECONDITION_FAILED);
        assert_string_equal(r->fault.field, "/from_seq");
        assert_non_null(strstr(r->fault.text, "all records below 5"));
    }
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_PRECONDITION_FAILED);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'audit.gap'"), 1);
    assert_int_equal(rig_number(r, "SELECT next_seq FROM streams"), 9);
}

static void what_comes_after_all_is_put_aside(void **state)
{
    struct rig *r = *state;
    begin(r);
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
    fill_batch(r, NULL, 4, 5); /* seqs 5 to 9, of which one is due */
    assert_int_equal(send(r, EPOCH_1, 5), ERR_OK);
    assert_result(r, 1, 0, 4, 10);
    assert_int_equal(
        rig_number(
            r, "SELECT count(*) FROM quarantine WHERE reason = 'clash' AND seq BETWEEN 5 AND 8"),
        4);
}

static void where_it_cannot_be_recorded_nothing_moves(void **state)
{
    struct rig *r = *state;
    begin(r);
    rig_forbid(r, "INSERT", "records", "NEW.kind = 'audit.gap'");
    assert_int_not_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT next_seq FROM streams"), 5);
    rig_permit(r, "records");
    assert_int_equal(give_up(r, 5, 9, EPOCH_1), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stream_goes_on_behind_what_is_given_up),
        TEST(what_is_given_up_is_a_signed_note),
        TEST(it_goes_on_in_another_epoch_too),
        TEST(what_an_empty_store_never_saw_can_be_given_up),
        TEST(who_gave_up_what_and_why_is_recorded),
        TEST(a_key_that_has_ended_gives_nothing_up),
        TEST(only_what_is_waited_for_is_given_up_and_once),
        TEST(what_comes_after_all_is_put_aside),
        TEST(where_it_cannot_be_recorded_nothing_moves),
    };
    return rig_run(tests);
}
