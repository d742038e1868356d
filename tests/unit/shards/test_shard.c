/* A shard as a whole: what was stepped, what was replayed and what was saved and loaded are the
 * same; damage is refused; calls keep to the room that they asked for. */
#include "shard_scene.h"

#include <stdio.h>
#include <string.h>

/* ---- a random life ---- */

static uint64_t random_next(uint64_t *seed) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = (*seed += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

struct life {
    struct scene *s;
    uint64_t seed;
    struct id reviews[256], tokens[64];
    size_t review_count, token_count;
    unsigned outcomes[CALL_KINDS];
};

static uint64_t pick(struct life *l, uint64_t below) { return random_next(&l->seed) % below; }

static struct str pick_of(struct life *l, const char *const *names, size_t count)
{
    return str_from(names[pick(l, count)]);
}

static const char *const actors[] = {"invoice_bot", "coder", "mailer"};
static const char *const principals[] = {"fleet", "squad"};
static const char *const reviewers[] = {"rita", "carol", "dan", "erin"};
static const char *const demands[] = {"[{\"approvals\":1}]", "[{\"approvals\":2}]",
                                      "[{\"approvals\":1,\"by\":[\"finance\"]},{\"approvals\":2}]"};

static void live_enqueue(struct life *l)
{
    struct scene_review r = {.actor = pick_of(l, actors, 3),
                             .principal = pick_of(l, principals, 2),
                             .binding = (uint8_t)pick(l, 40),
                             .requirements = pick_of(l, demands, 3),
                             .expires_in_ms = 1000 + pick(l, 100000),
                             .good_for_ms = 1000 + pick(l, 100000)};
    char trace[16];
    struct buf b = buf_over(trace, sizeof trace);
    buf_printf(&b, "trace-%u", (unsigned)pick(l, 30));
    r.trace_id = buf_view(&b);
    if (pick(l, 5) == 0) r.user = STR("uma");
    struct call *c = scene_enqueue_call(l->s, r);
    scene_ask(l->s, c);
    if (c->err != ERR_OK) return;
    l->outcomes[CALL_ENQUEUE]++;
    if (!c->enqueue.same) {
        l->reviews[l->review_count++ % 256] = c->enqueue.facts.id;
        return;
    }
    if (scene_share(l->s, c, r.trace_id)->err == ERR_OK) l->outcomes[CALL_SHARE]++;
}

static struct id pick_review(struct life *l)
{
    size_t count = l->review_count < 256 ? l->review_count : 256;
    if (count == 0) return (struct id){.bytes = {0}};
    if (pick(l, 3) == 0) return l->reviews[pick(l, count)];
    return l->reviews[(l->review_count - 1 - pick(l, count < 8 ? count : 8)) %
                      256]; /* one of the newest */
}

static void live_resolve(struct life *l, enum call_kind kind)
{
    struct call *c = scene_on(l->s, kind, pick_review(l), pick_of(l, reviewers, 4));
    c->review.meets = (uint32_t)pick(l, 4);
    if (pick(l, 2) == 0) c->review.note = STR("a note");
    scene_ask(l->s, c);
    l->outcomes[kind] += c->err == ERR_OK;
}

static void live_own(struct life *l, enum call_kind kind)
{
    struct id id = pick_review(l);
    struct str principal = pick_of(l, principals, 2);
    struct call *c =
        kind == CALL_REDEEM
            ? scene_redeem_call(l->s, id, principal, (uint8_t)pick(l, 3), (uint8_t)pick(l, 2))
            : scene_on(l->s, kind, id, principal);
    if (kind == CALL_REDEEM) { /* the binding of the review, as its requester would send it again */
        struct call *look = scene_on(l->s, CALL_REVIEW_GET, id, principal);
        look->requester.sees_all = true;
        scene_ask(l->s, look);
        if (look->err == ERR_OK) c->review.binding = look->review.facts.binding;
    }
    if (kind == CALL_REVIEW_WAIT || kind == CALL_CLAIM)
        c->review.deadline_ms = l->s->now_ms + pick(l, 500);
    scene_ask(l->s, c);
    l->outcomes[kind] += c->err == ERR_OK;
}

static void live_actor(struct life *l, enum call_kind kind)
{
    struct call *c = scene_call(l->s, kind, STR("root"));
    c->slot = SCENE_SLOT;
    c->actor.actor = pick_of(l, actors, 3);
    c->actor.reason = STR("because");
    c->actor.ordinal = ++l->s->ordinal;
    scene_ask(l->s, c);
    l->outcomes[kind] += c->err == ERR_OK;
}

static void live_mint(struct life *l)
{
    struct scene *s = l->s;
    struct call *c = scene_call(s, CALL_MINT, STR("fleet"));
    struct token_facts f = {.id = slot_id(id_make(s->now_ms, &s->chance), SCENE_SLOT),
                            .tenant = STR("acme"),
                            .actor = pick_of(l, actors, 3),
                            .scope = STR("get_* list_*"),
                            .ordinal = ++s->ordinal,
                            .issued_ms = s->now_ms,
                            .expires_ms = s->now_ms + 1000 + pick(l, 100000),
                            .uses_max = (uint32_t)pick(l, 3),
                            .signer = 1};
    assert_true(id_read("key_", c->requester.key_id, &f.key));
    c->slot = SCENE_SLOT;
    c->mint.facts = f;
    c->mint.retry.given = pick(l, 2) == 0;
    memset(c->mint.retry.key.bytes, (int)pick(l, 200) + 1, REVIEW_DIGEST_BYTES);
    struct event e = {.tenant_id = STR("acme"), .timestamp = s->now_ms};
    c->records[0] = scene_event_text(s, "token.minted", &e, c->arena);
    scene_ask(s, c);
    l->outcomes[CALL_MINT] += c->err == ERR_OK;
    if (c->err == ERR_OK && !c->mint.replayed) l->tokens[l->token_count++ % 64] = f.id;
}

static void live_token(struct life *l, enum call_kind kind)
{
    size_t count = l->token_count < 64 ? l->token_count : 64;
    if (count == 0) return;
    struct call *c = scene_call(l->s, kind, STR("fleet"));
    c->slot = SCENE_SLOT;
    c->token.id = l->tokens[pick(l, count)];
    scene_ask(l->s, c);
    l->outcomes[kind] += c->err == ERR_OK;
    if (kind != CALL_SPEND || c->token.use != TOKEN_SPENT) return;
    if (pick(l, 4) == 0) { /* no record came of it */
        c->kind = CALL_UNSPEND;
        scene_ask(l->s, c);
        return;
    }
    char bytes[64];
    struct buf b = buf_over(bytes, sizeof bytes);
    delta_put_spent(&b, c->token.id, 1);
    scene_apply(l->s->twin, STR("{}"), buf_view(&b));
}

static void live_once(struct life *l)
{
    switch (pick(l, 40)) {
    case 0: live_actor(l, CALL_SUSPEND); break;
    case 1:
    case 2: live_actor(l, CALL_RESUME); break;
    case 3:
    case 4: live_own(l, CALL_CANCEL); break;
    case 5:
    case 6:
    case 7: live_own(l, CALL_REVIEW_GET); break;
    case 8: live_own(l, CALL_REVIEW_WAIT); break;
    case 9:
    case 10:
    case 11:
    case 12: live_own(l, CALL_REDEEM); break;
    case 13:
    case 14: live_resolve(l, CALL_DENY); break;
    case 15:
    case 16:
    case 17:
    case 18:
    case 19:
    case 20: live_resolve(l, CALL_APPROVE); break;
    case 21:
    case 22: live_mint(l); break;
    case 23:
    case 24:
    case 25: live_token(l, CALL_SPEND); break;
    case 26: live_token(l, CALL_REVOKE); break;
    case 27:
    case 28: scene_tick(l->s, pick(l, 3000)); break;
    case 29: l->s->now_ms += pick(l, 200); break; /* and the timers are late */
    case 30: live_own(l, CALL_CLAIM); break;
    case 31: live_own(l, CALL_UNCLAIM); break;
    default: live_enqueue(l);
    }
}

/* Calls and records are kept for comparing only as long as there is room. */
static void live(struct life *l, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        live_once(l);
        if (l->s->call_count < SCENE_CALLS_MAX - 8 && l->s->record_count < SCENE_RECORDS_MAX - 512)
            continue;
        scene_tick(l->s, 501); /* nobody waits any longer */
        for (size_t k = 0; k < l->s->call_count; k++) free(l->s->calls[k]);
        l->s->call_count = l->s->record_count = l->s->woken_count = 0;
        arena_reset(&l->s->kept);
    }
}

