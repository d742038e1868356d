/* test_format.c - a person raises the format of a fleet's log. The program knows a second one here. */
#include <stdlib.h>

#include "support.h"

struct log {
    struct fleet fleet;
    char bytes[8][1024];
    struct str entries[8];
    unsigned size;
};

static const uint64_t now_ms = 5000, wall_ms = 1795166400000;

static struct buf room(struct log *l)
{
    assert_true(l->size < 8);
    return buf_over(l->bytes[l->size], sizeof l->bytes[0]);
}

/* Acknowledged, and read back. Returns the format of the entry. */
static uint16_t put(struct log *l, enum entry_kind kind, struct str bytes)
{
    struct entry e;
    l->entries[l->size] = bytes;
    fleet_appended(&l->fleet, kind, true);
    assert_int_equal(entry_read(bytes, &l->fleet.options.key, l->fleet.hasher, &e), ENTRY_GOOD);
    assert_int_equal(fleet_read(&l->fleet, &e, l->size++, wall_ms, now_ms, 0), LOG_COUNTED);
    fleet_applied(&l->fleet, 0, l->size);
    return e.format;
}

static uint16_t turn(struct log *l, enum fleet_send wanted)
{
    struct buf out = room(l);
    struct fleet_turn t = {.now_ms = now_ms, .wall_ms = wall_ms, .nonce = l->size, .works = true};
    assert_int_equal(fleet_turn(&l->fleet, &t, &out), wanted);
    return put(l, wanted == FLEET_TERM ? ENTRY_TERM : ENTRY_HEARTBEAT, buf_view(&out));
}

static uint16_t seal(struct log *l)
{
    struct buf out = room(l);
    assert_int_equal(fleet_seal(&l->fleet, STR(""), 1, wall_ms, &out), ERR_OK);
    return put(l, ENTRY_RECORDS, buf_view(&out));
}

static void the_leaders_next_records_raise_the_format_for_all_entries(void **state)
{
    (void)state;
    struct log l = {.size = 0};
    const struct fleet_options o = {
        .key = entry_key_derive(STR("pepper"), 1, STR("main"), (struct fleet_id){{1}}),
        .node = STR("node-1"),
        .incarnation = incarnation_of(1),
        .reactors = 1};
    fleet_init(&l.fleet, &o, NULL, now_ms);
    fleet_stand(&l.fleet, now_ms);
    assert_int_equal(turn(&l, FLEET_TERM), 1);
    assert_int_equal(seal(&l), 1);
    assert_true(fleet_raise_format(&l.fleet));
    assert_int_equal(turn(&l, FLEET_HEARTBEAT), 1); /* it is not in force before records show it */
    assert_int_equal(seal(&l), 2);
    assert_int_equal(l.fleet.replay.format, 2);
    fleet_hurry(&l.fleet);
    assert_int_equal(turn(&l, FLEET_HEARTBEAT), 2);
    assert_int_equal(seal(&l), 2);
    assert_false(fleet_raise_format(&l.fleet)); /* it knows no third one */
    fleet_fini(&l.fleet);
}

static void an_entry_of_an_older_format_does_not_lower_it(void **state)
{
    (void)state;
    struct log_replay r;
    struct entry e = term_of(1, 1);
    log_replay_begin(&r, NULL);
    e.format = 2;
    assert_int_equal(log_replay_step(&r, &e, 0), LOG_COUNTED);
    e = term_of(2, 2); /* it was sent before its sender had read the other */
    e.format = 1;
    assert_int_equal(log_replay_step(&r, &e, 1), LOG_COUNTED);
    assert_int_equal(r.format, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leaders_next_records_raise_the_format_for_all_entries),
        cmocka_unit_test(an_entry_of_an_older_format_does_not_lower_it),
    };
    if (setenv("WRIT_BUG", "newer_format", 1) != 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
