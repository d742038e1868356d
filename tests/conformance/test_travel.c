/* test_travel.c - every kind of change in shards/delta.def reaches the other engines of a fleet: as a
 * record of an entry of the log, written by one engine and applied by another with other reactors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fleet/entry.h"
#include "shards/serialize.h"
#include "shards/shard.h"

enum { REACTORS = 3, SLOT = 77, BYTES = 64 << 10, SAVED_BYTES = 1 << 20 };

static const uint64_t start_ms = 1795166400123;

static const struct {
    const char *name;
    enum delta_kind kind;
} table[] = {
#define DELTA(name, number, text) {#name, DELTA_##name},
#include "shards/delta.def"
#undef DELTA
};

/* ---- the deltas ---- */

static struct id id_of(uint8_t fill)
{
    struct id id = id_make(start_ms, &(struct chance){.refill = crypto_random});
    memset(id.bytes + 6, fill, sizeof id.bytes - 6);
    return slot_id(id, SLOT);
}

static struct token_facts some_token(void)
{
    return (struct token_facts){.id = id_of(1),
                                .key = id_of(2),
                                .tenant = STR("acme"),
                                .actor = STR("bot"),
                                .audience = STR("writ"),
                                .signer = 7,
                                .ordinal = 40,
                                .issued_ms = start_ms,
                                .expires_ms = start_ms + 3600000,
                                .uses_max = 5};
}

static struct review_facts some_review(void)
{
    return (struct review_facts){.id = id_of(3),
                                 .ordinal = 41,
                                 .tenant = STR("acme"),
                                 .subject = STR("bot"),
                                 .principal = STR("crm"),
                                 .owner = STR("olga"),
                                 .action = STR("refund"),
                                 .trace_id = STR("t-1"),
                                 .binding = {{4}},
                                 .request = {{5}},
                                 .enqueued_ms = start_ms,
                                 .expires_ms = start_ms + 3600000,
                                 .good_for_ms = 60000,
                                 .requirements = STR("[{\"approvals\":2}]"),
                                 .votes_approved = STR("[]"),
                                 .state = REVIEW_PENDING};
}

static struct review_vote vote_by(enum review_proof proof)
{
    struct review_vote v = {.principal = STR("rita"),
                            .owner = STR("rita"),
                            .by = STR("rita"),
                            .at_ms = start_ms,
                            .meets = 1,
                            .key = id_of(9),
                            .proof = proof};
    if (proof != REVIEW_PROOF_OIDC) return v;
    v.key = (struct id){{0}};
    v.claims = STR("[[\"groups\",\"finance\"]]");
    return v;
}

/* As earlier versions put it: without what comes last. */
static void make_plain(struct buf *out, size_t from, enum delta_kind kind, size_t without)
{
    char *entry = out->bytes + from;
    out->size -= without;
    entry[0] = (char)kind;
    uint32_t size = (uint32_t)(out->size - from - 7);
    for (size_t i = 0; i < 4; i++) entry[3 + i] = (char)(size >> (8 * i));
}

static void put_opened(bool asks_proof, struct buf *out)
{
    struct review_facts r = some_review();
    r.asks_proof = asks_proof;
    delta_put_opened(out, &r);
}

static void put_moved(struct buf *out)
{
    struct review_facts r = some_review();
    r.state = REVIEW_DENIED;
    r.resolved_ms = start_ms + 5;
    r.resolver = r.resolver_owner = r.resolved_by = STR("rita");
    delta_put_moved(out, &r);
}

static void put_counted(bool is_old, struct buf *out)
{
    struct limit_request ask = {
        .key.bytes = {0, SLOT, 6}, .window_ms = 3600000, .amount = 12, .is_old = is_old};
    delta_put_counted(out, &ask, &(struct limit_told){.counted = true, .stamp_ms = start_ms});
}

static void put_placed(struct buf *out)
{
    const struct limit_request ask = {.key.bytes = {0, SLOT, 6},
                                      .tenant = STR("acme"),
                                      .asker.bytes = {[15] = 61},
                                      .window_ms = 3600000};
    delta_put_counted(
        out, &ask,
        &(struct limit_told){.counted = true, .takes_place = true, .stamp_ms = start_ms});
}

