/* lint_asked.c - tests of values that the requester chooses.
 *
 * The requester ("the asker") chooses args, context and resource, and their spelling. A deny with
 * an exact test is escaped by "true" for true and by PROD for prod (SLIPS). An allow with a test
 * that accepts more than it seems to permits more (LOOSE). The remark has the safe form, with the
 * tested part of the author's text and the constant in lower case. */
#include <stdio.h>

#include "cel/linter.h"

enum { LITERAL_MAX = 60, PATTERN_MAX = 120 };

/* The tested value: the asker's path, and the functions that were applied to it. */
struct subject {
    const struct cel_node *path; /* NULL: the asker does not choose it */
    bool folded;                 /* lowerAscii() or the like: case makes no difference */
    bool direct;                 /* the path itself, of any type */
    bool is_action;              /* it is the action, whose patterns are the rule's own */
};

static struct subject subject_of(const struct linter *l, const struct cel_node *n)
{
    struct subject s = {0};
    if (lint_is_asked(l, n)) return (struct subject){.path = n, .direct = true};
    if (n->kind == NODE_NAME && n->reference == REFERENCE_VARIABLE &&
        (n->slot == CEL_ACTION || n->slot == CEL_TOOL))
        return (struct subject){.path = n, .is_action = true};
    if (n->kind != NODE_CALL || n->count == 0) return s;
    switch (n->function) {
    case FUNCTION_TO_DYN: return subject_of(l, n->children[0]);
    case FUNCTION_LOWER_ASCII:
    case FUNCTION_UPPER_ASCII:
        s = subject_of(l, n->children[0]);
        s.folded = true;
        break;
    case FUNCTION_ADD:
        s = subject_of(l, n->children[0]);
        if (s.path == NULL && n->count > 1) s = subject_of(l, n->children[1]);
        break;
    case FUNCTION_TRIM:
    case FUNCTION_REPLACE:
    case FUNCTION_SUBSTRING:
    case FUNCTION_CHAR_AT:
    case FUNCTION_REVERSE:
    case FUNCTION_JOIN:
    case FUNCTION_SPLIT:
    case FUNCTION_INDEX:
    case FUNCTION_TO_STRING:
    case FUNCTION_GET_ESCAPED_PATH:
    case FUNCTION_URL: s = subject_of(l, n->children[0]); break;
    default: return s;
    }
    s.direct = false;
    return s;
}

/* ---- constants ---- */

static struct str literal_of(const struct cel_node *n)
{
    return lint_is_text(n) ? cel_text(n->value) : (struct str){0};
}

static bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool has_letters(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (is_letter(text.bytes[i])) return true;
    return false;
}

static bool contains(struct str text, struct str part)
{
    return memmem(text.bytes, text.size, part.bytes, part.size) != NULL;
}

static bool is_path(struct str text) { return text.size > 1 && text.bytes[0] == '/'; }
static bool is_url(struct str text) { return contains(text, STR("://")); }

/* "10." or "192.168.": the beginning of an address. */
static bool is_address(struct str text)
{
    size_t points = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (!is_digit(text.bytes[i]) && text.bytes[i] != '.') return false;
        points += text.bytes[i] == '.';
    }
    return points > 0 && is_digit(text.bytes[0]);
}

struct shown {
    char text[LITERAL_MAX + 8];
};

/* The constant as a literal, in lower case on request. */
static struct shown show(struct str literal, bool lower)
{
    struct shown s;
    struct buf out = buf_over(s.text, sizeof s.text - 1);
    struct str cut = str_cut(literal, LITERAL_MAX / 2);
    buf_put_byte(&out, '"');
    for (size_t i = 0; i < cut.size; i++) {
        char c = cut.bytes[i];
        if (c == '"' || c == '\\') buf_put_byte(&out, '\\');
        buf_put_byte(&out, (unsigned char)c < ' '          ? ' '
                           : lower && c >= 'A' && c <= 'Z' ? (char)(c | 0x20)
                                                           : c);
    }
    buf_put(&out, cut.size < literal.size ? STR("…\"") : STR("\""));
    s.text[out.size] = '\0';
    return s;
}