static void what_is_replayed_is_what_was_stepped(void **state)
{
    struct life l = {.s = *state, .seed = 20261120};
    size_t objects = 0;
    for (unsigned round = 0; round < 40; round++) {
        live(&l, 500);
        objects += scene_compare(l.s->shard, l.s->twin);
    }
    const enum call_kind kinds[] = {CALL_ENQUEUE,     CALL_APPROVE, CALL_DENY,   CALL_CANCEL,
                                    CALL_REDEEM,      CALL_SUSPEND, CALL_RESUME, CALL_REVIEW_GET,
                                    CALL_REVIEW_WAIT, CALL_MINT,    CALL_SPEND,  CALL_REVOKE,
                                    CALL_CLAIM,       CALL_UNCLAIM, CALL_SHARE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (l.outcomes[kinds[i]] < 20)
            print_error("%s succeeded %u times\n", call_name(kinds[i]), l.outcomes[kinds[i]]);
        assert_true(l.outcomes[kinds[i]] >= 20);
    }
    assert_true(objects > 1000);
}

/* ---- save, load ---- */

static enum err load_into(void *context, struct str entry)
{
    struct shard **shards = context;
    struct fault f;
    unsigned slot;
    assert_true(shard_entry_slot(entry, &slot));
    for (unsigned i = 0; i < 3; i++) assert_int_equal(shard_load(shards[i], entry, &f), ERR_OK);
    return ERR_OK;
}

