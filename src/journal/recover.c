#include "journal/recover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

struct found { /* a segment file on disk */
    uint64_t id, bytes;
    uint64_t first_seq, end_seq; /* of its whole frames; end_seq is one more than the last */
    uint64_t last_ms;
    uint64_t used; /* offset after the last whole frame */
};

struct survey {
    struct disk *disk;
    struct hasher *hasher;
    struct segment_reader reader;
    struct found *all;
    size_t count, capacity;
    const _Atomic bool *given_up;

    /* The end of the whole frames. */
    size_t last;       /* index of the segment where they end */
    uint64_t next_seq; /* 0: unknown */
    struct sha256 previous;
    uint64_t records;
    char epoch[JOURNAL_EPOCH_TEXT];
    uint64_t node;
    struct frame_told told;

    uint64_t claimed_seq; /* highest durable seq that any header claims */
    uint64_t torn_frames; /* headers beyond the end */
    uint64_t torn_bytes;  /* sectors beyond the end that are not zeros */
    bool last_is_torn;    /* such sectors in all[last] */
    size_t after_is_torn; /* index of the first later segment with such sectors, or count */
};

/* ---- what the disk refused ---- */

/* With the reason and the directory. A simulated disk does not set errno, so it may be
 * unrelated. */
static enum err disk_fault(const struct survey *v, enum err err, const char *what, struct fault *f)
{
    int number = errno;
    const char *directory = v->disk->directory;
    return fault_set(f, err, "", "%s: %s (%s)", what,
                     number != 0 && err == err_from_errno(number) ? strerror(number)
                                                                  : err_sentence(err),
                     directory != NULL ? directory : "the journal");
}

static enum err segment_fault(const struct survey *v, enum err err, uint64_t id, const char *what,
                              struct fault *f)
{
    char text[120];
    snprintf(text, sizeof text, "segment %016" PRIx64 ".journal cannot be %s", id, what);
    return disk_fault(v, err, text, f);
}

/* ---- the files ---- */

static void note_file(void *context, const char *name)
{
    struct survey *v = context;
    uint64_t id;
    if (!segment_read_name(name, &id)) return;
    if (v->count == v->capacity) {
        v->capacity = v->capacity == 0 ? 16 : 2 * v->capacity;
        v->all = realloc(v->all, v->capacity * sizeof *v->all);
        check(v->all != NULL);
    }
    v->all[v->count++] = (struct found){.id = id};
}

