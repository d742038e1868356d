/* Where Redis is, as people write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/mirror/redis.h"
#include "pipeline/mirror/slots.h"

static void a_socket_and_a_port_are_addresses(void **state)
{
    (void)state;
    struct redis_address a;
    struct fault f;
    assert_int_equal(redis_address_read(STR("unix:/run/redis.sock"), &a, &f), ERR_OK);
    assert_true(a.is_unix);
    assert_string_equal(a.host, "/run/redis.sock");
    assert_int_equal(redis_address_read(STR("tcp://127.0.0.1:6380"), &a, &f), ERR_OK);
    assert_false(a.is_unix);
    assert_string_equal(a.host, "127.0.0.1");
    assert_int_equal(a.port, 6380);
    assert_int_equal(redis_address_read(STR("redis://cache.internal"), &a, &f), ERR_OK);
    assert_string_equal(a.host, "cache.internal");
    assert_int_equal(a.port, 6379);
    assert_int_equal(redis_address_read(STR("tcp://[::1]:7000"), &a, &f), ERR_OK);
    assert_string_equal(a.host, "::1");
    assert_int_equal(a.port, 7000);
}

static void anything_else_is_refused_with_the_option_and_what_would_be_right(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "redis",
                                        "http://a:1",
                                        "tcp://",
                                        "tcp://:6379",
                                        "tcp://a:0",
                                        "tcp://a:65536",
                                        "tcp://a:b",
                                        "tcp://a/1",
                                        "tcp://me:secret@a:1",
                                        "http://:secret@a:1",
                                        "unix:",
                                        "unix:relative",
                                        "unix:/",
                                        "tcp://::1:7000",
                                        "tcp://a:99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct redis_address a;
        struct fault f = {.err = ERR_OK};
        assert_int_equal(redis_address_read(str_from(wrong[i]), &a, &f), ERR_BAD_VALUE);
        assert_non_null(strstr(f.text, "redis.url"));
        assert_null(strstr(f.text, "rediss"));
        assert_null(strstr(f.text, "secret"));
    }
}

static void a_path_that_no_socket_can_have_is_refused(void **state)
{
    (void)state;
    char url[200];
    struct redis_address a;
    struct fault f;
    memset(url, 'x', sizeof url);
    memcpy(url, "unix:/", 6);
    assert_int_equal(redis_address_read(str_of(url, 5 + REDIS_PATH_TEXT), &a, &f), ERR_BAD_VALUE);
    assert_int_equal(redis_address_read(str_of(url, 5 + REDIS_PATH_TEXT - 1), &a, &f), ERR_OK);
}

static void tls_is_refused_where_the_library_has_none(void **state)
{
    (void)state;
#ifndef WRIT_REDIS_TLS
    struct redis_address a;
    struct fault f;
    assert_int_equal(redis_address_read(STR("rediss://cache:6379"), &a, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "TLS"));
#endif
}

static void an_owner_is_a_node_and_an_epoch(void **state)
{
    (void)state;
    struct str node, epoch;
    assert_true(owner_read(STR("node-a:0123456789abcdef"), &node, &epoch));
    assert_true(str_equal(node, STR("node-a")));
    assert_true(str_equal(epoch, STR("0123456789abcdef")));
    assert_false(owner_read(STR("node-a"), &node, &epoch));
    assert_false(owner_read(STR(":0123456789abcdef"), &node, &epoch));
    assert_false(owner_read(STR("node-a:0123"), &node, &epoch));
    assert_true(list_has("a,b", STR("b")));
    assert_false(list_has("a,b", STR("a,b")));
    assert_false(list_has("", STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_and_a_port_are_addresses),
        cmocka_unit_test(anything_else_is_refused_with_the_option_and_what_would_be_right),
        cmocka_unit_test(a_path_that_no_socket_can_have_is_refused),
        cmocka_unit_test(tls_is_refused_where_the_library_has_none),
        cmocka_unit_test(an_owner_is_a_node_and_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
