/* read.c - one JSON text to a tree: jsmn finds the tokens, this file holds them to RFC 8259.
 *
 * jsmn alone is not enough: in strict mode it takes "[1}", trailing commas, 01, lone surrogates,
 * control bytes, ill-formed UTF-8 and duplicate keys. So its tokens are only hints of where strings
 * and primitives end. The reader walks the text from its first byte to its last with one cursor,
 * takes a token where the grammar wants a value or a key, and demands that it begins at the
 * cursor; every byte between tokens is looked at here. Where tokens run out (jsmn gave up), the
 * cursor stands at or before the trouble, and no_value() says what it is.
 *
 * Time is linear. jsmn closes a bracket by walking up parents, which a deep text makes quadratic:
 * it gets its tokens in bursts, and between bursts a chain of parents that no legal text has ends
 * the tokenising. Duplicate keys: a 64-bit set of cheap hashes settles nearly every small object,
 * pairs the rest; a large one gets a hash table under this process's seed.
 *
 * Memory: tokens of small texts on the stack, nodes in one piece of the arena, counted before. */
#include <limits.h>
#include <stdio.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/map.h"
#include "json/number.h"
#include "json/text.h"

enum {
    TOKENS_ON_STACK = 256,
    TOKENS_PER_BURST = 128,
    PAIRWISE_MAX = 24, /* members; more are compared through a hash table */
};

/* Where in the tree we are, for the JSON pointer of a fault. The root has no `up`. */
struct place {
    const struct place *up;
    struct str key; /* of a member */
    uint32_t index; /* of an element, where key is absent */
};

struct reader {
    const char *cursor, *end, *begin;
    const jsmntok_t *token, *token_end;
    struct json *node, *node_end; /* the next free one */
    struct arena *arena;
    struct fault *fault;
    unsigned depth, depth_max;
    bool plain;       /* no string of the text needs a closer look */
    bool nul_allowed; /* here */
};

/* ---- telling what is wrong ---- */

/* The JSON pointer (RFC 6901) of `at`. A key's U+0000 cannot stand in a C string: shown escaped. */
static void pointer_put(struct buf *out, const struct place *at)
{
    if (at->up == NULL) return;
    pointer_put(out, at->up);
    buf_put_byte(out, '/');
    if (str_is_absent(at->key)) buf_put_u64(out, at->index);
    for (size_t i = 0; i < at->key.size; i++) {
        char c = at->key.bytes[i];
        if (c == '~')
            buf_put_literal(out, "~0");
        else if (c == '/')
            buf_put_literal(out, "~1");
        else if (c == '\0')
            buf_put_literal(out, "\\u0000");
        else
            buf_put_byte(out, c);
    }
}

static size_t offset_of(const struct reader *r, const char *p) { return (size_t)(p - r->begin); }

/* A fault of one value, or of a name in the object `at`: `what` continues the sentence. */
static enum err value_fault(struct reader *r, enum err err, const struct place *at, const char *p,
                            bool of_name, const char *what)
{
    char bytes[sizeof r->fault->field + 8];
    struct buf pointer = buf_over(bytes, sizeof bytes - 1);
    pointer_put(&pointer, at);
    /* What did not fit was cut, perhaps within a character. */
    while (pointer.overflow && pointer.size > 0 && (bytes[pointer.size - 1] & 0xC0) == 0x80)
        pointer.size--;
    if (pointer.overflow && pointer.size > 0 && (bytes[pointer.size - 1] & 0x80) != 0)
        pointer.size--;
    bytes[pointer.size] = '\0';
    const char *subject = pointer.size > 0 ? bytes : of_name ? "the object" : "the value";
    return fault_set(r->fault, err, bytes, "%s%s %s (byte %zu)",
                     of_name ? "a member's name in " : "", subject, what, offset_of(r, p));
}

/* A fault of the text as such. */
static enum err syntax_fault(struct reader *r, const char *p, const char *wanted)
{
    if (p >= r->end)
        return fault_set(r->fault, ERR_MALFORMED_JSON, "",
                         "the JSON text ends at byte %zu where %s is expected",
                         offset_of(r, r->end), wanted);
    unsigned char c = (unsigned char)*p;
    if (c > 0x20 && c < 0x7F)
        return fault_set(r->fault, ERR_MALFORMED_JSON, "", "byte %zu is '%c' where %s is expected",
                         offset_of(r, p), c, wanted);
    return fault_set(r->fault, ERR_MALFORMED_JSON, "", "byte %zu is 0x%02x where %s is expected",
                     offset_of(r, p), c, wanted);
}

