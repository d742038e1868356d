/* Keys as rows, credentials as text, and the table that tells one from the other. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "access/key.h"
#include "base/limits.h"
#include "base/world.h"

/* In place of libc's: fails so, unless it is 0. */
static int link_fails;

int link(const char *from, const char *to)
{
    if (link_fails == 0) return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = link_fails;
    return -1;
}

static const struct pepper pepper = {"0123456789abcdef0123456789abcde"};

static struct arena arena;
static struct fault fault;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 16, 4 << 20);
    fault = (struct fault){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static enum err read_text(const char *text, struct key **ret)
{
    struct json *row;
    assert_int_equal(json_read(str_from(text), NULL, &arena, &row, &fault), ERR_OK);
    return key_read(row, ret, &fault);
}

static struct str shown(const struct key *k, bool with_mac)
{
    static char bytes[8192];
    struct buf b = buf_over(bytes, sizeof bytes);
    key_put(&b, k, with_mac);
    assert_false(b.overflow);
    return buf_view(&b);
}

static struct id fresh_id(void)
{
    static struct chance chance;
    return id_make(world_now_ms(), &chance);
}

#define SMALL "{\"name\":\"bot\",\"owner\":\"ann\",\"tenant\":\"acme\",\"roles\":[\"agent\"]}"

/* A key in force, with a credential of its own. */
static struct key *armed(char credential[CREDENTIAL_TEXT])
{
    struct key *k;
    assert_int_equal(read_text(SMALL, &k), ERR_OK);
    k->id = fresh_id();
    credential_make(k->id, credential);
    k->mac = credential_mac(&pepper, str_of(credential, CREDENTIAL_TEXT));
    k->pepper_fingerprint = pepper_fingerprint(&pepper);
    return k;
}

static struct key_table *table_of(struct key *k)
{
    struct key_table *t;
    assert_int_equal(key_table_create(&k, 1, &t), ERR_OK);
    return t;
}

/* ---- rows ---- */

static void absent_lists_take_their_defaults(void **state)
{
    (void)state;
    struct key *k;
    assert_int_equal(read_text(SMALL, &k), ERR_OK);
    assert_int_equal(k->actors.count, 1);
    assert_true(str_equal(k->actors.list[0], STR("bot")));
    assert_true(str_equal(k->reviewers.list[0], STR("ann")));
    assert_int_equal(k->users.count + k->nodes.count + k->tenants.count, 0);
    key_destroy(k);
}

static void an_empty_list_is_not_an_absent_one(void **state)
{
    (void)state;
    struct key *k;
    assert_int_equal(
        read_text(
            "{\"name\":\"a\",\"owner\":\"b\",\"tenant\":\"c\",\"roles\":[\"app\"],\"actors\":[]}",
            &k),
        ERR_OK);
    assert_int_equal(k->actors.count, 0);
    struct str text = arena_copy(&arena, shown(k, false));
    struct key *again;
    assert_int_equal(read_text(text.bytes, &again), ERR_OK);
    assert_int_equal(again->actors.count, 0);
    key_destroy(k);
    key_destroy(again);
}

static void what_was_written_reads_back_the_same(void **state)
{
    (void)state;
    struct key *k, *again;
    const char *text =
        "{\"actors\":[\"bot-*\",\"b\\\"x\"],\"created_at\":\"2026-11-20T09:30:00."
        "123Z\",\"expires_at\":\"2027-01-01T00:00:00.000Z\","
        "\"id\":\"key_01JD000000000000000000000A\",\"mac\":"
        "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\","
        "\"name\":\"bot\",\"nodes\":[\"*\"],\"original_expires_at\":\"2028-01-01T00:00:00.000Z\","
        "\"owner\":\"ann\",\"pepper_mark\":4294967295,\"rates\":{\"requests\":7},"
        "\"replaced_by\":\"key_01JD000000000000000000000B\",\"reviewers\":[],"
        "\"revoked_at\":\"2026-12-01T00:00:00.000Z\","
        "\"roles\":[\"agent\",\"ingest\",\"admin\"],\"tenant\":\"*\",\"tenants\":["
        "\"a\",\"b\"],\"users\":[\"*@x\"]}";
    assert_int_equal(read_text(text, &k), ERR_OK);
    assert_string_equal(arena_copy(&arena, shown(k, true)).bytes, text);
    assert_int_equal(read_text(arena_copy(&arena, shown(k, true)).bytes, &again), ERR_OK);
    assert_memory_equal(&k->mac, &again->mac, sizeof k->mac);
    key_destroy(k);
    key_destroy(again);
}

static void the_mac_is_written_only_when_asked_for(void **state)
{
    (void)state;
    struct key *k;
    assert_int_equal(read_text(SMALL, &k), ERR_OK);
    assert_null(strstr(arena_copy(&arena, shown(k, false)).bytes, "mac"));
    assert_non_null(strstr(arena_copy(&arena, shown(k, true)).bytes, "mac"));
    assert_null(strstr(arena_copy(&arena, shown(k, true)).bytes, "pepper_mark")); /* not known */
    k->pepper_fingerprint = 7;
    assert_non_null(strstr(arena_copy(&arena, shown(k, true)).bytes, "\"pepper_mark\":7"));
    assert_null(strstr(arena_copy(&arena, shown(k, false)).bytes, "pepper_mark"));
    key_destroy(k);
}

static void a_wrong_member_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *member, *field;
        enum err err;
    } cases[] = {
        {"\"name\":null", "/name", ERR_MISSING_MEMBER},
        {"\"name\":\"\"", "/name", ERR_OUT_OF_RANGE},
        {"\"name\":5", "/name", ERR_WRONG_TYPE},
        {"\"owner\":{}", "/owner", ERR_WRONG_TYPE},
        {"\"roles\":\"agent\"", "/roles", ERR_WRONG_TYPE},
        {"\"roles\":[]", "/roles", ERR_OUT_OF_RANGE},
        {"\"roles\":[\"emperor\"]", "/roles", ERR_BAD_VALUE},
        {"\"roles\":[5]", "/roles", ERR_WRONG_TYPE},
        {"\"actors\":\"x\"", "/actors", ERR_WRONG_TYPE},
        {"\"actors\":[\"\"]", "/actors", ERR_OUT_OF_RANGE},
        {"\"name\":\"team-*\"", "/actors", ERR_BAD_VALUE}, /* as a default it would be a pattern */
        {"\"owner\":\"*\"", "/reviewers", ERR_BAD_VALUE},
        {"\"expires_at\":\"soon\"", "/expires_at", ERR_BAD_VALUE},
        {"\"expires_at\":17", "/expires_at", ERR_WRONG_TYPE},
        {"\"expires_at\":\"1970-01-01T00:00:00Z\"", "/expires_at", ERR_BAD_VALUE},
        {"\"id\":\"key_1\"", "/id", ERR_BAD_VALUE},
        {"\"id\":5", "/id", ERR_BAD_VALUE},
        {"\"mac\":\"00\"", "/mac", ERR_BAD_VALUE},
        {"\"pepper_mark\":0", "/pepper_mark", ERR_BAD_VALUE},
        {"\"pepper_mark\":4294967296", "/pepper_mark", ERR_BAD_VALUE},
        {"\"pepper_mark\":\"1\"", "/pepper_mark", ERR_BAD_VALUE},
        {"\"mac\":5", "/mac", ERR_BAD_VALUE},
        {"\"tenant\":5", "/tenant", ERR_WRONG_TYPE},
        {"\"roles\":null", "/roles", ERR_MISSING_MEMBER},
        {"\"users\":[5]", "/users", ERR_WRONG_TYPE},
        {"\"nodes\":\"x\"", "/nodes", ERR_WRONG_TYPE},
        {"\"tenants\":\"x\"", "/tenants", ERR_WRONG_TYPE},
        {"\"created_at\":\"then\"", "/created_at", ERR_BAD_VALUE},
        {"\"revoked_at\":\"then\"", "/revoked_at", ERR_BAD_VALUE},
        {"\"replaced_by\":\"key_1\"", "/replaced_by", ERR_BAD_VALUE},
        {"\"replaced_by\":5", "/replaced_by", ERR_BAD_VALUE},
        {"\"original_expires_at\":\"then\"", "/original_expires_at", ERR_BAD_VALUE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *row, *changed;
        struct key *k;
        char text[128];
        snprintf(text, sizeof text, "{%s}", cases[i].member);
        assert_int_equal(json_read(str_from(SMALL), NULL, &arena, &row, &fault), ERR_OK);
        assert_int_equal(json_read(str_from(text), NULL, &arena, &changed, &fault), ERR_OK);
        struct json *old = json_get(row, changed->child->key);
        if (old != NULL) old->key = STR("was");
        changed->child->next = row->child;
        row->child = changed->child;
        assert_int_equal(key_read(row, &k, &fault), cases[i].err);
        assert_string_equal(fault.field, cases[i].field);
        assert_non_null(strstr(fault.text, cases[i].field + 1));
    }
}

