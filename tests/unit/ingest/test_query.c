/* Queries against a naive reference: every filter, every page, over several blocks and segments. */
#include <time.h>

#include "store/audit_index.h"
#include "rig.h"

enum { EVENTS = 6000 };

struct made { /* what was stored as record id = index + 1 */
    const char *tenant, *actor, *action, *decision, *kind, *rule, *user;
    unsigned trace;
    uint64_t ms;
};

static struct made made[EVENTS];

static uint32_t dice;
static uint32_t roll(uint32_t sides)
{
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) % sides;
}

static struct made make(unsigned n)
{
    static const char *const actors[] = {"ann", "bob", "cyd", "dan", NULL},
                             *const actions[] = {"get", "put", "drop"},
                             *const decisions[] = {"allow", "deny", "human_review", "compute"},
                             *const rules[] = {"allow:a", "deny:b", NULL},
                             *const users[] = {"u1", "u2", NULL, NULL, NULL};
    struct made m = {.tenant = roll(4) == 0 ? "acme" : "default",
                     .actor = actors[roll(5)],
                     .action = actions[roll(3)],
                     .decision = decisions[roll(4)],
                     .kind = roll(50) == 0 ? "review.enqueued" : "decision",
                     .rule = rules[roll(3)],
                     .user = users[roll(5)],
                     .trace = roll(EVENTS / 2),
                     .ms = 1700000000000u + n * 977 + roll(5000)};
    if (roll(1000) == 0) m.actor = "rare"; /* in some blocks only */
    return m;
}

static void put_text(struct buf *b, const char *name, const char *value)
{
    if (value != NULL) buf_printf(b, "\"%s\":\"%s\",", name, value);
}

static void put_made(struct buf *b, unsigned n, const struct made *m)
{
    uint64_t s = m->ms / 1000;
    char time[64];
    struct tm tm;
    time_t t = (time_t)s;
    gmtime_r(&t, &tm);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_put_byte(b, '{');
    put_text(b, "actor", m->actor);
    put_text(b, "action", m->action);
    put_text(b, "decision", m->decision);
    put_text(b, "rule", m->rule);
    put_text(b, "user_id", m->user);
    buf_printf(b,
               "\"event_id\":\"e%u\",\"kind\":\"%s\",\"tenant_id\":\"%s\",\"timestamp\":\"%s.%"
               "03uZ\",\"trace_id\":\"t%u\"}\n",
               n, m->kind, m->tenant, time, (unsigned)(m->ms % 1000), m->trace);
}

static int fill_store(void **state)
{
    rig_set_up(state);
    struct rig *r = *state;
    dice = 7;
    /* Ids begin late in a segment, so that the records lie in two of them. */
    if (rig_is_postgres)
        rig_sql(r, "UPDATE marks SET next_id = 65001");
    else
        rig_sql(r,
                "INSERT INTO records (id, created_at, event_id, kind, tenant_id, timestamp, event) "
                "VALUES (65000, 1, 'x', 'decision', 'nobody', 1, '{}')");
    for (unsigned n = 0; n < EVENTS;) {
        buf_clear(&r->body);
        for (unsigned end = n + 500; n < end; n++) {
            made[n] = make(n);
            put_made(&r->body, n, &made[n]);
        }
        buf_put_byte(&r->body, '\0');
        r->body.size--;
        if (post(r, r->body.bytes, true) != ERR_OK) fail_msg("%s", r->fault.text);
    }
    return 0;
}

static bool text_fits(struct str wanted, const char *has)
{
    return str_is_absent(wanted) || (has != NULL && str_equal(wanted, str_from(has)));
}

static bool fits(const struct audit_query *q, unsigned n)
{
    const struct made *m = &made[n];
    char trace[16];
    snprintf(trace, sizeof trace, "t%u", m->trace);
    return text_fits(q->tenant, m->tenant) && text_fits(q->actor, m->actor) &&
           text_fits(q->action, m->action) && text_fits(q->decision, m->decision) &&
           text_fits(q->kind, m->kind) && text_fits(q->rule, m->rule) &&
           text_fits(q->user_id, m->user) && text_fits(q->trace_id, trace) &&
           (!q->has_from || m->ms >= q->from_ms) && (!q->has_to || m->ms < q->to_ms) &&
           (q->before_id == 0 || n + 65001 < q->before_id) && n + 65001 > q->after_id;
}

struct found {
    uint64_t ids[EVENTS];
    size_t count;
};

static bool keep(void *context, const struct audit_stored *row)
{
    struct found *f = context;
    f->ids[f->count++] = row->id;
    return true;
}

