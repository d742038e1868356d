/* err.h - all errors, from one table (err.def).
 *
 * Failures of input, system or peers are values of `enum err`; ERR_OK is 0. A bug fails a check().
 * A denial is a verdict, never an error.
 *
 * The type itself is nodiscard: the caller of any function that returns it has to check it, or
 * to write `(void)` and why. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum [[nodiscard]] err{
#define ERR(name, status, code, sentence) ERR_##name,
#include "base/err.def"
#undef ERR
    ERR_COUNT};

int err_status(enum err err);           /* the HTTP status of the answer */
const char *err_code(enum err err);     /* stable snake_case, for programs */
const char *err_sentence(enum err err); /* for people, if there is no more specific text */

/* The err for an errno value of a file or socket call (ENOSPC, EDQUOT → ERR_NO_SPACE,
 * EACCES, EPERM, EROFS → ERR_NOT_PERMITTED, EMFILE, ENFILE → ERR_NO_DESCRIPTORS, EFBIG →
 * ERR_FILE_TOO_LARGE, ENOENT → ERR_NOT_FOUND, EEXIST → ERR_EXISTS, else ERR_IO). */
enum err err_from_errno(int number);

#endif
