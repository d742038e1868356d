#include "fleet/trail_point.h"

#include "base/little.h"

bool trail_point_add(struct trail_point *p, const struct entry *e, struct hasher *h)
{
    struct str rest = e->records, public_bytes, private_bytes;
    if (e->seq != p->seq) return false;
    while (entry_next_record(&rest, &public_bytes, &private_bytes)) {
        struct sha256 leaf = merkle_leaf(h, public_bytes);
        frontier_append(&p->tree, h, &leaf);
        p->seq++;
        p->term = e->term;
    }
    return true;
}

void trail_point_put(struct buf *out, const struct trail_point *p)
{
    char numbers[16];
    little_put64(numbers, p->seq);
    little_put64(numbers + 8, p->term);
    buf_put(out, str_of(numbers, sizeof numbers));
    frontier_put(out, &p->tree);
}

bool trail_point_read(struct str bytes, struct trail_point *ret)
{
    if (bytes.size < 16) return false;
    ret->seq = little_get64(bytes.bytes);
    ret->term = little_get64(bytes.bytes + 8);
    return frontier_read(str_skip(bytes, 16), &ret->tree) && ret->seq == ret->tree.size + 1;
}