static void what_is_saved_is_loaded_by_whoever_owns_it_now(void **state)
{
    struct life l = {.s = *state, .seed = 7};
    live(&l, 3000);
    struct shard *three[3], *foreign;
    for (unsigned i = 0; i < 3; i++)
        three[i] = shard_create(&(struct shard_options){.index = i, .count = 3});
    assert_int_equal(shard_save(l.s->shard, load_into, three), ERR_OK);
    size_t objects = scene_compare(l.s->shard, three[SCENE_SLOT % 3]);
    assert_true(objects > 50);
    foreign = shard_create(&(struct shard_options){.index = (SCENE_SLOT + 1) % 3, .count = 3});
    assert_int_equal(scene_compare(three[(SCENE_SLOT + 1) % 3], foreign), 0);
    assert_int_equal(shard_ordinal_max(three[SCENE_SLOT % 3]) <= l.s->ordinal, 1);
    shard_destroy(foreign);

    /* And it goes on as if nothing had happened. */
    struct shard *before = l.s->shard;
    l.s->shard = three[SCENE_SLOT % 3];
    shard_destroy(l.s->twin);
    l.s->twin = before;
    live(&l, 2000);
    scene_compare(l.s->shard, l.s->twin);
    three[SCENE_SLOT % 3] = NULL;
    for (unsigned i = 0; i < 3; i++) shard_destroy(three[i]);
}

/* Looked at from outside: what is left out of all that is saved is missed by no
 * comparison of what is saved. */
static void reviews_of_every_state_are_saved(void **state)
{
    static const enum call_kind ends[] = {CALL_REVIEW_GET, CALL_APPROVE, CALL_DENY};
    static const enum review_state states[] = {REVIEW_PENDING, REVIEW_APPROVED, REVIEW_DENIED};
    struct scene *s = *state;
    struct scene_saved saved;
    struct fault f;
    struct id ids[3];
    for (unsigned i = 0; i < 3; i++) {
        ids[i] = scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
        scene_do(s, ends[i], ids[i], STR("rita"));
    }
    scene_save(s->shard, &saved);
    scene_restart(s, &(struct shard_options){.count = 1});
    for (size_t i = 0; i < saved.count; i++)
        assert_int_equal(shard_load(s->shard, saved.entries[i], &f), ERR_OK);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(scene_look(s, ids[i]).state, states[i]);
    scene_saved_drop(&saved);
}

