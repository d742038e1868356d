/* top.c - `writ top`: the current activity of both programs.
 *
 * A look is a scrape of both /metrics and, if the key may list reviews, their number in its tenant.
 * A counter is shown as its growth between two looks, so even one sample takes two of them. Other
 * metrics are shown as they are. If the key may not see a figure, or a program does not answer,
 * each sample has one line about it, and the figures are absent, not zero.
 *
 * A terminal is painted over; other outputs get one line a sample (or one object with --json). */
#include <math.h>
#include <time.h>

#include "base/time.h"
#include "base/world.h"
#include "cli/cli.h"
#include "config/config.h"

enum {
    LOOK_MS = 5000,
    EVERY_MS = 1000,
    EVERY_LEAST_MS = 10,
    EVERY_MOST_MS = 3600000,
    HEAD_EVERY = 20,
    PROBLEMS_MAX = 3
};

/* ---- the figures ---- */

enum kind { LEVEL, COUNTER };

struct figure {
    const char *group, *name; /* in JSON: {"group": {"name": …}} */
    const char *label;        /* for people */
    const char *head;         /* the column if a sample is one line; NULL: no column */
    const char *metric;       /* NULL: from the review queue */
    enum side side;
    enum kind kind;
};

#define DECISIONS(word) "writ_engine_decisions_total{decision=\"" word "\"}"
#define ENGINE(metric) "writ_engine_" metric, SIDE_ENGINE
#define PLATFORM(metric) "writ_platform_" metric, SIDE_PLATFORM

/* Figures of several reactors are sums already: the engine adds them up when it is scraped. */
static const struct figure figures[] = {
    {"decisions", "allow", "allow", "ALLOW/S", DECISIONS("allow"), SIDE_ENGINE, COUNTER},
    {"decisions", "deny", "deny", "DENY/S", DECISIONS("deny"), SIDE_ENGINE, COUNTER},
    {"decisions", "human_review", "human_review", "REVIEW/S", DECISIONS("human_review"),
     SIDE_ENGINE, COUNTER},
    {"decisions", "compute", "compute", "COMPUTE/S", DECISIONS("compute"), SIDE_ENGINE, COUNTER},
    {"state", "reviews_pending", "reviews pending", "PENDING", ENGINE("reviews_pending"), LEVEL},
    {"state", "reviews_pending_in_tenant", "reviews pending, tenant", "TENANT", NULL, SIDE_ENGINE,
     LEVEL},
    {"state", "waits", "clients waiting for one", NULL, ENGINE("waits"), LEVEL},
    {"state", "tokens", "tokens", "TOKENS", ENGINE("tokens"), LEVEL},
    {"state", "actors_suspended", "actors suspended", NULL, ENGINE("actors_suspended"), LEVEL},
    {"refused", "quota_key", "over the part of a key", NULL,
     ENGINE("quota_refused_total{quota=\"key\"}"), COUNTER},
    {"refused", "quota_tenant", "over the part of a tenant", "QUOTA/S",
     ENGINE("quota_refused_total{quota=\"tenant\"}"), COUNTER},
    {"publish", "lag_records", "records not confirmed yet", "LAG", ENGINE("publish_lag_records"),
     LEVEL},
    {"publish", "stored", "events stored", "STORED/S", PLATFORM("ingest_events_total"), COUNTER},
    {"queues", "mailboxes", "in the mailboxes", "MAIL", ENGINE("mailbox_depth"), LEVEL},
    {"queues", "calls_held", "calls without room", "HELD", ENGINE("calls_held"), LEVEL},
    {"queues", "visits_away", "calls to other reactors", "AWAY", ENGINE("visits_away"), LEVEL},
    {"queues", "answers_parked", "answers waiting for disk", NULL, ENGINE("answers_parked"), LEVEL},
    {"queues", "replies_parked", "replies waiting for disk", "PARKED", ENGINE("replies_parked"),
     LEVEL},
    {"queues", "connections", "connections", NULL, ENGINE("connections"), LEVEL},
};
enum { PROGRAMS = 2 };
enum { FIGURES = sizeof figures / sizeof figures[0] };

