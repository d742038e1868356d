#include "engine/decision/decide.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/decision/answer.h"
#include "shards/slot.h"

enum {
    /* everything in an event except the payload: ids, hashes, escaped names */
    EVENT_FIXED_BYTES = 16 << 10,
    ANSWER_FIXED_BYTES = 12 << 10, /* tool, reason and safe tool escaped, ids, hashes */
};

void decision_check(const struct decision *d)
{
    check(d->tools != NULL && d->caller != NULL && d->ask != NULL && d->arena != NULL);
    check(d->outcome.verdict <= VERDICT_ALLOW);
    check(d->bound == NULL ? d->bound_size == 0 : d->bound_size > ID_TEXT || d->arena->overflow);
    check(str_is_absent(d->redemption_id) || !str_is_absent(d->redeems));
    check(!d->review_is_approved || d->review_expires_ms != 0);
}

/* A buffer in the arena of at most `most` bytes; kept() returns unused bytes. */
static struct buf room_for(struct decision *d, size_t most)
{
    char *bytes = arena_bytes(d->arena, most);
    return bytes == NULL ? (struct buf){.overflow = true} : buf_over(bytes, most);
}

static struct str kept(struct decision *d, struct buf *b)
{
    if (b->bytes == NULL) return (struct str){0};
    check(b->size <= b->capacity);
    arena_trim(d->arena, b->bytes, b->capacity, b->size);
    return buf_view(b);
}

static struct str hex_of(struct decision *d, struct sha256 digest)
{
    char *hex = arena_bytes(d->arena, SHA256_HEX);
    if (hex == NULL) return (struct str){0};
    sha256_write_hex(digest, hex);
    return str_of(hex, SHA256_HEX);
}

static struct str canonical(struct decision *d, const struct json *v)
{
    if (v == NULL) return (struct str){0};
    struct buf b = room_for(d, json_canonical_most(v));
    json_put_canonical(&b, v);
    if (b.starved) arena_starve(d->arena);
    check(!b.overflow || d->arena->overflow);
    return kept(d, &b);
}

/* Whether the record's form of the resource is the body's: an object of strings. */
static bool resource_is_whole(const struct decision *d)
{
    const struct auth_request *a = d->ask;
    return a->resource != NULL && a->resource_sent->type == JSON_OBJECT &&
           a->resource->count == a->resource_sent->count;
}

static const struct json *object_or_null(const struct json *v)
{
    return v != NULL && v->type == JSON_OBJECT ? v : NULL;
}

/* If a tenant's policies do not load, its masks are unknown. */
static bool is_masked(const struct decision *d)
{
    const struct auth_request *a = d->ask;
    const struct policy_set *policies = d->tools->policies;
    return policy_set_is_closed(policies) ||
           policy_masks_in(policies, STR("args"), a->policy.args) ||
           policy_masks_in(policies, STR("context"), a->context) ||
           policy_masks_in(policies, STR("resource"), a->resource) ||
           policy_masks_in(policies, STR("resource"), object_or_null(a->resource_sent));
}

/* The input hash of the body's present canonical form. That form contains args, context and
 * resource in the form of the record, so each is kept as a view of it. */
static struct str hash_body(struct decision *d, struct str salt)
{
    const struct auth_request *a = d->ask;
    struct json_part parts[] = {{.value = object_or_null(a->policy.args)},
                                {.value = a->context},
                                {.value = resource_is_whole(d) ? a->resource_sent : NULL}};
    bool keep = parts[0].value != NULL || parts[1].value != NULL || parts[2].value != NULL;
    struct buf b = room_for(d, json_canonical_most(a->body));
    json_put_canonical_parts(&b, a->body, parts, sizeof parts / sizeof *parts);
    if (b.starved) arena_starve(d->arena);
    check(!b.overflow || d->arena->overflow);
    if (b.bytes == NULL) return (struct str){0};
    hasher_begin(d->tools->hasher);
    hasher_add(d->tools->hasher, buf_view(&b));
    hasher_add(d->tools->hasher, salt);
    struct sha256 digest = hasher_end(d->tools->hasher);
    arena_trim(d->arena, b.bytes, b.capacity, keep ? b.size : 0);
    d->args = parts[0].text;
    d->context = parts[1].text;
    d->resource = parts[2].text;
    return hex_of(d, digest);
}

