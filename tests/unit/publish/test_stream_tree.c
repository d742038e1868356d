/* The tree of a stream over crashes and lost files: alone, and under the publisher over a real
 * journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/merkle.h"
#include "evidence/note.h"
#include "pipeline/publish/stream_tree.h"
#include "unit/publish/rig.h"

#define EPOCH STR("0123456789abcdef")
#define NODE "n1"

enum { LEAVES = 64, TEXT_MAX = 512 };

struct scene {
    struct rig *rig;
    struct hasher *hasher;
    struct stream_tree *tree;
    struct sha256 leaves[LEAVES]; /* leaf k is of record k */
    char kept[TEXT_MAX * 2];      /* a state of the file */
    size_t kept_size;
};

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->rig = rig_create();
    s->rig->has_tree = true;
    s->hasher = hasher_create();
    for (unsigned seq = 0; seq < LEAVES; seq++) {
        char text[16];
        snprintf(text, sizeof text, "%u", seq); /* what rig_append() records */
        s->leaves[seq] = merkle_leaf(s->hasher, str_from(text));
    }
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    (void)pthread_mutex_unlock(&s->rig->platform->lock); /* a test that failed may hold it */
    if (s->rig->publisher != NULL) (void)rig_unpublish(s->rig, 0);
    stream_tree_close(s->tree);
    rig_destroy(s->rig);
    hasher_destroy(s->hasher);
    free(s);
    return 0;
}

/* ---- the files ---- */

static void path_of(const struct scene *s, const char *name, char to[TEXT_MAX])
{
    snprintf(to, TEXT_MAX, "%s/%s", s->rig->folder, name);
}

static size_t read_file(const struct scene *s, const char *name, char *to, size_t size)
{
    char path[TEXT_MAX];
    path_of(s, name, path);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size = fread(to, 1, size, f);
    fclose(f);
    return size;
}

static void write_state(const struct scene *s, const char *bytes, size_t size)
{
    char path[TEXT_MAX];
    path_of(s, "evidence.tree", path);
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static void keep_state(struct scene *s)
{
    s->kept_size = read_file(s, "evidence.tree", s->kept, sizeof s->kept);
}

static void lose_state(const struct scene *s)
{
    char path[TEXT_MAX];
    path_of(s, "evidence.tree", path);
    assert_int_equal(unlink(path), 0);
}

/* ---- the tree alone ---- */

static void open_as(struct scene *s, const char *node)
{
    struct fault f;
    assert_int_equal(stream_tree_open(s->rig->folder, node, &s->tree, &f), ERR_OK);
}

static void shut(struct scene *s)
{
    stream_tree_close(s->tree);
    s->tree = NULL;
}

static void append(struct scene *s, uint64_t first, uint64_t last)
{
    stream_tree_append(s->tree, EPOCH, first, s->leaves + first, last - first + 1);
}

static struct frontier frontier_of(const struct scene *s, uint64_t base, uint64_t last)
{
    struct frontier f = {0};
    for (uint64_t seq = base; seq <= last; seq++) frontier_append(&f, s->hasher, &s->leaves[seq]);
    return f;
}

/* The note is of the records base … last, and the key of this folder signed it. */
static void assert_note(const struct scene *s, struct str digits, uint64_t base, uint64_t last)
{
    char bytes[PUBLISHED_NOTE_MAX], origin[64], pub[TEXT_MAX];
    uint8_t public[TEXT_MAX];
    size_t size;
    struct note note;
    struct checkpoint c;
    struct fault f;
    const struct frontier leaves = frontier_of(s, base, last);
    const struct sha256 root = frontier_root(&leaves, s->hasher);
    assert_true(digits.size <= sizeof bytes && base64_read(digits, (uint8_t *)bytes, &size));
    assert_int_equal(note_read(str_of(bytes, size), &note, &f), ERR_OK);
    assert_int_equal(checkpoint_read(note.text, &c, &f), ERR_OK);
    snprintf(origin, sizeof origin, "writ/" NODE "/0/%llu", (unsigned long long)base);
    if (!str_equal(c.origin, str_from(origin)))
        fail_msg("%.*s, not %s", STR_FORMAT(c.origin), origin);
    assert_int_equal(c.size, last - base + 1);
    assert_true(sha256_equal(&c.root, &root));
    size_t written = read_file(s, "evidence.pub", pub, sizeof pub);
    assert_true(base64_read(str_of(pub, written - 1), public, &size) && size == ED25519_KEY_BYTES);
    const struct note_key key = note_key_of(c.origin, public);
    assert_int_equal(note_verify(&note, &key), NOTE_SIGNED);
}

static void assert_signs(struct scene *s, uint64_t base, uint64_t from_seq, uint64_t last)
{
    struct run_checkpoint c;
    char bytes[FRONTIER_BYTES_MAX], digits[2 * FRONTIER_BYTES_MAX];
    struct buf f = buf_over(bytes, sizeof bytes), expected = buf_over(digits, sizeof digits);
    const struct frontier before = frontier_of(s, base, from_seq - 1);
    assert_true(stream_tree_sign(s->tree, &c));
    assert_note(s, c.note, base, last);
    assert_int_equal(c.from_seq, from_seq);
    frontier_put(&f, &before);
    base64_put(&expected, buf_view(&f), 0);
    assert_true(str_equal(c.frontier, buf_view(&expected)));
}

static void a_tree_begins_at_its_base_and_grows(void **state)
{
    static const uint64_t bases[] = {1, 41};
    struct scene *s = *state;
    open_as(s, NODE);
    assert_int_equal(stream_tree_next(s->tree), 0);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        uint64_t base = bases[i];
        stream_tree_begin(s->tree, base);
        assert_int_equal(stream_tree_next(s->tree), base);
        assert_true(str_is_absent(stream_tree_epoch(s->tree)));
        append(s, base, base + 6);
        assert_signs(s, base, base, base + 6);
        append(s, base, base + 6); /* sent again: nothing is appended */
        append(s, base + 2, base + 4);
        assert_signs(s, base, base, base + 6);
        append(s, base + 5, base + 9); /* partly */
        assert_signs(s, base, base + 7, base + 9);
        assert_int_equal(stream_tree_next(s->tree), base + 10);
        assert_true(str_equal(stream_tree_epoch(s->tree), EPOCH));
    }
    shut(s);
    open_as(s, NODE);
    append(s, 51, 52);
    assert_signs(s, 41, 51, 52);
}

