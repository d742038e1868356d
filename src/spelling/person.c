/* person.c - whether two names may be one person's, as far as a reader can see.
 *
 * The skeleton of UTS #39 4 replaces each character by the prototype of those that look like it. It
 * respects the case, and the case must not matter here. Neither order of the two steps finds
 * everything: a Greek Eta looks like H, but its small form does not look like h; a small Cyrillic
 * En does not look like h either, but it is the En that looks like H. So a name has three forms,
 * and two names are one person's if they agree in any. The letter I and a small l are compared as
 * they are written: without the case, Ian would be Lan. */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "spelling/inside.h"

enum {
    FIRST_BYTES = 4 << 10,
    MOST_BYTES = 1 << 20, /* a name has a kilobyte, and a prototype at most 18 bytes */
    ROUNDS_MAX = 4,
    NON_ASCII = 0x80,
    ASCII_ROWS = 8, /* the first of the table */
};

static const struct {
    utf8proc_int32_t character;
    char prototype[20];
} confusables[] = {
#define LOOKS_LIKE(character, prototype) {character, prototype},
#include "spelling/confusables.def"
#undef LOOKS_LIKE
};

static const char *prototype_of(utf8proc_int32_t c)
{
    size_t from = 0, to = sizeof confusables / sizeof *confusables;
    if (c < NON_ASCII) to = ASCII_ROWS;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (confusables[middle].character == c) return confusables[middle].prototype;
        if (confusables[middle].character < c)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

static bool is_ascii(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.bytes[i] >= 0x80) return false;
    return true;
}

/* NFD; absent: it cannot be computed. */
static struct str decompose(struct str text, struct arena *arena)
{
    if (is_ascii(text)) return text;
    utf8proc_uint8_t *bytes = NULL;
    utf8proc_ssize_t size =
        utf8proc_map((const utf8proc_uint8_t *)text.bytes, (utf8proc_ssize_t)text.size, &bytes,
                     UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    struct str kept =
        size < 0 ? (struct str){0} : arena_copy(arena, str_of((const char *)bytes, (size_t)size));
    free(bytes);
    return kept;
}

/* `from`: the first character that is replaced. */
static struct str skeleton(struct str text, utf8proc_int32_t from, struct arena *arena)
{
    struct str left = decompose(text, arena);
    if (str_is_absent(left)) return left;
    size_t most = left.size * sizeof confusables->prototype;
    char *bytes = arena_bytes(arena, most + 1);
    if (bytes == NULL) return (struct str){0};
    struct buf out = buf_over(bytes, most);
    while (left.size > 0) {
        utf8proc_int32_t c;
        utf8proc_ssize_t size =
            utf8proc_iterate((const utf8proc_uint8_t *)left.bytes, (utf8proc_ssize_t)left.size, &c);
        if (size <= 0) return (struct str){0};
        const char *prototype = c < from ? NULL : prototype_of(c);
        buf_put(&out, prototype == NULL ? str_of(left.bytes, (size_t)size) : str_from(prototype));
        left = str_skip(left, (size_t)size);
    }
    arena_trim(arena, bytes, most + 1, out.size);
    return decompose(buf_view(&out), arena);
}

static struct str fold(struct str text, struct arena *arena)
{
    return str_is_absent(text) ? text : spelling_tidy(text, true, arena);
}

/* The local part of an address without its tag, or the name itself. */
static struct str without_domain(struct str name)
{
    size_t at = str_find(name, '@');
    if (at == 0 || at == name.size) return name;
    struct str local = str_of(name.bytes, at);
    size_t tag = str_find(local, '+');
    return tag == 0 ? local : str_of(local.bytes, tag);
}

/* Until it stays: a prototype may have another case, or characters that folding replaces. */
static struct str skeleton_folded(struct str name, struct arena *arena)
{
    for (unsigned round = 0; round < ROUNDS_MAX && !str_is_absent(name); round++) {
        struct str next = fold(skeleton(name, 0, arena), arena);
        if (str_equal(next, name)) break;
        name = next;
    }
    return name;
}

enum { FORMS = 3 };

/* False: not all of them can be computed. */
static bool forms_of(struct str name, struct arena *arena, struct str forms[FORMS])
{
    struct str written = spelling_tidy(name, false, arena), folded = fold(written, arena);
    if (str_is_absent(written) || str_is_absent(folded)) return false;
    forms[0] = skeleton(without_domain(written), 0, arena);
    forms[1] = skeleton_folded(without_domain(folded), arena);
    forms[2] = forms[1];
    if (!is_ascii(written)) {
        struct str in_latin = fold(skeleton(written, NON_ASCII, arena), arena);
        if (str_is_absent(in_latin)) return false;
        forms[2] = skeleton_folded(without_domain(in_latin), arena);
    }
    return !str_is_absent(forms[0]) && !str_is_absent(forms[1]) && !str_is_absent(forms[2]);
}

enum err spelling_same_person(struct str a, struct str b, bool *ret)
{
    struct str of_a[FORMS], of_b[FORMS];
    struct arena arena;
    size_t wrong_at;
    *ret =
        str_equal_ignoring_case(a, b) || !str_is_utf8(a, &wrong_at) || !str_is_utf8(b, &wrong_at);
    if (*ret) return ERR_OK;
    arena_init(&arena, FIRST_BYTES, MOST_BYTES);
    bool known = forms_of(a, &arena, of_a) && forms_of(b, &arena, of_b);
    for (size_t i = 0; known && i < FORMS && !*ret; i++) *ret = str_equal(of_a[i], of_b[i]);
    arena_fini(&arena);
    return known ? ERR_OK : ERR_OVERLOADED;
}
