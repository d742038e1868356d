/* place.c - the functions that policies need to say where: names by glob, addresses by range, files
 * below a folder. */
#include <arpa/inet.h>

#include "policy/cel/functions.h"
#include "policy/cel/place.h"

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }

struct cel_value place_glob(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay(m, 1 + (uint64_t)a[0].size * (1 + a[1].size / 8) / 2)) return spent();
    return cel_bool(str_glob(cel_text(a[1]), cel_text(a[0]), false));
}

/* ---- addresses ---- */

/* An IPv4 address that is written as IPv6 (::ffff:10.0.0.1) is the IPv4 address, so that nobody
 * walks around a range by spelling. Zones (%eth0), ports and blanks are refused. */
static bool read_address(struct str text, struct cel_cidr *ret)
{
    char copy[64];
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    if (text.size == 0 || text.size >= sizeof copy || memchr(text.bytes, '\0', text.size) != NULL)
        return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    *ret = (struct cel_cidr){.family = 4, .bits = 32};
    if (inet_pton(AF_INET, copy, ret->bytes) == 1) return true;
    *ret = (struct cel_cidr){.family = 6, .bits = 128};
    if (inet_pton(AF_INET6, copy, ret->bytes) != 1) return false;
    if (memcmp(ret->bytes, mapped, sizeof mapped) == 0) {
        struct cel_cidr four = {.family = 4, .bits = 32};
        memcpy(four.bytes, ret->bytes + 12, 4);
        *ret = four;
    }
    return true;
}

/* Clears what is behind the prefix; true where there was something. */
static bool prefix_mask(struct cel_cidr *c)
{
    bool had_more = false;
    unsigned size = c->family == 4 ? 4 : 16;
    for (unsigned i = 0; i < size; i++) {
        unsigned kept = c->bits >= (i + 1) * 8 ? 8 : c->bits > i * 8 ? c->bits - i * 8 : 0;
        uint8_t cut = (uint8_t)(c->bytes[i] & (0xFF00u >> kept));
        had_more = had_more || cut != c->bytes[i];
        c->bytes[i] = cut;
    }
    return had_more;
}

bool cel_cidr_read(struct str text, struct cel_cidr *ret)
{
    size_t slash = str_find(text, '/');
    uint64_t bits;
    struct str address = str_of(text.bytes, slash);
    if (!read_address(address, ret)) return false;
    if (slash == text.size) return true;
    struct str length = str_skip(text, slash + 1);
    if (length.size > 3 || !str_to_u64(length, &bits)) return false;
    bool written_as_six = str_find(address, ':') < address.size;
    if (ret->family == 4 && written_as_six) { /* a range of mapped addresses */
        if (bits < 96) return false;
        bits -= 96;
    }
    if (bits > ret->bits) return false;
    ret->bits = (uint8_t)bits;
    prefix_mask(ret);
    return true;
}

static bool contains(const struct cel_cidr *range, struct cel_cidr inner)
{
    if (range->family != inner.family || range->bits > inner.bits) return false;
    inner.bits = range->bits;
    prefix_mask(&inner);
    return memcmp(range->bytes, inner.bytes, sizeof inner.bytes) == 0;
}

static struct cel_value is_inside(struct cel_meter *m, const struct cel_cidr *range,
                                  struct cel_value text)
{
    struct cel_cidr address;
    if (!cel_pay(m, 4)) return spent();
    if (!read_address(cel_text(text), &address))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(text));
    return cel_bool(contains(range, address));
}

/* cidr(text), and address.cidr(range). */
struct cel_value place_cidr(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_value range = a[count - 1];
    if (a[0].kind != CEL_STRING || (range.kind != CEL_STRING && range.kind != CEL_CIDR))
        return cel_no_overload();
    if (range.kind == CEL_CIDR) return is_inside(m, range.cidr, a[0]);
    struct cel_cidr *made = cel_take(m, sizeof *made);
    if (made == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    if (!cel_pay(m, 4)) return spent();
    if (!cel_cidr_read(cel_text(range), made))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(range));
    return count == 1 ? (struct cel_value){.kind = CEL_CIDR, .cidr = made}
                      : is_inside(m, made, a[0]);
}

