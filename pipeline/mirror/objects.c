/* objects.c - one slot's objects as fields of Redis hashes, and back.
 *
 *   tokens    tok_…                  image, or the entry that minted it
 *             tok_…:spent            uses spent since (HINCRBY)
 *             tok_…:revoked          the entry that revoked it
 *   reviews   rev_…                  image, or the entry that opened it
 *             rev_…:<seq>.<n>        what happened to it since, in the order of these names
 *   counters  <key>                  image
 *             <key>:=<window>:<from>  requests counted in the bucket that begins at `from` (HINCRBY)
 *             <key>:=<window>:<from>+sum  their amounts, in millionths (HINCRBY); `+` sorts before digits
 *             <key>:by               whose place it takes (`P`, the key's id, the tenant)
 *             <key>:<window>:…       the same by a key that holds the window, as it was made before
 *   actors    <tenant NUL actor>     image, or the entry that suspended it
 *             …NUL resumed           the entry that resumed it
 *
 * An image is what shard_save() gave (`I` and its bytes), an entry is the journal's (`D`, the
 * delta entry, then the public bytes where the entry needs them). Taking a slot is: images, then
 * entries that begin an object, then all the rest in order; the shard itself does the replaying.
 * Only reviews are taken one by one, first those that are over: only then may the same request
 * have another, which is pending. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/little.h"
#include "pipeline/mirror/slots.h"

enum { ENTRY_HEADER_BYTES = 7, NAME_BYTES_MAX = 160 };

/* ---- delta → operations ---- */

static struct str since(const struct buf *b, size_t from)
{
    return str_of(b->bytes + from, b->size - from);
}

static void put_entry(struct buf *out, const struct delta_entry *e, struct str event)
{
    char header[1 + ENTRY_HEADER_BYTES] = {FIELD_DELTA, (char)e->kind};
    little_put16(header + 2, (uint16_t)e->slot);
    little_put32(header + 4, (uint32_t)e->body.size);
    buf_put(out, str_of(header, sizeof header));
    buf_put(out, e->body);
    buf_put(out, event);
}

static void put_id(struct buf *out, const char prefix[4], struct id id)
{
    char text[ID_TEXT];
    id_write(prefix, id, text);
    buf_put(out, str_of(text, ID_TEXT));
}

size_t slot_ops_most(const struct delta_entry *e, struct str event)
{
    return 3 * (NAME_BYTES_MAX + e->body.size) + ENTRY_HEADER_BYTES + 2 + event.size;
}

static struct slot_op set_op(enum shard_object object, struct buf *out, struct str field,
                             const struct delta_entry *e, struct str event)
{
    size_t from = out->size;
    put_entry(out, e, event);
    return (struct slot_op){
        .code = 'S', .object = object, .field = field, .value = since(out, from)};
}

static struct slot_op add_op(enum shard_object object, struct buf *out, struct str field,
                             uint64_t by)
{
    size_t from = out->size;
    buf_put_u64(out, by);
    return (struct slot_op){
        .code = 'I', .object = object, .field = field, .value = since(out, from)};
}

static bool token_ops(const struct delta_entry *e, struct buf *out, struct slot_op *ret)
{
    struct token_facts facts;
    struct retry retry;
    struct id id;
    uint32_t uses;
    uint64_t at_ms;
    size_t from = out->size;
    if (e->kind == DELTA_TOKEN_MINTED) {
        if (!delta_read_minted(e->body, &facts, &retry)) return false;
        put_id(out, "tok_", facts.id);
        *ret = set_op(SHARD_TOKENS, out, since(out, from), e, (struct str){0});
    } else if (e->kind == DELTA_TOKEN_SPENT) {
        if (!delta_read_spent(e->body, &id, &uses)) return false;
        put_id(out, "tok_", id);
        buf_put_literal(out, ":spent");
        *ret = add_op(SHARD_TOKENS, out, since(out, from), uses);
    } else {
        if (!delta_read_revoked(e->body, &id, &at_ms)) return false;
        put_id(out, "tok_", id);
        buf_put_literal(out, ":revoked");
        *ret = set_op(SHARD_TOKENS, out, since(out, from), e, (struct str){0});
    }
    return true;
}

static bool review_id_of(const struct delta_entry *e, struct id *ret)
{
    struct review_facts facts;
    struct review_vote vote;
    struct str trace_id;
    if (e->kind == DELTA_REVIEW_TRACED) return delta_read_traced(e->body, ret, &trace_id);
    if (delta_votes(e->kind)) return delta_read_voted(e, ret, &vote);
    bool opened = delta_opens_review(e->kind) && delta_read_opened(e, &facts);
    bool moved = delta_moves_review(e->kind) && delta_read_moved(e, &facts);
    if (opened || moved) *ret = facts.id;
    return opened || moved;
}