static void what_a_crash_left_out_of_the_file_is_appended_again(void **state)
{
    struct scene *s = *state;
    open_as(s, NODE);
    stream_tree_begin(s->tree, 5);
    append(s, 5, 11); /* the first one is saved at once */
    keep_state(s);
    append(s, 12, 20);
    assert_signs(s, 5, 12, 20);
    shut(s);
    write_state(s, s->kept, s->kept_size);
    open_as(s, NODE);
    assert_int_equal(stream_tree_next(s->tree), 12);
    append(s, 9, 20);
    assert_signs(s, 5, 12, 20);
}

enum damage {
    LOST,
    EMPTY,
    CUT_BY_A_DIGIT,
    CUT_BY_A_LINE,
    A_BYTE_MORE,
    OTHER_MARK,
    OTHER_BASE,
    OTHER_FRONTIER,
    OTHER_DIGEST,
    OF_ANOTHER_NODE,
    DAMAGES
};

/* The first byte of line n of the state. */
static size_t line_at(const struct scene *s, unsigned n)
{
    size_t at = 0;
    for (; n > 0; at++)
        if (s->kept[at] == '\n') n--;
    return at;
}

static void a_state_that_is_lost_or_damaged_is_no_tree(void **state)
{
    struct scene *s = *state;
    open_as(s, NODE);
    stream_tree_begin(s->tree, 5);
    append(s, 5, 11);
    keep_state(s);
    shut(s);
    const size_t changed[DAMAGES] = {[OTHER_MARK] = line_at(s, 0),
                                     [OTHER_BASE] = line_at(s, 3),
                                     [OTHER_FRONTIER] = line_at(s, 4) + 20,
                                     [OTHER_DIGEST] = line_at(s, 6) - 2};
    for (enum damage d = 0; d < DAMAGES; d++) {
        char bytes[sizeof s->kept + 1];
        size_t size = s->kept_size;
        memcpy(bytes, s->kept, size);
        if (d == EMPTY) size = 0;
        if (d == CUT_BY_A_DIGIT) size -= 2;
        if (d == CUT_BY_A_LINE) size = line_at(s, 5);
        if (d == A_BYTE_MORE) bytes[size++] = '\n';
        if (d >= OTHER_MARK && d <= OTHER_DIGEST)
            bytes[changed[d]] = bytes[changed[d]] == '7' ? '8' : '7';
        write_state(s, bytes, size);
        if (d == LOST) lose_state(s);
        open_as(s, d == OF_ANOTHER_NODE ? "n2" : NODE);
        if (stream_tree_next(s->tree) != 0) fail_msg("damage %d", (int)d);
        assert_true(str_is_absent(stream_tree_epoch(s->tree)));
        shut(s);
    }
    write_state(s, s->kept, s->kept_size);
    open_as(s, NODE);
    append(s, 12, 12);
    assert_signs(s, 5, 12, 12);
}

