/* decide_scene.h - one tenant with policies, one key, and decisions whose
 * three texts are read back. */
#ifndef TESTS_ENGINE_DECIDE_SCENE_H
#define TESTS_ENGINE_DECIDE_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "base/limits.h"
#include "base/time.h"
#include "engine/decision/decide.h"

static const uint64_t scene_now_ms = 1795166400123; /* 2026-11-20T09:20:00.123Z */

struct scene {
    struct arena arena;   /* the request's */
    struct arena reading; /* what is read back */
    struct chance chance;
    struct hasher *hasher;
    struct digest_keys keys;
    struct decide_tools tools;
    struct key key;
    struct policy_set *set;
    struct auth_request ask;
    struct decision d;
    struct fault fault;
    char body[LIMIT_BODY_BYTES + 1024];
    char binding[LIMIT_BODY_BYTES * 8]; /* the full form, as it was before masking */
    size_t binding_size;
    struct json *record, *enqueued, *answer;
    struct event event; /* the record, read as the store reads it */
};

static struct str scene_anyone[] = {STR("*")};

static inline struct policy_document *scene_document(const char *name, const char *text)
{
    struct policy_problems problems = {0};
    struct policy_document *document;
    enum err err = policy_load(str_from(name), str_from(text), &document, &problems);
    if (err != ERR_OK) print_error("%s: %s\n", problems.list[0].path, problems.list[0].message);
    assert_int_equal(err, ERR_OK);
    return document;
}

/* The second may be NULL. */
static inline void scene_two_policies(struct scene *s, const char *text, const char *next)
{
    struct policy_set_entry entries[2] = {
        {.document = scene_document("payments", text), .version = 7}};
    if (next != NULL)
        entries[1] = (struct policy_set_entry){scene_document("next", next), .version = 1};
    policy_set_destroy(s->set);
    s->set = NULL;
    assert_int_equal(policy_set_create(entries, next == NULL ? 1 : 2, &s->set, &s->fault), ERR_OK);
    for (size_t i = 0; i < 2 && entries[i].document != NULL; i++)
        policy_document_release(entries[i].document);
}

static inline void scene_policies(struct scene *s, const char *text)
{
    scene_two_policies(s, text, NULL);
}

static inline int scene_set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    arena_init(&s->arena, 1 << 16, LIMIT_REQUEST_ARENA_BYTES);
    arena_init(&s->reading, 1 << 16, LIMIT_REQUEST_ARENA_BYTES);
    s->hasher = hasher_create();
    digest_keys_derive(&s->keys, &(struct pepper){{1, 2, 3}});
    s->key = (struct key){.id = {{1}},
                          .name = STR("fleet"),
                          .owner = STR("erin"),
                          .tenant = STR("acme"),
                          .roles = ROLE_AGENT | ROLE_APP};
    s->key.actors = s->key.users = (struct globs){scene_anyone, 1};
    id_write("key_", s->key.id, s->key.id_text);
    *state = s;
    return 0;
}

static inline int scene_tear_down(void **state)
{
    struct scene *s = *state;
    policy_set_destroy(s->set);
    hasher_destroy(s->hasher);
    arena_fini(&s->arena);
    arena_fini(&s->reading);
    free(s);
    return 0;
}

static inline struct json *scene_read(struct scene *s, struct str text)
{
    static const struct json_options options = {.nul_anywhere = true};
    struct json *v = NULL;
    enum err err = json_read(text, &options, &s->reading, &v, &s->fault);
    if (err != ERR_OK) print_error("%s\n", s->fault.text);
    assert_int_equal(err, ERR_OK);
    return v;
}

struct how {
    bool dry_run, explain;
    bool stopped; /* its actor is suspended, so policies are not asked */
};

