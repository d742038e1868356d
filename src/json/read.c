/* read.c - one JSON text to a tree: tokens.c finds the tokens with jsmn, this file checks them
 * against RFC 8259.
 *
 * jsmn alone is not enough: in strict mode it accepts "[1}", trailing commas, 01, lone surrogates,
 * control bytes, ill-formed UTF-8 and duplicate keys. So its tokens are only hints of where strings
 * and primitives end. The reader walks the text from its first byte to its last with one cursor,
 * uses a token where the grammar has a value or a key, and requires that it begins at the cursor.
 * Every byte between tokens is checked here. If the tokens end early (jsmn gave up), the cursor is
 * at or before the error, and no_value() reports it.
 *
 * Time is linear. Duplicate keys: a 64-bit set of cheap hashes settles nearly every small object,
 * pairs the rest; a large one gets a hash table under this process's seed.
 *
 * Memory: tokens of small texts on the stack, nodes in one piece of the arena. */
#include <limits.h>
#include <stdio.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/map.h"
#include "json/number.h"
#include "json/text.h"
#include "json/tokens.h"

enum {
    TOKENS_ON_STACK = 256,
    PAIRWISE_MAX = 24, /* members; more are compared through a hash table */
};

/* The position in the tree, for the JSON pointer of a fault. The root has no `up`. */
struct place {
    const struct place *up;
    struct str key; /* of a member */
    uint32_t index; /* of an element, if key is absent */
};

struct reader {
    const char *cursor, *end, *begin;
    /* the next token; the last one is followed by one that begins nowhere */
    const jsmntok_t *token;
    struct json *node, *node_end; /* the next free one */
    struct arena *arena;
    struct fault *fault;
    unsigned depth, depth_max;
    bool plain;       /* all strings of the text are plain */
    bool nul_allowed; /* position in the text */
};

/* ---- errors ---- */

/* The JSON pointer (RFC 6901) of `at`. A C string cannot hold a key's U+0000, so it is shown
 * escaped. */
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

/* The offset in a text: the first byte is byte 1, like the first line and column of a policy. */
static size_t byte_of(const struct reader *r, const char *p) { return (size_t)(p - r->begin) + 1; }

/* A fault of one value, or of a name in the object `at`: `what` is the end of the sentence. */
static enum err value_fault(struct reader *r, enum err err, const struct place *at, const char *p,
                            bool of_name, const char *what)
{
    char bytes[sizeof r->fault->field + 8];
    struct buf pointer = buf_over(bytes, sizeof bytes - 1);
    pointer_put(&pointer, at);
    /* A name that did not fit was cut, perhaps within a character. */
    while (pointer.overflow && pointer.size > 0 && (bytes[pointer.size - 1] & 0xC0) == 0x80)
        pointer.size--;
    if (pointer.overflow && pointer.size > 0 && (bytes[pointer.size - 1] & 0x80) != 0)
        pointer.size--;
    bytes[pointer.size] = '\0';
    const char *subject = pointer.size > 0 ? bytes : of_name ? "the object" : "the value";
    return fault_set(r->fault, err, bytes, "%s%s %s (byte %zu)",
                     of_name ? "a member's name in " : "", subject, what, byte_of(r, p));
}

/* A fault of the text as such. */
static enum err syntax_fault(struct reader *r, const char *p, const char *wanted)
{
    if (p >= r->end)
        return fault_set(r->fault, ERR_MALFORMED_JSON, "",
                         "the JSON text ends before byte %zu where %s is expected",
                         byte_of(r, r->end), wanted);
    unsigned char c = (unsigned char)*p;
    if (c > 0x20 && c < 0x7F)
        return fault_set(r->fault, ERR_MALFORMED_JSON, "", "byte %zu is '%c' where %s is expected",
                         byte_of(r, p), c, wanted);
    return fault_set(r->fault, ERR_MALFORMED_JSON, "", "byte %zu is 0x%02x where %s is expected",
                     byte_of(r, p), c, wanted);
}

