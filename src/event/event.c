/* event.c - the audit event to its canonical JSON.
 *
 * event.def lists the members in JCS order, so that one walk down the list writes them in order
 * and nothing is sorted. The walk is unrolled by the preprocessor: every name is a literal with
 * its comma, quotes and colon, and each kind of value has its own few lines here. The comma
 * before the first member becomes the opening brace at the end. */
#include "event/event.h"

#include "base/check.h"
#include "base/time.h"
#include "json/json.h"

static inline void put_text(struct buf *out, struct str name, struct str value)
{
    if (str_is_absent(value)) return;
    json_put_string_member(out, name, value);
}

static inline void put_plain(struct buf *out, struct str name, struct str value)
{
    if (str_is_absent(value)) return;
    json_put_plain_member(out, name, value);
}

static inline void put_json(struct buf *out, struct str name, struct str value)
{
    if (str_is_absent(value)) return;
    buf_put_both(out, name, value);
}

static inline void put_number(struct buf *out, struct str name, double value, bool present)
{
    if (present) json_put_number_member(out, name, value);
}

static inline void put_count(struct buf *out, struct str name, uint64_t value, bool present)
{
    if (!present) return;
    check(value <= EVENT_COUNT_MAX);
    buf_put(out, name);
    buf_put_u64(out, value);
}

static inline void put_time(struct buf *out, struct str name, uint64_t ms)
{
    if (ms == 0) return;
    char text[TIME_TEXT];
    time_write(ms, text);
    json_put_plain_member(out, name, str_of(text, sizeof text));
}

#define NAME(name) STR(",\"" #name "\":")
#define PUT_TEXT(name) put_text(out, NAME(name), e->name);
#define PUT_PLAIN(name) put_plain(out, NAME(name), e->name);
#define PUT_JSON(name) put_json(out, NAME(name), e->name);
#define PUT_NUMBER(name) put_number(out, NAME(name), e->name, e->has_##name);
#define PUT_COUNT(name) put_count(out, NAME(name), e->name, e->has_##name);
#define PUT_TIME(name) put_time(out, NAME(name), e->name);

/* Braces around the members that were put since `start`. */
static void embrace(struct buf *out, size_t start)
{
    if (out->size == start)
        buf_put_byte(out, '{');
    else
        out->bytes[start] = '{';
    buf_put_byte(out, '}');
}

void event_put(struct buf *out, const struct event *e)
{
    size_t start = out->size;
#define EVENT(name, type) PUT_##type(name)
#include "event/event.def"
#undef EVENT
    embrace(out, start);
}

void event_put_outcome(struct buf *out, const struct event *e)
{
    size_t start = out->size;
    /* In JCS order, like event.def. */
    PUT_TEXT(action)
    PUT_TEXT(actor)
    PUT_PLAIN(decision)
    PUT_TIME(expires_at)
    PUT_PLAIN(input_hash)
    PUT_PLAIN(key_id)
    PUT_PLAIN(kind)
    PUT_PLAIN(mode)
    PUT_PLAIN(policy_digest)
    PUT_TEXT(reason)
    PUT_PLAIN(request_id)
    PUT_PLAIN(review_id)
    PUT_PLAIN(rule)
    PUT_JSON(safe_args)
    PUT_TEXT(safe_tool)
    PUT_TEXT(tenant_id)
    PUT_TIME(timestamp)
    PUT_PLAIN(trace_id)
    PUT_TEXT(user_id)
    embrace(out, start);
}

bool event_kind_is_known(struct str kind)
{
    static const char *const kinds[] = {
        "decision",         "token.minted",    "token.revoked",      "token.rejected",
        "review.enqueued",  "review.approved", "review.denied",      "review.expired",
        "review.cancelled", "review.redeemed", "actor.suspended",    "actor.resumed",
        "policy.put",       "policy.deleted",  "policy.rolled_back", "key.created",
        "key.revoked",      "auth.failed",     "audit.dropped",      "audit.gap",
        "engine.started",   "engine.stopped",
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_equal(kind, str_from(kinds[i]))) return true;
    return false;
}
