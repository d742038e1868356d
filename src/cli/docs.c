/* docs.c - `writ docs`: generates reference pages from the programs' tables. */
#include "access/token.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "config/config.h"
#include "metrics/metrics.h"
#include "policy/condition.h"
#include "policy/document.h"
#include "policy/glob.h"

enum { PAGE_BYTES_MAX = 1 << 20 };

static void put_errors(struct buf *out)
{
    buf_put_literal(
        out,
        "# Errors\n\n"
        "<!-- Made by `writ docs errors` from src/base/err.def; change it there. -->\n\n"
        "Every error is `{\"error\": \"<sentence>\", \"code\": \"<code>\"}`, with `field` (a JSON pointer)\n"
        "where one member is at fault, and `trace_id` where there is one. Programs look at `code`, which\n"
        "never changes. The sentence is for people: it names the member, and what is wrong with it. A\n"
        "denial is no error: it is a 200 with `decision`. If a sentence names a byte, a line or a column, the\n"
        "first one is 1.\n\n"
        "| status | code | what it means |\n|---|---|---|\n");
#define ERR(name, status, code, sentence)                                                          \
    if (ERR_##name != ERR_OK && ERR_##name < ERR_FULL)                                             \
        buf_put_literal(out, "| " #status " | `" code "` | " sentence " |\n");
#include "base/err.def"
#undef ERR
}

/* ---- limits ---- */

enum unit { COUNT, BYTES, SECONDS, HOURS, DAYS };

/* 4000000 as 4,000,000. */
static void put_grouped(struct buf *out, uint64_t value)
{
    if (value < 1000) return buf_put_u64(out, value);
    put_grouped(out, value / 1000);
    buf_put_byte(out, ',');
    for (unsigned digit = 100; digit > 0; digit /= 10)
        buf_put_byte(out, (char)('0' + value / digit % 10));
}

/* In the largest unit of which the value is a whole number. */
static void put_value(struct buf *out, uint64_t value, enum unit unit)
{
    static const char *const bytes[] = {" bytes", " KiB", " MiB", " GiB"};
    const uint64_t day_s = 24 * 60 * 60;
    size_t power = 0;
    for (; unit == BYTES && power < 3 && value % 1024 == 0; power++) value /= 1024;
    if (unit == SECONDS && value % day_s == 0) {
        value /= day_s;
        unit = DAYS;
    }
    put_grouped(out, value);
    switch (unit) {
    case COUNT: return;
    case BYTES: return buf_put(out, str_from(bytes[power]));
    case SECONDS: return buf_put_literal(out, " s");
    case HOURS: return buf_put_literal(out, " h");
    case DAYS: return buf_put_literal(out, " d");
    }
}

static void put_limits(struct buf *out)
{
    buf_put_literal(
        out,
        "# Limits\n\n"
        "<!-- Made by `writ docs limits` from src/cli/limits.def; change it there. -->\n\n"
        "The table lists each limit that a client or an operator can reach. The limits of an engine are\n"
        "shared equally by its reactors, so one reactor may reach its part earlier.\n"
        "A status without further words means that the request is refused and nothing has changed.\n"
        "A 503 is temporary: the client repeats the request after `Retry-After`.\n"
        "A 429 shows that the key or its tenant has used up its part; other tenants and keys get answers.\n"
        "Its headers `RateLimit-Policy` and `RateLimit` name the part and its size.\n"
        "The error codes are in [errors.md](../../schemas/errors.md), the options in\n"
        "[config.md](../../schemas/config.md).\n"
        "Where a row names an option, the value is the option's default, or follows from the option.\n\n"
        "| area | limit | value | beyond it | option |\n|---|---|---|---|---|\n");
#define LIMIT(group, what, value, unit, beyond, option)                                            \
    buf_put_literal(out, "| " group " | " what " | ");                                             \
    put_value(out, value, unit);                                                                   \
    buf_put_literal(out, " | " beyond " | " option " |\n");
#define LIMIT_TEXT(group, what, text, beyond, option)                                              \
    buf_put_literal(out, "| " group " | " what " | " text " | " beyond " | " option " |\n");
#include "cli/limits.def"
#undef LIMIT
#undef LIMIT_TEXT
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
                 {"errors", put_errors},
                 {"limits", put_limits}};
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
    return cli_complain(c, USAGE, "\"%s\" is not one of config, metrics, errors, limits",
                        a->positionals[0]);
}

const struct command docs_commands[] = {{NULL, "docs", "config|metrics|errors|limits",
                                         "print a reference page (Markdown)", NULL, NULL, 1, 1,
                                         docs},
                                        {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
