/* lifecycle.c - the first and the last record of a boot.
 *
 * `engine.started` is the first record of its epoch and names the previous epoch and its last seq
 * in `previous`: that is how the platform knows that nothing between is missing. */
#include <errno.h>

#include "engine/engine.h"
#include "event/event.h"

static void put_previous(struct buf *b, const struct journal_report *report)
{
    buf_put_literal(b, "{\"epoch\":");
    json_put_plain(b, str_of(report->last_epoch, JOURNAL_EPOCH_TEXT));
    buf_put_literal(b, ",\"seq\":");
    buf_put_u64(b, report->last_seq);
    buf_put_byte(b, '}');
}

static struct str encode(struct buf *b, struct str kind, const struct journal_report *report,
                         struct buf *previous)
{
    struct chance chance = {0};
    char id[ID_TEXT], trace[TRACE_TEXT];
    struct event e = {.kind = kind,
                      .tenant_id = STR("default"),
                      .timestamp = world_now_ms(),
                      .engine_version = STR(WRIT_VERSION)};
    id_write("evt_", id_make(e.timestamp, &chance), id);
    e.event_id = str_of(id, ID_TEXT);
    trace_write(&chance, trace);
    e.trace_id = str_of(trace, TRACE_TEXT);
    if (report != NULL && report->last_seq != 0) {
        put_previous(previous, report);
        e.previous = buf_view(previous);
    }
    event_put(b, &e);
    return buf_view(b);
}

enum err lifecycle_record(struct engine *e, struct str kind, const struct journal_report *report)
{
    char bytes[1024], previous[128];
    struct buf b = buf_over(bytes, sizeof bytes), p = buf_over(previous, sizeof previous);
    const struct effect_record record = {.event = encode(&b, kind, report, &p)};
    return lifecycle_put(e, &record);
}

enum err lifecycle_put(struct engine *e, const struct effect_record *record)
{
    struct committer commit = {.producer = journal_producer(e->journal, e->worker_count),
                               .always_synced = true};
    /* From the reserve, too: what waits to be published may be all that fills the disk, and only an
     * engine that starts publishes it. */
    enum err err = commit_room(
        &commit, record->event.size + record->delta.size + LIMIT_RECORD_HEAD_BYTES, true);
    if (err != ERR_OK) return err;
    struct http_gate gate = commit_put(&commit, record, 1, true);
    journal_seal(commit.producer);
    for (;;) { /* the scribe rings each time that this producer's marks move */
        uint64_t written, durable;
        journal_marks(commit.producer, &written, &durable);
        if (durable >= gate.mark) return ERR_OK;
        while (sem_wait(&e->main_rung) != 0 && errno == EINTR) {
        }
    }
}
