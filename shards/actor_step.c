/* actor_step.c - the kill switch in the shard: suspend, resume, the list of suspended actors.
 *
 * Suspending is recorded at once and published to all reactors (a notice). Then the actor's pending
 * reviews are denied and its approvals are taken back, SUSPEND_DENIALS a step, and the call is
 * stepped again until none is left. If the process ends in between, the ticks after recovery end
 * the rest.
 *
 * Reviews that were requested under another spelling of the name are on other slots. Once every
 * reactor knows of the suspension, each shard is asked to deny its own, so that no new one follows.
 * No tick repeats this. If the process ends in between, the client has no answer, and repeats the
 * call. */
#include "base/check.h"
#include "base/planted.h"
#include "base/time.h"
#include "json/json.h"
#include "shards/inside.h"

/* ---- their records ---- */

/* A suspension that is taken over names the event of the person who suspended the actor, so that no
 * reader counts it as a new decision. */
static struct str previous_of(const struct call *c, struct buf *b)
{
    char since[TIME_TEXT];
    if (c->kind != CALL_SUSPEND || c->actor.since_ms == 0) return (struct str){0};
    time_write(c->actor.since_ms, since);
    buf_put_literal(b, "{\"event_id\":");
    json_put_string(b, c->actor.since_event);
    buf_put_literal(b, ",\"timestamp\":");
    json_put_plain(b, str_of(since, TIME_TEXT));
    buf_put_byte(b, '}');
    return b->overflow ? (struct str){0} : buf_view(b);
}

static struct str actor_event(struct call *c, struct effects *e, struct str kind, struct str reason)
{
    char event_id[ID_TEXT], previous[ESCAPE_GROWTH * NAME_BYTES_MAX + 128];
    struct buf previous_buf = buf_over(previous, sizeof previous);
    id_write("evt_", call_event_id(c), event_id);
    const struct event happened = {.event_id = str_of(event_id, ID_TEXT),
                                   .kind = kind,
                                   .tenant_id = c->tenant,
                                   .timestamp = c->now_ms,
                                   .actor = c->actor.actor,
                                   .previous = previous_of(c, &previous_buf),
                                   .reason = reason.size > 0 ? reason : (struct str){0},
                                   .resolved_by = c->requester.owner,
                                   .key_id = c->requester.key_id,
                                   .mode = STR("live"),
                                   .engine_version = STR(WRIT_VERSION)};
    const size_t most = EVENT_MOST_BYTES + ESCAPE_GROWTH * reason.size;
    struct buf out = effects_buf(e, most);
    event_put(&out, &happened);
    struct str text = effects_take(e, &out, most);
    return text.size > LIMIT_EVENT_BYTES ? (struct str){0} : text;
}

static void block(struct shard *s, struct actor *a)
{
    struct actor_tenant *n = actor_tenant_find(&s->actors, a->facts.tenant);
    check(n != NULL); /* it is, or was, on its tenant's list */
    shard_note_block(s, &a->block);
    shard_note_block(s, &n->block);
}

static void tell(struct effects *e, enum notice_kind kind, const struct actor *a, uint64_t at_ms)
{
    effects_notice(
        e, &(struct effect_notice){
               .kind = kind, .tenant = a->facts.tenant, .actor = a->facts.actor, .at_ms = at_ms});
}

/* The words about one actor have rising times, so that their order can be found without this
 * journal: the platform keeps the newest (src/store/suspension.h). */
static void after(struct call *c, uint64_t word_ms)
{
    if (c->now_ms <= word_ms) c->now_ms = word_ms + 1;
}

/* ---- suspend ---- */

/* No tenant may use up another tenant's kill switch: one tenant has half of the room at most. */
static bool has_room(const struct actor_table *t, struct str tenant)
{
    const struct actor_tenant *n = actor_tenant_find(t, tenant);
    return t->suspended < t->suspended_max &&
           (n == NULL || n->suspended.size < (t->suspended_max + 1) / 2);
}

static enum err suspend_admit(const struct shard *s, const struct call *c)
{
    /* The sender bounds what is taken over: it counts all of it, and not by shards. */
    if (c->actor.since_ms == 0 && !has_room(&s->actors, c->tenant)) return ERR_OVERLOADED;
    bool fits = c->actor.actor.size > 0 && c->actor.actor.size <= NAME_BYTES_MAX &&
                c->tenant.size > 0 && c->tenant.size <= NAME_BYTES_MAX &&
                c->requester.owner.size <= NAME_BYTES_MAX && c->actor.reason.size <= NOTE_BYTES_MAX;
    return fits ? ERR_OK : ERR_OUT_OF_RANGE;
}