/* ---- regular expressions ---- */

/* The pattern after (?i) and other flags; *ret_ignores: they have the i, *ret_lines: the m. */
static struct str skip_flags(struct str pattern, bool *ret_ignores, bool *ret_lines)
{
    *ret_ignores = *ret_lines = false;
    if (!str_starts(pattern, STR("(?"))) return pattern;
    size_t end = str_find(pattern, ')');
    for (size_t i = 2; i < end; i++) {
        if (!is_letter(pattern.bytes[i])) return pattern;
        *ret_ignores = *ret_ignores || pattern.bytes[i] == 'i';
        *ret_lines = *ret_lines || pattern.bytes[i] == 'm';
    }
    return end == pattern.size ? pattern : str_skip(pattern, end + 1);
}

/* ^…$ around all of it, or \A…\z. */
static bool is_anchored(struct str pattern)
{
    bool ignores, lines;
    pattern = skip_flags(pattern, &ignores, &lines);
    unsigned depth = 0;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size; i++) {
        char c = pattern.bytes[i];
        if (c == '\\') {
            i++;
        } else if (in_class) {
            in_class = c != ']';
        } else if (c == '[') {
            in_class = true;
        } else if (c == '(') {
            depth++;
        } else if (c == ')' && depth > 0) {
            depth--;
        } else if (c == '|' && depth == 0) {
            return false; /* ^a|b$ is anchored at one end each */
        }
    }
    size_t size = pattern.size;
    bool begins =
        (size > 0 && pattern.bytes[0] == '^' && !lines) || str_starts(pattern, STR("\\A"));
    bool dollar = size > 0 && pattern.bytes[size - 1] == '$' && !lines &&
                  (size < 2 || pattern.bytes[size - 2] != '\\');
    bool z = size > 2 && memcmp(pattern.bytes + size - 2, "\\z", 2) == 0;
    return begins && (dollar || z);
}

/* Whether case makes a difference: a letter that is no escape, no flag and no range of both. */
static bool regex_tells_case(struct str pattern)
{
    bool ignores, lines;
    pattern = skip_flags(pattern, &ignores, &lines);
    if (ignores || contains(pattern, STR("(?i"))) return false;
    bool both = contains(pattern, STR("a-z")) && contains(pattern, STR("A-Z"));
    bool in_class = false;
    for (size_t i = 0; i < pattern.size; i++) {
        char c = pattern.bytes[i];
        if (c == '\\') {
            i++;
            if (i + 1 < pattern.size && (pattern.bytes[i] | 0x20) == 'p' &&
                pattern.bytes[i + 1] == '{')
                while (i < pattern.size && pattern.bytes[i] != '}') i++;
        } else if (c == '[' && !in_class) {
            in_class = true;
        } else if (c == ']') {
            in_class = false;
        } else if (is_letter(c) && !(in_class && both)) {
            return true;
        }
    }
    return false;
}

/* grep * as ^grep [A-Za-z0-9._-]*$, to stand in r"…". */
static void put_regex_of_glob(struct buf *out, struct str glob, struct str class)
{
    buf_put_byte(out, '^');
    for (size_t i = 0; i < glob.size; i++) {
        char c = glob.bytes[i];
        if (c == '*') {
            buf_put(out, class);
            continue;
        }
        if (strchr(".+?()[]{}|^$\\", c) != NULL) buf_put_byte(out, '\\');
        buf_put_byte(out, c);
    }
    buf_put_byte(out, '$');
}

/* ---- remarks ---- */

struct test {
    struct linter *l;
    const struct cel_node *node;
    struct subject subject;
    const struct cel_node *tested; /* the side with the tested value, as it is written */
    struct str literal;            /* the other side, if it is a text */
    bool negated;
};

