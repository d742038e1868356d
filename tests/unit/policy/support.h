/* support.h - what the tests of policies share: loading texts, asking, looking for problems. */
#ifndef TESTS_POLICY_SUPPORT_H
#define TESTS_POLICY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "base/limits.h"
#include "policy/policy.h"

static inline struct policy_document *load_named(const char *name, const char *text)
{
    struct policy_problems problems;
    struct policy_document *d = NULL;
    enum err err = policy_load(str_from(name), str_from(text), &d, &problems);
    for (size_t i = 0; i < problems.count; i++)
        print_error("%s:%u:%u: %s: %s\n", name, problems.list[i].line, problems.list[i].column,
                    problems.list[i].path, problems.list[i].message);
    assert_int_equal(err, ERR_OK);
    return d;
}

/* The problems of a text that has to be refused. */
static inline struct policy_problems refused(const char *text)
{
    struct policy_problems problems;
    struct policy_document *d = NULL;
    enum err err = policy_load(STR("doc"), str_from(text), &d, &problems);
    if (err == ERR_OK) print_error("was accepted:\n%s\n", text);
    assert_int_equal(err, ERR_INVALID_POLICY);
    assert_true(problems.count > 0);
    return problems;
}

/* The first problem is at that place and says that. */
static inline void assert_refused_at(const char *text, unsigned line, unsigned column,
                                     const char *path, const char *message)
{
    struct policy_problems problems = refused(text);
    const struct policy_problem *p = &problems.list[0];
    if (p->line != line || p->column != column || strcmp(p->path, path) != 0 ||
        strstr(p->message, message) == NULL)
        print_error("got %u:%u %s | %s\n", p->line, p->column, p->path, p->message);
    assert_int_equal(p->line, line);
    assert_int_equal(p->column, column);
    assert_string_equal(p->path, path);
    assert_non_null(strstr(p->message, message));
}

static inline bool has_problem(const struct policy_problems *problems, const char *message)
{
    for (size_t i = 0; i < problems->count; i++)
        if (strstr(problems->list[i].message, message) != NULL) return true;
    return false;
}

/* A tenant with up to four documents, and an arena for its answers. */
struct tenant {
    struct policy_set *set;
    struct arena arena;
    struct policy_outcome outcome;
};

static inline void tenant_init(struct tenant *t, size_t count, const char *const names[],
                               const char *const texts[])
{
    struct policy_set_entry entries[8] = {{0}};
    for (size_t i = 0; i < count; i++)
        entries[i] =
            (struct policy_set_entry){.document = load_named(names[i], texts[i]), .version = i + 1};
    struct fault fault;
    assert_int_equal(policy_set_create(entries, count, &t->set, &fault), ERR_OK);
    for (size_t i = 0; i < count; i++) policy_document_release(entries[i].document);
    arena_init(&t->arena, 4096, LIMIT_REQUEST_ARENA_BYTES);
}

static inline void tenant_init_one(struct tenant *t, const char *text)
{
    tenant_init(t, 1, (const char *const[]){"doc"}, (const char *const[]){text});
}

static inline void tenant_fini(struct tenant *t)
{
    policy_set_destroy(t->set);
    arena_fini(&t->arena);
}

static inline enum verdict ask(struct tenant *t, const struct policy_request *q)
{
    arena_reset(&t->arena);
    policy_evaluate(t->set, q, &t->arena, NULL, &t->outcome);
    return t->outcome.verdict;
}

static inline struct policy_request agent_request(const char *actor, const char *action)
{
    return (struct policy_request){.kind = SUBJECT_AGENT,
                                   .tenant = STR("default"),
                                   .actor = str_from(actor),
                                   .action = str_from(action)};
}

static inline struct policy_request user_request(const char *user, const char *action)
{
    return (struct policy_request){.kind = SUBJECT_USER,
                                   .tenant = STR("default"),
                                   .user = str_from(user),
                                   .action = str_from(action)};
}

static inline enum verdict ask_agent(struct tenant *t, const char *actor, const char *action)
{
    struct policy_request q = agent_request(actor, action);
    return ask(t, &q);
}

static inline enum verdict ask_user(struct tenant *t, const char *user, const char *action)
{
    struct policy_request q = user_request(user, action);
    return ask(t, &q);
}

static inline struct json *args_of(struct tenant *t, const char *text)
{
    struct json *v = NULL;
    struct fault f;
    struct json_options options = {0};
    assert_int_equal(json_read(str_from(text), &options, &t->arena, &v, &f), ERR_OK);
    return v;
}

/* The outcome's limits live in the arena, as the request's args do: asked without a reset. */
static inline enum verdict ask_args(struct tenant *t, struct policy_request *q, const char *args)
{
    q->args = args == NULL ? NULL : args_of(t, args);
    policy_evaluate(t->set, q, &t->arena, NULL, &t->outcome);
    return t->outcome.verdict;
}

static inline bool str_is(struct str s, const char *text) { return str_equal(s, str_from(text)); }

#endif
