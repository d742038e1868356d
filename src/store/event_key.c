#include "store/event_key.h"

#include "base/check.h"

static bool is_ours(struct str event_id)
{
    return event_id.size == 30 && str_starts(event_id, STR("evt_01"));
}

struct str event_key(const struct event *e, char to[EVENT_KEY_BYTES])
{
    if (is_ours(e->event_id)) return e->event_id;
    struct buf b = buf_over(to, EVENT_KEY_BYTES);
    buf_put(&b, e->event_id);
    buf_put_byte(&b, '/');
    buf_put(&b, e->tenant_id);
    check(!b.overflow);
    return buf_view(&b);
}
