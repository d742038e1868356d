/* fleet_requests.c - GET /v1/fleet, and what people ask of a fleet's leader: POST /v1/fleet/lead and
 * /v1/fleet/upgrade.
 *
 * The view is that of the engine that answers. The two requests go to the leader. They belong to all
 * tenants, and are recorded in the leader's journal before they are answered. */
#include "base/check.h"
#include "engine/engine.h"
#include "engine/handlers.h"
#include "engine/runtime/caller_operation.h"
#include "engine/runtime/member.h"

enum { VIEW_BYTES_MAX = 128 << 10, EVENT_BYTES_MAX = 16 << 10, REASON_MAX = 1000, NODE_MAX = 256 };

static enum err admit(struct engine_reactor *w, const struct http_exchange *x, struct caller *ret,
                      struct fault *f)
{
    enum err err = api_admit(&w->api, x, x->route->roles, world_now_ms(), ret, f);
    if (err != ERR_OK || w->engine->member != NULL) return err;
    return fault_set(f, ERR_NOT_FOUND, "",
                     "this engine is in no fleet: its option fleet is not set");
}

/* ---- the view ---- */

static void put_number(struct buf *b, const char *before, uint64_t value)
{
    buf_put(b, str_from(before));
    buf_put_u64(b, value);
}

static void put_flag(struct buf *b, const char *before, bool value)
{
    buf_put(b, str_from(before));
    buf_put(b, value ? STR("true") : STR("false"));
}

static void put_text(struct buf *b, const char *before, const char *text)
{
    buf_put(b, str_from(before));
    if (text[0] == '\0')
        buf_put_literal(b, "null");
    else
        api_put_sentence(b, str_from(text));
}

static void put_member(struct buf *b, const struct fleet_view *v, const struct roster *r,
                       const struct roster_member *m, const char *self)
{
    const bool is_self = strcmp(m->node, self) == 0;
    const uint64_t age_ms = roster_age_ms(r, m);
    const uint64_t left_ms = m->closed || age_ms > m->lease_ms ? 0 : m->lease_ms - age_ms;
    put_text(b, "{\"node\":", m->node);
    put_text(b, ",\"state\":", roster_state_text(roster_state(r, m)));
    put_text(b, ",\"address\":", m->address);
    put_text(b, ",\"version\":", m->version);
    put_number(b, ",\"applied_offset\":", m->applied);
    put_number(b, ",\"lag\":", v->next_offset > m->applied ? v->next_offset - m->applied : 0);
    put_number(b, ",\"lease_left_ms\":", is_self ? v->lease_left_ms : left_ms);
    put_number(b, ",\"heartbeat_ms_ago\":", age_ms);
    put_number(b, ",\"known_format\":", m->known_format);
    put_flag(b, ",\"reaches_leader\":", m->reaches);
    put_flag(b, ",\"is_self\":", is_self);
    buf_put_byte(b, '}');
}

static void put_view(struct buf *b, const struct engine *e, const struct fleet_view *v,
                     const struct roster *r)
{
    char id[2 * sizeof v->id.bytes + 1];
    hex_write(id, v->id.bytes, sizeof v->id.bytes);
    id[sizeof id - 1] = '\0';
    put_text(b, "{\"fleet\":", e->config.fleet);
    put_text(b, ",\"fleet_id\":", id);
    put_text(b, ",\"node\":", e->node);
    put_text(b, ",\"leader\":", v->leader.node);
    put_number(b, ",\"term\":", v->leader.term);
    put_number(b, ",\"format\":", v->format);
    put_number(b, ",\"next_offset\":", v->next_offset);
    put_number(b, ",\"lease_left_ms\":", v->lease_left_ms);
    put_text(b, ",\"reading_ended\":", v->ended);
    buf_put_literal(b, ",\"members\":[");
    for (unsigned i = 0; i < r->count; i++) {
        if (i > 0) buf_put_byte(b, ',');
        put_member(b, v, r, &r->list[i], e->node);
    }
    buf_put_literal(b, "]}");
}

void fleet_view_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct caller caller;
    struct fault f;
    if (admit(w, x, &caller, &f) != ERR_OK) {
        api_refuse(&w->api, x, &f, (struct str){0});
        return;
    }
    struct fleet_view v;
    struct roster *roster = arena_new(x->arena, struct roster);
    char *bytes = arena_take(x->arena, VIEW_BYTES_MAX);
    if (roster == NULL || bytes == NULL) {
        (void)api_no_room(&f);
        api_refuse(&w->api, x, &f, (struct str){0});
        return;
    }
    struct buf b = buf_over(bytes, VIEW_BYTES_MAX);
    fleet_member_view(w->engine->member, &v, roster);
    put_view(&b, w->engine, &v, roster);
    check(!b.overflow);
    api_reply(&w->api, x, 200, buf_view(&b), (struct str){0});
}

/* ---- requests to the leader ---- */

struct asked {
    struct caller caller;
    struct str node, reason; /* absent: not given */
};

