/* test_prices.c - whatever a condition calls, it walks no more than it pays for: for every function
 * of functions.def and every form of the language, with values that are made to be dear and with
 * errors among them (dear.h).
 *
 * Nothing is timed. The room is compiled once more with -fsanitize-coverage=trace-pc, which calls
 * back at each basic block, and what the C library walks is counted where it is called: the bytes
 * that it looks at, in the share that they take of a block's time. The sum, for each step that the
 * meter counts, has a bound. (RE2 is not counted: its prices were measured, test_bounds.c has them.
 * bench_cel --worst measures the same calls in nanoseconds.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "cel/code.h"
#include "unit/cel/dear.h"

enum {
    LONG_TEXT = 3000,
    STEPS = 4000,
    PAIRS_EVERY = 9,
    WALKED_MOST = 30,     /* for each step: some 20 ns */
    WALKED_BEFORE = 2000, /* that are not counted: what one walk takes beyond the last step */
};

/* ---- what is walked ---- */

static uint64_t walked;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { walked++; }

enum { WIDE = 16 }; /* bytes that the C library looks at in one block's time */

int __real_memcmp(const void *a, const void *b, size_t size);
int __wrap_memcmp(const void *a, const void *b, size_t size);
int __wrap_memcmp(const void *a, const void *b, size_t size)
{
    size_t same = 0;
    const unsigned char *x = a, *y = b;
    while (same < size && x[same] == y[same]) same++;
    walked += 2 + same / WIDE;
    return __real_memcmp(a, b, size);
}

void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    walked += 2 + size / WIDE;
    return __real_memcpy(to, from, size);
}

void *__real_memset(void *to, int with, size_t size);
void *__wrap_memset(void *to, int with, size_t size);
void *__wrap_memset(void *to, int with, size_t size)
{
    walked += 2 + size / WIDE;
    return __real_memset(to, with, size);
}

void *__real_memchr(const void *in, int byte, size_t size);
void *__wrap_memchr(const void *in, int byte, size_t size);
void *__wrap_memchr(const void *in, int byte, size_t size)
{
    const char *found = __real_memchr(in, byte, size);
    walked += 2 + (found == NULL ? size : (size_t)(found - (const char *)in)) / WIDE;
    return (void *)(uintptr_t)found;
}

char *__real_strchr(const char *in, int byte);
char *__wrap_strchr(const char *in, int byte);
char *__wrap_strchr(const char *in, int byte)
{
    walked += 3;
    return __real_strchr(in, byte);
}

/* It prepares the pattern first, whose bytes take longer than those that it looks through. */
void *__real_memmem(const void *in, size_t size, const void *wanted, size_t wanted_size);
void *__wrap_memmem(const void *in, size_t size, const void *wanted, size_t wanted_size);
void *__wrap_memmem(const void *in, size_t size, const void *wanted, size_t wanted_size)
{
    const char *found = __real_memmem(in, size, wanted, wanted_size);
    size_t to = found == NULL ? size : (size_t)(found - (const char *)in) + wanted_size;
    if (wanted_size <= size) walked += 8 + to * 2 + wanted_size * 8;
    return (void *)(uintptr_t)found;
}

int __real_vsnprintf(char *to, size_t room, const char *format, va_list arguments);
int __wrap_vsnprintf(char *to, size_t room, const char *format, va_list arguments);
int __wrap_vsnprintf(char *to, size_t room, const char *format, va_list arguments)
{
    int size = __real_vsnprintf(to, room, format, arguments);
    walked += 60 + 8 * (uint64_t)size;
    return size;
}

int __wrap_snprintf(char *to, size_t room, const char *format, ...);
int __wrap_snprintf(char *to, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = __wrap_vsnprintf(to, room, format, arguments);
    va_end(arguments);
    return size;
}

/* The C++ library's conversions. */
bool __real_number_nearest(const char *bytes, size_t size, double *ret);
bool __wrap_number_nearest(const char *bytes, size_t size, double *ret);
bool __wrap_number_nearest(const char *bytes, size_t size, double *ret)
{
    walked += 60 + 4 * size;
    return __real_number_nearest(bytes, size, ret);
}

size_t __real_number_shortest(double number, char *to);
size_t __wrap_number_shortest(double number, char *to);
size_t __wrap_number_shortest(double number, char *to)
{
    walked += 80;
    return __real_number_shortest(number, to);
}

/* ---- the bound ---- */

struct guard {
    struct dear_programs programs;
    struct arena arena;
    struct cel_value repeats;
    bool seen_op[OPS], seen_function[FUNCTIONS];
    size_t tried, over;
    double worst;
    char worst_call[512];
};

static void note_instructions(struct guard *g, const struct cel_program *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        g->seen_op[p->code[i].op] = true;
        if (p->code[i].op == OP_CALL) g->seen_function[p->code[i].b] = true;
    }
}

static void walk_is_paid(void *context, const char *text, const struct cel_value *from,
                         const char *names)
{
    struct guard *g = context;
    struct cel_value values[DEAR_VARIABLES], value;
    uint64_t left;
    struct cel_limits limits = {.cost = STEPS, .ret_cost_left = &left};
    memcpy(values, from, sizeof values);
    values[DEAR_ARGUMENTS] = g->repeats;
    bool is_new = g->programs.once == NULL || strcmp(g->programs.text, text) != 0;
    dear_programs_of(&g->programs, text);
    if (is_new) note_instructions(g, g->programs.all);
    if (is_new) note_instructions(g, g->programs.exists);
    arena_reset(&g->arena);
    const struct cel_program *loop = dear_loop(&g->programs, values, &g->arena, &limits);
    arena_reset(&g->arena);
    walked = 0;
    cel_run(loop, values, &g->arena, &limits, &value);
    uint64_t all = walked > WALKED_BEFORE ? walked - WALKED_BEFORE : 0;
    double each = (double)all / (double)(STEPS - left);
    g->tried++;
    if (each > WALKED_MOST && g->over++ < 20)
        print_error("%.1f for each step: %s with %s\n", each, text, names);
    if (each <= g->worst) return;
    g->worst = each;
    snprintf(g->worst_call, sizeof g->worst_call, "%.200s with %.250s", text, names);
}

static void every_function_pays_for_what_it_walks(void **state)
{
    static struct guard g;
    static struct dear d;
    struct arena arena;
    (void)state;
    arena_init(&arena, 1 << 20, 64 << 20);
    arena_init(&g.arena, 2 << 20, 8 << 20);
    dear_init(&d, LONG_TEXT, &arena);
    d.pairs_every = PAIRS_EVERY;
    g.repeats = dear_list(&d, cel_int(1), DEAR_REPEATS);
    dear_each(&d, walk_is_paid, &g);
    printf("%zu calls; the most is %.1f for each step: %s\n", g.tried, g.worst, g.worst_call);
    dear_programs_fini(&g.programs);
    arena_fini(&g.arena);
    arena_fini(&arena);
    assert_int_equal(g.over, 0);
    /* A new instruction needs a form in dear.h. */
    static const char *const names[OPS] = {
#define OP(name, depth) [OP_##name] = #name,
        CEL_OPS(OP)
#undef OP
    };
    for (unsigned op = 0; op < OPS; op++)
        if (!g.seen_op[op]) fail_msg("no call of dear.h has the instruction %s", names[op]);
    for (unsigned id = FUNCTION_SIZE; id < FUNCTIONS; id++)
        if (!g.seen_function[id])
            fail_msg("no call of dear.h is one of %.*s", STR_FORMAT(cel_functions[id].name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_pays_for_what_it_walks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