/* What has to be there before. */
static void put_before(enum delta_kind kind, struct buf *out)
{
    const struct token_facts t = some_token();
    const struct actor_facts a = {.tenant = STR("acme"),
                                  .actor = STR("bot"),
                                  .reason = STR("loops"),
                                  .by = STR("rita"),
                                  .ordinal = 42,
                                  .suspended_ms = start_ms};
    if (kind == DELTA_TOKEN_SPENT || kind == DELTA_TOKEN_REVOKED)
        delta_put_minted(out, &t, &(struct retry){.given = false});
    else if (kind == DELTA_REVIEW_TRACED || delta_votes(kind) || delta_moves_review(kind))
        put_opened(kind == DELTA_REVIEW_VOTED_PERSON, out);
    else if (kind == DELTA_ACTOR_RESUMED)
        delta_put_suspended(out, SLOT, &a);
}

static void put_one(enum delta_kind kind, struct buf *out)
{
    const size_t from = out->size;
    const struct token_facts t = some_token();
    const struct actor_facts a = {
        .tenant = STR("acme"), .actor = STR("bot"), .ordinal = 42, .suspended_ms = start_ms};
    struct review_vote v = vote_by(REVIEW_PROOF_NAMED);
    switch (kind) {
    case DELTA_TOKEN_MINTED:
        delta_put_minted(out, &t, &(struct retry){.given = true, .key = {{7}}, .body = {{8}}});
        break;
    case DELTA_TOKEN_SPENT: delta_put_spent(out, t.id, 2); break;
    case DELTA_TOKEN_REVOKED: delta_put_revoked(out, t.id, start_ms + 9); break;
    case DELTA_COUNTED: put_counted(true, out); break;
    case DELTA_LIMIT_COUNTED: put_counted(false, out); break;
    case DELTA_LIMIT_PLACED: put_placed(out); break;
    case DELTA_REVIEW_OPENED_PLAIN:
        put_opened(false, out);
        make_plain(out, from, kind, sizeof(struct review_digest));
        break;
    case DELTA_REVIEW_OPENED: put_opened(false, out); break;
    case DELTA_REVIEW_OPENED_PROVEN: put_opened(true, out); break;
    case DELTA_REVIEW_TRACED: delta_put_traced(out, some_review().id, STR("t-2")); break;
    case DELTA_REVIEW_VOTED_PLAIN:
        delta_put_voted(out, some_review().id, &v);
        make_plain(out, from, kind, sizeof(struct id) + 1);
        break;
    case DELTA_REVIEW_VOTED: delta_put_voted(out, some_review().id, &v); break;
    case DELTA_REVIEW_VOTED_PERSON:
        v = vote_by(REVIEW_PROOF_OIDC);
        delta_put_voted(out, some_review().id, &v);
        break;
    case DELTA_REVIEW_MOVED_PLAIN:
        put_moved(out);
        make_plain(out, from, kind, 1);
        break;
    case DELTA_REVIEW_MOVED: put_moved(out); break;
    case DELTA_ACTOR_SUSPENDED: delta_put_suspended(out, SLOT, &a); break;
    case DELTA_ACTOR_RESUMED:
        delta_put_resumed(out, SLOT, STR("acme"), STR("bot"), start_ms + 7);
        break;
    case DELTA_SIGNER_ROTATED:
        delta_put_rotated(out, &(struct signer_rotation){.number = 1795166400,
                                                         .active_ms = start_ms,
                                                         .salt = {41, 42, [15] = 44}});
        break;
    case DELTA_RETRY_KEPT:
        delta_put_kept(out, &(struct retry_outcome){.key.bytes = {0, SLOT, 51},
                                                    .tenant.bytes = {52},
                                                    .asker.bytes = {53},
                                                    .body.bytes = {54},
                                                    .at_ms = start_ms,
                                                    .verdict = 1,
                                                    .has_record = true});
        break;
    }
    if (out->size == from) fail_msg("no delta of kind %d: add its row here", (int)kind);
}

/* ---- engines ---- */

struct engine_state { /* the shards of all its reactors */
    struct shard *shards[REACTORS];
    unsigned count;
};

