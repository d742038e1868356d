/* inside.h - what the files of this room share. */
#ifndef SPELLING_INSIDE_H
#define SPELLING_INSIDE_H

#include "spelling/spelling.h"

/* As spelling_fold(), which ignores the case. */
struct str spelling_tidy(struct str name, bool ignore_case, struct arena *arena);

#endif
