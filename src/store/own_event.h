/* own_event.h - the platform's own audit rows. They have no source, since they are in no stream. */
#ifndef STORE_OWN_EVENT_H
#define STORE_OWN_EVENT_H

#include "store/store.h"

struct own_event {
    const char *kind; /* "policy.put" */
    struct str tenant;
    const char *resource_type; /* NULL: no resource */
    struct str resource_id;
    struct str reason;         /* absent: none */
    struct str client_address; /* absent: none */
    struct str user_id, proof; /* of a session; absent: none */
    struct str policy_name, policy_digest;
    uint64_t policy_version; /* 0: none */
    uint64_t expires_at;     /* 0: none */
    uint64_t count;          /* 0: none */
};

/* Within the transaction of the recorded change; inside this room. */
enum err own_event_store(struct store *s, const struct actor *by, const struct own_event *e,
                         struct fault *f);

/* For an event without a change: in a transaction of its own. */
enum err own_event_store_alone(struct store *s, const struct actor *by, const struct own_event *e,
                               struct fault *f);

#endif
