/* key_store.h - API keys as rows. Only a credential's HMAC is stored. The credential itself is
 * returned once, when the key is made. Each change raises the revision and writes its audit row in
 * the same transaction. Blocking; belongs to the thread of its store; changes need a writer.
 *
 * `tenant` restricts the keys that a function may use to one tenant; absent: any tenant. */
#ifndef STORE_KEY_STORE_H
#define STORE_KEY_STORE_H

#include "access/key.h"
#include "store/store.h"

struct key_result {
    struct id id;
    uint64_t revision; /* of the store after it */
};

/* Begins a requested change: takes the write lock, and then checks that the key of that id (absent:
 * none) holds now. During the wait for the lock another platform or an earlier change may have
 * ended it, or its time has passed. ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED: no transaction
 * was begun. */
enum err key_store_begin(struct store *s, struct str key_id, struct fault *f);

/* Makes a key from `draft` (its id, MAC and times are set here, at its turn; draft->expires_at
 * stays) and appends the row's JSON with one more member, `key`: the credential. ERR_BAD_VALUE: the
 * name is FILES_PRINCIPAL, "." or "..". ERR_OUT_OF_RANGE: the limit of keys is reached. */
enum err key_store_create(struct store *s, const struct pepper *p, struct key *draft,
                          const struct actor *by, struct buf *out, struct key_result *ret,
                          struct fault *f);
/* A second revocation changes nothing: *ret_changed is false. ERR_NOT_FOUND. */
enum err key_store_revoke(struct store *s, struct str tenant, struct id id, const struct actor *by,
                          bool *ret_changed, struct key_result *ret, struct fault *f);
/* ERR_MISSING_ROLE: only an admin of every tenant may make such a key (an ingest key). */
enum err key_check_maker(const struct key *k, bool everywhere, struct fault *f);
/* ERR_OUT_OF_RANGE: it would end before it begins. */
enum err key_check_end(const struct key *k, uint64_t now_ms, struct fault *f);
struct key_rotation {
    struct str tenant; /* whose keys may be rotated; absent: any */
    struct id id;
    bool everywhere; /* the caller is an admin of every tenant */
    uint64_t overlap_ms;
};
/* Makes a new key with all members of the old one. It ends when the old one would have ended
 * without a rotation. The old one ends `overlap_ms` after the transaction's turn, but never later
 * than before (0: it is revoked now). Appends the new row with `key`, and `replaces` {id,
 * expires_at}. ERR_NOT_FOUND. As of key_check_maker(): a caller that may not make such a key may
 * not rotate it. ERR_KEY_ENDED: the old one was revoked or has expired. ERR_OUT_OF_RANGE: the limit
 * of keys is reached. */
enum err key_store_rotate(struct store *s, const struct pepper *p,
                          const struct key_rotation *wanted, const struct actor *by,
                          struct buf *out, struct key_result *ret, struct fault *f);
/* {keys, count, limit, next_cursor}, without MACs, in the order of creation. */
enum err key_store_list(struct store *s, struct str tenant, uint64_t limit, uint64_t cursor,
                        struct buf *out, struct fault *f);
/* All keys that the platform itself must check. Outside of a transaction. ERR_SET_REFUSED: they are
 * not what was stored (set.h). */
enum err key_store_table(struct store *s, struct key_table **ret, struct fault *f);
/* For a platform that starts on such a store: the keys whose rows are as they were stored; without
 * a good list of these, all keys. Such a platform changes no policy and no key, and engines get
 * none, so its keys can only read, and deliver records. */
enum err key_store_table_of_refused(struct store *s, struct key_table **ret, struct fault *f);

/* For the command line on a data directory: opens (and creates) the store at `path`, creates a
 * missing pepper, and creates the key. Safe while a platform uses the store. `request` is the body
 * of POST /api/v1/keys; appends the same answer. */
enum err key_store_bootstrap(const char *path, const char *pepper_path, const struct json *request,
                             struct buf *out, struct fault *f);

#endif
