/* test_verify.c - one stream of forty records with a checkpoint for each ten, changed in every way that
 * write access to a database allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/verify.h"

enum { RECORDS = 40, RUN = 10, RUNS = RECORDS / RUN, TEXT_MAX = 8192 };

struct text {
    char bytes[TEXT_MAX];
    struct str view;
};

/* What a store has. A test changes it before it is read. */
struct scene {
    struct sha256 leaves[RECORDS + 2]; /* by seq */
    bool is_there[RECORDS + 2];
    struct {
        struct text note, frontier;
        uint64_t base, end, from;
        bool is_there;
    } marks[RUNS];
    struct text removal;
    struct text anchor;
    uint64_t base, position;
    bool has_key;
    struct sha256 aside;
    uint64_t aside_seq;
    uint64_t distrusted_from;
    uint64_t first, last; /* of the range; 0: the whole stream */
    bool has_witness;
};

static struct ed25519 *engine_key, *platform_key, *other_key;
static struct hasher *hasher;
static char found[4096];

static struct sha256 leaf_of(uint64_t seq, int version)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%llu %d", (unsigned long long)seq, version);
    return merkle_leaf(hasher, str_of(text, (size_t)size));
}

static void put_frontier(struct text *t, const struct frontier *f)
{
    char bytes[FRONTIER_BYTES_MAX];
    struct buf raw = buf_over(bytes, sizeof bytes), out = buf_over(t->bytes, sizeof t->bytes);
    frontier_put(&raw, f);
    base64_put(&out, buf_view(&raw), 0);
    t->view = buf_view(&out);
}

static void sign_checkpoint(struct text *t, uint64_t base, const struct frontier *f,
                            const struct ed25519 *key)
{
    char origin[64], text[512];
    int size = snprintf(origin, sizeof origin, "writ/n%%201/0/%llu", (unsigned long long)base);
    struct buf body = buf_over(text, sizeof text), out = buf_over(t->bytes, sizeof t->bytes);
    struct checkpoint c = {str_of(origin, (size_t)size), f->size, frontier_root(f, hasher), {0}};
    checkpoint_put(&body, &c);
    assert_true(note_sign(&out, buf_view(&body), c.origin, key));
    t->view = buf_view(&out);
}

/* Checkpoints over the leaves from `base` on, of which the first covers all to the end of its run. */
static void sign_all(struct scene *s, uint64_t base, const struct ed25519 *key)
{
    struct frontier f = {0};
    s->base = base;
    for (uint64_t seq = base; seq <= RECORDS; seq++) {
        size_t run = (seq - 1) / RUN;
        if (seq == base || (seq - 1) % RUN == 0) {
            put_frontier(&s->marks[run].frontier, &f);
            s->marks[run].from = seq;
        }
        frontier_append(&f, hasher, &s->leaves[seq]);
        if (seq % RUN != 0) continue;
        sign_checkpoint(&s->marks[run].note, base, &f, key);
        s->marks[run].base = base;
        s->marks[run].end = seq;
        s->marks[run].is_there = true;
    }
}

static struct scene *scene_make(void)
{
    static struct scene s;
    s = (struct scene){.position = RECORDS + 1, .has_key = true};
    for (uint64_t seq = 1; seq <= RECORDS; seq++) {
        s.leaves[seq] = leaf_of(seq, 0);
        s.is_there[seq] = true;
    }
    sign_all(&s, 1, engine_key);
    return &s;
}

static void sign_removal(struct scene *s, const char *kind, uint64_t first, uint64_t last,
                         bool has_tree, const struct ed25519 *key)
{
    char text[TEXT_MAX];
    struct buf body = buf_over(text, sizeof text),
               out = buf_over(s->removal.bytes, sizeof s->removal.bytes);
    buf_printf(&body, "writ/n%%201/0\n%s\n%llu %llu\n2026-11-27T12:00:00.000Z\n", kind,
               (unsigned long long)first, (unsigned long long)last);
    if (has_tree) {
        struct frontier f = {0};
        struct text frontier;
        for (uint64_t seq = s->base; seq <= last; seq++)
            frontier_append(&f, hasher, &s->leaves[seq]);
        put_frontier(&frontier, &f);
        buf_printf(&body, "%llu %.*s\n", (unsigned long long)s->base, STR_FORMAT(frontier.view));
    }
    assert_true(note_sign(&out, buf_view(&body), STR("writ/platform/x"), key));
    s->removal.view = buf_view(&out);
}

