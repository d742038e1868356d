/* The way of records from a reactor to a fleet's log, and of other leaders' entries back. */
#include "engine/fleet/fleet_lane.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>

static int begin(void **state)
{
    struct fleet_lane *l = calloc(1, sizeof *l);
    fleet_lane_init(l, 7);
    *state = l;
    return 0;
}

static int end(void **state)
{
    fleet_lane_fini(*state);
    free(*state);
    return 0;
}

static uint64_t put(struct fleet_lane *l, size_t bytes)
{
    static char text[LIMIT_RESERVE_BYTES];
    const struct effect_record record = {.event = str_of(text, bytes), .delta = STR("d")};
    return fleet_lane_put(l, &record, 1);
}

static void a_turn_without_state_passes_no_block(void **state)
{
    assert_false(fleet_lane_seal(*state));
    assert_false(fleet_lane_waits(*state));
}

static void a_read_waits_for_a_block_without_records(void **state)
{
    assert_int_equal(fleet_lane_want(*state), 1);
    assert_true(fleet_lane_seal(*state));
    struct fleet_block *b = fleet_lane_take(*state, 0);
    assert_non_null(b);
    assert_int_equal(b->number, 1);
    assert_int_equal(b->records, 0);
    fleet_block_free(b);
    assert_int_equal(fleet_lane_want(*state), 2);
}

static void records_of_a_turn_are_one_block(void **state)
{
    assert_int_equal(put(*state, 10), 1);
    assert_int_equal(put(*state, 20), 1);
    assert_true(fleet_lane_seal(*state));
    struct fleet_block *b = fleet_lane_take(*state, FLEET_BLOCK_BYTES);
    struct str rest = buf_view(&b->bytes), event, delta;
    assert_true(entry_next_record(&rest, &event, &delta));
    assert_int_equal(event.size, 10);
    assert_true(entry_next_record(&rest, &event, &delta));
    assert_int_equal(event.size, 20);
    assert_int_equal(b->records, 2);
    fleet_block_free(b);
}

static void a_block_fits_in_an_entry(void **state)
{
    const size_t large = 100 << 10;
    assert_int_equal(put(*state, large), 1);
    assert_int_equal(put(*state, large), 1);
    assert_int_equal(put(*state, large), 2); /* the third would not fit */
    assert_true(fleet_lane_seal(*state));
    assert_null(fleet_lane_take(*state, large)); /* whole or not at all */
    for (uint64_t number = 1; number <= 2; number++) {
        struct fleet_block *b = fleet_lane_take(*state, FLEET_BLOCK_BYTES);
        assert_int_equal(b->number, number);
        fleet_block_free(b);
    }
    assert_null(fleet_lane_take(*state, FLEET_BLOCK_BYTES));
}

static void what_closes_something_has_room_longer(void **state)
{
    const size_t large = 150 << 10;
    for (size_t bytes = 0; bytes < FLEET_LANE_BYTES; bytes += large) {
        assert_int_equal(fleet_lane_room(*state, false), ERR_OK);
        (void)put(*state, large);
        (void)fleet_lane_seal(*state);
    }
    assert_int_equal(fleet_lane_room(*state, false), ERR_FULL);
    assert_int_equal(fleet_lane_room(*state, true), ERR_OK);
    fleet_block_free(fleet_lane_take(*state, FLEET_BLOCK_BYTES));
    fleet_block_free(fleet_lane_take(*state, FLEET_BLOCK_BYTES));
    assert_int_equal(fleet_lane_room(*state, false), ERR_OK);
}

static void each_lane_gets_each_batch_in_order(void **state)
{
    (void)state;
    struct fleet_lane lanes[3];
    for (int i = 0; i < 3; i++) fleet_lane_init(&lanes[i], 0);
    fleet_lanes_hand(lanes, 3, STR("first"), 1);
    fleet_lanes_hand(lanes, 3, STR("second"), 5);
    for (int i = 0; i < 2; i++) { /* the third lane's are freed at its end */
        struct fleet_batch *b = fleet_lane_batch(&lanes[i]);
        assert_memory_equal(b->bytes, "first", 5);
        fleet_lane_applied(&lanes[i], b);
        assert_int_equal(lanes[i].applied, 1);
        b = fleet_lane_batch(&lanes[i]);
        assert_memory_equal(b->bytes, "second", 6);
        fleet_lane_applied(&lanes[i], b);
        assert_int_equal(lanes[i].applied, 5);
        assert_null(fleet_lane_batch(&lanes[i]));
    }
    for (int i = 0; i < 3; i++) fleet_lane_fini(&lanes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_turn_without_state_passes_no_block, begin, end),
        cmocka_unit_test_setup_teardown(a_read_waits_for_a_block_without_records, begin, end),
        cmocka_unit_test_setup_teardown(records_of_a_turn_are_one_block, begin, end),
        cmocka_unit_test_setup_teardown(a_block_fits_in_an_entry, begin, end),
        cmocka_unit_test_setup_teardown(what_closes_something_has_room_longer, begin, end),
        cmocka_unit_test(each_lane_gets_each_batch_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
