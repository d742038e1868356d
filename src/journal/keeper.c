/* keeper.c - the keeper's step: what the journal's directory holds, and what it can still hold.
 *
 * It looks at the disk, removes what need not be kept, and makes the spare: everything slow that
 * neither the writer nor the syncer may wait for. It runs about once a second and when the writer
 * has taken the spare. A disk that has no room for a spare, or is nearly full, is not a
 * fault: the journal says that it is full, and the next second looks again.
 *
 * A segment may go when the platform has confirmed all of it, when a durable snapshot includes all
 * of it (journal_hold), when the one after it holds a durable frame (so that the number of the next
 * record can never be lost with it), and when it is older than keep_ms or the segments together are
 * larger than keep_bytes. A disk that is getting full outweighs the last: what is kept for
 * convenience must not stop decisions.
 *
 * A segment takes neither the last files nor the bytes that the next snapshot needs (journal_leave):
 * a journal that had both would be full for good, however much of it was confirmed. */
#include "base/check.h"
#include "base/log.h"
#include "journal/scribe.h"

static void look_at_disk(struct scribe *s, bool *ret_full)
{
    uint64_t free_bytes, total_bytes;
    enum err err = s->disk->free_bytes(s->disk->state, &free_bytes, &total_bytes);
    *ret_full = atomic_load(&s->disk_full);
    if (err != ERR_OK || total_bytes == 0) return; /* keeps believing what it saw last */
    atomic_store_explicit(&s->free_bytes, free_bytes, memory_order_relaxed);
    atomic_store_explicit(&s->total_bytes, total_bytes, memory_order_relaxed);
    uint64_t free_files, total_files;
    if (s->disk->free_files(s->disk->state, &free_files, &total_files) == ERR_OK) {
        atomic_store_explicit(&s->free_files, free_files, memory_order_relaxed);
        atomic_store_explicit(&s->total_files, total_files, memory_order_relaxed);
    }
    *ret_full = (total_bytes - free_bytes) / 100 >= total_bytes / 10000 * JOURNAL_FULL_PERCENT;
}

static bool may_go(struct scribe *s, const struct segment *oldest, const struct segment *next,
                   bool pressed, uint64_t now_ms)
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

/* True: something went. Oldest first and each durably, so that the ids on disk stay without gaps.
 */
static bool remove_old(struct scribe *s, bool pressed, uint64_t now_ms)
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

bool scribe_needs_spare(struct scribe *s)
{
    if (atomic_load(&s->spare_ready)) return false;
    pthread_mutex_lock(&s->files_lock);
    bool place = s->retired_count + 1 < SCRIBE_RETIRED; /* the next rotation retires one more */
    pthread_mutex_unlock(&s->files_lock);
    return place;
}

void scribe_take_spare(struct scribe *s, struct scribe_file spare)
{
    pthread_mutex_lock(&s->files_lock);
    check(s->spare.file < 0 && spare.segment == s->current.segment + 1);
    s->spare = spare;
    pthread_mutex_unlock(&s->files_lock);
    atomic_store(&s->spare_ready, true);
    atomic_fetch_add(&s->room, (int64_t)spare.bytes - FRAME_BYTES);
}

/* By the last look. Whether there is room for the spare itself is found out by making it. */
static bool leaves_enough(const struct scribe *s)
{
    uint64_t leave = atomic_load_explicit(&s->leave_bytes, memory_order_relaxed);
    uint64_t free_bytes = atomic_load_explicit(&s->free_bytes, memory_order_relaxed);
    uint64_t free_files = atomic_load_explicit(&s->free_files, memory_order_relaxed);
    bool told = atomic_load_explicit(&s->total_bytes, memory_order_relaxed) != 0;
    bool bounded = atomic_load_explicit(&s->total_files, memory_order_relaxed) != 0;
    return (!told || leave == 0 || free_bytes >= s->options.segment_bytes + leave) &&
           (!bounded || free_files > JOURNAL_LEAVE_FILES);
}

static enum err make_spare(struct scribe *s)
{
    pthread_mutex_lock(&s->files_lock);
    struct scribe_file spare = {
        .segment = s->current.segment + 1, .bytes = s->options.segment_bytes, .file = -1};
    pthread_mutex_unlock(&s->files_lock);
    if (!leaves_enough(s)) return ERR_NO_SPACE;

    char name[SEGMENT_NAME];
    segment_write_name(spare.segment, name);
    enum err err = segment_make(s->disk, spare.segment, spare.bytes);
    if (err == ERR_OK) err = s->disk->open(s->disk->state, name, false, &spare.file);
    if (err == ERR_OK) scribe_take_spare(s, spare);
    return err;
}

bool scribe_keep_step(struct scribe *s, uint64_t now_ms)
{
    bool full;
    bool was_full = atomic_load(&s->disk_full), failed = atomic_load(&s->spare_fails);
    look_at_disk(s, &full);
    if (remove_old(s, full || failed, now_ms)) look_at_disk(s, &full);

    bool needed = scribe_needs_spare(s);
    enum err err = needed ? make_spare(s) : ERR_OK;
    /* A directory in which nothing may be made now is one without room: nothing was lost by that,
     * and whoever closed it opens it again. */
    bool made = needed && err == ERR_OK, fails = disk_refuses(err);
    if (err != ERR_OK && !fails) scribe_die("making a segment failed", err);
    atomic_store(&s->spare_fails, fails);
    atomic_store(&s->disk_full, full);

    if (fails && !failed)
        log_line(
            LOG_ERROR, "journal_has_no_spare", "text",
            "the disk (its bytes or its inodes), or the process's file descriptors, have no room for "
            "one beside the next snapshot, or nothing may be made in the journal's directory",
            NULL);
    if (full && !was_full)
        log_text(LOG_ERROR, "journal_disk_full", "%d %% of it are used", JOURNAL_FULL_PERCENT);
    if (failed && !fails) log_line(LOG_INFO, "journal_has_spare", NULL);
    if (was_full && !full) log_line(LOG_INFO, "journal_disk_has_room", NULL);
    if (made || (was_full && !full)) producers_ring_starved(s);
    return atomic_load(&s->spare_ready);
}
