/* Names are asked for beside the one who asks, who may look, wait, or leave. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/lookup.h"

enum { PATIENCE_MS = 120000 };

static void a_name_has_its_addresses_and_its_port(void **state)
{
    (void)state;
    struct lookup *l = lookup_start("127.0.0.1", "81", 0);
    assert_non_null(l);
    assert_true(lookup_wait(l, PATIENCE_MS));
    assert_true(lookup_is_over(l) && lookup_wait(l, 0)); /* and stays so */
    const char *why = NULL;
    const struct addrinfo *found = lookup_found(l, &why);
    assert_non_null(found);
    assert_null(why);
    const struct sockaddr_in *at = (const struct sockaddr_in *)(const void *)found->ai_addr;
    assert_int_equal(at->sin_family, AF_INET);
    assert_int_equal(ntohs(at->sin_port), 81);
    assert_null(found->ai_next); /* of streams alone */
    lookup_leave(l);
}

static void a_name_that_nobody_has_says_why(void **state)
{
    (void)state;
    struct lookup *l = lookup_start("..", NULL, 0);
    assert_non_null(l);
    assert_true(lookup_wait(l, PATIENCE_MS));
    const char *why = NULL;
    assert_null(lookup_found(l, &why));
    assert_non_null(why);
    lookup_leave(l);
}

static void whoever_asked_may_leave_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) lookup_leave(lookup_start("localhost", "1", 0));
    lookup_leave(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_its_addresses_and_its_port),
        cmocka_unit_test(a_name_that_nobody_has_says_why),
        cmocka_unit_test(whoever_asked_may_leave_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
