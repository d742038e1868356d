/* url.c - see url.h. One walk from left to right that copies each part into the plain form. */
#include "cel/url.h"

#include "cel/address.h"

enum { LABEL_MAX = 63, HOST_MAX = 253, PORT_MAX = 65535 };

static bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c); }

static int hex(char c)
{
    char low = (char)(c | 0x20);
    return is_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

static bool is_escape(struct str text, size_t at)
{
    return at + 2 < text.size && text.bytes[at] == '%' && hex(text.bytes[at + 1]) >= 0 &&
           hex(text.bytes[at + 2]) >= 0;
}

static struct str put(struct buf *out, struct str part)
{
    struct str copy = str_of(out->bytes + out->size, part.size);
    buf_put(out, part);
    return copy;
}

/* ---- scheme, user ---- */

static bool take_scheme(struct str *text, struct buf *out, struct str *ret)
{
    size_t size = str_find(*text, ':');
    if (size == 0 || size == text->size || !is_letter(text->bytes[0])) return false;
    for (size_t i = 0; i < size; i++) {
        char c = text->bytes[i];
        if (!is_letter(c) && !is_digit(c) && c != '+' && c != '-' && c != '.') return false;
        buf_put_byte(out, lower(c));
    }
    *ret = str_of(out->bytes, size);
    *text = str_skip(*text, size);
    if (!str_starts(*text, STR("://"))) return false;
    put(out, STR("://"));
    *text = str_skip(*text, 3);
    return true;
}

/* The part before the @. Programs differ about which @ counts, so only one is allowed. */
static bool take_user(struct str *authority, struct buf *out)
{
    size_t size = str_find(*authority, '@');
    if (size == authority->size) return true;
    for (size_t i = 0; i < size; i++) {
        char c = authority->bytes[i];
        if (c == '%' && is_escape(*authority, i)) continue;
        if (!is_letter(c) && !is_digit(c) && (c == '\0' || strchr("-._~!$&'()*+,;=:", c) == NULL))
            return false;
    }
    put(out, str_of(authority->bytes, size + 1));
    *authority = str_skip(*authority, size + 1);
    return true;
}

/* ---- host, port ---- */

static bool is_name(struct str host)
{
    size_t label = 0;
    if (host.size > HOST_MAX) return false;
    for (size_t i = 0; i < host.size; i++) {
        char c = host.bytes[i];
        if (c == '.') {
            if (label == 0) return false;
            label = 0;
            continue;
        }
        if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_') return false;
        if (++label > LABEL_MAX) return false;
    }
    return label > 0;
}

/* The part before the port, in its plain form. */
static bool put_host(struct str host, struct buf *out, struct str *ret_hostname)
{
    struct cel_cidr address;
    size_t from = out->size;
    bool in_brackets = host.size >= 2 && host.bytes[0] == '[';
    if (in_brackets) {
        struct str inner = str_of(host.bytes + 1, host.size - 2);
        if (str_find(inner, ':') == inner.size || !cel_address_read(inner, &address)) return false;
    } else {
        if (host.size > 1 && host.bytes[host.size - 1] == '.') host.size--;
        if (!is_name(host)) return false;
        if (!cel_address_is_number(host)) {
            for (size_t i = 0; i < host.size; i++) buf_put_byte(out, lower(host.bytes[i]));
            *ret_hostname = str_of(out->bytes + from, host.size);
            return true;
        }
        if (!cel_address_read_host(host, &address)) return false;
    }
    bool is_six = address.family == 6;
    if (is_six) buf_put_byte(out, '[');
    from = out->size;
    cel_address_put(out, &address);
    *ret_hostname = str_of(out->bytes + from, out->size - from);
    if (is_six) buf_put_byte(out, ']');
    return true;
}

/* Of ":0080" it is "80"; a colon by itself is no port. */
static bool put_port(struct str port, struct buf *out, struct str *ret)
{
    unsigned number = 0;
    if (port.size < 2) return true;
    port = str_skip(port, 1);
    for (size_t i = 0; i < port.size; i++) {
        if (!is_digit(port.bytes[i])) return false;
        number = number * 10 + (unsigned)(port.bytes[i] - '0');
        if (number > PORT_MAX) return false;
    }
    buf_put_byte(out, ':');
    size_t from = out->size;
    buf_put_u64(out, number);
    *ret = str_of(out->bytes + from, out->size - from);
    return true;
}

static bool take_authority(struct str *text, struct buf *out, struct cel_url *ret)
{
    size_t size = 0;
    while (size < text->size && strchr("/?#", text->bytes[size]) == NULL) size++;
    struct str authority = str_of(text->bytes, size);
    *text = str_skip(*text, size);
    if (memchr(authority.bytes, '\0', size) != NULL || !take_user(&authority, out)) return false;
    size_t end = 0;
    if (authority.size > 0 && authority.bytes[0] == '[') {
        end = str_find(authority, ']');
        if (end++ == authority.size) return false;
        if (end < authority.size && authority.bytes[end] != ':') return false;
    } else {
        end = str_find(authority, ':');
    }
    size_t from = out->size;
    struct str host = str_of(authority.bytes, end), port = str_skip(authority, end);
    ret->hostname = ret->port = ret->host = str_of(out->bytes + from, 0);
    if (host.size == 0) {
        static const char *const with_host[] = {"http", "https", "ws", "wss", "ftp"};
        for (size_t i = 0; i < sizeof with_host / sizeof with_host[0]; i++)
            if (str_equal(ret->scheme, str_from(with_host[i]))) return false;
        /* a user or a port needs a host */
        return port.size == 0 && out->bytes[from - 1] == '/';
    }
    if (!put_host(host, out, &ret->hostname) || !put_port(port, out, &ret->port)) return false;
    ret->host = str_of(out->bytes + from, out->size - from);
    return true;
}

/* ---- path, query, fragment ---- */

/* Characters that may follow the host, besides escapes. Characters that are not ASCII are sent as
 * escapes and do not change the part before them. */
static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if (c == '%' && !is_escape(text, i)) return false;
        if (c <= ' ' || c == 0x7F || c == '\\' || c == '"' || c == '<' || c == '>' || c == '`')
            return false;
    }
    return true;
}

