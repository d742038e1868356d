#include "fleet/peers.h"

#include "base/map.h"
#include "base/planted.h"

/* The wait for a lease, with the allowance for the rates of two clocks. */
static uint64_t wait_of(uint32_t lease_ms) { return lease_ms + lease_ms / 100 + 2; }

void peers_begin(struct peers *p, const struct peers *saved, uint64_t now_ms)
{
    *p = (struct peers){0};
    if (saved == NULL || planted("answered_before_followed")) return;
    *p = *saved;
    for (unsigned i = 0; i < p->count; i++) {
        p->list[i].read_ms = 0;
        p->list[i].lapses_ms = now_ms + wait_of(p->list[i].longest_lease_ms);
    }
    p->others_lapse_ms = now_ms + wait_of(p->others_longest_lease_ms);
}

void peers_save(const struct peers *p, uint64_t now_ms, struct peers *ret)
{
    *ret = (struct peers){.others_lapse_ms = p->others_lapse_ms};
    if (now_ms < p->others_lapse_ms) ret->others_longest_lease_ms = p->others_longest_lease_ms;
    for (unsigned i = 0; i < p->count; i++)
        if (now_ms < p->list[i].lapses_ms) ret->list[ret->count++] = p->list[i];
}

/* An incarnation whose leases have passed, or a free place; NULL: there is none. */
static struct peer *place_for(struct peers *p, uint64_t now_ms)
{
    for (unsigned i = 0; i < p->count; i++)
        if (now_ms >= p->list[i].lapses_ms) return &p->list[i];
    return p->count < PEERS_MAX ? &p->list[p->count++] : NULL;
}

static struct peer *find(struct peers *p, const struct incarnation *id)
{
    for (unsigned i = 0; i < p->count; i++)
        if (incarnation_equal(&p->list[i].incarnation, id)) return &p->list[i];
    return NULL;
}

void peers_read(struct peers *p, const struct entry *heartbeat, uint64_t applied, uint64_t offset,
                uint64_t append_ms, uint64_t now_ms)
{
    const struct heartbeat *h = &heartbeat->heartbeat;
    uint64_t lapses_ms = h->closed ? now_ms : now_ms + wait_of(h->lease_ms);
    struct peer *peer = find(p, &heartbeat->incarnation);
    if (peer == NULL) {
        peer = place_for(p, now_ms);
        if (peer == NULL) {
            if (lapses_ms > p->others_lapse_ms) p->others_lapse_ms = lapses_ms;
            if (h->lease_ms > p->others_longest_lease_ms) p->others_longest_lease_ms = h->lease_ms;
            return;
        }
        *peer = (struct peer){.incarnation = heartbeat->incarnation, .first_offset = offset};
    }
    if (h->number <= peer->number && !planted("late_heartbeat_taken"))
        return; /* it came late: its sender has withdrawn it */
    peer->number = h->number;
    peer->node = hash_bytes(heartbeat->node.bytes, heartbeat->node.size);
    peer->read_ms = now_ms;
    peer->append_ms = append_ms;
    peer->kept = h->kept;
    peer->closed = h->closed;
    peer->reaches = h->reaches;
    if (applied > peer->applied) peer->applied = applied;
    if (lapses_ms > peer->lapses_ms) peer->lapses_ms = lapses_ms;
    if (h->lease_ms > peer->longest_lease_ms) peer->longest_lease_ms = h->lease_ms;
}

bool peers_settled(const struct peers *p, uint64_t offset, uint64_t now_ms)
{
    if (planted("revocation_not_settled")) return true;
    for (unsigned i = 0; i < p->count; i++) {
        const struct peer *peer = &p->list[i];
        bool is_done = peer->closed || peer->applied > offset || peer->first_offset > offset ||
                       now_ms >= peer->lapses_ms;
        if (!is_done) return false;
    }
    return now_ms >= p->others_lapse_ms;
}

static bool is_fresh(const struct peer *peer, uint64_t now_ms)
{
    return peer->read_ms != 0 && now_ms - peer->read_ms <= PEER_FRESH_MS;
}

bool peers_miss_leader(const struct peers *p, const struct incarnation *except, uint64_t now_ms)
{
    unsigned fresh = 0, missing = 0;
    for (unsigned i = 0; i < p->count; i++) {
        const struct peer *peer = &p->list[i];
        if (incarnation_equal(&peer->incarnation, except)) continue;
        if (!is_fresh(peer, now_ms)) continue;
        fresh++;
        missing += !peer->reaches;
    }
    return missing * 2 > fresh;
}

/* Whether the peer at `index` is an engine that runs, and that none before it is. */
static bool counts_once(const struct peers *p, unsigned index, uint64_t newest_append_ms,
                        uint64_t now_ms)
{
    const struct peer *peer = &p->list[index];
    if (peer->append_ms + PEER_FRESH_MS < newest_append_ms) return false;
    for (unsigned i = 0; i < index; i++)
        if (p->list[i].node == peer->node && is_fresh(&p->list[i], now_ms)) return false;
    return true;
}

uint64_t peers_kept(const struct peers *p, uint64_t now_ms)
{
    unsigned keeping = 0;
    uint64_t newest_append_ms = 0;
    for (unsigned i = 0; i < p->count; i++)
        if (p->list[i].append_ms > newest_append_ms) newest_append_ms = p->list[i].append_ms;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < p->count; i++) {
        const struct peer *peer = &p->list[i];
        if (!is_fresh(peer, now_ms)) continue;
        keeping += counts_once(p, i, newest_append_ms, now_ms);
        if (peer->kept < least && !planted("trimmed_past_snapshots")) least = peer->kept;
        if (peer->applied < least) least = peer->applied;
    }
    return keeping >= PEERS_KEEPING ? least : 0;
}

uint64_t peers_latest_kept(const struct peers *p, uint64_t now_ms)
{
    uint64_t latest = 0;
    for (unsigned i = 0; i < p->count; i++)
        if (is_fresh(&p->list[i], now_ms) && p->list[i].kept > latest) latest = p->list[i].kept;
    return latest;
}