static bool told_before(struct linter *l, enum cel_remark_kind kind, const struct cel_node *path)
{
    struct str written = str_of(l->text.bytes + path->offset, path->end - path->offset);
    for (size_t i = 0; i < l->told_count; i++)
        if (l->told[i].kind == kind && str_equal(l->told[i].path, written)) return true;
    if (l->told_count < LINT_TOLD)
        l->told[l->told_count++] = (struct lint_told){.kind = kind, .path = written};
    return false;
}

/* A remark about the test, once for each path. */
#define told(t, kind, ...)                                                                         \
    do {                                                                                           \
        if (!told_before((t)->l, (kind), (t)->subject.path))                                       \
            lint_tell((t)->l, (kind), (t)->negated, (t)->node, __VA_ARGS__);                       \
    } while (0)

/* "/srv/app" of "/srv/app/" and "/srv/app/x*". */
static struct shown folder_of(struct str literal)
{
    literal.size = str_find(literal, '*');
    while (literal.size > 1 && literal.bytes[literal.size - 1] != '/') literal.size--;
    while (literal.size > 1 && literal.bytes[literal.size - 1] == '/') literal.size--;
    return show(literal, false);
}

/* Paths, URLs and addresses have a function that reads them. False: another value. */
static bool tell_by_kind(const struct test *t, enum cel_remark_kind kind)
{
    bool slips = kind == CEL_REMARK_SLIPS;
    struct lint_excerpt all = lint_excerpt_of(t->l, t->node);
    struct lint_excerpt path = lint_excerpt_of(t->l, t->subject.path);
    if (is_url(t->literal))
        told(t, kind,
             "%s %s another spelling (user@, an address as a number): ask "
             "url(%s).getHostname(), and ip() of it",
             all.text, slips ? "is passed by" : "takes", path.text);
    else if (is_path(t->literal))
        told(t, kind,
             "%s %s: one file has many paths (//, /x/../); write path_under(%s, %s) %s \"\"%s",
             all.text, slips ? "can be passed" : "takes /../ too",
             slips ? "root" : folder_of(t->literal).text, path.text,
             slips != t->negated ? "==" : "!=", slips ? " with the folder that it may be in" : "");
    else if (is_address(t->literal) && !lint_is_call(t->node, FUNCTION_EQUAL))
        told(t, kind,
             "%s: one address has many spellings; write cidr(\"10.0.0.0/8\").containsIP(%s) with "
             "the range",
             all.text, path.text);
    else
        return false;
    return true;
}

/* ---- restricting: values that escape the test ---- */

static void slip_of_literal(const struct test *t, const struct cel_node *literal)
{
    struct lint_excerpt path = lint_excerpt_of(t->l, t->tested);
    struct lint_excerpt all = lint_excerpt_of(t->l, t->node);
    switch (literal->value.kind) {
    case CEL_BOOL:
        if (!t->subject.direct) return;
        told(t, CEL_REMARK_SLIPS,
             "%s is passed by \"%s\", by 1 and by null; write %s != %s, which only %s passes",
             all.text, literal->value.boolean ? "true" : "false", path.text,
             literal->value.boolean ? "false" : "true", literal->value.boolean ? "false" : "true");
        return;
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
        if (t->subject.direct)
            told(t, CEL_REMARK_SLIPS,
                 "%s is passed by a text such as \"5\"; write double(%s) == %s%s, which reads both",
                 all.text, path.text, lint_excerpt_of(t->l, literal).text,
                 literal->value.kind == CEL_INT ? ".0" : "");
        return;
    default: return;
    }
}

