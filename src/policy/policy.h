/* policy.h - documents in, decisions out.
 *
 * A document is checked and compiled once (policy_load). All active documents of a tenant are
 * joined into an immutable `struct policy_set` with an index on action and subject. Evaluation is
 * pure: it reads no clock, does no I/O and allocates only from its arena. All threads may share
 * compiled objects. An outcome's strings are valid only while its set and arena live: copy them.
 *
 *   strictest vote wins:  allow < compute < human_review < deny
 *   no vote at all:       deny, default:deny
 *
 * The language is specified in schemas/policy.md. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/arena.h"
#include "base/claim.h"
#include "base/fault.h"
#include "base/limits.h"
#include "crypto/crypto.h"
#include "json/json.h"

/* Zero is deny, so zeroed memory and forgotten cases fail closed. Ordered from strict to loose. */
enum verdict { VERDICT_DENY, VERDICT_HUMAN_REVIEW, VERDICT_COMPUTE, VERDICT_ALLOW };
const char *verdict_name(enum verdict v); /* "deny", "human_review", "compute", "allow" */
bool verdict_read(struct str name, enum verdict *ret);

/* How the people who approve a review have to be known, the loosest first. */
enum policy_proof {
    POLICY_PROOF_ANY,
    POLICY_PROOF_OIDC, /* an identity provider has verified the person */
    POLICY_PROOFS
};
const char *policy_proof_name(enum policy_proof p); /* "oidc"; POLICY_PROOF_ANY: "any" */

/* ---- documents ---- */

enum { POLICY_NAME_MAX = 64 }; /* bytes */

/* 1 to POLICY_NAME_MAX of [A-Za-z0-9._-]. */
bool policy_is_name(struct str name);

/* The part of a document's file name (without folders) before .yaml, .yml or .json: the default
 * name of the policy. Absent: the file name has none of these endings, or nothing before it. */
struct str policy_file_stem(struct str file);

struct policy_problem {    /* one error, for the author */
    char path[128];        /* "rules[2].decision" */
    unsigned line, column; /* 1-based; 0 = unknown */
    char message[256];
};

/* The message without the name in front, for outputs that also have the path. */
const char *policy_problem_short(const struct policy_problem *p);

enum { POLICY_PROBLEMS_MAX = 20 };

struct policy_problems {
    size_t count;
    size_t more; /* problems beyond the room */
    struct policy_problem list[POLICY_PROBLEMS_MAX];
};

/* Appends the problems of `more` that fit, and counts the rest. */
void policy_problems_join(struct policy_problems *to, const struct policy_problems *more);

struct policy_document; /* immutable once loaded; reference counted, thread safe */

/* Text is YAML, or strict JSON if it starts with `{`. Runs the document's own `tests`.
 * ERR_INVALID_POLICY with at least one problem; ERR_FULL, without problems: memory ran out. */
enum err policy_load(struct str name, struct str text, struct policy_document **ret,
                     struct policy_problems *problems);
struct policy_document *policy_document_share(struct policy_document *d);
void policy_document_release(struct policy_document *d);

/* The same for a document that is not stored yet (check, put, apply): policy_refusals() count as
 * errors, too. For documents from the store or a bundle use policy_load(). */
enum err policy_load_new(struct str name, struct str text, struct policy_document **ret,
                         struct policy_problems *problems);

/* policy_load() without running the tests, for callers that need each result. The document must not
 * get into force. */
enum err policy_load_untested(struct str name, struct str text, struct policy_document **ret,
                              struct policy_problems *problems);

/* The reasons to refuse this document if it were put today. A stored document stays in force in
 * spite of them. A new refusal is a row in refusal.c. */
void policy_refusals(const struct policy_document *d, struct policy_problems *ret);

/* The roles that a document defines, and those that its rules name (`roles`, `review.by`, literals
 * of conditions that are compared with `roles`). Sets are checked with these summaries. Immutable. */
struct policy_roles;
struct policy_roles *policy_roles_create(const struct policy_document *d); /* NULL: no memory */
void policy_roles_destroy(struct policy_roles *p);

struct policy_roles_member {
    const struct policy_roles *roles; /* NULL: it neither defines nor names roles */
    bool is_new;                      /* every role that it names must be defined */
};
/* A role that a rule names and no document of the set defines. */
struct policy_unknown_role {
    size_t member; /* of `after` */
    struct str rule_id, role;
    bool is_taken_away; /* it was defined before, by a document that was removed or changed */
    struct policy_problem problem;
};
/* Calls back for each undefined role in the set `after`: for new members all of them, for the
 * others those that `before` still defined. Roles of shadow documents count for shadow documents
 * only. False: no memory. */
