/* read_role.c - roles: the people who have one, and the verified claims that give it.
 *
 *   finance: [carol]                                                  people alone
 *   finance: {people: [carol], claims: {groups: [finance, "fin-leads"]}} */
#include "base/check.h"
#include "policy/reader.h"

static void read_people(struct reader *r, const struct value *v, struct role *role)
{
    struct selector members = {0};
    if (!read_globs(r, v, false, &members)) return;
    role->members = reader_take(r, members.count * sizeof *role->members);
    for (size_t i = 0; role->members != NULL && i < members.count; i++) {
        check(role->count < members.count);
        struct role_member *m = &role->members[role->count++];
        m->exact = members.globs[i];
        if (!glob_compile(&r->document->arena, m->exact.written, true, &m->folding)) r->full = true;
    }
}

/* A claim's name or value: a token cannot have another one. */
static bool is_claim_text(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.bytes[i] < ' ' || text.bytes[i] == 0x7f) return false;
    return text.size > 0 && text.size <= LIMIT_CLAIM_BYTES;
}

static void read_values(struct reader *r, const struct value *v, struct role_claim *claim)
{
    if (!want_list(r, v, ROLE_CLAIM_VALUES_MAX)) return;
    if (v->node->json.count == 0)
        reader_complain(r, v, "is empty, so no claim would match; name a value");
    claim->values = reader_take(r, v->node->json.count * sizeof *claim->values);
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL && claim->values != NULL;
         n = node_next(n), index++) {
        struct value item = value_element(v, n, index);
        struct str text;
        if (!want_text(r, &item, LIMIT_CLAIM_BYTES, &text)) continue;
        if (!is_claim_text(text)) {
            reader_complain(r, &item,
                            "has a control character, or more than %d bytes: no claim is like that",
                            LIMIT_CLAIM_BYTES);
            continue;
        }
        claim->values[claim->value_count++] = text;
        if (memchr(text.bytes, '*', text.size) != NULL)
            reader_doubt(r, &item, "claims are compared exactly: a * is no pattern here");
    }
}

static void read_claims(struct reader *r, const struct value *v, struct role *role)
{
    if (!want_map(r, v)) return;
    size_t count = v->node->json.count;
    if (count == 0 || count > ROLE_CLAIMS_MAX) {
        reader_complain(
            r, v, "has %zu names of claims; it has to have 1 to %d, as in {groups: [finance]}",
            count, ROLE_CLAIMS_MAX);
        return;
    }
    role->claims = reader_take(r, count * sizeof *role->claims);
    for (const struct node *n = node_first(v->node); n != NULL && role->claims != NULL;
         n = node_next(n)) {
        struct value one = {.node = n, .place = {.parent = &v->place, .key = n->json.key}};
        struct role_claim *claim = &role->claims[role->claim_count++];
        if (!is_claim_text(n->json.key))
            reader_complain_at_key(r, &one,
                                   "a claim's name has 1 to %d bytes, and no control characters",
                                   LIMIT_CLAIM_BYTES);
        claim->name = reader_copy(r, n->json.key);
        read_values(r, &one, claim);
    }
}

static void read_role(struct reader *r, const struct value *v, struct role *role)
{
    static const char *const keys[] = {"people", "claims"};
    if (!reader_is_role(v->node->json.key))
        reader_complain_at_key(r, v,
                               "a role's name is 1 to 64 letters, digits, '.', '_', '-', ':', '/', "
                               "'@', and blanks inside");
    role->name = reader_copy(r, v->node->json.key);
    if (v->node->bad) return;
    if (v->node->json.type != JSON_OBJECT) {
        read_people(r, v, role);
        return;
    }
    reader_check_keys(r, v, keys, COUNT_OF(keys));
    struct value people = value_member(v, "people"), claims = value_member(v, "claims");
    if (people.node != NULL) read_people(r, &people, role);
    if (claims.node != NULL) read_claims(r, &claims, role);
    if (people.node == NULL && claims.node == NULL)
        reader_complain(r, v, "gives the role to no one: name people, claims or both");
}

void read_roles(struct reader *r, const struct value *v)
{
    if (!want_map(r, v)) return;
    if (v->node->json.count > ROLES_MAX) {
        reader_complain(r, v, "has %u roles; %d are the most", v->node->json.count, ROLES_MAX);
        return;
    }
    r->document->roles = reader_take(r, v->node->json.count * sizeof(struct role));
    for (const struct node *n = node_first(v->node); n != NULL && r->document->roles != NULL;
         n = node_next(n)) {
        check(r->document->role_count < v->node->json.count);
        struct value role = {.node = n, .place = {.parent = &v->place, .key = n->json.key}};
        read_role(r, &role, &r->document->roles[r->document->role_count++]);
    }
}
