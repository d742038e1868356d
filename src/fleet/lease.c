#include "fleet/lease.h"

#include "base/planted.h"

static struct lease_sent *newest_with(struct lease *l, uint64_t nonce)
{
    for (uint64_t i = 0; i < LEASE_SENT && i < l->number; i++) {
        struct lease_sent *s = &l->sent[(l->number - i) % LEASE_SENT];
        if (s->nonce == nonce) return s;
    }
    return NULL;
}

uint64_t lease_send(struct lease *l, uint64_t now_ms, uint64_t nonce, uint32_t lease_ms,
                    bool closed)
{
    l->number++;
    l->option_ms = lease_ms;
    l->sent[l->number % LEASE_SENT] = (struct lease_sent){.number = l->number,
                                                          .nonce = nonce,
                                                          .sent_ms = now_ms,
                                                          .lease_ms = lease_ms,
                                                          .closed = closed};
    if (closed) {
        l->closed_number = l->number;
        l->is_open = l->is_open && planted("left_before_last");
    }
    return l->number;
}

static void lapse(struct lease *l)
{
    l->is_open = false;
    l->horizon_number = l->number; /* only heartbeats that are sent from here on count */
}

/* A virtual machine that was paused may have a boot clock that stood still meanwhile: then more time
 * has passed between two appends than between the two sends. Delays of the appends move this by
 * their difference, so it has to be more than half a lease. */
static bool stood_still(const struct lease *l, uint64_t sent_ms, uint64_t append_ms)
{
    return l->append_ms != 0 && append_ms > l->append_ms && sent_ms >= l->append_sent_ms &&
           append_ms - l->append_ms > sent_ms - l->append_sent_ms + l->option_ms / 2;
}

bool lease_read_back(struct lease *l, const struct entry *e, uint64_t offset, uint64_t append_ms,
                     uint64_t now_ms, uint64_t *ret_sent_ms)
{
    *ret_sent_ms = 0;
    struct lease_sent *s = newest_with(l, e->nonce);
    if (s == NULL)
        return e->heartbeat.number + LEASE_SENT <= l->number; /* too old to be remembered */
    *ret_sent_ms = s->sent_ms;
    if (s->is_read && !planted("nonce_reused")) return true; /* the log has it twice */
    s->is_read = true;
    s->offset = offset;
    if (planted("horizon_at_read")) s->sent_ms = now_ms;
    if (s->number < l->read_number) return true;
    l->read_number = s->number;
    l->read_ms = now_ms;
    if (stood_still(l, s->sent_ms, append_ms)) lapse(l);
    l->append_ms = append_ms;
    l->append_sent_ms = s->sent_ms;
    return true;
}

void lease_applied(struct lease *l, uint64_t applied)
{
    for (uint64_t i = 0; i < LEASE_SENT && i < l->number; i++) {
        const struct lease_sent *s = &l->sent[(l->number - i) % LEASE_SENT];
        if (s->number <= l->horizon_number) return;
        if (s->number < l->closed_number && !planted("closed_opened_early")) return;
        if (!s->is_read || s->closed || s->offset >= applied) continue;
        l->is_open = true;
        l->horizon_ms = s->sent_ms;
        l->horizon_number = s->number;
        l->horizon_lease_ms = s->lease_ms;
        return;
    }
}

bool lease_admits(const struct lease *l, uint64_t now_ms)
{
    uint32_t lease_ms = planted("own_lease") ? l->option_ms : l->horizon_lease_ms;
    return l->is_open && now_ms - l->horizon_ms <= lease_ms;
}

bool lease_must_close(const struct lease *l, uint64_t now_ms)
{
    if (lease_admits(l, now_ms)) return false;
    bool read_a_closed_one =
        l->closed_number > l->horizon_number && l->read_number > l->horizon_number;
    return !read_a_closed_one || now_ms - l->read_ms > LEASE_READ_LATELY_MS;
}
