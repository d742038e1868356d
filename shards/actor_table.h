/* actor_table.h - the actors of a shard that are suspended, or were resumed lately. For the files
 * of this room only.
 *
 *   (unknown) --suspend--> SUSPENDED --resume--> RESUMED --a token's longest life--> (unknown)
 *                              ^--------suspend------/
 *
 * A resumed actor is kept while a token from before its resume may still be valid: after a restart
 * all reactors have to learn again that such a token is dead. Suspending puts the actor on the list
 * `to_deny`. Its reviews are ended from there, a few in each step. So the list survives a
 * crash between the suspension and the last denial. */
#ifndef SHARDS_ACTOR_TABLE_H
#define SHARDS_ACTOR_TABLE_H

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/wheel.h"
#include "shards/call.h"
#include "shards/order.h"

/* after a resume: no token lives longer */
enum { ACTOR_REMEMBERED_MS = LIMIT_TOKEN_TTL_SECONDS * 1000 };

struct actor {
    struct actor_facts facts;
    uint64_t resumed_ms; /* 0: suspended */
    uint64_t block;      /* of the block with its newest record */
    unsigned slot;
    struct link to_deny;      /* SUSPENDED, and reviews may be left */
    struct wheel_entry timer; /* RESUMED: when it is forgotten */
    struct str key;           /* tenant, NUL, name */
    char *why;                /* facts.reason, facts.by */
    char bytes[];
};

struct actor_tenant {
    struct order suspended;
    uint64_t block; /* of the block with the newest record of any of them */
    struct str name;
    char bytes[];
};

struct actor_table {
    struct map by_name, tenants;
    struct list to_deny;
    struct wheel wheel; /* of actor.timer */
    struct order_spare spare;
    size_t suspended, suspended_max;
    uint64_t ordinal_max;
};

void actor_table_init(struct actor_table *t, size_t suspended_max);
void actor_table_fini(struct actor_table *t);

/* What is true of every actor and of every table between two calls. */
void actor_check(const struct actor *a);
void actor_table_check(const struct actor_table *t);

/* NULL: neither suspended nor remembered as resumed */
struct actor *actor_find(const struct actor_table *t, struct str tenant, struct str name);
bool actor_is_suspended(const struct actor_table *t, struct str tenant, struct str name);
struct actor_tenant *actor_tenant_find(const struct actor_table *t, struct str name);

/* Copies the facts. The actor must not be suspended. ERR_FULL: out of memory, nothing changed. The
 * caller checks the bound suspended_max, because an actor that is recorded already has to be
 * taken. */
enum err actor_suspend(struct actor_table *t, unsigned slot, const struct actor_facts *f,
                       struct actor **ret);
/* it must be suspended */
void actor_resume(struct actor_table *t, struct actor *a, uint64_t at_ms);
/* Drops the resumed actors that no token can need any more. */
void actor_table_prune(struct actor_table *t, uint64_t now_ms);

#endif