static enum err arena_fault(struct reader *r)
{
    return fault_set(r->fault, ERR_BODY_TOO_LARGE, "",
                     "the JSON text has more values than there is room for");
}

/* ---- small pieces ---- */

static inline bool is_space(unsigned char c)
{
    return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
}

/* Skips blanks; returns the next byte. The end of the text returns U+0000: the grammar allows
 * neither anywhere, and the cursor distinguishes them. */
static inline char peek(struct reader *r)
{
    for (; r->cursor < r->end; r->cursor++)
        if (!is_space((unsigned char)*r->cursor)) return *r->cursor;
    return '\0';
}

static inline struct str token_text(const struct reader *r, const jsmntok_t *t)
{
    const char *first = r->begin + t->start;
    return str_of(first, (size_t)(t->end - t->start));
}

/* Whether the next token is a string that begins at the cursor, with its quote. */
static inline bool string_is_here(const struct reader *r)
{
    return r->token->type == JSMN_STRING && r->begin + r->token->start - 1 == r->cursor;
}

/* The next token, if it begins at the cursor. */
static inline const jsmntok_t *token_here(struct reader *r)
{
    bool here = string_is_here(r) || r->begin + r->token->start == r->cursor;
    return here ? r->token++ : NULL;
}

/* The string of token `t`, unescaped; the cursor goes past its closing quote. */
static inline enum err string_read(struct reader *r, const struct place *at, const jsmntok_t *t,
                                   bool of_name, struct str *ret, bool *ret_nul)
{
    struct str inside = token_text(r, t);
    const char *first = inside.bytes;
    r->cursor = first + inside.size + 1;
    *ret = inside;
    if (r->plain) return ERR_OK;
    struct text_fault f;
    enum err err = text_read(inside, r->arena, ret, ret_nul, &f);
    if (err == ERR_BODY_TOO_LARGE) return arena_fault(r);
    if (err != ERR_OK) return value_fault(r, err, at, first + f.at, of_name, f.problem);
    if (*ret_nul && !r->nul_allowed)
        return value_fault(
            r, ERR_MALFORMED_JSON, at, first, of_name,
            "has a U+0000, which is allowed only inside args, context and properties");
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

/* A number, true, false or null; `t` has its end, which jsmn finds without a check of the
 * content. */
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

/* A string whose end jsmn has not found: there is an error before its closing quote, or the
 * quote is missing. */
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

/* No token begins at the cursor: the error is here, or within the value that begins here. */
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

static const struct json *same_key_before(const struct json *object, const struct json *last)
{
    for (const struct json *m = object->child; m != last; m = m->next)
        if (str_equal(m->key, last->key)) return m;
    return NULL;
}

/* Six bits that differ for most pairs of keys. */
static inline unsigned cheap_hash(struct str key)
{
    if (key.size == 0) return 0;
    unsigned char first = (unsigned char)key.bytes[0],
                  last = (unsigned char)key.bytes[key.size - 1];
    return (first * 5u + last * 9u + (unsigned)key.size) & 63;
}

static enum err large_object_check(struct reader *r, const struct json *object,
                                   const struct json **ret_twice)
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

/* The names of one object, checked while they are read. */
struct names {
    uint64_t seen;            /* of cheap_hash() */
    const struct json *twice; /* the first duplicate */
};

/* Adds a name: of `m`, the newest of the object's `count` members. */
static inline void name_take(struct names *n, const struct json *object, const struct json *m,
                             uint32_t count)
{
    uint64_t bit = (uint64_t)1 << cheap_hash(m->key);
    if ((n->seen & bit) != 0 && n->twice == NULL && count <= PAIRWISE_MAX &&
        same_key_before(object, m) != NULL)
        n->twice = m;
    n->seen |= bit;
}

static enum err names_check(struct reader *r, const struct place *at, const struct json *object,
                            const struct names *n)
{
    const struct json *twice = n->twice;
    if (twice == NULL && object->count > PAIRWISE_MAX) {
        enum err err = large_object_check(r, object, &twice);
        if (err != ERR_OK) return err;
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

/* U+0000 may stand in values that callers pass on unread, never in values that we compare or
 * show. */
static inline bool is_nul_home(struct str key)
{
    return str_equal(key, STR("args")) || str_equal(key, STR("context")) ||
           str_equal(key, STR("properties"));
}

/* Most values are a string in a plain text, which is read in one step; false: this is another
 * value. */
static inline bool plain_string_read(struct reader *r, struct str key, struct json *v)
{
    if (!r->plain || !string_is_here(r)) return false;
    struct str inside = token_text(r, r->token++);
    r->cursor = inside.bytes + inside.size + 1;
    *v = (struct json){.type = JSON_STRING,
                       .plain_key = true,
                       .plain_string = true,
                       .key = key,
                       .raw = str_of(inside.bytes - 1, inside.size + 2),
                       .string = inside};
    return true;
}

/* The value of a member whose name was read; `nul`: the name had a U+0000. */
static inline enum err member_value_read(struct reader *r, const struct place *at, struct json *m,
                                         bool nul)
{
    bool outer = r->nul_allowed;
    *m = (struct json){.plain_key = r->plain, .key = at->key};
    if (!r->plain && is_nul_home(m->key)) r->nul_allowed = true;
    enum err err = value_read(r, at, m);
    r->nul_allowed = outer;
    m->has_nul = m->has_nul || nul;
    return err;
}

/* "key" : value, into a new node; `at` becomes the place of the value. */
static inline enum err member_read(struct reader *r, struct place *at, struct json **ret)
{
    if (!string_is_here(r))
        return peek(r) == '"' ? no_string(r, at->up, true)
                              : syntax_fault(r, r->cursor, "a member's name in quotes");
    struct json *m = *ret = node_new(r);
    if (m == NULL)
        return syntax_fault(r, r->cursor, "a member"); /* more values than jsmn counted */
    bool nul = false;
    enum err err = string_read(r, at->up, r->token++, true, &at->key, &nul);
    if (err != ERR_OK) return err;
    if (peek(r) != ':') return syntax_fault(r, r->cursor, "':' after a member's name");
    r->cursor++;
    peek(r);
    return plain_string_read(r, at->key, m) ? ERR_OK : member_value_read(r, at, m, nul);
}

/* The members up to the closing brace; the cursor stands after the opening one. */
static enum err members_read(struct reader *r, const struct place *at, struct json *object)
{
    struct place here = {.up = at, .key = STR("")};
    struct names names = {0};
    struct json **tail = &object->child;
    uint32_t count = 0;
    if (peek(r) == '}') {
        r->cursor++;
        return ERR_OK;
    }
    for (;;) {
        struct json *m = NULL;
        enum err err = member_read(r, &here, &m);
        if (err != ERR_OK) return err;
        *tail = m;
        tail = &m->next;
        name_take(&names, object, m, ++count);
        char c = peek(r);
        if (c == '}') break;
        if (c != ',') return syntax_fault(r, r->cursor, "',' or '}'");
        r->cursor++;
        peek(r);
    }
    r->cursor++;
    object->count = count;
    return names_check(r, at, object, &names);
}

static inline enum err element_read(struct reader *r, const struct place *at, struct json **ret)
{
    struct json *v = *ret = node_new(r);
    if (v == NULL) return no_value(r, at);
    if (plain_string_read(r, (struct str){0}, v)) return ERR_OK;
    *v = (struct json){0};
    return value_read(r, at, v);
}

/* The elements up to the closing bracket; the cursor stands after the opening one. */
static enum err elements_read(struct reader *r, const struct place *at, struct json *array)
{
    struct place here = {.up = at};
    struct json **tail = &array->child;
    if (peek(r) == ']') {
        r->cursor++;
        return ERR_OK;
    }
    for (;; here.index++) {
        struct json *v;
        enum err err = element_read(r, &here, &v);
        if (err != ERR_OK) return err;
        *tail = v;
        tail = &v->next;
        char c = peek(r);
        if (c == ']') break;
        if (c != ',') return syntax_fault(r, r->cursor, "',' or ']'");
        r->cursor++;
        peek(r);
    }
    r->cursor++;
    array->count = here.index + 1;
    return ERR_OK;
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
    enum err err = type == JSON_OBJECT ? members_read(r, at, v) : elements_read(r, at, v);
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
    case JSMN_PRIMITIVE: return primitive_read(r, at, token_text(r, t), v);
    case JSMN_OBJECT: return container_read(r, at, v, JSON_OBJECT);
    case JSMN_ARRAY: return container_read(r, at, v, JSON_ARRAY);
    default: check(false); return ERR_INTERNAL;
    }
}

/* ---- the whole ---- */

/* The position of the nodes in the arena. */
struct nodes {
    char *bytes;
    size_t size;
};

/* Room for the nodes of all values; false: the arena is full. Each node is filled when it is
 * taken, so they need not be zeroed. For few tokens the room is computed as if none were a
 * member's name. */
static bool nodes_take(struct reader *r, const struct tokens *t, struct nodes *ret)
{
    size_t count = t->count;
    if (count > TOKENS_ON_STACK) {
        count = 0;
        for (unsigned i = 0; i < t->count; i++)
            count += t->list[i].type != JSMN_STRING || t->list[i].size == 0;
    }
    if (count == 0) count = 1;
    ret->size = count * sizeof(struct json) + 15;
    ret->bytes = arena_bytes(r->arena, ret->size);
    if (ret->bytes == NULL) return false;
    r->node = (struct json *)(void *)(ret->bytes + (-(uintptr_t)ret->bytes & 15));
    r->node_end = r->node + count;
    return true;
}

/* Returns the room of unused nodes, unless the arena was used after it. */
static void nodes_trim(struct reader *r, const struct nodes *n)
{
    char *end = (char *)(void *)r->node;
    if (r->arena->next == n->bytes + n->size)
        arena_trim(r->arena, n->bytes, n->size, (size_t)(end - n->bytes));
}

/* A text that is one primitive: jsmn requires a delimiter after it, so it is read without jsmn. */
static enum err lone_primitive_read(struct reader *r, struct json *v)
{
    static const struct place root;
    const char *stop = r->cursor;
    while (stop < r->end && *stop != ' ' && *stop != '\n' && *stop != '\r' && *stop != '\t') stop++;
    return primitive_read(r, &root, str_of(r->cursor, (size_t)(stop - r->cursor)), v);
}

/* The whole text, from its first byte that is not a blank. */
static enum err root_read(struct reader *r, const struct tokens *tokens, bool lone,
                          struct json **ret_root)
{
    static const struct place root;
    struct nodes nodes;
    r->token = tokens->list;
    if (!nodes_take(r, tokens, &nodes)) return arena_fault(r);
    struct json *v = node_new(r);
    *v = (struct json){0};
    enum err err = lone ? lone_primitive_read(r, v) : value_read(r, &root, v);
    if (err != ERR_OK) return err;
    peek(r);
    if (r->cursor != r->end) return syntax_fault(r, r->cursor, "the end of the text");
    nodes_trim(r, &nodes);
    *ret_root = v;
    return ERR_OK;
}

enum err json_read(struct str text, const struct json_options *options, struct arena *arena,
                   struct json **ret_root, struct fault *f)
{
    jsmntok_t on_stack[TOKENS_ON_STACK + 1];
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
        peek(&r);
    }
    if (r.cursor == r.end)
        return fault_set(f, ERR_MALFORMED_JSON, "",
                         "the body is empty where a JSON text is expected");
    char first = *r.cursor;
    bool lone = first != '{' && first != '[' && first != '"';
    if (lone)
        r.plain = text_is_plain(text);
    else if (!tokens_take(&tokens, text, r.depth_max, arena, &r.plain))
        return arena_fault(&r);
    return root_read(&r, &tokens, lone, ret_root);
}
