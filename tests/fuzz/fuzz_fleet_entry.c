/* fuzz_fleet_entry.c - messages of a fleet's log that somebody else wrote.
 *
 * First byte: whether the MAC is made right, so that the fuzzer gets behind it. What is read as an
 * entry gives the same bytes when it is put again, and each engine may have any history when it
 * reads it. */
#include <stdint.h>

#include "base/check.h"
#include "fleet/fleet.h"
#include "fleet/relay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 16 };

static void put_again(const struct entry *e, const struct entry_key *key, struct hasher *h,
                      struct str bytes)
{
    static char again[MOST];
    struct buf out = buf_over(again, sizeof again);
    struct entry copy = *e;
    check(entry_put(&copy, key, h, &out) == ERR_OK);
    check(str_equal(buf_view(&out), bytes));
    check(memcmp(copy.digest.bytes, e->digest.bytes, SHA256_BYTES) == 0);
}

/* Twice, at a fresh engine. */
static void follow(const struct entry *e, const struct entry_key *key)
{
    struct fleet f;
    struct fleet_options o = {.key = *key, .node = STR("node"), .reactors = 1};
    fleet_init(&f, &o, NULL, 1000);
    (void)fleet_read(&f, e, 0, 1, 1000, 0);
    (void)fleet_read(&f, e, 1, 2, 2000, 0);
    if (f.role != FLEET_ENDED) fleet_applied(&f, 0, f.replay.next);
    check(!fleet_admits(&f, 2000)); /* it has sent no heartbeat */
    fleet_fini(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char room[MOST];
    if (size < 1 || size > MOST - SHA256_BYTES) return 0;
    struct entry_key key = entry_key_derive(STR("pepper"), 7, STR("main"), (struct fleet_id){{1}});
    struct hasher *h = hasher_create();
    check(h != NULL);
    struct str bytes = str_of((const char *)data + 1, size - 1);
    if (data[0] % 2 == 0) {
        memcpy(room, bytes.bytes, bytes.size);
        struct sha256 mac =
            hasher_hmac(h, str_of((const char *)key.mac.bytes, SHA256_BYTES), bytes);
        memcpy(room + bytes.size, mac.bytes, SHA256_BYTES);
        bytes = str_of(room, bytes.size + SHA256_BYTES);
    }
    struct entry e;
    struct str node;
    uint64_t term;
    (void)relay_read_header(bytes, &node, &term);
    if (entry_read(bytes, &key, h, &e) == ENTRY_GOOD) {
        put_again(&e, &key, h, bytes);
        follow(&e, &key);
    }
    hasher_destroy(h);
    return 0;
}