static bool review_op(const struct delta_entry *e, uint64_t seq, unsigned index, struct str event,
                      struct buf *out, struct slot_op *ret)
{
    struct id id;
    size_t from = out->size;
    if (!review_id_of(e, &id)) return false;
    put_id(out, "rev_", id);
    bool opens = delta_opens_review(e->kind);
    if (!opens) buf_printf(out, ":%016" PRIx64 ".%04x", seq, index);
    bool needs_event = opens || delta_moves_review(e->kind);
    *ret = set_op(SHARD_REVIEWS, out, since(out, from), e, needs_event ? event : (struct str){0});
    return true;
}

/* Behind the buckets, as `b` sorts behind `=`. */
static struct slot_op place_op(const struct limit_request *ask, struct buf *out)
{
    size_t from = out->size;
    buf_put_hex(out, ask->key.bytes, SLOT_KEY_BYTES);
    buf_put_literal(out, ":by");
    struct str field = since(out, from);
    from = out->size;
    buf_put_byte(out, FIELD_PLACE);
    buf_put(out, str_of((const char *)ask->asker.bytes, ID_BYTES));
    buf_put(out, ask->tenant);
    return (struct slot_op){
        .code = 'S', .object = SHARD_COUNTERS, .field = field, .value = since(out, from)};
}

static bool counter_ops(const struct delta_entry *e, struct buf *out,
                        struct slot_op ops[SLOT_OPS_MAX], size_t *ret_count)
{
    struct limit_request ask;
    struct limit_told told;
    if (!delta_read_counted(e, &ask, &told)) return false;
    uint64_t from_ms =
        limit_bucket_begin_ms(limit_bucket(told.stamp_ms, ask.window_ms), ask.window_ms);
    size_t from = out->size;
    buf_put_hex(out, ask.key.bytes, SLOT_KEY_BYTES);
    buf_printf(out, ask.is_old ? ":%" PRIu64 ":%" PRIu64 : ":=%" PRIu64 ":%" PRIu64, ask.window_ms,
               from_ms);
    struct str field = since(out, from);
    ops[0] = add_op(SHARD_COUNTERS, out, field, 1);
    *ret_count = 1;
    if (ask.amount > 0) {
        from = out->size;
        buf_put(out, field);
        buf_put_literal(out, "+sum");
        ops[(*ret_count)++] = add_op(SHARD_COUNTERS, out, since(out, from), (uint64_t)ask.amount);
    }
    if (told.takes_place) ops[(*ret_count)++] = place_op(&ask, out);
    return true;
}

static void put_actor(struct buf *out, struct str tenant, struct str actor)
{
    buf_put(out, tenant);
    buf_put_byte(out, '\0');
    buf_put(out, actor);
}

static bool actor_ops(const struct delta_entry *e, struct buf *out,
                      struct slot_op ops[SLOT_OPS_MAX], size_t *ret_count)
{
    struct actor_facts facts;
    uint64_t at_ms;
    size_t from = out->size;
    bool suspends = e->kind == DELTA_ACTOR_SUSPENDED;
    if (!(suspends ? delta_read_suspended(e->body, &facts)
                   : delta_read_resumed(e->body, &facts.tenant, &facts.actor, &at_ms)))
        return false;
    put_actor(out, facts.tenant, facts.actor);
    struct str base = since(out, from);
    from = out->size;
    put_actor(out, facts.tenant, facts.actor);
    buf_put(out, str_of("\0resumed", 8));
    struct str resumed = since(out, from);
    ops[0] = set_op(SHARD_ACTORS, out, suspends ? base : resumed, e, (struct str){0});
    ops[1] =
        (struct slot_op){.code = 'D', .object = SHARD_ACTORS, .field = resumed, .value = STR("")};
    *ret_count = suspends ? 2 : 1;
    return true;
}

