/* notify.c - the notifier (pipeline/notify) with this platform's configuration, and its part of
 * /healthz. */
#include "base/time.h"
#include "platform/platform.h"

/* "https://writ.example/" → "https://writ.example/console"; "" stays "". */
static enum err make_console_url(const struct config *c, char to[CONSOLE_URL_TEXT], struct fault *f)
{
    struct str url = str_from(c->public_url);
    bool is_url = str_starts(url, STR("https://")) || str_starts(url, STR("http://"));
    to[0] = '\0';
    if (url.size == 0) return ERR_OK;
    for (size_t i = 0; i < url.size; i++)
        is_url &= url.bytes[i] > ' ' && url.bytes[i] < 0x7F &&
                  strchr("\"<>\\^`{|}()#?", url.bytes[i]) == NULL;
    while (url.size > 0 && url.bytes[url.size - 1] == '/') url.size--;
    struct buf out = buf_over(to, CONSOLE_URL_TEXT - 1);
    buf_put(&out, url);
    buf_put_literal(&out, "/console");
    to[out.size] = '\0';
    if (is_url && !out.overflow) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "public_url",
                     "public_url: must be a URL such as https://writ.example, at most 500 bytes");
}

enum err notify_start(struct platform *p, struct fault *f)
{
    const struct config *c = p->config;
    enum err err = make_console_url(c, p->console_url, f);
    for (size_t i = 0; i < c->channel_count && err == ERR_OK; i++) {
        const struct config_channel *from = c->channels[i];
        p->channels[i] = (struct notify_channel){.name = from->name,
                                                 .kind_word = from->kind,
                                                 .url = from->url,
                                                 .url_file = from->url_file,
                                                 .secret_file = from->secret_file,
                                                 .tenant = from->tenant,
                                                 .asker = from->asker,
                                                 .from = from->from,
                                                 .to = from->to,
                                                 .user = from->user,
                                                 .allow_private = from->allow_private,
                                                 .allow_plaintext = from->allow_plaintext};
        err = channel_check(&p->channels[i], f);
    }
    if (err != ERR_OK || c->channel_count == 0) return err;
    const struct notifier_options options = {.store = platform_store(c),
                                             .console = p->console_url,
                                             .ca_file = c->tls_ca_file,
                                             .channels = p->channels,
                                             .channel_count = c->channel_count};
    return notifier_start(&options, &p->history, &p->notifier, f);
}

void notify_put(struct buf *out, struct platform *p)
{
    if (p->notifier == NULL) return;
    struct notifier_status s;
    notifier_status(p->notifier, &s);
    buf_put_literal(out, ",\"channels\":[");
    for (size_t i = 0; i < s.channel_count; i++) {
        const struct notifier_channel *c = &s.channels[i];
        char oldest[TIME_TEXT];
        if (c->oldest_ms != 0) time_write(c->oldest_ms, oldest);
        buf_printf(out, "%s{\"error\":", i > 0 ? "," : "");
        json_put_string(out, str_from(c->error));
        json_put_string_member(out, STR(",\"kind\":"), str_from(c->kind));
        json_put_string_member(out, STR(",\"name\":"), str_from(c->name));
        buf_put_literal(out, ",\"oldest\":");
        if (c->oldest_ms == 0)
            buf_put_literal(out, "null");
        else
            json_put_plain(out, str_of(oldest, TIME_TEXT));
        buf_printf(out, ",\"tries\":%llu,\"waiting\":%llu}", (unsigned long long)c->tries,
                   (unsigned long long)c->waiting);
    }
    buf_put_byte(out, ']');
}
