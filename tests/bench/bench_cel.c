/* bench_cel.c - nanoseconds per evaluation of typical conditions, and per compile of one.
 *
 *   bench_cel [--json]
 *
 * Each condition runs over a handful of different requests in turn, so that the branches are not
 * learned by heart. Time is the thread's own CPU time; the best of several rounds is told. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "policy/cel/cel.h"

enum { ROUNDS = 7, TURNS = 100000, COMPILES = 3000 };

static const char *const conditions[] = {
    "args.amount > 0 && args.amount <= 500",
    "args.amount > 500",
    "actor == 'invoice_bot' && action.startsWith('issue_')",
    "args.currency in ['EUR', 'USD', 'GBP']",
    "args.country in "
    "['AT','BE','BG','CY','CZ','DE','DK','EE','ES','FI','FR','GR','HR','HU','IE','IT']",
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
};

static const char *const requests[] = {
    "{\"order\":\"o-1\",\"amount\":120,\"currency\":\"EUR\",\"country\":\"DE\",\"customer\":{"
    "\"tier\":\"gold\"},"
    "\"to\":\"a@example.com\",\"subject\":\"Refund\",\"path\":\"/srv/data/42\",\"ip\":\"10.1.2.3\","
    "\"created\":\"2026-11-19T10:00:00Z\",\"items\":[{\"sku\":\"A-1\",\"price\":10,\"count\":2},{"
    "\"sku\":\"B-2\",\"price\":5.5,\"count\":1}]}",
    "{\"order\":\"o-2\",\"amount\":620.5,\"currency\":\"CHF\",\"country\":\"CH\",\"customer\":{"
    "\"tier\":\"new\"},"
    "\"to\":\"b@elsewhere.org\",\"subject\":\"Hello "
    "there\",\"path\":\"/srv/Data/x\",\"ip\":\"192.168.0.1\","
    "\"created\":\"2026-11-01T10:00:00+02:00\",\"items\":[{\"sku\":\"C-3\",\"price\":1000,"
    "\"count\":2},{\"sku\":\"D-4\",\"price\":1,\"count\":1}]}",
    "{\"order\":\"o-3\",\"amount\":0.5,\"currency\":\"GBP\",\"country\":\"FR\",\"customer\":{"
    "\"tier\":\"gold\"},"
    "\"to\":\"c@example.com\",\"subject\":\"\",\"path\":\"/srv/etc/7\",\"ip\":\"10.255.0.1\","
    "\"created\":\"2026-11-20T08:59:59Z\",\"items\":[{\"sku\":\"A-1\",\"price\":3,\"count\":1}]}",
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

static void fill(struct cel_value *variables, size_t request, struct arena *arena)
{
    static const struct str roles[] = {{"support", 7}, {"finance", 7}};
    static const char resource[] = "{\"type\":\"db\",\"id\":\"staging-7\"}";
    struct json *args, *object;
    check(json_read(str_from(requests[request]), NULL, arena, &args, NULL) == ERR_OK);
    check(json_read(str_from(resource), NULL, arena, &object, NULL) == ERR_OK);
    for (size_t i = 0; i < CEL_POLICY_VARIABLES; i++) variables[i] = cel_of_str(STR("invoice_bot"));
    variables[CEL_ACTION] = variables[CEL_TOOL] =
        cel_of_str(request == 1 ? STR("get_order") : STR("issue_refund"));
    variables[CEL_ARGS] = cel_of_json(args);
    variables[CEL_RESOURCE] = cel_of_json(object);
    variables[CEL_CONTEXT] = variables[CEL_REQUEST] = cel_of_json(NULL);
    variables[CEL_SCOPE] = cel_of_strs(NULL, 0);
    variables[CEL_ROLES] = cel_of_strs(roles, request == 0 ? 2 : 1);
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

int main(int argc, char **argv)
{
    static struct cel_value variables[REQUESTS][CEL_POLICY_VARIABLES];
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    struct cel_environment environment = cel_policy_environment();
    struct arena arena;
    arena_init(&arena, 1 << 20, 16 << 20);
    for (size_t r = 0; r < REQUESTS; r++) fill(variables[r], r, &arena);
    for (size_t i = 0; i < CONDITIONS; i++) {
        struct cel_program *program;
        struct cel_problems problems;
        size_t yes;
        if (cel_compile(str_from(conditions[i]), &environment, &arena, &program, &problems) !=
            ERR_OK) {
            fprintf(stderr, "%s: %s\n", conditions[i], problems.list[0].message);
            return 1;
        }
        double run = run_ns(program, variables, &yes),
               compile = compile_ns(conditions[i], &environment);
        if (json)
            printf("{\"condition\":\"%s\",\"run_ns\":%.1f,\"compile_ns\":%.0f}\n", conditions[i],
                   run, compile);
        else
            printf("%7.1f ns  (compile %6.0f ns)  %s\n", run, compile, conditions[i]);
        cel_program_fini(program);
    }
    arena_fini(&arena);
    return 0;
}
