/* repeat.h - the present state of the review that a repeated answer names. */
#ifndef ENGINE_REPEAT_H
#define ENGINE_REPEAT_H

#include "engine/authorization.h"

/* For a retry whose first outcome (a->first) is repeated: if that is a human_review that people have
 * approved since, and their votes cover all that is asked now, the repeated answer has that.
 * Continues with `then`. */
void repeat_look(struct authorization *a, void (*then)(struct authorization *a));

#endif
