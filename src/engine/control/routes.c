/* routes.c - every path that the engine serves, with its roles, and what it has to do with the state
 * of a fleet, in one table. The handler checks the caller (caller_operation_begin(), api_admit()),
 * because a dry run takes other roles than the route. If no parameters are named, any is accepted. A route that changes something names the members
 * of its body. One that decides does not: a request may have members of the client's own.
 *
 * The platform's paths are here too. If `platform.url` is set, they are forwarded with the caller's
 * own credential, so that one address serves a client. */
#include "base/check.h"
#include "base/limits.h"
#include "base/map.h"
#include "engine/handlers.h"
#include "engine/decision/auth_request.h"
#include "engine/engine.h"
#include "engine/control/takeover.h"
#include "engine/decision/traced.h"
#include "pipeline/spans/trace_context.h"

static const enum auth_request_form agent_form = ASK_AGENT, tool_form = ASK_TOOL,
                                    user_form = ASK_USER;

/* The platform cannot verify this engine's tokens, so it accepts none. */
static enum err refuse_token(struct engine_reactor *w, const struct http_exchange *x,
                             struct fault *f)
{
    struct caller caller;
    if (bundle_facts(w->bundle)->revision == 0 || !api_shows_token(x)) return ERR_OK;
    return api_identify(&w->api, x, ~(uint32_t)ROLE_TOKEN, world_now_ms(), &caller, f);
}

static void route_forward(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct fault f;
    check(x->route->roles == 0); /* the platform checks them */
    if (w->forward != NULL) {
        if (refuse_token(w, x, &f) == ERR_OK)
            forward_exchange(w->forward, x);
        else
            api_refuse(&w->api, x, &f, (struct str){0});
        return;
    }
    (void)fault_set(&f, ERR_NOT_FOUND, "",
                    "the platform serves this path, but this engine's platform.url is not set");
    api_refuse(&w->api, x, &f, (struct str){0});
}

/* What restricts something, and what people decide, has no rate: an agent cannot use it up for them. */
enum {
    RATES_OF_READS = RATE_BIT(RATE_REQUESTS) | RATE_BIT(RATE_CPU) | RATE_BIT(RATE_CONNECTIONS),
    RATES_OF_RECORDS = RATES_OF_READS | RATE_BIT(RATE_JOURNAL),
};

#define DECIDES(path, form, role_bits)                                                             \
    {                                                                                              \
        .method = HTTP_POST, .pattern = path, .body = HTTP_BODY_JSON, .handle = authorize_handle,  \
        .extra = &form, .parameters = "dry_run explain tenant_id", .roles = role_bits,             \
        .effect = EFFECT_LOOSEN, .state = STATE_DECIDES, .may_be_shed = true,                      \
        .rates = RATES_OF_RECORDS                                                                  \
    }
/* Each item needs the role of its own form. */
#define DECIDES_SEVERAL(path, function)                                                            \
    {                                                                                              \
        .method = HTTP_POST, .pattern = path, .body = HTTP_BODY_JSON, .handle = function,          \
        .parameters = "tenant_id", .roles = ASKS, .effect = EFFECT_LOOSEN, .state = STATE_DECIDES, \
        .may_be_shed = true, .rates = RATES_OF_RECORDS                                             \
    }
#define ASKS (ROLE_AGENT | ROLE_APP | ROLE_TOKEN) /* the roles that may have requested a review */
#define PUBLIC(path, function)                                                                     \
    {                                                                                              \
        .method = HTTP_GET, .pattern = path, .handle = function, .parameters = "",                 \
        .effect = EFFECT_READ                                                                      \
    }
#define FORWARD(verb, path, kind, most)                                                            \
    {                                                                                              \
        .method = verb, .pattern = path, .body = kind, .body_max = most, .handle = route_forward,  \
        .effect = EFFECT_READ                                                                      \
    }
/* The platform decides who may use it, but a body of megabytes is not read before the role is
 * checked. */
#define FORWARD_LARGE(verb, path, kind, most, role_bits)                                           \
    {                                                                                              \
        .method = verb, .pattern = path, .body = kind, .body_max = most, .handle = route_forward,  \
        .extra = &role_bits, .effect = EFFECT_READ                                                 \
    }

