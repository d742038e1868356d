/* shell.c - see shell.h. One walk from left to right that copies each word without its quotes. */
#include "cel/shell.h"

enum { REDIRECTION_SEEN = 1 << 10 }; /* beside the bits of ten descriptors */

static bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Characters that mean themselves to every shell, wherever they stand in a word. */
static bool is_plain(char c)
{
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '/' || c == '_' ||
           c == ',' || c == ':' || c == '@' || c == '%' || c == '+';
}

/* NAME of NAME=…. */
static bool is_variable(struct str text)
{
    if (text.size == 0 || is_digit(text.bytes[0])) return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (!is_letter(c) && !is_digit(c) && c != '_') return false;
    }
    return true;
}

static bool is_printed(char c) { return c >= ' ' && c < 0x7F; }

static const char not_text[] = "a control character, or one that is not ASCII";
static const char not_quoted[] = "a sign of the shell outside of quotes; write it in '…'";

struct cel_shell cel_shell_start(struct str text, char *room)
{
    return (struct cel_shell){.text = text, .room = room, .state = SHELL_BEFORE};
}

/* The byte at the position; NUL at the end, and for a NUL, which is refused as any control. */
static char peek(const struct cel_shell *s)
{
    return s->at < s->text.size ? s->text.bytes[s->at] : '\0';
}

static char peek_second(const struct cel_shell *s)
{
    return s->at + 1 < s->text.size ? s->text.bytes[s->at + 1] : '\0';
}

static bool is_at_end(const struct cel_shell *s) { return s->at == s->text.size; }

static struct cel_shell_item refuse(struct cel_shell *s, size_t at, const char *why)
{
    s->at = at;
    s->state = SHELL_NONE;
    return (struct cel_shell_item){.part = SHELL_REFUSED, .text = str_from(why)};
}

/* ---- words ---- */

/* A word as it is written, and as it is without quotes. */
struct word {
    struct str text;
    size_t from;     /* in the line */
    size_t variable; /* bytes of the NAME of NAME=…, or 0; its = is not quoted */
    bool is_quoted;  /* some of it */
    const char *wrong;
};

static void put(struct cel_shell *s, char c) { s->room[s->used++] = c; }

/* From the quote on to the one that closes it. */
static const char *take_single(struct cel_shell *s)
{
    for (s->at++; peek(s) != '\''; s->at++) {
        if (is_at_end(s)) return "a quote that is not closed";
        if (!is_printed(peek(s)) && peek(s) != '\n') return not_text;
        put(s, peek(s));
    }
    s->at++;
    return NULL;
}

static const char *take_double(struct cel_shell *s)
{
    for (s->at++; peek(s) != '"'; s->at++) {
        char c = peek(s), second = peek_second(s);
        if (is_at_end(s)) return "a quote that is not closed";
        if (!is_printed(c) && c != '\n') return not_text;
        if (c == '$' || c == '`' || c == '!') return "$, ` or ! in double quotes; write '…'";
        if (c == '\\' && second == '\n') return "a \\ before a line break";
        if (c == '\\' && (second == '$' || second == '`' || second == '"' || second == '\\'))
            s->at++;
        put(s, peek(s));
    }
    s->at++;
    return NULL;
}

static const char *take_escape(struct cel_shell *s)
{
    s->at++;
    if (is_at_end(s)) return "a \\ at the end";
    if (peek(s) == '\n') return "a \\ before a line break";
    if (!is_printed(peek(s))) return not_text;
    put(s, peek(s));
    s->at++;
    return NULL;
}

/* An = outside of quotes. zsh reads =ls, and a=:=ls, as the path of ls. */
static const char *take_equals(struct cel_shell *s, struct word *w)
{
    char before = s->at > w->from ? s->text.bytes[s->at - 1] : '=';
    if (before == '=' || before == ':') return "a = at this place; write it in '…'";
    size_t size = s->used - (size_t)(w->text.bytes - s->room);
    if (w->variable == 0 && !w->is_quoted && is_variable(str_of(w->text.bytes, size)))
        w->variable = size;
    put(s, '=');
    s->at++;
    return NULL;
}

