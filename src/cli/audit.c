/* audit.c - `writ audit query` searches the audit trail. `writ audit trace` is in audit_trace.c,
 * the export in export.c. */
#include "cli/audit.h"

#include "base/limits.h"

struct str audit_what_shown(struct cli *c, const struct json *e)
{
    struct str action = member_shown(c, e, "action");
    const struct json *resource = json_get(e, STR("resource"));
    struct str type = member_shown(c, resource, "type"), id = member_shown(c, resource, "id");
    if (!json_is_object(resource)) id = value_shown(c, resource);
    if (type.size == 0 && id.size == 0) return action;
    return arena_printf(&c->arena, "%.*s on %.*s%s%.*s", STR_FORMAT(action), STR_FORMAT(type),
                        type.size > 0 && id.size > 0 ? ":" : "", STR_FORMAT(id));
}

bool audit_is_dry_run(const struct json *e)
{
    return str_equal(json_text(e, STR("mode")), STR("dry_run"));
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
    table_add(t, audit_what_shown(c, e));
    struct str decision = member_shown(c, e, "decision");
    table_add(t, audit_is_dry_run(e)
                     ? arena_printf(&c->arena, "%.*s (dry run)", STR_FORMAT(decision))
                     : decision);
    table_add(t, member_shown(c, e, "rule"));
    table_add(t, member_shown(c, e, "trace_id"));
}

/* ---- query ---- */

const char *const audit_filters[] = {"actor",   "action",   "decision", "kind", "rule",
                                     "user-id", "trace-id", "from",     "to",   NULL};

int audit_time(struct cli *c, const struct arguments *a, const char *name, struct str *ret)
{
    *ret = argument_text(a, name);
    if (str_is_absent(*ret) || time_or_ago(c, *ret, ret)) return DONE;
    struct str day = arena_printf(&c->arena, "%.*sT00:00:00Z", STR_FORMAT(*ret));
    if (time_or_ago(c, day, ret)) return DONE;
    return cli_complain(
        c, USAGE,
        "--%s: the value is neither a span such as 1h nor a time such as 2026-11-20 or "
        "2026-11-20T09:30:00Z",
        name);
}

static int filter_value(struct cli *c, const struct arguments *a, const char *name, struct str *ret)
{
    if (strcmp(name, "from") == 0 || strcmp(name, "to") == 0) return audit_time(c, a, name, ret);
    *ret = argument_text(a, name);
    return DONE;
}

int audit_target(struct cli *c, const struct arguments *a, struct target *ret)
{
    target_init(c, ret, "/api/v1/audit");
    target_tenant(ret, c);
    for (size_t i = 0; audit_filters[i] != NULL; i++) {
        struct str value;
        char name[16];
        int code = filter_value(c, a, audit_filters[i], &value);
        if (code != DONE) return code;
        snprintf(name, sizeof name, "%s", audit_filters[i]);
        for (char *at = name; *at != '\0'; at++)
            if (*at == '-') *at = '_';
        target_query(ret, name, value);
    }
    return DONE;
}

static const struct json *first_event(const struct reply *reply)
{
    const struct json *events = json_get(reply->root, STR("events"));
    return json_is_array(events) ? events->child : NULL;
}

/* The next page begins after the last event of this one, with older events. */
static int check_next(struct cli *c, const struct reply *reply, uint64_t cursor, uint64_t next)
{
    if (next == 0 || (first_event(reply) != NULL && (cursor == 0 || next < cursor))) return DONE;
    return cli_complain(
        c, REFUSED,
        "the platform's answer has a cursor that does not come to an end: check --platform");
}

/* One page after `*cursor`, which moves on (0 at the end), of at most `limit`. */
static int query_page(struct cli *c, const struct target *base, uint64_t limit, uint64_t *cursor,
                      struct reply *reply)
{
    struct target t = *base; /* the next page overwrites what this one adds from here on */
    target_query(&t, "limit",
                 arena_printf(&c->arena, "%llu",
                              (unsigned long long)(limit > LIMIT_PAGE ? LIMIT_PAGE : limit)));
    if (*cursor != 0)
        target_query(&t, "cursor", arena_printf(&c->arena, "%llu", (unsigned long long)*cursor));
    struct request r = {.side = SIDE_PLATFORM, .method = "GET", .target = target_text(&t)};
    int code = cli_call(c, &r, reply);
    if (code != DONE) return code;
    uint64_t next = json_u64(reply->root, STR("next_cursor"), 0);
    code = check_next(c, reply, *cursor, next);
    *cursor = next;
    return code;
}

static void tell_older(struct cli *c, uint64_t cursor)
{
    if (cursor != 0) fprintf(c->err, "Older ones: --cursor %llu\n", (unsigned long long)cursor);
}

/* One page: the answer as it came. More pages: one event a line. All pages use the same
 * memory, one after the other. */