static void only_an_object_is_a_key(void **state)
{
    (void)state;
    struct key *k = NULL;
    assert_int_equal(read_text("[]", &k), ERR_WRONG_TYPE);
    assert_int_equal(read_text("\"key\"", &k), ERR_WRONG_TYPE);
    assert_int_equal(key_read(NULL, &k, &fault), ERR_WRONG_TYPE);
    assert_null(k);
}

static enum err read_with_globs(int count, struct key **ret)
{
    struct buf b;
    buf_init(&b, 1024, 1 << 20);
    buf_put_literal(
        &b,
        "{\"name\":\"a\",\"owner\":\"b\",\"tenant\":\"c\",\"roles\":[\"app\"],\"users\":[\"x\"");
    for (int i = 1; i < count; i++) buf_put_literal(&b, ",\"y\"");
    buf_put_literal(&b, "]}");
    buf_put_byte(&b, '\0');
    enum err err = read_text(b.bytes, ret);
    buf_fini(&b);
    return err;
}

static void too_many_globs_are_refused(void **state)
{
    (void)state;
    struct key *k;
    assert_int_equal(read_with_globs(KEY_GLOBS_MAX, &k), ERR_OK);
    assert_int_equal(k->users.count, KEY_GLOBS_MAX);
    key_destroy(k);
    assert_int_equal(read_with_globs(KEY_GLOBS_MAX + 1, &k), ERR_OUT_OF_RANGE);
}

