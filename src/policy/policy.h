/* policy.h - documents in, decisions out.
 *
 * A document is checked and compiled once (policy_load); all active documents of a tenant are
 * joined into an immutable `struct policy_set` with an index on action and subject; evaluation is
 * pure: it reads no clock, does no I/O and allocates only from its arena. Compiled objects may be
 * shared by all threads; nothing that outlives an evaluation points into one, so an outcome's
 * strings are valid only while its set lives: copy them.
 *
 *   strictest vote wins:  allow < compute < human_review < deny
 *   no vote at all:       deny, default:deny
 *
 * The language is specified in schemas/policy.md. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/arena.h"
#include "base/fault.h"
#include "crypto/crypto.h"
#include "json/json.h"

/* Zero is deny: zeroed memory and missed cases come out closed. Ordered from strict to loose. */
enum verdict { VERDICT_DENY, VERDICT_HUMAN_REVIEW, VERDICT_COMPUTE, VERDICT_ALLOW };
const char *verdict_name(enum verdict v); /* "deny", "human_review", "compute", "allow" */
bool verdict_read(struct str name, enum verdict *ret);

/* ---- documents ---- */

enum { POLICY_NAME_MAX = 64 }; /* bytes */

/* 1 to POLICY_NAME_MAX of [A-Za-z0-9._-]. */
bool policy_is_name(struct str name);

/* The part of a document's file name (without folders) before .yaml, .yml or .json: the policy's
 * name, where nobody gives another. Absent: it ends with none of them, or has nothing before it. */
struct str policy_file_stem(struct str file);

struct policy_problem {    /* one mistake, told to its author */
    char path[128];        /* "rules[2].decision" */
    unsigned line, column; /* 1-based; 0 = unknown */
    char message[256];
};

/* The message without the name in front of it, for where the path is told beside it. */
const char *policy_problem_short(const struct policy_problem *p);

enum { POLICY_PROBLEMS_MAX = 20 };

struct policy_problems {
    size_t count;
    size_t more; /* that there was no room for */
    struct policy_problem list[POLICY_PROBLEMS_MAX];
};

/* Appends as many of `more` as there is room for, and counts the rest. */
void policy_problems_join(struct policy_problems *to, const struct policy_problems *more);

struct policy_document; /* immutable once loaded; reference counted, thread safe */

/* Text is YAML, or strict JSON where it starts with `{`. Runs the document's own `tests`.
 * ERR_INVALID_POLICY with at least one problem; ERR_FULL, with none, where memory ran out. */
enum err policy_load(struct str name, struct str text, struct policy_document **ret,
                     struct policy_problems *problems);
struct policy_document *policy_document_share(struct policy_document *d);
void policy_document_release(struct policy_document *d);

/* The same of a document that is not stored yet: policy_refusals() count as mistakes, too. For what
 * is checked, put or applied. Whoever loads what is stored or came in a bundle takes policy_load(). */
enum err policy_load_new(struct str name, struct str text, struct policy_document **ret,
                         struct policy_problems *problems);

/* The same as policy_load() without running the tests, for those who want to hear of each: it
 * must not get into force. */
enum err policy_load_untested(struct str name, struct str text, struct policy_document **ret,
                              struct policy_problems *problems);

/* What this document would be refused for if it were put today; one that is stored stays in force
 * in spite of it. A new refusal is a row in refusal.c. */
void policy_refusals(const struct policy_document *d, struct policy_problems *ret);

/* Which roles a document defines and which its rules name (`roles`, `review.by`, the literals of
 * conditions that are compared with `roles`): what is needed of it to check a set. Immutable. */
struct policy_roles;
struct policy_roles *policy_roles_create(const struct policy_document *d); /* NULL: no memory */
void policy_roles_destroy(struct policy_roles *p);

struct policy_roles_member {
    const struct policy_roles *roles; /* NULL: neither defines nor names any */
    bool is_new;                      /* every role that it names has to be defined */
};
/* A role that a rule names and no document of the set defines. */
struct policy_unknown_role {
    size_t member; /* of `after` */
    struct str rule_id, role;
    bool is_taken_away; /* it was defined before: by a document that is gone or another now */
    struct policy_problem problem;
};
/* Tells of each in the set `after`: of new members all that are not defined, of the others those that
 * `before` still defined. Shadow documents' roles count for shadow documents only. False: no memory. */
bool policy_roles_check(const struct policy_roles_member *before, size_t before_count,
                        const struct policy_roles_member *after, size_t after_count,
                        void (*each)(void *context, const struct policy_unknown_role *u),
                        void *context);

/* Lints: legal and probably wrong. */
void policy_lint(const struct policy_document *d, struct policy_problems *ret);

struct str policy_document_name(const struct policy_document *d); /* as long as it lives */
bool policy_document_has_limits(const struct policy_document *d);

/* What becomes of what the limits of `before` have counted when `after` takes its place, where that
 * is not all carried over: added to `ret`. The names differ: it was renamed. `now_ms` 0: at some
 * time to come. */
void policy_limit_changes(const struct policy_document *before, const struct policy_document *after,
                          uint64_t now_ms, struct policy_problems *ret);

