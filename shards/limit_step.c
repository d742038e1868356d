/* limit_step.c - counting against a limit, and giving it back, as calls ask for it.
 *
 * Nothing is recorded here: what a decision counted is in the decision's own record, whoever
 * journals it, and what no record came of is given back by home. */
#include "shards/inside.h"

void limit_step(struct shard *s, struct call *c)
{
    if (c->kind == CALL_UNCOUNT) {
        limit_uncount(&s->limits, &c->limit.ask, &c->limit.told);
        return;
    }
    enum err err = limit_count(&s->limits, &c->limit.ask, c->now_ms, &c->limit.told);
    if (err != ERR_OK) c->err = ERR_OVERLOADED;
}