/* Of a body that is masked already. The salt gives two such requests different hashes, so that a
 * hash reveals nothing about masked values. */
static void hash_masked_body(struct decision *d)
{
    uint8_t salt[INPUT_SALT_BYTES];
    check(d->is_masked && str_is_absent(d->event.input_salt));
    chance_take(d->tools->chance, salt, sizeof salt);
    hex_write(d->input_salt, salt, sizeof salt);
    d->event.input_salt = str_of(d->input_salt, sizeof d->input_salt);
    d->event.input_hash = hash_body(d, str_of((const char *)salt, sizeof salt));
}

/* ---- evaluate ---- */

void decide_evaluate(struct decision *d)
{
    struct policy_request *request = &d->ask->policy;
    decision_check(d);
    check(d->tools->dry_run || !d->tools->explain);
    request->now_ms = d->tools->now_ms;
    request->dry_run = d->tools->dry_run;
    request->steps = d->tools->steps;
    if (d->tools->explain)
        decide_explain(d, request);
    else if (d->tools->dry_run) /* on a thread that may not use the memory */
        policy_evaluate(d->tools->policies, request, d->arena, NULL, &d->outcome);
    else
        policy_evaluate_remembering(d->tools->policies, d->tools->memory, request, d->arena,
                                    &d->outcome);
}

void decide_deny(struct decision *d, const char *rule, const char *reason)
{
    struct policy_outcome *o = &d->outcome;
    decision_check(d);
    bool confidence_used = o->confidence_used;
    *o = (struct policy_outcome){
        .verdict = VERDICT_DENY, .confidence_used = confidence_used, .reason = str_from(reason)};
    check(strlen(rule) < sizeof o->rule);
    memcpy(o->rule, rule, strlen(rule) + 1);
}

/* ---- describe ---- */

static struct str put_id(struct decision *d, unsigned place, const char *prefix)
{
    check(place < sizeof d->ids / sizeof *d->ids);
    id_write(prefix, id_make(d->tools->now_ms, d->tools->chance), d->ids[place]);
    return str_of(d->ids[place], ID_TEXT);
}

/* A decision and its record share their digits: evt_X is the record of req_X. */
static void put_request_ids(struct decision *d)
{
    struct event *e = &d->event;
    e->request_id = put_id(d, 0, "req_");
    memcpy(d->ids[1], "evt_", 4);
    memcpy(d->ids[1] + 4, d->ids[0] + 4, ID_DIGITS);
    e->event_id = str_of(d->ids[1], ID_TEXT);
}

static struct str scope_json(struct decision *d)
{
    const struct policy_request *p = &d->ask->policy;
    if (!p->has_scope) return (struct str){0};
    size_t most = 2;
    for (size_t i = 0; i < p->scope_count; i++) most += p->scope[i].size * 6 + 3;
    struct buf b = room_for(d, most);
    buf_put_byte(&b, '[');
    for (size_t i = 0; i < p->scope_count; i++) {
        if (i > 0) buf_put_byte(&b, ',');
        json_put_string(&b, p->scope[i]);
    }
    buf_put_byte(&b, ']');
    return kept(d, &b);
}

static const struct str would_have_key = STR(",\"would_have\":");

