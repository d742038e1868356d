/* fuzz_json.c - the JSON reader and writer against an independent grammar and against each other.
 *
 * What must hold for any bytes: the reader takes exactly what a plain recursive recogniser of RFC
 * 8259 takes, but for the refusals of its own (duplicate keys, depth, numbers, U+0000); a fault's
 * texts are UTF-8; what was read is written, read again and written the same. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a recogniser that shares nothing with the reader ---- */

struct look {
    const uint8_t *at, *end;
};

static void spaces(struct look *l)
{
    while (l->at < l->end && strchr(" \t\r\n", *l->at) != NULL && *l->at != 0) l->at++;
}

static bool one(struct look *l, uint8_t c)
{
    if (l->at == l->end || *l->at != c) return false;
    l->at++;
    return true;
}

static bool word(struct look *l, const char *text)
{
    for (; *text != '\0'; text++)
        if (!one(l, (uint8_t)*text)) return false;
    return true;
}

static size_t digits(struct look *l)
{
    size_t count = 0;
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++) count++;
    return count;
}

static bool number(struct look *l)
{
    one(l, '-');
    if (!one(l, '0') && digits(l) == 0) return false;
    if (one(l, '.') && digits(l) == 0) return false;
    if (!one(l, 'e') && !one(l, 'E')) return true;
    if (!one(l, '+')) one(l, '-');
    return digits(l) > 0;
}

static long unit(struct look *l)
{
    if (l->end - l->at < 4) return -1;
    char text[5] = {0};
    for (int i = 0; i < 4; i++) {
        text[i] = (char)*l->at++;
        if (strchr("0123456789abcdefABCDEF", text[i]) == NULL || text[i] == 0) return -1;
    }
    return strtol(text, NULL, 16);
}

static bool string(struct look *l)
{
    if (!one(l, '"')) return false;
    const char *first = (const char *)l->at;
    while (l->at < l->end && *l->at != '"') {
        uint8_t c = *l->at++;
        if (c < 0x20) return false;
        if (c != '\\') continue;
        if (l->at == l->end) return false;
        c = *l->at++;
        if (c != 'u') {
            if (c == 0 || strchr("\"\\/bfnrt", c) == NULL) return false;
            continue;
        }
        long high = unit(l);
        if (high < 0 || (high >= 0xDC00 && high <= 0xDFFF)) return false;
        if (high < 0xD800 || high > 0xDBFF) continue;
        if (!one(l, '\\') || !one(l, 'u')) return false;
        long low = unit(l);
        if (low < 0xDC00 || low > 0xDFFF) return false;
    }
    size_t wrong;
    bool utf8 = str_is_utf8(str_of(first, (size_t)((const char *)l->at - first)), &wrong);
    return one(l, '"') && utf8;
}

static bool value(struct look *l, int depth)
{
    if (depth > 2000 || l->at == l->end) return false;
    uint8_t c = *l->at;
    if (c == '"') return string(l);
    if (c == 't') return word(l, "true");
    if (c == 'f') return word(l, "false");
    if (c == 'n') return word(l, "null");
    if (c != '{' && c != '[') return number(l);
    l->at++;
    spaces(l);
    uint8_t close = c == '{' ? '}' : ']';
    if (one(l, close)) return true;
    for (;;) {
        spaces(l);
        if (c == '{') {
            if (!string(l)) return false;
            spaces(l);
            if (!one(l, ':')) return false;
            spaces(l);
        }
        if (!value(l, depth + 1)) return false;
        spaces(l);
        if (one(l, close)) return true;
        if (!one(l, ',')) return false;
    }
}

static bool is_json(const uint8_t *data, size_t size)
{
    struct look l = {data, data + size};
    spaces(&l);
    if (!value(&l, 0)) return false;
    spaces(&l);
    return l.at == l.end;
}

/* ---- the reader ---- */

static void fault_is_sound(const struct fault *f, enum err err)
{
    size_t wrong;
    check(f->err == err && f->text[0] != '\0');
    check(str_is_utf8(str_from(f->text), &wrong) && str_is_utf8(str_from(f->field), &wrong));
}

static void canonical_is_stable(const struct json *root, const struct json_options *options,
                                struct arena *arena)
{
    struct buf once, twice;
    struct json *again;
    buf_init(&once, 0, 64 << 20);
    buf_init(&twice, 0, 64 << 20);
    json_put_canonical(&once, root);
    check(!once.overflow);
    check(json_read(buf_view(&once), options, arena, &again, NULL) == ERR_OK);
    json_put_canonical(&twice, again);
    check(str_equal(buf_view(&once), buf_view(&twice)));
    buf_fini(&once);
    buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct json_options anywhere = {.nul_anywhere = true};
    static struct arena arena;
    if (arena.first == NULL) arena_init(&arena, 1 << 16, 64 << 20);
    arena_reset(&arena);
    struct json *root;
    struct fault f;
    struct str text = str_of((const char *)data, size);
    enum err err = json_read(text, &anywhere, &arena, &root, &f);
    if (err != ERR_OK) fault_is_sound(&f, err);
    bool sound = is_json(data, size);
    check(sound || err != ERR_OK);
    check(!sound || err != ERR_MALFORMED_JSON);
    if (err == ERR_OK) canonical_is_stable(root, &anywhere, &arena);

    arena_reset(&arena);
    enum err strict = json_read(text, NULL, &arena, &root, &f);
    check(err == ERR_OK || strict != ERR_OK);
    if (strict != ERR_OK)
        fault_is_sound(&f, strict);
    else
        canonical_is_stable(root, NULL, &arena);
    return 0;
}
