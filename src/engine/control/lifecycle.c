/* lifecycle.c - the first records and the last record of a boot.
 *
 * `engine.started` is the first record of its epoch. It names the previous epoch and its last seq
 * in `previous`: so the platform knows that no record between them is missing. The first one of a
 * journal is followed by `engine.adopted` if the state began with another engine's. */
#include <errno.h>

#include "base/check.h"
#include "engine/engine.h"
#include "event/event.h"
#include "snapshot/lineage.h"

static void put_previous(struct buf *b, const struct journal_report *report)
{
    buf_put_literal(b, "{\"epoch\":");
    json_put_plain(b, str_of(report->last_epoch, JOURNAL_EPOCH_TEXT));
    buf_put_literal(b, ",\"seq\":");
    buf_put_u64(b, report->last_seq);
    buf_put_byte(b, '}');
}

/* "node:epoch,…" of the lineage. */
static void put_adopted(struct buf *b, const char *owners)
{
    buf_printf(b,
               "this engine took over the state of %s from Redis; tokens from before are not "
               "accepted, and reviews that were open expire",
               owners);
}

struct draft {
    char id[ID_TEXT], trace[TRACE_TEXT], previous[128], reason[LINEAGE_ADOPTED_TEXT + 160];
    char bytes[2048];
};

static struct str encode(struct draft *d, struct str kind, const struct journal_report *report,
                         struct str reason)
{
    struct chance chance = {0};
    struct buf out = buf_over(d->bytes, sizeof d->bytes),
               previous = buf_over(d->previous, sizeof d->previous);
    struct event e = {.kind = kind,
                      .tenant_id = STR("default"),
                      .timestamp = world_now_ms(),
                      .reason = reason,
                      .engine_version = STR(WRIT_VERSION)};
    id_write("evt_", id_make(e.timestamp, &chance), d->id);
    e.event_id = str_of(d->id, ID_TEXT);
    trace_write(&chance, d->trace);
    e.trace_id = str_of(d->trace, TRACE_TEXT);
    if (report != NULL && report->last_seq != 0) {
        put_previous(&previous, report);
        e.previous = buf_view(&previous);
    }
    event_put(&out, &e);
    check(!out.overflow && !previous.overflow);
    return buf_view(&out);
}

/* In one block, so that either all of them are in the journal or none is. */
static enum err put_block(struct engine *e, const struct effect_record *records, size_t count)
{
    check(count > 0 && count <= COMMIT_EVENTS_MAX);
    struct committer commit = {.producer = journal_producer(e->journal, e->reactor_count),
                               .always_synced = true};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += records[i].event.size + records[i].delta.size + LIMIT_RECORD_HEAD_BYTES;
    /* Uses the reserve, too: records that wait to be published may fill the disk, and only an
     * engine that starts publishes them. */
    enum err err = commit_room(&commit, bytes, true, LANE_SYNCED);
    if (err != ERR_OK) return err;
    struct http_barrier barrier = commit_put(&commit, records, count, LANE_SYNCED);
    check(barrier.lane == LANE_SYNCED);
    journal_seal(commit.producer);
    for (;;) { /* the journal writer wakes this thread each time this producer's blocks move */
        uint64_t written, durable;
        journal_progress(commit.producer, &written, &durable);
        if (durable >= barrier.block) return ERR_OK;
        while (sem_wait(&e->main_rung) != 0 && errno == EINTR) {
        }
    }
}

enum err lifecycle_started(struct engine *e, const struct journal_report *report,
                           const char *adopted)
{
    struct draft started, adoption;
    struct effect_record records[2] = {
        {.event = encode(&started, STR("engine.started"), report, (struct str){0})}};
    size_t count = 1;
    if (report->last_seq == 0 && adopted[0] != '\0') {
        struct buf reason = buf_over(adoption.reason, sizeof adoption.reason);
        put_adopted(&reason, adopted);
        check(!reason.overflow);
        records[count++].event = encode(&adoption, STR("engine.adopted"), NULL, buf_view(&reason));
    }
    return put_block(e, records, count);
}

enum err lifecycle_stopped(struct engine *e)
{
    struct draft d;
    const struct effect_record record = {
        .event = encode(&d, STR("engine.stopped"), NULL, (struct str){0})};
    return put_block(e, &record, 1);
}

enum err lifecycle_fleet(struct engine *e, struct str what)
{
    struct draft d;
    const struct effect_record record = {.event = encode(&d, STR("engine.fleet"), NULL, what)};
    return put_block(e, &record, 1);
}

enum err lifecycle_put(struct engine *e, const struct effect_record *record)
{
    return put_block(e, record, 1);
}
