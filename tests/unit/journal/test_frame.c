#include "journal/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct sample {
    struct frame frame;
    char bytes[2048];
};

static struct sample make(void)
{
    struct sample s = {.frame = {.segment = 7,
                                 .epoch = "0123456789abcde",
                                 .first_seq = 100,
                                 .durable_seq = 98,
                                 .written_ms = 1234567,
                                 .count = 2}};
    s.frame.epoch[15] = 'f';
    memset(s.frame.previous.bytes, 0x5a, SHA256_BYTES);
    char *to = s.bytes + FRAME_HEADER_BYTES;
    frame_put_record_header(to, 5, 3);
    memcpy(to + 8, "helloabc", 8);
    frame_put_record_header(to + 16, 0, 400);
    memset(to + 24, 'p', 400);
    s.frame.body_bytes = 424;
    frame_encode(&s.frame, s.bytes);
    return s;
}

static void what_was_encoded_is_read_back(void **state)
{
    (void)state;
    struct sample s = make();
    struct frame f;
    assert_int_equal(frame_read_header(s.bytes, 7, &f), ERR_OK);
    assert_int_equal(frame_check(&f, s.bytes), ERR_OK);
    assert_int_equal(f.first_seq, 100);
    assert_int_equal(f.durable_seq, 98);
    assert_int_equal(f.written_ms, 1234567);
    assert_int_equal(f.count, 2);
    assert_int_equal(frame_last_seq(&f), 101);
    assert_int_equal(frame_size(&f), 1024);
    assert_memory_equal(f.epoch, "0123456789abcdef", JOURNAL_EPOCH_TEXT);
    assert_memory_equal(&f.previous, &s.frame.previous, sizeof f.previous);

    struct str public_bytes, private_bytes;
    size_t offset = 0;
    assert_true(frame_next(&f, s.bytes, &offset, &public_bytes, &private_bytes));
    assert_true(str_equal(public_bytes, STR("hello")));
    assert_true(str_equal(private_bytes, STR("abc")));
    assert_true(frame_next(&f, s.bytes, &offset, &public_bytes, &private_bytes));
    assert_int_equal(public_bytes.size, 0);
    assert_int_equal(private_bytes.size, 400);
    assert_false(frame_next(&f, s.bytes, &offset, &public_bytes, &private_bytes));
}

static void the_layout_on_disk_is_the_documented_one(void **state)
{
    (void)state;
    struct sample s = make();
    assert_memory_equal(s.bytes, "writFRM1", 8);
    assert_memory_equal(s.bytes + 8, "\7\0\0\0\0\0\0\0", 8);
    assert_memory_equal(s.bytes + 16, "0123456789abcdef", 16);
    assert_memory_equal(s.bytes + 32, "\144\0\0\0\0\0\0\0", 8);
    assert_memory_equal(s.bytes + 40, "\142\0\0\0\0\0\0\0", 8);
    assert_memory_equal(s.bytes + 48, "\207\326\22\0\0\0\0\0", 8);
    assert_memory_equal(s.bytes + 56, "\2\0\0\0\250\1\0\0", 8);
    assert_int_equal(s.bytes[64], 0x5a);
    assert_memory_equal(s.bytes + 128, "\5\0\0\0\3\0\0\0hello", 13);
    for (size_t i = 128 + 424; i < 1024; i++) assert_int_equal(s.bytes[i], 0);
}

static void every_single_flipped_bit_is_noticed(void **state)
{
    (void)state;
    struct sample s = make();
    size_t size = frame_size(&s.frame);
    for (size_t bit = 0; bit < size * 8; bit++) {
        s.bytes[bit / 8] = (char)(s.bytes[bit / 8] ^ (1 << (bit % 8)));
        struct frame f;
        bool taken =
            frame_read_header(s.bytes, 7, &f) == ERR_OK && frame_check(&f, s.bytes) == ERR_OK;
        if (taken) fail_msg("bit %zu was not noticed", bit);
        s.bytes[bit / 8] = (char)(s.bytes[bit / 8] ^ (1 << (bit % 8)));
    }
}

static void a_frame_of_another_segment_is_not_taken(void **state)
{
    (void)state;
    struct sample s = make();
    struct frame f;
    assert_int_equal(frame_read_header(s.bytes, 8, &f), ERR_CORRUPT);
    s.bytes[8] = 8; /* whoever changes the id must also know the seed */
    assert_int_equal(frame_read_header(s.bytes, 8, &f), ERR_CORRUPT);
}