static enum err suspend(struct shard *s, struct call *c, struct effects *e, struct actor **ret)
{
    enum err err = suspend_admit(s, c);
    if (err != ERR_OK) return err;
    if (*ret != NULL) after(c, (*ret)->resumed_ms);
    const struct actor_facts f = {.tenant = c->tenant,
                                  .actor = c->actor.actor,
                                  .reason = c->actor.reason,
                                  .by = c->requester.owner,
                                  .ordinal = c->actor.ordinal,
                                  .suspended_ms =
                                      c->actor.since_ms > 0 ? c->actor.since_ms : c->now_ms};
    const size_t most = DELTA_MOST_BYTES + f.reason.size;
    struct str event = actor_event(c, e, STR("actor.suspended"), f.reason);
    struct buf out = effects_buf(e, most);
    delta_put_suspended(&out, c->slot, &f);
    struct str delta = effects_take(e, &out, most);
    if (event.size == 0 || delta.size == 0) return ERR_OVERLOADED;
    if (delta.size > LIMIT_DELTA_BYTES) return ERR_OUT_OF_RANGE;
    if (actor_suspend(&s->actors, c->slot, &f, ret) != ERR_OK) return ERR_OVERLOADED;
    effects_record(e, event, delta);
    block(s, *ret);
    actor_check(*ret);
    check((*ret)->resumed_ms == 0);
    return ERR_OK;
}

/* Denies a pending review, and takes an approval back. `by`: the name that has suspended the
 * actor. */
static enum err deny(struct shard *s, struct review *r, struct str by, uint64_t now_ms,
                     struct id event, struct str key_id, struct effects *e)
{
    check(!r->facts.is_user && !review_state_is_end(r->facts.state));
    struct review_facts after = r->facts;
    bool is_approved = after.state == REVIEW_APPROVED;
    after.state = is_approved ? REVIEW_CANCELLED : REVIEW_DENIED;
    after.cancelled_by = is_approved ? REVIEW_BY_SUSPENSION : REVIEW_NOT_CANCELLED;
    after.resolved_ms = now_ms;
    after.resolver = after.resolver_owner = after.resolved_by = by;
    after.note = (struct str){0};
    const struct review_happening h = {.kind = is_approved ? STR("review.cancelled")
                                                           : STR("review.denied"),
                                       .event = event,
                                       .at_ms = now_ms,
                                       .key_id = key_id,
                                       .resolved_by = by,
                                       .rule = STR("actor:suspended")};
    return review_record_move(s, r, &after, &h, e);
}

static enum err deny_first(struct shard *s, struct review_subject *subject, struct str by,
                           uint64_t now_ms, struct id event, struct str key_id, struct effects *e)
{
    const struct list *list =
        list_is_empty(&subject->pending) ? &subject->approved : &subject->pending;
    struct review *r = link_owner(list->head.next, struct review, of_subject);
    check(!list_is_empty(list)); /* a subject without reviews is freed */
    return review_is_overdue(r, now_ms) ? review_expire(s, r, now_ms, event, e)
                                        : deny(s, r, by, now_ms, event, key_id, e);
}

enum err actor_deny_next(struct shard *s, struct actor *a, uint64_t now_ms, struct id event,
                         struct str key_id, struct effects *e)
{
    check(a->resumed_ms == 0);
    struct review_subject *subject =
        review_subject_find(&s->reviews, a->facts.tenant, false, a->facts.actor);
    if (subject == NULL) {
        link_remove(&a->to_deny);
        return ERR_END;
    }
    enum err err = deny_first(s, subject, a->facts.by, now_ms, event, key_id, e);
    if (err == ERR_OK) block(s, a); /* a reply that shows the suspension reveals this record, too */
    return err;
}

/* The result: since when, and why. The reason is that of the first suspension. */
static void answer_suspended(const struct actor *a, struct call *c, struct effects *e)
{
    check(!link_is_on(&a->to_deny)); /* none of its reviews is left */
    c->actor.suspended_ms = a->facts.suspended_ms;
    c->actor.reason = arena_copy(c->arena, a->facts.reason);
    effects_reveal(e, a->block);
}

