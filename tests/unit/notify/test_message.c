/* What a message says in each format, its signature, and which addresses are public. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "cel/cel.h"
#include "json/json.h"
#include "crypto/base64.h"
#include "pipeline/notify/message.h"
#include "pipeline/notify/signature.h"

/* What an agent may try: other formats' markup, quotes, lines, and invisible characters. */
#define HOSTILE                                                                                    \
    "<!channel> *b* [x](http://evil) \"\\\n> {{DATE(x)}} \xe2\x80\xae"                             \
    "abc\xe2\x80\x8b"
#define HOSTILE_SHOWN                                                                              \
    "<!channel> *b* [x](http://evil) \"\\\\u{A}> {{DATE(x)}} \\u{202E}abc\\u{200B}"

static struct event hostile_event(void)
{
    return (struct event){.acting_for = STR(HOSTILE),
                          .action = STR(HOSTILE),
                          .actor = STR(HOSTILE),
                          .event_id = STR("evt_01JD0000000000000000000000"),
                          .expires_at = 1795168800123,
                          .kind = STR("review.enqueued"),
                          .policy_name = STR("payments"),
                          .reason = STR("Refunds over 500 need finance."),
                          .resource = STR("{\"id\":\"17\",\"type\":\"<b>\\u202einvoice\"}"),
                          .review_id = STR("rev_01JD0000000000000000000000"),
                          .rule = STR("review:large-refunds"),
                          .tenant_id = STR("default"),
                          .timestamp = 1795167000123,
                          .trace_id = STR("t")};
}

static const struct json *parsed(struct arena *arena, const struct buf *text)
{
    static const struct json_options options = {0};
    struct json *v;
    struct fault f;
    assert_false(text->overflow);
    if (json_read(buf_view(text), &options, arena, &v, &f) != ERR_OK)
        fail_msg("%s in %.*s", f.text, STR_FORMAT(buf_view(text)));
    return v;
}

/* The texts anywhere below, with a blank behind each. */
static void put_texts(struct buf *out, const struct json *v, const char *key)
{
    if (v->type == JSON_STRING && str_equal(v->key, str_from(key))) {
        buf_put(out, v->string);
        buf_put_byte(out, '\n');
    }
    if (v->type != JSON_OBJECT && v->type != JSON_ARRAY) return;
    for (const struct json *child = v->child; child != NULL; child = child->next)
        put_texts(out, child, key);
}

static void has(const struct buf *text, const char *part)
{
    if (memmem(text->bytes, text->size, part, strlen(part)) == NULL)
        fail_msg("no \"%s\" in\n%.*s", part, STR_FORMAT(buf_view(text)));
}

static void has_not(const struct buf *text, const char *part)
{
    if (memmem(text->bytes, text->size, part, strlen(part)) != NULL)
        fail_msg("\"%s\" is in\n%.*s", part, STR_FORMAT(buf_view(text)));
}

typedef void put_json(struct buf *out, const struct message *m);

static void an_agents_words_are_literal_and_stand_apart(void **state)
{
    (void)state;
    static put_json *const formats[] = {message_put_slack, message_put_teams};
    static const char *const literal[] = {"rich_text_quote", "RichTextBlock"};
    const struct event e = hostile_event();
    const struct message m = {
        .kind = e.kind, .event = &e, .console = STR("https://w.example/console")};
    for (size_t i = 0; i < 2; i++) {
        struct buf text, words;
        struct arena arena;
        arena_init(&arena, 1 << 16, 1 << 20);
        buf_init(&text, 1 << 10, MESSAGE_BYTES_MAX);
        buf_init(&words, 1 << 10, MESSAGE_BYTES_MAX);
        formats[i](&text, &m);
        const struct json *v = parsed(&arena, &text);
        put_texts(&words, v, "text");
        has(&words, "agent: " HOSTILE_SHOWN "\n");
        has(&words, "action: " HOSTILE_SHOWN "\n");
        has(&words, "on behalf of: " HOSTILE_SHOWN "\n");
        has(&words, "resource: <b>\\u{202E}invoice:17\n");
        has(&words, "As the agent sent it");
        has(&words, "expires: 2026-11-20 10:00:00 UTC\n");
        has_not(&words, "\xe2\x80\xae");
        has(&text, literal[i]);
        has_not(&text, "mrkdwn");
        has(&text, "https://w.example/console/#/review/rev_01JD0000000000000000000000");
        buf_fini(&text);
        buf_fini(&words);
        arena_fini(&arena);
    }
}

