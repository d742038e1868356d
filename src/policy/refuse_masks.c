/* refuse_masks.c - refuses masks that cover nothing in any request, because their author believes
 * that a value is hidden. */
#include "base/check.h"
#include "policy/problem.h"
#include "policy/refusal.h"

/* Masks ignore case, too. */
static bool is(struct str name, struct str word) { return str_equal_ignoring_case(name, word); }

/* A resource is {type, id, properties}: two texts and an object. */
static void check_resource(const struct mask *m, const struct place *at,
                           struct policy_problems *ret)
{
    check(m->count > 1);
    struct str name = m->segments[1], shown = str_cut(name, 60);
    if (is(name, STR("*")) || is(name, STR("**")) || is(name, STR("properties"))) return;
    if (!is(name, STR("type")) && !is(name, STR("id")))
        problem_add(ret, at, m->line, m->column,
                    "masks nothing: a resource has type, id and properties; write "
                    "resource.properties.%.*s, or resource.**.%.*s for wherever it stands",
                    STR_FORMAT(shown), STR_FORMAT(shown));
    else if (m->count > 2)
        problem_add(ret, at, m->line, m->column,
                    "masks nothing: resource.%.*s is a text, and nothing is below a text",
                    STR_FORMAT(shown));
}

void refuse_vain_masks(const struct policy_document *d, struct policy_problems *ret)
{
    static const struct place list = {.key = {.bytes = "mask", .size = 4}};
    for (size_t i = 0; i < d->mask_count; i++) {
        const struct mask *m = &d->masks[i];
        struct place at = {.parent = &list, .index = i};
        if (m->count > 1 && str_equal(m->segments[0], STR("resource"))) check_resource(m, &at, ret);
    }
}
