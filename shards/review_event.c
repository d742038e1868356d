/* review_event.c - what happens to a review, as events of the audit trail.
 *
 * Most members of such an event come from the item of the enqueued review. An item that cannot be
 * read must not prevent a denial, so the event then has only the members that are known without
 * it. */
#include "base/check.h"
#include "shards/inside.h"

static struct event asked_for(struct shard *s, const struct review *r)
{
    const struct review_facts *f = &r->facts;
    struct event item = {0}, e;
    struct fault ignored;
    arena_reset(&s->scratch);
    if (event_read(f->item, &s->scratch, &item, &ignored) != ERR_OK) item = (struct event){0};
    e = (struct event){.acting_for = f->acting_for,
                       .action = f->action,
                       .actor = item.actor,
                       .user_id = item.user_id,
                       .policy_digest = item.policy_digest,
                       .policy_name = item.policy_name,
                       .policy_version = item.policy_version,
                       .has_policy_version = item.has_policy_version,
                       .request_id = item.request_id,
                       .rule = item.rule,
                       .tenant_id = f->tenant,
                       .trace_id = f->trace_id,
                       .key_id = item.key_id};
    if (f->is_user)
        e.user_id = f->subject;
    else
        e.actor = f->subject;
    return e;
}

struct str review_event(struct shard *s, struct effects *e, const struct review *r,
                        const struct review_happening *h)
{
    check(h->kind.size > 0 && h->proof < REVIEW_PROOFS);
    struct event happened = asked_for(s, r);
    char event_id[ID_TEXT], review_id[ID_TEXT], binding[2 * REVIEW_DIGEST_BYTES];
    id_write("evt_", h->event, event_id);
    id_write("rev_", r->facts.id, review_id);
    hex_write(binding, r->facts.binding.bytes, REVIEW_DIGEST_BYTES);
    happened.event_id = str_of(event_id, ID_TEXT);
    happened.review_id = str_of(review_id, ID_TEXT);
    happened.binding_hash = str_of(binding, sizeof binding);
    happened.kind = h->kind;
    happened.timestamp = h->at_ms;
    happened.mode = STR("live");
    happened.engine_version = STR(WRIT_VERSION);
    /* what a person does is not done by the key that asked, even if the person has no key */
    if (h->key_id.size > 0 || h->resolved_by.size > 0) happened.key_id = h->key_id;
    if (h->rule.size > 0) happened.rule = h->rule;
    if (h->resolved_by.size > 0) happened.resolved_by = h->resolved_by;
    if (h->proof != REVIEW_PROOF_UNKNOWN) happened.proof = str_from(review_proof_name(h->proof));
    if (h->note.size > 0) happened.resolution_note = h->note;
    happened.count = h->count;
    happened.has_count = h->count > 0;
    happened.expires_at = h->expires_ms;

    size_t most = EVENT_MOST_BYTES + ESCAPE_GROWTH * h->note.size;
    struct buf out = effects_buf(e, most);
    event_put(&out, &happened);
    struct str text = effects_take(e, &out, most);
    return text.size > LIMIT_EVENT_BYTES ? (struct str){0} : text;
}

size_t review_opened_most(const struct review_facts *f)
{
    return DELTA_MOST_BYTES / 4 + f->tenant.size + f->subject.size + f->principal.size +
           f->owner.size + f->acting_for.size + f->action.size + f->trace_id.size +
           f->requirements.size + f->votes_approved.size;
}
