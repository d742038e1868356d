/* test_run_mac.c - the MAC of runs: vectors computed by tests/e2e/run_mac.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "evidence/merkle.h"
#include "evidence/run_mac.h"

enum { LEAVES = 3 };

static struct sha256 key_for(struct str node, struct str journal)
{
    struct sha256 all;
    for (size_t i = 0; i < sizeof all.bytes; i++) all.bytes[i] = (uint8_t)i;
    return run_key(&all, node, journal);
}

static void assert_hex(struct sha256 s, const char *expected)
{
    char hex[SHA256_HEX + 1] = {0};
    sha256_write_hex(s, hex);
    assert_string_equal(hex, expected);
}

static void a_mac_has_every_part_of_its_run(void **state)
{
    (void)state;
    static const struct {
        struct str epoch;
        uint64_t first_seq, count;
        struct run_checkpoint checkpoint;
        const char *mac;
    } rows[] = {
        {STR("0123456789abcdef"),
         41,
         3,
         {7, STR("note"), STR("frontier")},
         "2410608d2988665b08b71bcbfd7157267af6862ae5088327faf44774e6ec378c"},
        {STR("0123456789abcdef"),
         41,
         3,
         {0, STR(""), STR("")},
         "09bf288e6624516a7272cc825e3d145549459cf3603d7272fff365237292739c"},
        {STR("fedcba9876543210"),
         1ull << 40,
         1,
         {0, STR(""), STR("")},
         "68897140f48d70c85afe02ac05e6f99fff234ec3b590138e4fd0dbd5f0c8e4d0"},
    };
    struct hasher *h = hasher_create();
    const struct sha256 raw = key_for(STR("node 1"), STR("0"));
    const struct hmac_key key = run_key_prepare(h, &raw);
    const struct sha256 leaves[LEAVES] = {
        merkle_leaf(h, STR("first")), merkle_leaf(h, STR("second")), merkle_leaf(h, STR("third"))};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct run run = {.epoch = rows[i].epoch,
                                .first_seq = rows[i].first_seq,
                                .count = rows[i].count,
                                .leaves = leaves,
                                .checkpoint = rows[i].checkpoint};
        assert_hex(run_mac(h, &key, &run), rows[i].mac);
    }
    hasher_destroy(h);
}

static void each_stream_has_a_key_of_its_own(void **state)
{
    (void)state;
    assert_hex(key_for(STR("node 1"), STR("0")),
               "926c7e39cf5d40cd295660bea017a022ec9adb4c8f2f0e7078ecdc89a7465bcc");
    const struct sha256 one = key_for(STR("n"), STR("1")), other = key_for(STR("n1"), STR(""));
    assert_false(sha256_equal(&one, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mac_has_every_part_of_its_run),
        cmocka_unit_test(each_stream_has_a_key_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
