/* node_yaml.c - the only user of libyaml: turns its events into a tree of nodes.
 *
 * libyaml's own tree resolves aliases and loses positions, so this uses its events. It keeps a
 * stack of open containers, so nesting is bounded by DEPTH_MAX and not by the C stack. libyaml
 * returns scalars as text; this code types them (YAML 1.2 core schema: `yes` and `on` are
 * strings). */
#include <stdlib.h>
#include <yaml.h>

#include "base/check.h"
#include "base/limits.h"
#include "policy/node.h"
#include "policy/yaml_words.h"

enum { DEPTH_MAX = LIMIT_POLICY_DEPTH };

struct open_container {
    struct node *node;
    struct json **tail;   /* where the next child goes */
    struct node *pending; /* a map's key that waits for its value */
};

struct builder {
    struct arena *arena;
    struct policy_problems *problems;
    struct open_container stack[DEPTH_MAX];
    size_t depth;
    struct node *root;
    size_t nodes, documents;
    bool stopped; /* a problem after which the rest cannot be read */
};

static void stop(struct builder *b, yaml_mark_t mark, const char *message)
{
    problem_add(b->problems, NULL, (unsigned)mark.line + 1, (unsigned)mark.column + 1, "%s",
                message);
    b->stopped = true;
}

static void complain(struct builder *b, struct node *n, yaml_mark_t mark, const char *message)
{
    problem_add(b->problems, NULL, (unsigned)mark.line + 1, (unsigned)mark.column + 1, "%s",
                message);
    n->bad = true;
}

/* Not an error of the document, so no problem is added: node_read() sets arena->overflow. */
static void out_of_memory(struct builder *b)
{
    b->arena->overflow = true;
    b->stopped = true;
}

static struct node *node_new(struct builder *b, yaml_mark_t mark)
{
    struct node *n = b->nodes < NODES_MAX ? arena_new(b->arena, struct node) : NULL;
    if (n == NULL) {
        stop(b, mark, "the document has too many values");
        return NULL;
    }
    check(b->nodes < NODES_MAX);
    b->nodes++;
    n->line = (unsigned)mark.line + 1;
    n->column = (unsigned)mark.column + 1;
    return n;
}

/* A scalar in key position: the stack keeps it until its value comes. */
static void key_take(struct builder *b, struct open_container *top, struct node *n,
                     yaml_mark_t mark)
{
    check(top->pending == NULL && top->node->json.type == JSON_OBJECT);
    if (n->json.type != JSON_STRING && !n->bad)
        complain(b, n, mark, "a key has to be a string: quote it, or write a plain word");
    top->pending = n;
}

/* Appends a value to the open container. */
static void place_value(struct builder *b, struct node *n)
{
    if (b->depth == 0) {
        b->root = n;
        return;
    }
    struct open_container *top = &b->stack[b->depth - 1];
    check(*top->tail == NULL);
    check((top->pending != NULL) == (top->node->json.type == JSON_OBJECT));
    if (top->pending != NULL) {
        struct node *key = top->pending;
        n->json.key = key->json.type == JSON_STRING ? key->json.string : key->json.raw;
        if (str_is_absent(n->json.key)) n->json.key = STR("");
        n->key_line = key->line;
        n->key_column = key->column;
        n->bad |= key->bad;
        top->pending = NULL;
    }
    *top->tail = &n->json;
    top->tail = &n->json.next;
    top->node->json.count++;
}

static bool is_key_position(const struct builder *b)
{
    check(b->depth <= DEPTH_MAX);
    if (b->depth == 0) return false;
    const struct open_container *top = &b->stack[b->depth - 1];
    return top->node->json.type == JSON_OBJECT && top->pending == NULL;
}

