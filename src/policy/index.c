/* index.c - stores patterns under their rarest literal piece, and looks up the pieces of a name.
 *
 * Building: pieces of patterns with a choice are counted in a table of counters without keys (two
 * pieces that share a counter only make the choice a little worse). Each pattern then becomes one
 * `anchor`. Equal anchors, adjacent after sorting, become one list of values. */
#include "policy/index.h"

#include <stdlib.h>

#include "base/check.h"
#include "policy/ends.h"
#include "policy/gram.h"

enum anchor_kind { ANCHOR_EXACT, ANCHOR_PREFIX, ANCHOR_SUFFIX, ANCHOR_GRAM };

struct anchor {
    enum anchor_kind kind;
    struct str piece; /* suffixes reversed */
    uint32_t value;
};

struct value_list {
    uint32_t first, count;
};

struct exact_slot {
    uint32_t tag;  /* the hash's upper half identifies the key: a wrong candidate does no harm */
    uint32_t list; /* no_list: free */
};

static const uint32_t no_list = END_NONE;

/* Most lists have one value. Then the list's number is the value itself, with a mark. */
static const uint32_t one_value = 0x80000000u;

struct index {
    struct exact_slot *exact; /* NULL: none */
    size_t exact_mask;
    struct ends prefixes, suffixes;
    struct grams grams;
    bool has_grams;
    struct value_list *lists;
    uint32_t *values;
};

enum { GRAM_LISTS = 256 };

/* ---- choosing a piece ---- */

struct counters {
    uint32_t *counts;
    size_t mask;
};

static uint32_t *counter_of(const struct counters *c, enum anchor_kind kind, struct str piece)
{
    uint64_t hash = (uint64_t)kind + 1;
    for (size_t i = 0; i < piece.size; i++)
        hash = (hash ^ (unsigned char)piece.bytes[i]) * 0x100000001B3u;
    return &c->counts[(hash ^ hash >> 31) & c->mask];
}

/* The largest gram that fits into a segment. */
static size_t gram_for(size_t segment_size)
{
    return segment_size >= 8 ? 8 : segment_size >= 4 ? 4 : segment_size >= 2 ? 2 : 1;
}

typedef void piece_visit(void *context, enum anchor_kind kind, struct str piece);

/* Every piece under which a pattern with inner or several stars could be stored. */
static void pieces(struct str pattern, piece_visit *visit, void *context)
{
    size_t first = str_find(pattern, '*'), last = pattern.size;
    check(first < last); /* it has a star */
    while (pattern.bytes[last - 1] != '*') last--;
    if (first > 0) visit(context, ANCHOR_PREFIX, str_of(pattern.bytes, first));
    if (last < pattern.size) visit(context, ANCHOR_SUFFIX, str_skip(pattern, last));
    struct str rest = pattern, segment;
    while (str_split(&rest, '*', &segment)) {
        size_t gram = gram_for(segment.size);
        for (size_t at = 0; segment.size > 0 && at + gram <= segment.size; at++)
            visit(context, ANCHOR_GRAM, str_of(segment.bytes + at, gram));
    }
}

static void piece_count(void *context, enum anchor_kind kind, struct str piece)
{
    ++*counter_of(context, kind, piece);
}

struct choice {
    const struct counters *counters;
    struct anchor best;
    uint64_t best_cost;
};

/* The rarest piece first; among equals the ends before the middle, and long before short. */
static void piece_choose(void *context, enum anchor_kind kind, struct str piece)
{
    struct choice *c = context;
    uint64_t cost = (uint64_t)*counter_of(c->counters, kind, piece) << 16;
    if (kind == ANCHOR_GRAM) cost += (uint64_t)(1 + 8 - piece.size);
    if (!str_is_absent(c->best.piece) && cost >= c->best_cost) return;
    c->best.kind = kind;
    c->best.piece = piece;
    c->best_cost = cost;
}

static bool has_choice(struct str pattern)
{
    size_t first = str_find(pattern, '*');
    return pattern.size > 1 && first < pattern.size && first != pattern.size - 1 &&
           !(first == 0 && str_find(str_skip(pattern, 1), '*') == pattern.size - 1);
}

static bool counters_init(struct counters *c, const struct index_entry *entries, size_t count)
{
    size_t bytes = 16;
    for (size_t i = 0; i < count; i++)
        if (has_choice(entries[i].pattern)) bytes += entries[i].pattern.size + 2;
    size_t size = 64;
    while (size < bytes * 2) size *= 2;
    c->counts = calloc(size, sizeof *c->counts);
    c->mask = size - 1;
    if (c->counts == NULL) return false;
    for (size_t i = 0; i < count; i++)
        if (has_choice(entries[i].pattern)) pieces(entries[i].pattern, piece_count, c);
    return true;
}

