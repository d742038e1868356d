#include "crypto/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *out, struct str bytes, size_t line)
{
    size_t written = 0;
    for (size_t at = 0; at < bytes.size; at += 3) {
        size_t left = bytes.size - at;
        uint32_t three = (uint32_t)(unsigned char)bytes.bytes[at] << 16;
        if (left > 1) three |= (uint32_t)(unsigned char)bytes.bytes[at + 1] << 8;
        if (left > 2) three |= (unsigned char)bytes.bytes[at + 2];
        buf_put_byte(out, digits[three >> 18]);
        buf_put_byte(out, digits[three >> 12 & 63]);
        buf_put_byte(out, left > 1 ? digits[three >> 6 & 63] : '=');
        buf_put_byte(out, left > 2 ? digits[three & 63] : '=');
        written += 4;
        if (line > 0 && written % line == 0 && left > 3) buf_put_literal(out, "\r\n");
    }
}

bool base64_read(struct str text, uint8_t *to, size_t *ret_size)
{
    size_t size = 0;
    if (text.size == 0 || text.size % 4 != 0) return false;
    for (size_t at = 0; at < text.size; at += 4) {
        uint32_t three = 0;
        unsigned padding = 0;
        for (size_t i = 0; i < 4; i++) {
            char c = text.bytes[at + i];
            const char *digit = c == '\0' ? NULL : strchr(digits, c);
            bool pads = c == '=' && i >= 2 && at + 4 == text.size;
            if ((digit == NULL && !pads) || (digit != NULL && padding > 0)) return false;
            padding += pads;
            three = three << 6 | (pads ? 0 : (uint32_t)(digit - digits));
        }
        if ((padding == 2 && (three & 0xFFFF) != 0) || (padding == 1 && (three & 0xFF) != 0))
            return false;
        for (unsigned i = 0; i < 3 - padding; i++) to[size++] = (uint8_t)(three >> (16 - 8 * i));
    }
    *ret_size = size;
    return true;
}
