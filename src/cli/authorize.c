/* authorize.c - `writ authorize` requests a decision; `writ policy explain` explains one.
 *
 * --tool selects the tool route (camelCase, extras inside the context), --user the route for
 * people. Otherwise it is the agent route. The body is written here and never parsed again, so
 * args and context are sent byte for byte as they were typed. */
#include "base/limits.h"
#include "cli/policy.h"

enum { BODY_MAX = 128 << 10 };

const struct flag ask_flags[] = {
    {"action", "NAME", "the action to decide about (or the first word)"},
    {"actor", "NAME", "the agent (default: the key's own name)"},
    {"user", "NAME", "a person as the subject, instead of an agent"},
    {"tool", "NAME", "use the tool route (POST /api/v1/authorize)"},
    {"resource", "TYPE:ID|JSON", "the resource of the action"},
    {"args", "JSON|@FILE", "the call's arguments, an object"},
    {"context", "JSON|TEXT|@FILE", "the context of the request"},
    {"confidence", "0…1", "the agent's confidence"},
    {"acting-for", "NAME", "the person that the agent acts for"},
    {"scope", "GLOBS", "the scope of the request: globs, separated by blanks"},
    {"trace-id", "ID", "trace id of the record"},
    {"dry-run", NULL, "evaluate only: nothing is counted, and no review is created"},
    {NULL, NULL, NULL}};

/* ---- JSON that was typed ---- */

/* The object may begin on a new line. */
static bool is_object_text(struct str text)
{
    while (text.size > 0 && memchr(" \t\r\n", text.bytes[0], 4) != NULL) text = str_skip(text, 1);
    return str_starts(text, STR("{"));
}

/* The flag's JSON: the value itself, or the content of the file after `@`. */
static int json_given(struct cli *c, const struct arguments *a, const char *name,
                      struct str *ret_text, struct json **ret)
{
    struct str text = argument_text(a, name);
    struct fault f;
    *ret_text = text;
    *ret = NULL;
    if (str_is_absent(text)) return DONE;
    if (str_starts(text, STR("@"))) {
        int code = file_text(c, str_skip(text, 1), LIMIT_BODY_BYTES, &text);
        if (code != DONE) return code;
    }
    *ret_text = text;
    if (json_read(text, &(struct json_options){.nul_anywhere = true}, &c->arena, ret, &f) != ERR_OK)
        return cli_complain(c, USAGE, "--%s: %s", name, f.text);
    return DONE;
}

static int args_given(struct cli *c, const struct arguments *a, struct str *ret)
{
    struct json *args;
    int code = json_given(c, a, "args", ret, &args);
    if (code != DONE || args == NULL || json_is_object(args)) return code;
    return cli_complain(c, USAGE, "--args: it must be a JSON object, such as '{\"amount\": 120}'");
}

/* An object if it starts with `{` or comes from a file, otherwise a text. */
static int context_given(struct cli *c, const struct arguments *a, struct str *ret,
                         struct json **ret_object)
{
    struct str text = argument_text(a, "context");
    *ret = text;
    *ret_object = NULL;
    if (str_is_absent(text)) return DONE;
    if (is_object_text(text) || str_starts(text, STR("@"))) {
        int code = json_given(c, a, "context", ret, ret_object);
        if (code != DONE || json_is_object(*ret_object)) return code;
        return cli_complain(c, USAGE, "--context: the file must hold a JSON object");
    }
    struct buf quoted = cli_scratch(c, text.size * 6 + 2);
    json_put_string(&quoted, text);
    *ret = buf_view(&quoted);
    return DONE;
}

static int resource_given(struct cli *c, const struct arguments *a, struct str *ret)
{
    struct str text = argument_text(a, "resource");
    struct json *ignored;
    *ret = text;
    if (str_is_absent(text)) return DONE;
    if (is_object_text(text)) return json_given(c, a, "resource", ret, &ignored);
    struct buf quoted = cli_scratch(c, text.size * 6 + 2);
    json_put_string(&quoted, text);
    *ret = buf_view(&quoted);
    return DONE;
}

