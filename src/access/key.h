/* key.h - API keys: the identity of a caller, for whom it may speak, and its roles.
 *
 * A credential is `wk_` + 26 characters of id + `_` + 43 of base64url secret + `_` + 6 lowercase
 * hex digits of CRC-32C (its low 24 bits) over all before them, 80 bytes in all. Only an HMAC of
 * the whole credential under the pepper is stored. The pepper is a file of 32 random bytes in
 * hex, mode 0600, that both programs read. A `struct key` is immutable once read; a `struct
 * key_table` is immutable once built and may be shared by threads. */
#ifndef ACCESS_KEY_H
#define ACCESS_KEY_H

#include "base/buf.h"
#include "base/fault.h"
#include "base/id.h"
#include "access/rates.h"
#include "base/map.h"
#include "crypto/crypto.h"
#include "json/json.h"

enum role {
    ROLE_AGENT = 1,
    ROLE_APP = 2,
    ROLE_REVIEWER = 4,
    ROLE_POLICY_ADMIN = 8,
    ROLE_AUDITOR = 16,
    ROLE_INGEST = 32,
    ROLE_METRICS = 64,
    ROLE_ADMIN = 128,
    ROLE_TOKEN = 256, /* never a key's role: in a route's roles it admits tokens */
};
/* Those that a person may have without an API key; the others are for programs. */
enum {
    ROLES_OF_PEOPLE = ROLE_REVIEWER | ROLE_POLICY_ADMIN | ROLE_AUDITOR | ROLE_METRICS | ROLE_ADMIN
};
const char *role_name(enum role r); /* "policy_admin" */
bool role_read(struct str name, enum role *ret);

enum { CREDENTIAL_TEXT = 80, KEY_GLOBS_MAX = 64 };

struct globs {
    struct str *list;
    size_t count;
};
bool globs_match(const struct globs *g, struct str text); /* exact case */
/* The row's member of this name, an array of names or patterns. If it is absent, the list has
 * `fallback`, or is empty if that is absent, too. The arena owns them. */
enum err globs_read(const struct json *row, const char *name, struct str fallback, struct arena *a,
                    struct globs *ret, struct fault *f);
/* "name":[…], without a comma after it. */
void globs_put(struct buf *out, const char *name, const struct globs *g);

struct key {
    struct id id;
    char id_text[ID_TEXT]; /* "key_…" */
    struct str name;       /* its principal */
    struct str owner;      /* the person or team that is responsible for it */
    struct str tenant;     /* or "*" */
    uint32_t roles;
    struct globs actors, users, reviewers, nodes, tenants;
    uint64_t created_at, expires_at, revoked_at; /* ms; 0 = never */
    struct str
        replaced_by; /* the id, "key_…", of the key that follows a rotated one; absent: none */
    /* of a rotated key: its expiry without the rotation, ms; 0 = never */
    uint64_t original_expires_at;
    struct rates
        rates; /* of all keys of its rotations together; 0: those of the program's options */
    /* the first key of the row of rotations that made this one, or its own id: as far as the
     * table knows them */
    struct id line;
    const struct key *previous; /* the key that this one replaced, or NULL; set by the table */
    struct sha256 mac;          /* HMAC of the credential */
    /* of the pepper that it was made under; 0: unknown, for a key of an earlier version */
    uint32_t pepper_fingerprint;
    struct arena *arena; /* owns the strings */
};

/* A key from its row's JSON {id, name, owner, tenant, roles[], actors[], users[], reviewers[],
 * nodes[], tenants[], created_at, expires_at, revoked_at, replaced_by, original_expires_at, rates{},
 * mac, pepper_fingerprint}; defaults: actors [name], reviewers [owner], users, nodes and tenants none. `mac`,
 * `pepper_fingerprint` and `id` may be absent in a request to make one. The caller owns it. */
enum err key_read(const struct json *row, struct key **ret, struct fault *f);
void key_destroy(struct key *k);

/* A person who has signed in without an API key, as a key for one call: that has the given roles, names
 * only the person, and asks for no agent or user. In the arena; NULL: it is full. */
const struct key *key_of_person(struct str tenant, struct str person, uint32_t roles,
                                struct arena *a);
bool key_is_person(const struct key *k); /* made by key_of_person() */
/* "key_…", or absent for a person. */
struct str key_shown_id(const struct key *k);
/* The row's JSON; without `mac` and `pepper_fingerprint` for answers to clients. */
void key_put(struct buf *out, const struct key *k, bool with_mac);

