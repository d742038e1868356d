/* test_numbers.c - integers of requests are compared as integers: random pairs of JSON integers
 * around 2^53, 2^63 and 2^64, against exact arithmetic in 128 bits, in every operator and function
 * that compares, and in the canonical form that requests are told apart by.
 *
 *   test_numbers [SEED]      the seed is printed; 0 or absent: by the clock */
#include "cel_scene.h"

#include <stdlib.h>

#include "base/world.h"

enum {
    PAIRS = 100000,
    CONSTANTS_EACH = 8 /* one pair of so many is compared with constants too */
};

typedef __int128 wide;

static uint64_t seed, state_of_chance;
static struct arena made; /* programs that live through all pairs */

static uint64_t chance_next(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state_of_chance += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t n) { return chance_next() % n; }

static const char *put_wide(wide number, char text[48])
{
    char *at = text + 47;
    wide left = number < 0 ? -number : number;
    *at = '\0';
    do *--at = (char)('0' + (int)(left % 10));
    while ((left /= 10) > 0);
    if (number < 0) *--at = '-';
    return at;
}

/* Near one of the three powers, of either sign; or anything of 66 bits; or small. */
static wide any_integer(void)
{
    static const unsigned powers[] = {53, 63, 64};
    uint64_t kind = below(16);
    wide number = (wide)1 << powers[below(3)];
    if (kind < 8) number += (wide)below(9) - 4;
    if (kind >= 8 && kind < 13) number += (wide)below(8193) - 4096;
    if (kind == 13) number = (wide)chance_next() * 4 + (wide)below(4);
    if (kind == 14) number = (wide)chance_next() >> below(64);
    if (kind == 15) number = ((wide)1 << powers[below(3)]) + ((wide)1 << 12);
    return below(2) == 0 ? number : -number;
}

static bool is_exact(wide number) { return (wide)(double)number == number; }

/* What the reader makes of it: refused, or held as what it is. False too: it is refused in the
 * exact form, but its digits are how a double is written, which stands for that double. */
static bool holds(const struct json *v, enum err err, wide number)
{
    bool fits = number >= (wide)INT64_MIN && number <= (wide)UINT64_MAX;
    wide magnitude = number < 0 ? -number : number;
    if (err != ERR_OK) {
        assert_int_equal(err, ERR_NUMBER_PRECISION);
        assert_false(fits || is_exact(number));
        return false;
    }
    enum json_number kind = magnitude < (wide)1 << 53   ? JSON_DOUBLE
                            : !fits && is_exact(number) ? JSON_LONG
                            : !fits                     ? JSON_DOUBLE
                            : number > (wide)INT64_MAX  ? JSON_UINT64
                                                        : JSON_INT64;
    assert_int_equal(v->number_kind, kind);
    return fits || is_exact(number);
}

static struct cel_program *compiled(const char *text, struct arena *arena)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program;
    if (cel_compile(str_from(text), &environment, arena, &program, &problems) != ERR_OK)
        fail_msg("%s: %s", text, problems.list[0].message);
    return program;
}

/* Runs a list of bools and compares it with what they have to be. */
static void agrees(const struct cel_program *program, const struct json *args, const char *text,
                   const bool *wanted, uint32_t count)
{
    struct cel_value variables[CEL_POLICY_VARIABLES] = {0}, value;
    variables[CEL_ARGS] = cel_of_json(args);
    assert_true(cel_run(program, variables, &cel_arena, NULL, &value));
    assert_int_equal(value.kind, CEL_LIST);
    assert_int_equal(value.size, count);
    for (uint32_t i = 0; i < count; i++)
        if (value.items[i].kind != CEL_BOOL || value.items[i].boolean != wanted[i])
            fail_msg("item %u of %s over %.*s is wrong; repeat with the seed %llu", i, text,
                     STR_FORMAT(args->raw), (unsigned long long)seed);
}

