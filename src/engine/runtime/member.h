/* member.h - reads one member of a request's body, writes one of an answer. */
#ifndef ENGINE_MEMBER_H
#define ENGINE_MEMBER_H

#include "base/id.h"
#include "json/json.h"

enum { MEMBER_TOO_LONG_TEXT = 52 };

/* "is longer than 64 characters", with a NUL. */
void member_too_long(size_t most, char to[MEMBER_TOO_LONG_TEXT]);
/* "name: what", at /name. */
enum err member_refuse(struct fault *f, enum err err, const char *name, const char *what);
/* ERR_WRONG_CASE if the body has one of the route's members in camelCase; `body` may be NULL. */
struct member_spelling {
    const char *wrong, *right;
};
enum err member_spelling(const struct json *body, const struct member_spelling *members,
                         size_t count, struct fault *f);
/* A string of at most `most` characters; absent if `body` is NULL or the member is missing, null or
 * "". ERR_WRONG_TYPE, ERR_BAD_VALUE (it holds U+0000), ERR_OUT_OF_RANGE. A view into the body's
 * tree. */
enum err member_text(const struct json *body, const char *name, size_t most, struct str *ret,
                     struct fault *f);

/* These append `before` (the text before the value, its name included) and the value; nothing if
 * the text is empty or the time is 0. */
void member_put_text(struct buf *b, struct str before, struct str text);
void member_put_time(struct buf *b, struct str before, uint64_t ms);
void member_put_id(struct buf *b, struct str before, const char prefix[4], struct id id);

#endif
