/* glob.c - compiling patterns, preparing names, matching one with the other. */
#include "policy/glob.h"

#include "base/check.h"

/* All but [A-Za-z0-9._:/@+-]. */
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
    check(size <= written.size);
    return true;
}

static const uint64_t multiplier = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */

/* Multiply and fold the high half down, a word at a time. */
static inline uint64_t hash_more(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * multiplier;
    return hash ^ hash >> 32;
}

static inline uint64_t hash_end(uint64_t hash) { return hash * multiplier ^ hash >> 29; }

uint64_t name_hash(const char *padded, size_t size)
{
    uint64_t hash = size * multiplier;
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word;
        memcpy(&word, padded + at, 8);
        hash = hash_more(hash, word);
    }
    return hash_end(hash);
}

/* -- eight bytes at a time: each is looked at in its own byte of a word (Lamport 1975) -- */

#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))
#define HIGHS EACH(0x80)

/* The high bit of each byte that is ASCII and in [first, last]. */
static inline uint64_t bytes_in(uint64_t word, unsigned char first, unsigned char last)
{
    uint64_t low = word & ~HIGHS;
    return (low + EACH(0x80 - first)) & ~(low + EACH(0x7F - last)) & ~word & HIGHS;
}

static inline uint64_t capitals_of(uint64_t word) { return bytes_in(word, 'A', 'Z'); }

/* Of folded bytes those that odd_bytes has; `-` to `:` are `-./0123456789:`. */
static inline uint64_t odd_of(uint64_t word)
{
    uint64_t plain = bytes_in(word, 'a', 'z') | bytes_in(word, '-', ':') |
                     bytes_in(word, '+', '+') | bytes_in(word, '@', '@') | bytes_in(word, '_', '_');
    return ~plain & HIGHS;
}

void name_check(const struct name *n)
{
    check(n->folded.size == n->text.size && n->reversed.size == n->text.size);
    check(n->folded.bytes[n->folded.size] == '\0'); /* whole words are read */
}

bool name_prepare(struct name *n, struct str text, struct arena *arena)
{
    size_t size = text.size;
    char *space = n->space;
    if (size > NAME_INLINE) space = arena_bytes(arena, 2 * (size + NAME_PADDING));
    if (space == NULL) return false;
    size_t whole = (size + 7) & ~(size_t)7; /* with the zeros of the last word */
    char *folded = space, *reversed = space + size + NAME_PADDING;
    uint64_t odd = 0, capitals = 0, hash = size * multiplier;
    if (size > 0) memcpy(folded, text.bytes, size);
    memset(folded + size, 0, NAME_PADDING);
    for (size_t at = 0; at < whole; at += 8) {
        uint64_t word;
        memcpy(&word, folded + at, 8);
        uint64_t large = capitals_of(word);
        word |= large >> 2; /* 'a' - 'A' is 0x20 */
        memcpy(folded + at, &word, 8);
        hash = hash_more(hash, word);
        capitals |= large;
        uint64_t strange = odd_of(word);
        if (size - at < 8) strange &= HIGHS >> 8 * (8 - (size - at)); /* zeros behind the end */
        odd |= strange;
        word = __builtin_bswap64(word);
        memcpy(reversed + whole - 8 - at, &word, 8);
    }
    n->text = text;
    n->folded = str_of(folded, size);
    n->reversed = str_of(reversed + whole - size, size);
    n->odd = odd != 0;
    n->has_capitals = capitals != 0;
    n->hash = hash_end(hash);
    name_check(n);
    return true;
}

static bool ends_with(struct str text, struct str end)
{
    return text.size >= end.size &&
           memcmp(text.bytes + text.size - end.size, end.bytes, end.size) == 0;
}

bool glob_match_text(enum glob_kind kind, struct str literal, struct str text)
{
    check(literal.size > 0 || kind == GLOB_EXACT);
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
