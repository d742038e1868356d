/* frame.h - the form of a block of records in a segment. Pure: bytes in, views out, no I/O.
 *
 *   segment  := frame* zeros
 *   frame    := header(128) body zeros, padded to a multiple of 512 bytes, at most 256 KiB
 *   body     := record{count}
 *   record   := public_size(4) private_size(4) public private
 *
 *   header, all numbers little-endian
 *     0  magic "writFRM1"      8  segment id              16  epoch, 16 hex digits
 *    32  first seq            40  durable seq             48  written at, ms since 1970
 *    56  count of records     60  bytes of body           64  SHA-256 of the previous frame
 *    96  bytes of segment    104  tag of the node        112  zeros
 *   120  CRC-32C of body and padding
 *   124  CRC-32C of bytes 0 to 123
 *
 * The bytes of the segment are its length when the frame was written: a file that is shorter now
 * was cut. The tag is of the name under which the records are published. Earlier programs wrote
 * zeros in both places, which means "unknown", and ignore these members.
 *
 * Frames begin at multiples of 512 bytes, the sector of most disks: a disk writes whole sectors, so
 * a torn write of one frame can never reach into another frame's sector, and a search for frames
 * beyond damage has few places to look at.
 *
 * Both checksums are seeded with segment id and epoch, so that leftover bytes of another segment or
 * of another life of this disk do not pass for a frame of this one. The header has its own
 * checksum, because its durable seq is evidence even if the body beside it is torn: it was true
 * when it was written. A frame without records only carries that evidence (a claim).
 *
 * A disk that loses a block loses everything in it: the last frame of records, and a frame behind
 * it that claims them durable. So a durable seq is safe only if it is claimed in another block than
 * those records end in (frame_told_next). Before the journal rests, frames without records reach
 * into the next block.
 *
 * A later format has another last digit in its magic, and keeps the places of magic, segment id,
 * epoch and the header's checksum: so an older program recognizes it.
 *
 * Any thread. */
#ifndef JOURNAL_FRAME_H
#define JOURNAL_FRAME_H

#include "base/limits.h"
#include "crypto/crypto.h"
#include "journal/journal.h"

enum {
    FRAME_HEADER_BYTES = 128,
    FRAME_ALIGN_BYTES = 512,
    FRAME_BYTES = LIMIT_BLOCK_BYTES, /* at most, header and padding included */
    FRAME_BODY_BYTES = FRAME_BYTES - FRAME_HEADER_BYTES,
    FRAME_RECORD_HEADER_BYTES = 8,
    FRAME_BLOCK_BYTES = 4096, /* the unit that a disk loses at once */
};

struct frame {
    uint64_t segment;
    char epoch[JOURNAL_EPOCH_TEXT];
    uint64_t first_seq; /* of a frame without records: the next record's */
    uint64_t durable_seq;
    uint64_t written_ms;
    uint64_t segment_bytes; /* of the file; 0: unknown */
    uint64_t node;          /* tag of its name; 0: unknown */
    uint32_t count;
    uint32_t body_bytes;
    struct sha256 previous;
    uint32_t body_crc; /* filled by frame_encode and frame_read_header */
};

/* Header, body and padding together. */
static inline size_t frame_size(const struct frame *f)
{
    return (FRAME_HEADER_BYTES + (size_t)f->body_bytes + FRAME_ALIGN_BYTES - 1) &
           ~(size_t)(FRAME_ALIGN_BYTES - 1);
}

static inline uint64_t frame_last_seq(const struct frame *f) { return f->first_seq + f->count - 1; }

/* `bytes` holds the body at FRAME_HEADER_BYTES and has room for frame_size(); puts the header
 * before it and zeros after it. */
void frame_encode(struct frame *f, char *bytes);

/* Reads the header of a frame of `segment` from FRAME_HEADER_BYTES bytes. ERR_END: there is no
 * magic. ERR_CORRUPT: there is a magic, but not a header of this segment, or one that this program
 * never makes. */
enum err frame_read_header(const char *bytes, uint64_t segment, struct frame *ret);

/* Whether the FRAME_HEADER_BYTES begin a frame of `segment` in the format of a later program. */
bool frame_is_later(const char *bytes, uint64_t segment);

/* Whether the FRAME_HEADER_BYTES are a whole header of another segment; *ret_segment is its id. */
bool frame_is_elsewheres(const char *bytes, uint64_t segment, uint64_t *ret_segment);

/* Checks the whole frame, of frame_size() bytes, after its header was read. ERR_CORRUPT: the
 * checksum is wrong, or the records do not fill the body exactly. */
enum err frame_check(const struct frame *f, const char *bytes);

/* The value of the next frame's `previous`: over header and body, without padding. */
struct sha256 frame_digest(const struct frame *f, const char *bytes, struct hasher *h);

/* Walks the records of a checked frame: *offset starts at 0. False after the last. */
bool frame_next(const struct frame *f, const char *bytes, size_t *offset, struct str *ret_public,
                struct str *ret_private);

/* The records whose durability is claimed in another block than they end in, so that losing one
 * block cannot lose both. */
struct frame_told {
    uint64_t seq; /* the records up to here */
    uint64_t
        below_seq; /* the last record that ends before the block in which the next frame begins */
};
/* Notes that the frame at `offset` of its segment was written or read. Call it for all frames in
 * order, from a segment's begin. */
void frame_told_next(struct frame_told *t, uint64_t offset, const struct frame *f);

/* The two sizes before a record's bytes. */
void frame_put_record_header(char *to, size_t public_size, size_t private_size);

#endif