/* The key of a witness, and its signature below a checkpoint. */
static struct note_key witness_key_of(const struct ed25519 *key)
{
    char bytes[128];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct note_key k = {.name = STR("w.example/1"), .type = NOTE_WITNESS};
    ed25519_public(key, k.public_key);
    buf_printf(&out, "w.example/1\n\x04");
    buf_put(&out, str_of((const char *)k.public_key, sizeof k.public_key));
    struct sha256 digest = sha256_once(buf_view(&out));
    for (size_t i = 0; i < 4; i++) k.id = k.id << 8 | digest.bytes[i];
    return k;
}

static void cosign(struct text *to, struct str text, const struct ed25519 *named,
                   const struct ed25519 *signer)
{
    const uint64_t time_s = 1795840633;
    char message[TEXT_MAX];
    uint8_t bytes[76];
    struct note_key k = witness_key_of(named);
    struct buf body = buf_over(message, sizeof message),
               out = buf_over(to->bytes, sizeof to->bytes);
    out.size = to->view.size;
    buf_printf(&body, "cosignature/v1\ntime %llu\n%.*s", (unsigned long long)time_s,
               STR_FORMAT(text));
    for (size_t i = 0; i < 4; i++) bytes[i] = (uint8_t)(k.id >> (24 - 8 * i));
    for (size_t i = 0; i < 8; i++) bytes[4 + i] = (uint8_t)(time_s >> (56 - 8 * i));
    assert_true(ed25519_sign(signer, buf_view(&body), bytes + 12));
    buf_put_literal(&out, "\xe2\x80\x94 w.example/1 ");
    base64_put(&out, str_of((const char *)bytes, sizeof bytes), 0);
    buf_put_byte(&out, '\n');
    to->view = buf_view(&out);
}

static struct str text_of(const struct text *t)
{
    struct note n;
    assert_int_equal(note_read(t->view, &n, NULL), ERR_OK);
    return n.text;
}

static void tell(void *context, const struct verify_finding *f)
{
    size_t used = strlen(found);
    (void)context;
    snprintf(found + used, sizeof found - used, "%s%s %llu-%llu", used > 0 ? ", " : "",
             verify_kind_name(f->kind), (unsigned long long)f->first, (unsigned long long)f->last);
}

static struct verify result;

static void add_marks(struct verify *h, const struct scene *s)
{
    for (size_t i = 0; i < RUNS; i++) {
        const struct verify_checkpoint c = {.note = s->marks[i].note.view,
                                            .base = s->marks[i].base,
                                            .end = s->marks[i].end,
                                            .from = s->marks[i].from,
                                            .frontier = s->marks[i].frontier.view};
        bool is_asked = c.from >= s->first && (s->last == 0 || c.from <= s->last);
        if (s->marks[i].is_there && is_asked) verify_add_checkpoint(h, &c);
    }
}

/* What is found, as text. */
static const char *read_scene(const struct scene *s)
{
    static struct verify h;
    uint8_t key[ED25519_KEY_BYTES];
    found[0] = '\0';
    verify_init(&h, STR("n 1"), STR("0"), tell, NULL);
    ed25519_public(engine_key, key);
    if (s->has_key) assert_int_equal(verify_add_key(&h, key, s->distrusted_from), ERR_OK);
    ed25519_public(platform_key, key);
    struct note_key platform = note_key_of(STR("writ/platform/x"), key);
    assert_int_equal(verify_add_platform(&h, &platform), ERR_OK);
    const struct verify_checkpoint anchor = {
        .note = s->anchor.view, .time = STR("2026-11-27T14:03:00.000Z"), .is_anchor = true};
    struct note_key witness = witness_key_of(other_key);
    if (s->has_witness) assert_int_equal(verify_add_witness(&h, &witness), ERR_OK);
    if (s->first > 0) verify_set_range(&h, s->first, s->last);
    if (s->anchor.view.size > 0) verify_add_checkpoint(&h, &anchor);
    if (s->removal.view.size > 0) verify_add_removal(&h, 1, s->removal.view);
    add_marks(&h, s);
    if (s->aside_seq != 0) verify_add_aside(&h, s->aside_seq, &s->aside);
    for (uint64_t seq = 1; seq <= RECORDS + 1; seq++)
        if (s->is_there[seq] && seq >= s->first && (s->last == 0 || seq <= s->last))
            verify_add_record(&h, seq, &s->leaves[seq]);
    verify_finish(&h, s->last == 0 ? s->position : 0);
    result = h;
    verify_fini(&h);
    return found;
}

