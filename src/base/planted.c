#include "base/planted.h"

#ifdef WRIT_PLANTED_BUGS

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *planted_name;
static pthread_once_t planted_once = PTHREAD_ONCE_INIT;

static void planted_read(void) { planted_name = getenv("WRIT_BUG"); }

bool planted(const char *name)
{
    pthread_once(&planted_once, planted_read);
    return planted_name != NULL && strcmp(planted_name, name) == 0;
}

#else

typedef int planted_nothing; /* ISO C requires a declaration in a file */

#endif