static enum err read_with_owner(struct str owner, struct key **ret)
{
    char text[1024];
    struct buf b = buf_over(text, sizeof text);
    buf_printf(&b, "{\"name\":\"a\",\"owner\":\"%.*s\",\"tenant\":\"c\",\"roles\":[\"app\"]}",
               STR_FORMAT(owner));
    buf_put_byte(&b, '\0');
    return read_text(text, ret);
}

static void a_name_has_as_many_characters_as_it_may_and_not_one_more(void **state)
{
    (void)state;
    char owner[2 * (LIMIT_ID_CHARACTERS + 1)];
    struct key *k;
    /* characters, not bytes */
    for (size_t i = 0; i < sizeof owner; i += 2) memcpy(owner + i, "\xC3\xA9", 2);
    assert_int_equal(read_with_owner(str_of(owner, sizeof owner - 2), &k), ERR_OK);
    key_destroy(k);
    assert_int_equal(read_with_owner(str_of(owner, sizeof owner), &k), ERR_OUT_OF_RANGE);
    assert_string_equal(fault.field, "/owner");
}

static void role_names_read_back(void **state)
{
    (void)state;
    for (uint32_t bit = 1; bit <= ROLE_ADMIN; bit <<= 1) {
        enum role r = 0;
        assert_true(role_read(str_from(role_name((enum role)bit)), &r));
        assert_int_equal(r, bit);
    }
    enum role r;
    assert_false(role_read(STR("Admin"), &r));
    assert_false(role_read(STR(""), &r));
}

