/* shard_serialize.c - how a shard is replayed and serialized: apply, save, load, prune.
 *
 *   saved entry   object (1 byte), slot (2), size of the key (2), key, body
 *   review        item (size 4, bytes), redemption (size 4, bytes), count of delta entries (2), these:
 *                 OPENED, MOVED unless it is pending, VOTED and TRACED as often as there are any
 *   actor         count of delta entries (1), these: SUSPENDED, and RESUMED if it was resumed
 *
 * Little-endian. The token and counter tables define the bodies of their entries. An entry is
 * loaded whole or not at all; an entry that contradicts the loaded state is ERR_CORRUPT. */
#include "base/check.h"
#include "shards/inside.h"

enum { HEAD_BYTES = 5 }; /* object, slot, size of the key */

/* ---- bytes ---- */

static void put_u16(struct buf *out, unsigned value)
{
    check(value <= UINT16_MAX);
    const char bytes[2] = {(char)value, (char)(value >> 8)};
    buf_put(out, str_of(bytes, sizeof bytes));
}

static void put_sized(struct buf *out, struct str text)
{
    check(text.size <= UINT32_MAX);
    put_u16(out, (unsigned)(text.size & 0xffff));
    put_u16(out, (unsigned)(text.size >> 16));
    buf_put(out, text);
}

static unsigned u16_at(const char *bytes)
{
    return (unsigned)(uint8_t)bytes[0] | (unsigned)(uint8_t)bytes[1] << 8;
}

static bool take_sized(struct str *rest, struct str *ret)
{
    if (rest->size < 4) return false;
    size_t size = u16_at(rest->bytes) | (size_t)u16_at(rest->bytes + 2) << 16;
    if (rest->size - 4 < size) return false;
    *ret = size > 0 ? str_of(rest->bytes + 4, size) : (struct str){0};
    *rest = str_skip(*rest, 4 + size);
    return true;
}

/* False: damaged. Views into the entry. */
static bool read_head(struct str entry, struct shard_entry *ret, struct str *ret_body)
{
    if (entry.size < HEAD_BYTES) return false;
    unsigned object = (uint8_t)entry.bytes[0], slot = u16_at(entry.bytes + 1),
             key = u16_at(entry.bytes + 3);
    if (object >= SHARD_OBJECTS || slot >= LIMIT_SLOTS || entry.size - HEAD_BYTES < key)
        return false;
    *ret = (struct shard_entry){.object = (enum shard_object)object,
                                .slot = slot,
                                .key = str_of(entry.bytes + HEAD_BYTES, key)};
    *ret_body = str_skip(entry, HEAD_BYTES + key);
    return true;
}

bool shard_entry_read(struct str entry, struct shard_entry *ret)
{
    struct str body;
    return read_head(entry, ret, &body);
}

static enum err damaged(struct fault *f, const char *what)
{
    return fault_set(f, ERR_CORRUPT, "", "%s", what);
}

static enum err no_memory(struct fault *f)
{
    return fault_set(f, ERR_FULL, "", "there is not enough memory for the state");
}

static enum err settled(enum err err, struct fault *f, const char *what)
{
    if (err == ERR_OK) return ERR_OK;
    return err == ERR_FULL ? no_memory(f) : damaged(f, what);
}

/* ---- apply ---- */

static enum err apply_opened(struct shard *s, const struct delta_entry *e, struct str event,
                             struct fault *f)
{
    struct review_facts facts;
    struct review *r;
    struct quota ignored;
    if (!delta_read_opened(e, &facts) || slot_of_id(facts.id) != e->slot)
        return damaged(f, "a review's opening is damaged");
    facts.item = event;
    facts.state = REVIEW_PENDING;
    /* Ended reviews are dropped as in the step. If that is not enough, the review is opened all the
     * same, because it was recorded. */
    (void)review_make_room(&s->reviews, &facts, facts.enqueued_ms, &ignored);
    enum err err = review_open(&s->reviews, &facts, &r);
    if (err == ERR_OK) review_check(r);
    return settled(err, f, "a review is opened twice, or its terms are damaged");
}

