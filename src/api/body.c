/* body.c - the body of a request as a JSON object of the route's members.
 *
 * A request that changes something and has a member that its route does not know is refused: a
 * misspelled limit would be no limit. */
#include <stdio.h>

#include "api/api.h"
#include "base/check.h"
#include "base/nearest.h"

enum {
    WORDS_MAX = 24,
    WORDS_BYTES = 256,
    AT_BYTES_MAX = 48,
    KEY_BYTES_MAX = 64, /* of the member in the error's field */
};

/* The names of a route's list, each with a NUL. */
struct words {
    char bytes[WORDS_BYTES];
    const char *list[WORDS_MAX];
    size_t count;
};

static void words_split(struct words *w, const char *names)
{
    size_t size = strlen(names);
    check(size < WORDS_BYTES);
    memcpy(w->bytes, names, size + 1);
    w->count = 0;
    for (char *at = w->bytes; *at != '\0';) {
        check(w->count < WORDS_MAX);
        w->list[w->count++] = at;
        at += strcspn(at, " ");
        if (*at == ' ') *at++ = '\0';
    }
}

static bool is_listed(struct str names, struct str name)
{
    struct str one;
    while (str_split(&names, ' ', &one))
        if (str_equal(one, name)) return true;
    return false;
}

/* "maxUses" is "max_uses" in camelCase. */
static bool is_camel_case_of(struct str name, struct str snake)
{
    size_t at = 0;
    for (size_t i = 0; i < snake.size; i++, at++) {
        bool joins = snake.bytes[i] == '_' && i + 1 < snake.size;
        char wanted = joins ? (char)(snake.bytes[++i] - 'a' + 'A') : snake.bytes[i];
        if (at == name.size || name.bytes[at] != wanted) return false;
    }
    return at == name.size;
}

static enum err refuse(struct str name, const char *names, const char *at, struct fault *f)
{
    struct words words;
    char field[AT_BYTES_MAX + KEY_BYTES_MAX + 2];
    struct str shown = str_cut(name, KEY_BYTES_MAX);
    (void)snprintf(field, sizeof field, "%.*s/%.*s", AT_BYTES_MAX, at, STR_FORMAT(shown));
    words_split(&words, names);
    for (size_t i = 0; i < words.count; i++)
        if (is_camel_case_of(name, str_from(words.list[i])))
            return fault_set(f, ERR_WRONG_CASE, field, "%s: must be spelled %s", field + 1,
                             words.list[i]);
    const char *near = nearest_word(name, words.list, words.count);
    if (near != NULL)
        return fault_set(f, ERR_UNKNOWN_MEMBER, field,
                         "%s: is not a member of this request; did you mean %s?", field + 1, near);
    return fault_set(f, ERR_UNKNOWN_MEMBER, field,
                     "%s: is not a member of this request, which may have: %s", field + 1, names);
}

enum err api_members(const struct json *object, const char *names, const char *at, struct fault *f)
{
    for (const struct json *m = object->child; m != NULL; m = m->next)
        if (!is_listed(str_from(names), m->key)) return refuse(m->key, names, at, f);
    return ERR_OK;
}

enum err api_body(const struct http_exchange *x, struct json **ret, struct fault *f)
{
    static const struct json_options options = {0};
    enum err err = json_read(x->body, &options, x->arena, ret, f);
    if (err != ERR_OK) return err;
    if ((*ret)->type != JSON_OBJECT)
        return fault_set(f, ERR_WRONG_TYPE, "", "the body must be a JSON object");
    const char *names = x->route == NULL ? NULL : x->route->members;
    return names == NULL ? ERR_OK : api_members(*ret, names, "", f);
}
