/* fuzz_jws.c - a provider's token from anywhere is read without harm and verifies under no key; claims
 * from anywhere under the provider's own signature are refused or give a person within the limits. The
 * first byte chooses which. */
#include "base/check.h"
#include "unit/oidc/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct arena arena;
static struct documents documents;

static void begin(void)
{
    arena_init(&arena, 1 << 14, 4 << 20);
    documents = (struct documents){.number = 1, .keys = sample_keys(&arena)};
}

static void any_claims(struct str claims)
{
    char text[LIMIT_OIDC_TOKEN_BYTES + 1024], copy[LIMIT_OIDC_TOKEN_BYTES / 2];
    struct identity who;
    struct fault f;
    if (claims.size >= sizeof copy) return;
    memcpy(copy, claims.bytes, claims.size);
    copy[claims.size] = '\0';
    struct str token = sign_token(text, sizeof text, 1, "{\"alg\":\"EdDSA\",\"kid\":\"a\"}", copy);
    if (verify_token(&sample_settings, &documents, token, (struct str){0}, NOW_MS, &arena, &who,
                     &f) != ERR_OK)
        return;
    check(who.person.size > 0 && str_find(who.person, '*') == who.person.size);
    check(who.roles != 0 && (who.roles & ~(uint32_t)ROLES_OF_PEOPLE) == 0);
    check(str_equal(who.tenant, STR("acme")) && who.claim_count <= LIMIT_CLAIMS);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct jws jws;
    struct fault f;
    if (documents.keys == NULL) begin();
    if (size == 0) return 0;
    arena_reset(&arena);
    struct str rest = str_of((const char *)bytes + 1, size - 1);
    if (bytes[0] & 1)
        any_claims(rest);
    else if (jws_read(rest, &arena, &jws, &f) == ERR_OK)
        check(jws_verify(&jws, documents.keys) !=
              JWS_VERIFIED); /* no signature is found by chance */
    return 0;
}