static const char *group_title(const char *group)
{
    if (*group == 'd') return "decisions";
    if (*group == 's') return "state";
    if (*group == 'r') return "requests refused";
    return *group == 'p' ? "to the platform" : "queues, all reactors together";
}

/* ---- a look ---- */

struct look {
    uint64_t at_ms, at_ns;
    double values[FIGURES]; /* NAN: not seen */
    struct str problems[PROBLEMS_MAX];
    size_t problem_count;
    size_t reached, seen; /* of the PROGRAMS, those that answered; sources that gave figures */
};

/* What the key may not read; this does not change between looks. */
struct rights {
    bool no_queue;
};

static struct reply ask_program(struct cli *c, enum side side, const char *path, bool with_limit,
                                int *ret_code)
{
    struct target t;
    struct reply reply;
    target_init(c, &t, path);
    target_tenant(&t, c);
    if (with_limit) target_query(&t, "limit", STR("1"));
    struct request r = {.side = side,
                        .method = "GET",
                        .target = target_text(&t),
                        .quiet = true,
                        .timeout_ms = LOOK_MS};
    *ret_code = cli_call(c, &r, &reply);
    return reply;
}

static void note_problem(struct cli *c, struct look *look, enum side side,
                         const struct reply *reply)
{
    const char *who = side == SIDE_ENGINE ? "writ-engine" : "writ-platform";
    struct str error = member_shown(c, reply->root, "error"), address = side_address(c, side);
    if (look->problem_count == PROBLEMS_MAX) return;
    struct str text;
    if (reply->status == 0)
        text = arena_printf(&c->arena, "%s at %.*s cannot be reached: %s", who, STR_FORMAT(address),
                            reply->fault.text);
    else if (error.size == 0)
        text = arena_printf(&c->arena, "%s at %.*s answered %d to /metrics", who,
                            STR_FORMAT(address), reply->status);
    else if (reply->status == 403)
        text = arena_printf(&c->arena, "%s's figures: %.*s", who, STR_FORMAT(error));
    else
        text = arena_printf(&c->arena, "%s: %.*s", who, STR_FORMAT(error));
    look->problems[look->problem_count++] = text_shown(&c->arena, text);
}

/* False: the command must end; an error was printed. */
static bool look_at_metrics(struct cli *c, enum side side, struct look *look)
{
    int code;
    struct reply reply = ask_program(c, side, "/metrics", false, &code);
    if (code == USAGE) return false; /* no key, or an invalid address */
    look->reached += reply.status != 0;
    if (code != DONE) {
        note_problem(c, look, side, &reply);
        return true;
    }
    look->seen++;
    for (size_t i = 0; i < FIGURES; i++)
        if (figures[i].metric != NULL && figures[i].side == side)
            metric_find(reply.body, figures[i].metric, &look->values[i]);
    return true;
}

/* Only reviewers may list reviews; for other keys the engine's metric is shown. */
static void look_at_queue(struct cli *c, struct look *look, struct rights *rights)
{
    int code;
    if (rights->no_queue) return;
    struct reply reply = ask_program(c, SIDE_ENGINE, "/v1/queue/pending", true, &code);
    const struct json *total = json_get(reply.root, STR("total"));
    rights->no_queue = reply.status >= 400 && reply.status < 500;
    if (code != DONE || !json_is_number(total)) return;
    look->seen++;
    for (size_t i = 0; i < FIGURES; i++)
        if (figures[i].metric == NULL) look->values[i] = total->number;
}

static bool look_now(struct cli *c, struct look *look, struct rights *rights)
{
    *look = (struct look){.at_ms = world_now_ms(), .at_ns = world_monotonic_ns()};
    for (size_t i = 0; i < FIGURES; i++) look->values[i] = NAN;
    if (!look_at_metrics(c, SIDE_ENGINE, look) || !look_at_metrics(c, SIDE_PLATFORM, look))
        return false;
    look_at_queue(c, look, rights);
    return true;
}

