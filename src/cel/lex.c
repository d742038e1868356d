/* lex.c - see lex.h. The text is well-formed UTF-8; cel_compile() has checked it. */
#include "cel/lex.h"

#include "json/json.h"

static int byte_at(const struct cel_lexer *l, uint32_t at)
{
    return at < l->text.size ? (unsigned char)l->text.bytes[at] : -1;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static int hex_digit_at(const struct cel_lexer *l, uint32_t at)
{
    return at < l->text.size ? hex_value(l->text.bytes[at]) : -1;
}

static void skip_blanks(struct cel_lexer *l)
{
    for (;;) {
        int c = byte_at(l, l->at);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
            l->at++;
        } else if (c == '/' && byte_at(l, l->at + 1) == '/') {
            while (byte_at(l, l->at) >= 0 && byte_at(l, l->at) != '\n') l->at++;
        } else {
            return;
        }
    }
}

/* ---- words ---- */

static void lex_word(struct cel_lexer *l, struct cel_token *t)
{
    static const char *const reserved[] = {
        "as",  "break", "const",   "continue",  "else",   "for", "function", "if",   "import",
        "let", "loop",  "package", "namespace", "return", "var", "void",     "while"};
    while (is_letter(byte_at(l, l->at)) || is_digit(byte_at(l, l->at))) l->at++;
    t->kind = TOKEN_IDENT;
    t->text = str_of(l->text.bytes + t->offset, l->at - t->offset);
    if (str_equal(t->text, STR("true")))
        t->kind = TOKEN_TRUE;
    else if (str_equal(t->text, STR("false")))
        t->kind = TOKEN_FALSE;
    else if (str_equal(t->text, STR("null")))
        t->kind = TOKEN_NULL;
    else if (str_equal(t->text, STR("in")))
        t->kind = TOKEN_IN;
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        t->is_reserved = t->is_reserved || str_equal(t->text, str_from(reserved[i]));
}

/* `content-type`: a field whose name is not a word. */
static void lex_quoted_name(struct cel_lexer *l, struct cel_token *t)
{
    uint32_t from = ++l->at;
    int c;
    while (is_letter(c = byte_at(l, l->at)) || is_digit(c) || c == '.' || c == '-' || c == '/' ||
           c == ' ')
        l->at++;
    t->kind = TOKEN_IDENT;
    t->is_quoted = true;
    t->text = str_of(l->text.bytes + from, l->at - from);
    if (c != '`' || t->text.size == 0) {
        cel_problem_add(l->problems, l->text, t->offset,
                        "a name between back quotes is made of letters, digits, \"_.-/\" and "
                        "blanks, and ends with a back quote");
        t->kind = TOKEN_WRONG;
        return;
    }
    l->at++;
}

/* ---- numbers ---- */

static void lex_digits(struct cel_lexer *l, struct cel_token *t, unsigned base)
{
    bool too_big = false;
    t->magnitude = 0;
    for (;;) {
        int digit = base == 16                    ? hex_digit_at(l, l->at)
                    : is_digit(byte_at(l, l->at)) ? byte_at(l, l->at) - '0'
                                                  : -1;
        if (digit < 0) break;
        too_big = too_big || __builtin_mul_overflow(t->magnitude, base, &t->magnitude) ||
                  __builtin_add_overflow(t->magnitude, (uint64_t)digit, &t->magnitude);
        l->at++;
    }
    int c = byte_at(l, l->at);
    t->kind = c == 'u' || c == 'U' ? TOKEN_UINT : TOKEN_INT;
    if (t->kind == TOKEN_UINT) l->at++;
    /* The largest int plus one is valid after a minus; the parser decides. */
    if (too_big || (t->kind == TOKEN_INT && t->magnitude > (uint64_t)INT64_MAX + 1)) {
        cel_problem_add(l->problems, l->text, t->offset, "this number does not fit into 64 bits");
        t->magnitude = 0;
    }
}

