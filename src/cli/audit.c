/* audit.c - `writ audit`: what was decided, and all that one trace id stands for. */
#include "cli/cli.h"

enum { PAGE_MAX = 500 };

/* What an event is about: "issue_refund on invoice:in_1". */
static struct str what_shown(struct cli *c, const struct json *e)
{
    struct str action = member_shown(c, e, "action");
    const struct json *resource = json_get(e, STR("resource"));
    struct str type = member_shown(c, resource, "type"), id = member_shown(c, resource, "id");
    if (!json_is_object(resource)) id = value_shown(c, resource);
    if (type.size == 0 && id.size == 0) return action;
    return arena_printf(&c->arena, "%.*s on %.*s%s%.*s", STR_FORMAT(action), STR_FORMAT(type),
                        type.size > 0 && id.size > 0 ? ":" : "", STR_FORMAT(id));
}

static struct str who_shown(struct cli *c, const struct json *e)
{
    struct str actor = member_shown(c, e, "actor"), user = member_shown(c, e, "user_id");
    return actor.size > 0 ? actor : user;
}

static void add_event(struct cli *c, struct table *t, const struct json *e)
{
    table_add(t, member_shown(c, e, "timestamp"));
    table_add(t, member_shown(c, e, "kind"));
    table_add(t, who_shown(c, e));
    table_add(t, what_shown(c, e));
    table_add(t, member_shown(c, e, "decision"));
    table_add(t, member_shown(c, e, "rule"));
    table_add(t, member_shown(c, e, "trace_id"));
}

/* ---- query ---- */

static const char *const filters[] = {"actor", "action", "decision", "kind", "rule", "user-id", "trace-id"};

static int query_target(struct cli *c, const struct arguments *a, struct target *t)
{
    struct str from = argument(a, "from"), to = argument(a, "to");
    if (!str_is_absent(from) && !time_or_ago(c, from, &from))
        return cli_complain(c, USAGE, "--from: that is neither a span such as 1h nor a time such as 2026-11-20T09:30:00Z");
    if (!str_is_absent(to) && !time_or_ago(c, to, &to))
        return cli_complain(c, USAGE, "--to: that is neither a span such as 1h nor a time such as 2026-11-20T09:30:00Z");
    target_init(c, t, "/api/v1/audit");
    target_tenant(t, c);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s", filters[i]);
        for (char *at = name; *at != '\0'; at++)
            if (*at == '-') *at = '_';
        target_query(t, name, argument(a, filters[i]));
    }
    target_query(t, "from", from);
    target_query(t, "to", to);
    return DONE;
}

/* One page after `cursor`; *ret_next is 0 at the end. */
static int query_page(struct cli *c, const struct target *base, uint64_t limit, uint64_t cursor, struct reply *reply,
                      uint64_t *ret_next)
{
    struct target t = *base; /* what is added now is overwritten by the next page */
    target_query(&t, "limit", arena_printf(&c->arena, "%llu", (unsigned long long)limit));
    if (cursor != 0) target_query(&t, "cursor", arena_printf(&c->arena, "%llu", (unsigned long long)cursor));
    struct request r = {.side = SIDE_PLATFORM, .method = "GET", .target = target_text(&t)};
    int code = call(c, &r, reply);
    if (code == DONE) *ret_next = json_u64(reply->root, STR("next_cursor"), 0);
    return code;
}

static const struct json *first_event(const struct reply *reply)
{
    const struct json *events = json_get(reply->root, STR("events"));
    return json_is_array(events) ? events->child : NULL;
}

