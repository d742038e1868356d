/* A configuration file of any bytes: read or refused with a sentence, never a crash or a leak. */
#include <stdlib.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *argv[] = {(char *)(uintptr_t) "writ", NULL};
    struct config c;
    struct fault f = {0};
    if (size > (64u << 10) || config_read(PROGRAM_ENGINE, 1, argv, NULL, &c, &f) != ERR_OK)
        return 0;
    enum err e =
        config_apply_text(&c, PROGRAM_ENGINE, str_of((const char *)bytes, size), "fuzz.conf", &f);
    size_t offset;
    if (e != ERR_OK && (f.err != e || f.text[0] == '\0' || !str_is_utf8(str_from(f.text), &offset)))
        abort();
    config_fini(&c);
    return 0;
}
