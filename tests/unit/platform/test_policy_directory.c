/* One look through a directory of policies, under clocks of the tests' own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/world.h"
#include "platform/policy_directory.h"
#include "platform/directory_scan.h"
#include "store/set.h"

#define ALLOW "rules:\n  - {id: reads, agents: [\"*\"], actions: [\"get_*\"], decision: allow}\n"
#define DENY "rules:\n  - {id: reads, actions: [\"get_*\"], decision: deny}\n"

#define NS_PER_MS 1000000u

/* ---- the clock ---- */

static uint64_t now_ns;

static uint64_t clock_ns(void) { return now_ns; }

static void pass_ms(uint64_t ms) { now_ns += ms * NS_PER_MS; }

/* ---- a directory and its store ---- */

static char folder[64], place[96];
static struct store *store;
static struct directory_state known;
static struct policy_book *book;
static uint64_t again_ms;

static const char *path_of(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/dir/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void open_store(void)
{
    static const struct pepper pepper = {{1}};
    struct fault f;
    assert_int_equal(store_open(place, true, &store, &f), ERR_OK);
    store_share_pepper(store, &pepper);
    assert_int_equal(set_found(store, 0, &f), ERR_OK);
}

static int set_up(void **state)
{
    (void)state;
    now_ns = (uint64_t)10 * 1000000000;
    known = (struct directory_state){0};
    book = policy_book_create();
    snprintf(folder, sizeof folder, "/tmp/writ-watch-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(place, sizeof place, "%s/platform.db", folder);
    assert_int_equal(mkdir(path_of(""), 0700), 0);
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"dir/a.yaml",  "dir/b.yaml",      "dir",
                                        "platform.db", "platform.db-wal", "platform.db-shm"};
    (void)state;
    watch_state_fini(&known);
    policy_book_destroy(book);
    store_close(store);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return rmdir(folder);
}

static void begin(struct directory_scan *l)
{
    *l = (struct directory_scan){.path = path_of(""),
                                 .directory = STR("here"),
                                 .tenant = STR("default"),
                                 .monotonic_ns = clock_ns,
                                 .before = known};
    set_guard_init(&l->apply.guard, book);
    directory_scan_run(l, store);
}

static void end(struct directory_scan *l)
{
    again_ms = l->again_ms;
    directory_scan_fini(l);
    if (l->state.files != known.files) watch_state_fini(&known);
    known = l->state;
}

/* How many policies it has changed. */
static size_t look(void)
{
    const struct actor by = {.principal = STR(FILES_PRINCIPAL), .now_ms = world_now_ms()};
    struct directory_scan *l = calloc(1, sizeof *l);
    struct fault f;
    size_t changed = 0;
    begin(l);
    enum err err = l->apply.batch.count == 0 ? ERR_END : directory_scan_store(l, store, &by, &f);
    for (size_t i = 0; err == ERR_OK && i < l->apply.batch.count; i++)
        changed += l->apply.batch.steps[i].result.effect != POLICY_UNCHANGED;
    end(l);
    free(l);
    return changed;
}

/* A look at what is new, and one a second later. */
static size_t settle(void)
{
    assert_int_equal(look(), 0);
    pass_ms(DIRECTORY_STILL_MS);
    return look();
}

static bool is_in_force(const char *name, const char *text)
{
    struct fault f;
    struct buf out;
    char etag[POLICY_ETAG_TEXT];
    buf_init(&out, 1 << 10, 1 << 20);
    bool is = policy_store_get(store, STR("default"), str_from(name), &out, etag, &f) == ERR_OK;
    buf_put_byte(&out, '\0');
    is = is && strstr(out.bytes, "\"is_active\":true") != NULL;
    is = is && strstr(out.bytes, strstr(text, "allow") != NULL ? "allow" : "deny") != NULL;
    buf_fini(&out);
    return is;
}

/* ---- when it is read ---- */

static void the_directory_is_applied_when_two_readings_a_second_apart_are_alike(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(look(), 0);
    assert_int_equal(again_ms, DIRECTORY_STILL_MS);
    assert_false(known.is_ready);
    pass_ms(DIRECTORY_STILL_MS - 1);
    assert_int_equal(look(), 0);
    assert_int_equal(again_ms, 1);
    put("b.yaml", DENY); /* begins anew */
    pass_ms(1);
    assert_int_equal(look(), 0);
    assert_int_equal(again_ms, DIRECTORY_STILL_MS);
    pass_ms(DIRECTORY_STILL_MS);
    assert_int_equal(look(), 2);
    assert_true(known.is_ready);
    assert_true(is_in_force("a", DENY) && is_in_force("b", DENY));
    assert_int_equal(look(), 0);
    assert_int_equal(again_ms, 0);
}

static void a_file_that_is_written_in_place_with_the_same_size_is_another(void **state)
{
    (void)state;
    put("a.yaml", DENY "# 1\n");
    assert_int_equal(look(), 0);
    put("a.yaml", ALLOW "# 2\n");
    pass_ms(DIRECTORY_STILL_MS);
    assert_int_equal(look(), 0);
    pass_ms(DIRECTORY_STILL_MS);
    assert_int_equal(look(), 1);
    assert_true(is_in_force("a", ALLOW));
}

static void a_directory_that_never_stands_still_is_told_and_applied_when_it_does(void **state)
{
    char text[200];
    (void)state;
    for (int i = 0; i < 11; i++) {
        snprintf(text, sizeof text, DENY "# %d\n", i);
        put("a.yaml", text);
        assert_int_equal(look(), 0);
        assert_int_equal(known.failure[0] != '\0', i == 10);
        pass_ms(DIRECTORY_STILL_MS);
    }
    assert_non_null(strstr(known.failure, "has been changing for 10 s"));
    assert_int_equal(look(), 1);
    assert_string_equal(known.failure, "");
}

static void a_policy_stays_until_its_file_was_missed_for_a_second(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    put("b.yaml", DENY);
    assert_int_equal(settle(), 2);
    unlink(path_of("a.yaml"));
    assert_int_equal(look(), 0);
    put("a.yaml", DENY); /* back, as after a checkout */
    pass_ms(DIRECTORY_STILL_MS);
    assert_int_equal(settle(), 0);
    assert_true(is_in_force("a", DENY));
    unlink(path_of("a.yaml"));
    assert_int_equal(settle(), 1);
    assert_false(is_in_force("a", DENY));
    assert_true(is_in_force("b", DENY));
}

/* ---- all or nothing ---- */

static void one_document_that_is_not_valid_keeps_all_others_as_they_were(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(settle(), 1);
    put("a.yaml", ALLOW);
    put("b.yaml", "rules: 1\n");
    assert_int_equal(settle(), 0);
    assert_true(is_in_force("a", DENY));
    assert_non_null(strstr(known.failure, "is refused as a whole"));
    assert_non_null(strstr(known.failure, "b.yaml:1:8"));
    assert_true(known.is_ready);
    assert_int_equal(look(), 0);
    put("b.yaml", DENY);
    assert_int_equal(settle(), 2);
    assert_true(is_in_force("a", ALLOW) && is_in_force("b", DENY));
    assert_string_equal(known.failure, "");
}

static void a_refused_directory_is_not_ready_where_nothing_of_it_is_in_force(void **state)
{
    (void)state;
    put("a.yaml", "rules: 1\n");
    assert_int_equal(settle(), 0);
    assert_false(known.is_ready);
    unlink(path_of("a.yaml")); /* an empty one has nothing to apply */
    assert_int_equal(settle(), 0);
    assert_true(known.is_ready);
}

static void a_directory_without_a_document_keeps_all(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(settle(), 1);
    unlink(path_of("a.yaml"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(settle(), 0);
        assert_non_null(strstr(known.failure, "holds no document"));
        pass_ms(60000);
    }
    put("b.yaml", DENY);
    assert_int_equal(settle(), 2);
    assert_string_equal(known.failure, "");
    assert_true(is_in_force("b", DENY) && !is_in_force("a", DENY));
}

static void a_directory_that_is_gone_changes_nothing(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(settle(), 1);
    char aside[200];
    snprintf(aside, sizeof aside, "%s/aside", folder);
    assert_int_equal(rename(path_of(""), aside), 0);
    assert_int_equal(settle(), 0);
    assert_non_null(strstr(known.failure, "cannot be opened"));
    assert_int_equal(known.file_count, 1);
    assert_true(is_in_force("a", DENY));
    assert_int_equal(rename(aside, path_of("")), 0);
    assert_int_equal(settle(), 0);
    assert_string_equal(known.failure, "");
}

static void more_files_than_policies_are_told_in_words_of_their_own(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i <= DIRECTORY_FILES_MAX; i++) {
        snprintf(name, sizeof name, "p%d.yaml", i);
        put(name, DENY);
    }
    assert_int_equal(look(), 0);
    assert_non_null(strstr(known.failure, " holds more documents than a tenant may have"));
    for (int i = 0; i <= DIRECTORY_FILES_MAX; i++) {
        snprintf(name, sizeof name, "p%d.yaml", i);
        assert_int_equal(unlink(path_of(name)), 0);
    }
}

static void what_could_not_be_stored_is_done_again(void **state)
{
    struct directory_scan *l = calloc(1, sizeof *l);
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(look(), 0);
    pass_ms(DIRECTORY_STILL_MS);
    begin(l);
    assert_int_equal(l->apply.batch.count, 1);
    directory_scan_put_off(l, "no room");
    end(l);
    free(l);
    assert_false(known.is_ready);
    assert_string_equal(known.failure, "changes cannot be stored: no room");
    assert_int_equal(look(), 1);
    assert_true(known.is_ready);
    assert_string_equal(known.failure, "");
}

/* ---- who owns what ---- */

static enum err api_put(const char *name, struct str not_of)
{
    struct fault f;
    struct buf out;
    struct policy_result result;
    char digest[SHA256_HEX];
    sha256_write_hex(sha256_once(STR(ALLOW)), digest);
    const struct policy_change change = {
        .tenant = STR("default"),
        .name = str_from(name),
        .content = STR(ALLOW),
        .digest = str_of(digest, sizeof digest),
        .condition = {.not_of = not_of, .seen = known.judged_revision}};
    const struct actor by = {.principal = STR("somebody"), .now_ms = world_now_ms()};
    buf_init(&out, 1 << 10, 1 << 20);
    enum err err = policy_store_put(store, &change, &by, &out, &result, &f);
    buf_fini(&out);
    return err;
}

static void the_writer_refuses_what_a_file_has_taken_meanwhile(void **state)
{
    struct fault f;
    struct buf out;
    struct policy_result result;
    const struct actor by = {.principal = STR("somebody"), .now_ms = world_now_ms()};
    struct policy_change change = {.tenant = STR("default"),
                                   .name = STR("a"),
                                   .condition = {.not_of = STR(FILES_PRINCIPAL), .seen = 1}};
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(settle(), 1);
    assert_int_equal(api_put("a", STR(FILES_PRINCIPAL)), ERR_WATCHED_POLICY);
    buf_init(&out, 1 << 10, 1 << 20);
    assert_int_equal(policy_store_rollback(store, &change, 1, &by, &out, &result, &f),
                     ERR_WATCHED_POLICY);
    buf_fini(&out);
    assert_int_equal(policy_store_delete(store, &change, &by, &result, &f), ERR_WATCHED_POLICY);
    assert_true(is_in_force("a", DENY));
    /* What was known of when it was asked, and had no file: that may be deleted. */
    assert_int_equal(look(), 0);
    change.condition.seen = known.judged_revision;
    assert_int_equal(policy_store_delete(store, &change, &by, &result, &f), ERR_OK);
    assert_int_equal(look(), 1); /* but it has one */
    assert_true(is_in_force("a", DENY));
}

static void what_others_put_over_a_file_is_put_right(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(settle(), 1);
    assert_int_equal(api_put("a", (struct str){0}), ERR_OK);
    assert_true(is_in_force("a", ALLOW));
    assert_int_equal(look(), 1);
    assert_true(is_in_force("a", DENY));
    assert_int_equal(look(), 0);

    char digest[SHA256_HEX]; /* its own text, and out of force */
    struct fault f;
    sha256_write_hex(sha256_once(STR(DENY)), digest);
    struct policy_step off = {.change = {.tenant = STR("default"),
                                         .name = STR("a"),
                                         .content = STR(DENY),
                                         .has_active = true,
                                         .digest = str_of(digest, sizeof digest),
                                         .claims = true,
                                         .directory = STR("here")}};
    const struct actor by = {.principal = STR(FILES_PRINCIPAL), .now_ms = world_now_ms()};
    struct policy_batch batch = {.steps = &off, .count = 1};
    assert_int_equal(policy_store_apply(store, &batch, &by, &f), ERR_OK);
    assert_false(is_in_force("a", DENY));
    assert_int_equal(look(), 1);
    assert_true(is_in_force("a", DENY));
}

static void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    size_t got;
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    assert_non_null(in);
    assert_non_null(out);
    while ((got = fread(bytes, 1, sizeof bytes, in)) > 0)
        assert_int_equal(fwrite(bytes, 1, got, out), got);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* What is older than the file is the past; what is newer is somebody's who has another file. */
static void a_restored_store_gets_the_file_again_and_another_directorys_text_stays(void **state)
{
    struct fault f;
    char backup[128];
    (void)state;
    snprintf(backup, sizeof backup, "%s/backup", folder);
    put("a.yaml", ALLOW);
    assert_int_equal(settle(), 1);
    store_close(store);
    copy_file(place, backup);
    open_store();
    put("a.yaml", DENY);
    assert_int_equal(settle(), 1);
    store_close(store);
    copy_file(backup, place);
    assert_int_equal(remove(backup), 0);
    open_store();
    assert_true(is_in_force("a", ALLOW));
    assert_int_equal(look(), 1);
    assert_true(is_in_force("a", DENY));

    char digest[SHA256_HEX];
    sha256_write_hex(sha256_once(STR(ALLOW)), digest);
    struct policy_step theirs = {.change = {.tenant = STR("default"),
                                            .name = STR("a"),
                                            .content = STR(ALLOW),
                                            .digest = str_of(digest, sizeof digest),
                                            .claims = true,
                                            .directory = STR("there")}};
    const struct actor by = {.principal = STR(FILES_PRINCIPAL), .now_ms = world_now_ms()};
    struct policy_batch batch = {.steps = &theirs, .count = 1};
    assert_int_equal(policy_store_apply(store, &batch, &by, &f), ERR_OK);
    assert_int_equal(look(), 0);
    assert_true(is_in_force("a", ALLOW));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_directory_is_applied_when_two_readings_a_second_apart_are_alike),
        TEST(a_file_that_is_written_in_place_with_the_same_size_is_another),
        TEST(a_directory_that_never_stands_still_is_told_and_applied_when_it_does),
        TEST(a_policy_stays_until_its_file_was_missed_for_a_second),
        TEST(one_document_that_is_not_valid_keeps_all_others_as_they_were),
        TEST(a_refused_directory_is_not_ready_where_nothing_of_it_is_in_force),
        TEST(a_directory_without_a_document_keeps_all),
        TEST(a_directory_that_is_gone_changes_nothing),
        TEST(more_files_than_policies_are_told_in_words_of_their_own),
        TEST(what_could_not_be_stored_is_done_again),
        TEST(the_writer_refuses_what_a_file_has_taken_meanwhile),
        TEST(what_others_put_over_a_file_is_put_right),
        TEST(a_restored_store_gets_the_file_again_and_another_directorys_text_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