static enum err arena_fault(struct reader *r)
{
    return fault_set(r->fault, ERR_BODY_TOO_LARGE, "",
                     "the JSON text has more values than there is room for");
}

/* ---- small pieces ---- */

static inline void skip_space(struct reader *r)
{
    while (r->cursor < r->end &&
           (*r->cursor == ' ' || *r->cursor == '\n' || *r->cursor == '\r' || *r->cursor == '\t'))
        r->cursor++;
}

static inline bool next_is(const struct reader *r, char c)
{
    return r->cursor < r->end && *r->cursor == c;
}

/* The next token, if it begins at the cursor; a string's begins after its quote. */
static inline const jsmntok_t *token_here(struct reader *r)
{
    if (r->token == r->token_end) return NULL;
    ptrdiff_t start = r->token->start - (r->token->type == JSMN_STRING);
    return start == r->cursor - r->begin ? r->token++ : NULL;
}

/* The string of token `t`, unescaped; the cursor goes past its closing quote. */
static inline enum err string_read(struct reader *r, const struct place *at, const jsmntok_t *t,
                                   bool of_name, struct str *ret, bool *ret_nul)
{
    const char *first = r->begin + t->start;
    struct str inside = str_of(first, (size_t)(t->end - t->start));
    r->cursor = r->begin + t->end + 1;
    *ret = inside;
    if (r->plain) return ERR_OK;
    struct text_fault f;
    enum err err = text_read(inside, r->arena, ret, ret_nul, &f);
    if (err == ERR_BODY_TOO_LARGE) return arena_fault(r);
    if (err != ERR_OK) return value_fault(r, err, at, first + f.at, of_name, f.problem);
    if (*ret_nul && !r->nul_allowed)
        return value_fault(r, ERR_MALFORMED_JSON, at, first, of_name,
                           "has a U+0000, which is taken only inside args, context and properties");
    return ERR_OK;
}

