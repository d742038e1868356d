#include "engine/decide.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/answer.h"

enum {
    EVENT_FIXED_BYTES = 16 << 10,  /* everything in an event but the payload: ids, hashes, escaped names */
    ANSWER_FIXED_BYTES = 12 << 10, /* tool, reason and safe tool escaped, ids, hashes */
};

struct work { /* one decision in the making */
    const struct decide_tools *tools;
    const struct caller *caller;
    struct ask *ask;
    struct arena *arena;
    struct decision *d;
    struct str explain;
    struct str args, context; /* canonical, within the body's canonical form; absent where masks are in force */
};

/* A buffer in the arena of at most `most` bytes; work_keep() gives back what was not used. */
static struct buf work_buf(struct work *w, size_t most)
{
    char *bytes = arena_bytes(w->arena, most);
    return bytes == NULL ? (struct buf){.overflow = true} : buf_over(bytes, most);
}

static struct str work_keep(struct work *w, struct buf *b)
{
    if (b->bytes == NULL) return (struct str){0};
    arena_trim(w->arena, b->bytes, b->capacity, b->size);
    return buf_view(b);
}

static struct str work_hash(struct work *w, struct str bytes)
{
    char *hex = arena_bytes(w->arena, SHA256_HEX);
    if (hex == NULL) return (struct str){0};
    sha256_write_hex(hasher_sha256(w->tools->hasher, bytes), hex);
    return str_of(hex, SHA256_HEX);
}

/* No canonical form is more than six times as long as its source: the worst are "1e20," with its
 * 21 digits and a one-digit value that became "[masked]". */
static size_t canonical_most(const struct json *v) { return v->raw.size * 6 + 64; }

static struct str canonical(struct work *w, const struct json *v)
{
    if (v == NULL) return (struct str){0};
    struct buf b = work_buf(w, canonical_most(v));
    json_put_canonical(&b, v);
    check(!b.overflow || w->arena->overflow);
    return work_keep(w, &b);
}

/* The hash of the body's canonical form. That has args and context in it already as the record
 * wants them, so where nothing is masked it is kept and they are views of it. */
static struct str hash_body(struct work *w)
{
    const struct ask *a = w->ask;
    bool keep = !policy_masks(w->tools->policies) && (a->policy.args != NULL || a->context != NULL);
    struct json_part parts[] = {{.value = a->policy.args}, {.value = a->context}};
    struct buf b = work_buf(w, canonical_most(a->body));
    json_put_canonical_parts(&b, a->body, parts, sizeof parts / sizeof *parts);
    check(!b.overflow || w->arena->overflow);
    struct str hash = {0};
    if (b.bytes == NULL) return hash;
    struct sha256 digest = hasher_sha256(w->tools->hasher, buf_view(&b));
    arena_trim(w->arena, b.bytes, b.capacity, keep ? b.size : 0);
    if (keep) {
        w->args = parts[0].text;
        w->context = parts[1].text;
    }
    char *hex = arena_bytes(w->arena, SHA256_HEX);
    if (hex == NULL) return hash;
    sha256_write_hex(digest, hex);
    return str_of(hex, SHA256_HEX);
}

/* ---- evaluate ---- */

struct explaining {
    struct buf *out;
    bool any;
};

static void put_considered(void *context, const struct policy_considered *c)
{
    struct explaining *x = context;
    buf_put(x->out, x->any ? STR(",{\"applies\":") : STR("{\"applies\":"));
    x->any = true;
    buf_put(x->out, c->applies ? STR("true") : STR("false"));
    buf_put_literal(x->out, ",\"policy\":");
    json_put_string(x->out, c->policy_name);
    buf_put_literal(x->out, ",\"rule\":");
    json_put_string(x->out, c->rule_id);
    buf_put(x->out, c->shadow ? STR(",\"shadow\":true") : STR(",\"shadow\":false"));
    buf_put_literal(x->out, ",\"verdict\":");
    json_put_plain(x->out, str_from(verdict_name(c->verdict)));
    buf_put_literal(x->out, ",\"why\":");
    json_put_string(x->out, c->why);
    buf_put_byte(x->out, '}');
}

