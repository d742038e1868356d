/* answer.h - a decision in the form of its client: snake_case for /v1, camelCase for /api/v1. */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include "engine/decision/decide.h"

/* The event contains everything except `explain`: the JSON array of the rules that were considered,
 * or absent. If the answer does not fit, the buf shows the overflow. */
void answer_put(struct buf *out, const struct decision *d, enum auth_request_form form,
                struct str explain);

#endif