static void zeros_and_noise_are_no_frame(void **state)
{
    (void)state;
    char bytes[FRAME_HEADER_BYTES] = {0};
    struct frame f;
    assert_int_equal(frame_read_header(bytes, 1, &f), ERR_END);
    memset(bytes, 0xA7, sizeof bytes);
    assert_int_equal(frame_read_header(bytes, 1, &f), ERR_END);
}

/* Encodes a header that no writer makes, with right checksums. */
static enum err read_strange(struct frame strange)
{
    static char bytes[FRAME_BYTES];
    strange.segment = 7;
    memcpy(strange.epoch, "0123456789abcdef", JOURNAL_EPOCH_TEXT);
    frame_encode(&strange, bytes);
    struct frame f;
    enum err err = frame_read_header(bytes, 7, &f);
    return err == ERR_OK ? frame_check(&f, bytes) : err;
}

static void a_well_summed_header_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    assert_int_equal(read_strange((struct frame){.first_seq = 5, .durable_seq = 4}), ERR_OK);
    assert_int_equal(read_strange((struct frame){.first_seq = 0}), ERR_CORRUPT);
    assert_int_equal(read_strange((struct frame){.first_seq = UINT64_MAX}), ERR_CORRUPT);
    assert_int_equal(read_strange((struct frame){.first_seq = 5, .durable_seq = 5}), ERR_CORRUPT);
    assert_int_equal(read_strange((struct frame){.first_seq = 5, .count = 1}), ERR_CORRUPT);
    assert_int_equal(read_strange((struct frame){.first_seq = 5, .body_bytes = 16, .count = 1}),
                     ERR_CORRUPT);
    assert_int_equal(read_strange((struct frame){.first_seq = 5, .body_bytes = 16, .count = 2}),
                     ERR_OK);
    assert_int_equal(read_strange((struct frame){.first_seq = 5, .body_bytes = 20, .count = 2}),
                     ERR_CORRUPT);
}

/* Cursors and recovery step over frames by their headers alone, before they look at the bodies. */
static void a_header_that_promises_more_than_a_frame_has_is_refused_alone(void **state)
{
    (void)state;
    char bytes[FRAME_ALIGN_BYTES] = {0};
    struct frame f = {.segment = 7, .first_seq = 5, .body_bytes = 16, .count = 3};
    frame_encode(&f, bytes);
    assert_int_equal(frame_read_header(bytes, 7, &f), ERR_CORRUPT);

    f = (struct frame){.segment = 7, .first_seq = 5};
    frame_encode(&f, bytes);
    const uint32_t large = FRAME_BODY_BYTES + 1;
    memcpy(bytes + 60, &large, sizeof large); /* where its size is, and its sum */
    const uint32_t crc = crc32c(crc32c(0, bytes + 8, 24), bytes, 124);
    memcpy(bytes + 124, &crc, sizeof crc);
    assert_int_equal(frame_read_header(bytes, 7, &f), ERR_CORRUPT);
}

static void a_record_longer_than_its_frame_ends_the_walk(void **state)
{
    (void)state;
    struct sample s = make();
    frame_put_record_header(s.bytes + FRAME_HEADER_BYTES, UINT32_MAX, UINT32_MAX);
    struct str public_bytes, private_bytes;
    size_t offset = 0;
    assert_false(frame_next(&s.frame, s.bytes, &offset, &public_bytes, &private_bytes));
}

static void the_digest_covers_header_and_body(void **state)
{
    (void)state;
    struct sample s = make();
    struct hasher *h = hasher_create();
    struct sha256 before = frame_digest(&s.frame, s.bytes, h);
    struct sha256 same = sha256_once(str_of(s.bytes, FRAME_HEADER_BYTES + 424));
    assert_memory_equal(&before, &same, sizeof before);
    s.frame.durable_seq--;
    frame_encode(&s.frame, s.bytes);
    struct sha256 after = frame_digest(&s.frame, s.bytes, h);
    assert_memory_not_equal(&before, &after, sizeof before);
    hasher_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_encoded_is_read_back),
        cmocka_unit_test(the_layout_on_disk_is_the_documented_one),
        cmocka_unit_test(every_single_flipped_bit_is_noticed),
        cmocka_unit_test(a_frame_of_another_segment_is_not_taken),
        cmocka_unit_test(zeros_and_noise_are_no_frame),
        cmocka_unit_test(a_well_summed_header_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_header_that_promises_more_than_a_frame_has_is_refused_alone),
        cmocka_unit_test(a_record_longer_than_its_frame_ends_the_walk),
        cmocka_unit_test(the_digest_covers_header_and_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
