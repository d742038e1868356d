/* writ key: words in, request out, what is printed, exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/cli/rig.h"

static void a_list_of_keys_tells_for_whom_the_roles_of_each_let_it_speak(void **state)
{
    (void)state;
    static const char all[] =
        "\"actors\":[\"a\"],\"users\":[\"user-of-ours\"],\"reviewers\":[\"*\"],"
        "\"nodes\":[\"n-*\"],\"tenants\":[\"*\"]";
    static const char *const roles[][2] = {
        {"\"agent\"", "  actors a; users user-of-ours  valid"},
        {"\"app\"", "  users user-of-ours  valid"},
        {"\"reviewer\"", "  reviewers *  valid"},
        {"\"ingest\"", "  nodes n-*; tenants *  valid"},
        {"\"agent\",\"reviewer\"", "  actors a; users user-of-ours; reviewers *  valid"},
        {"\"auditor\"", "auditor  -  "}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        struct rig *r = rig_create();
        char body[1024];
        snprintf(body, sizeof body, "{\"keys\":[{\"id\":\"key_1\",\"roles\":[%s],%s}]}",
                 roles[i][0], all);
        peer_will_answer(r->peer, 200, NULL, body);
        assert_int_equal(RUN(r, "key", "list"), DONE);
        assert_has(r->out, roles[i][1]);
        rig_destroy(r);
    }
}

static void a_key_is_made_from_lists_and_spans_and_printed_alone(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 201, NULL,
        "{\"key\":\"wk_new\",\"id\":\"key_1\",\"name\":\"n\",\"roles\":[\"agent\",\"app\"]}");
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "agent, app",
                         "--actors", "a , b*,", "--tenant", "t", "--expires",
                         "2030-01-01T00:00:00Z"),
                     DONE);
    assert_string_equal(r->out, "wk_new\n");
    assert_has(r->err, "shown once");
    assert_string_equal(
        body_of(r, 0),
        "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"t\",\"roles\":[\"agent\",\"app\"],"
        "\"actors\":[\"a\",\"b*\"],\"expires_at\":\"2030-01-01T00:00:00Z\"}");
    assert_has(peer_request(r->peer, 0), "POST /api/v1/keys?tenant_id=t HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "ingest",
                         "--tenant", "*", "--users", "u", "--reviewers", "v", "--nodes", "n*",
                         "--tenants", "a,b"),
                     DONE);
    assert_has(
        body_of(r, 1),
        "\"users\":[\"u\"],\"reviewers\":[\"v\"],\"nodes\":[\"n*\"],\"tenants\":[\"a\",\"b\"]");
    assert_has(peer_request(r->peer, 1), "POST /api/v1/keys?tenant_id=%2A HTTP/1.1\r\n");
    assert_has(body_of(r, 1), "\"tenant\":\"*\"");
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "king"),
                     USAGE);
    assert_has(r->err, "policy_admin");
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--roles", "agent"), USAGE);
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "agent",
                         "--expires", "soon"),
                     USAGE);
    assert_int_equal(RUN(r, "key", "create", "--name", "n", "--owner", "o", "--roles", "agent",
                         "--expires", "99999999d"),
                     USAGE);
    assert_int_equal(peer_request_count(r->peer), 2);
    rig_destroy(r);
}

static void the_first_key_is_made_in_a_data_directory(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char data[128], path[160];
    snprintf(data, sizeof data, "%s/data", r->peer->folder);
    assert_int_equal(RUN_WITHOUT_KEY(r, "key", "create", "--json", "--data", data, "--name", "root",
                                     "--owner", "o", "--roles", "admin", "--tenant", "*"),
                     DONE);
    struct arena a;
    struct json *root;
    struct fault f;
    struct id id;
    arena_init(&a, 4096, 1 << 20);
    assert_int_equal(
        json_read(str_from(r->out).size > 0 ? str_of(r->out, strlen(r->out) - 1) : STR(""), NULL,
                  &a, &root, &f),
        ERR_OK);
    assert_true(credential_read(json_text(root, STR("key")), &id));
    assert_true(str_equal(json_text(root, STR("tenant")), STR("*")));
    arena_fini(&a);
    struct stat s;
    snprintf(path, sizeof path, "%s/pepper", data);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(stat(data, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_int_equal(RUN_WITHOUT_KEY(r, "key", "create", "--json", "--data", data, "--name", "a",
                                     "--owner", "o", "--roles", "admin"),
                     DONE);
    assert_has(r->out, "\"tenant\":\"default\"");
    static const char *const files[] = {"pepper", "platform.db", "platform.db-wal",
                                        "platform.db-shm"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", data, files[i]);
        unlink(path);
    }
    rmdir(data);
    rig_destroy(r);
}

static void a_list_of_keys_tells_until_when_each_is_valid(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"keys\":[{\"id\":\"key_1\",\"revoked_at\":\"2026-01-01T00:00:00.000Z\",\"expires_at\":\"2999-01-01T00:00:00.000Z\"},"
        "{\"id\":\"key_2\",\"expires_at\":\"2026-01-01T00:00:00.000Z\"},{\"id\":\"key_3\",\"expires_at\":\"2999-01-01T00:00:00.000Z\"},"
        "{\"id\":\"key_4\",\"revoked_at\":null,\"expires_at\":null,\"roles\":[\"agent\"],\"actors\":[\"a\"],\"users\":[\"u\",\"v\"]}]}");
    assert_int_equal(RUN(r, "key", "list"), DONE);
    static const char *const ends[][2] = {{"key_1", " revoked"},
                                          {"key_2", " expired"},
                                          {"key_3", " 2999-01-01T00:00:00.000Z"},
                                          {"key_4", " actors a; users u,v  valid"}};
    struct str rest = str_from(r->out), line;
    assert_true(str_split(&rest, '\n', &line)); /* the heads */
    for (size_t i = 0; i < 4; i++) {
        struct str end = str_from(ends[i][1]);
        assert_true(str_split(&rest, '\n', &line) && str_starts(line, str_from(ends[i][0])) &&
                    line.size > end.size);
        assert_true(str_equal(str_skip(line, line.size - end.size), end));
    }
    rig_destroy(r);
}

