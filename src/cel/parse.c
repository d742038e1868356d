/* parse.c - recursive descent, one token ahead; binary operators by precedence.
 *
 *   Expr    = Or [ "?" Or ":" Expr ]
 *   Or      = And { "||" And }              And  = Rel { "&&" Rel }
 *   Rel     = Add { relop Add }             relop = < <= >= > == != in
 *   Add     = Mul { (+|-) Mul }             Mul  = Unary { (*|/|%) Unary }
 *   Unary   = { "!" } Member | { "-" } Member
 *   Member  = Primary { "." NAME [ "(" args ")" ] | "[" Expr "]" }
 *   Primary = ["."] NAME [ "(" args ")" ] | "(" Expr ")" | "[" list "]" | "{" entries "}" | LITERAL
 *
 * Long chains of && and || become balanced trees, so that their depth is the logarithm of their
 * length; other nesting is bounded by CEL_DEPTH_MAX. After a mistake the parser skips to the end of
 * the current bracket or argument and continues after it, to find the next mistake. */
#include "cel/parse.h"

enum { SIGNS_MAX = 64 }; /* - or ! in a row */

static struct cel_node *parse_expression(struct cel_parser *p);

/* ---- nodes ---- */

static struct cel_node *node_new(struct cel_parser *p, enum cel_node_kind kind, uint32_t offset,
                                 uint32_t place, size_t children)
{
    static struct cel_node *none[1];
    struct cel_node *n = NULL;
    if (++p->nodes > CEL_NODES_MAX)
        cel_problem_add(p->problems, p->text, offset, "the expression has too many parts");
    else
        n = arena_new(p->arena, struct cel_node);
    struct cel_node **list =
        n == NULL || children == 0 ? none : arena_array(p->arena, struct cel_node *, children);
    if (n == NULL || list == NULL) {
        /* The arena is full or the expression too large: cel_parse() checks both at its end. */
        p->token.kind = TOKEN_END;
        p->lexer.at = (uint32_t)p->text.size;
        return &p->spare;
    }
    *n = (struct cel_node){.kind = (uint8_t)kind,
                           .offset = offset,
                           .from = offset,
                           .place = place,
                           .count = (uint32_t)children,
                           .function = FUNCTIONS,
                           .children = list};
    return n;
}

static bool is_sound(const struct cel_node *n) { return n->children != NULL; }

/* Sets the end and depth of the finished node; NODE_WRONG if it is too deep. */
static struct cel_node *node_close(struct cel_parser *p, struct cel_node *node)
{
    if (!is_sound(node)) return node;
    unsigned deepest = 0;
    for (uint32_t i = 0; i < node->count; i++)
        if (node->children[i] != NULL && node->children[i]->depth > deepest)
            deepest = node->children[i]->depth;
    node->end = node->to = p->last_end;
    node->depth = (uint8_t)(deepest + 1);
    if (deepest + 1 <= CEL_DEPTH_MAX) return node;
    cel_problem_add(p->problems, p->text, node->offset,
                    "the expression is nested deeper than %d levels", CEL_DEPTH_MAX);
    node->kind = NODE_WRONG;
    node->count = 0;
    node->depth = 0;
    return node;
}

static struct cel_node *wrong(struct cel_parser *p)
{
    return node_new(p, NODE_WRONG, p->token.offset, p->token.offset, 0);
}

/* ---- tokens ---- */

static void step(struct cel_parser *p)
{
    p->last_end = p->token.end;
    cel_lex(&p->lexer, &p->token);
}

static bool accept(struct cel_parser *p, enum cel_token_kind kind)
{
    if (p->token.kind != kind) return false;
    step(p);
    return true;
}

static void expected(struct cel_parser *p, const char *what)
{
    if (p->token.kind == TOKEN_WRONG) return;
    uint32_t at = p->token.offset;
    if (p->token.kind == TOKEN_END) {
        cel_problem_add(p->problems, p->text, at, "the expression ends where %s is expected", what);
    } else {
        int shown = p->token.end - at > 30 ? 30 : (int)(p->token.end - at);
        while (shown < (int)(p->token.end - at) &&
               ((unsigned char)p->text.bytes[at + (uint32_t)shown] & 0xC0) == 0x80)
            shown++;
        struct str found = str_of(p->text.bytes + at, (size_t)shown);
        const char *hint = str_glob(STR("and"), found, true)   ? "; \"and\" is written &&"
                           : str_glob(STR("or"), found, true)  ? "; \"or\" is written ||"
                           : str_glob(STR("not"), found, true) ? "; \"not\" is written !"
                                                               : "";
        cel_problem_add(p->problems, p->text, at, "%s is expected here, not \"%.*s\"%s", what,
                        STR_FORMAT(found), hint);
    }
}

