/* access.c - the options of access to the brokers, under the client library's names.
 *
 * A combination that cannot work is refused at the start, with the option's name: a password
 * without a user, SASL without either, a CA file without encryption, a token for a mechanism
 * without tokens. Brokers' certificates and their names are verified. No option turns that off. */
#include <stdlib.h>

#include "base/check.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "pipeline/topic/topic.h"

static void set(struct topic_settings *s, const char *name, const char *value)
{
    check(s->count < TOPIC_SETTINGS_MAX);
    s->list[s->count].name = name;
    s->list[s->count++].value = value;
}

static enum err check_topic(const char *topic, struct fault *f)
{
    struct str name = str_from(topic);
    if (name.size > 0 && name.size <= TOPIC_NAME_MAX && str_is_name(name) && !str_is_dots(name))
        return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "kafka.topic",
                     "kafka.topic: must be 1 to %d of letters, digits, '.', '_' and '-'",
                     TOPIC_NAME_MAX);
}

/* The client library would take the first colon of a bare IPv6 address as the one before the
 * port. */
static enum err check_brokers(const char *brokers, struct fault *f)
{
    struct str rest = str_from(brokers);
    if (str_find(rest, '@') < rest.size)
        return fault_set(
            f, ERR_BAD_VALUE, "kafka.brokers",
            "kafka.brokers: has an @; it must be host:port, with commas between several. Set the user by kafka.user and kafka.password_file");
    while (rest.size > 0) {
        size_t end = str_find(rest, ',');
        struct str broker = str_of(rest.bytes, end);
        rest = str_skip(rest, end < rest.size ? end + 1 : end);
        if (memchr(broker.bytes, '[', broker.size) != NULL) continue;
        const char *protocol = memmem(broker.bytes, broker.size, "://", 3);
        struct str address =
            protocol == NULL ? broker : str_skip(broker, (size_t)(protocol - broker.bytes) + 3);
        struct str behind = str_skip(address, str_find(address, ':'));
        if (behind.size > 0 && memchr(behind.bytes + 1, ':', behind.size - 1) != NULL)
            return fault_set(
                f, ERR_BAD_VALUE, "kafka.brokers",
                "kafka.brokers: \"%.*s\" is not host:port; an IPv6 address must be in brackets, as in [::1]:9092",
                (int)(broker.size > 100 ? 100 : broker.size), broker.bytes);
    }
    return ERR_OK;
}

/* The token itself may come later, and is often renewed: the login reads it. */
static enum err by_token(const struct topic_access *a, struct fault *f)
{
    if (a->token_file[0] == '\0')
        return fault_set(f, ERR_BAD_VALUE, "kafka.token_file",
                         "kafka.token_file: kafka.sasl_mechanism = OAUTHBEARER needs it");
    if (a->user[0] != '\0' || a->password_file[0] != '\0')
        return fault_set(
            f, ERR_BAD_VALUE, "kafka.user",
            "kafka.user, kafka.password_file: with kafka.sasl_mechanism = OAUTHBEARER the token names the user: leave these unset");
    return ERR_OK;
}

static enum err by_password(const struct topic_access *a, struct topic_settings *s, struct fault *f)
{
    size_t size;
    if (a->token_file[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "kafka.token_file",
                         "kafka.token_file: kafka.sasl_mechanism = %s takes no token",
                         a->mechanism);
    if (a->user[0] == '\0' || a->password_file[0] == '\0')
        return fault_set(f, ERR_BAD_VALUE, "kafka.user",
                         "kafka.user, kafka.password_file: kafka.security = %s needs both",
                         a->security);
    enum err e =
        secret_read("kafka.password_file", a->password_file, s->secret, sizeof s->secret, &size, f);
    if (e != ERR_OK) return e;
    set(s, "sasl.username", a->user);
    set(s, "sasl.password", s->secret);
    return ERR_OK;
}

static enum err make(const struct topic_access *a, struct topic_settings *s, struct fault *f)
{
    struct str security = str_from(a->security);
    bool sasl = str_starts(security, STR("sasl_")),
         ssl = str_equal(security, STR("ssl")) || str_equal(security, STR("sasl_ssl"));
    enum err e = check_topic(a->topic, f);
    if (e == ERR_OK) e = check_brokers(a->brokers, f);
    if (e != ERR_OK) return e;
    set(s, "bootstrap.servers", a->brokers);
    set(s, "security.protocol", a->security);
    if (!ssl && a->ca_file[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "kafka.ca_file",
                         "kafka.ca_file: nothing is encrypted with kafka.security = %s",
                         a->security);
    if (ssl && a->ca_file[0] != '\0') set(s, "ssl.ca.location", a->ca_file);
    if (ssl) set(s, "ssl.endpoint.identification.algorithm", "https");
    if (!sasl && (a->user[0] != '\0' || a->password_file[0] != '\0' || a->token_file[0] != '\0'))
        return fault_set(
            f, ERR_BAD_VALUE, "kafka.user",
            "kafka.user, kafka.password_file, kafka.token_file: there is no login with kafka.security = %s",
            a->security);
    if (!sasl) return ERR_OK;
    set(s, "sasl.mechanism", a->mechanism);
    return topic_access_has_token(a) ? by_token(a, f) : by_password(a, s, f);
}

enum err topic_settings_make(const struct topic_access *a, struct topic_settings *ret,
                             struct fault *f)
{
    *ret = (struct topic_settings){0};
    enum err e = make(a, ret, f);
    if (e != ERR_OK) topic_settings_wipe(ret);
    return e;
}

void topic_settings_wipe(struct topic_settings *s)
{
    memory_wipe(s->secret, sizeof s->secret);
    s->count = 0;
}

/* ---- copies ---- */

bool topic_access_has_token(const struct topic_access *a)
{
    struct str security = str_from(a->security);
    return str_starts(security, STR("sasl_")) &&
           str_equal(str_from(a->mechanism), STR("OAUTHBEARER"));
}

static const char *copy(const char *text)
{
    char *to = strdup(text);
    check(to != NULL); /* only at boot */
    return to;
}

void topic_access_copy(const struct topic_access *from, struct topic_access *to)
{
    *to = (struct topic_access){.brokers = copy(from->brokers),
                                .topic = copy(from->topic),
                                .security = copy(from->security),
                                .mechanism = copy(from->mechanism),
                                .user = copy(from->user),
                                .password_file = copy(from->password_file),
                                .ca_file = copy(from->ca_file),
                                .token_file = copy(from->token_file)};
}

void topic_access_fini(struct topic_access *a)
{
    const char *const texts[] = {a->brokers, a->topic,         a->security, a->mechanism,
                                 a->user,    a->password_file, a->ca_file,  a->token_file};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) free((void *)(uintptr_t)texts[i]);
    *a = (struct topic_access){0};
}
