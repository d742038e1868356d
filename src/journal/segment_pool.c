/* segment_pool.c - the segment pool's step: removes old segments of the journal's directory and makes new
 * ones.
 *
 * It checks the disk's room, removes segments that need not be kept, and makes the spare: all slow
 * work that neither the writer nor the syncer may wait for. It runs about once a second and when
 * the writer has taken the spare. A disk without room for a spare, or a nearly full one, is not a
 * fault: the journal reports that it is full, and the pool checks again after a second.
 *
 * A segment may be removed if all of this is true. The platform has confirmed all of it. A durable
 * snapshot includes all of it (journal_hold). The segment after it holds a durable frame (so that
 * the number of the next record can never be lost with it). It is older than keep_ms, or the
 * segments together are larger than keep_bytes. A disk that is getting full overrides the last
 * condition: what is kept for convenience must not stop decisions.
 *
 * A segment takes neither the last files nor the bytes that the next snapshot needs
 * (journal_leave). Otherwise the journal could never recover from being full, however much of it
 * was confirmed. */
#include "base/check.h"
#include "base/log.h"
#include "journal/journal_writer.h"

static void look_at_disk(struct journal_writer *s, bool *ret_full)
{
    uint64_t free_bytes, total_bytes;
    enum err err = s->disk->free_bytes(s->disk->state, &free_bytes, &total_bytes);
    *ret_full = atomic_load(&s->disk_full);
    if (err != ERR_OK || total_bytes == 0) return; /* keeps the last values */
    atomic_store_explicit(&s->free_bytes, free_bytes, memory_order_relaxed);
    atomic_store_explicit(&s->total_bytes, total_bytes, memory_order_relaxed);
    uint64_t free_files, total_files;
    if (s->disk->free_files(s->disk->state, &free_files, &total_files) == ERR_OK) {
        atomic_store_explicit(&s->free_files, free_files, memory_order_relaxed);
        atomic_store_explicit(&s->total_files, total_files, memory_order_relaxed);
    }
    *ret_full = (total_bytes - free_bytes) / 100 >= total_bytes / 10000 * JOURNAL_FULL_PERCENT;
}

static bool may_go(struct journal_writer *s, const struct segment *oldest,
                   const struct segment *next, bool pressed, uint64_t now_ms)
{
    if (next->first_seq == 0) return false;
    if (atomic_load(&s->durable_seq) < next->first_seq) return false;
    if (atomic_load(&s->confirmed_seq) < next->first_seq - 1) return false;
    if (atomic_load(&s->held_seq) < next->first_seq - 1) return false;
    uint64_t count, bytes, oldest_seq;
    shelf_totals(&s->shelf, &count, &bytes, &oldest_seq);
    bool old = now_ms >= oldest->last_ms && now_ms - oldest->last_ms >= s->options.keep_ms;
    bool large = s->options.keep_bytes != 0 && bytes > s->options.keep_bytes;
    return pressed || old || large;
}

/* True: some segment was removed. Oldest first and each durably, so that ids on disk have no
 * gaps. */
static bool remove_old(struct journal_writer *s, bool pressed, uint64_t now_ms)
{
    bool any = false;
    struct segment oldest, next;
    while (shelf_oldest(&s->shelf, &oldest, &next) && may_go(s, &oldest, &next, pressed, now_ms)) {
        char name[SEGMENT_NAME];
        segment_write_name(oldest.id, name);
        enum err err = s->disk->remove(s->disk->state, name);
        if (err == ERR_OK) err = s->disk->sync_directory(s->disk->state);
        if (err != ERR_OK) {
            log_text(LOG_WARNING, "journal_segment_stays", "%s: %s", name, err_sentence(err));
            return any;
        }
        shelf_drop_oldest(&s->shelf);
        any = true;
    }
    return any;
}

