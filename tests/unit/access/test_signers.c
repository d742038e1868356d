/* test_signers.c - pairs in files: made, read, rotated, dropped; and what is refused. */
#include "forge.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];
static struct fault fault;
static struct signers *now;

static const uint64_t start_ms = 1795166400000;
enum { DAY_MS = 86400000 };
#define OVERLAP ((uint64_t)SIGNERS_OVERLAP_MS)

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/writ-signers-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(rmdir(directory), 0); /* the first start makes it */
    now = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    signers_destroy(now);
    DIR *d = opendir(directory);
    for (struct dirent *e = d == NULL ? NULL : readdir(d); e != NULL; e = readdir(d))
        if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL) closedir(d);
    rmdir(directory);
    return 0;
}

static void open_at(uint64_t at_ms)
{
    signers_destroy(now);
    now = NULL;
    assert_int_equal(signers_open(directory, at_ms, OVERLAP, &now, &fault), ERR_OK);
}

static void rotate_at(uint64_t at_ms, uint64_t active_ms)
{
    signers_destroy(now);
    now = NULL;
    assert_int_equal(signers_rotate(directory, at_ms, active_ms, OVERLAP, &now, &fault), ERR_OK);
}

static void path_of(char to[128], const char *name) { snprintf(to, 128, "%s/%s", directory, name); }

