#include "access/set_mac.h"

#define MAC_BEGINS ",\"mac\":\""
#define MAC_ENDS "\"}"

enum { MAC_BYTES = sizeof MAC_BEGINS - 1 + SHA256_HEX + sizeof MAC_ENDS - 1 };

struct set_keys set_keys_derive(const struct pepper *p)
{
    return (struct set_keys){.stored = pepper_derive(p, STR("writ stored policies and keys 1")),
                             .sent = pepper_derive(p, STR("writ policies and keys of engines 1"))};
}

static void mac_write(struct str text, const struct sha256 *key, char to[MAC_BYTES])
{
    struct buf b = buf_over(to, MAC_BYTES);
    char hex[SHA256_HEX];
    sha256_write_hex(hmac_once(str_of((const char *)key->bytes, SHA256_BYTES), text), hex);
    buf_put_literal(&b, MAC_BEGINS);
    buf_put(&b, str_of(hex, sizeof hex));
    buf_put_literal(&b, MAC_ENDS);
}

void set_mac_put(struct buf *out, size_t from, const struct sha256 *sent_key)
{
    char end[MAC_BYTES];
    if (out->overflow) return;
    mac_write(str_skip(buf_view(out), from), sent_key, end);
    buf_put(out, str_of(end, sizeof end));
}

bool set_mac_fits(struct str bundle, const struct sha256 *sent_key)
{
    char end[MAC_BYTES];
    if (bundle.size < MAC_BYTES) return false;
    size_t size = bundle.size - MAC_BYTES;
    mac_write(str_of(bundle.bytes, size), sent_key, end);
    return bytes_equal_secret(end, bundle.bytes + size, MAC_BYTES);
}
