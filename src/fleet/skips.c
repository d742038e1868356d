#include "fleet/skips.h"

static bool read_line(struct str line, struct fleet_id *fleet, struct skip *ret)
{
    struct str offset, id, at;
    *ret = (struct skip){0};
    return str_split(&line, ' ', &offset) && str_split(&line, ' ', &id) &&
           str_split(&line, ' ', &at) && str_to_u64(offset, &ret->offset) &&
           id.size == 2 * sizeof fleet->bytes &&
           hex_read(id.bytes, fleet->bytes, sizeof fleet->bytes) && str_to_u64(at, &ret->at_ms) &&
           (ret->reason = line, true);
}

enum err skips_read(struct str text, const struct fleet_id *fleet, struct skips *ret)
{
    struct str line;
    *ret = (struct skips){.count = 0};
    while (str_split(&text, '\n', &line)) {
        struct fleet_id of;
        struct skip s;
        if (line.size == 0) continue;
        if (!read_line(line, &of, &s)) return ERR_CORRUPT;
        if (memcmp(of.bytes, fleet->bytes, sizeof of.bytes) != 0) continue;
        if (ret->count == SKIPS_MAX) return ERR_FULL;
        ret->list[ret->count++] = s;
    }
    return ERR_OK;
}

void skips_put(struct buf *out, const struct fleet_id *fleet, const struct skip *s)
{
    char id[2 * sizeof fleet->bytes];
    hex_write(id, fleet->bytes, sizeof fleet->bytes);
    buf_put_u64(out, s->offset);
    buf_put_byte(out, ' ');
    buf_put(out, str_of(id, sizeof id));
    buf_put_byte(out, ' ');
    buf_put_u64(out, s->at_ms);
    buf_put_byte(out, ' ');
    for (size_t i = 0; i < s->reason.size && i < SKIP_REASON_BYTES; i++) {
        const char c = s->reason.bytes[i];
        buf_put_byte(out, c >= ' ' && c <= '~' ? c : ' ');
    }
    buf_put_byte(out, '\n');
}

struct skip *skips_find(struct skips *s, uint64_t offset)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->list[i].offset == offset) return &s->list[i];
    return NULL;
}

bool skips_have(const struct skips *s, uint64_t offset)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->list[i].offset == offset) return true;
    return false;
}