static void an_entry_is_not_loaded_twice(void **state)
{
    struct life l = {.s = *state, .seed = 8};
    live(&l, 500);
    struct scene_saved v;
    struct fault f;
    scene_save(l.s->shard, &v);
    for (size_t i = 0; i < v.count; i++)
        assert_int_equal(shard_load(l.s->shard, v.entries[i], &f), ERR_CORRUPT);
    scene_compare(l.s->shard, l.s->twin);
    scene_saved_drop(&v);
}

static void a_damaged_entry_is_refused_and_changes_nothing(void **state)
{
    struct life l = {.s = *state, .seed = 9};
    live(&l, 400);
    struct scene_saved v;
    struct fault f;
    scene_save(l.s->shard, &v);
    struct shard *into = shard_create(&(struct shard_options){.count = 1});
    for (size_t i = 0; i < v.count; i += 5) {
        for (size_t size = 0; size < v.entries[i].size; size++) {
            char *cut = malloc(size + 1);
            memcpy(cut, v.entries[i].bytes, size);
            enum err err = shard_load(into, str_of(cut, size), &f);
            free(cut);
            if (err == ERR_OK)
                print_error("an entry of %zu bytes was taken at %zu\n", v.entries[i].size, size);
            assert_int_equal(err, ERR_CORRUPT);
            struct shard_totals totals;
            shard_totals(into, &totals);
            assert_int_equal(totals.reviews + totals.tokens + totals.suspended + totals.counters,
                             0);
        }
    }
    shard_destroy(into);
    scene_saved_drop(&v);
}

static void a_vote_for_another_review_is_refused_with_its_review(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    struct scene_saved v;
    struct fault f;
    scene_save(s->shard, &v);
    assert_int_equal(v.count, 1);
    char *bytes = (char *)(uintptr_t)v.entries[0].bytes, *last = NULL;
    for (size_t i = 0; i + ID_BYTES <= v.entries[0].size; i++)
        if (memcmp(bytes + i, id.bytes, ID_BYTES) == 0) last = bytes + i;
    last[ID_BYTES - 1] ^= 1;
    struct shard *into = shard_create(&(struct shard_options){.count = 1});
    assert_int_equal(shard_load(into, v.entries[0], &f), ERR_CORRUPT);
    last[ID_BYTES - 1] ^= 1;
    assert_int_equal(shard_load(into, v.entries[0], &f), ERR_OK); /* nothing of it was left */
    shard_destroy(into);
    scene_saved_drop(&v);
}

static void no_byte_of_a_saved_entry_can_end_the_process(void **state)
{
    struct life l = {.s = *state, .seed = 10};
    live(&l, 300);
    struct scene_saved v;
    struct fault f;
    scene_save(l.s->shard, &v);
    for (size_t i = 0; i < v.count; i += 5) {
        struct shard *into = shard_create(&(struct shard_options){.count = 1});
        for (unsigned tries = 0; tries < 200; tries++) {
            struct str entry = v.entries[i];
            char *bytes = malloc(entry.size);
            memcpy(bytes, entry.bytes, entry.size);
            bytes[pick(&l, entry.size)] ^= (char)(1 << pick(&l, 8));
            struct shard_totals before, after;
            shard_totals(into, &before);
            enum err err = shard_load(into, str_of(bytes, entry.size), &f);
            shard_totals(into, &after);
            assert_true(err == ERR_OK || err == ERR_CORRUPT);
            if (err != ERR_OK) assert_memory_equal(&before, &after, sizeof before);
            free(bytes);
        }
        uint64_t next_ms;
        for (unsigned ticks = 0; ticks < 1000; ticks++)
            if (!shard_tick(into, l.s->now_ms, &l.s->chance, &l.s->effects, &next_ms)) break;
        shard_destroy(into);
    }
    scene_saved_drop(&v);
}

/* ---- apply ---- */

static enum err apply_bytes(struct shard *to, struct str delta, struct str event)
{
    struct delta_entry e;
    struct fault f;
    enum err err = ERR_OK;
    while (delta_next(&delta, &e, &err)) {
        enum err applied = shard_apply(to, &e, event, &f);
        if (applied != ERR_OK) return applied;
    }
    return err;
}

