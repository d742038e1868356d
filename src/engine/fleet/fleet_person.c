/* fleet_person.c - what people see of a fleet, and ask of its leader.
 *
 *   hand over   the leader refuses new requests of the state --quiet, or a second--> its heartbeats name
 *               the successor, which stands at once --TERM read--> this process ends, as any leader that
 *               lost its lead. Without a TERM within HAND_OVER_MS the leader goes on.
 *   raise       the leader's next entry, or a barrier, has the next format. */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "engine/fleet/member_inside.h"

enum { HAND_OVER_MS = 5000, QUIET_MS = 1000 };

/* ---- what they see ---- */

void fleet_member_view(struct fleet_member *m, struct fleet_view *ret, struct roster *ret_roster)
{
    const uint64_t until_ms = atomic_load(&m->admits_until_ms), now_ms = world_boot_ms();
    *ret = (struct fleet_view){.id = m->id,
                               .lease_left_ms = until_ms > now_ms ? until_ms - now_ms : 0};
    pthread_mutex_lock(&m->lock);
    ret->leader = m->leader;
    ret->next_offset = m->next_offset;
    ret->format = m->format;
    memcpy(ret->ended, m->broken, sizeof ret->ended);
    if (ret_roster != NULL) *ret_roster = m->roster;
    pthread_mutex_unlock(&m->lock);
}

bool fleet_member_worry(struct fleet_member *m, char to[FLEET_REASON_TEXT])
{
    struct buf text = buf_over(to, FLEET_REASON_TEXT - 1);
    pthread_mutex_lock(&m->lock);
    const struct roster *r = &m->roster;
    for (unsigned i = 0; i < r->count; i++) {
        const struct roster_member *one = &r->list[i];
        const enum roster_state state = roster_state(r, one);
        const char *worry = state == ROSTER_SILENT                    ? "sends no heartbeats"
                            : state <= ROSTER_CLOSED && !one->reaches ? "does not reach the leader"
                                                                      : NULL;
        const size_t before = text.size;
        if (worry == NULL) continue;
        if (before > 0) buf_put_literal(&text, "; ");
        buf_printf(&text, "%.64s %s", one->node, worry);
        if (text.overflow) text.size = before;
        if (text.overflow) break;
    }
    pthread_mutex_unlock(&m->lock);
    to[text.size] = '\0';
    return text.size > 0;
}

/* ---- what they ask for ---- */

static enum err check_successor(const struct roster *r, const struct roster_member *one,
                                struct str node, struct fault *f)
{
    if (one == NULL)
        return fault_set(
            f, ERR_NOT_FOUND, "/node",
            "node: no engine of the fleet has the name \"%.*s\"; writ fleet lists them",
            STR_FORMAT(node));
    const enum roster_state state = roster_state(r, one);
    if (state == ROSTER_LEADS) return ERR_OK;
    if (state != ROSTER_FOLLOWS || !one->reaches)
        return fault_set(f, ERR_FLEET_MEMBER_UNFIT, "/node",
                         "%s cannot lead now: it is %s%s; the lead stays where it is", one->node,
                         roster_state_text(state),
                         one->reaches ? "" : ", and does not reach the leader");
    return ERR_OK;
}

enum err fleet_member_hand_over(struct fleet_member *m, struct str node, struct fault *f)
{
    pthread_mutex_lock(&m->lock);
    const struct roster_member *one = roster_find(&m->roster, node);
    enum err err = check_successor(&m->roster, one, node, f);
    const bool leads = m->leader.is_self && str_equal(node, str_from(m->leader.node));
    if (err == ERR_OK) m->successor = one->incarnation;
    pthread_mutex_unlock(&m->lock);
    if (err != ERR_OK || leads) return err;
    atomic_store(&m->hands_over, true);
    statelog_wake(m->log);
    return ERR_OK;
}

enum err fleet_member_raise(struct fleet_member *m, uint16_t *ret, struct fault *f)
{
    enum err err = ERR_OK;
    pthread_mutex_lock(&m->lock);
    const struct roster *r = &m->roster;
    const bool is_newest = m->format >= entry_format_newest();
    *ret = is_newest ? m->format : m->format + 1;
    for (unsigned i = 0; err == ERR_OK && i < r->count; i++)
        if (r->list[i].known_format < *ret && roster_counts(r, &r->list[i]))
            err = fault_set(f, ERR_FLEET_MEMBER_UNFIT, "",
                            "%s (version %.32s) does not know format %u of the fleet's log, and "
                            "could not read it: upgrade that engine, or stop it, then try again",
                            r->list[i].node, r->list[i].version, *ret);
    pthread_mutex_unlock(&m->lock);
    if (err != ERR_OK || is_newest) return err;
    atomic_store(&m->raises, true);
    statelog_wake(m->log);
    return ERR_OK;
}

/* ---- the member's thread ---- */

static bool is_quiet(struct fleet_member *m)
{
    bool waits = m->sealed.first != NULL;
    for (unsigned i = 0; i < m->count; i++) waits = fleet_lane_waits(&m->lanes[i]) || waits;
    return !waits;
}

static void stop_handing_over(struct fleet_member *m)
{
    static const struct incarnation none;
    if (m->fleet.role == FLEET_LEADER)
        log_text(LOG_WARNING, "fleet_not_handed_over",
                 "the engine that was to lead did not stand within %d ms: this one goes on",
                 HAND_OVER_MS);
    fleet_hand_over(&m->fleet, none);
    m->hand_over_ms = 0;
    atomic_store(&m->hands_over, false);
}

static void hand_over(struct fleet_member *m)
{
    const uint64_t now_ms = world_boot_ms();
    if (m->hand_over_ms == 0) m->hand_over_ms = now_ms;
    const uint64_t waited_ms = now_ms - m->hand_over_ms;
    if (m->fleet.role != FLEET_LEADER || waited_ms > HAND_OVER_MS) {
        stop_handing_over(m);
        return;
    }
    if (!incarnation_is_none(&m->fleet.successor) || (!is_quiet(m) && waited_ms < QUIET_MS)) return;
    pthread_mutex_lock(&m->lock);
    const struct incarnation to = m->successor;
    pthread_mutex_unlock(&m->lock);
    fleet_hand_over(&m->fleet, to);
}

void member_person_turn(struct fleet_member *m)
{
    if (atomic_load(&m->hands_over)) hand_over(m);
    /* Once it is in force, or another engine leads, there is nothing to do. */
    if (atomic_load(&m->raises) &&
        (m->fleet.role != FLEET_LEADER || !fleet_raise_format(&m->fleet)))
        atomic_store(&m->raises, false);
}
