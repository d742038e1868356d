/* fuzz_policy.c - any bytes as a policy document; what loads is also evaluated.
 *
 * The first line of the input, where there is one that begins with `#`, gives the names of the
 * requests (actor, action, resource, with spaces between), so that the fuzzer can bring both
 * sides together; YAML takes it for a comment. Checked: a refusal has a problem with well-formed
 * text; what loads can be joined, asked, explained, linted and masked; an allow never comes
 * without a rule's name; every limit of an outcome can be over; and the votes that a review names
 * are those that, approved, leave none to ask about. */
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problems(const struct policy_problems *problems)
{
    check(problems->count <= POLICY_PROBLEMS_MAX);
    for (size_t i = 0; i < problems->count; i++) {
        const struct policy_problem *p = &problems->list[i];
        size_t wrong;
        check(memchr(p->path, '\0', sizeof p->path) != NULL &&
              memchr(p->message, '\0', sizeof p->message) != NULL);
        check(str_is_utf8(str_from(p->path), &wrong) && str_is_utf8(str_from(p->message), &wrong));
        check(p->message[0] != '\0');
    }
}

static void considered(void *context, const struct policy_considered *c)
{
    size_t *seen = context;
    check(!str_is_empty(c->why));
    ++*seen;
}

/* Each limit of the outcome, as if it were over. */
static void go_over(const struct policy_outcome *was, struct arena *arena)
{
    check(was->limit_count == 0 || was->verdict >= VERDICT_COMPUTE);
    for (size_t i = 0; i < was->limit_count; i++) {
        const struct policy_limit *l = &was->limits[i];
        struct policy_outcome o = *was;
        check(l->count_max > 0 || l->has_max);
        check(!l->has_max || (l->amount_max > 0 && l->amount_max <= AMOUNT_MAX));
        check(l->amount >= -1 && l->amount <= AMOUNT_MAX && l->window_ms >= 1000);
        policy_over_limit(l, arena, &o);
        check(o.verdict == l->over || arena->overflow);
        check(!str_is_absent(o.reason) && o.limit_count == 0);
        check((o.review.vote_count > 0) == (o.verdict == VERDICT_HUMAN_REVIEW));
    }
}

/* The outcome again, where people have approved all that it asks about. */
static void approve(const struct policy_set *set, const struct policy_request *asked,
                    const struct policy_outcome *was, struct arena *arena)
{
    struct policy_request q = *asked;
    struct policy_outcome o;
    check(was->review.vote_count > 0 && was->review.requirement_count > 0);
    q.approved = was->review.votes;
    q.approved_count = was->review.vote_count;
    policy_evaluate(set, &q, arena, NULL, &o);
    check(o.verdict >= VERDICT_COMPUTE || arena->overflow);
    go_over(&o, arena);
}

static struct policy_memory *memory; /* of all inputs: their sets have numbers of their own */

static void ask(const struct policy_set *set, const struct policy_request *q, struct arena *arena)
{
    struct policy_outcome plain, explained;
    size_t seen = 0;
    struct policy_explain explain = {.considered = considered, .context = &seen};
    arena_reset(arena);
    policy_evaluate(set, q, arena, NULL, &plain);
    policy_evaluate(set, q, arena, &explain, &explained);
    for (int again = 0; again < 2; again++) {
        struct policy_outcome remembered;
        policy_evaluate_remembering(set, memory, q, arena, &remembered);
        check(remembered.verdict == plain.verdict && strcmp(remembered.rule, plain.rule) == 0);
        check(str_equal(remembered.reason, plain.reason) && remembered.cost == plain.cost);
    }
    check(seen == policy_set_rules(set));
    check(plain.verdict == explained.verdict && strcmp(plain.rule, explained.rule) == 0);
    check(plain.verdict != VERDICT_ALLOW || strncmp(plain.rule, "allow:", 6) == 0);
    check((plain.verdict == VERDICT_COMPUTE) == (plain.safe_args != NULL));
    check(!str_is_absent(plain.reason) && plain.rule[0] != '\0');
    if (plain.verdict == VERDICT_HUMAN_REVIEW) approve(set, q, &plain, arena);
    go_over(&plain, arena);
}

static void ask_all(const struct policy_set *set, struct str names, struct arena *arena)
{
    struct str actor = {0}, action = {0}, resource = {0};
    str_split(&names, ' ', &actor);
    str_split(&names, ' ', &action);
    str_split(&names, ' ', &resource);
    struct json amount = {.type = JSON_NUMBER, .number = 12.34, .key = STR("amount")},
                args = {.type = JSON_OBJECT, .count = 1, .child = &amount};
    for (int way = 0; way < 8; way++) {
        struct policy_request q = {.kind = way & 1 ? SUBJECT_USER : SUBJECT_AGENT,
                                   .tenant = STR("default"),
                                   .args = &args,
                                   .action = action};
        *(way & 1 ? &q.user : &q.actor) = actor;
        if (way & 2) q.resource = resource;
        q.has_confidence = (way & 4) != 0;
        q.confidence = 0.75;
        ask(set, &q, arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_of((const char *)data, size), names = STR("bot get_x db:prod");
    size_t line = str_find(text, '\n');
    if (size > 1 && data[0] == '#') names = str_of(text.bytes + 1, line - 1);
    struct policy_document *d = NULL;
    struct policy_problems problems;
    enum err err = policy_load(STR("doc"), text, &d, &problems);
    check_problems(&problems);
    if (memory == NULL) memory = policy_memory_create(4);
    if (err != ERR_OK) {
        check(err == ERR_INVALID_POLICY && problems.count > 0 && d == NULL);
        return 0;
    }
    policy_lint(d, &problems);
    check_problems(&problems);
    struct policy_set *set = NULL;
    struct policy_set_entry entry = {.document = d, .version = 1};
    check(policy_set_create(&entry, 1, &set, NULL) == ERR_OK);
    policy_document_release(d);
    struct arena arena;
    arena_init(&arena, 4096, LIMIT_REQUEST_ARENA_BYTES);
    ask_all(set, names, &arena);
    const struct claim claims[] = {{.name = STR("groups"), .value = STR("finance")}};
    const struct policy_person person = {.name = names, .claims = claims, .claim_count = 1};
    policy_has_role(set, &person, &(struct str){.bytes = "finance", .size = 7}, 1, &arena);
    struct json leaf = {.type = JSON_STRING, .string = STR("4111"), .key = STR("card")},
                args = {.type = JSON_OBJECT, .count = 1, .child = &leaf};
    check(policy_masked_copy(set, STR("args"), &args, &arena) != NULL);
    policy_mask(set, STR("args"), &args);
    arena_fini(&arena);
    policy_set_destroy(set);
    return 0;
}