bool journal_writer_needs_spare(struct journal_writer *s)
{
    if (atomic_load(&s->spare_ready)) return false;
    pthread_mutex_lock(&s->files_lock);
    bool place =
        s->retired_count + 1 < JOURNAL_WRITER_RETIRED; /* the next rotation retires one more */
    pthread_mutex_unlock(&s->files_lock);
    return place;
}

void journal_writer_take_spare(struct journal_writer *s, struct journal_writer_file spare)
{
    pthread_mutex_lock(&s->files_lock);
    check(s->spare.file < 0 && spare.segment == s->current.segment + 1);
    s->spare = spare;
    pthread_mutex_unlock(&s->files_lock);
    atomic_store(&s->spare_ready, true);
    atomic_fetch_add(&s->room, (int64_t)spare.bytes - FRAME_BYTES);
}

/* By the last check. Only making the spare shows whether there is room for it. */
static bool leaves_enough(const struct journal_writer *s)
{
    uint64_t leave = atomic_load_explicit(&s->leave_bytes, memory_order_relaxed);
    uint64_t free_bytes = atomic_load_explicit(&s->free_bytes, memory_order_relaxed);
    uint64_t free_files = atomic_load_explicit(&s->free_files, memory_order_relaxed);
    bool told = atomic_load_explicit(&s->total_bytes, memory_order_relaxed) != 0;
    bool bounded = atomic_load_explicit(&s->total_files, memory_order_relaxed) != 0;
    return (!told || leave == 0 || free_bytes >= s->options.segment_bytes + leave) &&
           (!bounded || free_files > JOURNAL_LEAVE_FILES);
}

static enum err make_spare(struct journal_writer *s)
{
    pthread_mutex_lock(&s->files_lock);
    struct journal_writer_file spare = {
        .segment = s->current.segment + 1, .bytes = s->options.segment_bytes, .file = -1};
    pthread_mutex_unlock(&s->files_lock);
    if (!leaves_enough(s)) return ERR_NO_SPACE;

    char name[SEGMENT_NAME];
    segment_write_name(spare.segment, name);
    enum err err = segment_make(s->disk, spare.segment, spare.bytes);
    if (err == ERR_OK) err = s->disk->open(s->disk->state, name, false, &spare.file);
    if (err == ERR_OK) journal_writer_take_spare(s, spare);
    return err;
}

bool journal_writer_keep_step(struct journal_writer *s, uint64_t now_ms)
{
    bool full;
    bool was_full = atomic_load(&s->disk_full), failed = atomic_load(&s->spare_fails);
    look_at_disk(s, &full);
    if (remove_old(s, full || failed, now_ms)) look_at_disk(s, &full);

    bool needed = journal_writer_needs_spare(s);
    enum err err = needed ? make_spare(s) : ERR_OK;
    /* A directory that refuses new files is treated as one without room: nothing was lost, and an
     * operator can correct its permissions. */
    bool made = needed && err == ERR_OK, fails = disk_refuses(err);
    if (err != ERR_OK && !fails) journal_writer_die("making a segment failed", err);
    atomic_store(&s->spare_fails, fails);
    atomic_store(&s->disk_full, full);

    if (fails && !failed)
        log_line(
            LOG_ERROR, "journal_has_no_spare", "text",
            "no new segment can be made beside the next snapshot: there are too few free bytes, inodes "
            "or file descriptors, or the journal's directory refuses new files; free space, or correct "
            "its permissions",
            NULL);
    if (full && !was_full)
        log_text(
            LOG_ERROR, "journal_disk_full",
            "at least %d %% of the file system are used; new records are refused until space is free",
            JOURNAL_FULL_PERCENT);
    if (failed && !fails) log_line(LOG_INFO, "journal_has_spare", NULL);
    if (was_full && !full) log_line(LOG_INFO, "journal_disk_has_room", NULL);
    if (made || (was_full && !full)) producers_ring_starved(s);
    return atomic_load(&s->spare_ready);
}
