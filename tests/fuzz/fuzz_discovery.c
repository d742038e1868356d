/* fuzz_discovery.c - a discovery document from anywhere: refused, or with https endpoints only. */
#include "base/check.h"
#include "oidc/discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct oidc_settings settings = {
        .name = "test", .issuer = "https://login.example", .client_secret_file = ""};
    static struct arena arena;
    struct discovery d;
    struct fault f;
    if (arena.first == NULL) arena_init(&arena, 1 << 14, 4 << 20);
    arena_reset(&arena);
    if (discovery_read(str_of((const char *)bytes, size), &settings, &arena, &d, &f) != ERR_OK)
        return 0;
    const char *const all[] = {d.authorization, d.token, d.keys};
    for (size_t i = 0; i < 3; i++) check(str_starts(str_from(all[i]), STR("https://")));
    check(d.end_session[0] == '\0' || str_starts(str_from(d.end_session), STR("https://")));
    return 0;
}
