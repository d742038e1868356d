/* test_memory.c - arena and buf: bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"

/* ---- arena ---- */

static void taken_memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64, 1 << 20);
    unsigned char *last = NULL;
    for (size_t size = 0; size < 200; size++) {
        arena_bytes(&a, size % 7);
        unsigned char *p = arena_take(&a, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p & 15, 0);
        for (size_t i = 0; i < size; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
        if (last != NULL) assert_true(p != last || size == 0);
        last = p;
    }
    arena_reset(&a);
    unsigned char *again = arena_take(&a, 64);
    for (size_t i = 0; i < 64; i++) assert_int_equal(again[i], 0);
    arena_fini(&a);
}

static void the_limit_holds_and_overflow_sticks_until_the_reset(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1024, 4096);
    size_t taken = 0;
    while (arena_take(&a, 100) != NULL) taken += 100;
    assert_true(taken <= 4096 && taken >= 3500);
    assert_true(a.overflow);
    assert_true(a.taken_bytes <= 4096);
    assert_null(arena_bytes(&a, 4096));
    assert_null(arena_take(&a, SIZE_MAX - 8));
    assert_true(str_is_absent(
        arena_copy(&a, STR("0123456789012345678901234567890123456789012345678901234567890123456789"
                           "0123456789012345678901234567890123456789"))));
    arena_reset(&a);
    assert_false(a.overflow);
    assert_non_null(arena_take(&a, 1024));
    assert_null(arena_take(&a, 4096));
    arena_fini(&a);
}

static void a_size_that_would_wrap_is_refused(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1024, SIZE_MAX / 4);
    assert_null(arena_array(&a, uint64_t, SIZE_MAX / 4));
    assert_null(arena_bytes(&a, SIZE_MAX));
    arena_fini(&a);
}

static void the_unused_end_can_be_given_back(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1024, 1024);
    char *first = arena_bytes(&a, 1000);
    assert_null(arena_bytes(&a, 100));
    arena_reset(&a);
    first = arena_bytes(&a, 1000);
    arena_trim(&a, first, 1000, 10);
    assert_ptr_equal(arena_bytes(&a, 100), first + 10);
    arena_fini(&a);
}

static void copies_are_ended_by_a_nul_and_absence_is_kept(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1024, 4096);
    struct str s = arena_copy(&a, STR("abc"));
    assert_string_equal(s.bytes, "abc");
    assert_int_equal(s.size, 3);
    assert_true(str_is_absent(arena_copy(&a, (struct str){0})));
    assert_false(str_is_absent(arena_copy(&a, STR(""))));
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "x").bytes, "7-x");
    assert_int_equal(arena_printf(&a, "%s", "").size, 0);
    arena_fini(&a);
}

static void an_arena_that_prefers_huge_pages_is_one_like_any_other(void **state)
{
    (void)state;
    enum { LARGE = 3 << 20, LIMIT = 16 << 20 };
    struct arena a;
    arena_init(&a, 4096, LIMIT);
    arena_prefer_huge(&a);
    unsigned char *small = arena_take(&a, 100);
    unsigned char *first = arena_take(&a, LARGE), *second = arena_take(&a, LARGE);
    assert_true(small != NULL && first != NULL && second != NULL);
    assert_int_equal((uintptr_t)second & 15, 0);
    for (size_t i = 0; i < LARGE; i += 4093) assert_int_equal(first[i] | second[i], 0);
    memset(first, 1, LARGE);
    memset(second, 2, LARGE);
    assert_int_equal(first[LARGE - 1], 1);
    assert_null(arena_take(&a, LIMIT));
    assert_true(a.overflow);
    arena_reset(&a); /* gives back all but the first chunk */
    assert_int_equal(a.taken_bytes, 4096);
    first = arena_take(&a, LARGE);
    assert_non_null(first);
    assert_int_equal(first[LARGE - 1], 0);
    arena_fini(&a);
}

static void an_arena_can_be_ended_half_built(void **state)
{
    (void)state;
    struct arena a = {0};
    arena_fini(&a);
}

/* ---- buf ---- */

static void a_buf_over_memory_never_grows(void **state)
{
    (void)state;
    char bytes[8];
    struct buf b = buf_over(bytes, 4);
    memset(bytes, '#', sizeof bytes);
    buf_put(&b, STR("abc"));
    buf_put_byte(&b, 'd');
    assert_false(b.overflow);
    buf_put_byte(&b, 'e');
    assert_true(b.overflow);
    assert_true(str_equal(buf_view(&b), STR("abcd")));
    assert_memory_equal(bytes + 4, "####", 4);
    buf_clear(&b);
    buf_put(&b, STR("12345"));
    assert_true(b.overflow);
    assert_int_equal(b.size, 0);
    buf_put_byte(&b, 'x'); /* sticks: no later put slips in */
    assert_int_equal(b.size, 0);
}

