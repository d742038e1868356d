/* set_inside.h - the set while a transaction reads or changes it; inside this room only. */
#ifndef STORE_SET_INSIDE_H
#define STORE_SET_INSIDE_H

#include "base/arena.h"
#include "store/set.h"
#include "store/store_inside.h"

enum set_kind { SET_KEY, SET_POLICY };
enum { SET_HISTORY_MAX = 64, SET_HISTORY_BYTES = SET_HISTORY_MAX * 56 };

struct set_entry {
    struct str text; /* kind, tenant, NUL, name: the order of the list */
    struct sha256 digest;
    bool is_seen;
};

/* In memory from set_open() to set_close(): the rows of set_rows may be changed by others
 * meanwhile, and must not become valid by that. */
struct stored_set {
    struct arena arena;
    struct hasher *hasher;
    struct set_entry *list;
    size_t count, room;
    struct revision revision;
    uint64_t adopted_at;
    char history[SET_HISTORY_BYTES]; /* "number:history_id …", the newest last */
    size_t history_size;
    bool is_authentic; /* the MAC fits */
    bool is_changed;
};

/* The columns of a policy that count. The digest is that of the text. */
struct set_policy {
    struct str tenant, name, format, digest, updated_by, directory;
    uint64_t version, revision;
    bool is_active;
};

/* In a transaction: reads the list and checks its MAC, once in a transaction. ERR_SET_REFUSED. */
enum err set_open(struct store *s, struct fault *f);
/* The same, but a list that was read stays open without a good MAC, to name the wrong rows by it. */
enum err set_open_any(struct store *s, struct fault *f);
/* The same with an empty list: the stored list, its MAC and its history are ignored. */
enum err set_open_empty(struct store *s, struct fault *f);
void set_close(struct store *s);
/* Writes the MAC, if something was changed. */
enum err set_seal(struct store *s, struct fault *f);
/* The revision of the transaction. */
void set_note_revision(struct store *s, const struct revision *to);

struct sha256 set_key_digest(struct stored_set *t, struct str id, struct str tenant,
                             struct str row);
struct sha256 set_policy_digest(struct stored_set *t, const struct set_policy *p);

/* The row was written. They open the set. */
enum err set_put_key(struct store *s, struct str id, struct str tenant, struct str row,
                     struct fault *f);
enum err set_put_policy(struct store *s, const struct set_policy *p, struct fault *f);
enum err set_remove(struct store *s, enum set_kind kind, struct str tenant, struct str name,
                    struct fault *f);
/* A change is about to be made from this row. ERR_SET_REFUSED: it is not what was stored. */
enum err set_check_key(struct store *s, struct str id, struct str tenant, struct str row,
                       struct fault *f);
enum err set_check_policy(struct store *s, const struct set_policy *p, struct fault *f);
enum err set_check_no_policy(struct store *s, struct str tenant, struct str name, struct fault *f);

/* All policies with their texts, for set_policy_of(). */
extern const char SET_POLICY_ROWS[];
/* The row; the views live until the next step. False: it has no text, or the text has another
 * digest. */
bool set_policy_of(struct statement *q, struct set_policy *ret);

struct set_name {
    enum set_kind kind;
    struct str tenant, name;
};
struct set_name set_name_of(const struct set_entry *e); /* views */
/* ERR_SET_REFUSED: the store has `now`, which does not follow what was seen. */
enum err set_is_older(struct fault *f, const struct revision *now, const struct seen *seen);

/* The entry, or NULL. */
struct set_entry *set_find(struct stored_set *t, enum set_kind kind, struct str tenant,
                           struct str name);
enum err set_refused(struct fault *f, enum set_kind kind, struct str tenant, struct str name,
                     const char *what);

/* The MAC of a version's text, so that a rollback does not take a forged one. */
void set_version_mac(const struct store *s, struct str tenant, struct str name, uint64_t version,
                     struct str format, struct str content, char to[SHA256_HEX]);

/* set_verify.c: in a transaction that reads: all rows of keys, and with `policies` of policies and
 * their texts, are in the list and the other way round, and the revision follows what this process
 * has seen. Notes it as seen. ERR_SET_REFUSED. The set stays open, also then. */
enum err set_verify(struct store *s, bool policies, struct fault *f);

#endif
