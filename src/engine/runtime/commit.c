#include "engine/runtime/commit.h"

#include "base/check.h"
#include "base/limits.h"

enum err commit_room(struct committer *c, size_t size, bool closing, enum commit_lane lane)
{
    enum err err = ERR_OK;
    check(size <= LIMIT_RESERVE_BYTES);
    if (lane == LANE_LOG) return fleet_lane_room(c->log, closing);
    char *to = closing ? journal_reserve_closing(c->producer, size, &err)
                       : journal_reserve(c->producer, size, &err);
    return to == NULL ? err : ERR_OK;
}

struct http_barrier commit_put(struct committer *c, const struct effect_record *records,
                               size_t count, enum commit_lane lane)
{
    check(count > 0 && count <= COMMIT_EVENTS_MAX);
    if (lane == LANE_LOG)
        return (struct http_barrier){.lane = LANE_LOG,
                                     .block = fleet_lane_put(c->log, records, count)};
    const bool synced = lane == LANE_SYNCED || c->always_synced;
    for (size_t i = 0; i < count; i++) {
        struct str event = records[i].event, delta = records[i].delta;
        check(event.size <= LIMIT_EVENT_BYTES && event.size + delta.size <= LIMIT_RECORD_BYTES);
        char *to = journal_reserved(c->producer, event.size + delta.size);
        check(to != NULL); /* the caller reserved room for this many bytes */
        memcpy(to, event.bytes, event.size);
        if (delta.size > 0) memcpy(to + event.size, delta.bytes, delta.size);
        journal_commit(c->producer, event.size, delta.size, synced);
    }
    return (struct http_barrier){.lane = synced ? LANE_SYNCED : LANE_WRITTEN,
                                 .block = journal_block(c->producer)};
}

enum err commit_records(struct committer *c, const struct effect_record *records, size_t count,
                        enum commit_lane lane, struct http_barrier *ret)
{
    check(count > 0 && count <= COMMIT_EVENTS_MAX);
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = records[i].event.size + records[i].delta.size;
        if (records[i].event.size > LIMIT_EVENT_BYTES || size > LIMIT_RECORD_BYTES)
            return ERR_OUT_OF_RANGE;
        total += size + LIMIT_RECORD_HEAD_BYTES;
    }
    /* Room for all before any, so that none can fail in between. */
    enum err err = commit_room(c, total, false, lane);
    if (err == ERR_OK) *ret = commit_put(c, records, count, lane);
    return err;
}

enum err commit_events(struct committer *c, const struct str *events, size_t count,
                       enum commit_lane lane, struct http_barrier *ret)
{
    struct effect_record records[COMMIT_EVENTS_MAX];
    check(count <= COMMIT_EVENTS_MAX);
    for (size_t i = 0; i < count; i++) records[i] = (struct effect_record){.event = events[i]};
    return commit_records(c, records, count, lane, ret);
}