static void suspend_step(struct shard *s, struct call *c, struct effects *e)
{
    struct actor *a = actor_find(&s->actors, c->tenant, c->actor.actor);
    /* An adopted state may have a resume that the platform does not have. */
    if (a != NULL && a->resumed_ms > 0 && a->resumed_ms >= c->actor.since_ms &&
        c->actor.since_ms > 0)
        return;
    if (a == NULL || a->resumed_ms > 0) c->err = suspend(s, c, e, &a);
    if (c->err != ERR_OK) return;
    /* Published each time: a repeated call is also answered only when all reactors know. */
    tell(e, NOTICE_ACTOR_SUSPENDED, a, a->facts.suspended_ms);
    for (unsigned i = 0; i < SUSPEND_DENIALS; i++) {
        enum err err = actor_deny_next(s, a, c->now_ms, call_event_id(c), c->requester.key_id, e);
        if (err == ERR_END) {
            answer_suspended(a, c, e);
            return;
        }
        if (err != ERR_OK) { /* no memory: it is suspended, and the ticks will deny the rest */
            c->err = ERR_OVERLOADED;
            return;
        }
    }
    e->again = true;
}

/* ---- other spellings ---- */

void actor_deny_spellings_step(struct shard *s, struct call *c, struct effects *e)
{
    const struct review_tenant *n = review_tenant_find(&s->reviews, c->tenant);
    for (unsigned i = 0; i < SUSPEND_DENIALS; i++) {
        struct review_subject *subject;
        enum err err = review_subject_spelled(&s->reviews, c->tenant, c->list.actor, &subject);
        if (err == ERR_NOT_FOUND || planted("spelling_left")) {
            if (n != NULL) effects_reveal(e, n->block);
            return;
        }
        if (err == ERR_OK)
            err = deny_first(s, subject, c->requester.owner, c->now_ms, call_event_id(c),
                             c->requester.key_id, e);
        if (err != ERR_OK) {
            c->err = ERR_OVERLOADED;
            return;
        }
    }
    e->again = true;
}

/* ---- resume ---- */

static void resume_step(struct shard *s, struct call *c, struct effects *e)
{
    struct actor *a = actor_find(&s->actors, c->tenant, c->actor.actor);
    if (a == NULL || a->resumed_ms > 0) {
        c->err = ERR_NOT_FOUND;
        if (a != NULL) effects_reveal(e, a->block);
        return;
    }
    if (c->actor.reason.size > NOTE_BYTES_MAX) {
        c->err = ERR_OUT_OF_RANGE;
        return;
    }
    after(c, a->facts.suspended_ms);
    struct str event = actor_event(c, e, STR("actor.resumed"), c->actor.reason);
    struct buf out = effects_buf(e, DELTA_MOST_BYTES);
    delta_put_resumed(&out, c->slot, c->tenant, c->actor.actor, c->now_ms);
    struct str delta = effects_take(e, &out, DELTA_MOST_BYTES);
    if (event.size == 0 || delta.size == 0 || delta.size > LIMIT_DELTA_BYTES) {
        c->err = ERR_OVERLOADED;
        return;
    }
    actor_resume(&s->actors, a, c->now_ms);
    effects_record(e, event, delta);
    block(s, a);
    tell(e, NOTICE_ACTOR_RESUMED, a, c->now_ms);
    check(a->resumed_ms > 0);
}

void actor_step(struct shard *s, struct call *c, struct effects *e)
{
    if (c->kind == CALL_SUSPEND)
        suspend_step(s, c, e);
    else
        resume_step(s, c, e);
}

/* ---- the list of suspended actors ---- */

void actor_list_step(struct shard *s, struct call *c, struct effects *e)
{
    const struct actor_tenant *n = actor_tenant_find(&s->actors, c->tenant);
    c->list.count = 0;
    c->list.total = n == NULL ? 0 : n->suspended.size;
    if (n == NULL) return;
    effects_reveal(e, n->block);
    size_t room = c->list.limit < c->list.total ? c->list.limit : (size_t)c->list.total;
    c->list.actors = arena_array(c->arena, struct actor_facts, room + 1);
    struct order_cursor at = order_after(&n->suspended, c->list.after);
    for (const struct order_place *place;
         c->list.count < room && (place = order_next(&n->suspended, &at)) != NULL;) {
        if (c->arena->overflow) break;
        const struct actor *a = place->item;
        struct actor_facts *to = &c->list.actors[c->list.count++];
        *to = a->facts;
        to->tenant = arena_copy(c->arena, to->tenant);
        to->actor = arena_copy(c->arena, to->actor);
        to->reason = arena_copy(c->arena, to->reason);
        to->by = arena_copy(c->arena, to->by);
    }
    if (c->arena->overflow) c->err = ERR_OVERLOADED;
    check(c->list.count <= c->list.limit && c->list.count <= c->list.total);
}
