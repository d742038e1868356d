/* policy_set.h - the documents in force of a tenant as one set.
 *
 * A change may depend on documents that it does not touch: a rule may name a role that another
 * document defines. The platform therefore knows, for each document in force, which roles it
 * defines and names, and why it would be refused if it were new (policy.h). These facts are stored
 * by the digest of the text, so each text is loaded only once for all uses: a check, a change, or
 * the look at all documents after the store has moved. */
#ifndef PLATFORM_POLICY_SET_H
#define PLATFORM_POLICY_SET_H

#include "store/policy_store.h"
#include "policy/policy.h"

enum {
    SET_PROBLEMS_MAX = POLICY_PROBLEMS_MAX,
    SET_REPORTED_MAX = 20,          /* documents in the list; all are counted */
    SET_LOADED_BYTES_MAX = 2 << 20, /* bytes of texts that one policy_report_make() loads */
};

/* The facts of texts, by digest. Any thread may use it. */
struct policy_book;
struct policy_book *policy_book_create(void);
void policy_book_destroy(struct policy_book *b);
/* Keeps the facts of a document that was loaded for another reason. */
void policy_book_note(struct policy_book *b, const struct policy_document *d);

/* ---- may this change be made? ---- */

struct set_problem {
    char policy[POLICY_NAME_MAX + 1];
    size_t step;        /* the step that causes it; SIZE_MAX: none, another document has it */
    bool is_taken_away; /* the document does not change, and had the role before */
    struct policy_problem problem;
};

/* Checks that each role that a rule of the resulting set names is defined in it. If a changed
 * document lacks a role: ERR_INVALID_POLICY. If an unchanged document loses one: ERR_ROLE_IN_USE.
 * Unchanged documents that lacked it before do not refuse the change. */
struct set_guard {
    struct policy_guard guard;
    struct policy_book *book;
    bool force;            /* makes the change in spite of it, and records that */
    bool spares_unchanged; /* a document whose text is already in force counts as unchanged */
    size_t problem_count;
    struct set_problem problems[SET_PROBLEMS_MAX];
    char forced[512];
};
void set_guard_init(struct set_guard *g, struct policy_book *book);

/* ---- documents in force that would be refused today ---- */

struct policy_report {
    bool is_complete;  /* false: more texts must be loaded, make it again */
    uint64_t revision; /* the store's revision at its begin */
    size_t documents;  /* documents that would be refused, or do not load */
    /* `"policies":[{column,line,path,policy,problem}]}`, the end of an object, with the first
     * SET_REPORTED_MAX. Health shows it, which anybody may read, so quoted parts are left out. */
    char json[24 << 10];
};
/* On a reader. Logs the problems that are new since `before` (may be NULL). */
enum err policy_report_make(struct policy_book *b, struct store *s,
                            const struct policy_report *before, struct policy_report *ret,
                            struct fault *f);

#endif
