#include "shards/review_people.h"

#include "spelling/spelling.h"

/* ERR_OVERLOADED, or `same` if any two of them may be one person's; absent names match none. */
static enum err any_same(const struct str *these, size_t count, const struct str *those,
                         size_t other_count, enum err same)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < other_count; k++) {
            bool is_same = false;
            if (these[i].size == 0) continue;
            enum err err = spelling_same_person(these[i], those[k], &is_same);
            if (err != ERR_OK || is_same) return err == ERR_OK ? same : err;
        }
    return ERR_OK;
}

enum err review_asked_by(const struct review_facts *f, const struct review_resolver *who)
{
    const struct str requesters[] = {f->principal, f->owner, f->subject, f->acting_for};
    const struct str resolvers[] = {who->principal, who->owner, who->by};
    return any_same(requesters, 4, resolvers, 3, ERR_SELF_REVIEW);
}

enum err review_approved_by(const struct review_facts *f, const struct review_resolver *who)
{
    const struct str resolvers[] = {who->owner, who->by};
    for (size_t i = 0; i < f->approval_count; i++) {
        const struct str voters[] = {f->approvals[i].owner, f->approvals[i].by};
        enum err err = any_same(voters, 2, resolvers, 2, ERR_ALREADY_VOTED);
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}