/* Skips to a token that can end the bracket or argument we are in, over nested brackets. */
static void recover(struct cel_parser *p)
{
    unsigned nested = 0;
    for (; p->token.kind != TOKEN_END; step(p)) {
        switch (p->token.kind) {
        case TOKEN_OPEN:
        case TOKEN_OPEN_BRACKET:
        case TOKEN_OPEN_BRACE: nested++; break;
        case TOKEN_CLOSE:
        case TOKEN_CLOSE_BRACKET:
        case TOKEN_CLOSE_BRACE:
            if (nested == 0) return;
            nested--;
            break;
        case TOKEN_COMMA:
        case TOKEN_AND:
        case TOKEN_OR:
            if (nested == 0) return;
            break;
        default: break;
        }
    }
}

static void expect(struct cel_parser *p, enum cel_token_kind kind)
{
    if (accept(p, kind)) return;
    expected(p, cel_token_name(kind));
    recover(p);
    while (p->token.kind == TOKEN_COMMA || p->token.kind == TOKEN_AND ||
           p->token.kind == TOKEN_OR) {
        step(p); /* the rest of this bracket is lost */
        recover(p);
    }
    accept(p, kind);
}

/* ---- lists of expressions ---- */

/* A growing list of children, moved into its node when it is complete. */
struct gathered {
    struct cel_node **items;
    uint32_t count, room;
};

static void gather(struct cel_parser *p, struct gathered *g, struct cel_node *n)
{
    if (g->count == g->room) {
        size_t room = g->room == 0 ? 4 : (size_t)g->room * 2;
        struct cel_node **items = arena_array(p->arena, struct cel_node *, room);
        if (items == NULL) return;
        if (g->count > 0) memcpy(items, g->items, g->count * sizeof(struct cel_node *));
        g->items = items;
        g->room = (uint32_t)room;
    }
    g->items[g->count++] = n;
}

static void gathered_into(struct gathered *g, struct cel_node *n)
{
    if (!is_sound(n) || g->count == 0) return;
    n->children = g->items;
    n->count = g->count;
}

/* Expressions up to the closing bracket; with `trailing` a comma may be before it. */
static void parse_list(struct cel_parser *p, struct gathered *g, enum cel_token_kind close,
                       bool trailing)
{
    while (p->token.kind != close) {
        gather(p, g, parse_expression(p));
        if (!accept(p, TOKEN_COMMA)) break;
        if (!trailing && p->token.kind == close) {
            expected(p, "an expression");
            break;
        }
    }
    expect(p, close);
}

/* ---- primaries ---- */

static struct cel_node *literal(struct cel_parser *p, struct cel_value value)
{
    struct cel_node *n = node_new(p, NODE_LITERAL, p->token.offset, p->token.offset, 0);
    if (is_sound(n)) n->value = value;
    step(p);
    return node_close(p, n);
}

static struct cel_node *parse_int(struct cel_parser *p, bool negative, uint32_t offset)
{
    uint64_t magnitude = p->token.magnitude;
    if (!negative && magnitude > INT64_MAX) {
        cel_problem_add(p->problems, p->text, p->token.offset,
                        "this number does not fit into an int");
        magnitude = 0;
    }
    struct cel_node *n =
        literal(p, cel_int(negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude));
    if (is_sound(n)) n->offset = n->from = offset;
    return n;
}

static struct cel_node *parse_map(struct cel_parser *p)
{
    struct cel_node *n = node_new(p, NODE_MAP, p->token.offset, p->token.offset, 0);
    struct gathered g = {0};
    step(p);
    while (p->token.kind != TOKEN_CLOSE_BRACE) {
        gather(p, &g, parse_expression(p));
        if (!accept(p, TOKEN_COLON)) {
            expected(p, "\":\"");
            recover(p);
            gather(p, &g, wrong(p));
        } else {
            gather(p, &g, parse_expression(p));
        }
        if (!accept(p, TOKEN_COMMA)) break;
    }
    expect(p, TOKEN_CLOSE_BRACE);
    gathered_into(&g, n);
    return node_close(p, n);
}

