/* writ queue, token, actor and top: what they ask for, what they print, and what they refuse to
 * do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cli/rig.h"

#define ID "rev_01JD0000000000000000000001"
#define ITEM(id, more)                                                                                                     \
    "{\"id\":\"" id                                                                                                        \
    "\",\"actor\":\"b\\u001b[2Jot\",\"acting_for\":\"ann\",\"action\":\"pay\",\"status\":\"pending\","                     \
    "\"reason\":\"why\",\"expires_at\":\"2026-11-20T10:00:00.000Z\",\"resource\":{\"type\":\"invoice\",\"id\":\"1\"}" more \
    "}"
#define TOKEN "eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.c2ln"

/* ---- queue ---- */

/* The engine's clock, which is not this machine's. */
#define DATE "Date: Fri, 20 Nov 2026 09:52:01 GMT\r\n"

static void the_queue_is_a_table_of_what_is_pending(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, DATE,
                     "{\"items\":[" ITEM(ID, "") "],\"count\":1,\"total\":9,\"next_cursor\":7}");
    assert_int_equal(RUN(r, "queue", "list", "--actor", "b ot", "--action", "pay", "--limit", "1"),
                     DONE);
    assert_has(peer_request(r->peer, 0),
               "GET /v1/queue/pending?actor=b%20ot&action=pay&order=deadline&limit=1 HTTP/1.1\r\n");
    assert_has(r->out, ID "  in 7 min  b\\u001b[2Jot for ann  pay       invoice:1  -     pending");
    assert_null(strchr(r->out, '\033'));
    assert_has(r->err, "1 of 9\nMore: --cursor 7\n");
    peer_will_answer(r->peer, 200, NULL,
                     "{\"items\":[],\"count\":0,\"total\":0,\"next_cursor\":0}"); /* from now on */
    assert_int_equal(RUN(r, "queue", "list", "--status", "denied", "--tenant", "acme"), DONE);
    assert_has(peer_request(r->peer, 1),
               "GET /v1/queue?tenant_id=acme&status=denied&limit=100 HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "queue", "list", "--status", "all"), DONE);
    assert_has(peer_request(r->peer, 2), "GET /v1/queue?limit=100 HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "queue", "list", "--mine", "--limit", "600"), DONE);
    assert_has(peer_request(r->peer, 3),
               "GET /v1/queue/pending?mine=true&order=deadline&limit=100 HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "queue", "list", "--limit", "0"), USAGE);
    assert_has(r->err, "--limit: it must be a number from 1");
    assert_int_equal(RUN(r, "queue", "list", "--cursor", "x"), USAGE);
    rig_destroy(r);
}

static void a_list_of_the_queue_has_every_page(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    static const char *const first =
        "{\"items\":[{\"id\":\"rev_1\"},{\"id\":\"rev_2\"}],\"count\":2,\"total\":3,\"next_cursor\":7}";
    static const char *const none = "{\"items\":[],\"count\":0,\"total\":3,\"next_cursor\":9}";
    static const char *const last =
        "{\"items\":[{\"id\":\"rev_3\"}],\"count\":1,\"total\":3,\"next_cursor\":0}";
    for (unsigned json = 0; json < 2; json++) {
        peer_will_answer(r->peer, 200, NULL, first);
        peer_will_answer(r->peer, 200, NULL, none);
        peer_will_answer(r->peer, 200, NULL, last);
        assert_int_equal(json ? RUN(r, "queue", "list", "--mine", "--json")
                              : RUN(r, "queue", "list", "--mine"),
                         DONE);
        if (json)
            assert_string_equal(
                r->out, "{\"items\":[{\"id\":\"rev_1\"},{\"id\":\"rev_2\"},{\"id\":\"rev_3\"}],"
                        "\"count\":3,\"limit\":3,\"total\":3,\"next_cursor\":0}\n");
        else
            assert_has(r->err, "3 for you, of 3\n");
    }
    assert_has(peer_request(r->peer, 1), "cursor=7&limit=100 ");
    assert_has(peer_request(r->peer, 2), "cursor=9&limit=100 ");
    peer_will_answer(r->peer, 200, NULL, first);
    peer_will_answer(r->peer, 200, NULL, first);
    assert_int_equal(RUN(r, "queue", "list"), REFUSED);
    assert_has(r->err, "a cursor that does not come to an end");
    peer_will_answer(r->peer, 200, NULL, first);
    assert_int_equal(RUN(r, "queue", "list", "--limit", "2"), DONE);
    assert_int_equal(peer_request_count(r->peer), 9);
    assert_has(r->err, "2 of 3\nMore: --cursor 7\n");
    rig_destroy(r);
}

static void the_arguments_of_a_row_cannot_pass_for_others(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"amount\":620,\"card\":\"[masked]\"}", "  amount=620 card=[masked]  "},
        {"{\"memo\":\"1 amount=5\",\"amount\":620}", "  memo=\"1 amount=5\" amount=620  "},
        {"{\"a b\":\"say \\\"x\\\"\"}", "  \"a b\"=\"say \\\"x\\\"\"  "},
        {"{\"a\":\"\\u001b[2J\",\"b\":\"\\u202ec\"}", "  a=\"\\u001b[2J\" b=\\u202ec  "},
        {"{\"list\":[1,2],\"deep\":{\"x\":1},\"none\":{},\"n\":null,\"ok\":true,\"last\":1}",
         "  n=null ok=true last=1 list=[2] +2  "},
        {"{\"text\":\"abcdefghijklmnopqrstuvwxyz\"}", "  text=abcdefghijklmnopqrstuvw…  "},
        {"{\"text\":\"zo\\u00eb\",\"empty\":\"\"}", "  text=zo\u00eb empty=\"\"  "},
        {"{\"text\":\"+2\"}", "  text=\"+2\"  "},
        {"{}", "  -     pending"},
    };
    struct rig *r = rig_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char answer[512];
        snprintf(
            answer, sizeof answer,
            "{\"items\":[{\"id\":\"r\",\"status\":\"pending\",\"args\":%s}],\"next_cursor\":0}",
            cases[i][0]);
        peer_will_answer(r->peer, 200, NULL, answer);
        assert_int_equal(RUN(r, "queue", "list"), DONE);
        assert_has(r->out, cases[i][1]);
    }
    rig_destroy(r);
}