static struct str would_have_json(struct decision *d)
{
    const struct policy_outcome *o = &d->outcome;
    if (!o->has_would_have) return (struct str){0};
    struct buf b = room_for(d, 256 + o->would_have_policy.size);
    buf_put_literal(&b, "{\"decision\":");
    json_put_plain(&b, str_from(verdict_name(o->would_have)));
    if (!str_is_absent(o->would_have_policy)) {
        buf_put_literal(&b, ",\"policy_name\":");
        json_put_plain(&b, o->would_have_policy);
    }
    buf_put_literal(&b, ",\"rule\":");
    json_put_plain(&b, str_from(o->would_have_rule));
    buf_put_byte(&b, '}');
    return kept(d, &b);
}

/* Describes the request: caller, action and ids; nothing of the outcome. */
static void describe_ask(struct decision *d)
{
    struct event *e = &d->event;
    const struct auth_request *a = d->ask;
    const struct policy_request *p = &a->policy;
    check(!str_is_absent(p->tenant) && !str_is_absent(p->action));
    e->kind = STR("decision");
    e->mode = d->tools->dry_run ? STR("dry_run") : STR("live");
    e->timestamp = d->tools->now_ms;
    put_request_ids(d);
    e->trace_id = a->trace_id;
    e->tenant_id = p->tenant;
    e->key_id = key_shown_id(d->caller->key);
    if (d->caller->token != NULL) {
        id_write("tok_", d->caller->token->id, d->token_id);
        e->token_id = str_of(d->token_id, ID_TEXT);
    }
    e->actor = p->actor;
    e->user_id = p->user;
    e->acting_for = p->acting_for;
    e->tool_call_id = a->tool_call_id;
    e->conversation_id = a->conversation_id;
    e->action = p->action;
    e->scope = scope_json(d);
    e->confidence = p->confidence;
    e->has_confidence = p->has_confidence;
    e->engine_version = STR(WRIT_VERSION);
    d->is_masked = is_masked(d);
    if (!d->is_masked) e->input_hash = hash_body(d, (struct str){0});
}

static struct str omitted(struct decision *d, struct str payload)
{
    return arena_printf(d->arena, "{\"bytes\":%zu,\"omitted\":true}", payload.size);
}

static void hide(struct json *v)
{
    if (v != NULL) json_become_string(v, STR("[masked]"));
}

/* The strings are in a tree of their own; the properties are in the body's. If the whole resource
 * is masked, so are they. A text that names the resource is one value: masked whole. */
static void mask_resource(struct decision *d)
{
    struct auth_request *a = d->ask;
    struct json *sent = a->resource_sent;
    if (sent == NULL) return;
    bool is_text = sent->type == JSON_STRING;
    if (is_text && policy_masks_in(d->tools->policies, STR("resource"), a->resource)) hide(sent);
    policy_mask(d->tools->policies, STR("resource"), a->resource);
    if (is_text) return;
    policy_mask(d->tools->policies, STR("resource"), sent);
    if (sent->type == JSON_STRING && a->properties != NULL) hide(a->properties);
}

static void mask_payload(struct decision *d)
{
    struct auth_request *a = d->ask;
    if (a->policy.args != NULL)
        policy_mask(d->tools->policies, STR("args"), json_get(a->body, STR("args")));
    policy_mask(d->tools->policies, STR("context"), a->context);
    mask_resource(d);
}

/* A member that the store accepts only as an object stays one, however much of it is masked. */
static struct str canonical_object(struct decision *d, const struct json *v)
{
    return v != NULL && v->type != JSON_OBJECT ? STR("{\"masked\":true}") : canonical(d, v);
}

/* If a tenant's policies do not load, its masks are unknown. So no part of the request is recorded,
 * whichever rule denies it. */
static void withhold_payload(struct decision *d)
{
    check(policy_set_is_closed(d->tools->policies) && d->is_masked);
    struct event *e = &d->event;
    struct str *all[] = {&e->args, &e->context, &e->resource, &e->resource_properties};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!str_is_absent(*all[i])) *all[i] = omitted(d, *all[i]);
    if (d->ask->policy.args != NULL) hide(json_get(d->ask->body, STR("args")));
    hide(d->ask->context);
    hide(d->ask->resource_sent);
    hash_masked_body(d);
}

