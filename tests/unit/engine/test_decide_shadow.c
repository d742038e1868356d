/* What only shadow documents add to a decision takes nothing from its record. */
#include <stdio.h>

#include "unit/engine/decide_scene.h"

/* At each size of the request the same decision and the same record, but for would_have. */
static void what_shadow_policies_would_have_done_takes_no_room_from_the_record(void **state)
{
    struct scene *s = *state;
    static const char enforced[] =
        "rules: [{id: ask, actions: [pay], decision: human_review}, {id: reads, agents: ['*'], "
        "actions: [get_x], decision: allow}]";
    static const char shadow[] =
        "mode: shadow\nrules: [{id: the-rule-of-a-name-as-long-as-it-may-be-for-this-test, "
        "actions: ['*'], decision: deny}]";
    static const char *const actions[] = {"pay", "get_x"};
    size_t left_out = 0, told = 0;
    for (size_t a = 0; a < 2; a++) {
        for (size_t size = 29000; size < 31200; size += 20) {
            char rule[2][POLICY_RULE_TEXT];
            bool omitted[2];
            for (size_t with = 0; with < 2; with++) {
                scene_two_policies(s, enforced, with ? shadow : NULL);
                scene_decide(s, ASK_AGENT, sized_body(s, actions[a], size, 30000, 0),
                             (struct how){0});
                assert_true(s->d.record.size <= LIMIT_EVENT_BYTES);
                snprintf(rule[with], sizeof rule[with], "%s", s->d.outcome.rule);
                omitted[with] = is_omitted(s, "args");
                bool says = json_get(s->record, STR("would_have")) != NULL;
                assert_int_equal(says, json_get(s->answer, STR("would_have")) != NULL);
                told += with && says;
                left_out += with && !says && strcmp(rule[with], "limit:record") != 0;
            }
            assert_string_equal(rule[0], rule[1]);
            assert_int_equal(omitted[0], omitted[1]);
        }
    }
    assert_true(told > 0 && left_out > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_shadow_policies_would_have_done_takes_no_room_from_the_record, scene_set_up,
            scene_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
