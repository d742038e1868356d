/* writ key list: what a table tells of each key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cli/rig.h"

static void a_list_of_keys_tells_for_whom_the_roles_of_each_let_it_speak(void **state)
{
    (void)state;
    static const char all[] =
        "\"actors\":[\"a\"],\"users\":[\"user-of-ours\"],\"reviewers\":[\"*\"],"
        "\"nodes\":[\"n-*\"],\"tenants\":[\"*\"]";
    static const char *const roles[][2] = {
        {"\"agent\"", "  actors a; users user-of-ours  valid"},
        {"\"app\"", "  users user-of-ours  valid"},
        {"\"reviewer\"", "  reviewers *  valid"},
        {"\"ingest\"", "  nodes n-*; tenants *  valid"},
        {"\"agent\",\"reviewer\"", "  actors a; users user-of-ours; reviewers *  valid"},
        {"\"auditor\"", "auditor  -  "}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        struct rig *r = rig_create();
        char body[1024];
        snprintf(body, sizeof body, "{\"keys\":[{\"id\":\"key_1\",\"roles\":[%s],%s}]}",
                 roles[i][0], all);
        peer_will_answer(r->peer, 200, NULL, body);
        assert_int_equal(RUN(r, "key", "list"), DONE);
        assert_has(r->out, roles[i][1]);
        rig_destroy(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_keys_tells_for_whom_the_roles_of_each_let_it_speak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