/* name or name(arguments), with the part before it as the receiver (NULL: none). */
static struct cel_node *parse_named(struct cel_parser *p, struct cel_node *receiver, bool is_rooted,
                                    uint32_t offset)
{
    struct cel_token name = p->token;
    if (name.is_reserved && receiver == NULL)
        cel_problem_add(p->problems, p->text, name.offset, "\"%.*s\" is a reserved word",
                        STR_FORMAT(name.text));
    if (p->is_strict && name.is_quoted && receiver == NULL)
        cel_problem_add(p->problems, p->text, name.offset,
                        "a name between back quotes must be a field, as in args.`%.*s`",
                        STR_FORMAT(name.text));
    step(p);
    bool is_call = p->token.kind == TOKEN_OPEN && !name.is_quoted;
    struct cel_node *n;
    if (is_call) {
        struct gathered g = {0};
        n = node_new(p, NODE_CALL, offset, name.offset, 0);
        if (receiver != NULL) gather(p, &g, receiver);
        step(p);
        parse_list(p, &g, TOKEN_CLOSE, false);
        gathered_into(&g, n);
        if (is_sound(n)) n->has_receiver = receiver != NULL;
    } else {
        n = node_new(p, receiver != NULL ? NODE_SELECT : NODE_NAME, offset, name.offset,
                     receiver != NULL);
        if (receiver != NULL && is_sound(n)) n->children[0] = receiver;
    }
    if (!is_sound(n)) return n;
    n->name = name.text;
    n->is_rooted = is_rooted;
    n = node_close(p, n);
    return is_call && n->kind == NODE_CALL ? cel_macro_expand(p, n) : n;
}

static struct cel_node *parse_primary(struct cel_parser *p)
{
    uint32_t offset = p->token.offset;
    struct cel_node *n;
    struct gathered g = {0};
    switch (p->token.kind) {
    case TOKEN_INT: return parse_int(p, false, offset);
    case TOKEN_UINT: return literal(p, cel_uint(p->token.magnitude));
    case TOKEN_DOUBLE: return literal(p, cel_double(p->token.number));
    case TOKEN_STRING: return literal(p, cel_string(p->token.text.bytes, p->token.text.size));
    case TOKEN_BYTES: return literal(p, cel_bytes(p->token.text.bytes, p->token.text.size));
    case TOKEN_TRUE: return literal(p, cel_bool(true));
    case TOKEN_FALSE: return literal(p, cel_bool(false));
    case TOKEN_NULL: return literal(p, cel_null());
    case TOKEN_IDENT: return parse_named(p, NULL, false, offset);
    case TOKEN_POINT:
        step(p);
        if (p->token.kind == TOKEN_IDENT) return parse_named(p, NULL, true, offset);
        break;
    case TOKEN_OPEN:
        step(p);
        n = parse_expression(p);
        expect(p, TOKEN_CLOSE);
        if (is_sound(n)) {
            n->from = offset;
            n->to = p->last_end;
        }
        return n;
    case TOKEN_OPEN_BRACKET:
        n = node_new(p, NODE_LIST, offset, offset, 0);
        step(p);
        parse_list(p, &g, TOKEN_CLOSE_BRACKET, true);
        gathered_into(&g, n);
        return node_close(p, n);
    case TOKEN_OPEN_BRACE: return parse_map(p);
    default: break;
    }
    expected(p, "an expression");
    n = wrong(p);
    recover(p);
    return n;
}

static struct cel_node *call_of(struct cel_parser *p, enum cel_function_id function, uint32_t place,
                                struct cel_node *left, struct cel_node *right)
{
    struct cel_node *n = node_new(p, NODE_CALL, left->from < place ? left->from : place, place,
                                  right == NULL ? 1 : 2);
    if (!is_sound(n)) return n;
    n->function = (uint16_t)function;
    n->name = cel_functions[function].name;
    n->children[0] = left;
    if (right != NULL) n->children[1] = right;
    return node_close(p, n);
}

static void refuse_optional(struct cel_parser *p)
{
    cel_problem_add(p->problems, p->text, p->token.offset,
                    "optionals (a.?b, a[?b], optional.of(a)) are not offered; write "
                    "has(a.b) ? a.b : \"\"");
}

