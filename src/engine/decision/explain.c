/* explain.c - the outcome, and every rule that was considered, for people who may read policies.
 *
 *   "explain": [{applies, policy, rule, shadow, verdict, why}, …]
 *   "would_allow": {against, lacks, policy, rule}       if the outcome is not allow
 *
 * Bounded by half of the bytes that a connection may have on its way out. Values that are masked in
 * records are masked here too, by policy/. */
#include "base/check.h"
#include "base/limits.h"
#include "engine/decision/decide.h"
#include "json/json.h"

const struct str explain_too_many = STR("\"there are too many rules to list them here\"");

struct explaining {
    struct buf *out;
    bool any, is_camel, has_nearest;
};

static void put_considered(void *context, const struct policy_considered *c)
{
    struct explaining *x = context;
    check(!x->has_nearest); /* it comes behind all rules */
    buf_put(x->out, x->any ? STR(",{\"applies\":") : STR("{\"applies\":"));
    x->any = true;
    buf_put(x->out, c->applies ? STR("true") : STR("false"));
    buf_put_literal(x->out, ",\"policy\":");
    json_put_string(x->out, c->policy_name);
    buf_put_literal(x->out, ",\"rule\":");
    json_put_string(x->out, c->rule_id);
    buf_put(x->out, c->shadow ? STR(",\"shadow\":true") : STR(",\"shadow\":false"));
    buf_put_literal(x->out, ",\"verdict\":");
    json_put_plain(x->out, str_from(verdict_name(c->verdict)));
    buf_put_literal(x->out, ",\"why\":");
    json_put_string(x->out, c->why);
    buf_put_byte(x->out, '}');
}

static void put_texts(struct buf *out, const struct str *texts, size_t count)
{
    buf_put_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0) buf_put_byte(out, ',');
        json_put_string(out, texts[i]);
    }
    buf_put_byte(out, ']');
}

/* If not all of them have room, none is shown: a truncated list would look complete. */
static void end_rules(struct explaining *x)
{
    buf_put_byte(x->out, ']');
    if (!x->out->overflow) return;
    buf_clear(x->out);
    buf_put(x->out, explain_too_many);
}

/* This follows the rules, and is shown however many those are. */
static void put_nearest(void *context, const struct policy_nearest *n)
{
    struct explaining *x = context;
    check(!x->has_nearest);
    x->has_nearest = true;
    end_rules(x);
    buf_put(x->out, x->is_camel ? STR(",\"wouldAllow\":{\"against\":")
                                : STR(",\"would_allow\":{\"against\":"));
    put_texts(x->out, n->against, n->against_count);
    buf_put_literal(x->out, ",\"lacks\":");
    put_texts(x->out, n->lacks, n->lack_count);
    if (!str_is_absent(n->rule_id)) {
        buf_put_literal(x->out, ",\"policy\":");
        json_put_string(x->out, n->policy_name);
        buf_put_literal(x->out, ",\"rule\":");
        json_put_string(x->out, n->rule_id);
    }
    buf_put_byte(x->out, '}');
}

void decide_explain(struct decision *d, const struct policy_request *request)
{
    struct buf text;
    check(d->tools->dry_run && str_is_absent(d->explain));
    buf_init(&text, 4096, LIMIT_CONNECTION_OUT_BYTES / 2);
    struct explaining x = {.out = &text, .is_camel = d->ask->form == ASK_TOOL};
    struct policy_explain explain = {
        .considered = put_considered, .nearest = put_nearest, .context = &x};
    buf_put_byte(&text, '[');
    policy_evaluate(d->tools->policies, request, d->arena, &explain, &d->outcome);
    if (!x.has_nearest) end_rules(&x);
    bool was_full = d->arena->overflow;
    if (!text.overflow) d->explain = arena_copy(d->arena, buf_view(&text));
    d->arena->overflow = was_full; /* there is room for this text instead */
    if (str_is_absent(d->explain)) d->explain = explain_too_many;
    buf_fini(&text);
}