bool policy_roles_check(const struct policy_roles_member *before, size_t before_count,
                        const struct policy_roles_member *after, size_t after_count,
                        void (*each)(void *context, const struct policy_unknown_role *u),
                        void *context);

/* Warnings about text that is legal but probably wrong. */
void policy_lint(const struct policy_document *d, struct policy_problems *ret);

struct str policy_document_name(const struct policy_document *d); /* as long as it lives */
bool policy_document_has_limits(const struct policy_document *d);

/* Adds a warning to `ret` for each limit of `before` whose count is not carried over entirely when
 * `after` replaces it. If the names differ, the document was renamed. `now_ms` 0: the time of the
 * change is not known. */
void policy_limit_changes(const struct policy_document *before, const struct policy_document *after,
                          uint64_t now_ms, struct policy_problems *ret);

struct sha256 policy_document_digest(const struct policy_document *d); /* of its text */
bool policy_document_is_json(const struct policy_document *d);
size_t policy_document_rules(const struct policy_document *d);

/* Runs the document's tests again and calls back with each result, for `writ policy test`. */
struct policy_test_result {
    size_t index;
    bool passed;
    bool is_unpaid; /* it failed, and a condition was ended because of its cost */
    unsigned line, column;
    uint64_t steps;    /* of the tested request: policy_outcome.steps */
    char about[160];   /* "issue_refund by invoice_bot" */
    char message[256]; /* the expected and the actual result */
};
size_t policy_document_tests(const struct policy_document *d,
                             void (*each)(void *context, const struct policy_test_result *r),
                             void *context);

/* Calls back with each rule that applies to no test's request, in the order of the document;
 * returns their number. */
struct policy_unmatched {
    size_t index;
    struct str rule_id;
    bool is_unknown; /* some tests were not evaluated: LIMIT_POLICY_TESTS_STEPS were spent */
    unsigned line, column;
};
size_t policy_document_unmatched(const struct policy_document *d,
                                 void (*each)(void *context, const struct policy_unmatched *u),
                                 void *context);

/* Converts lelu's auth.yaml (agent_scopes, constraints, roles, rules) into the text of a document.
 * A part without an equal becomes stricter, never looser; comments list the parts that were not
 * taken. The result was loaded once as a check. ERR_INVALID_POLICY: the problems are about `text`;
 * ERR_FULL: no room. */
struct policy_import {
    size_t rules;     /* in the document */
    size_t not_taken; /* comments that begin with NOT TAKEN */
};
enum err policy_import_lelu(struct str text, struct buf *out, struct policy_import *ret,
                            struct policy_problems *problems);

/* ---- sets ---- */

enum limit_per { PER_ACTOR, PER_USER, PER_ACTING_FOR, PER_TENANT, PER_RESOURCE };
const char *limit_per_name(enum limit_per per);

struct policy_set; /* immutable; owned by its creator */

struct policy_set_entry {
    struct policy_document *document; /* shared: the set takes its own reference */
    uint64_t version;
};

/* Joins the active documents of one tenant. Without documents everything is denied. */
enum err policy_set_create(const struct policy_set_entry *entries, size_t count,
                           struct policy_set **ret, struct fault *f);
void policy_set_destroy(struct policy_set *s);
struct str policy_set_digest_hex(const struct policy_set *s); /* 64 characters */
size_t policy_set_rules(const struct policy_set *s);
/* Each limit of its enforced documents. */
void policy_set_limits(const struct policy_set *s,
                       void (*each)(void *context, struct str policy_name, struct str rule_id,
                                    enum limit_per per, uint64_t window_ms),
                       void *context);

/* policy_limit_changes() for each document of `after` with such warnings. */
void policy_set_limit_changes(const struct policy_set *before, const struct policy_set *after,
                              void (*each)(void *context, struct str policy_name,
                                           const struct policy_problems *problems),
                              void *context);

/* A set that denies everything with this rule ("default:policy_unloadable") and reason. */
enum err policy_set_closed(const char *rule, const char *reason, struct policy_set **ret);
bool policy_set_is_closed(const struct policy_set *s);

/* ---- evaluation ---- */

enum subject_kind { SUBJECT_AGENT, SUBJECT_USER };

/* The steps of all conditions of one decision: in all of its rules, and as many again for its reason
 * and the sums of its limits. Enforced documents come first. Shadow documents have what is left, so
 * they never make a denial. With POLICY_STEPS_DEFAULT, that is about a millisecond. */