static void a_deadline_is_told_as_what_is_left(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"expires_at\":\"2026-11-20T09:52:00.000Z\",\"status\":\"pending\"", "over"},
        {"\"expires_at\":\"2026-11-20T09:53:00.999Z\",\"status\":\"pending\"", "in 59 s"},
        {"\"expires_at\":\"2026-11-20T09:53:01.000Z\",\"status\":\"pending\"", "in 1 min"},
        {"\"expires_at\":\"2026-11-20T11:52:00.000Z\",\"status\":\"pending\"", "in 119 min"},
        {"\"expires_at\":\"2026-11-20T11:52:01.000Z\",\"status\":\"pending\"", "in 2 h"},
        {"\"expires_at\":\"2026-11-22T09:52:01.000Z\",\"status\":\"pending\"", "in 2 d"},
        {"\"expires_at\":\"2026-11-20T09:00:00.000Z\",\"approval_expires_at\":\"2026-11-20T10:00:00.000Z\","
         "\"status\":\"approved\"",
         "in 7 min"},
        {"\"expires_at\":\"2026-11-20T10:00:00.000Z\",\"status\":\"denied\"", "-"},
    };
    struct rig *r = rig_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char answer[512], cell[32];
        snprintf(answer, sizeof answer, "{\"items\":[{\"id\":\"r\",%s}],\"next_cursor\":0}",
                 cases[i][0]);
        snprintf(cell, sizeof cell, "\nr       %s ", cases[i][1]);
        peer_will_answer(r->peer, 200, DATE, answer);
        assert_int_equal(RUN(r, "queue", "list"), DONE);
        assert_has(r->out, cell);
    }
    rig_destroy(r);
}

