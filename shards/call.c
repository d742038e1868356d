/* call.c - the facts of a call that do not depend on a shard: whether it closes, how much it
 * records.
 *
 * The bounds are generous if only the step knows the exact size; unused room goes back to the
 * block. The step refuses what would exceed its bound. */
#include "shards/call.h"

#include "base/check.h"
#include "shards/inside.h"

enum {
    ONE = false,
    EACH = true,
    OPENS = false,
    CLOSES = true,
    NO_WAIT = false,
    WAITS = true,
    NONE = 0
};

#define AT(member) offsetof(struct call, member)

static const struct call_facts {
    bool asks_each, closes, is_about_revocation;
    size_t ordinal; /* its offset in the call; 0: it has none */
} facts[] = {
#define CALL_KIND(name, shards, effect, ordinal, revocation, text)                                 \
    {shards, effect, revocation, ordinal},
#include "shards/call.def"
#undef CALL_KIND
};

static const struct call_facts *facts_of(enum call_kind k)
{
    check((unsigned)k < CALL_KINDS);
    return &facts[k];
}

bool call_closes(enum call_kind k) { return facts_of(k)->closes; }

bool call_asks_each_shard(enum call_kind k) { return facts_of(k)->asks_each; }

bool call_is_about_revocation(enum call_kind k) { return facts_of(k)->is_about_revocation; }

void call_check(const struct call *c)
{
    check(c->origin < LIMIT_REACTORS && c->to < LIMIT_REACTORS);
    check(c->slot < LIMIT_SLOTS || call_asks_each_shard(c->kind));
    check(!c->answered || c->previous == NULL);
}

uint64_t *call_ordinal(struct call *c)
{
    size_t at = facts_of(c->kind)->ordinal;
    return at == 0 ? NULL : (uint64_t *)(void *)((char *)c + at);
}

struct id call_event_id(struct call *c)
{
    struct id given = c->id;
    /* The next is one more, within the 80 bits of chance: a step may need several, and be repeated.
     */
    for (unsigned i = ID_BYTES; i-- > 6;)
        if (++c->id.bytes[i] != 0) break;
    return given;
}

static size_t record_most(size_t event, size_t delta)
{
    event = event < LIMIT_EVENT_BYTES ? event : LIMIT_EVENT_BYTES;
    delta = delta < LIMIT_DELTA_BYTES ? delta : LIMIT_DELTA_BYTES;
    return event + delta + LIMIT_RECORD_HEAD_BYTES;
}

size_t shard_tick_record_most(void) { return record_most(EVENT_MOST_BYTES, DELTA_MOST_BYTES); }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

size_t call_record_most(const struct call *c)
{
    const size_t small =
        shard_tick_record_most(); /* an expiry, a revocation, a denial by suspension */
    switch (c->kind) {
    case CALL_MINT:
        return record_most(c->records[0].size,
                           c->spent.size + DELTA_MOST_BYTES + c->mint.facts.scope.size);
    case CALL_REVOKE:
    case CALL_ROTATE: return small;
    case CALL_SPEND:
    case CALL_UNSPEND:
    case CALL_TOKEN_GET:
    case CALL_TOKEN_LIST:
    case CALL_COUNT:
    case CALL_UNCOUNT:
    case CALL_RETRY_BEGIN:
    case CALL_RETRY_KEEP:
    case CALL_RETRY_DROP:
    case CALL_UNCLAIM:
    case CALL_REVIEW_LIST:
    case CALL_REVIEW_FIND:
    case CALL_ACTOR_LIST: return 0;
    case CALL_REVIEW_GET:
    case CALL_REVIEW_WAIT:
    case CALL_CLAIM:
    case CALL_CANCEL: return small;
    case CALL_ENQUEUE:
        return larger(small,
                      record_most(c->records[0].size, c->spent.size) +
                          record_most(c->records[1].size, review_opened_most(&c->enqueue.facts)));
    case CALL_SHARE:
        return larger(small, record_most(c->records[0].size, c->spent.size + DELTA_MOST_BYTES));
    case CALL_APPROVE:
    case CALL_TAKE_BACK:
    case CALL_DENY: {
        size_t note = c->review.note.size;
        return record_most(EVENT_MOST_BYTES + ESCAPE_GROWTH * note, 2 * DELTA_MOST_BYTES + note);
    }
    case CALL_REDEEM:
        return larger(small, record_most(c->records[0].size, c->spent.size + DELTA_MOST_BYTES) +
                                 record_most(c->records[1].size, 0));
    case CALL_SUSPEND: {
        size_t reason = c->actor.reason.size;
        return record_most(EVENT_MOST_BYTES + ESCAPE_GROWTH * reason, DELTA_MOST_BYTES + reason) +
               SUSPEND_DENIALS * small;
    }
    case CALL_DENY_SPELLINGS: return SUSPEND_DENIALS * small;
    case CALL_RESUME:
        return record_most(EVENT_MOST_BYTES + ESCAPE_GROWTH * c->actor.reason.size,
                           DELTA_MOST_BYTES);
    case CALL_KINDS: break;
    }
    check(false);
    return 0;
}
