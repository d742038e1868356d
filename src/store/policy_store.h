/* policy_store.h - policy documents: those in force, and all versions ever stored.
 *
 * Versions are immutable and numbered per (tenant, name), permanently. A document that is deleted
 * and created again continues the numbers, so that a version in an audit event identifies one text.
 * Each change raises the revision and writes its audit row in the same transaction. The caller
 * checks before that a document is valid (policy/policy.h). Blocking; belongs to the thread of its
 * store; the functions that change something need a writer. */
#ifndef STORE_POLICY_STORE_H
#define STORE_POLICY_STORE_H

#include "store/store.h"

enum { POLICY_ETAG_TEXT = 48 };

/* A request's conditions on the present state; absent members are no conditions. */
struct policy_condition {
    struct str if_match;      /* "*" or a list of entity tags */
    struct str if_none_match; /* the same */
    /* ERR_WATCHED_POLICY if this principal was the last to change it. */
    struct str not_of;
    uint64_t seen; /* a deletion: only if that change was after this revision */
};

struct policy_guard;

struct policy_change {
    struct str tenant, name;
    struct str content, digest; /* digest: 64 hex digits of the content */
    bool is_json;
    struct str description;     /* absent: unchanged */
    bool has_active, is_active; /* absent: unchanged; a new one is active */
    struct policy_condition condition;
    bool dry_run; /* only returns the results */
    /* The principal of the change owns the policy afterwards, even if the text is the same. Only an
     * owned policy is deleted; otherwise nothing changes. */
    bool claims;
    /* with `claims`: the owner's directory; policies of other directories are not deleted */
    struct str directory;
    struct policy_guard *guard; /* for a single change; NULL: none */
};

enum policy_effect { POLICY_UNCHANGED, POLICY_UPDATED, POLICY_CREATED, POLICY_DELETED };
const char *policy_effect_name(enum policy_effect effect); /* "updated" */

struct policy_result {
    enum policy_effect effect;
    uint64_t version;  /* of the document after it */
    uint64_t revision; /* of the store after it */
    /* Quoted, NUL-terminated. After a dry run: the present tag; "": no policy. */
    char etag[POLICY_ETAG_TEXT];
};

/* Appends the policy's JSON. ERR_PRECONDITION_FAILED; ERR_OUT_OF_RANGE: the tenant has reached its
 * limit. */
enum err policy_store_put(struct store *s, const struct policy_change *change,
                          const struct actor *by, struct buf *out, struct policy_result *ret,
                          struct fault *f);
/* Makes a new version with the text of an old one. Uses only tenant, name and condition of
 * `change`. ERR_NOT_FOUND. */
enum err policy_store_rollback(struct store *s, const struct policy_change *change,
                               uint64_t version, const struct actor *by, struct buf *out,
                               struct policy_result *ret, struct fault *f);
/* Uses only tenant, name and condition of `change`. ERR_NOT_FOUND. */
enum err policy_store_delete(struct store *s, const struct policy_change *change,
                             const struct actor *by, struct policy_result *ret, struct fault *f);

struct policy_step {
    struct policy_change change;
    bool deletes;
    struct policy_result result;
};

/* Runs in the transaction before anything changes, with all steps: checks that the resulting set
 * may be in force. An error, with the fault, ends the transaction. */
struct policy_guard {
    enum err (*run)(struct policy_guard *g, struct store *s, const struct policy_step *steps,
                    size_t count, struct fault *f);
    struct str forced; /* set by run(): the problems that were forced, for the audit events */
};

/* Several changes of one tenant in one transaction: all or none. The deletion of a missing policy
 * changes nothing. Results are in the order of the changes; the revision is the last one's. */
struct policy_batch {
    struct policy_step *steps;
    size_t count;
    bool dry_run;               /* only returns the results */
    struct policy_guard *guard; /* NULL: none */
};
enum err policy_store_apply(struct store *s, struct policy_batch *b, const struct actor *by,
                            struct fault *f);
/* A tenant's policies without their texts, by name. */
struct policy_row {
    struct str tenant, name, digest, updated_by, directory;
    bool is_active;
    uint64_t version;
    uint64_t revision; /* of the store, at its last change */
};
/* A row and its texts are valid during the call. */
enum err policy_store_rows(struct store *s, struct str tenant,
                           void (*each)(void *context, const struct policy_row *row), void *context,
                           struct fault *f);
/* The same for all tenants, by tenant and name, only policies in force. */
enum err policy_store_rows_in_force(struct store *s,
                                    void (*each)(void *context, const struct policy_row *row),
                                    void *context, struct fault *f);
/* The same for all other tenants, by tenant and name: policies that `principal` was the last to
 * change. */
enum err policy_store_rows_elsewhere(struct store *s, struct str tenant, struct str principal,
                                     void (*each)(void *context, const struct policy_row *row),
                                     void *context, struct fault *f);

/* {…policy}; its entity tag. ERR_NOT_FOUND. */
enum err policy_store_get(struct store *s, struct str tenant, struct str name, struct buf *out,
                          char ret_etag[POLICY_ETAG_TEXT], struct fault *f);
/* {policies, count}, in the order of creation, and next_cursor if there are more: after `limit`, or
 * earlier if the documents have many megabytes. */
enum err policy_store_list(struct store *s, struct str tenant, uint64_t limit, uint64_t cursor,
                           struct buf *out, struct fault *f);
/* {versions, count} (and next_cursor), newest first, without content; `before` 0: from the newest.
 */
enum err policy_store_versions(struct store *s, struct str tenant, struct str name, uint64_t limit,
                               uint64_t before, struct buf *out, struct fault *f);
/* One version with its content. ERR_NOT_FOUND. */
enum err policy_store_version(struct store *s, struct str tenant, struct str name, uint64_t version,
                              struct buf *out, struct fault *f);
/* Appends the text of a version, to check it again. */
enum err policy_store_content(struct store *s, struct str tenant, struct str name, uint64_t version,
                              struct buf *out, struct fault *f);

/* Whether `etag` is in the list (or the list is "*"). If-None-Match compares weakly: W/"x" names
 * "x", too (RFC 9110, 13.1.2). */
bool etag_matches_weakly(struct str list, struct str etag);

#endif
