#include "journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/world.h"
#include "journal/inside.h"
#include "journal/recover.h"

enum { SEGMENT_ALIGN = 4096 };

static struct journal_options with_defaults(const struct journal_options *options)
{
    struct journal_options o = *options;
    check(o.disk != NULL && o.producers > 0);
    if (o.segment_bytes == 0) o.segment_bytes = SEGMENT_DEFAULT_BYTES;
    if (o.segment_bytes < SEGMENT_LEAST_BYTES) o.segment_bytes = SEGMENT_LEAST_BYTES;
    o.segment_bytes = (o.segment_bytes + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    return o;
}

static enum err spare_from_recovery(struct journal_writer *s, const struct recovery *r)
{
    struct journal_writer_file spare = {.segment = r->spare, .bytes = r->spare_bytes, .file = -1};
    char name[SEGMENT_NAME];
    segment_write_name(spare.segment, name);
    enum err err = s->disk->open(s->disk->state, name, false, &spare.file);
    if (err == ERR_OK) journal_writer_take_spare(s, spare);
    return err;
}

/* Recovered records are durable now, but no frame claims it yet: damage to them would pass for a
 * torn tail. So the first frame of this life claims it. */
static void begin_life(struct journal_writer *s, uint64_t now_ms)
{
    journal_writer_keep_step(s, now_ms);
    if (journal_writer_claim_step(s, now_ms)) journal_writer_sync_step(s);
}

enum err journal_open_driven(const struct journal_options *options, const char *epoch,
                             uint64_t now_ms,
                             enum err (*replay)(void *context, const struct journal_record *record),
                             void *replay_context, struct journal **ret,
                             struct journal_report *ret_report, struct fault *f)
{
    struct journal_options o = with_defaults(options);
    enum err err = o.disk->lock(o.disk->state);
    if (err == ERR_EXISTS)
        return fault_set(
            f, err, "",
            "data: another engine already uses the journal in this directory; stop it, or "
            "give this engine a directory of its own");
    if (err != ERR_OK)
        return fault_set(f, err, "", "the journal's directory cannot be locked: %s",
                         err_sentence(err));

    struct journal *j = aligned_alloc(64, sizeof *j);
    check(j != NULL);
    memset(j, 0, sizeof *j);
    struct recovery found;
    struct journal_report report;
    shelf_init(&j->journal_writer.shelf);
    err = recover_run(o.disk, o.segment_bytes, o.given_up, &j->journal_writer.shelf, &found,
                      &report, f);
    if (err == ERR_OK && o.accept != NULL) err = o.accept(o.context, &report, f);
    if (err == ERR_OK && replay != NULL)
        err = recover_replay(o.disk, &j->journal_writer.shelf, &found.tail, o.given_up, replay,
                             replay_context, f);
    if (err != ERR_OK) {
        shelf_fini(&j->journal_writer.shelf);
        free(j);
        return err;
    }

    err = journal_writer_init(&j->journal_writer, &o, epoch, found.tail);
    if (err == ERR_OK && found.spare != 0) err = spare_from_recovery(&j->journal_writer, &found);
    if (err != ERR_OK) {
        journal_abandon(j);
        return fault_set(f, err, "", "the journal's files cannot be opened");
    }
    begin_life(&j->journal_writer, now_ms);
    memcpy(report.epoch, epoch, JOURNAL_EPOCH_TEXT);
    *ret_report = report;
    *ret = j;
    return ERR_OK;
}

enum err journal_open(const struct journal_options *options,
                      enum err (*replay)(void *context, const struct journal_record *record),
                      void *replay_context, struct journal **ret, struct journal_report *ret_report,
                      struct fault *f)
{
    uint8_t chance[JOURNAL_EPOCH_TEXT / 2];
    char epoch[JOURNAL_EPOCH_TEXT];
    world_random(chance, sizeof chance);
    hex_write(epoch, chance, sizeof chance);