static bool has_exponent(const struct cel_lexer *l, uint32_t at)
{
    if (byte_at(l, at) != 'e' && byte_at(l, at) != 'E') return false;
    at++;
    if (byte_at(l, at) == '+' || byte_at(l, at) == '-') at++;
    return is_digit(byte_at(l, at));
}

/* JSON's reader needs a digit before the point, so .5 is read as 0.5. */
static double read_double(struct cel_lexer *l, struct cel_token *t)
{
    struct str written = str_of(l->text.bytes + t->offset, l->at - t->offset);
    while (written.size > 1 && written.bytes[0] == '0' && is_digit((unsigned char)written.bytes[1]))
        written = str_skip(written, 1);
    char *literal = arena_bytes(l->arena, written.size + 1);
    double number = 0;
    if (literal == NULL) return 0;
    literal[0] = '0';
    memcpy(literal + 1, written.bytes, written.size);
    struct str text = written.bytes[0] == '.' ? str_of(literal, written.size + 1)
                                              : str_of(literal + 1, written.size);
    if (!json_number_read(text, &number))
        cel_problem_add(l->problems, l->text, t->offset, "this number does not fit into a double");
    return number;
}

static void lex_number(struct cel_lexer *l, struct cel_token *t)
{
    if (byte_at(l, l->at) == '0' && (byte_at(l, l->at + 1) | 0x20) == 'x' &&
        hex_digit_at(l, l->at + 2) >= 0) {
        l->at += 2;
        lex_digits(l, t, 16);
    } else {
        uint32_t end = l->at;
        while (is_digit(byte_at(l, end))) end++;
        bool has_fraction = byte_at(l, end) == '.' && is_digit(byte_at(l, end + 1));
        if (!has_fraction && !has_exponent(l, end)) {
            lex_digits(l, t, 10);
        } else {
            if (has_fraction)
                for (end++; is_digit(byte_at(l, end));) end++;
            if (has_exponent(l, end))
                for (end += 2; is_digit(byte_at(l, end));) end++;
            l->at = end;
            t->kind = TOKEN_DOUBLE;
            t->number = read_double(l, t);
        }
    }
    if (is_letter(byte_at(l, l->at)) || is_digit(byte_at(l, l->at))) {
        cel_problem_add(l->problems, l->text, l->at, "a number may not run into a name");
        while (is_letter(byte_at(l, l->at)) || is_digit(byte_at(l, l->at))) l->at++;
    }
}

/* ---- strings ---- */

/* `count` digits of that base after the escape's letter; -1: a character is no digit. */
static int64_t escape_digits(struct cel_lexer *l, unsigned count, unsigned base)
{
    int64_t value = 0;
    for (unsigned i = 0; i < count; i++) {
        int digit = hex_digit_at(l, l->at);
        if (digit < 0 || digit >= (int)base) return -1;
        value = value * base + digit;
        l->at++;
    }
    return value;
}

/* One escape; l->at is after the backslash. An invalid escape is reported and gives no character. */
static void lex_escape(struct cel_lexer *l, bool is_bytes, char *to, size_t *size)
{
    static const char letters[] = "abfnrtv\\?\"'`", meanings[] = "\a\b\f\n\r\t\v\\?\"'`";
    uint32_t backslash = l->at - 1;
    int c = byte_at(l, l->at);
    if (c >= 0) l->at++;
    const char *plain = c > 0 ? strchr(letters, c) : NULL;
    if (plain != NULL) {
        to[(*size)++] = meanings[plain - letters];
        return;
    }
    int64_t value = -1;
    bool is_unicode = c == 'u' || c == 'U';
    if (c == 'x' || c == 'X')
        value = escape_digits(l, 2, 16);
    else if (c >= '0' && c <= '3') {
        l->at--;
        value = escape_digits(l, 3, 8);
    } else if (is_unicode && !is_bytes)
        value = escape_digits(l, c == 'u' ? 4 : 8, 16);
    if (is_unicode && is_bytes) {
        cel_problem_add(l->problems, l->text, backslash,
                        "\\%c is no escape of bytes; write them as \\x or \\ooo", c);
        return;
    }
    if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        cel_problem_add(l->problems, l->text, backslash, "%s",
                        value < 0 ? "this is no escape of CEL"
                                  : "this escape is no Unicode character");
        return;
    }
    if (is_bytes)
        to[(*size)++] = (char)value;
    else
        *size += str_put_code_point(to + *size, (uint32_t)value);
}

