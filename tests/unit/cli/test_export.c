/* Rows of an export, and the pages that it asks for: what is said to the platform, and what is made
 * of an answer that no platform of ours gives. Files and crashes are in tests/e2e/test_export.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/export_row.h"
#include "unit/cli/rig.h"

/* ---- cells ---- */

static void assert_cell(const char *text, bool guarded, const char *cell)
{
    char bytes[256];
    struct buf out = buf_over(bytes, sizeof bytes);
    export_put_cell(&out, str_from(text), guarded);
    if (!str_equal(buf_view(&out), str_from(cell)))
        fail_msg("%s became %.*s and not %s", text, STR_FORMAT(buf_view(&out)), cell);
}

static void a_cell_is_quoted_where_it_has_to_be(void **state)
{
    (void)state;
    assert_cell("plain", true, "plain");
    assert_cell("a=b", true, "a=b");
    assert_cell("", true, "\"\"");
    assert_cell("a,b", true, "\"a,b\"");
    assert_cell("a;b", true, "\"a;b\"");
    assert_cell("a\tb", true, "\"a\tb\"");
    assert_cell("say \"hi\"", true, "\"say \"\"hi\"\"\"");
    assert_cell("\"", true, "\"\"\"\"");
    assert_cell("two\nlines", true, "\"two\nlines\"");
    assert_cell("two\r\nlines", true, "\"two\r\nlines\"");
    assert_cell(" blank", true, "\" blank\"");
    assert_cell("blank ", true, "\"blank \"");
}

static void a_formula_is_guarded_and_the_guard_can_be_taken_off(void **state)
{
    (void)state;
    static const char *const formulas[] = {"=1",      "+1",      "-1",     "@x", "\t=1",
                                           "\r=1",    "\n=1",    "'=1",    "'",  "\uFF1D1",
                                           "\uFF0B1", "\uFF0D1", "\uFF201"};
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++) {
        char cell[32];
        snprintf(cell, sizeof cell, "\"'%s\"", formulas[i]);
        assert_cell(formulas[i], true, cell);
    }
    assert_cell("=1", false, "=1");
    assert_cell("'", false, "'");
    assert_cell("=\"a\"", true, "\"'=\"\"a\"\"\"");
}

/* ---- rows ---- */

static void assert_row(const char *row, enum export_format format, const char *begin,
                       const char *has)
{
    struct arena arena;
    struct json *root;
    struct fault fault;
    char bytes[4096] = "";
    struct buf out = buf_over(bytes, sizeof bytes - 1);
    arena_init(&arena, 1 << 12, 1 << 20);
    assert_int_equal(json_read(str_from(row), NULL, &arena, &root, &fault), ERR_OK);
    export_put_row(&out, root, format, true);
    bytes[out.size] = '\0';
    if (strncmp(bytes, begin, strlen(begin)) != 0)
        fail_msg("%s does not begin with %s", bytes, begin);
    assert_has(bytes, has);
    arena_fini(&arena);
}

static void a_row_has_every_column_and_nothing_for_what_is_absent(void **state)
{
    (void)state;
    char head[4096] = "";
    struct buf out = buf_over(head, sizeof head - 1);
    export_put_head(&out, EXPORT_CSV);
    size_t commas = 0;
    for (size_t i = 0; i < out.size; i++) commas += head[i] == ',';
    assert_int_equal(commas + 1, 6 + 48);
    assert_true(strncmp(head, "id,created_at,node,journal,epoch,seq,acting_for,action,", 55) == 0);
    assert_row("{\"id\":7,\"created_at\":\"t\",\"source\":{\"epoch\":\"e\",\"journal\":\"0\","
               "\"node\":\"n\",\"seq\":9},\"event\":"
               "{\"action\":\"=x\",\"args\":{\"a\":[1,\"b\"]},\"count\":3,\"reason\":\"\",\"would_"
               "have\":null}}",
               EXPORT_CSV, "7,t,n,0,e,9,,\"'=x\",,\"{\"\"a\"\":[1,\"\"b\"\"]}\",,", ",\"\",");
    assert_row("{\"id\":7,\"created_at\":\"t\",\"event\":{}}", EXPORT_CSV, "7,t,,,,,,,", ",\r\n");
}