static void globs_match_in_exact_case(void **state)
{
    (void)state;
    struct str list[] = {STR("bot-*"), STR("ann")};
    struct globs g = {list, 2};
    assert_true(globs_match(&g, STR("bot-7")));
    assert_true(globs_match(&g, STR("ann")));
    assert_false(globs_match(&g, STR("Ann")));
    assert_false(globs_match(&g, STR("robot-7")));
    assert_false(globs_match(&(struct globs){0}, STR("ann")));
}

/* ---- credentials ---- */

static void a_credential_says_its_id(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT], digits[ID_DIGITS];
    struct id id = fresh_id(), read;
    credential_make(id, text);
    id_write_digits(id, digits);
    assert_memory_equal(text, "wk_", 3);
    assert_memory_equal(text + 3, digits, ID_DIGITS);
    assert_true(credential_read(str_of(text, sizeof text), &read));
    assert_memory_equal(&id, &read, sizeof id);
}

static void a_slip_anywhere_in_a_credential_is_seen(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct id id;
    credential_make(fresh_id(), text);
    for (size_t i = 0; i < sizeof text; i++) {
        char was = text[i];
        text[i] = was == '7' ? '8' : '7';
        assert_false(credential_read(str_of(text, sizeof text), &id));
        text[i] = was;
    }
    assert_true(credential_read(str_of(text, sizeof text), &id));
    assert_false(credential_read(str_of(text, sizeof text - 1), &id));
    assert_false(credential_read(STR(""), &id));
}

static void credentials_of_one_id_have_secrets_of_their_own(void **state)
{
    (void)state;
    enum { COUNT = 4, SECRET_AT = 3 + ID_DIGITS + 1, SECRET_DIGITS = 43 };
    char texts[COUNT][CREDENTIAL_TEXT];
    struct id id = fresh_id();
    for (size_t i = 0; i < COUNT; i++) {
        credential_make(id, texts[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(texts[i] + SECRET_AT, texts[k] + SECRET_AT, SECRET_DIGITS);
    }
}

/* Anybody can add up the right sum. */
static void what_has_not_the_form_of_a_credential_is_none_whatever_its_sum(void **state)
{
    (void)state;
    enum { SUM_DIGITS = 6, SUMMED = CREDENTIAL_TEXT - SUM_DIGITS };
    char text[CREDENTIAL_TEXT], sum[9];
    struct id id;
    credential_make(fresh_id(), text);
    for (size_t i = 0; i < SUMMED; i++) {
        char was = text[i];
        text[i] = '!';
        snprintf(sum, sizeof sum, "%08x", crc32c(0, text, SUMMED));
        memcpy(text + SUMMED, sum + sizeof sum - 1 - SUM_DIGITS, SUM_DIGITS);
        assert_false(credential_read(str_of(text, sizeof text), &id));
        text[i] = was;
    }
    snprintf(sum, sizeof sum, "%08x", crc32c(0, text, SUMMED));
    memcpy(text + SUMMED, sum + sizeof sum - 1 - SUM_DIGITS, SUM_DIGITS);
    assert_true(credential_read(str_of(text, sizeof text), &id));
}

#define PEPPER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void file_put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_file_system_without_hard_links_is_told(void **state)
{
    (void)state;
    char directory[] = "/tmp/writ-access-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/pepper", directory);
    link_fails = EPERM;
    assert_int_not_equal(pepper_make(path, &fault), ERR_OK);
    link_fails = 0;
    assert_non_null(strstr(fault.text, "pepper_file: "));
    assert_non_null(strstr(fault.text, "hard link"));
    assert_non_null(strstr(fault.text, path));
    assert_int_equal(rmdir(directory), 0); /* nothing is left */
}

static void a_pepper_is_made_once_and_closed_to_others(void **state)
{
    (void)state;
    char directory[] = "/tmp/writ-access-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/pepper", directory);
    struct pepper one, two;
    assert_int_equal(pepper_read(path, &one, &fault), ERR_NOT_FOUND);
    assert_int_equal(pepper_make(path, &fault), ERR_OK);
    assert_int_equal(pepper_read(path, &one, &fault), ERR_OK);
    assert_int_equal(pepper_make(path, &fault), ERR_OK);
    assert_int_equal(pepper_read(path, &two, &fault), ERR_OK);
    assert_memory_equal(&one, &two, sizeof one);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);

    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(pepper_read(path, &two, &fault), ERR_BAD_VALUE);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 63), 0);
    assert_int_equal(pepper_read(path, &two, &fault), ERR_BAD_VALUE);
    file_put(path, PEPPER);
    assert_int_equal(pepper_read(path, &two, &fault), ERR_OK);
    file_put(path, PEPPER "\n");
    assert_int_equal(pepper_read(path, &two, &fault), ERR_OK);
    file_put(path, PEPPER "x");
    assert_int_equal(pepper_read(path, &two, &fault), ERR_BAD_VALUE);
    file_put(path, PEPPER "\nx");
    assert_int_equal(pepper_read(path, &two, &fault), ERR_BAD_VALUE);
    unlink(path);
    for (int turn = 0; turn < 2; turn++) { /* each is one of its own */
        two = one;
        assert_int_equal(pepper_make(path, &fault), ERR_OK);
        assert_int_equal(pepper_read(path, &one, &fault), ERR_OK);
        assert_memory_not_equal(&one, &two, sizeof one);
        unlink(path);
    }
    assert_int_equal(rmdir(directory), 0); /* nothing is left beside it */
}