static bool starts_with_quotes(const struct cel_lexer *l, uint32_t at, int quote, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (byte_at(l, at + i) != quote) return false;
    return true;
}

/* From the opening quote on. */
static void lex_string(struct cel_lexer *l, struct cel_token *t, bool is_raw, bool is_bytes)
{
    int quote = byte_at(l, l->at);
    unsigned quotes = starts_with_quotes(l, l->at, quote, 3) ? 3 : 1;
    l->at += quotes;
    t->kind = is_bytes ? TOKEN_BYTES : TOKEN_STRING;
    /* An escape is never shorter than its character. */
    size_t room = l->text.size - l->at + 1, size = 0;
    char *to = arena_bytes(l->arena, room);
    if (to == NULL) {
        l->at = (uint32_t)l->text.size;
        return;
    }
    while (!starts_with_quotes(l, l->at, quote, quotes)) {
        int c = byte_at(l, l->at);
        if (c < 0 || (quotes == 1 && (c == '\n' || c == '\r'))) {
            cel_problem_add(l->problems, l->text, t->offset, "this %s has no end",
                            is_bytes ? "bytes literal" : "string");
            t->kind = TOKEN_WRONG;
            break;
        }
        l->at++;
        if (c != '\\' || is_raw) {
            to[size++] = (char)c;
        } else {
            lex_escape(l, is_bytes, to, &size);
        }
    }
    if (t->kind != TOKEN_WRONG) l->at += quotes;
    arena_trim(l->arena, to, room, size);
    t->text = str_of(to, size);
}

/* r"", b"", br"" in either case; the grammar has no rb"". */
static bool string_prefix(const struct cel_lexer *l, bool *ret_raw, bool *ret_bytes,
                          uint32_t *ret_quote)
{
    uint32_t at = l->at;
    *ret_raw = *ret_bytes = false;
    for (; at < l->at + 2; at++) {
        int c = byte_at(l, at) | 0x20;
        if (c == 'r' && !*ret_raw)
            *ret_raw = true;
        else if (c == 'b' && !*ret_bytes && !*ret_raw)
            *ret_bytes = true;
        else
            break;
    }
    *ret_quote = at;
    return byte_at(l, at) == '"' || byte_at(l, at) == '\'';
}

/* ---- operators ---- */

static enum cel_token_kind lex_operator(struct cel_lexer *l)
{
    static const struct {
        char text[3];
        enum cel_token_kind kind;
    } operators[] = {{"==", TOKEN_EQUAL},       {"!=", TOKEN_UNEQUAL},
                     {"<=", TOKEN_LESS_EQUAL},  {">=", TOKEN_GREATER_EQUAL},
                     {"&&", TOKEN_AND},         {"||", TOKEN_OR},
                     {".", TOKEN_POINT},        {",", TOKEN_COMMA},
                     {":", TOKEN_COLON},        {"?", TOKEN_QUESTION},
                     {"(", TOKEN_OPEN},         {")", TOKEN_CLOSE},
                     {"[", TOKEN_OPEN_BRACKET}, {"]", TOKEN_CLOSE_BRACKET},
                     {"{", TOKEN_OPEN_BRACE},   {"}", TOKEN_CLOSE_BRACE},
                     {"+", TOKEN_PLUS},         {"-", TOKEN_MINUS},
                     {"*", TOKEN_STAR},         {"/", TOKEN_SLASH},
                     {"%", TOKEN_PERCENT},      {"!", TOKEN_NOT},
                     {"<", TOKEN_LESS},         {">", TOKEN_GREATER}};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        struct str text = str_from(operators[i].text);
        if (!str_starts(str_skip(l->text, l->at), text)) continue;
        l->at += (uint32_t)text.size;
        return operators[i].kind;
    }
    return TOKEN_WRONG;
}

