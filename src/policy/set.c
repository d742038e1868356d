/* set.c - joining documents: order, digest, roles, masks. The index over rules is in groups.c. */
#include "policy/set.h"

#include <stdlib.h>

#include "base/check.h"
#include "policy/condition.h"
#include "policy/mask.h"

static const size_t set_bytes_max = (size_t)8
                                    << 30; /* larger than any real set; the arena needs a bound */

static int document_compare(const void *a, const void *b)
{
    const struct set_document *x = a, *y = b;
    return str_compare(x->document->name, y->document->name);
}

static bool take_documents(struct policy_set *s, const struct policy_set_entry *entries,
                           size_t count, bool as_enforced)
{
    s->documents = arena_array(&s->arena, struct set_document, count + 1);
    if (s->documents == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        struct set_document *d = &s->documents[s->document_count++];
        d->document = policy_document_share(entries[i].document);
        d->version = entries[i].version;
        d->shadow = d->document->is_shadow && !as_enforced;
        s->rule_count += d->document->rule_count;
        s->mask_count += d->document->mask_count;
        s->has_shadow |= d->shadow;
    }
    qsort(s->documents, count, sizeof *s->documents, document_compare);
    check(s->document_count == count);
    return true;
}

/* SHA-256 over "<name> <digest in hex>\n" of every document, sorted by name. */
static void make_digest(struct policy_set *s)
{
    struct hasher *h = hasher_create();
    hasher_begin(h);
    for (size_t i = 0; i < s->document_count; i++) {
        char hex[SHA256_HEX];
        sha256_write_hex(s->documents[i].document->digest, hex);
        hasher_add(h, s->documents[i].document->name);
        hasher_add(h, STR(" "));
        hasher_add(h, str_of(hex, sizeof hex));
        hasher_add(h, STR("\n"));
    }
    sha256_write_hex(hasher_end(h), s->digest_hex);
    hasher_destroy(h);
}

/* Numbers every role that an enforced document defines: *numbers holds number + 1. */
static bool number_roles(struct policy_set *s, struct map *numbers)
{
    for (size_t i = 0; i < s->document_count; i++) {
        const struct policy_document *d = s->documents[i].document;
        if (s->documents[i].shadow) continue;
        for (size_t k = 0; k < d->role_count; k++) {
            s->member_count += d->roles[k].count;
            if (map_get(numbers, d->roles[k].name) != NULL) continue;
            if (!map_put(numbers, d->roles[k].name, (void *)(uintptr_t)(s->role_count + 1)))
                return false;
            s->role_count++;
        }
    }
    check(numbers->count == s->role_count);
    return true;
}

static bool role_number(const struct map *numbers, struct str name, uint32_t *ret)
{
    uintptr_t number = (uintptr_t)map_get(numbers, name);
    *ret = (uint32_t)number - 1;
    return number != 0;
}

static bool collect_members(struct policy_set *s, const struct map *numbers)
{
    struct index_entry *entries = calloc(s->member_count + 1, sizeof *entries);
    s->members = arena_array(&s->arena, struct set_member, s->member_count + 1);
    s->role_names = arena_array(&s->arena, struct str, s->role_count + 1);
    bool good = entries != NULL && s->members != NULL && s->role_names != NULL;
    size_t filled = 0;
    for (size_t i = 0; i < s->document_count && good; i++) {
        const struct policy_document *d = s->documents[i].document;
        for (size_t k = 0; k < d->role_count && !s->documents[i].shadow; k++) {
            uint32_t role;
            check(role_number(numbers, d->roles[k].name, &role));
            check(role < s->role_count);
            s->role_names[role] = d->roles[k].name;
            for (size_t m = 0; m < d->roles[k].count; m++, filled++) {
                s->members[filled].role = role;
                s->members[filled].patterns = &d->roles[k].members[m];
                entries[filled].pattern = d->roles[k].members[m].folding.text;
                entries[filled].value = (uint32_t)filled;
            }
        }
    }
    check(!good || filled == s->member_count);
    if (good) s->member_index = index_build(&s->arena, entries, filled);
    free(entries);
    return s->member_index != NULL;
}

