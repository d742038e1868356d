/* document.h - inside of the room: the structure of a loaded document.
 *
 * Everything in a document lies in its own arena and never changes after policy_load(), so any
 * number of sets and threads share it. The parts that depend on the tenant's other documents (the
 * members of roles, the index) are in the set. */
#ifndef POLICY_DOCUMENT_H
#define POLICY_DOCUMENT_H

#include <stdatomic.h>

#include "base/limits.h"
#include "policy/glob.h"
#include "policy/index.h"
#include "policy/node.h"
#include "policy/policy.h"

enum {
    DOCUMENT_BYTES_MAX = 512 << 20,           /* of memory: 1 MiB of text needs far less */
    DOCUMENT_GLOBS_MAX = 100000,              /* patterns of one document together */
    SELECTOR_GLOBS_MAX = 10000,               /* patterns of one selector */
    DOCUMENT_REGEXES_MAX = 1000,              /* of all its conditions */
    DOCUMENT_REGEX_INSTRUCTIONS_MAX = 100000, /* of these together: some 3 MiB */
    DOCUMENT_REGEX_CLASSES_MAX = 2000,        /* \p in them: up to a tenth of a millisecond each */
    DOCUMENT_FOLDING_MAX = 10000000,          /* steps of working out constants: 200 ms at most */
    SELECTOR_INDEX_AT = 16,                   /* longer selectors get an index of their own */
    ROLES_MAX = 1000,
    MASKS_MAX = 200,
    MASK_SEGMENTS_MAX = 16,
    TESTS_MAX = 1000,
    GIVEN_MAX = 100,          /* of one test */
    GIVEN_TIMES_MAX = 100000, /* each */
    APPROVALS_MAX = 16,
    REVIEW_ROLES_MAX = 16,
    REVIEW_CHANNELS_MAX = 8, /* of one rule */
    ROLE_CLAIMS_MAX = 8,     /* names of claims of one role */
    ROLE_CLAIM_VALUES_MAX = 64,
    LIMIT_COUNT_MAX = 1000000000,
    LIMIT_SUM_CHARACTERS = 200, /* of the path */
    LIMIT_SUM_SEGMENTS = 16,
    TEXT_CHARACTERS_MAX = 1000, /* descriptions and reasons */
    RULE_ID_MAX = 64,
};

#define APPROVAL_MS_MAX UINT64_C(86400000) /* 24 h */
#define REVIEW_MS_MAX (30 * APPROVAL_MS_MAX)

/* The position in the document of a pattern that lint may warn about. */
struct glob_place {
    struct glob_place *next;
    size_t index; /* as listed */
    unsigned line, column;
};

/* One selector: it matches if any of its patterns does. No patterns: the rule does not have it. */
struct selector {
    struct glob *globs;
    size_t count;
    const struct index *index; /* of the patterns' numbers; NULL: few patterns, each is compared */
    /* Patterns that match nothing, and the first bare `*`. The copies of sets have none. */
    const struct glob_place *vain, *star;
};

struct gate {
    double allow_at, review_at;
    enum verdict missing;
    struct str allow_at_text, review_at_text; /* as written, for reasons */
};

struct review_terms {
    unsigned approvals;
    enum policy_proof proof;
    uint64_t expires_in_ms, good_for_ms;
    struct str *by;
    size_t by_count;
    struct str by_text; /* "finance, support" */
    struct str *notify; /* names of channels that a new review is announced to */
    size_t notify_count;
    uint64_t remind_ms; /* 0: no reminder */
};

struct condition; /* condition.h */
struct template;

/* A rule's limit: how often, or up to which sum, it lets requests through in a window. */
struct limit_terms {
    enum limit_per per;
    uint64_t window_ms;
    uint64_t count_max; /* 0: not bounded */
    bool has_max;
    int64_t amount_max;  /* in millionths */
    struct str sum_text; /* "args.amount"; absent without a max */
    struct str *sum;     /* its names; the first is args, context or resource */
    size_t sum_count;    /* 0: it is an expression */
    const struct condition *sum_value;
    enum verdict over; /* deny or human_review */
    struct str told;   /* "30 and a sum of args.amount of 5000 per actor in 1h", for reasons */
};

/* The values that every decision copies from its rule, in one or two cache lines. */
struct rule_told {
    uint32_t id_size, reason_size;
    char bytes[]; /* the id, then the reason, each with a NUL behind it */
};

