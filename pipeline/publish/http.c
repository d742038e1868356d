/* http.c - batches over HTTP to the platform's ingest route.
 *
 * The platform removes duplicates by (node, journal, seq), so a POST whose connection broke may
 * always be sent again. The key is read from its file again at every find, which follows every
 * failure. So after a rotation the new key is used without a restart. Keys never enter a fault. */
#include <stdlib.h>

#include "base/check.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "http/client.h"
#include "json/json.h"
#include "pipeline/publish/transport.h"

enum { KEY_BYTES_MAX = 256, REPLY_BYTES_MAX = 64 << 10, FIND_MS = 5000, SEND_MS = 30000 };

struct http_transport {
    struct transport door;
    struct http_client *client;
    char *key_file;
    char *node;
    struct hmac_key record_key;
    struct hasher *hasher;
    struct buf bearer; /* "Bearer wk_…" */
    struct buf target; /* of the positions route */
    size_t plain_size; /* of the target without the journal */
    struct arena arena;
};

/* ---- the key ---- */

static enum err key_read(struct http_transport *t, struct fault *f)
{
    char bytes[KEY_BYTES_MAX + 2];
    size_t size;
    enum err err = secret_read("platform.key_file", t->key_file, bytes, sizeof bytes, &size, f);
    if (err != ERR_OK) return err;
    bool fine = true;
    for (size_t i = 0; i < size; i++) fine = fine && bytes[i] > ' ' && bytes[i] < 0x7f;
    buf_clear(&t->bearer);
    buf_put_literal(&t->bearer, "Bearer ");
    if (fine) buf_put(&t->bearer, str_of(bytes, size));
    memory_wipe(bytes, sizeof bytes);
    return fine ? ERR_OK
                : fault_set(f, ERR_BAD_VALUE, "platform.key_file",
                            "platform.key_file: %s must contain exactly one API key", t->key_file);
}

/* ---- answers ---- */

/* Reads the answer's JSON object; ERR_UPSTREAM_FAILED: it has none. The arena is reset. */
static enum err answer_read(struct http_transport *t, const struct http_answer *a,
                            struct json **ret, struct fault *f)
{
    arena_reset(&t->arena);
    struct fault ignored;
    if (json_read(a->body, &(struct json_options){.nul_anywhere = true}, &t->arena, ret,
                  &ignored) == ERR_OK &&
        json_is_object(*ret))
        return ERR_OK;
    return fault_set(f, ERR_UPSTREAM_FAILED, "", "the platform answered %d without a JSON object",
                     a->status);
}

static void refused(struct http_transport *t, const struct http_answer *a, struct fault *f)
{
    struct json *root;
    if (answer_read(t, a, &root, f) != ERR_OK) return;
    struct str code = str_cut(json_text(root, STR("code")), 40);
    struct str sentence = str_cut(json_text(root, STR("error")), 180);
    (void)fault_set(f, ERR_UPSTREAM_FAILED, "", "the platform answered %d %.*s: %.*s", a->status,
                    STR_FORMAT(code), STR_FORMAT(sentence));
}

static bool code_is(struct http_transport *t, const struct http_answer *a, struct str code,
                    struct json **ret_root)
{
    struct fault ignored;
    return answer_read(t, a, ret_root, &ignored) == ERR_OK &&
           str_equal(json_text(*ret_root, STR("code")), code);
}

/* The call itself failed: the client's text ("Connection refused") needs its object. */
static enum err not_reached(enum err e, struct fault *f)
{
    struct fault inner = *f;
    return fault_set(f, e, "", "the platform cannot be reached: %s", inner.text);
}

/* ---- find ---- */

static enum err report_read(const struct json *root, struct stream_report *ret, struct fault *f)
{
    struct stream_report r = {0};
    struct str log_id = json_text(root, STR("log_id"));
    const struct json *streams = json_get(root, STR("streams"));
    if (log_id.size == 0 || log_id.size > LOG_ID_MAX || !json_is_array(streams))
        return fault_set(f, ERR_UPSTREAM_FAILED, "",
                         "the platform's positions lack log_id or streams");
    memcpy(r.log_id, log_id.bytes, log_id.size);