static const uint32_t policy_roles = ROLE_POLICY_ADMIN | ROLE_ADMIN, ingest_roles = ROLE_INGEST;

const struct http_route engine_routes[] = {
    DECIDES("/api/v1/authorize", tool_form, ROLE_AGENT | ROLE_TOKEN),
    DECIDES("/v1/agent/authorize", agent_form, ROLE_AGENT | ROLE_TOKEN),
    DECIDES("/v1/authorize", user_form, ROLE_APP),
    DECIDES_SEVERAL("/v1/authorize/batch", authorize_batch_handle),
    DECIDES_SEVERAL("/access/v1/evaluation", authzen_evaluation_handle),
    DECIDES_SEVERAL("/access/v1/evaluations", authzen_evaluations_handle),
    {.method = HTTP_GET,
     .pattern = "/v1/queue/pending",
     .handle = queue_pending_handle,
     .rates = RATES_OF_READS,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .roles = ASKS | ROLE_REVIEWER,
     .parameters = "limit cursor actor action mine order tenant_id"},
    {.method = HTTP_GET,
     .pattern = "/v1/queue",
     .handle = queue_list_handle,
     .rates = RATES_OF_READS,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .roles = ASKS | ROLE_REVIEWER,
     .parameters = "limit cursor actor action status mine order tenant_id"},
    {.method = HTTP_GET,
     .pattern = "/v1/queue/{id}",
     .handle = queue_get_handle,
     .rates = RATES_OF_READS,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .roles = ASKS | ROLE_REVIEWER,
     .parameters = "tenant_id"},
    {.method = HTTP_GET,
     .pattern = "/v1/queue/{id}/wait",
     .handle = queue_wait_handle,
     .rates = RATES_OF_READS,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .roles = ASKS | ROLE_REVIEWER,
     .parameters = "timeout_ms tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/queue/{id}/approve",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "note resolved_by tenant_id",
     .handle = queue_approve_handle,
     .effect = EFFECT_LOOSEN,
     .state = STATE_LEADER,
     .roles = ROLE_REVIEWER,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/queue/{id}/deny",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "note resolved_by tenant_id",
     .handle = queue_deny_handle,
     .effect = EFFECT_TIGHTEN,
     .state = STATE_LEADER,
     .roles = ROLE_REVIEWER,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/queue/{id}/revoke",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "note resolved_by tenant_id",
     .handle = queue_revoke_handle,
     .effect = EFFECT_TIGHTEN,
     .state = STATE_LEADER,
     .roles = ROLE_REVIEWER | ROLE_ADMIN,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/queue/{id}/redeem",
     .body = HTTP_BODY_JSON,
     .handle = queue_redeem_handle,
     .rates = RATES_OF_RECORDS,
     .effect = EFFECT_LOOSEN,
     .state = STATE_LEADER,
     .roles = ASKS,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/queue/{id}/cancel",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "tenant_id",
     .handle = queue_cancel_handle,
     .effect = EFFECT_TIGHTEN,
     .state = STATE_LEADER,
     .roles = ROLE_AGENT | ROLE_APP,
     .parameters = "tenant_id"},

    {.method = HTTP_GET,
     .pattern = "/v1/actors",
     .handle = actor_list_handle,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .roles = ROLE_ADMIN,
     .parameters = "limit cursor tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/actors/{actor}/suspend",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "reason tenant_id",
     .handle = actor_suspend_handle,
     .effect = EFFECT_TIGHTEN,
     .state = STATE_LEADER,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/actors/{actor}/resume",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "reason tenant_id",
     .handle = actor_resume_handle,
     .effect = EFFECT_LOOSEN,
     .state = STATE_LEADER,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id"},

    {.method = HTTP_POST,
     .pattern = "/v1/tokens/mint",
     .body = HTTP_BODY_JSON,
     .members = "acting_for actor audience max_uses scope tenant_id ttl_seconds",
     .handle = token_mint_handle,
     .rates = RATES_OF_RECORDS,
     .effect = EFFECT_LOOSEN,
     .state = STATE_LEADER,
     .may_be_shed = true,
     .roles = ROLE_AGENT,
     .parameters = "tenant_id"},
    {.method = HTTP_GET,
     .pattern = "/v1/tokens",
     .handle = token_list_handle,
     .rates = RATES_OF_READS,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .roles = ROLE_AGENT | ROLE_ADMIN,
     .parameters = "limit cursor actor acting_for active tenant_id"},
    {.method = HTTP_DELETE,
     .pattern = "/v1/tokens/{tokenID}",
     .handle = token_revoke_handle,
     .effect = EFFECT_TIGHTEN,
     .state = STATE_LEADER,
     .roles = ROLE_AGENT | ROLE_ADMIN,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/tokens/introspect",
     .body = HTTP_BODY_FORM_OR_JSON,
     .handle = token_introspect_handle,
     .rates = RATES_OF_READS,
     .effect = EFFECT_READ,
     .state = STATE_LEADER,
     .may_be_shed = true,
     .roles = ROLE_AGENT | ROLE_APP | ROLE_ADMIN,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/v1/signer/rotate",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "now",
     .handle = signer_rotate_handle,
     .effect = EFFECT_TIGHTEN,
     .state = STATE_LEADER,
     .roles = ROLE_ADMIN,
     .parameters = ""},
    {.method = HTTP_GET,
     .pattern = "/v1/fleet",
     .handle = fleet_view_handle,
     .effect = EFFECT_READ,
     .roles = ROLE_ADMIN | ROLE_METRICS,
     .parameters = ""},
    {.method = HTTP_POST,
     .pattern = "/v1/fleet/lead",
     .body = HTTP_BODY_JSON,
     .members = "node reason",
     .handle = fleet_lead_handle,
     .effect = EFFECT_LOOSEN,
     .state = STATE_LEADER,
     .roles = ROLE_ADMIN,
     .parameters = ""},
    {.method = HTTP_POST,
     .pattern = "/v1/fleet/upgrade",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .members = "reason",
     .handle = fleet_upgrade_handle,
     .effect = EFFECT_LOOSEN,
     .state = STATE_LEADER,
     .roles = ROLE_ADMIN,
     .parameters = ""},
    {.method = HTTP_GET,
     .pattern = "/v1/fleet/snapshot",
     .handle = fleet_snapshot_handle,
     .effect = EFFECT_READ,
     .roles = ROLE_INGEST,
     .parameters = "offset snapshot"},
    PUBLIC("/.well-known/jwks.json", jwks_handle),
    PUBLIC("/.well-known/authzen-configuration", authzen_configuration_handle),

    PUBLIC("/healthz", healthz_handle),
    PUBLIC("/livez", livez_handle),
    PUBLIC("/readyz", readyz_handle),
    PUBLIC("/api/config-check", config_check_handle),
    {.method = HTTP_GET,
     .pattern = "/metrics",
     .handle = metrics_handle,
     .effect = EFFECT_READ,
     .parameters = "tenant_id"},

    FORWARD(HTTP_GET, "/api/v1/policies", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/policies/{name}", HTTP_BODY_NONE, 0),
    FORWARD_LARGE(HTTP_PUT, "/api/v1/policies/{name}", HTTP_BODY_JSON, LIMIT_POLICY_BODY_BYTES,
                  policy_roles),
    FORWARD(HTTP_DELETE, "/api/v1/policies/{name}", HTTP_BODY_NONE, 0),
    FORWARD_LARGE(HTTP_POST, "/api/v1/policies:apply", HTTP_BODY_JSON, LIMIT_POLICY_SET_BODY_BYTES,
                  policy_roles),
    FORWARD(HTTP_GET, "/api/v1/policies/{name}/versions", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/policies/{name}/versions/{n}", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_POST, "/api/v1/policies/{name}/rollback", HTTP_BODY_JSON, 0),
    FORWARD(HTTP_GET, "/api/v1/bundle", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/audit", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/audit/evidence", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/audit/trace/{id}", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/audit/positions", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/engines", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_GET, "/api/v1/suspensions", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_POST, "/api/v1/audit/gaps", HTTP_BODY_JSON, 0),
    FORWARD(HTTP_GET, "/api/v1/audit/engine-keys", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_POST, "/api/v1/audit/engine-keys", HTTP_BODY_JSON, 0),
    FORWARD(HTTP_POST, "/api/v1/audit/engine-keys:distrust", HTTP_BODY_JSON, 0),
    FORWARD(HTTP_POST, "/api/v1/audit/streams:forget", HTTP_BODY_JSON, 0),
    FORWARD_LARGE(HTTP_POST, "/api/v1/audit/ingest", HTTP_BODY_NDJSON, LIMIT_INGEST_BODY_BYTES,
                  ingest_roles),
    FORWARD(HTTP_GET, "/api/v1/keys", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_POST, "/api/v1/keys", HTTP_BODY_JSON, 0),
    FORWARD(HTTP_DELETE, "/api/v1/keys/{id}", HTTP_BODY_NONE, 0),
    FORWARD(HTTP_POST, "/api/v1/keys/{id}/rotate", HTTP_BODY_OPTIONAL_JSON, 0),
};
const size_t engine_route_count = sizeof engine_routes / sizeof *engine_routes;

/* Before the body was read: the trace is the header's, if it has one. */
static void refuse(struct engine_reactor *w, struct http_exchange *x, const struct fault *f)
{
    check(f->err != ERR_OK);
    struct trace_context caller = {.trace_text = {0}};
    (void)trace_context_read(traced_header(x), &caller);
    api_refuse(&w->api, x, f, caller.trace_text);
}

void route_refuse_starting(struct engine_reactor *w, struct http_exchange *x)
{
    struct fault f;
    (void)fault_set(&f, ERR_STARTING, "", "%s", engine_why_empty(w->engine));
    refuse(w, x, &f);
}

/* For a request whose body is still on its way: the body is not read for callers without a role. */
bool route_admit(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct caller caller;
    struct fault f;
    const uint32_t *large = x->route->handle == route_forward ? x->route->extra : NULL;
    if (x->route->roles == 0 && large == NULL) return false;
    if (bundle_facts(w->bundle)->revision == 0) {
        if (large != NULL) route_refuse_starting(w, x);
        return false; /* no key is known yet: route_handle() refuses */
    }
    uint32_t roles = large != NULL ? *large : ~0u; /* the handler checks which of its own */
    uint64_t now_ms = world_now_ms(), begun_ns;
    struct api_asker asker;
    const bool is_stranger = api_sight(&w->api, x, &asker) == API_STRANGER;
    /* Without time for it, the credential is verified when the body is here. */
    if (is_stranger && !strangers_may_verify(&w->strangers, x, &begun_ns)) return false;
    enum err err = api_identify(&w->api, x, roles, now_ms, &caller, &f);
    if (is_stranger) strangers_verified(&w->strangers, begun_ns);
    if (err == ERR_OK) return true;
    refuse(w, x, &f);
    return false;
}

static bool may_loosen(const struct http_route *r)
{
    check(r->effect <= EFFECT_LOOSEN);
    return r->effect == EFFECT_LOOSEN || r->effect == EFFECT_UNDECLARED;
}

/* Each refusal takes time from a decision, so its answer is a constant. */
static void refuse_for_load(struct engine_reactor *w, struct http_exchange *x)
{
    struct overload *o = &w->overload;
    struct http_reply reply = {
        .status = 503,
        .headers = {{.name = STR("Retry-After"), .value = STR("1")}},
        .header_count = 1,
        .body = STR("{\"code\":\"overloaded\",\"error\":\"more requests arrive than the engine can "
                    "handle in time; try again later\"}")};
    /* The decisions of this turn are answered at its end. */
    if (!o->is_refusing) engine_reactor_flush(w);
    o->is_refusing = true;
    metric_add(w->sheet, METRIC_REFUSED_OVERLOAD, 1);
    atomic_store_explicit(&o->refused_ms, loop_now_ms(w->loop), memory_order_relaxed);
    api_send(&w->api, x, &reply, (struct str){0});
}

static bool refuse_state(const struct engine_reactor *w, struct fault *f)
{
    enum err err = engine_state_refusal(w->engine);
    if (err == ERR_OK) return false;
    if (err == ERR_OVERLOADED)
        (void)fault_set(f, err, "",
                        "the fleet's log has not moved for longer than journal.stall; no requests "
                        "of the state are served until it does");
    else
        (void)fault_plain(f, err);
    return true;
}

/* False: the leader of the fleet serves it, or it was refused. */
static bool serves_here(struct engine_reactor *w, struct http_exchange *x)
{
    struct fault f;
    const enum relay_course course = relaying_course(w, x, &f);
    if (course == RELAY_REFUSED) refuse(w, x, &f);
    return course == RELAY_SERVED_HERE;
}

/* The time counts for the caller that the handler finds, if a rate is set. */
static void handle(struct engine_reactor *w, struct http_exchange *x)
{
    if (w->api.meters == NULL) {
        x->route->handle(w, x);
        return;
    }
    const uint64_t begun_ns = world_monotonic_ns();
    w->api.metered = (struct metered){0};
    x->route->handle(w, x);
    api_spend(&w->api.metered, RATE_CPU, world_monotonic_ns() - begun_ns);
}

void route_proceed(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct fault f;
    if (w->relaying.member != NULL && !serves_here(w, x)) return;
    if (api_accept_assertion(&w->api, x, w->engine->assertions, world_now_ms(), &f))
        handle(w, x);
    else
        refuse(w, x, &f);
}

/* The turn before this one was long. */
static void judge_and_handle(struct engine_reactor *w, struct http_exchange *x,
                             const struct api_asker *asker, bool is_stranger)
{
    struct overload_asker who = {0};
    if (!str_is_absent(asker->tenant))
        who = (struct overload_asker){.tenant =
                                          hash_bytes(asker->tenant.bytes, asker->tenant.size) | 1,
                                      .key = hash_bytes(&asker->key, sizeof asker->key) | 1};
    const uint64_t begun_ns = world_monotonic_ns();
    if (x->route->may_be_shed &&
        !overload_admits(&w->overload, loop_woken_ns(w->loop), begun_ns, &who))
        refuse_for_load(w, x);
    else if (is_stranger)
        strangers_handle(&w->strangers, x);
    else
        route_proceed(w, x);
    overload_note(&w->overload, &who, world_monotonic_ns() - begun_ns);
}

void route_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct fault f;
    check(w->bundle != NULL && !w->is_stepping);
    if (x->route->roles != 0 && bundle_facts(w->bundle)->revision == 0) {
        route_refuse_starting(w, x);
        return;
    }
    if (x->route->roles != 0 &&
        atomic_load_explicit(&w->engine->phase, memory_order_relaxed) == PHASE_LOST) {
        if (w->engine->member != NULL) {
            (void)fault_plain(&f, ERR_LEADER_CHANGED);
            refuse(w, x, &f);
            return;
        }
        (void)fault_set(
            &f, ERR_STORE_UNAVAILABLE, "",
            "another engine has taken over this engine's state in Redis; this one makes no more decisions");
        refuse(w, x, &f);
        return;
    }
    if (x->route->roles != 0 && x->route->effect != EFFECT_TIGHTEN && takeover_is_due(w->engine)) {
        (void)takeover_fault(w->engine, &f);
        refuse(w, x, &f);
        return;
    }
    if (x->route->state == STATE_LEADER && !w->relaying.follows && refuse_state(w, &f)) {
        refuse(w, x, &f);
        return;
    }
    if (engine_stands_still(w->engine) && may_loosen(x->route)) {
        (void)fault_set(&f, ERR_OVERLOADED, "", "%s; no decisions are made until it continues",
                        STANDS_STILL_TEXT);
        refuse(w, x, &f);
        return;
    }
    struct api_asker asker;
    const enum api_sight sight = api_sight(&w->api, x, &asker);
    const bool is_stranger = sight == API_STRANGER || (sight == API_CLAIMED && x->notes->count > 0);
    if (overload_is_near(&w->overload))
        judge_and_handle(w, x, &asker, is_stranger);
    else if (is_stranger)
        strangers_handle(&w->strangers, x);
    else
        route_proceed(w, x);
}

void route_refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    struct engine_reactor *w = context;
    refuse(w, x, f);
}