static inline struct str told_id(const struct rule_told *t) { return str_of(t->bytes, t->id_size); }

static inline struct str told_reason(const struct rule_told *t)
{
    return str_of(t->bytes + t->id_size + 1, t->reason_size);
}

struct rule {
    struct str id; /* in the struct above */
    enum verdict decision;
    bool folds;         /* deny and human_review ignore ASCII case */
    bool names_subject; /* has agents, users or roles */
    struct selector agents, users, actions, resources;
    struct str *roles;
    size_t role_count;
    struct str reason; /* the author's, or one made at load; in the struct above */
    const struct rule_told *told;
    const struct gate *gate; /* the rule's own or the document's; NULL: none */
    bool has_own_gate, has_review;
    struct review_terms review;
    const struct limit_terms *limit; /* NULL: none */
    struct str safe_tool;            /* compute */
    const struct json *safe_args;
    const struct template *templates; /* its strings that hold expressions */
    const struct condition *when;     /* NULL: always */
    const struct policy_document *document;
    unsigned line, column;
};

/* Patterns of the members of a role: a pair each, because a deny by role ignores case. */
struct role_member {
    struct glob exact, folding;
};

/* A claim of a verified token, with the values of which any is enough. Compared exactly. */
struct role_claim {
    struct str name;
    struct str *values;
    size_t value_count;
};

/* A person has it if one of the members matches, or if all of the claims do. */
struct role {
    struct str name;
    struct role_member *members;
    size_t count;
    struct role_claim *claims;
    size_t claim_count; /* 0: no claims give it */
};

struct mask {
    struct str *segments; /* the first is args, context or resource; `*` and `**` are any */
    size_t count;
    unsigned line, column;
};

struct policy_given { /* a request before the tested one */
    struct policy_request request;
    unsigned times;
};

struct policy_test {
    struct policy_request request;
    bool counts; /* it has `given`: limits are counted */
    struct policy_given *given;
    size_t given_count;
    enum verdict expect;
    struct str rule; /* absent: any */
    unsigned line, column;
};

/* Warnings that the reader kept for policy_lint(). */
struct doubt {
    const struct doubt *next;
    struct policy_problem problem;
};

struct policy_document {
    _Atomic size_t references;
    struct arena arena;
    struct condition *conditions; /* all of them: compiled patterns live on the heap */
    struct str name;
    struct sha256 digest;
    bool is_json, is_shadow;
    const struct gate *gate;
    struct role *roles;
    size_t role_count;
    struct mask *masks;
    size_t mask_count;
    struct rule *rules;
    size_t rule_count;
    struct policy_test *tests;
    size_t test_count;
    const struct doubt *doubts; /* the last first; at most POLICY_PROBLEMS_MAX, */
    size_t doubt_count;         /* of so many */
    /* The first of its tests that did not run to its end at load, because its conditions cost more
     * than they may; NULL: none. A stored document loads in spite of it. */
    const struct policy_test_result *unpaid_test;
};

bool selector_match(const struct selector *s, const struct name *n, bool folds);

/* Empty, with one reference; free it with policy_document_release(). NULL: memory ran out. */
struct policy_document *document_new(struct str name);

/* Reads the tree into `d`, and adds its errors to `problems`. */
void document_read(struct policy_document *d, const struct node *root,
                   struct policy_problems *problems);

/* What is true of every loaded document, rule, selector, gate and limit. */
void document_check(const struct policy_document *d);
void rule_check(const struct rule *rule);
void selector_check(const struct selector *s);
void gate_check(const struct gate *g);
void limit_terms_check(const struct limit_terms *t);
void review_terms_check(const struct review_terms *t);

/* Whether answers use this word in place of a rule's id ("review:pending", "token:scope"). */
bool rule_id_is_reserved(struct str id);

/* Runs all tests with this document alone, as if it were enforced. `each` gets every result.
 * False: memory ran out. */
bool document_run_tests(const struct policy_document *d, size_t *ret_failed,
                        void (*each)(void *context, const struct policy_test_result *r),
                        void *context);

/* A number in millionths, rounded up or down. -1: negative, above AMOUNT_MAX, or no number. */
int64_t amount_round_up(double number);
int64_t amount_round_down(double number);

#endif
