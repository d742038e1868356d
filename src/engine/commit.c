#include "engine/commit.h"

#include "base/check.h"
#include "base/limits.h"

enum { RECORD_HEAD_BYTES = 16 }; /* no less than what the journal puts before each record */

enum err commit_events(struct commit *c, const struct str *events, size_t count, bool synced, struct http_gate *ret)
{
    check(count > 0 && count <= COMMIT_EVENTS_MAX);
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].size > LIMIT_EVENT_BYTES) return ERR_OUT_OF_RANGE;
        total += events[i].size + RECORD_HEAD_BYTES;
    }
    synced = synced || c->always_synced;
    enum err err = ERR_OK;
    char *to;
    for (size_t i = 0; i < count; i++) { /* Room for all before any: then nothing can come between. */
        to = i == 0 ? journal_reserve(c->producer, total, &err) : journal_reserved(c->producer, events[i].size);
        check(to != NULL || i == 0);
        if (to == NULL) return err;
        memcpy(to, events[i].bytes, events[i].size);
        journal_commit(c->producer, events[i].size, 0, synced);
    }
    *ret = (struct http_gate){.lane = synced ? LANE_SYNCED : LANE_WRITTEN, .mark = journal_mark(c->producer)};
    return ERR_OK;
}