/* Up to a blank, a line break, an operator or the end. */
static struct word take_word(struct cel_shell *s)
{
    struct word w = {.text = str_of(s->room + s->used, 0), .from = s->at};
    size_t before = s->used;
    while (!is_at_end(s) && w.wrong == NULL) {
        char c = peek(s);
        if (is_plain(c)) {
            put(s, c);
            s->at++;
        } else if (c == '=') {
            w.wrong = take_equals(s, &w);
        } else if (c == '\'' || c == '"' || c == '\\') {
            w.is_quoted = true;
            w.wrong = c == '\'' ? take_single(s) : c == '"' ? take_double(s) : take_escape(s);
        } else if (c == ' ' || c == '\n' || c == ';' || c == '|' || c == '&' || c == '<' ||
                   c == '>') {
            break;
        } else {
            w.wrong = is_printed(c) ? not_quoted : not_text;
        }
    }
    w.text.size = s->used - before;
    return w;
}

/* ---- commands ---- */

/* Reserved words of some shell, and commands that change how the rest of the line is read. They are
 * refused in quotes, too, where shells run a command of that name. */
static bool is_reserved(struct str name)
{
    static const char *const of_size[] = {
        [2] = "if fi do in",
        [3] = "for end set",
        [4] = "then else elif done case esac time",
        [5] = "while until alias shopt",
        [6] = "select coproc repeat noglob setopt",
        [7] = "foreach unalias emulate",
        [8] = "function unsetopt",
        [9] = "nocorrect",
    };
    if (name.size >= sizeof of_size / sizeof of_size[0]) return false;
    const char *word = of_size[name.size];
    while (word != NULL && memcmp(word, name.bytes, name.size) != 0)
        word = word[name.size] == ' ' ? word + name.size + 1 : NULL;
    return word != NULL;
}

static const char *wrong_in_name(struct str name)
{
    if (name.size == 0 || name.bytes[0] == '-' || name.bytes[0] == '%')
        return "an empty name of a command, or one that begins with - or %";
    for (size_t i = 0; i < name.size; i++)
        if (!is_plain(name.bytes[i])) return "a name of a command that is not plain";
    return is_reserved(name) ? "a reserved word, or a command that changes how a shell reads"
                             : NULL;
}

static struct cel_shell_item next_word(struct cel_shell *s)
{
    struct word w = take_word(s);
    if (w.wrong != NULL) return refuse(s, s->at, w.wrong);
    if (s->state == SHELL_TAIL)
        return (struct cel_shell_item){.part = SHELL_ARGUMENT, .text = w.text};
    if (w.variable > 0) {
        if ((s->redirected & REDIRECTION_SEEN) != 0)
            return refuse(s, w.from, "an assignment behind a redirection; write it in front");
        struct str value = str_skip(w.text, w.variable + 1);
        if (str_find(value, '$') < value.size || str_find(value, '`') < value.size)
            return refuse(s, w.from, "$ or ` in an assigned value");
        return (struct cel_shell_item){
            .part = SHELL_ASSIGNMENT, .text = value, .sign = str_of(w.text.bytes, w.variable)};
    }
    const char *wrong = wrong_in_name(w.text);
    if (wrong != NULL) return refuse(s, w.from, wrong);
    s->state = SHELL_TAIL;
    return (struct cel_shell_item){.part = SHELL_NAME, .text = w.text};
}

static void skip_blanks(struct cel_shell *s)
{
    while (peek(s) == ' ') s->at++;
}

/* At < or >, or the digit in front of it. Directly behind a file zsh reads another < or > as a part
 * of a pattern (<1-9>). */
