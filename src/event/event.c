/* event.c - the audit event to its canonical JSON.
 *
 * event.def lists the members in JCS order, so that one walk down the list writes them in order
 * and nothing is sorted. The walk is unrolled by the preprocessor: every name is a literal with
 * its comma, quotes and colon, and each kind of value has its own few lines here. At the end,
 * the comma before the first member becomes the opening brace. */
#include "event/event.h"

#include "base/check.h"
#include "json/members.h"

#define PUT_STRING(put, name)                                                                      \
    if (!str_is_absent(e->name)) put(&m, MEMBER_QUOTED(#name), e->name);
#define PUT_TEXT(name) PUT_STRING(members_put_text, name)
#define PUT_PLAIN(name) PUT_STRING(members_put_plain, name)
#define PUT_TIME(name)                                                                             \
    if (e->name != 0) members_put_time(&m, MEMBER_QUOTED(#name), e->name);
#define PUT_JSON(name)                                                                             \
    if (!str_is_absent(e->name)) members_put_json(&m, MEMBER_NAME(#name), e->name);
#define PUT_NUMBER(name)                                                                           \
    if (e->has_##name) members_put_number(&m, MEMBER_NAME(#name), e->name);
#define PUT_COUNT(name)                                                                            \
    if (e->has_##name) members_put_u64(&m, MEMBER_NAME(#name), count_checked(e->name));

static inline uint64_t count_checked(uint64_t count)
{
    check(count <= EVENT_COUNT_MAX);
    return count;
}

/* Puts braces around the members since `start`. */
static void embrace(struct buf *out, size_t start)
{
    if (out->size == start)
        buf_put_byte(out, '{');
    else
        out->bytes[start] = '{';
    buf_put_byte(out, '}');
}

/* The end of the event that began at `start`. */
#define REACHED ((size_t)(m.to - m.out->bytes) - start)

static inline void outcome_add(struct event_outcome *o, size_t from, size_t to)
{
    if (from == to) return;
    if (o->count > 0 && o->parts[o->count - 1].to == from) {
        o->parts[o->count - 1].to = to;
        return;
    }
    check(o->count < EVENT_OUTCOME_PARTS);
    o->parts[o->count++] = (struct event_part){.from = from, .to = to};
}

void event_put(struct buf *out, const struct event *e)
{
    size_t start = out->size;
    struct members m = members_begin(out);
#define EVENT(name, type) PUT_##type(name)
#include "event/event.def"
#undef EVENT
    members_end(&m);
    embrace(out, start);
}

void event_put_told(struct buf *out, const struct event *e, struct event_outcome *ret)
{
    size_t start = out->size, from;
    struct members m = members_begin(out);
    ret->count = ret->hash_end = 0;
#define EVENT(name, type) PUT_##type(name)
#define OUTCOME(name, type)                                                                        \
    from = REACHED;                                                                                \
    PUT_##type(name) outcome_add(ret, from, REACHED);
#define OUTPUT_HASH(name, type) PUT_##type(name) ret->hash_end = REACHED - 1;
#include "event/event.def"
#undef EVENT
    members_end(&m);
    embrace(out, start);
}

void event_put_outcome(struct buf *out, struct str event, const struct event_outcome *o)
{
    size_t start = out->size;
    for (size_t i = 0; i < o->count; i++)
        buf_put(out, str_of(event.bytes + o->parts[i].from, o->parts[i].to - o->parts[i].from));
    embrace(out, start);
}

bool event_kind_is_known(struct str kind)
{
    static const char *const kinds[] = {
        "decision",        "token.minted",     "token.revoked",   "token.rejected",
        "review.enqueued", "review.approved",  "review.denied",   "review.expired",
        "review.lapsed",   "review.cancelled", "review.redeemed", "actor.suspended",
        "actor.resumed",   "policy.put",       "policy.deleted",  "policy.rolled_back",
        "key.created",     "key.revoked",      "auth.failed",     "audit.dropped",
        "audit.forgotten", "audit.gap",        "audit.read",      "engine.started",
        "engine.stopped",  "engine.adopted",   "engine.trusted",  "engine.distrusted",
        "engine.fleet",    "signer.rotated",   "session.started", "session.ended",
        "leader.changed",
    };
    if (event_kind_is_external(kind)) kind = str_skip(kind, sizeof EVENT_EXTERNAL - 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_equal(kind, str_from(kinds[i]))) return true;
    return false;
}

bool event_kind_begins_epoch(struct str kind)
{
    return str_equal(kind, STR("engine.started")) || str_equal(kind, STR("leader.changed"));
}

bool event_kind_is_external(struct str kind) { return str_starts(kind, STR(EVENT_EXTERNAL)); }
