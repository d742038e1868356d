/* bundle.h - the policies and keys in force, as one immutable revision.
 *
 * The feed's thread builds it from the platform's bundle, all reactors use it, and it is freed when
 * every reactor has moved on to the next. Documents are compiled once and shared between revisions.
 * If a tenant's documents do not load, its last set stays for 60 s; then
 * `default:policy_unloadable` denies its requests. `default:deny` denies those of a tenant without
 * documents. */
#ifndef ENGINE_BUNDLE_H
#define ENGINE_BUNDLE_H

#include "access/key.h"
#include "policy/policy.h"
#include "shards/limit_window.h"

struct bundle;

enum { LOG_ID_TEXT_MAX = 64 };

struct bundle_facts {
    uint64_t revision;
    char log_id[LOG_ID_TEXT_MAX + 1]; /* of the platform's database that made it; "" = none */
    uint64_t adopted_at_ms;           /* when an operator last adopted its set; 0: never */
    struct str history; /* the newest revisions up to this one, "number:history_id number:…" */
    size_t tenants, documents, rules, keys;
    size_t tenants_unloadable; /* of those, how many run on an older set or are closed */
    uint64_t close_at_ms;      /* when the next of them has to be closed; 0 = none */
};

/* Builds from the bundle's JSON text. `before` (or NULL) has documents to share and sets to fall
 * back on. ERR_BAD_VALUE: the text is not a bundle, or has another format; nothing is changed. */
enum err bundle_create(struct str text, const struct bundle *before, uint64_t now_ms,
                       struct bundle **ret, struct fault *f);
void bundle_destroy(struct bundle *b);
/* Holds the bundle beyond its use by a reactor: an operation with offloaded work does. Any thread. */
void bundle_hold(const struct bundle *b);
void bundle_let_go(const struct bundle *b);
/* Adds a bundle (or NULL) that no reactor uses any more to the list, and destroys those of it that are
 * not held. The thread of the feed, because destroying a large one takes long. */
void bundle_retire(struct bundle **retired, struct bundle *b);
/* Whether `next` may follow `now`. A set that was adopted later follows every other one. Otherwise
 * revisions only rise, and the one in force must be part of the next one's history: an older one
 * may be looser, or have a revoked key. */
enum err bundle_follows(const struct bundle_facts *next, const struct bundle_facts *now,
                        struct fault *f);

/* Views, as long as the bundle lives. */
const struct bundle_facts *bundle_facts(const struct bundle *b);
const struct key_table *bundle_keys(const struct bundle *b);
/* The tenants whose records the platform takes from this engine; NULL: all. */
const struct globs *bundle_served(const struct bundle *b);
/* The windows of all limits (limit_tag_of()); unknown before the first bundle. */
const struct limit_windows *bundle_limit_windows(const struct bundle *b);
/* The tenant's set; if it has none, the set that denies everything. Never NULL. */
const struct policy_set *bundle_policies(const struct bundle *b, struct str tenant);

#endif