static void a_review_is_laid_out_line_by_line_with_paths(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, NULL,
        ITEM(
            ID,
            ",\"args\":{\"items\":[{\"price\":12.5},{\"x\":[]}],\"card\":\"[masked]\",\"a\\nb\":\"\\u202ec\"},"
            "\"approvals_required\":2,\"approvals\":[{\"resolved_by\":\"carol\",\"at\":\"now\",\"note\":\"ok\"}],"
            "\"needs\":[{\"policy_name\":\"p\",\"rule\":\"large\",\"by\":[\"finance\",\"le\\u001bgal\"],\"approvals\":2,"
            "\"so_far\":1,\"voted\":[\"carol\"]},{\"approvals\":1,\"so_far\":0}],"
            "\"resource_properties\":{\"owner\":\"eve\"},\"context\":\"late at night\",\"redeemed_at\":\"then\""));
    assert_int_equal(RUN(r, "queue", "show", ID), DONE);
    assert_has(peer_request(r->peer, 0), "GET /v1/queue/" ID " HTTP/1.1\r\n");
    assert_has(r->out, "who           b\\u001b[2Jot for ann\n");
    assert_has(r->out, "needs         1 of 2 by finance or le\\u001bgal for rule large: carol\n");
    assert_has(r->out, "needs         0 of 1 by any reviewer\n");
    assert_has(r->out, "approved by   carol at now: ok\n");
    assert_has(r->out, "args.items[0].price               12.5\n");
    assert_has(r->out, "args.items[1].x                   []\n");
    assert_has(r->out, "args.card                         [masked]\n");
    assert_has(r->out, "args.a\\u000ab ");
    assert_has(r->out, "\\u202ec");
    assert_has(r->out, "resource_properties.owner         eve\n");
    assert_has(r->out, "context                           late at night\n");
    assert_has(r->out, "redeemed      then\n");
    rig_destroy(r);
}

static void waiting_asks_again_until_the_review_is_resolved(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, ITEM(ID, ""));
    peer_will_answer(r->peer, 200, NULL, "{\"id\":\"" ID "\",\"status\":\"approved\"}");
    peer_will_answer(r->peer, 200, NULL, "{\"id\":\"" ID "\",\"status\":\"denied\"}");
    assert_int_equal(RUN(r, "queue", "wait", ID), DONE);
    assert_int_equal(peer_request_count(r->peer), 2);
    assert_has(peer_request(r->peer, 1), "GET /v1/queue/" ID "/wait?timeout_ms=25000 HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "queue", "wait", ID), REFUSED);
    rig_destroy(r);
}

static void a_vote_carries_its_note_and_who_gives_it(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"status\":\"approved\"}");
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"status\":\"pending\",\"approvals_required\":2,\"approvals\":[{}],\"needs\":["
        "{\"by\":[\"a\",\"b\"],\"approvals\":2,\"so_far\":1},{\"approvals\":1,\"so_far\":1},"
        "{\"approvals\":3,\"so_far\":1}]}");
    peer_will_answer(
        r->peer, 403, NULL,
        "{\"error\":\"resolved_by: has none of the roles\",\"code\":\"wrong_reviewer\"}");
    peer_will_answer(r->peer, 409, NULL,
                     "{\"error\":\"denied already\",\"code\":\"already_resolved\"}");
    assert_int_equal(RUN(r, "queue", "approve", ID, "--by", "carol", "--note", "so \"be\" it"),
                     DONE);
    assert_has(peer_request(r->peer, 0), "POST /v1/queue/" ID "/approve HTTP/1.1\r\n");
    assert_string_equal(body_of(r, 0), "{\"note\":\"so \\\"be\\\" it\",\"resolved_by\":\"carol\"}");
    assert_string_equal(r->out, ID " is approved.\n");
    assert_int_equal(RUN(r, "queue", "approve", ID), DONE);
    assert_string_equal(body_of(r, 1), "{}");
    assert_has(r->out, "is pending: still needs 1 more by a or b, 2 more by any reviewer.\n");
    assert_int_equal(RUN(r, "queue", "deny", ID), REFUSED);
    assert_has(peer_request(r->peer, 2), "/deny HTTP/1.1\r\n");
    assert_has(r->err, "--by NAME names the person who resolves it");
    assert_int_equal(RUN(r, "queue", "deny", ID), REFUSED);
    assert_null(strstr(r->err, "--by"));
    rig_destroy(r);
}

static void watching_goes_through_the_pages_and_prints_each_review_once(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[" ITEM(ID, "") "],\"next_cursor\":5}");
    peer_will_answer(r->peer, 200, NULL,
                     "{\"items\":[" ITEM(ID, "") "," ITEM("rev_01JD0000000000000000000002",
                                                          "") "],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "queue", "watch", "--once"), DONE);
    assert_has(peer_request(r->peer, 0), "GET /v1/queue/pending?limit=100 HTTP/1.1\r\n");
    assert_has(peer_request(r->peer, 1), "GET /v1/queue/pending?cursor=5&limit=100 HTTP/1.1\r\n");
    assert_has(r->out, "rev_01JD0000000000000000000002");
    assert_null(strstr(strstr(r->out, ID) + 1, ID));
    rig_destroy(r);
}

