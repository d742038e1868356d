#include "engine/decision/answer.h"

#include "base/check.h"
#include "json/members.h"

enum name {
    KEY_REQUEST_ID,
    KEY_TRACE_ID,
    KEY_POLICY_NAME,
    KEY_POLICY_VERSION,
    KEY_POLICY_DIGEST,
    KEY_LATENCY,
    KEY_REVIEW_ID,
    KEY_REVIEW_STATUS,
    KEY_EXPIRES_AT,
    KEY_INPUT_HASH,
    KEY_INPUT_SALT,
    KEY_OUTPUT_HASH,
    KEY_SAFE_TOOL,
    KEY_SAFE_ARGS,
    KEY_WOULD_HAVE,
    KEY_CONFIDENCE_USED,
    KEY_REDEMPTION_ID,
    KEY_COUNT
};

/* Each member with the bytes before it, and the quote after it if a string follows; the request id
 * is the first of all. */
static const struct str keys[2][KEY_COUNT] = {
    {[KEY_REQUEST_ID] = STR("{\"request_id\":\""),
     [KEY_TRACE_ID] = STR(",\"trace_id\":\""),
     [KEY_POLICY_NAME] = STR(",\"policy_name\":\""),
     [KEY_POLICY_VERSION] = STR(",\"policy_version\":"),
     [KEY_POLICY_DIGEST] = STR(",\"policy_digest\":\""),
     [KEY_LATENCY] = STR(",\"latency_ms\":"),
     [KEY_REVIEW_ID] = STR(",\"review_id\":\""),
     [KEY_REVIEW_STATUS] = STR(",\"review_status\":\""),
     [KEY_EXPIRES_AT] = STR(",\"expires_at\":\""),
     [KEY_INPUT_HASH] = STR(",\"input_hash\":\""),
     [KEY_INPUT_SALT] = STR(",\"input_salt\":\""),
     [KEY_OUTPUT_HASH] = STR(",\"output_hash\":\""),
     [KEY_SAFE_TOOL] = STR(",\"safe_tool\":\""),
     [KEY_SAFE_ARGS] = STR(",\"safe_args\":"),
     [KEY_WOULD_HAVE] = STR(",\"would_have\":"),
     [KEY_CONFIDENCE_USED] = STR(",\"confidence_used\":"),
     [KEY_REDEMPTION_ID] = STR(",\"redemption_id\":\"")},
    {[KEY_REQUEST_ID] = STR("{\"requestId\":\""),
     [KEY_TRACE_ID] = STR(",\"traceId\":\""),
     [KEY_POLICY_NAME] = STR(",\"policyName\":\""),
     [KEY_POLICY_VERSION] = STR(",\"policyVersion\":"),
     [KEY_POLICY_DIGEST] = STR(",\"policyDigest\":\""),
     [KEY_LATENCY] = STR(",\"latencyMs\":"),
     [KEY_REVIEW_ID] = STR(",\"reviewId\":\""),
     [KEY_REVIEW_STATUS] = STR(",\"reviewStatus\":\""),
     [KEY_EXPIRES_AT] = STR(",\"expiresAt\":\""),
     [KEY_INPUT_HASH] = STR(",\"inputHash\":\""),
     [KEY_INPUT_SALT] = STR(",\"inputSalt\":\""),
     [KEY_OUTPUT_HASH] = STR(",\"outputHash\":\""),
     [KEY_SAFE_TOOL] = STR(",\"safeTool\":\""),
     [KEY_SAFE_ARGS] = STR(",\"safeArgs\":"),
     [KEY_WOULD_HAVE] = STR(",\"wouldHave\":"),
     [KEY_CONFIDENCE_USED] = STR(",\"confidenceUsed\":"),
     [KEY_REDEMPTION_ID] = STR(",\"redemptionId\":\"")},
};

_Static_assert(sizeof *keys / sizeof **keys == KEY_COUNT, "each form has each name");

/* The form is a constant where this is inlined, and so are all names. */
struct writer {
    struct members m;
    const struct str *keys;
};

MEMBERS_INLINE void put_plain(struct writer *w, enum name key, struct str value)
{
    if (!str_is_absent(value)) members_put_plain(&w->m, w->keys[key], value);
}

MEMBERS_INLINE void put_bool(struct writer *w, struct str key, bool value)
{
    members_put_json(&w->m, key, value ? STR("true") : STR("false"));
}