static enum err apply_traced(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    struct id id;
    struct str trace_id;
    if (!delta_read_traced(e->body, &id, &trace_id) || slot_of_id(id) != e->slot)
        return damaged(f, "a review's trace id is damaged");
    struct review *r = review_find(&s->reviews, id);
    /* The entry is in a decision's record, so the review may have ended and been dropped. */
    return r == NULL ? ERR_OK : settled(review_trace_add(&s->reviews, r, trace_id), f, "");
}

static enum err apply_voted(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    struct id id;
    struct review_vote vote;
    if (!delta_read_voted(e, &id, &vote) || slot_of_id(id) != e->slot)
        return damaged(f, "a vote is damaged");
    struct review *r = review_find(&s->reviews, id);
    if (r == NULL || r->facts.state != REVIEW_PENDING)
        return damaged(f, "a vote was cast on a review that is not pending");
    if (r->facts.approval_count == REVIEW_VOTES_MAX)
        return damaged(f, "a review has more votes than the limit allows");
    review_check(r);
    return settled(review_vote(&s->reviews, r, &vote), f, "");
}

static enum err apply_moved(struct shard *s, const struct delta_entry *e, struct str event,
                            struct fault *f)
{
    struct review_facts after;
    if (!delta_read_moved(e, &after) || slot_of_id(after.id) != e->slot)
        return damaged(f, "a review's move is damaged");
    struct review *r = review_find(&s->reviews, after.id);
    if (r == NULL) return damaged(f, "a review that does not exist changes its state");
    after.redemption = after.state == REVIEW_REDEEMED ? event : (struct str){0};
    return settled(review_move(&s->reviews, r, &after), f,
                   "a review changes to a state that its present state does not allow");
}

static enum err apply_suspended(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    check(shard_owns(s, e->slot));
    struct actor_facts facts;
    struct actor *a;
    if (!delta_read_suspended(e->body, &facts)) return damaged(f, "a suspension is damaged");
    if (facts.tenant.size == 0 || facts.actor.size == 0)
        return damaged(f, "a suspension has no actor");
    if (actor_is_suspended(&s->actors, facts.tenant, facts.actor))
        return damaged(f, "an actor is suspended twice without a resume");
    return settled(actor_suspend(&s->actors, e->slot, &facts, &a), f, "");
}

static enum err apply_resumed(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    struct str tenant, name;
    uint64_t at_ms;
    if (!delta_read_resumed(e->body, &tenant, &name, &at_ms))
        return damaged(f, "a resumption is damaged");
    struct actor *a = actor_find(&s->actors, tenant, name);
    if (a == NULL || a->resumed_ms > 0)
        return damaged(f, "an actor that is not suspended is resumed");
    actor_resume(&s->actors, a, at_ms);
    actor_check(a);
    return ERR_OK;
}

static enum err apply_counted(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    struct limit_request ask;
    struct limit_told told;
    if (!delta_read_counted(e, &ask, &told) || slot_of_key(ask.key) != e->slot)
        return damaged(f, "a limit's count is damaged");
    return settled(limit_apply(&s->limits, &ask, &told), f, "a limit's count is out of range");
}

enum err shard_apply(struct shard *s, const struct delta_entry *e, struct str event,
                     struct fault *f)
{
    if (e->slot >= LIMIT_SLOTS) return damaged(f, "an entry names a slot that does not exist");
    if (!shard_owns(s, e->slot)) return ERR_OK;
    switch (e->kind) {
    case DELTA_TOKEN_MINTED:
    case DELTA_TOKEN_SPENT:
    case DELTA_TOKEN_REVOKED: return token_apply(s, e, f);
    case DELTA_COUNTED:
    case DELTA_LIMIT_PLACED:
    case DELTA_LIMIT_COUNTED: return apply_counted(s, e, f);
    case DELTA_REVIEW_OPENED_PLAIN:
    case DELTA_REVIEW_OPENED_PROVEN:
    case DELTA_REVIEW_OPENED: return apply_opened(s, e, event, f);
    case DELTA_REVIEW_TRACED: return apply_traced(s, e, f);
    case DELTA_REVIEW_VOTED_PLAIN:
    case DELTA_REVIEW_VOTED_PERSON:
    case DELTA_REVIEW_VOTED: return apply_voted(s, e, f);
    case DELTA_REVIEW_MOVED_PLAIN:
    case DELTA_REVIEW_MOVED: return apply_moved(s, e, event, f);
    case DELTA_ACTOR_SUSPENDED: return apply_suspended(s, e, f);
    case DELTA_ACTOR_RESUMED: return apply_resumed(s, e, f);
    case DELTA_SIGNER_ROTATED: return signer_apply(s, e, f);
    case DELTA_RETRY_KEPT: return retry_apply(s, e, event, f);
    }
    return damaged(f, "an entry has a kind that this version does not know");
}

