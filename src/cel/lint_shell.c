/* lint_shell.c - conditions about the commands of shell(). A member that no command has is a
 * mistake. An allow that does not look at what stands beside the words of a command permits more
 * than it seems to: `ls > file` writes a file, and `LD_PRELOAD=x ls` runs another program. */
#include "cel/linter.h"

/* Whether some part of the expression reads this member of anything. */
static bool reads_member(const struct cel_node *n, struct str name)
{
    if (lint_is_step(n) && str_equal(lint_step_of(n), name)) return true;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL && reads_member(n->children[i], name)) return true;
    return false;
}

/* c.nane, in the body of a macro whose variable for the command is that local. */
static void tell_members(struct linter *l, const struct cel_node *n, uint32_t slot)
{
    static const char *const members[] = {"name", "args", "env", "redirects", "operator"};
    const struct cel_node *of = lint_is_step(n) ? n->children[0] : NULL;
    if (of != NULL && of->kind == NODE_NAME && of->reference == REFERENCE_LOCAL &&
        of->slot == slot && !str_is_absent(lint_step_of(n))) {
        size_t i = 0;
        while (i < 5 && !str_equal(lint_step_of(n), str_from(members[i]))) i++;
        if (i == 5)
            lint_tell(
                l, CEL_REMARK_VALUE, false, n,
                "%s: no command has it; the members are name, args, env, redirects and operator",
                lint_excerpt_of(l, n).text);
    }
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL) tell_members(l, n->children[i], slot);
}

void lint_shell(struct linter *l, const struct cel_node *n, bool negated)
{
    if (!lint_is_call(n->children[0], FUNCTION_SHELL)) return;
    uint32_t slot = n->slot + !str_is_absent(n->names[1]); /* (i, c): the second one */
    for (uint32_t i = 1; i < n->count; i++)
        if (n->children[i] != NULL) tell_members(l, n->children[i], slot);
    if (!l->knows_members) { /* once for the whole expression */
        l->knows_members = true;
        l->reads_env = reads_member(l->root, STR("env"));
        l->reads_redirects = reads_member(l->root, STR("redirects"));
    }
    if (l->reads_env && l->reads_redirects) return;
    struct lint_excerpt list = lint_excerpt_of(l, n->children[0]);
    lint_tell(l, CEL_REMARK_LOOSE, negated, n, "%s: %s also passes; add c.%s to the test of each c",
              list.text,
              l->reads_redirects ? "an assignment in front (LD_PRELOAD=x ls)"
                                 : "a redirection (ls > file)",
              l->reads_redirects ? "env == {}"
              : l->reads_env     ? "redirects == []"
                                 : "redirects == [] && c.env == {}");
}