static void compare(struct rig *r, const struct audit_query *q)
{
    static struct found found;
    struct audit_store *audit = store_audit(r->store);
    size_t count = 0;
    found.count = 0;
    assert_int_equal(audit->ops->query(audit->state, q, keep, &found), ERR_OK);
    for (unsigned i = 0; i < EVENTS && count < q->limit; i++) {
        unsigned n = q->oldest_first ? i : EVENTS - 1 - i;
        if (!fits(q, n)) continue;
        if (count >= found.count || found.ids[count] != n + 65001)
            fail_msg("record %u is missing or out of order", n + 65001);
        count++;
    }
    assert_int_equal(found.count, count);
}

/* A query with some of everything. */
static struct audit_query random_query(void)
{
    static const char
        *const actors[] = {"ann", "dan", "rare", "nobody"},
               *const actions[] = {"get", "drop"}, *const decisions[] = {"allow", "deny"},
               *const rules[] = {"allow:a", "deny:b", "deny:none"}, *const users[] = {"u1", "u2"};
    static char trace[16];
    struct audit_query q = {.tenant = roll(3) == 0 ? STR("acme") : STR("default"),
                            .limit = 1 + roll(3) * 40,
                            .oldest_first = roll(2) == 0};
    snprintf(trace, sizeof trace, "t%u", roll(EVENTS / 2));
    if (roll(3) == 0) q.actor = str_from(actors[roll(4)]);
    if (roll(3) == 0) q.action = str_from(actions[roll(2)]);
    if (roll(3) == 0) q.decision = str_from(decisions[roll(2)]);
    if (roll(4) == 0) q.kind = roll(2) == 0 ? STR("decision") : STR("review.enqueued");
    if (roll(4) == 0) q.rule = str_from(rules[roll(3)]);
    if (roll(4) == 0) q.user_id = str_from(users[roll(2)]);
    if (roll(4) == 0) q.trace_id = str_from(trace);
    if (roll(3) == 0) q.has_from = true, q.from_ms = 1700000000000u + roll(EVENTS) * 977;
    if (roll(3) == 0) q.has_to = true, q.to_ms = 1700000000000u + roll(EVENTS) * 977;
    if (roll(3) == 0) q.before_id = 65001 + roll(EVENTS);
    if (roll(3) == 0) q.after_id = 65001 + roll(EVENTS);
    return q;
}

static void random_queries_find_what_a_naive_search_finds(void **state)
{
    dice = (uint32_t)world_now_ms();
    print_message("seed %u\n", dice);
    for (int i = 0; i < 600; i++) {
        struct audit_query q = random_query();
        compare(*state, &q);
    }
}

static void bounds_of_time_are_exact(void **state)
{
    for (unsigned n = 0; n < EVENTS; n += 611) {
        struct audit_query q = {.tenant = str_from(made[n].tenant),
                                .limit = EVENTS,
                                .has_from = true,
                                .from_ms = made[n].ms};
        compare(*state, &q);
        q = (struct audit_query){
            .tenant = q.tenant, .limit = EVENTS, .has_to = true, .to_ms = made[n].ms};
        compare(*state, &q);
        q = (struct audit_query){.tenant = q.tenant,
                                 .limit = EVENTS,
                                 .has_from = true,
                                 .has_to = true,
                                 .from_ms = made[n].ms,
                                 .to_ms = made[n].ms + 1};
        compare(*state, &q);
    }
}

/* The last of a block, and the first of the next one: no cursor passes over either. */
static void a_cursor_at_the_edge_of_a_block_misses_nothing(void **state)
{
    const uint64_t block = 1u << AUDIT_BLOCK_BITS;
    for (uint64_t edge = 64 * block; edge < 65001 + EVENTS; edge += block)
        for (uint64_t cursor = edge - 3; cursor < edge + 3; cursor++)
            for (unsigned tenant = 0; tenant < 2; tenant++) {
                struct audit_query q = {.tenant = tenant == 0 ? STR("acme") : STR("default"),
                                        .limit = 5,
                                        .before_id = cursor};
                compare(*state, &q);
                q = (struct audit_query){
                    .tenant = q.tenant, .limit = 5, .oldest_first = true, .after_id = cursor};
                compare(*state, &q);
            }
    const struct audit_query of_all = {
        .tenant = STR("default"), .limit = 5, .before_id = INT64_MAX};
    compare(*state, &of_all); /* beyond the newest there is nothing to look through */
}

static void pages_are_not_shifted_by_new_events(void **state)
{
    struct rig *r = *state;
    struct audit_store *audit = store_audit(r->store);
    struct audit_query q = {.tenant = STR("default"), .actor = STR("ann"), .limit = 50};
    static struct found all, page;
    all.count = page.count = 0;
    struct audit_query everything = q;
    everything.limit = EVENTS;
    (void)audit->ops->query(audit->state, &everything, keep, &all);
    size_t seen = 0;
    for (int more = 0;; more++) {
        char body[256];
        page.count = 0;
        assert_int_equal(audit->ops->query(audit->state, &q, keep, &page), ERR_OK);
        for (size_t i = 0; i < page.count; i++) assert_int_equal(page.ids[i], all.ids[seen++]);
        if (page.count < q.limit) break;
        q.before_id = page.ids[page.count - 1];
        snprintf(body, sizeof body,
                 "{\"actor\":\"ann\",\"event_id\":\"late%d\",\"kind\":\"decision\",\"tenant_id\":"
                 "\"default\",\"timestamp\":\"2026-11-20T09:30:00.000Z\"}",
                 more);
        assert_int_equal(post(r, body, false), ERR_OK);
    }
    assert_int_equal(seen, all.count);
}