static struct cel_node *parse_member(struct cel_parser *p)
{
    struct cel_node *n = parse_primary(p);
    for (;;) {
        uint32_t place = p->token.offset;
        if (accept(p, TOKEN_POINT)) {
            if (p->token.kind != TOKEN_IDENT) {
                if (p->token.kind == TOKEN_QUESTION)
                    refuse_optional(p);
                else
                    expected(p, "the name of a field");
                recover(p);
                return n;
            }
            n = parse_named(p, n, false, n->from);
        } else if (accept(p, TOKEN_OPEN_BRACKET)) {
            if (p->token.kind == TOKEN_QUESTION) {
                refuse_optional(p);
                step(p);
            }
            struct cel_node *key = parse_expression(p);
            expect(p, TOKEN_CLOSE_BRACKET);
            n = call_of(p, FUNCTION_INDEX, place, n, key);
        } else if (p->token.kind == TOKEN_OPEN_BRACE) {
            cel_problem_add(p->problems, p->text, place,
                            "messages (Name{field: value}) are not supported");
            recover(p);
            step(p);
            return n;
        } else {
            return n;
        }
    }
}

/* ---- operators ---- */

/* Each sign is a call of its own, so that !!1 is an error like !1. */
static struct cel_node *parse_signed(struct cel_parser *p, enum cel_token_kind kind)
{
    uint32_t places[SIGNS_MAX], count = 0;
    while (p->token.kind == kind) {
        if (count == SIGNS_MAX) {
            cel_problem_add(p->problems, p->text, p->token.offset, "too many signs in a row");
            break;
        }
        places[count++] = p->token.offset;
        step(p);
    }
    /* A minus belongs to the number behind it: the least int has no positive counterpart. */
    struct cel_node *n;
    if (kind == TOKEN_MINUS && p->token.kind == TOKEN_INT &&
        (p->token.magnitude > INT64_MAX || count == 1)) {
        n = parse_int(p, true, places[--count]);
        if (p->token.kind == TOKEN_POINT || p->token.kind == TOKEN_OPEN_BRACKET)
            expected(p, "an operator");
    } else {
        n = parse_member(p);
    }
    while (count-- > 0)
        n = call_of(p, kind == TOKEN_NOT ? FUNCTION_NOT : FUNCTION_NEGATE, places[count], n, NULL);
    return n;
}

static struct cel_node *parse_unary(struct cel_parser *p)
{
    enum cel_token_kind kind = p->token.kind;
    return kind == TOKEN_NOT || kind == TOKEN_MINUS ? parse_signed(p, kind) : parse_member(p);
}

enum { PRECEDENCE_RELATION = 1, PRECEDENCE_SUM, PRECEDENCE_PRODUCT, PRECEDENCE_UNARY };

static unsigned precedence(enum cel_token_kind kind, enum cel_function_id *ret)
{
    switch (kind) {
    case TOKEN_EQUAL: *ret = FUNCTION_EQUAL; return PRECEDENCE_RELATION;
    case TOKEN_UNEQUAL: *ret = FUNCTION_UNEQUAL; return PRECEDENCE_RELATION;
    case TOKEN_LESS: *ret = FUNCTION_LESS; return PRECEDENCE_RELATION;
    case TOKEN_LESS_EQUAL: *ret = FUNCTION_LESS_EQUAL; return PRECEDENCE_RELATION;
    case TOKEN_GREATER: *ret = FUNCTION_GREATER; return PRECEDENCE_RELATION;
    case TOKEN_GREATER_EQUAL: *ret = FUNCTION_GREATER_EQUAL; return PRECEDENCE_RELATION;
    case TOKEN_IN: *ret = FUNCTION_IN; return PRECEDENCE_RELATION;
    case TOKEN_PLUS: *ret = FUNCTION_ADD; return PRECEDENCE_SUM;
    case TOKEN_MINUS: *ret = FUNCTION_SUBTRACT; return PRECEDENCE_SUM;
    case TOKEN_STAR: *ret = FUNCTION_MULTIPLY; return PRECEDENCE_PRODUCT;
    case TOKEN_SLASH: *ret = FUNCTION_DIVIDE; return PRECEDENCE_PRODUCT;
    case TOKEN_PERCENT: *ret = FUNCTION_MODULUS; return PRECEDENCE_PRODUCT;
    default: return 0;
    }
}

