/* fault.h - an error in a request, a document or an option, as a text for people.
 *
 * A fault is one `enum err`, the wrong member as a JSON pointer ("" if it is not one member) and
 * a sentence that names the member and the error. By value, no allocation. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/err.h"
#include "base/quota.h"
#include "base/str.h"

struct fault {
    enum err err;
    char field[128];
    char text[320];
    struct quota quota; /* with the status 429 */
};

/* Fills *f and returns `err`, so that a check reads `return fault_set(f, ERR_X, "/y", "y: …")`.
 * The middle of an overlong text is dropped, between characters. `f` may be NULL. */
enum err fault_set(struct fault *f, enum err err, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ERR_QUOTA_KEY or ERR_QUOTA_TENANT, with this quota. */
enum err fault_quota(struct fault *f, enum err err, const struct quota *quota);

/* The sentence of the table err.def. */
enum err fault_plain(struct fault *f, enum err err);

#endif