enum { POLICY_STEPS_DEFAULT = LIMIT_POLICY_STEPS, POLICY_STEPS_MAX = LIMIT_POLICY_STEPS_MOST };

struct policy_request {
    enum subject_kind kind;
    struct str tenant;
    struct str actor; /* agents; absent for people */
    struct str user;  /* people */
    struct str acting_for;
    struct str action; /* = tool */
    /* "type:id" (or the id alone), or absent if the request names none */
    struct str resource;
    /* the same with plain spelling of type and id; absent: the spelling is plain. Restricting rules
     * compare both, so a blank or a full-width character does not escape `db:prod-*` */
    struct str resource_plain;
    /* type or id is missing or invisible: deny and human_review rules with `resources` match, as if
     * no resource were named; other rules compare the text */
    bool resource_partial;
    const struct json *resource_object; /* or NULL */
    const struct json *args;            /* or NULL */
    const struct json *context;         /* object or string, or NULL */
    bool has_confidence;
    double confidence; /* in [0, 1], checked by the caller */
    bool has_scope;    /* the request's own scope: action globs */
    const struct str *scope;
    size_t scope_count;
    bool has_token_scope; /* the token's scope: both must cover the action */
    const struct str *token_scope;
    size_t token_scope_count;
    /* human_review votes that a person has approved; they count as allow */
    const struct policy_vote *approved;
    size_t approved_count;
    /* the requirements that the approving people met; NULL: not known, and the votes count whatever
     * their rules require now */
    const struct policy_requirement *met;
    size_t met_count;
    uint64_t now_ms;
    /* what its conditions may cost, up to POLICY_STEPS_MAX; 0: POLICY_STEPS_DEFAULT */
    uint64_t steps;
    /* nothing is counted: only a request that exceeds a limit by itself is over it */
    bool dry_run;
    struct policy_unknowns *unknowns; /* of a record with values cut; NULL: all values are known */
};

/* "type:id", or an id alone, as the object of conditions; NULL: the arena is full. */
struct json *policy_resource_of_text(struct str text, struct arena *arena);
/* Fills the members `resource…` from that object. The caller checks its other members; views are
 * kept. False: the arena is full. */
bool policy_name_resource(struct policy_request *q, const struct json *object, struct arena *arena);

enum { POLICY_RULE_TEXT = 80, POLICY_CHANNEL_TEXT = 32, POLICY_CHANNELS_MAX = 32 };

/* One vote for human_review, which a redemption brings along as approved. */
enum policy_vote_kind { VOTE_RULE, VOTE_GATE, VOTE_LIMIT, VOTE_KINDS };
struct policy_vote {
    enum policy_vote_kind kind;
    struct str policy_name, rule_id;
};

/* The requirement of one rule that votes human_review. */
struct policy_requirement {
    unsigned approvals;
    const struct str *by; /* names of roles, any of which is enough; none: any reviewer */
    size_t by_count;
    enum policy_proof proof; /* of each person whose approval counts */
    /* the number, from 1, of its rule's first vote in the review's votes; 0: not known */
    unsigned vote;
};

/* What the approval of a review covers now. */
struct policy_approval {
    const struct policy_vote *votes;
    size_t vote_count;
    const struct policy_requirement *met; /* those of its requirements that its approvers meet */
    size_t met_count;
};

struct policy_review {                   /* the terms of a human_review: all votes joined */
    unsigned approvals;                  /* the largest of its requirements */
    enum policy_proof proof;             /* the strictest of its requirements */
    uint64_t expires_in_ms, good_for_ms; /* the shortest */
    /* "finance, support" is one of the two; with several rules, "finance; legal" is one of each */
    struct str by;
    const struct policy_requirement *requirements; /* each must be met; at least one */
    size_t requirement_count;
    /* every human_review vote, in the order that breaks ties; a limit's last */
    const struct policy_vote *votes;
    size_t vote_count;
    /* the channels of all requirements, each once; at most POLICY_CHANNELS_MAX */
    const struct str *notify;
    size_t notify_count;
    uint64_t remind_ms; /* the shortest; 0: no reminder */
};

/* Amounts are counted in millionths, rounded up, so that sums are exact. */
enum { AMOUNT_SCALE = 1000000 };
#define AMOUNT_MAX INT64_C(9000000000000000000) /* nine million million */
enum { AMOUNT_NONE = -1, AMOUNT_CUT = -2 };