struct sha256 policy_document_digest(const struct policy_document *d); /* of its text */
bool policy_document_is_json(const struct policy_document *d);
size_t policy_document_rules(const struct policy_document *d);

/* Runs the document's tests again, telling each: for `writ policy test`. */
struct policy_test_result {
    size_t index;
    bool passed;
    bool is_unpaid; /* not passed, and a condition was not run to its end for what it costs */
    unsigned line, column;
    char about[160];   /* "issue_refund by invoice_bot" */
    char message[256]; /* what was expected and what came */
};
size_t policy_document_tests(const struct policy_document *d,
                             void (*each)(void *context, const struct policy_test_result *r),
                             void *context);

/* Tells of each rule that applies to no test's request, in the order of the document; how many. */
struct policy_unmatched {
    size_t index;
    struct str rule_id;
    bool is_unknown; /* some tests were not looked at: LIMIT_POLICY_TESTS_STEPS were spent */
    unsigned line, column;
};
size_t policy_document_unmatched(const struct policy_document *d,
                                 void (*each)(void *context, const struct policy_unmatched *u),
                                 void *context);

/* The text of a document that says what lelu's auth.yaml (agent_scopes, constraints, roles,
 * rules) says, as near as it can be and never looser where it cannot; comments tell what was not
 * taken. It has been loaded once. ERR_INVALID_POLICY: the problems tell what is wrong with
 * `text`; ERR_FULL: no room. */
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

/* Joins the active documents of one tenant (none at all is legal: everything is denied). */
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

/* policy_limit_changes() of each document of `after` that it has something to say of. */
void policy_set_limit_changes(const struct policy_set *before, const struct policy_set *after,
                              void (*each)(void *context, struct str policy_name,
                                           const struct policy_problems *problems),
                              void *context);

/* A set that denies everything with this rule ("default:policy_unloadable") and reason. */
enum err policy_set_closed(const char *rule, const char *reason, struct policy_set **ret);
bool policy_set_is_closed(const struct policy_set *s);

/* ---- evaluation ---- */

enum subject_kind { SUBJECT_AGENT, SUBJECT_USER };

struct policy_request {
    enum subject_kind kind;
    struct str tenant;
    struct str actor; /* agents; absent for people */
    struct str user;  /* people */
    struct str acting_for;
    struct str action; /* = tool */
    /* "type:id" (or the id alone), or absent where the request names none */
    struct str resource;
    /* the same without what is odd in the spelling of type and id; absent: nothing is. What
     * restricts looks at both: nobody slips past `db:prod-*` by a blank or full width */
    struct str resource_plain;
    /* type or id is missing, or nothing of it can be seen: deny and human_review rules with
     * `resources` match, as where none is named; others see the text */
    bool resource_partial;
    const struct json *resource_object; /* or NULL */
    const struct json *args;            /* or NULL */
    const struct json *context;         /* object or string, or NULL */
    bool has_confidence;
    double confidence; /* in [0, 1], checked by the caller */
    bool has_scope;    /* the request's own scope: action globs */
    const struct str *scope;
    size_t scope_count;
    bool has_token_scope; /* the token's: both have to cover the action */
    const struct str *token_scope;
    size_t token_scope_count;
    /* human_review votes that a person has approved: they count as allow */
    const struct policy_vote *approved;
    size_t approved_count;
    /* what the people who approved were asked to be, and were; NULL: nobody says, and the votes are
     * taken whatever their rules ask now */
    const struct policy_requirement *met;
    size_t met_count;
    uint64_t now_ms;
    /* nothing is counted: what is over a limit by itself comes out so here */
    bool dry_run;
};

/* "type:id", or an id alone, as the object that conditions see; NULL: the arena is full. */
struct json *policy_resource_of_text(struct str text, struct arena *arena);
/* Fills the members `resource…` from that object (its other members are the caller's to check;
 * views are kept). False: the arena is full. */
bool policy_name_resource(struct policy_request *q, const struct json *object, struct arena *arena);

enum { POLICY_RULE_TEXT = 80 };

/* One vote for human_review: whose approval it is that a redemption brings along. */
enum policy_vote_kind { VOTE_RULE, VOTE_GATE, VOTE_LIMIT, VOTE_KINDS };
struct policy_vote {
    enum policy_vote_kind kind;
    struct str policy_name, rule_id;
};

/* What one rule that votes human_review asks of people. */
struct policy_requirement {
    unsigned approvals;
    const struct str *by; /* names of roles, any of which will do; none: any reviewer */
    size_t by_count;
};

struct policy_review {                   /* what a human_review asks for: all votes joined */
    unsigned approvals;                  /* the largest of its requirements */
    uint64_t expires_in_ms, good_for_ms; /* the shortest */
    /* one of "finance, support"; where several rules ask, "finance; legal" is one of each */
    struct str by;
    const struct policy_requirement *requirements; /* each has to be met; at least one */
    size_t requirement_count;
    /* every human_review vote, in the order that breaks ties; a limit's last */
    const struct policy_vote *votes;
    size_t vote_count;
};

