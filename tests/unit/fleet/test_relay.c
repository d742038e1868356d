/* test_relay.c - requests that are passed on to the leader. */
#include "fleet/relay.h"
#include "support.h"

static void a_request_passes_one_relay(void **state)
{
    (void)state;
    struct relays r = {0};
    struct relay one = {.id = 1, .term = 3};
    assert_int_equal(relay_begin(&r, &one, true), ERR_BAD_HEADER);
    assert_int_equal(r.count, 0);
    assert_true(relay_is_served(3, 3));
    assert_false(relay_is_served(3, 4)); /* another term than it was meant for */
    assert_false(relay_is_served(3, 0)); /* no leader */
}

static void a_higher_term_ends_the_relays_to_the_older_leader(void **state)
{
    (void)state;
    struct relays r = {0};
    struct relay old_read = {.id = 1, .term = 3, .is_read = true}, old = {.id = 2, .term = 3},
                 fresh = {.id = 3, .term = 4}, ended;
    assert_int_equal(relay_begin(&r, &old_read, false), ERR_OK);
    assert_int_equal(relay_begin(&r, &old, false), ERR_OK);
    assert_int_equal(relay_begin(&r, &fresh, false), ERR_OK);
    unsigned reads = 0, count = 0;
    for (; relay_take_older(&r, 4, &ended); count++) reads += ended.is_read;
    assert_int_equal(count, 2);
    assert_int_equal(reads, 1);
    assert_false(relay_end(&r, 1)); /* a late answer is not waited for */
    assert_true(relay_end(&r, 3));
    assert_false(relay_end(&r, 3));
}

static void relays_have_a_bound(void **state)
{
    (void)state;
    struct relays r = {0};
    for (uint64_t i = 1; i <= RELAYS_MAX; i++) {
        struct relay one = {.id = i, .term = 1};
        assert_int_equal(relay_begin(&r, &one, false), ERR_OK);
    }
    struct relay more = {.id = RELAYS_MAX + 1, .term = 1};
    assert_int_equal(relay_begin(&r, &more, false), ERR_FULL);
    assert_true(relay_end(&r, 7));
    assert_int_equal(relay_begin(&r, &more, false), ERR_OK);
}

static void the_header_names_node_and_term(void **state)
{
    (void)state;
    char bytes[64];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct str node;
    uint64_t term;
    relay_put_header(&out, STR("node-1"), 42);
    assert_true(relay_read_header(buf_view(&out), &node, &term));
    assert_true(str_equal(node, STR("node-1")));
    assert_int_equal(term, 42);
    static const char *const wrong[] = {"",          "node-1",      "node-1/",
                                        "/42",       "node-1/0",    "node-1/4x",
                                        "node 1/42", "node-1/42/1", "node-1/-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(relay_read_header(str_from(wrong[i]), &node, &term));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_passes_one_relay),
        cmocka_unit_test(a_higher_term_ends_the_relays_to_the_older_leader),
        cmocka_unit_test(relays_have_a_bound),
        cmocka_unit_test(the_header_names_node_and_term),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
