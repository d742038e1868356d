/* network.c - the functions of addresses, ranges and URLs. Names and meanings are those of the
 * Kubernetes CEL libraries; isPrivate() is an addition. Parsing is strict (address.h, url.h): an
 * invalid text is an error, so that a condition fails closed. Host names are never resolved. */
#include "cel/address.h"
#include "cel/functions.h"
#include "cel/url.h"

enum { ADDRESS_COST = 4, URL_COST = 6, URL_BYTES_TO_A_STEP = 3, QUERY_BYTES_TO_A_STEP = 2 };

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }
static struct cel_value no_memory(void) { return cel_fail(CEL_FAULT_MEMORY, NULL); }

/* ---- ranges ---- */

static struct cel_value is_inside(struct cel_meter *m, const struct cel_cidr *range,
                                  struct cel_value text)
{
    struct cel_cidr address;
    if (!cel_pay(m, ADDRESS_COST)) return spent();
    if (!cel_address_read(cel_text(text), &address))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(text));
    return cel_bool(cel_cidr_contains(range, address));
}

/* cidr(text), and address.cidr(range). */
struct cel_value network_cidr(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_value range = a[count - 1];
    if (a[0].kind != CEL_STRING || (range.kind != CEL_STRING && range.kind != CEL_CIDR))
        return cel_no_overload();
    if (range.kind == CEL_CIDR) return is_inside(m, range.cidr, a[0]);
    struct cel_cidr *made = cel_take(m, sizeof *made);
    if (made == NULL) return no_memory();
    if (!cel_pay(m, ADDRESS_COST)) return spent();
    if (!cel_cidr_read(cel_text(range), made))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(range));
    return count == 1 ? (struct cel_value){.kind = CEL_CIDR, .cidr = made}
                      : is_inside(m, made, a[0]);
}

struct cel_value network_is_cidr(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_cidr range;
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay(m, ADDRESS_COST)) return spent();
    return cel_bool(cel_cidr_read(cel_text(a[0]), &range));
}

struct cel_value network_contains_ip(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_CIDR) return cel_no_overload();
    if (a[1].kind == CEL_IP) return cel_bool(cel_cidr_contains(a[0].cidr, *a[1].cidr));
    return a[1].kind == CEL_STRING ? is_inside(m, a[0].cidr, a[1]) : cel_no_overload();
}

struct cel_value network_contains_cidr(struct cel_meter *m, const struct cel_value *a,
                                       uint32_t count)
{
    struct cel_cidr inner;
    (void)count;
    if (a[0].kind != CEL_CIDR || (a[1].kind != CEL_STRING && a[1].kind != CEL_CIDR))
        return cel_no_overload();
    if (!cel_pay(m, ADDRESS_COST)) return spent();
    if (a[1].kind == CEL_CIDR) return cel_bool(cel_cidr_contains(a[0].cidr, *a[1].cidr));
    if (!cel_cidr_read(cel_text(a[1]), &inner))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(a[1]));
    return cel_bool(cel_cidr_contains(a[0].cidr, inner));
}

struct cel_value network_prefix_length(struct cel_meter *m, const struct cel_value *a,
                                       uint32_t count)
{
    (void)m, (void)count;
    return a[0].kind == CEL_CIDR ? cel_int(a[0].cidr->bits) : cel_no_overload();
}

/* ---- addresses ---- */

struct cel_value network_ip(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay(m, ADDRESS_COST)) return spent();
    struct cel_cidr *made = cel_take(m, sizeof *made);
    if (made == NULL) return no_memory();
    if (!cel_address_read(cel_text(a[0]), made))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(a[0]));
    return (struct cel_value){.kind = CEL_IP, .cidr = made};
}

struct cel_value network_is_ip(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_cidr address;
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay(m, ADDRESS_COST)) return spent();
    return cel_bool(cel_address_read(cel_text(a[0]), &address));
}

struct cel_value network_family(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    return a[0].kind == CEL_IP ? cel_int(a[0].cidr->family) : cel_no_overload();
}

