/* Records of one decision go into the journal together or not at all, whatever their size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "engine/runtime/commit.h"
#include "engine/engine.h"

struct scene {
    char path[64];
    struct disk *disk;
    struct journal *journal;
    struct committer commit;
    char *bytes;
    unsigned replayed;
};

static enum err count_record(void *context, const struct journal_record *r)
{
    struct scene *s = context;
    s->replayed++;
    assert_int_equal(r->public_bytes.size, LIMIT_EVENT_BYTES);
    assert_int_equal(r->public_bytes.bytes[0], r->seq % 2 == 1 ? 'd' : 'q');
    return ERR_OK;
}

static void open_journal(struct scene *s)
{
    struct journal_options o = {.disk = s->disk, .producers = 1, .lazy_sync_ms = 10};
    struct journal_report report;
    struct fault f;
    enum err err = journal_open(&o, count_record, s, &s->journal, &report, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
    s->commit = (struct committer){.producer = journal_producer(s->journal, 0)};
}

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    snprintf(s->path, sizeof s->path, "/tmp/test_commit_XXXXXX");
    assert_non_null(mkdtemp(s->path));
    assert_int_equal(disk_real_create(s->path, &s->disk), ERR_OK);
    s->bytes = malloc(2 * LIMIT_EVENT_BYTES);
    memset(s->bytes, 'd', LIMIT_EVENT_BYTES);
    memset(s->bytes + LIMIT_EVENT_BYTES, 'q', LIMIT_EVENT_BYTES);
    open_journal(s);
    *state = s;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    if (s->journal != NULL) journal_close(s->journal);
    disk_real_destroy(s->disk);
    nftw(s->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(s->bytes);
    free(s);
    return 0;
}

static void the_largest_review_is_recorded_with_its_decision(void **state)
{
    struct scene *s = *state;
    struct str events[] = {str_of(s->bytes, LIMIT_EVENT_BYTES),
                           str_of(s->bytes + LIMIT_EVENT_BYTES, LIMIT_EVENT_BYTES)};
    struct http_barrier barrier;
    for (int i = 0; i < 3; i++) /* three pairs are more than one block holds */
        assert_int_equal(commit_events(&s->commit, events, 2, LANE_SYNCED, &barrier), ERR_OK);
    assert_int_equal(barrier.lane, LANE_SYNCED);
    assert_int_equal(barrier.block, journal_block(s->commit.producer));
    journal_seal(s->commit.producer);
    journal_close(s->journal);
    s->journal = NULL;
    disk_real_destroy(s->disk); /* it holds the directory's lock */
    assert_int_equal(disk_real_create(s->path, &s->disk), ERR_OK);
    open_journal(s);
    assert_int_equal(s->replayed, 6);
}

/* What the room was taken for comes later, and may be less. */
static void room_that_was_taken_is_there_for_several_records(void **state)
{
    struct scene *s = *state;
    struct effect_record records[3];
    for (int round = 0; round < 5; round++) {
        assert_int_equal(commit_room(&s->commit, 2 * (LIMIT_EVENT_BYTES + LIMIT_RECORD_HEAD_BYTES),
                                     round % 2 == 0, LANE_SYNCED),
                         ERR_OK);
        for (int i = 0; i < 2; i++)
            records[i] = (struct effect_record){
                .event = str_of(s->bytes + i * LIMIT_EVENT_BYTES, LIMIT_EVENT_BYTES)};
        struct http_barrier barrier = commit_put(&s->commit, records, 2, LANE_WRITTEN);
        assert_int_equal(barrier.lane, LANE_WRITTEN);
        assert_int_equal(barrier.block, journal_block(s->commit.producer));
        /* and nothing of it is used */
        assert_int_equal(commit_room(&s->commit, LIMIT_EVENT_BYTES + LIMIT_RECORD_HEAD_BYTES, false,
                                     LANE_SYNCED),
                         ERR_OK);
    }
}

static enum err nothing_is_free(void *state, uint64_t *ret_free, uint64_t *ret_total)
{
    (void)state;
    *ret_free = 0;
    *ret_total = 1 << 30;
    return ERR_OK;
}

static void reopen_on_a_full_disk(struct scene *s)
{
    journal_close(s->journal);
    disk_real_destroy(s->disk);
    assert_int_equal(disk_real_create(s->path, &s->disk), ERR_OK);
    s->disk->free_bytes = nothing_is_free;
    open_journal(s);
    assert_true(journal_is_full(s->journal));
}

static void on_a_full_disk_there_is_room_for_what_closes_alone(void **state)
{
    struct scene *s = *state;
    struct effect_record record = {.event = str_of(s->bytes, LIMIT_EVENT_BYTES)};
    reopen_on_a_full_disk(s);
    assert_int_equal(
        commit_room(&s->commit, LIMIT_EVENT_BYTES + LIMIT_RECORD_HEAD_BYTES, false, LANE_SYNCED),
        ERR_JOURNAL_FULL);
    assert_int_equal(
        commit_room(&s->commit, LIMIT_EVENT_BYTES + LIMIT_RECORD_HEAD_BYTES, true, LANE_SYNCED),
        ERR_OK);
    (void)commit_put(&s->commit, &record, 1, LANE_SYNCED);
    assert_int_equal(
        commit_room(&s->commit, LIMIT_EVENT_BYTES + LIMIT_RECORD_HEAD_BYTES, false, LANE_SYNCED),
        ERR_JOURNAL_FULL);
}

