#include "engine/fleet/roster.h"

#include <stdio.h>

#include "base/check.h"

static void forget_old(struct roster *r)
{
    for (unsigned i = r->count; i-- > 0;)
        if (roster_age_ms(r, &r->list[i]) > ROSTER_FORGET_MS) r->list[i] = r->list[--r->count];
}

static struct roster_member *row_of(struct roster *r, struct str node)
{
    struct roster_member *oldest = &r->list[0];
    for (unsigned i = 0; i < r->count; i++) {
        if (str_equal(str_from(r->list[i].node), node)) return &r->list[i];
        if (r->list[i].append_ms < oldest->append_ms) oldest = &r->list[i];
    }
    return r->count < ROSTER_MAX ? &r->list[r->count++] : oldest;
}

void roster_read(struct roster *r, const struct entry *heartbeat, uint64_t append_ms)
{
    check(heartbeat->kind == ENTRY_HEARTBEAT);
    const struct heartbeat *h = &heartbeat->heartbeat;
    if (append_ms > r->log_ms) r->log_ms = append_ms;
    forget_old(r);
    struct roster_member *m = row_of(r, heartbeat->node);
    *m = (struct roster_member){.incarnation = heartbeat->incarnation,
                                .applied = h->applied,
                                .append_ms = append_ms,
                                .lease_ms = h->lease_ms,
                                .known_format = h->known_format,
                                .closed = h->closed,
                                .works = h->works,
                                .reaches = h->reaches};
    snprintf(m->node, sizeof m->node, "%.*s", STR_FORMAT(heartbeat->node));
    snprintf(m->address, sizeof m->address, "%.*s", STR_FORMAT(heartbeat->address));
    snprintf(m->version, sizeof m->version, "%.*s", STR_FORMAT(h->version));
}

enum roster_state roster_state(const struct roster *r, const struct roster_member *m)
{
    if (roster_age_ms(r, m) > ROSTER_SILENT_MS) return m->closed ? ROSTER_LEFT : ROSTER_SILENT;
    if (m->works) return ROSTER_LEADS;
    return m->closed ? ROSTER_CLOSED : ROSTER_FOLLOWS;
}

bool roster_counts(const struct roster *r, const struct roster_member *m)
{
    const enum roster_state state = roster_state(r, m);
    return state < ROSTER_SILENT || (state == ROSTER_SILENT && roster_age_ms(r, m) <= m->lease_ms);
}

const char *roster_state_text(enum roster_state state)
{
    static const char *const texts[] = {[ROSTER_LEADS] = "leads",
                                        [ROSTER_FOLLOWS] = "follows",
                                        [ROSTER_CLOSED] = "closed",
                                        [ROSTER_SILENT] = "silent",
                                        [ROSTER_LEFT] = "left"};
    return texts[state];
}

static unsigned count(const struct roster *r, enum roster_state least, enum roster_state most)
{
    unsigned found = 0;
    for (unsigned i = 0; i < r->count; i++) {
        const enum roster_state state = roster_state(r, &r->list[i]);
        found += state >= least && state <= most;
    }
    return found;
}

unsigned roster_present(const struct roster *r) { return count(r, ROSTER_LEADS, ROSTER_CLOSED); }
unsigned roster_silent(const struct roster *r) { return count(r, ROSTER_SILENT, ROSTER_SILENT); }

const struct roster_member *roster_find(const struct roster *r, struct str node)
{
    for (unsigned i = 0; i < r->count; i++)
        if (str_equal(str_from(r->list[i].node), node)) return &r->list[i];
    return NULL;
}
