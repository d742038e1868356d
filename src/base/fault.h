/* fault.h - what is wrong with a request, a document or an option, told to a person.
 *
 * A fault is one `enum err`, the member at fault as a JSON pointer ("" where no one member is)
 * and a sentence that names the member and what is wrong with it. By value, no allocation. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/err.h"
#include "base/str.h"

struct fault {
    enum err err;
    char field[128];
    char text[320];
};

/* Fills *f and returns `err`, so that a check reads `return fault_set(f, ERR_X, "/y", "y: …")`.
 * Overlong text loses its middle, between characters. `f` may be NULL. */
enum err fault_set(struct fault *f, enum err err, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The table's own sentence. */
enum err fault_plain(struct fault *f, enum err err);

#endif