static void describe_payload(struct decision *d)
{
    struct event *e = &d->event;
    struct auth_request *a = d->ask;
    bool is_closed = policy_set_is_closed(d->tools->policies);
    check(d->is_masked || str_is_absent(d->event.input_salt));
    if (d->is_masked && !is_closed) {
        mask_payload(d);
        hash_masked_body(d);
    }
    e->args = str_is_absent(d->args) ? canonical_object(d, a->policy.args) : d->args;
    e->context = str_is_absent(d->context) ? canonical(d, a->context) : d->context;
    e->resource = str_is_absent(d->resource) ? canonical(d, a->resource) : d->resource;
    e->resource_properties = canonical_object(d, a->properties);
    if (is_closed) withhold_payload(d);
}

/* A tree of the policy: its size is known only after writing it. */
static struct str canonical_of_policy(struct decision *d, const struct json *v)
{
    struct buf b;
    buf_init(&b, 1024, LIMIT_POLICY_BODY_BYTES);
    json_put_canonical(&b, v);
    struct str copy = b.overflow ? (struct str){0} : arena_copy(d->arena, buf_view(&b));
    if (b.overflow) d->arena->overflow = true;
    if (b.starved) arena_starve(d->arena);
    buf_fini(&b);
    return copy;
}

/* The client gets the safe arguments unmasked; records get them masked. */
static struct str masked_args(struct decision *d)
{
    const struct json *args = d->outcome.told_args;
    const struct json *masked = policy_masked_copy(d->tools->policies, STR("args"), args, d->arena);
    if (masked == d->outcome.safe_args) return d->safe_args;
    if (masked == NULL) return (struct str){0}; /* the arena is full: decide_settle() refuses */
    return masked->type == JSON_OBJECT ? canonical_of_policy(d, masked) : STR("{\"masked\":true}");
}

static void describe_outcome(struct decision *d)
{
    struct event *e = &d->event;
    const struct policy_outcome *o = &d->outcome;
    e->decision = str_from(verdict_name(o->verdict));
    e->rule = str_from(o->rule);
    e->reason = o->reason;
    e->policy_name = o->policy_name;
    e->policy_version = o->policy_version;
    e->has_policy_version = o->policy_version != 0;
    e->policy_digest = policy_set_digest_hex(d->tools->policies);
    e->confidence_used = d->ask->policy.confidence;
    e->has_confidence_used = d->ask->policy.has_confidence; /* distinguishes 0 from none given */
    e->would_have = would_have_json(d);
    e->safe_tool = (struct str){0};
    e->safe_args = d->safe_args = (struct str){0};
    if (o->verdict != VERDICT_COMPUTE) return;
    e->safe_tool = o->safe_tool;
    d->safe_args = o->safe_args == NULL ? STR("{}") : canonical_of_policy(d, o->safe_args);
    e->safe_args = policy_masks(d->tools->policies) ? masked_args(d) : d->safe_args;
}

/* Gives a review its id, which contains its slot, and its deadline; an existing one has both. */
static void describe_review(struct decision *d)
{
    struct event *e = &d->event;
    check(!d->has_review || !d->tools->dry_run);
    e->review_id = d->redeems;
    bool permits = d->outcome.verdict == VERDICT_ALLOW || d->outcome.verdict == VERDICT_COMPUTE;
    e->redemption_id = permits ? d->redemption_id : (struct str){0};
    e->expires_at = 0;
    if (d->outcome.verdict != VERDICT_HUMAN_REVIEW || d->tools->asks_nobody) return;
    e->expires_at = d->tools->now_ms + d->outcome.review.expires_in_ms;
    if (d->tools->dry_run) return; /* no review is made, so there is no id */
    if (d->has_review) {
        e->expires_at = d->review_expires_ms;
    } else {
        d->review = slot_id(id_make(d->tools->now_ms, d->tools->chance), d->slot);
    }
    id_write("rev_", d->review, d->ids[2]);
    e->review_id = str_of(d->ids[2], ID_TEXT);
}

