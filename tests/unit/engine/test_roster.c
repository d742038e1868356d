/* test_roster.c - the rows of a fleet's engines: what is shown of one that is lost, and for how long. */
#include "engine/fleet/roster.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

enum { LEASE_MS = 30000 };

static struct roster r; /* zeros before each test */

static int begin(void **state)
{
    (void)state;
    r = (struct roster){.count = 0};
    return 0;
}

static void beat(const char *node, uint64_t append_ms, bool closed)
{
    const struct entry e = {
        .kind = ENTRY_HEARTBEAT,
        .node = str_from(node),
        .address = STR("http://x"),
        .heartbeat = {.version = STR("1"), .lease_ms = LEASE_MS, .closed = closed}};
    roster_read(&r, &e, append_ms);
}

static bool counts(const char *node) { return roster_counts(&r, roster_find(&r, str_from(node))); }

static void a_lost_engine_is_waited_for_as_long_as_its_lease(void **state)
{
    (void)state;
    beat("lost", 1000, false);
    beat("here", 1000 + LEASE_MS, false);
    assert_int_equal(roster_state(&r, roster_find(&r, STR("lost"))), ROSTER_SILENT);
    assert_true(counts("lost") && counts("here"));
    beat("here", 1001 + LEASE_MS, false);
    assert_false(counts("lost"));
    assert_true(counts("here"));
    assert_int_equal(roster_silent(&r), 1); /* people still see it */
}

static void one_that_is_closed_counts_as_long_as_it_is_there(void **state)
{
    (void)state;
    beat("starts", 1000, true);
    assert_true(counts("starts"));
    beat("here", 1001 + ROSTER_SILENT_MS, false);
    assert_int_equal(roster_state(&r, roster_find(&r, STR("starts"))), ROSTER_LEFT);
    assert_false(counts("starts"));
}

static void a_lost_engine_vanishes_by_itself(void **state)
{
    (void)state;
    beat("lost", 1000, false);
    beat("here", 1000 + ROSTER_FORGET_MS, false);
    assert_non_null(roster_find(&r, STR("lost")));
    beat("here", 1001 + ROSTER_FORGET_MS, false);
    assert_null(roster_find(&r, STR("lost")));
    assert_int_equal(r.count, 1);
    assert_int_equal(roster_silent(&r), 0);
    beat("lost", 1002 + ROSTER_FORGET_MS, false); /* and may come back */
    assert_int_equal(roster_present(&r), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lost_engine_is_waited_for_as_long_as_its_lease, begin),
        cmocka_unit_test_setup(one_that_is_closed_counts_as_long_as_it_is_there, begin),
        cmocka_unit_test_setup(a_lost_engine_vanishes_by_itself, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
