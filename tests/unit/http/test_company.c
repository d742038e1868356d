/* Who joins a beat: what came while several requests were handled. */
#include "unit/http/rig.h"

static const char nothing[] = "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n";

static struct peer *peers[3];

static void ask(struct peer *p)
{
    assert_int_equal(write(p->fd, nothing, sizeof nothing - 1), (ssize_t)sizeof nothing - 1);
}

static struct rig *three_clients(void)
{
    struct rig *rig = rig_create();
    for (size_t i = 0; i < 3; i++) peers[i] = rig_connect(rig);
    loop_beat(rig->loop, false);
    assert_int_equal(http_server_connections(rig->server), 3);
    return rig;
}

static void all_end(struct rig *rig)
{
    for (size_t i = 0; i < 3; i++) peer_close(peers[i]);
    rig_destroy(rig);
}

static void third_asks(struct rig *rig)
{
    rig->handling = NULL;
    ask(peers[2]);
}

enum { ASKED_MOST = 10000 };

static void two_go_on_asking(struct rig *rig)
{
    struct peer *p = peers[rig->handled % 2];
    if (rig->handled >= ASKED_MOST) return;
    peer_listen(p);
    p->size = 0;
    ask(p);
}

static void what_comes_while_several_are_handled_joins_their_beat(void **state)
{
    (void)state;
    struct rig *rig = three_clients();
    rig->handling = third_asks;
    ask(peers[0]);
    ask(peers[1]);
    loop_beat(rig->loop, true);
    assert_int_equal(rig->handled, 3);
    all_end(rig);
}

static void nobody_waits_for_company(void **state)
{
    (void)state;
    struct rig *rig = three_clients();
    rig->handling = third_asks;
    ask(peers[0]);
    loop_beat(rig->loop, true);
    assert_int_equal(rig->handled, 1);
    loop_beat(rig->loop, true);
    assert_int_equal(rig->handled, 2);
    all_end(rig);
}

static void a_beat_ends_although_more_comes(void **state)
{
    (void)state;
    struct rig *rig = three_clients();
    rig->handling = two_go_on_asking;
    ask(peers[0]);
    ask(peers[1]);
    loop_beat(rig->loop, true);
    assert_in_range(rig->handled, 3, ASKED_MOST - 1);
    all_end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_while_several_are_handled_joins_their_beat),
        cmocka_unit_test(nobody_waits_for_company),
        cmocka_unit_test(a_beat_ends_although_more_comes),
    };
    return cmocka_run_group_tests_name("who joins a beat", tests, NULL, NULL);
}
