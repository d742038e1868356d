/* Which configuration of a channel is refused, and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/notify/channel.h"

static char secret_path[64];

static int set_up(void **state)
{
    (void)state;
    static const char secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
    snprintf(secret_path, sizeof secret_path, "%s", "/tmp/writ-channel-XXXXXX");
    int fd = mkstemp(secret_path);
    if (fd < 0 || write(fd, secret, strlen(secret)) != (ssize_t)strlen(secret)) return -1;
    return close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(secret_path);
}

#define CHANNEL(...)                                                                               \
    {                                                                                              \
        .name = "c", .kind_word = "", .url = "", .url_file = "", .secret_file = "",                \
        .tenant = "default", .asker = "", .from = "", .to = "", .user = "", __VA_ARGS__            \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

static void a_channel_that_cannot_work_is_refused(void **state)
{
    (void)state;
    const struct {
        struct notify_channel channel;
        const char *told;
    } cases[] = {
        {CHANNEL(.url = "https://a/"),
         "notify.c.kind: is missing; it must be webhook, slack, teams or mail"},
        {CHANNEL(.kind_word = "slack"), "notify.c.url: set either url or url_file"},
        {CHANNEL(.kind_word = "slack", .url = "https://a/", .url_file = "/f"),
         "notify.c.url: set either"},
        {CHANNEL(.kind_word = "slack", .url = "http://a/"), "notify.c.url: must be https://"},
        {CHANNEL(.kind_word = "slack", .url = "ftp://a/"),
         "notify.c.url: must be a URL such as https://host/path"},
        {CHANNEL(.kind_word = "slack", .url = "https://a b/"), "notify.c.url: must be a URL"},
        {CHANNEL(.kind_word = "slack", .url = "https://u:p@a/"),
         "notify.c.url: must have a host, and no user"},
        {CHANNEL(.kind_word = "slack", .url = "https:///x"), "notify.c.url: must have a host"},
        {CHANNEL(.kind_word = "slack", .url_file = "/nonexistent"), "notify.c.url_file: "},
        {CHANNEL(.kind_word = "slack", .url = "https://a/", .secret_file = secret_path),
         "notify.c.secret_file: has no use"},
        {CHANNEL(.kind_word = "teams", .url = "https://a/", .asker = "x"),
         "notify.c.asker: is for channels of kind webhook"},
        {CHANNEL(.kind_word = "webhook", .url = "https://a/"), "notify.c.secret_file: is missing"},
        {CHANNEL(.kind_word = "webhook", .url = "https://a/", .secret_file = "/nonexistent"),
         "notify.c.secret_file: "},
        {CHANNEL(.kind_word = "webhook", .url = "https://a/", .secret_file = secret_path,
                 .to = "a@b"),
         "notify.c.from: from, to and user are for"},
        {CHANNEL(.kind_word = "webhook", .url = "https://a/", .secret_file = secret_path,
                 .tenant = ""),
         "notify.c.tenant: is empty"},
        {CHANNEL(.kind_word = "mail", .url = "https://a/", .from = "a@b", .to = "a@b"),
         "notify.c.url: must be smtp://host:port or smtps://host:port"},
        {CHANNEL(.kind_word = "mail", .url = "smtp://a", .to = "a@b"),
         "notify.c.from: must be one address"},
        {CHANNEL(.kind_word = "mail", .url = "smtp://a", .from = "a@b\r\nBcc: c@d", .to = "a@b"),
         "notify.c.from: must be one address"},
        {CHANNEL(.kind_word = "mail", .url = "smtp://a", .from = "a@b"),
         "notify.c.to: must be 1 to 100 addresses"},
        {CHANNEL(.kind_word = "mail", .url = "smtp://a", .from = "a@b", .to = "a@b,,c@d"),
         "notify.c.to: must be 1 to 100 addresses"},
        {CHANNEL(.kind_word = "mail", .url = "smtp://a", .from = "a@b", .to = "a@b", .user = "u"),
         "notify.c.user: needs secret_file"},
        {CHANNEL(.kind_word = "mail", .url = "smtp://a", .from = "a@b", .to = "a@b", .user = "u",
                 .secret_file = secret_path, .allow_plaintext = true),
         "notify.c.allow_plaintext: would send the password"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct notify_channel c = cases[i].channel;
        struct fault f = {0};
        if (channel_check(&c, &f) != ERR_BAD_VALUE && f.err != ERR_NOT_FOUND)
            fail_msg("case %zu was taken: %s", i, cases[i].told);
        if (strncmp(f.text, cases[i].told, strlen(cases[i].told)) != 0)
            fail_msg("case %zu: \"%s\" is not \"%s\"", i, f.text, cases[i].told);
    }
}

static void a_channel_that_can_work_is_taken(void **state)
{
    (void)state;
    const struct notify_channel right[] = {
        CHANNEL(.kind_word = "slack", .url = "https://hooks.slack.com/services/T/B/x"),
        CHANNEL(.kind_word = "teams", .url = "http://127.0.0.1:80/", .allow_plaintext = true),
        CHANNEL(.kind_word = "webhook", .url = "https://a/?b=c", .secret_file = secret_path,
                .asker = "bot"),
        CHANNEL(.kind_word = "mail", .url = "smtps://a:465", .from = "a@b", .to = "a@b, c@d",
                .user = "u", .secret_file = secret_path),
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct notify_channel c = right[i];
        struct fault f = {0};
        if (channel_check(&c, &f) != ERR_OK) fail_msg("%s", f.text);
    }
}

static void a_channel_is_of_its_tenant_and_of_its_askers(void **state)
{
    (void)state;
    const struct notify_channel own = CHANNEL(.tenant = "acme"), every = CHANNEL(.tenant = "*"),
                                asker = CHANNEL(.asker = "bot,bat"), all = CHANNEL(.asker = "*");
    assert_true(channel_is_of(&own, STR("acme")));
    assert_false(channel_is_of(&own, STR("default")));
    assert_true(channel_is_of(&every, STR("acme")));
    assert_false(channel_is_of(&asker, STR("default"))); /* no policy can choose it */
    assert_true(channel_is_askers(&asker, STR("default"), STR("bat")));
    assert_false(channel_is_askers(&asker, STR("default"), STR("bo")));
    assert_false(channel_is_askers(&asker, STR("acme"), STR("bot")));
    assert_true(channel_is_askers(&all, STR("default"), STR("x")));
    assert_false(channel_is_askers(&every, STR("default"), STR("bot")));
}

#pragma GCC diagnostic pop

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_that_cannot_work_is_refused),
        cmocka_unit_test(a_channel_that_can_work_is_taken),
        cmocka_unit_test(a_channel_is_of_its_tenant_and_of_its_askers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