static int by_id(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static enum err list_files(struct survey *v, struct fault *f)
{
    enum err err = v->disk->list(v->disk->state, note_file, v);
    if (err != ERR_OK) return disk_fault(v, err, "the journal's directory cannot be listed", f);
    if (v->count == 0) return ERR_OK;
    qsort(v->all, v->count, sizeof *v->all, by_id);
    for (size_t i = 1; i < v->count; i++)
        if (v->all[i].id != v->all[i - 1].id + 1)
            return fault_set(f, ERR_CORRUPT, "",
                             "segment %016" PRIx64
                             ".journal is missing, but the next one exists; restore it",
                             v->all[i - 1].id + 1);
    return ERR_OK;
}

/* A segment has its whole length before its first frame is written, so a shorter file lost its end
 * later, perhaps with records. `made_bytes` 0: its original length is unknown. */
static enum err cut_fault(const struct found *s, uint64_t made_bytes, struct fault *f)
{
    char made[64] = "";
    if (made_bytes != 0) snprintf(made, sizeof made, " and was made with %" PRIu64, made_bytes);
    return fault_set(f, ERR_CORRUPT, "",
                     "segment %016" PRIx64 ".journal has %" PRIu64
                     " bytes%s: its end was cut off, and records that were in it are missing; "
                     "restore the whole file",
                     s->id, s->bytes, made);
}

static enum err open_file(struct survey *v, size_t index, struct fault *f)
{
    struct found *s = &v->all[index];
    enum err err = segment_reader_open(&v->reader, s->id);
    if (err != ERR_OK) return segment_fault(v, err, s->id, "opened", f);
    s->bytes = v->reader.file_bytes;
    bool whole = s->bytes >= SEGMENT_LEAST_BYTES && s->bytes % FRAME_ALIGN_BYTES == 0;
    return whole ? ERR_OK : cut_fault(s, 0, f);
}

/* ---- whole frames ---- */

/* ERR_OK: the frame and its bytes. ERR_END: no whole frame at `offset`. ERR_CORRUPT: the end of the
 * file cuts it. ERR_IO. */
static enum err read_frame(struct survey *v, uint64_t offset, struct frame *ret,
                           const char **ret_bytes)
{
    const char *bytes;
    enum err err = segment_reader_view(&v->reader, offset, FRAME_HEADER_BYTES, &bytes);
    if (err != ERR_OK) return err;
    if (frame_read_header(bytes, v->reader.id, ret) != ERR_OK) return ERR_END;
    err = segment_reader_view(&v->reader, offset, frame_size(ret), &bytes);
    if (err != ERR_OK) return err == ERR_END ? ERR_CORRUPT : err;
    *ret_bytes = bytes;
    return frame_check(ret, bytes) == ERR_OK ? ERR_OK : ERR_END;
}

static bool follows(const struct survey *v, const struct frame *f)
{
    if (v->next_seq == 0) return true; /* the oldest kept one: there is nothing to compare with */
    return f->first_seq == v->next_seq &&
           memcmp(&f->previous, &v->previous, sizeof v->previous) == 0;
}

static void claim(struct survey *v, uint64_t durable_seq)
{
    if (durable_seq > v->claimed_seq) v->claimed_seq = durable_seq;
}

static enum err go_on(const struct survey *v, struct fault *f)
{
    if (v->given_up == NULL || !atomic_load_explicit(v->given_up, memory_order_relaxed))
        return ERR_OK;
    return fault_set(f, ERR_CLOSED, "", "the start was cancelled while the journal was read");
}

/* Reads the whole frames of one segment that follow each other. ERR_END: its first frame does not
 * follow the segment before. */
static enum err walk_segment(struct survey *v, size_t index, struct fault *f)
{
    struct found *s = &v->all[index];
    for (;;) {
        struct frame frame;
        const char *bytes;
        enum err err = go_on(v, f);
        if (err != ERR_OK) return err;
        err = read_frame(v, s->used, &frame, &bytes);
        if (err == ERR_END) return s->used > 0 ? ERR_OK : ERR_END;
        if (err == ERR_CORRUPT) return cut_fault(s, 0, f);
        if (err == ERR_OK && frame.segment_bytes > s->bytes)
            return cut_fault(s, frame.segment_bytes, f);
        if (err != ERR_OK) {
            char what[40];
            snprintf(what, sizeof what, "read at offset %" PRIu64, s->used);
            return segment_fault(v, err, s->id, what, f);
        }
        if (!follows(v, &frame)) {
            /* A lost frame leaves a hole, and a hole would have been found before. So this is a
             * whole frame in a place where no crash puts it. */
            if (s->used > 0)
                return fault_set(f, ERR_CORRUPT, "",
                                 "segment %016" PRIx64 ".journal, offset %" PRIu64
                                 ": the frame of seq %" PRIu64 " does not follow the one before it",
                                 s->id, s->used, frame.first_seq);
            return ERR_END;
        }
        if (s->used == 0) s->first_seq = frame.first_seq;
        v->next_seq = s->end_seq = frame.first_seq + frame.count;
        v->previous = frame_digest(&frame, bytes, v->hasher);
        if (frame.count > 0) memcpy(v->epoch, frame.epoch, JOURNAL_EPOCH_TEXT); /* a record's */
        claim(v, frame.durable_seq);
        frame_told_next(&v->told, s->used, &frame);
        if (frame.node != 0) v->node = frame.node;
        v->records += frame.count;
        s->last_ms = frame.written_ms;
        s->used += frame_size(&frame);
    }
}

static enum err walk(struct survey *v, struct fault *f)
{
    if (v->all[0].id == 1) v->next_seq = 1; /* and `previous` is zeros */
    for (size_t i = 0; i < v->count; i++) {
        enum err err = open_file(v, i, f);
        if (err == ERR_OK) err = walk_segment(v, i, f);
        if (err == ERR_END) break;
        if (err != ERR_OK) return err;
        v->last = i;
    }
    return ERR_OK;
}

/* ---- beyond the whole frames ---- */

static bool is_zeros(const char *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Refuses a header that no crash puts there: a file is zeros before its first frame, and a start
 * records nothing under a new name before its first frame is durable. So it is from another file or
 * another engine, and the original content is lost. */
static enum err refuse_foreign(const struct survey *v, const char *header, uint64_t offset,
                               struct fault *f)
{
    struct frame frame;
    uint64_t segment;
    char whose[80];
    if (frame_is_elsewheres(header, v->reader.id, &segment))
        snprintf(whose, sizeof whose, "of segment %016" PRIx64 ".journal", segment);
    else if (v->node != 0 && frame_read_header(header, v->reader.id, &frame) == ERR_OK &&
             frame.node != 0 && frame.node != v->node)
        snprintf(whose, sizeof whose, "of another engine's journal");
    else
        return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "",
                     "segment %016" PRIx64 ".journal, offset %" PRIu64
                     ": a frame %s is in the place of the records from seq %" PRIu64
                     " on; restore the right file",
                     v->reader.id, offset, whose, v->next_seq);
}

/* Scans a segment from `offset` on for headers, whose durable seq counts even if their bodies are
 * torn, and for sectors that are not zeros. ERR_CLOSED and ERR_CORRUPT set *f. */
static enum err scan(struct survey *v, uint64_t offset, bool *ret_torn, struct fault *f)
{
    while (offset < v->reader.file_bytes) {
        uint64_t left = v->reader.file_bytes - offset;
        size_t size = left < SEGMENT_READ_BYTES ? (size_t)left : SEGMENT_READ_BYTES;
        const char *bytes;
        enum err err = go_on(v, f);
        if (err == ERR_OK) err = segment_reader_view(&v->reader, offset, size, &bytes);
        if (err != ERR_OK) return err;
        offset += size;
        if (is_zeros(bytes, size)) continue;
        *ret_torn = true;
        for (size_t at = 0; at < size; at += FRAME_ALIGN_BYTES) {
            size_t piece = size - at < FRAME_ALIGN_BYTES ? size - at : FRAME_ALIGN_BYTES;
            if (is_zeros(bytes + at, piece)) continue;
            v->torn_bytes += piece;
            struct frame frame;
            if (piece < FRAME_HEADER_BYTES) continue;
            err = refuse_foreign(v, bytes + at, offset - size + at, f);
            if (err != ERR_OK) return err;
            if (frame_read_header(bytes + at, v->reader.id, &frame) != ERR_OK) continue;
            v->torn_frames++;
            claim(v, frame.durable_seq);
        }
    }
    return ERR_OK;
}

/* A later program may have written frames behind the whole ones: they must not be cut as torn. */
static enum err refuse_later(struct survey *v, uint64_t offset, struct fault *f)
{
    const char *bytes;
    enum err err = segment_reader_view(&v->reader, offset, FRAME_HEADER_BYTES, &bytes);
    if (err != ERR_OK || !frame_is_later(bytes, v->reader.id)) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "segment %016" PRIx64 ".journal, offset %" PRIu64
                     ": a newer program wrote this frame, and this one cannot read it; start the "
                     "newer one again",
                     v->reader.id, offset);
}

