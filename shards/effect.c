/* effect.c - the list of actions that a step requests, and the bytes of its records. */
#include "base/check.h"
#include "shards/inside.h"

void effects_reset(struct effects *e)
{
    struct arena *arena = e->arena;
    arena_reset(arena);
    *e = (struct effects){.arena = arena};
    e->woken_tail = &e->woken;
}

void effects_check(const struct effects *e)
{
    check(e->record_count <= EFFECT_RECORDS_MAX);
    check(e->notice_count <= EFFECT_NOTICES_MAX);
    check(*e->woken_tail == NULL);
    check(e->reveals_unsynced == (e->reveals_block > 0));
    check(e->again || !e->pauses);
}

void effects_pause(struct effects *e) { e->again = e->pauses = true; }

void effects_record(struct effects *e, struct str event, struct str delta)
{
    check(e->record_count < EFFECT_RECORDS_MAX);
    check(event.size > 0 && event.size <= LIMIT_EVENT_BYTES && delta.size <= LIMIT_DELTA_BYTES);
    e->records[e->record_count++] = (struct effect_record){.event = event, .delta = delta};
}

void effects_notice(struct effects *e, const struct effect_notice *n)
{
    check(e->notice_count < EFFECT_NOTICES_MAX);
    e->notices[e->notice_count++] = *n;
}

void effects_wake(struct effects *e, struct call *c)
{
    check(!c->answered && c->previous == NULL);
    c->answered = true;
    c->next = NULL;
    *e->woken_tail = c;
    e->woken_tail = &c->next;
    effects_check(e);
}

void effects_reveal(struct effects *e, uint64_t block)
{
    if (block == 0) return;
    e->reveals_unsynced = true;
    if (block > e->reveals_block) e->reveals_block = block;
    effects_check(e);
}

struct buf effects_buf(struct effects *e, size_t most)
{
    char *bytes = arena_bytes(e->arena, most);
    return buf_over(bytes, bytes == NULL ? 0 : most);
}

struct str effects_take(struct effects *e, struct buf *b, size_t most)
{
    if (b->bytes == NULL) return (struct str){0};
    arena_trim(e->arena, b->bytes, most, b->overflow ? 0 : b->size);
    return b->overflow ? (struct str){0} : buf_view(b);
}
