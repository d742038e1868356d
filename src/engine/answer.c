#include "engine/answer.h"

#include "base/time.h"

enum name {
    KEY_REQUEST_ID,
    KEY_TRACE_ID,
    KEY_POLICY_NAME,
    KEY_POLICY_VERSION,
    KEY_POLICY_DIGEST,
    KEY_LATENCY,
    KEY_REVIEW_ID,
    KEY_EXPIRES_AT,
    KEY_INPUT_HASH,
    KEY_OUTPUT_HASH,
    KEY_SAFE_TOOL,
    KEY_SAFE_ARGS,
    KEY_WOULD_HAVE,
    KEY_CONFIDENCE_USED,
    KEY_REDEMPTION_ID,
    KEY_COUNT
};

/* Each with what stands before it; the request id is the first of all. */
static const struct str keys[2][KEY_COUNT] = {
    {[KEY_REQUEST_ID] = STR("{\"request_id\":"),
     [KEY_TRACE_ID] = STR(",\"trace_id\":"),
     [KEY_POLICY_NAME] = STR(",\"policy_name\":"),
     [KEY_POLICY_VERSION] = STR(",\"policy_version\":"),
     [KEY_POLICY_DIGEST] = STR(",\"policy_digest\":"),
     [KEY_LATENCY] = STR(",\"latency_ms\":"),
     [KEY_REVIEW_ID] = STR(",\"review_id\":"),
     [KEY_EXPIRES_AT] = STR(",\"expires_at\":"),
     [KEY_INPUT_HASH] = STR(",\"input_hash\":"),
     [KEY_OUTPUT_HASH] = STR(",\"output_hash\":"),
     [KEY_SAFE_TOOL] = STR(",\"safe_tool\":"),
     [KEY_SAFE_ARGS] = STR(",\"safe_args\":"),
     [KEY_WOULD_HAVE] = STR(",\"would_have\":"),
     [KEY_CONFIDENCE_USED] = STR(",\"confidence_used\":"),
     [KEY_REDEMPTION_ID] = STR(",\"redemption_id\":")},
    {[KEY_REQUEST_ID] = STR("{\"requestId\":"),
     [KEY_TRACE_ID] = STR(",\"traceId\":"),
     [KEY_POLICY_NAME] = STR(",\"policyName\":"),
     [KEY_POLICY_VERSION] = STR(",\"policyVersion\":"),
     [KEY_POLICY_DIGEST] = STR(",\"policyDigest\":"),
     [KEY_LATENCY] = STR(",\"latencyMs\":"),
     [KEY_REVIEW_ID] = STR(",\"reviewId\":"),
     [KEY_EXPIRES_AT] = STR(",\"expiresAt\":"),
     [KEY_INPUT_HASH] = STR(",\"inputHash\":"),
     [KEY_OUTPUT_HASH] = STR(",\"outputHash\":"),
     [KEY_SAFE_TOOL] = STR(",\"safeTool\":"),
     [KEY_SAFE_ARGS] = STR(",\"safeArgs\":"),
     [KEY_WOULD_HAVE] = STR(",\"wouldHave\":"),
     [KEY_CONFIDENCE_USED] = STR(",\"confidenceUsed\":"),
     [KEY_REDEMPTION_ID] = STR(",\"redemptionId\":")},
};

struct writer {
    struct buf *out;
    const struct str *keys;
};

static void put_plain(struct writer *w, enum name key, struct str value)
{
    if (str_is_absent(value)) return;
    json_put_plain_member(w->out, w->keys[key], value);
}

static void put_text(struct writer *w, enum name key, struct str value)
{
    if (str_is_absent(value)) return;
    json_put_string_member(w->out, w->keys[key], value);
}

static void put_json(struct writer *w, enum name key, struct str value)
{
    if (str_is_absent(value)) return;
    buf_put_both(w->out, w->keys[key], value);
}

