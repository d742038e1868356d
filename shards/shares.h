/* shares.h - how the places of one table are divided among tenants, and a tenant's among its keys.
 *
 *                  alone               another has asked within a day
 *   a tenant       all places          half of them
 *   a key          all of its tenant   half of those
 *
 * A tenant that was alone may hold more than half when another one asks. What it holds beyond half
 * takes no place from the others, so a table may hold up to half more than its bound. Memory has the
 * same bound and the same parts.
 *
 * Each shard has its own tables, and each table its own shares: counts are those of one reactor, and
 * need no lock. An object keeps its share and leaves with it, so that the counts are exact however it
 * ends. The times of requests come from the caller and, at recovery, from the objects. One thread. */
#ifndef SHARDS_SHARES_H
#define SHARDS_SHARES_H

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/quota.h"
#include "base/wheel.h"

/* The tenant and the key that a place is for. `key` is any bytes that differ from key to key; absent:
 * unknown, so that the place counts for the tenant only. An absent tenant: for the table only. */
struct share_asker {
    struct str tenant, key;
};

/* The two that asked last, by a hash of their names: enough to see whether another one did. */
struct share_recent {
    uint64_t of[2], at_ms[2];
};

struct share {            /* of the table, of a tenant in it, or of one of the tenant's keys */
    struct share *parent; /* NULL: the table */
    size_t count, bytes;
    struct share_recent recent; /* the latest of its tenants, or of its keys */
    struct list ended;          /* for the table's use: objects that may make room, oldest first */
    struct wheel_entry timer;   /* of a tenant without places: when it is forgotten */
    struct str name;
    char text[];
};

struct shares {
    const char *name; /* of the places, for refusals: "reviews" */
    size_t count_max, bytes_max;
    struct share all;
    size_t counted, bytes_counted; /* without what a tenant holds beyond half */
    struct map tenants, keys;
    struct wheel wheel;
};

/* `bytes_max` 0: memory is not bounded. Must not be moved afterwards. */
void shares_init(struct shares *s, const char *name, size_t count_max, size_t bytes_max);
void shares_fini(struct shares *s);

/* What is true between two calls; constant time. */
void shares_check(const struct shares *s);
/* Counts everything again, for simulators. */
void shares_recount(const struct shares *s);

/* Whether there is a place of so many bytes, and notes that it was asked for. ERR_QUOTA_KEY,
 * ERR_QUOTA_TENANT: the part is used up, and *ret has its size; ERR_FULL: the table is. */
enum err shares_ask(struct shares *s, const struct share_asker *who, size_t bytes, uint64_t now_ms,
                    struct quota *ret);
/* Takes a place, whether or not there is one: a recorded object has to be accepted. NULL: no
 * memory. */
struct share *shares_enter(struct shares *s, const struct share_asker *who, size_t bytes,
                           uint64_t at_ms);
void shares_leave(struct shares *s, struct share *share, size_t bytes);
/* The object of this share has grown, or shrunk. */
void shares_grow(struct shares *s, struct share *share, size_t bytes);
void shares_shrink(struct shares *s, struct share *share, size_t bytes);
/* The key that it was entered with; of a key's share only. */
struct str share_key(const struct share *share);
/* NULL: the asker has no place. */
struct share *shares_find(const struct shares *s, const struct share_asker *who);

#endif
