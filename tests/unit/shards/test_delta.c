/* test_delta.c - every entry of a delta comes back as it was put, and nothing else is taken for
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "shards/serialize.h"
#include "shards/shard.h"

enum { SLOT = 77, BYTES = 8 << 10 };

static struct id id_of(uint8_t fill)
{
    struct id id;
    memset(id.bytes, fill, sizeof id.bytes);
    return slot_id(id, SLOT);
}

static struct review_digest digest_of(uint8_t fill)
{
    struct review_digest d;
    memset(d.bytes, fill, sizeof d.bytes);
    return d;
}

static const struct str empty = {.bytes = "", .size = 0};

/* ---- what is put ---- */

static struct token_facts some_token(void)
{
    return (struct token_facts){.id = id_of(1),
                                .key = id_of(2),
                                .tenant = STR("acme"),
                                .actor = STR("bot"),
                                .acting_for = empty,
                                .scope = STR("get_* list_*"),
                                .signer = 7,
                                .ordinal = UINT64_C(1) << 40,
                                .issued_ms = 1795166400123,
                                .expires_ms = 1795166460123,
                                .revoked_ms = 1795166400456,
                                .uses_max = UINT32_MAX,
                                .uses = 5};
}

static struct review_facts some_review(void)
{
    return (struct review_facts){.id = id_of(3),
                                 .ordinal = 9,
                                 .tenant = STR("acme"),
                                 .subject = STR("ann"),
                                 .is_user = true,
                                 .principal = STR("crm"),
                                 .owner = STR("olga"),
                                 .action = STR("refund"),
                                 .trace_id = STR("t-1"),
                                 .binding = digest_of(4),
                                 .request = digest_of(7),
                                 .enqueued_ms = 11,
                                 .expires_ms = 12,
                                 .good_for_ms = 13,
                                 .requirements = STR("[{\"approvals\":1}]"),
                                 .votes_approved = STR("[]"),
                                 .state = REVIEW_REDEEMED,
                                 .resolved_ms = 14,
                                 .resolver = STR("rita"),
                                 .resolver_owner = STR("rita"),
                                 .resolved_by = STR("carol"),
                                 .note = empty,
                                 .approval_expires_ms = 15,
                                 .redeemed_ms = 16,
                                 .retry_key = digest_of(5),
                                 .retry_body = digest_of(6)};
}

static const struct actor_facts some_actor = {.tenant = {"acme", 4},
                                              .actor = {"bot", 3},
                                              .reason = {"loops", 5},
                                              .ordinal = 21,
                                              .suspended_ms = 22};
static const struct review_vote some_vote = {.principal = {"p", 1},
                                             .owner = {"o", 1},
                                             .by = {"b", 1},
                                             .at_ms = 31,
                                             .meets = 0x80000001,
                                             .key = {{7, 7}},
                                             .proof = REVIEW_PROOF_NAMED};

static const struct signer_rotation some_rotation = {.number = 1795166400,
                                                     .active_ms = 1795166400123,
                                                     .ends_older = true,
                                                     .salt = {41, 42, 43, [15] = 44}};

static const struct review_vote persons_vote = {.principal = STR("erin"),
                                                .owner = STR("erin"),
                                                .by = STR("erin"),
                                                .at_ms = 1795166400123,
                                                .meets = 1,
                                                .proof = REVIEW_PROOF_OIDC,
                                                .claims = STR("[[\"groups\",\"finance\"]]")};

static const struct retry_outcome some_outcome = {.key.bytes = {0, SLOT, 51},
                                                  .tenant.bytes = {52},
                                                  .asker.bytes = {53},
                                                  .body.bytes = {54},
                                                  .at_ms = 1795166400123,
                                                  .verdict = 3,
                                                  .has_record = true};

static struct limit_request some_ask(void)
{
    struct limit_request ask = {.window_ms = 3600000, .amount = -1};
    memset(ask.key.bytes, 0, sizeof ask.key.bytes);
    ask.key.bytes[1] = SLOT;
    return ask;
}

