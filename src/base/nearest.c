#include "base/nearest.h"

enum { WORD_MAX = 32 };

const char *nearest_word(struct str word, const char *const *candidates, size_t count)
{
    if (word.size < 2 || word.size > WORD_MAX) return NULL;
    const char *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (str_glob(str_from(candidates[i]), word, true)) return candidates[i];
    unsigned best_distance = word.size < 5 ? 2 : 3; /* the result must be below this */
    for (size_t i = 0; i < count; i++) {
        struct str candidate = str_from(candidates[i]);
        if (candidate.size > WORD_MAX) continue;
        unsigned distance = str_edits(word, candidate);
        if (distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    for (size_t i = 0; best == NULL && i < count; i++) {
        struct str candidate = str_from(candidates[i]);
        if (str_starts(candidate, word) || (candidate.size >= 3 && str_starts(word, candidate)))
            best = candidates[i];
    }
    return best;
}