/* ---- the table ---- */

/* By a cache that knows nothing. */
static enum err verify(const struct key_table *t, const struct pepper *p, struct str credential,
                       uint64_t now_ms, const struct key **ret)
{
    struct hasher *h = hasher_create();
    struct key_cache *c = key_cache_create(4);
    enum err err = key_cache_verify(c, h, t, p, credential, now_ms, ret);
    key_cache_destroy(c);
    hasher_destroy(h);
    return err;
}

static void the_right_credential_finds_its_key(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct key *k = armed(text);
    struct key_table *t = table_of(k);
    const struct key *found = NULL;
    assert_int_equal(verify(t, &pepper, str_of(text, sizeof text), 1, &found), ERR_OK);
    assert_ptr_equal(found, k);
    assert_ptr_equal(key_table_get(t, k->id), k);
    assert_int_equal(key_table_count(t), 1);
    key_table_destroy(t);
}

static void another_secret_or_pepper_or_id_opens_nothing(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT], forged[CREDENTIAL_TEXT];
    struct key *k = armed(text);
    struct key_table *t = table_of(k);
    const struct key *found;
    credential_make(k->id, forged);
    assert_int_equal(verify(t, &pepper, str_of(forged, sizeof forged), 1, &found),
                     ERR_UNAUTHENTICATED);
    credential_make(fresh_id(), forged);
    assert_int_equal(verify(t, &pepper, str_of(forged, sizeof forged), 1, &found),
                     ERR_UNAUTHENTICATED);
    struct pepper other = pepper;
    other.bytes[31] ^= 1;
    assert_int_equal(verify(t, &other, str_of(text, sizeof text), 1, &found), ERR_UNAUTHENTICATED);
    k->mac.bytes[SHA256_BYTES - 1] ^= 1; /* all of it is compared */
    assert_int_equal(verify(t, &pepper, str_of(text, sizeof text), 1, &found), ERR_UNAUTHENTICATED);
    key_table_destroy(t);
}

static void a_revoked_or_expired_key_is_told_so(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct key *k = armed(text);
    struct key_table *t = table_of(k);
    const struct key *found;
    k->expires_at = 1000;
    assert_int_equal(verify(t, &pepper, str_of(text, sizeof text), 999, &found), ERR_OK);
    assert_int_equal(verify(t, &pepper, str_of(text, sizeof text), 1000, &found),
                     ERR_CREDENTIAL_EXPIRED);
    k->revoked_at = 5000; /* whatever the clock says */
    assert_int_equal(verify(t, &pepper, str_of(text, sizeof text), 1, &found),
                     ERR_CREDENTIAL_REVOKED);
    key_table_destroy(t);
}

