#include "shards/save.h"

#include "base/check.h"

void save_begin(struct buf *out, enum shard_object object, unsigned slot, struct str key)
{
    check(object < SHARD_OBJECTS && slot < LIMIT_SLOTS && key.size <= UINT16_MAX);
    buf_clear(out);
    buf_put_byte(out, (char)object);
    const char sizes[4] = {(char)slot, (char)(slot >> 8), (char)key.size, (char)(key.size >> 8)};
    buf_put(out, str_of(sizes, sizeof sizes));
    buf_put(out, key);
}
