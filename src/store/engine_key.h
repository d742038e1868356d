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

/* Withdraws a registered key: it counts for checkpoints of the records before *ret_from, the stream's
 * next one. Records that as an event engine.distrusted of tenant `*`, in one transaction. A key that was
 * withdrawn stays so, without another event, and cannot be registered again. ERR_NOT_FOUND: it is not
 * registered. Also the errors of key_store_begin(). */
enum err engine_key_distrust(struct store *s, const struct engine_key *k, struct str reason,
                             const struct actor *by, uint64_t *ret_from, struct fault *f);

/* The keys of a stream that count for new checkpoints; *ret_count: how many. *ret_is_known: it has
 * registered keys at all, which may all be withdrawn. */
enum err engine_keys_of(struct store *s, struct str node, struct str journal,
                        uint8_t to[ENGINE_KEYS_MAX][ED25519_KEY_BYTES], size_t *ret_count,
                        bool *ret_is_known, struct fault *f);

/* The MAC of a row, in hex, with the key of the pepper for it. distrusted_from 0: it counts. False: the
 * names are longer than any that was registered. */
bool engine_key_mac(const struct sha256 *mac_key, struct str node, struct str journal,
                    struct str public_key, uint64_t distrusted_from, char to[SHA256_HEX]);

/* All keys as JSON: {"engine_keys": [{node, journal, public_key, created_at, created_by,
 * distrusted_from (0: it counts), is_valid}]}. */
enum err engine_key_list(struct store *s, struct buf *out, struct fault *f);

#endif
