/* node_read.c - reads a text with the YAML or JSON reader. */
#include "policy/node.h"

#include "base/limits.h"

bool node_text_is_json(struct str text)
{
    size_t at = 0;
    while (at < text.size && (text.bytes[at] == ' ' || text.bytes[at] == '\t' ||
                              text.bytes[at] == '\n' || text.bytes[at] == '\r'))
        at++;
    return at < text.size && text.bytes[at] == '{';
}

struct node *node_read(struct str text, struct arena *arena, struct policy_problems *problems)
{
    if (text.size > LIMIT_POLICY_BODY_BYTES) {
        problem_add(problems, NULL, 0, 0, "the document has %zu bytes, more than 1 MiB", text.size);
        return NULL;
    }
    size_t wrong;
    if (!str_is_utf8(text, &wrong)) {
        struct text_cursor cursor;
        text_cursor_init(&cursor, text);
        text_cursor_move(&cursor, wrong);
        problem_add(problems, NULL, cursor.line, cursor.column,
                    "the document is not well-formed UTF-8");
        return NULL;
    }
    if (node_text_is_json(text)) return node_read_json(text, arena, problems);
    return node_read_yaml(text, arena, problems);
}