/* ---- the binding of an approval ---- */

static struct str full_form(const struct decision *d)
{
    check(d->bound != NULL && d->bound_size >= ID_TEXT);
    return str_of(d->bound + ID_TEXT, d->bound_size - ID_TEXT);
}

static void keep_full_form(struct decision *d)
{
    static const char room[ID_TEXT];
    struct buf b = room_for(d, ID_TEXT + json_canonical_most(d->ask->body) + EVENT_FIXED_BYTES);
    buf_put(&b, str_of(room, sizeof room));
    auth_request_put_binding(&b, d->ask);
    /* an approval bound to half a request would fit others: decide_settle() refuses */
    if (b.overflow) d->arena->overflow = true;
    if (b.overflow) return;
    d->bound = b.bytes;
    d->bound_size = kept(d, &b).size;
    check(d->bound_size > ID_TEXT);
}

static struct review_digest digest_of(struct sha256 digest)
{
    struct review_digest d;
    memcpy(d.bytes, digest.bytes, sizeof d.bytes);
    return d;
}

static struct review_digest mac_of(const struct decision *d, const struct sha256 *key,
                                   struct str bytes)
{
    struct str secret = str_of((const char *)key->bytes, sizeof key->bytes);
    return digest_of(hasher_hmac(d->tools->hasher, secret, bytes));
}

static struct review_digest binding_of(struct decision *d, struct id review)
{
    if (d->bound == NULL) return (struct review_digest){0};
    id_write("rev_", review, d->bound);
    return mac_of(d, &d->tools->keys->binding, str_of(d->bound, d->bound_size));
}

struct review_digest decide_request_digest(const struct decision *d)
{
    decision_check(d);
    if (d->bound == NULL) return (struct review_digest){0};
    return mac_of(d, &d->tools->keys->request, full_form(d));
}

struct review_digest decide_request_plain(const struct decision *d)
{
    decision_check(d);
    if (d->bound == NULL) return (struct review_digest){0};
    return digest_of(hasher_sha256(d->tools->hasher, full_form(d)));
}

bool decide_bind_to(struct decision *d, const struct review_facts *r)
{
    check(d->bound == NULL && !d->is_described);
    keep_full_form(d);
    if (d->bound == NULL) return false;
    struct review_digest plain = decide_request_plain(d);
    d->redeemed_binding = binding_of(d, r->id);
    if (review_digest_equal(&d->redeemed_binding, &r->binding)) return true;
    if (!review_digest_equal(&plain, &r->binding)) return false;
    d->redeemed_binding = plain; /* an earlier version opened the review */
    return true;
}

/* Sets the binding of the review that the record names. */
static void describe_binding(struct decision *d)
{
    bool asks = d->outcome.verdict == VERDICT_HUMAN_REVIEW;
    d->event.binding_hash = (struct str){0};
    if (d->bound == NULL || str_is_absent(d->event.review_id)) return;
    d->binding = !asks           ? d->redeemed_binding
                 : d->has_review ? d->review_binding
                                 : binding_of(d, d->review);
    hex_write(d->binding_text, d->binding.bytes, sizeof d->binding.bytes);
    d->event.binding_hash = str_of(d->binding_text, sizeof d->binding_text);
}

/* ---- hash, encode ---- */

static struct buf room_for_event(struct decision *d, const struct event *e)
{
    return room_for(d, EVENT_FIXED_BYTES + e->args.size + e->context.size + e->resource.size +
                           e->resource_properties.size + e->scope.size + e->safe_args.size +
                           e->would_have.size);
}

/* A truncated event must not be used: decide_settle() refuses if the arena is full. */
static struct str event_kept(struct decision *d, struct buf *b)
{
    if (b->overflow) d->arena->overflow = true;
    return kept(d, b);
}

