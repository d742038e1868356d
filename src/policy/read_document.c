/* read_document.c - the top of a document: description, mode, confidence, roles, mask; the rules
 * and tests are in read_rule.c and read_test.c. */
#include "policy/reader.h"

static const char *const document_keys[] = {"description", "mode",  "confidence", "roles",
                                            "mask",        "rules", "tests"};

const char *const verdict_words[4] = {"allow", "compute", "human_review", "deny"};

static bool gate_number(struct reader *r, const struct value *map, const char *key, double *ret,
                        struct str *ret_text)
{
    struct value v = value_member(map, key);
    if (!reader_require(r, map, &v) || !want_number(r, &v, 0, 1, ret)) return false;
    *ret_text = reader_copy(r, v.node->json.raw);
    return true;
}

const struct gate *read_gate(struct reader *r, const struct value *v)
{
    static const char *const keys[] = {"allow_at", "review_at", "missing"};
    static const char *const missing_words[] = {"human_review", "deny"};
    if (!want_map(r, v)) return NULL;
    reader_check_keys(r, v, keys, COUNT_OF(keys));
    struct gate *g = reader_take(r, sizeof *g);
    if (g == NULL) return NULL;
    bool has_allow = gate_number(r, v, "allow_at", &g->allow_at, &g->allow_at_text);
    bool has_review = gate_number(r, v, "review_at", &g->review_at, &g->review_at_text);
    if (has_allow && has_review && g->review_at > g->allow_at) {
        struct value at = value_member(v, "review_at");
        reader_complain(r, &at, "%g is above allow_at (%g); the thresholds must descend", g->review_at,
                        g->allow_at);
        has_review = false;
    }
    struct value missing = value_member(v, "missing");
    size_t word = 0;
    if (missing.node != NULL &&
        !want_word(r, &missing, missing_words, COUNT_OF(missing_words), &word))
        return NULL;
    g->missing = word == 0 ? VERDICT_HUMAN_REVIEW : VERDICT_DENY;
    return has_allow && has_review ? g : NULL;
}

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

static void read_role(struct reader *r, const struct value *v, struct role *role)
{
    if (!str_is_name(v->node->json.key) || v->node->json.key.size > RULE_ID_MAX)
        reader_complain_at_key(r, v, "a role's name is 1 to 64 letters, digits, '.', '_' and '-'");
    role->name = reader_copy(r, v->node->json.key);
    struct selector members = {0};
    if (!read_globs(r, v, false, &members)) return;
    role->members = reader_take(r, members.count * sizeof *role->members);
    for (size_t i = 0; role->members != NULL && i < members.count; i++) {
        struct role_member *m = &role->members[role->count++];
        m->exact = members.globs[i];
        if (!glob_compile(&r->document->arena, m->exact.written, true, &m->folding)) r->full = true;
    }
}

static void read_roles(struct reader *r, const struct value *v)
{
    if (!want_map(r, v)) return;
    if (v->node->json.count > ROLES_MAX) {
        reader_complain(r, v, "has %u roles; %d are the most", v->node->json.count, ROLES_MAX);
        return;
    }
    r->document->roles = reader_take(r, v->node->json.count * sizeof(struct role));
    for (const struct node *n = node_first(v->node); n != NULL && r->document->roles != NULL;
         n = node_next(n)) {
        struct value role = {.node = n, .place = {.parent = &v->place, .key = n->json.key}};
        read_role(r, &role, &r->document->roles[r->document->role_count++]);
    }
}

/* "args.cards.*.number" */
static void read_mask(struct reader *r, const struct value *v, struct mask *mask)
{
    struct str path, segment;
    if (!want_text(r, v, 500, &path)) return;
    struct str segments[MASK_SEGMENTS_MAX];
    size_t count = 0;
    for (struct str rest = path; str_split(&rest, '.', &segment); count++) {
        if (segment.size == 0 || count == MASK_SEGMENTS_MAX) {
            reader_complain(r, v, "\"%.100s\" is not a path of 1 to %d names with dots between",
                            path.bytes, MASK_SEGMENTS_MAX);
            return;
        }
        if (segment.size > 1 && memchr(segment.bytes, '*', segment.size) != NULL) {
            reader_complain(r, v, "\"%.100s\" has a * within a name; * stands for a whole one, as in args.*.number",
                            path.bytes);
            return;
        }
        segments[count] = segment;
    }
    struct str root = segments[0];
    if (!str_equal(root, STR("args")) && !str_equal(root, STR("context")) &&
        !str_equal(root, STR("resource"))) {
        reader_complain(r, v, "\"%.100s\" has to begin with args, context or resource", path.bytes);
        return;
    }
    mask->segments = reader_take(r, count * sizeof *mask->segments);
    if (mask->segments == NULL) return;
    memcpy(mask->segments, segments, count * sizeof *segments);
    mask->count = count;
}

static void read_masks(struct reader *r, const struct value *v)
{
    if (!want_list(r, v, MASKS_MAX)) return;
    r->document->masks = reader_take(r, v->node->json.count * sizeof(struct mask));
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL && r->document->masks != NULL;
         n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        read_mask(r, &item, &r->document->masks[r->document->mask_count++]);
    }
}

static void read_mode(struct reader *r, const struct value *v)
{
    static const char *const modes[] = {"enforce", "shadow"};
    size_t mode;
    if (want_word(r, v, modes, COUNT_OF(modes), &mode)) r->document->is_shadow = mode == 1;
}

void document_read(struct policy_document *d, const struct node *root,
                   struct policy_problems *problems)
{
    struct reader r = {.document = d,
                       .problems = problems,
                       .regexes = {.count_max = DOCUMENT_REGEXES_MAX,
                                   .instructions_max = DOCUMENT_REGEX_INSTRUCTIONS_MAX}};
    struct value top = {.node = root};
    if (!want_map(&r, &top)) return;
    reader_check_keys(&r, &top, document_keys, COUNT_OF(document_keys));
    struct value v;
    if ((v = value_member(&top, "description")).node != NULL)
        want_text(&r, &v, TEXT_CHARACTERS_MAX, &(struct str){0}); /* for people who read the document */
    if ((v = value_member(&top, "mode")).node != NULL) read_mode(&r, &v);
    if ((v = value_member(&top, "confidence")).node != NULL) d->gate = read_gate(&r, &v);
    if ((v = value_member(&top, "roles")).node != NULL) read_roles(&r, &v);
    if ((v = value_member(&top, "mask")).node != NULL) read_masks(&r, &v);
    v = value_member(&top, "rules");
    if (v.node != NULL)
        read_rules(&r, &v);
    else if (d->role_count == 0 && d->mask_count == 0)
        reader_require(&r, &top, &v);
    if ((v = value_member(&top, "tests")).node != NULL) read_tests(&r, &v);
    if (r.full) problem_add(problems, NULL, 0, 0, "the document is too large to be held");
}