static void remove_records(struct scene *s, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++) s->is_there[seq] = false;
}

/* ---- nothing was changed ---- */

static void a_clean_stream_is_proved_to_its_end(void **state)
{
    (void)state;
    assert_string_equal(read_scene(scene_make()), "");
    assert_int_equal(result.good_end, RECORDS);
    assert_int_equal(result.covered, RECORDS);
    assert_int_equal(result.records, RECORDS);
}

static void records_after_the_last_checkpoint_are_not_covered(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    s->marks[RUNS - 1].is_there = false;
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.good_end, RECORDS - RUN);
    assert_int_equal(result.covered, RECORDS - RUN);
}

static void a_checkpoint_less_changes_nothing(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    s->marks[1].is_there = false;
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, RECORDS);
}

static void a_tree_that_began_later_leaves_out_what_was_before(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    s->marks[0].is_there = s->marks[1].is_there = false;
    sign_all(s, 15, engine_key);
    remove_records(s, 1, 3); /* dropped before there were notes of it */
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, RECORDS - 14);
}

static void a_second_tree_goes_on_after_the_first(void **state)
{
    (void)state;
    struct scene *s = scene_make(), first = *s;
    sign_all(s, 21, engine_key);
    s->marks[0] = first.marks[0];
    s->marks[0].note.view.bytes = s->marks[0].note.bytes;
    s->marks[0].frontier.view.bytes = s->marks[0].frontier.bytes;
    s->marks[1].is_there = false;
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, RECORDS - RUN); /* 11 to 20 are in no signed tree */
}

static void records_that_retention_dropped_are_no_finding(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    remove_records(s, 1, 14); /* the checkpoint of the first ten is still there */
    sign_removal(s, "retention", 1, 14, true, platform_key);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.dropped, 14);
    assert_int_equal(result.covered, RECORDS - 14);
    assert_int_equal(result.good_end, RECORDS);
    assert_string_equal(result.dropped_time, "2026-11-27T12:00:00.000Z");
}

static void an_accepted_gap_is_no_finding(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    remove_records(s, 13, 16);
    sign_removal(s, "gap", 13, 16, false, platform_key);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.given_up, 4);
    assert_int_equal(result.good_end, RECORDS);
    assert_int_equal(result.covered, RECORDS - RUN);
}

static void a_record_in_quarantine_is_in_the_tree(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    remove_records(s, 17, 17);
    s->aside = s->leaves[17];
    s->aside_seq = 17;
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, RECORDS);
    remove_records(s, RECORDS, RECORDS); /* the last one, and nothing after it */
    s->is_there[17] = true;
    s->aside = s->leaves[RECORDS];
    s->aside_seq = RECORDS;
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, RECORDS);
}

static void a_whole_stream_may_be_in_quarantine(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static struct verify h;
    static struct text note, frontier;
    struct frontier tree = {0};
    uint8_t key[ED25519_KEY_BYTES];
    found[0] = '\0';
    verify_init(&h, STR("n 1"), STR("0"), tell, NULL);
    ed25519_public(engine_key, key);
    assert_int_equal(verify_add_key(&h, key, 0), ERR_OK);
    put_frontier(&frontier, &tree);
    for (uint64_t seq = 1; seq <= MANY; seq++) {
        struct sha256 leaf = leaf_of(seq, 0);
        frontier_append(&tree, hasher, &leaf);
        verify_add_aside(&h, seq, &leaf);
    }
    sign_checkpoint(&note, 1, &tree, engine_key);
    verify_add_checkpoint(
        &h, &(struct verify_checkpoint){
                .note = note.view, .base = 1, .end = MANY, .from = 1, .frontier = frontier.view});
    verify_finish(&h, MANY + 1);
    assert_string_equal(found, "");
    assert_int_equal(h.covered, MANY);
    verify_fini(&h);
}