static struct str encode(struct decision *d, const struct event *e)
{
    struct buf b = room_for_event(d, e);
    event_put(&b, e);
    return event_kept(d, &b);
}

/* Whether the record is small enough without the members that only shadow documents add. Those are
 * recorded if there is room, and decide nothing. */
static bool fits(const struct event *e, struct str record)
{
    size_t told = str_is_absent(e->would_have) ? 0 : would_have_key.size + e->would_have.size;
    return record.size - told <= LIMIT_EVENT_BYTES;
}

static struct sha256 hash_outcome(struct decision *d, struct str record,
                                  const struct event_outcome *outcome)
{
    struct buf b = room_for(d, record.size + 2);
    struct sha256 digest = {0};
    if (b.bytes == NULL) return digest;
    event_put_outcome(&b, record, outcome);
    check(!b.overflow);
    digest = hasher_sha256(d->tools->hasher, buf_view(&b));
    arena_trim(d->arena, b.bytes, b.capacity, 0);
    return digest;
}

/* The record contains the input of the output hash, so it is written first, with zeros for the
 * hash. */
static struct str encode_hashed(struct decision *d)
{
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    struct event *e = &d->event;
    struct event_outcome outcome;
    e->output_hash = str_of(zeros, SHA256_HEX);
    struct buf b = room_for_event(d, e);
    event_put_told(&b, e, &outcome);
    struct str record = event_kept(d, &b);
    e->output_hash = (struct str){0};
    if (d->arena->overflow) return record;
    char *hex = b.bytes + outcome.hash_end - SHA256_HEX;
    check(outcome.hash_end >= SHA256_HEX && outcome.hash_end <= record.size);
    sha256_write_hex(hash_outcome(d, record, &outcome), hex);
    e->output_hash = str_of(hex, SHA256_HEX);
    return record;
}

/* A request that cannot be recorded whole can neither be reviewed nor be changed to a safe call. */
static void deny_unrecordable(struct decision *d)
{
    struct policy_outcome *o = &d->outcome;
    *o = (struct policy_outcome){
        .verdict = VERDICT_DENY,
        .rule = "limit:record",
        .policy_name = o->policy_name,
        .policy_version = o->policy_version,
        .confidence_used = o->confidence_used,
        .reason = STR("The request is too large to be recorded whole, as this decision needs.")};
    describe_outcome(d);
    describe_review(d);
    describe_binding(d);
}

static struct str encode_within_limit(struct decision *d)
{
    struct event *e = &d->event;
    struct str record = encode_hashed(d);
    if (d->arena->overflow || record.size <= LIMIT_EVENT_BYTES) return record;
    bool is_review = d->outcome.verdict == VERDICT_HUMAN_REVIEW;
    if (!fits(e, record) && (is_review || e->safe_args.size > LIMIT_EVENT_BYTES / 2)) {
        deny_unrecordable(d);
        record = encode_hashed(d);
    }
    check(record.size > LIMIT_EVENT_BYTES || d->outcome.verdict == VERDICT_DENY);
    struct str *payload[] = {&e->args, &e->context, &e->resource_properties};
    for (size_t i = 0; i < sizeof payload / sizeof *payload && !fits(e, record); i++) {
        if (str_is_absent(*payload[i])) continue;
        *payload[i] = omitted(d, *payload[i]);
        record = encode(d, e);
    }
    if (record.size <= LIMIT_EVENT_BYTES || str_is_absent(e->would_have)) return record;
    d->outcome.has_would_have = false;
    e->would_have = (struct str){0};
    return encode(d, e);
}

/* {"channels":["finance-slack"],"remind":600}: which channels the platform announces the review to,
 * and after how many seconds it reminds them. Absent: none. */
