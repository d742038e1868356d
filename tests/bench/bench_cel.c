/* bench_cel.c - nanoseconds per evaluation of typical conditions, and per compile of one, beside
 * cel-go.
 *
 *   bench_cel [--json] [CONDITION]...      those instead of the usual ones
 *   bench_cel --worst [TEXT]               the worst time per step of what a condition may cost, over
 *                                          all functions and forms (dear.h) whose text has TEXT in it
 *
 * Each condition runs over a handful of different requests in turn, so that the branches are not
 * learned by heart. Time is the thread's own CPU time; the best of several rounds is told.
 *
 * cel-go (the language's reference implementation) runs the same conditions over the same requests
 * in the same minute, by tests/conformance/cel_differential/celgo.go; its time is CPU time too, its
 * garbage collector's share included, with its optimizations on. The program is the one that
 * WRIT_CELGO names, else build/celgo/celgo (tests/conformance/cel_differential/build makes it);
 * without it the columns are empty. Functions that cel-go does not have have no time there. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "cel/cel.h"
#include "../unit/cel/dear.h"

enum { ROUNDS = 25, TURNS = 100000, COMPILES = 3000, GOAL = 5 };

static const char *const conditions[] = {
    "args.amount > 0 && args.amount <= 500",
    "args.amount > 500",
    "actor == 'invoice_bot' && action.startsWith('issue_')",
    "args.currency in ['EUR', 'USD', 'GBP']",
    ("args.country in "
     "['AT','BE','BG','CY','CZ','DE','DK','EE','ES','FI','FR','GR','HR','HU','IE','IT']"),
    "has(args.customer) && args.customer.tier == 'gold'",
    "resource.type == 'db' && !resource.id.startsWith('prod-')",
    "args.items.all(i, i.price * double(i.count) < 1000.0)",
    "args.items.exists(i, i.sku == 'B-2')",
    "'finance' in roles || 'admin' in roles",
    "args.to.endsWith('@example.com') && size(args.subject) < 200",
    "args.path.matches('^/srv/[a-z]+/[0-9]+$')",
    "args.ip.cidr('10.0.0.0/8')",
    "args.path.glob('/srv/*/42')",
    "now.getHours('Europe/Paris') >= 8 && now.getHours('Europe/Paris') < 18",
    "now - timestamp(args.created) < duration('24h')",
    "path_under('/srv', args.path) == args.path",
    "args.missing == 1 || args.amount < 1000",
    "args.currency in args.allowed",
    "action in ['get_order', 'issue_refund'] && args.amount < 1000.0",
};

static const char *const requests[] = {
    "{\"order\":\"o-1\",\"amount\":120,\"currency\":\"EUR\",\"country\":\"DE\",\"customer\":{"
    "\"tier\":\"gold\"},"
    "\"to\":\"a@example.com\",\"subject\":\"Refund\",\"path\":\"/srv/data/42\",\"ip\":\"10.1.2.3\","
    "\"created\":\"2026-11-19T10:00:00Z\",\"allowed\":[\"CHF\",\"EUR\"],\"items\":[{\"sku\":\"A-"
    "1\",\"price\":10,\"count\":2},{"
    "\"sku\":\"B-2\",\"price\":5.5,\"count\":1}]}",
    "{\"order\":\"o-2\",\"amount\":620.5,\"currency\":\"CHF\",\"country\":\"CH\",\"customer\":{"
    "\"tier\":\"new\"},"
    "\"to\":\"b@elsewhere.org\",\"subject\":\"Hello "
    "there\",\"path\":\"/srv/Data/x\",\"ip\":\"192.168.0.1\","
    "\"created\":\"2026-11-01T10:00:00+02:00\",\"allowed\":[\"EUR\"],\"items\":[{\"sku\":\"C-3\","
    "\"price\":1000,"
    "\"count\":2},{\"sku\":\"D-4\",\"price\":1,\"count\":1}]}",
    "{\"order\":\"o-3\",\"amount\":0.5,\"currency\":\"GBP\",\"country\":\"FR\",\"customer\":{"
    "\"tier\":\"gold\"},"
    "\"to\":\"c@example.com\",\"subject\":\"\",\"path\":\"/srv/etc/7\",\"ip\":\"10.255.0.1\","
    "\"created\":\"2026-11-20T08:59:59Z\",\"allowed\":[\"EUR\",\"USD\",\"GBP\"],\"items\":[{"
    "\"sku\":\"A-1\",\"price\":3,\"count\":1}]}",
};