static inline bool is_of_primitive(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

static enum err number_fault(struct reader *r, const struct place *at, struct str literal,
                             enum number_result result, size_t stop)
{
    if (result == NUMBER_TOO_BIG)
        return value_fault(r, ERR_NUMBER_PRECISION, at, literal.bytes, false,
                           "is a number beyond what a double or 64 bits can hold");
    const char *p = literal.bytes + stop;
    if (stop == literal.size) return syntax_fault(r, p, "a digit of the number");
    if (stop == 0 || p[-1] == '-') return syntax_fault(r, p, "a value");
    return syntax_fault(r, p,
                        is_of_primitive(*p) ? "the end of the number" : "',' or a closing bracket");
}

/* A number, true, false or null; `t` tells where it ends, which is all that jsmn knows of it. */
static enum err primitive_read(struct reader *r, const struct place *at, struct str literal,
                               struct json *v)
{
    v->raw = literal;
    r->cursor = literal.bytes + literal.size;
    char c = literal.bytes[0];
    if (c == '-' || (c >= '0' && c <= '9')) {
        size_t stop;
        v->type = JSON_NUMBER;
        enum number_result result = number_read(literal, v, &stop);
        return result == NUMBER_OK ? ERR_OK : number_fault(r, at, literal, result, stop);
    }
    if (str_equal(literal, STR("true")))
        v->type = JSON_TRUE;
    else if (str_equal(literal, STR("false")))
        v->type = JSON_FALSE;
    else if (str_equal(literal, STR("null")))
        v->type = JSON_NULL;
    else
        return syntax_fault(r, literal.bytes, "a value");
    return ERR_OK;
}

/* A string that jsmn found no end of: something is wrong up to its closing quote, if it has one. */
static enum err no_string(struct reader *r, const struct place *at, bool of_name)
{
    const char *first = r->cursor + 1;
    struct str inside = str_of(first, (size_t)(r->end - first));
    for (size_t i = 0; i < inside.size; i++) {
        if (inside.bytes[i] == '"')
            inside.size = i;
        else if (inside.bytes[i] == '\\')
            i++;
    }
    struct str text;
    bool nul;
    struct text_fault f;
    enum err err = text_read(inside, r->arena, &text, &nul, &f);
    if (err == ERR_BODY_TOO_LARGE) return arena_fault(r);
    if (err != ERR_OK) return value_fault(r, err, at, first + f.at, of_name, f.problem);
    return syntax_fault(r, r->end, "the end of a string");
}

/* No token begins at the cursor: the text breaks here, or within what begins here. */
static enum err no_value(struct reader *r, const struct place *at)
{
    const char *stop = r->cursor;
    if (stop < r->end && *stop == '"') return no_string(r, at, false);
    while (stop < r->end && is_of_primitive(*stop)) stop++;
    if (stop == r->cursor) return syntax_fault(r, stop, "a value");
    struct json ignored;
    enum err err = primitive_read(r, at, str_of(r->cursor, (size_t)(stop - r->cursor)), &ignored);
    return err != ERR_OK ? err : syntax_fault(r, stop, "',' or a closing bracket");
}

/* ---- duplicate keys ---- */

static struct json *same_key_before(const struct json *object, const struct json *last)
{
    for (struct json *m = object->child; m != last; m = m->next)
        if (str_equal(m->key, last->key)) return m;
    return NULL;
}

/* Six bits that differ for most pairs of keys. */
static inline unsigned cheap_hash(struct str key)
{
    if (key.size == 0) return 0;
    unsigned char first = (unsigned char)key.bytes[0],
                  last = (unsigned char)key.bytes[key.size - 1];
    unsigned char middle = (unsigned char)key.bytes[key.size / 2];
    return (first * 5u + last * 11u + middle * 23u + (unsigned)key.size) & 63;
}

static enum err large_object_check(struct reader *r, const struct json *object,
                                   struct json **ret_twice)
{
    size_t capacity = 64;
    while (capacity < (size_t)object->count * 2) capacity *= 2;
    const struct json **table = arena_array(r->arena, const struct json *, capacity);
    if (table == NULL) return arena_fault(r);
    for (struct json *m = object->child; m != NULL; m = m->next) {
        size_t i = hash_bytes(m->key.bytes, m->key.size) & (capacity - 1);
        while (table[i] != NULL && !str_equal(table[i]->key, m->key)) i = (i + 1) & (capacity - 1);
        if (table[i] != NULL) {
            *ret_twice = m;
            return ERR_OK;
        }
        table[i] = m;
    }
    return ERR_OK;
}

static enum err duplicates_check(struct reader *r, const struct place *at,
                                 const struct json *object)
{
    struct json *twice = NULL;
    if (object->count > PAIRWISE_MAX) {
        enum err err = large_object_check(r, object, &twice);
        if (err != ERR_OK) return err;
    } else {
        uint64_t seen = 0;
        for (struct json *m = object->child; m != NULL && twice == NULL; m = m->next) {
            uint64_t bit = (uint64_t)1 << cheap_hash(m->key);
            if ((seen & bit) != 0 && same_key_before(object, m) != NULL) twice = m;
            seen |= bit;
        }
    }
    if (twice == NULL) return ERR_OK;
    struct place here = {.up = at, .key = twice->key};
    return value_fault(r, ERR_DUPLICATE_KEY, &here, twice->raw.bytes, false,
                       "is given twice in one object");
}

/* ---- containers ---- */

static enum err value_read(struct reader *r, const struct place *at, struct json *v);

static inline struct json *node_new(struct reader *r)
{
    return r->node == r->node_end ? NULL : r->node++;
}

/* U+0000 may stand in what callers hand on unread, never in what we compare or show. */
static inline bool is_nul_home(struct str key)
{
    return str_equal(key, STR("args")) || str_equal(key, STR("context")) ||
           str_equal(key, STR("properties"));
}

/* "key" : value, into a new node. */
static enum err member_read(struct reader *r, const struct place *up, struct json **ret)
{
    struct place at = {.up = up, .key = STR("")};
    const jsmntok_t *t = token_here(r);
    if (t == NULL && next_is(r, '"')) return no_string(r, up, true);
    if (t == NULL || t->type != JSMN_STRING)
        return syntax_fault(r, r->cursor, "a member's name in quotes");
    struct json *m = node_new(r);
    if (m == NULL)
        return syntax_fault(r, r->cursor, "a member"); /* more values than jsmn counted */
    *m = (struct json){.plain_key = r->plain};
    bool nul = false;
    enum err err = string_read(r, up, t, true, &m->key, &nul);
    if (err != ERR_OK) return err;
    at.key = m->key;
    skip_space(r);
    if (!next_is(r, ':')) return syntax_fault(r, r->cursor, "':' after a member's name");
    r->cursor++;
    skip_space(r);
    bool outer = r->nul_allowed;
    if (!r->plain && is_nul_home(m->key)) r->nul_allowed = true;
    err = value_read(r, &at, m);
    r->nul_allowed = outer;
    m->has_nul = m->has_nul || nul;
    *ret = m;
    return err;
}

static enum err element_read(struct reader *r, const struct place *up, uint32_t index,
                             struct json **ret)
{
    struct place at = {.up = up, .index = index};
    struct json *v = node_new(r);
    if (v == NULL) return no_value(r, &at);
    *v = (struct json){0};
    *ret = v;
    return value_read(r, &at, v);
}

/* The children of `v` up to its closing bracket; the cursor stands after the opening one. */
static enum err children_read(struct reader *r, const struct place *at, struct json *v, char close)
{
    struct json **tail = &v->child;
    skip_space(r);
    if (next_is(r, close)) {
        r->cursor++;
        return ERR_OK;
    }
    for (;;) {
        struct json *child = NULL;
        enum err err =
            close == '}' ? member_read(r, at, &child) : element_read(r, at, v->count, &child);
        if (err != ERR_OK) return err;
        *tail = child;
        tail = &child->next;
        v->count++;
        skip_space(r);
        if (next_is(r, close)) break;
        if (!next_is(r, ','))
            return syntax_fault(r, r->cursor, close == '}' ? "',' or '}'" : "',' or ']'");
        r->cursor++;
        skip_space(r);
    }
    r->cursor++;
    return v->count > 1 && close == '}' ? duplicates_check(r, at, v) : ERR_OK;
}

static enum err container_read(struct reader *r, const struct place *at, struct json *v,
                               enum json_type type)
{
    const char *open = r->cursor++;
    if (++r->depth > r->depth_max) {
        char what[64];
        snprintf(what, sizeof what, "is nested deeper than %u levels", r->depth_max);
        return value_fault(r, ERR_TOO_DEEP, at, open, false, what);
    }
    v->type = type;
    enum err err = children_read(r, at, v, type == JSON_OBJECT ? '}' : ']');
    r->depth--;
    v->raw = str_of(open, (size_t)(r->cursor - open));
    return err;
}

static enum err value_read(struct reader *r, const struct place *at, struct json *v)
{
    const jsmntok_t *t = token_here(r);
    if (t == NULL) return no_value(r, at);
    bool nul = false;
    enum err err;
    switch (t->type) {
    case JSMN_STRING:
        v->raw = str_of(r->begin + t->start - 1, (size_t)(t->end - t->start) + 2);
        v->type = JSON_STRING;
        v->plain_string = r->plain;
        err = string_read(r, at, t, false, &v->string, &nul);
        v->has_nul = nul;
        return err;
    case JSMN_PRIMITIVE:
        return primitive_read(r, at, str_of(r->begin + t->start, (size_t)(t->end - t->start)), v);
    case JSMN_OBJECT: return container_read(r, at, v, JSON_OBJECT);
    case JSMN_ARRAY: return container_read(r, at, v, JSON_ARRAY);
    default: check(false); return ERR_INTERNAL;
    }
}

/* ---- tokens ---- */

struct tokens {
    jsmntok_t *list;
    unsigned count, capacity;
    size_t values; /* tokens that are not names of members */
};

/* Whether the newest token has more ancestors than a legal text of `depth_max` levels gives it:
 * an object and a member's name for each level. */
static bool chain_is_too_long(const struct tokens *t, unsigned depth_max)
{
    unsigned steps = 0;
    for (int i = (int)t->count - 1; i >= 0; i = t->list[i].parent)
        if (++steps > 2 * depth_max + 2) return true;
    return false;
}

/* Larger room for tokens, of which a text of `size` bytes has size / 2 + 1 at most, and brackets.
 */
static bool tokens_grow(struct tokens *t, size_t size, struct arena *arena)
{
    size_t most = size / 2 + 2 * TOKENS_PER_BURST, wanted = (size_t)t->capacity * 8;
    if (wanted > most) wanted = most;
    if (wanted < (size_t)t->capacity + TOKENS_PER_BURST)
        wanted = (size_t)t->capacity + TOKENS_PER_BURST;
    jsmntok_t *list = (jsmntok_t *)(void *)arena_take(arena, wanted * sizeof *list);
    if (list == NULL) return false;
    memcpy(list, t->list, t->count * sizeof *list);
    t->list = list;
    t->capacity = (unsigned)wanted;
    return true;
}

/* Tokens as far as jsmn gets. False: the arena is full. */
__attribute__((flatten)) static bool tokens_take(struct tokens *t, struct str text,
                                                 unsigned depth_max, struct arena *arena)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    unsigned allowed = TOKENS_PER_BURST;
    for (;;) {
        if (allowed > t->capacity && !tokens_grow(t, text.size, arena)) return false;
        int result = jsmn_parse(&parser, text.bytes, text.size, t->list, allowed);
        t->count = parser.toknext;
        if (result != JSMN_ERROR_NOMEM || chain_is_too_long(t, depth_max)) break;
        allowed += TOKENS_PER_BURST;
    }
    /* A key that is an object or array is refused when its token was taken and not yet filled. */
    while (t->count > 0 && t->list[t->count - 1].start < 0) t->count--;
    for (unsigned i = 0; i < t->count; i++)
        t->values += t->list[i].type != JSMN_STRING || t->list[i].size == 0;
    return true;
}

