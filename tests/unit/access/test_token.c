/* test_token.c - what we sign reads back; what anybody else made, in any way, does not. */
#include "forge.h"

#include <dlfcn.h>

#include "json/json.h"

/* In the place of the library's own: there may be no memory for it. */
static bool signs_nothing;
int EVP_DigestSign(void *context, uint8_t *to, size_t *size, const uint8_t *bytes, size_t count);
int EVP_DigestSign(void *context, uint8_t *to, size_t *size, const uint8_t *bytes, size_t count)
{
    static int (*own)(void *, uint8_t *, size_t *, const uint8_t *, size_t);
    if (own == NULL) *(void **)&own = dlsym(RTLD_NEXT, "EVP_DigestSign");
    return signs_nothing ? 0 : own(context, to, size, bytes, count);
}

static struct signers *signers;
static struct arena arena;
static struct fault fault;
static char bytes[3 * TOKEN_TEXT_MAX];
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    signers = forge_signers();
    arena_init(&arena, 1 << 14, 4 << 20);
    text = buf_over(bytes, sizeof bytes);
    fault = (struct fault){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    signers_destroy(signers);
    return 0;
}

static void sign(const struct token_claims *c)
{
    buf_clear(&text);
    assert_int_equal(token_sign(signers, STR("writ"), c, &text), ERR_OK);
}

static enum err verify_at(struct str token, uint64_t now_ms, struct token_claims *ret)
{
    arena_reset(&arena);
    return token_verify(signers, STR("writ"), token, now_ms, &arena, ret, &fault);
}

static void assert_forged(struct str token)
{
    struct token_claims c = {.subject = STR("untouched")};
    enum err err = verify_at(token, FORGE_NOW_MS, &c);
    if (err != ERR_UNAUTHENTICATED) fail_msg("%s: %.*s", err_code(err), STR_FORMAT(token));
    assert_int_equal(fault.err, ERR_UNAUTHENTICATED);
}

static void claim_is(struct str got, const char *right)
{
    assert_true(str_equal(got, str_from(right)));
}

/* ---- what is right ---- */

static void a_token_reads_back_as_it_was_signed(void **state)
{
    (void)state;
    struct token_claims c = forge_claims(), back;
    for (int turn = 0; turn < 2; turn++) {
        sign(&c);
        assert_int_equal(verify_at(buf_view(&text), FORGE_NOW_MS, &back), ERR_OK);
        assert_memory_equal(&back.id, &c.id, sizeof c.id);
        assert_memory_equal(&back.key, &c.key, sizeof c.key);
        claim_is(back.subject, "agents");
        claim_is(back.tenant, "acme");
        claim_is(back.actor, "invoice_bot");
        claim_is(back.audience, "writ");
        claim_is(back.scope, "issue_* get_*");
        assert_true(str_equal(back.acting_for, c.acting_for));
        assert_int_equal(back.issued_at, forge_now_s);
        assert_int_equal(back.not_before, forge_now_s);
        assert_int_equal(back.expires_at, forge_now_s + 60);
        assert_int_equal(back.counted, c.counted);
        assert_int_equal(back.signer, FORGE_NUMBER);
        c.acting_for = (struct str){0};
        c.counted = true;
    }
}

static void the_same_claims_are_the_same_text(void **state)
{
    (void)state;
    struct token_claims c = forge_claims();
    sign(&c);
    char first[TOKEN_TEXT_MAX];
    size_t size = text.size;
    memcpy(first, bytes, size);
    sign(&c);
    assert_int_equal(text.size, size);
    assert_memory_equal(bytes, first, size);
}

static void names_of_any_characters_survive(void **state)
{
    (void)state;
    struct token_claims c = forge_claims(), back;
    c.actor = STR("\"b\\o\t\xC3\xA9\xF0\x9F\xA4\x96.");
    sign(&c);
    assert_int_equal(verify_at(buf_view(&text), FORGE_NOW_MS, &back), ERR_OK);
    assert_true(str_equal(back.actor, c.actor));
}