static struct anchor anchor_of(const struct counters *c, const struct index_entry *e)
{
    struct str pattern = e->pattern;
    size_t star = str_find(pattern, '*');
    struct anchor a = {.kind = ANCHOR_EXACT, .piece = pattern, .value = e->value};
    if (star == pattern.size) return a;
    if (has_choice(pattern)) {
        struct choice choice = {.counters = c};
        pieces(pattern, piece_choose, &choice);
        check(!str_is_absent(choice.best.piece));
        a = choice.best;
        a.value = e->value;
    } else if (star == pattern.size - 1) { /* also "*" itself, with an empty beginning */
        a.kind = ANCHOR_PREFIX;
        a.piece.size--;
    } else {
        a.kind = ANCHOR_SUFFIX;
        a.piece = str_skip(pattern, 1);
    }
    if (a.kind == ANCHOR_PREFIX && a.piece.size > END_BYTES_MAX) a.piece.size = END_BYTES_MAX;
    if (a.kind == ANCHOR_SUFFIX && a.piece.size > END_BYTES_MAX)
        a.piece = str_skip(a.piece, a.piece.size - END_BYTES_MAX);
    check(a.kind == ANCHOR_EXACT || a.piece.size <= END_BYTES_MAX);
    return a;
}

static bool reverse(struct arena *arena, struct str *piece)
{
    char *bytes = arena_bytes(arena, piece->size + 1);
    if (bytes == NULL) return false;
    for (size_t i = 0; i < piece->size; i++) bytes[i] = piece->bytes[piece->size - 1 - i];
    piece->bytes = bytes;
    return true;
}

/* ---- building ---- */

static int anchor_compare(const void *a, const void *b)
{
    const struct anchor *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    int order = str_compare(x->piece, y->piece);
    if (order != 0) return order;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Equal anchors become one list. Leaves one of each in `anchors`, with the list's number as value;
 * returns their number. */
static size_t lists_make(struct index *x, struct anchor *anchors, size_t count)
{
    size_t lists = 0;
    for (size_t i = 0; i < count; i++) {
        x->values[i] = anchors[i].value;
        bool same = lists > 0 && anchors[lists - 1].kind == anchors[i].kind &&
                    str_equal(anchors[lists - 1].piece, anchors[i].piece);
        if (same) {
            x->lists[lists - 1].count++;
            continue;
        }
        x->lists[lists] = (struct value_list){.first = (uint32_t)i, .count = 1};
        anchors[lists] = anchors[i];
        lists++;
    }
    for (size_t i = 0; i < lists; i++) {
        bool one = x->lists[i].count == 1 && anchors[i].value < one_value - 1;
        anchors[i].value = one ? anchors[i].value | one_value : (uint32_t)i;
    }
    check(lists <= count);
    return lists;
}

static bool exact_file(struct index *x, struct arena *arena, const struct anchor *anchors,
                       size_t count)
{
    if (count == 0) return true;
    size_t slots = 4;
    while (slots < count * 2) slots *= 2;
    x->exact = arena_array(arena, struct exact_slot, slots);
    if (x->exact == NULL) return false;
    x->exact_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) x->exact[i].list = no_list;
    for (size_t i = 0; i < count; i++) {
        char padded[GLOB_BYTES_MAX + NAME_PADDING] = {0};
        check(anchors[i].piece.size <= GLOB_BYTES_MAX);
        memcpy(padded, anchors[i].piece.bytes, anchors[i].piece.size);
        uint64_t hash = name_hash(padded, anchors[i].piece.size);
        size_t at = hash & x->exact_mask;
        while (x->exact[at].list != no_list) at = (at + 1) & x->exact_mask;
        x->exact[at] = (struct exact_slot){.tag = (uint32_t)(hash >> 32), .list = anchors[i].value};
    }
    return true;
}

static bool ends_file(struct ends *e, struct arena *arena, const struct anchor *anchors,
                      size_t count)
{
    struct end_key *keys = calloc(count + 1, sizeof *keys);
    if (keys == NULL) return false;
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct end_key){.bytes = anchors[i].piece, .value = anchors[i].value};
    check(count == 0 || anchors[0].kind == anchors[count - 1].kind);
    bool built = ends_build(e, arena, keys, count);
    free(keys);
    return built;
}

static bool gram_file(struct index *x, struct arena *arena, const struct anchor *anchors,
                      size_t count)
{
    if (count == 0) return true;
    struct gram_key *keys = calloc(count, sizeof *keys);
    if (keys == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        keys[i].size = (uint32_t)anchors[i].piece.size;
        keys[i].bytes = gram_at(anchors[i].piece.bytes, anchors[i].piece.size);
        keys[i].value = anchors[i].value;
        check(keys[i].size == gram_for(keys[i].size));
    }
    bool built = grams_build(&x->grams, arena, keys, count);
    free(keys);
    x->has_grams = true;
    return built;
}