static void a_growing_buf_stops_at_its_limit(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 0, 1000);
    for (int i = 0; i < 1000; i++) buf_put_byte(&b, (char)i);
    assert_false(b.overflow);
    for (int i = 0; i < 1000; i++) assert_int_equal((unsigned char)b.bytes[i], i & 255);
    buf_put_byte(&b, 'x');
    assert_true(b.overflow);
    assert_int_equal(b.size, 1000);
    assert_false(buf_grow(&b, SIZE_MAX));
    buf_fini(&b);
    buf_fini(&b);
}

static void numbers_and_hex_are_written(void **state)
{
    (void)state;
    char bytes[128];
    struct buf b = buf_over(bytes, sizeof bytes);
    buf_put_u64(&b, 0);
    buf_put_byte(&b, ' ');
    buf_put_u64(&b, UINT64_MAX);
    buf_put_byte(&b, ' ');
    buf_put_hex(&b, (const uint8_t *)"\x00\xab\xff", 3);
    buf_printf(&b, " %s %d", "x", -3);
    assert_true(str_equal(buf_view(&b), STR("0 18446744073709551615 00abff x -3")));
}

static void a_long_printf_overflows_politely(void **state)
{
    (void)state;
    char bytes[8];
    struct buf b = buf_over(bytes, sizeof bytes);
    buf_printf(&b, "%s", "12345678901234567890");
    assert_true(b.overflow);
    assert_int_equal(b.size, 0);
}

static void a_short_copy_writes_its_bytes_and_no_other(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 200; size++) {
        /* exact, so that a sanitizer sees more */
        char *from = malloc(size + 1), *to = malloc(size + 2);
        for (size_t i = 0; i < size; i++) from[i] = (char)(i * 7 + 1);
        to[size] = to[size + 1] = '#';
        assert_ptr_equal(buf_copy(to, from, size), to + size);
        assert_memory_equal(to, from, size);
        assert_true(to[size] == '#' && to[size + 1] == '#');
        free(from);
        free(to);
    }
}

static void two_texts_are_put_together_or_not_at_all(void **state)
{
    (void)state;
    char bytes[5];
    struct buf b = buf_over(bytes, sizeof bytes);
    buf_put_both(&b, STR("abc"), STR("def"));
    assert_true(b.overflow && b.size == 0);
    b = buf_over(bytes, sizeof bytes);
    buf_put_both(&b, STR("abc"), STR("de"));
    assert_true(!b.overflow && str_equal(buf_view(&b), STR("abcde")));
}

/* ---- a check that fails ---- */

static void last_words(int number, char to[512])
{
    int pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        errno = number;
        check(number < 0);
    }
    close(pipes[1]);
    ssize_t size = read(pipes[0], to, 511);
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && size > 0);
    to[size] = '\0';
}

static void a_check_that_fails_for_want_of_memory_says_so(void **state)
{
    char words[512];
    (void)state;
    last_words(ENOMEM, words);
    assert_non_null(strstr(words, "check failed: number < 0 at "));
    assert_non_null(strstr(words, "out of memory"));
    last_words(0, words);
    assert_non_null(strstr(words, "check failed: number < 0 at "));
    assert_null(strstr(words, "memory ("));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(the_limit_holds_and_overflow_sticks_until_the_reset),
        cmocka_unit_test(a_size_that_would_wrap_is_refused),
        cmocka_unit_test(the_unused_end_can_be_given_back),
        cmocka_unit_test(copies_are_ended_by_a_nul_and_absence_is_kept),
        cmocka_unit_test(an_arena_that_prefers_huge_pages_is_one_like_any_other),
        cmocka_unit_test(an_arena_can_be_ended_half_built),
        cmocka_unit_test(a_buf_over_memory_never_grows),
        cmocka_unit_test(a_growing_buf_stops_at_its_limit),
        cmocka_unit_test(numbers_and_hex_are_written),
        cmocka_unit_test(a_short_copy_writes_its_bytes_and_no_other),
        cmocka_unit_test(two_texts_are_put_together_or_not_at_all),
        cmocka_unit_test(a_long_printf_overflows_politely),
        cmocka_unit_test(a_check_that_fails_for_want_of_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
