/* Batches over HTTP: what goes out, and what each answer is taken for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "pipeline/publish/transport.h"
#include "unit/publish/peer.h"

#define KEY "wk_0000000000000000000000000_secret"

static const struct sha256 record_key = {{1}};

struct wire {
    struct peer *peer;
    struct transport *transport;
    char key_file[96];
};

static void write_key(const struct wire *w, const char *text)
{
    FILE *file = fopen(w->key_file, "w");
    assert_true(file != NULL && fchmod(fileno(file), 0600) == 0);
    fputs(text, file);
    fclose(file);
}

static struct wire wire_create(void)
{
    struct wire w = {.peer = peer_create()};
    struct fault f;
    snprintf(w.key_file, sizeof w.key_file, "%s/key", w.peer->folder);
    write_key(&w, KEY "\n");
    assert_int_equal(transport_http_create(w.peer->address, NULL, w.key_file, "node 1", &record_key,
                                           &w.transport, &f),
                     ERR_OK);
    return w;
}

static void wire_destroy(struct wire *w)
{
    w->transport->destroy(w->transport);
    unlink(w->key_file);
    peer_destroy(w->peer);
}

static enum err find(struct wire *w, struct stream_report *ret, struct fault *f)
{
    *ret = (struct stream_report){0};
    return w->transport->find(w->transport->state, ret, f);
}

static const struct sha256 two_leaves[2] = {{{2}}, {{3}}};
static const struct batch two_records = {.leaves = two_leaves,
                                         .first_seq = 41,
                                         .count = 2,
                                         .epoch = "0123456789abcdef",
                                         .lines = {"{\"a\":1}\n{\"b\":2}\n", 16}};

static enum sent send_two(struct wire *w, struct send_answer *ret, struct fault *f)
{
    struct stream_report ignored;
    assert_int_equal(find(w, &ignored, f), ERR_OK); /* as the publisher does first */
    return w->transport->send(w->transport->state, &two_records, ret, f);
}

#define POSITIONS "{\"log_id\":\"l1\",\"streams\":[]}"

static void assert_has(const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text == NULL ? "(nothing)" : text);
}

static void positions_are_asked_for_with_the_key_and_the_encoded_node(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f;
    peer_will_answer(w.peer, 200, NULL, POSITIONS);
    assert_int_equal(find(&w, &r, &f), ERR_OK);
    assert_false(r.known);
    assert_string_equal(r.log_id, "l1");
    assert_has(peer_request(w.peer, 0),
               "GET /api/v1/audit/positions?node=node%201&journal=0 HTTP/1.1\r\n");
    assert_has(peer_request(w.peer, 0), "Authorization: Bearer " KEY "\r\n");
    wire_destroy(&w);
}

static void a_platform_that_cannot_be_asked_for_one_journal_is_asked_for_all(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f;
    peer_will_answer(w.peer, 400, NULL,
                     "{\"error\":\"journal: is not known here\",\"code\":\"unknown_parameter\"}");
    peer_will_answer(
        w.peer, 200, NULL,
        "{\"log_id\":\"l1\",\"streams\":[{\"journal\":\"0\",\"epoch\":\"0123456789abcdef\",\"next_seq\":42}]}");
    assert_int_equal(find(&w, &r, &f), ERR_OK);
    assert_int_equal(r.next_seq, 42);
    assert_has(peer_request(w.peer, 1), "GET /api/v1/audit/positions?node=node%201 HTTP/1.1\r\n");
    wire_destroy(&w);
}

static void the_stream_of_journal_zero_is_the_one_that_counts(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f;
    peer_will_answer(
        w.peer, 200, NULL,
        "{\"log_id\":\"l1\",\"streams\":[{\"journal\":\"1\",\"epoch\":\"ffffffffffffffff\",\"next_seq\":7},"
        "{\"journal\":\"0\",\"epoch\":\"0123456789abcdef\",\"next_seq\":42,\"want_from\":40},"
        "{\"journal\":\"2\",\"epoch\":\"eeeeeeeeeeeeeeee\",\"next_seq\":9}]}");
    assert_int_equal(find(&w, &r, &f), ERR_OK);
    assert_true(r.known);
    assert_int_equal(r.next_seq, 42);
    assert_int_equal(r.want_from, 40);
    assert_memory_equal(r.epoch, "0123456789abcdef", EPOCH_TEXT);
    wire_destroy(&w);
}

static void what_is_wanted_is_the_next_one_where_nothing_else_is_said(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f;
    peer_will_answer(
        w.peer, 200, NULL,
        "{\"log_id\":\"l1\",\"streams\":[{\"journal\":\"0\",\"epoch\":\"0123456789abcdef\",\"next_seq\":42}]}");
    assert_int_equal(find(&w, &r, &f), ERR_OK);
    assert_int_equal(r.want_from, 42);
    wire_destroy(&w);
}

#define TEN(x) x x x x x x x x x x
#define LONG_NAME TEN(TEN("n"))