/* A limit of a rule that applied: the amounts that a live allow or compute counts, and its `over`. */
struct policy_limit {
    struct str policy_name, rule_id;
    uint64_t policy_version;
    enum limit_per per;
    /* the counter's actor, user or resource; requests that name none share one counter (absent) */
    struct str value;
    uint64_t window_ms;
    uint64_t count_max; /* 0: not bounded */
    bool has_max;
    int64_t amount_max; /* of the sum, in millionths */
    /* of this request; AMOUNT_NONE: missing, negative, too large or no number, which is over;
     * AMOUNT_CUT: not in the record (with `unknowns` only) */
    int64_t amount;
    bool is_of_cut_resource; /* the record does not have the name that is counted for */
    /* deny or human_review; allow: a person approved it, but it is counted */
    enum verdict over;
    bool is_shadow;                    /* its document is in shadow mode */
    const struct review_terms *review; /* of its rule, inside of the room */
    const struct limit_terms *terms;   /* the same; both are good while the set lives */
};

struct policy_outcome {
    enum verdict verdict;
    char rule[POLICY_RULE_TEXT];  /* "<kind>:<id>", NUL-terminated */
    struct str reason;            /* in the arena; never absent */
    struct str policy_name;       /* absent: no document (default:deny) */
    uint64_t policy_version;      /* 0: none */
    struct str safe_tool;         /* compute */
    const struct json *safe_args; /* compute; in the arena or the set */
    /* the same with values from masked ones masked: for records */
    const struct json *told_args;
    /* human_review: the terms of all such votes, approved ones included. An allow or compute: the
     * `approved` votes behind it, which a review for its limit must cover again */
    struct policy_review review;
    const struct policy_limit *limits; /* allow and compute: the limits to count, all or none */
    size_t limit_count;
    bool confidence_used; /* a gate used it */
    /* of the conditions that were run, and of the rules that were met */
    uint64_t cost;
    uint64_t steps;      /* of that, what policy_request.steps bounds: its conditions' */
    bool is_unpaid;      /* some condition was ended because of its cost, or of the cost of all */
    bool has_would_have; /* shadow documents would have changed the outcome */
    enum verdict would_have;
    char would_have_rule[POLICY_RULE_TEXT];
    struct str would_have_policy;
    /* the limits of shadow documents that count this request, all or none, if these would let it
     * through; in counters of their own */
    const struct policy_limit *shadow_limits;
    size_t shadow_limit_count;
};

/* Decides. Never fails: a full arena gives a deny (`default:deny` with that reason). `explain`
 * (NULL: none) is called for each rule considered. */
struct policy_considered {
    struct str policy_name, rule_id;
    enum verdict verdict;
    bool applies, shadow;
    /* "agents: invoice_bot does not match [coder]"; of a shadow rule good until `considered` is
     * done */
    struct str why;
};
/* For an outcome that is no allow: the rule nearest to an allow (or a safe call), what it lacks,
 * and the votes that would still prevent an allow. */
struct policy_nearest {
    struct str policy_name, rule_id; /* absent: no rule permits this action */
    /* "when: args.amount <= 500 → 620 <= 500 → false"; none: it applies */
    const struct str *lacks;
    size_t lack_count;
    const struct str *against; /* "rule never-drop of policy ops votes deny" */
    size_t against_count;
};
struct policy_explain {
    void (*considered)(void *context, const struct policy_considered *c);
    /* called at most once, at the end; may be NULL */
    void (*nearest)(void *context, const struct policy_nearest *n);
    void *context;
};
void policy_evaluate(const struct policy_set *s, const struct policy_request *request,
                     struct arena *arena, const struct policy_explain *explain,
                     struct policy_outcome *ret);

/* One thread's cache of actions, for all sets. A hit saves a third of an evaluation. About 128
 * bytes an entry. */
struct policy_memory;
struct policy_memory *
policy_memory_create(size_t entries); /* aborts the process if memory runs out */
void policy_memory_destroy(struct policy_memory *m);
/* Prefetches the memory that the evaluation of this action reads first; `m` may be NULL. */
void policy_memory_expect(const struct policy_memory *m, const struct policy_set *s,
                          struct str action);
/* The same outcome as without a memory (or with NULL). */
void policy_evaluate_remembering(const struct policy_set *s, struct policy_memory *memory,
                                 const struct policy_request *request, struct arena *arena,
                                 struct policy_outcome *ret);

/* Applies the limit `l` (one of ret->limits), which is over, to an allow or a compute: rule
 * `limit:<id>`, the limit's verdict, a reason with the bound. The review terms are the rule's,
 * joined with those of the votes that were approved already, so that one approval covers both. A
 * limit that a person approved (over: allow) changes nothing. */
