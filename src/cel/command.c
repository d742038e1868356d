/* command.c - shell(text) and isShell(text): a command line as a list of its commands. The reader is
 * shell.h; here each command becomes a map of
 *
 *   operator   "" for the first command; "&&", "||", "|" or ";" in front of it
 *   name       string
 *   args       list of strings
 *   env        map of the assignments in front of the name
 *   redirects  list of maps of descriptor (int), operator and target
 *
 * The line is read twice, to count its parts and to place them. */
#include "cel/functions.h"
#include "cel/shell.h"

enum {
    SHELL_COST = 6,
    BYTES_TO_A_STEP = 1,
    COMMAND_COST = 16, /* beside its map */
    PART_COST = 2,     /* in both walks */
    REFUSED_COST = 8,
};

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }
static struct cel_value no_memory(void) { return cel_fail(CEL_FAULT_MEMORY, NULL); }

static struct cel_value key(struct str name) { return cel_of_str(name); }

/* The line and room for its parts. */
struct line {
    struct cel_shell reader;
    size_t count[SHELL_END]; /* of each part */
    struct cel_value *commands, *args, *env, *redirects;
};

static struct cel_value refused(struct cel_meter *m, const struct line *l, struct str why)
{
    char bytes[160];
    struct buf about = buf_over(bytes, sizeof bytes);
    if (!cel_pay(m, REFUSED_COST)) return spent();
    buf_put_literal(&about, "at byte ");
    buf_put_u64(&about, l->reader.at + 1);
    buf_put_literal(&about, ", ");
    buf_put(&about, why);
    return cel_fail_text(m, CEL_FAULT_SHELL, buf_view(&about));
}

/* Counts the parts and takes room for them; an error, or null. */
static struct cel_value prepare(struct cel_meter *m, struct str text, char *room, struct line *l)
{
    struct cel_shell_item item;
    l->reader = cel_shell_start(text, room);
    while ((item = cel_shell_next(&l->reader)).part < SHELL_END) {
        if (!cel_pay(m, PART_COST)) return spent();
        l->count[item.part]++;
    }
    if (item.part == SHELL_REFUSED) return refused(m, l, item.text);
    l->commands = cel_take_values(m, l->count[SHELL_COMMAND]);
    l->args = cel_take_values(m, l->count[SHELL_ARGUMENT]);
    l->env = cel_take_values(m, 2 * l->count[SHELL_ASSIGNMENT]);
    l->redirects = cel_take_values(m, l->count[SHELL_REDIRECTION]);
    bool has_room =
        l->commands != NULL && l->args != NULL && l->env != NULL && l->redirects != NULL;
    l->reader = cel_shell_start(text, room);
    return has_room ? cel_null() : no_memory();
}

static struct cel_value map_of(struct cel_meter *m, const struct cel_value *pairs, size_t count)
{
    struct cel_value *kept = cel_take_values(m, 2 * count);
    if (kept == NULL) return no_memory();
    memcpy(kept, pairs, 2 * count * sizeof *pairs);
    return cel_map_make(m, kept, count);
}

static struct cel_value redirect_of(struct cel_meter *m, const struct cel_shell_item *item)
{
    const struct cel_value pairs[] = {
        key(STR("descriptor")), cel_int(item->descriptor), key(STR("operator")),
        cel_of_str(item->sign), key(STR("target")),        cel_of_str(item->text),
    };
    return map_of(m, pairs, 3);
}

/* Places the parts of one command, and steps over them; *item is the first part behind it. */
static struct cel_value command_of(struct cel_meter *m, struct line *l, struct cel_shell_item *item)
{
    size_t args = 0, env = 0, redirects = 0;
    struct str sign = item->sign, name = STR("");
    if (!cel_pay(m, COMMAND_COST)) return spent();
    while ((*item = cel_shell_next(&l->reader)).part != SHELL_COMMAND && item->part != SHELL_END) {
        switch (item->part) {
        case SHELL_NAME: name = item->text; break;
        case SHELL_ARGUMENT: l->args[args++] = cel_of_str(item->text); break;
        case SHELL_ASSIGNMENT:
            l->env[2 * env] = cel_of_str(item->sign);
            l->env[2 * env++ + 1] = cel_of_str(item->text);
            break;
        default:
            l->redirects[redirects] = redirect_of(m, item);
            if (cel_is_error(l->redirects[redirects])) return l->redirects[redirects];
            redirects++;
        }
    }
    struct cel_value variables = cel_map_make(m, l->env, env);
    if (cel_is_error(variables)) return variables;
    const struct cel_value pairs[] = {
        key(STR("operator")),  cel_of_str(sign),
        key(STR("name")),      cel_of_str(name),
        key(STR("args")),      cel_list(l->args, args),
        key(STR("env")),       variables,
        key(STR("redirects")), cel_list(l->redirects, redirects),
    };
    l->args += args;
    l->env += 2 * env;
    l->redirects += redirects;
    return map_of(m, pairs, 5);
}

struct cel_value command_shell(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct line l = {0};
    (void)count;
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    struct str text = cel_text(a[0]);
    if (!cel_pay(m, SHELL_COST + text.size / BYTES_TO_A_STEP)) return spent();
    char *room = cel_take(m, text.size + 1);
    if (room == NULL) return no_memory();
    struct cel_value wrong = prepare(m, text, room, &l);
    if (cel_is_error(wrong)) return wrong;
    struct cel_value *commands = l.commands;
    struct cel_shell_item item = cel_shell_next(&l.reader);
    for (; item.part == SHELL_COMMAND; l.commands++) {
        *l.commands = command_of(m, &l, &item);
        if (cel_is_error(*l.commands)) return *l.commands;
    }
    return cel_list(commands, l.count[SHELL_COMMAND]);
}

struct cel_value command_is_shell(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    struct cel_value commands = command_shell(m, a, count);
    bool is_other = cel_is_limit(commands) || a[0].kind != CEL_STRING;
    return is_other ? commands : cel_bool(!cel_is_error(commands));
}