static void the_same_id_twice_is_refused(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct key *two[] = {armed(text), armed(text)};
    two[1]->id = two[0]->id;
    struct key_table *t;
    assert_int_equal(key_table_create(two, 2, &t), ERR_EXISTS);
    key_destroy(two[0]);
    key_destroy(two[1]);
}

/* ---- the cache ---- */

static void the_cache_agrees_with_the_table(void **state)
{
    (void)state;
    enum { KEYS = 40 };
    struct key *keys[KEYS];
    char texts[KEYS][CREDENTIAL_TEXT];
    for (size_t i = 0; i < KEYS; i++) keys[i] = armed(texts[i]);
    struct key_table *t;
    assert_int_equal(key_table_create(keys, KEYS, &t), ERR_OK);
    struct hasher *h = hasher_create();
    struct key_cache *c =
        key_cache_create(8); /* fewer places than keys: they push each other out */
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < KEYS; i++) {
            const struct key *found = NULL;
            assert_int_equal(
                key_cache_verify(c, h, t, &pepper, str_of(texts[i], CREDENTIAL_TEXT), 1, &found),
                ERR_OK);
            assert_ptr_equal(found, keys[i]);
        }
    const struct key *found;
    assert_int_equal(key_cache_verify(c, h, t, &pepper, STR("wk_"), 1, &found),
                     ERR_UNAUTHENTICATED);
    key_cache_destroy(c);
    hasher_destroy(h);
    key_table_destroy(t);
}

/* What would not be proved now is known from before, until as many others as
 * there are places have come. */
static void a_credential_that_was_proved_is_not_proved_again(void **state)
{
    (void)state;
    enum { PLACES = 4, KEYS = PLACES + 1 };
    struct key *keys[KEYS];
    char texts[KEYS][CREDENTIAL_TEXT];
    struct pepper other = pepper;
    other.bytes[0] ^= 1;
    for (size_t i = 0; i < KEYS; i++) keys[i] = armed(texts[i]);
    struct key_table *t;
    assert_int_equal(key_table_create(keys, KEYS, &t), ERR_OK);
    struct hasher *h = hasher_create();
    struct key_cache *c = key_cache_create(PLACES);
    const struct key *found = NULL;
    for (size_t i = 0; i < PLACES; i++)
        assert_int_equal(
            key_cache_verify(c, h, t, &pepper, str_of(texts[i], CREDENTIAL_TEXT), 1, &found),
            ERR_OK);
    for (size_t i = 0; i < PLACES; i++) {
        assert_int_equal(
            key_cache_verify(c, h, t, &other, str_of(texts[i], CREDENTIAL_TEXT), 1, &found),
            ERR_OK);
        assert_ptr_equal(found, keys[i]);
    }
    assert_int_equal(
        key_cache_verify(c, h, t, &pepper, str_of(texts[PLACES], CREDENTIAL_TEXT), 1, &found),
        ERR_OK);
    assert_int_equal(
        key_cache_verify(c, h, t, &other, str_of(texts[0], CREDENTIAL_TEXT), 1, &found),
        ERR_UNAUTHENTICATED);
    for (size_t i = 1; i < KEYS; i++)
        assert_int_equal(
            key_cache_verify(c, h, t, &other, str_of(texts[i], CREDENTIAL_TEXT), 1, &found),
            ERR_OK);
    key_cache_destroy(c);
    hasher_destroy(h);
    key_table_destroy(t);
}

static void a_cached_key_still_expires(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct key *k = armed(text);
    k->expires_at = 1000;
    struct key_table *t = table_of(k);
    struct hasher *h = hasher_create();
    struct key_cache *c = key_cache_create(16);
    const struct key *found;
    struct str credential = str_of(text, sizeof text);
    assert_int_equal(key_cache_verify(c, h, t, &pepper, credential, 1, &found), ERR_OK);
    found = NULL;
    assert_int_equal(key_cache_verify(c, h, t, &pepper, credential, 1000, &found),
                     ERR_CREDENTIAL_EXPIRED);
    assert_null(found);
    key_cache_destroy(c);
    hasher_destroy(h);
    key_table_destroy(t);
}

