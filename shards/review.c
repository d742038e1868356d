#include "shards/review.h"

static const struct str names[REVIEW_STATES] = {
    [REVIEW_DENIED] = {"denied", 6},       [REVIEW_EXPIRED] = {"expired", 7},
    [REVIEW_CANCELLED] = {"cancelled", 9}, [REVIEW_REDEEMED] = {"redeemed", 8},
    [REVIEW_PENDING] = {"pending", 7},     [REVIEW_APPROVED] = {"approved", 8},
};

const char *review_state_name(enum review_state s) { return names[s].bytes; }

bool review_state_read(struct str name, enum review_state *ret)
{
    for (unsigned i = 0; i < REVIEW_STATES; i++) {
        if (!str_equal(name, names[i])) continue;
        *ret = (enum review_state)i;
        return true;
    }
    return false;
}