static void header_and_claims_are_as_documented(void **state)
{
    (void)state;
    struct token_claims c = forge_claims();
    c.counted = true;
    sign(&c);
    uint8_t part[TOKEN_TEXT_MAX];
    size_t dot = str_find(buf_view(&text), '.'), size;
    assert_true(base64url_read(str_of(bytes, dot), part, &size));
    claim_is(
        str_of((char *)part, size),
        "{\"alg\":\"EdDSA\",\"kid\":\"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k\",\"typ\":\"at+jwt\"}");
    struct str rest = str_skip(buf_view(&text), dot + 1);
    assert_true(base64url_read(str_of(rest.bytes, str_find(rest, '.')), part, &size));
    char jti[ID_TEXT], key[ID_TEXT], right[1024];
    id_write("tok_", c.id, jti);
    id_write("key_", c.key, key);
    snprintf(
        right, sizeof right,
        "{\"acting_for\":\"carol\",\"actor\":\"invoice_bot\",\"aud\":\"writ\",\"counted\":true,\"exp\":1795166460,"
        "\"iat\":1795166400,\"iss\":\"writ\",\"jti\":\"%.*s\",\"key\":\"%.*s\",\"nbf\":1795166400,"
        "\"scope\":\"issue_* get_*\",\"sub\":\"agents\",\"tenant\":\"acme\"}",
        ID_TEXT, jti, ID_TEXT, key);
    claim_is(str_of((char *)part, size), right);
}

/* RFC 8037, A.4: the same key signs the same bytes the same way. */
static void the_published_signature_comes_out(void **state)
{
    (void)state;
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    assert_true(ed25519_sign(signers->list[0].pair,
                             STR("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"),
                             signature));
    base64url_put(&text, signature, sizeof signature);
    claim_is(
        buf_view(&text),
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg");
}

/* ---- times ---- */

static void a_token_lives_from_its_first_second_to_before_its_last(void **state)
{
    (void)state;
    struct token_claims c = forge_claims(), back = {0};
    sign(&c);
    assert_int_equal(verify_at(buf_view(&text), forge_now_s * 1000, &back), ERR_OK);
    assert_int_equal(verify_at(buf_view(&text), (forge_now_s + 60) * 1000 - 1, &back), ERR_OK);
    assert_int_equal(verify_at(buf_view(&text), forge_now_s * 1000 - 1, &back),
                     ERR_UNAUTHENTICATED);
    memset(&back, 0, sizeof back);
    assert_int_equal(verify_at(buf_view(&text), (forge_now_s + 60) * 1000, &back),
                     ERR_CREDENTIAL_EXPIRED);
    claim_is(back.actor, "invoice_bot"); /* whose it was can be told */
}

/* ---- forgeries ---- */

static void a_token_with_any_byte_changed_is_forged(void **state)
{
    (void)state;
    struct token_claims c = forge_claims();
    sign(&c);
    for (size_t i = 0; i < text.size; i++) {
        char before = bytes[i];
        bytes[i] = before == 'A' ? 'B' : 'A';
        assert_forged(buf_view(&text));
        bytes[i] = '.';
        if (before != '.') assert_forged(buf_view(&text));
        bytes[i] = before;
    }
}

static void a_truncated_token_is_forged(void **state)
{
    (void)state;
    struct token_claims c = forge_claims();
    sign(&c);
    for (size_t size = 0; size < text.size; size++) assert_forged(str_of(bytes, size));
    for (size_t from = 1; from < text.size; from++) assert_forged(str_skip(buf_view(&text), from));
}

static void anything_beside_the_three_parts_is_forged(void **state)
{
    (void)state;
    static const char *const tails[] = {"=", "==", ".", ".e30", " ", "\n", "A", "AA", "%3D"};
    struct token_claims c = forge_claims();
    sign(&c);
    size_t size = text.size;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        text.size = size;
        buf_put(&text, str_from(tails[i]));
        assert_forged(buf_view(&text));
    }
    static const char *const shapes[] = {"",     ".",        "..",       "...",     "a.b.c",
                                         "....", "e30.e30.", ".e30.e30", "e30..e30"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) assert_forged(str_from(shapes[i]));
}

