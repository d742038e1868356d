/* test_signers.c - sets of signing keys; and the files of earlier versions: read, or refused. */
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
#define OVERLAP (UINT64_C(25) * 3600 * 1000)

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/writ-signers-XXXXXX");
    assert_non_null(mkdtemp(directory));
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

static struct signer_secret secrets[SIGNER_FILES_MAX];
static size_t secret_count;

static enum err files(void) { return signer_files_read(directory, secrets, &secret_count, &fault); }

static void read_files(void) { assert_int_equal(files(), ERR_OK); }

static struct signer_secret secret_of(uint32_t number, uint64_t active_ms)
{
    struct signer_secret s = {.number = number, .active_ms = active_ms};
    memset(s.bytes, (int)number, sizeof s.bytes);
    return s;
}

static void set(const struct signer_secret *list, size_t count)
{
    signers_destroy(now);
    now = signers_create(list, count);
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

static void a_new_pair_is_told_before_it_signs_and_the_old_one_verifies_on(void **state)
{
    (void)state;
    char old[TOKEN_TEXT_MAX], fresh[TOKEN_TEXT_MAX], jwks[2048];
    const struct signer_secret both[] = {secret_of(1, start_ms), secret_of(2, start_ms + 2000)};
    set(both, 1);
    struct str token = signed_by(1, old);
    set(both, 2);
    struct buf b = buf_over(jwks, sizeof jwks);
    signers_put_jwks(&b, now);
    size_t kids = 0;
    for (size_t i = 0; i + 5 < b.size; i++) kids += memcmp(jwks + i, "\"kid\"", 5) == 0;
    assert_int_equal(kids, 2);
    assert_non_null(memmem(jwks, b.size, "\"},{\"alg\"", 9)); /* one list of two */
    assert_int_equal(signers_current(now, start_ms - 1), 1);  /* a clock that was set back */
    assert_int_equal(signers_current(now, start_ms + 1999), 1);
    assert_int_equal(signers_current(now, start_ms + 2000), 2);
    assert_int_equal(signers_least(now), 1);
    assert_true(believed(token));
    assert_true(believed(signed_by(2, fresh)));
    set(both + 1, 1);
    assert_false(believed(token));
    assert_true(signers_have(now, 2) && !signers_have(now, 1));
    assert_int_equal(signers_kid(now, 2).size, SIGNER_KID_TEXT);
    assert_true(str_is_absent(signers_kid(now, 1)));
}

static void a_replaced_pair_is_over_when_its_overlap_is(void **state)
{
    (void)state;
    uint64_t replaced = start_ms + 30ull * DAY_MS;
    const struct signer_secret list[] = {secret_of(1, start_ms), secret_of(2, replaced),
                                         secret_of(3, start_ms)}; /* the clock was set back */
    assert_int_equal(signers_over(list, 2, replaced + OVERLAP - 1, OVERLAP), 0);
    assert_int_equal(signers_over(list, 2, replaced + OVERLAP, OVERLAP), 1);
    assert_int_equal(signers_over(list, 2, UINT64_MAX, OVERLAP), 1);
    assert_int_equal(signers_over(list, 3, start_ms + OVERLAP, OVERLAP), 0);
    assert_int_equal(signers_over(list, 3, replaced + OVERLAP, OVERLAP), 2);
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

#define SECRET "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"

#define RIGHT "writ-signer 1\nactive_ms 1795166400000\nsecret " SECRET "\n"

static void what_is_no_signers_file_is_left_alone(void **state)
{
    (void)state;
    file_put("signer-0000000001.key", RIGHT, 0600);
    file_put("signer-0000000002.key.new", "half", 0600);
    file_put("README", "x", 0644);
    file_put("signer-2.key", "x", 0644);
    file_put("signed-0000000002.key", "x", 0644);
    file_put("signer-0000000002.pub", "x", 0644);
    file_put("signer-000000000x.key", "x", 0644);
    /* beyond the last number, and not the 0 that it would be cut to */
    file_put("signer-4294967296.key", "x", 0644);
    read_files();
    assert_int_equal(secret_count, 1);
    assert_int_equal(secrets[0].number, 1);
    assert_int_equal(secrets[0].active_ms, start_ms);
    assert_int_equal(secrets[0].bytes[0], 0x9d);
    signer_file_remove(directory, 1);
    read_files();
    assert_int_equal(secret_count, 0);
}

static void without_a_folder_there_is_none(void **state)
{
    (void)state;
    assert_int_equal(rmdir(directory), 0);
    secret_count = 7;
    read_files();
    assert_int_equal(secret_count, 0);
}

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
    file_put("signer-0000000001.key", RIGHT, 0600);
    file_put("signer-0000000002.key", "writ-signer 1\nactive_ms 1\nsecret " SECRET "\n", 0600);
    read_files();
    assert_int_equal(secret_count, 2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        file_put("signer-0000000002.key", texts[i], 0600);
        assert_int_equal(files(), ERR_BAD_VALUE);
        assert_non_null(strstr(fault.text, "signer-0000000002.key is damaged"));
    }
    file_put("signer-0000000002.key", "writ-signer 1\nactive_ms 1\nsecret " SECRET "\n", 0640);
    assert_int_equal(files(), ERR_BAD_VALUE);
    assert_non_null(strstr(fault.text, "open to others"));
}

/* One that went unnoticed would be another pair: every token of the right one would be refused. */
/* One that went unnoticed would be another pair: every token of the right one would be refused. */
static void no_bit_of_a_file_flips_unnoticed(void **state)
{
    (void)state;
    char text[256];
    int size = snprintf(text, sizeof text, "%s", RIGHT);
    char hex[SHA256_HEX];
    sha256_write_hex(sha256_once(str_of(text, (size_t)size)), hex);
    size += snprintf(text + size, sizeof text - (size_t)size, "sha256 %.*s\n", SHA256_HEX, hex);
    file_put("signer-0000000001.key", text, 0600);
    read_files();
    for (size_t bit = 0; bit < 8 * (size_t)size; bit++) {
        text[bit / 8] ^= (char)(1 << bit % 8);
        if (text[bit / 8] != '\0') { /* file_put() would end there */
            file_put("signer-0000000001.key", text, 0600);
            assert_int_equal(files(), ERR_BAD_VALUE);
            assert_non_null(strstr(fault.text, "signer-0000000001.key is damaged"));
        }
        text[bit / 8] ^= (char)(1 << bit % 8);
    }
    file_put("signer-0000000001.key", text, 0600);
    read_files();
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    char path[128], elsewhere[128];
    file_put("elsewhere", "writ-signer 1\nactive_ms 1\nsecret " SECRET "\n", 0600);
    path_of(elsewhere, "elsewhere");
    path_of(path, "signer-0000000002.key");
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_not_equal(files(), ERR_OK);
    assert_non_null(strstr(fault.text, "signer-0000000002.key"));
}

static void a_directory_holds_so_many_files_and_no_more(void **state)
{
    (void)state;
    char name[32];
    for (unsigned i = 1; i <= SIGNER_FILES_MAX; i++) {
        snprintf(name, sizeof name, "signer-%010u.key", i);
        file_put(name, RIGHT, 0600);
    }
    read_files();
    assert_int_equal(secret_count, SIGNER_FILES_MAX);
    assert_int_equal(secrets[SIGNER_FILES_MAX - 1].number, SIGNER_FILES_MAX);
    snprintf(name, sizeof name, "signer-%010u.key", SIGNER_FILES_MAX + 1);
    file_put(name, RIGHT, 0600);
    assert_int_equal(files(), ERR_FULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_pair_is_told_before_it_signs_and_the_old_one_verifies_on),
        TEST(a_replaced_pair_is_over_when_its_overlap_is),
        TEST(the_published_key_has_its_published_names),
        TEST(what_is_no_signers_file_is_left_alone),
        TEST(without_a_folder_there_is_none),
        TEST(a_damaged_or_open_file_is_refused_by_name),
        TEST(no_bit_of_a_file_flips_unnoticed),
        TEST(a_link_is_not_followed),
        TEST(a_directory_holds_so_many_files_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
