/* policy_store.h - policy documents: what is in force, and every version there ever was.
 *
 * Versions are immutable and numbered per (tenant, name), for ever: a document that is deleted
 * and made again goes on counting, so that a version in an audit event names one text. Each
 * change raises the revision and writes its audit row in the same transaction. Whether a
 * document is valid is asked before (policy/policy.h). Blocking; belongs to the thread of its
 * store; the functions that change something need a writer. */
#ifndef INGEST_POLICY_STORE_H
#define INGEST_POLICY_STORE_H

#include "pipeline/ingest/store.h"

enum { POLICY_ETAG_TEXT = 48 };

/* What a request demands of the present state; absent members demand nothing. */
struct policy_condition {
    struct str if_match;      /* "*" or a list of entity tags */
    struct str if_none_match; /* the same */
    /* ERR_WATCHED_POLICY where this principal was the last to change it; */
    struct str not_of;
    uint64_t seen; /* a deletion: only where that was after this revision */
};

struct policy_guard;

struct policy_change {
    struct str tenant, name;
    struct str content, digest; /* digest: 64 hex digits of the content */
    bool is_json;
    struct str description;     /* absent: keeps what is there */
    bool has_active, is_active; /* absent: keeps; a new one is active */
    struct policy_condition condition;
    bool dry_run; /* tells what would happen */
    bool claims;  /* whoever changes it owns it from then on, also where the text is the same; and
                   * deletes only what is owned, else nothing */
    struct str directory; /* with `claims`: where the owner has it from; others' are not deleted */
    struct policy_guard *guard; /* of a single change; NULL: none */
};

enum policy_effect { POLICY_UNCHANGED, POLICY_UPDATED, POLICY_CREATED, POLICY_DELETED };
const char *policy_effect_name(enum policy_effect effect); /* "updated" */

struct policy_result {
    enum policy_effect effect;
    uint64_t version;  /* of the document after it */
    uint64_t revision; /* of the store after it */
    /* quoted, NUL-terminated; of a dry run: of what is there, "" for nothing */
    char etag[POLICY_ETAG_TEXT];
};

/* Appends the policy's JSON. ERR_PRECONDITION_FAILED; ERR_OUT_OF_RANGE: the tenant has as many
 * as it may. */
enum err policy_store_put(struct store *s, const struct policy_change *change,
                          const struct actor *by, struct buf *out, struct policy_result *ret,
                          struct fault *f);
/* The text of an old version becomes a new one. Of `change`, tenant, name and
 * condition count. ERR_NOT_FOUND. */
enum err policy_store_rollback(struct store *s, const struct policy_change *change,
                               uint64_t version, const struct actor *by, struct buf *out,
                               struct policy_result *ret, struct fault *f);
/* Of `change`, tenant, name and condition count. ERR_NOT_FOUND. */
enum err policy_store_delete(struct store *s, const struct policy_change *change,
                             const struct actor *by, struct policy_result *ret, struct fault *f);

struct policy_step {
    struct policy_change change;
    bool deletes;
    struct policy_result result;
};

/* Asked in the transaction before anything is changed, with all that is to be changed: whether the
 * set that results is one that may be in force. An error, with the fault, ends the transaction. */
struct policy_guard {
    enum err (*run)(struct policy_guard *g, struct store *s, const struct policy_step *steps,
                    size_t count, struct fault *f);
    struct str
        forced; /* set by run(): what was found and is done all the same, for the audit events */
};

/* Several changes of one tenant in one transaction: all or none. A deletion of what is not there
 * changes nothing. Results are of the changes in their order; the revision is the last one's. */
struct policy_batch {
    struct policy_step *steps;
    size_t count;
    bool dry_run;               /* tells what would happen */
    struct policy_guard *guard; /* NULL: none */
};
enum err policy_store_apply(struct store *s, struct policy_batch *b, const struct actor *by,
                            struct fault *f);
/* A tenant's policies without their texts, by name. */
struct policy_row {
    struct str tenant, name, digest, updated_by, directory;
    bool is_active;
    uint64_t version;
    uint64_t revision; /* of the store, when it last changed */
};
/* A row and its texts are valid during the call. */
enum err policy_store_rows(struct store *s, struct str tenant,
                           void (*each)(void *context, const struct policy_row *row), void *context,
                           struct fault *f);
/* The same of all tenants, by tenant and name, only what is in force. */
enum err policy_store_rows_in_force(struct store *s,
                                    void (*each)(void *context, const struct policy_row *row),
                                    void *context, struct fault *f);
/* The same of all other tenants, by tenant and name: what `principal` was the last to change. */
enum err policy_store_rows_elsewhere(struct store *s, struct str tenant, struct str principal,
                                     void (*each)(void *context, const struct policy_row *row),
                                     void *context, struct fault *f);

/* {…policy}; its entity tag. ERR_NOT_FOUND. */
enum err policy_store_get(struct store *s, struct str tenant, struct str name, struct buf *out,
                          char ret_etag[POLICY_ETAG_TEXT], struct fault *f);
/* {policies, count}, in the order of their making, and next_cursor where that is not all: after
 * `limit`, or sooner where the documents are many megabytes. */
enum err policy_store_list(struct store *s, struct str tenant, uint64_t limit, uint64_t cursor,
                           struct buf *out, struct fault *f);
/* {versions, count} (and next_cursor), newest first, without content; `before` 0: from the newest.
 */
enum err policy_store_versions(struct store *s, struct str tenant, struct str name, uint64_t limit,
                               uint64_t before, struct buf *out, struct fault *f);
/* One version with its content. ERR_NOT_FOUND. */
enum err policy_store_version(struct store *s, struct str tenant, struct str name, uint64_t version,
                              struct buf *out, struct fault *f);
/* Appends the text of a version, for checking it again. */
enum err policy_store_content(struct store *s, struct str tenant, struct str name, uint64_t version,
                              struct buf *out, struct fault *f);

/* Whether `etag` is in the list (or the list is "*"). If-None-Match compares weakly: W/"x" names
 * "x", too (RFC 9110, 13.1.2). */
bool etag_matches_weakly(struct str list, struct str etag);

#endif