static void an_anchor_of_this_history_agrees(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    struct frontier f = {0};
    for (uint64_t seq = 1; seq <= 25; seq++) frontier_append(&f, hasher, &s->leaves[seq]);
    sign_checkpoint(&s->anchor, 1, &f, engine_key);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, RECORDS);
    assert_int_equal(result.anchored_end, 25);
    assert_string_equal(result.anchored_time, "2026-11-27T14:03:00.000Z");
}

static void a_checkpoint_that_a_witness_signed_counts_with_its_root(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    s->has_witness = true;
    cosign(&s->marks[0].note, text_of(&s->marks[0].note), other_key, other_key);
    cosign(&s->marks[2].note, text_of(&s->marks[2].note), other_key, other_key);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.witnesses[0].end, 30);
    assert_int_equal(result.witnesses[0].time_s, 1795840633);
    s->leaves[25] = leaf_of(25, 1);
    assert_string_equal(read_scene(s), "altered 21-30");
    assert_int_equal(result.witnesses[0].end, 10);
}

static void a_stream_that_no_witness_signed_is_named(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    s->has_witness = true;
    assert_string_equal(read_scene(s), "not witnessed 1-40");
    cosign(&s->marks[1].note, text_of(&s->marks[1].note), other_key, platform_key);
    assert_string_equal(read_scene(s), "forged witness 11-20, not witnessed 1-40");
}

/* The engine has signed another history; the witness has seen the first one. */
static void a_signature_of_a_witness_is_not_moved_to_another_history(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    struct text first = s->marks[1].note;
    s->has_witness = true;
    s->leaves[15] = leaf_of(15, 1);
    sign_all(s, 1, engine_key);
    assert_string_equal(read_scene(s), "not witnessed 1-40");
    first.view.bytes = first.bytes;
    cosign(&s->marks[1].note, text_of(&first), other_key, other_key);
    assert_string_equal(read_scene(s), "forged witness 11-20, not witnessed 1-40");
}

static void an_anchor_that_a_witness_signed_counts(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    struct frontier f = {0};
    s->has_witness = true;
    for (uint64_t seq = 1; seq <= 25; seq++) frontier_append(&f, hasher, &s->leaves[seq]);
    sign_checkpoint(&s->anchor, 1, &f, engine_key);
    cosign(&s->anchor, text_of(&s->anchor), other_key, other_key);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.witnesses[0].end, 25);
}

static void a_part_of_the_stream_is_proved_by_itself(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    s->first = 11;
    s->last = 30;
    s->leaves[5] = leaf_of(5, 1); /* not of that part */
    s->leaves[35] = leaf_of(35, 1);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.records, 20);
    assert_int_equal(result.covered, 20);
    remove_records(s, 28, 30);
    assert_string_equal(read_scene(s), "removed tail 28-30");
    s->marks[2].is_there = false; /* with its checkpoint */
    assert_string_equal(read_scene(s), "removed tail 28-30");
    s->last = 0; /* the position is far behind */
    remove_records(s, 31, 40);
    s->marks[3].is_there = false;
    assert_string_equal(read_scene(s), "removed tail 28-40");
}

/* The checkpoints were cut off, and so was the head of the tree: nothing leads to the anchor. */
static void an_anchor_that_cannot_be_read_is_no_proof(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    struct frontier f = {0};
    for (uint64_t seq = 1; seq <= 35; seq++) frontier_append(&f, hasher, &s->leaves[seq]);
    sign_checkpoint(&s->anchor, 1, &f, engine_key);
    remove_records(s, 1, 3);
    sign_removal(s, "retention", 1, 3, false, platform_key);
    for (size_t i = 0; i < RUNS; i++) s->marks[i].is_there = false;
    assert_string_equal(read_scene(s), "no checkpoint 1-35");
    sign_removal(s, "retention", 1, 3, true, platform_key);
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.anchored_end, 35);
}