static void revoking_tells_which_engines_are_behind(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"revoked\":true,\"behind\":[\"n1\",\"n2\"]}");
    peer_will_answer(r->peer, 200, NULL, "{\"revoked\":true,\"behind\":[]}");
    assert_int_equal(RUN(r, "key", "revoke", "key_1"), DONE);
    assert_has(peer_request(r->peer, 0), "DELETE /api/v1/keys/key_1 HTTP/1.1\r\n");
    assert_has(r->out, "have not applied it yet: n1,n2.");
    assert_int_equal(RUN(r, "key", "revoke", "key_1"), DONE);
    assert_has(r->out, "every engine has applied it");
    rig_destroy(r);
}

static void rotating_without_an_overlap_tells_which_engines_take_the_old_key_still(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 201, NULL,
                     "{\"key\":\"wk_new\",\"id\":\"key_2\",\"behind\":[\"n1\",\"n2\"]}");
    peer_will_answer(r->peer, 201, NULL, "{\"key\":\"wk_new\",\"id\":\"key_2\",\"behind\":[]}");
    assert_int_equal(RUN(r, "key", "rotate", "key_1", "--now"), DONE);
    assert_string_equal(r->out, "wk_new\n");
    assert_string_equal(body_of(r, 0), "{\"overlap_seconds\":0}");
    assert_has(r->err, "key_1 is revoked. These engines have not applied it yet: n1,n2.");
    assert_int_equal(RUN(r, "key", "rotate", "key_1", "--overlap", "0"), DONE);
    assert_has(r->err, "key_1 is revoked, and every engine has applied it.");
    rig_destroy(r);
}

