/* What a message says of its record, and what a record's event lends to its headers. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/topic/topic.h"

static void a_stream_has_one_partition_for_ever(void **state)
{
    (void)state;
    /* Computed apart from this program, from what schemas/kafka.md says. */
    assert_int_equal(topic_partition(STR("node-1"), STR("0"), 4), 1);
    assert_int_equal(topic_partition(STR("node-2"), STR("0"), 4), 0);
    assert_int_equal(topic_partition(STR("node-1"), STR("0"), 1), 0);
    assert_int_equal(topic_partition(STR("engine-a"), STR("0"), 12), 4);
}

static void node_and_journal_do_not_run_together(void **state)
{
    (void)state;
    bool differ = false;
    for (uint32_t n = 2; n < 64; n++)
        differ = differ ||
                 topic_partition(STR("a1"), STR("2"), n) != topic_partition(STR("a"), STR("12"), n);
    assert_true(differ);
}

static const struct topic_headers good = {.node = STR("n"),
                                          .journal = STR("0"),
                                          .epoch = STR("0123456789abcdef"),
                                          .seq = STR("7"),
                                          .schema = STR("writ.audit/1")};

static void a_place_needs_all_of_its_headers(void **state)
{
    (void)state;
    struct topic_position p;
    const char *why = NULL;
    assert_true(topic_position_read(&good, &p, &why));
    assert_int_equal(p.seq, 7);
    struct topic_headers bad[] = {good, good, good, good, good, good, good, good, good, good};
    bad[0].schema = STR("writ.audit/2");
    bad[1].node = (struct str){0};
    bad[2].node = STR("\xff");
    bad[3].journal = STR("");
    bad[4].epoch = STR("0123456789ABCDEF");
    bad[5].epoch = STR("0123456789abcde");
    bad[6].seq = STR("0");
    bad[7].seq = STR("-1");
    bad[8].seq = STR("18446744073709551615");
    bad[9].node = STR("a\0b");
    for (size_t i = 0; i < 10; i++) {
        why = NULL;
        if (topic_position_read(&bad[i], &p, &why)) fail_msg("case %zu was taken", i);
        assert_non_null(why);
    }
}

static void find(const char *json, struct topic_event *ret, bool expected)
{
    static struct arena arena;
    arena_init(&arena, 1 << 10, 1 << 16);
    if (topic_event_find(str_from(json), &arena, ret) != expected) fail_msg("%s", json);
    arena_fini(&arena);
}

#define assert_text(s, literal) assert_true(str_equal((s), STR(literal)))

static void members_are_found_among_others_and_not_inside_them(void **state)
{
    (void)state;
    struct topic_event e;
    find(
        "{\"action\":\"a\\\"}\",\"args\":{\"event_id\":\"no\",\"x\":[\"]\",{}]},\"count\":3,\"event_id\":\"evt_1\",\"kind\":\"decision\","
        "\"reason\":\"{[\\\\\",\"tenant_id\":\"t\",\"trace_id\":\"abc\",\"zero\":[]}",
        &e, true);
    assert_text(e.event_id, "evt_1");
    assert_text(e.kind, "decision");
    assert_text(e.tenant_id, "t");
    assert_text(e.trace_id, "abc");
    find("{\"event_id\":\"evt_2\"}", &e, true);
    assert_true(str_is_absent(e.trace_id));
    find("{}", &e, true);
}

static void a_tenant_with_escapes_is_told_without_them(void **state)
{
    (void)state;
    struct arena arena;
    struct topic_event e;
    arena_init(&arena, 1 << 10, 1 << 16);
    assert_true(topic_event_find(STR("{\"tenant_id\":\"a\\\"b\\n\"}"), &arena, &e));
    assert_text(e.tenant_id, "a\"b\n");
    arena_fini(&arena);
}

static void what_is_no_object_gives_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "1",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1",
                                        "{\"a\":1}}",
                                        "{\"a\":\"x",
                                        "{\"a\":{\"b\":1}",
                                        "{\"event_id\":\"x\",}",
                                        "{\"event_id\":\"x\"} ",
                                        "{\"a\":\"\\"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct topic_event e;
        find(texts[i], &e, false);
        assert_true(str_is_absent(e.event_id));
    }
}

