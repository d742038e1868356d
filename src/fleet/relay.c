#include "fleet/relay.h"

#include "base/planted.h"

enum err relay_begin(struct relays *r, const struct relay *relay, bool was_relayed)
{
    if (was_relayed && !planted("relay_relayed")) return ERR_BAD_HEADER;
    if (r->count == RELAYS_MAX) return ERR_FULL;
    r->list[r->count++] = *relay;
    return ERR_OK;
}

bool relay_end(struct relays *r, uint64_t id)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (r->list[i].id != id) continue;
        r->list[i] = r->list[--r->count];
        return true;
    }
    return false;
}

bool relay_take_older(struct relays *r, uint64_t term, struct relay *ret)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (r->list[i].term >= term) continue;
        *ret = r->list[i];
        r->list[i] = r->list[--r->count];
        return true;
    }
    return false;
}

void relay_put_header(struct buf *out, struct str node, uint64_t term)
{
    char digits[U64_DIGITS];
    buf_put(out, node);
    buf_put(out, STR("/"));
    buf_put(out, str_of_u64(term, digits));
}

bool relay_read_header(struct str text, struct str *ret_node, uint64_t *ret_term)
{
    struct str rest = text, node;
    if (!str_split(&rest, '/', &node) || !str_is_name(node) || node.size == 0) return false;
    if (str_is_absent(rest) || !str_to_u64(rest, ret_term) || *ret_term == 0) return false;
    *ret_node = node;
    return true;
}