static void rotating_keeps_the_old_key_for_the_overlap(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 201, NULL,
        "{\"key\":\"wk_new\",\"id\":\"key_2\",\"expires_at\":\"2027-01-01T00:00:00.000Z\","
        "\"replaces\":{\"id\":\"key_1\",\"expires_at\":\"2026-07-01T00:00:00.000Z\"}}");
    assert_int_equal(RUN(r, "key", "rotate", "key_1", "--overlap", "30m"), DONE);
    assert_string_equal(r->out, "wk_new\n");
    assert_has(r->err, "It ends at 2027-01-01T00:00:00.000Z.");
    assert_has(r->err, "key_1 works until 2026-07-01T00:00:00.000Z.");
    assert_has(peer_request(r->peer, 0), "POST /api/v1/keys/key_1/rotate HTTP/1.1\r\n");
    assert_string_equal(body_of(r, 0), "{\"overlap_seconds\":1800}");
    assert_int_equal(RUN(r, "key", "rotate", "key_1", "--overlap", "long"), USAGE);
    assert_int_equal(RUN(r, "key", "rotate", "key_1", "--overlap", "500ms"), USAGE);
    assert_int_equal(RUN(r, "key", "rotate", "key_1", "--overlap", "1h", "--now"), USAGE);
    assert_has(r->err, "--now and --overlap exclude each other");
    assert_int_equal(peer_request_count(r->peer), 1);
    assert_int_equal(RUN(r, "key", "rotate", "key_1"), DONE);
    assert_string_equal(body_of(r, 1), "{\"overlap_seconds\":86400}");
    assert_has(r->err, "key_1 works until 2026-07-01T00:00:00.000Z.");
    rig_destroy(r);
}

/* ---- the file of a new key ---- */

struct place {
    char folder[32], file[64], fresh[80], credential[CREDENTIAL_TEXT + 1], answer[512];
    mode_t mask;
};

/* A umask that lets others read what it may; the peer answers with a new key. */
static struct place *place_create(struct rig *r)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    memcpy(p->folder, "/tmp/writ-key.XXXXXX", 21);
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->file, sizeof p->file, "%s/bot.key", p->folder);
    snprintf(p->fresh, sizeof p->fresh, "%s.new", p->file);
    credential_make((struct id){{7, 8, 9}}, p->credential);
    snprintf(p->answer, sizeof p->answer,
             "{\"id\":\"key_1\",\"key\":\"%s\",\"name\":\"bot\",\"roles\":[\"agent\"]}",
             p->credential);
    peer_will_answer(r->peer, 201, NULL, p->answer);
    p->mask = umask(0);
    return p;
}

static void place_destroy(struct place *p)
{
    umask(p->mask);
    unlink(p->file);
    assert_int_equal(rmdir(p->folder), 0); /* nothing else was left */
    free(p);
}

static void assert_holds(const char *path, const char *text)
{
    char bytes[256] = {0};
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    assert_int_equal(size, strlen(text) + 1);
    assert_memory_equal(bytes, text, strlen(text));
    assert_int_equal(bytes[size - 1], '\n');
}

#define CREATE_INTO(r, ...)                                                                        \
    RUN(r, "key", "create", "--name", "bot", "--owner", "o", "--roles", "agent", "--output",       \
        __VA_ARGS__)

static void a_new_key_goes_into_a_file_that_only_its_owner_reads(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct place *p = place_create(r);
    assert_int_equal(CREATE_INTO(r, p->file), DONE);
    assert_string_equal(r->out, "");
    assert_has(r->err, "This is key_1, for bot (agent). It is in ");
    assert_null(strstr(r->err, p->credential));
    assert_holds(p->file, p->credential);
    assert_int_equal(RUN(r, "key", "list", "--key-file", p->file), DONE);
    unlink(p->file);
    assert_int_equal(CREATE_INTO(r, p->file, "--json"), DONE);
    assert_string_equal(r->out, "{\"id\":\"key_1\",\"name\":\"bot\",\"roles\":[\"agent\"]}\n");
    assert_holds(p->file, p->credential);
    rig_destroy(r);
    place_destroy(p);
}

