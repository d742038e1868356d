/* actor.c - `writ actor`: the kill switch. */
#include "cli/cli.h"

enum { BODY_MAX = 64 << 10 };

static int post(struct cli *c, const struct arguments *a, const char *what, struct str reason,
                const char *done)
{
    struct target target;
    struct reply reply;
    struct buf body = cli_scratch(c, BODY_MAX);
    target_init(c, &target, "/v1/actors");
    target_segment(&target, argument_at(a, 0));
    buf_put(&target.text, str_from(what));
    target_tenant(&target, c);
    buf_put_byte(&body, '{');
    put_text_member(&body, "reason", reason);
    buf_put_byte(&body, '}');
    if (body.overflow)
        return cli_complain(c, USAGE, "the request is larger than 64 KiB; shorten --reason");
    struct request r = {.side = SIDE_ENGINE,
                        .method = "POST",
                        .target = target_text(&target),
                        .body = buf_view(&body)};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json)
        print_json(c, reply.body);
    else
        fprintf(c->out, "%.*s %s\n", STR_FORMAT(text_shown(&c->arena, argument_at(a, 0))), done);
    return DONE;
}

static int actor_suspend(struct cli *c, const struct arguments *a)
{
    return post(
        c, a, "/suspend", argument_text(a, "reason"),
        "is suspended: its requests are denied, its tokens are dead, its pending reviews are denied.");
}

static int actor_resume(struct cli *c, const struct arguments *a)
{
    return post(c, a, "/resume", (struct str){0},
                "may go on. Tokens from before the suspension stay dead.");
}

static void add_actor(struct cli *c, struct table *t, const struct json *one)
{
    static const char *const members[] = {"actor", "suspended_at", "suspended_by", "reason"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        table_add(t, member_shown(c, one, members[i]));
}

static int actor_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"*ACTOR", "SINCE", "*BY", "*REASON", NULL};
    static const struct listing listing = {SIDE_ENGINE, "actors", heads, add_actor, "500"};
    struct target target;
    target_init(c, &target, "/v1/actors");
    target_tenant(&target, c);
    return page_list(c, a, &target, &listing);
}

static const struct flag suspend_flags[] = {{"reason", "TEXT", "why, for the record"},
                                            {NULL, NULL, NULL}};
static const struct flag list_flags[] = {PAGE_FLAGS("500"), {NULL, NULL, NULL}};

const struct command actor_commands[] = {
    {"actor", "suspend", "ACTOR", "stop an agent at this engine, in every spelling, now", NULL,
     suspend_flags, 1, 1, actor_suspend},
    {"actor", "resume", "ACTOR", "end the suspension of an agent", NULL, NULL, 1, 1, actor_resume},
    {"actor", "list", "", "show the suspended agents", NULL, list_flags, 0, 0, actor_list},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
