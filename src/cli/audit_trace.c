/* audit_trace.c - `writ audit trace`: everything that belongs to one decision, found by any of
 * these ids:
 *
 *   trace id ─────────────────────────────────────────────────▶ GET /api/v1/audit/trace/{id}
 *   traceparent ── its second field ──▶ trace id
 *   req_ evt_ rev_ tok_ ── contains its millisecond: the events of that time ──▶ trace id
 *
 * An event that belongs to no decision (a key was made, a token minted) has no trace. The command
 * then shows this event alone.
 *
 * An id of ours contains its millisecond, so a request id from a log finds its trace without an
 * index. The command searches the events of that millisecond (a few dozen on a busy platform), then
 * 50 ms more, because an event is recorded a little after its id was made. */
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/audit.h"

enum { PAGES_MAX = 40, EVENTS_LATE_MS = 50, TRACEPARENT_TEXT = 55 };

/* ---- which trace ---- */

/* The 32 digits of 00-<32 digits>-<16 digits>-<2 digits>, copied from a header. A later version may
 * have more after a fourth dash. Absent: the text has another form. */
static struct str trace_of_traceparent(struct str text)
{
    static const char form[] = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
    _Static_assert(sizeof form - 1 == TRACEPARENT_TEXT, "W3C Trace Context, 3.2");
    if (text.size < TRACEPARENT_TEXT ||
        (text.size > TRACEPARENT_TEXT && text.bytes[TRACEPARENT_TEXT] != '-'))
        return (struct str){0};
    for (size_t i = 0; i < TRACEPARENT_TEXT; i++) {
        bool is_digit = memchr("0123456789abcdef", text.bytes[i], 16) != NULL;
        if (form[i] == 'h' ? !is_digit : text.bytes[i] != '-') return (struct str){0};
    }
    return str_of(text.bytes + 3, 32);
}

/* The same 128 bits as other tools write them: in capitals, or with the dashes of a UUID. Absent:
 * the text has another form. */
static struct str other_spelling(struct cli *c, struct str text)
{
    char digits[32];
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char lower = text.bytes[i] >= 'A' && text.bytes[i] <= 'F'
                         ? (char)(text.bytes[i] - 'A' + 'a')
                         : text.bytes[i];
        bool dash = lower == '-' && text.size == 36 && (i == 8 || i == 13 || i == 18 || i == 23);
        if (dash) continue;
        if (size == sizeof digits || memchr("0123456789abcdef", lower, 16) == NULL)
            return (struct str){0};
        digits[size++] = lower;
    }
    struct str other = str_of(digits, size);
    return size == sizeof digits && !str_equal(other, text) ? arena_copy(&c->arena, other)
                                                            : (struct str){0};
}

/* Whether it is an id of ours that events contain, and its time. */
static bool id_of_ours(struct str text, uint64_t *ret_ms)
{
    static const char *const prefixes[] = {"req_", "evt_", "rev_", "tok_"};
    struct id id;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!id_read(prefixes[i], text, &id)) continue;
        *ret_ms = id_time_ms(id);
        return true;
    }
    return false;
}