static void records_that_contradict_the_state_are_refused(void **state)
{
    struct scene *s = *state;
    struct id id =
        scene_enqueue(s, (struct scene_review){.requirements = STR("[{\"approvals\":2}]")});
    struct scene_record opened = s->records[1];
    assert_int_equal(apply_bytes(s->twin, opened.delta, opened.event), ERR_CORRUPT);
    scene_do(s, CALL_APPROVE, id, STR("rita"));
    struct scene_record voted = s->records[s->record_count - 1];
    scene_do(s, CALL_DENY, id, STR("carol"));
    struct scene_record denied = s->records[s->record_count - 1];
    assert_int_equal(apply_bytes(s->twin, voted.delta, voted.event), ERR_CORRUPT);
    assert_int_equal(apply_bytes(s->twin, denied.delta, denied.event), ERR_CORRUPT);

    struct id unvoted = scene_enqueue(s, (struct scene_review){.binding = 5});
    struct review_facts approval = scene_look(s, unvoted);
    char moved[512];
    struct buf m = buf_over(moved, sizeof moved);
    approval.state = REVIEW_APPROVED;
    delta_put_moved(&m, &approval);
    assert_int_equal(apply_bytes(s->twin, buf_view(&m), STR("{}")),
                     ERR_CORRUPT); /* nobody has voted */

    /* An approval is used, or its time is over; nobody takes it back. */
    scene_do(s, CALL_APPROVE, unvoted, STR("rita"));
    struct review_facts taken_back = scene_look(s, unvoted);
    taken_back.state = REVIEW_DENIED;
    buf_clear(&m);
    delta_put_moved(&m, &taken_back);
    assert_int_equal(apply_bytes(s->twin, buf_view(&m), STR("{}")), ERR_CORRUPT);

    scene_suspend(s, STR("bot"));
    struct scene_record suspended = s->records[s->record_count - 1];
    assert_int_equal(apply_bytes(s->twin, suspended.delta, suspended.event), ERR_CORRUPT);

    struct shard *empty = shard_create(&(struct shard_options){.count = 1});
    assert_int_equal(apply_bytes(empty, denied.delta, denied.event), ERR_CORRUPT);
    assert_int_equal(apply_bytes(empty, voted.delta, voted.event), ERR_CORRUPT);
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    delta_put_resumed(&b, SCENE_SLOT, STR("acme"), STR("bot"), s->now_ms);
    assert_int_equal(apply_bytes(empty, buf_view(&b), STR("{}")), ERR_CORRUPT);
    buf_clear(&b);
    delta_put_traced(&b, id,
                     STR("trace-7")); /* rides in another's record: the review may be over */
    assert_int_equal(apply_bytes(empty, buf_view(&b), STR("{}")), ERR_OK);
    assert_int_equal(scene_compare(empty, empty), 0);
    shard_destroy(empty);
    scene_compare(s->shard, s->twin);
}

static void an_entry_that_names_another_slot_than_its_objects_is_refused(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, (struct scene_review){0});
    struct shard *empty = shard_create(&(struct shard_options){.count = 1});
    struct str rest = s->records[1].delta;
    struct delta_entry e;
    struct fault f;
    enum err err;
    assert_true(delta_next(&rest, &e, &err));
    e.slot = SCENE_SLOT + 1;
    assert_int_equal(shard_apply(empty, &e, s->records[1].event, &f), ERR_CORRUPT);
    e.slot = LIMIT_SLOTS;
    assert_int_equal(shard_apply(empty, &e, s->records[1].event, &f), ERR_CORRUPT);
    struct scene_saved saved;
    scene_save(s->shard, &saved);
    assert_int_equal(saved.count, 1);
    char *slot = (char *)(uintptr_t)saved.entries[0].bytes + 1; /* behind the kind of object */
    slot[0] ^= 1;
    assert_int_equal(shard_load(empty, saved.entries[0], &f), ERR_CORRUPT);
    slot[0] ^= 1;
    assert_int_equal(shard_load(empty, saved.entries[0], &f), ERR_OK);
    scene_saved_drop(&saved);
    shard_destroy(empty);
}

