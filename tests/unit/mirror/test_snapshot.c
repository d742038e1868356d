/* Snapshots: what is saved comes back, whatever is damaged or cut short. */
#include "crypto/crypto.h"
#include "scene.h"

#include "crypto/crypto.h"
#include "base/little.h"
#include "sim/sim_disk.h"

static struct shard *state_of(unsigned tokens, uint64_t now_ms)
{
    struct shard *s = scene_shard();
    struct fault f;
    for (unsigned n = 1; n <= tokens; n++) {
        struct happening h;
        put_minted(happening_begin(&h), now_ms, n, n % 3);
        struct journal_record r = {
            .seq = n, .public_bytes = scene_event, .private_bytes = buf_view(&h.delta)};
        assert_int_equal(replay_record(&s, 1, &r, &f), ERR_OK);
    }
    return s;
}

struct rig {
    struct sim_counts counts;
    struct sim_disk *sim;
    struct disk *disk;
    struct shard *loaded;
    unsigned wrong_slots;
};

static struct rig *rig_create(uint64_t capacity)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->sim = sim_disk_create(11, capacity, &r->counts);
    r->disk = sim_disk_door(r->sim);
    return r;
}

static void rig_destroy(struct rig *r)
{
    shard_destroy(r->loaded);
    sim_disk_destroy(r->sim);
    free(r);
}

static enum err write_as_of(struct rig *r, struct shard *s, uint64_t position)
{
    struct lineage past = {.position = position};
    struct fault f;
    lineage_add_epoch(&past, "0123456789abcdef");
    return snapshot_make(r->disk, &past, &s, 1, &f);
}

static enum err load(void *context, unsigned slot, struct str entry)
{
    struct rig *r = context;
    struct fault f;
    unsigned own;
    r->wrong_slots += !shard_entry_slot(entry, &own) || own != slot;
    return shard_load(r->loaded, entry, &f);
}

static enum err read_back(struct rig *r, struct lineage *past)
{
    struct fault f;
    shard_destroy(r->loaded);
    r->loaded = scene_shard();
    return snapshot_read(r->disk, load, r, past, &f);
}

static void an_empty_directory_has_no_snapshot(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct lineage past;
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 0);
    assert_int_equal(past.epoch_count, 0);
    rig_destroy(r);
}

static void what_was_saved_comes_back(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *s = state_of(500, 1000000);
    struct lineage past = {0};
    assert_int_equal(write_as_of(r, s, 77), ERR_OK);
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 77);
    assert_true(lineage_knows(&past, STR("0123456789abcdef")));
    assert_false(lineage_knows(&past, STR("fedcba9876543210")));
    assert_int_equal(r->wrong_slots, 0);
    assert_same_state(s, r->loaded);
    shard_destroy(s);
    rig_destroy(r);
}

static void whose_images_began_it_is_remembered(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *s = state_of(3, 1000000);
    struct lineage past = {.adopted = "old-node:0123456789abcdef",
                           .adopted_at_known = true,
                           .adopted_at = {[3] = 77, [1023] = UINT64_MAX}},
                   back;
    struct fault f;
    assert_int_equal(snapshot_make(r->disk, &past, &s, 1, &f), ERR_OK);
    assert_int_equal(read_back(r, &back), ERR_OK);
    assert_string_equal(back.adopted, "old-node:0123456789abcdef");
    assert_true(back.adopted_at_known);
    assert_memory_equal(back.adopted_at, past.adopted_at, sizeof past.adopted_at);
    assert_same_state(s, r->loaded);
    shard_destroy(s);
    rig_destroy(r);
}

static unsigned files_of(struct rig *r);

static void only_the_newest_two_are_kept(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct lineage past;
    for (unsigned i = 1; i <= 5; i++) {
        struct shard *s = state_of(i * 10, 1000000);
        assert_int_equal(write_as_of(r, s, i * 100), ERR_OK);
        shard_destroy(s);
    }
    assert_int_equal(files_of(r), 2);
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 500);
    rig_destroy(r);
}

static void count_name(void *context, const char *name)
{
    (void)name;
    ++*(unsigned *)context;
}

static unsigned files_of(struct rig *r)
{
    unsigned count = 0;
    assert_int_equal(r->disk->list(r->disk->state, count_name, &count), ERR_OK);
    return count;
}