enum err slot_ops(const struct delta_entry *e, uint64_t seq, unsigned index, struct str event,
                  struct buf *out, struct slot_op ops[SLOT_OPS_MAX], size_t *ret_count)
{
    bool ok = false;
    *ret_count = 1;
    switch (e->kind) {
    case DELTA_TOKEN_MINTED:
    case DELTA_TOKEN_SPENT:
    case DELTA_TOKEN_REVOKED: ok = token_ops(e, out, &ops[0]); break;
    case DELTA_COUNTED:
    case DELTA_LIMIT_PLACED:
    case DELTA_LIMIT_COUNTED: ok = counter_ops(e, out, ops, ret_count); break;
    case DELTA_REVIEW_OPENED_PLAIN:
    case DELTA_REVIEW_OPENED_PROVEN:
    case DELTA_REVIEW_OPENED:
    case DELTA_REVIEW_TRACED:
    case DELTA_REVIEW_VOTED_PLAIN:
    case DELTA_REVIEW_VOTED_PERSON:
    case DELTA_REVIEW_VOTED:
    case DELTA_REVIEW_MOVED_PLAIN:
    case DELTA_REVIEW_MOVED: ok = review_op(e, seq, index, event, out, &ops[0]); break;
    case DELTA_ACTOR_SUSPENDED:
    case DELTA_ACTOR_RESUMED: ok = actor_ops(e, out, ops, ret_count); break;
    case DELTA_SIGNER_ROTATED:
    case DELTA_RETRY_KEPT: /* ten minutes are over when a lost disk is replaced */
        *ret_count = 0;
        ok = true;
        break;
    }
    check(!out->overflow);
    return ok ? ERR_OK : ERR_CORRUPT;
}

void slot_field_put(struct buf *out, const struct shard_entry *e)
{
    struct id id;
    switch (e->object) {
    case SHARD_TOKENS:
    case SHARD_REVIEWS:
        check(e->key.size == ID_BYTES);
        memcpy(id.bytes, e->key.bytes, ID_BYTES);
        put_id(out, e->object == SHARD_TOKENS ? "tok_" : "rev_", id);
        break;
    case SHARD_COUNTERS: buf_put_hex(out, (const uint8_t *)e->key.bytes, e->key.size); break;
    case SHARD_ACTORS: buf_put(out, e->key); break;
    case SHARD_SIGNERS:
    case SHARD_RETRIES:
    case SHARD_OBJECTS: check(false);
    }
}

/* ---- fields → shard ---- */

struct field { /* copies: the reply is gone when all are there */
    struct str name, value;
};

struct taking {
    struct arena arena;
    struct field *fields[SHARD_MIRRORED];
    size_t counts[SHARD_MIRRORED];
    enum shard_object object;
    bool failed;
    struct fault *fault;
};

enum { TAKE_ARENA_BYTES = 1 << 20 };
static const size_t take_arena_most = (size_t)4 << 30;
static const struct redis_bounds bounds_of_hash = {LIMIT_REDIS_HASH_ELEMENTS,
                                                   LIMIT_REDIS_FIELD_BYTES, (size_t)4 << 30};

struct take_part {
    struct taking *taking;
    enum shard_object object;
};

static void took(void *context, const struct redis_value *v)
{
    struct take_part *p = context;
    struct taking *t = p->taking;
    if (v == NULL || v->kind != REDIS_LIST || v->count % 2 != 0) {
        t->failed = true;
        if (v != NULL && v->kind == REDIS_ERROR)
            (void)fault_set(t->fault, ERR_STORE_UNAVAILABLE, "", "Redis cannot be read: %.*s",
                            STR_FORMAT(v->text));
        return;
    }
    struct field *fields = arena_array(&t->arena, struct field, v->count / 2 + 1);
    for (size_t i = 0; fields != NULL && i < v->count / 2; i++) {
        fields[i].name = arena_copy(&t->arena, redis_value_at(v, 2 * i).text);
        fields[i].value = arena_copy(&t->arena, redis_value_at(v, 2 * i + 1).text);
    }
    t->failed = t->failed || t->arena.overflow;
    t->fields[p->object] = fields;
    t->counts[p->object] = v->count / 2;
}

static int by_name(const void *a, const void *b)
{
    return str_compare(((const struct field *)a)->name, ((const struct field *)b)->name);
}

static enum err take_entry(struct shard *s, unsigned slot, struct str bytes, struct fault *f)
{
    struct delta_entry e;
    enum err err = ERR_OK;
    if (!delta_next(&bytes, &e, &err) || e.slot != slot)
        return fault_set(f, ERR_CORRUPT, "", "an entry is damaged");
    return shard_apply(s, &e, bytes, f);
}

static enum err apply_made(struct shard *s, struct buf *made, struct fault *f)
{
    struct str rest = buf_view(made);
    struct delta_entry e;
    enum err err = ERR_OK;
    check(!made->overflow && delta_next(&rest, &e, &err));
    return shard_apply(s, &e, (struct str){0}, f);
}