static void engine_begin(struct engine_state *s, unsigned count)
{
    s->count = count;
    for (unsigned i = 0; i < count; i++) {
        s->shards[i] = shard_create(&(struct shard_options){.index = i, .count = count});
        shard_hold_limits(s->shards[i], &limit_windows_unknown);
    }
}

static void engine_end(struct engine_state *s)
{
    for (unsigned i = 0; i < s->count; i++) shard_destroy(s->shards[i]);
}

static void engine_apply(struct engine_state *s, struct str event, struct str delta)
{
    struct delta_entry e;
    struct fault f = {.text = ""};
    enum err err = ERR_OK;
    while (delta_next(&delta, &e, &err)) {
        enum err applied = shard_apply(s->shards[slot_owner(e.slot, s->count)], &e, event, &f);
        if (applied != ERR_OK) print_error("%s\n", f.text);
        assert_int_equal(applied, ERR_OK);
    }
    assert_int_equal(err, ERR_OK);
}

static enum err put_saved(void *context, struct str entry)
{
    buf_put(context, entry);
    return ERR_OK;
}

/* One object at most is in it, so the order of the shards does not matter. */
static struct str engine_saved(const struct engine_state *s, struct buf *out)
{
    buf_clear(out);
    for (unsigned i = 0; i < s->count; i++)
        assert_int_equal(shard_save(s->shards[i], put_saved, out), ERR_OK);
    assert_false(out->overflow);
    return buf_view(out);
}

/* ---- the log ---- */

/* The record as another engine finds it in an entry of the log. */
static void send_record(struct engine_state *to, struct str event, struct str delta)
{
    static char records_bytes[ENTRY_BODY_MAX], entry_bytes[ENTRY_BYTES_MAX];
    struct buf records = buf_over(records_bytes, sizeof records_bytes),
               message = buf_over(entry_bytes, sizeof entry_bytes);
    struct entry_key key =
        entry_key_derive(STR("a pepper"), 7, STR("payments"), (struct fleet_id){{1, 2, 3}});
    struct hasher *h = hasher_create();
    entry_put_record(&records, event, delta);
    struct entry sent = {.kind = ENTRY_RECORDS,
                         .format = ENTRY_FORMAT,
                         .term = 2,
                         .n = 5,
                         .node = STR("a"),
                         .time_ms = start_ms,
                         .seq = 9,
                         .records = buf_view(&records)};
    assert_int_equal(entry_put(&sent, &key, h, &message), ERR_OK);
    struct entry read;
    assert_int_equal(entry_read(buf_view(&message), &key, h, &read), ENTRY_GOOD);
    struct str public_bytes, private_bytes;
    unsigned count = 0;
    for (; entry_next_record(&read.records, &public_bytes, &private_bytes); count++)
        engine_apply(to, public_bytes, private_bytes);
    assert_int_equal(count, 1);
    hasher_destroy(h);
}

/* ---- the test ---- */

static void every_kind_of_change_travels(void **state)
{
    static char first_bytes[SAVED_BYTES], before_bytes[SAVED_BYTES], second_bytes[SAVED_BYTES];
    const struct str event = STR("{\"kind\":\"decision\"}");
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct buf first = buf_over(first_bytes, sizeof first_bytes),
                   before = buf_over(before_bytes, sizeof before_bytes),
                   second = buf_over(second_bytes, sizeof second_bytes), delta;
        struct engine_state leader, replica;
        engine_begin(&leader, 1);
        engine_begin(&replica, REACTORS);
        buf_init(&delta, BYTES, BYTES);
        put_before(table[i].kind, &delta);
        if (delta.size > 0) {
            engine_apply(&leader, event, buf_view(&delta));
            send_record(&replica, event, buf_view(&delta));
        }
        engine_saved(&leader, &before);
        buf_clear(&delta);
        put_one(table[i].kind, &delta);
        engine_apply(&leader, event, buf_view(&delta));
        send_record(&replica, event, buf_view(&delta));
        struct str has = engine_saved(&leader, &first), got = engine_saved(&replica, &second);
        if (str_equal(has, buf_view(&before)) || !str_equal(has, got))
            print_error("kind %s\n", table[i].name);
        assert_false(str_equal(has, buf_view(&before)));
        assert_true(str_equal(has, got));
        buf_fini(&delta);
        engine_end(&leader);
        engine_end(&replica);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_of_change_travels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