static void what_belongs_to_others_is_ignored(void **state)
{
    struct scene *s = *state;
    scene_enqueue(s, (struct scene_review){0});
    struct shard *other =
        shard_create(&(struct shard_options){.index = (SCENE_SLOT + 1) % 4, .count = 4});
    scene_apply(other, s->records[1].event, s->records[1].delta);
    assert_int_equal(scene_compare(other, other), 0);
    shard_destroy(other);
}

static void no_byte_of_a_delta_can_end_the_process(void **state)
{
    struct life l = {.s = *state, .seed = 11};
    live(&l, 600);
    struct shard *into = shard_create(&(struct shard_options){.count = 1});
    for (size_t i = 0; i < l.s->record_count; i++) {
        const struct scene_record *r = &l.s->records[i];
        if (r->delta.size == 0) continue;
        for (unsigned tries = 0; tries < 20; tries++) {
            char *bytes = malloc(r->delta.size);
            size_t size = tries % 4 == 0 ? pick(&l, r->delta.size) : r->delta.size;
            memcpy(bytes, r->delta.bytes, r->delta.size);
            bytes[pick(&l, r->delta.size)] ^= (char)(1 << pick(&l, 8));
            enum err err = apply_bytes(into, str_of(bytes, size), r->event);
            assert_true(err == ERR_OK || err == ERR_CORRUPT || err == ERR_BAD_VALUE);
            free(bytes);
        }
        (void)apply_bytes(into, r->delta, r->event);
    }
    shard_destroy(into);
}

static void the_largest_ordinal_is_known_after_recovery(void **state)
{
    struct scene *s = *state;
    s->ordinal = 41;
    struct id id = scene_enqueue(s, (struct scene_review){0});
    assert_int_equal(shard_ordinal_max(s->twin), 42);
    scene_do(s, CALL_DENY, id, STR("rita"));
    scene_suspend(s, STR("bot"));
    assert_int_equal(shard_ordinal_max(s->twin), 43);
}

/* ---- after images of unknown freshness ---- */

static size_t records_of(const struct scene *s, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < s->record_count; i++) count += strcmp(s->records[i].kind, kind) == 0;
    return count;
}

static void what_may_have_been_spent_since_is_closed(void **state)
{
    struct scene *s = *state;
    struct id approved = scene_enqueue(s, (struct scene_review){0}),
              pending = scene_enqueue(s, (struct scene_review){.binding = 1});
    scene_do(s, CALL_APPROVE, approved, STR("rita"));
    uint64_t tokens, reviews;
    s->now_ms += 5;
    shard_close_open(s->shard, s->now_ms, &tokens, &reviews);
    assert_int_equal(reviews, 2);
    assert_int_equal(tokens, 0);
    struct review_facts f = scene_look(s, approved);
    assert_int_equal(f.state, REVIEW_EXPIRED);
    assert_int_equal(f.approval_expires_ms, s->now_ms);
    struct call *c = scene_redeem_call(s, approved, STR("fleet"), 0, 0);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_NOT_REDEEMABLE);
    f = scene_look(s, pending); /* it may have been denied there, or redeemed */
    assert_int_equal(f.state, REVIEW_EXPIRED);
    assert_int_equal(f.resolved_ms, s->now_ms);
    assert_int_equal(f.approval_expires_ms, 0);
    assert_int_equal(scene_do(s, CALL_APPROVE, pending, STR("rita"))->err, ERR_ALREADY_RESOLVED);
}

