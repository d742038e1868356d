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

extern const struct flag ask_flags[]; /* what describes a request to decide */
extern const struct flag policy_check_flags[], policy_test_flags[], policy_diff_flags[],
    policy_import_flags[];

/* ---- documents in files (policy_files.c) ---- */

struct policy_files {
    const char **paths; /* in the run's arena */
    size_t count, room;
};

/* Adds FILE, or all documents in the folder of that name and below.
 * Complains itself: DONE or a code. */
int policy_files_add(struct cli *c, const char *path, struct policy_files *files);

bool policy_is_folder(const char *path); /* "-" is none */

/* The document of a file ("-": standard input), to be released. REFUSED: it is none, its problems
 * say why (or it has been told); USAGE: it cannot be read, which has been told. */
int policy_file_load(struct cli *c, const char *file, bool tested, struct policy_document **ret,
                     struct policy_problems *problems);

/* The two halves of it. */
int policy_file_text(struct cli *c, const char *file, struct str *ret);
int policy_text_load(struct cli *c, const char *file, struct str text, bool tested,
                     struct policy_document **ret, struct policy_problems *problems);

/* A file's name made safe to print. */
struct str policy_file_shown(struct cli *c, const char *file);
/* Its name as a JSON string: itself, or made safe where its bytes are no text. */
void policy_put_file(struct cli *c, struct buf *json, const char *file);

/* One problem or warning as FILE:LINE:COLUMN, or as an element of a JSON list in `json`
 * (check.c). */
void policy_put_problem(struct cli *c, struct buf *json, const char *file, const char *kind,
                        const struct policy_problem *p);

/* ---- recorded requests (policy_corpus.c) ---- */

struct policy_recorded {
    struct policy_request request; /* views of the line and the arena */
    bool is_cut;                   /* masked, or left out for its size */
};

enum recorded { RECORDED_REQUEST, RECORDED_OTHER, RECORDED_WRONG };

/* One line of a corpus as a question. OTHER: an event that is no decision, or
 * does not say who asked for what; WRONG: the fault says why. */
enum recorded policy_recorded_read(const struct json *line, struct arena *arena,
                                   struct policy_recorded *ret, struct fault *f);

#endif
