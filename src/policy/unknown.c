/* unknown.c - a recorded request with values that were masked or left out.
 *
 * Two such values compare as equal, and as different from all others, so an evaluation of the
 * record says nothing about the request. Here a part of a rule that reads one has no result of its
 * own, but an assumed one. The caller evaluates the request with each combination of assumptions;
 * what all of them have in common is known. A part with the same text has the same result, also in
 * another set. So has a limit whose count is not known (count.c). If there are too many parts, or one
 * cannot be assumed, the request `is_open`. */
#include "base/map.h"
#include "policy/condition.h"
#include "policy/evaluation.h"

enum {
    NAMES_MAX = 2000
}; /* bytes of a rule's resources as one text; longer ones are not compared */

static bool text_is_cut(struct str text)
{
    struct str masked = STR("[masked]");
    if (str_is_absent(text)) return false;
    return memmem(text.bytes, text.size, masked.bytes, masked.size) != NULL;
}

/* What the engine writes in place of a value, or a text that was made from that. */
static bool value_is_cut(const struct json *v)
{
    if (json_is_string(v)) return text_is_cut(v->string);
    if (v->type != JSON_OBJECT) return false;
    if (v->count == 1) return json_is_bool(json_get(v, STR("masked")));
    return v->count == 2 && json_is_bool(json_get(v, STR("omitted"))) &&
           json_is_number(json_get(v, STR("bytes")));
}

bool policy_is_cut(const struct json *v)
{
    if (v == NULL) return false;
    if (value_is_cut(v)) return true;
    for (const struct json *m = v->child; m != NULL; m = m->next)
        if (policy_is_cut(m)) return true;
    return false;
}

/* ---- paths ---- */

/* Whether the path leads through, to or around a cut value. The elements of a list count as one. */
static bool path_is_cut(const struct json *v, const struct str *segments, size_t count)
{
    check(count == 0 || segments != NULL);
    if (v == NULL) return false;
    if (value_is_cut(v)) return true;
    if (count == 0) return policy_is_cut(v);
    if (v->type == JSON_OBJECT && !str_is_absent(segments[0]))
        return path_is_cut(json_get(v, segments[0]), segments + 1, count - 1);
    for (const struct json *m = v->child; m != NULL; m = m->next)
        if (path_is_cut(m, segments + 1, count - 1)) return true;
    return false;
}

static bool args_are_cut(const struct policy_request *q, const struct str *segments, size_t count)
{
    if (q->args != NULL && q->args == q->unknowns->derived) return true;
    return path_is_cut(q->args, segments, count);
}

static bool is_cut_in(const struct policy_request *q, const struct str *segments, size_t count)
{
    check(count > 0);
    if (str_equal(segments[0], STR("args"))) return args_are_cut(q, segments + 1, count - 1);
    if (str_equal(segments[0], STR("context")))
        return path_is_cut(q->context, segments + 1, count - 1);
    if (str_equal(segments[0], STR("resource")))
        return path_is_cut(q->resource_object, segments + 1, count - 1);
    if (!str_equal(segments[0], STR("request"))) return false;
    if (count > 1 && !str_is_absent(segments[1])) return is_cut_in(q, segments + 1, count - 1);
    return args_are_cut(q, NULL, 0) || policy_is_cut(q->context) ||
           policy_is_cut(q->resource_object);
}

static bool hidden(void *context, const struct str *segments, size_t count)
{
    const struct evaluation *b = context;
    return is_cut_in(b->request, segments, count);
}

static bool reads_cut(struct evaluation *b, const struct condition *c)
{
    unsigned runs = 0;
    struct cel_tracing tracing = {.environment = cel_policy_environment(),
                                  .arena = b->arena,
                                  .hidden = hidden,
                                  .context = b,
                                  .runs_left = &runs};
    return cel_reads_hidden(&tracing, c->text);
}

/* ---- assumptions ---- */

static struct policy_open *open_find(struct policy_unknowns *u, struct str text, bool folds)
{
    unknowns_check(u);
    for (size_t i = 0; i < u->count; i++)
        if (u->open[i].folds == folds && str_equal(u->open[i].text, text)) return &u->open[i];
    return NULL;
}

/* NULL: there are too many. */
static struct policy_open *open_add(struct policy_unknowns *u, struct str text, bool folds,
                                    struct str policy_name, struct str rule_id)
{
    check(!str_is_absent(text));
    if (u->count == POLICY_OPEN_MAX) {
        u->is_open = true;
        return NULL;
    }
    u->open[u->count] = (struct policy_open){.text = text,
                                             .folds = folds,
                                             .assumed = ASSUMED_FALSE,
                                             .policy_name = policy_name,
                                             .rule_id = rule_id};
    return &u->open[u->count++];
}