static void each_review_that_is_closed_is_recorded(void **state)
{
    struct scene *s = *state;
    struct id ids[3];
    for (unsigned i = 0; i < 3; i++)
        ids[i] = scene_enqueue(s, (struct scene_review){.binding = (uint8_t)i});
    scene_do(s, CALL_APPROVE, ids[0], STR("rita"));
    scene_do(s, CALL_DENY, ids[1], STR("rita"));
    uint64_t tokens, reviews;
    s->now_ms += 5;
    shard_close_open(s->shard, s->now_ms, &tokens, &reviews);
    assert_int_equal(reviews, 2);
    assert_int_equal(records_of(s, "review.expired"), 0);
    for (unsigned i = 0; i < 2; i++) { /* once each: the approved one lapses */
        scene_tick(s, i * 1000);
        assert_int_equal(records_of(s, "review.expired"), 1);
        assert_int_equal(records_of(s, "review.lapsed"), 1);
    }
    assert_int_equal(scene_look(s, ids[0]).state, REVIEW_EXPIRED);
    assert_int_equal(scene_look(s, ids[1]).state, REVIEW_DENIED);
    assert_int_equal(scene_look(s, ids[2]).resolved_ms, s->now_ms - 1000);
}

/* An end is the same, whatever came after it there. */
static void what_has_ended_is_not_closed_again(void **state)
{
    struct scene *s = *state;
    const enum review_state ends[] = {REVIEW_DENIED, REVIEW_CANCELLED, REVIEW_REDEEMED,
                                      REVIEW_EXPIRED};
    struct id ids[4];
    for (unsigned i = 0; i < 4; i++)
        ids[i] = scene_enqueue(
            s, (struct scene_review){.binding = (uint8_t)i, .expires_in_ms = i == 3 ? 1 : 60000});
    scene_do(s, CALL_DENY, ids[0], STR("rita"));
    assert_int_equal(scene_do(s, CALL_CANCEL, ids[1], STR("fleet"))->err, ERR_OK);
    scene_do(s, CALL_APPROVE, ids[2], STR("rita"));
    struct call *c = scene_redeem_call(s, ids[2], STR("fleet"), 0, 0);
    memset(c->review.binding.bytes + 1, 2, REVIEW_DIGEST_BYTES - 1);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    scene_tick(s, 10);
    uint64_t tokens, reviews, ended_ms = s->now_ms;
    s->now_ms += 5;
    shard_close_open(s->shard, s->now_ms, &tokens, &reviews);
    assert_int_equal(reviews, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct review_facts f = scene_look(s, ids[i]);
        assert_int_equal(f.state, ends[i]);
        assert_true(f.resolved_ms <= ended_ms);
    }
    scene_compare(s->shard, s->twin);
}

/* ---- calls ---- */

static void a_call_knows_whether_it_closes(void **state)
{
    (void)state;
    assert_true(call_closes(CALL_REVOKE) && call_closes(CALL_DENY) && call_closes(CALL_SUSPEND) &&
                call_closes(CALL_CANCEL));
    assert_false(call_closes(CALL_MINT) || call_closes(CALL_APPROVE) || call_closes(CALL_REDEEM) ||
                 call_closes(CALL_ENQUEUE));
}

static void no_step_may_ask_for_more_room_than_there_can_be(void **state)
{
    struct scene *s = *state;
    for (unsigned k = 0; k < CALL_KINDS; k++) {
        struct call *c = scene_call(s, (enum call_kind)k, STR("fleet"));
        static char bytes[1 << 20];
        struct str huge = str_of(bytes, sizeof bytes);
        c->records[0] = c->records[1] = c->spent = huge;
        if (k == CALL_ENQUEUE) c->enqueue.facts.requirements = huge;
        if (k == CALL_APPROVE || k == CALL_DENY) c->review.note = huge;
        if (k == CALL_SUSPEND || k == CALL_RESUME) c->actor.reason = huge;
        if (k == CALL_MINT) c->mint.facts.scope = huge;
        assert_true(call_record_most(c) <= LIMIT_RESERVE_BYTES);
    }
    assert_true(shard_tick_record_most() <= LIMIT_RESERVE_BYTES);
}