/* ---- save ---- */

static void put_review(struct buf *out, const struct review *r)
{
    const struct review_facts *f = &r->facts;
    save_begin(out, SHARD_REVIEWS, slot_of_id(f->id), str_of((const char *)f->id.bytes, ID_BYTES));
    put_sized(out, f->item);
    put_sized(out, f->redemption);
    const size_t moved = f->state == REVIEW_PENDING ? 0 : 1,
                 own_trace = str_is_absent(f->trace_id) ? 0 : 1;
    put_u16(out, (unsigned)(1 + moved + f->approval_count + r->trace_count - own_trace));
    delta_put_opened(out, f);
    if (f->state != REVIEW_PENDING) delta_put_moved(out, f);
    for (size_t i = 0; i < f->approval_count; i++) delta_put_voted(out, f->id, &r->votes[i]);
}

/* Oldest first, without the id that it was opened with, which is the last of the list. */
static void put_traces(struct buf *out, const struct review *r)
{
    const struct review_trace *newest_first[REVIEW_TRACES_MAX];
    size_t count = 0;
    for (const struct review_trace *k = r->traces; k != NULL; k = k->of_review) {
        check(count < REVIEW_TRACES_MAX);
        if (k != &r->trace) newest_first[count++] = k;
    }
    while (count > 0) delta_put_traced(out, r->facts.id, review_trace_id(newest_first[--count]));
}

static enum err save_review(struct buf *out, const struct review *r,
                            enum err (*put)(void *context, struct str entry), void *context)
{
    review_check(r);
    put_review(out, r);
    put_traces(out, r);
    return out->overflow ? ERR_FULL : put(context, buf_view(out));
}

/* In the order of their ordinals: loading in that order searches least. */
static enum err save_order(const struct order *o, struct buf *out,
                           enum err (*put)(void *context, struct str entry), void *context)
{
    struct order_cursor at = order_after(o, 0);
    enum err err = ERR_OK;
    for (const struct order_place *place; err == ERR_OK && (place = order_next(o, &at)) != NULL;)
        err = save_review(out, place->item, put, context);
    return err;
}

/* Ended reviews come last and oldest first, so that they are loaded in the order in which they are
 * dropped. */
static enum err save_reviews(const struct shard *s, struct buf *out,
                             enum err (*put)(void *context, struct str entry), void *context)
{
    size_t at = 0;
    struct str key;
    void *value;
    enum err err = ERR_OK;
    while (err == ERR_OK && map_next(&s->reviews.tenants, &at, &key, &value)) {
        const struct review_tenant *n = value;
        err = save_order(&n->states[REVIEW_PENDING], out, put, context);
        if (err == ERR_OK) err = save_order(&n->states[REVIEW_APPROVED], out, put, context);
    }
    const struct list *ended = &s->reviews.ended;
    for (const struct link *k = ended->head.next; err == ERR_OK && k != &ended->head; k = k->next)
        err = save_review(out, link_owner(k, struct review, ended), put, context);
    return err;
}

static enum err save_counters(const struct shard *s, struct buf *out,
                              enum err (*put)(void *context, struct str entry), void *context)
{
    enum err err = ERR_OK;
    size_t cursor = 0;
    for (const struct counter *c = NULL;
         err == ERR_OK && (c = limit_table_next(&s->limits, &cursor, c)) != NULL;) {
        char body[COUNTER_BYTES_MAX];
        struct buf b = buf_over(body, sizeof body);
        counter_put(&s->limits, c, &b);
        check(!b.overflow && b.size >= COUNTER_NAME_BYTES);
        check(shard_owns(s, slot_of_key(c->key)));
        size_t named = c->is_old ? SLOT_KEY_BYTES : COUNTER_NAME_BYTES;
        save_begin(out, SHARD_COUNTERS, slot_of_key(c->key), str_of(body, named));
        buf_put(out, buf_view(&b));
        err = out->overflow ? ERR_FULL : put(context, buf_view(out));
    }
    return err;
}