static bool hex_key(struct str text, struct slot_key *ret)
{
    return text.size == 2 * SLOT_KEY_BYTES && hex_read(text.bytes, ret->bytes, SLOT_KEY_BYTES);
}

static enum err take_spent(struct shard *s, const struct field *field, struct fault *f)
{
    struct id id;
    uint64_t uses;
    char bytes[256];
    struct buf made = buf_over(bytes, sizeof bytes);
    if (!id_read("tok_", str_of(field->name.bytes, ID_TEXT), &id) ||
        !str_to_u64(field->value, &uses) || uses > UINT32_MAX)
        return fault_set(f, ERR_CORRUPT, "", "a token's uses are damaged");
    delta_put_spent(&made, id, (uint32_t)uses);
    return apply_made(s, &made, f);
}

/* `requests` of one bucket; their amounts go with the first. */
static enum err take_bucket(struct shard *s, struct limit_request *ask, uint64_t from_ms,
                            uint64_t requests, int64_t sum, struct fault *f)
{
    struct limit_told told = {.counted = true, .stamp_ms = from_ms};
    char bytes[512];
    struct buf made = buf_over(bytes, sizeof bytes);
    if (requests == 0) return ERR_OK;
    ask->has_max = sum > 0;
    ask->amount = sum;
    delta_put_counted(&made, ask, &told);
    enum err err = apply_made(s, &made, f);
    if (err == ERR_OK) shard_count_more(s, ask, from_ms, requests - 1);
    return err;
}

/* `=` stands before that of a key which does not hold it. */
static bool read_window(struct str text, struct limit_request *ret)
{
    ret->is_old = !str_starts(text, STR("="));
    return str_to_u64(ret->is_old ? text : str_skip(text, 1), &ret->window_ms);
}

/* Whose place the counter takes. */
static enum err take_place(struct shard *s, const struct field *field, struct fault *f)
{
    struct limit_request ask = {0};
    struct str rest = field->name, key;
    if (!str_split(&rest, ':', &key) || !hex_key(key, &ask.key) || !str_equal(rest, STR("by")) ||
        field->value.size <= 1 + ID_BYTES)
        return fault_set(f, ERR_CORRUPT, "", "a counter's tenant and key are damaged");
    memcpy(ask.asker.bytes, field->value.bytes + 1, ID_BYTES);
    ask.tenant = str_skip(field->value, 1 + ID_BYTES);
    if (shard_own_counter(s, &ask) == ERR_OK) return ERR_OK;
    return fault_set(f, ERR_FULL, "", "there is not enough memory for the state");
}

/* Fields are sorted, so a bucket's sum is behind its requests. */
static enum err take_counted(struct shard *s, const struct field *field, const struct field *next,
                             struct fault *f)
{
    struct limit_request ask = {0};
    uint64_t from_ms, requests, sum = 0;
    struct str rest = field->name, key, window, from;
    if (!str_split(&rest, ':', &key) || !str_split(&rest, ':', &window) ||
        !str_split(&rest, '+', &from) || !hex_key(key, &ask.key) || !read_window(window, &ask) ||
        !str_to_u64(from, &from_ms) || !str_to_u64(field->value, &requests))
        return fault_set(f, ERR_CORRUPT, "", "a counter is damaged");
    if (!str_is_absent(rest)) return ERR_OK; /* a sum: taken with its requests */
    bool has_sum = next != NULL && next->name.size == field->name.size + 4 &&
                   str_starts(next->name, field->name);
    if (has_sum && (!str_to_u64(next->value, &sum) || sum > INT64_MAX))
        return fault_set(f, ERR_CORRUPT, "", "a counter is damaged");
    return take_bucket(s, &ask, from_ms, requests, (int64_t)sum, f);
}

enum pass { PASS_IMAGES, PASS_BEGINNINGS, PASS_REST, PASSES };

static bool is_move(struct str value)
{
    return value.size > 1 && value.bytes[0] == FIELD_DELTA &&
           delta_moves_review((enum delta_kind)(uint8_t)value.bytes[1]);
}

/* Whether the review that the field is of is no longer pending. Its fields are side by side. */
static bool review_is_over(const struct field *fields, size_t count, size_t of)
{
    struct str id = fields[of].name;
    size_t i = of;
    if (id.size > ID_TEXT) id.size = ID_TEXT;
    while (i > 0 && str_starts(fields[i - 1].name, id)) i--;
    while (i < count && str_starts(fields[i].name, id) && !is_move(fields[i].value)) i++;
    return i < count && str_starts(fields[i].name, id);
}

