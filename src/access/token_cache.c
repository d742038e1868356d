/* token_cache.c - known tokens.
 *
 * Entries are a ring in the order of their arrival, so that the oldest is dropped first, and are
 * found by chains from buckets. Some digits of the signature choose the bucket: they are as good
 * as random, only a minting engine can choose them, and no digest of half a kilobyte is needed
 * for each request. The proof is the whole text: it is compared with the verified one, every
 * byte of it, even if the first bytes differ. Memory is allocated when a token comes for the
 * first time, never for a known one. Tokens are usually short but may be long, as the minting
 * client decides. So both their number and their bytes are bounded, and the oldest are dropped
 * for either. */
#include "access/signers.h"

#include <stdlib.h>

#include "base/check.h"

enum {
    SCRATCH_FIRST_BYTES = 16 << 10,
    SCRATCH_BYTES_MAX = 1 << 20,
    TAG_FROM_END = 48,
    ENTRY_BYTES = 2048
};

struct entry {
    uint64_t tag;  /* the digits that chose its bucket */
    uint32_t next; /* in its bucket, plus 1; 0: none */
    uint32_t text_size;
    size_t size; /* of that allocation */
    /* in one allocation, with its strings and then its text; NULL: free */
    struct token_claims *claims;
    const char *text;
};

struct token_cache {
    struct entry *entries;
    uint32_t *buckets;        /* the first entry of each, plus 1 */
    uint32_t capacity, place; /* where the next one goes */
    uint32_t count;           /* entries before it that are in use */
    size_t bytes;             /* of those entries */
    uint32_t mask;
    const struct signers *signers;
    struct arena scratch;      /* of a verification */
    struct token_claims shown; /* a token that is not kept (yet); views into scratch */
};

struct token_cache *token_cache_create(size_t entries)
{
    check(entries > 0 && entries <= UINT32_MAX / 4);
    uint32_t buckets = 1;
    while (buckets < entries) buckets *= 2;
    struct token_cache *c = calloc(1, sizeof *c);
    check(c != NULL);
    c->entries = calloc(entries, sizeof *c->entries);
    c->buckets = calloc(buckets, sizeof *c->buckets);
    check(c->entries != NULL && c->buckets != NULL);
    c->capacity = (uint32_t)entries;
    c->mask = buckets - 1;
    arena_init(&c->scratch, SCRATCH_FIRST_BYTES, SCRATCH_BYTES_MAX);
    return c;
}

void token_cache_clear(struct token_cache *c)
{
    for (uint32_t i = 0; i < c->capacity; i++) {
        free(c->entries[i].claims);
        c->entries[i].claims = NULL;
    }
    memset(c->buckets, 0, ((size_t)c->mask + 1) * sizeof *c->buckets);
    c->place = c->count = 0;
    c->bytes = 0;
}

size_t token_cache_bytes(const struct token_cache *c) { return c->bytes; }

void token_cache_destroy(struct token_cache *c)
{
    if (c == NULL) return;
    token_cache_clear(c);
    arena_fini(&c->scratch);
    free(c->entries);
    free(c->buckets);
    free(c);
}

/* Eight digits from the middle of the signature: 48 bits. */
static uint64_t tag_of(struct str text)
{
    uint64_t tag;
    memcpy(&tag, text.bytes + text.size - TAG_FROM_END, sizeof tag);
    return tag;
}

static uint32_t *bucket_of(struct token_cache *c, uint64_t tag)
{
    /* Fibonacci hashing: Knuth 1973, 6.4 */
    return &c->buckets[(tag * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & c->mask];
}

static const struct entry *find(struct token_cache *c, struct str text)
{
    uint64_t tag = tag_of(text);
    for (uint32_t at = *bucket_of(c, tag); at != 0; at = c->entries[at - 1].next) {
        const struct entry *e = &c->entries[at - 1];
        if (e->tag == tag && e->text_size == text.size &&
            bytes_equal_secret(e->text, text.bytes, text.size))
            return e;
    }
    return NULL;
}

static void drop_oldest(struct token_cache *c)
{
    check(c->count > 0);
    struct entry *e = &c->entries[(c->place + c->capacity - c->count) % c->capacity];
    uint32_t self = (uint32_t)(e - c->entries) + 1, *link = bucket_of(c, e->tag);
    while (*link != self) {
        check(*link != 0);
        link = &c->entries[*link - 1].next;
    }
    *link = e->next;
    free(e->claims);
    e->claims = NULL;
    c->bytes -= e->size;
    c->count--;
}

static void keep(struct token_cache *c, struct str text, const struct token_claims *claims)
{
    size_t strings = claims_strings(claims),
           size = sizeof(struct token_claims) + strings + text.size;
    struct token_claims *copy = malloc(size);
    if (copy == NULL) return;
    char *at = (char *)(copy + 1);
    *copy = *claims;
    claims_move(copy, at);
    memcpy(at + strings, text.bytes, text.size);

    while (c->count == c->capacity ||
           (c->count > 0 && c->bytes + size > (size_t)c->capacity * ENTRY_BYTES))
        drop_oldest(c);
    struct entry *e = &c->entries[c->place];
    uint64_t tag = tag_of(text);
    uint32_t *bucket = bucket_of(c, tag);
    *e = (struct entry){.tag = tag,
                        .next = *bucket,
                        .text_size = (uint32_t)text.size,
                        .size = size,
                        .claims = copy,
                        .text = at + strings};
    *bucket = c->place + 1;
    c->place = (c->place + 1) % c->capacity;
    c->count++;
    c->bytes += size;
}

/* A removed signing key verifies no token any more: tokens that it signed are dropped. */
static void follow_signers(struct token_cache *c, const struct signers *s)
{
    if (s == c->signers) return;
    token_cache_clear(c);
    c->signers = s;
}

enum err token_cache_verify(struct token_cache *c, const struct signers *s, struct str issuer,
                            struct str text, uint64_t now_ms, const struct token_claims **ret,
                            bool *ret_is_kept, struct fault *f)
{
    follow_signers(c, s);
    const struct entry *known = text.size < TAG_FROM_END ? NULL : find(c, text);
    *ret_is_kept = known != NULL;
    if (known != NULL) {
        *ret = known->claims;
        return claims_in_time(known->claims, now_ms, f);
    }
    arena_reset(&c->scratch);
    enum err err = token_verify(s, issuer, text, now_ms, &c->scratch, &c->shown, f);
    if (err == ERR_OK || err == ERR_CREDENTIAL_EXPIRED) *ret = &c->shown;
    return err;
}

const struct token_claims *token_cache_find(struct token_cache *c, const struct signers *s,
                                            struct str text)
{
    follow_signers(c, s);
    const struct entry *e = text.size >= TAG_FROM_END ? find(c, text) : NULL;
    return e == NULL ? NULL : e->claims;
}

/* Signers that have replaced ours may lack this one; and the same token may have come over two
 * connections at once. */
void token_cache_keep(struct token_cache *c, const struct signers *s, struct str text,
                      const struct token_claims *claims)
{
    follow_signers(c, s);
    check(text.size >= TAG_FROM_END);
    if (signers_have(s, claims->signer) && find(c, text) == NULL) keep(c, text, claims);
}
