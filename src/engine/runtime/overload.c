#include "engine/runtime/overload.h"

#include <sys/resource.h>

#include "base/check.h"
#include "base/limits.h"

/* How often this thread has slept so far: it gave up the processor, and was not only preempted. */
static long sleeps_now(void)
{
    struct rusage usage;
    check(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

void overload_init(struct overload *o, uint64_t delay_ms, uint64_t now_ns)
{
    *o = (struct overload){.delay_ns = delay_ms * 1000000, .calm_ns = now_ns};
}

/* The turn before was long. If the thread has slept since, its queue was empty. */
static void judge(struct overload *o, uint64_t woken_ns)
{
    o->is_judged = true;
    if (sleeps_now() == o->sleeps) return;
    o->calm_ns = woken_ns;
    o->longs = 0;
}

void overload_turn_end(struct overload *o, uint64_t woken_ns, uint64_t now_ns, bool is_held)
{
    o->is_refusing = false;
    if (o->delay_ns == 0) return;
    if (o->held_ns != 0) {
        if (is_held) return;
        o->calm_ns += now_ns - o->held_ns;
        o->held_ns = 0;
        o->is_judged = false;
        o->sleeps = sleeps_now();
        return;
    }
    if (is_held) o->held_ns = now_ns;
    if (o->is_long && !o->is_judged) judge(o, woken_ns);
    if (!o->is_long) o->calm_ns = woken_ns;
    o->is_long = now_ns - woken_ns >= o->delay_ns / 2;
    o->is_judged = false;
    o->longs = o->is_long ? o->longs + 1 : 0;
    if (o->is_long) o->sleeps = sleeps_now();
}

static unsigned percent_for(const struct overload *o, const struct overload_asker *who)
{
    if (who->tenant == 0) return OVERLOAD_UNKNOWN_PERCENT;
    const uint64_t key = busiest_now(&o->keys), tenant = busiest_now(&o->tenants);
    bool is_other = key != 0 ? key != who->key : tenant != 0 && tenant != who->tenant;
    return is_other ? LIMIT_OVERLOAD_OTHERS : OVERLOAD_KNOWN_PERCENT;
}

bool overload_admits(struct overload *o, uint64_t woken_ns, uint64_t now_ns,
                     const struct overload_asker *who)
{
    if (!o->is_long) return true;
    if (!o->is_judged) judge(o, woken_ns);
    if (o->longs < OVERLOAD_TURNS) return true;
    if (now_ns < o->calm_ns + (uint64_t)OVERLOAD_MS * 1000000) return true;
    return now_ns - woken_ns <= o->delay_ns / 100 * percent_for(o, who);
}

void overload_note(struct overload *o, const struct overload_asker *who, uint64_t spent_ns)
{
    if (who->tenant == 0) return;
    busiest_note(&o->tenants, who->tenant, spent_ns);
    busiest_note(&o->keys, who->key, spent_ns);
}