struct cel_value place_contains_ip(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    return a[0].kind == CEL_CIDR && a[1].kind == CEL_STRING ? is_inside(m, a[0].cidr, a[1])
                                                            : cel_no_overload();
}

struct cel_value place_contains_cidr(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_cidr inner;
    (void)count;
    if (a[0].kind != CEL_CIDR || (a[1].kind != CEL_STRING && a[1].kind != CEL_CIDR))
        return cel_no_overload();
    if (!cel_pay(m, 4)) return spent();
    if (a[1].kind == CEL_CIDR) return cel_bool(contains(a[0].cidr, *a[1].cidr));
    if (!cel_cidr_read(cel_text(a[1]), &inner))
        return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(a[1]));
    return cel_bool(contains(a[0].cidr, inner));
}

/* ---- paths ---- */

/* A normalised path under construction: "/a/b", "" for the root of all. */
struct path {
    char *bytes;
    size_t size;
    size_t root; /* it may not become shorter than this; SIZE_MAX: not there yet */
};

static bool path_step(struct path *p, struct str name)
{
    if (name.size == 0 || str_equal(name, STR("."))) return true;
    if (!str_equal(name, STR(".."))) {
        p->bytes[p->size++] = '/';
        memcpy(p->bytes + p->size, name.bytes, name.size);
        p->size += name.size;
        return true;
    }
    while (p->size > 0 && p->bytes[--p->size] != '/') {
    }
    return p->root == SIZE_MAX || p->size >= p->root;
}

static bool path_steps(struct path *p, struct str path)
{
    struct str name;
    while (str_split(&path, '/', &name))
        if (!path_step(p, name)) return false;
    return true;
}

/* An absolute path has to walk through the root before anything else, and neither kind may leave it
 * again, not even to come back: what is on the way may be a link to elsewhere. */
struct cel_value place_path_under(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_STRING) return cel_no_overload();
    struct str root = cel_text(a[0]), path = cel_text(a[1]);
    if (!cel_pay_slow_bytes(m, root.size + path.size, 4)) return spent();
    if (root.size == 0 || root.bytes[0] != '/') return cel_fail_text(m, CEL_FAULT_ARGUMENT, root);
    if (memchr(root.bytes, '\0', root.size) != NULL || memchr(path.bytes, '\0', path.size) != NULL)
        return cel_fail(CEL_FAULT_ESCAPE, NULL);
    char *bytes = cel_take(m, root.size + path.size + 2), *prefix = cel_take(m, root.size + 1);
    if (bytes == NULL || prefix == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    struct path base = {.bytes = prefix, .root = SIZE_MAX}, p = {.bytes = bytes, .root = SIZE_MAX};
    path_steps(&base, root);
    if (path.size == 0 || path.bytes[0] != '/') {
        memcpy(bytes, prefix, base.size);
        p.size = base.size;
    }
    struct str name;
    for (;;) {
        bool inside = p.size >= base.size && memcmp(bytes, prefix, base.size) == 0 &&
                      (p.size == base.size || bytes[base.size] == '/');
        bool on_the_way =
            p.size < base.size && memcmp(bytes, prefix, p.size) == 0 && prefix[p.size] == '/';
        if (inside)
            p.root = base.size;
        else if (!on_the_way)
            return cel_fail_text(m, CEL_FAULT_ESCAPE, cel_text(a[1]));
        if (!str_split(&path, '/', &name)) break;
        if (!path_step(&p, name)) return cel_fail_text(m, CEL_FAULT_ESCAPE, cel_text(a[1]));
    }
    if (p.root == SIZE_MAX) return cel_fail_text(m, CEL_FAULT_ESCAPE, cel_text(a[1]));
    if (p.size == 0) bytes[p.size++] = '/';
    return cel_string(bytes, p.size);
}
