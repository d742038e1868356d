/* docs.c - `writ docs`: the reference pages that are made from the programs' own tables. */
#include "base/err.h"
#include "cli/cli.h"
#include "config/config.h"
#include "metrics/metrics.h"

enum { PAGE_BYTES_MAX = 1 << 20 };

static void put_errors(struct buf *out)
{
    buf_put_literal(
        out,
        "# Errors\n\n"
        "<!-- Made by `writ docs errors` from src/base/err.def; change it there. -->\n\n"
        "Every error is `{\"error\": \"<sentence>\", \"code\": \"<code>\"}`, with `field` (a JSON pointer)\n"
        "where one member is at fault, and `trace_id` where there is one. Programs look at `code`, which\n"
        "never changes; the sentence is for people and names the member and what is wrong with it. A\n"
        "denial is no error: it is a 200 with `decision`. Where a sentence names a byte, a line or a column, the\n"
        "first one is 1.\n\n"
        "| status | code | what it means |\n|---|---|---|\n");
#define ERR(name, status, code, sentence)                                                          \
    if (ERR_##name != ERR_OK && ERR_##name < ERR_FULL)                                             \
        buf_put_literal(out, "| " #status " | `" code "` | " sentence " |\n");
#include "base/err.def"
#undef ERR
}

static void print_page_json(struct cli *c, const char *name, struct str markdown)
{
    struct buf out;
    buf_init(&out, 4096, 2 * PAGE_BYTES_MAX);
    buf_put_literal(&out, "{\"markdown\":");
    json_put_string(&out, markdown);
    buf_put_literal(&out, ",\"page\":");
    json_put_string(&out, str_from(name));
    buf_put_byte(&out, '}');
    print_json(c, buf_view(&out));
    buf_fini(&out);
}

static int docs(struct cli *c, const struct arguments *a)
{
    static const struct {
        const char *name;
        void (*put)(struct buf *);
    } pages[] = {{"config", config_put_reference},
                 {"metrics", metrics_put_reference},
                 {"errors", put_errors}};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (!str_equal(argument_at(a, 0), str_from(pages[i].name))) continue;
        struct buf page;
        buf_init(&page, 4096, PAGE_BYTES_MAX);
        pages[i].put(&page);
        if (c->json)
            print_page_json(c, pages[i].name, buf_view(&page));
        else
            print_str(c->out, buf_view(&page));
        buf_fini(&page);
        return DONE;
    }
    return cli_complain(c, USAGE, "\"%s\" is not one of config, metrics, errors",
                        a->positionals[0]);
}

const struct command docs_commands[] = {{NULL, "docs", "config|metrics|errors",
                                         "print a reference page (Markdown)", NULL, NULL, 1, 1,
                                         docs},
                                        {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