bool policy_unknowns_next(struct policy_unknowns *u)
{
    unknowns_check(u);
    for (; u->count > 0; u->count--) {
        struct policy_open *last = &u->open[u->count - 1];
        if (last->assumed == ASSUMED_FAILED) continue;
        last->assumed++;
        return true;
    }
    return false;
}

enum condition_result unknown_holds(struct evaluation *b, const struct rule *rule)
{
    static const enum condition_result results[] = {[ASSUMED_FALSE] = CONDITION_FALSE,
                                                    [ASSUMED_TRUE] = CONDITION_TRUE,
                                                    [ASSUMED_FAILED] = CONDITION_FAILED};
    struct policy_unknowns *u = b->request->unknowns;
    const struct condition *c = rule->when;
    check(u != NULL && c != NULL);
    const struct policy_open *o = open_find(u, c->text, c->folds);
    if (o == NULL && !reads_cut(b, c)) return condition_holds(b, c, NULL);
    if (o == NULL) o = open_add(u, c->text, c->folds, rule->document->name, rule->id);
    return o == NULL ? CONDITION_FAILED : results[o->assumed];
}

/* ---- resources ---- */

bool unknown_is_resource_cut(const struct policy_request *q)
{
    if (q->unknowns == NULL) return false;
    return text_is_cut(q->resource) ||
           (q->resource_object != NULL && value_is_cut(q->resource_object));
}

bool unknown_matches_resource(struct evaluation *b, const struct rule *rule)
{
    struct policy_unknowns *u = b->request->unknowns;
    check(u != NULL && rule->resources.count > 0);
    char text[NAMES_MAX];
    struct buf out = buf_over(text, sizeof text);
    buf_put_literal(&out, "resources:");
    for (size_t i = 0; i < rule->resources.count; i++) {
        buf_put_byte(&out, ' ');
        json_put_string(&out, rule->resources.globs[i].written);
    }
    const struct policy_open *o = open_find(u, buf_view(&out), rule->folds);
    if (o == NULL) {
        struct str kept = out.overflow ? (struct str){0} : arena_copy(b->arena, buf_view(&out));
        if (str_is_absent(kept))
            u->is_open = true;
        else
            o = open_add(u, kept, rule->folds, rule->document->name, rule->id);
    }
    return o != NULL && o->assumed != ASSUMED_FALSE;
}

/* ---- limits ---- */

bool unknown_is_sum_cut(struct evaluation *b, const struct limit_terms *t)
{
    if (b->request->unknowns == NULL) return false;
    check(t->sum_count > 0 || t->sum_value != NULL);
    return t->sum_count > 0 ? is_cut_in(b->request, t->sum, t->sum_count)
                            : reads_cut(b, t->sum_value);
}

bool unknown_is_over(struct policy_unknowns *u, const struct policy_limit *l, struct str text)
{
    unknowns_check(u);
    const struct policy_open *o = open_find(u, text, false);
    if (o == NULL) o = open_add(u, text, false, l->policy_name, l->rule_id);
    return o == NULL || o->assumed != ASSUMED_FALSE;
}

/* ---- safe arguments ---- */

static bool templates_read_cut(struct evaluation *b, const struct rule *rule)
{
    for (const struct template *t = rule->templates; t != NULL; t = t->next)
        for (size_t i = 0; i < t->count; i++)
            if (t->parts[i].value != NULL && reads_cut(b, t->parts[i].value)) return true;
    return false;
}

static void mix(struct policy_unknowns *u, struct str text)
{
    u->values = (u->values ^ hash_bytes(text.bytes, text.size)) * UINT64_C(0x9E3779B97F4A7C15) | 1;
}

void unknown_args(struct evaluation *b, const struct rule *rule, const struct json *args)
{
    struct policy_unknowns *u = b->request->unknowns;
    check(u != NULL);
    if (!templates_read_cut(b, rule)) return;
    u->derived = args;
    for (const struct template *t = rule->templates; t != NULL; t = t->next)
        for (size_t i = 0; i < t->count; i++)
            mix(u, t->parts[i].value != NULL ? t->parts[i].value->text : t->parts[i].literal);
    if (args != NULL) return;
    u->is_open = true; /* with the value itself they can perhaps be made */
    if (open_find(u, rule->id, false) == NULL)
        (void)open_add(u, rule->id, false, rule->document->name, rule->id);
    unknowns_check(u);
}
