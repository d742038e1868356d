/* own_event.h - the platform's own audit rows: they have no source, since they travel no stream. */
#ifndef INGEST_OWN_EVENT_H
#define INGEST_OWN_EVENT_H

#include "pipeline/ingest/store.h"

struct own_event {
    const char *kind; /* "policy.put" */
    struct str tenant;
    const char *resource_type; /* NULL: no resource */
    struct str resource_id;
    struct str reason;         /* absent: none */
    struct str client_address; /* absent: none */
    struct str policy_name, policy_digest;
    uint64_t policy_version; /* 0: none */
    uint64_t expires_at;     /* 0: none */
    uint64_t count;          /* 0: none */
};

/* Within the transaction of what it records; inside this room. */
enum err own_event_store(struct store *s, const struct actor *by, const struct own_event *e,
                         struct fault *f);

/* What records nothing else: a transaction of its own. */
enum err own_event_store_alone(struct store *s, const struct actor *by, const struct own_event *e,
                               struct fault *f);

#endif