static void evaluate(struct work *w)
{
    struct policy_request *request = &w->ask->policy;
    request->now_ms = w->tools->now_ms;
    if (!w->tools->explain) {
        policy_evaluate(w->tools->policies, request, w->arena, NULL, &w->d->outcome);
        return;
    }
    /* What is told of each rule is bounded by half of what an answer may hold. */
    struct buf text;
    buf_init(&text, 4096, LIMIT_CONNECTION_OUT_BYTES / 2);
    struct explaining x = {.out = &text};
    struct policy_explain explain = {.considered = put_considered, .context = &x};
    buf_put_byte(&text, '[');
    policy_evaluate(w->tools->policies, request, w->arena, &explain, &w->d->outcome);
    buf_put_byte(&text, ']');
    w->explain = text.overflow ? STR("\"too many rules to explain here; use writ policy explain\"") : arena_copy(w->arena, buf_view(&text));
    buf_fini(&text);
}

/* ---- describe ---- */

static struct str put_id(struct work *w, unsigned place, const char *prefix)
{
    id_write(prefix, id_make(w->tools->now_ms, w->tools->chance), w->d->ids[place]);
    return str_of(w->d->ids[place], ID_TEXT);
}

/* One decision, one set of digits: evt_X is the record of req_X. */
static void put_request_ids(struct work *w)
{
    struct event *e = &w->d->event;
    e->request_id = put_id(w, 0, "req_");
    memcpy(w->d->ids[1], "evt_", 4);
    memcpy(w->d->ids[1] + 4, w->d->ids[0] + 4, ID_DIGITS);
    e->event_id = str_of(w->d->ids[1], ID_TEXT);
}

static struct str scope_json(struct work *w)
{
    const struct policy_request *p = &w->ask->policy;
    if (!p->has_scope) return (struct str){0};
    size_t most = 2;
    for (size_t i = 0; i < p->scope_count; i++) most += p->scope[i].size * 6 + 3;
    struct buf b = work_buf(w, most);
    buf_put_byte(&b, '[');
    for (size_t i = 0; i < p->scope_count; i++) {
        if (i > 0) buf_put_byte(&b, ',');
        json_put_string(&b, p->scope[i]);
    }
    buf_put_byte(&b, ']');
    return work_keep(w, &b);
}

static struct str would_have_json(struct work *w)
{
    const struct policy_outcome *o = &w->d->outcome;
    if (!o->has_would_have) return (struct str){0};
    struct buf b = work_buf(w, 256 + o->would_have_policy.size);
    buf_put_literal(&b, "{\"decision\":");
    json_put_plain(&b, str_from(verdict_name(o->would_have)));
    if (!str_is_absent(o->would_have_policy)) {
        buf_put_literal(&b, ",\"policy_name\":");
        json_put_plain(&b, o->would_have_policy);
    }
    buf_put_literal(&b, ",\"rule\":");
    json_put_plain(&b, str_from(o->would_have_rule));
    buf_put_byte(&b, '}');
    return work_keep(w, &b);
}

/* Who asked for what, and under which request; nothing of the outcome. */
static void describe_ask(struct work *w)
{
    struct event *e = &w->d->event;
    const struct ask *a = w->ask;
    const struct policy_request *p = &a->policy;
    e->kind = STR("decision");
    e->mode = w->tools->dry_run ? STR("dry_run") : STR("live");
    e->timestamp = w->tools->now_ms;
    put_request_ids(w);
    e->trace_id = a->trace_id;
    e->tenant_id = p->tenant;
    e->key_id = str_of(w->caller->key->id_text, ID_TEXT);
    e->actor = p->actor;
    e->user_id = p->user;
    e->acting_for = p->acting_for;
    e->action = p->action;
    e->scope = scope_json(w);
    e->confidence = p->confidence;
    e->has_confidence = p->has_confidence;
    e->engine_version = STR(WRIT_VERSION);
    e->input_hash = hash_body(w);
}

static struct str omitted(struct work *w, struct str payload)
{
    return arena_printf(w->arena, "{\"bytes\":%zu,\"omitted\":true}", payload.size);
}

/* The strings are in a tree of their own; the properties are where they came. Where all of the
 * resource is masked, so are they. */
static void mask_resource(struct work *w)
{
    struct ask *a = w->ask;
    policy_mask(w->tools->policies, STR("resource"), a->resource);
    if (a->properties == NULL) return;
    struct json *whole = json_get(a->body, STR("resource"));
    policy_mask(w->tools->policies, STR("resource"), whole);
    if (whole->type == JSON_STRING) json_become_string(a->properties, whole->string);
}

/* What the store takes for an object only stays one, however much of it is masked. */
static struct str canonical_object(struct work *w, const struct json *v)
{
    return v != NULL && v->type != JSON_OBJECT ? STR("{\"masked\":true}") : canonical(w, v);
}

/* A tenant whose policies do not load has masks that nobody knows, so nothing of what came is
 * written down. */
