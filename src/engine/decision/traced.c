#include "engine/decision/traced.h"

#include "base/check.h"

struct str traced_find_header(const struct http_exchange *x)
{
    struct str found = {0};
    for (size_t i = 0; i < x->header_count; i++) {
        if (!http_header_is(&x->headers[i], STR("traceparent"))) continue;
        if (!str_is_absent(found)) return (struct str){0};
        found = x->headers[i].value;
    }
    return found;
}

/* ---- log lines ---- */

enum { LOGGED_BYTES = LIMIT_TRACE_ID_BYTES + 1 };

_Static_assert((int)LOGGED_BYTES > (int)TRACE_TEXT && (int)LOGGED_BYTES > (int)ID_TEXT,
               "a made trace id, or an id, is whole");

static const char *logged(struct str text, char to[LOGGED_BYTES])
{
    to[span_copy(to, LOGGED_BYTES - 1, text)] = '\0';
    return to;
}

static void log_decided(const struct authorization *a)
{
    char trace[LOGGED_BYTES], request[LOGGED_BYTES];
    if (!log_is_on(LOG_DEBUG)) return;
    log_line(LOG_DEBUG, "decided", "trace_id", logged(a->d.event.trace_id, trace), "request_id",
             logged(a->d.event.request_id, request), "decision", verdict_name(a->d.outcome.verdict),
             "rule", a->d.outcome.rule, NULL);
}

static void log_refused(const struct authorization *a, const struct fault *f)
{
    struct engine_reactor *w = a->operation.engine_reactor;
    uint64_t second = a->tools.now_ms / 1000;
    check(f->err != ERR_OK);
    char trace[LOGGED_BYTES];
    if (err_status(f->err) < 500 || w->told_s == second) return;
    w->told_s = second;
    log_line(LOG_WARNING, "not_decided", "trace_id", logged(a->ask.trace_id, trace), "code",
             err_code(f->err), "text", f->text, NULL);
}

/* ---- spans ---- */

/* The span of this request, with its trace; NULL: it is not sampled. */
static struct span *begin(struct authorization *a, struct str trace_id)
{
    struct engine_reactor *w = a->operation.engine_reactor;
    struct span_place place;
    if (w->spans == NULL || !spans_wanted(w->engine->spans, a->traceparent, trace_id, &place))
        return NULL;
    check(a->tools.started_ns != 0);
    struct span *s = lane_open(w->spans);
    if (s == NULL) return NULL;
    s->place = place;
    s->begin_ns = a->tools.started_ns;
    s->dry_run = a->tools.dry_run;
    s->kind = a->ask.policy.kind == SUBJECT_USER ? "user" : "agent";
    /* one of the log is as good as written: its wait is the log's, and not the span's */
    s->barrier_durability = a->operation.barrier.lane == LANE_LOG ? 0 : a->operation.barrier.lane;
    s->barrier_block = a->operation.barrier.block;
    span_set(s, trace_text, trace_id);
    span_set(s, tool_call, a->ask.tool_call_id);
    span_set(s, conversation, a->ask.conversation_id);
    return s;
}

/* A decision's span id is in its request id, and so in its event's. */
static void put_span_id(struct authorization *a, struct span *s, struct str request_id)
{
    struct id id;
    if (!a->d.replayed && id_read("req_", request_id, &id))
        memcpy(s->id, id.bytes + ID_BYTES - SPAN_ID_BYTES, SPAN_ID_BYTES);
    else
        chance_take(&a->operation.engine_reactor->api.chance, s->id, SPAN_ID_BYTES);
}

void traced_decision(struct authorization *a)
{
    const struct event *e = &a->d.event;
    check(!str_is_absent(a->d.answer));
    log_decided(a);
    struct span *s = begin(a, e->trace_id);
    if (s == NULL) return;
    put_span_id(a, s, e->request_id);
    s->status = 200;
    s->decided_ns = a->tools.started_ns + a->d.latency_ns;
    s->decision = verdict_name(a->d.outcome.verdict);
    s->policy_version = e->policy_version;
    span_set(s, rule, e->rule);
    span_set(s, policy, e->policy_name);
    span_set(s, request, e->request_id);
    lane_keep(a->operation.engine_reactor->spans);
}

void traced_refusal(struct authorization *a, const struct fault *f)
{
    log_refused(a, f);
    struct span *s = begin(a, a->ask.trace_id);
    if (s == NULL) return;
    put_span_id(a, s, (struct str){0});
    s->status = (uint16_t)err_status(f->err);
    s->error = err_code(f->err);
    lane_keep(a->operation.engine_reactor->spans);
}

void traced_turn(struct engine_reactor *w, uint64_t written, uint64_t synced)
{
    if (w->spans == NULL || !lane_waits(w->spans)) return;
    if (lane_release(w->spans, written, synced, world_monotonic_ns())) spans_wake(w->engine->spans);
}
