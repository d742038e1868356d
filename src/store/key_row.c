/* key_row.c - the row of a key: its JSON. */
#include "store/key_row.h"

#include "base/arena.h"

enum { ROW_ARENA_FIRST = 16 << 10, ROW_ARENA_LIMIT = 4 << 20 };

enum err key_row_read(struct str text, struct key **ret, struct fault *f)
{
    struct arena a;
    struct json *row;
    arena_init(&a, ROW_ARENA_FIRST, ROW_ARENA_LIMIT);
    enum err err = json_read(text, NULL, &a, &row, f);
    if (err == ERR_OK) err = key_read(row, ret, f);
    arena_fini(&a);
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, ERR_CORRUPT, "", "store: a key's row cannot be read: %s", f->text);
}
