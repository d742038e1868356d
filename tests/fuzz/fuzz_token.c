/* fuzz_token.c - a token's text from anywhere is refused, and so are claims from anywhere under our
 * own signature, unless they are just what we would have written: then they are signed again to the
 * same claims. The first byte chooses which. */
#include <stdlib.h>

#include "access/signers.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint64_t now_ms = 1795166400250;
static struct signers *signers;
static struct arena arena;

static void begin(void)
{
    static const uint8_t secret[ED25519_KEY_BYTES] = {7};
    signers = calloc(1, sizeof *signers);
    check(signers != NULL);
    signer_init(&signers->list[signers->count++], 1, 0, secret);
    arena_init(&arena, 1 << 14, 4 << 20);
}

static enum err verify(struct str text, struct token_claims *ret)
{
    struct fault f;
    return token_verify(signers, STR("writ"), text, now_ms, &arena, ret, &f);
}

static void any_claims(struct str claims)
{
    char first[TOKEN_TEXT_MAX], second[TOKEN_TEXT_MAX];
    struct buf a = buf_over(first, sizeof first), b = buf_over(second, sizeof second);
    struct token_claims c, again;
    if (signer_put_token(&signers->list[0], claims, &a) != ERR_OK) return;
    enum err err = verify(buf_view(&a), &c);
    if (err != ERR_OK && err != ERR_CREDENTIAL_EXPIRED) return;
    /* Escapes and blanks may differ in length, so that the canonical form may be the longer one. */
    if (token_sign(signers, STR("writ"), &c, &b) != ERR_OK) return;
    check(verify(buf_view(&b), &again) == err);
    check(str_equal(c.actor, again.actor) && str_equal(c.scope, again.scope) &&
          str_equal(c.tenant, again.tenant));
    check(c.expires_at == again.expires_at && c.counted == again.counted);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (signers == NULL) begin();
    if (size == 0) return 0;
    arena_reset(&arena);
    struct str rest = str_of((const char *)bytes + 1, size - 1);
    struct token_claims c;
    if (bytes[0] & 1)
        any_claims(rest);
    else
        check(verify(rest, &c) == ERR_UNAUTHENTICATED); /* nobody finds a signature */
    return 0;
}
