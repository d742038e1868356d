/* shell.h - strict reading of shell command lines: a line that shells read differently, or that
 * only a running shell can read, is refused; this room only.
 *
 *   line         blank lines, command { operator command } [ ";" ], blank lines
 *   operator     "&&" "||" "|" ";" or a line break, which is ";"; line breaks behind any of them
 *   command      { assignment } { redirection } name { argument | redirection }
 *   assignment   NAME "=" [ word ]
 *   redirection  [ digit ] ( "<" | ">" | ">>" ) word, or [ digit ] ">&" digit
 *   word         letters, digits, _ . / , : @ % + = -, "\" and a character, '…', "…"
 *
 * A condition permits or forbids by what it sees here, so the commands, and their words, must be
 * the ones that sh, dash, bash, ksh and zsh run. Refused is therefore, outside of quotes, every
 * other sign; in double quotes $, ` and !; anywhere a byte that is no ASCII, and every control
 * character but the line break; a reserved word, or a command that changes how the rest of the line
 * is read (alias, set -k), as the name; a name that is not plain; a command without a name; $ or `
 * in an assigned value; a descriptor that is redirected twice, 0> and 1<, which zsh reads otherwise;
 * /dev/tcp/ and /dev/udp/, which are connections to bash and files to others.
 *
 * The name is not looked up: a function, an alias or a PATH of the shell may make it another
 * program. What an argument means to its program is not known here: sh -c, xargs, env, find -exec.
 *
 * Sources: POSIX.1-2024, Shell Command Language; bash(1), dash(1), zshmisc(1), zshexpn(1).
 * tests/conformance/shell compares with bash and dash, bashlex and mvdan.cc/sh. Pure, any thread. */
#ifndef CEL_SHELL_H
#define CEL_SHELL_H

#include "base/str.h"

enum { SHELL_BYTES_MAX = 64 << 10 };

enum cel_shell_part {
    SHELL_COMMAND, /* a command begins: `sign` is the operator in front of it */
    SHELL_ASSIGNMENT,
    SHELL_NAME,
    SHELL_ARGUMENT,
    SHELL_REDIRECTION,
    SHELL_END,
    SHELL_REFUSED, /* `text` is the reason, constant; the position is reader.at */
};

struct cel_shell_item {
    enum cel_shell_part part;
    struct str text;     /* without quotes: name, argument, assigned value, file or digit */
    struct str sign;     /* operator; variable of an assignment; "<" ">" ">>" ">&" */
    unsigned descriptor; /* of a redirection, 0 to 9 */
};

/* The members are private, but for `at` after SHELL_REFUSED: the byte that is refused. */
struct cel_shell {
    struct str text;
    size_t at;
    char *room;
    size_t used;
    enum { SHELL_BEFORE, SHELL_HEAD, SHELL_TAIL, SHELL_NONE } state;
    unsigned redirected; /* descriptors of the command so far, a bit each; a pipe, too */
};

/* `room` has text.size bytes and gets the words. */
struct cel_shell cel_shell_start(struct str text, char *room);
/* The next part of the line, from left to right. After SHELL_END or SHELL_REFUSED there is none.
 * A line is only known to be good at its SHELL_END. The views point into `room`. */
struct cel_shell_item cel_shell_next(struct cel_shell *s);

#endif