static void a_file_that_exists_is_replaced_on_request_only(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct place *p = place_create(r);
    assert_int_equal(CREATE_INTO(r, p->file, "--force"), DONE);
    FILE *file = fopen(p->file, "w");
    fputs("an older key\n", file);
    fclose(file);
    assert_int_equal(CREATE_INTO(r, p->file), USAGE);
    assert_has(r->err, "bot.key exists. Name another file, or replace it with --force");
    assert_holds(p->file, "an older key");
    assert_int_equal(peer_request_count(r->peer), 1); /* no key was made that is then lost */
    assert_int_equal(RUN(r, "key", "rotate", "key_0", "--output", p->file, "--force", "--now"),
                     DONE);
    assert_holds(p->file, p->credential);
    assert_int_equal(RUN(r, "key", "rotate", "key_0", "--force"), USAGE);
    assert_has(r->err, "--force needs --output FILE");
    assert_int_equal(CREATE_INTO(r, "/dev/null", "--force"), USAGE);
    assert_has(r->err, "/dev/null is not a regular file");
    assert_int_equal(CREATE_INTO(r, "/no/such/folder/key"), USAGE);
    assert_has(r->err, "/no/such/folder/key cannot be made: No such file or directory");
    assert_int_equal(peer_request_count(r->peer), 2);
    rig_destroy(r);
    place_destroy(p);
}

static void a_refused_key_leaves_no_file_and_the_old_one_as_it_was(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct place *p = place_create(r);
    assert_int_equal(CREATE_INTO(r, p->file), DONE);
    peer_will_answer(r->peer, 403, NULL, "{\"error\":\"no\",\"code\":\"missing_role\"}");
    peer_will_answer(r->peer, 201, NULL, "{\"id\":\"key_1\",\"key\":\"wk_cut\"}");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(CREATE_INTO(r, p->file, "--force"), REFUSED);
        assert_int_equal(access(p->fresh, F_OK), -1);
        assert_holds(p->file, p->credential);
    }
    assert_has(r->err, "the answer has no valid key");
    unlink(p->file);
    assert_int_equal(CREATE_INTO(r, p->file), REFUSED);
    assert_int_equal(access(p->file, F_OK), -1);
    rig_destroy(r);
    place_destroy(p);
}

static void the_first_key_may_go_into_a_file_too(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    struct place *p = place_create(r);
    char data[64], path[96];
    snprintf(data, sizeof data, "%s/data", p->folder);
    assert_int_equal(RUN_WITHOUT_KEY(r, "key", "create", "--data", data, "--name", "root",
                                     "--owner", "ops", "--roles", "admin", "--output", p->file),
                     DONE);
    assert_string_equal(r->out, "");
    struct stat s;
    assert_int_equal(stat(p->file, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(s.st_size, CREDENTIAL_TEXT + 1);
    static const char *const files[] = {"pepper", "platform.db", "platform.db-wal",
                                        "platform.db-shm"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", data, files[i]);
        unlink(path);
    }
    rmdir(data);
    rig_destroy(r);
    place_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_keys_tells_for_whom_the_roles_of_each_let_it_speak),
        cmocka_unit_test(a_key_is_made_from_lists_and_spans_and_printed_alone),
        cmocka_unit_test(the_first_key_is_made_in_a_data_directory),
        cmocka_unit_test(a_list_of_keys_tells_until_when_each_is_valid),
        cmocka_unit_test(revoking_tells_which_engines_are_behind),
        cmocka_unit_test(rotating_without_an_overlap_tells_which_engines_take_the_old_key_still),
        cmocka_unit_test(rotating_keeps_the_old_key_for_the_overlap),
        cmocka_unit_test(a_new_key_goes_into_a_file_that_only_its_owner_reads),
        cmocka_unit_test(a_file_that_exists_is_replaced_on_request_only),
        cmocka_unit_test(a_refused_key_leaves_no_file_and_the_old_one_as_it_was),
        cmocka_unit_test(the_first_key_may_go_into_a_file_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
