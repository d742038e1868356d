/* target.c - request targets. Dot segments have no special meaning: a path is a route or it is
 * not. */
#include "http/target.h"

#include "base/buf.h"
#include "http/client.h"
#include "http/host.h"

/* The part after the scheme of an absolute form; absent: it has no scheme that we serve. */
static struct str after_scheme(struct str target)
{
    static const struct str schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < 2; i++)
        if (target.size >= schemes[i].size &&
            str_equal_ignoring_case(str_of(target.bytes, schemes[i].size), schemes[i]))
            return str_skip(target, schemes[i].size);
    return (struct str){0};
}

/* Skips the host of an absolute form, which must be as well-formed as the Host header. A user
 * before it is refused, because it can disguise the host (RFC 9110, 4.2.4). */
static enum err skip_authority(struct str *rest, struct fault *f)
{
    size_t end = 0;
    while (end < rest->size && rest->bytes[end] != '/' && rest->bytes[end] != '?') end++;
    struct str authority = str_of(rest->bytes, end);
    const char *wrong = end == 0                                    ? "has no host"
                        : str_find(authority, '@') < authority.size ? "names a user before its host"
                                                                    : host_judge(authority);
    if (wrong != NULL)
        return fault_set(f, ERR_BAD_REQUEST, "", "the request target %s: send the path alone",
                         wrong);
    *rest = str_skip(*rest, end);
    return ERR_OK;
}

enum err target_split(struct str target, struct str *ret_path, struct str *ret_query,
                      struct fault *f)
{
    for (size_t i = 0; i < target.size; i++)
        if (target.bytes[i] < 0x21 || target.bytes[i] > 0x7e || target.bytes[i] == '#')
            return fault_set(f, ERR_BAD_REQUEST, "",
                             "byte %zu of the request target must be percent-encoded", i);

    struct str rest = target;
    if (!str_starts(target, STR("/")) && !str_equal(target, STR("*"))) {
        rest = after_scheme(target);
        if (str_is_absent(rest))
            return fault_set(f, ERR_BAD_REQUEST, "", "the request target does not begin with /");
        enum err err = skip_authority(&rest, f);
        if (err != ERR_OK) return err;
    }
    size_t block = str_find(rest, '?');
    *ret_path = block == 0 ? STR("/") : str_of(rest.bytes, block);
    *ret_query = block == rest.size ? (struct str){0} : str_skip(rest, block + 1);
    return ERR_OK;
}

/* The error, as the end of a sentence; NULL: none. An encoded `/` becomes `slash`. */
static const char *decode(struct str text, bool plus_is_blank, char slash, char *to,
                          size_t *ret_size)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (c == '+' && plus_is_blank) c = ' ';
        if (c == '%') {
            if (text.size - i < 3) return "ends within a percent-encoding";
            int high = hex_value(text.bytes[i + 1]), low = hex_value(text.bytes[i + 2]);
            if (high < 0 || low < 0) return "has a % without two hexadecimal digits";
            c = (char)(high << 4 | low);
            if (c == '\0') return "has a NUL";
            if (c == '/') c = slash;
            i += 2;
        }
        to[size++] = c;
    }
    size_t wrong;
    if (!str_is_utf8(str_of(to, size), &wrong)) return "is not UTF-8";
    *ret_size = size;
    return NULL;
}

enum err target_decode_path(struct str path, struct arena *arena, struct str *ret, struct fault *f)
{
    if (memchr(path.bytes, '%', path.size) == NULL) {
        *ret = path;
        return ERR_OK;
    }
    char *to = arena_bytes(arena, path.size);
    if (to == NULL) return fault_plain(f, ERR_FULL);
    size_t size = 0;
    const char *wrong = decode(path, false, TARGET_SLASH, to, &size);
    if (wrong != NULL) return fault_set(f, ERR_BAD_REQUEST, "", "the path %s", wrong);

    *ret = str_of(to, size);
    return ERR_OK;
}

void target_put_slashes(struct str segment)
{
    for (char *at;
         segment.size > 0 && (at = memchr(segment.bytes, TARGET_SLASH, segment.size)) != NULL;)
        *at = '/';
}

bool query_next(struct str *query, struct str *ret_name, struct str *ret_value)
{
    struct str piece;
    while (str_split(query, '&', &piece)) {
        if (str_is_empty(piece)) continue;
        size_t equals = str_find(piece, '=');
        *ret_name = str_of(piece.bytes, equals);
        *ret_value = equals == piece.size ? (struct str){0} : str_skip(piece, equals + 1);
        return true;
    }
    return false;
}

enum err query_decode(struct str text, struct arena *arena, struct str *ret, struct fault *f)
{
    char *to = arena_bytes(arena, text.size + 1);
    if (to == NULL) return fault_plain(f, ERR_FULL);
    size_t size = 0;
    const char *wrong = decode(text, true, '/', to, &size);
    if (wrong != NULL) return fault_set(f, ERR_BAD_PARAMETER, "", "a query parameter %s", wrong);
    *ret = str_of(to, size);
    return ERR_OK;
}

void http_put_encoded(struct buf *out, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain) {
            buf_put_byte(out, (char)c);
        } else {
            buf_put_byte(out, '%');
            buf_put_byte(out, digits[c >> 4]);
            buf_put_byte(out, digits[c & 15]);
        }
    }
}