/* The same 64 bytes have one spelling only: the last digit of 86 carries two bits. */
static void a_signature_spelled_otherwise_is_forged(void **state)
{
    (void)state;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    struct token_claims c = forge_claims();
    sign(&c);
    char *last = &bytes[text.size - 1], right = *last;
    for (size_t i = 0; digits[i] != '\0'; i++) {
        *last = digits[i];
        if (digits[i] != right) assert_forged(buf_view(&text));
    }
}

/* header "." claims "." Ed25519 over both, by our own key. */
static void seal(const char *header, const char *claims)
{
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    buf_clear(&text);
    forge_base64url(&text, header);
    buf_put_byte(&text, '.');
    forge_base64url(&text, claims);
    assert_true(ed25519_sign(signers->list[0].pair, buf_view(&text), signature));
    buf_put_byte(&text, '.');
    base64url_put(&text, signature, sizeof signature);
    assert_false(text.overflow);
}

#define KID "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
#define OURS "{\"alg\":\"EdDSA\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}"
#define BEFORE_TIMES "\"actor\":\"a\",\"aud\":\"writ\""
#define TIMES "\"exp\":1795166460,\"iat\":1795166400,\"nbf\":1795166400"
#define IDS "\"jti\":\"tok_00810G00000000000000000000\",\"key\":\"key_040M2G00000000000000000000\""
#define REST "\"scope\":\"x\",\"sub\":\"s\",\"tenant\":\"t\""
#define GOOD "{" BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS "," REST "}"

static void assert_sealed_and_forged(const char *header, const char *claims)
{
    seal(header, claims);
    assert_forged(buf_view(&text));
}

static void a_header_that_is_not_ours_to_the_byte_is_forged(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"alg\":\"none\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"None\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"HS256\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"ES256\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"eddsa\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"alg\":\"none\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"" KID "\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"" KID "\",\"typ\":\"JWT\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"" KID "\"}",
        "{\"alg\":\"EdDSA\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"1\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"kid\":\"\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"crit\":[\"exp\"],\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\",\"jku\":\"http://h/\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"EdDSA\", \"kid\":\"" KID "\",\"typ\":\"at+jwt\"}",
        "{\"typ\":\"at+jwt\",\"alg\":\"EdDSA\",\"kid\":\"" KID "\"}",
        "{}",
        "[]",
        "null",
        "",
    };
    seal(OURS, GOOD);
    struct token_claims c;
    assert_int_equal(verify_at(buf_view(&text), FORGE_NOW_MS, &c), ERR_OK);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        assert_sealed_and_forged(headers[i], GOOD);
}

static void alg_none_without_a_signature_is_forged(void **state)
{
    (void)state;
    forge_base64url(&text, "{\"alg\":\"none\",\"typ\":\"at+jwt\"}");
    buf_put_byte(&text, '.');
    forge_base64url(&text, GOOD);
    buf_put_byte(&text, '.');
    assert_forged(buf_view(&text));
    buf_clear(&text);
    forge_base64url(&text, OURS);
    buf_put_byte(&text, '.');
    forge_base64url(&text, GOOD);
    buf_put_byte(&text, '.');
    assert_forged(buf_view(&text));
}

/* The classic: the public key, which everybody has, used as an HMAC secret. */
static void hs256_with_the_public_key_is_forged(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"alg\":\"HS256\",\"kid\":\"" KID "\",\"typ\":\"at+jwt\"}", OURS};
    uint8_t public[ED25519_KEY_BYTES];
    ed25519_public(signers->list[0].pair, public);
    for (size_t i = 0; i < 2; i++) {
        buf_clear(&text);
        forge_base64url(&text, headers[i]);
        buf_put_byte(&text, '.');
        forge_base64url(&text, GOOD);
        struct sha256 mac = hmac_once(str_of((const char *)public, sizeof public), buf_view(&text));
        buf_put_byte(&text, '.');
        base64url_put(&text, mac.bytes, sizeof mac.bytes);
        assert_forged(buf_view(&text));
        text.size -= 43; /* stretched to a signature's length, too */
        uint8_t both[64];
        memcpy(both, mac.bytes, 32);
        memcpy(both + 32, mac.bytes, 32);
        base64url_put(&text, both, sizeof both);
        assert_forged(buf_view(&text));
    }
}