    for (const struct json *s = streams->child; s != NULL; s = s->next) {
        if (!str_equal(json_text(s, STR("journal")), STR("0"))) continue;
        struct str epoch = json_text(s, STR("epoch"));
        if (epoch.size != EPOCH_TEXT && epoch.size != 0)
            return fault_set(f, ERR_UPSTREAM_FAILED, "",
                             "the platform's positions have a bad epoch");
        if (epoch.size != 0) memcpy(r.epoch, epoch.bytes, EPOCH_TEXT);
        r.known = true;
        r.next_seq = json_u64(s, STR("next_seq"), 0);
        r.want_from = json_u64(s, STR("want_from"), r.next_seq);
        r.replay = json_u64(s, STR("replay"), 0);
    }
    *ret = r;
    return ERR_OK;
}

static enum err ask_positions(struct http_transport *t, struct str target, struct http_answer *ret,
                              struct fault *f)
{
    struct http_call call = {.method = "GET",
                             .target = target,
                             .headers = {{STR("Authorization"), buf_view(&t->bearer)}},
                             .header_count = 1,
                             .timeout_ms = FIND_MS,
                             .reply_max = REPLY_BYTES_MAX};
    return http_call(t->client, &call, true, ret, f);
}

/* Asks only for its own journal, because others may have begun many under this node's name. An
 * older platform does not know the parameter, and returns all. */
static enum err http_find(void *state, struct stream_report *ret, struct fault *f)
{
    struct http_transport *t = state;
    struct json *root;
    struct http_answer answer;
    enum err e = key_read(t, f);
    if (e != ERR_OK) return e;
    e = ask_positions(t, buf_view(&t->target), &answer, f);
    if (e == ERR_OK && answer.status == 400 && code_is(t, &answer, STR("unknown_parameter"), &root))
        e = ask_positions(t, str_of(t->target.bytes, t->plain_size), &answer, f);
    if (e != ERR_OK) return not_reached(e, f);
    if (answer.status != 200) {
        refused(t, &answer, f);
        return ERR_UPSTREAM_FAILED;
    }
    e = answer_read(t, &answer, &root, f);
    return e == ERR_OK ? report_read(root, ret, f) : e;
}

/* ---- send ---- */

static void mac_write(struct http_transport *t, const struct batch *b, char to[SHA256_HEX])
{
    const struct run run = {.epoch = str_of(b->epoch, JOURNAL_EPOCH_TEXT),
                            .first_seq = b->first_seq,
                            .count = b->count,
                            .leaves = b->leaves,
                            .checkpoint = b->checkpoint};
    sha256_write_hex(run_mac(t->hasher, &t->record_key, &run), to);
}

static enum sent accepted(struct http_transport *t, const struct http_answer *a,
                          struct send_answer *ret, struct fault *f)
{
    struct json *root;
    if (answer_read(t, a, &root, f) != ERR_OK) return SENT_FAILED;
    *ret = (struct send_answer){.next_seq = json_u64(root, STR("next_seq"), 0),
                                .accepted = json_u64(root, STR("accepted"), 0),
                                .duplicates = json_u64(root, STR("duplicates"), 0),
                                .clashes = json_u64(root, STR("clashes"), 0)};
    if (ret->next_seq > 0) return SENT_ACCEPTED;
    (void)fault_set(f, ERR_UPSTREAM_FAILED, "", "the platform's answer lacks next_seq");
    return SENT_FAILED;
}

