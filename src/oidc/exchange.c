/* exchange.c - the request to the token endpoint, and its answer. */
#include <stdio.h>

#include "crypto/secret.h"
#include "oidc/inside.h"

enum { SECRET_MAX = 512, FORM_BYTES_MAX = 16 << 10 };

void oidc_put_encoded(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            (c != '\0' && strchr("-._~", c) != NULL))
            buf_put_byte(out, c);
        else
            buf_printf(out, "%%%02X", (unsigned char)c);
    }
}

static void put_form(struct buf *out, const struct oidc_exchange *e, const struct oidc_settings *s)
{
    buf_put_literal(out, "grant_type=authorization_code&code=");
    oidc_put_encoded(out, e->code);
    buf_put_literal(out, "&redirect_uri=");
    oidc_put_encoded(out, e->redirect_uri);
    buf_put_literal(out, "&code_verifier=");
    oidc_put_encoded(out, e->verifier);
    if (*s->client_secret_file != '\0') return; /* the client is in the header, and only there */
    buf_put_literal(out, "&client_id=");
    oidc_put_encoded(out, str_from(s->client_id));
}

/* User and password for the scheme Basic, NUL-terminated in `out`. *ret_password is "" for a public
 * client. */
static enum err put_client(struct buf *out, const struct oidc_settings *s, size_t *ret_password,
                           struct fault *f)
{
    char secret[SECRET_MAX + 2];
    size_t size = 0;
    *ret_password = 0;
    if (*s->client_secret_file == '\0') return ERR_OK;
    enum err err =
        secret_read("client_secret_file", s->client_secret_file, secret, sizeof secret, &size, f);
    if (err != ERR_OK) return err;
    oidc_put_encoded(out, str_from(s->client_id));
    buf_put_byte(out, '\0');
    *ret_password = out->size;
    oidc_put_encoded(out, str_of(secret, size));
    buf_put_byte(out, '\0');
    memory_wipe(secret, sizeof secret);
    return ERR_OK;
}

bool exchange_begin(struct oidc_exchange *e, const struct oidc_settings *s,
                    const struct discovery *d, struct outbound *out, size_t place)
{
    char form_bytes[FORM_BYTES_MAX], client_bytes[4 * SECRET_MAX + 4 * LIMIT_ID_CHARACTERS];
    struct buf form = buf_over(form_bytes, sizeof form_bytes),
               client = buf_over(client_bytes, sizeof client_bytes);
    struct fault why;
    size_t password;
    put_form(&form, e, s);
    bool has_client = put_client(&client, s, &password, &why) == ERR_OK;
    struct outbound_request r = {
        .method = OUTBOUND_POST,
        .url = d->token,
        .body = buf_view(&form),
        .headers = {"content-type: application/x-www-form-urlencoded", "accept: application/json",
                    "expect:"},
        .header_count = 3,
        .user = password > 0 ? client_bytes : NULL,
        .password = client_bytes + password,
        .answer_max = LIMIT_OIDC_DOCUMENT_BYTES,
        .allow_private = allows_private(s),
    };
    bool has_begun =
        has_client && !form.overflow && !client.overflow && outbound_begin(out, place, &r);
    memory_wipe(form_bytes, sizeof form_bytes);
    memory_wipe(client_bytes, sizeof client_bytes);
    if (!has_begun)
        e->err = fault_set(&e->fault, ERR_PROVIDER_UNAVAILABLE, "",
                           has_client ? "there was no memory for the request to the provider"
                                      : "the secret of the provider's client cannot be read");
    return has_begun;
}

/* ---- the answer ---- */

static enum err unavailable(struct oidc_exchange *e, const char *why)
{
    return fault_set(&e->fault, ERR_PROVIDER_UNAVAILABLE, "",
                     "the identity provider's token endpoint cannot be used now: %s", why);
}

/* An error code of RFC 6749, 5.2; anything else is not shown. */
static struct str code_of(const struct json *answer)
{
    struct str code = json_text(answer, STR("error"));
    bool is_word = code.size > 0 && code.size <= 40;
    for (size_t i = 0; i < code.size; i++)
        is_word &= (code.bytes[i] >= 'a' && code.bytes[i] <= 'z') || code.bytes[i] == '_';
    return is_word ? code : STR("it gave no reason");
}

static enum err read_refusal(struct oidc_exchange *e, const struct json *answer, long status)
{
    struct str code = code_of(answer);
    if (str_equal(code, STR("invalid_grant")))
        return fault_set(&e->fault, ERR_UNAUTHENTICATED, "",
                         "the identity provider does not accept the code of this sign-in: it was "
                         "used already, or is too old; sign in again");
    return fault_set(
        &e->fault, ERR_PROVIDER_UNAVAILABLE, "",
        "the identity provider's token endpoint refuses this platform (HTTP %ld): %.*s", status,
        STR_FORMAT(code));
}

void exchange_read(struct oidc_exchange *e, const struct outbound_result *r)
{
    struct json *answer = NULL;
    struct fault why;
    e->err = ERR_OK;
    if (r->status == 0 || (!r->is_delivered && r->status / 100 != 4)) {
        e->err = unavailable(e, r->error);
        return;
    }
    enum err err = json_read(r->answer, &(struct json_options){0}, e->arena, &answer, &why);
    if (err != ERR_OK || !json_is_object(answer)) answer = NULL;
    if (err == ERR_BODY_TOO_LARGE)
        e->err = unavailable(e, "its answer has no room here");
    else if (!r->is_delivered)
        e->err = read_refusal(e, answer, r->status);
    else if (answer == NULL)
        e->err = unavailable(e, "its answer is not a strict JSON object");
    if (e->err != ERR_OK) return;
    struct str token = json_text(answer, STR("id_token"));
    e->id_token = arena_copy(e->arena, token);
    if (token.size == 0 || str_is_absent(e->id_token))
        e->err = unavailable(e, "its answer has no id_token");
}
