/* anchors.c - the anchors (pipeline/anchor) with this platform's configuration, and their part of
 * /healthz. */
#include "base/time.h"
#include "platform/platform.h"

_Static_assert((int)ANCHORS_MAX == (int)ANCHORS_OF_ALL_MAX, "the options have as many");

enum err anchors_begin(struct platform *p, struct fault *f)
{
    const struct config *c = p->config;
    enum err err = ERR_OK;
    for (size_t i = 0; i < c->anchor_count && err == ERR_OK; i++) {
        const struct config_anchor *from = c->anchors[i];
        p->anchor_list[i] = (struct anchor){.name = from->name,
                                            .file = from->file,
                                            .s3 = from->s3,
                                            .witness = from->witness,
                                            .witness_key = from->witness_key,
                                            .region = from->region,
                                            .access_key = from->access_key,
                                            .secret_file = from->secret_file,
                                            .retain_ms = from->retain_ms,
                                            .every_ms = from->every_ms,
                                            .allow_private = from->allow_private,
                                            .allow_plaintext = from->allow_plaintext};
        err = anchor_check(&p->anchor_list[i], f);
    }
    if (err != ERR_OK || c->anchor_count == 0) return err;
    const struct anchors_options options = {.store = platform_store(c),
                                            .ca_file = c->tls_ca_file,
                                            .list = p->anchor_list,
                                            .count = c->anchor_count};
    return anchors_start(&options, &p->history, &p->anchors, f);
}

void anchors_put(struct buf *out, struct platform *p)
{
    if (p->anchors == NULL) return;
    struct anchors_status s;
    anchors_status(p->anchors, &s);
    buf_put_literal(out, ",\"anchors\":[");
    for (size_t i = 0; i < s.count; i++) {
        const struct anchors_one *a = &s.list[i];
        char since[TIME_TEXT];
        if (a->since_ms != 0) time_write(a->since_ms, since);
        buf_printf(out, "%s{\"anchored\":[%s],\"behind_since\":", i > 0 ? "," : "", a->anchored);
        if (a->since_ms == 0)
            buf_put_literal(out, "null");
        else
            json_put_plain(out, str_of(since, TIME_TEXT));
        json_put_string_member(out, STR(",\"error\":"), str_from(a->error));
        json_put_string_member(out, STR(",\"kind\":"), str_from(a->kind));
        json_put_string_member(out, STR(",\"name\":"), str_from(a->name));
        buf_printf(out, ",\"streams\":%llu,\"waiting\":%llu}", (unsigned long long)a->trees,
                   (unsigned long long)a->waiting);
    }
    buf_put_byte(out, ']');
}