static void withhold_payload(struct work *w)
{
    struct event *e = &w->d->event;
    struct str *all[] = {&e->args, &e->context, &e->resource, &e->resource_properties};
    if (strcmp(w->d->outcome.rule, "default:policy_unloadable") != 0) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!str_is_absent(*all[i])) *all[i] = omitted(w, *all[i]);
}

static void describe_payload(struct work *w)
{
    struct event *e = &w->d->event;
    struct ask *a = w->ask;
    if (policy_masks(w->tools->policies)) {
        if (a->policy.args != NULL) policy_mask(w->tools->policies, STR("args"), json_get(a->body, STR("args")));
        policy_mask(w->tools->policies, STR("context"), a->context);
        mask_resource(w);
    }
    e->args = str_is_absent(w->args) ? canonical_object(w, a->policy.args) : w->args;
    e->context = str_is_absent(w->context) ? canonical(w, a->context) : w->context;
    e->resource = canonical(w, a->resource);
    e->resource_properties = canonical_object(w, a->properties);
    withhold_payload(w);
}

/* A tree of the policy's own: its size is known only by writing it. */
static struct str canonical_of_policy(struct work *w, const struct json *v)
{
    struct buf b;
    buf_init(&b, 1024, LIMIT_POLICY_BODY_BYTES);
    json_put_canonical(&b, v);
    struct str copy = b.overflow ? (struct str){0} : arena_copy(w->arena, buf_view(&b));
    if (b.overflow) w->arena->overflow = true;
    buf_fini(&b);
    return copy;
}

/* The client gets the safe arguments as they are; records get them masked. */
static struct str masked_args(struct work *w)
{
    const struct json *args = w->d->outcome.safe_args;
    const struct json *masked = policy_masked_copy(w->tools->policies, STR("args"), args, w->arena);
    if (masked == args) return w->d->safe_args;
    if (masked == NULL) return (struct str){0}; /* the arena is full: decide() refuses */
    return masked->type == JSON_OBJECT ? canonical_of_policy(w, masked) : STR("{\"masked\":true}");
}

static void describe_outcome(struct work *w)
{
    struct event *e = &w->d->event;
    const struct policy_outcome *o = &w->d->outcome;
    e->decision = str_from(verdict_name(o->verdict));
    e->rule = str_from(o->rule);
    e->reason = o->reason;
    e->policy_name = o->policy_name;
    e->policy_version = o->policy_version;
    e->has_policy_version = o->policy_version != 0;
    e->policy_digest = policy_set_digest_hex(w->tools->policies);
    e->confidence_used = w->ask->policy.confidence;
    e->has_confidence_used = w->ask->policy.has_confidence; /* tells 0 from none given */
    e->would_have = would_have_json(w);
    e->safe_tool = (struct str){0};
    e->safe_args = w->d->safe_args = (struct str){0};
    if (o->verdict != VERDICT_COMPUTE) return;
    e->safe_tool = o->safe_tool;
    w->d->safe_args = o->safe_args == NULL ? STR("{}") : canonical_of_policy(w, o->safe_args);
    e->safe_args = policy_masks(w->tools->policies) ? masked_args(w) : w->d->safe_args;
}

/* A review gets its id, its deadline and the hash that an approval is bound to. */
static void describe_review(struct work *w)
{
    struct event *e = &w->d->event;
    if (w->d->outcome.verdict != VERDICT_HUMAN_REVIEW) return;
    e->expires_at = w->tools->now_ms + w->d->outcome.review.expires_in_ms;
    if (w->tools->dry_run) return; /* nothing is enqueued, so there is nothing to name */
    e->review_id = put_id(w, 2, "rev_");
}

static struct str hash_binding(struct work *w)
{
    const struct ask *a = w->ask;
    struct buf b = work_buf(w, canonical_most(a->body) + EVENT_FIXED_BYTES);
    ask_put_binding(&b, a);
    if (b.overflow) w->arena->overflow = true; /* an approval bound to half a request fits others: decide() refuses */
    struct str bytes = work_keep(w, &b);
    return str_is_absent(bytes) ? bytes : work_hash(w, bytes);
}

/* ---- hash, encode ---- */

static void hash_outcome(struct work *w)
{
    struct event *e = &w->d->event;
    struct buf b = work_buf(w, EVENT_FIXED_BYTES + e->safe_args.size);
    event_put_outcome(&b, e);
    if (b.overflow) w->arena->overflow = true; /* nor is the hash of half an outcome one */
    struct str bytes = buf_view(&b);
    struct sha256 digest = {0};
    if (b.bytes != NULL) {
        digest = hasher_sha256(w->tools->hasher, bytes);
        arena_trim(w->arena, b.bytes, b.capacity, 0);
    }
    char *hex = arena_bytes(w->arena, SHA256_HEX);
    if (hex == NULL) return;
    sha256_write_hex(digest, hex);
    e->output_hash = str_of(hex, SHA256_HEX);
}

