/* token_keep.c - reads tokens from the journal and from snapshots, and saves them.
 *
 *   saved token   a delta entry MINTED, with the token's present uses and revocation */
#include "base/check.h"
#include "shards/inside.h"
#include "shards/save.h"

static enum err damaged(struct fault *f, const char *what)
{
    return fault_set(f, ERR_CORRUPT, "", "%s", what);
}

static enum err added(enum err err, struct fault *f, const char *twice)
{
    if (err == ERR_OK) return ERR_OK;
    if (err == ERR_FULL)
        return fault_set(f, ERR_FULL, "", "there is not enough memory for the state");
    return damaged(f, twice);
}

static enum err apply_minted(struct token_table *t, const struct delta_entry *e, struct fault *f)
{
    struct token_facts facts;
    struct retry retry;
    struct token *k;
    if (!delta_read_minted(e->body, &facts, &retry) || slot_of_id(facts.id) != e->slot)
        return damaged(f, "a minted token is damaged");
    return added(token_add(t, &facts, &retry, &k), f, "a token was minted twice");
}

/* The token may have expired and been dropped: then nothing is left to change. */
enum err token_apply(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    struct token_table *t = &s->tokens;
    struct id id;
    uint32_t uses;
    uint64_t at_ms;
    struct token *k;
    check(shard_owns(s, e->slot));
    if (e->kind == DELTA_TOKEN_MINTED) return apply_minted(t, e, f);
    if (e->kind == DELTA_TOKEN_SPENT) {
        if (!delta_read_spent(e->body, &id, &uses) || slot_of_id(id) != e->slot)
            return damaged(f, "a token's use is damaged");
        k = token_find(t, id);
        if (k != NULL && __builtin_add_overflow(k->uses, uses, &k->uses))
            return damaged(f, "a token was used more often than its limit allows");
        return ERR_OK;
    }
    if (!delta_read_revoked(e->body, &id, &at_ms) || slot_of_id(id) != e->slot || at_ms == 0)
        return damaged(f, "a revocation is damaged");
    k = token_find(t, id);
    if (k != NULL && k->revoked_ms == 0) k->revoked_ms = at_ms;
    return ERR_OK;
}

enum err token_save(const struct shard *s, struct buf *out,
                    enum err (*put)(void *context, struct str entry), void *context)
{
    const struct token_table *t = &s->tokens;
    size_t cursor = 0;
    enum err err = ERR_OK;
    for (const struct token *k; err == ERR_OK && (k = token_table_next(t, &cursor)) != NULL;) {
        struct token_facts facts;
        const struct token_retry *kept = token_retry_of(k);
        struct retry retry = {0};
        token_facts_of(k, &facts);
        if (kept != NULL)
            retry = (struct retry){.given = true, .key = kept->key, .body = kept->body};
        check(shard_owns(s, slot_of_id(k->id)));
        save_begin(out, SHARD_TOKENS, slot_of_id(k->id),
                   str_of((const char *)k->id.bytes, ID_BYTES));
        delta_put_minted(out, &facts, &retry);
        err = out->overflow ? ERR_FULL : put(context, buf_view(out));
    }
    return err;
}

enum err token_load(struct shard *s, const struct shard_entry *entry, struct str body,
                    struct fault *f)
{
    check(shard_owns(s, entry->slot));
    struct delta_entry e;
    enum err err;
    if (!delta_next(&body, &e, &err) || e.kind != DELTA_TOKEN_MINTED || e.slot != entry->slot ||
        body.size > 0)
        return damaged(f, "a saved token is damaged");
    return apply_minted(&s->tokens, &e, f);
}

void token_notices(const struct shard *s,
                   void (*each)(void *context, const struct effect_notice *n), void *context)
{
    size_t cursor = 0;
    for (const struct token *k; (k = token_table_next(&s->tokens, &cursor)) != NULL;) {
        if (k->revoked_ms == 0) continue;
        token_check(k);
        each(context, &(struct effect_notice){.kind = NOTICE_TOKEN_REVOKED,
                                              .token = k->id,
                                              .expires_ms = k->expires_ms,
                                              .at_ms = k->revoked_ms});
    }
}

uint64_t token_close_counted(struct shard *s, uint64_t now_ms)
{
    size_t cursor = 0;
    uint64_t closed = 0;
    for (struct token *k; (k = token_table_next(&s->tokens, &cursor)) != NULL;) {
        if (k->uses_max == 0 || k->revoked_ms != 0) continue;
        k->revoked_ms = now_ms;
        closed++;
    }
    check(closed <= s->tokens.counted);
    return closed;
}