static void flip(struct rig *r, const char *name, uint64_t offset)
{
    uint64_t size;
    const char *bytes = sim_disk_bytes(r->sim, name, &size);
    assert_non_null(bytes);
    char flipped = (char)(bytes[offset] ^ 16);
    assert_true(sim_disk_damage(r->sim, name, offset, &flipped, 1));
}

static void a_flipped_byte_anywhere_is_noticed_and_the_one_before_serves(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *old = state_of(10, 1000000), *new = state_of(20, 1000000);
    struct lineage past;
    uint64_t size;
    assert_int_equal(write_as_of(r, old, 10), ERR_OK);
    assert_int_equal(write_as_of(r, new, 20), ERR_OK);
    assert_non_null(sim_disk_bytes(r->sim, "snapshot-0000000000000014", &size));
    for (uint64_t at = 0; at < size; at += 53) {
        flip(r, "snapshot-0000000000000014", at);
        assert_int_equal(read_back(r, &past), ERR_OK);
        assert_int_equal(past.position, 10);
        assert_same_state(old, r->loaded);
        flip(r, "snapshot-0000000000000014", at); /* and back */
    }
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 20);
    shard_destroy(old);
    shard_destroy(new);
    rig_destroy(r);
}

/* Whole, and not to be passed over for an older one. */
static void a_snapshot_of_a_newer_program_is_refused_and_no_older_one_serves(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *s = state_of(10, 1000000);
    struct lineage past;
    struct fault f;
    uint64_t size;
    assert_int_equal(write_as_of(r, s, 10), ERR_OK);
    assert_int_equal(write_as_of(r, s, 20), ERR_OK);
    const char *name = "snapshot-0000000000000014", *bytes = sim_disk_bytes(r->sim, name, &size),
               later = 5;
    assert_true(sim_disk_damage(r->sim, name, 8, &later, 1));
    struct sha256 digest = sha256_once(str_of(bytes, size - SHA256_BYTES));
    assert_true(sim_disk_damage(r->sim, name, size - SHA256_BYTES, digest.bytes, SHA256_BYTES));
    r->loaded = scene_shard();
    assert_int_equal(snapshot_read(r->disk, load, r, &past, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, name));
    assert_non_null(strstr(f.text, "newer program (format 5, this one reads 4)"));
    shard_destroy(s);
    rig_destroy(r);
}

/* As a program of before wrote it; entries say by themselves what they are. */
static void a_snapshot_of_version_1_is_read(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *s = state_of(10, 1000000);
    struct lineage past;
    uint64_t size;
    assert_int_equal(write_as_of(r, s, 20), ERR_OK);
    const char *name = "snapshot-0000000000000014", *bytes = sim_disk_bytes(r->sim, name, &size),
               earlier = 1;
    assert_int_equal(bytes[8], 4);
    assert_true(sim_disk_damage(r->sim, name, 8, &earlier, 1));
    struct sha256 digest = sha256_once(str_of(bytes, size - SHA256_BYTES));
    assert_true(sim_disk_damage(r->sim, name, size - SHA256_BYTES, digest.bytes, SHA256_BYTES));
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 20);
    assert_same_state(s, r->loaded);
    shard_destroy(s);
    rig_destroy(r);
}

static void a_shorter_file_is_damaged(void **state)
{
    (void)state;
    struct shard *s = state_of(10, 1000000);
    struct rig *whole = rig_create(1 << 30);
    uint64_t size;
    assert_int_equal(write_as_of(whole, s, 10), ERR_OK);
    assert_non_null(sim_disk_bytes(whole->sim, "snapshot-000000000000000a", &size));
    for (uint64_t cut = 0; cut < size; cut += 97) {
        struct rig *r = rig_create(1 << 30);
        struct lineage past;
        assert_int_equal(write_as_of(r, s, 10), ERR_OK);
        assert_true(sim_disk_truncate(r->sim, "snapshot-000000000000000a", cut));
        assert_int_equal(read_back(r, &past), ERR_CORRUPT);
        rig_destroy(r);
    }
    shard_destroy(s);
    rig_destroy(whole);
}

struct edit {
    uint64_t at;
    size_t size;
    uint64_t number;
};