/* ---- credentials ---- */

struct pepper {
    uint8_t bytes[32];
};
/* Reads the pepper file; ERR_NOT_FOUND, ERR_BAD_VALUE (not 64 hex digits, or readable by others).
 */
enum err pepper_read(const char *path, struct pepper *ret, struct fault *f);
/* Makes it if it does not exist (0600, synced); leaves an existing one unchanged. */
enum err pepper_make(const char *path, struct fault *f);
/* Reads it. If it does not exist, it is made and that is logged: keys made under another pepper
 * are then refused. */
enum err pepper_read_or_make(const char *path, struct pepper *ret, struct fault *f);

/* A key for one purpose (HKDF of the pepper). The label names the purpose; each purpose has its
 * own label. Every engine and platform with this pepper derives the same key. */
struct sha256 pepper_derive(const struct pepper *p, struct str label);

/* Distinguishes two peppers without revealing either; never 0. */
uint32_t pepper_fingerprint(const struct pepper *p);

/* A fresh credential for id: CREDENTIAL_TEXT bytes, no NUL. */
void credential_make(struct id id, char to[CREDENTIAL_TEXT]);
/* Form and CRC only: this distinguishes a typing mistake from a wrong key. */
bool credential_read(struct str text, struct id *ret_id);
struct sha256 credential_mac(const struct pepper *p, struct str credential);

/* ---- the table ---- */

struct key_table; /* by id; owns its keys */
/* Takes over the keys on success, else none. ERR_EXISTS: two keys have one id; ERR_FULL: no
 * memory. */
enum err key_table_create(struct key **keys, size_t count, struct key_table **ret);
void key_table_destroy(struct key_table *t);
const struct key *key_table_get(const struct key_table *t, struct id id);
/* A revoked key stays revoked: keys that are revoked in `before` and in force in `next` are
 * revoked in `next`, too, which is not shared yet. The ids of the first `room` of them; returns
 * their number. */
size_t key_table_keep_revoked(struct key_table *next, const struct key_table *before,
                              struct id *ret_ids, size_t room);
size_t key_table_count(const struct key_table *t);
bool key_table_has_rates(const struct key_table *t); /* some key has rates of its own */
/* Of the keys in force, those that were made under another pepper than that of the fingerprint:
 * none of them can be verified. */
enum { UNPROVABLE_NAMED = 8 };
struct unprovable {
    size_t count;
    char ids[UNPROVABLE_NAMED * (ID_TEXT + 2) + 4]; /* of the first ones, for the log */
};
struct unprovable key_table_unprovable(const struct key_table *t, uint32_t pepper_fingerprint,
                                       uint64_t now_ms);
/* The text for /healthz, which is public, about so many keys; false: there are none. */
enum { KEY_TROUBLE_TEXT = 160 };
bool key_trouble(size_t unprovable, char to[KEY_TROUBLE_TEXT]);
/* Notes the number; logs it, with ids, if there were none before. */
void key_trouble_note(_Atomic size_t *noted, const struct unprovable *u);

/* Whether a key of this name and owner, for this tenant and with the role reviewer, is in force. */
bool key_table_has_reviewer(const struct key_table *t, struct str tenant, struct str name,
                            struct str owner, uint64_t now_ms);

/* ERR_OK, ERR_CREDENTIAL_REVOKED or ERR_CREDENTIAL_EXPIRED. */
enum err key_in_force(const struct key *k, uint64_t now_ms);

/* Credentials that were verified before, by the SHA-256 of their text, so that a request costs
 * at most one short digest. Belongs to one thread and one table: clear it when the table
 * changes. */
struct key_cache;
struct key_cache *key_cache_create(size_t entries);
void key_cache_destroy(struct key_cache *c);
void key_cache_clear(struct key_cache *c);
/* A number that changes with each clearing, never 0. Code that keeps a verified key elsewhere
 * keeps this number with it, and uses the key only while both are the same. */
uint64_t key_cache_generation(const struct key_cache *c);
/* The key if the credential is in the cache; NULL: it is not, and has to be verified. Does not
 * check whether the key is in force. */
const struct key *key_cache_get(const struct key_cache *c, struct hasher *h, struct str credential);
/* The key of this credential: ERR_UNAUTHENTICATED (unknown, or wrong secret: compared in constant
 * time), or as of key_in_force(). */
enum err key_cache_verify(struct key_cache *c, struct hasher *h, const struct key_table *t,
                          const struct pepper *p, struct str credential, uint64_t now_ms,
                          const struct key **ret);

#endif
