/* read_globs.c - lists of patterns. */
#include "base/check.h"
#include "policy/doubt.h"
#include "policy/reader.h"
#include "spelling/spelling.h"

/* `how` it is spelled: nothing, or " when it is spelled plainly". */
static bool glob_is_usable(struct reader *r, const struct value *v, struct str text,
                           const char *how)
{
    check(text.size > 0);
    size_t stars = 0;
    for (size_t i = 0; i < text.size; i++)
        stars += text.bytes[i] == '*' && (i == 0 || text.bytes[i - 1] != '*');
    if (text.size > GLOB_BYTES_MAX) {
        reader_complain(r, v, "is longer than %d bytes%s", GLOB_BYTES_MAX, how);
        return false;
    }
    if (stars > GLOB_STARS_MAX) {
        reader_complain(r, v, "has %zu stars%s; %d are the most", stars, how, GLOB_STARS_MAX);
        return false;
    }
    if (r->globs == DOCUMENT_GLOBS_MAX)
        reader_complain(r, v, "the document has more than %d patterns", DOCUMENT_GLOBS_MAX);
    return r->globs++ < DOCUMENT_GLOBS_MAX;
}

/* An index of the patterns' own numbers, for selectors that list many names. */
static void selector_index(struct reader *r, struct selector *s)
{
    check(s->count > SELECTOR_INDEX_AT && s->index == NULL);
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

/* Adds the pattern in plain spelling, type and id separately, to the given one. A resource is
 * compared in plain spelling, too; otherwise `db:Straße-*` would not stop ` db:Straße-1`, which
 * becomes `db:strasse-1`. A character that becomes a star acts as one: a restriction may be wider. */
static void add_plainly(struct reader *r, const struct value *v, struct str text,
                        struct selector *s)
{
    struct arena *arena = &r->document->arena;
    size_t colon = str_find(text, ':');
    bool has_type = colon < text.size;
    struct str type = str_of(text.bytes, colon),
               id = has_type ? str_skip(text, colon + 1) : STR("");
    if (spelling_is_plain(type) && spelling_is_plain(id)) return;
    struct glob *g = &s->globs[s->count];
    type = spelling_plainly(type, arena);
    id = spelling_plainly(id, arena);
    if (str_is_absent(type) || str_is_absent(id)) {
        r->full = true;
        return;
    }
    struct str plain =
        has_type ? arena_printf(arena, "%.*s:%.*s", STR_FORMAT(type), STR_FORMAT(id)) : type;
    if (str_is_absent(plain) || !glob_compile(arena, plain, true, g))
        r->full = true;
    else if (plain.size > 0 && glob_is_usable(r, v, plain, " when it is spelled plainly"))
        s->count++;
}

/* An exact pattern with `*` matches only names of plain characters, so a pattern that contains
 * another character never matches. */
static bool is_vain(const struct glob *g)
{
    if (g->kind == GLOB_EXACT) return false;
    for (size_t i = 0; i < g->text.size; i++)
        if (g->text.bytes[i] != '*' && glob_is_odd(str_of(g->text.bytes + i, 1))) return true;
    return false;
}

/* Keeps the warning about a pattern that means something else than it seems to. */
static bool note_doubt(struct reader *r, const struct value *item, struct str text)
{
    char message[200];
    struct buf out = buf_over(message, sizeof message - 1);
    struct str key = item->place.parent == NULL ? (struct str){0} : item->place.parent->key;
    enum pattern_of of = str_equal(key, STR("actions"))     ? PATTERN_OF_ACTION
                         : str_equal(key, STR("resources")) ? PATTERN_OF_RESOURCE
                                                            : PATTERN_OF_SUBJECT;
    if (!pattern_doubt(text, of, &out)) return false;
    check(out.size > 0);
    message[out.size] = '\0';
    reader_doubt(r, item, "%s", message);
    return true;
}

static struct glob_place *place_take(struct reader *r, const struct value *item)
{
    check(item->node != NULL && item->node->line > 0);
    struct glob_place *p = reader_take(r, sizeof *p);
    if (p == NULL) return NULL;
    *p = (struct glob_place){
        .index = item->place.index, .line = item->node->line, .column = item->node->column};
    return p;
}

static bool read_patterns(struct reader *r, const struct value *v, bool folds, bool plainly,
                          struct selector *ret)
{
    if (!want_list(r, v, SELECTOR_GLOBS_MAX)) return false;
    if (v->node->json.count == 0) {
        reader_complain(r, v, "is empty, so nothing would match; leave it out or name something");
        return false;
    }
    size_t room = (size_t)v->node->json.count * (plainly ? 2 : 1);
    struct selector s = {.globs = reader_take(r, room * sizeof(struct glob))};
    if (s.globs == NULL) return false;
    struct glob_place *first_vain = NULL, **next_vain = &first_vain;
    bool good = true;
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL; n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        struct str text;
        if (!want_text(r, &item, GLOB_BYTES_MAX, &text) || !glob_is_usable(r, &item, text, "")) {
            good = false;
            continue;
        }
        check(s.count < room);
        struct glob *g = &s.globs[s.count++];
        if (!glob_compile(&r->document->arena, text, folds, g)) r->full = true;
        bool is_doubtful = !r->full && note_doubt(r, &item, text);
        if (!folds && !r->full && !is_doubtful && is_vain(g) &&
            (*next_vain = place_take(r, &item)) != NULL)
            next_vain = &(*next_vain)->next;
        if (s.star == NULL && !r->full && g->kind == GLOB_ANY) s.star = place_take(r, &item);
        if (plainly && !r->full) add_plainly(r, &item, text, &s);
    }
    if (good && !r->full && s.count > SELECTOR_INDEX_AT) selector_index(r, &s);
    s.vain = first_vain;
    check(s.count <= room);
    if (good && !r->full) selector_check(&s);
    *ret = s;
    return good;
}

bool read_globs(struct reader *r, const struct value *v, bool folds, struct selector *ret)
{
    return read_patterns(r, v, folds, false, ret);
}

bool read_resource_globs(struct reader *r, const struct value *v, bool folds, struct selector *ret)
{
    return read_patterns(r, v, folds, folds, ret);
}