/* What becomes of a file with these numbers in it, and a digest that is right. */
static enum err read_edited(struct shard *s, struct edit first, struct edit second)
{
    struct rig *r = rig_create(1 << 30);
    const char *name = "snapshot-000000000000000a";
    struct lineage past;
    uint64_t size;
    assert_int_equal(write_as_of(r, s, 10), ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct edit e = i == 0 ? first : second;
        char bytes[8];
        little_put64(bytes, e.number);
        assert_true(sim_disk_damage(r->sim, name, e.at, bytes, e.size));
    }
    const char *file = sim_disk_bytes(r->sim, name, &size);
    struct sha256 digest = sha256_once(str_of(file, size - SHA256_BYTES));
    assert_true(sim_disk_damage(r->sim, name, size - SHA256_BYTES, digest.bytes, SHA256_BYTES));
    enum err err = read_back(r, &past);
    rig_destroy(r);
    return err;
}

/* Another version's file, say, or one that was given another's name. */
static void a_whole_file_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *s = state_of(300, 1000000);
    uint64_t size, entries = SNAPSHOT_HEADER_BYTES + JOURNAL_EPOCH_TEXT;
    assert_int_equal(write_as_of(r, s, 10), ERR_OK);
    const char *file = sim_disk_bytes(r->sim, "snapshot-000000000000000a", &size);
    uint64_t count = little_get64(file + 24), bytes = little_get64(file + 32),
             entry = little_get32(file + entries);
    rig_destroy(r);
    const struct edit none = {44, 4, 0};
    assert_int_equal(read_edited(s, none, none), ERR_OK);
    const struct edit edits[][2] = {
        {{0, 1, 'W'}, none},
        {{16, 8, 11}, none},
        {{12, 4, 2}, none},
        {{12, 4, UINT32_MAX}, none},
        {{12, 4, LINEAGE_EPOCHS_MAX + 2},
         {32, 8, bytes - (LINEAGE_EPOCHS_MAX + 1) * JOURNAL_EPOCH_TEXT}},
        {{24, 8, count - 1}, none},
        {{24, 8, count + 1}, none},
        {{32, 8, bytes - 1}, none},
        {{32, 8, bytes + 1}, none},
        {{40, 4, 1}, {32, 8, bytes - LIMIT_SLOTS * 8}},
        {{SNAPSHOT_HEADER_BYTES - 1, 1, 'x'}, none},
        {{entries, 4, 0}, none},
        {{entries, 4, entry + 1}, none},
        {{entries, 4, UINT32_MAX}, none},
        {{entries + 4, 2, LIMIT_SLOTS}, none},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        if (read_edited(s, edits[i][0], edits[i][1]) != ERR_CORRUPT) fail_msg("edit %zu", i);
    shard_destroy(s);
}

static void where_none_verifies_nothing_is_given(void **state)
{
    (void)state;
    struct rig *r = rig_create(1 << 30);
    struct shard *s = state_of(10, 1000000), *empty = scene_shard();
    struct lineage past;
    assert_int_equal(write_as_of(r, s, 10), ERR_OK);
    flip(r, "snapshot-000000000000000a", 700);
    assert_int_equal(read_back(r, &past), ERR_CORRUPT);
    assert_int_equal(past.position, 0);
    assert_same_state(empty, r->loaded);
    shard_destroy(s);
    shard_destroy(empty);
    rig_destroy(r);
}

static void a_power_cut_at_any_operation_leaves_the_old_or_the_new_one(void **state)
{
    (void)state;
    struct shard *old = state_of(10, 1000000), *new = state_of(2000, 1000000);
    unsigned olds = 0, news = 0;
    for (unsigned at = 1; at < 40; at++) {
        struct rig *r = rig_create(1 << 30);
        struct lineage past;
        assert_int_equal(write_as_of(r, old, 10), ERR_OK);
        sim_disk_die_in(r->sim, at, NULL, NULL);
        (void)write_as_of(r, new, 20);
        sim_disk_die(r->sim);
        sim_disk_power(r->sim);
        assert_int_equal(read_back(r, &past), ERR_OK);
        assert_true(past.position == 10 || past.position == 20);
        assert_same_state(past.position == 10 ? old : new, r->loaded);
        olds += past.position == 10;
        news += past.position == 20;
        /* what was left half made is in nobody's way */
        assert_int_equal(write_as_of(r, new, 30), ERR_OK);
        assert_int_equal(read_back(r, &past), ERR_OK);
        assert_int_equal(past.position, 30);
        rig_destroy(r);
    }
    assert_true(olds > 0 && news > 0);
    shard_destroy(old);
    shard_destroy(new);
}

