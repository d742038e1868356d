/* How brokers are reached: their names in the library's own terms, and sockets
 * that do not wait for ever. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/reach.h"

static void a_name_is_found_as_by_getaddrinfo(void **state)
{
    (void)state;
    struct reach r;
    struct addrinfo *found = NULL;
    reach_init(&r);
    assert_int_equal(reach_name(&r, "127.0.0.1", "9092", AI_ADDRCONFIG, &found), 0);
    assert_non_null(found);
    assert_int_equal(ntohs(((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_port),
                     9092);
    freeaddrinfo(found);
    assert_int_not_equal(reach_name(&r, "..", "9092", 0, &found), 0);
    /* nobody has it */
    assert_true(reach_is_answered(&r, "127.0.0.1") && reach_is_answered(&r, ".."));
    reach_fini(&r);
}

/* What the kernel was told, since only it keeps the time. */
static void a_socket_gives_up_a_silent_end(void **state)
{
    (void)state;
    int fd = reach_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP), silence_ms = 0, alive = 0;
    assert_true(fd >= 0);
    socklen_t size = sizeof silence_ms;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, &size), 0);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &alive, &size), 0);
    assert_int_equal(silence_ms, REACH_SILENCE_MS);
    assert_true(alive);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_found_as_by_getaddrinfo),
        cmocka_unit_test(a_socket_gives_up_a_silent_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