static bool carries(const struct json *event, struct str id)
{
    static const char *const members[] = {"request_id", "event_id", "review_id", "token_id"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (str_equal(json_text(event, str_from(members[i])), id)) return true;
    return false;
}

static struct str time_text(struct cli *c, uint64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    return arena_copy(&c->arena, str_of(text, sizeof text));
}

static bool has_trace(const struct json *event)
{
    return !str_is_empty(json_text(event, STR("trace_id")));
}

/* An event of [from, to) that contains the id, preferably one with a trace; NULL: none. */
static int search(struct cli *c, struct str id, uint64_t from_ms, uint64_t to_ms,
                  const struct json **ret)
{
    uint64_t cursor = 0;
    *ret = NULL;
    for (unsigned page = 0; page < PAGES_MAX && (page == 0 || cursor != 0); page++) {
        struct target t;
        struct reply reply;
        target_init(c, &t, "/api/v1/audit");
        target_tenant(&t, c);
        target_query(&t, "from", time_text(c, from_ms));
        target_query(&t, "to", time_text(c, to_ms));
        /* the decision of a redemption precedes the event that another trace has of it */
        target_query(&t, "order", STR("asc"));
        target_query(&t, "limit", arena_printf(&c->arena, "%d", LIMIT_PAGE));
        if (cursor != 0)
            target_query(&t, "cursor", arena_printf(&c->arena, "%llu", (unsigned long long)cursor));
        struct request r = {.side = SIDE_PLATFORM, .method = "GET", .target = target_text(&t)};
        int code = cli_call(c, &r, &reply);
        if (code != DONE) return code;
        const struct json *events = json_get(reply.root, STR("events"));
        for (const struct json *e = json_is_array(events) ? events->child : NULL; e != NULL;
             e = e->next) {
            if (!carries(e, id)) continue;
            if (*ret == NULL || has_trace(e)) *ret = e;
            if (has_trace(e)) return DONE;
        }
        cursor = json_u64(reply.root, STR("next_cursor"), 0);
    }
    return DONE;
}

/* Finds the trace id for the given id, or the event that has none. */
static int settle(struct cli *c, struct str given, struct str *ret, const struct json **ret_alone)
{
    uint64_t ms;
    const struct json *event;
    *ret = given;
    *ret_alone = NULL;
    if (!id_of_ours(*ret, &ms)) return DONE;
    struct str id = *ret;
    int code = search(c, id, ms, ms + 1, &event);
    if (code == DONE && event == NULL) code = search(c, id, ms + 1, ms + EVENTS_LATE_MS, &event);
    if (code != DONE) return code;
    if (event == NULL)
        return cli_complain(
            c, REFUSED,
            "no event of that time contains %.*s (yet: a record takes a moment to arrive)",
            STR_FORMAT(id));
    *ret = json_text(event, STR("trace_id"));
    if (!has_trace(event))
        *ret_alone = event;
    else if (!c->json)
        fprintf(c->err, "%.*s belongs to trace %.*s\n", STR_FORMAT(id), STR_FORMAT(*ret));
    return DONE;
}

/* ---- showing ---- */

static struct str policy_shown(struct cli *c, const struct json *e)
{
    struct str name = member_shown(c, e, "policy_name"),
               version = member_shown(c, e, "policy_version");
    if (name.size == 0 || version.size == 0) return name;
    return arena_printf(&c->arena, "%.*s, version %.*s", STR_FORMAT(name), STR_FORMAT(version));
}

/* The whole resource, where the line above has only a part: policies may read its other members. */
static struct str resource_shown(struct cli *c, const struct json *e)
{
    const struct json *resource = json_get(e, STR("resource"));
    return resource_has_more(resource) ? value_shown(c, resource) : (struct str){0};
}

static void print_event(struct cli *c, const struct json *e)
{
    static const struct {
        const char *label, *member;
        struct str (*shown)(struct cli *c, const struct json *e); /* if `member` is NULL */
    } fields[] = {{"actor", "actor", NULL},
                  {"user", "user_id", NULL},
                  {"acting for", "acting_for", NULL},
                  {"resource", NULL, resource_shown},
                  {"properties", "resource_properties", NULL},
                  {"args", "args", NULL},
                  {"context", "context", NULL},
                  {"confidence", "confidence_used", NULL},
                  {"reason", "reason", NULL},
                  {"rule", "rule", NULL},
                  {"policy", NULL, policy_shown},
                  {"count", "count", NULL},
                  {"safe tool", "safe_tool", NULL},
                  {"safe args", "safe_args", NULL},
                  {"would have", "would_have", NULL},
                  {"token", "token_id", NULL},
                  {"scope", "scope", NULL},
                  {"review", "review_id", NULL},
                  {"redemption", "redemption_id", NULL},
                  {"expires", "expires_at", NULL},
                  {"resolved by", "resolved_by", NULL},
                  {"note", "resolution_note", NULL},
                  {"request", "request_id", NULL},
                  {"key", "key_id", NULL},
                  {"input hash", "input_hash", NULL},
                  {"input salt", "input_salt", NULL},
                  {"output hash", "output_hash", NULL},
                  {"binding hash", "binding_hash", NULL}};
    struct str what = audit_what_shown(c, e), decision = member_shown(c, e, "decision");
    fprintf(c->out, "%.*s  %.*s  %.*s  ", STR_FORMAT(member_shown(c, e, "timestamp")),
            STR_FORMAT(member_shown(c, e, "kind")), STR_FORMAT(what));
    print_verdict(c, decision);
    fputs(audit_is_dry_run(e) ? "  (dry run: nothing was permitted)\n" : "\n", c->out);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        print_field(c, fields[i].label,
                    fields[i].member == NULL ? fields[i].shown(c, e)
                                             : member_shown(c, e, fields[i].member));
    const struct json *source = json_get(e, STR("source"));
    if (source != NULL)
        print_field(c, "record",
                    arena_printf(&c->arena, "seq %.*s of %.*s",
                                 STR_FORMAT(member_shown(c, source, "seq")),
                                 STR_FORMAT(member_shown(c, source, "node"))));
}

static int ask_trace(struct cli *c, struct str trace_id, struct reply *reply,
                     const struct json **ret_first)
{
    struct target target;
    target_init(c, &target, "/api/v1/audit/trace");
    target_segment(&target, trace_id);
    target_tenant(&target, c);
    struct request r = {.side = SIDE_PLATFORM, .method = "GET", .target = target_text(&target)};
    int code = cli_call(c, &r, reply);
    const struct json *events = code == DONE ? json_get(reply->root, STR("events")) : NULL;
    *ret_first = json_is_array(events) ? events->child : NULL;
    return code;
}

/* Reads the next page, after `cursor`. */
static int ask_on(struct cli *c, struct str trace_id, uint64_t cursor, struct reply *reply,
                  const struct json **ret_first)
{
    struct target target;
    target_init(c, &target, "/api/v1/audit");
    target_query(&target, "trace_id", trace_id);
    target_query(&target, "order", STR("asc"));
    target_query(&target, "limit", arena_printf(&c->arena, "%d", LIMIT_PAGE));
    target_query(&target, "cursor", arena_printf(&c->arena, "%llu", (unsigned long long)cursor));
    target_tenant(&target, c);
    struct request r = {.side = SIDE_PLATFORM, .method = "GET", .target = target_text(&target)};
    int code = cli_call(c, &r, reply);
    const struct json *events = code == DONE ? json_get(reply->root, STR("events")) : NULL;
    *ret_first = json_is_array(events) ? events->child : NULL;
    return code;
}

/* The pages after the first. Each has memory of its own, because agents choose how long a trace
 * is. */
static int tell_rest(struct cli *c, struct str trace_id, uint64_t next)
{
    struct cli page = *c;
    int code = DONE;
    arena_init(&page.arena, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    while (code == DONE && next != 0) {
        struct reply reply;
        const struct json *e;
        arena_reset(&page.arena);
        code = ask_on(&page, trace_id, next, &reply, &e);
        if (code != DONE) break;
        bool is_empty = e == NULL; /* a further page begins after an event */
        for (; e != NULL; e = e->next) print_event(&page, e);
        uint64_t after = json_u64(reply.root, STR("next_cursor"), 0);
        if (after != 0 && (after <= next || is_empty))
            code = cli_complain(
                c, REFUSED,
                "the platform's answer has a cursor that does not come to an end: check --platform");
        next = after;
    }
    c->clients[SIDE_PLATFORM] = page.clients[SIDE_PLATFORM];
    arena_fini(&page.arena);
    return code;
}

static int tell_alone(struct cli *c, const struct json *event)
{
    if (c->json) {
        fprintf(c->out, "{\"events\":[%.*s],\"count\":1,\"trace_id\":\"\"}\n",
                STR_FORMAT(event->raw));
        return DONE;
    }
    fputs("It belongs to no decision and has no trace; this is its event.\n", c->err);
    print_event(c, event);
    return DONE;
}

/* First the text as it is, because a client may choose any trace id. Then the other forms. */
static int ask_any_spelling(struct cli *c, struct str *trace_id, struct reply *reply,
                            const struct json **ret_first)
{
    const struct str spellings[] = {*trace_id, trace_of_traceparent(*trace_id),
                                    other_spelling(c, *trace_id)};
    int code = DONE;
    *ret_first = NULL;
    for (size_t i = 0; i < 3 && code == DONE && *ret_first == NULL; i++) {
        if (str_is_absent(spellings[i])) continue;
        *trace_id = spellings[i];
        code = ask_trace(c, *trace_id, reply, ret_first);
    }
    return code;
}

int audit_trace(struct cli *c, const struct arguments *a)
{
    struct str trace_id;
    struct reply reply;
    const struct json *e;
    int code = settle(c, argument_at(a, 0), &trace_id, &e);
    if (code == DONE && e != NULL) return tell_alone(c, e);
    if (code == DONE) code = ask_any_spelling(c, &trace_id, &reply, &e);
    if (code != DONE) return code;
    uint64_t next = json_u64(reply.root, STR("next_cursor"), 0);
    if (c->json) {
        print_json(c, reply.body);
        if (next != 0)
            fputs(
                "The trace has more events: writ audit query --trace-id ID --limit 100000 --json\n",
                c->err);
        return e == NULL ? REFUSED : DONE;
    }
    if (e == NULL)
        return cli_complain(
            c, REFUSED, "%s",
            str_starts(trace_id, STR("key_"))
                ? "a key has no trace; the records of keys are in: writ audit query --kind key.created"
                : "nothing is recorded under this trace id (yet: a record takes a moment to arrive)");
    for (; e != NULL; e = e->next) print_event(c, e);
    return tell_rest(c, trace_id, next);
}

const char audit_trace_text[] =
    "ID is a trace id, a whole traceparent header, or the id of a request (req_), an event (evt_),\n"
    "a review (rev_) or a token (tok_). An event that belongs to no decision is shown alone.\n"
    "Exit status 1 if nothing is recorded.";