static void a_line_is_the_events_bytes_and_always_one_line(void **state)
{
    (void)state;
    assert_row("{\"id\":1,\"event\":{ \"b\" : 1.50, \"a\":\"\\u0041\" }}", EXPORT_NDJSON,
               "{ \"b\" : 1.50, \"a\":\"\\u0041\" }\n", "");
    assert_row("{\"id\":1,\"event\":{\n\"b\":1.50,\n\"a\":\"\\n\"}}", EXPORT_NDJSON,
               "{\"a\":\"\\n\",\"b\":1.5}\n", "");
}

/* ---- the platform ---- */

static void it_asks_for_the_end_and_then_for_pages_from_the_oldest_on(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, "",
                     "{\"events\":[{\"id\":9,\"created_at\":\"t\",\"event\":{\"event_id\":\"e9\"}}]"
                     ",\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, "",
                     "{\"events\":[{\"id\":3,\"created_at\":\"t\",\"event\":{\"event_id\":\"e3\"}}]"
                     ",\"next_cursor\":3}");
    peer_will_answer(r->peer, 200, "",
                     "{\"events\":[{\"id\":9,\"created_at\":\"t\",\"event\":{\"event_id\":\"e9\"}}]"
                     ",\"next_cursor\":9}");
    assert_int_equal(
        RUN(r, "audit", "export", "--actor", "a b", "--user-id", "u", "--from", "2026-11-20"),
        DONE);
    assert_string_equal(r->out, "{\"event_id\":\"e3\"}\n{\"event_id\":\"e9\"}\n");
    assert_int_equal(peer_request_count(r->peer),
                     3); /* what came after the end was not asked for */
    assert_has(
        peer_request(r->peer, 0),
        "/api/v1/"
        "audit?actor=a%20b&user_id=u&from=2026-11-20T00%3A00%3A00Z&order=desc&exact=true&limit=1&");
    assert_has(peer_request(r->peer, 1), "&order=asc&exact=true&limit=500&cursor=0 ");
    assert_has(peer_request(r->peer, 2), "&cursor=3 ");
    rig_destroy(r);
}

static void an_answer_that_is_no_page_ends_it(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "[]",
        "{}",
        "{\"events\":{}}",
        "not json",
        ("{\"events\":[{\"id\":5,\"event\":{\"event_id\":\"e\"}},{\"id\":5,\"event\":{\"event_id\":"
         "\"e\"}}],\"next_cursor\":0}"),
        "{\"events\":[{\"id\":5,\"kind\":\"decision\",\"event_id\":\"e\"}],\"next_cursor\":0}",
        "{\"events\":[{\"event\":{\"event_id\":\"e\"}}],\"next_cursor\":0}"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct rig *r = rig_create();
        peer_will_answer(
            r->peer, 200, "",
            "{\"events\":[{\"id\":9,\"event\":{\"event_id\":\"e9\"}}],\"next_cursor\":9}");
        peer_will_answer(r->peer, 200, "", answers[i]);
        if (RUN(r, "audit", "export") != REFUSED) fail_msg("%s was taken", answers[i]);
        assert_has(r->err, "no page of events");
        assert_string_equal(r->out, "");
        rig_destroy(r);
    }
}

static void the_way_there_is_told(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    assert_int_equal(RUN(r, "audit", "export", "--output", "/nowhere/at/all"), REFUSED);
    assert_has(r->err, "/nowhere/at/all");
    assert_int_equal(RUN(r, "audit", "export", "--from", "2026-13-01"), USAGE);
    assert_has(r->err, "--from");
    assert_int_equal(RUN(r, "audit", "export", "--format", "xml"), USAGE);
    assert_has(r->err, "ndjson or csv");
    assert_int_equal(RUN(r, "audit", "export", "--unguarded"), USAGE);
    assert_has(r->err, "--format csv");
    assert_int_equal(RUN(r, "audit", "export", "--resume"), USAGE);
    assert_has(r->err, "--output");
    assert_int_equal(peer_request_count(r->peer), 0);
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_is_quoted_where_it_has_to_be),
        cmocka_unit_test(a_formula_is_guarded_and_the_guard_can_be_taken_off),
        cmocka_unit_test(a_row_has_every_column_and_nothing_for_what_is_absent),
        cmocka_unit_test(a_line_is_the_events_bytes_and_always_one_line),
        cmocka_unit_test(it_asks_for_the_end_and_then_for_pages_from_the_oldest_on),
        cmocka_unit_test(an_answer_that_is_no_page_ends_it),
        cmocka_unit_test(the_way_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
