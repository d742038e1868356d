#include "pipeline/anchor/anchor.h"

#include <stdio.h>

#include "base/check.h"
#include "base/time.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "json/json.h"
#include "outbound/url.h"

enum { OPTION_TEXT_MAX = 80 };

static enum err wrong(const struct anchor *a, const char *key, const char *what, struct fault *f)
{
    char option[OPTION_TEXT_MAX];
    snprintf(option, sizeof option, "anchor.%s.%s", a->name, key);
    return fault_set(f, ERR_BAD_VALUE, option, "%s: %s", option, what);
}

enum err anchor_read_secret(const struct anchor *a, char to[ANCHOR_SECRET_MAX + 2], struct fault *f)
{
    char option[OPTION_TEXT_MAX];
    size_t size;
    snprintf(option, sizeof option, "anchor.%s.secret_file", a->name);
    return secret_read(option, a->secret_file, to, ANCHOR_SECRET_MAX + 2, &size, f);
}

/* Such as "/bucket/prefix", without a slash at the end. */
static bool is_path(struct str path)
{
    struct str part;
    if (path.size < 2 || path.bytes[0] != '/') return false;
    path = str_skip(path, 1);
    while (str_split(&path, '/', &part)) {
        if (part.size == 0 || str_equal(part, STR(".")) || str_equal(part, STR(".."))) return false;
        for (size_t i = 0; i < part.size; i++)
            if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._",
                       part.bytes[i]) == NULL)
                return false;
    }
    return true;
}

static enum err check_url(const struct anchor *a, const char *option, struct str url,
                          struct fault *f)
{
    struct str tls = STR("https://"), plain = STR("http://");
    bool is_tls = str_starts(url, tls), is_bucket = anchor_kind(a) == ANCHOR_S3;
    if ((!is_tls && !str_starts(url, plain)) || !url_is_printable(url) || url.size > ANCHOR_URL_MAX)
        return wrong(a, option,
                     is_bucket ? "must be a URL such as https://host/bucket/prefix"
                               : "must be a URL such as https://host/prefix",
                     f);
    size_t scheme = is_tls ? tls.size : plain.size;
    if (!is_tls && !a->allow_plaintext)
        return wrong(a, option,
                     "must be https://, because others on the way can read http://; "
                     "allow_plaintext permits it",
                     f);
    struct str host = url_host(url, scheme);
    if (str_is_absent(host))
        return wrong(a, option, "must have a host, and no user or password before it", f);
    struct str path = str_skip(url, scheme + host.size);
    if (is_path(path) || (!is_bucket && path.size == 0)) return ERR_OK;
    return wrong(a, option,
                 is_bucket
                     ? "must have the bucket, and perhaps a prefix, behind the host: letters, "
                       "digits and -._ between single slashes, and no slash at the end"
                     : "may have a prefix behind the host: letters, digits and -._ between single "
                       "slashes, and no slash at the end",
                 f);
}

/* What is put into the name of the signature. */
static bool is_region(struct str region)
{
    for (size_t i = 0; i < region.size; i++) {
        char c = region.bytes[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
    }
    return region.size > 0 && region.size <= 40;
}

static enum err check_witness(const struct anchor *a, struct fault *f)
{
    struct note_key key;
    struct fault why;
    if (*a->witness_key == '\0') return wrong(a, "witness_key", "is missing", f);
    if (note_key_read(str_from(a->witness_key), &key, &why) != ERR_OK)
        return wrong(a, "witness_key", why.text, f);
    if (key.type != NOTE_WITNESS)
        return wrong(a, "witness_key", "is the key of a log; a witness has one of type 4", f);
    return check_url(a, "witness", str_from(a->witness), f);
}

struct note_key anchor_witness_key(const struct anchor *a)
{
    struct note_key key;
    check(note_key_read(str_from(a->witness_key), &key, NULL) == ERR_OK);
    return key;
}

static enum err check_bucket(const struct anchor *a, struct fault *f)
{
    char secret[ANCHOR_SECRET_MAX + 2];
    if (*a->access_key == '\0' || !url_is_printable(str_from(a->access_key)))
        return wrong(a, "access_key", "is missing, or has blanks", f);
    if (*a->secret_file == '\0') return wrong(a, "secret_file", "is missing", f);
    if (!is_region(str_from(a->region)))
        return wrong(a, "region", "must be a name such as eu-central-1", f);
    if (a->retain_ms != 0 && (a->retain_ms < 60000 || a->retain_ms > UINT64_C(3153600000000)))
        return wrong(a, "retain", "must be 0s, or one minute to 100 years", f);
    enum err err = check_url(a, "s3", str_from(a->s3), f);
    if (err == ERR_OK) err = anchor_read_secret(a, secret, f);
    memory_wipe(secret, sizeof secret);
    return err;
}

enum err anchor_check(const struct anchor *a, struct fault *f)
{
    if ((*a->file != '\0') + (*a->s3 != '\0') + (*a->witness != '\0') != 1)
        return wrong(a, "file", "set one of file, s3 and witness", f);
    if (a->every_ms < 1000 || a->every_ms > 86400000)
        return wrong(a, "every", "must be 1s to 24h", f);
    if (anchor_kind(a) != ANCHOR_S3 &&
        (*a->access_key != '\0' || *a->secret_file != '\0' || a->retain_ms != 0))
        return wrong(a, anchor_kind(a) == ANCHOR_FILE ? "file" : "witness",
                     "access_key, secret_file and retain are for anchors with s3", f);
    if (anchor_kind(a) != ANCHOR_WITNESS && *a->witness_key != '\0')
        return wrong(a, "witness_key", "is for anchors with witness", f);
    switch (anchor_kind(a)) {
    case ANCHOR_S3: return check_bucket(a, f);
    case ANCHOR_WITNESS: return check_witness(a, f);
    case ANCHOR_FILE: break;
    }
    return ERR_OK;
}

/* The origin has percent signs; in a path they are written as %25. */
void anchor_put_url(struct buf *out, const struct anchor *a, struct str origin, uint64_t end_seq)
{
    buf_put(out, str_from(a->s3));
    buf_put_byte(out, '/');
    for (size_t i = 0; i < origin.size; i++) {
        buf_put_byte(out, origin.bytes[i]);
        if (origin.bytes[i] == '%') buf_put_literal(out, "25");
    }
    buf_printf(out, "/%llu", (unsigned long long)end_seq);
}

void anchor_put_line(struct buf *out, struct str note, uint64_t now_ms)
{
    char at[TIME_TEXT];
    time_write(now_ms, at);
    buf_put_literal(out, "{\"anchored_at\":");
    json_put_plain(out, str_of(at, TIME_TEXT));
    json_put_string_member(out, STR(",\"note\":"), note);
    buf_put_literal(out, "}\n");
}