static bool traceparent_of(const char *trace_id, const char *event_id,
                           char to[TOPIC_TRACEPARENT_TEXT + 1])
{
    struct topic_event e = {.trace_id = str_from(trace_id), .event_id = str_from(event_id)};
    to[TOPIC_TRACEPARENT_TEXT] = '\0';
    return topic_traceparent(&e, to);
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

static void a_w3c_trace_id_makes_a_traceparent_and_no_other_does(void **state)
{
    (void)state;
    char text[TOPIC_TRACEPARENT_TEXT + 1];
    assert_true(traceparent_of(TRACE, "evt_01JD3Z0000000000000000000Z", text));
    assert_string_equal(text, "00-" TRACE "-000000000000001f-00");
    assert_false(
        traceparent_of("00000000000000000000000000000000", "evt_01JD3Z0000000000000000000Z", text));
    assert_false(traceparent_of("my-trace", "evt_01JD3Z0000000000000000000Z", text));
    assert_false(traceparent_of(NULL, "evt_01JD3Z0000000000000000000Z", text));
}

static void a_traceparent_names_the_span_of_its_record(void **state)
{
    (void)state;
    char text[TOPIC_TRACEPARENT_TEXT + 1];
    assert_true(traceparent_of(TRACE, "evt_01JD3Z3NDEKTSV4RRFFQ69G5FA", text));
    assert_string_equal(text, "00-" TRACE "-b2630f7dcc9815ea-00");
    assert_false(traceparent_of(TRACE, "not-ours", text));
    assert_false(traceparent_of(TRACE, NULL, text));
}

static struct topic_access plain(void)
{
    return (struct topic_access){.brokers = "b:1",
                                 .topic = "writ.audit.v1",
                                 .security = "plaintext",
                                 .mechanism = "PLAIN",
                                 .user = "",
                                 .password_file = "",
                                 .ca_file = "",
                                 .token_file = ""};
}

static const char *setting(const struct topic_settings *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->list[i].name, name) == 0) return s->list[i].value;
    return NULL;
}

static void options_that_contradict_each_other_are_refused_by_name(void **state)
{
    (void)state;
    struct topic_settings s;
    struct fault f;
    struct topic_access bad[] = {plain(), plain(), plain(), plain(), plain(),
                                 plain(), plain(), plain(), plain(), plain()};
    bad[0].topic = "a/b";
    bad[1].ca_file = "ca.pem";
    bad[2].user = "u";
    bad[3].security = "sasl_ssl";
    bad[4].security = "sasl_ssl", bad[4].user = "u", bad[4].password_file = "nowhere/at/all";
    bad[5].topic = "";
    bad[6].token_file = "t";
    bad[7].security = "sasl_ssl", bad[7].mechanism = "OAUTHBEARER";
    bad[8].security = "sasl_ssl", bad[8].mechanism = "OAUTHBEARER", bad[8].token_file = "t",
    bad[8].user = "u";
    bad[9].security = "sasl_ssl", bad[9].token_file = "t", bad[9].user = "u",
    bad[9].password_file = "p";
    static const char *const said[] = {
        "kafka.topic",       "kafka.ca_file",       "kafka.user",
        "kafka.user",        "kafka.password_file", "kafka.topic",
        "there is no login", "kafka.token_file: ",  "the token names the user",
        "takes no token"};
    for (size_t i = 0; i < 10; i++) {
        assert_int_not_equal(topic_settings_make(&bad[i], &s, &f), ERR_OK);
        assert_non_null(strstr(f.text, said[i]));
    }
}

static void a_bare_ipv6_address_is_no_broker(void **state)
{
    (void)state;
    static const char *const taken[] = {
        "a", "a:1", "[::1]:9092", "a:1,[::1]:9092, b", "PLAINTEXT://a:1", "PLAINTEXT://[::1]:1"};
    static const char *const refused[] = {"::1:9092", "a:1,::1", "PLAINTEXT://::1:9092", "a:1:2"};
    struct topic_settings s;
    struct fault f;
    struct topic_access a = plain();
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        a.brokers = taken[i];
        assert_int_equal(topic_settings_make(&a, &s, &f), ERR_OK);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        a.brokers = refused[i];
        assert_int_equal(topic_settings_make(&a, &s, &f), ERR_BAD_VALUE);
        assert_non_null(strstr(f.text, "kafka.brokers: \""));
    }
}

static void a_password_is_read_wiped_and_never_told(void **state)
{
    (void)state;
    char path[] = "/tmp/writ-topic-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "s3cret word\n", 12) == 12);
    close(fd);
    struct topic_settings s;
    struct fault f;
    struct topic_access a = plain();
    a.security = "sasl_ssl", a.user = "u", a.password_file = path, a.mechanism = "SCRAM-SHA-512";
    assert_int_equal(topic_settings_make(&a, &s, &f), ERR_OK);
    assert_string_equal(setting(&s, "sasl.password"), "s3cret word");
    assert_string_equal(setting(&s, "sasl.mechanism"), "SCRAM-SHA-512");
    assert_string_equal(setting(&s, "ssl.endpoint.identification.algorithm"), "https");
    topic_settings_wipe(&s);
    assert_string_equal(s.secret, "");
    fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0 && write(fd, "s3cret\0word\n", 12) == 12);
    close(fd);
    assert_int_equal(topic_settings_make(&a, &s, &f), ERR_BAD_VALUE);
    assert_non_null(strstr(f.text, "kafka.password_file"));
    assert_null(strstr(f.text, "s3cret"));
    assert_string_equal(s.secret, "");
    unlink(path);
}

