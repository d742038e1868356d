/* review_people.h - whether who resolves a review may be the one who asked, or who has voted.
 *
 * The owner's step decides by these, and a list of what a key may resolve shows by them. Names that
 * may be one person's are one person's (spelling_same_person()). Pure; any thread. */
#ifndef SHARDS_REVIEW_PEOPLE_H
#define SHARDS_REVIEW_PEOPLE_H

#include "shards/review.h"

struct review_resolver {
    struct str principal, owner; /* of the key */
    struct str by;               /* the person, whom the key names */
};

/* Separation of duties: the requester, and the person it acts for, may not resolve it.
 * ERR_SELF_REVIEW, ERR_OVERLOADED (no memory to find out). */
enum err review_asked_by(const struct review_facts *f, const struct review_resolver *who);

/* Whether an approval would be this person's second. Two approvals need two people: a person who
 * approved through another key, for example a review page's, does not count again with their own
 * key. ERR_ALREADY_VOTED, ERR_OVERLOADED (no memory to find out). */
enum err review_approved_by(const struct review_facts *f, const struct review_resolver *who);

#endif
