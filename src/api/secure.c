#include "api/secure.h"

static struct str address_of(const char *option)
{
    struct str address = str_from(option);
    return str_equal(address, STR(LISTEN_NONE)) ? STR("") : address;
}

/* Of several, one is enough. NULL: there is none. */
static bool is_https(const char *urls) { return urls != NULL && strstr(urls, "https://") != NULL; }

enum err api_tls_create(const struct config *c, struct tls **ret, struct fault *f)
{
    bool serves = address_of(c->listen_tls).size > 0;
    if (!serves && !is_https(c->platform_url) && !is_https(c->otlp_url) && !is_https(c->engine_url))
        return ERR_OK;
    const struct tls_files files = {.cert_file = c->tls_cert_file,
                                    .key_file = c->tls_key_file,
                                    .client_ca_file = serves ? c->tls_client_ca_file : NULL,
                                    .ca_file = c->tls_ca_file,
                                    .serves = serves,
                                    .insecure_peers = c->tls_insecure_peers,
                                    .prefix = "tls."};
    return tls_create(&files, ret, f);
}

struct listen_options api_listen_options(const struct config *c)
{
    return (struct listen_options){.address = address_of(c->listen),
                                   .path = str_from(c->listen_unix),
                                   .tls = address_of(c->listen_tls),
                                   .may_be_public = c->insecure_public};
}