static void watching_what_goes_on_where_it_was_is_given_up(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[" ITEM(ID, "") "],\"next_cursor\":5}");
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[" ITEM(ID, "") "],\"next_cursor\":5}");
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "queue", "watch", "--once"), REFUSED);
    assert_has(r->err, "does not come to an end");
    rig_destroy(r);
}

static void watching_what_goes_on_without_a_review_is_given_up(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[],\"next_cursor\":5}");
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "queue", "watch", "--once"), REFUSED);
    assert_has(r->err, "does not come to an end");
    rig_destroy(r);
}

/* ---- token ---- */

static void a_token_is_minted_from_words_and_printed_alone(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 201, NULL,
                     "{\"token\":\"" TOKEN
                     "\",\"token_id\":\"tok_1\",\"expires_at\":1795269913,\"scope\":\"get_*\"}");
    assert_int_equal(
        RUN(r, "token", "mint", "--scope", "get_*", "--actor", "bot", "--ttl", "5m", "--uses", "3"),
        DONE);
    assert_string_equal(
        body_of(r, 0),
        "{\"scope\":\"get_*\",\"actor\":\"bot\",\"ttl_seconds\":300,\"max_uses\":3}");
    assert_string_equal(r->out, TOKEN "\n");
    assert_string_equal(r->err, "This is tok_1, for get_*; it ends at 2026-11-21T14:05:13.000Z.\n");
    assert_int_equal(RUN(r, "token", "mint", "--scope", "x", "--acting-for", "ann", "--audience",
                         "ledger", "--tenant", "acme"),
                     DONE);
    assert_string_equal(
        body_of(r, 1),
        "{\"scope\":\"x\",\"acting_for\":\"ann\",\"audience\":\"ledger\",\"tenant_id\":\"acme\"}");
    rig_destroy(r);
}

static void a_token_that_would_not_be_as_asked_is_not_asked_for(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    static const char *const spans[] = {"500ms", "1500ms", "0", "2d", "soon", ""};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        assert_int_equal(RUN(r, "token", "mint", "--scope", "x", "--ttl", spans[i]), USAGE);
        assert_has(r->err, "whole seconds from 1s to 24h");
    }
    assert_int_equal(RUN(r, "token", "mint", "--scope", "x", "--uses", "0"), USAGE);
    assert_int_equal(RUN(r, "token", "mint"), USAGE);
    assert_has(r->err, "--scope is needed");
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

static void a_token_has_no_place_on_a_command_line(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN(r, "token", "show", TOKEN), USAGE);
    assert_has(r->err, "where other users of the machine can read it");
    assert_int_equal(RUN(r, "token", "revoke", TOKEN), USAGE);
    assert_has(r->err, "by its id (tok_…)");
    assert_null(strstr(r->err, TOKEN));
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

static void a_token_is_shown_from_a_file(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char path[128];
    snprintf(path, sizeof path, "%s/token", r->peer->folder);
    FILE *file = fopen(path, "w");
    fputs(TOKEN "\n", file);
    fclose(file);
    peer_will_answer(r->peer, 200, NULL, "{\"active\":true,\"jti\":\"tok_1\",\"exp\":1795269913}");
    peer_will_answer(r->peer, 200, NULL, "{\"active\":false}");
    assert_int_equal(RUN(r, "token", "show", path), DONE);
    assert_string_equal(body_of(r, 0), "{\"token\":\"" TOKEN "\"}");
    assert_has(r->out, "expires       2026-11-21T14:05:13.000Z\n");
    assert_int_equal(RUN(r, "token", "show", path), REFUSED);
    file = fopen(path, "w");
    fputs("tok_1\n", file);
    fclose(file);
    assert_int_equal(RUN(r, "token", "show", path), USAGE);
    assert_has(r->err, "no token");
    unlink(path);
    rig_destroy(r);
}

static void a_token_is_a_credential_like_a_key(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    snprintf(r->key, sizeof r->key, "WRIT_KEY=%s", TOKEN);
    peer_will_answer(r->peer, 200, NULL, "{\"decision\":\"allow\"}");
    assert_int_equal(RUN(r, "authorize", "x"), DONE);
    assert_has(peer_request(r->peer, 0), "Authorization: Bearer " TOKEN "\r\n");
    snprintf(r->key, sizeof r->key, "WRIT_KEY=ey.a b.c");
    assert_int_equal(RUN(r, "authorize", "x"), USAGE);
    rig_destroy(r);
}

