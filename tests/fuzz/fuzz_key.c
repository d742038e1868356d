/* fuzz_key.c - a key's row and a credential's text from anywhere: refused politely, or understood
 * so that what is written reads back the same. */
#include <stdlib.h>

#include "access/key.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void put(struct buf *b, const struct key *k)
{
    buf_clear(b);
    key_put(b, k, true);
    check(!b->overflow);
}

static void read_row(struct str text)
{
    static struct arena arena;
    static struct buf first, second;
    if (arena.first == NULL) {
        arena_init(&arena, 1 << 16, 64 << 20);
        buf_init(&first, 1 << 12, 16 << 20);
        buf_init(&second, 1 << 12, 16 << 20);
    }
    arena_reset(&arena);
    struct json *row;
    struct key *k, *again;
    struct fault f;
    if (json_read(text, NULL, &arena, &row, &f) != ERR_OK || key_read(row, &k, &f) != ERR_OK)
        return;
    put(&first, k);
    check(json_read(buf_view(&first), NULL, &arena, &row, &f) == ERR_OK);
    check(key_read(row, &again, &f) == ERR_OK);
    put(&second, again);
    check(str_equal(buf_view(&first), buf_view(&second)));
    key_destroy(k);
    key_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct str text = str_of((const char *)bytes, size);
    struct id id;
    if (credential_read(text, &id)) check(size == CREDENTIAL_TEXT);
    read_row(text);
    return 0;
}
