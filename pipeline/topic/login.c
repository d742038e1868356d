/* login.c - passes secrets from their files to the client library, and its errors to people. */
#include "pipeline/topic/login.h"

#include <netdb.h>
#include <stdio.h>

#include "base/log.h"
#include "base/world.h"
#include "pipeline/topic/token.h"

enum { AGAIN_MS = 1000 };

void topic_login_init(struct topic_login *l, const struct topic_access *access, void *owner)
{
    *l = (struct topic_login){.owner = owner};
    topic_access_copy(access, &l->access);
    reach_init(&l->reach);
}

void topic_login_fini(struct topic_login *l)
{
    topic_access_fini(&l->access);
    reach_fini(&l->reach);
}

/* ---- brokers ---- */

/* With node NULL the function must free its earlier result. */
static int name_is_wanted(const char *node, const char *service, const struct addrinfo *hints,
                          struct addrinfo **res, void *opaque)
{
    struct topic_login *l = opaque;
    if (node != NULL) return reach_name(&l->reach, node, service, hints->ai_flags, res);
    freeaddrinfo(*res);
    return 0;
}

static int socket_is_wanted(int domain, int type, int protocol, void *opaque)
{
    (void)opaque;
    return reach_socket(domain, type, protocol);
}

/* ---- tokens ---- */

static enum err give_token(const struct topic_login *l, rd_kafka_t *client, struct fault *f)
{
    struct topic_token token;
    char text[160];
    enum err e = topic_token_read(l->access.token_file, world_wall_ns() / 1000000, &token, f);
    if (e != ERR_OK) return e;
    if (rd_kafka_oauthbearer_set_token(client, token.text, token.expires_ms, token.principal, NULL,
                                       0, text, sizeof text) != RD_KAFKA_RESP_ERR_NO_ERROR)
        e = fault_set(f, ERR_BAD_VALUE, "kafka.token_file",
                      "kafka.token_file: the token in %s is not accepted: %s", l->access.token_file,
                      text);
    topic_token_wipe(&token);
    return e;
}

/* The library keeps its present token, asks again in ten seconds, and reports brokers
 * separately. */
static void token_is_wanted(rd_kafka_t *client, const char *config, void *opaque)
{
    struct topic_login *l = opaque;
    struct fault f = {0};
    (void)config;
    if (give_token(l, client, &f) != ERR_OK) {
        rd_kafka_oauthbearer_set_token_failure(client, f.text);
        if (strcmp(l->no_token.text, f.text) != 0)
            log_text(LOG_WARNING, "kafka_token", "%s", f.text);
    }
    l->no_token = f;
}

/* ---- passwords ---- */

static void give_password(struct topic_login *l, rd_kafka_t *client)
{
    struct topic_settings settings;
    struct fault f;
    if (topic_settings_make(&l->access, &settings, &f) != ERR_OK) {
        snprintf(l->trouble, sizeof l->trouble, "%.*s", TOPIC_TROUBLE_TEXT - 1, f.text);
        return;
    }
    rd_kafka_error_t *error =
        rd_kafka_sasl_set_credentials(client, l->access.user, settings.secret);
    if (error != NULL) rd_kafka_error_destroy(error);
    topic_settings_wipe(&settings);
}

void topic_login_again(struct topic_login *l, rd_kafka_t *client)
{
    uint64_t now_ms = world_monotonic_ns() / 1000000;
    if ((!l->is_refused && l->no_token.text[0] == '\0') || now_ms < l->again_ms) return;
    l->again_ms = now_ms + AGAIN_MS;
    if (topic_access_has_token(&l->access))
        token_is_wanted(client, NULL, l);
    else if (l->access.password_file[0] != '\0')
        give_password(l, client);
}

/* ---- certificates ---- */

/* Does not decide: OpenSSL has decided, and this stores the reason, for a text that the library
 * does not have. */
