/* engine_key.h - the public keys with which engines sign checkpoints, as an admin registered them
 * (schemas/evidence.md). The platform's own has no node.
 *
 * Each row has a MAC under a key of the pepper, so write access to the database registers none.
 * A row whose MAC is wrong counts as none.
 *
 * Blocking; belongs to the thread of its store. */
#ifndef STORE_ENGINE_KEY_H
#define STORE_ENGINE_KEY_H

#include "crypto/crypto.h"
#include "store/store.h"

enum { ENGINE_KEYS_MAX = 8 /* of one stream */ };

struct engine_key {
    struct str node, journal; /* empty: the platform */
    uint8_t public_key[ED25519_KEY_BYTES];
};

/* Registers the key, and records that as an event engine.trusted of tenant `*`, in one transaction.
 * A key that is registered already stays, without an event. ERR_FULL: the stream has as many as it
 * may have. Also the errors of key_store_begin(): the caller's key has ended. */
enum err engine_key_add(struct store *s, const struct engine_key *k, const struct actor *by,
                        struct fault *f);
/* Registers the platform's own. */
enum err engine_key_add_own(struct store *s, const uint8_t public_key[ED25519_KEY_BYTES],
                            uint64_t now_ms, struct fault *f);

/* The valid keys of a stream; *ret_count: how many. */
enum err engine_keys_of(struct store *s, struct str node, struct str journal,
                        uint8_t to[ENGINE_KEYS_MAX][ED25519_KEY_BYTES], size_t *ret_count,
                        struct fault *f);

/* All keys as JSON: {"engine_keys": [{node, journal, public_key, created_at, created_by, is_valid}]}. */
enum err engine_key_list(struct store *s, struct buf *out, struct fault *f);

#endif
