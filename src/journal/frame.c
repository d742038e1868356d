#include "journal/frame.h"

#include <string.h>

#include "base/check.h"
#include "base/planted.h"

enum {
    AT_MAGIC = 0,
    AT_SEGMENT = 8,
    AT_EPOCH = 16,
    AT_FIRST_SEQ = 32,
    AT_DURABLE_SEQ = 40,
    AT_WRITTEN_MS = 48,
    AT_COUNT = 56,
    AT_BODY_BYTES = 60,
    AT_PREVIOUS = 64,
    AT_SEGMENT_BYTES = 96,
    AT_NODE = 104,
    AT_ZEROS = 112,
    AT_BODY_CRC = 120,
    AT_HEADER_CRC = 124,
};

static const char frame_magic[8] = {'w', 'r', 'i', 't', 'F', 'R', 'M', '1'};

static void put_u32(char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (char)(uint8_t)(value >> (8 * i));
}

static void put_u64(char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++) to[i] = (char)(uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const char *from)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value |= (uint32_t)(uint8_t)from[i] << (8 * i);
    return value;
}

static uint64_t get_u64(const char *from)
{
    return (uint64_t)get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

/* Segment id and epoch are adjacent in the header. */
static uint32_t crc_seed(const char *header)
{
    return crc32c(0, header + AT_SEGMENT, AT_FIRST_SEQ - AT_SEGMENT);
}

void frame_encode(struct frame *f, char *bytes)
{
    check(f->body_bytes <= FRAME_BODY_BYTES);
    size_t used = FRAME_HEADER_BYTES + (size_t)f->body_bytes, size = frame_size(f);
    memset(bytes + used, 0, size - used);

    memcpy(bytes + AT_MAGIC, frame_magic, sizeof frame_magic);
    put_u64(bytes + AT_SEGMENT, f->segment);
    memcpy(bytes + AT_EPOCH, f->epoch, JOURNAL_EPOCH_TEXT);
    put_u64(bytes + AT_FIRST_SEQ, f->first_seq);
    put_u64(bytes + AT_DURABLE_SEQ, f->durable_seq);
    put_u64(bytes + AT_WRITTEN_MS, f->written_ms);
    put_u32(bytes + AT_COUNT, f->count);
    put_u32(bytes + AT_BODY_BYTES, f->body_bytes);
    memcpy(bytes + AT_PREVIOUS, f->previous.bytes, SHA256_BYTES);
    put_u64(bytes + AT_SEGMENT_BYTES, f->segment_bytes);
    put_u64(bytes + AT_NODE, f->node);
    memset(bytes + AT_ZEROS, 0, AT_BODY_CRC - AT_ZEROS);

    uint32_t seed = crc_seed(bytes);
    f->body_crc = crc32c(seed, bytes + FRAME_HEADER_BYTES, size - FRAME_HEADER_BYTES);
    put_u32(bytes + AT_BODY_CRC, f->body_crc);
    put_u32(bytes + AT_HEADER_CRC, crc32c(seed, bytes, AT_HEADER_CRC));
}

/* An undamaged header of this segment, in any format. */
static bool header_is_whole(const char *bytes, uint64_t segment)
{
    return get_u64(bytes + AT_SEGMENT) == segment &&
           (get_u32(bytes + AT_HEADER_CRC) == crc32c(crc_seed(bytes), bytes, AT_HEADER_CRC) ||
            planted("no_crc"));
}

bool frame_is_later(const char *bytes, uint64_t segment)
{
    const size_t last = sizeof frame_magic - 1;
    return memcmp(bytes, frame_magic, last) == 0 && bytes[last] != frame_magic[last] &&
           header_is_whole(bytes, segment);
}

bool frame_is_elsewheres(const char *bytes, uint64_t segment, uint64_t *ret_segment)
{
    *ret_segment = get_u64(bytes + AT_SEGMENT);
    return memcmp(bytes, frame_magic, sizeof frame_magic) == 0 && *ret_segment != segment &&
           get_u32(bytes + AT_HEADER_CRC) == crc32c(crc_seed(bytes), bytes, AT_HEADER_CRC);
}

enum err frame_read_header(const char *bytes, uint64_t segment, struct frame *ret)
{
    if (memcmp(bytes, frame_magic, sizeof frame_magic) != 0) return ERR_END;
    if (!header_is_whole(bytes, segment)) return ERR_CORRUPT;

    struct frame f = {
        .segment = segment,
        .first_seq = get_u64(bytes + AT_FIRST_SEQ),
        .durable_seq = get_u64(bytes + AT_DURABLE_SEQ),
        .written_ms = get_u64(bytes + AT_WRITTEN_MS),
        .segment_bytes = get_u64(bytes + AT_SEGMENT_BYTES),
        .node = get_u64(bytes + AT_NODE),
        .count = get_u32(bytes + AT_COUNT),
        .body_bytes = get_u32(bytes + AT_BODY_BYTES),
        .body_crc = get_u32(bytes + AT_BODY_CRC),
    };
    memcpy(f.epoch, bytes + AT_EPOCH, JOURNAL_EPOCH_TEXT);
    memcpy(f.previous.bytes, bytes + AT_PREVIOUS, SHA256_BYTES);

    /* A header with a good checksum may still come from elsewhere: nothing below may overflow. A
     * writer cannot claim its own records durable, nor number them from 0. */
    if (f.body_bytes > FRAME_BODY_BYTES) return ERR_CORRUPT;
    if (f.count > f.body_bytes / FRAME_RECORD_HEADER_BYTES) return ERR_CORRUPT;
    if (f.first_seq == 0 || f.first_seq > UINT64_MAX / 2) return ERR_CORRUPT;
    if (f.durable_seq >= f.first_seq) return ERR_CORRUPT;
    *ret = f;
    return ERR_OK;
}

enum err frame_check(const struct frame *f, const char *bytes)
{
    size_t size = frame_size(f);
    uint32_t crc = crc32c(crc_seed(bytes), bytes + FRAME_HEADER_BYTES, size - FRAME_HEADER_BYTES);
    if (crc != f->body_crc && !planted("no_crc")) return ERR_CORRUPT;

    struct str public_bytes, private_bytes;
    size_t offset = 0;
    uint32_t count = 0;
    while (frame_next(f, bytes, &offset, &public_bytes, &private_bytes)) count++;
    return count == f->count && offset == f->body_bytes ? ERR_OK : ERR_CORRUPT;
}

struct sha256 frame_digest(const struct frame *f, const char *bytes, struct hasher *h)
{
    return hasher_sha256(h, str_of(bytes, FRAME_HEADER_BYTES + (size_t)f->body_bytes));
}

bool frame_next(const struct frame *f, const char *bytes, size_t *offset, struct str *ret_public,
                struct str *ret_private)
{
    size_t left = f->body_bytes - *offset;
    if (left < FRAME_RECORD_HEADER_BYTES) return false;
    const char *record = bytes + FRAME_HEADER_BYTES + *offset;
    uint64_t public_size = get_u32(record), private_size = get_u32(record + 4);
    if (public_size + private_size > left - FRAME_RECORD_HEADER_BYTES) return false;

    record += FRAME_RECORD_HEADER_BYTES;
    *ret_public = str_of(record, (size_t)public_size);
    *ret_private = str_of(record + public_size, (size_t)private_size);
    *offset += FRAME_RECORD_HEADER_BYTES + (size_t)(public_size + private_size);
    return true;
}

void frame_told_next(struct frame_told *t, uint64_t offset, const struct frame *f)
{
    uint64_t end = offset + frame_size(f);
    if (offset == 0) t->below_seq = f->first_seq - 1; /* it is in another file */
    uint64_t told = f->durable_seq < t->below_seq ? f->durable_seq : t->below_seq;
    if (told > t->seq) t->seq = told;
    if (end / FRAME_BLOCK_BYTES == offset / FRAME_BLOCK_BYTES) return;
    t->below_seq = end % FRAME_BLOCK_BYTES == 0 ? frame_last_seq(f) : f->first_seq - 1;
}

void frame_put_record_header(char *to, size_t public_size, size_t private_size)
{
    put_u32(to, (uint32_t)public_size);
    put_u32(to + 4, (uint32_t)private_size);
}