enum {
    REQUESTS = sizeof requests / sizeof requests[0],
    CONDITIONS = sizeof conditions / sizeof conditions[0]
};

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static const char resource[] = "{\"type\":\"db\",\"id\":\"staging-7\"}";

static const char *action_of(size_t request) { return request == 1 ? "get_order" : "issue_refund"; }

static size_t roles_of(size_t request) { return request == 0 ? 2 : 1; }

static void fill(struct cel_value *variables, size_t request, struct arena *arena)
{
    static const struct str roles[] = {{"support", 7}, {"finance", 7}};
    struct json *args, *object;
    check(json_read(str_from(requests[request]), NULL, arena, &args, NULL) == ERR_OK);
    check(json_read(str_from(resource), NULL, arena, &object, NULL) == ERR_OK);
    for (size_t i = 0; i < CEL_POLICY_VARIABLES; i++) variables[i] = cel_of_str(STR("invoice_bot"));
    variables[CEL_ACTION] = variables[CEL_TOOL] = cel_of_str(str_from(action_of(request)));
    variables[CEL_ARGS] = cel_of_json(args);
    variables[CEL_RESOURCE] = cel_of_json(object);
    variables[CEL_CONTEXT] = variables[CEL_REQUEST] = cel_of_json(NULL);
    variables[CEL_SCOPE] = cel_of_strs(NULL, 0);
    variables[CEL_ROLES] = cel_of_strs(roles, roles_of(request));
    variables[CEL_NOW] = cel_of_ms(1795167000123);
}

static double run_ns(const struct cel_program *program,
                     struct cel_value variables[REQUESTS][CEL_POLICY_VARIABLES], size_t *ret_true)
{
    struct arena arena;
    double best = 1e9;
    arena_init(&arena, 64 << 10, 1 << 20);
    for (int round = 0; round < ROUNDS; round++) {
        size_t yes = 0;
        uint64_t start = cpu_ns();
        for (size_t i = 0; i < TURNS; i++) {
            struct cel_value value;
            yes += cel_run(program, variables[i % REQUESTS], &arena, NULL, &value) &&
                   cel_is_true(value);
            arena_reset(&arena);
        }
        double ns = (double)(cpu_ns() - start) / TURNS;
        if (ns < best) best = ns;
        *ret_true = yes;
    }
    arena_fini(&arena);
    return best;
}

static double compile_ns(const char *text, const struct cel_environment *environment)
{
    struct arena arena;
    uint64_t start = cpu_ns();
    arena_init(&arena, 64 << 10, 1 << 20);
    for (int i = 0; i < COMPILES; i++) {
        struct cel_program *program;
        struct cel_problems problems;
        check(cel_compile(str_from(text), environment, &arena, &program, &problems) == ERR_OK);
        cel_program_fini(program);
        arena_reset(&arena);
    }
    double ns = (double)(cpu_ns() - start) / COMPILES;
    arena_fini(&arena);
    return ns;
}

/* ---- the same by cel-go ---- */

static FILE *to_celgo, *from_celgo;
static pid_t celgo;