/* As earlier versions put it: without what comes last. */
static void make_plain(struct buf *out, enum delta_kind kind, size_t without)
{
    out->size -= without;
    out->bytes[0] = (char)kind;
    uint32_t size = (uint32_t)(out->size - 7);
    for (size_t i = 0; i < 4; i++) out->bytes[3 + i] = (char)(size >> (8 * i));
}

static struct str put_entry(enum delta_kind kind, struct buf *out)
{
    struct token_facts t = some_token();
    struct review_facts r = some_review();
    struct limit_request ask = some_ask();
    struct limit_told told = {.counted = true, .stamp_ms = 1795166400123};
    const struct retry retry = {.given = true, .key = digest_of(8), .body = digest_of(9)};
    buf_clear(out);
    switch (kind) {
    case DELTA_TOKEN_MINTED: delta_put_minted(out, &t, &retry); break;
    case DELTA_TOKEN_SPENT: delta_put_spent(out, t.id, 3); break;
    case DELTA_TOKEN_REVOKED: delta_put_revoked(out, t.id, 77); break;
    case DELTA_COUNTED:
        ask.is_old = true;
        delta_put_counted(out, &ask, &told);
        break;
    case DELTA_LIMIT_PLACED:
        told.takes_place = true;
        ask.asker = id_of(4);
        ask.tenant = STR("acme");
        delta_put_counted(out, &ask, &told);
        break;
    case DELTA_LIMIT_COUNTED: delta_put_counted(out, &ask, &told); break;
    case DELTA_REVIEW_OPENED: delta_put_opened(out, &r); break;
    case DELTA_REVIEW_OPENED_PROVEN:
        r.asks_proof = true;
        delta_put_opened(out, &r);
        break;
    case DELTA_REVIEW_OPENED_PLAIN:
        delta_put_opened(out, &r);
        make_plain(out, kind, REVIEW_DIGEST_BYTES);
        break;
    case DELTA_REVIEW_TRACED: delta_put_traced(out, r.id, STR("trace")); break;
    case DELTA_REVIEW_VOTED_PLAIN:
        delta_put_voted(out, r.id, &some_vote);
        make_plain(out, kind, ID_BYTES + 1);
        break;
    case DELTA_REVIEW_VOTED: delta_put_voted(out, r.id, &some_vote); break;
    case DELTA_REVIEW_VOTED_PERSON: delta_put_voted(out, r.id, &persons_vote); break;
    case DELTA_REVIEW_MOVED_PLAIN:
        delta_put_moved(out, &r);
        make_plain(out, kind, 1);
        break;
    case DELTA_REVIEW_MOVED: delta_put_moved(out, &r); break;
    case DELTA_ACTOR_SUSPENDED: delta_put_suspended(out, SLOT, &some_actor); break;
    case DELTA_ACTOR_RESUMED: delta_put_resumed(out, SLOT, STR("acme"), STR("bot"), 88); break;
    case DELTA_SIGNER_ROTATED: delta_put_rotated(out, &some_rotation); break;
    case DELTA_RETRY_KEPT: delta_put_kept(out, &some_outcome); break;
    }
    assert_false(out->overflow);
    assert_true(out->size > 7);
    return buf_view(out);
}