/* Amounts are counted in millionths, rounded up, so that sums are exact. */
enum { AMOUNT_SCALE = 1000000 };
#define AMOUNT_MAX INT64_C(9000000000000000000) /* nine million million */

/* A limit of a rule that applied: what a live allow or compute counts, and what over means. */
struct policy_limit {
    struct str policy_name, rule_id;
    uint64_t policy_version;
    enum limit_per per;
    /* whose counter; absent where the request names none: all such share one */
    struct str value;
    uint64_t window_ms;
    uint64_t count_max; /* 0: not bounded */
    bool has_max;
    int64_t amount_max; /* of the sum, in millionths */
    /* this request's; -1: missing, negative, too large or no number, which is over */
    int64_t amount;
    /* deny or human_review; allow: a person let it through, count it all the same */
    enum verdict over;
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
    /* the same without what was made of something masked: for records */
    const struct json *told_args;
    /* human_review: what all such votes ask, approved ones among them; of an allow or compute: the
     * `approved` votes that made it one, which a review for its limit has to cover again */
    struct policy_review review;
    const struct policy_limit *limits; /* allow and compute: to be counted, all or none */
    size_t limit_count;
    bool confidence_used; /* a gate looked at it */
    /* of the conditions that were run, and of the rules that were met */
    uint64_t cost;
    bool is_unpaid; /* some condition was not run to its end, for what it or all together cost */
    bool has_would_have; /* shadow documents would have changed the outcome */
    enum verdict would_have;
    char would_have_rule[POLICY_RULE_TEXT];
    struct str would_have_policy;
};

/* Decides. Never fails: an arena that is full comes out as deny (`default:deny` with that reason).
 * `explain` (NULL: none) is called for each rule considered. */
struct policy_considered {
    struct str policy_name, rule_id;
    enum verdict verdict;
    bool applies, shadow;
    /* "agents: invoice_bot does not match [coder]"; of a shadow rule good until `considered` is done */
    struct str why;
};
/* Of an outcome that is no allow: the rule that is nearest to allowing it (or to a safe call), and
 * what it lacks; and what would still stand in its way. */
struct policy_nearest {
    struct str policy_name, rule_id; /* absent: no rule that permits is about this action */
    /* "when: args.amount <= 500 → 620 <= 500 → false"; none: it applies */
    const struct str *lacks;
    size_t lack_count;
    const struct str *against; /* "rule never-drop of policy ops votes deny" */
    size_t against_count;
};
struct policy_explain {
    void (*considered)(void *context, const struct policy_considered *c);
    /* at the end, once or not; may be NULL */
    void (*nearest)(void *context, const struct policy_nearest *n);
    void *context;
};
void policy_evaluate(const struct policy_set *s, const struct policy_request *request,
                     struct arena *arena, const struct policy_explain *explain,
                     struct policy_outcome *ret);

/* What one thread remembers of the actions that it was asked about, whatever the set: found again,
 * they cost a third of an evaluation less. About 128 bytes an entry. */
struct policy_memory;
struct policy_memory *policy_memory_create(size_t entries); /* the process ends without memory */
void policy_memory_destroy(struct policy_memory *m);
/* Has the processor fetch what evaluating this action will look at first; `m` may be NULL. */
void policy_memory_expect(const struct policy_memory *m, const struct policy_set *s,
                          struct str action);
/* The same outcome as without a memory (or with NULL). */
void policy_evaluate_remembering(const struct policy_set *s, struct policy_memory *memory,
                                 const struct policy_request *request, struct arena *arena,
                                 struct policy_outcome *ret);

/* Turns an allow or a compute into what its limit `l` (one of ret->limits) says when it is over:
 * rule `limit:<id>`, its verdict, a reason that tells which bound; review terms are the rule's,
 * joined with those of the votes that were approved already, so that one approval covers both.
 * A limit that a person let through (over: allow) changes nothing. */
void policy_over_limit(const struct policy_limit *l, struct arena *arena,
                       struct policy_outcome *ret);

/* Whether this person has one of the roles now (exact case; shadow documents' roles do not
 * count). */
bool policy_has_role(const struct policy_set *s, struct str person, const struct str *roles,
                     size_t count, struct arena *arena);

/* Masks (in place) what the tenant's documents mask. `root_name` is the first path segment:
 * "args", "context", "resource". A masked root itself becomes a string. */
void policy_mask(const struct policy_set *s, struct str root_name, struct json *root);
bool policy_masks(const struct policy_set *s); /* false: policy_mask does nothing */
/* Whether policy_mask would change `root` (or NULL). */
bool policy_masks_in(const struct policy_set *s, struct str root_name, const struct json *root);

/* The same on a copy, for values that are shared (an outcome's safe_args): `root` itself where
 * nothing in it is masked, else a masked copy in the arena; NULL: the arena is full. */
const struct json *policy_masked_copy(const struct policy_set *s, struct str root_name,
                                      const struct json *root, struct arena *arena);

/* The name of what is asked about, or "[masked]" where a part of it is masked; absent: none. */
struct str policy_resource_shown(const struct policy_set *s, const struct policy_request *q);

#endif
