/* test_exchange.c - what an answer of the token endpoint means for a sign-in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "sign.h"

static void each_answer_has_its_meaning(void **state)
{
    (void)state;
    static const struct {
        long status;
        const char *answer, *error;
        enum err err;
        const char *told;
    } cases[] = {
        {200, "{\"id_token\":\"a.b.c\",\"access_token\":\"x\"}", "", ERR_OK, ""},
        {200, "{\"access_token\":\"secret-1\"}", "", ERR_PROVIDER_UNAVAILABLE, "no id_token"},
        {200, "{\"id_token\":\"\"}", "", ERR_PROVIDER_UNAVAILABLE, "no id_token"},
        {200, "{\"id_token\":{}}", "", ERR_PROVIDER_UNAVAILABLE, "no id_token"},
        {200, "{\"id_token\":\"a\",\"id_token\":\"b\"}", "", ERR_PROVIDER_UNAVAILABLE, "JSON"},
        {200, "[]", "", ERR_PROVIDER_UNAVAILABLE, "JSON"},
        {200, "", "", ERR_PROVIDER_UNAVAILABLE, "JSON"},
        {400, "{\"error\":\"invalid_grant\"}", "it answered HTTP 400", ERR_UNAUTHENTICATED,
         "used already"},
        {401, "{\"error\":\"invalid_client\"}", "it answered HTTP 401", ERR_PROVIDER_UNAVAILABLE,
         "(HTTP 401): invalid_client"},
        {400, "{\"error\":\"secret-1 <b>\"}", "it answered HTTP 400", ERR_PROVIDER_UNAVAILABLE,
         "it gave no reason"},
        {403, "", "it answered HTTP 403", ERR_PROVIDER_UNAVAILABLE, "it gave no reason"},
        {302, "", "it answered HTTP 302, and redirects are not followed", ERR_PROVIDER_UNAVAILABLE,
         "redirects"},
        {503, "{\"error\":\"invalid_grant\"}", "it answered HTTP 503", ERR_PROVIDER_UNAVAILABLE,
         "HTTP 503"},
        {0, "", "Couldn't connect to server", ERR_PROVIDER_UNAVAILABLE, "connect"},
    };
    struct arena arena;
    arena_init(&arena, 1 << 12, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct oidc_exchange e = {.arena = &arena};
        struct outbound_result r = {.is_delivered = cases[i].status == 200,
                                    .status = cases[i].status,
                                    .answer = str_from(cases[i].answer)};
        snprintf(r.error, sizeof r.error, "%s", cases[i].error);
        exchange_read(&e, &r);
        bool is_right = e.err == cases[i].err;
        if (e.err == ERR_OK)
            is_right &= str_equal(e.id_token, STR("a.b.c"));
        else
            is_right &= strstr(e.fault.text, cases[i].told) != NULL &&
                        strstr(e.fault.text, "secret-1") == NULL;
        if (!is_right)
            fail_msg("%ld %s: %d %s", cases[i].status, cases[i].answer, e.err, e.fault.text);
        arena_reset(&arena);
    }
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_answer_has_its_meaning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
