/* token.c - `writ token`: short-lived credentials for agents. */
#include "access/token.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/cli.h"
#include "config/config.h"

enum { BODY_MAX = 64 << 10 };

/* The API has a token's end in Unix seconds; people get a time. */
static struct str seconds_shown(struct cli *c, const struct json *object, const char *name)
{
    uint64_t seconds = json_u64(object, str_from(name), 0);
    char *to = arena_bytes(&c->arena, TIME_TEXT);
    /* the year 9999 */
    if (seconds == 0 || seconds > 253402300799 || to == NULL) return member_shown(c, object, name);
    time_write(seconds * 1000, to);
    return str_of(to, TIME_TEXT);
}

static int read_ttl(struct cli *c, struct str text, uint64_t *ret_seconds)
{
    uint64_t ms = 0;
    *ret_seconds = 0;
    if (str_is_absent(text)) return DONE;
    if (!config_span(text, &ms) || ms == 0 || ms % 1000 != 0 || ms / 1000 > LIMIT_TOKEN_TTL_SECONDS)
        return cli_complain(
            c, USAGE, "--ttl: \"%.*s\" is not a span of whole seconds from 1s to 24h, such as 5m",
            STR_FORMAT(text_shown(&c->arena, text)));
    *ret_seconds = ms / 1000;
    return DONE;
}

static int read_count(struct cli *c, const struct arguments *a, const char *flag, uint64_t *ret)
{
    struct str text = argument_text(a, flag);
    *ret = 0;
    if (str_is_absent(text) || (str_to_u64(text, ret) && *ret > 0)) return DONE;
    return cli_complain(c, USAGE, "--%s: \"%.*s\" is not a number above 0", flag,
                        STR_FORMAT(text_shown(&c->arena, text)));
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
    struct buf body = cli_scratch(c, BODY_MAX);
    struct reply reply;
    uint64_t ttl_seconds, uses;
    if (str_is_empty(argument_text(a, "scope")))
        return cli_complain(
            c, USAGE,
            "--scope is needed: the actions that the token may be used for, such as \"get_* send_reminder\"");
    int code = read_ttl(c, argument_text(a, "ttl"), &ttl_seconds);
    if (code == DONE) code = read_count(c, a, "uses", &uses);
    if (code != DONE) return code;
    buf_put_byte(&body, '{');
    put_text_member(&body, "scope", argument_text(a, "scope"));
    put_text_member(&body, "actor", argument_text(a, "actor"));
    put_text_member(&body, "acting_for", argument_text(a, "acting-for"));
    put_text_member(&body, "audience", argument_text(a, "audience"));
    put_text_member(&body, "tenant_id", c->tenant);
    put_number_member(&body, "ttl_seconds", ttl_seconds);
    put_number_member(&body, "max_uses", uses);
    buf_put_byte(&body, '}');
    if (body.overflow)
        return cli_complain(c, USAGE, "the request is larger than 64 KiB; shorten --scope");
    struct request r = {.side = SIDE_ENGINE,
                        .method = "POST",
                        .target = STR("/v1/tokens/mint"),
                        .body = buf_view(&body)};
    code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    struct str token = json_text(reply.root, STR("token"));
    if (!is_token_text(token))
        return cli_complain(c, REFUSED, "the answer of writ-engine has no token; check --engine");
    fprintf(c->out, "%.*s\n", STR_FORMAT(token));
    fprintf(c->err, "This is %.*s, for %.*s; it ends at %.*s.\n",
            STR_FORMAT(member_shown(c, reply.root, "token_id")),
            STR_FORMAT(member_shown(c, reply.root, "scope")),
            STR_FORMAT(seconds_shown(c, reply.root, "expires_at")));
    return DONE;
}

static void add_token(struct cli *c, struct table *t, const struct json *k)
{
    static const char *const members[] = {"token_id",  "actor",      "acting_for", "scope",
                                          "uses_left", "expires_at", "active"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        table_add(t, member_shown(c, k, members[i]));
}

static int token_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"TOKEN",     "*ACTOR",  "*ACTING FOR", "*SCOPE",
                                        "USES LEFT", "EXPIRES", "ACTIVE",      NULL};
    static const struct listing listing = {SIDE_ENGINE, "tokens", heads, add_token, "100"};
    struct target target;
    target_init(c, &target, "/v1/tokens");
    target_tenant(&target, c);
    target_query(&target, "actor", argument_text(a, "actor"));
    target_query(&target, "acting_for", argument_text(a, "acting-for"));
    if (!argument_given(a, "all")) target_query(&target, "active", STR("true"));
    return page_list(c, a, &target, &listing);
}

