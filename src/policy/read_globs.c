/* read_globs.c - lists of patterns. */
#include "policy/reader.h"

static bool glob_is_usable(struct reader *r, const struct value *v, struct str text)
{
    size_t stars = 0;
    for (size_t i = 0; i < text.size; i++)
        stars += text.bytes[i] == '*' && (i == 0 || text.bytes[i - 1] != '*');
    if (text.size > GLOB_BYTES_MAX) {
        reader_complain(r, v, "is longer than %d bytes", GLOB_BYTES_MAX);
        return false;
    }
    if (stars > GLOB_STARS_MAX) {
        reader_complain(r, v, "has %zu stars; %d are the most", stars, GLOB_STARS_MAX);
        return false;
    }
    if (r->globs == DOCUMENT_GLOBS_MAX)
        reader_complain(r, v, "the document has more than %d patterns", DOCUMENT_GLOBS_MAX);
    return r->globs++ < DOCUMENT_GLOBS_MAX;
}

/* An index of the patterns' own numbers, for selectors that list many names. */
static void selector_index(struct reader *r, struct selector *s)
{
    struct arena scratch;
    arena_init(&scratch, 4096, (size_t)64 << 20);
    struct index_entry *entries = arena_array(&scratch, struct index_entry, s->count);
    for (size_t i = 0; entries != NULL && i < s->count; i++) {
        struct glob folded;
        if (!glob_compile(&r->document->arena, s->globs[i].text, true, &folded)) r->full = true;
        entries[i] = (struct index_entry){.pattern = folded.text, .value = (uint32_t)i};
        if (r->full) break;
    }
    if (entries == NULL) r->full = true;
    if (!r->full) s->index = index_build(&r->document->arena, entries, s->count);
    if (s->index == NULL) r->full = true;
    arena_fini(&scratch);
}

bool read_globs(struct reader *r, const struct value *v, bool folds, struct selector *ret)
{
    if (!want_list(r, v, SELECTOR_GLOBS_MAX)) return false;
    if (v->node->json.count == 0) {
        reader_complain(r, v, "is empty, so nothing would match; leave it out or name something");
        return false;
    }
    struct selector s = {.globs = reader_take(r, v->node->json.count * sizeof(struct glob))};
    if (s.globs == NULL) return false;
    bool good = true;
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL; n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        struct str text;
        if (!want_text(r, &item, GLOB_BYTES_MAX, &text) || !glob_is_usable(r, &item, text)) {
            good = false;
            continue;
        }
        if (!glob_compile(&r->document->arena, text, folds, &s.globs[s.count++])) r->full = true;
    }
    if (good && !r->full && s.count > SELECTOR_INDEX_AT) selector_index(r, &s);
    *ret = s;
    return good;
}