#define ADDRESS_TEST(name)                                                                         \
    struct cel_value network_##name(struct cel_meter *m, const struct cel_value *a,                \
                                    uint32_t count)                                                \
    {                                                                                              \
        (void)m, (void)count;                                                                      \
        return a[0].kind == CEL_IP ? cel_bool(cel_address_##name(a[0].cidr)) : cel_no_overload();  \
    }

ADDRESS_TEST(is_unspecified)
ADDRESS_TEST(is_loopback)
ADDRESS_TEST(is_link_local_unicast)
ADDRESS_TEST(is_link_local_multicast)
ADDRESS_TEST(is_global_unicast)
ADDRESS_TEST(is_private)

/* ---- URLs ---- */

/* The URL of a text; NULL: *ret_wrong has the reason. */
static const struct cel_url *read_url(struct cel_meter *m, struct cel_value text,
                                      struct cel_value *ret_wrong)
{
    *ret_wrong = spent();
    if (!cel_pay(m, URL_COST + text.size / URL_BYTES_TO_A_STEP)) return NULL;
    *ret_wrong = no_memory();
    struct cel_url *url = cel_take(m, sizeof *url);
    char *room = cel_take(m, (size_t)text.size + URL_MORE_BYTES);
    if (url == NULL || room == NULL) return NULL;
    *ret_wrong = (struct cel_value){0};
    return cel_url_read(cel_text(text), room, url) ? url : NULL;
}

struct cel_value network_url(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_value wrong;
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    const struct cel_url *url = read_url(m, a[0], &wrong);
    if (url != NULL) return (struct cel_value){.kind = CEL_URL, .url = url};
    return cel_is_error(wrong) ? wrong : cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(a[0]));
}

struct cel_value network_is_url(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_value wrong;
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    const struct cel_url *url = read_url(m, a[0], &wrong);
    return cel_is_error(wrong) ? wrong : cel_bool(url != NULL);
}

#define URL_PART(name, member)                                                                     \
    struct cel_value network_##name(struct cel_meter *m, const struct cel_value *a,                \
                                    uint32_t count)                                                \
    {                                                                                              \
        (void)m, (void)count;                                                                      \
        return a[0].kind == CEL_URL ? cel_of_str(a[0].url->member) : cel_no_overload();            \
    }

URL_PART(get_scheme, scheme)
URL_PART(get_host, host)
URL_PART(get_hostname, hostname)
URL_PART(get_port, port)
URL_PART(get_escaped_path, path)

/* One name or value of a query without its escapes; an error if it is not UTF-8. */
static struct cel_value unescaped(struct cel_meter *m, struct str text)
{
    size_t wrong;
    char *to = cel_take(m, text.size + 1);
    if (to == NULL) return no_memory();
    size_t size = cel_url_unescape(text, to);
    if (!str_is_utf8(str_of(to, size), &wrong)) return cel_fail(CEL_FAULT_SYNTAX, NULL);
    return cel_string(to, size);
}

/* Adds a value after those of the same name; there are *count pairs. */
static struct cel_value query_add(struct cel_meter *m, struct cel_value *pairs, size_t *count,
                                  struct cel_value name, struct cel_value value)
{
    size_t at = 0;
    for (; at < *count; at++) {
        if (!cel_pay(m, 1 + name.size / 16)) return spent();
        if (str_equal(cel_text(pairs[2 * at]), cel_text(name))) break;
    }
    uint32_t before = at < *count ? pairs[2 * at + 1].size : 0;
    if (!cel_pay(m, before)) return spent();
    struct cel_value *values = cel_take_values(m, before + 1u);
    if (values == NULL) return no_memory();
    if (before > 0) memcpy(values, pairs[2 * at + 1].items, before * sizeof *values);
    values[before] = value;
    pairs[2 * at] = name;
    pairs[2 * at + 1] = cel_list(values, before + 1u);
    if (at == *count) ++*count;
    return name;
}

/* name → its values. A ; is refused: some programs take it for another &. */
struct cel_value network_get_query(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_URL) return cel_no_overload();
    struct str rest = a[0].url->query, part;
    if (!cel_pay_slow_bytes(m, rest.size, QUERY_BYTES_TO_A_STEP)) return spent();
    if (str_find(rest, ';') < rest.size) return cel_fail(CEL_FAULT_SYNTAX, NULL);
    size_t most = 1, pairs_count = 0;
    for (size_t i = 0; i < rest.size; i++) most += rest.bytes[i] == '&';
    struct cel_value *pairs = cel_take_values(m, 2 * most);
    if (pairs == NULL) return no_memory();
    while (str_split(&rest, '&', &part)) {
        if (part.size == 0) continue;
        size_t equals = str_find(part, '=');
        struct cel_value name = unescaped(m, str_of(part.bytes, equals)), value;
        if (cel_is_error(name)) return name;
        value = unescaped(m, equals < part.size ? str_skip(part, equals + 1) : STR(""));
        if (cel_is_error(value)) return value;
        struct cel_value added = query_add(m, pairs, &pairs_count, name, value);
        if (cel_is_error(added)) return added;
    }
    return cel_map_make(m, pairs, pairs_count);
}