static enum err save_actors(const struct shard *s, struct buf *out,
                            enum err (*put)(void *context, struct str entry), void *context)
{
    size_t at = 0;
    struct str key;
    void *value;
    enum err err = ERR_OK;
    while (err == ERR_OK && map_next(&s->actors.by_name, &at, &key, &value)) {
        const struct actor *a = value;
        actor_check(a);
        check(shard_owns(s, a->slot));
        save_begin(out, SHARD_ACTORS, a->slot, a->key);
        buf_put_byte(out, a->resumed_ms > 0 ? 2 : 1);
        delta_put_suspended(out, a->slot, &a->facts);
        if (a->resumed_ms > 0)
            delta_put_resumed(out, a->slot, a->facts.tenant, a->facts.actor, a->resumed_ms);
        err = out->overflow ? ERR_FULL : put(context, buf_view(out));
    }
    return err;
}

enum err shard_save(const struct shard *s, enum err (*put)(void *context, struct str entry),
                    void *context)
{
    struct buf out;
    buf_init(&out, 4 << 10, SHARD_ENTRY_BYTES_MAX);
    enum err err = token_save(s, &out, put, context);
    if (err == ERR_OK) err = save_counters(s, &out, put, context);
    if (err == ERR_OK) err = save_actors(s, &out, put, context);
    if (err == ERR_OK) err = save_reviews(s, &out, put, context);
    if (err == ERR_OK) err = signer_save(s, &out, put, context);
    if (err == ERR_OK) err = retry_save(s, &out, put, context);
    buf_fini(&out);
    return err;
}

/* ---- load ---- */

static bool has_entries(struct str rest, unsigned count)
{
    struct delta_entry e;
    enum err err = ERR_OK;
    while (delta_next(&rest, &e, &err)) {
        if (count == 0) return false;
        count--;
    }
    return err == ERR_OK && count == 0;
}

static enum err load_review_rest(struct shard *s, struct review *r, struct str rest)
{
    struct delta_entry e;
    enum err err = ERR_OK;
    while (delta_next(&rest, &e, &err)) {
        struct id id;
        struct review_vote vote;
        struct str trace_id;
        if (delta_votes(e.kind) && delta_read_voted(&e, &id, &vote)) {
            if (r->facts.approval_count == REVIEW_VOTES_MAX) return ERR_CORRUPT;
            err = review_vote(&s->reviews, r, &vote);
        } else if (e.kind == DELTA_REVIEW_TRACED && delta_read_traced(e.body, &id, &trace_id)) {
            err = review_trace_add(&s->reviews, r, trace_id);
        } else {
            return ERR_CORRUPT;
        }
        if (err != ERR_OK) break;
        if (memcmp(id.bytes, r->facts.id.bytes, ID_BYTES) != 0) return ERR_CORRUPT;
    }
    return err;
}

/* OPENED, and MOVED unless it is pending. */
static bool load_facts(struct str *rest, struct str redemption, struct review_facts *ret)
{
    struct delta_entry e;
    struct review_facts moved;
    enum err err = ERR_OK;
    if (!delta_next(rest, &e, &err) || !delta_read_opened(&e, ret)) return false;
    ret->state = REVIEW_PENDING;
    struct str behind = *rest;
    if (!delta_next(&behind, &e, &err) || !delta_moves_review(e.kind)) return err == ERR_OK;
    if (!delta_read_moved(&e, &moved) || memcmp(moved.id.bytes, ret->id.bytes, ID_BYTES) != 0)
        return false;
    if (moved.state == REVIEW_PENDING) return false;
    *rest = behind;
    ret->state = moved.state;
    ret->resolved_ms = moved.resolved_ms;
    ret->resolver = moved.resolver;
    ret->resolver_owner = moved.resolver_owner;
    ret->resolved_by = moved.resolved_by;
    ret->note = moved.note;
    ret->approval_expires_ms = moved.approval_expires_ms;
    ret->redeemed_ms = moved.redeemed_ms;
    ret->cancelled_by = moved.cancelled_by;
    ret->retry_key = moved.retry_key;
    ret->retry_body = moved.retry_body;
    ret->redemption = redemption;
    return true;
}

