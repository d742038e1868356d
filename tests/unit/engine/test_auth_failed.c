/* Refused credentials are counted in a bounded place, however many sources there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "engine/engine.h"

static void note(struct worker *w, unsigned source, bool has_form)
{
    char text[CREDENTIAL_TEXT + 8] = "Bearer ";
    struct id id = {.bytes = {1, (uint8_t)(source >> 8), (uint8_t)source}};
    struct http_header h = {STR("authorization"), str_of(text, CREDENTIAL_TEXT + 7)};
    struct http_exchange x = {.headers = &h, .header_count = 1};
    credential_make(id, text + 7);
    if (!has_form) text[7] = 'x';
    auth_failed_note(w, &x, ERR_UNAUTHENTICATED);
}

static uint64_t counted(const struct worker *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->refused.count; i++) sum += w->refused.sources[i].count;
    return sum;
}

static void more_sources_than_places_share_the_last(void **state)
{
    (void)state;
    struct worker *w = calloc(1, sizeof *w);
    for (unsigned i = 0; i < 300; i++) note(w, i, true);
    assert_int_equal(w->refused.count, REFUSED_SOURCES_MAX);
    assert_int_equal(counted(w), 300);
    assert_false(w->refused.sources[REFUSED_SOURCES_MAX - 1].known_key);
    note(w, 7, true); /* whoever has a place keeps it */
    assert_int_equal(w->refused.sources[7].count, 2);
    free(w);
}

static void what_has_no_key_s_form_is_one_source(void **state)
{
    (void)state;
    struct worker *w = calloc(1, sizeof *w);
    for (unsigned i = 0; i < 300; i++) note(w, i, false);
    assert_int_equal(w->refused.count, 1);
    for (unsigned i = 0; i < 300; i++) note(w, i, true);
    assert_int_equal(w->refused.count, REFUSED_SOURCES_MAX - 1);
    assert_int_equal(counted(w), 600);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_sources_than_places_share_the_last),
        cmocka_unit_test(what_has_no_key_s_form_is_one_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