static int confidence_given(struct cli *c, const struct arguments *a, struct str *ret)
{
    double number;
    *ret = argument_text(a, "confidence");
    if (str_is_absent(*ret)) return DONE;
    if (json_number_read(*ret, &number) && number >= 0 && number <= 1) return DONE;
    return cli_complain(c, USAGE, "--confidence: \"%.*s\" is not a number from 0 to 1",
                        STR_FORMAT(*ret));
}

/* ---- bodies ---- */

struct asked { /* the checked values of the flags */
    struct str action, args, context, resource, confidence, trace_id;
    struct json *context_object;
};

/* The tool route has no members for these, so they go into the context. */
static int tool_context(struct cli *c, const struct arguments *a, const struct asked *q,
                        struct buf *out)
{
    struct str acting_for = argument_text(a, "acting-for"), scope = argument_text(a, "scope");
    bool extras = !str_is_absent(q->confidence) || !str_is_absent(acting_for) ||
                  !str_is_absent(scope) || !str_is_absent(q->trace_id);
    if (!extras || str_is_absent(q->context)) {
        if (!extras) buf_put(out, q->context);
    } else if (q->context_object == NULL) {
        return cli_complain(
            c, USAGE,
            "--context: with --tool, --confidence, --acting-for, --scope and --trace-id go into "
            "the context, so that must be a JSON object and not a text");
    }
    if (!extras) return DONE;
    buf_put_byte(out, '{');
    if (q->context_object != NULL)
        for (const struct json *m = q->context_object->child; m != NULL; m = m->next) {
            if (out->size > 1) buf_put_byte(out, ',');
            json_put_string(out, m->key);
            buf_put_byte(out, ':');
            buf_put(out, m->raw);
        }
    put_raw_member(out, "confidence", q->confidence);
    put_text_member(out, "actingFor", acting_for);
    put_text_member(out, "scope", scope);
    put_text_member(out, "traceId", q->trace_id);
    buf_put_byte(out, '}');
    return DONE;
}

static int tool_body(struct cli *c, const struct arguments *a, const struct asked *q,
                     struct buf *out)
{
    struct buf context = cli_scratch(c, BODY_MAX);
    int code = tool_context(c, a, q, &context);
    if (code != DONE) return code;
    put_text_member(out, "tool", argument_text(a, "tool"));
    put_text_member(out, "actor", argument_text(a, "actor"));
    put_raw_member(out, "resource", q->resource);
    put_raw_member(out, "args", q->args);
    if (context.size > 0) put_raw_member(out, "context", buf_view(&context));
    return DONE;
}

static void named_body(const struct arguments *a, const struct asked *q, struct buf *out)
{
    put_text_member(out, "user_id", argument_text(a, "user"));
    put_text_member(out, "action", q->action);
    put_text_member(out, "actor", argument_text(a, "actor"));
    put_raw_member(out, "resource", q->resource);
    put_raw_member(out, "args", q->args);
    put_raw_member(out, "context", q->context);
    put_raw_member(out, "confidence", q->confidence);
    put_text_member(out, "acting_for", argument_text(a, "acting-for"));
    put_text_member(out, "scope", argument_text(a, "scope"));
    put_text_member(out, "trace_id", q->trace_id);
}

static int check_form(struct cli *c, const struct arguments *a, const struct asked *q)
{
    bool tool = argument_given(a, "tool"), user = argument_given(a, "user");
    if (tool && user)
        return cli_complain(c, USAGE, "--tool and --user exclude each other: agents call tools");
    if (tool && !str_is_absent(q->action))
        return cli_complain(c, USAGE, "--tool names the action already");
    if (!tool && str_is_empty(q->action))
        return cli_complain(c, USAGE, "no action is given; write an ACTION, or --tool NAME");
    static const char *const agents_only[] = {"actor", "confidence", "acting-for", "scope"};
    for (size_t i = 0; user && i < 4; i++)
        if (argument_given(a, agents_only[i]))
            return cli_complain(c, USAGE, "--%s is for agents; people have none", agents_only[i]);
    return DONE;
}

