#include "engine/runtime/busiest.h"

#include "base/check.h"

static uint64_t of_period(const struct busiest *b)
{
    return b->its_ns > b->all_ns / 2 ? b->candidate : 0;
}

uint64_t busiest_now(const struct busiest *b) { return b->named != 0 ? b->named : of_period(b); }

void busiest_note(struct busiest *b, uint64_t who, uint64_t spent_ns)
{
    check(who != 0 && b->its_ns <= b->all_ns && b->margin_ns <= b->its_ns);
    b->all_ns += spent_ns;
    if (who == b->candidate) {
        b->margin_ns += spent_ns;
        b->its_ns += spent_ns;
    } else if (spent_ns <= b->margin_ns) {
        b->margin_ns -= spent_ns;
    } else {
        b->candidate = who;
        b->its_ns = b->margin_ns = spent_ns - b->margin_ns;
    }
    if (b->all_ns < BUSIEST_PERIOD_NS) return;
    *b = (struct busiest){.named = of_period(b)};
}