/* Pages must not stay in the cache where frames will be written. The kernel reads ahead into folios
 * of megabytes, and each small write or sync of a part of one looks at all of its blocks (measured
 * on ext4: 3 to 5 µs more per write). */
static enum err scan_rest(struct survey *v, struct fault *f)
{
    v->after_is_torn = v->count;
    for (size_t i = v->last; i < v->count; i++) {
        bool torn = false;
        enum err err = open_file(v, i, f);
        if (err == ERR_OK) err = refuse_later(v, v->all[i].used, f);
        if (err != ERR_OK) return err;
        err = scan(v, v->all[i].used, &torn, f);
        if (err == ERR_CLOSED || err == ERR_CORRUPT) return err;
        if (err != ERR_OK) return segment_fault(v, err, v->all[i].id, "read", f);
        if (i == v->last)
            v->last_is_torn = torn;
        else if (torn && v->after_is_torn == v->count)
            v->after_is_torn = i;
        else if (!torn) /* the spare */
            v->disk->uncache(v->disk->state, v->reader.file, v->reader.file_bytes);
    }
    return ERR_OK;
}

/* Whether a missing record had been promised to be durable. */
static enum err judge(const struct survey *v, struct fault *f)
{
    const struct found *s = &v->all[v->last];
    if (v->next_seq == 0)
        return fault_set(f, ERR_CORRUPT, "",
                         "segment %016" PRIx64
                         ".journal, offset 0: the oldest kept segment has no whole frame,"
                         " so the number of its records is lost",
                         s->id);
    if (v->claimed_seq < v->next_seq) return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "",
                     "segment %016" PRIx64 ".journal, offset %" PRIu64 ": seq %" PRIu64
                     " is damaged or missing, and everything up to seq %" PRIu64 " was durable",
                     s->id, s->used, v->next_seq, v->claimed_seq);
}