static void a_credential_with_one_other_byte_is_refused_after_the_true_one(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct key_table *t = table_of(armed(text));
    struct hasher *h = hasher_create();
    struct key_cache *c = key_cache_create(16);
    const struct key *found;
    struct str credential = str_of(text, sizeof text);
    for (size_t i = 0; i < sizeof text; i++) {
        assert_int_equal(key_cache_verify(c, h, t, &pepper, credential, 1, &found), ERR_OK);
        text[i] ^= 1;
        assert_int_equal(key_cache_verify(c, h, t, &pepper, credential, 1, &found),
                         ERR_UNAUTHENTICATED);
        text[i] ^= 1;
    }
    key_cache_destroy(c);
    hasher_destroy(h);
    key_table_destroy(t);
}

static void a_cleared_cache_asks_the_new_table(void **state)
{
    (void)state;
    char text[CREDENTIAL_TEXT];
    struct key *k = armed(text);
    struct key_table *t = table_of(k), *empty;
    assert_int_equal(key_table_create(NULL, 0, &empty), ERR_OK);
    struct hasher *h = hasher_create();
    struct key_cache *c = key_cache_create(16);
    const struct key *found;
    struct str credential = str_of(text, sizeof text);
    assert_int_equal(key_cache_verify(c, h, t, &pepper, credential, 1, &found), ERR_OK);
    key_cache_clear(c);
    assert_int_equal(key_cache_verify(c, h, empty, &pepper, credential, 1, &found),
                     ERR_UNAUTHENTICATED);
    key_cache_destroy(c);
    hasher_destroy(h);
    key_table_destroy(t);
    key_table_destroy(empty);
}

static void keys_of_another_pepper_are_counted_while_they_are_in_force(void **state)
{
    (void)state;
    enum { NOW = 1000 };
    char text[CREDENTIAL_TEXT], said[KEY_TROUBLE_TEXT];
    struct pepper other = pepper;
    struct key *keys[5];
    other.bytes[31] ^= 1;
    assert_int_not_equal(pepper_fingerprint(&other), pepper_fingerprint(&pepper));
    for (size_t i = 0; i < 5; i++) keys[i] = armed(text);
    keys[0]->pepper_fingerprint = 0; /* not known */
    keys[1]->pepper_fingerprint = pepper_fingerprint(&other);
    keys[2]->revoked_at = 1;
    keys[3]->expires_at = NOW;
    struct key_table *t;
    assert_int_equal(key_table_create(keys, 5, &t), ERR_OK);
    struct unprovable u = key_table_unprovable(t, pepper_fingerprint(&pepper), NOW);
    assert_int_equal(u.count, 1);
    assert_int_equal(strlen(u.ids), ID_TEXT);
    assert_memory_equal(u.ids, keys[1]->id_text, ID_TEXT);
    assert_int_equal(key_table_unprovable(t, pepper_fingerprint(&other), NOW).count, 1);
    u = key_table_unprovable(t, pepper_fingerprint(&other), NOW - 1);
    assert_int_equal(u.count, 2);
    assert_int_equal(strlen(u.ids), 2 * ID_TEXT + 2);
    assert_false(key_trouble(0, said));
    assert_true(key_trouble(2, said));
    assert_non_null(strstr(said, "2 of the keys were made under another pepper"));
    assert_true(key_trouble(1, said));
    assert_non_null(strstr(said, "1 of the keys was made under another pepper"));
    key_table_destroy(t);
}

static void of_very_many_unprovable_keys_the_first_are_named(void **state)
{
    (void)state;
    enum { MANY = UNPROVABLE_NAMED + 2, NOW = 1000 };
    char text[CREDENTIAL_TEXT];
    struct key *keys[MANY];
    for (size_t i = 0; i < MANY; i++) keys[i] = armed(text);
    struct key_table *t;
    assert_int_equal(key_table_create(keys, MANY, &t), ERR_OK);
    struct unprovable u = key_table_unprovable(t, pepper_fingerprint(&pepper) ^ 1, NOW);
    assert_int_equal(u.count, MANY);
    assert_memory_equal(u.ids + (UNPROVABLE_NAMED - 1) * (ID_TEXT + 2),
                        keys[UNPROVABLE_NAMED - 1]->id_text, ID_TEXT);
    assert_string_equal(u.ids + UNPROVABLE_NAMED * (ID_TEXT + 2), "…");
    key_table_destroy(t);
}