static int audit_query(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"TIME", "KIND", "*WHO", "*WHAT", "DECISION", "*RULE", "TRACE", NULL};
    struct target target;
    uint64_t limit = 20, cursor = 0, told = 0;
    if (argument_given(a, "limit") && (!str_to_u64(argument(a, "limit"), &limit) || limit == 0 || limit > 100000))
        return cli_complain(c, USAGE, "--limit: it must be a number from 1 to 100000");
    if (argument_given(a, "cursor") && !str_to_u64(argument(a, "cursor"), &cursor))
        return cli_complain(c, USAGE, "--cursor: it must be a number, as an earlier page gave it");
    int code = query_target(c, a, &target);
    if (code != DONE) return code;

    struct table t;
    table_init(&t, &c->arena, heads);
    do {
        struct reply reply;
        uint64_t page = limit - told > PAGE_MAX ? PAGE_MAX : limit - told;
        code = query_page(c, &target, page, cursor, &reply, &cursor);
        if (code != DONE) return code;
        if (c->json && limit <= PAGE_MAX) { /* one page: the answer as it came */
            print_json(c, reply.body);
            return DONE;
        }
        for (const struct json *e = first_event(&reply); e != NULL; e = e->next, told++) {
            if (c->json) print_json(c, e->raw); /* many: one event a line */
            else add_event(c, &t, e);
        }
    } while (told < limit && cursor != 0);
    if (c->json) return DONE;
    table_print(&t, c->out, c->width);
    if (cursor != 0) fprintf(c->err, "Older ones: --cursor %llu\n", (unsigned long long)cursor);
    return DONE;
}

/* ---- trace ---- */

static void print_event(struct cli *c, const struct json *e)
{
    static const struct {
        const char *label, *member;
    } fields[] = {{"actor", "actor"},           {"user", "user_id"},        {"acting for", "acting_for"},
                  {"args", "args"},             {"context", "context"},     {"confidence", "confidence_used"},
                  {"reason", "reason"},         {"rule", "rule"},           {"policy", "policy_name"},
                  {"safe tool", "safe_tool"},   {"safe args", "safe_args"}, {"would have", "would_have"},
                  {"review", "review_id"},      {"expires", "expires_at"},  {"resolved by", "resolved_by"},
                  {"note", "resolution_note"},  {"key", "key_id"},          {"input hash", "input_hash"},
                  {"output hash", "output_hash"}};
    struct str what = what_shown(c, e), decision = member_shown(c, e, "decision");
    fprintf(c->out, "%.*s  %.*s  %.*s  ", STR_FORMAT(member_shown(c, e, "timestamp")),
            STR_FORMAT(member_shown(c, e, "kind")), STR_FORMAT(what));
    print_verdict(c, decision);
    fputc('\n', c->out);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        print_field(c, fields[i].label, member_shown(c, e, fields[i].member));
    const struct json *source = json_get(e, STR("source"));
    if (source != NULL)
        print_field(c, "record", arena_printf(&c->arena, "seq %.*s of %.*s", STR_FORMAT(member_shown(c, source, "seq")),
                                              STR_FORMAT(member_shown(c, source, "node"))));
}

static int audit_trace(struct cli *c, const struct arguments *a)
{
    struct target target;
    struct reply reply;
    target_init(c, &target, "/api/v1/audit/trace");
    target_segment(&target, positional(a, 0));
    target_tenant(&target, c);
    struct request r = {.side = SIDE_PLATFORM, .method = "GET", .target = target_text(&target)};
    int code = call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    const struct json *e = first_event(&reply);
    if (e == NULL)
        return cli_complain(c, REFUSED, "nothing is recorded under this trace id (yet: a record takes a moment to arrive)");
    for (; e != NULL; e = e->next) print_event(c, e);
    return DONE;
}

/* ---- the rows ---- */

static const struct flag query_flags[] = {
    {"actor", "NAME", "of this agent"},
    {"user-id", "NAME", "of this person"},
    {"action", "NAME", "of this action or tool"},
    {"decision", "WORD", "allow, deny, human_review or compute"},
    {"kind", "WORD", "decision, policy.put, key.created, auth.failed, …"},
    {"rule", "RULE", "decided by this rule, such as review:large-refunds"},
    {"trace-id", "ID", "under this trace id"},
    {"from", "SPAN|TIME", "not before: 1h (ago), 2026-11-20T09:30:00Z"},
    {"to", "SPAN|TIME", "before this time"},
    {"limit", "N", "at most so many, newest first (default 20)"},
    {"cursor", "N", "go on where an earlier page ended"},
    {NULL, NULL, NULL}};

const struct command audit_commands[] = {
    {"audit", "query", "", "search the audit trail, newest first",
     "With --json: the platform's answer; for more than 500 events, one event a line.", query_flags, 0, 0, audit_query},
    {"audit", "trace", "TRACE_ID", "show everything under one trace id, oldest first", NULL, NULL, 1, 1, audit_trace},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