static const char variables_text[] =
    "[args.a == args.b, args.a != args.b, args.a < args.b, args.a <= args.b, args.a > args.b,"
    " args.a >= args.b, args.a in [args.b], args.a in args.list, args.list == args.other,"
    " args.map == {'k': args.b}, [args.b].exists(x, x == args.a),"
    " math.greatest(args.a, args.b) == args.a, math.least([args.b, args.a]) == args.a,"
    " !(args.a == args.b) && !(args.a < args.b)]";

static void compare_variables(const struct cel_program *program, const struct json *args, int order)
{
    const bool wanted[] = {order == 0, order != 0, order<0, order <= 0, order> 0,
                           order >= 0, order == 0, order == 0,
                           order == 0, order == 0, order == 0,
                           order >= 0, order <= 0, order > 0};
    agrees(program, args, variables_text, wanted, sizeof wanted / sizeof *wanted);
}

/* With the other one as a constant of the program, and as the key of a map. */
static void compare_constant(const struct json *args, const char *with, bool as_uint, int order)
{
    const bool wanted[] = {order == 0, order != 0, order<0, order <= 0, order> 0,
                           order >= 0, order == 0, order < 0,
                           order == 0};
    char text[1024], k[64];
    snprintf(k, sizeof k, "%s%s", with, as_uint ? "u" : "");
    snprintf(text, sizeof text,
             "[args.a == %s, args.a != %s, args.a < %s, args.a <= %s, args.a > %s, args.a >= %s,"
             " args.a in [%s, %s], %s > args.a, args.a in {%s: 'x'}]",
             k, k, k, k, k, k, k, k, k, k);
    struct cel_program *program = compiled(text, &cel_arena);
    agrees(program, args, text, wanted, sizeof wanted / sizeof *wanted);
    cel_program_fini(program);
}

static void canonical_forms_differ(const struct json *a, const struct json *b, int order)
{
    char first[64], second[64];
    struct buf one = buf_over(first, sizeof first), two = buf_over(second, sizeof second);
    json_put_canonical(&one, a);
    json_put_canonical(&two, b);
    if (str_equal(buf_view(&one), buf_view(&two)) != (order == 0))
        fail_msg("%.*s and %.*s: the seed is %llu", STR_FORMAT(buf_view(&one)),
                 STR_FORMAT(buf_view(&two)), (unsigned long long)seed);
}

static const struct json *args_of(const char *a, const char *b)
{
    char text[512];
    struct json *args;
    snprintf(text, sizeof text,
             "{\"a\":%s,\"b\":%s,\"list\":[%s],\"other\":[%s],\"map\":{\"k\":%s}}", a, b, b, a, a);
    struct str kept = arena_copy(&cel_arena, str_from(text));
    assert_int_equal(json_read(kept, NULL, &cel_arena, &args, NULL), ERR_OK);
    return args;
}

static bool is_read(const char *text, wide number)
{
    struct json *v = NULL;
    enum err err = json_read(str_from(text), NULL, &cel_arena, &v, NULL);
    return holds(v, err, number);
}

static void integers_of_requests_are_compared_as_integers(void **state)
{
    (void)state;
    state_of_chance = seed;
    struct cel_program *program = compiled(variables_text, &made);
    size_t refused = 0;
    for (size_t i = 0; i < PAIRS;) {
        char first[48], second[48];
        wide a = any_integer();
        wide b = below(2) == 0 ? any_integer() : a + (wide)below(5) - 2;
        const char *x = put_wide(a, first), *y = put_wide(b, second);
        int order = a < b ? -1 : a > b;
        arena_reset(&cel_arena);
        if (!is_read(x, a) || !is_read(y, b)) {
            refused++;
            continue;
        }
        const struct json *args = args_of(x, y);
        compare_variables(program, args, order);
        canonical_forms_differ(json_get(args, STR("a")), json_get(args, STR("b")), order);
        if (i++ % CONSTANTS_EACH != 0) continue;
        if (b >= (wide)INT64_MIN && b <= (wide)INT64_MAX) compare_constant(args, y, false, order);
        if (b >= 0 && b <= (wide)UINT64_MAX) compare_constant(args, y, true, order);
    }
    printf("%d pairs compared, %zu of which one cannot be read\n", PAIRS, refused);
    cel_program_fini(program);
}

