/* glob.c - compiling patterns, preparing names, matching one with the other. */
#include "policy/glob.h"

/* All but [A-Za-z0-9._:/@+-]. Said this way round, so that every byte of every request's names is
 * one look and one `or`. */
static const bool odd_bytes[256] = {
    [0 ... '*'] = true,   [','] = true, [';' ... '?'] = true,
    ['[' ... '^'] = true, ['`'] = true, ['{' ... 255] = true,
};

char glob_fold(char byte) { return (char)(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte); }

bool glob_is_odd(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (odd_bytes[(unsigned char)text.bytes[i]]) return true;
    return false;
}

enum glob_kind glob_kind_of(struct str text)
{
    size_t stars = 0;
    for (size_t i = 0; i < text.size; i++) stars += text.bytes[i] == '*';
    if (stars == 0) return GLOB_EXACT;
    if (text.size == 1) return GLOB_ANY;
    if (stars > 1) return GLOB_GENERAL;
    if (text.bytes[text.size - 1] == '*') return GLOB_PREFIX;
    return text.bytes[0] == '*' ? GLOB_SUFFIX : GLOB_GENERAL;
}

bool glob_compile(struct arena *arena, struct str written, bool folds, struct glob *ret)
{
    char *text = arena_bytes(arena, written.size + 1);
    if (text == NULL) return false;
    size_t size = 0;
    for (size_t i = 0; i < written.size; i++) {
        if (written.bytes[i] == '*' && size > 0 && text[size - 1] == '*') continue;
        text[size++] = folds ? glob_fold(written.bytes[i]) : written.bytes[i];
    }
    text[size] = '\0';
    *ret = (struct glob){.written = written, .text = str_of(text, size)};
    ret->kind = glob_kind_of(ret->text);
    return true;
}

/* Multiply and fold the high half down, a word at a time. */
uint64_t name_hash(const char *padded, size_t size)
{
    const uint64_t multiplier = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */
    uint64_t hash = size * multiplier;
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word;
        memcpy(&word, padded + at, 8);
        hash = (hash ^ word) * multiplier;
        hash ^= hash >> 32;
    }
    return hash * multiplier ^ hash >> 29;
}

bool name_prepare(struct name *n, struct str text, struct arena *arena)
{
    size_t size = text.size;
    char *space = n->space;
    if (size > NAME_INLINE) space = arena_bytes(arena, 2 * (size + NAME_PADDING));
    if (space == NULL) return false;
    char *folded = space, *reversed = space + size + NAME_PADDING;
    bool odd = false, capitals = false;
    for (size_t i = 0; i < size; i++) {
        char byte = text.bytes[i], small = glob_fold(byte);
        folded[i] = small;
        reversed[size - 1 - i] = small;
        odd |= odd_bytes[(unsigned char)byte];
        capitals |= small != byte;
    }
    memset(folded + size, 0, NAME_PADDING);
    n->text = text;
    n->folded = str_of(folded, size);
    n->reversed = str_of(reversed, size);
    n->odd = odd;
    n->has_capitals = capitals;
    n->hash = name_hash(folded, size);
    return true;
}

static bool ends_with(struct str text, struct str end)
{
    return text.size >= end.size &&
           memcmp(text.bytes + text.size - end.size, end.bytes, end.size) == 0;
}

bool glob_match_text(enum glob_kind kind, struct str literal, struct str text)
{
    switch (kind) {
    case GLOB_EXACT: return str_equal(literal, text);
    case GLOB_ANY: return true;
    case GLOB_PREFIX: return str_starts(text, str_of(literal.bytes, literal.size - 1));
    case GLOB_SUFFIX: return ends_with(text, str_skip(literal, 1));
    case GLOB_GENERAL: return str_glob(literal, text, false);
    }
    return false;
}

bool glob_match(const struct glob *g, const struct name *n, bool folds)
{
    if (folds) return glob_match_text(g->kind, g->text, n->folded);
    if (str_is_absent(n->text) || (n->odd && g->kind != GLOB_EXACT)) return false;
    return glob_match_text(g->kind, g->text, n->text);
}