static bool collect_claims(struct policy_set *s)
{
    for (size_t i = 0; i < s->document_count; i++) {
        const struct policy_document *d = s->documents[i].document;
        for (size_t k = 0; k < d->role_count && !s->documents[i].shadow; k++) {
            if (d->roles[k].claim_count == 0) continue;
            struct set_claims *c = arena_new(&s->arena, struct set_claims);
            if (c == NULL) return false;
            *c = (struct set_claims){.role = &d->roles[k],
                                     .next = map_get(&s->role_claims, d->roles[k].name)};
            if (!map_put(&s->role_claims, d->roles[k].name, c)) return false;
        }
    }
    return true;
}

/* The roles that a rule selects, as numbers; an undefined role selects no person. */
static bool resolve_roles(struct policy_set *s, const struct map *numbers, struct set_rule *r)
{
    if (r->rule->role_count == 0) return true;
    uint32_t *roles = arena_array(&s->arena, uint32_t, r->rule->role_count);
    if (roles == NULL) return false;
    for (size_t i = 0; i < r->rule->role_count; i++)
        if (role_number(numbers, r->rule->roles[i], &roles[r->role_count])) r->role_count++;
    r->roles = roles;
    check(r->role_count <= r->rule->role_count);
    return true;
}

static void rule_init(struct set_rule *r, const struct rule *rule)
{
    *r = (struct set_rule){.rule = rule,
                           .agents = &rule->agents,
                           .users = &rule->users,
                           .gate = rule->gate,
                           .decision = (uint8_t)rule->decision,
                           .folds = rule->folds,
                           .names_subject = rule->names_subject,
                           .has_resources = rule->resources.count > 0,
                           .has_when = rule->when != NULL,
                           .small_letters = true};
    if (rule->decision == VERDICT_DENY) r->gate = NULL;
    for (size_t i = 0; i < rule->actions.count; i++)
        for (size_t k = 0; k < rule->actions.globs[i].text.size; k++)
            r->small_letters &= glob_fold(rule->actions.globs[i].text.bytes[k]) ==
                                rule->actions.globs[i].text.bytes[k];
    check(r->folds == (r->decision <= VERDICT_HUMAN_REVIEW)); /* what restricts ignores case */
}

/* The set's memory is in huge pages, unlike the memory of small documents. */
static const struct rule_told *told_copy(struct policy_set *s, const struct rule_told *told)
{
    size_t size = sizeof *told + told->id_size + 1 + told->reason_size + 1;
    check(told->bytes[told->id_size] == '\0'); /* both texts end as C strings */
    struct rule_told *copy = arena_take(&s->arena, size);
    return copy == NULL ? NULL : memcpy(copy, told, size);
}

static bool selector_same(const struct selector *a, const struct selector *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!str_equal(a->globs[i].text, b->globs[i].text)) return false;
    return true;
}

/* A short selector with its patterns in one piece of memory. */
static const struct selector *selector_copy(struct policy_set *s, const struct selector *from)
{
    size_t head = sizeof *from + from->count * sizeof *from->globs, size = head;
    for (size_t i = 0; i < from->count; i++) size += from->globs[i].text.size;
    struct selector *copy = arena_take(&s->arena, size);
    if (copy == NULL) return NULL;
    struct glob *globs = (struct glob *)(copy + 1);
    struct buf texts = buf_over((char *)copy + head, size - head);
    *copy = (struct selector){.globs = globs, .count = from->count};
    for (size_t i = 0; i < from->count; i++) {
        globs[i] = from->globs[i];
        globs[i].text.bytes = texts.bytes + texts.size;
        buf_put(&texts, from->globs[i].text);
    }
    check(!texts.overflow && texts.size == size - head);
    return copy;
}

/* Equal selectors become one. Only the last selector with the same first pattern is compared,
 * which is enough for the usual run of rules for one agent. */
static bool intern(struct policy_set *s, struct map selectors[2], bool folds,
                   const struct selector **selector)
{
    const struct selector *mine = *selector;
    if (mine->count == 0) return true;
    const struct selector *other = map_get(&selectors[folds], mine->globs[0].text);
    if (other != NULL && selector_same(mine, other)) {
        *selector = other;
        return true;
    }
    if (mine->index == NULL) *selector = selector_copy(s, mine);
    return *selector != NULL &&
           map_put(&selectors[folds], (*selector)->globs[0].text, (void *)(uintptr_t)*selector);
}