static void on_scalar(struct builder *b, const yaml_event_t *e)
{
    struct node *n = node_new(b, e->start_mark);
    if (n == NULL) return;
    struct str text =
        arena_copy(b->arena, str_of((const char *)e->data.scalar.value, e->data.scalar.length));
    if (str_is_absent(text)) {
        stop(b, e->start_mark, "the document is too large");
        return;
    }
    bool quoted = e->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                  e->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    size_t written = e->end_mark.index - e->start_mark.index - (quoted ? 2 : 0);
    bool plain = quoted || e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && e->end_mark.line == e->start_mark.line && str_is_utf8(text, &(size_t){0}) &&
        written == str_code_points(text))
        n->text_column = n->column + quoted;
    n->json.raw = text;
    n->json.type = JSON_STRING;
    n->json.string = text;
    n->json.has_nul = memchr(text.bytes, '\0', text.size) != NULL;
    if (e->data.scalar.anchor != NULL) complain(b, n, e->start_mark, "anchors are not allowed");
    if (e->data.scalar.tag != NULL) complain(b, n, e->start_mark, "tags are not allowed");
    if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !n->bad &&
        !node_resolve_plain(&n->json, text, b->arena)) {
        n->json.type = JSON_STRING;
        n->json.string = text;
        complain(b, n, e->start_mark,
                 "this number cannot be held exactly enough; quote it if it is text");
    }
    if (is_key_position(b))
        key_take(b, &b->stack[b->depth - 1], n, e->start_mark);
    else
        place_value(b, n);
}

static void on_container(struct builder *b, enum json_type type, const yaml_char_t *anchor,
                         const yaml_char_t *tag, yaml_mark_t mark)
{
    if (is_key_position(b)) {
        stop(b, mark, "a key has to be a string, not a list or a map");
        return;
    }
    if (b->depth == DEPTH_MAX) {
        stop(b, mark, "nested deeper than 16 levels");
        return;
    }
    struct node *n = node_new(b, mark);
    if (n == NULL) return;
    n->json.type = type;
    if (anchor != NULL) complain(b, n, mark, "anchors are not allowed");
    if (tag != NULL) complain(b, n, mark, "tags are not allowed");
    place_value(b, n);
    check(b->depth < DEPTH_MAX);
    b->stack[b->depth++] = (struct open_container){.node = n, .tail = &n->json.child};
}

static int key_compare(const void *a, const void *b)
{
    const struct node *const *x = a, *const *y = b;
    int order = str_compare((*x)->json.key, (*y)->json.key);
    if (order != 0) return order;
    if ((*x)->key_line != (*y)->key_line) return (*x)->key_line < (*y)->key_line ? -1 : 1;
    return (*x)->key_column < (*y)->key_column ? -1 : (*x)->key_column > (*y)->key_column;
}

/* Sorting makes this O(n log n), which matters for a map of a hundred thousand keys. */
static void find_duplicates(struct builder *b, const struct node *map)
{
    size_t count = map->json.count, i = 0;
    if (count < 2) return;
    struct node **members = malloc(count * sizeof(struct node *));
    if (members == NULL) {
        out_of_memory(b);
        return;
    }
    for (struct node *n = node_first(map); n != NULL; n = node_next(n)) members[i++] = n;
    check(i == count);
    qsort(members, count, sizeof(struct node *), key_compare);
    for (i = 1; i < count; i++) {
        if (!str_equal(members[i - 1]->json.key, members[i]->json.key)) continue;
        problem_add(b->problems, NULL, members[i]->key_line, members[i]->key_column,
                    "the key \"%.60s\" is here twice; it is on line %u already%s",
                    members[i]->json.key.bytes, members[i - 1]->key_line,
                    str_equal(members[i]->json.key, STR("id"))
                        ? " (another rule begins with a -, as in - id: …)"
                        : "");
        members[i]->bad = true;
    }
    free(members);
}

static void on_end(struct builder *b)
{
    check(b->depth > 0 && b->stack[b->depth - 1].pending == NULL);
    struct node *n = b->stack[--b->depth].node;
    if (n->json.type == JSON_OBJECT) find_duplicates(b, n);
}

static void on_alias(struct builder *b, const yaml_event_t *e)
{
    struct node *n = node_new(b, e->start_mark);
    if (n == NULL) return;
    n->json.type = JSON_STRING;
    n->json.string = n->json.raw = STR("");
    complain(b, n, e->start_mark, "aliases are not allowed (quote a value that starts with *)");
    if (is_key_position(b))
        key_take(b, &b->stack[b->depth - 1], n, e->start_mark);
    else
        place_value(b, n);
}

static void on_document(struct builder *b, const yaml_event_t *e)
{
    bool tags =
        e->data.document_start.tag_directives.start != e->data.document_start.tag_directives.end;
    if (b->documents++ > 0) stop(b, e->start_mark, "more than one YAML document in one text");
    if (tags) stop(b, e->start_mark, "%TAG directives are not allowed");
}