static void an_anchor_proves_records_without_checkpoints(void **state)
{
    (void)state;
    struct scene *s = scene_make();
    struct frontier f = {0};
    for (uint64_t seq = 1; seq <= 25; seq++) frontier_append(&f, hasher, &s->leaves[seq]);
    sign_checkpoint(&s->anchor, 1, &f, engine_key);
    for (size_t i = 0; i < RUNS; i++) s->marks[i].is_there = false;
    assert_string_equal(read_scene(s), "");
    assert_int_equal(result.covered, 25);
    s->leaves[3] = leaf_of(3, 1);
    assert_string_equal(read_scene(s), "second history 1-25");
}

/* ---- something was ---- */

static void change(struct scene *s, uint64_t seq) { s->leaves[seq] = leaf_of(seq, 1); }

static void changed_records(struct scene *s) { change(s, 23); }
static void changed_in_two_runs(struct scene *s)
{
    change(s, 3);
    change(s, 40);
}
static void swapped(struct scene *s)
{
    struct sha256 leaf = s->leaves[11];
    s->leaves[11] = s->leaves[29];
    s->leaves[29] = leaf;
}
static void removed_head(struct scene *s) { remove_records(s, 1, 4); }
static void removed_head_and_checkpoint(struct scene *s)
{
    remove_records(s, 1, 10);
    s->marks[0].is_there = false;
}
static void removed_middle(struct scene *s) { remove_records(s, 17, 22); }
static void removed_tail(struct scene *s)
{
    remove_records(s, 36, 40);
    s->position = 36;
}
static void removed_tail_and_checkpoint(struct scene *s)
{
    remove_records(s, 36, 40);
    s->marks[3].is_there = false;
}
static void added_tail(struct scene *s)
{
    s->leaves[41] = leaf_of(41, 1);
    s->is_there[41] = true;
}
static void other_key_signed(struct scene *s)
{
    change(s, 5);
    sign_all(s, 1, other_key);
}
static void no_checkpoints(struct scene *s)
{
    for (size_t i = 0; i < RUNS; i++) s->marks[i].is_there = false;
}
static void no_key(struct scene *s) { s->has_key = false; }
static void withdrawn_key(struct scene *s) { s->distrusted_from = 31; }
static void forked(struct scene *s)
{
    struct scene other = *s;
    for (uint64_t seq = 11; seq <= RECORDS; seq++) other.leaves[seq] = leaf_of(seq, 1);
    other.leaves[15] = leaf_of(15, 2);
    struct frontier f = {0};
    for (uint64_t seq = 1; seq <= 25; seq++) frontier_append(&f, hasher, &other.leaves[seq]);
    sign_checkpoint(&s->anchor, 1, &f, engine_key);
}
/* The first half is of one run of the engine's key, the second of a copy that went another way. */
static void spliced(struct scene *s)
{
    static struct scene other;
    other = *s;
    for (uint64_t seq = 11; seq <= RECORDS; seq++) change(&other, seq);
    sign_all(&other, 1, engine_key);
    for (uint64_t seq = 21; seq <= RECORDS; seq++) s->leaves[seq] = other.leaves[seq];
    for (size_t run = 2; run < RUNS; run++) {
        s->marks[run] = other.marks[run];
        s->marks[run].note.view.bytes = s->marks[run].note.bytes;
        s->marks[run].frontier.view.bytes = s->marks[run].frontier.bytes;
    }
}
static void older(struct scene *s)
{
    struct frontier f = {0};
    for (uint64_t seq = 1; seq <= 35; seq++) frontier_append(&f, hasher, &s->leaves[seq]);
    sign_checkpoint(&s->anchor, 1, &f, engine_key);
    remove_records(s, 21, 40);
    s->position = 21;
    s->marks[2].is_there = s->marks[3].is_there = false;
}
static void moved_checkpoint(struct scene *s) { s->marks[1].end = 19; }
static void wrong_frontier(struct scene *s)
{
    struct frontier f = {0};
    for (uint64_t seq = 1; seq <= 10; seq++) frontier_append(&f, hasher, &s->leaves[seq + 1]);
    put_frontier(&s->marks[1].frontier, &f);
}
static void forged_removal(struct scene *s)
{
    remove_records(s, 17, 22);
    sign_removal(s, "retention", 17, 22, true, other_key);
}
static void removal_that_is_too_short(struct scene *s)
{
    remove_records(s, 15, 25);
    sign_removal(s, "gap", 17, 22, false, platform_key);
}