static enum err load_review(struct shard *s, const struct shard_entry *entry, struct str body,
                            struct fault *f)
{
    struct review_facts facts;
    struct review *r;
    struct str item, redemption;
    if (!take_sized(&body, &item) || !take_sized(&body, &redemption) || body.size < 2)
        return damaged(f, "a saved review is damaged");
    unsigned count = u16_at(body.bytes);
    body = str_skip(body, 2);
    if (!has_entries(body, count) || !load_facts(&body, redemption, &facts))
        return damaged(f, "a saved review is damaged");
    if (slot_of_id(facts.id) != entry->slot)
        return damaged(f, "a saved review is in the wrong slot");
    facts.item = item;
    enum err err = review_open(&s->reviews, &facts, &r);
    if (err != ERR_OK)
        return settled(err, f, "a saved review occurs twice, or its terms are damaged");
    err = load_review_rest(s, r, body);
    if (err != ERR_OK) {
        review_drop(&s->reviews, r);
        return settled(err, f, "a saved review's votes or trace ids are damaged");
    }
    review_check(r);
    return ERR_OK;
}

static enum err load_actor(struct shard *s, const struct shard_entry *entry, struct str body,
                           struct fault *f)
{
    struct delta_entry suspended, resumed;
    struct actor_facts facts;
    struct str tenant, name;
    uint64_t at_ms = 0;
    enum err err = ERR_OK;
    const unsigned count = body.size > 0 ? (uint8_t)body.bytes[0] : 0;
    if (body.size > 0) body = str_skip(body, 1);
    if (!has_entries(body, count)) return damaged(f, "a saved actor is damaged");
    if (!delta_next(&body, &suspended, &err) || suspended.kind != DELTA_ACTOR_SUSPENDED ||
        suspended.slot != entry->slot || !delta_read_suspended(suspended.body, &facts))
        return damaged(f, "a saved actor is damaged");
    bool was_resumed = delta_next(&body, &resumed, &err);
    if (err != ERR_OK || body.size > 0) return damaged(f, "a saved actor is damaged");
    if (was_resumed && (resumed.kind != DELTA_ACTOR_RESUMED ||
                        !delta_read_resumed(resumed.body, &tenant, &name, &at_ms) ||
                        !str_equal(tenant, facts.tenant) || !str_equal(name, facts.actor)))
        return damaged(f, "a saved actor is damaged");
    if (actor_find(&s->actors, facts.tenant, facts.actor) != NULL)
        return damaged(f, "a saved actor occurs twice");
    err = apply_suspended(s, &suspended, f);
    if (err == ERR_OK && was_resumed)
        actor_resume(&s->actors, actor_find(&s->actors, facts.tenant, facts.actor), at_ms);
    return err;
}

static enum err load_counter(struct shard *s, const struct shard_entry *entry, struct str body,
                             struct fault *f)
{
    struct slot_key key;
    bool is_named =
        (entry->key.size == sizeof key.bytes || entry->key.size == COUNTER_NAME_BYTES) &&
        str_starts(body, entry->key);
    if (is_named) memcpy(key.bytes, entry->key.bytes, sizeof key.bytes);
    if (!is_named || slot_of_key(key) != entry->slot)
        return damaged(f, "a saved counter does not match the key of its entry");
    return settled(counter_load(&s->limits, body), f,
                   "a saved counter is damaged, or occurs twice");
}

enum err shard_load(struct shard *s, struct str entry, struct fault *f)
{
    struct shard_entry head;
    struct str body;
    if (!read_head(entry, &head, &body)) return damaged(f, "a saved entry has no readable head");
    if (!shard_owns(s, head.slot)) return ERR_OK;
    switch (head.object) {
    case SHARD_TOKENS: return token_load(s, &head, body, f);
    case SHARD_COUNTERS: return load_counter(s, &head, body, f);
    case SHARD_REVIEWS: return load_review(s, &head, body, f);
    case SHARD_ACTORS: return load_actor(s, &head, body, f);
    case SHARD_SIGNERS: return signer_load(s, &head, body, f);
    case SHARD_RETRIES: return retry_load(s, &head, body, f);
    case SHARD_OBJECTS: break;
    }
    return damaged(f, "a saved entry has a kind that this version does not know");
}

/* ---- after recovery ---- */

