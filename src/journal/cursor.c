/* cursor.c - reads durable records back, in large pieces.
 *
 * A cursor has its own file and buffer, and shares only two things with the journal writer: the
 * durable seq, which limits how far it may read, and the shelf, which has the next segment. Up to
 * the durable seq the file cannot change, so a piece stays valid while the wanted record was
 * durable when the piece was read. Nothing behind the last frame is read: the page cache has
 * nothing there, and the disk only zeros.
 *
 * Bytes at some distance behind a cursor leave the page cache. The distance is for other cursors on
 * the same journal: one that keeps up finds its bytes in the cache, a slower one reads them from
 * the disk. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "journal/inside.h"

struct journal_cursor {
    struct journal_writer *journal_writer;
    struct segment_reader reader;
    uint64_t offset;    /* of the present frame, or of the next one */
    uint64_t dropped;   /* the page cache of this segment was dropped up to here */
    uint64_t next_seq;  /* the first seq of the frame at `offset` */
    uint64_t want;      /* the record to be returned next */
    uint64_t as_of_seq; /* the durable seq when the reader's buffer was read */
    bool inside;        /* the records of a checked frame are being returned */
    struct frame frame;
    const char *bytes;
    size_t record_offset;
    uint64_t record_seq;
};

enum err journal_cursor_open(struct journal *j, uint64_t seq, struct journal_cursor **ret,
                             struct fault *f)
{
    struct journal_writer *s = &j->journal_writer;
    uint64_t written = atomic_load(&s->written_seq);
    if (seq == 0 || seq > written + 1)
        return fault_set(f, ERR_NOT_FOUND, "",
                         "seq %" PRIu64 " does not exist yet: the journal's last is %" PRIu64, seq,
                         written);
    struct segment segment;
    if (!shelf_find(&s->shelf, seq, &segment))
        return fault_set(f, ERR_NOT_FOUND, "", "seq %" PRIu64 " is no longer kept", seq);

    struct journal_cursor *c = calloc(1, sizeof *c);
    if (c == NULL) return fault_set(f, ERR_FULL, "", "there is no memory to read the journal");
    c->journal_writer = s;
    c->want = seq;
    /* an empty segment begins with the next record */
    c->next_seq = segment.first_seq != 0 ? segment.first_seq : seq;
    segment_reader_init(&c->reader, s->disk);
    enum err err = segment_reader_open(&c->reader, segment.id);
    if (err != ERR_OK) {
        journal_cursor_close(c);
        return fault_set(f, err, "", "segment %016" PRIx64 ".journal cannot be opened", segment.id);
    }
    *ret = c;
    return ERR_OK;
}

void journal_cursor_close(struct journal_cursor *c)
{
    if (c == NULL) return;
    segment_reader_fini(&c->reader);
    free(c);
}

static enum err damaged(const struct journal_cursor *c, struct fault *f)
{
    return fault_set(f, ERR_CORRUPT, "",
                     "segment %016" PRIx64 ".journal, offset %" PRIu64 ": the frame of seq %" PRIu64
                     ", which was durable, is damaged",
                     c->reader.id, c->offset, c->want);
}

/* Limits reading to the frames written until now. */
static void see_end(struct journal_cursor *c)
{
    uint64_t used = shelf_used(&c->journal_writer->shelf, c->reader.id);
    c->reader.end = used < c->reader.file_bytes ? used : c->reader.file_bytes;
}

static void drop_behind(struct journal_cursor *c)
{
    if (c->offset < c->dropped + CURSOR_DROP_BYTES + CURSOR_DISTANCE_BYTES) return;
    c->dropped = c->offset - CURSOR_DISTANCE_BYTES;
    c->journal_writer->disk->uncache(c->journal_writer->disk->state, c->reader.file, c->dropped);
}

/* Continues in the next segment, which must begin where this one ended. */
static enum err hop(struct journal_cursor *c, struct fault *f)
{
    struct segment next;
    if (!shelf_after(&c->journal_writer->shelf, c->reader.id, &next)) {
        if (shelf_find(&c->journal_writer->shelf, c->want, &next)) return damaged(c, f);
        return fault_set(f, ERR_NOT_FOUND, "", "seq %" PRIu64 " is no longer kept", c->want);
    }
    if (next.first_seq != c->next_seq) return damaged(c, f);
    /* if there is one, the syncer dropped `next` from the cache before it was read */
    struct segment newer;
    if (shelf_after(&c->journal_writer->shelf, next.id, &newer))
        c->journal_writer->disk->uncache(c->journal_writer->disk->state, c->reader.file,
                                         c->reader.end);
    enum err err = segment_reader_open(&c->reader, next.id);
    if (err != ERR_OK)
        return fault_set(f, err, "", "segment %016" PRIx64 ".journal cannot be opened", next.id);
    c->offset = c->dropped = 0;
    see_end(c);
    return ERR_OK;
}

/* Enters the frame that holds the wanted record, or skips one frame, or goes to the next
 * segment. */
static enum err advance(struct journal_cursor *c, struct fault *f)
{
    const char *bytes;
    drop_behind(c);
    enum err err = segment_reader_view(&c->reader, c->offset, FRAME_HEADER_BYTES, &bytes);
    if (err == ERR_END) return hop(c, f);
    if (err != ERR_OK) return fault_set(f, err, "", "the journal cannot be read");
    if (frame_read_header(bytes, c->reader.id, &c->frame) != ERR_OK) return hop(c, f);
    if (c->frame.first_seq != c->next_seq) return damaged(c, f);
    if (frame_last_seq(&c->frame) < c->want) {
        c->offset += frame_size(&c->frame);
        c->next_seq = c->frame.first_seq + c->frame.count;
        return ERR_OK;
    }

    err = segment_reader_view(&c->reader, c->offset, frame_size(&c->frame), &c->bytes);
    if (err != ERR_OK && err != ERR_END) return fault_set(f, err, "", "the journal cannot be read");
    if (err == ERR_END || frame_check(&c->frame, c->bytes) != ERR_OK) return damaged(c, f);
    c->inside = true;
    c->record_offset = 0;
    c->record_seq = c->frame.first_seq;
    return ERR_OK;
}

enum err journal_cursor_next(struct journal_cursor *c, struct journal_record *ret, struct fault *f)
{
    for (;;) {
        if (c->inside) {
            struct journal_record record;
            while (frame_next(&c->frame, c->bytes, &c->record_offset, &record.public_bytes,
                              &record.private_bytes)) {
                record.seq = c->record_seq++;
                if (record.seq < c->want) continue;
                memcpy(record.epoch, c->frame.epoch, JOURNAL_EPOCH_TEXT);
                c->want = record.seq + 1;
                *ret = record;
                return ERR_OK;
            }
            c->inside = false;
            c->offset += frame_size(&c->frame);
            c->next_seq = c->frame.first_seq + c->frame.count;
        }
        if (c->want > c->as_of_seq) {
            uint64_t durable =
                atomic_load_explicit(&c->journal_writer->durable_seq, memory_order_acquire);
            if (c->want > durable) return ERR_END;
            segment_reader_forget(&c->reader);
            see_end(c);
            c->as_of_seq = durable;
        }
        enum err err = advance(c, f);
        if (err != ERR_OK) return err;
    }
}