static int query_json(struct cli *c, const struct target *target, uint64_t limit, uint64_t cursor)
{
    struct cli page = *c;
    struct reply reply;
    uint64_t told = 0;
    int code;
    arena_init(&page.arena, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    do {
        arena_reset(&page.arena);
        code = query_page(&page, target, limit - told, &cursor, &reply);
        if (code == DONE && limit <= LIMIT_PAGE) print_json(c, reply.body);
        if (code != DONE || limit <= LIMIT_PAGE) break;
        for (const struct json *e = first_event(&reply); e != NULL; e = e->next, told++)
            print_json(c, e->raw);
    } while (told < limit && cursor != 0);
    if (code == DONE && limit > LIMIT_PAGE) tell_older(c, cursor);
    c->clients[SIDE_PLATFORM] = page.clients[SIDE_PLATFORM];
    arena_fini(&page.arena);
    return code;
}

static int audit_query(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"TIME",     "KIND",  "*WHO",  "*WHAT",
                                        "DECISION", "*RULE", "TRACE", NULL};
    struct target target;
    uint64_t limit = 20, cursor = 0, told = 0;
    if (argument_given(a, "limit") &&
        (!str_to_u64(argument_text(a, "limit"), &limit) || limit == 0 || limit > 100000))
        return cli_complain(c, USAGE, "--limit: it must be a number from 1 to 100000");
    if (argument_given(a, "cursor") && !str_to_u64(argument_text(a, "cursor"), &cursor))
        return cli_complain(c, USAGE, "--cursor: it must be a number, as an earlier page gave it");
    int code = audit_target(c, a, &target);
    if (code != DONE) return code;

    if (c->json) return query_json(c, &target, limit, cursor);
    struct table t;
    table_init(&t, &c->arena, heads);
    do {
        struct reply reply;
        code = query_page(c, &target, limit - told, &cursor, &reply);
        if (code != DONE) return code;
        for (const struct json *e = first_event(&reply); e != NULL; e = e->next, told++)
            add_event(c, &t, e);
        if (c->arena.overflow)
            return cli_complain(
                c, REFUSED, "the rows do not fit into memory: use a smaller --limit, or --json");
    } while (told < limit && cursor != 0);
    table_print(&t, c->out, c->width);
    tell_older(c, cursor);
    return DONE;
}

static const struct flag query_flags[] = {
    AUDIT_FILTER_FLAGS,
    {"limit", "N", "the most events to show, newest first (default 20)"},
    {"cursor", "N", "continue where an earlier page ended"},
    {NULL, NULL, NULL}};

/* ---- accept-gap ---- */

static const char gap_text[] =
    "If no journal has the records that a stream waits for, the stream never continues. The platform's\n"
    "database is then an older or a new one. The engine's /healthz has the command to run.\n"
    "The command gives the records up: look for a newer backup first. An event audit.gap records it.";

static int audit_accept_gap(struct cli *c, const struct arguments *a)
{
    static const char *const texts[] = {"node", "journal", "epoch", "reason"}, *const seqs[] = {
                                                                                   "from-seq",
                                                                                   "next-seq"};
    struct buf body = cli_scratch(c, 8 << 10);
    struct reply reply;
    uint64_t seq[2];
    if (str_is_empty(argument_text(a, "node")) || str_is_empty(argument_text(a, "epoch")))
        return cli_complain(
            c, USAGE,
            "--node, --from-seq, --next-seq and --epoch are needed: writ audit accept-gap --help");
    for (int i = 0; i < 2; i++)
        if (!str_to_u64(argument_text(a, seqs[i]), &seq[i]) || seq[i] == 0)
            return cli_complain(c, USAGE, "--%s: it must be the number of a record, from 1 on",
                                seqs[i]);
    buf_put_byte(&body, '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_text_member(&body, texts[i], argument_text(a, texts[i]));
    buf_printf(&body, ",\"from_seq\":%llu,\"next_seq\":%llu}", (unsigned long long)seq[0],
               (unsigned long long)seq[1]);
    int code = cli_post(c, "/api/v1/audit/gaps", &body, &reply);
    if (code == DONE && !c->json)
        fprintf(c->out, "%llu records are given up; the stream of %.*s continues at %llu.\n",
                (unsigned long long)json_u64(reply.root, STR("lost"), 0),
                STR_FORMAT(member_shown(c, reply.root, "node")), (unsigned long long)seq[1]);
    return code;
}

/* ---- the rows ---- */

static const struct flag gap_flags[] = {
    {"node", "NAME", "the engine that wrote the records"},
    {"from-seq", "N", "the first record that is missing"},
    {"next-seq", "N", "the first record that is still there"},
    {"epoch", "HEX", "the epoch of the record --next-seq"},
    {"journal", "NAME", "the journal of that engine (default 0)"},
    {"reason", "TEXT", "why the records are lost, for the audit trail"},
    {NULL, NULL, NULL}};

const struct command audit_commands[] = {
    {"audit", "query", "", "search the audit trail, newest first",
     "With --json: the platform's answer; for more than 500 events, one event a line.", query_flags,
     0, 0, audit_query},
    {"audit", "trace", "ID", "show everything under one trace id, oldest first", audit_trace_text,
     NULL, 1, 1, audit_trace},
    {"audit", "export", "", "write the audit trail to a file, oldest first", export_text,
     export_flags, 0, 0, audit_export},
    {"audit", "verify", "", "check every record against the signed checkpoints", verify_text,
     verify_flags, 0, 0, audit_verify},
    {"audit", "prove", "EVENT", "write a proof that one record is in its signed tree", prove_text,
     prove_flags, 1, 1, audit_prove},
    {"audit", "accept-gap", "", "let a stream continue after records that are lost", gap_text,
     gap_flags, 0, 0, audit_accept_gap},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