static enum err read_asked(struct engine_reactor *w, struct http_exchange *x, struct asked *ret,
                           struct fault *f)
{
    struct json *body = NULL;
    enum err err = admit(w, x, &ret->caller, f);
    if (err != ERR_OK) return err;
    if (!str_equal(ret->caller.key->tenant, STR("*")))
        return fault_set(f, ERR_WRONG_TENANT, "",
                         "a fleet belongs to all tenants: this needs a key whose tenant is *");
    if (x->body.size > 0) err = api_body(x, &body, f);
    if (err == ERR_OK) err = member_text(body, "node", NODE_MAX, &ret->node, f);
    return err == ERR_OK ? member_text(body, "reason", REASON_MAX, &ret->reason, f) : err;
}

/* In this engine's journal: it is about engines, not about their state. `what` is a sentence. */
static enum err record(struct engine_reactor *w, const struct asked *a, struct str what,
                       struct http_barrier *ret)
{
    char id[ID_TEXT], bytes[EVENT_BYTES_MAX], reason[REASON_MAX * 4 + 512];
    struct buf b = buf_over(bytes, sizeof bytes), why = buf_over(reason, sizeof reason);
    const struct requester by = caller_operation_requester(&a->caller);
    struct event e = {.kind = STR("engine.fleet"),
                      .tenant_id = STR("default"),
                      .timestamp = world_now_ms(),
                      .key_id = by.key_id,
                      .resolved_by = by.owner,
                      .engine_version = STR(WRIT_VERSION)};
    buf_put(&why, what);
    if (!str_is_absent(a->reason)) {
        buf_put_literal(&why, ": ");
        buf_put(&why, a->reason);
    }
    id_write("evt_", id_make(e.timestamp, &w->api.chance), id);
    e.event_id = str_of(id, ID_TEXT);
    e.reason = buf_view(&why);
    event_put(&b, &e);
    check(!b.overflow && !why.overflow);
    const struct str event = buf_view(&b);
    return commit_events(&w->commit, &event, 1, LANE_SYNCED, ret);
}

/* It may be done only if it can be recorded, and it is recorded only if it is done. */
static enum err find_room(struct engine_reactor *w, struct fault *f)
{
    enum err err = commit_room(&w->commit, EVENT_BYTES_MAX, false, LANE_SYNCED);
    return err == ERR_OK ? ERR_OK : fault_plain(f, err == ERR_FULL ? ERR_OVERLOADED : err);
}

static void finish(struct engine_reactor *w, struct http_exchange *x, const struct asked *a,
                   struct str what, struct str answer)
{
    struct fault f;
    struct http_barrier barrier;
    if (record(w, a, what, &barrier) == ERR_OK) {
        api_reply_at_barrier(&w->api, x, 200, answer, (struct str){0}, barrier);
        return;
    }
    (void)fault_plain(&f, ERR_INTERNAL);
    api_refuse(&w->api, x, &f, (struct str){0});
}

void fleet_lead_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct asked a;
    struct fault f;
    enum err err = read_asked(w, x, &a, &f);
    if (err == ERR_OK && str_is_absent(a.node))
        err = member_refuse(&f, ERR_MISSING_MEMBER, "node", "must name the engine that is to lead");
    if (err == ERR_OK) err = find_room(w, &f);
    if (err == ERR_OK) err = fleet_member_hand_over(w->engine->member, a.node, &f);
    if (err != ERR_OK) {
        api_refuse(&w->api, x, &f, (struct str){0});
        return;
    }
    char what[NODE_MAX * 4 + 64], bytes[NODE_MAX * 8 + 128];
    struct buf text = buf_over(what, sizeof what), answer = buf_over(bytes, sizeof bytes);
    buf_printf(&text, "this engine hands the lead of the fleet over to %.*s", STR_FORMAT(a.node));
    put_text(&answer, "{\"leader\":", w->engine->node);
    buf_put_literal(&answer, ",\"successor\":");
    json_put_string(&answer, a.node);
    put_number(&answer, ",\"term\":", fleet_member_term(w->engine->member));
    buf_put_byte(&answer, '}');
    finish(w, x, &a, buf_view(&text), buf_view(&answer));
}

void fleet_upgrade_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct asked a;
    struct fault f;
    uint16_t format = 0;
    enum err err = read_asked(w, x, &a, &f);
    if (err == ERR_OK) err = find_room(w, &f);
    if (err == ERR_OK) err = fleet_member_raise(w->engine->member, &format, &f);
    if (err != ERR_OK) {
        api_refuse(&w->api, x, &f, (struct str){0});
        return;
    }
    char what[128], bytes[64];
    struct buf text = buf_over(what, sizeof what), answer = buf_over(bytes, sizeof bytes);
    buf_printf(&text, "the log of the fleet gets format %u", format);
    put_number(&answer, "{\"format\":", format);
    buf_put_byte(&answer, '}');
    finish(w, x, &a, buf_view(&text), buf_view(&answer));
}
