/* reader.h - typed access to a document's nodes; an unexpected value becomes a problem.
 *
 * Every function returns false after it has added a problem (or if the node already has one), and
 * then does not change its result. Callers continue with the next member, so that an author gets
 * all problems at once. A `value` is a node with its place. */
#ifndef POLICY_READER_H
#define POLICY_READER_H

#include "cel/cel.h"
#include "policy/document.h"

struct reader {
    struct policy_document *document; /* its arena holds the values */
    struct policy_problems *problems;
    size_t globs;         /* compiled so far */
    struct cel_room room; /* of its conditions */
    bool full;            /* memory ran out */
};

struct value {
    const struct node *node; /* NULL: not there */
    struct place place;
};

/* The member `key` of a map; its node is NULL if there is none. The result points at `map`. */
struct value value_member(const struct value *map, const char *key);
struct value value_element(const struct value *list, const struct node *node, size_t index);

void reader_complain(struct reader *r, const struct value *v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a problem at the member's key instead of its value. */
void reader_complain_at_key(struct reader *r, const struct value *v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Keeps a warning in the document for policy_lint(). */
void reader_doubt(struct reader *r, const struct value *v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

bool want_map(struct reader *r, const struct value *v);
bool want_list(struct reader *r, const struct value *v, size_t count_max);
/* Not empty, no U+0000, at most that many characters. The result is a copy in the document. */
bool want_text(struct reader *r, const struct value *v, size_t characters_max, struct str *ret);
bool want_name(struct reader *r, const struct value *v, size_t size_max, struct str *ret);
/* The name of a role: 1 to 64 letters, digits and . _ - : / @, and blanks between them. */
bool reader_is_role(struct str name);
bool want_role(struct reader *r, const struct value *v, struct str *ret);
bool want_number(struct reader *r, const struct value *v, double least, double most, double *ret);
bool want_count(struct reader *r, const struct value *v, unsigned least, unsigned most,
                unsigned *ret);
/* "90s", "30m", "1h", "2d" */
bool want_duration(struct reader *r, const struct value *v, uint64_t most_ms, const char *most,
                   uint64_t *ret_ms);
/* One of `words`; ret is its number. */
bool want_word(struct reader *r, const struct value *v, const char *const *words, size_t count,
               size_t *ret);

bool is_among(struct str word, const char *const *words, size_t count);

/* Adds a problem for each member that is not among `keys`, with a suggestion. */
void reader_check_keys(struct reader *r, const struct value *map, const char *const *keys,
                       size_t count);
/* False, with a problem, if the member is missing. */
bool reader_require(struct reader *r, const struct value *map, const struct value *v);

void *reader_take(struct reader *r, size_t size); /* NULL and r->full */
struct str reader_copy(struct reader *r, struct str s);

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- the parts of a document (read_*.c) ---- */

void read_roles(struct reader *r, const struct value *v);
void read_rules(struct reader *r, const struct value *v);
void read_tests(struct reader *r, const struct value *v);
const struct gate *read_gate(struct reader *r, const struct value *v);         /* NULL: bad */
const struct limit_terms *read_limit(struct reader *r, const struct value *v); /* NULL: bad */
/* A copy of a value in the document. `templates`: strings with `${…}` are added to the front of
 * this list, and `$${` becomes `${`; NULL: strings are copied unchanged. */
struct json *read_json(struct reader *r, const struct value *v, const struct template **templates);
bool read_globs(struct reader *r, const struct value *v, bool folds, struct selector *ret);
/* The same for resources: a folding pattern with an unusual spelling is added in plain spelling,
 * too. */
bool read_resource_globs(struct reader *r, const struct value *v, bool folds, struct selector *ret);

extern const char *const verdict_words[4]; /* from loose to strict, as authors list them */

#endif
