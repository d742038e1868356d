/* refusal.h - inside of the room: the passes of refusal.c. */
#ifndef POLICY_REFUSAL_H
#define POLICY_REFUSAL_H

#include "policy/document.h"

typedef void refusal_pass(const struct policy_document *d, struct policy_problems *ret);

refusal_pass refuse_vain_masks; /* masks that cover nothing in any request */

#endif
