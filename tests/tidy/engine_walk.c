/* engine_walk.c - prints the functions of src/engine that a decision enters, in order.
 *
 * The engine's files are compiled for this program with -finstrument-functions, which calls the two
 * functions at the end. One request, which a limit counts and allows, is sent to the reactor that
 * owns the limit's counter; the one before it warms up. Each line of the output is the address of a
 * function: test_walk_of_a_decision.py has it named. Functions of headers are not instrumented. */
#include "../unit/engine/calls_rig.h"

#include "engine/decision/digest.h"

enum { ENTERED_MAX = 4096 };

extern const char __executable_start;
static _Atomic bool is_walking;
static _Atomic unsigned entered_count;
static const void *entered[ENTERED_MAX];

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
    (void)from;
    if (!atomic_load(&is_walking)) return;
    unsigned at = atomic_fetch_add(&entered_count, 1);
    if (at < ENTERED_MAX) entered[at] = function;
}

void __cyg_profile_func_exit(void *function, void *from) { (void)function, (void)from; }

static unsigned owner_of_limit(const char *actor)
{
    const struct policy_limit limit = {.policy_name = STR("base"),
                                       .rule_id = STR("each"),
                                       .per = PER_ACTOR,
                                       .value = str_from(actor)};
    struct hasher *h = hasher_create();
    unsigned slot = slot_of_key(limit_slot_key(h, STR("acme"), &limit));
    hasher_destroy(h);
    return slot_owner(slot, RIG_REACTORS);
}

static void send_one(struct client *c)
{
    int status = client_call(c, "POST", "/v1/agent/authorize", RIG_AGENT,
                             "{\"action\":\"send\",\"actor\":\"bot\",\"args\":{\"n\":1}}");
    check(status == 200 && client_says(c, "\"decision\":\"allow\""));
}

int main(void)
{
    struct rig *r = rig_create("10m");
    struct client *c = client_of(r, owner_of_limit("bot"));
    send_one(c);
    atomic_store(&is_walking, true);
    send_one(c);
    atomic_store(&is_walking, false);
    client_close(c);
    unsigned count = atomic_load(&entered_count);
    check(count > 0 && count <= ENTERED_MAX);
    for (unsigned i = 0; i < count; i++)
        printf("%zx\n", (size_t)((const char *)entered[i] - &__executable_start));
    rig_destroy(r);
    return 0;
}
