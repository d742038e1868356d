/* cli.h - `writ`, the command line: what its commands share.
 *
 * A command is a row: its words, its flags, its help text, its function. The function gets the
 * resolved global options and its own arguments. It writes results to c->out and errors to c->err,
 * and returns the exit status:
 *
 *   0  done, allowed, valid      2  the command line is wrong
 *   1  refused, denied, invalid  3  a program cannot be reached */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "access/token.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"
#include "base/arguments.h"
#include "cli/table.h"
#include "json/json.h"

enum { DONE = 0, REFUSED = 1, USAGE = 2, UNREACHABLE = 3 };

struct cli {
    FILE *out, *err;
    char **environment;
    unsigned width; /* of the terminal; 0: not one */
    bool colours;
    bool json;
    struct str engine, platform;
    struct str tenant;   /* absent: not given */
    struct str key_file; /* absent: WRIT_KEY */
    /* the content of a key_file that is a pipe, such as <(…): it can be read only once */
    char key[TOKEN_TEXT_MAX];
    size_t key_size;
    struct arena arena;                           /* lives as long as the run */
    struct http_client *clients[2];               /* by enum side, made when needed */
    struct str ca_file, cert_file, cert_key_file; /* absent: none */
    bool insecure_peers;
    struct tls *tls; /* for https://, made when needed */
};

struct command {
    const char *group;   /* "key"; NULL: stands alone */
    const char *name;    /* "create"; "": the group's word alone */
    const char *usage;   /* "NAME [FILE]" */
    const char *summary; /* one line */
    const char *text;    /* more help; may be NULL */
    const struct flag *flags;
    size_t words_least, words_most;
    int (*run)(struct cli *c, const struct arguments *a);
};

/* Each file's commands, ended by a row without a name; in the order of help. */
#define COMMAND_TABLES(each)                                                                       \
    each(authorize_commands) each(queue_commands) each(token_commands) each(signer_commands)       \
        each(actor_commands) each(engine_commands) each(fleet_commands) each(audit_commands)       \
            each(evidence_commands) each(policy_commands) each(key_commands) each(set_commands)    \
                each(top_commands) each(doctor_commands) each(docs_commands) each(cel_commands)    \
                    each(hook_commands)
#define COMMAND_TABLE(name) extern const struct command name[];
COMMAND_TABLES(COMMAND_TABLE)
#undef COMMAND_TABLE

/* The whole program. */
int cli_run(int argc, char **argv, char **environment, FILE *out, FILE *err);
/* Becomes writ-hook with this command line. Returns an exit status if that is not possible. */
int hook_start(int argc, char **argv);
/* `writ doctor hook AGENT` */
int hook_doctor(struct cli *c, const struct arguments *a);

/* ---- help (help.c) ---- */

extern const struct flag global_flags[];
const struct command *command_at(size_t index); /* all, in the order of help; NULL at the end */
void help_all(FILE *out);
void help_group(FILE *out, struct str group);
void help_command(FILE *out, const struct command *command);

/* ---- talking (talk.c) ---- */