static struct str encode(struct work *w, const struct event *e)
{
    size_t most = EVENT_FIXED_BYTES + e->args.size + e->context.size + e->resource.size + e->resource_properties.size +
                  e->scope.size + e->safe_args.size + e->would_have.size;
    struct buf b = work_buf(w, most);
    event_put(&b, e);
    if (b.overflow) w->arena->overflow = true; /* half an event is none: decide() refuses */
    return work_keep(w, &b);
}

/* What cannot be recorded whole cannot be reviewed, nor handed on as a safe call. */
static void deny_unrecordable(struct work *w)
{
    struct policy_outcome *o = &w->d->outcome;
    struct event *e = &w->d->event;
    *o = (struct policy_outcome){.verdict = VERDICT_DENY, .rule = "limit:record", .policy_name = o->policy_name,
                                 .policy_version = o->policy_version, .confidence_used = o->confidence_used,
                                 .reason = STR("The request is too large to be recorded whole, as this decision needs.")};
    e->expires_at = 0;
    e->review_id = (struct str){0};
    e->binding_hash = (struct str){0};
    describe_outcome(w);
    hash_outcome(w);
}

static struct str encode_within_limit(struct work *w)
{
    struct event *e = &w->d->event;
    struct str record = encode(w, e);
    if (record.size <= LIMIT_EVENT_BYTES) return record;
    if (w->d->outcome.verdict == VERDICT_HUMAN_REVIEW || e->safe_args.size > LIMIT_EVENT_BYTES / 2) {
        deny_unrecordable(w);
        record = encode(w, e);
    }
    struct str *largest_first[] = {&e->args, &e->context, &e->resource_properties};
    for (size_t i = 0; i < 3 && record.size > LIMIT_EVENT_BYTES; i++) {
        if (str_is_absent(*largest_first[i])) continue;
        *largest_first[i] = omitted(w, *largest_first[i]);
        record = encode(w, e);
    }
    return record;
}

/* The queue's own event: the same request and outcome under its own id and kind. */
static struct str encode_enqueued(struct work *w)
{
    if (str_is_absent(w->d->event.review_id)) return (struct str){0};
    struct event e = w->d->event;
    char *id = arena_bytes(w->arena, ID_TEXT);
    if (id == NULL) return (struct str){0};
    id_write("evt_", id_make(w->tools->now_ms, w->tools->chance), id);
    e.event_id = str_of(id, ID_TEXT);
    e.kind = STR("review.enqueued");
    e.output_hash = (struct str){0}; /* it is the decision's */
    return encode(w, &e);
}

static struct str encode_answer(struct work *w)
{
    struct buf b = work_buf(w, ANSWER_FIXED_BYTES + w->d->safe_args.size + w->explain.size);
    answer_put(&b, w->d, w->ask->form, w->explain);
    return b.overflow ? (struct str){0} : work_keep(w, &b);
}

enum err decide(const struct decide_tools *tools, const struct caller *caller, struct ask *ask, struct arena *arena,
                struct decision *ret, struct fault *f)
{
    struct work w = {.tools = tools, .caller = caller, .ask = ask, .arena = arena, .d = ret};
    memset(&ret->outcome, 0, sizeof ret->outcome);
    memset(&ret->event, 0, sizeof ret->event);
    evaluate(&w);
    describe_ask(&w);
    describe_outcome(&w);
    describe_review(&w);
    if (ret->outcome.verdict == VERDICT_HUMAN_REVIEW) ret->event.binding_hash = hash_binding(&w);
    describe_payload(&w);
    hash_outcome(&w);
    ret->latency_ns = world_monotonic_ns() - tools->started_ns;
    ret->event.latency_ms = (double)(ret->latency_ns / 1000) / 1000.0;
    ret->event.has_latency_ms = true;
    ret->record = encode_within_limit(&w);
    ret->enqueued = encode_enqueued(&w);
    ret->answer = encode_answer(&w);
    if (arena->overflow || str_is_absent(ret->answer))
        return fault_set(f, ERR_BODY_TOO_LARGE, "", "the request needs more memory than one request may use");
    if (ret->record.size > LIMIT_EVENT_BYTES)
        return fault_set(f, ERR_BODY_TOO_LARGE, "", "the request is too large to be recorded, even without args, context and properties");
    return ERR_OK;
}