/* ".", "..", also as %2e. */
static bool is_dots(struct str part)
{
    size_t dots = 0;
    for (size_t i = 0; i < part.size; dots++) {
        bool is_escaped =
            is_escape(part, i) && part.bytes[i + 1] == '2' && (part.bytes[i + 2] | 0x20) == 'e';
        if (!is_escaped && part.bytes[i] != '.') return false;
        i += is_escaped ? 3 : 1;
    }
    return dots == 1 || dots == 2;
}

static bool take_path(struct str *text, struct buf *out, struct str *ret)
{
    size_t size = 0;
    while (size < text->size && text->bytes[size] != '?' && text->bytes[size] != '#') size++;
    struct str path = str_of(text->bytes, size), rest = path, part;
    while (str_split(&rest, '/', &part))
        if (is_dots(part)) return false;
    *text = str_skip(*text, size);
    *ret = put(out, path);
    return is_plain(path);
}

bool cel_url_read(struct str text, char *room, struct cel_url *ret)
{
    struct buf out = buf_over(room, text.size + URL_MORE_BYTES);
    *ret = (struct cel_url){0};
    if (!take_scheme(&text, &out, &ret->scheme) || !take_authority(&text, &out, ret) ||
        !take_path(&text, &out, &ret->path))
        return false;
    size_t hash = str_find(text, '#');
    struct str query = str_of(text.bytes, hash), fragment = str_skip(text, hash);
    struct str kept = put(&out, query);
    ret->query = str_skip(kept, query.size > 0);
    put(&out, fragment);
    ret->text = buf_view(&out);
    return is_plain(query) && is_plain(fragment) && !out.overflow;
}

size_t cel_url_unescape(struct str text, char *to)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        bool is_escaped = is_escape(text, i);
        to[size++] =
            is_escaped ? (char)(unsigned char)(hex(text.bytes[i + 1]) * 16 + hex(text.bytes[i + 2]))
            : text.bytes[i] == '+' ? ' '
                                   : text.bytes[i];
        i += is_escaped ? 2 : 0;
    }
    return size;
}
