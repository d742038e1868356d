/* login.h - how a client of the brokers gets in, and what to say where it does not: for
 * both sides of the topic.
 *
 *                      ┌── the library asks for a token (OAUTHBEARER: first, and at 80 % of its life)
 *   file ── read ──────┤
 *                      └── once a second while brokers refuse what they were given
 *
 * A file that somebody mends or renews is thus enough: nothing is restarted. A connection that is
 * logged in stays so until the brokers end it. The door to librdkafka for this; sending and reading
 * have their own (pipeline/publish, pipeline/ingest).
 *
 * Belongs to the thread that polls the client, but for the check of certificates, reaching brokers,
 * and the library's own log, which its threads do. */
#ifndef TOPIC_LOGIN_H
#define TOPIC_LOGIN_H

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "pipeline/topic/reach.h"
#include "pipeline/topic/topic.h"

struct topic_login {
    void *owner; /* whose client it is: the client's opaque is this login */
    struct topic_access access;
    /* what the library last complained of; "" since all was well */
    char trouble[TOPIC_TROUBLE_TEXT];
    /* why there is none to give; its text is "" where there is one */
    struct fault no_token;
    bool is_refused;
    uint64_t again_ms; /* not read before */
    _Atomic int x509_error;
    struct reach reach;
};

/* copies */
void topic_login_init(struct topic_login *l, const struct topic_access *access, void *owner);
void topic_login_fini(struct topic_login *l);

/* Sets what the access says, what both sides want alike, and `own`, the side's own settings; the
 * opaque, and all callbacks but those for errors and for what was delivered. ERR_BAD_VALUE,
 * ERR_NOT_FOUND: an option, named in *f; no secret enters *f. */
enum err topic_login_configure(struct topic_login *l, rd_kafka_conf_t *conf,
                               const struct topic_setting *own, size_t own_count, struct fault *f);
/* The client, of a `conf` that is taken. ERR_BAD_VALUE: an option that shows to be
 * wrong only now (a CA file). */
enum err topic_login_open(struct topic_login *l, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                          rd_kafka_t **ret, struct fault *f);

/* The error callback's part. */
void topic_login_complained(struct topic_login *l, int code, const char *reason);
/* Call it now and then, a second or so apart at most: reads the secret anew where it was
 * refused. */
void topic_login_again(struct topic_login *l, rd_kafka_t *client);
/* Brokers answer as they should. */
void topic_login_is_well(struct topic_login *l);
/* For people; "" = nothing is known to be wrong. */
const char *topic_login_trouble(const struct topic_login *l);

#endif