static void slip_of_text(const struct test *t, const char *form)
{
    struct lint_excerpt path = lint_excerpt_of(t->l, t->tested);
    struct lint_excerpt all = lint_excerpt_of(t->l, t->node);
    if (tell_by_kind(t, CEL_REMARK_SLIPS)) return;
    if (t->subject.folded) return;
    if (has_letters(t->literal))
        told(t, CEL_REMARK_SLIPS, "%s is passed by another case; write %s.lowerAscii()%s%s%s",
             all.text, path.text, form, show(t->literal, true).text, form[0] == '.' ? ")" : "");
    else if (t->subject.direct && lint_is_call(t->node, FUNCTION_EQUAL) && t->literal.size > 0)
        told(t, CEL_REMARK_SLIPS, "%s is passed by a number; write string(%s) == %s", all.text,
             path.text, show(t->literal, false).text);
}

static bool is_name_of_somebody(const struct cel_node *n)
{
    return n->kind == NODE_NAME && n->reference == REFERENCE_VARIABLE && n->type != NULL &&
           n->type->tag == CEL_STRING;
}

static void slip_of_equal(struct test *t, const struct cel_node *other)
{
    t->literal = literal_of(other);
    if (lint_is_text(other)) {
        slip_of_text(t, " == ");
    } else if (other->kind == NODE_LITERAL) {
        slip_of_literal(t, other);
    } else if (is_name_of_somebody(other) && !t->subject.folded) {
        struct lint_excerpt path = lint_excerpt_of(t->l, t->tested),
                            name = lint_excerpt_of(t->l, other);
        told(t, CEL_REMARK_SLIPS,
             "%s == %s is passed by another case; write %s.lowerAscii() == %s.lowerAscii()",
             path.text, name.text, path.text, name.text);
    }
}

static const struct cel_node *first_of(const struct cel_node *list)
{
    return list->kind == NODE_LIST && list->count > 0 ? list->children[0] : list;
}

static void slip_of_in(struct test *t)
{
    const struct cel_node *one = t->node->children[0], *list = t->node->children[1];
    struct lint_excerpt all = lint_excerpt_of(t->l, t->node),
                        path = lint_excerpt_of(t->l, t->tested);
    if (t->tested == list) {
        t->literal = literal_of(one);
        if (!has_letters(t->literal) || t->subject.folded) return;
        told(t, CEL_REMARK_SLIPS,
             "%s is passed by another case; write %s.exists(x, x.lowerAscii() == %s)", all.text,
             path.text, show(t->literal, true).text);
        return;
    }
    const struct cel_node *first = first_of(list);
    t->literal = literal_of(first);
    if (list->kind != NODE_LIST || first->kind != NODE_LITERAL) return;
    if (lint_is_text(first) && has_letters(t->literal) && !t->subject.folded)
        told(t, CEL_REMARK_SLIPS,
             "%s is passed by another case; write %s.lowerAscii() in […], with lower case there",
             all.text, path.text);
    else if (!lint_is_text(first) && t->subject.direct && first->value.kind != CEL_NULL &&
             first->value.kind != CEL_BOOL)
        told(t, CEL_REMARK_SLIPS,
             "%s is passed by a text such as \"5\"; write double(%s) in […], with doubles there",
             all.text, path.text);
}

static void slip_of_regex(const struct test *t)
{
    struct lint_excerpt all = lint_excerpt_of(t->l, t->node);
    if (t->subject.folded || !regex_tells_case(t->literal)) return;
    told(t, CEL_REMARK_SLIPS, "%s is passed by another case; begin the pattern with (?i)",
         all.text);
}

/* ---- permitting: values that pass the test ---- */

/* Values that a program reads as more than one word; the first ones, that a shell reads. */
enum { READ_BY_SHELL = 4, READ_BY_PROGRAM = 7 };

static bool is_read(const struct cel_node *path, size_t by)
{
    static const char *const names[READ_BY_PROGRAM] = {"command", "cmd",   "shell", "script",
                                                       "sql",     "query", "code"};
    for (size_t i = 0; path->kind == NODE_SELECT && i < by; i++)
        if (str_equal_ignoring_case(path->name, str_from(names[i]))) return true;
    return false;
}