static void file_put(const char *name, const char *text, mode_t mode)
{
    char path[128];
    path_of(path, name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static struct str signed_by(uint32_t signer, char to[TOKEN_TEXT_MAX])
{
    struct token_claims c = forge_claims();
    c.signer = signer;
    struct buf b = buf_over(to, TOKEN_TEXT_MAX);
    assert_int_equal(token_sign(now, STR("writ"), &c, &b), ERR_OK);
    return buf_view(&b);
}

static bool believed(struct str token)
{
    struct arena arena;
    struct token_claims c;
    arena_init(&arena, 1 << 14, 1 << 20);
    enum err err = token_verify(now, STR("writ"), token, FORGE_NOW_MS, &arena, &c, &fault);
    arena_fini(&arena);
    return err == ERR_OK;
}

static void the_first_start_makes_a_pair_that_only_its_owner_may_read(void **state)
{
    (void)state;
    open_at(start_ms);
    char path[128];
    struct stat s;
    path_of(path, "signer-0000000001.key");
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(stat(directory, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_int_equal(signers_current(now, start_ms), 1);
    assert_int_equal(signers_newest_ms(now), start_ms);
}

static void a_restart_keeps_the_pair(void **state)
{
    (void)state;
    char text[TOKEN_TEXT_MAX];
    open_at(start_ms);
    struct str token = signed_by(1, text);
    open_at(start_ms + 5);
    assert_int_equal(signers_current(now, start_ms), 1);
    assert_true(believed(token));
}

static void a_new_pair_is_told_before_it_signs_and_the_old_one_verifies_on(void **state)
{
    (void)state;
    char old[TOKEN_TEXT_MAX], fresh[TOKEN_TEXT_MAX], jwks[2048];
    open_at(start_ms);
    struct str token = signed_by(1, old);
    rotate_at(start_ms + 1000, start_ms + 2000);
    struct buf b = buf_over(jwks, sizeof jwks);
    signers_put_jwks(&b, now);
    size_t kids = 0;
    for (size_t i = 0; i + 5 < b.size; i++) kids += memcmp(jwks + i, "\"kid\"", 5) == 0;
    assert_int_equal(kids, 2);
    assert_non_null(memmem(jwks, b.size, "\"},{\"alg\"", 9)); /* one list of two */
    assert_int_equal(signers_current(now, start_ms - 1), 1);  /* a clock that was set back */
    assert_int_equal(signers_current(now, start_ms + 1999), 1);
    assert_int_equal(signers_current(now, start_ms + 2000), 2);
    assert_int_equal(signers_newest_ms(now), start_ms + 2000);
    assert_true(believed(token));
    assert_true(believed(signed_by(2, fresh)));
}

static void a_replaced_pair_goes_when_its_overlap_is_over(void **state)
{
    (void)state;
    char old[TOKEN_TEXT_MAX], path[128];
    uint64_t replaced = start_ms + 30ull * DAY_MS;
    open_at(start_ms);
    struct str token = signed_by(1, old);
    rotate_at(replaced, replaced);
    path_of(path, "signer-0000000001.key");
    assert_false(signers_overdue(now, replaced + OVERLAP - 1, OVERLAP));
    open_at(replaced + OVERLAP - 1);
    assert_true(believed(token));
    assert_int_equal(access(path, F_OK), 0);
    assert_true(signers_overdue(now, replaced + OVERLAP, OVERLAP));
    open_at(replaced + OVERLAP);
    assert_false(believed(token));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(signers_current(now, replaced), 2);
    assert_false(signers_overdue(now, UINT64_MAX, OVERLAP));
}

static void numbers_and_keys_never_come_again(void **state)
{
    (void)state;
    enum { PAIRS = 6 };
    char seen[PAIRS][sizeof now->list[0].public_text];
    open_at(start_ms);
    memcpy(seen[0], now->list[0].public_text, sizeof seen[0]);
    for (unsigned i = 1; i < PAIRS; i++) {
        uint64_t at = start_ms + i * 30ull * DAY_MS;
        rotate_at(at, at);
        assert_int_equal(signers_current(now, at), i + 1);
        assert_int_equal(now->count, 2);
        memcpy(seen[i], now->list[1].public_text, sizeof seen[i]);
        for (unsigned k = 0; k < i; k++) assert_memory_not_equal(seen[i], seen[k], sizeof seen[i]);
    }
}

/* RFC 8037, A.1 to A.3. */
static void the_published_key_has_its_published_names(void **state)
{
    (void)state;
    char text[512];
    struct signers *s = forge_signers();
    struct buf b = buf_over(text, sizeof text);
    signers_put_jwks(&b, s);
    assert_true(str_equal(
        buf_view(&b),
        STR("{\"keys\":[{\"alg\":\"EdDSA\",\"crv\":\"Ed25519\",\"kid\":"
            "\"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k\",\"kty\":\"OKP\",\"use\":\"sig\","
            "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}")));
    signers_destroy(s);
    signers_destroy(NULL);
}

static void what_is_no_signers_file_is_left_alone(void **state)
{
    (void)state;
    open_at(start_ms);
    file_put("signer-0000000002.key.new", "half", 0600);
    file_put("README", "x", 0644);
    file_put("signer-2.key", "x", 0644);
    file_put("signed-0000000002.key", "x", 0644);
    file_put("signer-0000000002.pub", "x", 0644);
    file_put("signer-000000000x.key", "x", 0644);
    /* beyond the last number, and not the 0 that it would be cut to */
    file_put("signer-4294967296.key", "x", 0644);
    open_at(start_ms);
    assert_int_equal(now->count, 1);
    rotate_at(start_ms + 1, start_ms + 1); /* over the half one of a crash */
    assert_int_equal(now->count, 2);
}

#define SECRET "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"

static void a_damaged_or_open_file_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "writ-signer 1\n",
        "writ-signer 2\nactive_ms 1\nsecret " SECRET "\n",
        "writ-signer 1\nactive_ms x\nsecret " SECRET "\n",
        "writ-signer 1\nactive_ms 1\nsecret abc\n",
        "writ-signer 1\nactive_ms 1\nsecret " SECRET,
        "writ-signer 1\nactive_ms 1\nsecret " SECRET "\nmore\n",
        "writ-signer 1\nsecret " SECRET "\nactive_ms 1\n",
        "writ-signer:1\nactive_ms 1\nsecret " SECRET "\n",
        "sign-writer 1\nactive_ms 1\nsecret " SECRET "\n",
        "writ-signer\nactive_ms 1\nsecret " SECRET "\n",
        "writ-signer 1\nactive_ms\nsecret " SECRET "\n",
    };
    open_at(start_ms);
    struct signers *none = NULL;
    file_put("signer-0000000002.key", "writ-signer 1\nactive_ms 1\nsecret " SECRET "\n", 0600);
    open_at(start_ms);
    assert_int_equal(now->count, 2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        file_put("signer-0000000002.key", texts[i], 0600);
        assert_int_equal(signers_open(directory, start_ms, OVERLAP, &none, &fault), ERR_BAD_VALUE);
        assert_non_null(strstr(fault.text, "signer-0000000002.key is damaged"));
    }
    file_put("signer-0000000002.key", "writ-signer 1\nactive_ms 1\nsecret " SECRET "\n", 0640);
    assert_int_equal(signers_open(directory, start_ms, OVERLAP, &none, &fault), ERR_BAD_VALUE);
    assert_non_null(strstr(fault.text, "open to others"));
    assert_null(none);
}

/* One that went unnoticed would be another pair: every token of the right one would be refused. */
static void no_bit_of_a_file_flips_unnoticed(void **state)
{
    (void)state;
    char path[128], text[256] = "";
    struct signers *none = NULL;
    open_at(start_ms);
    path_of(path, "signer-0000000001.key");
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(size > 0);
    for (size_t bit = 0; bit < 8 * (size_t)size; bit++) {
        text[bit / 8] ^= (char)(1 << bit % 8);
        if (text[bit / 8] != '\0') { /* file_put() would end there */
            file_put("signer-0000000001.key", text, 0600);
            assert_int_equal(signers_open(directory, start_ms, OVERLAP, &none, &fault),
                             ERR_BAD_VALUE);
            assert_non_null(strstr(fault.text, "signer-0000000001.key is damaged"));
        }
        text[bit / 8] ^= (char)(1 << bit % 8);
    }
    file_put("signer-0000000001.key", text, 0600);
    open_at(start_ms);
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    char path[128], elsewhere[128];
    open_at(start_ms);
    struct signers *none = NULL;
    file_put("elsewhere", "writ-signer 1\nactive_ms 1\nsecret " SECRET "\n", 0600);
    path_of(elsewhere, "elsewhere");
    path_of(path, "signer-0000000002.key");
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_not_equal(signers_open(directory, start_ms, OVERLAP, &none, &fault), ERR_OK);
    assert_non_null(strstr(fault.text, "signer-0000000002.key"));
    assert_null(none);
}

static void a_directory_holds_so_many_pairs_and_no_more(void **state)
{
    (void)state;
    char name[32];
    struct signers *none = NULL;
    open_at(start_ms);
    for (unsigned i = 2; i <= SIGNERS_MAX; i++) {
        snprintf(name, sizeof name, "signer-%010u.key", i);
        file_put(name, "writ-signer 1\nactive_ms 1795166400000\nsecret " SECRET "\n", 0600);
    }
    open_at(start_ms);
    assert_int_equal(now->count, SIGNERS_MAX);
    assert_int_equal(signers_current(now, start_ms), SIGNERS_MAX);
    snprintf(name, sizeof name, "signer-%010u.key", SIGNERS_MAX + 1);
    file_put(name, "writ-signer 1\nactive_ms 1795166400000\nsecret " SECRET "\n", 0600);
    assert_int_equal(signers_open(directory, start_ms, OVERLAP, &none, &fault), ERR_FULL);
    assert_null(none);
}

static void a_directory_that_cannot_be_is_told(void **state)
{
    (void)state;
    struct signers *none = NULL;
    assert_int_not_equal(signers_open("/proc/no/such", start_ms, OVERLAP, &none, &fault), ERR_OK);
    assert_non_null(strstr(fault.text, "/proc/no/such"));
    assert_null(none);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_first_start_makes_a_pair_that_only_its_owner_may_read),
        TEST(a_restart_keeps_the_pair),
        TEST(a_new_pair_is_told_before_it_signs_and_the_old_one_verifies_on),
        TEST(a_replaced_pair_goes_when_its_overlap_is_over),
        TEST(numbers_and_keys_never_come_again),
        TEST(the_published_key_has_its_published_names),
        TEST(what_is_no_signers_file_is_left_alone),
        TEST(a_damaged_or_open_file_is_refused_by_name),
        TEST(no_bit_of_a_file_flips_unnoticed),
        TEST(a_link_is_not_followed),
        TEST(a_directory_holds_so_many_pairs_and_no_more),
        TEST(a_directory_that_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