static enum err keep_text(void *context, const struct journal_record *r)
{
    struct buf *text = context;
    buf_put(text, r->public_bytes);
    return ERR_OK;
}

static void refused_credentials_wait_for_room_and_are_counted_on(void **state)
{
    struct scene *s = *state;
    struct engine_reactor *w = calloc(1, sizeof *w);
    struct http_header h = {STR("authorization"), STR("Bearer nothing")};
    struct http_exchange x = {.headers = &h, .header_count = 1};
    struct token_claims token = {.id = {.bytes = {1}},
                                 .key = {.bytes = {2}},
                                 .tenant = STR("acme"),
                                 .actor = STR("bot"),
                                 .acting_for = STR("carol")};
    assert_non_null(w);
    reopen_on_a_full_disk(s);
    w->commit = s->commit;
    for (int i = 0; i < 2; i++) {
        auth_failed_note(w, &x, ERR_UNAUTHENTICATED);
        auth_failed_record(w);
        assert_int_equal(w->refused.count, 1);
        assert_int_equal(w->refused.sources[0].count, i + 1);
    }
    journal_close(s->journal);
    disk_real_destroy(s->disk);
    assert_int_equal(disk_real_create(s->path, &s->disk), ERR_OK);
    open_journal(s);
    w->commit = s->commit;
    token_rejected_note(w, &(struct http_exchange){0}, &token, ERR_CREDENTIAL_EXPIRED);
    auth_failed_record(w);
    assert_int_equal(w->refused.count, 0);
    auth_failed_record(w); /* each is told of once */
    journal_seal(s->commit.producer);
    journal_close(s->journal);
    disk_real_destroy(s->disk);
    assert_int_equal(disk_real_create(s->path, &s->disk), ERR_OK);
    char told[4096];
    struct buf text = buf_over(told, sizeof told);
    struct journal_options o = {.disk = s->disk, .producers = 1};
    struct journal_report report;
    struct fault f;
    assert_int_equal(journal_open(&o, keep_text, &text, &s->journal, &report, &f), ERR_OK);
    assert_int_equal(report.records, 2);
    static const char *const parts[] = {"\"kind\":\"auth.failed\"",
                                        "\"count\":2",
                                        "\"tenant_id\":\"default\"",
                                        "\"event_id\":\"evt_",
                                        "\"trace_id\":\"",
                                        "\"kind\":\"token.rejected\"",
                                        "\"count\":1",
                                        "\"tenant_id\":\"acme\"",
                                        "\"actor\":\"bot\"",
                                        "\"acting_for\":\"carol\"",
                                        "\"token_id\":\"tok_",
                                        "\"key_id\":\"key_"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(told, text.size, parts[i], strlen(parts[i])) == NULL)
            fail_msg("no %s in %.*s", parts[i], (int)text.size, told);
    const char *key = memmem(told, text.size, "\"key_id\"", 8);
    /* whoever shows nothing has none */
    assert_null(memmem(key + 1, text.size - (size_t)(key + 1 - told), "\"key_id\"", 8));
    free(w);
}

static void the_stricter_of_two_barriers_holds_back_what_either_did(void **state)
{
    (void)state;
    struct http_barrier none = {0}, written = {.lane = LANE_WRITTEN, .block = 9},
                        synced = {.lane = LANE_SYNCED, .block = 3};
    const struct http_barrier both[] = {barrier_stricter(written, synced),
                                        barrier_stricter(synced, written)};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(both[i].lane, LANE_SYNCED);
        assert_int_equal(both[i].block, 9);
    }
    assert_int_equal(barrier_stricter(none, written).lane, LANE_WRITTEN);
    assert_int_equal(barrier_stricter(synced, none).block, 3);
}

static void a_record_over_the_limit_is_refused(void **state)
{
    struct scene *s = *state;
    struct str event = str_of(s->bytes, LIMIT_EVENT_BYTES + 1);
    struct http_barrier barrier;
    assert_int_equal(commit_events(&s->commit, &event, 1, LANE_WRITTEN, &barrier),
                     ERR_OUT_OF_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_largest_review_is_recorded_with_its_decision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(room_that_was_taken_is_there_for_several_records, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(on_a_full_disk_there_is_room_for_what_closes_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(refused_credentials_wait_for_room_and_are_counted_on,
                                        set_up, tear_down),
        cmocka_unit_test(the_stricter_of_two_barriers_holds_back_what_either_did),
        cmocka_unit_test_setup_teardown(a_record_over_the_limit_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
