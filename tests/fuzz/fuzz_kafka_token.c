/* fuzz_kafka_token.c - a file that should hold a token for the brokers. First byte: as
 * it is, or as the payload. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/check.h"
#include "crypto/crypto.h"
#include "pipeline/topic/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char coded[2 * TOPIC_TOKEN_MAX];
    static struct topic_token t;
    if (size < 1 || size > TOPIC_TOKEN_MAX) return 0;
    struct str text = str_of((const char *)data + 1, size - 1);
    struct buf b = buf_over(coded, sizeof coded);
    if (data[0] % 2 == 1) {
        buf_put_literal(&b, "e30.");
        base64url_put(&b, text.bytes, text.size);
        buf_put_literal(&b, ".");
        text = buf_view(&b);
    }
    const char *why = topic_token_parse(text, &t);
    if (why != NULL) {
        check(t.text[0] == '\0' && t.principal[0] == '\0' && t.expires_ms == 0);
        return 0;
    }
    check(strlen(t.text) == text.size && t.principal[0] != '\0' && t.expires_ms >= 0);
    /* it goes between control characters */
    for (const char *c = t.text; *c != '\0'; c++) check(*c > ' ' && *c < 127);
    for (const char *c = t.principal; *c != '\0'; c++) check(*c >= ' ' && *c < 127);
    return 0;
}