static int body(struct cli *c, const struct arguments *a, struct buf *out)
{
    struct asked q = {.action = argument_text(a, "action"),
                      .trace_id = argument_text(a, "trace-id")};
    if (!str_is_absent(argument_at(a, 0))) {
        if (!str_is_absent(q.action))
            return cli_complain(c, USAGE,
                                "the action is given twice: as a word and with --action; give one");
        q.action = argument_at(a, 0);
    }
    int code = check_form(c, a, &q);
    if (code == DONE) code = args_given(c, a, &q.args);
    if (code == DONE) code = context_given(c, a, &q.context, &q.context_object);
    if (code == DONE) code = resource_given(c, a, &q.resource);
    if (code == DONE) code = confidence_given(c, a, &q.confidence);
    if (code != DONE) return code;
    buf_put_byte(out, '{');
    if (argument_given(a, "tool"))
        code = tool_body(c, a, &q, out);
    else
        named_body(a, &q, out);
    buf_put_byte(out, '}');
    if (code == DONE && out->overflow)
        return cli_complain(c, USAGE, "the request is larger than 64 KiB");
    return code;
}

static int ask_decision(struct cli *c, const struct arguments *a, bool dry_run, bool explain,
                        struct reply *reply)
{
    struct buf out = cli_scratch(c, BODY_MAX);
    int code = body(c, a, &out);
    if (code != DONE) return code;
    struct target target;
    target_init(c, &target,
                argument_given(a, "tool")   ? "/api/v1/authorize"
                : argument_given(a, "user") ? "/v1/authorize"
                                            : "/v1/agent/authorize");
    if (dry_run) target_query(&target, "dry_run", STR("true"));
    if (explain) target_query(&target, "explain", STR("true"));
    target_tenant(&target, c);
    struct request r = {.side = SIDE_ENGINE,
                        .method = "POST",
                        .target = target_text(&target),
                        .body = buf_view(&out)};
    return cli_call(c, &r, reply);
}

/* ---- answers ---- */

/* The member, in the spelling of either route. */
static struct str either(struct cli *c, const struct json *root, const char *snake,
                         const char *camel)
{
    struct str value = member_shown(c, root, snake);
    return value.size > 0 ? value : member_shown(c, root, camel);
}

/* Of a dry run: what each limit has left before this request. */
static void print_left(struct cli *c, const struct json *root)
{
    const struct json *list = json_get(root, STR("limits"));
    for (const struct json *l = json_is_array(list) ? list->child : NULL; l != NULL; l = l->next) {
        struct str left = member_shown(c, l, "left"), sum = either(c, l, "left_sum", "leftSum");
        struct str text =
            arena_printf(&c->arena, "%.*s of %.*s:", STR_FORMAT(member_shown(c, l, "rule")),
                         STR_FORMAT(member_shown(c, l, "policy")));
        if (left.size > 0)
            text =
                arena_printf(&c->arena, "%.*s %.*s requests", STR_FORMAT(text), STR_FORMAT(left));
        if (sum.size > 0)
            text = arena_printf(&c->arena, "%.*s a sum of %.*s", STR_FORMAT(text), STR_FORMAT(sum));
        print_field(c, "left", text);
    }
}

static void print_decision(struct cli *c, const struct json *root)
{
    print_verdict(c, member_shown(c, root, "decision"));
    struct str mode = member_shown(c, root, "mode");
    fprintf(c->out, "%s\n",
            str_equal(mode, STR("dry_run")) ? "  (dry run: nothing was permitted)" : "");
    struct str policy = either(c, root, "policy_name", "policyName"),
               version = either(c, root, "policy_version", "policyVersion");
    if (version.size > 0)
        policy =
            arena_printf(&c->arena, "%.*s, version %.*s", STR_FORMAT(policy), STR_FORMAT(version));
    print_field(c, "reason", member_shown(c, root, "reason"));
    print_field(c, "rule", member_shown(c, root, "rule"));
    print_field(c, "policy", policy);
    print_field(c, "safe tool", either(c, root, "safe_tool", "safeTool"));
    print_field(c, "safe args", either(c, root, "safe_args", "safeArgs"));
    print_field(c, "review", either(c, root, "review_id", "reviewId"));
    print_field(c, "expires", either(c, root, "expires_at", "expiresAt"));
    print_left(c, root);
    print_field(c, "would have", either(c, root, "would_have", "wouldHave"));
    print_field(c, "trace", either(c, root, "trace_id", "traceId"));
}

