/* fuzz_frame.c - a frame's reader against any bytes.
 *
 * The first byte chooses: the bytes as they are (the header's checksum stops nearly all), or with
 * the checksums put right, so that what comes after them is reached too. What is taken must stay
 * inside its own bytes, count its records right, and be the same frame when encoded again. */
#include <stdlib.h>

#include "base/check.h"
#include "journal/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_right(char *bytes, size_t size)
{
    uint32_t seed = crc32c(0, bytes + 8, 24), body;
    memcpy(&body, bytes + 60, sizeof body);
    struct frame f = {.body_bytes = body};
    if (body <= FRAME_BODY_BYTES && frame_size(&f) <= size) {
        uint32_t crc =
            crc32c(seed, bytes + FRAME_HEADER_BYTES, frame_size(&f) - FRAME_HEADER_BYTES);
        memcpy(bytes + 120, &crc, sizeof crc);
    }
    uint32_t crc = crc32c(seed, bytes, 124);
    memcpy(bytes + 124, &crc, sizeof crc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + FRAME_HEADER_BYTES || size > 4 * FRAME_BYTES) return 0;
    bool right = (data[0] & 1) != 0;
    size--;
    char *bytes = malloc(size);
    check(bytes != NULL);
    memcpy(bytes, data + 1, size);
    if (right) {
        memcpy(bytes, "writFRM1\1\0\0\0\0\0\0\0", 16);
        put_right(bytes, size);
    }

    struct frame f;
    if (frame_read_header(bytes, 1, &f) == ERR_OK && frame_size(&f) <= size &&
        frame_check(&f, bytes) == ERR_OK) {
        struct str public_bytes, private_bytes;
        size_t offset = 0;
        uint32_t count = 0;
        while (frame_next(&f, bytes, &offset, &public_bytes, &private_bytes)) {
            check(public_bytes.bytes >= bytes && private_bytes.bytes + private_bytes.size <=
                                                     bytes + FRAME_HEADER_BYTES + f.body_bytes);
            count++;
        }
        check(count == f.count && offset == f.body_bytes);
        check(f.durable_seq < f.first_seq);
        struct frame again = f, read;
        frame_encode(&again, bytes);
        check(frame_read_header(bytes, 1, &read) == ERR_OK && frame_check(&read, bytes) == ERR_OK);
        check(read.first_seq == f.first_seq && read.count == f.count &&
              read.durable_seq == f.durable_seq);
    }
    free(bytes);
    return 0;
}
