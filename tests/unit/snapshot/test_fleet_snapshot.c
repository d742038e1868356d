/* test_fleet_snapshot.c - a fleet's snapshot comes back whole, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/check.h"
#include "shards/delta.h"
#include "shards/serialize.h"
#include "shards/slot.h"
#include "sim/sim_disk.h"
#include "snapshot/fleet_snapshot.h"
#include "snapshot/replay.h"

static struct entry_key key_of(const char *pepper)
{
    return entry_key_derive(str_from(pepper), 7, STR("main"), (struct fleet_id){{5}});
}

static struct shard *shard_of_all(void)
{
    struct shard *s = shard_create(&(struct shard_options){.count = 1});
    assert_non_null(s);
    return s;
}

/* Tokens, as many. */
static struct shard *state_of(unsigned tokens)
{
    struct shard *s = shard_of_all();
    for (unsigned n = 1; n <= tokens; n++) {
        char bytes[1 << 10];
        struct buf delta = buf_over(bytes, sizeof bytes);
        struct id id = {{0}};
        struct retry none = {0};
        id.bytes[15] = (uint8_t)n;
        struct token_facts t = {.id = slot_id(id, n % LIMIT_SLOTS),
                                .tenant = STR("default"),
                                .actor = STR("agent-7"),
                                .scope = STR("*"),
                                .signer = 1,
                                .ordinal = n,
                                .issued_ms = 1000,
                                .expires_ms = 3600000};
        delta_put_minted(&delta, &t, &none);
        struct journal_record r = {.seq = n, .private_bytes = buf_view(&delta)};
        struct fault f;
        assert_int_equal(replay_record(&s, 1, &r, &f), ERR_OK);
    }
    return s;
}

static struct fleet_snapshot snapshot_of(uint64_t next)
{
    struct fleet_snapshot s = {
        .trail = {.seq = 4, .term = 3, .tree = {.size = 3, .roots = {{{1}}, {{2}}}}}};
    s.saved.replay = (struct log_replay){.next = next,
                                         .newest = {{7}},
                                         .last = {.term = next > 0 ? 3 : 0, .n = 9},
                                         .last_offset = 70,
                                         .before = {.term = 2, .n = 1, .digest = {{4}}},
                                         .leader = {{6}},
                                         .format = ENTRY_FORMAT_FIRST,
                                         .time_ms = 1234};
    s.saved.peers.list[0] = (struct peer){.incarnation = {{8}},
                                          .number = 3,
                                          .first_offset = 11,
                                          .applied = 12,
                                          .longest_lease_ms = 30000,
                                          .closed = true};
    s.saved.peers.count = next > 0 ? 1 : 0;
    s.saved.peers.others_longest_lease_ms = 5000;
    return s;
}

struct rig {
    struct sim_counts counts;
    struct sim_disk *sim;
    struct disk *disk;
    struct entry_key key;
    unsigned entries;
    struct fleet_snapshot read; /* the last one */
};

static void rig_init(struct rig *r)
{
    *r = (struct rig){.key = key_of("pepper")};
    r->sim = sim_disk_create(11, 1 << 26, &r->counts);
    r->disk = sim_disk_door(r->sim);
}

static void rig_fini(struct rig *r)
{
    fleet_snapshot_fini(&r->read);
    sim_disk_destroy(r->sim);
}

static void write_one(struct rig *r, struct fleet_snapshot *s, unsigned tokens)
{
    struct fault f;
    struct shard *shard = state_of(tokens);
    assert_int_equal(fleet_snapshot_write(r->disk, &r->key, s, &shard, 1, NULL, &f), ERR_OK);
    shard_destroy(shard);
}

static enum err count(void *context, unsigned slot, struct str entry)
{
    struct rig *r = context;
    struct shard_entry e;
    assert_true(shard_entry_read(entry, &e) && e.slot == slot);
    r->entries++;
    return ERR_OK;
}

static enum err read_newest(struct rig *r, uint64_t least, struct fleet_snapshot *ret)
{
    struct fault f;
    r->entries = 0;
    fleet_snapshot_fini(&r->read);
    enum err err = fleet_snapshot_read(r->disk, &r->key, least, NULL, count, r, &r->read, &f);
    *ret = r->read; /* its `past` is the rig's */
    return err;
}

static void what_was_saved_comes_back(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_snapshot s = snapshot_of(80), back;
    char past[] = "marks";
    rig_init(&r);
    s.past = (struct buf){.bytes = past, .size = 5};
    assert_int_equal(read_newest(&r, 0, &back), ERR_NOT_FOUND);
    write_one(&r, &s, 40);
    assert_int_equal(read_newest(&r, 0, &back), ERR_OK);
    assert_memory_equal(&back.saved, &s.saved, sizeof s.saved);
    assert_memory_equal(&back.trail, &s.trail, sizeof s.trail);
    assert_true(str_equal(buf_view(&back.past), STR("marks")));
    assert_int_equal(r.entries, 40);
    rig_fini(&r);
}

