/* token_table.h - the tokens of a shard: objects and indexes. For the files of this room only.
 *
 *   by id       open addressing over pointers; the id's own chance is the hash
 *   by retry    the Idempotency-Key that it was minted under, for 24 hours
 *   by tenant   in the order of ordinals: pages
 *   by time     buckets of a minute, since a million tokens need no timer each
 *
 * A token is one allocation with its strings; all tokens of a key share the record of that key and
 * its tenant. With strings of 24 bytes that is 208 bytes of the heap, 24 of its tenant's order and
 * 11 to 21 of the index. A token is kept until it has expired (and while its Idempotency-Key may
 * come again). A revoked token is kept as long, so that the shard knows that it is dead. */
#ifndef SHARDS_TOKEN_TABLE_H
#define SHARDS_TOKEN_TABLE_H

#include "base/err.h"
#include "base/limits.h"
#include "base/map.h"
#include "shards/call.h"
#include "shards/order.h"
#include "shards/shares.h"

enum {
    TOKEN_BUCKETS = 2048, /* minutes: more than a token's longest life and a retry's */
    TOKEN_BUCKET_MS = 60000,
    TOKEN_RETRY_MS = LIMIT_RETRY_HOURS * 3600 * 1000,
};

struct token_tenant {
    struct order all; /* places: actor is the actor's digest, action is token_digest() */
    uint64_t block;   /* of the block with the newest record of any of them */
    struct str name;
    char bytes[];
};

struct token_retry {
    struct review_digest key, body;
};

struct token_minter { /* looked up by its first two members' bytes */
    struct id key;
    struct token_tenant *tenant;
    size_t count;        /* of its tokens */
    struct share *share; /* theirs */
};

enum token_retry_state {
    TOKEN_RETRY_NONE,
    TOKEN_RETRY_HELD,
    TOKEN_RETRY_OVER /* its key was used again */
};

struct token {
    struct id id;
    struct token_minter *minter;
    struct token *next_in_bucket;
    uint64_t ordinal, issued_ms, expires_ms, revoked_ms;
    uint64_t block; /* of the block with its newest record; 0: it was recovered */
    uint32_t signer, uses_max, uses;
    uint16_t actor_size, acting_for_size, scope_size,
        audience_size; /* sizes of the texts in `bytes`, in this order; or ABSENT */
    uint8_t retry;     /* but for NONE, struct token_retry comes first in bytes */
    char bytes[];
};

struct token_table {
    struct token **places; /* a power of two of them */
    size_t capacity, count, counted;
    struct shares shares; /* by tenants and minters */
    size_t bytes;         /* of tokens, their places in orders, the index by id */
    struct map tenants, minters, retries;
    struct order_spare spare;
    struct token *buckets[TOKEN_BUCKETS];
    uint64_t pruned_minute; /* all buckets before it are empty */
    uint64_t ordinal_max;
};

void token_table_init(struct token_table *t, size_t count_max);
void token_table_fini(struct token_table *t);

/* What is true of every token and of every table between two calls. */
void token_check(const struct token *k);
void token_table_check(const struct token_table *t);

/* NULL: there is none. */
struct token *token_find(const struct token_table *t, struct id id);
struct token *token_find_retry(const struct token_table *t, const struct review_digest *key);
const struct token_retry *token_retry_of(const struct token *k); /* NULL: none that is still held */
/* The value of `action` in a tenant's order: a digest of the key, or of the person the token is
 * for. If the requested half is equal, the token probably matches; if it differs, the token does
 * not. */
uint32_t token_digest(struct id key, struct str acting_for);
enum { TOKEN_DIGEST_OF_KEY = 0x7fff0000, TOKEN_DIGEST_OF_ACTING_FOR = 0xffff };
/* Views into the token. */
void token_facts_of(const struct token *k, struct token_facts *ret);

/* Copies. ERR_FULL: out of memory; ERR_EXISTS; ERR_OUT_OF_RANGE: a text is too long; nothing is
 * changed then. A caller that mints asks for a place first (token_ask()), because a recorded token has to be
 * accepted. `retry` may be NULL; if another token was minted under it, this one takes it over. */
enum err token_ask(struct token_table *t, const struct token_facts *f, uint64_t now_ms,
                   struct quota *ret); /* errors as of shares_ask() */
enum err token_add(struct token_table *t, const struct token_facts *f, const struct retry *retry,
                   struct token **ret);
/* Drops tokens that can no longer be used, at most `most`; false: there was nothing to drop. */
bool token_table_prune(struct token_table *t, uint64_t now_ms, size_t most);
uint64_t
token_table_next_ms(const struct token_table *t); /* when to prune again; UINT64_MAX: empty */
/* Walks all: start with *cursor = 0; NULL at the end. No changes meanwhile. */
struct token *token_table_next(const struct token_table *t, size_t *cursor);

#endif
