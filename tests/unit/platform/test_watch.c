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
#include "platform/watch.h"
#include "platform/watch_scan.h"

#define ALLOW "rules:\n  - {id: reads, agents: [\"*\"], actions: [\"get_*\"], decision: allow}\n"
#define DENY "rules:\n  - {id: reads, actions: [\"get_*\"], decision: deny}\n"

#define NS_PER_MS 1000000u

/* ---- clocks ---- */

static struct {
    uint64_t wall_ns, monotonic_ns;
    unsigned wall_calls, monotonic_calls;
    void (*on_wall)(unsigned call); /* what somebody else does meanwhile */
    void (*on_monotonic)(unsigned call);
} clocks;

static uint64_t wall(void)
{
    if (clocks.on_wall != NULL) clocks.on_wall(++clocks.wall_calls);
    return clocks.wall_ns;
}

static uint64_t monotonic(void)
{
    if (clocks.on_monotonic != NULL) clocks.on_monotonic(++clocks.monotonic_calls);
    return clocks.monotonic_ns;
}

/* ---- a directory and its store ---- */

static char folder[64], place[96];
static struct store *store;
static struct watch_known known;
static bool again;

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

static uint64_t changed_ns(const char *name)
{
    struct stat about;
    assert_int_equal(stat(path_of(name), &about), 0);
    return (uint64_t)about.st_ctim.tv_sec * 1000000000 + (uint64_t)about.st_ctim.tv_nsec;
}

/* Long after all files were changed. */
static void let_settle(void) { clocks.wall_ns = world_wall_ns() + (uint64_t)1000000000; }

static int set_up(void **state)
{
    struct fault f;
    (void)state;
    clocks = (typeof(clocks)){.monotonic_ns = (uint64_t)10 * 1000000000};
    known = (struct watch_known){0};
    snprintf(folder, sizeof folder, "/tmp/writ-watch-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(place, sizeof place, "%s/platform.db", folder);
    assert_int_equal(mkdir(path_of(""), 0700), 0);
    assert_int_equal(store_open(place, true, &store, &f), ERR_OK);
    let_settle();
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"dir/a.yaml",  "dir/b.yaml",      "dir",
                                        "platform.db", "platform.db-wal", "platform.db-shm"};
    (void)state;
    watch_known_fini(&known);
    store_close(store);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return rmdir(folder);
}

/* Of the look whose steps are to be seen; the caller ends it. */
static void begin(struct watch_scan *s)
{
    *s = (struct watch_scan){.path = path_of(""),
                             .directory = STR("here"),
                             .tenant = STR("default"),
                             .wall_ns = wall,
                             .monotonic_ns = monotonic,
                             .before = known};
    clocks.wall_calls = clocks.monotonic_calls = 0;
    watch_scan_run(s, store);
}

static void end(struct watch_scan *s)
{
    again = s->again;
    watch_known_fini(&s->before);
    known = s->after;
    watch_scan_fini(s);
}

