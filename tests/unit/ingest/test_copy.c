/* The forms in which PostgreSQL takes many values, byte for byte. */
#include "rig.h"

#include "store/copy.h"

static void a_row_is_what_the_manual_says(void **state)
{
    static const char expected[] = "PGCOPY\n\377\r\n\0"
                                   "\0\0\0\0"
                                   "\0\0\0\0"
                                   "\0\4"
                                   "\0\0\0\2ab"
                                   "\377\377\377\377"
                                   "\0\0\0\0"
                                   "\0\0\0\10\1\2\3\4\5\6\7\10"
                                   "\377\377";
    char bytes[128];
    struct buf b = buf_over(bytes, sizeof bytes);
    (void)state;
    copy_begin(&b);
    copy_row(&b, 4);
    copy_text(&b, STR("ab"));
    copy_text(&b, (struct str){0});
    copy_text(&b, STR(""));
    copy_bigint(&b, 0x0102030405060708);
    copy_end(&b);
    assert_int_equal(b.size, sizeof expected - 1);
    assert_memory_equal(b.bytes, expected, b.size);
}

static void arrays_escape_what_would_end_them(void **state)
{
    char bytes[128];
    struct buf b = buf_over(bytes, sizeof bytes);
    (void)state;
    array_put_text(&b, STR("a\"b\\c,{}"));
    array_put_text(&b, STR(""));
    buf_put_literal(&b, "}");
    assert_true(str_equal(buf_view(&b), STR("{\"a\\\"b\\\\c,{}\",\"\"}")));
    buf_clear(&b);
    array_put_number(&b, INT64_MIN);
    array_put_number(&b, 7);
    assert_true(str_equal(buf_view(&b), STR("{-9223372036854775808,7")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_what_the_manual_says),
        cmocka_unit_test(arrays_escape_what_would_end_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
