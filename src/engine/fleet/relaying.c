#include "engine/fleet/relaying.h"

#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "engine/engine.h"
#include "fleet/relay.h"

enum { MARK_TEXT = 128, ANSWER_MARGIN_MS = 30000 };

static void note_reach(void *context, bool reaches) { fleet_member_note_reach(context, reaches); }

void relaying_begin(struct engine_reactor *w)
{
    struct relaying *r = &w->relaying;
    struct engine *e = w->engine;
    r->member = e->member;
    if (r->member == NULL) return;
    r->follows = true;
    /* the answer to a revocation may take the longest fleet lease */
    r->to_leader = forward_create_to_leader(
        &w->api, w->loop, &w->server, e->tls,
        (uint32_t)(e->config.connections_max / e->reactor_count + 1),
        (uint32_t)ENTRY_LEASE_MAX_MS + ENTRY_LEASE_MAX_MS / 100 + ANSWER_MARGIN_MS, note_reach,
        r->member);
}

void relaying_end(struct engine_reactor *w) { forward_destroy(w->relaying.to_leader); }

static void follow(struct engine_reactor *w)
{
    struct relaying *r = &w->relaying;
    struct fleet_leader leader;
    char bytes[MARK_TEXT];
    struct buf mark = buf_over(bytes, sizeof bytes);
    fleet_member_leader(r->member, &leader);
    r->term = leader.term; /* or a newer one, which was read meanwhile */
    relay_put_header(&mark, str_from(w->engine->node), leader.term);
    /* Its own address, too: what came before it serves goes to itself, and is served a moment later. */
    forward_lead(r->to_leader, str_from(leader.address), buf_view(&mark));
}

void relaying_turn(struct engine_reactor *w)
{
    struct relaying *r = &w->relaying;
    r->follows = !fleet_member_leads(r->member);
    const uint64_t term = fleet_member_term(r->member);
    if (term > r->term) follow(w);
}

bool relaying_asks(struct relaying *r, struct id key, uint64_t now_ms)
{
    const size_t at = hash_bytes((const char *)key.bytes, sizeof key.bytes) % RELAYED_NOES_KEYS;
    const uint64_t second = now_ms / 1000;
    /* keys that share a place in one second share its bound */
    if (r->noes[at].second != second) {
        r->noes[at].second = second;
        r->noes[at].key = key;
        r->noes[at].count = 0;
    }
    if (r->noes[at].count >= RELAYED_NOES) return false;
    r->noes[at].count++;
    return true;
}

/* ERR_OK: it is for this leader, and this term. */
static enum err check_relayed(const struct engine_reactor *w, struct str header, struct fault *f)
{
    const struct relaying *r = &w->relaying;
    struct str node;
    uint64_t wanted;
    if (!relay_read_header(header, &node, &wanted))
        return fault_set(f, ERR_BAD_HEADER, "", "Writ-Relay: is not NODE/TERM");
    if (!r->follows && relay_is_served(wanted, fleet_member_term(r->member))) return ERR_OK;
    return fault_set(f, ERR_LEADER_CHANGED, "",
                     "this engine does not lead the fleet in term %llu, for which %.*s relayed the "
                     "request; nothing of it was done: try again",
                     (unsigned long long)wanted, STR_FORMAT(node));
}

static bool is_read(const struct http_route *route) { return route->effect == EFFECT_READ; }

/* What this copy knows about a token that it refuses. */
struct refused_token {
    struct engine_reactor *w;
    struct id key;    /* that minted it; zeros: the text is no token that was signed here */
    bool is_accepted; /* or its caller shows a key */
    bool is_final;    /* the leader has the same answer */
};

static void note_refused(void *context, const struct http_exchange *x, const struct token_claims *t,
                         enum err err)
{
    struct refused_token *r = context;
    (void)x;
    r->key = t->key;
    r->is_final = err == ERR_CREDENTIAL_EXPIRED || revoked_view_token(r->w->revoked, t->id);
}

static bool token_is_dead(void *context, const struct token_claims *t)
{
    return engine_reactor_token_is_dead(((struct refused_token *)context)->w, t);
}

/* Looks at a token as the handler will, without a record of what is refused. */
static struct refused_token look_at_token(struct engine_reactor *w, struct http_exchange *x)
{
    struct refused_token r = {.w = w, .is_accepted = true};
    struct caller caller;
    struct fault f;
    if (x->kept != NULL && x->kept->what != NULL) return r; /* the head of a key */
    if (!api_shows_token(x)) return r;
    struct api quiet = w->api;
    quiet.is_quiet = true;
    quiet.on_token_rejected = note_refused;
    quiet.token_is_dead = token_is_dead;
    quiet.context = &r;
    r.is_accepted = err_status(api_identify(&quiet, x, ~0u, world_now_ms(), &caller, &f)) != 401;
    return r;
}

enum relay_course relaying_course(struct engine_reactor *w, struct http_exchange *x,
                                  struct fault *f)
{
    struct relaying *r = &w->relaying;
    const struct http_route *route = x->route;
    struct caller caller;
    if (route->state == STATE_NONE) return RELAY_SERVED_HERE;
    const struct str relayed = http_header_get(x, STR("writ-relay"));
    if (!str_is_absent(relayed) && check_relayed(w, relayed, f) != ERR_OK) return RELAY_REFUSED;
    if (!r->follows) return RELAY_SERVED_HERE;
    const struct refused_token t = look_at_token(w, x);
    static const struct id none;
    if (!t.is_accepted) {
        const bool asks = !t.is_final && relaying_asks(r, t.key, world_now_ms());
        /* the handler refuses it */
        if (t.is_final || (!asks && id_equal(t.key, none))) return RELAY_SERVED_HERE;
        if (!asks) {
            (void)fault_set(f, ERR_OVERLOADED, "", "%s", RELAYED_NOES_TEXT);
            return RELAY_REFUSED;
        }
    } else if (route->state == STATE_DECIDES) {
        return RELAY_SERVED_HERE;
    } else if (api_identify(&w->api, x, route->roles, world_now_ms(), &caller, f) != ERR_OK) {
        return RELAY_REFUSED;
    }
    forward_relay(r->to_leader, x, is_read(route));
    return RELAY_UNDER_WAY;
}