/* Reads the body as its kind; false: it is refused. */
static bool read_entry(const struct delta_entry *e)
{
    struct token_facts t;
    struct review_facts r;
    struct actor_facts a;
    struct review_vote v;
    struct limit_request ask;
    struct limit_told told;
    struct retry retry;
    struct id id;
    struct str first, second;
    struct signer_rotation rotation;
    struct retry_outcome outcome;
    uint64_t at_ms;
    uint32_t uses;
    switch (e->kind) {
    case DELTA_TOKEN_MINTED: return delta_read_minted(e->body, &t, &retry);
    case DELTA_TOKEN_SPENT: return delta_read_spent(e->body, &id, &uses);
    case DELTA_TOKEN_REVOKED: return delta_read_revoked(e->body, &id, &at_ms);
    case DELTA_COUNTED:
    case DELTA_LIMIT_PLACED:
    case DELTA_LIMIT_COUNTED: return delta_read_counted(e, &ask, &told);
    case DELTA_REVIEW_OPENED_PLAIN:
    case DELTA_REVIEW_OPENED_PROVEN:
    case DELTA_REVIEW_OPENED: return delta_read_opened(e, &r);
    case DELTA_REVIEW_TRACED: return delta_read_traced(e->body, &id, &first);
    case DELTA_REVIEW_VOTED_PLAIN:
    case DELTA_REVIEW_VOTED_PERSON:
    case DELTA_REVIEW_VOTED: return delta_read_voted(e, &id, &v);
    case DELTA_REVIEW_MOVED_PLAIN:
    case DELTA_REVIEW_MOVED: return delta_read_moved(e, &r);
    case DELTA_ACTOR_SUSPENDED: return delta_read_suspended(e->body, &a);
    case DELTA_ACTOR_RESUMED: return delta_read_resumed(e->body, &first, &second, &at_ms);
    case DELTA_SIGNER_ROTATED: return delta_read_rotated(e->body, &rotation);
    case DELTA_RETRY_KEPT: return delta_read_kept(e->body, &outcome);
    }
    return false;
}