bool shard_notice_of(const struct shard *s, const struct delta_entry *e, struct effect_notice *ret)
{
    struct actor_facts facts;
    *ret = (struct effect_notice){.kind = NOTICE_SIGNER_ROTATED};
    if (e->kind == DELTA_SIGNER_ROTATED) return true;
    if (e->kind == DELTA_TOKEN_REVOKED) {
        ret->kind = NOTICE_TOKEN_REVOKED;
        if (!delta_read_revoked(e->body, &ret->token, &ret->at_ms)) return false;
        const struct token *k = token_find(&s->tokens, ret->token);
        if (k != NULL) ret->expires_ms = k->expires_ms;
        return k != NULL; /* what is forgotten has expired */
    }
    if (e->kind == DELTA_ACTOR_SUSPENDED) {
        ret->kind = NOTICE_ACTOR_SUSPENDED;
        if (!delta_read_suspended(e->body, &facts)) return false;
        ret->tenant = facts.tenant;
        ret->actor = facts.actor;
        ret->at_ms = facts.suspended_ms;
        return true;
    }
    ret->kind = NOTICE_ACTOR_RESUMED;
    return e->kind == DELTA_ACTOR_RESUMED &&
           delta_read_resumed(e->body, &ret->tenant, &ret->actor, &ret->at_ms);
}

void shard_notices(const struct shard *s,
                   void (*each)(void *context, const struct effect_notice *n), void *context)
{
    size_t at = 0;
    struct str key;
    void *value;
    token_notices(s, each, context);
    while (map_next(&s->actors.by_name, &at, &key, &value)) {
        const struct actor *a = value;
        struct effect_notice n = {.kind = NOTICE_ACTOR_SUSPENDED,
                                  .tenant = a->facts.tenant,
                                  .actor = a->facts.actor,
                                  .at_ms = a->facts.suspended_ms};
        each(context, &n);
        if (a->resumed_ms == 0) continue;
        n.kind = NOTICE_ACTOR_RESUMED;
        n.at_ms = a->resumed_ms;
        each(context, &n);
    }
}

enum err shard_own_counter(struct shard *s, const struct limit_request *ask)
{
    return limit_table_own(&s->limits, ask);
}

void shard_count_more(struct shard *s, const struct limit_request *ask, uint64_t stamp_ms,
                      uint64_t requests)
{
    limit_count_more(&s->limits, ask, stamp_ms, requests);
}

void shard_hold_limits(struct shard *s, const struct limit_windows *windows)
{
    s->limits.windows = windows;
}

void shard_old_limits(const struct shard *s,
                      void (*each)(void *context, const struct limit_request *ask,
                                   uint64_t newest_ms),
                      void *context)
{
    size_t cursor = 0;
    for (const struct counter *c = NULL; (c = limit_table_next(&s->limits, &cursor, c)) != NULL;) {
        struct limit_request ask = {.key = c->key, .is_old = true, .window_ms = c->window_ms};
        if (c->is_old) each(context, &ask, limit_bucket_begin_ms(c->head + 1, c->window_ms));
    }
}

void shard_prune(struct shard *s, uint64_t now_ms)
{
    while (token_table_prune(&s->tokens, now_ms, SIZE_MAX)) continue;
    limit_table_prune(&s->limits, now_ms, SIZE_MAX);
    actor_table_prune(&s->actors, now_ms);
    review_table_prune(&s->reviews, now_ms, SIZE_MAX);
    signer_prune(&s->signers, now_ms);
    while (retry_table_prune(&s->retries, now_ms, SIZE_MAX)) continue;
    token_table_check(&s->tokens);
    review_table_check(&s->reviews);
}

void shard_close_open(struct shard *s, uint64_t now_ms, uint64_t *ret_tokens, uint64_t *ret_reviews)
{
    size_t at = 0;
    struct str key;
    void *value;
    *ret_tokens = token_close_counted(s, now_ms);
    *ret_reviews = 0;
    while (map_next(&s->reviews.by_id, &at, &key, &value)) {
        struct review *r = value;
        if (review_state_is_end(r->facts.state)) continue;
        review_end_by(&s->reviews, r, now_ms);
        review_check(r);
        ++*ret_reviews;
    }
    check(*ret_reviews <= s->reviews.shares.all.count);
    review_table_check(&s->reviews);
}