static void each_change_is_found(void **state)
{
    (void)state;
    static const struct {
        void (*change)(struct scene *s);
        const char *found;
    } rows[] = {
        {changed_records, "altered 21-30"},
        {changed_in_two_runs, "altered 1-10, altered 31-40"},
        {swapped, "altered 11-20, altered 21-30"},
        {removed_head, "missing 1-4"},
        {removed_head_and_checkpoint, "missing 1-10"},
        {removed_middle, "missing 17-22"},
        {removed_tail, "removed tail 36-40"},
        {removed_tail_and_checkpoint, "removed tail 36-40"},
        {added_tail, "beyond the position 41-41"},
        {other_key_signed,
         "forged checkpoint 1-10, forged checkpoint 11-20, forged checkpoint 21-30, "
         "forged checkpoint 31-40, no checkpoint 1-40"},
        {no_checkpoints, "no checkpoint 1-40"},
        {no_key, "no key 1-40"},
        {withdrawn_key, "forged checkpoint 31-40"},
        {forked, "second history 1-25"},
        {spliced, "second history 21-30"},
        {older, "older database 21-35"},
        {moved_checkpoint, "forged checkpoint 11-19"},
        {wrong_frontier, "forged frontier 11-20"},
        {forged_removal, "forged removal 17-22, missing 17-22"},
        {removal_that_is_too_short, "missing 15-16, missing 23-25"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene *s = scene_make();
        rows[i].change(s);
        const char *got = read_scene(s);
        if (strcmp(got, rows[i].found) != 0)
            fail_msg("row %zu: found \"%s\", expected \"%s\"", i, got, rows[i].found);
    }
}

static void a_record_that_comes_twice_is_found(void **state)
{
    (void)state;
    static struct verify h;
    struct sha256 leaf = leaf_of(1, 0);
    found[0] = '\0';
    verify_init(&h, STR("n 1"), STR("0"), tell, NULL);
    verify_add_record(&h, 1, &leaf);
    verify_add_record(&h, 1, &leaf);
    verify_fini(&h);
    assert_string_equal(found, "out of order 1-1");
}

static int plant(void **state)
{
    static const uint8_t a[ED25519_KEY_BYTES] = {1}, b[ED25519_KEY_BYTES] = {2},
                         c[ED25519_KEY_BYTES] = {3};
    (void)state;
    engine_key = ed25519_from_secret(a);
    platform_key = ed25519_from_secret(b);
    other_key = ed25519_from_secret(c);
    hasher = hasher_create();
    return 0;
}

static int clear(void **state)
{
    (void)state;
    ed25519_destroy(engine_key);
    ed25519_destroy(platform_key);
    ed25519_destroy(other_key);
    hasher_destroy(hasher);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_stream_is_proved_to_its_end),
        cmocka_unit_test(records_after_the_last_checkpoint_are_not_covered),
        cmocka_unit_test(a_checkpoint_less_changes_nothing),
        cmocka_unit_test(a_tree_that_began_later_leaves_out_what_was_before),
        cmocka_unit_test(a_second_tree_goes_on_after_the_first),
        cmocka_unit_test(records_that_retention_dropped_are_no_finding),
        cmocka_unit_test(an_accepted_gap_is_no_finding),
        cmocka_unit_test(a_record_in_quarantine_is_in_the_tree),
        cmocka_unit_test(a_whole_stream_may_be_in_quarantine),
        cmocka_unit_test(an_anchor_of_this_history_agrees),
        cmocka_unit_test(a_checkpoint_that_a_witness_signed_counts_with_its_root),
        cmocka_unit_test(a_stream_that_no_witness_signed_is_named),
        cmocka_unit_test(a_signature_of_a_witness_is_not_moved_to_another_history),
        cmocka_unit_test(an_anchor_that_a_witness_signed_counts),
        cmocka_unit_test(a_part_of_the_stream_is_proved_by_itself),
        cmocka_unit_test(an_anchor_that_cannot_be_read_is_no_proof),
        cmocka_unit_test(an_anchor_proves_records_without_checkpoints),
        cmocka_unit_test(each_change_is_found),
        cmocka_unit_test(a_record_that_comes_twice_is_found),
    };
    return cmocka_run_group_tests(tests, plant, clear);
}