/* Anyone who reads a token can use it. So, like a key, it is not taken on a command line. */
static int refuse_token(struct cli *c, const char *instead)
{
    return cli_complain(
        c, USAGE,
        "a token is not taken on the command line, where other users of the machine can read it; %s",
        instead);
}

static int token_show(struct cli *c, const struct arguments *a)
{
    struct buf body = cli_scratch(c, BODY_MAX);
    struct str text, path = argument_at(a, 0);
    struct reply reply;
    if (is_token_text(path))
        return refuse_token(c, "write it to standard input, or name a file that holds it");
    int code = file_text(c, str_is_absent(path) ? STR("-") : path, TOKEN_TEXT_MAX + 2, &text);
    if (code != DONE) return code;
    while (text.size > 0 && (unsigned char)text.bytes[text.size - 1] <= ' ') text.size--;
    if (!is_token_text(text))
        return cli_complain(
            c, USAGE, "the input is no token: a token is three parts of letters with dots between");
    buf_put_byte(&body, '{');
    put_text_member(&body, "token", text);
    buf_put_byte(&body, '}');
    struct request r = {.side = SIDE_ENGINE,
                        .method = "POST",
                        .target = STR("/v1/tokens/introspect"),
                        .body = buf_view(&body)};
    code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    const struct json *active = json_get(reply.root, STR("active"));
    bool is_active = active != NULL && active->type == JSON_TRUE;
    if (c->json) {
        print_json(c, reply.body);
    } else {
        static const char *const members[] = {"active",    "jti",    "actor", "acting_for", "scope",
                                              "client_id", "tenant", "aud",   "uses_left"};
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
            print_field(c, members[i], member_shown(c, reply.root, members[i]));
        print_field(c, "expires", seconds_shown(c, reply.root, "exp"));
    }
    return is_active ? DONE : REFUSED;
}

static int token_revoke(struct cli *c, const struct arguments *a)
{
    struct target target;
    struct reply reply;
    if (is_token_text(argument_at(a, 0)))
        return refuse_token(c, "name it by its id (tok_…), which writ token list and show print");
    target_init(c, &target, "/v1/tokens");
    target_segment(&target, argument_at(a, 0));
    target_tenant(&target, c);
    struct request r = {.side = SIDE_ENGINE, .method = "DELETE", .target = target_text(&target)};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        fprintf(c->out, "%s is revoked since %.*s.\n", a->positionals[0],
                STR_FORMAT(member_shown(c, reply.root, "revoked_at")));
    return DONE;
}

/* ---- the rows ---- */

static const struct flag mint_flags[] = {
    {"scope", "GLOBS", "actions that it permits, separated by blanks: \"get_* issue_refund\""},
    {"actor", "NAME", "the agent that it is for (default: the key's name)"},
    {"acting-for", "NAME", "the person for whom the agent acts"},
    {"ttl", "SPAN", "how long it lives: 1s to 24h (default 60s)"},
    {"uses", "N", "how often it may be used (default: any number)"},
    {"audience", "NAME", "the audience: the service that accepts it"},
    {NULL, NULL, NULL}};
static const struct flag list_flags[] = {
    {"actor", "NAME", "only tokens of this agent"},
    {"acting-for", "NAME", "only tokens of agents that act for this person"},
    {"all", NULL, "also revoked and spent tokens"},
    PAGE_FLAGS("100"),
    {NULL, NULL, NULL}};

const struct command token_commands[] = {
    {"token", "mint", "", "make a short-lived token and print it, once",
     "The token is the only thing on standard output; its id, for revoking, goes to standard error.",
     mint_flags, 0, 0, token_mint},
    {"token", "list", "", "show tokens with their agents, uses and ends", NULL, list_flags, 0, 0,
     token_list},
    {"token", "show", "[FILE]", "show a token's content, and whether it is valid",
     "Reads the token from FILE or from standard input. Exit status 0: it is valid.", NULL, 0, 1,
     token_show},
    {"token", "revoke", "ID", "end a token now",
     "After the answer no request with the token is accepted. A service that checks tokens offline, with\n"
     "the published keys only, does not see the revocation.",
     NULL, 1, 1, token_revoke},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
