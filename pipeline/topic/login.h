/* login.h - the login of a client at the brokers, and the text about a failure: for both sides of
 * the topic.
 *
 *                      ┌── the library asks for a token (OAUTHBEARER: first, and at 80 % of its life)
 *   file ── read ──────┤
 *                      └── once a second while brokers refuse the secret
 *
 * So correcting or renewing the file is enough: no restart is needed. A connection stays logged in
 * until the brokers end it. This is the only user of librdkafka for logins; sending and reading
 * have their own (pipeline/publish, pipeline/ingest).
 *
 * Belongs to the thread that polls the client, except for the check of certificates, connecting to
 * brokers, and the library's own log, which run on its threads. */
#ifndef TOPIC_LOGIN_H
#define TOPIC_LOGIN_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "base/reach.h"
#include "pipeline/topic/topic.h"

struct topic_login {
    void *owner; /* the client's owner: the client's opaque is this login */
    struct topic_access access;
    /* the library's last error; "": none since the last success */
    char trouble[TOPIC_TROUBLE_TEXT];
    /* why there is no token; its text is "" if there is one */
    struct fault no_token;
    bool is_refused;
    uint64_t again_ms; /* the secret is not read before this time */
    _Atomic int x509_error;
    struct reach reach;
};

/* copies the access */
void topic_login_init(struct topic_login *l, const struct topic_access *access, void *owner);
void topic_login_fini(struct topic_login *l);

/* Sets the options of the access, the settings of both sides, and `own`, the side's own settings;
 * the opaque, and all callbacks except those for errors and deliveries. ERR_BAD_VALUE,
 * ERR_NOT_FOUND: an option, named in *f. No secret enters *f. */
enum err topic_login_configure(struct topic_login *l, rd_kafka_conf_t *conf,
                               const struct topic_setting *own, size_t own_count, struct fault *f);
/* Makes the client. It takes `conf`. ERR_BAD_VALUE: an option that can only be checked now (a CA
 * file). */
enum err topic_login_open(struct topic_login *l, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                          rd_kafka_t **ret, struct fault *f);

/* The error callback's part. */
void topic_login_complained(struct topic_login *l, int code, const char *reason);
/* Call it regularly, at least about once a second: reads the secret again if it was refused. */
void topic_login_again(struct topic_login *l, rd_kafka_t *client);
/* The brokers' answers are correct. */
void topic_login_is_well(struct topic_login *l);
/* For people; "": no problem is known. */
const char *topic_login_trouble(const struct topic_login *l);

#endif
