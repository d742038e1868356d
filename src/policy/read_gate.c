/* read_gate.c - reads the confidence gate of a document or a rule. */
#include "policy/reader.h"

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
        reader_complain(r, &at, "%g is above allow_at (%g); the thresholds must descend",
                        g->review_at, g->allow_at);
        has_review = false;
    }
    struct value missing = value_member(v, "missing");
    size_t word = 0;
    if (missing.node != NULL &&
        !want_word(r, &missing, missing_words, COUNT_OF(missing_words), &word))
        return NULL;
    g->missing = word == 0 ? VERDICT_HUMAN_REVIEW : VERDICT_DENY;
    if (!has_allow || !has_review) return NULL;
    gate_check(g);
    return g;
}
