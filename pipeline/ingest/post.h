/* post.h - stores the events that people and other systems post: one event, an array, or NDJSON;
 * all or nothing.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef INGEST_POST_H
#define INGEST_POST_H

#include "base/buf.h"
#include "pipeline/ingest/stream.h"

struct ingest_post {
    struct str body;
    bool ndjson;
    const struct globs *tenants;
    /* Its events are records of writ that are put back: they are stored as they are, and marked
     * (audit_row.is_restored). Of others the kind becomes `external.…`, since kinds of writ come from
     * streams only. What a platform records (`audit.`, `engine.`, `key.`, `policy.`) is refused. */
    bool restores;
    uint64_t now_ms;
    struct str key_id; /* the sender's; absent: it has none */
    /* Idempotency-Key: absent, or 1 to 256 bytes of UTF-8, which the caller checks. Unique per
     * tenant and key, and stored for 24 h. */
    struct str idempotency_key, tenant;
};

/* Appends the answer ({"id"} or {"accepted", "duplicates", "ids"}). On any error nothing was
 * stored: ERR_EVENT_CONFLICT, ERR_WRONG_TENANT, ERR_MISSING_ROLE (not `restores`),
 * ERR_IDEMPOTENCY_MISMATCH, the errors of key_store_begin(), or the error of an event, with its
 * index in the pointer. */
enum err ingest_post(struct store *s, const struct ingest_post *post, struct buf *out,
                     struct ingest_result *ret, struct fault *f);

#endif