static struct cel_node *parse_binary(struct cel_parser *p, unsigned least)
{
    struct cel_node *n = least == PRECEDENCE_UNARY ? parse_unary(p) : parse_binary(p, least + 1);
    if (least == PRECEDENCE_UNARY) return n;
    for (;;) {
        enum cel_function_id function = FUNCTIONS;
        if (precedence(p->token.kind, &function) != least) return n;
        uint32_t place = p->token.offset;
        step(p);
        n = call_of(p, function, place, n, parse_binary(p, least + 1));
    }
}

static struct cel_node *balance(struct cel_parser *p, enum cel_node_kind kind,
                                struct cel_node **terms, const uint32_t *places, uint32_t count)
{
    if (count == 1) return terms[0];
    uint32_t half = count / 2;
    struct cel_node *n = node_new(p, kind, terms[0]->from, places[half], 2);
    if (!is_sound(n)) return n;
    n->children[0] = balance(p, kind, terms, places, half);
    n->children[1] = balance(p, kind, terms + half, places + half, count - half);
    uint32_t end = n->children[1]->to;
    n = node_close(p, n);
    n->end = n->to = end;
    return n;
}

static struct cel_node *parse_logic(struct cel_parser *p, enum cel_node_kind kind)
{
    enum cel_token_kind joint = kind == NODE_OR ? TOKEN_OR : TOKEN_AND;
    struct gathered g = {0};
    struct cel_node *first =
        kind == NODE_OR ? parse_logic(p, NODE_AND) : parse_binary(p, PRECEDENCE_RELATION);
    if (p->token.kind != joint) return first;
    gather(p, &g, first);
    size_t room = 0;
    uint32_t *places = NULL;
    while (p->token.kind == joint) {
        if (g.count + 1 >= room) {
            uint32_t *more = arena_array(p->arena, uint32_t, room == 0 ? 8 : room * 2);
            if (more == NULL) return first;
            if (room > 0) memcpy(more, places, room * sizeof *places);
            places = more;
            room = room == 0 ? 8 : room * 2;
        }
        places[g.count] = p->token.offset;
        step(p);
        gather(p, &g,
               kind == NODE_OR ? parse_logic(p, NODE_AND) : parse_binary(p, PRECEDENCE_RELATION));
    }
    return balance(p, kind, g.items, places, g.count);
}

static struct cel_node *parse_expression(struct cel_parser *p)
{
    if (p->depth == CEL_DEPTH_MAX) {
        cel_problem_add(p->problems, p->text, p->token.offset,
                        "the expression is nested deeper than %d levels", CEL_DEPTH_MAX);
        struct cel_node *n = wrong(p);
        p->token.kind = TOKEN_END; /* later problems would only repeat this one */
        p->lexer.at = (uint32_t)p->text.size;
        return n;
    }
    p->depth++;
    struct cel_node *n = parse_logic(p, NODE_OR);
    uint32_t place = p->token.offset;
    if (accept(p, TOKEN_QUESTION)) {
        struct cel_node *choice = node_new(p, NODE_CHOICE, n->from, place, 3);
        struct cel_node *yes = parse_logic(p, NODE_OR);
        expect(p, TOKEN_COLON);
        struct cel_node *no = parse_expression(p);
        if (is_sound(choice)) {
            choice->children[0] = n;
            choice->children[1] = yes;
            choice->children[2] = no;
        }
        n = node_close(p, choice);
    }
    p->depth--;
    return n;
}

struct cel_node *cel_parse(struct str text, bool is_strict, struct arena *arena,
                           struct cel_problems *problems)
{
    struct cel_parser p = {.lexer = {.text = text, .arena = arena, .problems = problems},
                           .text = text,
                           .arena = arena,
                           .problems = problems,
                           .is_strict = is_strict};
    step(&p);
    if (p.token.kind == TOKEN_END) {
        cel_problem_add(problems, text, 0, "the expression is empty");
        return NULL;
    }
    struct cel_node *n = parse_expression(&p);
    while (p.token.kind != TOKEN_END && problems->count < CEL_PROBLEMS_MAX) {
        expected(&p, "an operator or the end");
        step(&p);
        recover(&p);
        if (p.token.kind == TOKEN_END) break;
        step(&p); /* a bracket too many, or what joins the next part */
        if (p.token.kind != TOKEN_END) parse_expression(&p);
    }
    return problems->count > 0 || arena->overflow ? NULL : n;
}
