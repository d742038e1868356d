/* lint_node.c - what all looks of the linter share: a node as text, a remark about it, what it reads. */
#include <stdarg.h>
#include <stdio.h>

#include "cel/linter.h"

struct lint_excerpt lint_excerpt_of(const struct linter *l, const struct cel_node *n)
{
    struct lint_excerpt e;
    size_t size = n->end > n->offset && n->end <= l->text.size ? n->end - n->offset : 0;
    bool cut = size > LINT_EXCERPT;
    size = str_cut(str_of(l->text.bytes + n->offset, size), LINT_EXCERPT).size;
    memcpy(e.text, l->text.bytes + n->offset, size);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)e.text[i] < ' ') e.text[i] = ' ';
    memcpy(e.text + size, cut ? "…" : "", cut ? sizeof "…" : 1);
    return e;
}

struct cel_remark lint_remark_at(const struct linter *l, enum cel_remark_kind kind, uint32_t offset)
{
    struct cel_remark r = {.kind = kind, .line = 1, .column = 1};
    for (uint32_t i = 0; i < offset && i < l->text.size; i++) {
        if (l->text.bytes[i] == '\n') {
            r.line++;
            r.column = 1;
        } else if (((unsigned char)l->text.bytes[i] & 0xc0) != 0x80) {
            r.column++;
        }
    }
    return r;
}

void lint_tell(struct linter *l, enum cel_remark_kind kind, bool negated, const struct cel_node *at,
               const char *format, ...)
{
    struct cel_remark r = lint_remark_at(l, kind, at->offset);
    va_list arguments;
    r.negated = negated;
    va_start(arguments, format);
    vsnprintf(r.message, sizeof r.message, format, arguments);
    va_end(arguments);
    l->each(l->context, &r);
}

bool lint_is_asked(const struct linter *l, const struct cel_node *n)
{
    if (n->kind == NODE_NAME && n->reference == REFERENCE_LOCAL)
        return lint_has_slot(l->asked, n->slot);
    if (n->kind == NODE_NAME)
        return lint_is_variable(n, CEL_ARGS) || lint_is_variable(n, CEL_CONTEXT) ||
               lint_is_variable(n, CEL_RESOURCE);
    if (n->kind == NODE_HAS || !lint_is_step(n)) return false;
    const struct cel_node *of = n->children[0];
    if (of->kind != NODE_NAME || !lint_is_variable(of, CEL_REQUEST)) return lint_is_asked(l, of);
    struct str step = lint_step_of(n);
    return str_equal(step, STR("args")) || str_equal(step, STR("context")) ||
           str_equal(step, STR("resource"));
}
