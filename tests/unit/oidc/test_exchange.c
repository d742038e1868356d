/* test_exchange.c - what an answer of the token endpoint means for a sign-in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "sign.h"

static unsigned ended;

static void note_end(struct oidc_exchange *e)
{
    assert_int_equal(e->err, ERR_PROVIDER_UNAVAILABLE);
    ended++;
}

static void ignore_change(void *context) { (void)context; }

/* The provider takes connections and answers nothing, so none of them ends. */
static void so_many_codes_are_exchanged_at_a_time(void **state)
{
    (void)state;
    static struct oidc_exchange exchanges[LIMIT_OIDC_EXCHANGES + 1];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    char issuer[64];
    struct oidc *o;
    struct fault f;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 128), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &size), 0);
    snprintf(issuer, sizeof issuer, "http://127.0.0.1:%d", ntohs(a.sin_port));
    struct oidc_settings settings = sample_settings;
    settings.issuer = issuer;
    settings.insecure_loopback = true;
    if (oidc_start(&settings, 1, "", ignore_change, NULL, &o, &f) != ERR_OK)
        fail_msg("oidc_start: %s", f.text);
    for (size_t i = 0; i <= LIMIT_OIDC_EXCHANGES; i++) {
        exchanges[i] = (struct oidc_exchange){.code = STR("c"),
                                              .verifier = STR("v"),
                                              .redirect_uri = STR("http://127.0.0.1/back"),
                                              .nonce = STR("n-1"),
                                              .done = note_end};
        assert_int_equal(oidc_exchange_begin(o, &exchanges[i], &f),
                         i < LIMIT_OIDC_EXCHANGES ? ERR_OK : ERR_OVERLOADED);
    }
    oidc_stop(o);
    assert_int_equal(ended, LIMIT_OIDC_EXCHANGES);
    oidc_destroy(o);
    close(listener);
}

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_answer_has_its_meaning),
                                       cmocka_unit_test(so_many_codes_are_exchanged_at_a_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
