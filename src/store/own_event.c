/* own_event.c - the platform's own audit rows. They have no source, since they are in no stream.
 * They are rows in the transaction that they record. */
#include "store/store_inside.h"

#include "base/check.h"
#include "base/id.h"
#include "base/limits.h"
#include "crypto/crypto.h"
#include "json/json.h"

static struct str resource_json(struct buf *b, const struct own_event *e)
{
    if (e->resource_type == NULL) return (struct str){0};
    buf_put_literal(b, "{\"id\":");
    json_put_string(b, e->resource_id);
    buf_put_literal(b, ",\"type\":");
    json_put_plain(b, str_from(e->resource_type));
    buf_put_byte(b, '}');
    return b->overflow ? (struct str){0} : buf_view(b);
}

enum err own_event_store(struct store *s, const struct actor *by, const struct own_event *e,
                         struct fault *f)
{
    char id[ID_TEXT], resource[LIMIT_ID_CHARACTERS * 6 + 64], bytes[16 << 10];
    id_write("evt_", id_make(by->now_ms, &s->chance), id);
    struct buf resource_buf = buf_over(resource, sizeof resource);
    struct event event = {
        .event_id = str_of(id, sizeof id),
        .kind = str_from(e->kind),
        .tenant_id = e->tenant,
        .timestamp = by->now_ms,
        .actor = by->principal,
        .action = str_from(e->kind),
        .key_id = by->key_id,
        .request_id = by->request_id,
        .client_address = e->client_address,
        .reason = e->reason,
        .user_id = e->user_id,
        .proof = e->proof,
        .resource = resource_json(&resource_buf, e),
        .policy_name = e->policy_name,
        .policy_digest = e->policy_digest,
        .policy_version = e->policy_version,
        .has_policy_version = e->policy_version != 0,
        .expires_at = e->expires_at,
        .count = e->count,
        .has_count = e->count != 0,
    };
    struct buf b = buf_over(bytes, sizeof bytes);
    event_put(&b, &event);
    check(!b.overflow); /* every member is bounded above */
    struct audit_row row = {.bytes = buf_view(&b), .event = &event, .created_at = by->now_ms};
    uint64_t row_id;
    enum err err = s->audit.ops->insert(s->audit.state, &row, &row_id);
    return store_fault(s, err, f);
}

enum err own_event_store_alone(struct store *s, const struct actor *by, const struct own_event *e,
                               struct fault *f)
{
    enum err err = store_begin(s, f);
    return err == ERR_OK ? store_end(s, own_event_store(s, by, e, f), f) : err;
}
