/* text.c - values as text: in CEL's syntax for people, and as JSON for programs. */
#include <math.h>

#include "cel/address.h"
#include "cel/number.h"
#include "cel/time.h"
#include "cel/url.h"
#include "cel/value.h"

enum { SHOWN_DEPTH = 16 };

static void put_value(struct buf *out, struct cel_value v, unsigned depth);

static void put_bytes(struct buf *out, struct str s)
{
    static const char digits[] = "0123456789abcdef";
    buf_put_literal(out, "b\"");
    for (size_t i = 0; i < s.size; i++) {
        unsigned char c = (unsigned char)s.bytes[i];
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            buf_put_byte(out, (char)c);
        } else {
            char escape[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
            buf_put(out, str_of(escape, sizeof escape));
        }
    }
    buf_put_byte(out, '"');
}

static void put_many(struct buf *out, struct cel_value v, unsigned depth)
{
    struct cel_value key, item;
    buf_put_byte(out, v.kind == CEL_LIST ? '[' : '{');
    if (depth >= SHOWN_DEPTH && v.size > 0)
        buf_put_literal(out, "...");
    else
        for (struct cel_walk walk = cel_walk_start(v);
             !out->overflow && cel_walk_next(&walk, &key, &item);) {
            if (walk.at > 1) buf_put_literal(out, ", ");
            if (v.kind == CEL_MAP) {
                put_value(out, key, depth + 1);
                buf_put_literal(out, ": ");
            }
            put_value(out, item, depth + 1);
        }
    buf_put_byte(out, v.kind == CEL_LIST ? ']' : '}');
}

/* 1.0 and not 1, to show that it is a double. */
static void put_double(struct buf *out, double number)
{
    size_t before = out->size;
    number_put_double(out, number);
    for (size_t i = before; i < out->size; i++)
        if (out->bytes[i] != '-' && (out->bytes[i] < '0' || out->bytes[i] > '9')) return;
    buf_put_literal(out, ".0");
}

static void put_value(struct buf *out, struct cel_value v, unsigned depth)
{
    switch ((enum cel_kind)v.kind) {
    case CEL_NULL: buf_put_literal(out, "null"); return;
    case CEL_BOOL: buf_put(out, v.boolean ? STR("true") : STR("false")); return;
    case CEL_INT: number_put_int(out, v.integer); return;
    case CEL_UINT:
        buf_put_u64(out, v.natural);
        buf_put_byte(out, 'u');
        return;
    case CEL_DOUBLE: put_double(out, v.number); return;
    case CEL_STRING: json_put_string(out, cel_text(v)); return;
    case CEL_BYTES: put_bytes(out, cel_text(v)); return;
    case CEL_LIST:
    case CEL_MAP: put_many(out, v, depth); return;
    case CEL_TIMESTAMP:
        buf_put_literal(out, "timestamp(\"");
        time_put_timestamp(out, v);
        buf_put_literal(out, "\")");
        return;
    case CEL_DURATION:
        buf_put_literal(out, "duration(\"");
        time_put_duration(out, v);
        buf_put_literal(out, "\")");
        return;
    case CEL_TYPE: buf_put(out, str_from(cel_kind_name((enum cel_kind)v.integer))); return;
    case CEL_CIDR:
        buf_put_literal(out, "cidr(\"");
        cel_cidr_put(out, v.cidr);
        buf_put_literal(out, "\")");
        return;
    case CEL_IP:
        buf_put_literal(out, "ip(\"");
        cel_address_put(out, v.cidr);
        buf_put_literal(out, "\")");
        return;
    case CEL_URL:
        buf_put_literal(out, "url(");
        json_put_string(out, v.url->text);
        buf_put_byte(out, ')');
        return;
    case CEL_REGEX:
    case CEL_ZONE:
    case CEL_ABSENT:
    case CEL_ERROR:
    case CEL_KINDS: buf_put(out, str_from(cel_kind_name((enum cel_kind)v.kind))); return;
    }
}