void policy_over_limit(const struct policy_limit *l, struct arena *arena,
                       struct policy_outcome *ret);

/* The same for one of ret->shadow_limits: it changes only what shadow documents would have done. */
void policy_over_shadow_limit(const struct policy_limit *l, struct policy_outcome *ret);

/* Counters in memory, for the requests of one set; one thread's. */
struct policy_counts;
struct policy_counts *policy_counts_create(void); /* NULL: memory ran out */
void policy_counts_destroy(struct policy_counts *c);
/* Counts the outcome of policy_evaluate() for this request at its time (not before the last one's),
 * if it is an allow or a compute. If a limit is over, nothing is counted, and *ret becomes the
 * limit's outcome. False: memory ran out. */
bool policy_count(struct policy_counts *c, const struct policy_request *q, struct arena *arena,
                  struct policy_outcome *ret);

/* Whether the approval covers everything that the review would ask for: each vote by name, and each
 * requirement by one that is as strict. */
bool policy_approval_covers(const struct policy_approval *a, const struct policy_review *asks);

/* A record may have values that were cut: masked, or left out because of their size. What reads one
 * has an assumed result. Evaluate such a request (`unknowns`, at first zeroed) with all combinations
 * of assumptions, in several sets if those are compared: until policy_unknowns_next() is false. */
enum { POLICY_OPEN_MAX = 4 };
enum policy_assumed { ASSUMED_FALSE, ASSUMED_TRUE, ASSUMED_FAILED };
struct policy_open { /* a condition, a rule's resources, or whether a limit is over */
    struct str text; /* these two name it, in any set */
    bool folds;
    enum policy_assumed assumed;
    struct str policy_name, rule_id; /* of the first rule that has it */
};
struct policy_unknowns {
    struct policy_open open[POLICY_OPEN_MAX]; /* met by the evaluations with these assumptions */
    size_t count;
    bool is_open; /* there are more, or one that cannot be assumed: nothing is known */
    /* Names the expressions of safe arguments that read a cut value, added up since the caller made
     * it 0; 0: there were none. With another number, equal arguments may differ. */
    uint64_t values;
    const struct json *derived; /* the safe arguments that such expressions gave */
};
bool policy_unknowns_next(struct policy_unknowns *u);
/* The two steps of policy_count() for such a request, and for those after it. First for the outcome
 * of each evaluation: if it is not known whether a limit is over, the result is assumed, too. Equal
 * counts of equal requests have the same result, also in another set. Then once: what only some of
 * the `evaluations` counted, or what was not recorded, may have been counted. */
bool policy_count_weigh(struct policy_counts *c, struct policy_unknowns *u,
                        const struct policy_request *q, struct arena *arena,
                        struct policy_outcome *ret);
void policy_count_settle(struct policy_counts *c, size_t evaluations, uint64_t now_ms);
bool policy_is_cut(const struct json *v); /* or something in it; NULL: no */

/* A person, outside of a decision. The claims are those of a verified token: a name that a client sends
 * has none. */
struct policy_person {
    struct str name;
    const struct claim *claims;
    size_t claim_count; /* at most LIMIT_CLAIMS */
};
/* Whether this person has one of the roles now (exact case; shadow documents' roles do not count):
 * one of its `people`, or all of its `claims`, match. */
bool policy_has_role(const struct policy_set *s, const struct policy_person *p,
                     const struct str *roles, size_t count, struct arena *arena);
/* Those of the person's claims by which it has any of the roles now; bit i of the result for claim i. */
uint64_t policy_claims_for(const struct policy_set *s, const struct policy_person *p,
                           const struct str *roles, size_t count);

/* Masks in place the values that the tenant's documents mask. `root_name` is the first path
 * segment: "args", "context", "resource". A masked root becomes a string. */
void policy_mask(const struct policy_set *s, struct str root_name, struct json *root);
bool policy_masks(const struct policy_set *s); /* false: policy_mask does nothing */
/* Whether policy_mask would change `root` (or NULL). */
bool policy_masks_in(const struct policy_set *s, struct str root_name, const struct json *root);

/* The same for values that are shared (an outcome's safe_args): `root` itself if nothing in it is
 * masked, else a masked copy in the arena; NULL: the arena is full. */
const struct json *policy_masked_copy(const struct policy_set *s, struct str root_name,
                                      const struct json *root, struct arena *arena);

/* The name of the request's resource, or "[masked]" if a part of it is masked; absent: none. */
struct str policy_resource_shown(const struct policy_set *s, const struct policy_request *q);

#endif