/* Whether a second look is useful after this first one. */
static int judge_first(struct cli *c, const struct look *look)
{
    if (look->seen > 0) return DONE;
    for (size_t i = 0; i < look->problem_count; i++)
        cli_complain(c, REFUSED, "%.*s", STR_FORMAT(look->problems[i]));
    return look->reached == 0 ? UNREACHABLE : REFUSED;
}

/* ---- a sample: two looks ---- */

static double seconds_between(const struct look *a, const struct look *b)
{
    return (double)(b->at_ns - a->at_ns) / 1e9;
}

/* The value of a figure in this sample; NAN: not known. */
static double shown_value(size_t i, const struct look *before, const struct look *now)
{
    if (figures[i].kind == LEVEL) return now->values[i];
    double grown = now->values[i] - before->values[i], seconds = seconds_between(before, now);
    if (grown < 0) grown = now->values[i]; /* the program restarted between the looks */
    return seconds > 0 ? grown / seconds : (double)NAN;
}

static void format_value(char to[32], size_t i, double value)
{
    if (isnan(value))
        memcpy(to, "-", 2);
    else
        snprintf(to, 32, figures[i].kind == COUNTER && value < 1000 ? "%.1f" : "%.0f", value);
}

static void time_shown(char to[TIME_TEXT + 1], uint64_t ms)
{
    time_write(ms, to);
    to[TIME_TEXT] = '\0';
}

static void put_json_figure(struct cli *c, size_t i, const struct look *now, double value,
                            bool *first)
{
    if (isnan(value)) return;
    fprintf(c->out, "%s\"%s\":", *first ? "" : ",", figures[i].name);
    *first = false;
    if (figures[i].kind == LEVEL)
        fprintf(c->out, "%.0f", value);
    else
        fprintf(c->out, "{\"per_second\":%.3f,\"total\":%.0f}", value, now->values[i]);
}

static void print_object(struct cli *c, const struct look *before, const struct look *now)
{
    char time[TIME_TEXT + 1];
    bool first = true;
    time_shown(time, now->at_ms);
    fprintf(c->out, "{\"time\":\"%s\",\"seconds\":%.3f", time, seconds_between(before, now));
    for (size_t i = 0; i < FIGURES; i++) {
        bool opens = i == 0 || strcmp(figures[i].group, figures[i - 1].group) != 0;
        if (opens) fprintf(c->out, "%s,\"%s\":{", i == 0 ? "" : "}", figures[i].group);
        first |= opens;
        put_json_figure(c, i, now, shown_value(i, before, now), &first);
    }
    struct buf problems = cli_scratch(c, 16 << 10);
    for (size_t i = 0; i < now->problem_count; i++) {
        if (i > 0) buf_put_byte(&problems, ',');
        json_put_string(&problems, now->problems[i]);
    }
    fprintf(c->out, "},\"problems\":[%.*s]}\n", STR_FORMAT(buf_view(&problems)));
}

/* `end` closes each line. On a painted screen it also clears the rest of an earlier sample. */
static void print_page(struct cli *c, const struct look *before, const struct look *now,
                       const char *end)
{
    char time[TIME_TEXT + 1], text[32];
    time_shown(time, now->at_ms);
    fprintf(c->out, "writ  %s, over %.1f s%s", time, seconds_between(before, now), end);
    for (size_t i = 0; i < now->problem_count; i++)
        fprintf(c->out, "%.*s%s", STR_FORMAT(now->problems[i]), end);
    const char *group = "";
    for (size_t i = 0; i < FIGURES; i++) {
        double value = shown_value(i, before, now);
        if (isnan(value)) continue;
        if (strcmp(figures[i].group, group) != 0)
            fprintf(c->out, "%s%s", group_title(figures[i].group), end);
        group = figures[i].group;
        format_value(text, i, value);
        fprintf(c->out, "  %-26s %12s%s%s", figures[i].label, text,
                figures[i].kind == COUNTER ? " per second" : "", end);
    }
}

