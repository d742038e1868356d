/* policy.h - what the files of `writ policy` and `writ authorize` share. */
#ifndef CLI_POLICY_H
#define CLI_POLICY_H

#include "cli/cli.h"
#include "policy/policy.h"

/* "a/payments.yaml" → "payments". */
struct str policy_name_of(struct str path);

int policy_put_set(struct cli *c, const struct arguments *a);     /* policy_apply.c */
int policy_run_check(struct cli *c, const struct arguments *a);   /* check.c */
int policy_run_test(struct cli *c, const struct arguments *a);    /* policy_test.c */
int policy_run_diff(struct cli *c, const struct arguments *a);    /* policy_diff.c */
int policy_run_import(struct cli *c, const struct arguments *a);  /* policy_import.c */
int policy_run_explain(struct cli *c, const struct arguments *a); /* authorize.c */

extern const struct flag ask_flags[]; /* the flags that describe a request */
extern const struct flag policy_check_flags[], policy_test_flags[], policy_diff_flags[],
    policy_import_flags[];

/* ---- documents in files (policy_files.c) ---- */

struct policy_files {
    const char **paths; /* in the run's arena */
    size_t count, room;
};

/* Adds FILE, or all documents in the folder of that name and below. Prints its own error: DONE or a
 * code. */
int policy_files_add(struct cli *c, const char *path, struct policy_files *files);

bool policy_is_folder(const char *path); /* "-" is none */

/* The document of a file ("-": standard input); the caller releases it. REFUSED: the text is no
 * document; the problems have the reasons, or an error was printed. USAGE: the file cannot be read,
 * and an error was printed. */
int policy_file_load(struct cli *c, const char *file, bool tested, struct policy_document **ret,
                     struct policy_problems *problems);

/* Its two steps: reading the file and loading the text. */
int policy_file_text(struct cli *c, const char *file, struct str *ret);
int policy_text_load(struct cli *c, const char *file, struct str text, bool tested,
                     struct policy_document **ret, struct policy_problems *problems);

/* A file's name made safe to print. */
struct str policy_file_shown(struct cli *c, const char *file);
/* The file's name as a JSON string, made safe if its bytes are no text. */
void policy_put_file(struct cli *c, struct buf *json, const char *file);

/* One problem or warning as FILE:LINE:COLUMN, or as an element of a JSON list in `json`
 * (check.c). */
void policy_put_problem(struct cli *c, struct buf *json, const char *file, const char *kind,
                        const struct policy_problem *p);

/* ---- what conditions cost (policy_cost.c) ---- */

/* Warns if some of the newest recorded requests would cost more than a decision may by default, with
 * these documents alone: `put` is {content, name}, or {policies: [these]}. Says nothing if the key may
 * not read the audit trail. */
void policy_warn_dear(struct cli *c, struct str name, struct str put);

/* ---- recorded requests (policy_corpus.c) ---- */

struct policy_recorded {
    struct policy_request request; /* views of the line and the arena */
    bool is_cut;                   /* a value was masked, or left out because of its size */
    /* its approval was redeemed: people have approved what the rules asked for */
    bool is_redemption;
    bool was_let_through; /* an allow, or a compute */
    /* limits count it, if it is let through. False if it was denied whatever the policies are: by
     * its token, by a suspension, by the state of its review */
    bool is_counted;
    struct str retry; /* its Idempotency-Key, or absent */
    struct str key_id;
    uint64_t order; /* of events of the same time: in which they were stored; or 0 */
    uint64_t line;  /* of its file, from 1 (policy_history_read() only) */
};

enum recorded { RECORDED_REQUEST, RECORDED_OTHER, RECORDED_WRONG };

/* One line of a corpus as a request. OTHER: a dry run, or an event that is no decision, or has no
 * subject or action. WRONG: the fault has the reason. */
enum recorded policy_recorded_read(const struct json *line, struct arena *arena,
                                   struct policy_recorded *ret, struct fault *f);

/* ---- a corpus in the order of time (policy_history.c) ---- */

/* Calls `each` for every request of the file ("-": standard input), in the order of their times. A
 * request lives until the next one; a retry of one that was let through is not counted again.
 * Prints its own error: DONE, or a code. */
typedef void policy_history_each(void *context, const struct policy_recorded *recorded);
int policy_history_read(struct cli *c, struct str corpus, policy_history_each *each, void *context,
                        uint64_t *ret_others);

#endif