/* ---- repair ---- */

static enum err remove_after(struct survey *v, size_t from)
{
    /* Newest first and each durably, so that an interruption leaves no gap. */
    while (v->count > from) {
        char name[SEGMENT_NAME];
        segment_write_name(v->all[v->count - 1].id, name);
        enum err err = v->disk->remove(v->disk->state, name);
        if (err == ERR_OK) err = v->disk->sync_directory(v->disk->state);
        if (err != ERR_OK) return err;
        v->count--;
    }
    return ERR_OK;
}

/* Uses a fresh file if there is room for one. A full disk must not prevent the start, so otherwise
 * the same bytes are written over themselves. That is worse, because bad blocks stay in use. */
static enum err copy_one(struct survey *v, size_t index, uint64_t segment_bytes)
{
    struct found *s = &v->all[index];
    uint64_t bytes = s->bytes > segment_bytes ? s->bytes : segment_bytes; /* by its frames */
    enum err err = segment_copy(v->disk, s->id, bytes, s->used);
    if (disk_refuses(err)) return segment_rewrite(v->disk, s->id, s->used);
    if (err == ERR_OK) s->bytes = bytes;
    return err;
}

/* The last frames of a segment may hold no records, and then no durable seq covers them. They are
 * certainly synced only when the record after them is, because a sync covers everything older. */
static bool needs_copy(const struct survey *v, size_t index)
{
    const struct found *s = &v->all[index];
    if (index < v->last) return v->claimed_seq < s->end_seq;
    return s->used > 0 || v->last_is_torn; /* not a new one */
}

/* Removes later segments first: if the cut one was completed before them, a crash in between would
 * make their frames valid again. One empty segment of the right size stays as the spare. */
static enum err repair(struct survey *v, uint64_t segment_bytes)
{
    size_t keep = v->after_is_torn < v->count ? v->last + 1 : v->last + 2;
    if (keep > v->count) keep = v->count;
    if (keep == v->last + 2 && v->all[keep - 1].bytes != segment_bytes) keep--;
    enum err err = remove_after(v, keep);
    if (err == ERR_OK) err = v->disk->sync_directory(v->disk->state);
    for (size_t i = 0; err == ERR_OK && i <= v->last; i++)
        if (needs_copy(v, i)) err = copy_one(v, i, segment_bytes);
    return err;
}

static void give(struct survey *v, struct shelf *shelf, struct recovery *ret,
                 struct journal_report *report)
{
    const struct found *last = &v->all[v->last];
    for (size_t i = 0; i <= v->last; i++) {
        const struct found *s = &v->all[i];
        shelf_append(shelf, (struct segment){.id = s->id,
                                             .bytes = s->bytes,
                                             .used = s->used,
                                             .first_seq = s->first_seq,
                                             .last_ms = s->last_ms});
    }
    *ret = (struct recovery){.tail = {.segment = last->id,
                                      .segment_bytes = last->bytes,
                                      .offset = last->used,
                                      .next_seq = v->next_seq,
                                      .previous = v->previous,
                                      .told = v->told}};
    if (v->last + 1 < v->count) {
        ret->spare = v->all[v->last + 1].id;
        ret->spare_bytes = v->all[v->last + 1].bytes;
    }
    *report = (struct journal_report){.last_seq = v->next_seq - 1,
                                      .last_ms = last->last_ms,
                                      .node = v->node,
                                      .durable_seq_claimed = v->claimed_seq,
                                      .cut_frames = v->torn_frames,
                                      .cut_bytes = v->torn_bytes,
                                      .records = v->records,
                                      .segments = v->last + 1};
    memcpy(report->last_epoch, v->epoch, JOURNAL_EPOCH_TEXT);
}

/* Its content is known to be zeros, so it is not read. */
static enum err begin_empty(struct survey *v, uint64_t segment_bytes, struct fault *f)
{
    enum err err = segment_make(v->disk, 1, segment_bytes);
    if (err != ERR_OK) return disk_fault(v, err, "the first segment cannot be made", f);
    note_file(v, "0000000000000001.journal");
    v->all[0].bytes = segment_bytes;
    v->next_seq = 1;
    v->after_is_torn = v->count;
    return ERR_OK;
}