static void a_key_that_was_revoked_stays_so(void **state)
{
    (void)state;
    static const char row[] =
        "{\"id\":\"key_0000000000000000000000000%d\",\"name\":\"n\",\"owner\":\"o\","
        "\"tenant\":\"t\",\"roles\":[\"agent\"],\"created_at\":\"2026-01-01T00:00:00.000Z\"%s}";
    static const char revoked[] = ",\"revoked_at\":\"2026-01-02T00:00:00.000Z\"";
    /* 1: lost its revocation; 2: revoked in both; 3: never; 4: is not there any more */
    static const char *const were[] = {revoked, revoked, "", revoked}, *const are[] = {"", revoked,
                                                                                       ""};
    struct key *before[4], *now[3];
    struct key_table *old, *next;
    struct id ids[2] = {0};
    char text[512];
    for (int i = 0; i < 4; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, row, i + 1, were[i]);
        assert_int_equal(read_text(text, &before[i]), ERR_OK);
        if (i == 3) continue;
        snprintf(text, sizeof text, row, i + 1, are[i]);
#pragma GCC diagnostic pop
        assert_int_equal(read_text(text, &now[i]), ERR_OK);
    }
    const struct id lost = now[0]->id, kept = now[2]->id;
    assert_int_equal(key_table_create(before, 4, &old), ERR_OK);
    assert_int_equal(key_table_create(now, 3, &next), ERR_OK);
    assert_int_equal(key_table_keep_revoked(next, old, ids, 2), 1);
    assert_true(id_equal(ids[0], lost));
    assert_int_equal(key_in_force(key_table_get(next, lost), 1), ERR_CREDENTIAL_REVOKED);
    assert_int_equal(key_in_force(key_table_get(next, kept), 1), ERR_OK);
    assert_int_equal(key_table_keep_revoked(next, old, ids, 0), 0);
    assert_int_equal(key_table_keep_revoked(next, NULL, ids, 0), 0);
    key_table_destroy(old);
    key_table_destroy(next);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_that_was_revoked_stays_so),
        TEST(absent_lists_take_their_defaults),
        TEST(an_empty_list_is_not_an_absent_one),
        TEST(what_was_written_reads_back_the_same),
        TEST(the_mac_is_written_only_when_asked_for),
        TEST(a_wrong_member_is_named),
        TEST(only_an_object_is_a_key),
        TEST(too_many_globs_are_refused),
        TEST(a_name_has_as_many_characters_as_it_may_and_not_one_more),
        TEST(role_names_read_back),
        TEST(globs_match_in_exact_case),
        TEST(a_credential_says_its_id),
        TEST(a_slip_anywhere_in_a_credential_is_seen),
        TEST(credentials_of_one_id_have_secrets_of_their_own),
        TEST(what_has_not_the_form_of_a_credential_is_none_whatever_its_sum),
        TEST(a_file_system_without_hard_links_is_told),
        TEST(a_pepper_is_made_once_and_closed_to_others),
        TEST(the_right_credential_finds_its_key),
        TEST(another_secret_or_pepper_or_id_opens_nothing),
        TEST(a_revoked_or_expired_key_is_told_so),
        TEST(the_same_id_twice_is_refused),
        TEST(the_cache_agrees_with_the_table),
        TEST(a_credential_that_was_proved_is_not_proved_again),
        TEST(a_cached_key_still_expires),
        TEST(a_credential_with_one_other_byte_is_refused_after_the_true_one),
        TEST(a_cleared_cache_asks_the_new_table),
        TEST(keys_of_another_pepper_are_counted_while_they_are_in_force),
        TEST(of_very_many_unprovable_keys_the_first_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
