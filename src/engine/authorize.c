/* authorize.c - the three routes that ask for a decision: decide, record, park the answer. */
#include "engine/decide.h"
#include "engine/engine.h"

static enum ask_form form_of(const struct http_exchange *x)
{
    return *(const enum ask_form *)x->route->extra;
}

/* A dry run or an explanation shows how policies work, so it takes the roles that may read them,
 * and nothing that an agent holds. An explanation is never a live decision. */
static enum err admit(struct worker *w, struct http_exchange *x, uint64_t now_ms, struct caller *caller,
                      struct decide_tools *tools, struct fault *f)
{
    enum err err = api_flag(x, STR("dry_run"), &tools->dry_run, f);
    if (err == ERR_OK) err = api_flag(x, STR("explain"), &tools->explain, f);
    if (err != ERR_OK) return err;
    tools->dry_run = tools->dry_run || tools->explain;
    uint32_t roles = tools->dry_run ? ROLE_POLICY_ADMIN | ROLE_AUDITOR | ROLE_ADMIN : x->route->roles;
    return api_admit(&w->api, x, roles, now_ms, caller, f);
}

static void count(struct worker *w, const struct decision *d, bool dry_run)
{
    static const enum metric outcomes[] = {
        [VERDICT_DENY] = METRIC_DECISIONS_DENY, [VERDICT_HUMAN_REVIEW] = METRIC_DECISIONS_HUMAN_REVIEW,
        [VERDICT_COMPUTE] = METRIC_DECISIONS_COMPUTE, [VERDICT_ALLOW] = METRIC_DECISIONS_ALLOW};
    metric_add(w->sheet, dry_run ? METRIC_DRY_RUNS : outcomes[d->outcome.verdict], 1);
    metric_observe(w->sheet, HISTOGRAM_DECIDE, d->latency_ns);
}

static enum err record(struct worker *w, const struct decision *d, struct http_gate *ret_gate, struct fault *f)
{
    struct str events[COMMIT_EVENTS_MAX] = {d->record, d->enqueued};
    bool reviewed = !str_is_absent(d->enqueued);
    enum err err = commit_events(&w->commit, events, reviewed ? 2 : 1, reviewed, ret_gate);
    if (journal_blocks_free(w->commit.producer) == 0) http_server_hold(w->server, true);
    if (err == ERR_OK) return ERR_OK;
    if (err == ERR_FULL) return fault_set(f, ERR_OVERLOADED, "", "records wait for the disk, and no more may wait now");
    if (err == ERR_JOURNAL_FULL || err == ERR_NO_SPACE) return fault_plain(f, ERR_JOURNAL_FULL);
    return fault_plain(f, ERR_INTERNAL);
}

static enum err authorize(struct worker *w, struct http_exchange *x, struct decision *d, struct http_gate *ret_gate,
                          struct str *ret_trace_id, struct fault *f)
{
    struct decide_tools tools = {.hasher = w->api.hasher, .chance = &w->api.chance,
                                 .now_ms = world_now_ms(), .started_ns = world_monotonic_ns()};
    struct caller caller;
    struct json *body;
    struct ask ask;
    enum err err = admit(w, x, tools.now_ms, &caller, &tools, f);
    if (err == ERR_OK) err = api_body(x, &body, f);
    if (err != ERR_OK) return err;
    struct ask_source source = {.form = form_of(x), .dry_run = tools.dry_run, .arena = x->arena, .chance = &w->api.chance,
                                .traceparent = http_header_get(x, STR("traceparent"))};
    err = ask_read(&source, &caller, body, &ask, f);
    if (err != ERR_OK) return err;
    *ret_trace_id = ask.trace_id;
    tools.policies = bundle_policies(w->bundle, caller.tenant);
    err = decide(&tools, &caller, &ask, x->arena, d, f);
    if (err == ERR_OK) err = record(w, d, ret_gate, f);
    if (err == ERR_OK) count(w, d, tools.dry_run);
    return err;
}

void authorize_handle(void *context, struct http_exchange *x)
{
    struct worker *w = context;
    struct decision d;
    struct http_gate gate;
    struct str trace_id = {0};
    struct fault f;
    if (authorize(w, x, &d, &gate, &trace_id, &f) == ERR_OK)
        api_reply_gated(&w->api, x, 200, d.answer, d.event.request_id, gate);
    else
        api_refuse(&w->api, x, &f, trace_id);
}
