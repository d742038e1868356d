/* access.c - the options of access to the brokers, in the client library's own names.
 *
 * A combination that cannot work is refused at the start, with the option's name: a password
 * without a user, SASL without either, a CA file where nothing is encrypted. Brokers' certificates
 * are verified, their names too; there is no option to turn that off. */
#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "pipeline/topic/topic.h"

static void set(struct topic_settings *s, const char *name, const char *value)
{
    check(s->count < TOPIC_SETTINGS_MAX);
    s->list[s->count].name = name;
    s->list[s->count++].value = value;
}

static enum err read_secret(const char *path, char to[TOPIC_SECRET_MAX + 1], struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set(f, ERR_NOT_FOUND, "kafka.password_file", "kafka.password_file: %s cannot be opened: %m", path);
    ssize_t got = read(fd, to, TOPIC_SECRET_MAX + 1);
    close(fd);
    size_t size = got < 0 ? 0 : (size_t)got;
    while (size > 0 && (to[size - 1] == '\n' || to[size - 1] == '\r')) size--;
    if (size == 0 || size > TOPIC_SECRET_MAX || memchr(to, 0, size) != NULL)
        return fault_set(f, ERR_BAD_VALUE, "kafka.password_file", "kafka.password_file: %s does not hold one password of 1 to %d bytes",
                         path, TOPIC_SECRET_MAX);
    to[size] = '\0';
    return ERR_OK;
}

static enum err check_topic(const char *topic, struct fault *f)
{
    struct str name = str_from(topic);
    if (name.size > 0 && name.size <= TOPIC_NAME_MAX && str_is_name(name) && !str_equal(name, STR(".")) &&
        !str_equal(name, STR("..")))
        return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "kafka.topic", "kafka.topic: must be 1 to %d of letters, digits, '.', '_' and '-'",
                     TOPIC_NAME_MAX);
}

static enum err make(const struct topic_access *a, struct topic_settings *s, struct fault *f)
{
    struct str security = str_from(a->security);
    bool sasl = str_starts(security, STR("sasl_")), ssl = str_equal(security, STR("ssl")) || str_equal(security, STR("sasl_ssl"));
    enum err e = check_topic(a->topic, f);
    if (e != ERR_OK) return e;
    set(s, "bootstrap.servers", a->brokers);
    set(s, "security.protocol", a->security);
    if (!ssl && a->ca_file[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "kafka.ca_file", "kafka.ca_file: nothing is encrypted with kafka.security = %s",
                         a->security);
    if (ssl && a->ca_file[0] != '\0') set(s, "ssl.ca.location", a->ca_file);
    if (ssl) set(s, "ssl.endpoint.identification.algorithm", "https");
    if (!sasl && (a->user[0] != '\0' || a->password_file[0] != '\0'))
        return fault_set(f, ERR_BAD_VALUE, "kafka.user", "kafka.user, kafka.password_file: nobody logs in with kafka.security = %s",
                         a->security);
    if (!sasl) return ERR_OK;
    if (a->user[0] == '\0' || a->password_file[0] == '\0')
        return fault_set(f, ERR_BAD_VALUE, "kafka.user", "kafka.user, kafka.password_file: kafka.security = %s needs both",
                         a->security);
    e = read_secret(a->password_file, s->secret, f);
    if (e != ERR_OK) return e;
    set(s, "sasl.mechanism", a->mechanism);
    set(s, "sasl.username", a->user);
    set(s, "sasl.password", s->secret);
    return ERR_OK;
}

enum err topic_settings_make(const struct topic_access *a, struct topic_settings *ret, struct fault *f)
{
    *ret = (struct topic_settings){0};
    enum err e = make(a, ret, f);
    if (e != ERR_OK) topic_settings_wipe(ret);
    return e;
}

void topic_settings_wipe(struct topic_settings *s)
{
    volatile char *bytes = s->secret;
    for (size_t i = 0; i < sizeof s->secret; i++) bytes[i] = 0;
    s->count = 0;
}