static void another_ones_key_is_not_ours(void **state)
{
    (void)state;
    static const uint8_t other[ED25519_KEY_BYTES] = {9};
    struct signer stranger;
    signer_init(&stranger, FORGE_NUMBER, 0, other);
    assert_int_equal(signer_put_token(&stranger, STR(GOOD), &text), ERR_OK); /* its own kid */
    assert_forged(buf_view(&text));
    assert_non_null(strstr(fault.text, "names no signing key of this engine"));
    buf_clear(&text);
    /* our kid, its signature */
    memcpy(stranger.header, signers->list[0].header, sizeof stranger.header);
    assert_int_equal(signer_put_token(&stranger, STR(GOOD), &text), ERR_OK);
    assert_forged(buf_view(&text));
    assert_non_null(strstr(fault.text, "signature is wrong"));
    signer_fini(&stranger);
}

static void claims_that_we_do_not_write_are_forged_even_under_our_signature(void **state)
{
    (void)state;
    static const char *const claims[] = {
        /* a member twice, also where escapes hide it */
        "{\"actor\":\"b\"," BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"\\u0061ctor\":\"b\"," BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        /* unknown, missing, mistyped */
        "{" BEFORE_TIMES ",\"cnf\":{}," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"aud\":\"writ\"," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"actor\":\"a\"," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"actor\":\"a\",\"aud\":[\"writ\"]," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"actor\":\"\",\"aud\":\"writ\"," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"actor\":\"a\\u0000\",\"aud\":\"writ\"," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{" BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS ",\"sub\":\"s\",\"tenant\":\"t\"}",
        "{" BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS ",\"scope\":\"x\",\"sub\":\"s\"}",
        "{" BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS ",\"scope\":\"x\",\"tenant\":\"t\"}",
        "{\"counted\":false," BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"counted\":1," BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"acting_for\":\"c\",\"aud\":\"writ\"," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        "{\"acting_for\":null," BEFORE_TIMES "," TIMES ",\"iss\":\"writ\"," IDS "," REST "}",
        /* another issuer */
        "{" BEFORE_TIMES "," TIMES ",\"iss\":\"Writ\"," IDS "," REST "}",
        "{" BEFORE_TIMES "," TIMES "," IDS "," REST "}",
        /* times */
        "{" BEFORE_TIMES
        ",\"exp\":\"1795166460\",\"iat\":1795166400,\"nbf\":1795166400,\"iss\":\"writ\"," IDS
        "," REST "}",
        "{" BEFORE_TIMES
        ",\"exp\":1795166460.5,\"iat\":1795166400,\"nbf\":1795166400,\"iss\":\"writ\"," IDS "," REST
        "}",
        "{" BEFORE_TIMES ",\"exp\":2e9,\"iat\":1795166400,\"nbf\":1795166400,\"iss\":\"writ\"," IDS
        "," REST "}",
        "{" BEFORE_TIMES ",\"exp\":-1,\"iat\":1795166400,\"nbf\":1795166400,\"iss\":\"writ\"," IDS
        "," REST "}",
        "{" BEFORE_TIMES
        ",\"exp\":99999999999999,\"iat\":1795166400,\"nbf\":1795166400,\"iss\":\"writ\"," IDS
        "," REST "}",
        "{" BEFORE_TIMES ",\"exp\":1795166460,\"iat\":1795166400,\"iss\":\"writ\"," IDS "," REST
        "}",
        "{" BEFORE_TIMES ",\"iat\":1795166400,\"nbf\":1795166400,\"iss\":\"writ\"," IDS "," REST
        "}",
        "{" BEFORE_TIMES
        ",\"exp\":1795166460,\"iat\":1795166400,\"nbf\":1795166401,\"iss\":\"writ\"," IDS "," REST
        "}",
        /* ids */
        "{" BEFORE_TIMES "," TIMES
        ",\"iss\":\"writ\",\"jti\":\"x\",\"key\":\"key_040M2G00000000000000000000\"," REST "}",
        "{" BEFORE_TIMES "," TIMES
        ",\"iss\":\"writ\",\"jti\":\"tok_00810G00000000000000000000\"," REST "}",
        "{\"counted\":true," BEFORE_TIMES "," TIMES
        ",\"iss\":\"writ\",\"jti\":\"tok_00810G00000000000000000000\"," REST "}",
        /* not one object */
        "[]",
        "null",
        "",
        "{",
        GOOD "x",
        GOOD GOOD,
        "\xEF\xBB\xBF" GOOD,
        "{\"actor\":\"\xFF\"}",
    };
    seal(OURS, GOOD);
    struct token_claims c;
    assert_int_equal(verify_at(buf_view(&text), FORGE_NOW_MS, &c), ERR_OK);
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        assert_sealed_and_forged(OURS, claims[i]);
}

static void an_oversize_token_is_refused_before_anything_else(void **state)
{
    (void)state;
    static char large[TOKEN_TEXT_MAX + 1];
    memset(large, 'A', sizeof large);
    assert_forged(str_of(large, sizeof large));
    assert_non_null(strstr(fault.text, "longer"));
    struct token_claims c = forge_claims();
    c.scope = str_of(large, 3000);
    buf_clear(&text);
    assert_int_equal(token_sign(signers, STR("writ"), &c, &text), ERR_OUT_OF_RANGE);
    assert_int_equal(text.size, 0);
}

static void the_longest_token_that_is_signed_is_read(void **state)
{
    (void)state;
    static char large[TOKEN_TEXT_MAX];
    memset(large, 'x', sizeof large);
    struct token_claims c = forge_claims(), back;
    size_t size = sizeof large;
    do {
        c.scope = str_of(large, --size);
        buf_clear(&text);
    } while (token_sign(signers, STR("writ"), &c, &text) != ERR_OK);
    assert_in_range(text.size, TOKEN_TEXT_MAX - 3, TOKEN_TEXT_MAX);
    assert_int_equal(verify_at(buf_view(&text), FORGE_NOW_MS, &back), ERR_OK);
    assert_int_equal(back.scope.size, size);
}

static void a_signer_that_is_gone_signs_nothing(void **state)
{
    (void)state;
    struct token_claims c = forge_claims();
    c.signer++;
    assert_int_equal(token_sign(signers, STR("writ"), &c, &text), ERR_NOT_FOUND);
}

static void a_signature_that_there_is_no_memory_for_is_told(void **state)
{
    (void)state;
    struct token_claims c = forge_claims();
    buf_clear(&text);
    signs_nothing = true;
    assert_int_equal(token_sign(signers, STR("writ"), &c, &text), ERR_FULL);
    signs_nothing = false;
    assert_int_equal(text.size, 0);
    sign(&c);
}

/* Whoever has the signing key signs them; no mint of ours has. */
static void claims_that_no_mint_can_have_made_are_forged_under_our_signature(void **state)
{
    (void)state;
    enum { DAY = 86400 };
    const uint64_t now = forge_now_s;
    const struct {
        uint64_t issued_at, expires_at;
        int64_t id_ms; /* of its id, after now */
        enum err err;
    } rows[] = {
        {now, now + DAY, 0, ERR_OK},
        {now, now + 1, 0, ERR_OK},
        {now, now + DAY + 1, 0, ERR_UNAUTHENTICATED},
        {now, UINT64_C(253402300799), 0, ERR_UNAUTHENTICATED},
        {0, now + 60, 0, ERR_UNAUTHENTICATED},
        {now, now, 0, ERR_UNAUTHENTICATED},
        {now, now - 1, 0, ERR_UNAUTHENTICATED},
        {now + 1, now + 60, 0, ERR_UNAUTHENTICATED},
        {now, now + 60, TOKEN_SKEW_MS, ERR_OK},
        {now, now + 60, TOKEN_SKEW_MS + 1, ERR_UNAUTHENTICATED},
        {now, now + 60, INT64_C(365) * DAY * 1000, ERR_UNAUTHENTICATED},
        {now, now + 60, -INT64_C(365) * DAY * 1000, ERR_OK}, /* its slot knows better */
    };
    struct chance chance = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct token_claims c = forge_claims(), got;
        c.issued_at = rows[i].issued_at;
        c.expires_at = rows[i].expires_at;
        c.id = id_make((uint64_t)((int64_t)FORGE_NOW_MS + rows[i].id_ms), &chance);
        sign(&c);
        assert_int_equal(verify_at(buf_view(&text), FORGE_NOW_MS, &got), rows[i].err);
    }
}

