/* route.c - the route table, made ready for look-up. */
#include "http/route.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/map.h"

enum { SEGMENTS_MAX = 16, ALLOW_BYTES = 64 };

struct shape {
    struct str segments[SEGMENTS_MAX]; /* absent = a parameter */
    size_t segment_count, param_count;
};

struct entry {
    struct route_path path;
    struct shape shape;
    struct str pattern;
    char allow[ALLOW_BYTES];
};

struct routes {
    struct entry *entries;
    size_t entry_count;
    const struct entry **with_params;
    size_t with_params_count;
    struct map exact;
};

/* Segments of "/a/b": "a", "b". False where there are too many. */
static bool split(struct str path, struct str segments[SEGMENTS_MAX], size_t *ret_count)
{
    size_t count = 0;
    struct str rest = str_skip(path, 1), segment;
    while (str_split(&rest, '/', &segment)) {
        if (count == SEGMENTS_MAX) return false;
        segments[count++] = segment;
    }
    *ret_count = count;
    return true;
}

static void shape_read(struct str pattern, struct shape *s)
{
    check(str_starts(pattern, STR("/")));
    check(split(pattern, s->segments, &s->segment_count));
    for (size_t i = 0; i < s->segment_count; i++) {
        struct str segment = s->segments[i];
        if (!str_starts(segment, STR("{"))) continue;
        check(segment.size > 2 && segment.bytes[segment.size - 1] == '}');
        s->segments[i] = (struct str){0};
        s->param_count++;
    }
    check(s->param_count <= HTTP_PARAMS_MAX);
}

static bool shape_same(const struct shape *a, const struct shape *b)
{
    if (a->segment_count != b->segment_count) return false;
    for (size_t i = 0; i < a->segment_count; i++) {
        if (str_is_absent(a->segments[i]) != str_is_absent(b->segments[i])) return false;
        if (!str_equal(a->segments[i], b->segments[i])) return false;
    }
    return true;
}

static struct entry *entry_for(struct routes *r, struct str pattern)
{
    struct shape shape = {0};
    shape_read(pattern, &shape);
    for (size_t i = 0; i < r->entry_count; i++)
        if (shape_same(&r->entries[i].shape, &shape)) return &r->entries[i];
    struct entry *e = &r->entries[r->entry_count++];
    e->shape = shape;
    e->pattern = pattern;
    return e;
}

static void allow_add(struct entry *e, enum http_method method, const char *name)
{
    if (e->path.by_method[method] == NULL) return;
    struct str text = str_from(name);
    size_t at = e->path.allow.size;
    if (at > 0) {
        memcpy(e->allow + at, ", ", 2);
        at += 2;
    }
    check(at + text.size <= ALLOW_BYTES);
    memcpy(e->allow + at, text.bytes, text.size);
    e->path.allow = str_of(e->allow, at + text.size);
}

static void entry_finish(struct routes *r, struct entry *e)
{
    const struct http_route **by_method = e->path.by_method;
    if (by_method[HTTP_HEAD] == NULL) by_method[HTTP_HEAD] = by_method[HTTP_GET];
    allow_add(e, HTTP_GET, "GET");
    allow_add(e, HTTP_HEAD, "HEAD");
    allow_add(e, HTTP_POST, "POST");
    allow_add(e, HTTP_PUT, "PUT");
    allow_add(e, HTTP_DELETE, "DELETE");
    if (e->shape.param_count == 0)
        check(map_put(&r->exact, e->pattern, e));
    else
        r->with_params[r->with_params_count++] = e;
}

struct routes *routes_create(const struct http_route *table, size_t count)
{
    struct routes *r = calloc(1, sizeof *r);
    check(r != NULL);
    r->entries = calloc(count + 1, sizeof *r->entries);
    r->with_params = calloc(count + 1, sizeof *r->with_params);
    check(r->entries != NULL && r->with_params != NULL);
    for (size_t i = 0; i < count; i++) {
        struct entry *e = entry_for(r, str_from(table[i].pattern));
        check(e->path.by_method[table[i].method] == NULL);
        e->path.by_method[table[i].method] = &table[i];
    }
    for (size_t i = 0; i < r->entry_count; i++) entry_finish(r, &r->entries[i]);
    return r;
}

void routes_destroy(struct routes *r)
{
    if (r == NULL) return;
    map_fini(&r->exact);
    free(r->with_params);
    free(r->entries);
    free(r);
}

static bool shape_matches(const struct shape *s, const struct str *segments,
                          struct str params[HTTP_PARAMS_MAX])
{
    size_t param = 0;
    for (size_t i = 0; i < s->segment_count; i++) {
        if (!str_is_absent(s->segments[i])) {
            if (!str_equal(s->segments[i], segments[i])) return false;
        } else {
            if (str_is_empty(segments[i])) return false;
            params[param++] = segments[i];
        }
    }
    return true;
}

const struct route_path *routes_find(const struct routes *r, struct str path,
                                     struct str params[HTTP_PARAMS_MAX])
{
    const struct entry *found = map_get(&r->exact, path);
    if (found != NULL) return &found->path;
    struct str segments[SEGMENTS_MAX];
    size_t count;
    if (!str_starts(path, STR("/")) || !split(path, segments, &count)) return NULL;
    for (size_t i = 0; i < r->with_params_count; i++) {
        const struct entry *e = r->with_params[i];
        if (e->shape.segment_count == count && shape_matches(&e->shape, segments, params))
            return &e->path;
    }
    return NULL;
}

bool route_knows_parameter(const struct http_route *route, struct str name)
{
    if (route->parameters == NULL) return true;
    struct str known = str_from(route->parameters), one;
    if (str_is_empty(name)) return false;
    while (str_split(&known, ' ', &one))
        if (str_equal(one, name)) return true;
    return false;
}
