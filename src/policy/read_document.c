/* read_document.c - the top of a document: description, mode, confidence, mask; roles, rules and
 * tests are in read_role.c, read_rule.c and read_test.c. */
#include "base/check.h"
#include "policy/reader.h"

static const char *const document_keys[] = {"description", "mode",  "confidence", "roles",
                                            "mask",        "rules", "tests"};

/* "args.cards.*.number" */
static void read_mask(struct reader *r, const struct value *v, struct mask *mask)
{
    struct str path, segment;
    if (!want_text(r, v, 500, &path)) return;
    struct str segments[MASK_SEGMENTS_MAX], before = {0};
    size_t count = 0;
    for (struct str rest = path; str_split(&rest, '.', &segment); count++) {
        if (segment.size == 0 || count == MASK_SEGMENTS_MAX) {
            reader_complain(r, v, "\"%.100s\" is not a path of 1 to %d names with dots between",
                            path.bytes, MASK_SEGMENTS_MAX);
            return;
        }
        bool deep = str_equal(segment, STR("**"));
        if (segment.size > 1 && !deep && memchr(segment.bytes, '*', segment.size) != NULL) {
            reader_complain(
                r, v,
                "\"%.100s\" has a * within a name; * stands for a whole one, as in args.*.number",
                path.bytes);
            return;
        }
        if (deep && (rest.size == 0 || str_equal(before, STR("**")))) {
            reader_complain(r, v, "\"%.100s\" needs a name behind its **, as in args.**.secret",
                            path.bytes);
            return;
        }
        check(count < MASK_SEGMENTS_MAX);
        segments[count] = before = segment;
    }
    check(count > 0);
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
    mask->line = v->node->line;
    mask->column = v->node->column;
}

static void read_masks(struct reader *r, const struct value *v)
{
    if (!want_list(r, v, MASKS_MAX)) return;
    r->document->masks = reader_take(r, v->node->json.count * sizeof(struct mask));
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL && r->document->masks != NULL;
         n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        check(r->document->mask_count < v->node->json.count);
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
    check(d->rule_count == 0 && d->conditions == NULL);
    struct reader r = {.document = d,
                       .problems = problems,
                       .room = {.regexes_max = DOCUMENT_REGEXES_MAX,
                                .regex_classes_max = DOCUMENT_REGEX_CLASSES_MAX,
                                .regex_instructions_max = DOCUMENT_REGEX_INSTRUCTIONS_MAX,
                                .folding_left = DOCUMENT_FOLDING_MAX}};
    struct value top = {.node = root};
    if (!want_map(&r, &top)) return;
    reader_check_keys(&r, &top, document_keys, COUNT_OF(document_keys));
    struct value v;
    if ((v = value_member(&top, "description")).node != NULL) /* only for readers of the document */
        want_text(&r, &v, TEXT_CHARACTERS_MAX, &(struct str){0});
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
