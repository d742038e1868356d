#include "spelling/spelling.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/map.h"
#include "spelling/inside.h"

enum { PLAIN_BYTES = 256 };

bool spelling_is_plain(struct str name)
{
    bool after_blank = true; /* as if one stood before it */
    for (size_t i = 0; i < name.size; i++) {
        unsigned char c = (unsigned char)name.bytes[i];
        if (c < ' ' || c >= 0x7F || (c == ' ' && after_blank)) return false;
        after_blank = c == ' ';
    }
    return name.size == 0 || !after_blank;
}

/* Trims blanks and reduces each run to one, in place; returns the new size. */
static size_t blanks_tidy(char *bytes, size_t size)
{
    size_t to = 0;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != ' ' || (to > 0 && bytes[to - 1] != ' ')) bytes[to++] = bytes[i];
    return to > 0 && bytes[to - 1] == ' ' ? to - 1 : to;
}

/* Invisible characters that utf8proc's own folding keeps: characters reserved as
 * default-ignorable, format characters except those that are signs themselves (Arabic and Kaithi
 * number signs and similar ones), and two that have no glyph. */
static bool is_unseen(utf8proc_int32_t c)
{
    static const struct {
        utf8proc_int32_t first, last;
    } signs[] = {{0x0600, 0x0605}, {0x06DD, 0x06DD},   {0x070F, 0x070F},  {0x0890, 0x0891},
                 {0x08E2, 0x08E2}, {0x110BD, 0x110BD}, {0x110CD, 0x110CD}};
    if (c == 0x2065 || (c >= 0xFFF0 && c <= 0xFFFB) || c == 0x16FE4 || c == 0x1D159) return true;
    if (c >= 0x13430 && c <= 0x1345F) return true; /* joins of hieroglyphs */
    if (c >= 0xE0000 && c <= 0xE0FFF) return true; /* tags */
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (c >= signs[i].first && c <= signs[i].last) return false;
    return utf8proc_category(c) == UTF8PROC_CATEGORY_CF;
}

/* Before the folding: an invisible character becomes one that the folding drops, every blank a
 * space. */
static utf8proc_int32_t map_unseen(utf8proc_int32_t c, void *context)
{
    enum { SOFT_HYPHEN = 0xAD, BRAILLE_BLANK = 0x2800 };
    (void)context;
    if (c < 0x80) return c;
    utf8proc_category_t category = utf8proc_category(c);
    if (category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
        category == UTF8PROC_CATEGORY_ZP || c == BRAILLE_BLANK)
        return ' ';
    return is_unseen(c) ? SOFT_HYPHEN : c;
}

static char *tidied(struct str name, bool ignore_case, size_t *ret_size)
{
    utf8proc_uint8_t *folded = NULL;
    utf8proc_ssize_t size = utf8proc_map_custom(
        (const utf8proc_uint8_t *)name.bytes, (utf8proc_ssize_t)name.size, &folded,
        UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT |
            (ignore_case ? UTF8PROC_CASEFOLD : 0) | UTF8PROC_IGNORE | UTF8PROC_STRIPCC |
            UTF8PROC_LUMP,
        map_unseen, NULL);
    if (size < 0) return NULL;
    *ret_size = blanks_tidy((char *)folded, (size_t)size);
    return (char *)folded;
}

/* The caller frees it; NULL: it cannot be folded. */
static char *fold(struct str name, size_t *ret_size) { return tidied(name, true, ret_size); }

static void lower(char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] >= 'A' && bytes[i] <= 'Z') bytes[i] = (char)(bytes[i] | 0x20);
}

struct str spelling_tidy(struct str name, bool ignore_case, struct arena *arena)
{
    size_t size = 0;
    if (spelling_is_plain(name)) { /* most names are */
        char *copy = arena_bytes(arena, name.size + 1);
        if (copy == NULL) return (struct str){0};
        if (name.size > 0) memcpy(copy, name.bytes, name.size);
        if (ignore_case) lower(copy, name.size);
        return str_of(copy, name.size);
    }
    char *folded = tidied(name, ignore_case, &size);
    struct str kept = folded == NULL ? (struct str){0} : arena_copy(arena, str_of(folded, size));
    free(folded);
    return kept;
}

struct str spelling_fold(struct str name, struct arena *arena)
{
    return spelling_tidy(name, true, arena);
}

/* Most names are plain, and need no memory. */
static uint64_t hash_plain(struct str name)
{
    char bytes[PLAIN_BYTES];
    if (name.size > 0) memcpy(bytes, name.bytes, name.size);
    lower(bytes, name.size);
    return hash_bytes(bytes, name.size) | 1;
}

uint64_t spelling_hash(struct str name)
{
    if (name.size <= PLAIN_BYTES && spelling_is_plain(name)) return hash_plain(name);
    size_t size = 0;
    char *folded = fold(name, &size);
    uint64_t hash = folded == NULL ? 0 : hash_bytes(folded, size) | 1;
    free(folded);
    return hash;
}

bool spelling_same(struct str a, struct str b)
{
    if (str_equal_ignoring_case(a, b)) return true;
    if (spelling_is_plain(a) && spelling_is_plain(b)) return false;
    size_t a_size = 0, b_size = 0;
    char *a_folded = fold(a, &a_size), *b_folded = fold(b, &b_size);
    bool same = a_folded == NULL || b_folded == NULL ||
                str_equal(str_of(a_folded, a_size), str_of(b_folded, b_size));
    free(a_folded);
    free(b_folded);
    return same;
}

struct str spelling_plainly(struct str name, struct arena *arena)
{
    return spelling_is_plain(name) ? name : spelling_fold(name, arena);
}