static struct str notify_json(struct decision *d)
{
    const struct policy_review *r = &d->outcome.review;
    enum { NOTIFY_BYTES = 64 + POLICY_CHANNELS_MAX * (POLICY_CHANNEL_TEXT + 3) };
    if (r->notify_count == 0) return (struct str){0};
    char *bytes = arena_bytes(d->arena, NOTIFY_BYTES);
    if (bytes == NULL) return (struct str){0}; /* the arena is full: decide_settle() refuses */
    struct buf b = buf_over(bytes, NOTIFY_BYTES);
    buf_put_literal(&b, "{\"channels\":[");
    for (size_t i = 0; i < r->notify_count; i++) {
        if (i > 0) buf_put_byte(&b, ',');
        json_put_plain(&b, r->notify[i]);
    }
    buf_put_byte(&b, ']');
    if (r->remind_ms != 0) {
        buf_put_literal(&b, ",\"remind\":");
        buf_put_u64(&b, r->remind_ms / 1000);
    }
    buf_put_byte(&b, '}');
    check(!b.overflow);
    return buf_view(&b);
}

/* The queue's own event of a new review: the same request and outcome under its own id and kind. */
static struct str encode_enqueued(struct decision *d)
{
    struct event e = d->event;
    check(!d->has_review && !str_is_absent(e.review_id));
    char *id = arena_bytes(d->arena, ID_TEXT);
    if (id == NULL) return (struct str){0};
    id_write("evt_", id_make(d->tools->now_ms, d->tools->chance), id);
    e.event_id = str_of(id, ID_TEXT);
    e.kind = STR("review.enqueued");
    e.notify = notify_json(d);
    e.output_hash = (struct str){0}; /* the hash belongs to the decision's event */
    return encode(d, &e);
}

/* The event of a spent review: by whom, when, by which decision. It has the trace of the request,
 * not that of the redemption. So that trace leads to its end, and from there, by request_id, to the
 * decision. */
static struct str encode_redeemed(struct decision *d)
{
    struct event e = d->event;
    check(!str_is_absent(d->redemption_id) && !str_is_absent(d->redeems));
    e.event_id = d->redemption_id;
    e.kind = STR("review.redeemed");
    e.trace_id = d->asked_trace;
    e.args = e.context = e.resource = e.resource_properties = e.safe_args = (struct str){0};
    e.output_hash = (struct str){0};
    return encode(d, &e);
}

static struct str encode_beside(struct decision *d)
{
    enum verdict v = d->outcome.verdict;
    if (d->tools->dry_run) return (struct str){0};
    if (v == VERDICT_HUMAN_REVIEW && d->tools->asks_nobody) return (struct str){0};
    if (v == VERDICT_HUMAN_REVIEW) return d->has_review ? (struct str){0} : encode_enqueued(d);
    bool spends = v == VERDICT_ALLOW || v == VERDICT_COMPUTE;
    return spends && !str_is_absent(d->redeems) ? encode_redeemed(d) : (struct str){0};
}

static void encode_answer(struct decision *d)
{
    struct buf b =
        room_for(d, ANSWER_FIXED_BYTES + d->safe_args.size + d->explain.size + d->limits.size);
    answer_put(&b, d, d->ask->form, d->explain);
    d->answer = b.overflow ? (struct str){0} : kept(d, &b);
}

/* ---- repeat ---- */

/* Reads the output of would_have_json(). */
static enum err would_have_read(struct decision *d)
{
    static const struct json_options options = {0};
    struct policy_outcome *o = &d->outcome;
    struct json *v;
    o->has_would_have = !str_is_absent(d->event.would_have);
    if (!o->has_would_have) return ERR_OK;
    enum err err = json_read(d->event.would_have, &options, d->arena, &v, NULL);
    if (err != ERR_OK) return err;
    struct str rule = json_text(v, STR("rule"));
    if (str_is_empty(rule) || rule.size >= sizeof o->would_have_rule) return ERR_CORRUPT;
    memcpy(o->would_have_rule, rule.bytes, rule.size);
    o->would_have_rule[rule.size] = '\0';
    if (!verdict_read(json_text(v, STR("decision")), &o->would_have)) return ERR_CORRUPT;
    o->would_have_policy = json_text(v, STR("policy_name"));
    return ERR_OK;
}