/* ---- the publisher's ---- */

/* Waits until the platform has the records up to here. */
static void await(struct scene *s, uint64_t last)
{
    FAKE_UNTIL(s->rig->platform, s->rig->platform->next_seq == last + 1);
    FAKE_DONE(s->rig->platform);
}

static void publish_up_to(struct scene *s, uint64_t first, uint64_t last)
{
    rig_publish(s->rig);
    rig_append(s->rig, first, (unsigned)(last - first + 1), 0);
    await(s, last);
    assert_true(rig_unpublish(s->rig, DRAIN_MS));
}

static void assert_published(const struct scene *s, uint64_t base, uint64_t from_seq, uint64_t last)
{
    const struct fake *k = s->rig->platform;
    assert_note(s, str_from(k->note), base, last);
    assert_int_equal(k->from_seq, from_seq);
}

/* A state of records 1 … last that were of this epoch. */
static void write_tree(struct scene *s, struct str epoch, uint64_t last)
{
    lose_state(s);
    open_as(s, NODE);
    stream_tree_begin(s->tree, 1);
    stream_tree_append(s->tree, epoch, 1, s->leaves + 1, last);
    shut(s);
}

static void a_restart_goes_on_with_the_tree_or_begins_another(void **state)
{
    enum { WHOLE, BEHIND, NO_FILE, DAMAGED, OTHER_EPOCH, AHEAD, CASES };
    struct scene *s = *state;
    uint64_t base = 1, last = 6;
    publish_up_to(s, 1, last);
    assert_published(s, 1, 1, last);
    for (int i = 0; i < CASES; i++) {
        struct str epoch = str_of(journal_epoch(s->rig->journal), EPOCH_TEXT);
        if (i < OTHER_EPOCH) keep_state(s);
        publish_up_to(s, last + 1, last + 2);
        last += 2;
        bool goes_on = i == WHOLE || i == BEHIND;
        if (i == BEHIND) write_state(s, s->kept, s->kept_size);
        if (i == NO_FILE) lose_state(s);
        if (i == DAMAGED) write_state(s, s->kept, s->kept_size - 2);
        if (i == OTHER_EPOCH) write_tree(s, STR("ffffffffffffffff"), last);
        if (i == AHEAD) write_tree(s, epoch, last + 5);
        if (!goes_on) base = last + 1;
        publish_up_to(s, last + 1, last + 3);
        last += 3;
        const struct fake *k = s->rig->platform;
        if (k->note[0] == '\0') fail_msg("case %d: no checkpoint", i);
        assert_note(s, str_from(k->note), base, last);
    }
}

/* They go in two batches, since they are of two epochs. The first one ends within the tree. */
static void records_that_are_sent_again_are_in_the_tree_once(void **state)
{
    struct scene *s = *state;
    publish_up_to(s, 1, 10);
    rig_restart(s->rig);
    publish_up_to(s, 11, 12);
    assert_int_equal(s->rig->platform->uncovered, 0);
    s->rig->platform->wants_from = 4;
    publish_up_to(s, 13, 13);
    assert_int_equal(s->rig->platform->stored, 12 + 10);
    assert_int_equal(s->rig->platform->uncovered, 1);
    assert_published(s, 1, 13, 13);
}

static void a_journal_that_is_older_than_its_tree_begins_it_at_the_next_record(void **state)
{
    struct scene *s = *state;
    s->rig->has_tree = false; /* an engine of an older version */
    publish_up_to(s, 1, 10);
    s->rig->has_tree = true;
    publish_up_to(s, 11, 13);
    assert_note(s, str_from(s->rig->platform->note), 11, 13);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tree_begins_at_its_base_and_grows),
        TEST(what_a_crash_left_out_of_the_file_is_appended_again),
        TEST(a_state_that_is_lost_or_damaged_is_no_tree),
        TEST(a_restart_goes_on_with_the_tree_or_begins_another),
        TEST(records_that_are_sent_again_are_in_the_tree_once),
        TEST(a_journal_that_is_older_than_its_tree_begins_it_at_the_next_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
