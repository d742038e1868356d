#include "pipeline/ingest/lease.h"

#include <stdlib.h>

static bool same(const char a[LEASE_OWNER_TEXT], const char b[LEASE_OWNER_TEXT])
{
    return memcmp(a, b, LEASE_OWNER_TEXT) == 0;
}

void lease_init(struct lease *l, const char me[LEASE_OWNER_TEXT])
{
    memset(l, 0, sizeof *l);
    memcpy(l->me, me, LEASE_OWNER_TEXT);
}

void lease_fini(struct lease *l)
{
    free(l->members);
    l->members = NULL;
    l->member_count = l->member_room = 0;
}

/* NULL: out of memory; then this member gets no share here. */
static struct lease_member *add_member(struct lease *l)
{
    if (l->member_count == l->member_room) {
        uint32_t room = l->member_room == 0 ? 16 : l->member_room * 2;
        struct lease_member *more = realloc(l->members, room * sizeof *more);
        if (more == NULL) return NULL;
        l->members = more;
        l->member_room = room;
    }
    return &l->members[l->member_count++];
}

void lease_look_begin(struct lease *l)
{
    for (uint32_t i = 0; i < l->member_count; i++) l->members[i].is_there = false;
}

void lease_saw_member(struct lease *l, struct str owner, uint64_t heartbeat, uint64_t monotonic_ms)
{
    if (owner.size != LEASE_OWNER_TEXT) return;
    struct lease_member *m = NULL;
    for (uint32_t i = 0; i < l->member_count && m == NULL; i++)
        if (same(l->members[i].owner, owner.bytes)) m = &l->members[i];
    if (m == NULL) {
        m = add_member(l);
        if (m == NULL) return;
        *m = (struct lease_member){.heartbeat = heartbeat, .seen_ms = monotonic_ms};
        memcpy(m->owner, owner.bytes, LEASE_OWNER_TEXT);
    }
    if (m->heartbeat != heartbeat) m->seen_ms = monotonic_ms;
    m->heartbeat = heartbeat;
    m->is_there = true;
}

void lease_look_end(struct lease *l)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->member_count; i++)
        if (l->members[i].is_there) l->members[kept++] = l->members[i];
    l->member_count = kept;
}

static bool is_live(const struct lease *l, const struct lease_member *m, uint64_t monotonic_ms)
{
    return same(m->owner, l->me) || monotonic_ms - m->seen_ms < LEASE_MS;
}

bool lease_is_alive(const struct lease *l, const char owner[LEASE_OWNER_TEXT],
                    uint64_t monotonic_ms)
{
    for (uint32_t i = 0; i < l->member_count; i++)
        if (same(l->members[i].owner, owner)) return is_live(l, &l->members[i], monotonic_ms);
    return same(owner, l->me);
}

bool lease_is_mine(const struct lease *l, uint32_t partition)
{
    return partition < l->partition_count && l->partitions[partition].is_owned &&
           same(l->partitions[partition].owner, l->me);
}

/* The number of partitions of `me`: an equal part; the first members by name get the remainder. */
static uint32_t share_of(const struct lease *l, uint64_t monotonic_ms)
{
    uint32_t live = 1, before = 0;
    for (uint32_t i = 0; i < l->member_count; i++) {
        const struct lease_member *m = &l->members[i];
        if (same(m->owner, l->me) || !is_live(l, m, monotonic_ms)) continue;
        live++;
        if (memcmp(m->owner, l->me, LEASE_OWNER_TEXT) < 0) before++;
    }
    return l->partition_count / live + (before < l->partition_count % live ? 1 : 0);
}

bool lease_decide(struct lease *l, uint64_t monotonic_ms)
{
    uint32_t share = share_of(l, monotonic_ms), mine = 0;
    bool changed = false;
    for (uint32_t i = 0; i < l->partition_count; i++) mine += lease_is_mine(l, i);
    for (uint32_t i = l->partition_count; i > 0 && mine > share; i--) {
        if (!lease_is_mine(l, i - 1)) continue;
        l->partitions[i - 1].is_owned = false;
        mine--;
        changed = true;
    }
    for (uint32_t i = 0; i < l->partition_count && mine < share; i++) {
        struct lease_partition *p = &l->partitions[i];
        if (p->is_owned && lease_is_alive(l, p->owner, monotonic_ms)) continue;
        memcpy(p->owner, l->me, LEASE_OWNER_TEXT);
        p->is_owned = true;
        mine++;
        changed = true;
    }
    return changed;
}
