/* read_limit.c - reads a rule's limit.
 *
 *   limit: {per: actor, window: 1h, count: 30, sum: args.amount, max: 5000, over: human_review}
 *
 *   path = ("args" | "context" | "resource") 1*("." name)
 *   name = [A-Za-z_][A-Za-z0-9_]*, not true, false, null or in
 *
 * A path is the simplest expression of the condition language, and read without a compiler. Any
 * other expression is compiled (condition.h). */
#include "base/check.h"
#include "policy/condition.h"

enum { PER_WORDS = PER_RESOURCE + 1 };

static bool is_identifier(struct str s)
{
    static const char *const keywords[] = {"true", "false", "null", "in"};
    for (size_t i = 0; i < COUNT_OF(keywords); i++)
        if (str_equal(s, str_from(keywords[i]))) return false;
    for (size_t i = 0; i < s.size; i++) {
        char c = s.bytes[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) return false;
    }
    return s.size > 0;
}

static bool is_root(struct str s)
{
    return str_equal(s, STR("args")) || str_equal(s, STR("context")) ||
           str_equal(s, STR("resource"));
}

/* An expression that is no plain path. Its value must be a number at run time, so its type must
 * allow a number. */
static bool read_sum_expression(struct reader *r, const struct value *v, struct str text,
                                struct limit_terms *t)
{
    static const char *const numbers[] = {"int", "uint", "double", "dyn"};
    char type[200];
    struct buf shown = buf_over(type, sizeof type);
    t->sum_value = read_condition(r, v, text, false);
    t->sum_text = text;
    if (t->sum_value == NULL) return false;
    cel_put_type(&shown, cel_program_type(t->sum_value->program));
    if (is_among(buf_view(&shown), numbers, COUNT_OF(numbers))) return true;
    reader_complain(r, v, "has to be a number, but it is %.*s", STR_FORMAT(buf_view(&shown)));
    return false;
}

static bool read_sum(struct reader *r, const struct value *v, struct limit_terms *t)
{
    struct str text, segment, segments[LIMIT_SUM_SEGMENTS];
    size_t count = 0;
    if (!want_text(r, v, LIMIT_SUM_CHARACTERS, &text)) return false;
    for (struct str rest = text; str_split(&rest, '.', &segment); count++) {
        if (count == LIMIT_SUM_SEGMENTS) {
            reader_complain(r, v, "\"%.100s\" has more than %d names", text.bytes,
                            LIMIT_SUM_SEGMENTS);
            return false;
        }
        if (!is_identifier(segment)) return read_sum_expression(r, v, text, t);
        check(count < LIMIT_SUM_SEGMENTS);
        segments[count] = segment;
    }
    if (!is_root(segments[0])) {
        reader_complain(r, v,
                        "\"%.100s\" has to begin with args, context or resource, as in args.amount",
                        text.bytes);
        return false;
    }
    if (count == 1) {
        reader_complain(r, v, "\"%s\" is a whole map; name a number in it, as in %s.amount",
                        text.bytes, text.bytes);
        return false;
    }
    t->sum = reader_take(r, count * sizeof *segments);
    if (t->sum == NULL) return false;
    memcpy(t->sum, segments, count * sizeof *segments);
    t->sum_count = count;
    t->sum_text = text;
    return true;
}

/* At least one of the two bounds, and a sum if there is a max. */
static bool read_bounds(struct reader *r, const struct value *map, struct limit_terms *t,
                        struct str *ret_max_text)
{
    struct value count = value_member(map, "count"), sum = value_member(map, "sum"),
                 max = value_member(map, "max");
    bool good = true;
    unsigned number;
    double most;
    if (count.node == NULL && sum.node == NULL && max.node == NULL) {
        reader_complain_at_key(r, map, "bounds nothing; give count, or sum and max");
        good = false;
    }
    if (count.node != NULL) {
        good &= want_count(r, &count, 1, LIMIT_COUNT_MAX, &number);
        if (good) t->count_max = number;
    }
    if (sum.node != NULL && max.node == NULL) {
        reader_complain_at_key(r, &sum, "has no max beside it that would bound the sum");
        good = false;
    }
    if (max.node != NULL && sum.node == NULL) {
        reader_complain_at_key(r, &max, "has no sum beside it that says what is added up");
        good = false;
    }
    if (sum.node != NULL) good &= read_sum(r, &sum, t);
    if (max.node == NULL) return good;
    if (!want_number(r, &max, 1.0 / AMOUNT_SCALE, (double)(AMOUNT_MAX / AMOUNT_SCALE), &most))
        return false;
    t->has_max = true;
    t->amount_max = amount_round_down(most);
    check(t->amount_max >= 0); /* of a number in its range */
    *ret_max_text = reader_copy(r, max.node->json.raw);
    return good;
}

static void tell(struct reader *r, struct limit_terms *t, struct str max_text,
                 struct str window_text)
{
    limit_terms_check(t);
    struct arena *arena = &r->document->arena;
    struct str bounds = {0};
    unsigned long long count = t->count_max;
    if (!t->has_max)
        bounds = arena_printf(arena, "%llu", count);
    else
        bounds = arena_printf(arena, "a sum of %.*s of %.*s", STR_FORMAT(t->sum_text),
                              STR_FORMAT(max_text));
    if (t->has_max && count > 0)
        bounds = arena_printf(arena, "%llu and %.*s", count, STR_FORMAT(bounds));
    t->told = arena_printf(arena, "%.*s per %s in %.*s", STR_FORMAT(bounds), limit_per_name(t->per),
                           STR_FORMAT(window_text));
    if (str_is_absent(t->told)) r->full = true;
}

const struct limit_terms *read_limit(struct reader *r, const struct value *v)
{
    static const char *const keys[] = {"per", "window", "count", "sum", "max", "over"};
    static const char *const over_words[] = {"deny", "human_review"};
    const uint64_t month_ms = LIMIT_WINDOW_SECONDS * UINT64_C(1000);
    const char *per_words[PER_WORDS];
    for (size_t i = 0; i < PER_WORDS; i++) per_words[i] = limit_per_name((enum limit_per)i);
    if (!want_map(r, v)) return NULL;
    reader_check_keys(r, v, keys, COUNT_OF(keys));
    struct limit_terms *t = reader_take(r, sizeof *t);
    if (t == NULL) return NULL;
    struct value per = value_member(v, "per"), window = value_member(v, "window"),
                 over = value_member(v, "over");
    struct str max_text = {0};
    size_t word = 0;
    bool good = per.node == NULL || want_word(r, &per, per_words, PER_WORDS, &word);
    t->per = (enum limit_per)word;
    good &=
        reader_require(r, v, &window) && want_duration(r, &window, month_ms, "30d", &t->window_ms);
    good &= read_bounds(r, v, t, &max_text);
    word = 0;
    good &= over.node == NULL || want_word(r, &over, over_words, COUNT_OF(over_words), &word);
    t->over = word == 0 ? VERDICT_DENY : VERDICT_HUMAN_REVIEW;
    if (good && !r->full) tell(r, t, max_text, window.node->json.string);
    return good && !r->full ? t : NULL;
}