/* The journal lets go what it includes as soon as it is told to be there. */
static void a_snapshot_that_was_told_to_be_there_outlives_a_power_cut(void **state)
{
    (void)state;
    struct shard *old = state_of(10, 1000000), *new = state_of(100, 1000000);
    struct rig *r = rig_create(1 << 30);
    struct lineage past = {.position = 20};
    struct fault f;
    assert_int_equal(write_as_of(r, old, 10), ERR_OK);
    assert_int_equal(snapshot_write(r->disk, &past, &new, 1, NULL, NULL, &f), ERR_OK);
    sim_disk_die(r->sim);
    sim_disk_power(r->sim);
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 20);
    rig_destroy(r);
    shard_destroy(old);
    shard_destroy(new);
}

static void a_full_disk_is_met_before_the_first_byte(void **state)
{
    (void)state;
    struct rig *r = rig_create(2000);
    struct shard *s = state_of(500, 1000000);
    struct lineage past;
    assert_int_equal(write_as_of(r, s, 10), ERR_NO_SPACE);
    assert_int_equal(files_of(r), 0);
    assert_int_equal(read_back(r, &past), ERR_OK);
    assert_int_equal(past.position, 0);
    shard_destroy(s);
    rig_destroy(r);
}

static void a_state_that_cannot_be_saved_whole_says_why(void **state)
{
    (void)state;
    struct rig *r = rig_create(UINT64_C(1) << 30);
    struct shard *s = state_of(3, 1000);
    struct lineage past = {.position = 1};
    struct fault f;
    scene_overfill(s, 1000);
    assert_int_equal(snapshot_make(r->disk, &past, &s, 1, &f), ERR_FULL);
    assert_non_null(strstr(f.text, err_sentence(ERR_FULL)));
    shard_destroy(s);
    rig_destroy(r);
}

static void the_newest_epochs_are_remembered(void **state)
{
    (void)state;
    struct lineage *p = calloc(1, sizeof *p);
    char epoch[JOURNAL_EPOCH_TEXT + 1];
    assert_non_null(p);
    for (unsigned i = 0; i < LINEAGE_EPOCHS_MAX + 10; i++) {
        snprintf(epoch, sizeof epoch, "%016x", i);
        lineage_add_epoch(p, epoch);
        lineage_add_epoch(p, epoch);
    }
    assert_int_equal(p->epoch_count, LINEAGE_EPOCHS_MAX);
    assert_false(lineage_knows(p, STR("0000000000000009")));
    assert_true(lineage_knows(p, STR("000000000000000a")));
    assert_true(lineage_knows(p, str_from(epoch)));
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_directory_has_no_snapshot),
        cmocka_unit_test(what_was_saved_comes_back),
        cmocka_unit_test(whose_images_began_it_is_remembered),
        cmocka_unit_test(only_the_newest_two_are_kept),
        cmocka_unit_test(a_flipped_byte_anywhere_is_noticed_and_the_one_before_serves),
        cmocka_unit_test(a_snapshot_of_a_newer_program_is_refused_and_no_older_one_serves),
        cmocka_unit_test(a_snapshot_of_version_1_is_read),
        cmocka_unit_test(a_shorter_file_is_damaged),
        cmocka_unit_test(a_whole_file_that_makes_no_sense_is_refused),
        cmocka_unit_test(where_none_verifies_nothing_is_given),
        cmocka_unit_test(a_power_cut_at_any_operation_leaves_the_old_or_the_new_one),
        cmocka_unit_test(a_snapshot_that_was_told_to_be_there_outlives_a_power_cut),
        cmocka_unit_test(a_full_disk_is_met_before_the_first_byte),
        cmocka_unit_test(a_state_that_cannot_be_saved_whole_says_why),
        cmocka_unit_test(the_newest_epochs_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