/* {"decision","rule","policyName"}: the changes that shadow documents would have made. */
MEMBERS_INLINE void put_would_have(struct writer *w, const struct policy_outcome *o)
{
    if (!o->has_would_have) return;
    members_put_json(&w->m, w->keys[KEY_WOULD_HAVE], STR("{\"decision\":\""));
    members_put_plain(&w->m, STR(""), str_from(verdict_name(o->would_have)));
    members_put_plain(&w->m, MEMBER_QUOTED("rule"), str_from(o->would_have_rule));
    put_plain(w, KEY_POLICY_NAME, o->would_have_policy);
    members_put_json(&w->m, STR("}"), STR(""));
}

/* The members that only one of the two forms has. */
MEMBERS_INLINE void put_form(struct writer *w, const struct decision *d,
                             enum auth_request_form form)
{
    const struct event *e = &d->event;
    bool live = str_equal(e->mode, STR("live"));
    bool allowed = live && d->outcome.verdict == VERDICT_ALLOW;
    if (form == ASK_TOOL) {
        members_put_text(&w->m, MEMBER_QUOTED("tool"), e->action);
        if (!live) put_bool(w, MEMBER_NAME("allowed"), allowed);
        return;
    }
    put_bool(w, MEMBER_NAME("allowed"), allowed);
    put_bool(w, MEMBER_NAME("requires_human_review"), d->outcome.verdict == VERDICT_HUMAN_REVIEW);
    put_bool(w, MEMBER_NAME("compute"), d->outcome.verdict == VERDICT_COMPUTE);
}

MEMBERS_INLINE void put_answer(struct buf *out, const struct decision *d,
                               enum auth_request_form form, struct str explain)
{
    const struct event *e = &d->event;
    struct writer w = {.m = members_begin(out), .keys = keys[form == ASK_TOOL]};
    members_put_plain(&w.m, w.keys[KEY_REQUEST_ID], e->request_id);
    put_plain(&w, KEY_TRACE_ID, e->trace_id);
    put_form(&w, d, form);
    members_put_plain(&w.m, MEMBER_QUOTED("decision"), e->decision);
    members_put_text(&w.m, MEMBER_QUOTED("reason"), e->reason);
    members_put_plain(&w.m, MEMBER_QUOTED("rule"), e->rule);
    put_plain(&w, KEY_POLICY_NAME, e->policy_name);
    if (e->has_policy_version) members_put_u64(&w.m, w.keys[KEY_POLICY_VERSION], e->policy_version);
    put_plain(&w, KEY_POLICY_DIGEST, e->policy_digest);
    members_put_number(&w.m, w.keys[KEY_LATENCY], e->latency_ms);
    members_put_plain(&w.m, MEMBER_QUOTED("mode"), e->mode);
    members_put_time(&w.m, MEMBER_QUOTED("timestamp"), e->timestamp);
    put_plain(&w, KEY_REVIEW_ID, e->review_id);
    if (d->review_is_approved) put_plain(&w, KEY_REVIEW_STATUS, STR("approved"));
    if (e->expires_at != 0) members_put_time(&w.m, w.keys[KEY_EXPIRES_AT], e->expires_at);
    put_plain(&w, KEY_REDEMPTION_ID, e->redemption_id);
    if (d->replayed) put_bool(&w, MEMBER_NAME("replayed"), true);
    if (!str_is_absent(e->safe_tool)) members_put_text(&w.m, w.keys[KEY_SAFE_TOOL], e->safe_tool);
    if (!str_is_absent(d->safe_args)) members_put_json(&w.m, w.keys[KEY_SAFE_ARGS], d->safe_args);
    if (e->has_confidence_used)
        members_put_number(&w.m, w.keys[KEY_CONFIDENCE_USED], e->confidence_used);
    put_would_have(&w, &d->outcome);
    put_plain(&w, KEY_INPUT_HASH, e->input_hash);
    put_plain(&w, KEY_INPUT_SALT, e->input_salt);
    put_plain(&w, KEY_OUTPUT_HASH, e->output_hash);
    if (!str_is_absent(d->limits)) members_put_json(&w.m, MEMBER_NAME("limits"), d->limits);
    if (!str_is_absent(explain)) members_put_json(&w.m, MEMBER_NAME("explain"), explain);
    members_put_json(&w.m, STR("}"), STR(""));
    members_end(&w.m);
}

void answer_put(struct buf *out, const struct decision *d, enum auth_request_form form,
                struct str explain)
{
    check(!str_is_absent(d->event.request_id) && !str_is_absent(d->event.decision));
    if (form == ASK_TOOL)
        put_answer(out, d, ASK_TOOL, explain);
    else
        put_answer(out, d, ASK_AGENT, explain); /* a user's request is answered like an agent's */
}
