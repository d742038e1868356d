/* node_json.c - strict JSON (json/) as a tree of nodes.
 *
 * json/ keeps the view of each value's bytes in the text, from which line and column follow. Nodes
 * are made in the order of the text, so one cursor walks it once. */
#include "base/check.h"
#include "base/limits.h"
#include "policy/node.h"

struct copier {
    struct arena *arena;
    struct text_cursor cursor;
    size_t nodes;
    bool full;
};

/* Where the key of the value at `value` begins: back over white space and the colon to the
 * closing quote, then to the quote that opens it (one that no odd run of backslashes escapes). */
static size_t key_offset(struct str text, size_t value)
{
    check(value <= text.size);
    size_t at = value;
    while (at > 0 && text.bytes[at - 1] != '"') at--;
    if (at < 2) return value;
    for (at = at - 1; at > 0; at--) {
        if (text.bytes[at - 1] != '"') continue;
        size_t slashes = 0;
        while (slashes < at - 1 && text.bytes[at - 2 - slashes] == '\\') slashes++;
        if (slashes % 2 == 0) return at - 1;
    }
    return value;
}

static struct node *node_copy(struct copier *c, const struct json *from, bool has_key)
{
    struct node *n = c->nodes < NODES_MAX ? arena_new(c->arena, struct node) : NULL;
    if (n == NULL) {
        c->full = true;
        return NULL;
    }
    c->nodes++;
    n->json = *from;
    n->json.child = n->json.next = NULL;
    size_t at = (size_t)(from->raw.bytes - c->cursor.text.bytes);
    check(at <= c->cursor.text.size);
    if (has_key) {
        text_cursor_move(&c->cursor, key_offset(c->cursor.text, at));
        n->key_line = c->cursor.line;
        n->key_column = c->cursor.column;
    }
    text_cursor_move(&c->cursor, at);
    n->line = c->cursor.line;
    n->column = c->cursor.column;
    if (n->json.type == JSON_STRING && n->json.raw.size == n->json.string.size + 2)
        n->text_column = n->column + 1; /* no escapes in it */

    struct json **tail = &n->json.child;
    for (const struct json *child = from->child; child != NULL && !c->full; child = child->next) {
        struct node *copy = node_copy(c, child, from->type == JSON_OBJECT);
        if (copy == NULL) return NULL;
        *tail = &copy->json;
        tail = &copy->json.next;
    }
    return n;
}

/* The offset of the byte in the reader's error text ("… (byte 17)": from 1), or none. The last one
 * counts, because a member's name may come before it. */
static bool offset_in_sentence(const char *sentence, size_t *ret_offset)
{
    bool found = false;
    for (const char *at = strstr(sentence, "byte "); at != NULL; at = strstr(at + 1, "byte ")) {
        struct str digits = str_from(at + 5);
        size_t count = 0;
        while (count < digits.size && digits.bytes[count] >= '0' && digits.bytes[count] <= '9')
            count++;
        uint64_t byte;
        if (!str_to_u64(str_of(digits.bytes, count), &byte) || byte == 0) continue;
        *ret_offset = byte - 1;
        found = true;
    }
    return found;
}

struct node *node_read_json(struct str text, struct arena *arena, struct policy_problems *problems)
{
    struct json_options options = {.depth_max = LIMIT_POLICY_DEPTH, .nul_anywhere = false};
    struct fault fault = {0};
    struct json *root;
    struct copier c = {.arena = arena};
    text_cursor_init(&c.cursor, text);
    if (json_read(text, &options, arena, &root, &fault) != ERR_OK) {
        size_t offset;
        bool known = offset_in_sentence(fault.text, &offset);
        if (known) text_cursor_move(&c.cursor, offset);
        problem_add(problems, NULL, known ? c.cursor.line : 0, known ? c.cursor.column : 0, "%s",
                    fault.text);
        return NULL;
    }
    struct node *n = node_copy(&c, root, false);
    if (n == NULL) problem_add(problems, NULL, 0, 0, "the document has too many values");
    return n;
}
