/* tokens.c - jsmn, called in bursts, and with a NUL after small texts.
 *
 * jsmn closes a bracket by walking up parents, which is quadratic for a deep text. So it gets
 * its tokens in bursts, and between bursts a chain of parents that is too long for a legal text
 * ends the tokenising. */
#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h> /* before tokens.h, which needs only its types */

#include "json/tokens.h"

#include "json/text.h"

enum {
    TOKENS_PER_BURST = 128,
    /* up to so many bytes, jsmn gets a copy of the text with a NUL after it */
    TERMINATED_MAX = 1024,
};

/* Whether the newest token has more ancestors than a legal text of `depth_max` levels can have:
 * an object and a member's name for each level. */
static bool chain_is_too_long(const struct tokens *t, unsigned depth_max)
{
    unsigned steps = 0;
    for (int i = (int)t->count - 1; i >= 0; i = t->list[i].parent)
        if (++steps > 2 * depth_max + 2) return true;
    return false;
}

/* More room for tokens. A text of `size` bytes has at most size / 2 + 1 tokens, and brackets. */
static bool tokens_grow(struct tokens *t, size_t size, struct arena *arena)
{
    size_t most = size / 2 + 2 * TOKENS_PER_BURST, wanted = (size_t)t->capacity * 8;
    if (wanted > most) wanted = most;
    if (wanted < (size_t)t->capacity + TOKENS_PER_BURST)
        wanted = (size_t)t->capacity + TOKENS_PER_BURST;
    jsmntok_t *list = (jsmntok_t *)(void *)arena_take(arena, (wanted + 1) * sizeof *list);
    if (list == NULL) return false;
    memcpy(list, t->list, t->count * sizeof *list);
    t->list = list;
    t->capacity = (unsigned)wanted;
    return true;
}

/* The tokens up to the end, or to the point at which jsmn gives up. False: the arena is full. */
static inline bool tokens_find(struct tokens *t, const char *bytes, size_t size, size_t room,
                               unsigned depth_max, struct arena *arena)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    unsigned allowed = TOKENS_PER_BURST;
    for (;;) {
        if (allowed > t->capacity && !tokens_grow(t, size, arena)) return false;
        int result = jsmn_parse(&parser, bytes, room, t->list, allowed);
        t->count = parser.toknext;
        if (result != JSMN_ERROR_NOMEM || chain_is_too_long(t, depth_max)) break;
        allowed += TOKENS_PER_BURST;
    }
    /* A key that is an object or array is refused when its token is taken but not filled. */
    while (t->count > 0 && t->list[t->count - 1].start < 0) t->count--;
    t->list[t->count] = (jsmntok_t){.type = JSMN_UNDEFINED, .start = -1};
    return true;
}

/* jsmn also ends at a NUL byte. With a NUL after the text it needs no length, and takes a
 * seventh fewer instructions. Not inlined: gcc would see that any byte of the copy may be loaded
 * beforehand, and would load each twice. */
__attribute__((flatten, noinline)) static bool find_terminated(struct tokens *t, const char *bytes,
                                                               size_t size, unsigned depth_max,
                                                               struct arena *arena)
{
    return tokens_find(t, bytes, size, SIZE_MAX, depth_max, arena);
}

__attribute__((flatten)) static bool find_sized(struct tokens *t, struct str text,
                                                unsigned depth_max, struct arena *arena)
{
    return tokens_find(t, text.bytes, text.size, text.size, depth_max, arena);
}

bool tokens_take(struct tokens *t, struct str text, unsigned depth_max, struct arena *arena,
                 bool *ret_plain)
{
    char terminated[TERMINATED_MAX + 1];
    if (text.size > TERMINATED_MAX) {
        *ret_plain = text_is_plain(text);
        return find_sized(t, text, depth_max, arena);
    }
    *ret_plain = text_copy(terminated, text);
    terminated[text.size] = '\0';
    return find_terminated(t, terminated, text.size, depth_max, arena);
}