static inline enum err scene_try(struct scene *s, enum auth_request_form form, struct str text,
                                 struct how how)
{
    static const struct json_options options = {0};
    struct json *body;
    struct caller caller = {.key = &s->key, .tenant = s->key.tenant};
    arena_reset(&s->arena);
    arena_reset(&s->reading);
    assert_int_equal(json_read(text, &options, &s->arena, &body, &s->fault), ERR_OK);
    struct auth_request_source from = {
        .form = form, .dry_run = how.dry_run, .chance = &s->chance, .arena = &s->arena};
    enum err err = auth_request_read(&from, &caller, body, &s->ask, &s->fault);
    if (err != ERR_OK) print_error("%s\n", s->fault.text);
    assert_int_equal(err, ERR_OK);
    struct buf binding = buf_over(s->binding, sizeof s->binding);
    auth_request_put_binding(&binding, &s->ask);
    assert_false(binding.overflow);
    s->binding_size = binding.size;
    s->tools = (struct decide_tools){.hasher = s->hasher,
                                     .chance = &s->chance,
                                     .keys = &s->keys,
                                     .policies = s->set,
                                     .now_ms = scene_now_ms,
                                     .started_ns = world_monotonic_ns(),
                                     .dry_run = how.dry_run,
                                     .explain = how.explain};
    s->d = (struct decision){0};
    decide_begin(&s->d, &s->tools, &caller, &s->ask, &s->arena);
    if (how.stopped)
        decide_deny(&s->d, "actor:suspended", "This actor is suspended.");
    else
        decide_evaluate(&s->d);
    decide_describe(&s->d);
    return decide_settle(&s->d, &s->fault);
}

/* Decides, and reads back all that came out. Every record is one that the store takes. */
static inline void scene_decide(struct scene *s, enum auth_request_form form, struct str text,
                                struct how how)
{
    enum err err = scene_try(s, form, text, how);
    if (err != ERR_OK) print_error("%s\n", s->fault.text);
    assert_int_equal(err, ERR_OK);
    s->record = scene_read(s, s->d.record);
    s->answer = scene_read(s, s->d.answer);
    s->enqueued = str_is_absent(s->d.beside) ? NULL : scene_read(s, s->d.beside);
    err = event_read(s->d.record, &s->reading, &s->event, &s->fault);
    if (err != ERR_OK) print_error("%s\n", s->fault.text);
    assert_int_equal(err, ERR_OK);
}

static inline void scene_ask(struct scene *s, enum auth_request_form form, const char *text)
{
    scene_decide(s, form, str_from(text), (struct how){0});
}

static inline void assert_member(const struct json *object, const char *name, const char *expected)
{
    struct str text = json_text(object, str_from(name));
    if (!str_equal(text, str_from(expected)))
        print_error("%s is %.*s, not %s\n", name, STR_FORMAT(text), expected);
    assert_true(str_equal(text, str_from(expected)));
}

static inline void assert_no_member(const struct json *object, const char *name)
{
    if (json_get(object, str_from(name)) != NULL) print_error("%s is there\n", name);
    assert_null(json_get(object, str_from(name)));
}

/* The member's bytes, as they stand in the text. */
static inline void assert_raw(const struct json *object, const char *name, const char *expected)
{
    const struct json *v = json_get(object, str_from(name));
    assert_non_null(v);
    if (!str_equal(v->raw, str_from(expected)))
        print_error("%s is %.*s, not %s\n", name, STR_FORMAT(v->raw), expected);
    assert_true(str_equal(v->raw, str_from(expected)));
}

static inline bool text_has(struct str text, const char *part)
{
    return memmem(text.bytes, text.size, part, strlen(part)) != NULL;
}

static inline void hex_of(struct str bytes, char to[SHA256_HEX + 1])
{
    sha256_write_hex(sha256_once(bytes), to);
    to[SHA256_HEX] = '\0';
}

static inline struct str fill(char *to, size_t size)
{
    memset(to, 'x', size);
    return str_of(to, size);
}

/* A body with payloads of these many bytes each. */
static inline struct str sized_body(struct scene *s, const char *action, size_t args,
                                    size_t context, size_t properties)
{
    static char x[LIMIT_BODY_BYTES];
    struct buf b = buf_over(s->body, sizeof s->body);
    buf_put_literal(&b, "{\"action\":");
    json_put_string(&b, str_from(action));
    if (args > 0)
        buf_put_literal(&b, ",\"args\":{\"a\":"), json_put_string(&b, fill(x, args)),
            buf_put_byte(&b, '}');
    if (context > 0) buf_put_literal(&b, ",\"context\":"), json_put_string(&b, fill(x, context));
    if (properties > 0) {
        buf_put_literal(&b, ",\"resource\":{\"id\":\"i\",\"properties\":{\"p\":");
        json_put_string(&b, fill(x, properties));
        buf_put_literal(&b, "}}");
    }
    buf_put_byte(&b, '}');
    assert_false(b.overflow);
    return buf_view(&b);
}

static inline bool is_omitted(struct scene *s, const char *name)
{
    const struct json *v = json_get(s->record, str_from(name));
    return json_is_object(v) && json_get(v, STR("omitted")) != NULL &&
           json_u64(v, STR("bytes"), 0) > 0;
}

#endif
