/* policy_set.h - the documents in force of a tenant as one set.
 *
 * Whether a change may be made can depend on documents that it does not touch: a rule may name a
 * role that another document defines. The platform therefore knows, for each document in force,
 * which roles it defines and names, and what it would be refused for if it were new (policy.h).
 * That is kept by the digest of the text, so each text is loaded once, whoever asks first: a check,
 * a change, or the look at all of them when the store has moved. */
#ifndef PLATFORM_POLICY_SET_H
#define PLATFORM_POLICY_SET_H

#include "pipeline/ingest/policy_store.h"
#include "policy/policy.h"

enum {
    SET_PROBLEMS_MAX = POLICY_PROBLEMS_MAX,
    SET_REPORTED_MAX = 20,          /* documents that are listed; all are counted */
    SET_LOADED_BYTES_MAX = 2 << 20, /* of texts, by one policy_report_make() */
};

/* What is known of texts, by digest. Any thread. */
struct policy_book;
struct policy_book *policy_book_create(void);
void policy_book_destroy(struct policy_book *b);
/* What a document is that was loaded for another reason. */
void policy_book_note(struct policy_book *b, const struct policy_document *d);

/* ---- may this change be made? ---- */

struct set_problem {
    char policy[POLICY_NAME_MAX + 1];
    size_t step; /* which of the changes brings it; SIZE_MAX: none, another document has it */
    bool is_taken_away; /* the document is not changed, and had what it needs before */
    struct policy_problem problem;
};

/* Every role that a rule of the resulting set names is defined in it. Where one of the changed
 * documents is at fault: ERR_INVALID_POLICY; where a document that stays loses what it needs:
 * ERR_ROLE_IN_USE. Documents that stay and lacked it before are no obstacle. */
struct set_guard {
    struct policy_guard guard;
    struct policy_book *book;
    bool force;            /* it is done all the same, and recorded */
    bool spares_unchanged; /* a document whose text is in force already counts as one that stays */
    size_t problem_count;
    struct set_problem problems[SET_PROBLEMS_MAX];
    char forced[512];
};
void set_guard_init(struct set_guard *g, struct policy_book *book);

/* ---- what would be refused today of what is in force ---- */

struct policy_report {
    bool is_complete;  /* false: more texts are to be loaded, make it again */
    uint64_t revision; /* of the store when it was begun */
    size_t documents;  /* that would be refused, or do not load */
    /* `"policies":[{column,line,path,policy,problem}]}`, the end of an object, with the first
     * SET_REPORTED_MAX. Health shows it, which anybody may read: what stands in quotes is left out. */
    char json[24 << 10];
};
/* On a reader. Logs what is new since `before` (may be NULL). */
enum err policy_report_make(struct policy_book *b, struct store *s,
                            const struct policy_report *before, struct policy_report *ret,
                            struct fault *f);

#endif