static bool file_all(struct index *x, struct arena *arena, const struct anchor *anchors,
                     size_t count)
{
    size_t ends[ANCHOR_GRAM + 2] = {0}; /* where each kind's run begins, and the end of all */
    for (size_t kind = 0, i = 0; kind <= ANCHOR_GRAM; kind++) {
        while (i < count && (size_t)anchors[i].kind == kind) i++;
        ends[kind + 1] = i;
    }
    check(ends[ANCHOR_GRAM + 1] == count); /* each anchor is in one of the four runs */
    return exact_file(x, arena, anchors, ends[1]) &&
           ends_file(&x->prefixes, arena, anchors + ends[1], ends[2] - ends[1]) &&
           ends_file(&x->suffixes, arena, anchors + ends[2], ends[3] - ends[2]) &&
           gram_file(x, arena, anchors + ends[3], ends[4] - ends[3]);
}

struct index *index_build(struct arena *arena, struct index_entry *entries, size_t count)
{
    struct index *x = arena_new(arena, struct index);
    struct counters counters = {0};
    struct anchor *anchors = calloc(count + 1, sizeof *anchors);
    bool built = x != NULL && anchors != NULL && counters_init(&counters, entries, count);
    for (size_t i = 0; built && i < count; i++) {
        anchors[i] = anchor_of(&counters, &entries[i]);
        if (anchors[i].kind == ANCHOR_SUFFIX) built = reverse(arena, &anchors[i].piece);
    }
    if (built) {
        qsort(anchors, count, sizeof *anchors, anchor_compare);
        x->lists = arena_array(arena, struct value_list, count + 1);
        x->values = arena_array(arena, uint32_t, count + 1);
        built = x->lists != NULL && x->values != NULL;
    }
    if (built) built = file_all(x, arena, anchors, lists_make(x, anchors, count));
    free(counters.counts);
    free(anchors);
    return built ? x : NULL;
}

/* ---- lookup ---- */

static void visit_list(const struct index *x, uint32_t list, index_visit *visit, void *context)
{
    if (list & one_value) {
        uint32_t value = list & ~one_value;
        visit(context, &value, 1);
        return;
    }
    visit(context, x->values + x->lists[list].first, x->lists[list].count);
}

static void lookup_exact(const struct index *x, const struct name *n, index_visit *visit,
                         void *context)
{
    check(n->folded.size == n->text.size);
    for (size_t at = n->hash & x->exact_mask; x->exact[at].list != no_list;
         at = (at + 1) & x->exact_mask) {
        if (x->exact[at].tag == (uint32_t)(n->hash >> 32))
            visit_list(x, x->exact[at].list, visit, context);
    }
}

static void lookup_ends(const struct index *x, const struct ends *e, struct str text,
                        index_visit *visit, void *context)
{
    if (e->always != no_list) visit_list(x, e->always, visit, context);
    struct end_walk walk = end_walk_begin(e, text);
    for (uint32_t list; (list = end_walk_next(&walk)) != END_NONE;)
        visit_list(x, list, visit, context);
}

/* Lists that one table found for a name, so that a repeated piece does not propose its list each
 * time. Beyond `GRAM_LISTS` a list may be proposed again, which does no harm. */
struct gram_lists {
    uint32_t list[GRAM_LISTS];
    size_t count;
};

static bool is_proposed_again(struct gram_lists *all, uint32_t list)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i] == list) return true;
    if (all->count < GRAM_LISTS) all->list[all->count++] = list;
    check(all->count <= GRAM_LISTS);
    return false;
}

static void lookup_gram_table(const struct index *x, size_t table, const struct name *n,
                              index_visit *visit, void *context)
{
    const struct gram_table *t = &x->grams.tables[table];
    size_t size = gram_size(table);
    struct gram_lists proposed;
    proposed.count = 0;
    for (size_t at = 0; at + size <= n->folded.size; at++) {
        uint32_t list = gram_table_get(t, gram_at(n->folded.bytes + at, size));
        if (list != GRAM_NONE && !is_proposed_again(&proposed, list))
            visit_list(x, list, visit, context);
    }
}

static void lookup_grams(const struct index *x, const struct name *n, index_visit *visit,
                         void *context)
{
    for (size_t table = 0; table < GRAM_SIZES; table++)
        if (x->grams.tables[table].count > 0) lookup_gram_table(x, table, n, visit, context);
}

void index_lookup(const struct index *x, const struct name *n, index_visit *visit, void *context)
{
    if (x->exact != NULL) lookup_exact(x, n, visit, context);
    if (x->prefixes.slots != NULL) lookup_ends(x, &x->prefixes, n->folded, visit, context);
    if (x->suffixes.slots != NULL) lookup_ends(x, &x->suffixes, n->reversed, visit, context);
    if (x->has_grams) lookup_grams(x, n, visit, context);
}
