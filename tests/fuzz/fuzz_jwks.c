/* fuzz_jwks.c - a provider's set of keys from anywhere: refused, or within the limits and usable. */
#include "base/check.h"
#include "oidc/jwks.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct arena arena;
    struct jwks *keys = NULL;
    struct jws jws;
    struct fault f;
    if (arena.first == NULL) arena_init(&arena, 1 << 14, 4 << 20);
    arena_reset(&arena);
    if (jwks_read(str_of((const char *)bytes, size), &arena, &keys, &f) != ERR_OK) return 0;
    check(jwks_count(keys) > 0 && jwks_count(keys) <= LIMIT_OIDC_KEYS);
    check(jws_read(STR("eyJhbGciOiJSUzI1NiJ9.e30.AAAA"), &arena, &jws, &f) == ERR_OK);
    check(jws_verify(&jws, keys) != JWS_VERIFIED);
    jwks_destroy(keys);
    return 0;
}