static void positions_that_are_not_as_they_should_be_are_a_failure(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"log_id\":\"l\"}",
        "{\"log_id\":5,\"streams\":[]}",
        "{\"log_id\":\"\",\"streams\":[]}",
        "{\"log_id\":\"" LONG_NAME "\",\"streams\":[]}",
        "{\"log_id\":\"l\",\"streams\":[{\"journal\":\"0\",\"epoch\":\"short\",\"next_seq\":2}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct wire w = wire_create();
        struct stream_report r;
        struct fault f = {0};
        peer_will_answer(w.peer, 200, NULL, wrong[i]);
        assert_int_equal(find(&w, &r, &f), ERR_UPSTREAM_FAILED);
        assert_has(f.text, "the platform");
        wire_destroy(&w);
    }
}

static void a_refusal_is_told_with_its_code_and_without_the_key(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f = {0};
    peer_will_answer(w.peer, 401, NULL,
                     "{\"error\":\"no valid credential\",\"code\":\"unauthenticated\"}");
    assert_int_equal(find(&w, &r, &f), ERR_UPSTREAM_FAILED);
    assert_has(f.text, "401 unauthenticated: no valid credential");
    assert_null(strstr(f.text, "secret"));
    wire_destroy(&w);
}

static void a_long_refusal_is_cut_between_characters(void **state)
{
    (void)state;
    struct stream_report r;
    size_t bad;
    for (int shift = 0; shift < 2; shift++) { /* one of the two cuts comes within a character */
        struct wire w = wire_create();
        struct fault f = {0};
        peer_will_answer(w.peer, 500, NULL,
                         shift == 0
                             ? "{\"error\":\"" TEN(TEN("\xC3\xA9")) "\",\"code\":\"internal\"}"
                             : "{\"error\":\"x" TEN(TEN("\xC3\xA9")) "\",\"code\":\"internal\"}");
        assert_int_equal(find(&w, &r, &f), ERR_UPSTREAM_FAILED);
        assert_true(str_is_utf8(str_from(f.text), &bad));
        wire_destroy(&w);
    }
}

static void a_key_that_was_replaced_is_taken_up_at_the_next_find(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f;
    peer_will_answer(w.peer, 200, NULL, POSITIONS);
    assert_int_equal(find(&w, &r, &f), ERR_OK);
    write_key(&w, "wk_other");
    assert_int_equal(find(&w, &r, &f), ERR_OK);
    assert_has(peer_request(w.peer, 1), "Authorization: Bearer wk_other\r\n");
    wire_destroy(&w);
}