/* "grep" of "grep *" and "grep ". */
static void tell_shell(const struct test *t, struct str glob)
{
    size_t size = 0;
    while (size < glob.size && strchr(" *", glob.bytes[size]) == NULL) size++;
    told(t, CEL_REMARK_LOOSE,
         "%s takes also ; | and line breaks; write shell(%s).all(c, c.name == %s && "
         "c.redirects == [] && c.env == {})",
         lint_excerpt_of(t->l, t->node).text, lint_excerpt_of(t->l, t->tested).text,
         show(str_of(glob.bytes, size), false).text);
}

static void tell_pattern(const struct test *t, struct str glob)
{
    char bytes[PATTERN_MAX];
    struct buf out = buf_over(bytes, sizeof bytes - 1);
    if (is_read(t->subject.path, READ_BY_SHELL)) {
        tell_shell(t, glob);
        return;
    }
    bool has_blank = str_find(glob, ' ') < glob.size;
    put_regex_of_glob(&out, str_cut(glob, LITERAL_MAX / 2),
                      has_blank ? STR("[A-Za-z0-9._/ -]*") : STR("[A-Za-z0-9._-]*"));
    if (out.overflow) out.size = 0;
    bytes[out.size] = '\0';
    told(t, CEL_REMARK_LOOSE,
         "%s takes any characters there, also ; | and line breaks; say which, as in "
         "%s.matches(r\"%s\")",
         lint_excerpt_of(t->l, t->node).text, lint_excerpt_of(t->l, t->tested).text, bytes);
}

static void loose_glob(const struct test *t)
{
    if (str_find(t->literal, '*') == t->literal.size) return;
    if (!tell_by_kind(t, CEL_REMARK_LOOSE)) tell_pattern(t, t->literal);
}

static void loose_start(const struct test *t)
{
    char bytes[LITERAL_MAX];
    struct buf glob = buf_over(bytes, sizeof bytes);
    bool has_blank = str_find(t->literal, ' ') < t->literal.size;
    if (tell_by_kind(t, CEL_REMARK_LOOSE) ||
        (!has_blank && !is_read(t->subject.path, READ_BY_PROGRAM)))
        return;
    buf_put(&glob, str_cut(t->literal, LITERAL_MAX / 2));
    buf_put_byte(&glob, '*');
    tell_pattern(t, buf_view(&glob));
}

static void loose_end(const struct test *t)
{
    char first = t->literal.size > 0 ? t->literal.bytes[0] : '.';
    if (!(is_letter(first) || is_digit(first)) || str_find(t->literal, '.') == t->literal.size)
        return;
    told(t, CEL_REMARK_LOOSE, "%s takes evil%.*s too; write == or begin with a point or @",
         lint_excerpt_of(t->l, t->node).text, STR_FORMAT(str_cut(t->literal, LITERAL_MAX / 2)));
}

static void loose_inside(const struct test *t)
{
    if (t->literal.size == 0 || tell_by_kind(t, CEL_REMARK_LOOSE)) return;
    told(t, CEL_REMARK_LOOSE, "%s lets anything stand before and behind it; write %s == %s",
         lint_excerpt_of(t->l, t->node).text, lint_excerpt_of(t->l, t->tested).text,
         show(t->literal, false).text);
}

static void loose_regex(const struct test *t)
{
    if (is_anchored(t->literal)) return;
    told(t, CEL_REMARK_LOOSE,
         "%s looks for it anywhere in the text; write \"^(…)$\" around it, and \\\\. for a point",
         lint_excerpt_of(t->l, t->node).text);
}

static const struct cel_node *root_of(const struct cel_node *path)
{
    while (path->kind != NODE_NAME && path->count > 0) path = path->children[0];
    return path;
}

