/* page.c - lists, one page a call: the request, and the printed table. */
#include "cli/cli.h"

#include "base/limits.h"

int check_page(struct cli *c, const struct arguments *a)
{
    uint64_t number;
    if (argument_given(a, "limit") &&
        (!str_to_u64(argument_text(a, "limit"), &number) || number == 0 || number > LIMIT_PAGE))
        return cli_complain(c, USAGE, "--limit: it must be a number from 1 to %d", LIMIT_PAGE);
    if (argument_given(a, "cursor") && !str_to_u64(argument_text(a, "cursor"), &number))
        return cli_complain(c, USAGE, "--cursor: it must be a number, as an earlier page gave it");
    return DONE;
}

void print_list(struct cli *c, const struct reply *r, const char *name, const char *const *heads,
                page_row *add)
{
    if (c->json) {
        print_json(c, r->body);
        return;
    }
    struct table t;
    table_init(&t, &c->arena, heads);
    const struct json *list = json_get(r->root, str_from(name));
    for (const struct json *one = json_is_array(list) ? list->child : NULL; one != NULL;
         one = one->next)
        add(c, &t, one);
    table_print(&t, c->out, c->width);
    uint64_t next = json_u64(r->root, STR("next_cursor"), 0);
    if (next != 0) fprintf(c->err, "More: --cursor %llu\n", (unsigned long long)next);
}

int page_list(struct cli *c, const struct arguments *a, struct target *t, const struct listing *l)
{
    struct reply reply;
    target_query(t, "limit",
                 argument_given(a, "limit") ? argument_text(a, "limit")
                                            : str_from(l->default_limit));
    target_query(t, "cursor", argument_text(a, "cursor"));
    struct request r = {.side = l->side, .method = "GET", .target = target_text(t)};
    int code = check_page(c, a);
    if (code == DONE) code = cli_call(c, &r, &reply);
    if (code == DONE) print_list(c, &reply, l->name, l->heads, l->add);
    return code;
}
