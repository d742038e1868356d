#include "pipeline/notify/signature.h"

#include "base/check.h"
#include "crypto/crypto.h"
#include "crypto/base64.h"

struct key {
    uint8_t bytes[SIGNATURE_KEY_MOST + 3];
    size_t size;
};

static bool read_key(struct str secret, struct key *ret)
{
    if (!str_starts(secret, STR("whsec_"))) return false;
    struct str digits = str_skip(secret, 6);
    if (digits.size > (SIGNATURE_KEY_MOST + 2) / 3 * 4) return false;
    return base64_read(digits, ret->bytes, &ret->size) && ret->size >= SIGNATURE_KEY_LEAST &&
           ret->size <= SIGNATURE_KEY_MOST;
}

bool signature_secrets_are_valid(struct str secrets)
{
    struct str one;
    struct key key;
    size_t count = 0;
    bool valid = true;
    while (valid && str_split(&secrets, ' ', &one)) {
        valid = ++count <= SIGNATURE_SECRETS_MAX && read_key(one, &key);
        memory_wipe(&key, sizeof key);
    }
    return valid && count > 0;
}

void signature_put(struct buf *out, struct str secrets, struct str id, uint64_t timestamp_s,
                   struct str body)
{
    struct buf text;
    struct str one;
    struct key key;
    buf_init(&text, body.size + id.size + 32, body.size + id.size + 64);
    buf_printf(&text, "%.*s.%llu.", STR_FORMAT(id), (unsigned long long)timestamp_s);
    buf_put(&text, body);
    for (bool first = true; str_split(&secrets, ' ', &one); first = false) {
        check(read_key(one, &key));
        struct sha256 mac = hmac_once(str_of((char *)key.bytes, key.size), buf_view(&text));
        buf_put(out, first ? STR("v1,") : STR(" v1,"));
        base64_put(out, str_of((char *)mac.bytes, sizeof mac.bytes), 0);
        memory_wipe(&key, sizeof key);
    }
    out->overflow |= text.overflow;
    buf_fini(&text);
}