static bool collect_rules(struct policy_set *s, const struct map *numbers, struct map selectors[2])
{
    s->rules = arena_lines(&s->arena, (s->rule_count + 1) * sizeof(struct set_rule));
    if (s->rules == NULL) return false;
    size_t rule = 0;
    for (size_t i = 0; i < s->document_count; i++) {
        const struct policy_document *d = s->documents[i].document;
        for (size_t k = 0; k < d->rule_count; k++) {
            struct set_rule *r = &s->rules[rule++];
            rule_init(r, &d->rules[k]);
            r->document = (uint32_t)i;
            r->shadow = s->documents[i].shadow;
            r->has_limit = d->rules[k].limit != NULL;
            r->told = told_copy(s, d->rules[k].told);
            if (r->told == NULL || !resolve_roles(s, numbers, r)) return false;
            if (!intern(s, selectors, r->folds, &r->agents) ||
                !intern(s, selectors, r->folds, &r->users))
                return false;
        }
    }
    check(rule == s->rule_count);
    return true;
}

/* Runs when all masks are known. Most tenants have no such rule, and no list. */
static bool note_hidden_args(struct policy_set *s)
{
    bool *hides = NULL;
    for (size_t i = 0; s->mask_count > 0 && i < s->rule_count; i++) {
        if (!templates_read_hidden(s, s->rules[i].rule)) continue;
        if (hides == NULL) hides = arena_array(&s->arena, bool, s->rule_count);
        if (hides == NULL) return false;
        hides[i] = true;
    }
    s->hides_args = hides;
    return true;
}

static struct policy_set *set_new(void)
{
    struct policy_set *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    arena_init(&s->arena, 4096, set_bytes_max);
    arena_prefer_huge(&s->arena);
    return s;
}

enum err set_build(const struct policy_set_entry *entries, size_t count, bool as_enforced,
                   struct policy_set **ret)
{
    struct policy_set *s = set_new();
    struct map numbers = {0}, selectors[2] = {{0}};
    if (s == NULL) return ERR_FULL;
    bool built = take_documents(s, entries, count, as_enforced) && s->rule_count < VALUE_IS_CELL &&
                 number_roles(s, &numbers) && collect_members(s, &numbers) && collect_claims(s) &&
                 collect_rules(s, &numbers, selectors) && masks_build(s) && note_hidden_args(s) &&
                 set_build_groups(s);
    map_fini(&numbers);
    map_fini(&selectors[0]);
    map_fini(&selectors[1]);
    if (!built) {
        policy_set_destroy(s);
        return ERR_FULL;
    }
    make_digest(s);
    set_check(s);
    *ret = s;
    return ERR_OK;
}

enum err policy_set_create(const struct policy_set_entry *entries, size_t count,
                           struct policy_set **ret, struct fault *f)
{
    enum err err = set_build(entries, count, false, ret);
    return err == ERR_OK ? ERR_OK : fault_plain(f, err);
}

enum err policy_set_closed(const char *rule, const char *reason, struct policy_set **ret)
{
    struct policy_set *s = NULL;
    check(strlen(rule) > 0 && strlen(rule) < sizeof s->closed_rule);
    enum err err = set_build(NULL, 0, false, &s);
    if (err != ERR_OK) return err;
    memcpy(s->closed_rule, rule, strlen(rule) + 1);
    s->closed_reason = arena_copy(&s->arena, str_from(reason));
    sha256_write_hex(sha256_once(str_from(rule)), s->digest_hex); /* differs from the empty set's */
    set_check(s);
    *ret = s;
    return ERR_OK;
}

bool policy_set_is_closed(const struct policy_set *s) { return s->closed_rule[0] != '\0'; }

void policy_set_destroy(struct policy_set *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->document_count; i++)
        policy_document_release(s->documents[i].document);
    map_fini(&s->role_claims);
    arena_fini(&s->arena);
    free(s);
}

struct str policy_set_digest_hex(const struct policy_set *s)
{
    return str_of(s->digest_hex, SHA256_HEX);
}
size_t policy_set_rules(const struct policy_set *s) { return s->rule_count; }
bool policy_masks(const struct policy_set *s) { return s->mask_count > 0; }