static void tokens_are_listed_and_revoked(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"tokens\":[{\"token_id\":\"tok_1\",\"actor\":\"b\",\"scope\":\"*\",\"active\":true}],\"next_cursor\":4}");
    peer_will_answer(r->peer, 200, NULL,
                     "{\"success\":true,\"token_id\":\"tok_1\",\"revoked_at\":\"now\"}");
    assert_int_equal(RUN(r, "token", "list", "--actor", "b", "--acting-for", "ann"), DONE);
    assert_has(peer_request(r->peer, 0),
               "GET /v1/tokens?actor=b&acting_for=ann&active=true&limit=100 HTTP/1.1\r\n");
    assert_has(r->out, "tok_1");
    assert_has(r->err, "--cursor 4");
    assert_int_equal(RUN(r, "token", "revoke", "tok_1"), DONE);
    assert_has(peer_request(r->peer, 1), "DELETE /v1/tokens/tok_1 HTTP/1.1\r\n");
    assert_string_equal(r->out, "tok_1 is revoked since now.\n");
    assert_int_equal(RUN(r, "token", "list", "--all"), DONE);
    assert_has(peer_request(r->peer, 2), "GET /v1/tokens?limit=100 HTTP/1.1\r\n");
    rig_destroy(r);
}

/* ---- actor ---- */

static void an_actor_is_suspended_resumed_and_listed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"success\":true}");
    peer_will_answer(r->peer, 200, NULL, "{\"success\":true}");
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"actors\":[{\"actor\":\"b/x\",\"suspended_by\":\"me\",\"reason\":\"r\"}],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "actor", "suspend", "b/x", "--reason", "r"), DONE);
    assert_has(peer_request(r->peer, 0), "POST /v1/actors/b%2Fx/suspend HTTP/1.1\r\n");
    assert_string_equal(body_of(r, 0), "{\"reason\":\"r\"}");
    assert_has(r->out, "b/x is suspended");
    assert_int_equal(RUN(r, "actor", "resume", "b/x"), DONE);
    assert_has(peer_request(r->peer, 1), "POST /v1/actors/b%2Fx/resume HTTP/1.1\r\n");
    assert_int_equal(RUN(r, "actor", "list"), DONE);
    assert_has(r->out, "b/x    -      me  r\n");
    rig_destroy(r);
}

/* ---- top ---- */

/* Scrapes, answered in the order of asking: engine, platform, queue; engine, platform, queue. */
#define SCRAPE(allowed, lag)                                                                         \
    "# HELP writ_engine_decisions_total x\nwrit_engine_decisions_total{decision=\"allow\"} " allowed \
    "\n"                                                                                             \
    "writ_engine_publish_lag_records_other 9\nwrit_engine_publish_lag_records " lag "\n"

static void top_shows_growth_of_counters_and_levels_as_they_are(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, SCRAPE("10", "1"));
    peer_will_answer(r->peer, 200, NULL, "writ_platform_ingest_events_total 7\n");
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[],\"total\":3}");
    peer_will_answer(r->peer, 200, NULL, SCRAPE("1010", "5"));
    peer_will_answer(r->peer, 200, NULL, "writ_platform_ingest_events_total 7\n");
    peer_will_answer(r->peer, 200, NULL, "{\"items\":[],\"total\":4}");
    assert_int_equal(RUN(r, "top", "--once", "--json", "--every", "50ms", "--tenant", "acme"),
                     DONE);
    assert_has(peer_request(r->peer, 0), "GET /metrics?tenant_id=acme HTTP/1.1\r\n");
    assert_has(peer_request(r->peer, 5),
               "GET /v1/queue/pending?tenant_id=acme&limit=1 HTTP/1.1\r\n");
    assert_has(r->out, "\"total\":1010}");
    assert_has(
        r->out,
        "\"state\":{\"reviews_pending_in_tenant\":4},\"refused\":{},\"publish\":{\"lag_records\":5,\"stored\":{\"per_second\":0.000,\"total\":7}}");
    assert_has(r->out, "\"problems\":[]}\n");
    double rate = strtod(strstr(r->out, "\"per_second\":") + 13, NULL); /* 1000 in at least 50 ms */
    assert_true(rate > 0 && rate <= 1000 / 0.05);
    rig_destroy(r);
}