static void put_number(struct writer *w, enum name key, double value)
{
    json_put_number_member(w->out, w->keys[key], value);
}

static void put_time(struct writer *w, struct str key, uint64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    json_put_plain_member(w->out, key, str_of(text, TIME_TEXT));
}

static void put_bool(struct writer *w, struct str key, bool value)
{
    buf_put_both(w->out, key, value ? STR("true") : STR("false"));
}

/* {"decision","rule","policyName"}: what shadow documents would have changed. */
static void put_would_have(struct writer *w, const struct policy_outcome *o)
{
    if (!o->has_would_have) return;
    buf_put(w->out, w->keys[KEY_WOULD_HAVE]);
    json_put_plain_member(w->out, STR("{\"decision\":"), str_from(verdict_name(o->would_have)));
    json_put_plain_member(w->out, STR(",\"rule\":"), str_from(o->would_have_rule));
    put_plain(w, KEY_POLICY_NAME, o->would_have_policy);
    buf_put_byte(w->out, '}');
}

/* What only one of the two forms has. */
static void put_form(struct writer *w, const struct decision *d, enum ask_form form)
{
    const struct event *e = &d->event;
    bool live = str_equal(e->mode, STR("live"));
    bool allowed = live && d->outcome.verdict == VERDICT_ALLOW;
    if (form == ASK_TOOL) {
        json_put_string_member(w->out, STR(",\"tool\":"), e->action);
        if (!live) put_bool(w, STR(",\"allowed\":"), allowed);
        return;
    }
    put_bool(w, STR(",\"allowed\":"), allowed);
    put_bool(w, STR(",\"requires_human_review\":"), d->outcome.verdict == VERDICT_HUMAN_REVIEW);
    put_bool(w, STR(",\"compute\":"), d->outcome.verdict == VERDICT_COMPUTE);
}

void answer_put(struct buf *out, const struct decision *d, enum ask_form form, struct str explain)
{
    const struct event *e = &d->event;
    struct writer w = {.out = out, .keys = keys[form == ASK_TOOL]};
    json_put_plain_member(out, w.keys[KEY_REQUEST_ID], e->request_id);
    put_plain(&w, KEY_TRACE_ID, e->trace_id);
    put_form(&w, d, form);
    json_put_plain_member(out, STR(",\"decision\":"), e->decision);
    json_put_string_member(out, STR(",\"reason\":"), e->reason);
    json_put_plain_member(out, STR(",\"rule\":"), e->rule);
    put_plain(&w, KEY_POLICY_NAME, e->policy_name);
    if (e->has_policy_version) {
        buf_put(out, w.keys[KEY_POLICY_VERSION]);
        buf_put_u64(out, e->policy_version);
    }
    put_plain(&w, KEY_POLICY_DIGEST, e->policy_digest);
    put_number(&w, KEY_LATENCY, e->latency_ms);
    json_put_plain_member(out, STR(",\"mode\":"), e->mode);
    put_time(&w, STR(",\"timestamp\":"), e->timestamp);
    put_plain(&w, KEY_REVIEW_ID, e->review_id);
    if (e->expires_at != 0) put_time(&w, w.keys[KEY_EXPIRES_AT], e->expires_at);
    put_plain(&w, KEY_REDEMPTION_ID, e->redemption_id);
    if (d->replayed) put_bool(&w, STR(",\"replayed\":"), true);
    put_text(&w, KEY_SAFE_TOOL, e->safe_tool);
    put_json(&w, KEY_SAFE_ARGS, d->safe_args);
    if (e->has_confidence_used) put_number(&w, KEY_CONFIDENCE_USED, e->confidence_used);
    put_would_have(&w, &d->outcome);
    put_plain(&w, KEY_INPUT_HASH, e->input_hash);
    put_plain(&w, KEY_OUTPUT_HASH, e->output_hash);
    if (!str_is_absent(explain)) buf_put_both(out, STR(",\"explain\":"), explain);
    buf_put_byte(out, '}');
}
