/* oidc_driver.c - the thread of identity providers with one provider, for tests that play its browser.
 *
 *   oidc_driver ISSUER CLIENT_ID SECRET_FILE CA_FILE     "": no secret; the system's authorities
 *
 * Prints `ready AUTHORIZATION_ENDPOINT`, or `away WHY` and ends. Then for each line of its input,
 * `CODE VERIFIER REDIRECT_URI NONCE`: `person PERSON TENANT ROLES`, or `refused ERROR WHY`. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "oidc/oidc.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved;
static unsigned fetches, ends;

static void count(unsigned *what)
{
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}

static void wait_for(const unsigned *what, unsigned least)
{
    pthread_mutex_lock(&lock);
    while (*what < least) pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
}

static void changed(void *context)
{
    (void)context;
    count(&fetches);
}

static void done(struct oidc_exchange *e)
{
    (void)e;
    count(&ends);
}

static void exchange(struct oidc *o, char *line, unsigned number)
{
    struct arena arena;
    struct fault f;
    char *rest = line;
    struct oidc_exchange e = {.code = str_from(strsep(&rest, " \n")),
                              .verifier = str_from(strsep(&rest, " \n")),
                              .redirect_uri = str_from(strsep(&rest, " \n")),
                              .nonce = str_from(strsep(&rest, " \n")),
                              .done = done};
    arena_init(&arena, 1 << 12, 16 << 20);
    e.arena = &arena;
    check(oidc_exchange_begin(o, &e, &f) == ERR_OK);
    wait_for(&ends, number);
    if (e.err == ERR_OK)
        printf("person %.*s %.*s %u\n", STR_FORMAT(e.identity.person),
               STR_FORMAT(e.identity.tenant), (unsigned)e.identity.roles);
    else
        printf("refused %s %s\n", err_code(e.err), e.fault.text);
    fflush(stdout);
    arena_fini(&arena);
}

int main(int argc, char **argv)
{
    check(argc == 5);
    const struct oidc_settings settings = {.name = "driven",
                                           .issuer = argv[1],
                                           .client_id = argv[2],
                                           .client_secret_file = argv[3],
                                           .scope = "openid",
                                           .audience = "",
                                           .tenant = "acme",
                                           .tenant_claim = "",
                                           .person_claim = "sub",
                                           .claims = "groups",
                                           .roles_claim = "groups",
                                           .reviewer = "finance",
                                           .policy_admin = "",
                                           .auditor = "",
                                           .admin = "",
                                           .allow_private = true,
                                           .insecure_loopback = true};
    struct oidc *o;
    struct oidc_endpoints endpoints;
    struct fault f;
    bool may_change;
    char line[4096];
    condition_init(&moved);
    log_init("oidc_driver", LOG_ERROR);
    check(oidc_start(&settings, 1, argv[4], changed, NULL, &o, &f) == ERR_OK);
    wait_for(&fetches, 1);
    bool is_usable = oidc_endpoints(o, 0, &endpoints, &may_change, &f) == ERR_OK;
    printf("%s %s\n", is_usable ? "ready" : "away", is_usable ? endpoints.authorization : f.text);
    fflush(stdout);
    for (unsigned number = 1; is_usable && fgets(line, sizeof line, stdin) != NULL; number++)
        exchange(o, line, number);
    oidc_stop(o);
    oidc_destroy(o);
    return 0;
}