static void an_empty_store_and_an_unknown_tenant_have_nothing(void **state)
{
    struct rig *r = *state;
    struct audit_store *audit = store_audit(r->store);
    static struct found none;
    none.count = 0;
    const struct audit_query q = {.tenant = STR("default"), .limit = 10},
                             timed = {.tenant = STR("default"), .limit = 10, .has_from = true};
    assert_int_equal(audit->ops->query(audit->state, &q, keep, &none), ERR_OK);
    assert_int_equal(audit->ops->query(audit->state, &timed, keep, &none), ERR_OK);
    assert_int_equal(none.count, 0);
}

/* PostgreSQL finds a trace by a hash that all tenants share, ten thousand ids at a time. */
static void one_batch_in_two_blocks_is_found_in_both(void **state)
{
    struct rig *r = *state;
    struct audit_store *audit = store_audit(r->store);
    static struct found found;
    enum { BATCH = 20 };
    found.count = 0;
    if (rig_is_postgres)
        rig_sql(r, "UPDATE marks SET next_id = 2041"); /* blocks begin at multiples of 1024 */
    else
        rig_sql(r,
                "INSERT INTO records (id, created_at, event_id, kind, tenant_id, timestamp, event) "
                "VALUES (2040, 1, 'x', 'decision', 'nobody', 1, '{}')");
    buf_clear(&r->body);
    for (unsigned n = 0; n < BATCH; n++) {
        const struct made m = {
            .tenant = "default", .actor = "edge", .kind = "decision", .ms = 1700000000000u + n};
        put_made(&r->body, n, &m);
    }
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post(r, r->body.bytes, true), ERR_OK);
    const struct audit_query q = {
        .tenant = STR("default"), .actor = STR("edge"), .limit = 2 * BATCH};
    assert_int_equal(audit->ops->query(audit->state, &q, keep, &found), ERR_OK);
    assert_int_equal(found.count, BATCH);
    assert_int_equal(found.ids[0], 2040 + BATCH);
}

static void a_trace_is_found_among_many_of_another_tenant(void **state)
{
    struct rig *r = *state;
    struct audit_store *audit = store_audit(r->store);
    static struct found found;
    for (int i = 0; i < 2; i++) {
        buf_clear(&r->body);
        put_made(&r->body, (unsigned)i,
                 &(struct made){
                     .tenant = "default", .kind = "decision", .trace = 7, .ms = 1700000000000});
        buf_put_byte(&r->body, '\0');
        assert_int_equal(post(r, r->body.bytes, true), ERR_OK);
        if (i > 0) break;
        rig_sql(
            r,
            "INSERT INTO identities SELECT g, 'other' || g, NULL, NULL, NULL, 0, (SELECT max(trace_hash) FROM identities)"
            " FROM generate_series(10, 29000) AS g; UPDATE marks SET next_id = 30000");
    }
    for (int oldest_first = 0; oldest_first < 2; oldest_first++)
        for (uint64_t limit = 1; limit < 4; limit++) {
            const struct audit_query q = {.tenant = STR("default"),
                                          .trace_id = STR("t7"),
                                          .limit = limit,
                                          .oldest_first = oldest_first != 0};
            found.count = 0;
            assert_int_equal(audit->ops->query(audit->state, &q, keep, &found), ERR_OK);
            assert_int_equal(found.count, limit < 2 ? limit : 2);
            assert_int_equal(found.ids[0], oldest_first ? 1 : 30000);
            if (limit > 1) assert_int_equal(found.ids[1], oldest_first ? 30000 : 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_queries_find_what_a_naive_search_finds, fill_store,
                                        rig_tear_down),
        cmocka_unit_test_setup_teardown(bounds_of_time_are_exact, fill_store, rig_tear_down),
        cmocka_unit_test_setup_teardown(a_cursor_at_the_edge_of_a_block_misses_nothing, fill_store,
                                        rig_tear_down),
        cmocka_unit_test_setup_teardown(pages_are_not_shifted_by_new_events, fill_store,
                                        rig_tear_down),
        TEST(an_empty_store_and_an_unknown_tenant_have_nothing),
        TEST(one_batch_in_two_blocks_is_found_in_both),
        TEST_OF_POSTGRES(a_trace_is_found_among_many_of_another_tenant),
    };
    return rig_run(tests);
}