static void print_line(struct cli *c, const struct look *before, const struct look *now,
                       bool with_heads)
{
    char time[TIME_TEXT + 1], text[32];
    time_shown(time, now->at_ms);
    if (with_heads) fprintf(c->out, "%-24s", "TIME");
    for (size_t i = 0; with_heads && i < FIGURES; i++)
        if (figures[i].head != NULL) fprintf(c->out, " %9s", figures[i].head);
    if (with_heads) fputc('\n', c->out);
    fputs(time, c->out);
    for (size_t i = 0; i < FIGURES; i++) {
        if (figures[i].head == NULL) continue;
        format_value(text, i, shown_value(i, before, now));
        fprintf(c->out, " %9s", text);
    }
    fputc('\n', c->out);
}

/* With one line a sample, problems go to c->err, and only when they change. */
static void complain_of_changes(struct cli *c, const struct look *before, const struct look *now,
                                bool is_first)
{
    if (!is_first && before->problem_count == now->problem_count) return;
    for (size_t i = 0; i < now->problem_count; i++)
        cli_complain(c, DONE, "%.*s", STR_FORMAT(now->problems[i]));
    if (!is_first && now->problem_count == 0) cli_complain(c, DONE, "both programs answer again");
}

/* ---- the command ---- */

static void print_sample(struct cli *c, const struct look *before, const struct look *now,
                         bool once, size_t number)
{
    if (c->json) {
        print_object(c, before, now);
    } else if (once) {
        print_page(c, before, now, "\n");
    } else if (c->width > 0) { /* cursor to the top left, paint, clear the rest */
        fputs(number == 0 ? "\033[2J\033[H" : "\033[H", c->out);
        print_page(c, before, now, "\033[K\n");
        fputs("\033[J", c->out);
    } else {
        complain_of_changes(c, before, now, number == 0);
        print_line(c, before, now, number % HEAD_EVERY == 0);
    }
    fflush(c->out);
}

static void pause_until(uint64_t ns)
{
    uint64_t now = world_monotonic_ns();
    if (now >= ns) return;
    struct timespec pause = {.tv_sec = (time_t)((ns - now) / 1000000000),
                             .tv_nsec = (long)((ns - now) % 1000000000)};
    nanosleep(&pause, NULL);
}

static int top(struct cli *c, const struct arguments *a)
{
    struct look before, now;
    struct rights rights = {0};
    struct str every = argument_text(a, "every");
    uint64_t every_ms = EVERY_MS;
    bool once = argument_given(a, "once");
    if (!str_is_absent(every) &&
        (!config_span(every, &every_ms) || every_ms < EVERY_LEAST_MS || every_ms > EVERY_MOST_MS))
        return cli_complain(c, USAGE, "--every: \"%.*s\" is not a span of 10ms to 1h, such as 5s",
                            STR_FORMAT(text_shown(&c->arena, every)));
    if (!look_now(c, &before, &rights)) return USAGE;
    int code = judge_first(c, &before);
    for (size_t number = 0; code == DONE; number++) {
        pause_until(before.at_ns + every_ms * 1000000);
        arena_reset(&c->arena); /* only the numbers of `before` are read later, not its texts */
        if (!look_now(c, &now, &rights)) return USAGE;
        print_sample(c, &before, &now, once, number);
        if (once) return now.reached < PROGRAMS ? UNREACHABLE : DONE;
        if (ferror(c->out)) return REFUSED; /* the reader of the output has closed it */
        before = now;
    }
    return code;
}

static const struct flag top_flags[] = {
    {"once", NULL, "print one sample and end"},
    {"every", "SPAN", "time between two samples, over which a rate is computed (default 1s)"},
    {NULL, NULL, NULL}};

const struct command top_commands[] = {
    {NULL, "top", "", "watch both programs: decisions, reviews, tokens, lag, queues",
     "A key with the role metrics or admin sees all figures. A key with the role reviewer sees the number\n"
     "of pending reviews of its tenant. On a terminal each sample replaces the one before; other outputs\n"
     "get one line a sample. With --once the exit status is 3 if a program did not answer.",
     top_flags, 0, 0, top},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
