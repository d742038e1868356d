/* post.h - what people and other systems post into the audit store: one event, an array,
 * or NDJSON; all or nothing.
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
    /* whether it may post what writ itself records (`audit.`, `engine.`, `key.`, `policy.`): what
     * has no source passes for this store's own */
    bool restores;
    uint64_t now_ms;
    struct str key_id; /* the sender's; absent: it has none */
    /* Idempotency-Key: absent, or 1 to 256 bytes of UTF-8, as the caller has checked; per tenant
     * and key, kept for 24 h. */
    struct str idempotency_key, tenant;
};

/* Appends the answer ({"id"} or {"accepted", "duplicates", "ids"}). ERR_EVENT_CONFLICT,
 * ERR_WRONG_TENANT, ERR_MISSING_ROLE (not `restores`), ERR_IDEMPOTENCY_MISMATCH, as of
 * key_store_begin(), or what is wrong with an event, its place in the pointer: nothing was stored. */
enum err ingest_post(struct store *s, const struct ingest_post *post, struct buf *out,
                     struct ingest_result *ret, struct fault *f);

#endif
