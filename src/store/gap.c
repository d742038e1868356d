#include "store/gap.h"

#include "base/check.h"
#include "base/limits.h"
#include "store/key_store.h"
#include "store/removal.h"
#include "store/store_inside.h"
#include "store/streams.h"

static enum err not_there(const struct gap *g, uint64_t next_seq, struct fault *f)
{
    return fault_set(
        f, ERR_PRECONDITION_FAILED, "/from_seq",
        "from_seq: node %.*s journal %.*s has all records below %llu and waits for that one",
        STR_FORMAT(g->node), STR_FORMAT(g->journal), (unsigned long long)next_seq);
}

static enum err move(struct store *s, const struct gap *g, struct fault *f)
{
    struct audit_stream from;
    char epoch[LIMIT_ID_CHARACTERS];
    const struct audit_stream to = {
        .node = g->node, .journal = g->journal, .epoch = g->epoch, .next_seq = g->next_seq};
    enum err err = s->audit.ops->stream_get(s->audit.state, g->node, g->journal, &from);
    bool is_new = err == ERR_NOT_FOUND;
    if (err != ERR_OK && !is_new) return store_fault(s, err, f);
    err = is_new ? stream_room(s, g->node, f) : ERR_OK;
    if (err != ERR_OK) return err;
    uint64_t next_seq = is_new ? 1 : from.next_seq;
    if (next_seq != g->from_seq) return not_there(g, next_seq, f);
    if (!is_new) {
        check(from.epoch.size <= sizeof epoch);
        memcpy(epoch, from.epoch.bytes, from.epoch.size);
        from = (struct audit_stream){.epoch = str_of(epoch, from.epoch.size),
                                     .next_seq = from.next_seq};
    }
    err = s->audit.ops->stream_move(s->audit.state, is_new ? NULL : &from, &to);
    if (err == ERR_PRECONDITION_FAILED)
        return fault_set(f, err, "/from_seq",
                         "from_seq: records came in the meantime; read the positions again");
    return store_fault(s, err, f);
}

static enum err tell(struct store *s, const struct gap *g, const struct actor *by, struct fault *f)
{
    char bytes[GAP_REASON_CHARACTERS * 4 + LIMIT_ID_CHARACTERS + 128];
    struct buf reason = buf_over(bytes, sizeof bytes);
    buf_printf(&reason, "records %llu to %llu of journal %.*s are accepted as lost",
               (unsigned long long)g->from_seq, (unsigned long long)g->next_seq - 1,
               STR_FORMAT(g->journal));
    if (!str_is_empty(g->reason)) buf_printf(&reason, ": %.*s", STR_FORMAT(g->reason));
    check(!reason.overflow);
    const struct own_event e = {.kind = "audit.gap",
                                .tenant = STR("*"),
                                .resource_type = "stream",
                                .resource_id = g->node,
                                .reason = buf_view(&reason),
                                .count = g->next_seq - g->from_seq};
    return own_event_store(s, by, &e, f);
}

enum err gap_accept(struct store *s, const struct gap *g, const struct actor *by, struct fault *f)
{
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    err = move(s, g, f);
    const struct removal lost = {.node = g->node,
                                 .journal = g->journal,
                                 .from_seq = g->from_seq,
                                 .end_seq = g->next_seq - 1,
                                 .now_ms = by->now_ms};
    if (err == ERR_OK) err = removal_note(s, &lost, f);
    if (err == ERR_OK) err = tell(s, g, by, f);
    return store_end(s, err, f);
}
