/* key_store.h - API keys as rows. Only a credential's HMAC is stored; the credential itself is
 * given once, when it is made. Each change raises the revision and writes its audit row in the
 * same transaction. Blocking; belongs to the thread of its store; changes need a writer.
 *
 * Whose keys a function may touch is said by `tenant`: one tenant's, or absent: any. */
#ifndef INGEST_KEY_STORE_H
#define INGEST_KEY_STORE_H

#include "access/key.h"
#include "pipeline/ingest/store.h"

struct key_result {
    struct id id;
    uint64_t revision; /* of the store after it */
};

/* Begins what somebody asks for: takes the write lock, and then asks whether the key of that
 * id (absent: there is none) holds now. Another platform may have ended it, a change that waited for
 * its turn before this one, or its time, however long this one waited. ERR_CREDENTIAL_REVOKED,
 * ERR_CREDENTIAL_EXPIRED: nothing is begun. */
enum err key_store_begin(struct store *s, struct str key_id, struct fault *f);

/* Makes a key of what `draft` says (its id, MAC and times are set here, as of its turn;
 * draft->expires_at is kept) and appends the row's JSON with one more member, `key`: the credential. ERR_BAD_VALUE: the
 * name is FILES_PRINCIPAL, "." or ".."; ERR_OUT_OF_RANGE: as many keys as there may be. */
enum err key_store_create(struct store *s, const struct pepper *p, struct key *draft,
                          const struct actor *by, struct buf *out, struct key_result *ret,
                          struct fault *f);
/* Revoking again changes nothing: *ret_changed is false. ERR_NOT_FOUND. */
enum err key_store_revoke(struct store *s, struct str tenant, struct id id, const struct actor *by,
                          bool *ret_changed, struct key_result *ret, struct fault *f);
/* ERR_MISSING_ROLE where only an admin of every tenant may make such a key: an ingest key. */
enum err key_check_maker(const struct key *k, bool everywhere, struct fault *f);
/* ERR_OUT_OF_RANGE: it would have ended before it began. */
enum err key_check_end(const struct key *k, uint64_t now_ms, struct fault *f);
struct key_rotation {
    struct str tenant; /* whose keys may be touched; absent: any */
    struct id id;
    bool everywhere; /* an admin of every tenant asks */
    uint64_t overlap_ms;
};
/* A new key with everything of the old one; it ends when the old one would have, had it never been
 * rotated. The old one ends `overlap_ms` after its turn has come, never later than it would have
 * (0: it is revoked now). Appends the new row with `key`, and `replaces` {id, expires_at}. ERR_NOT_FOUND; as of
 * key_check_maker(): whoever may not make such a key may not rotate it; ERR_KEY_ENDED: the old one
 * was revoked or has expired; ERR_OUT_OF_RANGE: as many keys as there may be. */
enum err key_store_rotate(struct store *s, const struct pepper *p,
                          const struct key_rotation *wanted, const struct actor *by,
                          struct buf *out, struct key_result *ret, struct fault *f);
/* {keys, count, limit, next_cursor}, without MACs, in the order of their making. */
enum err key_store_list(struct store *s, struct str tenant, uint64_t limit, uint64_t cursor,
                        struct buf *out, struct fault *f);
/* All keys that the platform itself has to know. */
enum err key_store_table(struct store *s, struct key_table **ret, struct fault *f);

/* For the command line on a data directory: opens the store at `path` (making it), makes the
 * pepper where there is none, and creates the key. Safe while a platform runs on it. `request` is
 * as POST /api/v1/keys takes it; appends the same answer. */
enum err key_store_bootstrap(const char *path, const char *pepper_path, const struct json *request,
                             struct buf *out, struct fault *f);

#endif
