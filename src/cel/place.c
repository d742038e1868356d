/* place.c - functions of policies for names and files: glob() and path_under(). (Addresses and
 * URLs: network.c.) */
#include "cel/functions.h"

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }

/* `live[i]`: the text so far matches the pattern up to i. */
static void follow_stars(struct str pattern, bool *live)
{
    for (size_t i = 0; i < pattern.size; i++)
        if (live[i] && pattern.bytes[i] == '*') live[i + 1] = true;
}

/* One star matches within a part between separators, two stars match any text. */
static bool glob_in_parts(struct str pattern, struct str text, char separator, bool *live,
                          bool *next)
{
    memset(live, 0, pattern.size + 1);
    live[0] = true;
    follow_stars(pattern, live);
    for (size_t at = 0; at < text.size; at++) {
        char c = text.bytes[at];
        memset(next, 0, pattern.size + 1);
        for (size_t i = 0; i < pattern.size; i++) {
            bool is_star = pattern.bytes[i] == '*';
            bool is_double = is_star && ((i > 0 && pattern.bytes[i - 1] == '*') ||
                                         (i + 1 < pattern.size && pattern.bytes[i + 1] == '*'));
            if (!live[i]) continue;
            if (is_star && (is_double || c != separator)) next[i] = true;
            if (!is_star && pattern.bytes[i] == c) next[i + 1] = true;
        }
        follow_stars(pattern, next);
        bool *swap = live;
        live = next;
        next = swap;
    }
    return live[pattern.size];
}

/* text.glob(pattern), and text.glob(pattern, separator). */
struct cel_value place_glob(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_STRING) return cel_no_overload();
    struct str text = cel_text(a[0]), pattern = cel_text(a[1]);
    if (count == 2) {
        if (!cel_pay(m, 1 + (uint64_t)text.size * (1 + pattern.size / 8) / 2)) return spent();
        return cel_bool(str_glob(pattern, text, false));
    }
    if (a[2].kind != CEL_STRING) return cel_no_overload();
    struct str separator = cel_text(a[2]);
    if (separator.size != 1 || separator.bytes[0] == '*')
        return cel_fail_text(m, CEL_FAULT_ARGUMENT, separator);
    if (!cel_pay(m, ((uint64_t)text.size + 1) * (1 + (uint64_t)pattern.size))) return spent();
    bool *live = cel_take(m, pattern.size + 1), *next = cel_take(m, pattern.size + 1);
    if (live == NULL || next == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    return cel_bool(glob_in_parts(pattern, text, separator.bytes[0], live, next));
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

/* Characters that look like a slash, a point or a blank, or are invisible: some programs convert
 * them. */
static bool is_odd_point(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } odd[] = {
        {0x80, 0xA0}, /* controls, no-break space */
        {0xAD, 0xAD}, /* soft hyphen */
        {0x034F, 0x034F}, {0x061C, 0x061C},   {0x115F, 0x1160}, {0x1680, 0x1680},
        {0x17B4, 0x17B5}, {0x180B, 0x180F},   {0x2000, 0x200F}, /* blanks, joiners, directions */
        {0x2024, 0x202F},                   /* leaders of points, separators, directions */
        {0x2044, 0x2044},                   /* fraction slash */
        {0x205F, 0x206F}, {0x2215, 0x2216}, /* division slash, set minus */
        {0x29F5, 0x29F9},                   /* more slashes */
        {0x3000, 0x3000}, {0x3002, 0x3002},   {0x3164, 0x3164}, {0xFE00, 0xFE0F}, /* variations */
        {0xFE30, 0xFE30}, {0xFE52, 0xFE52},   {0xFE68, 0xFE68}, {0xFEFF, 0xFEFF},
        {0xFF00, 0xFF0F}, /* full width */
        {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40},   {0xFF5B, 0xFF65}, {0xFFA0, 0xFFA0},
        {0xFFF0, 0xFFFF}, {0xE0000, 0xE0FFF},
    };
    if ((c >= 0xAE && c < 0x034F) || (c > 0x3164 && c < 0xFE00)) return false; /* most there are */
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        if (c >= odd[i].first && c <= odd[i].last) return true;
    return false;
}

/* The code point at `at`, of text that is UTF-8. */
static uint32_t point_at(struct str text, size_t at)
{
    unsigned char first = (unsigned char)text.bytes[at];
    unsigned more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    uint32_t c = first & (0x3Fu >> more);
    for (unsigned i = 1; i <= more && at + i < text.size; i++)
        c = c << 6 | ((unsigned char)text.bytes[at + i] & 0x3Fu);
    return c;
}

/* A name that shells, file dialogs and URL libraries all read unchanged. The list is in
 * schemas/policy.md. */
static bool is_plain_name(struct str name, bool is_first)
{
    if (name.size == 0 || str_equal(name, STR(".")) || str_equal(name, STR(".."))) return true;
    if (name.bytes[name.size - 1] == '.' || (is_first && name.bytes[0] == '~')) return false;
    for (size_t i = 0; i < name.size; i++) {
        unsigned char c = (unsigned char)name.bytes[i];
        if (c <= ' ' || c == 0x7F || strchr("\\%$`*?[]{}()<>|&;'\"!#^", c) != NULL) return false;
        if (c == ':' && is_first) return false;
        if (c >= 0xC0 && is_odd_point(point_at(name, i))) return false;
    }
    return true;
}

static bool is_plain_path(struct str path)
{
    struct str name;
    bool is_first = path.size > 0 && path.bytes[0] != '/';
    for (; str_split(&path, '/', &name); is_first = false)
        if (!is_plain_name(name, is_first)) return false;
    return true;
}

/* An absolute path must first go through the root. Neither kind of path may leave the root again,
 * even if it returns, because a part outside may be a link to elsewhere. */
struct cel_value place_path_under(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_STRING) return cel_no_overload();
    struct str root = cel_text(a[0]), path = cel_text(a[1]);
    if (!cel_pay_slow_bytes(m, root.size + path.size, 2)) return spent();
    if (root.size == 0 || root.bytes[0] != '/') return cel_fail_text(m, CEL_FAULT_ARGUMENT, root);
    if (memchr(root.bytes, '\0', root.size) != NULL || memchr(path.bytes, '\0', path.size) != NULL)
        return cel_fail(CEL_FAULT_ESCAPE, NULL);
    if (str_starts(path, STR("//"))) return cel_fail_text(m, CEL_FAULT_ESCAPE, path); /* a host */
    if (!is_plain_path(path)) return cel_fail_text(m, CEL_FAULT_ARGUMENT, path);
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
        if (p.root ==
            SIZE_MAX) { /* from the root on path_step() checks that the path does not leave it */
            if (!cel_pay_bytes(m, base.size)) return spent();
            bool inside = p.size >= base.size && memcmp(bytes, prefix, base.size) == 0 &&
                          (p.size == base.size || bytes[base.size] == '/');
            bool on_the_way =
                p.size < base.size && memcmp(bytes, prefix, p.size) == 0 && prefix[p.size] == '/';
            if (inside)
                p.root = base.size;
            else if (!on_the_way)
                return cel_fail_text(m, CEL_FAULT_ESCAPE, cel_text(a[1]));
        }
        if (!str_split(&path, '/', &name)) break;
        if (!path_step(&p, name)) return cel_fail_text(m, CEL_FAULT_ESCAPE, cel_text(a[1]));
    }
    if (p.root == SIZE_MAX) return cel_fail_text(m, CEL_FAULT_ESCAPE, cel_text(a[1]));
    if (p.size == 0) bytes[p.size++] = '/';
    return cel_string(bytes, p.size);
}