/* Which pass a field belongs to. */
static enum pass pass_of(const struct taking *t, size_t i)
{
    const struct field *field = &t->fields[t->object][i];
    if (field->value.size > 0 && field->value.bytes[0] == FIELD_IMAGE) return PASS_IMAGES;
    if (t->object == SHARD_TOKENS) return field->name.size == ID_TEXT ? PASS_BEGINNINGS : PASS_REST;
    if (t->object == SHARD_REVIEWS)
        return review_is_over(t->fields[SHARD_REVIEWS], t->counts[SHARD_REVIEWS], i)
                   ? PASS_BEGINNINGS
                   : PASS_REST;
    if (t->object == SHARD_COUNTERS) return PASS_REST;
    size_t nul = str_find(field->name, '\0');
    bool resumed = nul < field->name.size &&
                   str_find(str_skip(field->name, nul + 1), '\0') < field->name.size - nul - 1;
    return resumed ? PASS_REST : PASS_BEGINNINGS;
}

static enum err take_field(struct taking *t, size_t i, unsigned slot, struct shard *s,
                           struct fault *f)
{
    const struct field *field = &t->fields[t->object][i];
    struct str value = field->value;
    char kind = value.size > 0 ? value.bytes[0] : '\0';
    if (kind == FIELD_IMAGE) return shard_load(s, str_skip(value, 1), f);
    if (kind == FIELD_PLACE && t->object == SHARD_COUNTERS) return take_place(s, field, f);
    if (kind == FIELD_DELTA) return take_entry(s, slot, str_skip(value, 1), f);
    if (t->object == SHARD_TOKENS && field->name.size > ID_TEXT) return take_spent(s, field, f);
    if (t->object == SHARD_COUNTERS)
        return take_counted(s, field, i + 1 < t->counts[SHARD_COUNTERS] ? field + 1 : NULL, f);
    return fault_set(f, ERR_CORRUPT, "", "a field's value is damaged");
}

static enum err take_all(struct taking *t, unsigned slot, struct shard *s, struct fault *f)
{
    struct fault why = {.err = ERR_OK};
    for (unsigned pass = 0; pass < PASSES; pass++) {
        for (unsigned object = 0; object < SHARD_MIRRORED; object++) {
            t->object = (enum shard_object)object;
            for (size_t i = 0; i < t->counts[object]; i++) {
                if (pass_of(t, i) != pass) continue;
                enum err err = take_field(t, i, slot, s, &why);
                if (err != ERR_OK)
                    return fault_set(f, err, "", "slot %u of Redis cannot be taken: %s", slot,
                                     why.text);
            }
        }
    }
    return ERR_OK;
}

enum err slot_take(struct redis_link *l, unsigned slot, struct shard *into, uint64_t *ret_fields,
                   struct fault *f)
{
    struct taking t = {.fault = f};
    struct take_part parts[SHARD_MIRRORED];
    arena_init(&t.arena, TAKE_ARENA_BYTES, take_arena_most);
    (void)fault_set(f, ERR_STORE_UNAVAILABLE, "", "slot %u of Redis cannot be read", slot);
    redis_link_expect(l, &bounds_of_hash);
    for (unsigned i = 0; i < SHARD_MIRRORED; i++) {
        char name[REDIS_KEY_TEXT];
        struct str arguments[2] = {STR("HGETALL"), redis_key_put(slot, SLOT_HASH + i, name)};
        parts[i] = (struct take_part){.taking = &t, .object = (enum shard_object)i};
        redis_link_send(l, arguments, 2, took, &parts[i]);
    }
    bool up = redis_link_await(l, 0);
    redis_link_expect(l, &redis_bounds_usual);
    if (!up)
        (void)fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis was lost while slot %u was read: %s",
                        slot, redis_link_why(l));
    enum err err = up && !t.failed ? ERR_OK : ERR_STORE_UNAVAILABLE;
    *ret_fields = 0;
    for (unsigned i = 0; err == ERR_OK && i < SHARD_MIRRORED; i++) {
        *ret_fields += t.counts[i];
        if (t.counts[i] > 1) qsort(t.fields[i], t.counts[i], sizeof *t.fields[i], by_name);
    }
    if (err == ERR_OK) err = take_all(&t, slot, into, f);
    arena_fini(&t.arena);
    return err;
}