/* Only a plain allow is exit status 0: after a review or a compute the caller must do something
* else. */
static int verdict_code(const struct json *root)
{
    return str_equal(json_text(root, STR("decision")), STR("allow")) ? DONE : REFUSED;
}

static int authorize(struct cli *c, const struct arguments *a)
{
    struct reply reply;
    int code = ask_decision(c, a, argument_given(a, "dry-run"), false, &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        print_decision(c, reply.root);
    return verdict_code(reply.root);
}

static void print_texts(struct cli *c, const struct json *list, const char *what)
{
    for (const struct json *one = json_is_array(list) ? list->child : NULL; one != NULL;
         one = one->next)
        fprintf(c->out, "  %s  %.*s\n", what, STR_FORMAT(value_shown(c, one)));
}

/* Prints the nearest rule with what it lacks for an allow, and the votes against an allow. */
static void print_would_allow(struct cli *c, const struct json *root)
{
    const struct json *w = json_get(root, STR("would_allow"));
    if (w == NULL) w = json_get(root, STR("wouldAllow"));
    if (!json_is_object(w)) return;
    const struct json *lacks = json_get(w, STR("lacks"));
    struct str rule = member_shown(c, w, "rule"), policy = member_shown(c, w, "policy");
    if (rule.size == 0)
        fputs("\nWhat would allow it:\n", c->out);
    else
        fprintf(c->out, "\nWhat would allow it: rule %.*s of policy %.*s %s\n", STR_FORMAT(rule),
                STR_FORMAT(policy),
                json_is_array(lacks) && lacks->count > 0 ? "is the nearest" : "permits it already");
    print_texts(c, lacks, "lacks   ");
    print_texts(c, json_get(w, STR("against")), "against ");
}

int policy_run_explain(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"POLICY", "RULE", "VOTE", "APPLIES",
                                        "SHADOW", "*WHY", NULL};
    static const char *const members[] = {"policy", "rule", "verdict", "applies", "shadow", "why"};
    struct reply reply;
    int code = ask_decision(c, a, true, true, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    print_decision(c, reply.root);
    fputc('\n', c->out);
    struct table t;
    table_init(&t, &c->arena, heads);
    const struct json *rules = json_get(reply.root, STR("explain"));
    for (const struct json *r = json_is_array(rules) ? rules->child : NULL; r != NULL; r = r->next)
        for (size_t i = 0; i < 6; i++) {
            const struct json *v = json_get(r, str_from(members[i]));
            table_add(&t, json_is_bool(v) ? (v->type == JSON_TRUE ? STR("yes") : STR("no"))
                                          : value_shown(c, v));
        }
    if (json_is_string(rules))
        fprintf(c->out, "%.*s\n", STR_FORMAT(value_shown(c, rules)));
    else
        table_print(&t, c->out, c->width);
    print_would_allow(c, reply.root);
    return DONE;
}

const struct command authorize_commands[] = {
    {NULL, "authorize", "[ACTION]", "request a decision",
     "  writ authorize get_invoice --actor invoice_bot --args '{\"id\": \"in_1\"}'\n"
     "  writ authorize --tool issue_refund --args @call.json --confidence 0.93\n"
     "  writ authorize view_ticket --user sam@support.example\n\n"
     "Exit status 0 only for a plain allow; 1 for deny, human_review and compute.",
     ask_flags, 0, 1, authorize},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
