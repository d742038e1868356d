#include "evidence/checkpoint.h"

#include "base/check.h"
#include "crypto/base64.h"

enum { ROOT_DIGITS = (SHA256_BYTES + 2) / 3 * 4 };

/* Takes a line off the front, without its newline. False: there is none, or it is empty. */
static bool take_line(struct str *rest, struct str *ret)
{
    size_t end = str_find(*rest, '\n');
    if (end == 0 || end == rest->size) return false;
    *ret = str_of(rest->bytes, end);
    *rest = str_skip(*rest, end + 1);
    return true;
}

bool checkpoint_next_extension(struct str *extensions, struct str *ret_line)
{
    return take_line(extensions, ret_line);
}

static bool are_lines(struct str text)
{
    struct str line;
    while (text.size > 0)
        if (!take_line(&text, &line)) return false;
    return true;
}

static bool read_size(struct str digits, uint64_t *ret)
{
    return (digits.size == 1 || digits.bytes[0] != '0') && str_to_u64(digits, ret);
}

enum err checkpoint_read(struct str text, struct checkpoint *ret, struct fault *f)
{
    struct str rest = text, line;
    size_t size;
    *ret = (struct checkpoint){0};
    if (!take_line(&rest, &ret->origin))
        return fault_set(f, ERR_BAD_VALUE, "", "line 1 of a checkpoint is its origin");
    if (!take_line(&rest, &line) || !read_size(line, &ret->size))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "line 2 of a checkpoint is the size, in decimal digits");
    if (!take_line(&rest, &line) || line.size != ROOT_DIGITS)
        return fault_set(f, ERR_BAD_VALUE, "", "line 3 of a checkpoint is the root, %d digits",
                         ROOT_DIGITS);
    uint8_t root[ROOT_DIGITS / 4 * 3];
    if (!base64_read(line, root, &size) || size != SHA256_BYTES)
        return fault_set(f, ERR_BAD_VALUE, "", "line 3 of the checkpoint is not base64 of a root");
    memcpy(ret->root.bytes, root, SHA256_BYTES);
    if (!are_lines(rest))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "an extension line of the checkpoint is empty, or does not end");
    ret->extensions = rest;
    return ERR_OK;
}

void checkpoint_put(struct buf *out, const struct checkpoint *c)
{
    check(c->origin.size > 0 && str_find(c->origin, '\n') == c->origin.size);
    check(are_lines(c->extensions));
    buf_put(out, c->origin);
    buf_put_byte(out, '\n');
    buf_put_u64(out, c->size);
    buf_put_byte(out, '\n');
    base64_put(out, str_of((const char *)c->root.bytes, SHA256_BYTES), 0);
    buf_put_byte(out, '\n');
    buf_put(out, c->extensions);
}
