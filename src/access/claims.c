#include "access/claims.h"

#include "base/limits.h"

/* ---- bounds ---- */

static enum err check_text(const char *what, struct str text, struct fault *f)
{
    struct str shown = str_cut(text, 64);
    if (text.size > LIMIT_CLAIM_BYTES)
        return fault_set(f, ERR_OUT_OF_RANGE, "/claims",
                         "claims: the %s \"%.*s…\" is longer than %d bytes", what,
                         STR_FORMAT(shown), LIMIT_CLAIM_BYTES);
    if (text.size == 0)
        return fault_set(f, ERR_BAD_VALUE, "/claims", "claims: a %s must not be empty", what);
    size_t ignored;
    bool is_plain = str_is_utf8(text, &ignored);
    for (size_t i = 0; i < text.size; i++)
        is_plain = is_plain && (unsigned char)text.bytes[i] >= ' ' && text.bytes[i] != 0x7f;
    return is_plain ? ERR_OK
                    : fault_set(f, ERR_BAD_VALUE, "/claims",
                                "claims: a %s has a control character, or is not UTF-8", what);
}

enum err claims_check(const struct claim *claims, size_t count, struct fault *f)
{
    size_t bytes = 0;
    if (count > LIMIT_CLAIMS)
        return fault_set(f, ERR_OUT_OF_RANGE, "/claims", "claims: has %zu entries, and %d may be",
                         count, LIMIT_CLAIMS);
    for (size_t i = 0; i < count; i++) {
        enum err err = check_text("name", claims[i].name, f);
        if (err == ERR_OK) err = check_text("value", claims[i].value, f);
        if (err != ERR_OK) return err;
        bytes += claims[i].name.size + claims[i].value.size;
    }
    if (bytes > LIMIT_CLAIMS_BYTES)
        return fault_set(f, ERR_OUT_OF_RANGE, "/claims",
                         "claims: has %zu bytes of names and values, and %d may be", bytes,
                         LIMIT_CLAIMS_BYTES);
    return ERR_OK;
}

/* ---- JSON ---- */

void claims_put(struct buf *out, const struct claim *claims, size_t count)
{
    buf_put_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        buf_put(out, i > 0 ? STR(",[") : STR("["));
        json_put_string(out, claims[i].name);
        buf_put_byte(out, ',');
        json_put_string(out, claims[i].value);
        buf_put_byte(out, ']');
    }
    buf_put_byte(out, ']');
}

static bool read_claim(const struct json *pair, struct claim *ret)
{
    if (pair->type != JSON_ARRAY || pair->count != 2) return false;
    const struct json *name = pair->child, *value = name->next;
    if (name->type != JSON_STRING || value->type != JSON_STRING) return false;
    *ret = (struct claim){.name = name->string, .value = value->string};
    return true;
}

enum err claims_read_list(const struct json *list, struct arena *arena, const struct claim **ret,
                          size_t *ret_count)
{
    size_t count = 0;
    if (list->type != JSON_ARRAY || list->count > LIMIT_CLAIMS) return ERR_CORRUPT;
    struct claim *claims = arena_array(arena, struct claim, list->count + 1);
    if (claims == NULL) return ERR_FULL;
    for (const struct json *pair = list->child; pair != NULL; pair = pair->next)
        if (!read_claim(pair, &claims[count++])) return ERR_CORRUPT;
    *ret = claims;
    *ret_count = count;
    return ERR_OK;
}

enum err claims_read(struct str text, struct arena *arena, const struct claim **ret,
                     size_t *ret_count)
{
    static const struct json_options options = {.depth_max = 2};
    struct json *list;
    *ret = NULL;
    *ret_count = 0;
    if (str_is_absent(text)) return ERR_OK;
    if (json_read(text, &options, arena, &list, NULL) != ERR_OK)
        return arena->overflow ? ERR_FULL : ERR_CORRUPT;
    return claims_read_list(list, arena, ret, ret_count);
}