/* The pairs that are beside each other in the report of it. */
static void neighbours_are_told_apart(void **state)
{
    static const char *const pairs[][2] = {
        {"9007199254740992", "9007199254740993"},
        {"1234567890123456768", "1234567890123456789"},
        {"9223372036854775807", "9223372036854775808"},
        {"-9223372036854775808", "-9223372036854775807"},
        {"18446744073709551615", "18446744073709551616"},
    };
    (void)state;
    struct cel_program *program = compiled(variables_text, &made);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        arena_reset(&cel_arena);
        compare_variables(program, args_of(pairs[i][0], pairs[i][1]), -1);
        compare_variables(program, args_of(pairs[i][1], pairs[i][0]), 1);
        compare_variables(program, args_of(pairs[i][1], pairs[i][1]), 0);
    }
    cel_program_fini(program);
}

/* What is written with a fraction or an exponent is a double, and an integer beside one is made
 * one, as the specification's own tests have it. */
static void a_double_is_a_double_whatever_its_size(void **state)
{
    static const struct {
        const char *a, *expression, *gives;
    } rows[] = {
        {"9007199254740993", "args.a == 9007199254740992.0", "true"},
        {"9007199254740992.0", "type(args.a) == double", "true"},
        {"1e18", "type(args.a) == double", "true"},
        {"1e18", "args.a == 1000000000000000001", "true"},
        {"1000000000000000000", "args.a == 1000000000000000001", "false"},
        {"1000000000000000000", "type(args.a) == int", "true"},
        {"9007199254740991", "type(args.a) == double", "true"},
        {"-9007199254740992", "type(args.a) == int", "true"},
        {"-9223372036854775808", "type(args.a) == int", "true"},
        {"9223372036854775808", "type(args.a) == uint", "true"},
        {"18446744073709551616", "type(args.a) == double", "true"},
        {"18446744073709551616", "args.a == 18446744073709551615u", "false"},
        {"18446744073709551616", "18446744073709551615u < args.a", "true"},
        {"18446744073709551616", "dyn(double(args.a)) == 18446744073709551615u", "true"},
        {"18446744073709551616.0", "args.a == 18446744073709551615u", "true"},
        {"18446744073709551615", "args.a == 18446744073709551616.0", "true"},
        {"1234567890123456768", "string(args.a) == '1234567890123456768'", "true"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        struct buf out = buf_over(text, sizeof text);
        struct cel_value variables[CEL_POLICY_VARIABLES] = {0}, value;
        arena_reset(&cel_arena);
        struct cel_program *program = compiled(rows[i].expression, &cel_arena);
        variables[CEL_ARGS] = cel_of_json(args_of(rows[i].a, "0"));
        assert_true(cel_run(program, variables, &cel_arena, NULL, &value));
        cel_put_value(&out, value);
        if (!str_equal(buf_view(&out), str_from(rows[i].gives)))
            fail_msg("%s with %s gives %.*s", rows[i].expression, rows[i].a,
                     STR_FORMAT(buf_view(&out)));
        cel_program_fini(program);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(integers_of_requests_are_compared_as_integers, cel_set_up,
                                        cel_tear_down),
        cmocka_unit_test_setup_teardown(neighbours_are_told_apart, cel_set_up, cel_tear_down),
        cmocka_unit_test_setup_teardown(a_double_is_a_double_whatever_its_size, cel_set_up,
                                        cel_tear_down),
    };
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    if (seed == 0) seed = world_now_ms();
    printf("test_numbers: seed %llu\n", (unsigned long long)seed);
    arena_init(&made, 1 << 16, 1 << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_fini(&made);
    return failed;
}