static struct cel_shell_item next_redirection(struct cel_shell *s)
{
    static const char others[] = "a redirection other than <, >, >> and >& with a digit";
    struct cel_shell_item item = {.part = SHELL_REDIRECTION};
    size_t from = s->at;
    bool has_digit = is_digit(peek(s));
    item.descriptor = peek(s) == '<' ? 0 : 1;
    if (has_digit) item.descriptor = (unsigned)(s->text.bytes[s->at++] - '0');
    item.sign = peek(s) == '<' ? STR("<") : STR(">");
    s->at++;
    if (peek(s) == '>' && item.sign.bytes[0] == '>') {
        item.sign = STR(">>");
        s->at++;
    } else if (peek(s) == '&' && item.sign.bytes[0] == '>') {
        item.sign = STR(">&");
        s->at++;
        if (!is_digit(peek(s))) return refuse(s, from, others);
    }
    char c = peek(s);
    if (c == '<' || c == '>' || c == '&' || c == '|') return refuse(s, from, others);
    bool is_input = item.sign.bytes[0] == '<'; /* beside a pipe zsh refuses the other direction */
    if (is_input ? item.descriptor == 1 || item.descriptor == 2 : item.descriptor == 0)
        return refuse(s, from, "< for output, or > for input");
    skip_blanks(s);
    size_t at = s->at;
    struct word w = take_word(s);
    if (w.wrong != NULL) return refuse(s, s->at, w.wrong);
    if (w.text.size == 0) return refuse(s, at, "a redirection without a file");
    if (item.sign.size == 2 && item.sign.bytes[1] == '&' && (w.text.size != 1 || w.is_quoted))
        return refuse(s, from, others);
    if (str_starts(w.text, STR("/dev/tcp/")) || str_starts(w.text, STR("/dev/udp/")))
        return refuse(s, at, "a file that bash takes for a connection");
    if (peek(s) == '<' || peek(s) == '>')
        return refuse(s, s->at, "a redirection directly behind a file; write a blank between");
    item.text = w.text;
    if ((s->redirected >> item.descriptor & 1) != 0)
        return refuse(s, from, "a descriptor that is redirected twice");
    s->redirected |= REDIRECTION_SEEN | 1u << item.descriptor;
    return item;
}

static bool is_redirection(const struct cel_shell *s)
{
    char c = peek(s), second = peek_second(s);
    return c == '<' || c == '>' || (is_digit(c) && (second == '<' || second == '>'));
}

/* A number of several digits in front of < or > is a descriptor to some shells only. */
static bool is_long_descriptor(const struct cel_shell *s)
{
    size_t at = s->at;
    while (at < s->text.size && is_digit(s->text.bytes[at])) at++;
    return at > s->at + 1 && at < s->text.size &&
           (s->text.bytes[at] == '<' || s->text.bytes[at] == '>');
}

static void skip_lines(struct cel_shell *s)
{
    while (peek(s) == ' ' || peek(s) == '\n') s->at++;
}

/* The operator behind a command; absent: it is none. */
static struct str take_operator(struct cel_shell *s)
{
    char c = peek(s);
    bool is_double = (c == '&' || c == '|') && peek_second(s) == c;
    struct str sign = c == '\n' || c == ';'   ? STR(";")
                      : c == '&' && is_double ? STR("&&")
                      : c == '|'              ? is_double ? STR("||") : STR("|")
                                              : (struct str){0};
    s->at += sign.size;
    return sign;
}

static struct cel_shell_item next_operator(struct cel_shell *s)
{
    size_t from = s->at;
    struct str sign = take_operator(s);
    if (str_is_absent(sign)) return refuse(s, from, "a & outside of &&");
    skip_lines(s);
    if (is_at_end(s) && sign.bytes[0] == ';') {
        s->state = SHELL_NONE;
        return (struct cel_shell_item){.part = SHELL_END};
    }
    s->state = SHELL_HEAD;
    s->redirected = str_equal(sign, STR("|")); /* the pipe is descriptor 0 */
    return (struct cel_shell_item){.part = SHELL_COMMAND, .sign = sign};
}

struct cel_shell_item cel_shell_next(struct cel_shell *s)
{
    if (s->state == SHELL_NONE) return (struct cel_shell_item){.part = SHELL_END};
    if (s->state == SHELL_BEFORE) {
        if (s->text.size > SHELL_BYTES_MAX) return refuse(s, SHELL_BYTES_MAX, "longer than 64 KiB");
        skip_lines(s);
        s->state = SHELL_HEAD;
        return (struct cel_shell_item){.part = SHELL_COMMAND, .sign = STR("")};
    }
    skip_blanks(s);
    char c = peek(s);
    bool is_over = is_at_end(s) || c == '\n' || c == ';' || c == '&' || c == '|';
    if (is_over && s->state == SHELL_HEAD) return refuse(s, s->at, "a command without a name");
    if (is_at_end(s)) {
        s->state = SHELL_NONE;
        return (struct cel_shell_item){.part = SHELL_END};
    }
    if (is_over) return next_operator(s);
    if (is_redirection(s)) return next_redirection(s);
    if (is_long_descriptor(s)) return refuse(s, s->at, "a descriptor above 9");
    return next_word(s);
}