static enum err survey_run(struct survey *v, uint64_t segment_bytes, struct fault *f)
{
    enum err err = segment_remove_unready(v->disk);
    if (err != ERR_OK) return disk_fault(v, err, "the journal's segments cannot be repaired", f);
    err = list_files(v, f);
    if (err == ERR_OK && v->count == 0) return begin_empty(v, segment_bytes, f);
    if (err == ERR_OK) err = walk(v, f);
    if (err == ERR_OK) err = scan_rest(v, f);
    if (err == ERR_OK) err = judge(v, f);
    if (err != ERR_OK) return err;
    err = repair(v, segment_bytes);
    if (err != ERR_OK) return disk_fault(v, err, "the journal's tail cannot be copied", f);
    return ERR_OK;
}

enum err recover_run(struct disk *d, uint64_t segment_bytes, const _Atomic bool *given_up,
                     struct shelf *shelf, struct recovery *ret, struct journal_report *ret_report,
                     struct fault *f)
{
    struct survey v = {.disk = d, .hasher = hasher_create(), .given_up = given_up};
    segment_reader_init(&v.reader, d);
    enum err err = survey_run(&v, segment_bytes, f);
    if (err == ERR_OK) give(&v, shelf, ret, ret_report);
    segment_reader_fini(&v.reader);
    hasher_destroy(v.hasher);
    free(v.all);
    return err;
}

/* ---- replay ---- */

/* The frame was whole when the files were checked. */
static enum err unreadable(const struct survey *v, enum err err, struct fault *f)
{
    return fault_set(f, err, "",
                     "the journal cannot be read a second time from seq %" PRIu64 " on: %s",
                     v->next_seq, err_sentence(err));
}

static enum err replay_segment(struct survey *v, uint64_t end,
                               enum err (*replay)(void *context,
                                                  const struct journal_record *record),
                               void *context, struct fault *f)
{
    for (uint64_t offset = 0; offset < end;) {
        struct frame frame;
        const char *bytes;
        enum err err = go_on(v, f);
        if (err != ERR_OK) return err;
        err = read_frame(v, offset, &frame, &bytes);
        if (err == ERR_END) break; /* the segment is full */
        if (err == ERR_OK && frame.first_seq != v->next_seq) err = ERR_CORRUPT;
        if (err != ERR_OK) return unreadable(v, err, f);
        struct journal_record record = {.seq = frame.first_seq};
        memcpy(record.epoch, frame.epoch, JOURNAL_EPOCH_TEXT);
        for (size_t at = 0;
             frame_next(&frame, bytes, &at, &record.public_bytes, &record.private_bytes);
             record.seq++) {
            err = replay(context, &record);
            if (err != ERR_OK)
                return fault_set(f, err, "", "seq %" PRIu64 " cannot be replayed: %s", record.seq,
                                 err_sentence(err));
        }
        offset += frame_size(&frame);
        v->next_seq = frame.first_seq + frame.count;
    }
    return ERR_OK;
}

enum err recover_replay(struct disk *d, struct shelf *shelf, const struct tail *tail,
                        const _Atomic bool *given_up,
                        enum err (*replay)(void *context, const struct journal_record *record),
                        void *context, struct fault *f)
{
    uint64_t first_seq = shelf->all[0].first_seq;
    /* 0: it is empty */
    struct survey v = {
        .disk = d, .given_up = given_up, .next_seq = first_seq == 0 ? tail->next_seq : first_seq};
    segment_reader_init(&v.reader, d);
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < shelf->count; i++) {
        bool last = shelf->all[i].id == tail->segment;
        err = segment_reader_open(&v.reader, shelf->all[i].id);
        if (err != ERR_OK)
            err = unreadable(&v, err, f);
        else
            err = replay_segment(&v, last ? tail->offset : v.reader.file_bytes, replay, context, f);
        if (err == ERR_OK && last) /* as in scan_rest() */
            d->uncache(d->state, v.reader.file, v.reader.file_bytes);
    }
    if (err == ERR_OK && v.next_seq != tail->next_seq) err = unreadable(&v, ERR_CORRUPT, f);
    segment_reader_fini(&v.reader);
    return err;
}
