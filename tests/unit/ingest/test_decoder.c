/* A batch's lines come out of the decoder as they went in, however many they are. */
#include "rig.h"

#include "base/limits.h"
#include "evidence/merkle.h"
#include "store/decoder.h"

static void fill(struct buf *b, unsigned count)
{
    buf_clear(b);
    for (unsigned n = 0; n < count; n++) {
        if (n % 7 == 3)
            buf_put_literal(b, "no event");
        else
            put_event(b, n, "default");
        buf_put_byte(b, '\n');
    }
}

static void assert_leaf(const struct decoded *d)
{
    struct hasher *h = hasher_create();
    const struct sha256 leaf = merkle_leaf(h, d->line);
    hasher_destroy(h);
    assert_memory_equal(&leaf, &d->leaf, sizeof leaf);
}

/* Takes up to `most` lines and compares them; how many there were. */
static unsigned take(struct decoder *d, unsigned most, bool hashes)
{
    const struct decoded *list;
    unsigned n = 0;
    for (size_t count; n < most && (count = decoder_next(d, &list)) > 0;)
        for (size_t i = 0; i < count; i++, n++) {
            char id[32];
            snprintf(id, sizeof id, "evt_%026u", n);
            assert_int_equal(list[i].is_valid, n % 7 != 3);
            if (hashes) assert_leaf(&list[i]);
            if (list[i].is_valid) assert_true(str_equal(list[i].event.event_id, str_from(id)));
        }
    return n;
}

static void every_line_comes_out_once_and_in_order(void **state)
{
    static const unsigned counts[] = {0, 1, 2, 127, 128, 129, 1000, 5000, 3, 20000, 0, 700};
    struct decoder *d = decoder_create();
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 20, 64 << 20);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        fill(&b, counts[i]);
        decoder_begin(d, buf_view(&b), i % 2 == 0);
        assert_int_equal(take(d, UINT32_MAX, i % 2 == 0), counts[i]);
        decoder_end(d);
    }
    buf_fini(&b);
    decoder_destroy(d);
}

/* A line of `size` bytes of one-byte values, which take the most room when they are read. */
static void put_values(struct buf *b, size_t size)
{
    static const char begin[] =
        "{\"event_id\":\"evt_00000000000000000000000001\",\"kind\":\"decision\",\"tenant_id\":\"default\","
        "\"timestamp\":\"2026-11-20T09:30:00.123Z\",\"args\":{\"of\":[0",
                      end[] = "]}}\n";
    size_t left = size - (sizeof begin - 1) - (sizeof end - 2);
    buf_put(b, str_of(begin, sizeof begin - 1));
    for (; left > 1; left -= 2) buf_put_literal(b, ",0");
    if (left > 0) buf_put_byte(b, ' ');
    buf_put(b, str_of(end, sizeof end - 1));
}

static void the_largest_events_are_read_however_many_come_and_larger_ones_are_not(void **state)
{
    enum { LINES = 40 };
    struct decoder *d = decoder_create();
    const struct decoded *list;
    struct buf b;
    size_t lines = 0;
    (void)state;
    buf_init(&b, 1 << 20, 64 << 20);
    for (size_t i = 0; i < LINES; i++) put_values(&b, LIMIT_EVENT_BYTES + i % 2);
    decoder_begin(d, buf_view(&b), false);
    for (size_t count; (count = decoder_next(d, &list)) > 0;)
        for (size_t i = 0; i < count; i++, lines++) {
            assert_int_equal(list[i].is_valid, lines % 2 == 0);
            assert_int_equal(list[i].line.size, LIMIT_EVENT_BYTES + lines % 2);
        }
    assert_int_equal(lines, LINES);
    decoder_end(d);
    buf_fini(&b);
    decoder_destroy(d);
}

static void a_batch_may_be_given_up_anywhere(void **state)
{
    struct decoder *d = decoder_create();
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 20, 64 << 20);
    for (unsigned i = 0; i < 200; i++) {
        fill(&b, 3000);
        decoder_begin(d, buf_view(&b), false);
        take(d, i * 20, false);
        decoder_end(d);
        memset(b.bytes, 'x', b.size); /* it is not read any more */
    }
    fill(&b, 4000);
    decoder_begin(d, buf_view(&b), false);
    assert_int_equal(take(d, UINT32_MAX, false), 4000);
    decoder_end(d);
    buf_fini(&b);
    decoder_destroy(d);
}

static void one_that_is_given_up_may_be_destroyed(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 20, 64 << 20);
    fill(&b, 5000);
    for (unsigned i = 0; i < 20; i++) {
        struct decoder *d = decoder_create();
        decoder_begin(d, buf_view(&b), false);
        decoder_end(d);
        decoder_destroy(d);
    }
    decoder_destroy(NULL);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_comes_out_once_and_in_order),
        cmocka_unit_test(the_largest_events_are_read_however_many_come_and_larger_ones_are_not),
        cmocka_unit_test(a_batch_may_be_given_up_anywhere),
        cmocka_unit_test(one_that_is_given_up_may_be_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