/* Variables of a macro are parts of one list; a comparison between them is intended. */
static void loose_equal(const struct test *t, struct subject other)
{
    const struct cel_node *a = root_of(t->subject.path), *b = root_of(other.path);
    if (a->reference == REFERENCE_LOCAL || b->reference == REFERENCE_LOCAL) return;
    told(t, CEL_REMARK_LOOSE,
         "the requester chooses both sides of %s, and null equals null; compare with actor, "
         "user, acting_for or a constant",
         lint_excerpt_of(t->l, t->node).text);
}

/* ---- one test ---- */

static void ask_equal(struct linter *l, const struct cel_node *n, bool negated)
{
    struct subject left = subject_of(l, n->children[0]), right = subject_of(l, n->children[1]);
    struct test t = {.l = l, .node = n, .negated = negated};
    bool is_left = left.path != NULL;
    if (!is_left && right.path == NULL) return;
    t.subject = is_left ? left : right;
    t.tested = n->children[is_left ? 0 : 1];
    if (is_left && right.path != NULL && (left.is_action || right.is_action)) return;
    if (is_left && right.path != NULL)
        loose_equal(&t, right);
    else if (!negated)
        slip_of_equal(&t, n->children[is_left ? 1 : 0]);
}

/* text.glob("…") and the like. */
static void ask_text(struct linter *l, const struct cel_node *n, bool negated)
{
    struct test t = {.l = l, .node = n, .negated = negated, .tested = n->children[0]};
    t.subject = subject_of(l, n->children[0]);
    t.literal = literal_of(n->children[1]);
    if (t.subject.path == NULL || str_is_absent(t.literal)) return;
    if (n->count == 3) { /* the remark offers glob(pattern, separator) */
        if (!negated && !t.subject.folded && has_letters(t.literal))
            told(&t, CEL_REMARK_SLIPS, "%s is passed by another case; test %s.lowerAscii()",
                 lint_excerpt_of(l, n).text, lint_excerpt_of(l, t.tested).text);
        return;
    }
    switch (t.subject.is_action ? FUNCTIONS : n->function) {
    case FUNCTION_GLOB: loose_glob(&t); break;
    case FUNCTION_STARTS_WITH: loose_start(&t); break;
    case FUNCTION_ENDS_WITH: loose_end(&t); break;
    case FUNCTION_CONTAINS: loose_inside(&t); break;
    case FUNCTION_MATCHES: loose_regex(&t); break;
    default: break;
    }
    if (negated) return;
    switch (n->function) {
    case FUNCTION_GLOB: slip_of_text(&t, ".glob("); break;
    case FUNCTION_STARTS_WITH: slip_of_text(&t, ".startsWith("); break;
    case FUNCTION_ENDS_WITH: slip_of_text(&t, ".endsWith("); break;
    case FUNCTION_CONTAINS: slip_of_text(&t, ".contains("); break;
    case FUNCTION_MATCHES: slip_of_regex(&t); break;
    default: return;
    }
}

static void ask_in(struct linter *l, const struct cel_node *n, bool negated)
{
    struct test t = {.l = l, .node = n, .negated = negated};
    for (size_t i = 0; i < 2 && t.subject.path == NULL; i++) {
        t.tested = n->children[i];
        t.subject = subject_of(l, n->children[i]);
    }
    if (t.subject.path == NULL || negated) return;
    slip_of_in(&t);
}

void lint_asked(struct linter *l, const struct cel_node *n, bool negated)
{
    bool has_separator = lint_is_call(n, FUNCTION_GLOB) && n->count == 3;
    if (n->kind != NODE_CALL || (n->count != 2 && !has_separator)) return;
    switch (n->function) {
    case FUNCTION_EQUAL:
    case FUNCTION_UNEQUAL: ask_equal(l, n, negated); return;
    case FUNCTION_IN: ask_in(l, n, negated); return;
    case FUNCTION_GLOB:
    case FUNCTION_STARTS_WITH:
    case FUNCTION_ENDS_WITH:
    case FUNCTION_CONTAINS:
    case FUNCTION_MATCHES: ask_text(l, n, negated); return;
    default: return;
    }
}
