#include "shards/limit_window.h"

#include <stdlib.h>
#include <string.h>

struct limit_windows limit_windows_copy(const struct limit_windows *w)
{
    struct limit_windows copy = *w;
    struct limit_windows_entry *list = calloc(w->count + 1, sizeof *list);
    if (list == NULL) return limit_windows_unknown;
    if (w->count > 0) memcpy(list, w->list, w->count * sizeof *list);
    copy.list = list;
    return copy;
}

void limit_windows_free(struct limit_windows *copy)
{
    free((void *)(uintptr_t)copy->list);
    *copy = limit_windows_unknown;
}