/* False at the end of the stream. */
static bool on_event(struct builder *b, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT: on_document(b, e); break;
    case YAML_ALIAS_EVENT: on_alias(b, e); break;
    case YAML_SCALAR_EVENT: on_scalar(b, e); break;
    case YAML_SEQUENCE_START_EVENT:
        on_container(b, JSON_ARRAY, e->data.sequence_start.anchor, e->data.sequence_start.tag,
                     e->start_mark);
        break;
    case YAML_MAPPING_START_EVENT:
        on_container(b, JSON_OBJECT, e->data.mapping_start.anchor, e->data.mapping_start.tag,
                     e->start_mark);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: on_end(b); break;
    case YAML_STREAM_END_EVENT: return false;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return !b->stopped;
}

static void on_syntax_error(struct builder *b, const yaml_parser_t *p, struct str text)
{
    if (p->error == YAML_MEMORY_ERROR) {
        out_of_memory(b);
        return;
    }
    b->stopped = true;
    const char *what = p->problem != NULL ? p->problem : "not well-formed";
    if (p->error == YAML_READER_ERROR) {
        struct text_cursor cursor;
        text_cursor_init(&cursor, text);
        text_cursor_move(&cursor, p->problem_offset);
        problem_add(b->problems, NULL, cursor.line, cursor.column, "not YAML: %s", what);
        return;
    }
    struct yaml_slip slip = {.text = text,
                             .problem = what,
                             .context = p->context != NULL ? p->context : "",
                             .line = (unsigned)p->problem_mark.line + 1,
                             .column = (unsigned)p->problem_mark.column + 1};
    if (p->context != NULL) {
        slip.from_line = (unsigned)p->context_mark.line + 1;
        slip.from_column = (unsigned)p->context_mark.column + 1;
    }
    char words[300];
    struct buf out = buf_over(words, sizeof words - 1);
    yaml_words_put(&out, &slip);
    words[out.size] = '\0';
    problem_add(b->problems, NULL, slip.line, slip.column, "%s", words);
}

/* A line end of YAML that editors do not show: a rule after it would look like part of the comment
 * before it. Returns 0 or its number of bytes. */
static size_t hidden_break(struct str text, size_t at, const char **ret_name)
{
    check(at < text.size);
    static const struct {
        const char *bytes, *name;
    } hidden[] = {{"\xC2\x85", "U+0085"}, {"\xE2\x80\xA8", "U+2028"}, {"\xE2\x80\xA9", "U+2029"}};
    struct str rest = str_skip(text, at);
    if (rest.bytes[0] == '\r' && (rest.size == 1 || rest.bytes[1] != '\n')) {
        *ret_name = "a carriage return";
        return 1;
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        *ret_name = hidden[i].name;
        if (str_starts(rest, str_from(hidden[i].bytes))) return strlen(hidden[i].bytes);
    }
    return 0;
}

static bool has_hidden_breaks(struct str text, struct policy_problems *problems)
{
    unsigned line = 1, column = 1;
    bool found = false;
    for (size_t i = 0; i < text.size; i++) {
        const char *name;
        size_t size = hidden_break(text, i, &name);
        if (size > 0)
            problem_add(
                problems, NULL, line, column,
                "%s ends a line in YAML, but is not visible as one; in a text, write it as \\u2028, "
                "\\x85 or \\r in double quotes",
                name);
        found = found || size > 0;
        column += ((unsigned char)text.bytes[i] & 0xC0) != 0x80;
        if (text.bytes[i] == '\n') line++;
        if (text.bytes[i] == '\n') column = 1;
    }
    return found;
}

struct node *node_read_yaml(struct str text, struct arena *arena, struct policy_problems *problems)
{
    struct builder b = {.arena = arena, .problems = problems};
    yaml_parser_t parser;
    static const char byte_order_mark[] = "\xEF\xBB\xBF"; /* editors do not count it as a column */
    if (str_starts(text, str_from(byte_order_mark))) text = str_skip(text, strlen(byte_order_mark));
    if (has_hidden_breaks(text, problems)) return NULL;
    if (!yaml_parser_initialize(&parser)) {
        out_of_memory(&b);
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.bytes, text.size);
    bool more = true;
    while (more) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            on_syntax_error(&b, &parser, text);
            break;
        }
        more = on_event(&b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (b.stopped) return NULL;
    check(b.depth == 0); /* each container was closed */
    if (b.root == NULL) problem_add(problems, NULL, 1, 1, "the document is empty");
    return b.root;
}
