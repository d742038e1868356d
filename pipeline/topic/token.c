/* token.c - reads the members of a token that the client library needs from its payload.
 *
 * Everything that was read is wiped in any case: text and payload are in arrays of this file, and
 * the tree is in an arena that has claims but never the signature. */
#include "pipeline/topic/token.h"

#include "base/time.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "json/json.h"

#define SECONDS_MAX 253402300799.0 /* the end of the year 9999 */

enum {
    PAYLOAD_MAX = TOPIC_TOKEN_MAX / 4 * 3,
    TREE_BYTES_MAX = 4 << 20, /* of a payload that has only brackets */
};

void topic_token_wipe(struct topic_token *t) { memory_wipe(t, sizeof *t); }

/* ---- claims ---- */

static bool is_one_line(struct str s)
{
    for (size_t i = 0; i < s.size; i++)
        if (s.bytes[i] < ' ' || s.bytes[i] > '~') return false;
    return s.size > 0 && s.size <= TOPIC_PRINCIPAL_MAX;
}

static const char *read_claims(struct str payload, struct arena *arena, struct topic_token *ret)
{
    struct json *root;
    struct fault ignored; /* it may quote the payload */
    if (json_read(payload, &(struct json_options){.nul_anywhere = true}, arena, &root, &ignored) !=
            ERR_OK ||
        !json_is_object(root))
        return "is not a JWT: its payload is not a JSON object";
    const struct json *expires = json_get(root, STR("exp"));
    if (!json_is_number(expires)) return "has no expiry time (exp)";
    if (!(expires->number >= 0 && expires->number <= SECONDS_MAX))
        return "has an expiry time that is out of range (exp)";
    ret->expires_ms = (int64_t)(expires->number * 1000);
    struct str subject = json_text(root, STR("sub"));
    if (!is_one_line(subject)) subject = STR("-");
    memcpy(ret->principal, subject.bytes, subject.size);
    ret->principal[subject.size] = '\0';
    return NULL;
}

static const char *read_payload(struct str coded, struct topic_token *ret)
{
    uint8_t bytes[PAYLOAD_MAX];
    size_t size;
    if (!base64url_read(coded, bytes, &size)) return "is not a JWT: its payload is not base64url";
    struct arena arena;
    arena_init(&arena, 8 << 10, TREE_BYTES_MAX);
    const char *why = read_claims(str_of((const char *)bytes, size), &arena, ret);
    arena_fini(&arena);
    memory_wipe(bytes, sizeof bytes);
    return why;
}

/* ---- the text ---- */

/* The library sends the text unchanged, between control characters, so only these characters may be
 * in it. */
static bool is_coded(struct str s)
{
    for (size_t i = 0; i < s.size; i++) {
        char c = s.bytes[i];
        bool good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_';
        if (!good) return false;
    }
    return true;
}

static const char *parse(struct str text, struct topic_token *ret)
{
    struct str rest = text, header, payload, signature;
    if (text.size == 0) return "is empty";
    if (text.size > TOPIC_TOKEN_MAX) return "is longer than 16384 bytes";
    if (!str_split(&rest, '.', &header) || !str_split(&rest, '.', &payload) ||
        !str_split(&rest, '.', &signature) || !str_is_absent(rest))
        return "is not a JWT: it does not have three parts with points between";
    if (header.size == 0 || payload.size == 0)
        return "is not a JWT: its header or its payload is empty";
    if (!is_coded(header) || !is_coded(payload) || !is_coded(signature))
        return "is not a JWT: it has characters that are not base64url";
    const char *why = read_payload(payload, ret);
    if (why != NULL) return why;
    memcpy(ret->text, text.bytes, text.size);
    ret->text[text.size] = '\0';
    return NULL;
}

const char *topic_token_parse(struct str text, struct topic_token *ret)
{
    const char *why = parse(text, ret);
    if (why != NULL) topic_token_wipe(ret);
    return why;
}

/* ---- the file ---- */

enum err topic_token_read(const char *path, uint64_t now_ms, struct topic_token *ret,
                          struct fault *f)
{
    char text[TOPIC_TOKEN_MAX + 2];
    size_t size = 0;
    enum err e = secret_read("kafka.token_file", path, text, sizeof text, &size, f);
    if (e != ERR_OK) {
        topic_token_wipe(ret);
        return e;
    }
    const char *why = topic_token_parse(str_of(text, size), ret);
    memory_wipe(text, sizeof text);
    if (why != NULL)
        return fault_set(f, ERR_BAD_VALUE, "kafka.token_file",
                         "kafka.token_file: the content of %s %s", path, why);
    if (ret->expires_ms > (int64_t)now_ms) return ERR_OK;
    char when[TIME_TEXT];
    time_write((uint64_t)ret->expires_ms, when);
    topic_token_wipe(ret);
    return fault_set(f, ERR_BAD_VALUE, "kafka.token_file",
                     "kafka.token_file: the token in %s expired at %.*s", path, TIME_TEXT, when);
}
