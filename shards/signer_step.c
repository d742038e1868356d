/* signer_step.c - rotates signing keys, on request and by time; apply, save, load.
 *
 *   saved rotations   least (4), then a delta entry ROTATED each */
#include "base/check.h"
#include "shards/inside.h"
#include "shards/save.h"

/* ---- the table ---- */

void signer_check(const struct signer_table *t)
{
    const struct signer_rotation *list = t->list;
    check(t->count <= SIGNER_ROTATIONS_MAX);
    check(t->count == 0 || list[t->count - 1].number > 0);
    check(t->count < 2 || list[t->count - 2].number < list[t->count - 1].number);
}

struct signer_rotation signer_next(const struct signer_table *t, uint64_t now_ms, bool at_once,
                                   const uint8_t salt[SIGNER_SALT_BYTES])
{
    uint32_t number = (uint32_t)(now_ms / 1000);
    if (t->count > 0 && t->list[t->count - 1].number >= number)
        number = t->list[t->count - 1].number + 1;
    struct signer_rotation r = {.number = number,
                                .active_ms = at_once ? now_ms : now_ms + SIGNER_LEAD_MS,
                                .ends_older = at_once};
    memcpy(r.salt, salt, sizeof r.salt);
    check(t->count == 0 || r.number > t->list[t->count - 1].number);
    return r;
}

bool signer_add(struct signer_table *t, const struct signer_rotation *r)
{
    if (t->count > 0 && t->list[t->count - 1].number >= r->number) return false;
    if (r->ends_older) {
        t->count = 0;
        t->least = r->number;
    }
    if (t->count == SIGNER_ROTATIONS_MAX) return false;
    t->list[t->count++] = *r;
    signer_check(t);
    return true;
}

/* The next rotation took over no earlier than its own active_ms, even if the clock went back. */
static bool is_over(const struct signer_table *t, uint64_t now_ms)
{
    if (t->count < 2) return false;
    uint64_t own = t->list[0].active_ms, next = t->list[1].active_ms,
             since = next > own ? next : own;
    return now_ms >= since && now_ms - since >= SIGNER_OVERLAP_MS;
}

void signer_prune(struct signer_table *t, uint64_t now_ms)
{
    while (is_over(t, now_ms)) {
        t->count--;
        memmove(t->list, t->list + 1, t->count * sizeof *t->list);
    }
    signer_check(t);
}

uint64_t signer_due_ms(const struct signer_table *t)
{
    if (t->rotate_ms == 0 || t->count == 0) return UINT64_MAX;
    uint64_t due = t->list[t->count - 1].active_ms + t->rotate_ms;
    return due > SIGNER_LEAD_MS ? due - SIGNER_LEAD_MS : 0; /* verifiers see it before it signs */
}

/* ---- rotating ---- */

static struct str rotated_event(struct effects *e, const struct signer_rotation *r, struct id id,
                                uint64_t now_ms, const struct requester *by)
{
    char event_id[ID_TEXT];
    id_write("evt_", id, event_id);
    struct event happened = {.event_id = str_of(event_id, ID_TEXT),
                             .kind = STR("signer.rotated"),
                             .tenant_id = STR("default"),
                             .timestamp = now_ms,
                             .count = r->number,
                             .has_count = true,
                             .reason = r->ends_older ? STR(SIGNER_REASON_AT_ONCE)
                                                     : STR(SIGNER_REASON_OVERLAP),
                             .engine_version = STR(WRIT_VERSION)};
    if (by != NULL) {
        happened.key_id = by->key_id;
        happened.resolved_by = by->owner;
    }
    struct buf out = effects_buf(e, EVENT_MOST_BYTES);
    event_put(&out, &happened);
    return effects_take(e, &out, EVENT_MOST_BYTES);
}