static void a_mail_is_one_text_with_headers_of_ours(void **state)
{
    (void)state;
    struct event e = hostile_event();
    struct buf text;
    const struct message first = {.kind = e.kind, .event = &e},
                         reminder = {.kind = STR(MESSAGE_REMINDER), .event = &e};
    buf_init(&text, 1 << 10, MESSAGE_BYTES_MAX);
    message_put_mail(&text, &first, STR("writ@example.com"), STR("a@example.com, b@example.com"),
                     1795167000);
    has(&text,
        "Date: Fri, 20 Nov 2026 09:30:00 +0000\r\nFrom: writ@example.com\r\nTo: a@example.com, b@example.com\r\n"
        "Subject: A review waits for a decision\r\nMessage-ID: <rev_01JD0000000000000000000000@writ.invalid>\r\n");
    has_not(&text, "channel");
    buf_clear(&text);
    message_put_mail(&text, &reminder, STR("writ@example.com"), STR("a@example.com"), 1795167000);
    has(&text, "Message-ID: <evt_01JD0000000000000000000000.reminder@writ.invalid>\r\n"
               "In-Reply-To: <rev_01JD0000000000000000000000@writ.invalid>\r\n");
    buf_fini(&text);
}

static void a_long_text_is_cut_and_every_message_fits(void **state)
{
    (void)state;
    static char hidden[2000], plain[2000];
    memset(hidden, 1, sizeof hidden);
    memset(plain, 'a', sizeof plain);
    struct event e = hostile_event();
    e.acting_for = e.action = e.actor = e.user_id = e.tenant_id = e.resolved_by =
        str_of(hidden, 1024);
    e.resolution_note = str_of(hidden, 2000);
    e.reason = str_of(plain, 2000);
    const struct message m = {.kind = STR("review.denied"), .event = &e};
    put_json *const formats[] = {message_put_slack, message_put_teams};
    struct buf text;
    buf_init(&text, 1 << 10, MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < 2; i++) {
        buf_clear(&text);
        formats[i](&text, &m);
        assert_false(text.overflow);
        has(&text, "aaa… (2000 bytes)");
        assert_true(text.size < 20000);
    }
    buf_clear(&text);
    message_put_mail(&text, &m, STR("a@b"), STR("a@b"), 0);
    assert_false(text.overflow);
    buf_fini(&text);
}

/* The example of the specification's own libraries. */
static void a_signature_is_that_of_standard_webhooks(void **state)
{
    (void)state;
    static const char secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    char bytes[256];
    struct buf out = buf_over(bytes, sizeof bytes);
    assert_true(signature_secrets_are_valid(STR("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")));
    signature_put(&out, str_from(secret), STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                  STR("{\"test\": 2432232314}"));
    assert_true(str_equal(buf_view(&out), STR("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")));
    buf_clear(&out);
    signature_put(
        &out, STR("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330, STR("{\"test\": 2432232314}"));
    has(&out, " v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void what_is_no_secret_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==" /* 22 bytes */,
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-w",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw  whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (signature_secrets_are_valid(str_from(wrong[i]))) fail_msg("\"%s\" was taken", wrong[i]);
}

static void base64_is_read_as_it_is_written(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 64; size++) {
        uint8_t from[64], to[66];
        char bytes[96];
        size_t read;
        struct buf out = buf_over(bytes, sizeof bytes);
        for (size_t i = 0; i < size; i++) from[i] = (uint8_t)(251 * i + size);
        base64_put(&out, str_of((char *)from, size), 0);
        assert_true(base64_read(buf_view(&out), to, &read) && read == size);
        assert_memory_equal(from, to, size);
    }
    uint8_t to[66];
    size_t read;
    static const char *const wrong[] = {
        "", "A", "AB=", "AB=C", "A===", "AB==AB==", "AQ=A", "AB==", "AAB="};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (base64_read(str_from(wrong[i]), to, &read)) fail_msg("\"%s\" was taken", wrong[i]);
}

static void only_public_addresses_are_public(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool is_public;
    } cases[] = {{"1.1.1.1", true},
                 {"2606:4700::1111", true},
                 {"127.0.0.1", false},
                 {"0.0.0.0", false},
                 {"10.1.2.3", false},
                 {"172.16.0.1", false},
                 {"192.168.1.1", false},
                 {"169.254.169.254", false},
                 {"100.64.0.1", false},
                 {"224.0.0.1", false},
                 {"255.255.255.255", false},
                 {"::1", false},
                 {"::", false},
                 {"fe80::1", false},
                 {"fd00::1", false},
                 {"ff02::1", false},
                 {"::ffff:10.0.0.1", false},
                 {"::ffff:1.1.1.1", true},
                 {"64:ff9b::a00:1", false},
                 {"2002:7f00:1::", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[16];
        bool is_six = strchr(cases[i].address, ':') != NULL;
        assert_int_equal(inet_pton(is_six ? AF_INET6 : AF_INET, cases[i].address, bytes), 1);
        if (cel_address_is_public(bytes, is_six ? 16 : 4) != cases[i].is_public)
            fail_msg("%s", cases[i].address);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agents_words_are_literal_and_stand_apart),
        cmocka_unit_test(a_mail_is_one_text_with_headers_of_ours),
        cmocka_unit_test(a_long_text_is_cut_and_every_message_fits),
        cmocka_unit_test(a_signature_is_that_of_standard_webhooks),
        cmocka_unit_test(what_is_no_secret_is_refused),
        cmocka_unit_test(base64_is_read_as_it_is_written),
        cmocka_unit_test(only_public_addresses_are_public),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
