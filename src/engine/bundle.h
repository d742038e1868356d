/* bundle.h - the policies and keys in force, as one immutable revision.
 *
 * Built on the feed's thread from the platform's bundle, used by all reactors, freed when every
 * reactor's beat has moved on. Documents are compiled once and shared between revisions. A tenant
 * whose documents do not load keeps its last set for 60 s and is then denied by
 * `default:policy_unloadable`; a tenant without documents is denied by `default:deny`. */
#ifndef ENGINE_BUNDLE_H
#define ENGINE_BUNDLE_H

#include "access/key.h"
#include "policy/policy.h"
#include "shards/limit_window.h"

struct bundle;

enum { LOG_ID_TEXT_MAX = 64 };

struct bundle_facts {
    uint64_t revision;
    char log_id[LOG_ID_TEXT_MAX + 1]; /* of the platform's database that gave it; "" = none */
    size_t tenants, documents, rules, keys;
    size_t tenants_unloadable; /* of those, how many run on an older set or are closed */
    uint64_t close_at_ms;      /* when the next of them must be closed; 0 = none */
};

/* Builds from the bundle's JSON text. `before` (or NULL) gives documents to share and sets to fall
 * back on. ERR_BAD_VALUE: the text is no bundle, or one of another format; nothing is changed. */
enum err bundle_create(struct str text, const struct bundle *before, uint64_t now_ms,
                       struct bundle **ret, struct fault *f);
void bundle_destroy(struct bundle *b);

/* Views, as long as the bundle lives. */
const struct bundle_facts *bundle_facts(const struct bundle *b);
const struct key_table *bundle_keys(const struct bundle *b);
/* The tenants whose records the platform takes of us; NULL: all. */
const struct globs *bundle_served(const struct bundle *b);
/* The windows of all limits (place_limit_tag()); before anything came of the platform: unknown. */
const struct limit_windows *bundle_limit_windows(const struct bundle *b);
/* The tenant's set; where it has none, the one that denies everything. Never NULL. */
const struct policy_set *bundle_policies(const struct bundle *b, struct str tenant);

#endif
