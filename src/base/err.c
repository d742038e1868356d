#include "base/err.h"

#include <errno.h>

#include "base/check.h"

static const struct {
    int status;
    const char *code, *sentence;
} table[] = {
#define ERR(name, status, code, sentence) {status, code, sentence},
#include "base/err.def"
#undef ERR
};

int err_status(enum err err)
{
    check(err < ERR_COUNT);
    return table[err].status;
}

const char *err_code(enum err err)
{
    check(err < ERR_COUNT);
    return table[err].code;
}

const char *err_sentence(enum err err)
{
    check(err < ERR_COUNT);
    return table[err].sentence;
}

enum err err_from_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT: return ERR_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS: return ERR_NOT_PERMITTED;
    case EMFILE:
    case ENFILE: return ERR_NO_DESCRIPTORS;
    case EFBIG: return ERR_FILE_TOO_LARGE;
    case ENOENT: return ERR_NOT_FOUND;
    case EEXIST: return ERR_EXISTS;
    default: return ERR_IO;
    }
}