static size_t look(void)
{
    const struct actor by = {.principal = STR(FILES_PRINCIPAL), .now_ms = world_now_ms()};
    struct watch_scan s;
    begin(&s);
    struct fault f;
    assert_int_equal(watch_scan_apply(&s, store, &by, &f), ERR_OK);
    size_t steps = s.step_count;
    end(&s);
    return steps;
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

/* ---- what is young ---- */

static void a_file_is_read_when_it_has_settled(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    clocks.wall_ns = changed_ns("a.yaml") + 199 * NS_PER_MS;
    assert_int_equal(look(), 0);
    assert_true(again);
    assert_false(known.is_complete);
    clocks.wall_ns += NS_PER_MS;
    assert_int_equal(look(), 1);
    assert_true(known.is_complete);
    assert_true(is_in_force("a", DENY));
    assert_int_equal(look(), 0);
    assert_false(again);
}

static void a_file_of_a_moment_from_now_is_young_and_one_of_far_ahead_is_not(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    clocks.wall_ns = changed_ns("a.yaml") - 1;
    assert_int_equal(look(), 0);
    clocks.wall_ns = changed_ns("a.yaml") - (uint64_t)4999 * NS_PER_MS;
    assert_int_equal(look(), 0);
    assert_true(again);
    clocks.wall_ns = changed_ns("a.yaml") - (uint64_t)5001 * NS_PER_MS;
    assert_int_equal(look(), 1);
}

/* The second time that the clock is looked at is for the first file's descriptor. */
static void write_half_of_a(unsigned call)
{
    if (call == 1) put("a.yaml", "rules:\n");
    if (call == 2) clocks.wall_ns = changed_ns("a.yaml") + NS_PER_MS;
}

static void a_file_that_is_written_between_the_look_and_the_opening_is_young(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    let_settle();
    clocks.on_wall = write_half_of_a;
    assert_int_equal(look(), 0);
    assert_int_equal(clocks.wall_calls, 2);
    assert_true(again);
    assert_false(known.is_complete);
}

static void write_b_late(unsigned call)
{
    if (call != 1) return;
    put("b.yaml", ALLOW);
    clocks.wall_ns = changed_ns("b.yaml") + NS_PER_MS;
}

/* A look lasts: a clock that is read before it says nothing of the files that it comes to last. */
static void the_clock_is_read_beside_each_file(void **state)
{
    (void)state;
    put("b.yaml", DENY);
    clocks.wall_ns = changed_ns("b.yaml") + 1000 * NS_PER_MS;
    assert_int_equal(look(), 1);
    put("a.yaml", "no: document\n");
    clocks.on_wall = write_b_late;
    clocks.wall_ns = changed_ns("a.yaml") + 1000 * NS_PER_MS;
    look();
    assert_true(is_in_force("b", DENY));
    assert_true(again);
}

static void a_file_that_never_settles_is_told_in_the_end(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    assert_int_equal(look(), 1);
    put("a.yaml", ALLOW);
    clocks.wall_ns = changed_ns("a.yaml") + NS_PER_MS;
    for (int i = 1; i < WATCH_TRIES; i++) {
        assert_int_equal(look(), 0);
        assert_int_equal(known.files[0].problems, 0);
    }
    assert_int_equal(look(), 0);
    assert_int_equal(known.files[0].problems, 1);
    assert_non_null(strstr(known.files[0].message, "changes again and again"));
    assert_true(again);
    let_settle();
    assert_int_equal(look(), 1);
    assert_int_equal(known.files[0].problems, 0);
    assert_true(is_in_force("a", ALLOW));
}

static void a_file_that_cannot_be_read_whole_is_told_in_the_end(void **state)
{
    (void)state;
    if (access("/proc/version", R_OK) != 0) {
        print_message("SKIP: there is no /proc here\n");
        return;
    }
    assert_int_equal(symlink("/proc/version", path_of("a.yaml")), 0);
    for (int i = 0; i < WATCH_TRIES; i++) {
        assert_false(known.is_complete);
        assert_int_equal(look(), 0);
    }
    assert_int_equal(known.files[0].problems, 1);
    assert_non_null(strstr(known.files[0].message, "cannot be read whole"));
    assert_false(again);
    assert_true(known.is_complete);
}

/* ---- what is gone ---- */

/* Both are in force, and a.yaml is no longer there. */
static void lose_one_of_two_files(void)
{
    put("a.yaml", DENY);
    put("b.yaml", DENY);
    let_settle();
    assert_int_equal(look(), 2);
    unlink(path_of("a.yaml"));
}

static void take_long_to_list(unsigned call)
{
    if (call == 2) clocks.monotonic_ns += (uint64_t)5000 * NS_PER_MS;
}

/* Neither what went before a look nor the look's own length counts. */
static void a_policy_stays_a_whole_second_after_its_file_was_missed(void **state)
{
    (void)state;
    lose_one_of_two_files();
    clocks.on_monotonic = take_long_to_list;
    assert_int_equal(look(), 0); /* missed at the end of five seconds */
    assert_true(again);
    clocks.monotonic_ns += 999 * NS_PER_MS;
    assert_int_equal(look(), 0); /* at its beginning not a second has passed */
    assert_true(is_in_force("a", DENY));
    assert_int_equal(look(), 1);
    assert_false(is_in_force("a", DENY));
    assert_true(is_in_force("b", DENY));
}

static void a_directory_without_a_document_keeps_all(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    let_settle();
    assert_int_equal(look(), 1);
    unlink(path_of("a.yaml"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(look(), 0);
        assert_non_null(strstr(known.failure, "holds no document"));
        clocks.monotonic_ns += (uint64_t)60000 * NS_PER_MS;
    }
    put("b.yaml", DENY);
    let_settle();
    assert_int_equal(look(), 1);
    assert_string_equal(known.failure, "");
    assert_true(is_in_force("a", DENY)); /* its second begins now */
}

static void more_files_than_policies_are_told_in_words_of_their_own(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i <= WATCH_FILES_MAX; i++) {
        snprintf(name, sizeof name, "p%d.yaml", i);
        put(name, DENY);
    }
    assert_int_equal(look(), 0);
    const char *end = strstr(known.failure, " holds more documents than a tenant may have");
    assert_non_null(end);
    assert_string_equal(end, " holds more documents than a tenant may have");
    for (int i = 0; i <= WATCH_FILES_MAX; i++) {
        snprintf(name, sizeof name, "p%d.yaml", i);
        assert_int_equal(unlink(path_of(name)), 0);
    }
}

/* ---- what cannot be stored ---- */

static void what_could_not_be_stored_is_read_again(void **state)
{
    struct watch_scan s;
    (void)state;
    put("a.yaml", DENY);
    let_settle();
    begin(&s);
    assert_int_equal(s.step_count, 1);
    assert_true(s.after.is_complete);
    watch_scan_refuse(&s, "no room");
    end(&s);
    assert_false(known.is_complete);
    assert_string_equal(known.failure, "changes cannot be stored: no room");
    assert_int_equal(look(), 1);
    assert_true(known.is_complete);
    assert_string_equal(known.failure, "");
    assert_true(is_in_force("a", DENY));
}

/* ---- who owns what ---- */

static enum err api_put(const char *name, struct str not_of)
{
    struct fault f;
    struct buf out;
    struct policy_result result;
    char digest[SHA256_HEX];
    sha256_write_hex(sha256_once(STR(ALLOW)), digest);
    const struct policy_change change = {.tenant = STR("default"),
                                         .name = str_from(name),
                                         .content = STR(ALLOW),
                                         .digest = str_of(digest, sizeof digest),
                                         .condition = {.not_of = not_of, .seen = known.revision}};
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
    let_settle();
    assert_int_equal(look(), 1);
    assert_int_equal(api_put("a", STR(FILES_PRINCIPAL)), ERR_WATCHED_POLICY);
    buf_init(&out, 1 << 10, 1 << 20);
    assert_int_equal(policy_store_rollback(store, &change, 1, &by, &out, &result, &f),
                     ERR_WATCHED_POLICY);
    buf_fini(&out);
    assert_int_equal(policy_store_delete(store, &change, &by, &result, &f), ERR_WATCHED_POLICY);
    assert_true(is_in_force("a", DENY));
    /* What was known of when it was asked, and had no file: that may be deleted. */
    change.condition.seen = known.revision;
    assert_int_equal(policy_store_delete(store, &change, &by, &result, &f), ERR_OK);
    assert_int_equal(look(), 1); /* but it has one */
    assert_true(is_in_force("a", DENY));
}

static void what_others_put_over_a_file_is_put_right(void **state)
{
    (void)state;
    put("a.yaml", DENY);
    let_settle();
    assert_int_equal(look(), 1);
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

static void what_others_change_meanwhile_does_not_keep_a_lost_files_policy(void **state)
{
    (void)state;
    lose_one_of_two_files();
    assert_int_equal(look(), 0);
    clocks.monotonic_ns += 600 * NS_PER_MS;
    assert_int_equal(api_put("other", (struct str){0}), ERR_OK);
    assert_int_equal(look(), 0);
    clocks.monotonic_ns += 600 * NS_PER_MS;
    assert_int_equal(look(), 1);
    assert_false(is_in_force("a", DENY));
    assert_true(is_in_force("b", DENY) && is_in_force("other", ALLOW));
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
    let_settle();
    assert_int_equal(look(), 1);
    store_close(store);
    copy_file(place, backup);
    assert_int_equal(store_open(place, true, &store, &f), ERR_OK);
    put("a.yaml", DENY);
    let_settle();
    assert_int_equal(look(), 1);
    store_close(store);
    copy_file(backup, place);
    assert_int_equal(remove(backup), 0);
    assert_int_equal(store_open(place, true, &store, &f), ERR_OK);
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
        TEST(a_file_is_read_when_it_has_settled),
        TEST(a_file_of_a_moment_from_now_is_young_and_one_of_far_ahead_is_not),
        TEST(a_file_that_is_written_between_the_look_and_the_opening_is_young),
        TEST(the_clock_is_read_beside_each_file),
        TEST(a_file_that_never_settles_is_told_in_the_end),
        TEST(a_file_that_cannot_be_read_whole_is_told_in_the_end),
        TEST(a_policy_stays_a_whole_second_after_its_file_was_missed),
        TEST(a_directory_without_a_document_keeps_all),
        TEST(more_files_than_policies_are_told_in_words_of_their_own),
        TEST(what_could_not_be_stored_is_read_again),
        TEST(the_writer_refuses_what_a_file_has_taken_meanwhile),
        TEST(what_others_put_over_a_file_is_put_right),
        TEST(what_others_change_meanwhile_does_not_keep_a_lost_files_policy),
        TEST(a_restored_store_gets_the_file_again_and_another_directorys_text_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