/* ---- the cache ---- */

static struct token_cache *cache;

static enum err looked_up(struct str token, const struct token_claims **ret, bool *ret_is_kept)
{
    return token_cache_verify(cache, signers, STR("writ"), token, FORGE_NOW_MS, ret, ret_is_kept,
                              &fault);
}

/* As whoever has asked its slot does. */
static enum err cached(struct str token, uint64_t now_ms, const struct token_claims **ret)
{
    bool is_kept;
    enum err err =
        token_cache_verify(cache, signers, STR("writ"), token, now_ms, ret, &is_kept, &fault);
    if (err != ERR_OK || is_kept) return err;
    token_cache_keep(cache, signers, token, *ret);
    err = token_cache_verify(cache, signers, STR("writ"), token, now_ms, ret, &is_kept, &fault);
    assert_true(is_kept);
    return err;
}

static void begin_cache(size_t entries) { cache = token_cache_create(entries); }

static void end_cache(void)
{
    token_cache_destroy(cache);
    token_cache_destroy(NULL);
}

static void a_known_token_is_answered_from_memory_and_still_expires(void **state)
{
    (void)state;
    begin_cache(4);
    struct token_claims c = forge_claims();
    const struct token_claims *first, *again;
    sign(&c);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &first), ERR_OK);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &again), ERR_OK);
    assert_ptr_equal(first, again);
    claim_is(again->actor, "invoice_bot");
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS + 60000, &again), ERR_CREDENTIAL_EXPIRED);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS - 2000, &again), ERR_UNAUTHENTICATED);
    bytes[text.size - 2] = bytes[text.size - 2] == 'A' ? 'B' : 'A';
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &again), ERR_UNAUTHENTICATED);
    end_cache();
}

