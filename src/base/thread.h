/* thread.h - how a thread shares its core with others. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <stdbool.h>

/* From here on the calling thread does not interrupt one that runs, and where others want all of the
 * core it gets the part that `nice` (1 to 19) leaves it: about a quarter at 5, a tenth at 10. For
 * work that nobody waits for. False, with errno: the system refused some of it. */
bool thread_step_back(int nice);

#endif
