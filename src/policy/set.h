/* set.h - inside of the room: the joined documents of a tenant, with the index over their rules.
 *
 * Rules are numbered in the order that breaks ties: document name in byte order, then position.
 * So evaluation may visit them in any order and keep, for each verdict, the smallest number.
 *
 *   action ──index──▶ group (all rules with one action pattern)
 *                       ├─ few rules:  look at each
 *                       └─ many rules: anyone | agents ──index──▶ cell
 *                                             | users  ──index──▶ cell
 *                                             | each role of the user ──▶ cell
 *   cell (all rules with one action and one subject pattern)
 *     ├─ few with resources:  look at each
 *     └─ many with resources: the others | resource ──index──▶ rules
 *
 * Shadow documents' rules are in an index of their own; their roles are left out. */
#ifndef POLICY_SET_H
#define POLICY_SET_H

#include "base/map.h"
#include "policy/document.h"

enum {
    GROUP_INDEX_AT = 8, /* more rules than this with one action pattern are indexed by subject */
    CELL_SPLIT_AT =
        8, /* more rules with resources than this with one subject pattern are indexed by resource */
    NO_RULE = UINT32_MAX,
    VALUE_IS_CELL = 1 << 30, /* marks a cell's number among numbers of rules; more are refused */
    VALUE_IS_OWN = 1 << 30,  /* marks a rule's number among numbers of groups */
};

struct set_document {
    struct policy_document *document;
    uint64_t version;
    bool shadow;
};

/* The parts of a rule that evaluation needs, in one cache line; only the deciding rule's texts are
 * elsewhere. A set of 100,000 rules is in no cache, so a decision waits for each line that it
 * could not prefetch. So the layout has as few loads as possible that depend on other loads. */
struct set_rule {
    _Alignas(64) const struct rule *rule;
    const struct selector *agents,
        *users;              /* rules with equal selectors share one, which stays in the cache */
    const struct gate *gate; /* NULL: none, or a deny */
    const uint32_t *roles;   /* numbers of the selected roles that exist in this tenant */
    const struct rule_told *told;
    uint32_t role_count;
    uint32_t document;
    uint8_t decision; /* enum verdict */
    bool folds, shadow, names_subject, has_resources;
    bool has_when;
    bool small_letters; /* no action pattern has capitals */
    bool has_limit;
};
_Static_assert(sizeof(struct set_rule) == 64, "one cache line");

/* Rules with resources, indexed by these. */
struct resource_split {
    const uint32_t *anywhere; /* those without */
    size_t anywhere_count;
    const struct index *named;
    const uint32_t *unnamed; /* rules that also apply to a request without a whole resource */
    size_t unnamed_count;
};

struct cell {
    const uint32_t *rules;
    size_t count;
    const struct resource_split *resources; /* NULL: look at each rule */
};

/* From a subject to rules: a value of the index is a rule, or a cell's number with its mark. */
struct axis {
    const struct index *index; /* NULL: none */
    const struct cell *cells;
};

struct role_cell { /* sorted by role */
    uint32_t role;
    struct cell cell;
};

struct subject_index {
    struct cell anyone;
    struct axis agents, users;
    const struct role_cell *by_role;
    size_t by_role_count;
};

enum { GROUP_TEXT = 16 };

struct group {
    struct str pattern; /* folded; short ones lie in `text` */
    const uint32_t *rules;
    const struct subject_index *subjects; /* NULL: look at each rule */
    uint32_t count;
    uint32_t first_rule; /* = rules[0] */
    uint32_t kind;       /* enum glob_kind */
    char text[GROUP_TEXT];
};
_Static_assert(sizeof(struct group) == 64, "one cache line");

/* The index from an action to rules. Rules of shadow documents have an index of their own, so that
 * their cost in time and memory does not affect the decision. */
struct rule_index {
    uint64_t serial; /* of all indexes of this process; from 1 on */
    struct group *groups;
    size_t group_count;
    const struct index *actions;
};

struct set_member {
    uint32_t role;
    const struct role_member *patterns;
};

/* Claims of a document that give a role. */
struct set_claims {
    const struct role *role;
    const struct set_claims *next; /* of the same role in other documents */
};

enum mask_root { MASK_ARGS, MASK_CONTEXT, MASK_RESOURCE, MASK_ROOTS };

struct policy_set {
    struct arena arena;
    struct set_document *documents;
    size_t document_count;
    struct set_rule *rules;
    size_t rule_count;
    struct rule_index enforced, shadow; /* of the rules of such documents */
    struct group *own;      /* by rule: of its first pattern that no other rule of its index has */
    struct str *role_names; /* by number */
    size_t role_count;
    struct set_member *members;
    size_t member_count;
    const struct index *member_index;
    struct map role_claims; /* name of a role → struct set_claims; roles without claims have none */
    const struct mask_tree *masks; /* NULL: none */
    size_t mask_count;
    /* a filter of the names directly below the root that are masked or contain masked values */
    uint64_t masked_names[MASK_ROOTS];
    /* by rule: an expression in its safe arguments reads something masked; NULL: none does */
    const bool *hides_args;
    bool has_shadow;
    char digest_hex[SHA256_HEX];
    char closed_rule[POLICY_RULE_TEXT]; /* "": open */
    struct str closed_reason;
};

/* `as_enforced` treats shadow documents as enforced: for a document's tests. */
enum err set_build(const struct policy_set_entry *entries, size_t count, bool as_enforced,
                   struct policy_set **ret);

/* What is true of every finished set, and of every group in it. */
void set_check(const struct policy_set *s);
void group_check(const struct policy_set *s, const struct group *g);

/* Zeroed memory that begins at the start of a cache line; NULL: the arena is full. */
void *arena_lines(struct arena *arena, size_t size);

/* groups.c: fills both indexes and s->own from s->rules. False: out of memory. */
bool set_build_groups(struct policy_set *s);

/* subjects.c: the index of a group with many rules. NULL: out of memory. */
const struct subject_index *subjects_build(struct policy_set *s, const uint32_t *rules,
                                           size_t count);

#endif
