/* fuzz_delta.c - deltas and saved entries that somebody wrote into.
 *
 * The first byte chooses: a list of delta entries, or one saved entry. Whatever is read from a
 * delta's body is put again and has to give the same body, byte for byte: no two spellings mean the
 * same. Then all of it is applied to (or loaded into) a shard, which refuses or takes it, lets a
 * month pass, and saves what is left. */
#include <stdlib.h>

#include "base/check.h"
#include "shards/serialize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t now_2026 = 1795166400123;

static void put_tokens(const struct delta_entry *e, struct buf *out)
{
    struct token_facts t;
    struct retry retry;
    struct id id;
    uint32_t uses;
    uint64_t at_ms;
    if (e->kind == DELTA_TOKEN_MINTED && delta_read_minted(e->body, &t, &retry))
        delta_put_minted(out, &t, &retry);
    if (e->kind == DELTA_TOKEN_SPENT && delta_read_spent(e->body, &id, &uses))
        delta_put_spent(out, id, uses);
    if (e->kind == DELTA_TOKEN_REVOKED && delta_read_revoked(e->body, &id, &at_ms))
        delta_put_revoked(out, id, at_ms);
}

static void put_reviews(const struct delta_entry *e, struct buf *out)
{
    struct review_facts r;
    struct review_vote v;
    struct id id;
    struct str trace_id;
    /* The plain kinds are only read. */
    if (e->kind == DELTA_REVIEW_OPENED && delta_read_opened(e, &r)) delta_put_opened(out, &r);
    if (e->kind == DELTA_REVIEW_TRACED && delta_read_traced(e->body, &id, &trace_id))
        delta_put_traced(out, id, trace_id);
    if (e->kind == DELTA_REVIEW_VOTED && delta_read_voted(e, &id, &v)) delta_put_voted(out, id, &v);
    if (e->kind == DELTA_REVIEW_MOVED && delta_read_moved(e, &r)) delta_put_moved(out, &r);
}

static void put_others(const struct delta_entry *e, struct buf *out)
{
    struct limit_request ask;
    struct limit_told told;
    struct actor_facts a;
    struct str tenant, actor;
    uint64_t at_ms;
    if (delta_counts(e->kind) && delta_read_counted(e, &ask, &told))
        delta_put_counted(out, &ask, &told);
    if (e->kind == DELTA_ACTOR_SUSPENDED && delta_read_suspended(e->body, &a))
        delta_put_suspended(out, e->slot, &a);
    if (e->kind == DELTA_ACTOR_RESUMED && delta_read_resumed(e->body, &tenant, &actor, &at_ms))
        delta_put_resumed(out, e->slot, tenant, actor, at_ms);
}

/* What was read of `e` is the same body when it is put. */
static void put_again(const struct delta_entry *e)
{
    struct buf out;
    buf_init(&out, 256, 1 << 22);
    put_tokens(e, &out);
    put_reviews(e, &out);
    put_others(e, &out);
    check(!out.overflow);
    if (out.size > 0) {
        struct str rest = buf_view(&out);
        struct delta_entry again;
        enum err err;
        check(delta_next(&rest, &again, &err) && rest.size == 0);
        check(again.kind == e->kind && str_equal(again.body, e->body));
    }
    buf_fini(&out);
}

static void apply_all(struct shard *s, struct str bytes)
{
    struct delta_entry e;
    struct fault f;
    enum err err;
    while (delta_next(&bytes, &e, &err)) {
        put_again(&e);
        (void)shard_apply(s, &e, STR("{\"kind\":\"review.enqueued\"}"), &f);
    }
    check(err == ERR_OK || err == ERR_CORRUPT || err == ERR_BAD_VALUE);
}

static enum err load_into(void *context, struct str entry)
{
    struct fault f;
    check(shard_load(context, entry, &f) == ERR_OK);
    return ERR_OK;
}

static struct shard *make_shard(void)
{
    struct shard *s = shard_create(&(struct shard_options){.count = 1});
    check(s != NULL);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    struct shard *s = make_shard(), *copy = make_shard();
    struct str bytes = str_of((const char *)data + 1, size - 1);
    struct fault f;
    if (data[0] % 2 == 0)
        apply_all(s, bytes);
    else
        (void)shard_load(s, bytes, &f);
    check(shard_save(s, load_into, copy) == ERR_OK); /* what is held can be kept, and come back */
    shard_prune(s, now_2026);
    shard_prune(s, now_2026 + UINT64_C(30) * 86400000);
    shard_destroy(s);
    shard_destroy(copy);
    return 0;
}