static void a_token_need_not_be_there_at_the_start_and_no_password_is(void **state)
{
    (void)state;
    struct topic_settings s;
    struct fault f;
    struct topic_access a = plain();
    a.security = "sasl_ssl", a.mechanism = "OAUTHBEARER", a.token_file = "nowhere/at/all";
    assert_true(topic_access_has_token(&a));
    assert_int_equal(topic_settings_make(&a, &s, &f), ERR_OK);
    assert_string_equal(setting(&s, "sasl.mechanism"), "OAUTHBEARER");
    assert_null(setting(&s, "sasl.password"));
    a.security = "ssl"; /* the mechanism has its default where nobody logs in */
    assert_false(topic_access_has_token(&a));
}

static void trouble(const char *reason, int x509_error, int library, const char *expected)
{
    char text[TOPIC_TROUBLE_TEXT];
    topic_trouble_write(reason, x509_error, library, text);
    if (strstr(text, expected) == NULL) fail_msg("\"%s\" does not say \"%s\"", text, expected);
    assert_int_equal(strncmp(text, "Kafka: ", 7), 0);
}

static void a_complaint_comes_with_the_option_to_look_at(void **state)
{
    (void)state;
    enum { OLD = 0x020002ff, NEW = 0x020601ff };
    trouble("SSL handshake failed: certificate verify failed", 20, OLD,
            "kafka.ca_file (SSL handshake failed");
    trouble("SSL handshake failed: certificate verify failed", 64, OLD, "for another host");
    trouble("SSL handshake failed: certificate verify failed", 10, OLD, "has expired");
    trouble("SSL handshake failed: certificate verify failed", 77, OLD, "is refused");
    trouble("SSL handshake failed: unexpected eof", 0, OLD, "kafka.security");
    trouble("Disconnected: (connecting to a SSL listener?)", 0, OLD, "a port for TLS");
    trouble("SASL authentication error: {\"status\":\"invalid_token\"}", 0, OLD,
            "kafka.token_file");
    trouble("SASL authentication error: Invalid username or password", 0, OLD,
            "kafka.password_file");
    trouble("SASL authentication error: invalid credentials with SASL mechanism SCRAM-SHA-512", 0,
            OLD, "2.6.1");
    trouble("SASL authentication error: invalid credentials with SASL mechanism SCRAM-SHA-512", 0,
            NEW, "the password in kafka.password_file (");
    trouble("2/2 brokers are down", 0, OLD,
            "look at kafka.brokers; if they are running, look at kafka.security");
    trouble("ssl.ca.location failed: no such file", 0, OLD, "kafka.ca_file");
    trouble("127.0.0.1:1: Connect failed: Connection refused", 0, OLD,
            "Kafka: 127.0.0.1:1: Connect failed: Connection refused");
}

static void a_long_complaint_is_cut_and_its_hint_is_not(void **state)
{
    (void)state;
    char text[TOPIC_TROUBLE_TEXT], reason[1000];
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    topic_trouble_write(reason, 0, 0, text);
    assert_int_equal(strlen(text), TOPIC_TROUBLE_TEXT - 1);
    topic_trouble_write(reason, 62, 0, text);
    assert_int_equal(strlen(text), TOPIC_TROUBLE_TEXT - 1);
    assert_non_null(strstr(text, "another host"));
    assert_int_equal(text[strlen(text) - 1], ')');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_has_one_partition_for_ever),
        cmocka_unit_test(node_and_journal_do_not_run_together),
        cmocka_unit_test(a_place_needs_all_of_its_headers),
        cmocka_unit_test(members_are_found_among_others_and_not_inside_them),
        cmocka_unit_test(a_tenant_with_escapes_is_told_without_them),
        cmocka_unit_test(what_is_no_object_gives_nothing),
        cmocka_unit_test(a_w3c_trace_id_makes_a_traceparent_and_no_other_does),
        cmocka_unit_test(a_traceparent_names_the_span_of_its_record),
        cmocka_unit_test(options_that_contradict_each_other_are_refused_by_name),
        cmocka_unit_test(a_bare_ipv6_address_is_no_broker),
        cmocka_unit_test(a_password_is_read_wiped_and_never_told),
        cmocka_unit_test(a_token_need_not_be_there_at_the_start_and_no_password_is),
        cmocka_unit_test(a_complaint_comes_with_the_option_to_look_at),
        cmocka_unit_test(a_long_complaint_is_cut_and_its_hint_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