/* "writ: <text>" on c->err; returns `code`. */
int cli_complain(struct cli *c, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int cli_complain_fault(struct cli *c, int code, const struct fault *f);
void print_str(FILE *out, struct str s);
/* Whether all output was written: a large write may fail before the last flush. */
bool print_end(FILE *out);
/* One line of JSON. */
void print_json(struct cli *c, struct str json);
/* In colour if the terminal has colours: "allow" green, "deny" red, … */
void print_verdict(struct cli *c, struct str verdict);
/* A JSON value as one cell: strings without quotes, lists with commas, other values unchanged. */
struct str value_shown(struct cli *c, const struct json *v);
struct str member_shown(struct cli *c, const struct json *object, const char *name);
/* Whether a resource has more than its type and id. */
bool resource_has_more(const struct json *resource);
/* Prints aligned lines "name   value"; an absent value prints nothing. */
void print_field(struct cli *c, const char *name, struct str value);

struct str environment_value(const struct cli *c, const char *name); /* absent: unset or empty */

/* The file's text ("-": standard input), at most `most` bytes, in the arena. Prints its own error:
 * DONE or USAGE. */
int file_text(struct cli *c, struct str path, size_t most, struct str *ret);
/* Now minus a span ("1h"), or an RFC 3339 time, as RFC 3339. */
bool time_or_ago(struct cli *c, struct str text, struct str *ret);
/* Now plus a span, or an RFC 3339 time. */
bool time_or_in(struct cli *c, struct str text, struct str *ret);
/* The value of a metric, named with its labels, in the text of /metrics; false if the text does not
 * have it. */
bool metric_find(struct str scrape, const char *name, double *ret);

/* ---- calling (call.c) ---- */

enum side { SIDE_ENGINE, SIDE_PLATFORM };

struct request {
    enum side side;
    const char *method;
    struct str target, body; /* body absent: none */
    struct str if_match, if_none_match;
    bool without_key;
    /* prints errors of the command line only: the caller prints failures */
    bool quiet;
    bool may_overflow;   /* the caller handles an answer that is too large for the arena */
    bool is_raw;         /* the answer is not read as JSON */
    unsigned timeout_ms; /* 0: half a minute */
    /* printed too if the request is refused with that code; NULL: nothing */
    const char *hint_code, *hint;
};

struct reply {
    int status;            /* 0: not reached */
    struct str body;       /* in the arena */
    struct json *root;     /* NULL: not JSON */
    struct str date, etag; /* headers; absent: not sent */
    struct fault fault;    /* why the program was not reached */
};

/* DONE: 2xx, with an answer. Else an error was printed: REFUSED, USAGE (no key), UNREACHABLE. */
int cli_call(struct cli *c, const struct request *r, struct reply *ret);
/* Posts a body with a --reason (from cli_scratch) to the platform; with --json it prints the answer. */
int cli_post(struct cli *c, const char *path, const struct buf *body, struct reply *ret);
/* Prints an answer's list of policy problems, one a line; `kind` is "warning: " or "". */
void cli_tell_problems(struct cli *c, const char *kind, const struct json *list);

/* The time at the program, to the second, or here if the answer has none; ms since 1970 UTC. */
uint64_t reply_now_ms(const struct reply *r);

struct str side_address(const struct cli *c, enum side side);

/* Whether it looks like a minted token (three parts of base64url). */
bool is_token_text(struct str text);

/* The credential, an API key or a token, from WRIT_KEY or the file. Prints its own error. */
int cli_credential(struct cli *c, struct str *ret);

/* A target under construction, percent-encoded. */
struct target {
    struct buf text;
    bool has_query;
};
void target_init(struct cli *c, struct target *t, const char *path);
void target_segment(struct target *t, struct str segment);               /* "/" + it */
void target_query(struct target *t, const char *name, struct str value); /* absent: nothing */
void target_tenant(struct target *t, const struct cli *c);
/* absent: the target is too long, which cli_call() reports */
struct str target_text(const struct target *t);

/* ---- lists, a page at a time (page.c) ---- */

/* Rows of a table of flags. */
#define PAGE_FLAGS(default_limit)                                                                  \
    {"limit", "N", "the most rows to show (default " default_limit ")"},                           \
    {                                                                                              \
        "cursor", "N", "continue where an earlier page ended"                                      \
    }

/* DONE, or USAGE if those flags are wrong; then an error was printed. */
int check_page(struct cli *c, const struct arguments *a);
/* Adds the cells of one row. */
typedef void page_row(struct cli *c, struct table *t, const struct json *one);
/* Prints the answer unchanged (--json), or a table of its array `name` and the next cursor. */
void print_list(struct cli *c, const struct reply *r, const char *name, const char *const *heads,
                page_row *add);

struct listing {
    enum side side;
    const char *name; /* of the array in the answer */
    const char *const *heads;
    page_row *add;
    const char *default_limit;
};
/* Requests and prints the page that those flags name; `t` is the path of the list. */
int page_list(struct cli *c, const struct arguments *a, struct target *t, const struct listing *l);

/* A buffer that lives as long as the run. */
struct buf cli_scratch(struct cli *c, size_t size);

/* Appends `,"name":"text"` to an object that begins with "{"; absent: appends nothing. */
void put_text_member(struct buf *out, const char *name, struct str text);
void put_raw_member(struct buf *out, const char *name, struct str json);
/* "a,b,c" as a list of strings. */
void put_list_member(struct buf *out, const char *name, struct str list);

#endif