enum err decide_repeat(struct decision *d, struct str record)
{
    decision_check(d);
    struct fault ignored;
    enum err err = event_read(record, d->arena, &d->event, &ignored);
    if (err != ERR_OK) return err;
    d->safe_args = d->event.safe_args;
    d->replayed = true;
    if (d->review_is_approved) d->event.expires_at = d->review_expires_ms;
    if (!verdict_read(d->event.decision, &d->outcome.verdict)) return ERR_CORRUPT;
    err = would_have_read(d);
    if (err != ERR_OK) return err;
    encode_answer(d);
    decision_check(d);
    return str_is_absent(d->answer) ? ERR_FULL : ERR_OK;
}

/* ---- the life of a decision ---- */

void decide_begin(struct decision *d, const struct decide_tools *tools, const struct caller *caller,
                  struct auth_request *ask, struct arena *arena)
{
    check(d->tools == NULL && tools->policies != NULL);
    d->tools = tools;
    d->caller = caller;
    d->ask = ask;
    d->arena = arena;
    /* Hashing takes about as long as the first memory access of evaluation: so that starts here. */
    policy_memory_expect(tools->memory, tools->policies, ask->policy.action);
    describe_ask(d);
    decision_check(d);
}

void decide_describe(struct decision *d)
{
    if (d->is_described) return;
    d->is_described = true;
    decision_check(d);
    if (d->outcome.verdict == VERDICT_HUMAN_REVIEW && d->bound == NULL) keep_full_form(d);
    describe_payload(d);
}

static void time_taken(struct decision *d)
{
    d->latency_ns = world_monotonic_ns() - d->tools->started_ns;
    d->event.latency_ms = (double)(d->latency_ns / 1000) / 1000.0;
    d->event.has_latency_ms = true;
}

static void settle(struct decision *d)
{
    describe_outcome(d);
    describe_review(d);
    describe_binding(d);
    time_taken(d);
    d->record = encode_within_limit(d);
    d->beside = encode_beside(d);
    encode_answer(d);
}

static bool is_settled(const struct decision *d)
{
    return !d->arena->overflow && !str_is_absent(d->answer);
}

/* If there is no memory for the members that only shadow documents or an explanation add, they are
 * omitted: the decision is the same without them. */
static void settle_without_additions(struct decision *d)
{
    d->outcome.has_would_have = false;
    if (!str_is_absent(d->explain)) d->explain = explain_too_many;
    settle(d);
}

enum err decide_settle(struct decision *d, struct fault *f)
{
    decision_check(d);
    check(d->is_described);
    bool has_additions = d->outcome.has_would_have || !str_is_absent(d->explain);
    if (has_additions && !d->arena->overflow) {
        struct arena *a = d->arena;
        struct arena before = arena_begin_aside(a, a->limit_bytes - a->taken_bytes);
        struct event event = d->event;
        struct policy_outcome outcome = d->outcome;
        settle(d);
        if (!is_settled(d)) {
            arena_end_aside(a, &before);
            d->event = event;
            d->outcome = outcome;
            settle_without_additions(d);
        }
    } else {
        settle(d);
    }
    /* If memory was missing, a condition or a mask may have been skipped. */
    if (d->arena->starved) return fault_plain(f, ERR_OVERLOADED);
    if (!is_settled(d))
        return fault_set(f, ERR_BODY_TOO_LARGE, "",
                         "the request needs more memory than one request may use");
    decision_check(d);
    check(!str_is_absent(d->record));
    if (d->record.size > LIMIT_EVENT_BYTES)
        return fault_set(
            f, ERR_BODY_TOO_LARGE, "",
            "the request is too large to be recorded, even without args, context and properties");
    return ERR_OK;
}