static const enum delta_kind kinds[] = {
#define DELTA(name, number, text) DELTA_##name,
#include "shards/delta.def"
#undef DELTA
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct delta_entry only_entry(struct str bytes)
{
    struct delta_entry e;
    enum err err;
    assert_true(delta_next(&bytes, &e, &err));
    assert_int_equal(bytes.size, 0);
    assert_int_equal(err, ERR_OK);
    return e;
}

/* ---- what comes back ---- */

#define assert_str(a, b)                                                                           \
    do {                                                                                           \
        assert_true(str_equal((a), (b)));                                                          \
        assert_int_equal(str_is_absent(a), str_is_absent(b));                                      \
    } while (0)
#define assert_bytes(a, b) assert_memory_equal((a).bytes, (b).bytes, sizeof(a).bytes)

static void a_minted_token_comes_back_whole(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct token_facts t, put = some_token();
    struct retry retry;
    struct delta_entry e = only_entry(put_entry(DELTA_TOKEN_MINTED, &out));
    assert_int_equal(e.slot, SLOT);
    assert_true(delta_read_minted(e.body, &t, &retry));
    assert_bytes(t.id, put.id);
    assert_bytes(t.key, put.key);
    assert_str(t.tenant, put.tenant);
    assert_str(t.actor, put.actor);
    assert_str(t.acting_for, put.acting_for); /* empty, and not absent */
    assert_str(t.scope, put.scope);
    assert_str(t.audience, put.audience); /* absent */
    assert_int_equal(t.signer, put.signer);
    assert_int_equal(t.ordinal, put.ordinal);
    assert_int_equal(t.issued_ms, put.issued_ms);
    assert_int_equal(t.expires_ms, put.expires_ms);
    assert_int_equal(t.revoked_ms, put.revoked_ms);
    assert_int_equal(t.uses_max, put.uses_max);
    assert_int_equal(t.uses, put.uses);
    assert_true(retry.given);
    assert_bytes(retry.key, digest_of(8));
    assert_bytes(retry.body, digest_of(9));
    buf_clear(&out);
    delta_put_minted(&out, &put, &(struct retry){.given = false});
    assert_true(delta_read_minted(only_entry(buf_view(&out)).body, &t, &retry));
    assert_false(retry.given);
}

static void uses_revocations_and_counts_come_back(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct id id;
    uint32_t uses;
    uint64_t at_ms;
    struct limit_request ask, put = some_ask();
    struct limit_told told;
    assert_true(delta_read_spent(only_entry(put_entry(DELTA_TOKEN_SPENT, &out)).body, &id, &uses));
    assert_bytes(id, id_of(1));
    assert_int_equal(uses, 3);
    assert_true(
        delta_read_revoked(only_entry(put_entry(DELTA_TOKEN_REVOKED, &out)).body, &id, &at_ms));
    assert_bytes(id, id_of(1));
    assert_int_equal(at_ms, 77);
    static const enum delta_kind counted[] = {DELTA_LIMIT_COUNTED, DELTA_COUNTED,
                                              DELTA_LIMIT_PLACED};
    for (int i = 0; i < 3; i++) {
        struct delta_entry e = only_entry(put_entry(counted[i], &out));
        assert_int_equal(e.slot, SLOT);
        assert_true(delta_read_counted(&e, &ask, &told));
        assert_int_equal(ask.is_old, counted[i] == DELTA_COUNTED);
        assert_int_equal(told.takes_place, counted[i] == DELTA_LIMIT_PLACED);
        if (told.takes_place) assert_bytes(ask.asker, id_of(4));
        assert_true(str_equal(ask.tenant, told.takes_place ? STR("acme") : STR("")));
        assert_bytes(ask.key, put.key);
        assert_int_equal(ask.window_ms, put.window_ms);
        assert_int_equal(ask.amount, -1);
        assert_int_equal(told.stamp_ms, 1795166400123);
        assert_true(told.counted);
    }
}

/* One digest was both what the approval is bound to and what the same request was found by. */
static void a_review_of_an_earlier_version_comes_back(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct review_facts r, put = some_review();
    struct delta_entry e = only_entry(put_entry(DELTA_REVIEW_OPENED_PLAIN, &out));
    assert_int_equal(bytes[0], 5);
    assert_true(delta_read_opened(&e, &r));
    assert_str(r.votes_approved, put.votes_approved);
    assert_bytes(r.binding, put.binding);
    assert_bytes(r.request, put.binding);
}

static void a_review_comes_back_as_it_was_opened(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct review_facts r, put = some_review();
    struct delta_entry e = only_entry(put_entry(DELTA_REVIEW_OPENED, &out));
    assert_int_equal(e.slot, SLOT);
    assert_true(delta_read_opened(&e, &r));
    assert_bytes(r.id, put.id);
    assert_int_equal(r.ordinal, put.ordinal);
    assert_true(r.is_user);
    assert_str(r.tenant, put.tenant);
    assert_str(r.subject, put.subject);
    assert_str(r.principal, put.principal);
    assert_str(r.owner, put.owner);
    assert_str(r.acting_for, put.acting_for);
    assert_str(r.action, put.action);
    assert_str(r.trace_id, put.trace_id);
    assert_bytes(r.binding, put.binding);
    assert_bytes(r.request, put.request);
    assert_int_equal(r.enqueued_ms, put.enqueued_ms);
    assert_int_equal(r.expires_ms, put.expires_ms);
    assert_int_equal(r.good_for_ms, put.good_for_ms);
    assert_str(r.requirements, put.requirements);
    assert_str(r.votes_approved, put.votes_approved);
    assert_int_equal(r.state, REVIEW_PENDING);
    assert_int_equal(r.resolved_ms, 0); /* nothing of what came later */
}

static void moves_votes_and_traces_come_back(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct review_facts r, put = some_review();
    struct review_vote v;
    struct id id;
    struct str trace_id;
    struct delta_entry e = only_entry(put_entry(DELTA_REVIEW_MOVED, &out));
    assert_true(delta_read_moved(&e, &r));
    assert_bytes(r.id, put.id);
    assert_int_equal(r.state, put.state);
    assert_int_equal(r.resolved_ms, put.resolved_ms);
    assert_str(r.resolver, put.resolver);
    assert_str(r.resolver_owner, put.resolver_owner);
    assert_str(r.resolved_by, put.resolved_by);
    assert_str(r.note, put.note);
    assert_int_equal(r.approval_expires_ms, put.approval_expires_ms);
    assert_int_equal(r.redeemed_ms, put.redeemed_ms);
    assert_bytes(r.retry_key, put.retry_key);
    assert_bytes(r.retry_body, put.retry_body);
    e = only_entry(put_entry(DELTA_REVIEW_VOTED, &out));
    assert_true(delta_read_voted(&e, &id, &v));
    assert_bytes(v.key, some_vote.key);
    assert_int_equal(v.proof, some_vote.proof);
    assert_bytes(id, put.id);
    assert_str(v.principal, some_vote.principal);
    assert_str(v.owner, some_vote.owner);
    assert_str(v.by, some_vote.by);
    assert_str(v.note, some_vote.note);
    assert_int_equal(v.at_ms, some_vote.at_ms);
    assert_int_equal(v.meets, some_vote.meets);
    assert_true(
        delta_read_traced(only_entry(put_entry(DELTA_REVIEW_TRACED, &out)).body, &id, &trace_id));
    assert_bytes(id, put.id);
    assert_str(trace_id, STR("trace"));
}

static void what_asks_for_proof_and_who_has_it_come_back(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct review_facts r;
    struct review_vote v;
    struct id id;
    struct delta_entry e = only_entry(put_entry(DELTA_REVIEW_OPENED, &out));
    assert_true(delta_read_opened(&e, &r) && !r.asks_proof);
    e = only_entry(put_entry(DELTA_REVIEW_OPENED_PROVEN, &out));
    assert_int_equal(e.kind, DELTA_REVIEW_OPENED_PROVEN);
    assert_true(delta_read_opened(&e, &r) && r.asks_proof);
    e = only_entry(put_entry(DELTA_REVIEW_VOTED_PERSON, &out));
    assert_int_equal(e.kind, DELTA_REVIEW_VOTED_PERSON);
    assert_true(delta_read_voted(&e, &id, &v));
    assert_int_equal(v.proof, REVIEW_PROOF_OIDC);
    assert_str(v.claims, persons_vote.claims);
    /* the proof is the last byte but the claims: no kind has that of another */
    out.bytes[out.size - persons_vote.claims.size - 5] = REVIEW_PROOF_KEY;
    e = only_entry(buf_view(&out));
    assert_false(delta_read_voted(&e, &id, &v));
    put_entry(DELTA_REVIEW_VOTED, &out);
    out.bytes[out.size - 1] = REVIEW_PROOF_OIDC;
    e = only_entry(buf_view(&out));
    assert_false(delta_read_voted(&e, &id, &v));
}

/* Of an earlier version, in which only the requester could cancel a review. */
static void moves_and_votes_of_an_earlier_version_come_back(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct review_facts r, put = some_review();
    struct review_vote v;
    struct id id;
    static const struct id none;
    struct delta_entry e = only_entry(put_entry(DELTA_REVIEW_VOTED_PLAIN, &out));
    assert_true(delta_read_voted(&e, &id, &v));
    assert_str(v.by, some_vote.by);
    assert_bytes(v.key, none);
    assert_int_equal(v.proof, REVIEW_PROOF_UNKNOWN);
    e = only_entry(put_entry(DELTA_REVIEW_MOVED_PLAIN, &out));
    assert_true(delta_read_moved(&e, &r));
    assert_int_equal(r.cancelled_by, REVIEW_NOT_CANCELLED);
    put.state = REVIEW_CANCELLED;
    put.cancelled_by = REVIEW_BY_REVOCATION;
    buf_clear(&out);
    delta_put_moved(&out, &put);
    make_plain(&out, DELTA_REVIEW_MOVED_PLAIN, 1);
    e = only_entry(buf_view(&out));
    assert_true(delta_read_moved(&e, &r));
    assert_int_equal(r.cancelled_by, REVIEW_BY_REQUESTER);
}

static void suspensions_come_back(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct actor_facts a;
    struct str tenant, actor;
    uint64_t at_ms;
    struct delta_entry e = only_entry(put_entry(DELTA_ACTOR_SUSPENDED, &out));
    assert_int_equal(e.slot, SLOT);
    assert_true(delta_read_suspended(e.body, &a));
    assert_str(a.tenant, some_actor.tenant);
    assert_str(a.actor, some_actor.actor);
    assert_str(a.reason, some_actor.reason);
    assert_str(a.by, some_actor.by);
    assert_int_equal(a.ordinal, some_actor.ordinal);
    assert_int_equal(a.suspended_ms, some_actor.suspended_ms);
    e = only_entry(put_entry(DELTA_ACTOR_RESUMED, &out));
    assert_int_equal(e.slot, SLOT);
    assert_true(delta_read_resumed(e.body, &tenant, &actor, &at_ms));
    assert_str(tenant, STR("acme"));
    assert_str(actor, STR("bot"));
    assert_int_equal(at_ms, 88);
}

/* ---- the bytes are for ever ---- */

static void the_bytes_on_disk_are_these(void **state)
{
    (void)state;
    char bytes[64];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct id id;
    for (unsigned i = 0; i < ID_BYTES; i++) id.bytes[i] = (uint8_t)(0xa0 + i);
    delta_put_spent(&out, slot_id(id, 0x102), 0x01020304);
    static const uint8_t wanted[] = {2,    0x02, 0x01, 20,   0,    0,    0,    0xa0, 0xa1,
                                     0xa2, 0xa3, 0xa4, 0xa5, 0xa5, 0x02, 0xa8, 0xa9, 0xaa,
                                     0xab, 0xac, 0xad, 0xae, 0xaf, 0x04, 0x03, 0x02, 0x01};
    assert_int_equal(out.size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
}

static void kinds_keep_their_numbers(void **state)
{
    (void)state;
    static const unsigned numbers[] = {1,  2,  3,  4,  5,  6,  7,  8,  9, 10,
                                       11, 12, 13, 14, 15, 16, 17, 18, 19};
    assert_int_equal(KINDS, sizeof numbers / sizeof *numbers);
    for (size_t i = 0; i < KINDS; i++) assert_int_equal(kinds[i], numbers[i]);
    assert_int_equal(DELTA_TOKEN_MINTED, 1);
    assert_int_equal(DELTA_COUNTED, 4);
    assert_int_equal(DELTA_REVIEW_MOVED_PLAIN, 8);
    assert_int_equal(DELTA_REVIEW_MOVED, 14);
}

/* ---- many, and damage ---- */

static void entries_follow_each_other_in_the_order_in_which_they_were_put(void **state)
{
    (void)state;
    static char all[BYTES];
    char one[BYTES];
    struct buf out = buf_over(all, sizeof all), single = buf_over(one, sizeof one);
    for (size_t i = 0; i < KINDS; i++) buf_put(&out, put_entry(kinds[i], &single));
    struct str rest = buf_view(&out);
    struct delta_entry e;
    enum err err;
    for (size_t i = 0; i < KINDS; i++) {
        assert_true(delta_next(&rest, &e, &err));
        assert_int_equal(e.kind, kinds[i]);
        assert_true(read_entry(&e));
    }
    assert_false(delta_next(&rest, &e, &err));
    assert_int_equal(err, ERR_OK);
}

static void an_entry_that_is_cut_short_anywhere_is_damaged(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    for (size_t i = 0; i < KINDS; i++) {
        put_entry(kinds[i], &out);
        for (size_t size = 1; size < out.size; size++) {
            struct str rest = str_of(bytes, size);
            struct delta_entry e;
            enum err err = ERR_OK;
            assert_false(delta_next(&rest, &e, &err));
            assert_int_equal(err, ERR_CORRUPT);
            assert_int_equal(rest.size, size);
        }
    }
}

/* The size says so, but the body is too short or too long for its kind. */
static void a_body_that_is_shorter_or_longer_than_its_kind_is_damaged(void **state)
{
    (void)state;
    char bytes[BYTES + 1];
    struct buf out = buf_over(bytes, BYTES);
    for (size_t i = 0; i < KINDS; i++) {
        struct delta_entry e = only_entry(put_entry(kinds[i], &out));
        size_t whole = e.body.size;
        assert_true(read_entry(&e));
        for (e.body.size = 0; e.body.size < whole; e.body.size++) assert_false(read_entry(&e));
        bytes[out.size] = 0;
        e.body.size = whole + 1;
        assert_false(read_entry(&e));
    }
}

static void slots_that_cannot_be_are_damaged_and_kinds_to_come_are_told(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    for (unsigned kind = 0; kind < 256; kind++) {
        struct str rest = put_entry(DELTA_TOKEN_SPENT, &out);
        struct delta_entry e;
        enum err err;
        bytes[0] = (char)kind;
        bool known = false;
        for (size_t i = 0; i < KINDS; i++) known |= kind == (unsigned)kinds[i];
        assert_int_equal(delta_next(&rest, &e, &err), known);
        assert_int_equal(err, known ? ERR_OK : kind == 0 ? ERR_CORRUPT : ERR_BAD_VALUE);
    }
    struct str rest = put_entry(DELTA_TOKEN_SPENT, &out);
    struct delta_entry e;
    enum err err;
    bytes[1] = 0, bytes[2] = 4; /* slot 1024 */
    assert_false(delta_next(&rest, &e, &err));
    assert_int_equal(err, ERR_CORRUPT);
    bytes[1] = (char)255, bytes[2] = 3;
    assert_true(delta_next(&rest, &e, &err));
    assert_int_equal(e.slot, 1023);
}

static void values_that_cannot_be_are_damaged(void **state)
{
    (void)state;
    char bytes[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct delta_entry e = only_entry(put_entry(DELTA_REVIEW_MOVED, &out));
    bytes[7 + ID_BYTES] = REVIEW_STATES; /* no such state */
    assert_false(read_entry(&e));
    e = only_entry(put_entry(DELTA_REVIEW_MOVED, &out));
    bytes[out.size - 1] = REVIEW_BY_REVOCATION; /* of a review that is not cancelled */
    assert_false(read_entry(&e));
    e = only_entry(put_entry(DELTA_REVIEW_VOTED, &out));
    bytes[out.size - 1] = REVIEW_PROOFS; /* no such proof */
    assert_false(read_entry(&e));
    e = only_entry(put_entry(DELTA_REVIEW_OPENED, &out));
    bytes[7 + ID_BYTES + 8] = 2; /* neither true nor false */
    assert_false(read_entry(&e));
    const size_t window = 7 + SLOT_KEY_BYTES;
    e = only_entry(put_entry(DELTA_LIMIT_COUNTED, &out));
    memset(bytes + window + 8, 0xff, 8); /* a stamp that nothing can be reckoned with */
    assert_false(read_entry(&e));
    e = only_entry(put_entry(DELTA_LIMIT_COUNTED, &out));
    memset(bytes + window, 0, 8);
    assert_false(read_entry(&e));
    memset(bytes + window, 0xff, 8);
    assert_false(read_entry(&e));
    buf_clear(&out);
    delta_put_traced(&out, id_of(1), STR(""));
    e = only_entry(buf_view(&out));
    memset(bytes + 7 + ID_BYTES, 0xff, 4); /* an absent text: it names nothing */
    assert_false(read_entry(&e));
    buf_clear(&out);
    delta_put_resumed(&out, SLOT, STR("acme"), STR(""), 5);
    e = only_entry(buf_view(&out));
    memset(bytes + 7 + 4 + 4, 0xff, 4);
    assert_false(read_entry(&e));
    buf_clear(&out);
    delta_put_suspended(&out, SLOT, &(struct actor_facts){.tenant = STR(""), .actor = STR("bot")});
    e = only_entry(buf_view(&out));
    memset(bytes + 7, 0xff, 4);
    assert_false(read_entry(&e));
}

static void what_does_not_fit_shows_in_the_buf(void **state)
{
    (void)state;
    char bytes[BYTES], small[BYTES];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct token_facts t = some_token();
    const struct retry none = {0};
    delta_put_minted(&out, &t, &none);
    for (size_t size = 0; size < out.size; size++) {
        struct buf tight = buf_over(small, size);
        delta_put_minted(&tight, &t, &none);
        assert_true(tight.overflow);
    }
    struct buf exact = buf_over(small, out.size);
    delta_put_minted(&exact, &t, &none);
    assert_false(exact.overflow);
    assert_memory_equal(small, bytes, out.size);
}

/* ---- what is saved ---- */

static enum err put_saved(void *context, struct str entry)
{
    buf_put(context, entry);
    return ERR_OK;
}

/* What is applied and not saved would be lost with the next snapshot, and missed by no
 * comparison of what is saved. */
static void every_kind_changes_what_is_saved(void **state)
{
    (void)state;
    static char kept[2][BYTES];
    char bytes[BYTES];
    struct shard *s = shard_create(&(struct shard_options){.count = 1});
    struct token_facts t = some_token();
    struct review_facts r = some_review();
    struct buf out = buf_over(bytes, sizeof bytes), before = buf_over(kept[0], BYTES),
               after = buf_over(kept[1], BYTES);
    struct fault f;
    t.revoked_ms = 0;
    r.state = REVIEW_APPROVED;
    for (size_t i = 0; i < KINDS; i++) {
        put_entry(kinds[i], &out);
        bool moves = delta_moves_review(kinds[i]);
        if (kinds[i] == DELTA_TOKEN_MINTED || moves) buf_clear(&out);
        if (kinds[i] == DELTA_TOKEN_MINTED) delta_put_minted(&out, &t, &(struct retry){0});
        r.asks_proof = kinds[i] == DELTA_REVIEW_OPENED_PROVEN;
        if (kinds[i] == DELTA_REVIEW_OPENED || r.asks_proof) { /* one more than the others opened */
            r.id = id_of(r.asks_proof ? 6 : 5);
            buf_clear(&out);
            delta_put_opened(&out, &r);
        }
        bool is_person = kinds[i] == DELTA_REVIEW_VOTED_PERSON;
        if (kinds[i] == DELTA_REVIEW_VOTED || is_person) {
            buf_clear(&out);
            delta_put_voted(&out, r.id, is_person ? &persons_vote : &some_vote);
        }
        if (moves) delta_put_moved(&out, &r);
        if (kinds[i] == DELTA_REVIEW_MOVED_PLAIN) make_plain(&out, kinds[i], 1);
        struct delta_entry e = only_entry(buf_view(&out));
        assert_int_equal(shard_apply(s, &e, STR("{}"), &f), ERR_OK);
        buf_clear(&after);
        assert_int_equal(shard_save(s, put_saved, &after), ERR_OK);
        if (str_equal(buf_view(&before), buf_view(&after)))
            fail_msg("kind %u is not saved", kinds[i]);
        buf_clear(&before);
        buf_put(&before, buf_view(&after));
    }
    shard_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minted_token_comes_back_whole),
        cmocka_unit_test(uses_revocations_and_counts_come_back),
        cmocka_unit_test(a_review_comes_back_as_it_was_opened),
        cmocka_unit_test(what_asks_for_proof_and_who_has_it_come_back),
        cmocka_unit_test(a_review_of_an_earlier_version_comes_back),
        cmocka_unit_test(moves_votes_and_traces_come_back),
        cmocka_unit_test(moves_and_votes_of_an_earlier_version_come_back),
        cmocka_unit_test(suspensions_come_back),
        cmocka_unit_test(the_bytes_on_disk_are_these),
        cmocka_unit_test(kinds_keep_their_numbers),
        cmocka_unit_test(entries_follow_each_other_in_the_order_in_which_they_were_put),
        cmocka_unit_test(an_entry_that_is_cut_short_anywhere_is_damaged),
        cmocka_unit_test(a_body_that_is_shorter_or_longer_than_its_kind_is_damaged),
        cmocka_unit_test(slots_that_cannot_be_are_damaged_and_kinds_to_come_are_told),
        cmocka_unit_test(values_that_cannot_be_are_damaged),
        cmocka_unit_test(what_does_not_fit_shows_in_the_buf),
        cmocka_unit_test(every_kind_changes_what_is_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
