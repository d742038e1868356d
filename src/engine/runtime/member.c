#include "engine/runtime/member.h"

#include "base/check.h"
#include "base/time.h"

void member_too_long(size_t most, char to[MEMBER_TOO_LONG_TEXT])
{
    struct buf b = buf_over(to, MEMBER_TOO_LONG_TEXT - 1);
    buf_put_literal(&b, "is longer than ");
    buf_put_u64(&b, most);
    buf_put_literal(&b, " characters");
    check(!b.overflow);
    to[b.size] = '\0';
}

enum err member_refuse(struct fault *f, enum err err, const char *name, const char *what)
{
    char field[64];
    struct buf b = buf_over(field, sizeof field - 1);
    buf_put_byte(&b, '/');
    buf_put(&b, str_from(name));
    check(!b.overflow && err != ERR_OK);
    field[b.size] = '\0';
    return fault_set(f, err, field, "%s: %s", name, what);
}

enum err member_spelling(const struct json *body, const struct member_spelling *members,
                         size_t count, struct fault *f)
{
    for (size_t i = 0; body != NULL && i < count; i++) {
        if (json_get(body, str_from(members[i].wrong)) == NULL) continue;
        char what[64];
        struct buf b = buf_over(what, sizeof what - 1);
        buf_put_literal(&b, "this route spells it ");
        buf_put(&b, str_from(members[i].right));
        check(!b.overflow);
        what[b.size] = '\0';
        return member_refuse(f, ERR_WRONG_CASE, members[i].wrong, what);
    }
    return ERR_OK;
}

enum err member_text(const struct json *body, const char *name, size_t most, struct str *ret,
                     struct fault *f)
{
    const struct json *v = body == NULL ? NULL : json_get(body, str_from(name));
    *ret = (struct str){0};
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    if (v->type != JSON_STRING) return member_refuse(f, ERR_WRONG_TYPE, name, "must be a string");
    if (v->has_nul) return member_refuse(f, ERR_BAD_VALUE, name, "must not hold U+0000");
    if (v->string.size > most && str_code_points(v->string) > most) {
        char what[MEMBER_TOO_LONG_TEXT];
        member_too_long(most, what);
        return member_refuse(f, ERR_OUT_OF_RANGE, name, what);
    }
    if (v->string.size > 0) *ret = v->string;
    return ERR_OK;
}

void member_put_text(struct buf *b, struct str before, struct str text)
{
    if (text.size == 0) return;
    buf_put(b, before);
    json_put_string(b, text);
}

void member_put_time(struct buf *b, struct str before, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) return;
    time_write(ms, text);
    buf_put(b, before);
    json_put_plain(b, str_of(text, TIME_TEXT));
}

void member_put_id(struct buf *b, struct str before, const char prefix[4], struct id id)
{
    char text[ID_TEXT];
    id_write(prefix, id, text);
    buf_put(b, before);
    json_put_plain(b, str_of(text, ID_TEXT));
}