static const char *advice(int c)
{
    switch (c) {
    case '=': return "; equality is ==";
    case '&': return "; \"and\" is &&";
    case '|': return "; \"or\" is ||";
    case '`': return "; back quotes are for fields, behind a point";
    default: return "";
    }
}

void cel_lex(struct cel_lexer *l, struct cel_token *t)
{
    skip_blanks(l);
    *t = (struct cel_token){.offset = l->at};
    bool is_raw, is_bytes;
    uint32_t quote;
    int c = byte_at(l, l->at);
    if (c < 0) {
        t->kind = TOKEN_END;
    } else if (string_prefix(l, &is_raw, &is_bytes, &quote)) {
        l->at = quote;
        lex_string(l, t, is_raw, is_bytes);
    } else if (is_letter(c)) {
        lex_word(l, t);
    } else if (is_digit(c) || (c == '.' && is_digit(byte_at(l, l->at + 1)))) {
        lex_number(l, t);
    } else if (c == '`') {
        lex_quoted_name(l, t);
    } else if ((t->kind = lex_operator(l)) == TOKEN_WRONG) {
        uint32_t end = l->at + 1;
        while (end < l->text.size && ((unsigned char)l->text.bytes[end] & 0xC0) == 0x80) end++;
        cel_problem_add(l->problems, l->text, l->at, "\"%.*s\" does not belong here%s",
                        (int)(end - l->at), l->text.bytes + l->at, advice(c));
        l->at = end;
    }
    t->end = l->at;
}

const char *cel_token_name(enum cel_token_kind kind)
{
    static const char *const names[] = {
        [TOKEN_END] = "the end",        [TOKEN_WRONG] = "this",
        [TOKEN_IDENT] = "a name",       [TOKEN_INT] = "a number",
        [TOKEN_UINT] = "a number",      [TOKEN_DOUBLE] = "a number",
        [TOKEN_STRING] = "a string",    [TOKEN_BYTES] = "bytes",
        [TOKEN_TRUE] = "\"true\"",      [TOKEN_FALSE] = "\"false\"",
        [TOKEN_NULL] = "\"null\"",      [TOKEN_IN] = "\"in\"",
        [TOKEN_POINT] = "\".\"",        [TOKEN_COMMA] = "\",\"",
        [TOKEN_COLON] = "\":\"",        [TOKEN_QUESTION] = "\"?\"",
        [TOKEN_OPEN] = "\"(\"",         [TOKEN_CLOSE] = "\")\"",
        [TOKEN_OPEN_BRACKET] = "\"[\"", [TOKEN_CLOSE_BRACKET] = "\"]\"",
        [TOKEN_OPEN_BRACE] = "\"{\"",   [TOKEN_CLOSE_BRACE] = "\"}\"",
        [TOKEN_PLUS] = "\"+\"",         [TOKEN_MINUS] = "\"-\"",
        [TOKEN_STAR] = "\"*\"",         [TOKEN_SLASH] = "\"/\"",
        [TOKEN_PERCENT] = "\"%\"",      [TOKEN_NOT] = "\"!\"",
        [TOKEN_EQUAL] = "\"==\"",       [TOKEN_UNEQUAL] = "\"!=\"",
        [TOKEN_LESS] = "\"<\"",         [TOKEN_LESS_EQUAL] = "\"<=\"",
        [TOKEN_GREATER] = "\">\"",      [TOKEN_GREATER_EQUAL] = "\">=\"",
        [TOKEN_AND] = "\"&&\"",         [TOKEN_OR] = "\"||\"",
    };
    return names[kind];
}
