/* place.c - the functions that policies need to say where: names by glob, files below a folder.
 * (Addresses and URLs: network.c.) */
#include "policy/cel/functions.h"

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }

struct cel_value place_glob(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_STRING) return cel_no_overload();
    if (!cel_pay(m, 1 + (uint64_t)a[0].size * (1 + a[1].size / 8) / 2)) return spent();
    return cel_bool(str_glob(cel_text(a[1]), cel_text(a[0]), false));
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