/* A view into what the next verification overwrites would be somebody else's name. */
static void known_tokens_keep_claims_of_their_own(void **state)
{
    (void)state;
    begin_cache(4);
    struct token_claims a = forge_claims(), b = forge_claims();
    const struct token_claims *first, *second, *again;
    b.subject = STR("robots");
    b.tenant = STR("ajax");
    b.actor = STR("refund_bot2");
    b.acting_for = (struct str){0};
    b.audience = STR("twin");
    b.scope = STR("drop_* set_*");
    sign(&a);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &first), ERR_OK);
    sign(&b);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &second), ERR_OK);
    sign(&a);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &again), ERR_OK);
    assert_ptr_equal(first, again); /* the other one has not taken its place */
    claim_is(again->subject, "agents");
    claim_is(again->tenant, "acme");
    claim_is(again->actor, "invoice_bot");
    claim_is(again->acting_for, "carol");
    claim_is(again->audience, "writ");
    claim_is(again->scope, "issue_* get_*");
    claim_is(second->actor, "refund_bot2");
    assert_true(str_is_absent(second->acting_for));
    end_cache();
}

static void a_forged_token_is_forged_each_time(void **state)
{
    (void)state;
    begin_cache(4);
    struct token_claims c = forge_claims();
    const struct token_claims *got;
    sign(&c);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
    bytes[text.size - 2] = bytes[text.size - 2] == 'A' ? 'B' : 'A';
    for (int turn = 0; turn < 3; turn++) {
        got = NULL;
        assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_UNAUTHENTICATED);
        assert_null(got);
    }
    end_cache();
}

/* What chooses its bucket is the same: it lies as far from the end. */
static void a_token_that_is_longer_in_front_is_not_the_known_one(void **state)
{
    (void)state;
    begin_cache(4);
    struct token_claims c = forge_claims();
    const struct token_claims *got;
    sign(&c);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
    memmove(bytes + 512, bytes, text.size);
    memset(bytes, 'A', 512);
    assert_int_equal(cached(str_of(bytes, text.size + 512), FORGE_NOW_MS, &got),
                     ERR_UNAUTHENTICATED);
    char *end = malloc(47); /* too short to have all of that */
    assert_non_null(end);
    memcpy(end, bytes + 512 + text.size - 47, 47);
    assert_int_equal(cached(str_of(end, 47), FORGE_NOW_MS, &got), ERR_UNAUTHENTICATED);
    free(end);
    end_cache();
}