static void start_celgo(void)
{
    const char *path = getenv("WRIT_CELGO");
    int in[2], out[2];
    if (path == NULL) path = "build/celgo/celgo";
    if (access(path, X_OK) != 0) {
        fprintf(stderr, "SKIP: %s is not there, so there is no cel-go beside\n", path);
        return;
    }
    check(pipe(in) == 0 && pipe(out) == 0);
    celgo = fork();
    check(celgo >= 0);
    if (celgo == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execl(path, path, "times", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    signal(SIGPIPE, SIG_IGN);
    to_celgo = fdopen(in[1], "w");
    from_celgo = fdopen(out[0], "r");
    check(to_celgo != NULL && from_celgo != NULL);
}

static void stop_celgo(void)
{
    if (celgo == 0) return;
    fclose(to_celgo);
    fclose(from_celgo);
    waitpid(celgo, NULL, 0);
}

static void put_inputs(void)
{
    for (size_t r = 0; r < REQUESTS; r++)
        fprintf(to_celgo,
                "%s{\"actor\":\"invoice_bot\",\"action\":\"%s\",\"args\":%s,\"resource\":%s,"
                "\"roles\":[\"support\"%s],\"now\":\"2026-11-20T09:30:00.123Z\"}",
                r > 0 ? "," : "", action_of(r), requests[r], resource,
                roles_of(r) > 1 ? ",\"finance\"" : "");
}

/* Nanoseconds, or 0 where it cannot. Both sides have to find the condition true equally often. */
static double celgo_ns(const char *condition, size_t yes, struct arena *arena)
{
    struct buf quoted;
    struct json *answer;
    char line[1024];
    if (celgo == 0) return 0;
    buf_init(&quoted, 256, 1 << 16);
    json_put_string(&quoted, str_from(condition));
    fprintf(to_celgo, "{\"expr\":%.*s,\"inputs\":[", STR_FORMAT(buf_view(&quoted)));
    buf_fini(&quoted);
    put_inputs();
    fputs("]}\n", to_celgo);
    fflush(to_celgo);
    check(fgets(line, sizeof line, from_celgo) != NULL);
    if (json_read(str_from(line), NULL, arena, &answer, NULL) != ERR_OK) return 0;
    const struct json *ns = json_get(answer, STR("ns"));
    if (ns == NULL) return 0;
    check(json_u64(answer, STR("true"), 0) == yes);
    return ns->number;
}

/* ---- told ---- */

static void put_row(const char *condition, double run, double compile, double other)
{
    printf("%7.1f ns", run);
    if (other > 0)
        printf(" %8.1f %6.1f x", other, other / run);
    else
        printf(" %8s %8s", "-", "-");
    printf("  (compile %6.0f ns)  %s\n", compile, condition);
}

static void put_json_row(const char *condition, double run, double compile, double other)
{
    printf("{\"condition\":\"%s\",\"run_ns\":%.1f,\"compile_ns\":%.0f", condition, run, compile);
    if (other > 0) printf(",\"celgo_ns\":%.1f,\"ratio\":%.2f", other, other / run);
    puts("}");
}

static double least_ratio = 1e9;

static bool measure(const char *condition,
                    struct cel_value variables[REQUESTS][CEL_POLICY_VARIABLES], bool json,
                    struct arena *arena)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_program *program;
    struct cel_problems problems;
    size_t yes;
    if (cel_compile(str_from(condition), &environment, arena, &program, &problems) != ERR_OK) {
        fprintf(stderr, "%s: %s\n", condition, problems.list[0].message);
        return false;
    }
    double run = run_ns(program, variables, &yes), compile = compile_ns(condition, &environment),
           other = celgo_ns(condition, yes, arena);
    (json ? put_json_row : put_row)(condition, run, compile, other);
    if (other > 0 && other / run < least_ratio) least_ratio = other / run;
    cel_program_fini(program);
    return true;
}

/* ---- the worst time per step ---- */

enum {
    LONG_TEXT = 30000,
    PAIRS_EVERY = 9, /* all pairs take ten minutes */
    STEPS = 100000,  /* that one condition may cost */
    WORST = 40,
    AGAIN = 5, /* the best of so many counts, for what looks bad at first */
    GOAL_NS = 20,
};

struct found {
    double ns, total_us;
    uint64_t steps;
    char text[128], names[256];
};

struct search {
    const char *only;
    struct dear_programs programs;
    struct arena arena;
    struct cel_value repeats;
    struct found worst[WORST]; /* the worst first, one of each text */
    size_t found, tried, over;
};

static double run_once(struct search *s, const struct cel_program *program,
                       const struct cel_value *values, uint64_t *ret_steps)
{
    uint64_t left;
    struct cel_limits limits = {.cost = STEPS, .ret_cost_left = &left};
    struct cel_value value;
    arena_reset(&s->arena);
    uint64_t start = cpu_ns();
    cel_run(program, values, &s->arena, &limits, &value);
    uint64_t ns = cpu_ns() - start;
    *ret_steps = STEPS - left;
    return (double)ns;
}

static void keep_found(struct search *s, const struct found *f)
{
    size_t at = 0;
    while (at < s->found && strcmp(s->worst[at].text, f->text) != 0) at++;
    if (at == s->found && s->found < WORST) s->found++;
    if (at == WORST) at = WORST - 1;
    if (at < s->found && s->worst[at].ns >= f->ns) return;
    for (; at > 0 && s->worst[at - 1].ns < f->ns; at--) s->worst[at] = s->worst[at - 1];
    s->worst[at] = *f;
}

static void time_call(void *context, const char *text, const struct cel_value *from,
                      const char *names)
{
    struct search *s = context;
    struct found f = {0};
    struct cel_value values[DEAR_VARIABLES];
    if (s->only != NULL && strstr(text, s->only) == NULL) return;
    memcpy(values, from, sizeof values);
    values[DEAR_ARGUMENTS] = s->repeats;
    dear_programs_of(&s->programs, text);
    arena_reset(&s->arena);
    struct cel_limits limits = {.cost = STEPS};
    const struct cel_program *loop = dear_loop(&s->programs, values, &s->arena, &limits);
    double best = 1e12;
    for (int i = 0; i < AGAIN && (i == 0 || best / (double)f.steps > GOAL_NS); i++) {
        double ns = run_once(s, loop, values, &f.steps);
        if (ns < best) best = ns;
    }
    s->tried++;
    f.ns = best / (double)f.steps;
    f.total_us = best / 1000;
    s->over += f.ns > GOAL_NS;
    snprintf(f.text, sizeof f.text, "%.120s", text);
    snprintf(f.names, sizeof f.names, "%.250s", names);
    keep_found(s, &f);
}

static int search_worst(const char *only)
{
    static struct search s;
    static struct dear d;
    struct arena arena;
    arena_init(&arena, 1 << 20, 256 << 20);
    arena_init(&s.arena, 2 << 20, 8 << 20);
    s.only = only;
    dear_init(&d, LONG_TEXT, &arena);
    d.pairs_every = PAIRS_EVERY;
    s.repeats = dear_list(&d, cel_int(1), DEAR_REPEATS);
    dear_each(&d, time_call, &s);
    printf("%zu calls, texts of %d bytes, %d steps each; %zu are over %d ns per step\n", s.tried,
           LONG_TEXT, STEPS, s.over, GOAL_NS);
    puts("ns/step     us   steps  the worst of each call");
    for (size_t i = 0; i < s.found; i++)
        printf("%7.1f %6.0f %7" PRIu64 "  %s   with %s\n", s.worst[i].ns, s.worst[i].total_us,
               s.worst[i].steps, s.worst[i].text, s.worst[i].names);
    dear_programs_fini(&s.programs);
    arena_fini(&s.arena);
    arena_fini(&arena);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--worst") == 0) return search_worst(argc > 2 ? argv[2] : NULL);
    static struct cel_value variables[REQUESTS][CEL_POLICY_VARIABLES];
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0, fine = true;
    int first = json ? 2 : 1;
    struct arena arena;
    setvbuf(stdout, NULL, _IOLBF, 0);
    arena_init(&arena, 1 << 20, 16 << 20);
    for (size_t r = 0; r < REQUESTS; r++) fill(variables[r], r, &arena);
    start_celgo();
    if (!json) puts("     here   cel-go   faster");
    for (int i = first; fine && i < argc; i++) fine = measure(argv[i], variables, json, &arena);
    for (size_t i = 0; fine && first >= argc && i < CONDITIONS; i++)
        fine = measure(conditions[i], variables, json, &arena);
    if (!json && least_ratio < 1e9)
        printf("the least of the ratios is %.1f; the goal is %d\n", least_ratio, GOAL);
    stop_celgo();
    arena_fini(&arena);
    return fine ? 0 : 1;
}
