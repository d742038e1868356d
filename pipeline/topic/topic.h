/* topic.h - the form of a message of the audit topic, for the writing and the reading side.
 *
 *   value      the event's JSON, exactly as journaled
 *   key        trace_id, or none
 *   headers    event_id, kind, tenant_id, schema, traceparent (if there is one), and the
 *              record's position: node, journal, epoch, seq
 *   partition  topic_partition(node, journal): one engine's history is in order
 *
 * schemas/kafka.md describes the same for other readers. Also here: the security settings that both
 * sides give to the client library, so that an option has one meaning. Pure, except for the files
 * of secrets. */
#ifndef TOPIC_TOPIC_H
#define TOPIC_TOPIC_H

#include "base/arena.h"
#include "base/fault.h"

#define TOPIC_SCHEMA "writ.audit/1"

enum {
    TOPIC_TRACEPARENT_TEXT = 55,
    TOPIC_NAME_MAX = 249, /* Kafka's own limit */
    TOPIC_PARTITIONS_MAX = 1024,
    TOPIC_SETTINGS_MAX = 16,
    TOPIC_SECRET_MAX = 256,
};

/* ---- places ---- */

struct topic_position { /* the record in a message */
    struct str node, journal, epoch;
    uint64_t seq;
};

/* The partition of a stream: FNV-1a (64 bits) of node, a zero byte and journal, its upper half
 * folded into its lower, modulo `partitions` (at least 1). Never changes: order depends on it. */
uint32_t topic_partition(struct str node, struct str journal, uint32_t partitions);

struct topic_headers { /* as received; absent: missing */
    struct str node, journal, epoch, seq, schema;
    struct str mac, checkpoint, from_seq, frontier; /* schemas/evidence.md */
};

/* False: the message has no valid position of a record; *ret_why is a phrase for people. */
bool topic_position_read(const struct topic_headers *h, struct topic_position *ret,
                         const char **ret_why);

/* ---- members of the event in headers ---- */

struct topic_event { /* absent: not in the event */
    struct str event_id, kind, tenant_id, trace_id;
};

/* Finds them among the members of a canonical JSON object without reading the rest. Views of
 * `json`; a tenant_id with escapes is unescaped into the arena. False: it is not such an object
 * (*ret is zeroed). */
bool topic_event_find(struct str json, struct arena *arena, struct topic_event *ret);

/* Writes the W3C traceparent of a record whose trace_id is a W3C trace id; else returns false. Its
 * span id is the last 8 bytes of event_id's 16. So a record always has the same, and a decision's
 * is the span that the engine sends (pipeline/spans). Flags are 00, because no record has the
 * sampled flag. */
bool topic_traceparent(const struct topic_event *e, char to[TOPIC_TRACEPARENT_TEXT]);

/* ---- access ---- */

struct topic_access { /* texts are borrowed and never NULL; "" is unset */
    const char *brokers, *topic;
    const char *security;  /* plaintext, ssl, sasl_ssl, sasl_plaintext */
    const char *mechanism; /* of SASL */
    const char *user, *password_file, *ca_file;
    const char *token_file; /* of OAUTHBEARER: token.h */
};

/* Whether the login uses a token instead of a password. */
bool topic_access_has_token(const struct topic_access *a);
/* Copies every text. */
void topic_access_copy(const struct topic_access *from, struct topic_access *to);
void topic_access_fini(struct topic_access *copied); /* zeroed: nothing to free */

struct topic_setting { /* of the client library */
    const char *name, *value;
};

/* Values live as long as the access and this object. */
struct topic_settings {
    struct topic_setting list[TOPIC_SETTINGS_MAX];
    size_t count;
    char secret[TOPIC_SECRET_MAX + 2];
};

/* ERR_BAD_VALUE, ERR_NOT_FOUND: an option, named in *f. Secrets never enter *f. */
enum err topic_settings_make(const struct topic_access *a, struct topic_settings *ret,
                             struct fault *f);
void topic_settings_wipe(struct topic_settings *s);

/* ---- trouble ---- */

enum { TOPIC_TROUBLE_TEXT = 280 };

/* Writes the client library's error for people: its text, why a certificate was refused
 * (`x509_error`, OpenSSL's number; 0: none was), and which of our options to check. `library` is
 * its version, 0xMMmmrrxx. */
void topic_trouble_write(const char *reason, int x509_error, int library,
                         char to[TOPIC_TROUBLE_TEXT]);

#endif
