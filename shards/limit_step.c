/* limit_step.c - counting against a limit, and giving it back, for calls.
 *
 * Nothing is recorded here: a decision's own record contains its counts, whichever reactor journals
 * it. If no record is made, the origin gives the counts back. */
#include "base/check.h"
#include "shards/inside.h"

void limit_step(struct shard *s, struct call *c)
{
    check(c->kind == CALL_COUNT || c->kind == CALL_UNCOUNT);
    check(slot_of_key(c->limit.ask.key) == c->slot);
    struct limit_table *t = c->limit.ask.is_shadow ? &s->shadow_limits : &s->limits;
    if (c->kind == CALL_UNCOUNT) {
        limit_uncount(t, &c->limit.ask, &c->limit.told);
        return;
    }
    c->err = limit_count(t, &c->limit.ask, c->now_ms, &c->limit.told, &c->quota);
    if (c->err == ERR_FULL) c->err = ERR_OVERLOADED;
}
