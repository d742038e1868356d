/* test_trace_context.c - `traceparent` as W3C Trace Context, level 1, has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/spans/trace_context.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static void a_valid_header_gives_trace_parent_and_flag(void **state)
{
    (void)state;
    static const uint8_t trace[] = {0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
                                    0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c};
    static const uint8_t parent[] = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
    struct trace_context c;
    assert_true(trace_context_read(STR("00-" TRACE "-" PARENT "-01"), &c));
    assert_memory_equal(c.trace, trace, sizeof trace);
    assert_memory_equal(c.parent, parent, sizeof parent);
    assert_true(str_equal(c.trace_text, STR(TRACE)));
    assert_true(c.sampled);
}

static void only_the_lowest_flag_means_sampled(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        bool sampled;
    } rows[] = {{"00-" TRACE "-" PARENT "-00", false},
                {"00-" TRACE "-" PARENT "-fe", false},
                {"00-" TRACE "-" PARENT "-ff", true},
                {"00-" TRACE "-" PARENT "-03", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace_context c;
        assert_true(trace_context_read(str_from(rows[i].header), &c));
        assert_int_equal(c.sampled, rows[i].sampled);
    }
}

static void a_later_version_may_go_on_behind_a_dash(void **state)
{
    (void)state;
    struct trace_context c;
    assert_true(trace_context_read(STR("cc-" TRACE "-" PARENT "-01"), &c));
    assert_true(
        trace_context_read(STR("cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like"), &c));
    assert_true(trace_context_read(STR("01-" TRACE "-" PARENT "-01-"), &c));
    assert_false(trace_context_read(STR("cc-" TRACE "-" PARENT "-01.what-the-future"), &c));
    assert_false(trace_context_read(STR("00-" TRACE "-" PARENT "-01-what-the-future"), &c));
}

static void what_is_not_valid_is_as_if_it_were_not_there(void **state)
{
    (void)state;
    static const char *const headers[] = {"",
                                          "00",
                                          "00-",
                                          "00-" TRACE,
                                          "00-" TRACE "-" PARENT,
                                          "00-" TRACE "-" PARENT "-",
                                          "00-" TRACE "-" PARENT "-1",
                                          "00-" TRACE "-" PARENT "-0x",
                                          "00-" TRACE "-" PARENT "-001",
                                          "ff-" TRACE "-" PARENT "-01",
                                          "0-" TRACE "-" PARENT "-01",
                                          ".0-" TRACE "-" PARENT "-01",
                                          "0G-" TRACE "-" PARENT "-01",
                                          "00-" TRACE "-" PARENT ".01",
                                          "00." TRACE "-" PARENT "-01",
                                          "00-" TRACE "." PARENT "-01",
                                          "00-00000000000000000000000000000000-" PARENT "-01",
                                          "00-" TRACE "-0000000000000000-01",
                                          "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
                                          "00-" TRACE "-B7AD6B7169203331-01",
                                          "00-" TRACE "-" PARENT "-0A",
                                          "00-.af7651916cd43dd8448eb211c80319c-" PARENT "-01",
                                          "00-" TRACE "-.7ad6b7169203331-01",
                                          " 00-" TRACE "-" PARENT "-01",
                                          "00-" TRACE "-" PARENT "-01 ",
                                          "00-" TRACE "-" PARENT "-01,00-" TRACE "-" PARENT "-01",
                                          "00-" TRACE "1-" PARENT "-01"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct trace_context c = {.sampled = true};
        if (trace_context_read(str_from(headers[i]), &c)) fail_msg("taken: %s", headers[i]);
        assert_true(c.sampled); /* unchanged */
    }
    struct trace_context c;
    assert_false(trace_context_read((struct str){0}, &c));
}

static void a_trace_id_of_ours_is_w3c_only_as_32_lowercase_digits(void **state)
{
    (void)state;
    uint8_t id[TRACE_ID_BYTES];
    assert_true(trace_id_read(STR(TRACE), id));
    assert_int_equal(id[0], 0x0a);
    assert_int_equal(id[15], 0x9c);
    static const char *const others[] = {"",
                                         "mine",
                                         "0AF7651916CD43DD8448EB211C80319C",
                                         TRACE "0",
                                         "00000000000000000000000000000000",
                                         "0af7651916cd43dd8448eb211c80319"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(trace_id_read(str_from(others[i]), id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_header_gives_trace_parent_and_flag),
        cmocka_unit_test(only_the_lowest_flag_means_sampled),
        cmocka_unit_test(a_later_version_may_go_on_behind_a_dash),
        cmocka_unit_test(what_is_not_valid_is_as_if_it_were_not_there),
        cmocka_unit_test(a_trace_id_of_ours_is_w3c_only_as_32_lowercase_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