    enum err err = journal_open_driven(options, epoch, world_now_ms(), replay, replay_context, ret,
                                       ret_report, f);
    if (err == ERR_OK) journal_writer_start(&(*ret)->journal_writer);
    return err;
}

void journal_abandon(struct journal *j)
{
    if (j == NULL) return;
    journal_writer_fini(&j->journal_writer);
    shelf_fini(&j->journal_writer.shelf);
    free(j);
}

void journal_close_driven(struct journal *j, uint64_t now_ms)
{
    if (j == NULL) return;
    struct journal_writer *s = &j->journal_writer;
    while (journal_writer_write_step(s, now_ms)) {
    }
    while (journal_writer_sync_step(s)) {
    }
    if (journal_writer_claim_step(s, now_ms)) journal_writer_sync_step(s);
    journal_abandon(j);
}

void journal_close(struct journal *j)
{
    if (j == NULL) return;
    journal_writer_stop(&j->journal_writer);
    journal_close_driven(j, world_now_ms());
}

/* ---- whole journal ---- */

struct journal_producer *journal_producer(struct journal *j, unsigned index)
{
    check(index < j->journal_writer.options.producers);
    return &j->journal_writer.producers[index];
}

uint64_t journal_durable_seq(const struct journal *j)
{
    return atomic_load_explicit(&j->journal_writer.durable_seq, memory_order_acquire);
}

uint64_t journal_written_seq(const struct journal *j)
{
    return atomic_load_explicit(&j->journal_writer.written_seq, memory_order_acquire);
}

const char *journal_epoch(const struct journal *j) { return j->journal_writer.epoch; }

void journal_confirm(struct journal *j, uint64_t seq)
{
    atomic_store(&j->journal_writer.confirmed_seq, seq);
}

/* UINT64_MAX means that nothing is held. The first call replaces it by a seq, later ones raise
 * that. */
void journal_hold(struct journal *j, uint64_t seq)
{
    uint64_t before = atomic_load(&j->journal_writer.held_seq);
    while ((before == UINT64_MAX || seq > before) &&
           !atomic_compare_exchange_weak(&j->journal_writer.held_seq, &before, seq)) {
    }
}

void journal_leave(struct journal *j, uint64_t bytes)
{
    atomic_store_explicit(&j->journal_writer.leave_bytes, bytes, memory_order_relaxed);
}

bool journal_is_full(const struct journal *j)
{
    const struct journal_writer *s = &j->journal_writer;
    if (atomic_load(&s->disk_full)) return true;
    return atomic_load(&s->spare_fails) && atomic_load(&s->room) < s->reserve_bytes + FRAME_BYTES;
}

static uint64_t left_bytes(const struct journal_writer *s, const struct journal_totals *t)
{
    uint64_t spared = t->total_bytes / 100 * (100 - JOURNAL_FULL_PERCENT);
    uint64_t leave = atomic_load_explicit(&s->leave_bytes, memory_order_relaxed);
    if (leave > spared) spared = leave;
    uint64_t left = t->free_bytes > spared ? t->free_bytes - spared : 0;
    if (t->total_files == 0) return left;
    uint64_t segments =
        t->free_files > JOURNAL_LEAVE_FILES ? t->free_files - JOURNAL_LEAVE_FILES : 0;
    return left / s->options.segment_bytes < segments ? left : segments * s->options.segment_bytes;
}

void journal_totals(const struct journal *j, struct journal_totals *ret)
{
    /* The cast only allows locking the shelf. */
    struct journal_writer *s = &((struct journal *)(uintptr_t)j)->journal_writer;
    *ret = (struct journal_totals){
        .records = atomic_load_explicit(&s->records, memory_order_relaxed),
        .frames = atomic_load_explicit(&s->frames, memory_order_relaxed),
        .bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed),
        .syncs = atomic_load_explicit(&s->syncs, memory_order_relaxed),
        .sync_ns = atomic_load_explicit(&s->sync_ns, memory_order_relaxed),
        .free_bytes = atomic_load_explicit(&s->free_bytes, memory_order_relaxed),
        .total_bytes = atomic_load_explicit(&s->total_bytes, memory_order_relaxed),
        .free_files = atomic_load_explicit(&s->free_files, memory_order_relaxed),
        .total_files = atomic_load_explicit(&s->total_files, memory_order_relaxed),
    };
    ret->left_bytes = left_bytes(s, ret);
    shelf_totals(&s->shelf, &ret->segments, &ret->segment_bytes, &ret->oldest_seq);
}
