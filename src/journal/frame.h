/* frame.h - how a block of records lies in a segment. Pure: bytes in, views out, no I/O.
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
 *    96  bytes of segment    104  zeros
 *   120  CRC-32C of body and padding
 *   124  CRC-32C of bytes 0 to 123
 *
 * The bytes of the segment are its length when the frame was written: a file that is shorter now was
 * cut. Programs before this wrote zeros there, which says nothing, and read no meaning into it.
 *
 * Frames begin at multiples of 512 bytes, the sector of most disks: a disk writes whole sectors,
 * so a torn write of one frame can never reach into another frame's sector, and a search for
 * frames beyond damage has few places to look at.
 *
 * Both checksums are seeded with segment id and epoch, so that bytes which another segment or
 * another life of this disk left behind do not pass for a frame of this one. The header has its
 * own, because its durable seq is a witness even when the body beside it is torn: it was true
 * when it was written. A frame of no records is only such a witness.
 *
 * A format that comes later has another last digit in its magic, and keeps magic, segment id, epoch
 * and the header's checksum where they are: so a program that is older than its journal knows it.
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
};

struct frame {
    uint64_t segment;
    char epoch[JOURNAL_EPOCH_TEXT];
    uint64_t first_seq; /* of a frame of no records: the next record's */
    uint64_t durable_seq;
    uint64_t written_ms;
    uint64_t segment_bytes; /* of the file; 0: not told */
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

/* Whether a frame of `segment` begins with these FRAME_HEADER_BYTES. ERR_END: no magic there;
 * ERR_CORRUPT: magic, but not a header of this segment, or one that no writer of ours made. */
enum err frame_read_header(const char *bytes, uint64_t segment, struct frame *ret);

/* Whether a frame of `segment` in a format of a later program begins with these
 * FRAME_HEADER_BYTES. */
bool frame_is_later(const char *bytes, uint64_t segment);

/* The whole frame, of frame_size() bytes, after its header was read. ERR_CORRUPT: checksum, or
 * records that do not fill the body exactly. */
enum err frame_check(const struct frame *f, const char *bytes);

/* What the next frame's `previous` must be: over header and body, without padding. */
struct sha256 frame_digest(const struct frame *f, const char *bytes, struct hasher *h);

/* Walks the records of a checked frame: *offset starts at 0. False after the last. */
bool frame_next(const struct frame *f, const char *bytes, size_t *offset, struct str *ret_public,
                struct str *ret_private);

/* The two sizes before a record's bytes. */
void frame_put_record_header(char *to, size_t public_size, size_t private_size);

#endif
