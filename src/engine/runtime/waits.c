#include "engine/runtime/waits.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/check.h"
#include "base/limits.h"

struct waits_share {
    unsigned count;
    struct str key_id; /* of `bytes` */
    char bytes[];
};

static void waits_check(const struct waits *w)
{
    check(w->most > 0 && w->most_of_one <= w->most);
    check(w->count <= w->most && w->shares.count <= w->count);
    check((w->count == 0) == (w->shares.count == 0));
}

void waits_init(struct waits *w, uint32_t connections)
{
    *w = (struct waits){.most = (unsigned)api_part(connections, 12, LIMIT_WAITS),
                        .most_of_one = (unsigned)api_part(connections, 8, LIMIT_WAITS)};
    waits_check(w);
}

void waits_fini(struct waits *w)
{
    check(w->count == 0 && w->shares.count == 0);
    map_fini(&w->shares);
}

static struct waits_share *share_create(struct waits *w, struct str key_id)
{
    struct waits_share *share = calloc(1, sizeof *share + key_id.size);
    if (share == NULL) return NULL;
    memcpy(share->bytes, key_id.bytes, key_id.size);
    share->key_id = str_of(share->bytes, key_id.size);
    if (map_put(&w->shares, share->key_id, share)) return share;
    free(share);
    return NULL;
}

enum err waits_enter(struct waits *w, struct str key_id, struct waits_share **ret, struct fault *f)
{
    waits_check(w);
    if (w->count >= w->most)
        return fault_set(f, ERR_OVERLOADED, "",
                         "%u clients wait for reviews already; try again later", w->count);
    struct waits_share *share = map_get(&w->shares, key_id);
    if (share != NULL && share->count >= w->most_of_one)
        return fault_set(
            f, ERR_OVERLOADED, "",
            "%u clients with this key, or its tokens, wait for reviews already; try again later",
            share->count);
    if (share == NULL) share = share_create(w, key_id);
    if (share == NULL) return fault_plain(f, ERR_OVERLOADED);
    share->count++;
    w->count++;
    check(share->count <= w->most_of_one);
    waits_check(w);
    *ret = share;
    return ERR_OK;
}

void waits_leave(struct waits *w, struct waits_share *share)
{
    waits_check(w);
    check(share->count > 0 && map_get(&w->shares, share->key_id) == share);
    w->count--;
    if (--share->count > 0) return;
    (void)map_remove(&w->shares, share->key_id);
    free(share);
}
