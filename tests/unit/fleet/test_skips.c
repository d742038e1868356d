/* test_skips.c - the file of messages that are passed over. */
#include "support.h"

#include "fleet/skips.h"

static const struct fleet_id mine = {{1, 2, 3}}, other = {{4}};

static void lines_of_this_fleet_are_read_back(void **state)
{
    (void)state;
    char bytes[2048];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct skips s;
    skips_put(&out, &mine, &(struct skip){.offset = 7, .at_ms = 99, .reason = STR("a\nslip")});
    skips_put(&out, &other, &(struct skip){.offset = 8, .reason = STR("x")});
    skips_put(&out, &mine, &(struct skip){.offset = UINT64_MAX, .reason = STR("")});
    assert_int_equal(skips_read(buf_view(&out), &mine, &s), ERR_OK);
    assert_int_equal(s.count, 2);
    assert_non_null(skips_find(&s, 7));
    assert_true(str_equal(skips_find(&s, 7)->reason, STR("a slip")));
    assert_int_equal(skips_find(&s, 7)->at_ms, 99);
    assert_non_null(skips_find(&s, UINT64_MAX));
    assert_null(skips_find(&s, 8));
}

static void a_damaged_line_is_no_decision(void **state)
{
    (void)state;
    struct skips s;
    static const char *const wrong[] = {"7", "7 zz 9 x", "x 01020300000000000000000000000000 9 x",
                                        "7 0102 9 x", "7 01020300000000000000000000000000 soon x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(skips_read(str_from(wrong[i]), &mine, &s), ERR_CORRUPT);
}

static void there_is_a_most(void **state)
{
    (void)state;
    static char bytes[SKIPS_BYTES_MAX * 2];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct skips s;
    for (uint64_t i = 0; i < SKIPS_MAX; i++) skips_put(&out, &mine, &(struct skip){.offset = i});
    assert_int_equal(skips_read(buf_view(&out), &mine, &s), ERR_OK);
    skips_put(&out, &mine, &(struct skip){.offset = SKIPS_MAX});
    assert_int_equal(skips_read(buf_view(&out), &mine, &s), ERR_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_this_fleet_are_read_back),
        cmocka_unit_test(a_damaged_line_is_no_decision),
        cmocka_unit_test(there_is_a_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
