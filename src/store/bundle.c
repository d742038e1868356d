/* bundle.c - see bundle.h. The order is fixed (tenant, name; then keys by number), so that the same
 * state always makes the same bytes. */
#include "store/bundle.h"

#include "base/limits.h"
#include "store/set_inside.h"

static void put_policy(struct buf *out, struct statement *q)
{
    static const char *const names[] = {"content", "digest", "format", "name", "tenant_id"};
    buf_put_byte(out, '{');
    for (int i = 0; i < 5; i++) {
        buf_printf(out, "\"%s\":", names[i]);
        json_put_string(out, column_text(q, i));
        buf_put_byte(out, ',');
    }
    buf_printf(out, "\"version\":%llu}", (unsigned long long)column_u64(q, 5));
}

static enum err put_policies(struct store *s, const struct globs *tenants, struct buf *out)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT v.content, v.digest, v.format, p.name, p.tenant_id, p.version FROM policies p"
        " JOIN policy_versions v USING (tenant_id, name, version) WHERE p.is_active = 1"
        " ORDER BY p.tenant_id, p.name");
    enum err err;
    bool first = true;
    while ((err = statement_step(q)) == ERR_OK) {
        if (!globs_match(tenants, column_text(q, 4))) continue;
        if (!first) buf_put_byte(out, ',');
        put_policy(out, q);
        first = false;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err put_keys(struct store *s, const struct globs *tenants, struct buf *out)
{
    struct statement *q =
        database_statement(s->database, "SELECT tenant_id, key FROM keys ORDER BY number");
    enum err err;
    bool first = true;
    while ((err = statement_step(q)) == ERR_OK) {
        struct str tenant = column_text(q, 0);
        if (!str_equal(tenant, STR("*")) && !globs_match(tenants, tenant)) continue;
        if (!first) buf_put_byte(out, ',');
        buf_put(out, column_text(q, 1)); /* the row is the JSON */
        first = false;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

/* A quotation mark inside a string of JSON has a backslash before it, so this is a member. */
static enum err has_rates(struct store *s, bool *ret)
{
    struct statement *q = database_statement(
        s->database, "SELECT 1 FROM keys WHERE key LIKE '%\"rates\":{%' LIMIT 1");
    enum err err = statement_step(q);
    *ret = err == ERR_OK;
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err put_all(struct store *s, const struct globs *tenants, struct buf *out,
                        struct revision *ret_revision, struct fault *f)
{
    size_t begin = out->size;
    enum err err = set_verify(s, true, f);
    if (err != ERR_OK) return err;
    bool rates;
    err = has_rates(s, &rates);
    if (err != ERR_OK) return store_fault(s, err, f);
    const struct stored_set *t = s->set;
    *ret_revision = t->revision;
    buf_printf(out, "{\"adopted_at_ms\":%llu,\"format\":%d,\"history\":\"%.*s\",\"keys\":[",
               (unsigned long long)t->adopted_at,
               rates ? LIMIT_BUNDLE_FORMAT : LIMIT_BUNDLE_FORMAT_PLAIN, (int)t->history_size,
               t->history);
    err = put_keys(s, tenants, out);
    buf_printf(out, "],\"log_id\":\"%s\",\"policies\":[", s->log_id);
    if (err == ERR_OK) err = put_policies(s, tenants, out);
    buf_printf(out, "],\"revision\":%llu,", (unsigned long long)ret_revision->number);
    globs_put(out, "tenants", tenants);
    set_mac_put(out, begin, &s->set_keys.sent);
    if (err != ERR_OK) return store_fault(s, err, f);
    return out->overflow
               ? fault_set(
                     f, ERR_FULL, "",
                     "the bundle is larger than an engine accepts (256 MiB): remove policies or keys")
               : ERR_OK;
}

enum err bundle_put(struct store *s, const struct globs *tenants, struct buf *out,
                    struct revision *ret_revision, struct fault *f)
{
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    err = database_check_schema(s->database, f);
    if (err == ERR_OK) err = put_all(s, tenants, out, ret_revision, f);
    set_close(s);
    database_rollback(s->database); /* it only reads */
    return err;
}