static enum sent http_send(void *state, const struct batch *b, struct send_answer *ret,
                           struct fault *f)
{
    struct http_transport *t = state;
    char digits[24], from_digits[24];
    struct buf first = buf_over(digits, sizeof digits),
               from = buf_over(from_digits, sizeof from_digits);
    buf_put_u64(&first, b->first_seq);
    buf_put_u64(&from, b->checkpoint.from_seq);
    char mac[SHA256_HEX];
    mac_write(t, b, mac);
    struct http_call call = {.method = "POST",
                             .target = STR("/api/v1/audit/ingest"),
                             .headers = {{STR("Authorization"), buf_view(&t->bearer)},
                                         {STR("Writ-Node"), str_from(t->node)},
                                         {STR("Writ-Journal"), STR("0")},
                                         {STR("Writ-Epoch"), str_of(b->epoch, JOURNAL_EPOCH_TEXT)},
                                         {STR("Writ-First-Seq"), buf_view(&first)},
                                         {STR("Writ-Mac"), str_of(mac, sizeof mac)},
                                         {STR("Writ-Checkpoint"), b->checkpoint.note},
                                         {STR("Writ-From-Seq"), buf_view(&from)},
                                         {STR("Writ-Frontier"), b->checkpoint.frontier}},
                             .header_count = b->checkpoint.from_seq == 0 ? 6 : 9,
                             .content_type = STR("application/x-ndjson"),
                             .body = b->lines,
                             .timeout_ms = SEND_MS,
                             .reply_max = REPLY_BYTES_MAX};
    struct http_answer answer;
    enum err e = http_call(t->client, &call, true, &answer, f);
    if (e != ERR_OK) {
        (void)not_reached(e, f);
        return e == ERR_TIMEOUT ? SENT_LATE : SENT_FAILED;
    }
    if (answer.status == 201) return accepted(t, &answer, ret, f);

    refused(t, &answer, f);
    struct json *root;
    if (answer.status == 413) return SENT_TOO_LARGE;
    if (answer.status == 408) return SENT_LATE;
    if (answer.status != 409) return SENT_FAILED;
    if (code_is(t, &answer, STR("epoch_unknown"), &root)) return SENT_DIVERGED;
    if (!code_is(t, &answer, STR("stream_gap"), &root)) return SENT_FAILED;
    *ret = (struct send_answer){.want_from = json_u64(root, STR("want_from"), 0)};
    return SENT_GAP;
}

static void http_interrupt(void *state)
{
    http_client_interrupt(((struct http_transport *)state)->client);
}

/* ---- life ---- */

static void http_destroy(struct transport *door)
{
    struct http_transport *t = door->state;
    http_client_destroy(t->client);
    hasher_destroy(t->hasher);
    memory_wipe(&t->record_key, sizeof t->record_key);
    buf_fini(&t->bearer);
    buf_fini(&t->target);
    arena_fini(&t->arena);
    free(t->key_file);
    free(t->node);
    free(t);
}

enum err transport_http_create(const char *url, struct tls *tls, const char *key_file,
                               const char *node, const struct sha256 *record_key,
                               struct transport **ret, struct fault *f)
{
    struct http_transport *t = calloc(1, sizeof *t);
    check(t != NULL); /* only at boot */
    t->door = (struct transport){t, http_find, http_send, http_interrupt, http_destroy, NULL};
    t->key_file = strdup(key_file);
    t->node = strdup(node);
    t->hasher = hasher_create();
    t->record_key = run_key_prepare(t->hasher, record_key);
    check(t->key_file != NULL && t->node != NULL);
    buf_init(&t->bearer, 0, KEY_BYTES_MAX + 16);
    buf_init(&t->target, 0, 4096);
    buf_put_literal(&t->target, "/api/v1/audit/positions?node=");
    http_put_encoded(&t->target, str_from(node));
    t->plain_size = t->target.size;
    buf_put_literal(&t->target, "&journal=0");
    arena_init(&t->arena, 16 << 10, 4 << 20);

    enum err e = key_read(t, f);
    if (e == ERR_OK) e = http_client_create(str_from(url), tls, &t->client, f);
    if (e != ERR_OK) {
        http_destroy(&t->door);
        return e;
    }
    *ret = &t->door;
    return ERR_OK;
}