/* A text that is one primitive: jsmn wants a delimiter after it, so it is read without. */
static enum err lone_primitive_read(struct reader *r, struct json *v)
{
    static const struct place root;
    const char *stop = r->cursor;
    while (stop < r->end && *stop != ' ' && *stop != '\n' && *stop != '\r' && *stop != '\t') stop++;
    return primitive_read(r, &root, str_of(r->cursor, (size_t)(stop - r->cursor)), v);
}

static enum err root_read(struct reader *r, struct tokens *tokens, struct json **ret_root)
{
    static const struct place root;
    char first = *r->cursor;
    bool lone = first != '{' && first != '[' && first != '"';
    struct str text = str_of(r->begin, (size_t)(r->end - r->begin));
    if (!lone && !tokens_take(tokens, text, r->depth_max, r->arena)) return arena_fault(r);
    r->token = tokens->list;
    r->token_end = tokens->list + tokens->count;

    /* Nodes are filled as they are taken, so they need not be zeroed here. */
    size_t nodes = tokens->values > 0 ? tokens->values : 1;
    char *bytes = arena_bytes(r->arena, nodes * sizeof(struct json) + 15);
    if (bytes == NULL) return arena_fault(r);
    r->node = (struct json *)(void *)(bytes + (-(uintptr_t)bytes & 15));
    r->node_end = r->node + nodes;

