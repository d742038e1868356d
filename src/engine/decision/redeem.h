/* redeem.h - a redemption: an authorization that uses an approval. */
#ifndef ENGINE_REDEEM_H
#define ENGINE_REDEEM_H

#include "engine/decision/authorization.h"

struct redemption {
    struct authorization a; /* first */
    struct str name;        /* of the review, from the path; not used by redeem_enter() */
    struct str retry_header;
    struct id review;
    char redemption_text[ID_TEXT], review_text[ID_TEXT];
};

/* A step's result: goes on with the redemption of r->review, with the request r->a.body of the form
 * r->a.form. The caller and its tenant are settled. */
enum step_result redeem_enter(struct redemption *r);

#endif
