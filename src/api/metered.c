/* metered.c - the rates of keys and tenants: what a request may begin, and where its use counts.
 *
 * The key comes first. A key beyond its own rate then takes nothing of its tenant's. What has to be
 * paid for already (processor time, bytes of records) is looked at before the request is counted. */
#include "api/metered.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/world.h"

enum { PERSON_BYTES = 2 * 4 * LIMIT_ID_CHARACTERS + 1 };

struct bounds {
    struct meter *meter;
    uint64_t most[RATE_KINDS];
    enum err over;
};

static bool applies(const struct bounds *b, unsigned rates, enum rate_kind kind)
{
    return (rates & RATE_BIT(kind)) != 0 && b->most[kind] != 0;
}

static enum err refuse(const struct bounds *b, enum rate_kind kind, uint32_t retry_s,
                       struct fault *f)
{
    const struct quota quota = rate_quota(kind, b->most[kind], retry_s);
    return fault_quota(f, b->over, &quota);
}

static enum err count_windows(const struct bounds *b, unsigned rates, struct fault *f)
{
    static const enum rate_kind later[] = {RATE_CPU, RATE_JOURNAL},
                                now[] = {RATE_AUDIT_QUERIES, RATE_REQUESTS};
    const uint64_t now_ns = world_monotonic_ns();
    uint32_t retry_s = 1;
    for (int i = 0; i < 2; i++)
        if (applies(b, rates, later[i]) &&
            !meter_has(b->meter, later[i], b->most[later[i]], now_ns, &retry_s))
            return refuse(b, later[i], retry_s, f);
    for (int i = 0; i < 2; i++)
        if (applies(b, rates, now[i]) &&
            !meter_take(b->meter, now[i], b->most[now[i]], now_ns, &retry_s))
            return refuse(b, now[i], retry_s, f);
    return ERR_OK;
}

/* ---- options ---- */

void api_set_rates(struct api *a, const struct config *c)
{
    a->of_key = (struct rates){.most = {[RATE_REQUESTS] = c->quota_key_requests,
                                        [RATE_CPU] = c->quota_key_cpu_ms,
                                        [RATE_JOURNAL] = c->quota_key_journal,
                                        [RATE_AUDIT_QUERIES] = c->quota_key_audit_queries,
                                        [RATE_CONNECTIONS] = c->quota_key_connections}};
    a->of_tenant = (struct rates){.most = {[RATE_REQUESTS] = c->quota_tenant_requests,
                                           [RATE_CPU] = c->quota_tenant_cpu_ms,
                                           [RATE_JOURNAL] = c->quota_tenant_journal,
                                           [RATE_AUDIT_QUERIES] = c->quota_tenant_audit_queries,
                                           [RATE_CONNECTIONS] = c->quota_tenant_connections}};
}

void api_set_meters(struct api *a, struct meters *meters)
{
    const bool has_any = rates_any(&a->of_key) || rates_any(&a->of_tenant) ||
                         (a->keys != NULL && key_table_has_rates(a->keys));
    a->meters = has_any ? meters : NULL;
}

/* ---- connections ---- */

enum { CONNECTION_RETRY_SECONDS = 1 };

static void let_go(void **held)
{
    if (*held != NULL) meter_disconnect(*held);
    *held = NULL;
}

void api_connection_ended(void *context, struct http_notes *notes)
{
    (void)context;
    let_go(&notes->held[0]);
    let_go(&notes->held[1]);
}

/* A connection counts for the key that it showed last. Those of a trusted proxy have many clients. */
static enum err count_connection(const struct bounds *b, const struct http_exchange *x, void **held,
                                 struct fault *f)
{
    if (b->most[RATE_CONNECTIONS] == 0 || http_is_forwarded(x) || *held == b->meter) return ERR_OK;
    if (meter_connect(b->meter, b->most[RATE_CONNECTIONS])) {
        let_go(held);
        *held = b->meter;
        return ERR_OK;
    }
    http_end(x);
    return refuse(b, RATE_CONNECTIONS, CONNECTION_RETRY_SECONDS, f);
}

/* ---- requests ---- */

static void bounds_of_tenant(const struct api *a, struct str tenant, struct bounds *ret)
{
    *ret = (struct bounds){.over = ERR_QUOTA_TENANT};
    if (!rates_any(&a->of_tenant)) return;
    ret->meter = meters_find(a->meters, METER_TENANT, tenant, world_monotonic_ns());
    memcpy(ret->most, a->of_tenant.most, sizeof ret->most);
}

/* All keys of its rotations share a meter. A person without a key has one by tenant and name. */
static void bounds_of_key(const struct api *a, const struct key *key, struct bounds *ret)
{
    *ret = (struct bounds){.over = ERR_QUOTA_KEY};
    if (!rates_any(&a->of_key) && !rates_any(&key->rates)) return;
    char bytes[PERSON_BYTES];
    struct buf name = buf_over(bytes, sizeof bytes);
    if (key_is_person(key)) {
        buf_put(&name, key->tenant);
        buf_put_byte(&name, '\0');
        buf_put(&name, key->name);
    } else {
        buf_put(&name, str_of((const char *)key->line.bytes, ID_BYTES));
    }
    ret->meter = meters_find(a->meters, METER_KEY, buf_view(&name), world_monotonic_ns());
    for (int i = 0; i < RATE_KINDS; i++)
        ret->most[i] = key->rates.most[i] != 0 ? key->rates.most[i] : a->of_key.most[i];
}

static void note_tenant(struct caller *c, const struct bounds *b)
{
    c->metered.tenant = b->meter;
    memcpy(c->metered.of_tenant, b->most, sizeof c->metered.of_tenant);
}

enum err api_meter(struct api *a, const struct http_exchange *x, struct caller *c, struct fault *f)
{
    const unsigned rates = x->route->rates;
    struct bounds key, tenant = {0};
    if (a->meters == NULL || rates == 0) return ERR_OK;
    const bool has_tenant = !str_is_absent(c->tenant);
    bounds_of_key(a, c->key, &key);
    if (has_tenant) bounds_of_tenant(a, c->tenant, &tenant);
    c->metered = (struct metered){.key = key.meter};
    memcpy(c->metered.of_key, key.most, sizeof c->metered.of_key);
    note_tenant(c, &tenant);
    c->rates = (unsigned char)rates;
    c->owes = has_tenant ? NULL : a;
    enum err err = count_connection(&key, x, &x->notes->held[0], f);
    if (err == ERR_OK && has_tenant) err = count_connection(&tenant, x, &x->notes->held[1], f);
    if (err == ERR_OK) err = count_windows(&key, rates, f);
    if (err == ERR_OK && has_tenant) err = count_windows(&tenant, rates, f);
    a->metered = c->metered;
    return err;
}

enum err api_meter_tenant(struct caller *c, struct fault *f)
{
    struct bounds tenant;
    check(c->owes != NULL && !str_is_absent(c->tenant));
    struct api *a = c->owes;
    bounds_of_tenant(a, c->tenant, &tenant);
    c->owes = NULL;
    note_tenant(c, &tenant);
    a->metered = c->metered;
    return count_windows(&tenant, c->rates, f);
}

static void spend(struct meter *m, enum rate_kind kind, uint64_t most, uint64_t amount)
{
    if (m != NULL && most != 0) meter_spend(m, kind, most, amount, world_monotonic_ns());
}

void api_spend(const struct metered *m, enum rate_kind kind, uint64_t amount)
{
    check(kind < RATE_METERED);
    spend(m->key, kind, m->of_key[kind], amount);
    spend(m->tenant, kind, m->of_tenant[kind], amount);
}