    struct json *v = node_new(r);
    *v = (struct json){0};
    enum err err = lone ? lone_primitive_read(r, v) : value_read(r, &root, v);
    if (err != ERR_OK) return err;
    skip_space(r);
    if (r->cursor != r->end) return syntax_fault(r, r->cursor, "the end of the text");
    *ret_root = v;
    return ERR_OK;
}

enum err json_read(struct str text, const struct json_options *options, struct arena *arena,
                   struct json **ret_root, struct fault *f)
{
    jsmntok_t on_stack[TOKENS_ON_STACK];
    struct tokens tokens = {.list = on_stack, .capacity = TOKENS_ON_STACK};
    struct reader r = {.arena = arena, .fault = f, .depth_max = LIMIT_JSON_DEPTH};
    if (options != NULL) {
        check(options->depth_max <= JSON_DEPTH_CAP);
        if (options->depth_max != 0) r.depth_max = options->depth_max;
        r.nul_allowed = options->nul_anywhere;
    }
    if (text.size > INT_MAX / 2) return arena_fault(&r); /* jsmn counts in int */
    if (text.size > 0) {
        r.cursor = r.begin = text.bytes;
        r.end = text.bytes + text.size;
        skip_space(&r);
    }
    if (r.cursor == r.end)
        return fault_set(f, ERR_MALFORMED_JSON, "",
                         "the body is empty where a JSON text is expected");
    r.plain = text_is_plain(text);
    return root_read(&r, &tokens, ret_root);
}