static void the_state_that_a_fleet_begins_with_is_named_by_its_seal(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_snapshot s = snapshot_of(0), other = snapshot_of(0), back;
    rig_init(&r);
    write_one(&r, &s, 40);
    assert_int_equal(read_newest(&r, 0, &back), ERR_OK);
    assert_memory_equal(&back.saved.replay.last.digest, &s.saved.replay.last.digest, SHA256_BYTES);
    write_one(&r, &other, 41);
    assert_memory_not_equal(&other.saved.replay.last.digest, &s.saved.replay.last.digest,
                            SHA256_BYTES);
    rig_fini(&r);
}

static void the_newest_that_the_log_follows_is_taken(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_snapshot back;
    uint64_t newest, oldest;
    rig_init(&r);
    for (uint64_t next = 10; next <= 40; next += 10) {
        struct fleet_snapshot s = snapshot_of(next);
        write_one(&r, &s, (unsigned)next);
    }
    assert_int_equal(fleet_snapshot_drop(r.disk, false), ERR_OK);
    assert_int_equal(fleet_snapshots(r.disk, &newest, &oldest), 2);
    assert_true(newest == 40 && oldest == 30);
    assert_int_equal(read_newest(&r, 40, &back), ERR_OK);
    assert_int_equal(back.saved.replay.next, 40);
    assert_int_equal(read_newest(&r, 41, &back), ERR_NOT_FOUND);
    assert_int_equal(fleet_snapshot_drop(r.disk, true), ERR_OK);
    assert_int_equal(fleet_snapshots(r.disk, &newest, &oldest), 0);
    rig_fini(&r);
}

static void flip(struct rig *r, const char *name, uint64_t offset)
{
    uint64_t size;
    const char *bytes = sim_disk_bytes(r->sim, name, &size);
    assert_non_null(bytes);
    char flipped = (char)(bytes[offset] ^ 16);
    assert_true(sim_disk_damage(r->sim, name, offset, &flipped, 1));
}

static void of_a_damaged_one_nothing_is_read_and_the_one_before_serves(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_snapshot s = snapshot_of(80), older = snapshot_of(70), back;
    struct fault f;
    char name[STATE_FILE_NAME];
    uint64_t size;
    rig_init(&r);
    write_one(&r, &older, 1);
    write_one(&r, &s, 2);
    fleet_snapshot_name(80, name);
    assert_non_null(sim_disk_bytes(r.sim, name, &size));
    for (uint64_t at = 0; at < size; at += 37) {
        flip(&r, name, at);
        assert_int_not_equal(fleet_snapshot_verify(r.disk, &r.key, name, 80, NULL, &f), ERR_OK);
        assert_int_equal(read_newest(&r, 0, &back), ERR_OK);
        assert_int_equal(back.saved.replay.next, 70);
        assert_int_equal(r.entries, 1);
        flip(&r, name, at); /* and back */
    }
    assert_int_equal(fleet_snapshot_verify(r.disk, &r.key, name, 80, NULL, &f), ERR_OK);
    assert_int_equal(fleet_snapshot_verify(r.disk, &r.key, name, 81, NULL, &f), ERR_CORRUPT);
    assert_int_equal(read_newest(&r, 0, &back), ERR_OK);
    assert_int_equal(back.saved.replay.next, 80);
    rig_fini(&r);
}

static void one_of_another_pepper_is_not_read(void **state)
{
    (void)state;
    struct rig r;
    struct fleet_snapshot s = snapshot_of(80), back;
    rig_init(&r);
    write_one(&r, &s, 1);
    r.key = key_of("another");
    assert_int_equal(read_newest(&r, 0, &back), ERR_NOT_FOUND);
    assert_int_equal(r.entries, 0);
    rig_fini(&r);
}

static void names_are_read_as_they_are_written(void **state)
{
    (void)state;
    uint64_t next;
    assert_true(fleet_snapshot_name_read(STR("fleet-00000000000000ff"), &next) && next == 255);
    const char *wrong[] = {"fleet-ff",
                           "fleet-00000000000000fF",
                           "snapshot-00000000000000ff",
                           "fleet-00000000000000ff.new",
                           "../fleet-00000000000000ff",
                           ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(fleet_snapshot_name_read(str_from(wrong[i]), &next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_comes_back),
        cmocka_unit_test(the_state_that_a_fleet_begins_with_is_named_by_its_seal),
        cmocka_unit_test(the_newest_that_the_log_follows_is_taken),
        cmocka_unit_test(of_a_damaged_one_nothing_is_read_and_the_one_before_serves),
        cmocka_unit_test(one_of_another_pepper_is_not_read),
        cmocka_unit_test(names_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