/* Six bytes of JSON for each character. */
static void the_longest_names_fit_into_the_room_that_was_taken(void **state)
{
    struct scene *s = *state;
    static char control[2000];
    memset(control, 0x1f, sizeof control);
    const struct str name = str_of(control, LIMIT_ID_CHARACTERS),
                     note = str_of(control, sizeof control);
    struct id ids[6];
    for (unsigned i = 0; i < 6; i++)
        ids[i] = scene_enqueue(s, (struct scene_review){.actor = name,
                                                        .acting_for = name,
                                                        .action = name,
                                                        .tenant = name,
                                                        .binding = (uint8_t)i,
                                                        .good_for_ms = 1000});
    for (unsigned i = 0; i < 2; i++) {
        struct call *c = scene_on(s, i == 0 ? CALL_APPROVE : CALL_DENY, ids[i], STR("rita"));
        char by[LIMIT_ID_CHARACTERS];
        memset(by, 0x1e, sizeof by);
        by[0] = 'b'; /* of control bytes alone it could be anybody's name */
        c->tenant = name;
        c->review.by = c->review.owner = str_of(by, sizeof by);
        c->review.note = note;
        scene_ask(s, c);
        assert_int_equal(c->err, ERR_OK);
    }
    assert_int_equal(scene_tick(s, 1000), 1);
    struct call *c = scene_call(s, CALL_SUSPEND, STR("root"));
    c->slot = SCENE_SLOT;
    c->tenant = c->actor.actor = c->requester.owner = name;
    c->actor.reason = str_of(control, 1000);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_last_kinds(s, "review.denied", "review.denied", "review.denied", "review.denied");
    scene_compare(s->shard, s->twin);
}

static void an_event_id_is_followed_by_another(void **state)
{
    (void)state;
    struct call c = {
        .id = {.bytes = {1, 2, 3, 4, 5, 6, 255, 255, 255, 255, 255, 255, 255, 255, 255, 254}}};
    struct id first = call_event_id(&c), second = call_event_id(&c), third = call_event_id(&c);
    assert_int_equal(first.bytes[15], 254);
    assert_int_equal(second.bytes[15], 255);
    const uint8_t wrapped[ID_BYTES] = {1, 2, 3, 4, 5, 6};
    assert_memory_equal(third.bytes, wrapped, ID_BYTES); /* the time stays */
}

static void a_review_state_has_one_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < REVIEW_STATES; i++) {
        enum review_state back;
        assert_true(review_state_read(str_from(review_state_name((enum review_state)i)), &back));
        assert_int_equal(back, i);
    }
    enum review_state none;
    assert_false(review_state_read(STR("Pending"), &none));
}

static void an_entry_of_a_slot_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct shard_entry head;
    char entry[] = {SHARD_ACTORS, (char)((LIMIT_SLOTS - 1) & 0xff), (char)((LIMIT_SLOTS - 1) >> 8),
                    0, 0};
    assert_true(shard_entry_read(str_of(entry, sizeof entry), &head));
    assert_int_equal(head.slot, LIMIT_SLOTS - 1);
    entry[1] = (char)(LIMIT_SLOTS & 0xff);
    entry[2] = (char)(LIMIT_SLOTS >> 8);
    assert_false(shard_entry_read(str_of(entry, sizeof entry), &head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(what_is_replayed_is_what_was_stepped),
        cmocka_unit_test(an_entry_of_a_slot_that_cannot_be_is_refused),
        scene_test(what_is_saved_is_loaded_by_whoever_owns_it_now),
        scene_test(reviews_of_every_state_are_saved),
        scene_test(an_entry_is_not_loaded_twice),
        scene_test(a_damaged_entry_is_refused_and_changes_nothing),
        scene_test(a_vote_for_another_review_is_refused_with_its_review),
        scene_test(no_byte_of_a_saved_entry_can_end_the_process),
        scene_test(records_that_contradict_the_state_are_refused),
        scene_test(an_entry_that_names_another_slot_than_its_objects_is_refused),
        scene_test(what_belongs_to_others_is_ignored),
        scene_test(no_byte_of_a_delta_can_end_the_process),
        scene_test(the_largest_ordinal_is_known_after_recovery),
        scene_test(what_may_have_been_spent_since_is_closed),
        scene_test(each_review_that_is_closed_is_recorded),
        scene_test(what_has_ended_is_not_closed_again),
        scene_test(a_call_knows_whether_it_closes),
        scene_test(no_step_may_ask_for_more_room_than_there_can_be),
        scene_test(the_longest_names_fit_into_the_room_that_was_taken),
        scene_test(an_event_id_is_followed_by_another),
        scene_test(a_review_state_has_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
