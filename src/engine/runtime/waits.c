#include "engine/runtime/waits.h"

#include "api/api.h"
#include "base/check.h"
#include "base/limits.h"

static void waits_check(const struct waits *w)
{
    check(w->most > 0 && w->shares.all.count <= w->most);
    shares_check(&w->shares);
}

void waits_init(struct waits *w, uint32_t connections)
{
    shares_init(&w->shares, "waits", api_part(connections, 12, LIMIT_WAITS), 0);
    w->most = api_part(connections, 15, LIMIT_WAITS);
    waits_check(w);
}

void waits_fini(struct waits *w)
{
    check(w->shares.all.count == 0);
    shares_fini(&w->shares);
}

enum err waits_enter(struct waits *w, const struct share_asker *who, uint64_t now_ms,
                     struct share **ret, struct fault *f)
{
    struct quota quota;
    waits_check(w);
    enum err err = shares_ask(&w->shares, who, 0, now_ms, &quota);
    if (err == ERR_FULL || (err == ERR_OK && w->shares.all.count >= w->most))
        return fault_set(f, ERR_OVERLOADED, "",
                         "%zu clients wait for reviews already; try again later",
                         w->shares.all.count);
    if (err != ERR_OK) return fault_quota(f, err, &quota);
    *ret = shares_enter(&w->shares, who, 0, now_ms);
    waits_check(w);
    return *ret != NULL ? ERR_OK : fault_plain(f, ERR_OVERLOADED);
}

void waits_leave(struct waits *w, struct share *share)
{
    shares_leave(&w->shares, share, 0);
    waits_check(w);
}
