/* token.c - `writ token`: short-lived credentials for agents. */
#include "cli/cli.h"
#include "config/config.h"

enum { BODY_MAX = 64 << 10 };

static int read_count(struct cli *c, const struct arguments *a, const char *flag, uint64_t *ret)
{
    struct str text = argument(a, flag);
    *ret = 0;
    if (str_is_absent(text) || (str_to_u64(text, ret) && *ret > 0)) return DONE;
    return cli_complain(c, USAGE, "--%s: \"%.*s\" is not a number above 0", flag, STR_FORMAT(text_shown(&c->arena, text)));
}

static void put_number_member(struct buf *out, const char *name, uint64_t value)
{
    char digits[24];
    struct buf b = buf_over(digits, sizeof digits);
    buf_put_u64(&b, value);
    if (value != 0) put_raw_member(out, name, buf_view(&b));
}

static int token_mint(struct cli *c, const struct arguments *a)
{
    struct buf body = scratch(c, BODY_MAX);
    struct reply reply;
    uint64_t ttl_ms = 0, uses;
    struct str ttl = argument(a, "ttl");
    if (!str_is_absent(ttl) && !config_span(ttl, &ttl_ms))
        return cli_complain(c, USAGE, "--ttl: \"%.*s\" is not a span such as 60s or 1h", STR_FORMAT(text_shown(&c->arena, ttl)));
    int code = read_count(c, a, "uses", &uses);
    if (code != DONE) return code;
    buf_put_byte(&body, '{');
    put_text_member(&body, "scope", argument(a, "scope"));
    put_text_member(&body, "actor", argument(a, "actor"));
    put_text_member(&body, "acting_for", argument(a, "acting-for"));
    put_text_member(&body, "audience", argument(a, "audience"));
    put_text_member(&body, "tenant_id", c->tenant);
    put_number_member(&body, "ttl_seconds", ttl_ms / 1000);
    put_number_member(&body, "max_uses", uses);
    buf_put_byte(&body, '}');
    struct request r = {.side = SIDE_ENGINE, .method = "POST", .target = STR("/v1/tokens/mint"), .body = buf_view(&body)};
    code = call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    fprintf(c->out, "%.*s\n", STR_FORMAT(json_text(reply.root, STR("token"))));
    fprintf(c->err, "This is %.*s, for %.*s; it ends at %.*s (Unix seconds).\n", STR_FORMAT(member_shown(c, reply.root, "token_id")),
            STR_FORMAT(member_shown(c, reply.root, "scope")), STR_FORMAT(member_shown(c, reply.root, "expires_at")));
    return DONE;
}

static int token_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"TOKEN", "*ACTOR", "*ACTING FOR", "*SCOPE", "USES LEFT", "EXPIRES", "ACTIVE", NULL};
    struct target target;
    struct reply reply;
    target_init(c, &target, "/v1/tokens");
    target_tenant(&target, c);
    target_query(&target, "actor", argument(a, "actor"));
    target_query(&target, "acting_for", argument(a, "acting-for"));
    if (!argument_given(a, "all")) target_query(&target, "active", STR("true"));
    target_query(&target, "limit", argument_given(a, "limit") ? argument(a, "limit") : STR("100"));
    target_query(&target, "cursor", argument(a, "cursor"));
    struct request r = {.side = SIDE_ENGINE, .method = "GET", .target = target_text(&target)};
    int code = call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    static const char *const members[] = {"token_id", "actor", "acting_for", "scope", "uses_left", "expires_at", "active"};
    struct table t;
    table_init(&t, &c->arena, heads);
    const struct json *tokens = json_get(reply.root, STR("tokens"));
    for (const struct json *k = json_is_array(tokens) ? tokens->child : NULL; k != NULL; k = k->next)
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) table_add(&t, member_shown(c, k, members[i]));
    table_print(&t, c->out, c->width);
    uint64_t next = json_u64(reply.root, STR("next_cursor"), 0);
    if (next != 0) fprintf(c->err, "More: --cursor %llu\n", (unsigned long long)next);
    return DONE;
}

static int token_show(struct cli *c, const struct arguments *a)
{
    struct buf body = scratch(c, BODY_MAX);
    struct str text = positional(a, 0);
    struct reply reply;
    if (str_equal(text, STR("-"))) { /* a secret need not stand on the command line */
        int code = file_text(c, text, BODY_MAX / 2, &text);
        if (code != DONE) return code;
        while (text.size > 0 && (text.bytes[text.size - 1] == '\n' || text.bytes[text.size - 1] == '\r')) text.size--;
    }
    buf_put_byte(&body, '{');
    put_text_member(&body, "token", text);
    buf_put_byte(&body, '}');
    struct request r = {.side = SIDE_ENGINE, .method = "POST", .target = STR("/v1/tokens/introspect"), .body = buf_view(&body)};
    int code = call(c, &r, &reply);
    if (code != DONE) return code;
    const struct json *active = json_get(reply.root, STR("active"));
    bool is_active = active != NULL && active->type == JSON_TRUE;
    if (c->json) {
        print_json(c, reply.body);
    } else {
        static const char *const members[] = {"active", "jti", "actor", "acting_for", "scope", "client_id", "tenant", "aud",
                                              "exp", "uses_left"};
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) print_field(c, members[i], member_shown(c, reply.root, members[i]));
    }
    return is_active ? DONE : REFUSED;
}

static int token_revoke(struct cli *c, const struct arguments *a)
{
    struct target target;
    struct reply reply;
    target_init(c, &target, "/v1/tokens");
    target_segment(&target, positional(a, 0));
    target_tenant(&target, c);
    struct request r = {.side = SIDE_ENGINE, .method = "DELETE", .target = target_text(&target)};
    int code = call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) print_json(c, reply.body);
    else fprintf(c->out, "%s is revoked since %.*s.\n", a->positionals[0], STR_FORMAT(member_shown(c, reply.root, "revoked_at")));
    return DONE;
}

/* ---- the rows ---- */

static const struct flag mint_flags[] = {{"scope", "GLOBS", "actions that it may be used for, blanks between: \"get_* issue_refund\""},
                                         {"actor", "NAME", "the agent that it is for (default: the key's name)"},
                                         {"acting-for", "NAME", "the person on whose behalf"},
                                         {"ttl", "SPAN", "how long it lives: 60s (default) to 24h"},
                                         {"uses", "N", "how often it may be used (default: any number)"},
                                         {"audience", "NAME", "the service that shall take it"},
                                         {NULL, NULL, NULL}};
static const struct flag list_flags[] = {{"actor", "NAME", "only this agent's"},
                                         {"acting-for", "NAME", "only those on this person's behalf"},
                                         {"all", NULL, "revoked and spent ones too"},
                                         {"limit", "N", "at most so many (default 100)"},
                                         {"cursor", "N", "go on where an earlier page ended"},
                                         {NULL, NULL, NULL}};

const struct command token_commands[] = {
    {"token", "mint", "", "make a short-lived token and print it, once", NULL, mint_flags, 0, 0, token_mint},
    {"token", "list", "", "show tokens: whose they are, what is left of them", NULL, list_flags, 0, 0, token_list},
    {"token", "show", "TOKEN", "what a token says and whether it is good; - reads it from standard input", NULL, NULL, 1, 1, token_show},
    {"token", "revoke", "ID", "end a token now, on every core", NULL, NULL, 1, 1, token_revoke},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