/* A stolen signing key signs as many as it likes: each costs a verification, and nobody's place. */
static void tokens_that_no_slot_has_confirmed_take_no_room(void **state)
{
    (void)state;
    begin_cache(2);
    struct token_claims c = forge_claims();
    const struct token_claims *honest, *got;
    bool is_kept;
    sign(&c);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &honest), ERR_OK);
    const size_t held = token_cache_bytes(cache);
    for (uint8_t i = 0; i < 10; i++) {
        c.id.bytes[15] = (uint8_t)(i + 1);
        sign(&c);
        for (int turn = 0; turn < 2; turn++) {
            assert_int_equal(looked_up(buf_view(&text), &got, &is_kept), ERR_OK);
            assert_false(is_kept);
        }
        assert_int_equal(token_cache_bytes(cache), held);
    }
    c.id.bytes[15] = 0;
    sign(&c);
    assert_int_equal(looked_up(buf_view(&text), &got, &is_kept), ERR_OK);
    assert_true(is_kept && got == honest);
    token_cache_keep(cache, signers, buf_view(&text), honest); /* two connections at once */
    assert_int_equal(token_cache_bytes(cache), held);
    end_cache();
}

/* The slot may answer after the signing key is gone. */
static void what_a_signer_that_is_gone_has_signed_is_not_kept(void **state)
{
    (void)state;
    begin_cache(2);
    static const uint8_t secret[ED25519_KEY_BYTES] = {7};
    struct signers *others = calloc(1, sizeof *others);
    struct token_claims c = forge_claims();
    const struct token_claims *got;
    bool is_kept;
    assert_non_null(others);
    signer_init(&others->list[others->count++], FORGE_NUMBER + 1, 0, secret);
    sign(&c);
    assert_int_equal(looked_up(buf_view(&text), &got, &is_kept), ERR_OK);
    token_cache_keep(cache, others, buf_view(&text), got);
    assert_int_equal(token_cache_bytes(cache), 0);
    signers_destroy(others);
    end_cache();
}

static void an_expired_token_tells_whose_it_was_and_is_not_kept(void **state)
{
    (void)state;
    begin_cache(1);
    struct token_claims c = forge_claims(), live = forge_claims();
    const struct token_claims *kept, *old, *again;
    live.expires_at += 3600;
    sign(&live);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS + 120000, &kept), ERR_OK);
    sign(&c);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS + 120000, &old), ERR_CREDENTIAL_EXPIRED);
    claim_is(old->tenant, "acme");
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS + 120000, &old), ERR_CREDENTIAL_EXPIRED);
    sign(&live);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS + 120000, &again), ERR_OK);
    assert_ptr_equal(kept, again);
    end_cache();
}

static void the_oldest_of_a_full_cache_makes_room(void **state)
{
    (void)state;
    begin_cache(3);
    char actor[16];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 7; i++) {
            const struct token_claims *got;
            struct token_claims c = forge_claims();
            c.actor = str_of(actor, (size_t)snprintf(actor, sizeof actor, "bot-%u", i));
            sign(&c);
            assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
            assert_true(str_equal(got->actor, c.actor));
            assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
            assert_true(str_equal(got->actor, c.actor));
        }
    }
    end_cache();
}