static void
top_takes_a_counter_that_fell_as_begun_anew_and_leaves_out_what_it_cannot_see(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, SCRAPE("1000", "1"));
    /* platform, then queue */
    peer_will_answer(r->peer, 403, NULL, "{\"error\":\"no role\",\"code\":\"missing_role\"}");
    peer_will_answer(r->peer, 403, NULL, "{\"error\":\"no role\",\"code\":\"missing_role\"}");
    peer_will_answer(r->peer, 200, NULL, SCRAPE("0", "2"));
    peer_will_answer(r->peer, 403, NULL, "{\"error\":\"no role\",\"code\":\"missing_role\"}");
    assert_int_equal(RUN(r, "top", "--once", "--every", "10ms"), DONE);
    assert_int_equal(peer_request_count(r->peer), 5); /* the queue is not asked again */
    assert_has(r->out, "allow                               0.0 per second\n");
    assert_has(r->out, "writ-platform's figures: no role\n");
    assert_null(strstr(r->out, "events stored"));
    assert_null(strstr(r->out, "reviews pending"));
    rig_destroy(r);
}

static void one_sample_says_by_its_status_that_a_program_did_not_answer(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, SCRAPE("1000", "1"));
    assert_int_equal(RUN(r, "top", "--once", "--every", "10ms", "--platform", "unix:/nowhere"),
                     UNREACHABLE);
    assert_has(r->out, "allow");
    assert_has(r->out, "writ-platform at unix:/nowhere cannot be reached");
    rig_destroy(r);
}

static void top_ends_at_once_where_nothing_can_be_seen(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN(r, "top", "--engine", "unix:/nowhere", "--platform", "unix:/nowhere"),
                     UNREACHABLE);
    assert_has(r->err, "writ-engine at unix:/nowhere cannot be reached");
    assert_has(r->err, "writ-platform at unix:/nowhere cannot be reached");
    peer_will_answer(r->peer, 401, NULL,
                     "{\"error\":\"no valid credential\",\"code\":\"unauthenticated\"}");
    assert_int_equal(RUN(r, "top"), REFUSED);
    assert_has(r->err, "writ-engine: no valid credential\n");
    assert_int_equal(RUN(r, "top", "--every", "1ms"), USAGE);
    assert_int_equal(RUN(r, "top", "--once", "--engine", "ftp://x"), USAGE);
    assert_has(r->err, "--engine: \"ftp://x\" is not an address");
    assert_int_equal(RUN_WITHOUT_KEY(r, "top"), USAGE);
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_a_table_of_what_is_pending),
        cmocka_unit_test(a_list_of_the_queue_has_every_page),
        cmocka_unit_test(the_arguments_of_a_row_cannot_pass_for_others),
        cmocka_unit_test(a_deadline_is_told_as_what_is_left),
        cmocka_unit_test(a_review_is_laid_out_line_by_line_with_paths),
        cmocka_unit_test(waiting_asks_again_until_the_review_is_resolved),
        cmocka_unit_test(a_vote_carries_its_note_and_who_gives_it),
        cmocka_unit_test(watching_goes_through_the_pages_and_prints_each_review_once),
        cmocka_unit_test(watching_what_goes_on_where_it_was_is_given_up),
        cmocka_unit_test(watching_what_goes_on_without_a_review_is_given_up),
        cmocka_unit_test(a_token_is_minted_from_words_and_printed_alone),
        cmocka_unit_test(a_token_that_would_not_be_as_asked_is_not_asked_for),
        cmocka_unit_test(a_token_has_no_place_on_a_command_line),
        cmocka_unit_test(a_token_is_shown_from_a_file),
        cmocka_unit_test(a_token_is_a_credential_like_a_key),
        cmocka_unit_test(tokens_are_listed_and_revoked),
        cmocka_unit_test(an_actor_is_suspended_resumed_and_listed),
        cmocka_unit_test(top_shows_growth_of_counters_and_levels_as_they_are),
        cmocka_unit_test(
            top_takes_a_counter_that_fell_as_begun_anew_and_leaves_out_what_it_cannot_see),
        cmocka_unit_test(one_sample_says_by_its_status_that_a_program_did_not_answer),
        cmocka_unit_test(top_ends_at_once_where_nothing_can_be_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
