#include "pipeline/spans/otlp.h"

#include "json/json.h"

enum { KIND_SERVER = 2, STATUS_ERROR = 2 };

/* ---- attributes ---- */

static void put_name(struct buf *out, struct str name, bool *first)
{
    buf_put(out, *first ? STR("{\"key\":\"") : STR(",{\"key\":\""));
    *first = false;
    buf_put(out, name);
}

static void put_text(struct buf *out, struct str name, struct str text, bool *first)
{
    if (str_is_empty(text)) return;
    put_name(out, name, first);
    buf_put_literal(out, "\",\"value\":{\"stringValue\":");
    json_put_string(out, text);
    buf_put_literal(out, "}}");
}

static void put_number(struct buf *out, struct str name, uint64_t number, bool *first)
{
    put_name(out, name, first);
    buf_put_literal(out, "\",\"value\":{\"intValue\":\"");
    buf_put_u64(out, number);
    buf_put_literal(out, "\"}}");
}

/* ---- the request ---- */

void otlp_put_begin(struct buf *out, const struct otlp_resource *r)
{
    bool first = true;
    buf_put_literal(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_text(out, STR("service.name"), STR("writ-engine"), &first);
    put_text(out, STR("service.instance.id"), r->node, &first);
    put_text(out, STR("service.version"), r->version, &first);
    buf_put_literal(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"writ\"},\"spans\":[");
}

void otlp_put_end(struct buf *out) { buf_put_literal(out, "]}]}]}"); }

/* ---- one span ---- */

static void put_hex(struct buf *out, struct str name, const uint8_t *bytes, size_t size)
{
    buf_put(out, name);
    buf_put_hex(out, bytes, size);
    buf_put_byte(out, '"');
}

static void put_time(struct buf *out, struct str name, uint64_t ns)
{
    buf_put(out, name);
    buf_put_u64(out, ns);
    buf_put_byte(out, '"');
}

/* The time when the decision was made and its record handed over. The time after it is spent on the
 * disk. */
static void put_decided(struct buf *out, const struct span *s, uint64_t unix_offset_ns)
{
    if (s->decided_ns == 0) return;
    put_time(out, STR(",\"events\":[{\"timeUnixNano\":\""), s->decided_ns + unix_offset_ns);
    buf_put_literal(out, ",\"name\":\"decided\"}]");
}

static void put_attributes(struct buf *out, const struct span *s)
{
    bool first = true;
    buf_put_literal(out, ",\"attributes\":[");
    put_text(out, STR("writ.decision"), str_from(s->decision), &first);
    put_text(out, STR("writ.rule"), str_of(s->rule, s->rule_size), &first);
    put_text(out, STR("writ.policy"), str_of(s->policy, s->policy_size), &first);
    if (s->policy_version != 0)
        put_number(out, STR("writ.policy.version"), s->policy_version, &first);
    put_text(out, STR("writ.kind"), str_from(s->kind), &first);
    put_text(out, STR("writ.mode"), s->dry_run ? STR("dry_run") : STR("live"), &first);
    put_text(out, STR("writ.request_id"), str_of(s->request, s->request_size), &first);
    put_text(out, STR("writ.trace_id"), str_of(s->trace_text, s->trace_text_size), &first);
    put_text(out, STR("gen_ai.tool.call.id"), str_of(s->tool_call, s->tool_call_size), &first);
    put_text(out, STR("gen_ai.conversation.id"), str_of(s->conversation, s->conversation_size),
             &first);
    put_number(out, STR("http.response.status_code"), s->status, &first);
    put_text(out, STR("error.type"), str_from(s->error), &first);
    buf_put_byte(out, ']');
}

void otlp_put_span(struct buf *out, const struct span *s, uint64_t unix_offset_ns, bool is_first)
{
    put_hex(out, is_first ? STR("{\"traceId\":\"") : STR(",{\"traceId\":\""), s->place.trace,
            sizeof s->place.trace);
    put_hex(out, STR(",\"spanId\":\""), s->id, sizeof s->id);
    if (s->place.has_parent)
        put_hex(out, STR(",\"parentSpanId\":\""), s->place.parent, sizeof s->place.parent);
    buf_put_literal(out, ",\"name\":\"decide\",\"kind\":");
    buf_put_u64(out, KIND_SERVER);
    put_time(out, STR(",\"startTimeUnixNano\":\""), s->begin_ns + unix_offset_ns);
    put_time(out, STR(",\"endTimeUnixNano\":\""), s->end_ns + unix_offset_ns);
    put_attributes(out, s);
    put_decided(out, s, unix_offset_ns);
    if (s->status >= 500) { /* a server's span: a client's error is not an error here */
        buf_put_literal(out, ",\"status\":{\"code\":");
        buf_put_u64(out, STATUS_ERROR);
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, '}');
}
