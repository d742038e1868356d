/* signer.c - `writ signer`: the keys that sign tokens. */
#include "cli/cli.h"

static int signer_rotate(struct cli *c, const struct arguments *a)
{
    struct target target;
    struct reply reply;
    bool now = argument_given(a, "now");
    target_init(c, &target, "/v1/signer/rotate");
    struct request r = {.side = SIDE_ENGINE,
                        .method = "POST",
                        .target = target_text(&target),
                        .body = now ? STR("{\"now\":true}") : STR("{}")};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) {
        print_json(c, reply.body);
        return DONE;
    }
    print_field(c, "kid", member_shown(c, reply.root, "kid"));
    print_field(c, "signs from", member_shown(c, reply.root, "signs_from"));
    fprintf(c->out, now ? "The older signing keys no longer verify: every earlier token is dead.\n"
                        : "The older signing keys verify until their last token has ended.\n");
    return DONE;
}

static const struct flag rotate_flags[] = {
    {"now", NULL, "end the older keys and every token that they signed at once"},
    {NULL, NULL, NULL}};

const struct command signer_commands[] = {
    {"signer", "rotate", "", "make a new key that signs tokens",
     "Needs a key with the role admin and the tenant *. Changes one engine: each has its own signing keys.\n"
     "Without --now the new key signs after ten minutes, and no token ends.",
     rotate_flags, 0, 0, signer_rotate},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