static int certificate_was_checked(rd_kafka_t *client, const char *broker, int32_t id,
                                   int *x509_error, int depth, const char *der, size_t size,
                                   char *text, size_t capacity, void *opaque)
{
    struct topic_login *l = opaque;
    (void)client, (void)broker, (void)id, (void)depth, (void)der, (void)size;
    if (*x509_error == 0) return 1;
    atomic_store(&l->x509_error, *x509_error);
    snprintf(text, capacity, "OpenSSL's reason %d", *x509_error);
    return 0;
}

/* ---- the client's settings ---- */

static const struct topic_setting both[] = {
    {"reconnect.backoff.max.ms", "500"},
    {"socket.connection.setup.timeout.ms", "5000"},
    {"topic.metadata.refresh.interval.ms", "10000"},
    {"allow.auto.create.topics", "false"}, /* it would have the brokers' number of partitions */
    {"log.connection.close", "true"},      /* else a TLS port causes no report */
};

static void logged(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    (void)client;
    log_text(level <= 4 ? LOG_WARNING : LOG_DEBUG, "kafka", "%s: %.300s", facility, text);
}

static enum err set_all(rd_kafka_conf_t *conf, const struct topic_setting *list, size_t count,
                        struct fault *f)
{
    char text[160];
    for (size_t i = 0; i < count; i++)
        if (rd_kafka_conf_set(conf, list[i].name, list[i].value, text, sizeof text) !=
            RD_KAFKA_CONF_OK)
            return fault_set(f, ERR_BAD_VALUE, "", "kafka: %s cannot be set: %s", list[i].name,
                             strstr(list[i].name, "password") != NULL ? "it is not accepted"
                                                                      : text);
    return ERR_OK;
}

enum err topic_login_configure(struct topic_login *l, rd_kafka_conf_t *conf,
                               const struct topic_setting *own, size_t own_count, struct fault *f)
{
    struct topic_settings settings;
    enum err e = topic_settings_make(&l->access, &settings, f);
    if (e == ERR_OK) e = set_all(conf, settings.list, settings.count, f);
    topic_settings_wipe(&settings);
    if (e == ERR_OK) e = set_all(conf, both, sizeof both / sizeof *both, f);
    if (e == ERR_OK) e = set_all(conf, own, own_count, f);
    if (e != ERR_OK) return e;
    rd_kafka_conf_set_opaque(conf, l);
    rd_kafka_conf_set_log_cb(conf, logged);
    rd_kafka_conf_set_resolve_cb(conf, name_is_wanted);
    rd_kafka_conf_set_socket_cb(conf, socket_is_wanted);
    if (topic_access_has_token(&l->access))
        rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, token_is_wanted);
    if (rd_kafka_conf_set_ssl_cert_verify_cb(conf, certificate_was_checked) == RD_KAFKA_CONF_OK)
        return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "kafka.security",
                     "kafka.security: Kafka's client library was built without TLS");
}

enum err topic_login_open(struct topic_login *l, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                          rd_kafka_t **ret, struct fault *f)
{
    char text[200], trouble[TOPIC_TROUBLE_TEXT];
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof text);
    if (client == NULL) {
        rd_kafka_conf_destroy(conf);
        topic_trouble_write(text, 0, rd_kafka_version(), trouble);
        return fault_set(f, ERR_BAD_VALUE, "", "%s", trouble);
    }
    l->trouble[0] = '\0';
    rd_kafka_poll(client, 0); /* it may ask for a token, without which it does not connect */
    *ret = client;
    return ERR_OK;
}

/* ---- trouble ---- */

void topic_login_complained(struct topic_login *l, int code, const char *reason)
{
    int x509_error = code == RD_KAFKA_RESP_ERR__SSL ? atomic_load(&l->x509_error) : 0;
    /* "All brokers are down" does not give the reason, so the earlier text stays. */
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && l->trouble[0] != '\0') return;
    topic_trouble_write(reason, x509_error, rd_kafka_version(), l->trouble);
    if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION) l->is_refused = true;
}

void topic_login_is_well(struct topic_login *l)
{
    l->trouble[0] = '\0';
    l->is_refused = false;
}

const char *topic_login_trouble(const struct topic_login *l)
{
    return l->no_token.text[0] != '\0' ? l->no_token.text : l->trouble;
}
