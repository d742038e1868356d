/* replay.c - the main of a fuzz target where there is no fuzzer: what is in the directory that it is
 * given, if there is one, and inputs of nothing and of a few bytes. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES_MAX = 1 << 20, SHORT_BYTES = 64 };

/* Of exactly its size: what reads behind it is noticed. */
static void run(const uint8_t *bytes, size_t size)
{
    uint8_t *own = malloc(size > 0 ? size : 1);
    check(own != NULL);
    for (size_t i = 0; i < size; i++) own[i] = bytes[i];
    LLVMFuzzerTestOneInput(own, size);
    free(own);
}

static void run_file(const char *directory, const char *name)
{
    static uint8_t bytes[INPUT_BYTES_MAX];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    check(file != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    check(!ferror(file) && size < sizeof bytes);
    fclose(file);
    run(bytes, size);
}

int main(int count, char **arguments)
{
    uint8_t bytes[SHORT_BYTES];
    for (unsigned fill = 0; fill < 256; fill += 51) {
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(fill + i % 2);
        for (size_t size = 0; size <= sizeof bytes; size++) run(bytes, size);
    }
    DIR *kept = count == 2 ? opendir(arguments[1]) : NULL;
    if (kept == NULL) return 0;
    for (struct dirent *entry; (entry = readdir(kept)) != NULL;)
        if (entry->d_name[0] != '.') run_file(arguments[1], entry->d_name);
    closedir(kept);
    return 0;
}