static enum err rotate(struct shard *s, const struct signer_rotation *r, struct str event,
                       struct effects *e)
{
    check(shard_owns(s, SIGNER_SLOT));
    struct buf out = effects_buf(e, DELTA_MOST_BYTES);
    delta_put_rotated(&out, r);
    struct str delta = effects_take(e, &out, DELTA_MOST_BYTES);
    if (event.size == 0 || delta.size == 0) return ERR_OVERLOADED;
    if (!signer_add(&s->signers, r)) return ERR_OVERLOADED;
    effects_record(e, event, delta);
    shard_note_block(s, &s->signers.block);
    return ERR_OK;
}

void signer_step(struct shard *s, struct call *c, struct effects *e)
{
    signer_prune(&s->signers, c->now_ms);
    struct signer_rotation r =
        signer_next(&s->signers, c->now_ms, c->rotate.at_once, c->rotate.salt);
    c->err = rotate(s, &r, rotated_event(e, &r, call_event_id(c), c->now_ms, &c->requester), e);
    c->rotate.made = r;
}

bool signer_tick(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *e)
{
    uint8_t salt[SIGNER_SALT_BYTES];
    if (!shard_owns(s, SIGNER_SLOT) || now_ms < signer_due_ms(&s->signers)) return false;
    chance_take(chance, salt, sizeof salt);
    struct signer_rotation r = signer_next(&s->signers, now_ms, false, salt);
    struct str event = rotated_event(e, &r, id_make(now_ms, chance), now_ms, NULL);
    if (rotate(s, &r, event, e) != ERR_OK) return false; /* the next due tick tries again */
    effects_notice(e, &(struct effect_notice){.kind = NOTICE_SIGNER_ROTATED});
    return true;
}

/* ---- apply, save, load ---- */

static enum err damaged(struct fault *f)
{
    return fault_set(f, ERR_CORRUPT, "", "a rotation of signing keys is damaged");
}

enum err signer_apply(struct shard *s, const struct delta_entry *e, struct fault *f)
{
    struct signer_rotation r;
    if (e->slot != SIGNER_SLOT || !delta_read_rotated(e->body, &r)) return damaged(f);
    signer_prune(&s->signers, r.active_ms > SIGNER_LEAD_MS ? r.active_ms - SIGNER_LEAD_MS : 0);
    return signer_add(&s->signers, &r) ? ERR_OK : damaged(f);
}

enum err signer_save(const struct shard *s, struct buf *out,
                     enum err (*put)(void *context, struct str entry), void *context)
{
    const struct signer_table *t = &s->signers;
    if (t->count == 0) return ERR_OK;
    signer_check(t);
    check(shard_owns(s, SIGNER_SLOT));
    save_begin(out, SHARD_SIGNERS, SIGNER_SLOT, (struct str){0});
    const char least[4] = {(char)t->least, (char)(t->least >> 8), (char)(t->least >> 16),
                           (char)(t->least >> 24)};
    buf_put(out, str_of(least, sizeof least));
    for (size_t i = 0; i < t->count; i++) delta_put_rotated(out, &t->list[i]);
    return out->overflow ? ERR_FULL : put(context, buf_view(out));
}

enum err signer_load(struct shard *s, const struct shard_entry *entry, struct str body,
                     struct fault *f)
{
    struct delta_entry e;
    enum err err = ERR_OK;
    if (entry->slot != SIGNER_SLOT || s->signers.count > 0 || body.size < 4) return damaged(f);
    const uint8_t *b = (const uint8_t *)body.bytes;
    uint32_t least =
        (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    body = str_skip(body, 4);
    while (delta_next(&body, &e, &err)) {
        struct signer_rotation r;
        if (e.kind != DELTA_SIGNER_ROTATED || !delta_read_rotated(e.body, &r) ||
            !signer_add(&s->signers, &r))
            return damaged(f);
    }
    s->signers.least = least;
    signer_check(&s->signers);
    return err == ERR_OK && s->signers.count > 0 ? ERR_OK : damaged(f);
}

const struct signer_table *shard_signers(const struct shard *s)
{
    return shard_owns(s, SIGNER_SLOT) ? &s->signers : NULL;
}
