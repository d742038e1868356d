/* ast.c - see ast.h: printing, and qualified names. */
#include "cel/ast.h"

static const char *macro_name(enum cel_macro macro)
{
    static const char *const names[] = {"all", "exists", "exists_one",
                                        "map", "filter", "transformMap"};
    return names[macro];
}

static void put_label(struct buf *out, const struct cel_node *n)
{
    switch (n->kind) {
    case NODE_WRONG: buf_put_literal(out, "wrong"); return;
    case NODE_LITERAL: cel_put_value(out, n->value); return;
    case NODE_NAME:
        buf_put(out, n->name);
        if (n->reference == REFERENCE_LOCAL) buf_printf(out, " (local %u)", n->slot);
        return;
    case NODE_SELECT:
    case NODE_HAS:
        if (n->reference == REFERENCE_VARIABLE) buf_put_literal(out, "qualified ");
        buf_printf(out, "%s .%.*s", n->kind == NODE_HAS ? "has" : "select", STR_FORMAT(n->name));
        return;
    case NODE_CALL: buf_printf(out, "call %.*s", STR_FORMAT(n->name)); return;
    case NODE_LIST: buf_put_literal(out, "list"); return;
    case NODE_MAP: buf_put_literal(out, "map"); return;
    case NODE_AND: buf_put_literal(out, "&&"); return;
    case NODE_OR: buf_put_literal(out, "||"); return;
    case NODE_CHOICE: buf_put_literal(out, "? :"); return;
    case NODE_BIND: buf_printf(out, "bind %.*s", STR_FORMAT(n->name)); return;
    case NODE_MACRO:
        buf_printf(out, "%s %.*s", macro_name(n->macro), STR_FORMAT(n->names[0]));
        if (!str_is_absent(n->names[1])) buf_printf(out, ", %.*s", STR_FORMAT(n->names[1]));
        return;
    }
}

void cel_node_put(struct buf *out, const struct cel_node *node, unsigned indent)
{
    for (unsigned i = 0; i < indent; i++) buf_put_literal(out, "  ");
    put_label(out, node);
    if (node->type != NULL) {
        buf_put_literal(out, " : ");
        cel_put_type(out, node->type);
    }
    buf_put_byte(out, '\n');
    for (uint32_t i = 0; i < node->count; i++)
        if (node->children[i] != NULL) cel_node_put(out, node->children[i], indent + 1);
}

struct str cel_node_qualified(const struct cel_node *node, struct arena *arena,
                              const struct cel_node **ret_root)
{
    size_t size = 0;
    const struct cel_node *n = node;
    for (; n->kind == NODE_SELECT; n = n->children[0]) size += n->name.size + 1;
    if (n->kind != NODE_NAME) return (struct str){0};
    *ret_root = n;
    if (n == node) return n->name;
    size += n->name.size;
    char *bytes = arena_bytes(arena, size);
    if (bytes == NULL) return (struct str){0};
    size_t at = size;
    for (n = node; n->kind == NODE_SELECT; n = n->children[0]) {
        at -= n->name.size;
        if (n->name.size > 0) memcpy(bytes + at, n->name.bytes, n->name.size);
        bytes[--at] = '.';
    }
    memcpy(bytes, n->name.bytes, n->name.size);
    return str_of(bytes, size);
}
