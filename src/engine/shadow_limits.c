#include "engine/shadow_limits.h"

#include "base/limits.h"
#include "engine/digest.h"

enum { ROOM_BYTES = 1 << 10 }; /* what an arena takes beside the arrays */

static struct authorization *of(struct operation *e) { return (struct authorization *)(void *)e; }

struct limit_request limit_request_of(const struct authorization *a, const struct policy_limit *l)
{
    return (struct limit_request){.key = limit_slot_key(a->tools.hasher, a->ask.policy.tenant, l),
                                  .window_ms = l->window_ms,
                                  .count_max = l->count_max,
                                  .has_max = l->has_max,
                                  .amount_max = l->amount_max,
                                  .amount = l->amount,
                                  .let_through = l->over == VERDICT_ALLOW,
                                  .is_shadow = l->is_shadow};
}

/* ---- giving back ---- */

static void give_back_on(struct operation *e)
{
    struct authorization *a = of(e);
    struct shadow_counting *s = &a->shadow;
    if (s->counted == 0) {
        s->then(a);
        return;
    }
    s->counted--;
    e->call.limit.ask = s->asked[s->counted];
    e->call.limit.told = s->told[s->counted];
    operation_call(e, CALL_UNCOUNT, slot_of_key(e->call.limit.ask.key), give_back_on);
}

void shadow_limits_give_back(struct authorization *a, void (*then)(struct authorization *a))
{
    a->shadow.then = then;
    give_back_on(&a->operation);
}

/* ---- counting ---- */

/* The memory does not reduce that of the decision. False: there is none. */
static bool reserve(struct authorization *a, size_t count)
{
    struct shadow_counting *s = &a->shadow;
    struct arena *arena = a->operation.arena;
    const size_t bytes = count * (sizeof *s->asked + sizeof *s->told) + ROOM_BYTES;
    struct arena before = arena_begin_aside(arena, bytes);
    s->asked = arena_array(arena, struct limit_request, count);
    s->told = arena_array(arena, struct limit_told, count);
    return arena_keep_aside(arena, &before) && s->told != NULL;
}

static void count_next(struct authorization *a);

static void counted(struct operation *e)
{
    struct authorization *a = of(e);
    struct shadow_counting *s = &a->shadow;
    const struct call *c = &e->call;
    if (c->err != ERR_OK) {
        shadow_limits_give_back(a, s->then);
    } else if (!c->limit.told.counted) {
        policy_over_shadow_limit(&a->d.outcome.shadow_limits[s->at], &a->d.outcome);
        shadow_limits_give_back(a, s->then);
    } else if (c->limit.ask.look_only) {
        s->looked++;
        count_next(a);
    } else {
        s->asked[s->counted] = c->limit.ask;
        s->told[s->counted] = c->limit.told;
        s->counted++;
        count_next(a);
    }
}

/* If there are several, all are checked before the first one counts. */
static void count_next(struct authorization *a)
{
    struct shadow_counting *s = &a->shadow;
    const size_t count = a->d.outcome.shadow_limit_count;
    const bool looks = s->looked < count && (count > 1 || a->tools.dry_run);
    if (!looks && (a->tools.dry_run || s->counted == count)) {
        s->then(a);
        return;
    }
    s->at = looks ? s->looked : s->counted;
    struct limit_request *ask = &a->operation.call.limit.ask;
    *ask = limit_request_of(a, &a->d.outcome.shadow_limits[s->at]);
    ask->look_only = looks;
    operation_call(&a->operation, CALL_COUNT, slot_of_key(ask->key), counted);
}

void shadow_limits_count(struct authorization *a, void (*then)(struct authorization *a))
{
    const size_t count = a->d.outcome.shadow_limit_count;
    if (count == 0 || count > LIMIT_LIMITS_PER_REQUEST || !reserve(a, count)) {
        then(a);
        return;
    }
    a->shadow.then = then;
    count_next(a);
}
