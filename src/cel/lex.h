/* lex.h - bytes of an expression to tokens; this room only.
 *
 *   IDENT   [_a-zA-Z][_a-zA-Z0-9]*, and `any text` between back quotes after a point
 *   INT     123  0x1F           UINT   123u  0x1Fu        DOUBLE  1.5  .5  1e3
 *   STRING  "a" 'a' """a""" '''a''', r before it: raw      BYTES   b before it
 *
 * A minus is never part of a number here: the parser adds it, so that -9223372036854775808 can be
 * written. The lexer makes one token at a time. An error becomes a problem, and the lexer still
 * makes a token of the same kind, so that one pass finds several mistakes. */
#ifndef CEL_LEX_H
#define CEL_LEX_H

#include "cel/problems.h"
#include "cel/value.h"

enum cel_token_kind {
    TOKEN_END,
    TOKEN_WRONG, /* a problem was reported already */
    TOKEN_IDENT,
    TOKEN_INT,
    TOKEN_UINT,
    TOKEN_DOUBLE,
    TOKEN_STRING,
    TOKEN_BYTES,
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
    TOKEN_IN,
    TOKEN_POINT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_QUESTION,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_OPEN_BRACKET,
    TOKEN_CLOSE_BRACKET,
    TOKEN_OPEN_BRACE,
    TOKEN_CLOSE_BRACE,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_STAR,
    TOKEN_SLASH,
    TOKEN_PERCENT,
    TOKEN_NOT,
    TOKEN_EQUAL,
    TOKEN_UNEQUAL,
    TOKEN_LESS,
    TOKEN_LESS_EQUAL,
    TOKEN_GREATER,
    TOKEN_GREATER_EQUAL,
    TOKEN_AND,
    TOKEN_OR,
};

struct cel_token {
    enum cel_token_kind kind;
    uint32_t offset;    /* first byte in the text */
    uint32_t end;       /* one past its last */
    bool is_reserved;   /* IDENT: a word that no variable may have */
    bool is_quoted;     /* IDENT: written between back quotes */
    uint64_t magnitude; /* INT, UINT */
    double number;      /* DOUBLE */
    struct str text;    /* IDENT: in the source; STRING, BYTES: unescaped, in the arena */
};

struct cel_lexer {
    struct str text;
    uint32_t at;
    struct arena *arena;
    struct cel_problems *problems;
};

void cel_lex(struct cel_lexer *l, struct cel_token *ret);

/* "a name", "\")\"": what a token is, for messages. */
const char *cel_token_name(enum cel_token_kind kind);

#endif