/* Whoever mints chooses how long tokens are, not how much memory they take. */
static void long_tokens_take_no_more_room_than_short_ones(void **state)
{
    (void)state;
    enum { ENTRIES = 32, LONG = 2600 };
    begin_cache(ENTRIES);
    static char scope[LONG];
    memset(scope, 'x', sizeof scope);
    char actor[16];
    size_t short_ones = 0;
    for (unsigned i = 0; i < 3 * ENTRIES; i++) {
        const struct token_claims *got, *again;
        struct token_claims c = forge_claims();
        c.actor = str_of(actor, (size_t)snprintf(actor, sizeof actor, "bot-%u", i));
        if (i >= ENTRIES && i < 2 * ENTRIES) c.scope = str_of(scope, sizeof scope);
        sign(&c);
        assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
        assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &again), ERR_OK);
        assert_ptr_equal(got, again); /* the newest is always kept */
        assert_true(str_equal(got->actor, c.actor) && str_equal(got->scope, c.scope));
        assert_in_range(token_cache_bytes(cache), 1, (size_t)ENTRIES * 2048);
        if (i == ENTRIES - 1) short_ones = token_cache_bytes(cache);
    }
    /* and all of them come back */
    assert_true(short_ones > 0 && token_cache_bytes(cache) >= short_ones - ENTRIES);
    token_cache_clear(cache);
    assert_int_equal(token_cache_bytes(cache), 0);
    end_cache();
}

static void a_token_larger_than_all_room_is_kept_alone(void **state)
{
    (void)state;
    begin_cache(1);
    static char scope[2600];
    memset(scope, 'y', sizeof scope);
    for (unsigned i = 0; i < 3; i++) {
        const struct token_claims *got, *again;
        struct token_claims c = forge_claims();
        c.scope = str_of(scope, sizeof scope - i);
        sign(&c);
        assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
        assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &again), ERR_OK);
        assert_ptr_equal(got, again);
    }
    end_cache();
}

static void other_signers_are_asked_anew(void **state)
{
    (void)state;
    begin_cache(1);
    static const uint8_t other[ED25519_KEY_BYTES] = {9};
    struct token_claims c = forge_claims();
    const struct token_claims *got;
    sign(&c);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
    struct signers *before = signers;
    signers = calloc(1, sizeof *signers);
    assert_non_null(signers);
    signer_init(&signers->list[signers->count++], FORGE_NUMBER, 0, other);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_UNAUTHENTICATED);
    sign(&c); /* what was full before is empty */
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
    assert_int_equal(cached(buf_view(&text), FORGE_NOW_MS, &got), ERR_OK);
    signers_destroy(before);
    end_cache();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_token_reads_back_as_it_was_signed),
        TEST(the_same_claims_are_the_same_text),
        TEST(names_of_any_characters_survive),
        TEST(header_and_claims_are_as_documented),
        TEST(the_published_signature_comes_out),
        TEST(a_token_lives_from_its_first_second_to_before_its_last),
        TEST(a_token_with_any_byte_changed_is_forged),
        TEST(a_truncated_token_is_forged),
        TEST(anything_beside_the_three_parts_is_forged),
        TEST(a_signature_spelled_otherwise_is_forged),
        TEST(a_header_that_is_not_ours_to_the_byte_is_forged),
        TEST(alg_none_without_a_signature_is_forged),
        TEST(hs256_with_the_public_key_is_forged),
        TEST(another_ones_key_is_not_ours),
        TEST(claims_that_we_do_not_write_are_forged_even_under_our_signature),
        TEST(an_oversize_token_is_refused_before_anything_else),
        TEST(the_longest_token_that_is_signed_is_read),
        TEST(a_signer_that_is_gone_signs_nothing),
        TEST(a_signature_that_there_is_no_memory_for_is_told),
        TEST(claims_that_no_mint_can_have_made_are_forged_under_our_signature),
        TEST(a_known_token_is_answered_from_memory_and_still_expires),
        TEST(known_tokens_keep_claims_of_their_own),
        TEST(a_forged_token_is_forged_each_time),
        TEST(a_token_that_is_longer_in_front_is_not_the_known_one),
        TEST(tokens_that_no_slot_has_confirmed_take_no_room),
        TEST(what_a_signer_that_is_gone_has_signed_is_not_kept),
        TEST(an_expired_token_tells_whose_it_was_and_is_not_kept),
        TEST(the_oldest_of_a_full_cache_makes_room),
        TEST(long_tokens_take_no_more_room_than_short_ones),
        TEST(a_token_larger_than_all_room_is_kept_alone),
        TEST(other_signers_are_asked_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