void cel_put_value(struct buf *out, struct cel_value v) { put_value(out, v, 0); }

/* ---- JSON ---- */

static enum err base64(struct str bytes, struct arena *arena, struct str *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = arena_bytes(arena, (bytes.size + 2) / 3 * 4 + 1);
    size_t size = 0;
    if (to == NULL) return ERR_FULL;
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t group = (uint32_t)(unsigned char)bytes.bytes[i] << 16;
        if (left > 1) group |= (uint32_t)(unsigned char)bytes.bytes[i + 1] << 8;
        if (left > 2) group |= (unsigned char)bytes.bytes[i + 2];
        to[size++] = digits[group >> 18];
        to[size++] = digits[group >> 12 & 63];
        to[size++] = left > 1 ? digits[group >> 6 & 63] : '=';
        to[size++] = left > 2 ? digits[group & 63] : '=';
    }
    *ret = str_of(to, size);
    return ERR_OK;
}

static enum err set_time(struct json *j, struct cel_value v, struct arena *arena)
{
    char text[64];
    struct buf out = buf_over(text, sizeof text);
    if (v.kind == CEL_TIMESTAMP)
        time_put_timestamp(&out, v);
    else
        time_put_duration(&out, v);
    j->type = JSON_STRING;
    j->string = arena_copy(arena, buf_view(&out));
    return str_is_absent(j->string) ? ERR_FULL : ERR_OK;
}

static enum err set_many(struct json *j, struct cel_value v, unsigned depth, struct arena *arena)
{
    struct json **end = &j->child;
    struct cel_value key, item;
    if (depth == 0) return ERR_TOO_DEEP;
    j->type = v.kind == CEL_LIST ? JSON_ARRAY : JSON_OBJECT;
    j->count = v.size;
    for (struct cel_walk walk = cel_walk_start(v); cel_walk_next(&walk, &key, &item);
         end = &(*end)->next) {
        if (v.kind == CEL_MAP && key.kind != CEL_STRING) return ERR_WRONG_TYPE;
        enum err e = cel_to_json(item, depth - 1, arena, end);
        if (e != ERR_OK) return e;
        if (v.kind == CEL_MAP) (*end)->key = cel_text(key);
        if (v.kind == CEL_MAP)
            (*end)->has_nul = (*end)->has_nul || memchr(key.bytes, '\0', key.size) != NULL;
    }
    return ERR_OK;
}

enum err cel_to_json(struct cel_value v, unsigned depth, struct arena *arena, struct json **ret)
{
    struct json *j = arena_new(arena, struct json);
    if (j == NULL) return ERR_FULL;
    *ret = j;
    switch ((enum cel_kind)v.kind) {
    case CEL_NULL: j->type = JSON_NULL; return ERR_OK;
    case CEL_BOOL: j->type = v.boolean ? JSON_TRUE : JSON_FALSE; return ERR_OK;
    case CEL_INT:
        json_set_integer(j, v.integer < 0 ? 0 - v.natural : v.natural, v.integer < 0);
        return ERR_OK;
    case CEL_UINT: json_set_integer(j, v.natural, false); return ERR_OK;
    case CEL_DOUBLE:
        j->type = JSON_NUMBER;
        j->number = v.number;
        return isfinite(v.number) ? ERR_OK : ERR_WRONG_TYPE;
    case CEL_STRING:
        j->type = JSON_STRING;
        j->string = cel_text(v);
        j->has_nul = memchr(v.bytes, '\0', v.size) != NULL;
        return ERR_OK;
    case CEL_BYTES: j->type = JSON_STRING; return base64(cel_text(v), arena, &j->string);
    case CEL_TIMESTAMP:
    case CEL_DURATION: return set_time(j, v, arena);
    case CEL_LIST:
    case CEL_MAP: return set_many(j, v, depth, arena);
    default: return ERR_WRONG_TYPE;
    }
}