static void a_batch_says_whose_records_it_has(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct send_answer a = {0};
    struct fault f;
    peer_will_answer(w.peer, 200, NULL, POSITIONS);
    peer_will_answer(w.peer, 201, NULL,
                     "{\"accepted\":1,\"duplicates\":1,\"clashes\":3,\"next_seq\":43}");
    assert_int_equal(send_two(&w, &a, &f), SENT_ACCEPTED);
    assert_int_equal(a.accepted, 1);
    assert_int_equal(a.duplicates, 1);
    assert_int_equal(a.clashes, 3);
    assert_int_equal(a.next_seq, 43);
    const char *request = peer_request(w.peer, 1);
    static const char *const parts[] = {"POST /api/v1/audit/ingest HTTP/1.1\r\n",
                                        "Content-Type: application/x-ndjson\r\n",
                                        "Authorization: Bearer " KEY "\r\n",
                                        "Writ-Node: node 1\r\n",
                                        "Writ-Journal: 0\r\n",
                                        "Writ-Epoch: 0123456789abcdef\r\n",
                                        "Writ-First-Seq: 41\r\n",
                                        "\r\n\r\n{\"a\":1}\n{\"b\":2}\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) assert_has(request, parts[i]);
    wire_destroy(&w);
}

/* run_mac() has its vectors; here it is of what is sent. */
static void a_batch_has_its_mac_and_the_checkpoint_if_there_is_one(void **state)
{
    (void)state;
    static const struct run_checkpoint checkpoints[] = {{0, {0}, {0}},
                                                        {40, STR("bm90ZQ=="), STR("Zg==")}};
    struct wire w = wire_create();
    struct hasher *h = hasher_create();
    const struct hmac_key key = run_key_prepare(h, &record_key);
    struct send_answer a = {0};
    struct stream_report ignored;
    struct fault f;
    peer_will_answer(w.peer, 200, NULL, POSITIONS);
    assert_int_equal(find(&w, &ignored, &f), ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        char mac[SHA256_HEX], line[128];
        const struct run run = {.epoch = STR("0123456789abcdef"),
                                .first_seq = 41,
                                .count = 2,
                                .leaves = two_leaves,
                                .checkpoint = checkpoints[i]};
        struct batch b = two_records;
        b.checkpoint = checkpoints[i];
        peer_will_answer(w.peer, 201, NULL, "{\"accepted\":2,\"next_seq\":43}");
        assert_int_equal(w.transport->send(w.transport->state, &b, &a, &f), SENT_ACCEPTED);
        const char *request = peer_request(w.peer, 1 + i);
        sha256_write_hex(run_mac(h, &key, &run), mac);
        snprintf(line, sizeof line, "Writ-Mac: %.*s\r\n", SHA256_HEX, mac);
        assert_has(request, line);
        if (i == 1)
            assert_has(request, "Writ-Checkpoint: bm90ZQ==\r\nWrit-From-Seq: 40\r\n"
                                "Writ-Frontier: Zg==\r\n");
        else
            assert_null(strstr(request, "Writ-Checkpoint"));
    }
    hasher_destroy(h);
    wire_destroy(&w);
}

static void each_refusal_of_a_batch_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *body;
        enum sent sent;
        uint64_t want_from;
    } cases[] = {
        {409, "{\"error\":\"e\",\"code\":\"stream_gap\",\"want_from\":12}", SENT_GAP, 12},
        {409, "{\"error\":\"e\",\"code\":\"epoch_unknown\"}", SENT_DIVERGED, 0},
        {409, "{\"error\":\"e\",\"code\":\"event_conflict\"}", SENT_FAILED, 0},
        {409, "nothing", SENT_FAILED, 0},
        {413, "{\"error\":\"e\",\"code\":\"body_too_large\"}", SENT_TOO_LARGE, 0},
        {408, "{\"error\":\"e\",\"code\":\"request_timeout\"}", SENT_LATE, 0},
        {403, "{\"error\":\"e\",\"code\":\"wrong_node\"}", SENT_FAILED, 0},
        {503, "{\"error\":\"e\",\"code\":\"overloaded\"}", SENT_FAILED, 0},
        {500, "{\"error\":\"e\",\"code\":\"stream_gap\",\"want_from\":12}", SENT_FAILED, 0},
        {200, "{\"next_seq\":43}", SENT_FAILED, 0},
        {201, "{}", SENT_FAILED, 0},
        {201, "<html>", SENT_FAILED, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wire w = wire_create();
        struct send_answer a = {0};
        struct fault f = {0};
        peer_will_answer(w.peer, 200, NULL, POSITIONS);
        peer_will_answer(w.peer, cases[i].status, NULL, cases[i].body);
        assert_int_equal(send_two(&w, &a, &f), cases[i].sent);
        assert_int_equal(a.want_from, cases[i].want_from);
        assert_true(cases[i].sent == SENT_GAP || f.text[0] != '\0');
        wire_destroy(&w);
    }
}

static void a_platform_that_is_not_there_is_a_failure(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct stream_report r;
    struct fault f = {0};
    unlink(w.peer->address + 5);
    assert_int_not_equal(find(&w, &r, &f), ERR_OK);
    assert_has(f.text, "the platform cannot be reached: ");
    wire_destroy(&w);
}

static void a_key_file_that_holds_no_key_is_refused_by_name(void **state)
{
    (void)state;
    struct wire w = wire_create();
    struct transport *t;
    struct fault f;
    static const char *const wrong[] = {"", "\n", "two words\n", "a\nb\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_key(&w, wrong[i]);
        assert_int_equal(
            transport_http_create(w.peer->address, NULL, w.key_file, "n", &record_key, &t, &f),
            ERR_BAD_VALUE);
        assert_has(f.text, "platform.key_file");
    }
    assert_int_equal(
        transport_http_create(w.peer->address, NULL, "/nowhere/key", "n", &record_key, &t, &f),
        ERR_NOT_FOUND);
    assert_has(f.text, "/nowhere/key");
    write_key(&w, KEY);
    assert_int_not_equal(
        transport_http_create("ftp://x", NULL, w.key_file, "n", &record_key, &t, &f), ERR_OK);
    wire_destroy(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_are_asked_for_with_the_key_and_the_encoded_node),
        cmocka_unit_test(a_platform_that_cannot_be_asked_for_one_journal_is_asked_for_all),
        cmocka_unit_test(the_stream_of_journal_zero_is_the_one_that_counts),
        cmocka_unit_test(what_is_wanted_is_the_next_one_where_nothing_else_is_said),
        cmocka_unit_test(positions_that_are_not_as_they_should_be_are_a_failure),
        cmocka_unit_test(a_refusal_is_told_with_its_code_and_without_the_key),
        cmocka_unit_test(a_long_refusal_is_cut_between_characters),
        cmocka_unit_test(a_key_that_was_replaced_is_taken_up_at_the_next_find),
        cmocka_unit_test(a_batch_says_whose_records_it_has),
        cmocka_unit_test(a_batch_has_its_mac_and_the_checkpoint_if_there_is_one),
        cmocka_unit_test(each_refusal_of_a_batch_is_told_apart),
        cmocka_unit_test(a_platform_that_is_not_there_is_a_failure),
        cmocka_unit_test(a_key_file_that_holds_no_key_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
